//! Where a data core shows its counts to other threads.
//!
//! The core writes when it is about to sleep, and now and then while it is busy: never for a
//! command. A reader gets what was counted a moment ago.

use crate::core::CoreStats;
use rdma::Now;
use std::sync::{Mutex, PoisonError, TryLockError};
use std::time::Duration;

/// How often a busy core shows its counts.
const EVERY: Duration = Duration::from_millis(100);

/// The counts that a data core showed last.
#[derive(Debug, Default)]
pub struct Meter {
    shown: Mutex<CoreStats>,
}

impl Meter {
    /// What the core showed last.
    pub fn read(&self) -> CoreStats {
        *self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Shows counts; if somebody is reading just now, the next time is early enough.
    pub(super) fn show(&self, stats: CoreStats) {
        match self.shown.try_lock() {
            Ok(mut shown) => *shown = stats,
            Err(TryLockError::Poisoned(poisoned)) => *poisoned.into_inner() = stats,
            Err(TryLockError::WouldBlock) => {}
        }
    }
}

/// When a busy core shows its counts next.
#[derive(Debug, Default)]
pub(super) struct Pace {
    due: Now,
}

impl Pace {
    /// Whether the time has come.
    pub(super) fn is_due(&mut self, now: Now) -> bool {
        let due = now >= self.due;
        if due {
            self.due = now + EVERY;
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_counts_are_shown_and_a_reader_never_stops_the_core() {
        let meter = Meter::default();
        meter.show(CoreStats { turns: 1, ..CoreStats::default() });
        let reading = meter.shown.lock().unwrap();
        meter.show(CoreStats { turns: 2, ..CoreStats::default() });
        drop(reading);
        assert_eq!(meter.read().turns, 1);
        meter.show(CoreStats { turns: 3, ..CoreStats::default() });
        assert_eq!(meter.read().turns, 3);
    }

    #[test]
    fn a_busy_core_shows_ten_times_a_second() {
        let mut pace = Pace::default();
        let shown = (0..1000).filter(|ms| pace.is_due(Duration::from_millis(*ms))).count();
        assert_eq!(shown, 10);
    }
}
