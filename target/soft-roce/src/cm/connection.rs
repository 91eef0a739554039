//! One connection's state.

use crate::wire::cm::Mad;
use rdma::{ConnId, Now};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// First wait for an answer; doubled at each repeat up to [`LONGEST_WAIT`].
pub(crate) const FIRST_WAIT: Duration = Duration::from_millis(100);
pub(crate) const LONGEST_WAIT: Duration = Duration::from_secs(2);
/// Repeats of a request or reply before the peer counts as gone: about 11 s in all.
pub(crate) const REPEATS: u32 = 8;
/// Repeats of a disconnect request: about 1.5 s in all.
pub(crate) const DISCONNECT_REPEATS: u32 = 3;
/// How long our own side may take to decide about a request; then it is refused.
pub(crate) const DECIDE_WITHIN: Duration = Duration::from_secs(20);
/// Longest extension of a wait that one message of the peer gets, as a code of the CM: 17 s.
pub(crate) const LONGEST_MRA: u8 = 22;
/// How long an ended or refused connection is remembered, to answer repeats of its messages.
pub(crate) const LINGER: Duration = Duration::from_secs(10);

/// What a connection waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// Active: for our own side to send the request.
    Idle,
    /// Passive: for our own side to accept or reject.
    AwaitDecision,
    /// Passive: for the peer's RTU to the reply that was sent.
    AwaitReady,
    /// Active: for the answer to the request that was sent.
    AwaitReply,
    /// For nothing: it is up.
    Established,
    /// For the answer to our disconnect request.
    AwaitDisconnected,
    /// For its remains to be forgotten.
    Ended,
}

/// A message that is repeated until it is answered.
#[derive(Debug, Clone)]
pub(crate) struct Repeat {
    pub(crate) wait: Duration,
    pub(crate) left: u32,
}

impl Repeat {
    pub(crate) fn new(repeats: u32) -> Repeat {
        Repeat { wait: FIRST_WAIT, left: repeats }
    }

    /// How long to wait after sending once more; `None` when it was sent often enough.
    pub(crate) fn again(&mut self) -> Option<Duration> {
        self.left = self.left.checked_sub(1)?;
        self.wait = (self.wait * 2).min(LONGEST_WAIT);
        Some(self.wait)
    }
}

/// See the module's words.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) id: ConnId,
    pub(crate) state: State,
    pub(crate) local_comm_id: u32,
    /// Zero until it is known.
    pub(crate) remote_comm_id: u32,
    /// Where its messages go from and to.
    pub(crate) local: IpAddr,
    pub(crate) peer: IpAddr,
    /// The addresses that the upper layers know it by.
    pub(crate) local_addr: SocketAddr,
    pub(crate) peer_addr: SocketAddr,
    pub(crate) local_qpn: u32,
    pub(crate) remote_qpn: u32,
    pub(crate) remote_guid: u64,
    /// The last message of ours, to be sent again when the peer's is repeated or not answered.
    pub(crate) last: Option<Mad>,
    pub(crate) repeat: Option<Repeat>,
    /// When its timer is due, if it runs.
    pub(crate) timer: Option<Now>,
    pub(crate) passive: bool,
    /// Of the peer's request; the answer repeats it.
    pub(crate) transaction: u64,
}

impl Connection {
    /// Whether a peer made us hold it without anyone having agreed to it yet.
    pub(crate) fn is_half_open(&self) -> bool {
        self.passive && matches!(self.state, State::AwaitDecision | State::AwaitReady)
    }
}
