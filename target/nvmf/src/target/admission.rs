//! RDMA connect requests: is this a queue that we can serve?

use super::{Admission, Target};
use nvme_spec_types::fabrics::{CNTLID_DYNAMIC, CNTLID_MAX};
use nvme_spec_types::rdma_cm::{CmAccept, CmReject, CmRejectStatus, CmRequest, RECFMT};

/// Entries of an admin queue, at most and as discovery advertises it (ASQSZ): the least that
/// every target must offer (NVMe Base 2.1, 3.1.4 and 5.1.12.3.1) and what hosts ask for.
pub const ADMIN_QUEUE_ENTRIES: u16 = 32;

/// Why a connect request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{status}: {why}")]
pub struct RejectReason {
    status: CmRejectStatus,
    why: &'static str,
}

impl RejectReason {
    /// What the host is told.
    pub fn status(&self) -> CmRejectStatus {
        self.status
    }

    /// The private data to reject with (RDMA Transport 1.1, 3.2). The connection manager's own
    /// reason is "consumer defined".
    pub fn private_data(&self) -> [u8; 4] {
        CmReject { recfmt: RECFMT, sts: self.status }.to_bytes()
    }
}

impl Target {
    /// Judges the private data of an RDMA connect request (RDMA Transport 1.1, 3.2).
    ///
    /// # Errors
    /// [`RejectReason`] when the data is too short or of another format, the queue id is beyond
    /// what a controller may have, a size is 0 or larger than we serve, or the controller that
    /// the queue says it belongs to is not there.
    pub fn admit(&self, private_data: &[u8]) -> Result<Admission, RejectReason> {
        let no = |status, why| Err(RejectReason { status, why });
        let request = CmRequest::parse_or_status(private_data)
            .map_err(|status| RejectReason { status, why: "the private data is not readable" })?;
        let CmRequest { qid, hrqsize, hsqsize, .. } = request;
        if qid > self.config.max_io_queues {
            return no(CmRejectStatus::INVALID_QID, "no controller has so many queues");
        }
        let most = if qid == 0 { ADMIN_QUEUE_ENTRIES } else { self.config.max_queue_entries };
        // A 0's based size: as many entries as we serve is `most - 1` on the wire.
        if hsqsize.raw() == 0 || hsqsize.count() > u32::from(most) {
            return no(CmRejectStatus::INVALID_HSQSIZE, "the queue has one entry or too many");
        }
        if hrqsize == 0 {
            return no(CmRejectStatus::INVALID_HRQSIZE, "the host receives no responses");
        }
        let cntlid = match request.cntlid {
            // Hosts older than the field leave it 0.
            _ if qid == 0 => CNTLID_DYNAMIC,
            0 | CNTLID_DYNAMIC => CNTLID_DYNAMIC,
            cntlid if cntlid > CNTLID_MAX => {
                return no(CmRejectStatus::INVALID_CNTLID, "a reserved controller id");
            }
            cntlid => cntlid,
        };
        if cntlid != CNTLID_DYNAMIC && !self.controllers.keys().any(|key| key.cntlid == cntlid) {
            return no(CmRejectStatus::INVALID_CNTLID, "no such controller (any more)");
        }
        let sq_entries = hsqsize.raw() + 1;
        Ok(Admission { qid, sq_entries, host_receives: hrqsize, cntlid })
    }

    /// The private data to accept with: as many receives as the host may have sends on the way.
    pub fn accept_private_data(&self, admission: &Admission) -> [u8; 32] {
        CmAccept { recfmt: RECFMT, crqsize: admission.sq_entries }.to_bytes()
    }
}

#[cfg(test)]
mod tests;
