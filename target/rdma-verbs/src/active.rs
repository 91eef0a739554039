//! The connecting side, for hosts.
//!
//! Finding the address and the way to it is done at once, on an id that blocks (librdmacm gives
//! an id without a channel one of its own), which then moves to our event channel.

use crate::endpoint::Endpoint;
use crate::id::CmId;
use crate::manager::{Phase, Verbs};
use crate::sys;
use rdma::cm::QpParams;
use rdma::{CmError, ConnId, ConnectParams, Connector, CoreIndex, Now};
use std::net::SocketAddr;

/// How long finding the address, and the way to it, may take each, in milliseconds.
const RESOLVE_MS: i32 = 2000;

/// A host offers what it has: its receives are posted before it asks.
const RNR_RETRY: u8 = 7;

impl Connector for Verbs {
    fn open(
        &mut self,
        _now: Now,
        to: SocketAddr,
        core: CoreIndex,
        params: &QpParams,
    ) -> Result<(ConnId, Endpoint), CmError> {
        let key = self.take_key();
        let id = CmId::resolve(&self.channel, key, to, RESOLVE_MS)
            .map_err(|source| CmError::System { what: "finding the way to the peer", source })?;
        if let Some(class) = self.config.traffic_class {
            // SAFETY: the id exists.
            unsafe { sys::set_traffic_class(id.as_ptr(), class) }
                .map_err(|source| CmError::System { what: "setting the traffic class", source })?;
        }
        self.conns.insert(key, crate::manager::Conn::active(id));
        match self.make_endpoint(key, core, params) {
            Ok(endpoint) => Ok((ConnId(key), endpoint)),
            Err(e) => {
                self.conns.remove(&key);
                Err(e)
            }
        }
    }

    fn connect(&mut self, _now: Now, conn: ConnId, params: &ConnectParams) -> Result<(), CmError> {
        let record = self.conns.get(&conn.0).ok_or(CmError::Gone)?;
        if record.phase == Phase::Gone {
            return Err(CmError::Gone);
        }
        let id = record.id.clone();
        let nic = self.nic_of(&id)?;
        let mut param = Verbs::conn_param(
            &nic,
            &params.private_data,
            params.initiator_depth,
            params.responder_resources,
            RNR_RETRY,
        );
        // SAFETY: the id exists and has its queue pair; the private data lives during the call.
        let asked = sys::cm_result(unsafe { rdma_sys::rdma_connect(id.as_ptr(), &raw mut param) });
        match asked {
            Ok(()) => {
                if let Some(record) = self.conns.get_mut(&conn.0) {
                    record.phase = Phase::Answered;
                }
                Ok(())
            }
            // Some devices try at once; the seam tells of it later.
            Err(e) if is_refusal(&e) => {
                self.refuse(conn.0, e.to_string(), Vec::new());
                Ok(())
            }
            Err(source) => Err(CmError::System { what: "asking for a connection", source }),
        }
    }
}

/// Whether an error is the peer's or the network's answer rather than the system's.
fn is_refusal(e: &std::io::Error) -> bool {
    matches!(
        e.raw_os_error(),
        Some(
            libc::ECONNREFUSED
                | libc::ECONNRESET
                | libc::ETIMEDOUT
                | libc::EHOSTUNREACH
                | libc::ENETUNREACH
        )
    )
}
