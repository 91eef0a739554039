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

    /// The lowest free number; none when there are no more.
    pub(super) fn take(&self) -> Option<BackingId> {
        let mut taken = self.lock();
        let free = (0..MAX_BACKING_ID).find(|id| !taken.contains(id))?;
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
