//! The connecting half, for both ends.

use super::device::SimEndpoint;
use super::{Conn, Event, Fabric, Net, QpState, Side};
use rdma::cm::{DeviceCaps, QpParams};
use rdma::{
    AcceptParams, CmError, CmEvent, ConnId, ConnectParams, ConnectRequest, ConnectionManager,
    Connector, CoreIndex, ListenError, ListenerId, Now, PollSource,
};
use std::net::SocketAddr;

const ACTIVE: usize = 0;
const PASSIVE: usize = 1;
/// How long a side waits for an answer that was lost, in nanoseconds.
const LOST_AFTER: u64 = 500_000_000;

/// One node's connection manager.
#[derive(Debug)]
pub struct SimCm {
    fabric: Fabric,
    node: usize,
}

impl SimCm {
    pub(super) fn new(fabric: Fabric, node: usize) -> SimCm {
        SimCm { fabric, node }
    }

    pub(super) fn node(&self) -> usize {
        self.node
    }

    fn with<R>(&self, f: impl FnOnce(&mut Net) -> R) -> R {
        f(&mut self.fabric.0.borrow_mut())
    }
}

impl ConnectionManager for SimCm {
    type Endpoint = SimEndpoint;

    fn listen(&mut self, _now: Now, addr: SocketAddr) -> Result<ListenerId, ListenError> {
        self.with(|net| {
            let listener = ListenerId(net.listeners.len() as u32);
            // Addresses do not come and go here, so one that is not there stays away.
            let there = addr.ip().is_unspecified() || addr.ip() == net.nodes[self.node].addr.ip();
            net.listeners.push((self.node, addr, there));
            let event = if there {
                CmEvent::ListenerUp { listener, device: "sim0".to_owned() }
            } else {
                CmEvent::ListenerDown {
                    listener,
                    reason: "the node has another address".into(),
                    absent: true,
                }
            };
            net.tell(self.node, event);
            Ok(listener)
        })
    }

    fn unlisten(&mut self, listener: ListenerId) {
        self.with(|net| net.listeners[listener.0 as usize].2 = false);
    }

    fn poll(&mut self, now: Now) -> Option<CmEvent> {
        self.with(|net| {
            net.now = net.now.max(now.as_nanos() as u64);
            let event = net.nodes[self.node].inbox.pop_front()?;
            // A side may send from the moment it is told that the connection is up.
            let told = match &event {
                CmEvent::Connected { conn, .. } => Some((conn.0, ACTIVE)),
                CmEvent::Established(conn) => Some((conn.0, PASSIVE)),
                _ => None,
            };
            if let Some((conn, side)) = told
                && let Some(qp) = net.conns[conn as usize].qps[side]
                && net.qps[qp].state == QpState::Init
            {
                net.qps[qp].state = QpState::Ready;
            }
            Some(event)
        })
    }

    fn prepare(
        &mut self,
        conn: ConnId,
        core: CoreIndex,
        params: &QpParams,
    ) -> Result<SimEndpoint, CmError> {
        self.with(|net| {
            let state = &net.conns[conn.0 as usize];
            if state.nodes[PASSIVE] != self.node || state.qps[PASSIVE].is_some() {
                net.violation(format!("{conn:?} prepared twice or by another"));
                return Err(CmError::Gone);
            }
            if state.sides[PASSIVE] != Side::Known {
                return Err(CmError::Gone);
            }
            let peer_answers = state.request.as_ref().map_or(0, |r| r.responder_resources);
            let device = net.nodes[self.node].devices[&core.0];
            let qp = net.make_qp(device, params, peer_answers);
            net.conns[conn.0 as usize].qps[PASSIVE] = Some(qp);
            if let Some(host) = net.conns[conn.0 as usize].qps[ACTIVE] {
                net.qps[qp].peer = Some(host);
                net.qps[host].peer = Some(qp);
            }
            Ok(SimEndpoint { qp })
        })
    }

    fn accept(&mut self, _now: Now, conn: ConnId, params: &AcceptParams) -> Result<(), CmError> {
        self.with(|net| {
            let state = &mut net.conns[conn.0 as usize];
            let Some(qp) = state.qps[PASSIVE] else {
                net.violation(format!("{conn:?} accepted without being prepared"));
                return Err(CmError::Gone);
            };
            if state.sides[PASSIVE] != Side::Known {
                return Err(CmError::Gone);
            }
            state.sides[PASSIVE] = Side::Waiting;
            state.reads = params.initiator_depth;
            let allowed = net.qps[qp].limits.max_reads;
            if u32::from(params.initiator_depth) < allowed {
                // The host answers as many READs as the accept announces.
                net.qps[qp].limits.max_reads = u32::from(params.initiator_depth);
            }
            if net.qps[qp].local.is_none() {
                net.violation(format!("{conn:?} accepted before its endpoint was attached"));
            }
            if params.rnr_retry != 7 {
                net.violation(format!("{conn:?} accepted with RNR retry {}", params.rnr_retry));
            }
            net.accepts.push(params.clone());
            let index = net.accepts.len() - 1;
            if net.rng.chance(net.config.lose_connect) {
                let at = net.now + LOST_AFTER;
                net.schedule(at, Event::Over(conn.0, ACTIVE));
                net.schedule(at + LOST_AFTER, Event::Over(conn.0, PASSIVE));
            } else {
                let at = net.now + net.latency();
                net.schedule(at, Event::Accepted(conn.0, index));
            }
            Ok(())
        })
    }

    fn reject(&mut self, _now: Now, conn: ConnId, private_data: &[u8]) {
        self.with(|net| {
            let state = &mut net.conns[conn.0 as usize];
            if state.sides[PASSIVE] != Side::Known {
                return;
            }
            state.sides[PASSIVE] = Side::Over;
            net.refusals.push(("rejected by the target".into(), private_data.to_vec()));
            let index = net.refusals.len() - 1;
            let at = net.now + net.latency();
            net.schedule(at, Event::Refused(conn.0, index));
        });
    }

    fn disconnect(&mut self, _now: Now, conn: ConnId) {
        self.with(|net| net.hang_up(conn.0, self.node));
    }

    fn destroy(&mut self, conn: ConnId, endpoint: SimEndpoint) {
        self.with(|net| {
            if !net.conns[conn.0 as usize].qps.contains(&Some(endpoint.qp)) {
                net.violation(format!("{conn:?} destroyed with another's endpoint"));
            }
            net.hang_up(conn.0, self.node);
            net.destroy_qp(endpoint.qp);
        });
    }

    fn wait_sources<'a>(&'a self, _out: &mut Vec<PollSource<'a>>) {}

    fn timeout(&self) -> Option<Now> {
        None
    }
}

impl Connector for SimCm {
    fn open(
        &mut self,
        _now: Now,
        to: SocketAddr,
        core: CoreIndex,
        params: &QpParams,
    ) -> Result<(ConnId, SimEndpoint), CmError> {
        self.with(|net| {
            let device = net.nodes[self.node].devices[&core.0];
            let qp = net.make_qp(device, params, u8::MAX);
            let matches = |&(_, addr, on): &(usize, SocketAddr, bool)| {
                on && addr.port() == to.port()
                    && (addr.ip().is_unspecified() || addr.ip() == to.ip())
            };
            let passive = net.listeners.iter().find(|l| matches(l)).map_or(usize::MAX, |l| l.0);
            net.conns.push(Conn {
                nodes: [self.node, passive],
                sides: [Side::Known, Side::Unaware],
                qps: [Some(qp), None],
                request: None,
                reads: 0,
            });
            Ok((ConnId(net.conns.len() as u64 - 1), SimEndpoint { qp }))
        })
    }

    fn connect(&mut self, _now: Now, conn: ConnId, params: &ConnectParams) -> Result<(), CmError> {
        self.with(|net| {
            let state = &mut net.conns[conn.0 as usize];
            if state.sides[ACTIVE] != Side::Known {
                return Err(CmError::Gone);
            }
            state.sides[ACTIVE] = Side::Waiting;
            state.request = Some(params.clone());
            let reachable = state.nodes[PASSIVE] != usize::MAX;
            let mut after = net.latency();
            let refused = if net.rng.chance(net.config.lose_connect) {
                after = LOST_AFTER;
                Some("no answer")
            } else if net.rng.chance(net.config.refuse) {
                Some("the network refused")
            } else if !reachable {
                Some("nobody listens")
            } else {
                None
            };
            let at = net.now + after;
            match refused {
                Some(reason) => {
                    net.refusals.push((reason.into(), Vec::new()));
                    let index = net.refusals.len() - 1;
                    net.schedule(at, Event::Refused(conn.0, index));
                }
                None => net.schedule(at, Event::Request(conn.0)),
            }
            Ok(())
        })
    }
}

impl Net {
    fn tell(&mut self, node: usize, event: CmEvent) {
        self.nodes[node].inbox.push_back(event);
    }

    pub(super) fn on_request(&mut self, conn: u64) {
        let state = &mut self.conns[conn as usize];
        if state.sides != [Side::Waiting, Side::Unaware] {
            return;
        }
        state.sides[PASSIVE] = Side::Known;
        let [active, passive] = state.nodes;
        let Some(params) = state.request.clone() else { return };
        let listeners = self.listeners.iter();
        let listener = listeners.clone().position(|l| l.0 == passive && l.2).unwrap_or(0);
        let mut private_data = params.private_data;
        // Some providers pad private data to their maximum.
        if self.rng.chance(5_000) {
            private_data.resize(56, 0);
        }
        let request = ConnectRequest {
            conn: ConnId(conn),
            listener: ListenerId(listener as u32),
            local: self.nodes[passive].addr,
            peer: self.nodes[active].addr,
            private_data,
            responder_resources: params.responder_resources,
            initiator_depth: params.initiator_depth,
            device: DeviceCaps {
                name: "sim0".into(),
                max_qp_wr: self.config.max_qp_wr,
                max_qp_reads: self.config.device_reads,
            },
        };
        self.tell(passive, CmEvent::Request(request));
    }

    pub(super) fn on_accepted(&mut self, conn: u64, index: usize) {
        let state = &mut self.conns[conn as usize];
        if state.sides[ACTIVE] != Side::Waiting {
            return;
        }
        state.sides[ACTIVE] = Side::Up;
        let node = state.nodes[ACTIVE];
        let accept = self.accepts[index].clone();
        self.tell(
            node,
            CmEvent::Connected {
                conn: ConnId(conn),
                private_data: accept.private_data,
                initiator_depth: accept.initiator_depth,
                responder_resources: accept.responder_resources,
            },
        );
        let at = self.now + self.latency();
        self.schedule(at, Event::Confirmed(conn));
    }

    pub(super) fn on_confirmed(&mut self, conn: u64) {
        let state = &mut self.conns[conn as usize];
        if state.sides[PASSIVE] == Side::Waiting {
            state.sides[PASSIVE] = Side::Up;
            let node = state.nodes[PASSIVE];
            self.tell(node, CmEvent::Established(ConnId(conn)));
        }
    }

    pub(super) fn on_refused(&mut self, conn: u64, index: usize) {
        let state = &mut self.conns[conn as usize];
        if state.sides[ACTIVE] != Side::Waiting {
            return;
        }
        state.sides[ACTIVE] = Side::Over;
        let node = state.nodes[ACTIVE];
        let (reason, private_data) = self.refusals[index].clone();
        self.tell(node, CmEvent::Refused { conn: ConnId(conn), reason, private_data });
    }

    /// `side` learns that the connection is over.
    pub(super) fn on_over(&mut self, conn: u64, side: usize) {
        let state = &mut self.conns[conn as usize];
        let (node, conn) = (state.nodes[side], ConnId(conn));
        let before = std::mem::replace(&mut state.sides[side], Side::Over);
        let qp = state.qps[side];
        let reason = "the peer is gone".to_owned();
        match (before, side) {
            (Side::Over, _) => return,
            (Side::Unaware, _) | (Side::Known, ACTIVE) => return,
            (Side::Waiting, ACTIVE) => {
                self.tell(node, CmEvent::Refused { conn, reason, private_data: Vec::new() });
            }
            _ => self.tell(node, CmEvent::Disconnected { conn, reason }),
        }
        if let Some(qp) = qp {
            let at = self.now + self.rng.below(100_000);
            self.schedule(at, Event::Fail(qp));
        }
    }

    /// `node` ends a connection.
    fn hang_up(&mut self, conn: u64, node: usize) {
        let state = &mut self.conns[conn as usize];
        let side = if state.nodes[ACTIVE] == node { ACTIVE } else { PASSIVE };
        if state.sides[side] == Side::Over {
            return;
        }
        // Some providers confirm the end to the side that asked for it, others do not.
        let confirm = state.sides[side] == Side::Up && self.rng.chance(5_000);
        let state = &mut self.conns[conn as usize];
        if !confirm {
            state.sides[side] = Side::Over;
        }
        let own = state.qps[side];
        let at = self.now + self.latency();
        self.schedule(at, Event::Over(conn, 1 - side));
        if confirm {
            let at = at + self.latency();
            self.schedule(at, Event::Over(conn, side));
        }
        if let Some(qp) = own {
            self.fail(qp);
        }
    }

    /// The way between the two is cut.
    pub(super) fn cut(&mut self, conn: u64) {
        for side in [ACTIVE, PASSIVE] {
            if let Some(qp) = self.conns[conn as usize].qps[side] {
                let at = self.now + self.rng.below(2_000_000);
                self.schedule(at, Event::Fail(qp));
            }
            let at = self.now + self.rng.range(100_000, 20_000_000);
            self.schedule(at, Event::Over(conn, side));
        }
    }
}
