//! The half of a provider that a core polls.

use crate::{Now, QpId, RecvQueueId, RecvWr, SendWr, Wc};
use std::os::fd::BorrowedFd;

/// What a queue pair can take, fixed when it was prepared. All counts are at least 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QpLimits {
    /// Send-side work requests that may be posted and not yet completed. An unsignaled one counts
    /// until a later signaled one of the queue pair has completed.
    pub max_send_wr: u32,
    /// RDMA READs that may be outstanding: the lesser of the device's and the peer's offer.
    pub max_reads: u32,
    /// SENDs of up to this many bytes are copied when posted (0: the device cannot).
    pub max_inline: u32,
}

/// The receive queue that feeds a queue pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecvQueue {
    /// Its id within the device.
    pub id: RecvQueueId,
    /// Whether other queue pairs take from it too.
    pub shared: bool,
    /// Receives that may be posted at once.
    pub depth: u32,
}

/// What a device counted of its packets since it was opened. Hardware keeps its own counts: a
/// provider over it tells zeroes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WireCounters {
    /// Packets taken in, whatever became of them.
    pub received: u64,
    /// Packets sent.
    pub sent: u64,
    /// Of those, packets that had been sent before.
    pub resent: u64,
    /// Packets taken in that were damaged, malformed or for nobody here.
    pub discarded: u64,
    /// Congestion notifications of the network.
    pub congestion: u64,
    /// Queue pairs that failed.
    pub failed: u64,
}

impl std::ops::AddAssign for WireCounters {
    fn add_assign(&mut self, other: WireCounters) {
        self.received += other.received;
        self.sent += other.sent;
        self.resent += other.resent;
        self.discarded += other.discarded;
        self.congestion += other.congestion;
        self.failed += other.failed;
    }
}

/// What attaching an endpoint gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attached {
    /// The queue pair's id until it is detached.
    pub qp: QpId,
    /// Where its messages arrive. A shared queue may be seen here for the first time; it is empty
    /// then, and the caller stocks it.
    pub recv_queue: RecvQueue,
    /// What it can take.
    pub limits: QpLimits,
}

/// A file descriptor whose readability means that [`Device::poll_cq`] may have something.
pub type PollSource<'a> = BorrowedFd<'a>;

/// The data half of a provider: one per core, used by that core's thread only.
///
/// A device is opened by its provider with the core's [`Region`](region::Region), already
/// registered (or registered with a network card when the first endpoint on it is prepared).
pub trait Device {
    /// A queue pair on its way between the connection manager and the core.
    type Endpoint: Send;

    /// Takes an endpoint in. Its receives may be posted at once, even before the connection is
    /// accepted; sends only once it is.
    fn attach(&mut self, endpoint: Self::Endpoint) -> Attached;

    /// Gives a queue pair back. The caller has seen a completion for all of its sends and, where
    /// the receive queue is its own, for all of its receives; nothing of it is told any more.
    ///
    /// Receives of a shared queue are the queue's, not the queue pair's. Those that were posted and
    /// whose completion was not polled are posted still, also when a message for this queue pair
    /// had taken one: the provider drops the message and posts the receive again, in any place of
    /// the queue. Only when the device under the queue is gone do they come back, flushed, on the
    /// last queue pair that was attached to it, and before that one is drained.
    fn detach(&mut self, qp: QpId) -> Self::Endpoint;

    /// Moves the queue pair to the error state: nothing more is sent or received, and every work
    /// request posted to it and not yet completed completes, flushed. Harmless when repeated.
    fn fail(&mut self, qp: QpId);

    /// Stages a receive. The caller respects the queue's depth.
    fn post_recv(&mut self, queue: RecvQueueId, wr: RecvWr);

    /// Stages a send-side work request. The caller respects [`QpLimits`]. On a failed queue pair
    /// the work request completes flushed.
    fn post_send(&mut self, qp: QpId, wr: SendWr);

    /// Hands everything staged to the hardware.
    fn flush(&mut self, now: Now);

    /// Appends completions to `out`, at most `max` of them, and returns how many.
    fn poll_cq(&mut self, now: Now, max: usize, out: &mut Vec<Wc>) -> usize;

    /// Asks for [`wait_sources`](Device::wait_sources) to become readable at the next completion.
    /// Call, then poll once more, then sleep: what arrived in between is found by that poll.
    fn arm(&mut self);

    /// What to sleep on. The set may grow when an endpoint is attached.
    fn wait_sources<'a>(&'a self, out: &mut Vec<PollSource<'a>>);

    /// When [`poll_cq`](Device::poll_cq) must be called next even if no source is readable
    /// (retransmission timers of a software provider).
    fn timeout(&self) -> Option<Now>;

    /// Bytes that are worth asking for ahead by RDMA READ, on all queue pairs that share the way of
    /// this one: what keeps the way busy. More only stands in line, in front of whatever small comes
    /// after it. Unless a device says otherwise, what a link of 400 Gbit/s brings in 20 µs.
    fn read_window(&self, _qp: QpId) -> u32 {
        1 << 20
    }

    /// What it counted of its packets, if it sees them.
    fn counters(&self) -> WireCounters {
        WireCounters::default()
    }
}
