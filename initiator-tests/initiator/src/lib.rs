//! An NVMe over Fabrics host in user space, over the RDMA seam.
//!
//! It shares the wire types and the seam with the target and nothing else: what it expects of a
//! target is written here a second time, so that a mistake there is found and not mirrored.
//!
//! - [`HostQueue`] is one queue pair as a function of events: it gives out command identifiers,
//!   follows the submission queue head, and finds responses that no correct target sends
//!   ([`Violation`]).
//! - [`Controller`](controller::Controller) is the way from nothing to a controller in use:
//!   Connect, properties, Identify, features, I/O queues, namespaces, keep alive.
//! - [`Host`] drives both over any [`Connector`](rdma::Connector) and
//!   [`HostDevice`](rdma::HostDevice): connections, receives, capsules, opened memory.
//! - [`Bare`] are queue pairs that send whatever they are told to, for tests of a target.
//!
//! Nothing here reads a clock, sleeps or spawns: [`Host::turn`] is called with the time.

mod arena;
mod bare;
pub mod commands;
pub mod controller;
mod host;
mod identify;
mod link;
mod queue;
mod request;

pub use arena::Arena;
pub use bare::{Bare, BareEvent, BareQueue};
pub use controller::Goodbye;
pub use host::{Host, HostConfig, HostEvent, HostState, HostStats, RESET, SHUT_DOWN};
pub use identify::{ControllerInfo, NamespaceInfo};
pub use queue::{Finished, HostQueue, Pace, QueueShape, Violation};
pub use request::{Lost, Payload, Request, SubmitError};
