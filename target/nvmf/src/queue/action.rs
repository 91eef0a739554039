//! What a queue asks of the reactor.

use crate::target::AbortToken;
use crate::{BackingRef, Slot};
use nvme_spec_types::completion::Completion;
use nvme_spec_types::log::ParameterLocation;
use nvme_spec_types::status::Status;

/// Names the receive that brought a capsule; the reactor's own number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RecvToken(pub u32);

/// What becomes of the receive of a capsule that was just taken in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Receive {
    /// It is free: post it again, before anything that was asked for. Most are, so that it need not
    /// be an action of its own.
    Free,
    /// It is free, and then a buffer is wanted, as by [`Action::Allocate`]: so it is with every Read.
    FreeForBuffer {
        /// For whom.
        slot: Slot,
        /// Bytes.
        len: u32,
    },
    /// An action says when it is free ([`Action::ReleaseRecv`]).
    Held,
}

impl Receive {
    /// What it says as actions, which come before those that were asked for: for those who look at
    /// actions alone. `recv` is the receive.
    pub fn actions(self, recv: RecvToken) -> impl Iterator<Item = Action> {
        let free = self != Receive::Held;
        let wanted = match self {
            Receive::FreeForBuffer { slot, len } => Some(Action::Allocate { slot, len }),
            Receive::Free | Receive::Held => None,
        };
        free.then_some(Action::ReleaseRecv(recv)).into_iter().chain(wanted)
    }
}

/// Most data descriptors in one command (MSDBD).
pub const MAX_SEGMENTS: usize = 16;

/// Memory of the host that a data descriptor names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RemoteSegment {
    /// Address in the host's terms.
    pub addr: u64,
    /// Length in bytes.
    pub len: u32,
    /// Remote key.
    pub rkey: u32,
}

/// Local bytes of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// So many bytes into the slot's buffer; a multiple of 4096 where an operation reads or writes.
    Buffer(u32),
    /// So many bytes into the in-capsule data area of the slot's receive
    /// ([`super::Queue::recv`]); a multiple of 4096 where an operation writes it.
    Capsule(u32),
}

/// An operation on a backing; offsets and lengths in bytes, checked against the namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Io {
    /// Where.
    pub backing: BackingRef,
    /// What.
    pub kind: IoKind,
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub len: u64,
    /// Data, for reads and writes.
    pub place: Place,
}

/// Kinds of operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IoKind {
    /// Fill the place.
    Read,
    /// Write the place; durable first if `fua`.
    Write {
        /// Force Unit Access.
        fua: bool,
    },
    /// Make everything durable.
    Flush,
    /// Zero the range.
    WriteZeroes {
        /// May deallocate.
        deallocate: bool,
        /// Force Unit Access.
        fua: bool,
    },
    /// The range is no longer wanted.
    Deallocate,
}

/// What a queue asks for. Actions are carried out in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// The receive's capsule has been taken in: post it again.
    ReleaseRecv(RecvToken),
    /// Wait until the slot's limits ([`super::Queue::limits`]) admit so much; answer with
    /// [`super::Queue::on_turn`]. Turns are given in the order asked for among commands with the
    /// same limits.
    AskTurn {
        /// For whom.
        slot: Slot,
        /// Commands.
        commands: u8,
        /// Bytes that they move.
        bytes: u64,
    },
    /// Charge the limits of the slot's host, and of a namespace, for bytes that were not known when it
    /// had its turn ([`super::Queue::limits_on`]).
    Charge {
        /// For whom.
        slot: Slot,
        /// Where they are.
        nsid: u32,
        /// Bytes.
        bytes: u64,
    },
    /// Find a buffer of `len` bytes; answer with [`super::Queue::on_buffer`]. Buffers are granted
    /// in the order asked for, over all queues of the core.
    Allocate {
        /// For whom.
        slot: Slot,
        /// Bytes, at most twice the largest transfer.
        len: u32,
    },
    /// Forget the slot's [`Action::AskTurn`] or [`Action::Allocate`], which was not granted yet: the
    /// command was aborted.
    Withdraw(Slot),
    /// Copy bytes of a capsule's data into the slot's buffer, at once.
    Lift {
        /// Whose buffer.
        slot: Slot,
        /// Whose receive has the data: the slot itself, or the first command of its fused pair.
        of: Slot,
        /// Bytes into the in-capsule data area of that receive.
        from: u32,
        /// How many.
        len: u32,
        /// Bytes into the buffer.
        to: u32,
    },
    /// RDMA READ the slot's segments ([`super::Queue::segments`]) one after the other into its
    /// buffer from byte [`super::Queue::pull_to`] on; answer with [`super::Queue::on_pulled`] when
    /// all are there.
    Pull(Slot),
    /// Get a range of a backing for this slot alone: answer with [`super::Queue::on_claimed`] once
    /// no operation of any other slot, queue or core on any byte of it is under way or will be
    /// begun before [`Action::Unclaim`].
    Claim {
        /// For whom.
        slot: Slot,
        /// On which backing.
        backing: BackingRef,
        /// First byte.
        offset: u64,
        /// Bytes.
        len: u64,
    },
    /// Let go of the slot's claim, granted or not.
    Unclaim(Slot),
    /// Show the bytes to [`super::Queue::on_payload`].
    Peek {
        /// For whom.
        slot: Slot,
        /// Where they are.
        place: Place,
        /// How many.
        len: u32,
    },
    /// Submit an operation; answer with [`super::Queue::on_io_done`]. A slot may have several
    /// outstanding (Dataset Management): each is answered.
    Io {
        /// For whom.
        slot: Slot,
        /// The operation.
        io: Io,
    },
    /// Compare two places; answer with [`super::Queue::on_compared`].
    Compare {
        /// For whom.
        slot: Slot,
        /// One.
        a: Place,
        /// The other.
        b: Place,
        /// Bytes.
        len: u32,
    },
    /// Hand the command ([`super::Queue::command`]) to the control thread with a copy of its data;
    /// answer with [`super::Queue::on_executed`]. The data is copied before the next action.
    Execute {
        /// For whom.
        slot: Slot,
        /// Data from the host and its length, if the command has any.
        data: Option<(Place, u32)>,
    },
    /// Tell the controller's error log that the command ([`super::Queue::command`]) fails; answer
    /// with [`super::Queue::on_reported`] when it knows.
    Report {
        /// Which.
        slot: Slot,
        /// How.
        status: Status,
        /// The field at fault.
        location: ParameterLocation,
        /// Failures before it that were not reported.
        missed: u32,
    },
    /// Answer an Abort ([`super::Queue::on_abort`]).
    Aborted {
        /// Which.
        token: AbortToken,
        /// Whether its command was stopped.
        stopped: bool,
    },
    /// Tell the control thread that the flushes it asked for with [`super::Queue::on_flush`] have
    /// ended, or how the first that failed did.
    Flushed {
        /// For whom.
        slot: Slot,
        /// The first failure.
        failed: Option<Status>,
    },
    /// Copy the outcome's data ([`super::Queue::take_fill`]) to the start of the slot's buffer.
    Fill(Slot),
    /// Send the completion, after RDMA WRITEs of the first `push` bytes of the slot's buffer over
    /// its segments; answer with [`super::Queue::on_sent`] when the SEND has completed.
    Respond {
        /// For whom.
        slot: Slot,
        /// The entry.
        completion: Completion,
        /// Bytes to write to the host first; 0 for none.
        push: u32,
        /// Invalidate this remote key of the host with the SEND.
        invalidate: Option<u32>,
    },
    /// End the connection: the host broke a rule that no completion can answer.
    Close(CloseReason),
}

/// Why a queue ends its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CloseReason {
    /// The message is shorter than a submission queue entry.
    #[error("a capsule of {0} bytes, shorter than 64")]
    ShortCapsule(u32),
    /// More capsules are outstanding than the queue has entries.
    #[error("more commands outstanding than the queue's {0} entries")]
    TooManyCommands(u16),
    /// The host asked for it: Disconnect command.
    #[error("the host sent a Disconnect command")]
    HostDisconnect,
}
