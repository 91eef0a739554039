//! Receive queues.

use rdma::{QpId, RecvWr};
use std::collections::VecDeque;

/// Receives that are posted, oldest first.
#[derive(Debug)]
pub(crate) struct RecvQueue {
    posted: VecDeque<RecvWr>,
    depth: u32,
    /// Queue pairs that take from it.
    pub(crate) users: u32,
    /// The queue pair whose own queue this is, once that has failed: it takes no more.
    pub(crate) failed: Option<QpId>,
}

impl RecvQueue {
    /// An empty queue for at most `depth` receives.
    pub(crate) fn new(depth: u32) -> RecvQueue {
        RecvQueue { posted: VecDeque::with_capacity(depth as usize), depth, users: 0, failed: None }
    }

    /// Receives that may be posted at once.
    pub(crate) fn depth(&self) -> u32 {
        self.depth
    }

    /// Adds a receive.
    ///
    /// # Panics
    /// When more are posted than the queue is deep: the caller's bug.
    pub(crate) fn post(&mut self, wr: RecvWr) {
        assert!((self.posted.len() as u32) < self.depth, "receive queue overrun");
        self.posted.push_back(wr);
    }

    /// Receives that are posted.
    #[cfg(feature = "fuzzing")]
    pub(crate) fn len(&self) -> usize {
        self.posted.len()
    }

    /// Takes the oldest receive for a message.
    pub(crate) fn take(&mut self) -> Option<RecvWr> {
        self.posted.pop_front()
    }
}
