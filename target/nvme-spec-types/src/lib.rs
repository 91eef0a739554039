//! NVMe and NVMe over Fabrics wire types: no I/O, no policy, no_std.
//!
//! What comes in is bytes and what goes out is values, and back. Nothing here
//! decides what a value means for a controller: an unknown opcode, status or
//! flag is kept as it came. Every integer on the wire is little endian.
//!
//! Parsing never panics, whatever the bytes. The only failure that every
//! structure shares is being shorter than its size ([`ParseError`]); reserved
//! bytes are ignored on the way in and zero on the way out.
//!
//! Fields that the specifications call *0's based* are never public integers:
//! they are [`ZeroBased`], whose accessor returns a count.
//!
//! Sources: NVM Express Base Specification 2.1 ("NVMe Base 2.1"), NVM Command
//! Set Specification 1.1 ("NVM 1.1"), NVMe over RDMA Transport Specification
//! 1.1 ("RDMA Transport 1.1").
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

#[macro_use]
mod layout;

pub mod aer;
pub mod auth;
pub mod command;
pub mod completion;
pub mod error;
pub mod fabrics;
pub mod feature;
pub mod fixed_str;
pub mod identify;
pub mod log;
pub mod nqn;
pub mod nvm;
pub mod opcode;
pub mod property;
pub mod rdma_cm;
pub mod reservation;
pub mod sgl;
pub mod status;
#[cfg(test)]
mod testing;
pub mod zero_based;

pub use aer::{AsyncEvent, AsyncEventType};
pub use command::{Command, Fuse, Psdt};
pub use completion::Completion;
pub use error::ParseError;
pub use feature::{FeatureId, FeatureSelect};
pub use fixed_str::FixedStr;
pub use log::LogId;
pub use nqn::{Nqn, NqnError};
pub use opcode::{AdminOpcode, DataDirection, FabricsType, IoOpcode};
pub use sgl::SglDescriptor;
pub use status::{Status, StatusCode, StatusType};
pub use zero_based::ZeroBased;
