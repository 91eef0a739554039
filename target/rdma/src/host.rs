//! What a host needs beyond the target's half: to connect, and to open memory to its peer.

use crate::{CmError, ConnId, ConnectionManager, CoreIndex, Device, Now, QpId, cm::QpParams};
use region::Span;
use std::net::SocketAddr;

/// What a connect request tells the peer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectParams {
    /// Private data, at most 56 bytes.
    pub private_data: Vec<u8>,
    /// RDMA READs that we may have outstanding.
    pub initiator_depth: u8,
    /// RDMA READs of the peer that we are ready to answer.
    pub responder_resources: u8,
}

/// The active side of connection management.
pub trait Connector: ConnectionManager {
    /// Makes a queue pair on the device of `core` for a connection to `to`. Once the endpoint is
    /// attached and has receives posted, [`connect`](Self::connect) sends the request.
    fn open(
        &mut self,
        now: Now,
        to: SocketAddr,
        core: CoreIndex,
        params: &QpParams,
    ) -> Result<(ConnId, Self::Endpoint), CmError>;

    /// Sends the request. Answered by [`crate::CmEvent::Connected`] or
    /// [`crate::CmEvent::Refused`].
    fn connect(&mut self, now: Now, conn: ConnId, params: &ConnectParams) -> Result<(), CmError>;
}

/// What a peer may do with opened memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// RDMA READ.
    RemoteRead,
    /// RDMA WRITE (and READ).
    RemoteWrite,
}

/// A device whose owner opens memory to the peer.
pub trait HostDevice: Device {
    /// Opens `span` to the peer of `qp` and returns the remote address and key to tell it, or
    /// `None` when the device has no key left. The key opens the span and no more, with one known
    /// exception: the kernel's soft-RoCE checks the rights of a memory window and not its bounds,
    /// so there an open key reaches all of the region.
    fn expose(&mut self, qp: QpId, span: Span, access: Access) -> Option<crate::RemoteAddr>;

    /// Closes it again. Harmless after the peer's SEND with Invalidate has done so.
    fn unexpose(&mut self, qp: QpId, rkey: u32);
}
