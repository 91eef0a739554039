//! The data half, for both ends.

use super::{Entry, Event, Fabric, Key, Net, QpState};
use rdma::{
    Access, Attached, Device, HostDevice, Now, PollSource, QpId, RecvQueue, RecvQueueId, RecvWr,
    RemoteAddr, SendOp, SendWr, Wc, WcStatus,
};
use region::Span;

/// A queue pair between connection manager and device.
#[derive(Debug)]
pub struct SimEndpoint {
    pub(super) qp: usize,
}

/// One node's device for one core.
#[derive(Debug)]
pub struct SimDevice {
    fabric: Fabric,
    device: usize,
}

impl SimDevice {
    pub(super) fn new(fabric: Fabric, device: usize) -> SimDevice {
        SimDevice { fabric, device }
    }

    fn with<R>(&self, f: impl FnOnce(&mut Net) -> R) -> R {
        f(&mut self.fabric.0.borrow_mut())
    }

    /// The queue pair of a local id.
    fn qp(&self, net: &mut Net, local: QpId) -> Option<usize> {
        let qp = net.devices[self.device].locals.get(local.0 as usize).copied().flatten();
        if qp.is_none() {
            net.violation(format!("{local:?} is used and not attached"));
        }
        qp
    }
}

impl Device for SimDevice {
    type Endpoint = SimEndpoint;

    fn attach(&mut self, endpoint: SimEndpoint) -> Attached {
        self.with(|net| {
            let qp = endpoint.qp;
            if net.qps[qp].device != self.device {
                net.violation("an endpoint attached to another device".into());
            }
            if net.qps[qp].local.is_some() {
                net.violation("an endpoint attached twice".into());
            }
            let dev = &mut net.devices[self.device];
            let free = dev.locals.iter().position(Option::is_none);
            let local = free.unwrap_or_else(|| {
                dev.locals.push(None);
                dev.locals.len() - 1
            });
            dev.locals[local] = Some(qp);
            net.qps[qp].local = Some(local as u32);
            let rq = &net.rqs[net.qps[qp].rq];
            Attached {
                qp: QpId(local as u32),
                recv_queue: RecvQueue {
                    id: RecvQueueId(rq.local),
                    shared: rq.shared,
                    depth: rq.depth,
                },
                limits: net.qps[qp].limits,
            }
        })
    }

    fn detach(&mut self, local: QpId) -> SimEndpoint {
        self.with(|net| {
            let qp = self.qp(net, local).expect("detach of an attached queue pair");
            net.devices[self.device].locals[local.0 as usize] = None;
            let pair = &mut net.qps[qp];
            pair.local = None;
            let (sends, recvs, rq) = (pair.sends_held, pair.recvs_held, pair.rq);
            if sends != 0 {
                net.violation(format!("{local:?} detached with {sends} sends not completed"));
            }
            if !net.rqs[rq].shared && recvs != 0 {
                net.violation(format!("{local:?} detached with {recvs} receives not completed"));
            }
            // Stray messages are dropped; what they came in is posted again.
            let dev = &mut net.devices[self.device];
            for cqe in std::mem::take(&mut dev.cq) {
                match cqe.recv {
                    Some((rq, wr)) if cqe.qp == qp => net.rqs[rq].posted.push_back(wr),
                    _ if cqe.qp == qp => {}
                    _ => dev.cq.push_back(cqe),
                }
            }
            SimEndpoint { qp }
        })
    }

    fn fail(&mut self, local: QpId) {
        self.with(|net| {
            if let Some(qp) = self.qp(net, local) {
                net.fail(qp);
                net.send_staged(qp);
            }
        });
    }

    fn post_recv(&mut self, queue: RecvQueueId, wr: RecvWr) {
        self.with(|net| {
            let rq = net.devices[self.device].rqs[queue.0 as usize];
            let state = &mut net.rqs[rq];
            state.staged.push(wr);
            let count = state.staged.len() + state.posted.len();
            let depth = state.depth;
            if let Some(owner) = state.owner {
                net.qps[owner].recvs_held += 1;
            }
            net.devices[self.device].staged_rqs.push(rq);
            if count > depth as usize {
                net.violation(format!("{count} receives posted to {queue:?} of depth {depth}"));
            }
        });
    }

    fn post_send(&mut self, local: QpId, wr: SendWr) {
        self.with(|net| {
            let Some(qp) = self.qp(net, local) else { return };
            let region = net.devices[self.device].region.clone();
            let pair = &mut net.qps[qp];
            let small = wr.local.len() <= pair.limits.max_inline.min(64);
            let send = matches!(wr.op, SendOp::Send | SendOp::SendWithInvalidate { .. });
            let inline = (small && send).then(|| {
                let mut bytes = [0; 64];
                region.read(wr.local, &mut bytes[..wr.local.len() as usize]);
                bytes
            });
            pair.sends_held += 1;
            let (held, state, limits) = (pair.sends_held, pair.state, pair.limits);
            if matches!(wr.op, SendOp::Read { .. }) && state == QpState::Ready {
                pair.reads_out += 1;
            }
            let reads = pair.reads_out;
            pair.staged.push(Entry {
                wr,
                inline,
                answer: Vec::new(),
                arrive_at: 0,
                executed: false,
                done_at: None,
                status: WcStatus::Success,
            });
            net.devices[self.device].staged_qps.push(qp);
            if state == QpState::Init {
                net.violation(format!("a send on {local:?} before its connection is up"));
            }
            if held > limits.max_send_wr {
                net.violation(format!("{held} sends on {local:?}, {limits:?}"));
            }
            if reads > limits.max_reads {
                net.violation(format!("{reads} RDMA READs outstanding on {local:?}, {limits:?}"));
            }
        });
    }

    fn flush(&mut self, now: Now) {
        self.with(|net| {
            net.now = net.now.max(now.as_nanos() as u64);
            for rq in std::mem::take(&mut net.devices[self.device].staged_rqs) {
                let staged = std::mem::take(&mut net.rqs[rq].staged);
                net.rqs[rq].posted.extend(staged);
                if let Some(owner) = net.rqs[rq].owner
                    && matches!(net.qps[owner].state, QpState::Error | QpState::Destroyed)
                {
                    net.flush_recvs(owner, rq);
                }
            }
            for qp in std::mem::take(&mut net.devices[self.device].staged_qps) {
                net.send_staged(qp);
            }
        });
    }

    fn poll_cq(&mut self, now: Now, max: usize, out: &mut Vec<Wc>) -> usize {
        self.with(|net| {
            net.now = net.now.max(now.as_nanos() as u64);
            let mut count = max.min(net.devices[self.device].cq.len());
            if count > 1 && net.rng.chance(net.config.short_poll) {
                count = net.rng.range(1, count as u64) as usize;
            }
            for _ in 0..count {
                let Some(cqe) = net.devices[self.device].cq.pop_front() else { break };
                let pair = &mut net.qps[cqe.qp];
                match cqe.wc.op {
                    rdma::WcOp::Send => pair.sends_held -= cqe.retires.min(pair.sends_held),
                    rdma::WcOp::Recv { .. } => pair.recvs_held = pair.recvs_held.saturating_sub(1),
                }
                out.push(cqe.wc);
            }
            count
        })
    }

    fn arm(&mut self) {}

    fn wait_sources<'a>(&'a self, _out: &mut Vec<PollSource<'a>>) {}

    fn timeout(&self) -> Option<Now> {
        None
    }
}

impl HostDevice for SimDevice {
    fn expose(&mut self, local: QpId, span: Span, access: Access) -> Option<RemoteAddr> {
        self.with(|net| {
            let qp = self.qp(net, local)?;
            let dev = &mut net.devices[self.device];
            let index = dev.free_keys.pop().unwrap_or_else(|| {
                let closed = Key { qp, span, writable: false, valid: false, generation: 0 };
                dev.keys.push(closed);
                dev.keys.len() as u32 - 1
            });
            let key = &mut dev.keys[index as usize];
            let generation = key.generation.wrapping_add(1);
            let writable = access == Access::RemoteWrite;
            *key = Key { qp, span, writable, valid: true, generation };
            let addr = dev.base + u64::from(span.offset());
            Some(RemoteAddr { addr, rkey: index << 8 | u32::from(generation) })
        })
    }

    fn unexpose(&mut self, _local: QpId, rkey: u32) {
        self.with(|net| {
            let dev = &mut net.devices[self.device];
            if let Some(key) = dev.keys.get_mut((rkey >> 8) as usize)
                && key.generation == rkey as u8
            {
                key.valid = false;
                dev.free_keys.push(rkey >> 8);
            }
        });
    }
}

impl Net {
    /// Makes a queue pair on a device.
    pub(super) fn make_qp(
        &mut self,
        device: usize,
        params: &rdma::cm::QpParams,
        reads: u8,
    ) -> usize {
        let qp = self.qps.len();
        let shared = self.config.shared_recv.filter(|_| params.shared_recv);
        let dev = &mut self.devices[device];
        let rq = match (shared, dev.shared_rq) {
            (Some(_), Some(rq)) => rq,
            _ => {
                let rq = self.rqs.len();
                self.rqs.push(super::Rq {
                    device,
                    local: dev.rqs.len() as u32,
                    shared: shared.is_some(),
                    depth: shared.unwrap_or(params.recv_depth),
                    staged: Vec::new(),
                    posted: Default::default(),
                    owner: shared.is_none().then_some(qp),
                });
                dev.rqs.push(rq);
                if shared.is_some() {
                    dev.shared_rq = Some(rq);
                }
                rq
            }
        };
        debug_assert_eq!(self.rqs[rq].device, device);
        let max_reads = params.max_reads.min(self.config.device_reads).min(reads).max(1);
        self.qps.push(super::Qp {
            device,
            local: None,
            peer: None,
            state: QpState::Init,
            limits: rdma::QpLimits {
                max_send_wr: params.send_depth,
                max_reads: u32::from(max_reads),
                max_inline: self.config.max_inline,
            },
            rq,
            staged: Vec::new(),
            sq: Default::default(),
            last_arrival: 0,
            last_done: 0,
            executed: 0,
            rnr_until: 0,
            reads_out: 0,
            sends_held: 0,
            unsignaled_done: 0,
            recvs_held: 0,
        });
        qp
    }

    /// The queue pair is freed.
    pub(super) fn destroy_qp(&mut self, qp: usize) {
        if self.qps[qp].state == QpState::Destroyed {
            return self.violation("an endpoint destroyed twice".into());
        }
        if self.qps[qp].local.is_some() {
            self.violation("an endpoint destroyed while attached".into());
        }
        self.qps[qp].state = QpState::Destroyed;
        self.qps[qp].sq.clear();
        self.qps[qp].executed = 0;
        if let Some(peer) = self.qps[qp].peer {
            // Whatever the peer still sends fails; let it notice.
            let at = self.now + self.rng.range(1_000, 1_000_000);
            self.schedule(at, Event::Arrive(peer));
        }
    }
}
