//! One thread per core: poll, turn, flush, sleep.
//!
//! - [`core::Core`] is one thread's engine: RDMA work, storage work and queues, without a thread, a
//!   clock or a file descriptor of its own.
//! - [`control`] is the other side: connections, the target, and the core of the admin queues.
//! - [`run`] makes threads of them.
//! - [`mail`] is what the control thread and the cores tell each other.
//! - [`status`] is where storage errors become NVMe status.

pub mod control;
pub mod core;
pub mod mail;
mod pool;
pub mod run;
pub mod status;
