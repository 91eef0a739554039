//! Storage behind a namespace, over io_uring.
//!
//! A [`Backing`] is one opened file, block device, NVMe namespace, RAM or null disk: made on the control thread,
//! shared by all cores as `Arc<Backing>`, closed when the last core has let go of it. A
//! [`Ring`] is one core's way to all of them: it implements [`BlockIo`], the seam that the
//! simulator replaces. [`Faulty`] wraps any [`BlockIo`] with delays and errors, for drills
//! and tests.
#![allow(unsafe_code)] // one of the three crates that may: io_uring submissions name raw memory

mod backing;
pub mod block_io;
mod error;
pub mod faulty;
mod inspect;
mod nvme;
mod open;
mod probe;
mod ram;
mod ring;
mod spec;

pub use backing::Backing;
pub use block_io::{BackingId, BlockIo, Geometry, IoDone, IoError, IoOp, IoRequest};
pub use error::OpenError;
pub use faulty::{Faults, Faulty};
pub use inspect::Trouble;
pub use ring::{MAX_BACKING_ID, Ring, RingConfig, RingError, RingMode, RingStats};
pub use spec::{BackingSpec, BlockSize, Medium, NotABlockSize};
