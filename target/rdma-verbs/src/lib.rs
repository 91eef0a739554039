//! RDMA provider over libibverbs and librdmacm: InfiniBand, RoCE and iWARP cards, and the kernel's
//! soft ones.
//!
//! - [`Verbs`] is the connection manager, for the control thread. It listens, makes queue pairs on
//!   whichever card an address belongs to, and watches cards come and go.
//! - [`VerbsDevice`] is a core's half. It polls the completion queues of all cards on which the
//!   core has connections.
//! - [`Endpoint`] travels between them and brings everything that the core needs to know of a card.
//!
//! Per card there is one protection domain; per core and card one registration of the core's whole
//! region, one shared receive queue (where wanted) and one or more completion queues, none of which
//! can overrun: a queue pair is refused instead.
//!
//! Never here: NVMe, allocation or blocking on the data path, a clock.
#![allow(unsafe_code)] // one of the three crates that may: calls into the C libraries

mod active;
mod completion;
mod config;
mod context;
mod device;
mod endpoint;
mod event;
mod expose;
mod id;
mod listener;
mod manager;
mod recv_table;
mod send_ring;
mod sys;
mod tag;

pub use config::{OpenError, VerbsConfig};
pub use device::{DRAIN_GRACE, VerbsDevice};
pub use endpoint::Endpoint;
pub use manager::{Verbs, device_at, devices};
