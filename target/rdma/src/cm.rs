//! The half of a provider that connects: used by the control thread only.

use crate::device::PollSource;
use crate::{ConnId, CoreIndex, ListenerId, Now};
use std::net::SocketAddr;

/// A peer asks for a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectRequest {
    /// The connection, until [`ConnectionManager::reject`] or [`ConnectionManager::destroy`].
    pub conn: ConnId,
    /// The listener that it came to.
    pub listener: ListenerId,
    /// The address that the peer reached (with a wildcard listener: the concrete one).
    pub local: SocketAddr,
    /// The peer's address.
    pub peer: SocketAddr,
    /// The request's private data as the peer's upper layer gave it, at most 56 bytes for IP
    /// connection management; a provider may have padded it with zeroes to its maximum.
    pub private_data: Vec<u8>,
    /// RDMA READs that the peer is ready to answer at a time (0 to 255).
    pub responder_resources: u8,
    /// RDMA READs that the peer wants to have outstanding itself (0 to 255).
    pub initiator_depth: u8,
    /// What the device at the local address can do.
    pub device: DeviceCaps,
}

/// What a device can do, for sizing a queue pair on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceCaps {
    /// Its name, as an operator knows it ("mlx5_0", "rxe0", "soft").
    pub name: String,
    /// Largest count of send-side or receive work requests of one queue pair.
    pub max_qp_wr: u32,
    /// Largest count of RDMA READs that one queue pair may have outstanding.
    pub max_qp_reads: u8,
}

/// How large to make a queue pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QpParams {
    /// Send-side work requests that may be outstanding.
    pub send_depth: u32,
    /// Receives that may be posted, when the queue pair has a receive queue of its own.
    pub recv_depth: u32,
    /// RDMA READs that may be outstanding, at least 1.
    pub max_reads: u8,
    /// Whether to take from a shared receive queue where the device has one.
    pub shared_recv: bool,
}

/// What an accept tells the peer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AcceptParams {
    /// Private data, at most 196 bytes.
    pub private_data: Vec<u8>,
    /// RDMA READs that we will have outstanding at most; a Linux host refuses our READs when it
    /// is 0.
    pub initiator_depth: u8,
    /// RDMA READs of the peer that we are ready to answer.
    pub responder_resources: u8,
    /// How often the peer's missing receive is tried again; 7 means for ever.
    pub rnr_retry: u8,
}

/// What a connection manager has to tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CmEvent {
    /// A peer asks for a connection: answer with prepare and accept, or reject.
    Request(ConnectRequest),
    /// An accepted connection is up. Messages may have arrived before this.
    Established(ConnId),
    /// The connection is gone (peer, network or device), or never came up. Its endpoint, where
    /// prepared, still has to be drained and destroyed; a connection without one is forgotten.
    Disconnected {
        /// Which.
        conn: ConnId,
        /// Why, in words for a log line.
        reason: String,
    },
    /// Active side: the peer accepted.
    Connected {
        /// Which.
        conn: ConnId,
        /// The accept's private data, possibly padded with zeroes.
        private_data: Vec<u8>,
        /// RDMA READs that the peer will have outstanding at most.
        initiator_depth: u8,
        /// RDMA READs of ours that the peer is ready to answer.
        responder_resources: u8,
    },
    /// Active side: the peer, or the way to it, refused. The endpoint, where prepared, is still to
    /// be destroyed. Where somebody is there to say no this comes at once; where nobody answers at
    /// all, only when the provider gives up, which may take as long as its longest retries. Receives
    /// of the queue pair may come back flushed before this is told.
    Refused {
        /// Which.
        conn: ConnId,
        /// Why, in words.
        reason: String,
        /// The reject's private data, if any.
        private_data: Vec<u8>,
    },
    /// A listener stopped hearing: its device or address went away. The provider tries again by
    /// itself and reports [`CmEvent::ListenerUp`].
    ListenerDown {
        /// Which.
        listener: ListenerId,
        /// Why, and what to do about it.
        reason: String,
        /// Whether its address or device is merely not there: nothing is wrong with what was asked
        /// for, and it may come.
        absent: bool,
    },
    /// A listener hears (again).
    ListenerUp {
        /// Which.
        listener: ListenerId,
        /// The device that serves it.
        device: String,
    },
}

/// Why an address cannot be listened on now.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// No use in trying again: the address or the setup is wrong.
    #[error("cannot listen on {addr}: {reason}")]
    Invalid {
        /// The address asked for.
        addr: SocketAddr,
        /// What is wrong, and what to do.
        reason: String,
    },
}

/// Why an operation on a connection failed. The connection is to be rejected or destroyed.
#[derive(Debug, thiserror::Error)]
pub enum CmError {
    /// The connection is gone already.
    #[error("the connection is gone")]
    Gone,
    /// A resource ran out: memory to lock, queue pairs, completion queue entries.
    #[error("{what} failed: {source}; {hint}")]
    Resources {
        /// The step that failed.
        what: &'static str,
        /// The system's answer.
        source: std::io::Error,
        /// What to do.
        hint: &'static str,
    },
    /// Any other refusal of the system.
    #[error("{what} failed: {source}")]
    System {
        /// The step that failed.
        what: &'static str,
        /// The system's answer.
        source: std::io::Error,
    },
}

/// The connecting half of a provider.
///
/// Life of an accepted connection: [`CmEvent::Request`] → [`prepare`](Self::prepare) → the core
/// attaches the endpoint and posts receives → [`accept`](Self::accept) → [`CmEvent::Established`]
/// → … → [`CmEvent::Disconnected`] and/or [`disconnect`](Self::disconnect) → the core drains and
/// detaches → [`destroy`](Self::destroy).
pub trait ConnectionManager {
    /// What [`crate::Device::attach`] takes.
    type Endpoint: Send;

    /// Starts to listen on `addr` (the wildcard address listens everywhere). When the address or
    /// its device is not there yet the listener is made all the same: it reports
    /// [`CmEvent::ListenerDown`] and keeps trying.
    fn listen(&mut self, now: Now, addr: SocketAddr) -> Result<ListenerId, ListenError>;

    /// Stops listening. Connections that came through it stay.
    fn unlisten(&mut self, listener: ListenerId);

    /// The next event, if one is there. Never blocks.
    fn poll(&mut self, now: Now) -> Option<CmEvent>;

    /// Makes the queue pair of a requested connection on the device of `core`, ready to receive.
    fn prepare(
        &mut self,
        conn: ConnId,
        core: CoreIndex,
        params: &QpParams,
    ) -> Result<Self::Endpoint, CmError>;

    /// Tells the peer yes. The endpoint was prepared, attached, and has receives posted.
    fn accept(&mut self, now: Now, conn: ConnId, params: &AcceptParams) -> Result<(), CmError>;

    /// Tells the peer no, with at most 148 bytes of private data (reason: consumer defined), and
    /// forgets the connection unless it has an endpoint, which is then still to be destroyed.
    fn reject(&mut self, now: Now, conn: ConnId, private_data: &[u8]);

    /// Ends the connection from our side. Harmless when it is gone already. The peer is told once;
    /// whether this side gets a [`CmEvent::Disconnected`] of its own making differs by provider.
    fn disconnect(&mut self, now: Now, conn: ConnId);

    /// Frees the queue pair and forgets the connection.
    fn destroy(&mut self, conn: ConnId, endpoint: Self::Endpoint);

    /// What to sleep on until [`poll`](Self::poll) may have something.
    fn wait_sources<'a>(&'a self, out: &mut Vec<PollSource<'a>>);

    /// When [`poll`](Self::poll) must be called next even if no source is readable.
    fn timeout(&self) -> Option<Now>;
}
