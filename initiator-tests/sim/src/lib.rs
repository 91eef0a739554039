//! A deterministic world around the production reactor.
//!
//! One 64-bit seed decides everything: latencies, faults, the order in which threads would have
//! run, what hosts ask for. There is no thread, no clock and no hash order in here, so a seed that
//! fails once fails always.
//!
//! - [`net`]: the RDMA seam for both ends, with its rules checked;
//! - [`disk`]: the storage seam, with faults and a volatile cache;
//! - [`checker`]: what each block may hold;
//! - [`guest`], [`hostile`], [`knocker`]: hosts that keep the rules, that break them, and that only
//!   knock;
//! - [`world`]: control core, data cores and hosts, turn by turn.

pub mod checker;
pub mod disk;
pub mod guest;
pub mod hostile;
pub mod knocker;
pub mod net;
pub mod pattern;
pub mod rng;
pub mod world;
