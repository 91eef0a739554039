//! A queue pair on its way between the connection manager and a core.

use crate::path::Path;
use crate::psn::Psn;
use rdma::QpLimits;
use std::sync::{Arc, OnceLock};

/// What is known of the peer once the connection is set up. On the passive side from the start;
/// on the active side when the reply has come, which the core sees at its next packet or post.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer {
    pub(crate) path: Path,
    /// The first packet that we send.
    pub(crate) first_psn: Psn,
    /// READs of ours that may be out.
    pub(crate) max_reads: u32,
}

/// What [`crate::Manager`] makes and [`crate::SoftDevice`] takes in.
#[derive(Debug)]
pub struct Endpoint {
    /// Our queue pair number.
    pub(crate) qpn: u32,
    /// The first packet that the peer sends.
    pub(crate) expected_psn: Psn,
    /// READs of the peer that we answer at a time.
    pub(crate) resources: u32,
    pub(crate) limits: QpLimits,
    pub(crate) recv_depth: u32,
    /// Whether to take from the core's shared receive queue, where it has one.
    pub(crate) shared_recv: bool,
    pub(crate) peer: Arc<OnceLock<Peer>>,
    /// The core's socket at the connection's local address.
    pub(crate) socket: Option<Arc<crate::socket::Socket>>,
}
