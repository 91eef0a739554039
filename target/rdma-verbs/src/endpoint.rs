//! A queue pair on its way between the connection manager and the core.

use crate::context::{CoreNic, Cq};
use crate::expose::ExposeTable;
use crate::id::CmId;
use crate::recv_table::RecvTable;
use crate::send_ring::SendRing;
use rdma::{ConnId, QpLimits};
use rdma_sys::ibv_qp;
use std::sync::Arc;

/// A queue pair with the tables of its work requests, all allocated beforehand.
///
/// It keeps the queue pair alive: what was prepared is freed when both this and the connection
/// manager's record are gone.
#[derive(Debug)]
pub struct Endpoint {
    pub(crate) conn: ConnId,
    pub(crate) sends: SendRing,
    /// `None` when it takes from the shared queue.
    pub(crate) recvs: Option<RecvTable>,
    pub(crate) exposed: ExposeTable,
    pub(crate) limits: QpLimits,
    // Order matters: the id's queue pair goes before what it uses.
    pub(crate) id: Arc<CmId>,
    pub(crate) cq: Arc<Cq>,
}

impl Endpoint {
    /// The queue pair.
    pub(crate) fn qp(&self) -> *mut ibv_qp {
        self.id.qp()
    }

    /// The queue pair's number on the wire.
    pub(crate) fn qp_num(&self) -> u32 {
        // SAFETY: the id keeps the queue pair, which an endpoint always has.
        unsafe { (*self.id.qp()).qp_num }
    }

    /// What the core has on the card.
    pub(crate) fn nic(&self) -> &Arc<CoreNic> {
        self.cq.core()
    }

    /// The connection that it belongs to.
    pub fn conn(&self) -> ConnId {
        self.conn
    }
}
