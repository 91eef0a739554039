//! The NVMe over Fabrics controller as a function of events: sans-I/O
