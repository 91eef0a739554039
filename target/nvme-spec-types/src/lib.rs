//! NVMe and NVMe over Fabrics wire types: no I/O, no policy, no_std
