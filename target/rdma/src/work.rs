//! Work requests and their completions.

use crate::{QpId, WrId};
use region::Span;

/// Memory of the peer: a virtual address of its choosing and the key that opens it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RemoteAddr {
    /// Address of the first byte, in the peer's terms.
    pub addr: u64,
    /// Remote key.
    pub rkey: u32,
}

/// A receive: where one incoming message is put.
///
/// The message fills `head` first, then `tail`; an empty `tail` makes a receive of one segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecvWr {
    /// Given back in the completion.
    pub wr_id: WrId,
    /// First bytes of the message.
    pub head: Span,
    /// The rest of the message.
    pub tail: Span,
}

/// What a send-side work request does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SendOp {
    /// SEND: the local bytes arrive in the peer's next receive.
    Send,
    /// SEND with Invalidate: as SEND, and the peer's `rkey` is invalid when it arrives.
    SendWithInvalidate {
        /// The peer's remote key to invalidate.
        rkey: u32,
    },
    /// RDMA WRITE: the local bytes go to the peer's memory.
    Write {
        /// Destination.
        remote: RemoteAddr,
    },
    /// RDMA READ: bytes of the peer's memory come to the local span.
    Read {
        /// Source.
        remote: RemoteAddr,
    },
}

/// A send-side work request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SendWr {
    /// Given back in the completion.
    pub wr_id: WrId,
    /// What to do.
    pub op: SendOp,
    /// The local bytes: source of a SEND or WRITE, destination of a READ. The caller leaves them
    /// alone until the work request, or a later one of the same queue pair, has completed.
    pub local: Span,
    /// Whether success yields a completion. READs are always signaled.
    pub signaled: bool,
}

/// What a completion is of.
///
/// Providers fill it for failed completions too (they know it from their own records).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WcOp {
    /// A receive took a message of this many bytes; zero when the status is not success.
    Recv {
        /// Bytes of the message.
        byte_len: u32,
        /// Local key that the peer's SEND with Invalidate invalidated, where the device says so (the
        /// kernel's soft iWARP does not).
        invalidated: Option<u32>,
    },
    /// Any send-side work request: the caller tells them apart by `wr_id`.
    Send,
}

/// How a work request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WcStatus {
    /// Carried out.
    Success,
    /// Not carried out: the queue pair had failed before.
    Flushed,
    /// The peer refused the access: key, bounds or permission.
    RemoteAccess,
    /// The peer found the request invalid.
    RemoteInvalidRequest,
    /// The peer could not carry it out.
    RemoteOperation,
    /// The peer did not acknowledge within the retries.
    RetryExceeded,
    /// The peer had no receive posted within the retries.
    RnrRetryExceeded,
    /// The message did not fit the receive, or a local key, bound or length was wrong.
    LocalError,
    /// Anything else, with the provider's own code.
    Other(u32),
}

/// A completion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wc {
    /// Of the work request.
    pub wr_id: WrId,
    /// The queue pair it was carried out on (for a shared receive queue: that took the message).
    pub qp: QpId,
    /// What it was.
    pub op: WcOp,
    /// How it ended.
    pub status: WcStatus,
}

impl Wc {
    /// Whether the work request was carried out.
    pub fn is_ok(&self) -> bool {
        self.status == WcStatus::Success
    }
}
