//! What the control thread and the data cores tell each other.
//!
//! Nothing is shared but what a message carries. Messages to one core arrive in order.

use backing::BackingId;
use nvme_spec_types::Status;
use nvme_spec_types::log::ParameterLocation;
use nvmf::target::{AbortToken, Binding};
use nvmf::view::{QueueActivity, SubsystemView};
use nvmf::{BackingRef, Outcome, QueueKey, Slot};
use rdma::CoreIndex;
use std::sync::Arc;

/// A claim of a range of a backing, from the question to the end. Never used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClaimId {
    /// The core whose queue asks.
    pub core: CoreIndex,
    /// Counts the claims of that core.
    pub number: u64,
}

/// Bytes of a backing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    /// Which.
    pub backing: BackingRef,
    /// First byte.
    pub start: u64,
    /// The byte behind the last.
    pub end: u64,
}

impl Range {
    /// No bytes.
    pub const NONE: Range = Range { backing: BackingRef(0), start: 0, end: 0 };

    /// Whether any byte is in both.
    pub fn overlaps(&self, other: &Range) -> bool {
        self.backing == other.backing && self.start < other.end && other.start < self.end
    }

    /// From the first to the last byte of both, on the same backing.
    pub(crate) fn through(&self, other: &Range) -> Range {
        let (start, end) = (self.start.min(other.start), self.end.max(other.end));
        Range { backing: self.backing, start, end }
    }
}

/// How to serve a queue.
#[derive(Debug, Clone)]
pub struct QueueParams {
    /// 0 for an admin queue.
    pub qid: u16,
    /// Entries of the submission queue.
    pub sq_entries: u16,
    /// Responses that the host is ready to receive at a time.
    pub host_receives: u16,
    /// In-capsule data that a capsule may carry, in bytes.
    pub in_capsule: u32,
    /// Marked at each capsule.
    pub activity: QueueActivity,
}

/// From the control thread to a core. `E` is the provider's endpoint, `B` the shared backing.
#[derive(Debug)]
pub enum ToCore<E, B> {
    /// Take a queue in and post its receives; answered by [`ToControl::Attached`].
    Attach {
        /// The queue.
        key: QueueKey,
        /// Its queue pair.
        endpoint: E,
        /// How to serve it.
        params: QueueParams,
    },
    /// The connection is up: sends may be posted from now on.
    Established(QueueKey),
    /// Connect succeeded.
    Bind {
        /// Which queue.
        key: QueueKey,
        /// To what.
        binding: Binding,
    },
    /// A command handed on with [`ToControl::Execute`] is done.
    Complete {
        /// Which queue.
        key: QueueKey,
        /// Which command.
        slot: Slot,
        /// How.
        outcome: Outcome,
    },
    /// Flush these backings on behalf of a command handed on with [`ToControl::Execute`]; answered
    /// by [`ToControl::Flushed`].
    Flush {
        /// Which queue.
        key: QueueKey,
        /// Which command.
        slot: Slot,
        /// What to flush, at least one.
        backings: Vec<BackingRef>,
    },
    /// A failure told with [`ToControl::Failed`] is in the error log.
    Reported(QueueKey),
    /// Stop a command if it can be stopped; answered by [`ToControl::Aborted`].
    Abort {
        /// Which queue.
        key: QueueKey,
        /// Which command.
        cid: u16,
        /// To answer with.
        token: AbortToken,
    },
    /// Fail the queue pair, drain the queue and give it back; answered by
    /// [`ToControl::Detached`]. Repeats are ignored.
    Close(QueueKey),
    /// Begin no operation in this range but those of the claim's owner; answered by
    /// [`ToControl::Quiet`] when the ones under way have ended.
    Claim(ClaimId, Range),
    /// Every core is quiet there: to the owner's core.
    Granted(ClaimId),
    /// The claim is over.
    Unclaim(ClaimId),
    /// New namespaces of a subsystem.
    Publish(Arc<SubsystemView>),
    /// Make a backing usable.
    AddBacking(BackingId, B),
    /// Forget a backing once nothing is in flight on it; answered by
    /// [`ToControl::BackingRemoved`].
    RemoveBacking(BackingId),
    /// Are you there? Answered at once by [`ToControl::Here`].
    Call(u64),
    /// Leave the loop.
    Stop,
}

/// From a core to the control thread.
#[derive(Debug)]
pub enum ToControl<E> {
    /// The queue's receives are posted: the connection may be accepted.
    Attached(QueueKey),
    /// The queue cannot be served (no memory left for its receives): its endpoint comes back.
    Refused {
        /// Which queue.
        key: QueueKey,
        /// Its queue pair.
        endpoint: E,
    },
    /// A command that the control thread is to carry out; answered by [`ToCore::Complete`].
    Execute {
        /// Which queue.
        key: QueueKey,
        /// Which command.
        slot: Slot,
        /// The submission queue entry.
        command: [u8; 64],
        /// Data from the host; empty for none.
        data: Vec<u8>,
    },
    /// The flushes asked for with [`ToCore::Flush`] have ended.
    Flushed {
        /// Which queue.
        key: QueueKey,
        /// Which command.
        slot: Slot,
        /// How the first that failed did.
        failed: Option<Status>,
    },
    /// A command failed on its queue: for the error log; answered by [`ToCore::Reported`].
    Failed {
        /// Which queue.
        key: QueueKey,
        /// The submission queue entry.
        command: [u8; 64],
        /// How.
        status: Status,
        /// The field at fault.
        location: ParameterLocation,
        /// Failures before it that were not told.
        missed: u32,
    },
    /// A command took longer than is usual: for the log. At most one in a turn.
    Slow {
        /// Which queue.
        key: QueueKey,
        /// The submission queue entry.
        command: [u8; 64],
        /// From the capsule to the response.
        took_ns: u64,
        /// Slow commands before it that were not told.
        missed: u64,
    },
    /// Whether a command was stopped before it was carried out.
    Aborted {
        /// Of the question.
        token: AbortToken,
        /// Whether it was.
        stopped: bool,
    },
    /// A slot wants a range for itself; answered by [`ToCore::Granted`].
    Claim(ClaimId, Range),
    /// Nothing but the owner's operations is under way there on this core, nor will be.
    Quiet(ClaimId),
    /// The owner is done, or does not want its claim any more.
    Unclaim(ClaimId),
    /// The queue failed or its host broke a rule: it is draining.
    Closing {
        /// Which queue.
        key: QueueKey,
        /// Why, in words for the log.
        reason: String,
    },
    /// The queue has drained; its endpoint may be destroyed.
    Detached {
        /// Which queue.
        key: QueueKey,
        /// Its queue pair.
        endpoint: E,
    },
    /// Nothing uses the backing on this core any more.
    BackingRemoved(BackingId),
    /// The answer of a core to [`ToCore::Call`].
    Here(CoreIndex, u64),
}
