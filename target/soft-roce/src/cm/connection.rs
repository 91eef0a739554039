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
/// How long an ended or refused connection is remembered, to answer repeats of its messages.
pub(crate) const LINGER: Duration = Duration::from_secs(10);

/// What a connection waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
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
    pub(crate) due: Now,
    pub(crate) wait: Duration,
    pub(crate) left: u32,
}

impl Repeat {
    pub(crate) fn starting(now: Now, repeats: u32) -> Repeat {
        Repeat { due: now + FIRST_WAIT, wait: FIRST_WAIT, left: repeats }
    }

    /// Whether to send once more; moves on to the next wait.
    pub(crate) fn again(&mut self, now: Now) -> bool {
        if self.left == 0 {
            return false;
        }
        self.left -= 1;
        self.wait = (self.wait * 2).min(LONGEST_WAIT);
        self.due = now + self.wait;
        true
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
    /// When an ended connection is forgotten.
    pub(crate) forget: Option<Now>,
    pub(crate) passive: bool,
    /// Of the peer's request; the answer repeats it.
    pub(crate) transaction: u64,
}

impl Connection {
    /// When its timer is due.
    pub(crate) fn due(&self) -> Option<Now> {
        self.repeat.as_ref().map(|repeat| repeat.due).or(self.forget)
    }
}
