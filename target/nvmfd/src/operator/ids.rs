//! The numbers of disks: given here, taken back when no core uses the disk any more.

use backing::{BackingId, MAX_BACKING_ID};
use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;

/// Which numbers are taken. Shared by the operator, who takes them, and the control thread, who
/// hears when they are free.
#[derive(Debug)]
pub(crate) struct Ids {
    taken: Mutex<BTreeSet<u32>>,
    freed: Notify,
}

impl Ids {
    pub(crate) fn taken(by: impl Iterator<Item = BackingId>) -> Ids {
        let taken = Mutex::new(by.map(|id| id.0).collect());
        Ids { taken, freed: Notify::new() }
    }

    /// The lowest free number that is none of `awaited`, of which somebody is still to see that they
    /// are free; none when there are no more.
    pub(super) fn take(&self, awaited: &[BackingId]) -> Option<BackingId> {
        let mut taken = self.lock();
        let fit = |id: &u32| !taken.contains(id) && !awaited.contains(&BackingId(*id));
        let free = (0..MAX_BACKING_ID).find(fit)?;
        taken.insert(free);
        Some(BackingId(free))
    }

    /// The number is free: no core knows its disk.
    pub(crate) fn give_back(&self, id: BackingId) {
        self.lock().remove(&id.0);
        self.freed.notify_waiters();
    }

    /// Waits until the number is free, for at most `limit`. Says whether it is.
    pub(super) async fn wait_free(&self, id: BackingId, limit: Duration) -> bool {
        let free = async {
            loop {
                let freed = self.freed.notified();
                tokio::pin!(freed);
                // From here on no notification is missed.
                freed.as_mut().enable();
                if !self.lock().contains(&id.0) {
                    return;
                }
                freed.await;
            }
        };
        tokio::time::timeout(limit, free).await.is_ok()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<u32>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_is_waited_for_is_not_given_again_before_that_is_over() {
        let ids = Ids::taken([BackingId(0), BackingId(1)].into_iter());
        // It comes free before anybody waits.
        ids.give_back(BackingId(1));
        assert_eq!(ids.take(&[BackingId(1)]), Some(BackingId(2)));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        assert!(runtime.block_on(ids.wait_free(BackingId(1), Duration::ZERO)));
        assert_eq!(ids.take(&[]), Some(BackingId(1)));
    }
}
