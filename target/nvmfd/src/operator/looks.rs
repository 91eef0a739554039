//! Pictures of the daemon for whoever asks, and no waiting for a control thread that is held up.
//!
//! A picture is asked of the control thread for each look, so that it shows what was changed before.
//! Making a queue pair or opening a listener may take that thread longer than an operator is to wait:
//! then a look that is in a hurry is answered with the picture before, which says how old it is, if
//! nothing was changed since.

use super::{Order, Refusal};
use crate::status::Picture;
use reactor::run::Postbox;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{Semaphore, oneshot};

/// How long a new picture is waited for while there is one from before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Patience {
    /// For who is promised an answer within 50 ms.
    Little,
    /// For who rather waits than hears what was.
    Much,
}

impl Patience {
    fn limit(self) -> Duration {
        match self {
            Patience::Little => Duration::from_millis(25),
            Patience::Much => Duration::from_secs(2),
        }
    }
}

/// Looks that the control thread may owe an answer; more are answered from before.
const OWED: usize = 64;

/// See the module.
#[derive(Debug)]
pub(super) struct Looks {
    last: Arc<Mutex<Option<Arc<Picture>>>>,
    /// Pictures from before show what is no more.
    changed: Mutex<Option<Instant>>,
    owed: Arc<Semaphore>,
}

impl Default for Looks {
    fn default() -> Looks {
        let owed = Arc::new(Semaphore::new(OWED));
        Looks { last: Arc::default(), changed: Mutex::default(), owed }
    }
}

impl Looks {
    /// Something was changed that pictures show.
    pub(super) fn changed(&self) {
        *lock(&self.changed) = Some(Instant::now());
    }

    /// The last picture, if it still shows what there is.
    fn before(&self) -> Option<Arc<Picture>> {
        let changed = *lock(&self.changed);
        lock(&self.last).clone().filter(|last| last.taken >= changed)
    }

    /// A picture; `finish` adds what the control thread does not know.
    ///
    /// # Errors
    /// When the daemon is ending and there never was one.
    pub(super) async fn look(
        &self,
        orders: &Postbox<Order>,
        patience: Patience,
        finish: impl FnOnce(&mut Picture) + Send + 'static,
    ) -> Result<Arc<Picture>, Refusal> {
        let owed = match (self.owed.clone().try_acquire_owned(), self.before()) {
            (Ok(owed), _) => Some(owed),
            (Err(_), Some(before)) => return Ok(before),
            (Err(_), None) => self.owed.clone().acquire_owned().await.ok(),
        };
        let (reply, answer) = oneshot::channel();
        orders.send(Order::Look(reply));
        let last = self.last.clone();
        // It goes on when it is not waited for: the next look finds what it brought.
        let mut fresh = tokio::spawn(async move {
            let _owed = owed;
            let mut picture = answer.await.map_err(|_| Refusal::Ending)?;
            finish(&mut picture);
            let picture = Arc::new(picture);
            let mut last = lock(&last);
            if last.as_ref().is_none_or(|last| last.uptime <= picture.uptime) {
                *last = Some(picture.clone());
            }
            Ok::<_, Refusal>(picture)
        });
        if self.before().is_some() {
            match tokio::time::timeout(patience.limit(), &mut fresh).await {
                Ok(picture) => return picture.unwrap_or(Err(Refusal::Ending)),
                // What there was may have been changed meanwhile.
                Err(_) => {
                    if let Some(before) = self.before() {
                        return Ok(before);
                    }
                }
            }
        }
        fresh.await.unwrap_or(Err(Refusal::Ending))
    }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use reactor::run::mailbox;

    #[test]
    fn a_control_thread_that_does_not_answer_is_not_waited_for_once_it_did() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let (post, inbox) = mailbox::<Order>().unwrap();
        let looks = Arc::new(Looks::default());
        let take = || match inbox.try_recv() {
            Some(Order::Look(reply)) => reply,
            other => panic!("{other:?}"),
        };
        runtime.block_on(async {
            let first = tokio::spawn({
                let (looks, post) = (looks.clone(), post.clone());
                async move { looks.look(&post, Patience::Little, |_| {}).await }
            });
            tokio::task::yield_now().await;
            take().send(Picture { queues: 7, ..Picture::default() }).unwrap();
            assert_eq!(first.await.unwrap().unwrap().queues, 7);
            // Held up: the one from before, at once, however many ask.
            let began = Instant::now();
            for _ in 0..OWED + 2 {
                assert_eq!(looks.look(&post, Patience::Little, |_| {}).await.unwrap().queues, 7);
            }
            assert!(began.elapsed() >= Patience::Little.limit());
            // What comes too late is what the next one finds.
            let eight =
                || Picture { queues: 8, uptime: Duration::from_secs(1), ..Picture::default() };
            while let Some(Order::Look(reply)) = inbox.try_recv() {
                reply.send(eight()).unwrap();
            }
            tokio::task::yield_now().await;
            assert_eq!(looks.look(&post, Patience::Little, |_| {}).await.unwrap().queues, 8);
            // What was changed is not told as it was before.
            looks.changed();
            let look = looks.look(&post, Patience::Little, |_| {});
            let limit = Patience::Little.limit() * 4;
            assert!(tokio::time::timeout(limit, look).await.is_err());
        });
    }
}
