//! Where a data core shows its counts to other threads.
//!
//! The core writes ten times a second while there is something new, asleep or not: never for a
//! command, and never for a sleep, which may be one a command. A reader gets what was counted a
//! moment ago.

use crate::core::{Core, CoreStats, DiskStats};
use backing::BlockIo;
use nvme_spec_types::status::StatusCode;
use rdma::{Device, Now};
use std::sync::{Mutex, PoisonError, TryLockError};
use std::time::Duration;

/// How often a core shows its counts.
const EVERY: Duration = Duration::from_millis(100);

/// What a data core showed last.
#[derive(Debug, Default)]
pub struct Meter {
    shown: Mutex<Shown>,
}

/// The counts of a core at one moment.
#[derive(Debug, Clone, Default)]
pub struct Shown {
    /// Its own.
    pub core: CoreStats,
    /// Of each backing that it uses.
    pub disks: Vec<DiskStats>,
    /// Responses that were no success, by their status.
    pub failures: Vec<(StatusCode, u64)>,
}

impl Shown {
    /// What a core shows.
    pub fn of<D: Device, B: BlockIo>(core: &Core<D, B>) -> Shown {
        let mut shown = Shown::default();
        shown.take(core);
        shown
    }

    /// Takes the counts of a core, in the memory of those before.
    fn take<D: Device, B: BlockIo>(&mut self, core: &Core<D, B>) {
        self.core = core.stats();
        self.disks.clear();
        self.disks.extend(core.disks());
        self.failures.clear();
        self.failures.extend(core.failures());
    }
}

impl Meter {
    /// What the core showed last.
    pub fn read(&self) -> Shown {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Shows what a core counted; if somebody is reading just now, the next time is early enough.
    pub(super) fn show<D: Device, B: BlockIo>(&self, core: &Core<D, B>) {
        self.change(|shown| shown.take(core));
    }

    fn change(&self, change: impl FnOnce(&mut Shown)) {
        match self.shown.try_lock() {
            Ok(mut shown) => change(&mut shown),
            Err(TryLockError::Poisoned(poisoned)) => change(&mut poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => {}
        }
    }
}

/// When a core shows its counts next.
#[derive(Debug, Default)]
pub(super) struct Pace {
    due: Now,
    /// Whether something was counted since they were shown.
    stale: bool,
}

impl Pace {
    /// Something was counted.
    pub(super) fn counted(&mut self) {
        self.stale = true;
    }

    /// The counts are shown.
    pub(super) fn shown(&mut self) {
        self.stale = false;
    }

    /// When a core that sleeps must wake to show them; `None` when nothing is new.
    pub(super) fn show_by(&self) -> Option<Now> {
        self.stale.then_some(self.due)
    }

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
        let show = |turns| meter.change(|shown| shown.core.turns = turns);
        show(1);
        let reading = meter.shown.lock().unwrap();
        show(2);
        drop(reading);
        assert_eq!(meter.read().core.turns, 1);
        show(3);
        assert_eq!(meter.read().core.turns, 3);
    }

    #[test]
    fn a_core_wakes_to_show_what_is_new_and_sleeps_on_when_nothing_is() {
        let mut pace = Pace::default();
        assert_eq!(pace.show_by(), None);
        assert!(pace.is_due(Duration::from_millis(7)));
        pace.shown();
        pace.counted();
        assert_eq!(pace.show_by(), Some(Duration::from_millis(107)));
        assert!(
            !pace.is_due(Duration::from_millis(106)) && pace.is_due(Duration::from_millis(107))
        );
        pace.shown();
        assert_eq!(pace.show_by(), None);
    }

    #[test]
    fn a_busy_core_shows_ten_times_a_second() {
        let mut pace = Pace::default();
        let shown = (0..1000).filter(|ms| pace.is_due(Duration::from_millis(*ms))).count();
        assert_eq!(shown, 10);
    }
}
