//! One black-box suite: what a target must do, seen from outside, by a host without manners.
//!
//! The tests are in `tests/`. Each starts a daemon of its own ([`Daemon`]) on a loopback address
//! that nobody else uses, and talks to it over soft-roce ([`Client`], [`Session`]). With
//! `CONFORMANCE_ADDRESS=IP:PORT` and `CONFORMANCE_NQN=NAME` they talk to a running target instead,
//! whose namespace 1 they overwrite.
//!
//! A failed expectation panics: this is for tests only.

mod client;
mod daemon;
mod session;

pub use client::{Buffer, Client, Heard};
pub use daemon::Daemon;
pub use session::{
    Session, assert_code, connect, connect_data, get_property, send_connect, set_property,
};
