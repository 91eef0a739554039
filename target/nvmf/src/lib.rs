//! The NVMe over Fabrics controller as a function of events: no I/O, no clock, no thread.
//!
//! Two halves, each a state machine that is fed events and answers with actions:
//!
//! - [`queue::Queue`]: one submission and completion queue pair, as carried by one RDMA connection.
//!   It lives on the core that polls the connection. It parses capsules, checks them, walks each
//!   command through its states (buffer, data in, I/O, data out, response) and owes exactly one
//!   completion per command. It carries out I/O commands itself, with the namespaces of a
//!   [`view::SubsystemView`]; everything else it hands on with [`queue::Action::Execute`].
//! - [`target::Target`]: subsystems, namespaces, hosts, controllers, discovery. It lives on the
//!   control thread, carries out Fabrics and admin commands, keeps the keep-alive timers and
//!   publishes views.
//!
//! Between them stand the plain values of [`types`], the immutable snapshots of [`view`] and the
//! shared [`limit`]s. This crate knows neither RDMA nor storage: it speaks of remote segments, of a
//! slot's buffer and of numbered backings, and the reactor turns those into work requests and
//! submissions.

pub mod limit;
mod nsid;
pub mod queue;
pub mod target;
pub mod types;
pub mod view;

pub use types::{BackingRef, ExecStatus, HostId, Outcome, QueueKey, Slot, SubsystemRef};
