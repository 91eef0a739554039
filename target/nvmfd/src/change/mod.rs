//! From one configuration to the next while the daemon runs.
//!
//! - [`diff`](diff::diff) says what is different between two configurations, as a list of
//!   [`Change`]s, and what of it only a restart can bring.
//! - [`steps`] carries a change out on the control thread, in terms of what the reactor can do.
//!
//! Nothing here reads files or opens disks.

mod diff;
mod steps;
#[cfg(test)]
mod tests;
mod words;

pub(crate) use diff::{Change, Plan, diff};
pub(crate) use steps::{Doors, Step, carry_out};
