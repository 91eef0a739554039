//! RDMA where there is none: a reliable-connection RoCEv2 endpoint in user space, on UDP.
//!
//! It needs no RDMA device, no kernel module and no privilege, and speaks on the wire to RoCE NICs,
//! to the kernel's soft-RoCE and to itself. [`Manager`] is the connection half of the provider,
//! [`SoftDevice`] the data half, one for each core.
//!
//! Inside, everything is a function of packets and time:
//!
//! - `wire`: headers, integrity check, connection management messages;
//! - `requester`, `responder`, `pace`, `memory`, `recv`: a queue pair's parts;
//! - `engine`: the queue pairs of one core;
//! - `cm`: connections;
//!
//! and sockets are at the edge: `socket`, `sites`, `intake`, `exchange`, `device`, `manager`.
//!
//! Sources: InfiniBand Architecture Specification vol. 1 release 1.2.1 and annexes A11 (RDMA IP CM)
//! and A17 (RoCEv2).

mod batch;
mod check;
mod cm;
mod completions;
mod config;
mod device;
mod endpoint;
mod engine;
mod exchange;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod intake;
mod manager;
mod memory;
mod pace;
mod path;
mod psn;
mod recv;
mod requester;
mod responder;
mod sites;
mod socket;
mod wire;

pub use config::Config;
pub use device::SoftDevice;
pub use endpoint::Endpoint;
pub use engine::Counters;
pub use manager::{Absence, Manager, may_listen};
