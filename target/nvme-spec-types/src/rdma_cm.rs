//! RDMA connection manager private data, which sizes a queue before it exists.

use crate::{ParseError, ZeroBased};

/// The UDP, TCP and RDMA port number assigned to NVMe over Fabrics.
pub const NVME_RDMA_PORT: u16 = 4420;

/// The record format all of these have (RECFMT).
pub const RECFMT: u16 = 0;

layout! {
    /// Private data of a connect request (RDMA Transport 1.1, 3.2,
    /// "RDMA_CM_REQUEST private data").
    pub struct CmRequest[32] {
        /// Record format; see [`RECFMT`].
        0 => pub recfmt: u16,
        /// Queue identifier: 0 the admin queue.
        2 => pub qid: u16,
        /// Receives the host has room for (HRQSIZE), a count: the responses
        /// that may be on the way at once.
        4 => pub hrqsize: u16,
        /// Sends the host may have on the way (HSQSIZE): the receives that
        /// the target provides. Equal to SQSIZE of the Connect to come.
        6 => pub hsqsize: ZeroBased<u16>,
        /// Controller an I/O queue belongs to (CNTLID), or 0 for the admin
        /// queue and for hosts that do not say.
        8 => pub cntlid: u16,
    }
}

layout! {
    /// Private data of an accept (RDMA Transport 1.1, 3.2,
    /// "RDMA_CM_ACCEPT private data").
    pub struct CmAccept[32] {
        /// Record format; see [`RECFMT`].
        0 => pub recfmt: u16,
        /// Receives the target provides (CRQSIZE), a count.
        2 => pub crqsize: u16,
    }
}

layout! {
    /// Private data of a reject (RDMA Transport 1.1, 3.2,
    /// "RDMA_CM_REJECT private data"). The connection manager's own reason is
    /// then "consumer defined", 28.
    pub struct CmReject[4] {
        /// Record format; see [`RECFMT`].
        0 => pub recfmt: u16,
        /// Why.
        2 => pub sts: CmRejectStatus,
    }
}

codes! {
    /// Why a connect request was rejected (RDMA Transport 1.1, 3.2).
    pub struct CmRejectStatus(u16) {
        INVALID_PRIVATE_DATA_LENGTH = 0x01, "invalid RDMA private data length";
        INVALID_RECFMT = 0x02, "invalid RECFMT";
        INVALID_QID = 0x03, "invalid QID";
        INVALID_HSQSIZE = 0x04, "invalid HSQSIZE";
        INVALID_HRQSIZE = 0x05, "invalid HRQSIZE";
        NO_RESOURCES = 0x06, "no RDMA resources";
        INVALID_IRD = 0x07, "invalid IRD";
        INVALID_ORD = 0x08, "invalid ORD";
        INVALID_CNTLID = 0x09, "invalid CNTLID";
    }
}

impl CmRequest {
    /// Reads the private data of a request, answering what can be judged
    /// without knowing the target: length and record format.
    ///
    /// # Errors
    /// The status to reject the request with.
    pub fn parse_or_status(private_data: &[u8]) -> Result<Self, CmRejectStatus> {
        let request = Self::parse(private_data)
            .map_err(|ParseError { .. }| CmRejectStatus::INVALID_PRIVATE_DATA_LENGTH)?;
        if request.recfmt != RECFMT {
            return Err(CmRejectStatus::INVALID_RECFMT);
        }
        Ok(request)
    }
}

#[cfg(test)]
mod tests;
