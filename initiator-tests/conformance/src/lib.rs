//! One black-box suite: what a target must do, seen from outside, by a host without manners.
//!
//! # One list of cases, many places
//! A case of [`cases`] is a function of a [`Place`]: it has a target started there, meets it with a
//! [`Client`] or a [`Session`], and panics when the target does what it must not. It names no
//! provider and reads no clock but [`Client::now`], so the same cases run
//! - on soft-roce: `cargo nextest run -p conformance`, against the daemon ([`SoftPlace`]);
//! - in the simulator: `cargo nextest run -p sim --test conformance`, the production reactor on
//!   simulated devices, in process and in simulated time;
//! - on RDMA devices: the program `conformance`, which `cargo xtask linux` runs in a machine with
//!   the kernel's software devices.
//!
//! # To add a case
//! Write `fn what_it_shows(place: &dyn Place)` in the file of `src/cases/` that it belongs to, and
//! its name into the list `CASES` at that file's top. `place.target()` has the namespaces of
//! [`offer::USUAL`]; `place.start(…)` takes others. To wait, call [`Client::wait`]. What only our
//! own daemon is known to have needs [`Running::is_own`].
//!
//! A failed expectation panics: this is for tests only.

mod address;
pub mod cases;
mod client;
mod daemon;
pub mod offer;
mod place;
mod process;
mod runner;
mod session;
mod soft;
#[cfg(feature = "verbs")]
mod verbs;

pub use address::own_address;
pub use client::{Buffer, Client, Heard};
pub use daemon::Daemon;
pub use place::{BareHost, HOST_MEMORY, Place, Running, Target};
pub use process::Process;
pub use runner::run;
pub use session::{
    Session, assert_code, connect, connect_data, get_property, send_connect, set_property,
};
pub use soft::{SoftPlace, soft_target};
#[cfg(feature = "verbs")]
pub use verbs::VerbsPlace;
