//! A host that only knocks: connect requests with any private data, connections on which nothing
//! is ever sent, connections dropped at any point.

use crate::net::{SimCm, SimDevice};
use crate::rng::Rng;
use nvme_spec_types::ZeroBased;
use nvme_spec_types::rdma_cm::CmRequest;
use rdma::cm::QpParams;
use rdma::{
    CmEvent, ConnId, ConnectParams, ConnectionManager, Connector, CoreIndex, Device, Now, QpId,
};
use std::net::SocketAddr;

/// Connections at a time at most.
const MOST: usize = 12;

/// See the [module](self).
pub struct Knocker {
    cm: SimCm,
    device: SimDevice,
    target: SocketAddr,
    rng: Rng,
    budget: u32,
    /// Connections, and whether each is over.
    open: Vec<(ConnId, QpId, bool)>,
}

impl Knocker {
    /// One that knocks `budget` times.
    pub fn new(cm: SimCm, device: SimDevice, target: SocketAddr, rng: Rng, budget: u32) -> Knocker {
        Knocker { cm, device, target, rng, budget, open: Vec::new() }
    }

    /// Whether nothing is left of it.
    pub fn is_gone(&self) -> bool {
        self.budget == 0 && self.open.is_empty()
    }

    /// Hangs up everywhere and knocks no more.
    pub fn leave(&mut self, now: Now) {
        self.budget = 0;
        for (conn, qp, over) in &mut self.open {
            self.cm.disconnect(now, *conn);
            self.device.fail(*qp);
            *over = true;
        }
    }

    /// One turn.
    pub fn turn(&mut self, now: Now) -> bool {
        let mut worked = false;
        while let Some(event) = self.cm.poll(now) {
            worked = true;
            if let CmEvent::Refused { conn, .. } | CmEvent::Disconnected { conn, .. } = event {
                self.hang_up(conn);
            }
        }
        while let Some(at) = self.open.iter().position(|&(_, _, over)| over) {
            let (conn, qp, _) = self.open.swap_remove(at);
            let endpoint = self.device.detach(qp);
            self.cm.destroy(conn, endpoint);
            worked = true;
        }
        if self.budget > 0 && self.open.len() < MOST && self.rng.chance(2_000) {
            self.budget -= 1;
            self.knock(now);
            worked = true;
        }
        if !self.open.is_empty() && self.rng.chance(300) {
            let conn = self.open[self.rng.below(self.open.len() as u64) as usize].0;
            self.cm.disconnect(now, conn);
            self.hang_up(conn);
            worked = true;
        }
        worked
    }

    fn hang_up(&mut self, conn: ConnId) {
        if let Some((_, qp, over)) = self.open.iter_mut().find(|(c, ..)| *c == conn) {
            self.device.fail(*qp);
            *over = true;
        }
    }

    fn knock(&mut self, now: Now) {
        let params = QpParams { send_depth: 4, recv_depth: 4, max_reads: 1, shared_recv: false };
        let Ok((conn, endpoint)) = self.cm.open(now, self.target, CoreIndex(0), &params) else {
            return;
        };
        let qp = self.device.attach(endpoint).qp;
        self.open.push((conn, qp, false));
        let private_data = if self.rng.chance(5_000) {
            let request = CmRequest {
                recfmt: 0,
                qid: self.rng.below(3) as u16,
                hrqsize: self.rng.below(200) as u16,
                hsqsize: ZeroBased::<u16>::from_raw(self.rng.below(200) as u16),
                cntlid: self.rng.below(3) as u16,
            };
            request.to_bytes().to_vec()
        } else {
            (0..self.rng.below(57)).map(|_| self.rng.next() as u8).collect()
        };
        let answers = self.rng.next() as u8;
        let params =
            ConnectParams { private_data, initiator_depth: 0, responder_resources: answers };
        if self.cm.connect(now, conn, &params).is_err() {
            self.hang_up(conn);
        }
    }
}
