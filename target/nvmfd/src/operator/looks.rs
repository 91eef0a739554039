//! Pictures of the daemon for whoever asks, and no waiting for a control thread that is held up.
//!
//! A picture is asked of the control thread for each look, so that it shows what was changed before.
//! Making a queue pair or opening a listener may take that thread longer than an operator is to wait:
//! then the look is answered with the picture before, which says how old it is.

use super::{Order, Refusal};
use crate::status::Picture;
use reactor::run::Postbox;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{Semaphore, oneshot};

/// How long a new picture is waited for while there is one from before.
const FRESH_WITHIN: Duration = Duration::from_millis(25);
/// Looks that the control thread may owe an answer; more are answered from before.
const OWED: usize = 64;

/// See the module.
#[derive(Debug)]
pub(super) struct Looks {
    last: Arc<Mutex<Option<Arc<Picture>>>>,
    owed: Arc<Semaphore>,
}

impl Default for Looks {
    fn default() -> Looks {
        Looks { last: Arc::default(), owed: Arc::new(Semaphore::new(OWED)) }
    }
}

impl Looks {
    /// A picture; `finish` adds what the control thread does not know.
    ///
    /// # Errors
    /// When the daemon is ending and there never was one.
    pub(super) async fn look(
        &self,
        orders: &Postbox<Order>,
        finish: impl FnOnce(&mut Picture) + Send + 'static,
    ) -> Result<Arc<Picture>, Refusal> {
        let before = || lock(&self.last).clone();
        let owed = match (self.owed.clone().try_acquire_owned(), before()) {
            (Ok(owed), _) => Some(owed),
            (Err(_), Some(before)) => return Ok(before),
            (Err(_), None) => self.owed.clone().acquire_owned().await.ok(),
        };
        let (reply, answer) = oneshot::channel();
        orders.send(Order::Look(reply));
        let last = self.last.clone();
        // It goes on when it is not waited for: the next look finds what it brought.
        let fresh = tokio::spawn(async move {
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
        let limit = if before().is_some() { FRESH_WITHIN } else { Duration::MAX };
        match tokio::time::timeout(limit, fresh).await {
            Ok(Ok(Ok(picture))) => Ok(picture),
            _ => before().ok_or(Refusal::Ending),
        }
    }
}

fn lock(last: &Mutex<Option<Arc<Picture>>>) -> std::sync::MutexGuard<'_, Option<Arc<Picture>>> {
    last.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use reactor::run::mailbox;
    use std::time::Instant;

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
                async move { looks.look(&post, |_| {}).await }
            });
            tokio::task::yield_now().await;
            take().send(Picture { queues: 7, ..Picture::default() }).unwrap();
            assert_eq!(first.await.unwrap().unwrap().queues, 7);
            // Held up: the one from before, at once, however many ask.
            let began = Instant::now();
            for _ in 0..OWED + 2 {
                assert_eq!(looks.look(&post, |_| {}).await.unwrap().queues, 7);
            }
            assert!(began.elapsed() >= FRESH_WITHIN);
            // What comes too late is what the next one finds.
            let eight =
                || Picture { queues: 8, uptime: Duration::from_secs(1), ..Picture::default() };
            while let Some(Order::Look(reply)) = inbox.try_recv() {
                reply.send(eight()).unwrap();
            }
            tokio::task::yield_now().await;
            assert_eq!(looks.look(&post, |_| {}).await.unwrap().queues, 8);
        });
    }
}
