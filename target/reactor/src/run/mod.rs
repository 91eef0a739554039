//! Threads: what turns the sans-thread [`Core`](crate::core::Core) and
//! [`Control`](crate::control::Control) into a running reactor.
//!
//! # Contract
//! A thread turns while there is work. When there is none it goes on for a while
//! ([`PollMode`]), then arms its wake-ups, turns once more, and sleeps in one `poll(2)` over its
//! device, its disks and its [mailbox](mailbox), until the nearest timeout. There is no periodic
//! tick: an idle reactor makes no system call but those that a timer of a peer or of a controller
//! asks for. The clock is read once a turn.
//!
//! A panic on any of these threads is our own bug and ends the process: the queues of a dead core
//! would otherwise look alive to their hosts.

mod control_loop;
mod core_loop;
pub mod mailbox;
mod meter;
mod sleep;
#[cfg(test)]
mod tests;

pub use control_loop::{Flow, Hooks, run_control};
pub use core_loop::{CoreHandle, CoreOptions, leave_to_cores, spawn_core};
pub use mailbox::{Inbox, Postbox, mailbox};
pub use meter::{Meter, Shown};

use rdma::Now;
use std::time::{Duration, Instant};

/// What a thread does when there is nothing to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PollMode {
    /// Poll for a while after the last work, then sleep.
    Adaptive {
        /// How long; [`DISK_SPINS`] times as long while operations are under way on disks.
        spin: Duration,
    },
    /// Never sleep: lowest latency, a whole CPU per core.
    Always,
    /// Sleep at once: lowest CPU use, a wake-up per burst.
    Interrupt,
}

/// How many times longer an adaptive core spins while a disk has something to answer. A flash disk
/// does so within 100 µs or so, and a core that sleeps meanwhile finds all its answers at once: then
/// the disk stands still while the core works and the other way round.
const DISK_SPINS: u32 = 4;

impl PollMode {
    /// Whether to sleep, having had no work for `idle`. `disks`: whether operations are under way.
    fn should_sleep(self, idle: Duration, disks: bool) -> bool {
        match self {
            PollMode::Adaptive { spin } => idle >= spin * if disks { DISK_SPINS } else { 1 },
            PollMode::Always => false,
            PollMode::Interrupt => true,
        }
    }
}

/// The reactor's clock: all its threads count from the same start.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    start: Instant,
}

impl Clock {
    /// A clock that starts now.
    pub fn start() -> Clock {
        Clock { start: Instant::now() }
    }

    /// The time since its start.
    pub fn now(&self) -> Now {
        self.start.elapsed()
    }
}
