//! The queue pairs of one core, without sockets: packets and time in, packets and completions out.

use crate::batch::Batch;
use crate::completions::Completions;
use crate::endpoint::{Endpoint, Peer};
use crate::memory::Memory;
use crate::psn::Psn;
use crate::recv::RecvQueue;
use crate::requester::{Requester, Verdict};
use crate::responder::{Hands, Responder};
use crate::socket::Socket;
use crate::wire::headers::{Kind, OPCODE_CNP};
use crate::wire::packet::{Packet, PacketError};
use rand::SeedableRng;
use rand::rngs::StdRng;
use rdma::{
    Access, Attached, Now, QpId, RecvQueueId, RecvWr, RemoteAddr, SendWr, Wc, WcOp, WcStatus,
};
use region::{Region, Span};
use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;

/// Packets that one queue pair may transmit before another's turn comes: two segmented sends of the
/// largest packets there are, so that turns this short cost no more of them.
const TURN_BUDGET: u32 = 30;

/// What an engine counted, for metrics and logs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets taken in.
    pub received: u64,
    /// Packets that were not well formed.
    pub malformed: u64,
    /// Packets for no queue pair of ours, or from the wrong address.
    pub stray: u64,
    /// Packets sent.
    pub sent: u64,
    /// Packets sent again.
    pub retransmitted: u64,
    /// Queue pairs that failed.
    pub failed: u64,
    /// Congestion notifications received.
    pub congestion: u64,
    /// Packets whose integrity check was wrong.
    pub damaged: u64,
    /// Packets that came to this core's sockets and went on to another core.
    pub passed_on: u64,
    /// Packets for another core that were lost, since that one did not keep up.
    pub overrun: u64,
    /// Runs of packets that the kernel had no room for.
    pub unsent: u64,
}

#[derive(Debug)]
struct Qp {
    endpoint: Endpoint,
    /// Cached from the endpoint's peer once that is known.
    peer: Option<Peer>,
    recv: RecvQueueId,
    shared: bool,
    requester: Requester,
    responder: Responder,
    failed: bool,
    /// Whether it stands in the list of those that may have something to transmit.
    active: bool,
    /// Whether it stands in the list of those that may have a timer.
    timed: bool,
}

impl Qp {
    /// The peer, once the connection is set up.
    fn peer(&mut self, id: QpId) -> Option<&Peer> {
        if self.peer.is_none()
            && let Some(peer) = self.endpoint.peer.get()
        {
            self.requester = Requester::new(id, peer.first_psn, peer.max_reads);
            self.peer = Some(*peer);
        }
        self.peer.as_ref()
    }
}

/// See the module's words.
#[derive(Debug)]
pub(crate) struct Engine {
    region: Arc<Region>,
    rng: StdRng,
    memory: Memory,
    qps: Vec<Option<Qp>>,
    /// Places of `qps` that are empty: whoever connects must not look at all that are connected.
    free_qps: Vec<u32>,
    /// Queue pair index + 1 by the upper 16 bits of its number; the low 8 name the core.
    by_qpn: Vec<u32>,
    recv_queues: Vec<Option<RecvQueue>>,
    shared: Option<RecvQueueId>,
    shared_depth: u32,
    completions: Completions,
    active: VecDeque<u32>,
    /// Queue pairs that may have a timer, each once: idle ones cost no look.
    timed: Vec<u32>,
    /// No queue pair's timer is due before this.
    deadline: Option<Now>,
    pub(crate) counters: Counters,
}

impl Engine {
    /// An engine whose work requests name places in `region`. Queue pairs that ask for a shared
    /// receive queue get one of `shared_depth` receives; 0 for none.
    pub(crate) fn new(region: Arc<Region>, shared_depth: u32, seed: [u8; 32]) -> Engine {
        Engine {
            region,
            rng: StdRng::from_seed(seed),
            memory: Memory::default(),
            qps: Vec::new(),
            free_qps: Vec::new(),
            by_qpn: vec![0; 1 << 16],
            recv_queues: Vec::new(),
            shared: None,
            shared_depth,
            completions: Completions::default(),
            active: VecDeque::new(),
            timed: Vec::new(),
            deadline: None,
            counters: Counters::default(),
        }
    }

    pub(crate) fn attach(&mut self, endpoint: Endpoint) -> Attached {
        let id = QpId(self.free_qps.pop().unwrap_or_else(|| {
            self.qps.push(None);
            (self.qps.len() - 1) as u32
        }));
        let shared = endpoint.shared_recv && self.shared_depth > 0;
        let recv = match self.shared {
            Some(queue) if shared => queue,
            _ => {
                let queue = RecvQueueId(free_place(&mut self.recv_queues));
                let depth = if shared { self.shared_depth } else { endpoint.recv_depth };
                self.recv_queues[queue.0 as usize] = Some(RecvQueue::new(depth));
                if shared {
                    self.shared = Some(queue);
                }
                queue
            }
        };
        let queue = self.recv_queues[recv.0 as usize].as_mut().expect("a queue just found or made");
        queue.users += 1;
        let depth = queue.depth();
        let limits = endpoint.limits;
        let slot = &mut self.by_qpn[(endpoint.qpn >> 8) as usize];
        assert_eq!(*slot, 0, "queue pair number {:#x} in use", endpoint.qpn);
        *slot = id.0 + 1;
        self.qps[id.0 as usize] = Some(Qp {
            peer: None,
            recv,
            shared,
            requester: Requester::new(id, Psn::new(0), 1),
            responder: Responder::new(id, endpoint.expected_psn, endpoint.resources),
            failed: false,
            active: false,
            timed: false,
            endpoint,
        });
        Attached { qp: id, recv_queue: rdma::RecvQueue { id: recv, shared, depth }, limits }
    }

    pub(crate) fn detach(&mut self, id: QpId) -> Endpoint {
        self.fail(id);
        let qp = self.qps[id.0 as usize].take().expect("an attached queue pair");
        self.free_qps.push(id.0);
        self.by_qpn[(qp.endpoint.qpn >> 8) as usize] = 0;
        self.memory.close_all(id);
        if !qp.shared {
            self.completions.remove(id, drop);
            self.recv_queues[qp.recv.0 as usize] = None;
        } else if let Some(queue) = &mut self.recv_queues[qp.recv.0 as usize] {
            // The caller has not seen these receives come back: they stay posted.
            self.completions.remove(id, |wr| queue.post(wr));
            queue.users -= 1;
        }
        qp.endpoint
    }

    /// See [`rdma::Device::fail`].
    pub(crate) fn fail(&mut self, id: QpId) {
        let Some(qp) = self.qps[id.0 as usize].as_mut() else { return };
        if qp.failed {
            return;
        }
        qp.failed = true;
        self.counters.failed += 1;
        qp.requester.flush(&mut self.completions);
        qp.responder.flush(&mut self.completions);
        if !qp.shared
            && let Some(queue) = &mut self.recv_queues[qp.recv.0 as usize]
        {
            queue.failed = Some(id);
            while let Some(wr) = queue.take() {
                self.completions.push_recv(flushed_recv(id, wr), wr);
            }
        }
    }

    pub(crate) fn post_recv(&mut self, queue: RecvQueueId, wr: RecvWr) {
        let place = self.recv_queues[queue.0 as usize].as_mut().expect("a receive queue");
        if let Some(owner) = place.failed {
            self.completions.push_recv(flushed_recv(owner, wr), wr);
            return;
        }
        place.post(wr);
    }

    pub(crate) fn post_send(&mut self, id: QpId, wr: SendWr) {
        let Some(qp) = self.qps[id.0 as usize].as_mut() else { return };
        if qp.failed {
            let op = WcOp::Send;
            let status = WcStatus::Flushed;
            self.completions.push_send(Wc { wr_id: wr.wr_id, qp: id, op, status });
            return;
        }
        let Some(peer) = qp.peer(id) else {
            unreachable!("a send before the connection is set up");
        };
        let path = peer.path;
        qp.requester.post(&path, wr);
        self.activate(id);
    }

    pub(crate) fn expose(&mut self, qp: QpId, span: Span, access: Access) -> Option<RemoteAddr> {
        self.memory.expose(&mut self.rng, qp, span, access)
    }

    pub(crate) fn unexpose(&mut self, qp: QpId, rkey: u32) {
        self.memory.close(qp, rkey);
    }

    /// A datagram arrived from `source`; its ICRC was right. `marked`: it met congestion.
    pub(crate) fn on_datagram(&mut self, now: Now, source: IpAddr, marked: bool, datagram: &[u8]) {
        self.counters.received += 1;
        let packet = match Packet::parse(datagram) {
            Ok(packet) => packet,
            Err(PacketError::Opcode(OPCODE_CNP)) => {
                return self.on_congestion(now, source, datagram);
            }
            Err(_) => {
                self.counters.malformed += 1;
                return;
            }
        };
        let Some(id) = self.find(source, packet.bth.dest_qpn) else {
            self.counters.stray += 1;
            return;
        };
        let qp = self.qps[id.0 as usize].as_mut().expect("found");
        let Some(path) = qp.peer(id).map(|peer| peer.path) else { return };
        if qp.failed || packet.bth.pkey & 0x7fff != 0x7fff {
            return;
        }
        if marked {
            qp.responder.on_congestion(now);
        }
        let verdict = match packet.opcode.kind {
            Kind::Acknowledge => {
                let aeth = packet.aeth.expect("an acknowledgement has one");
                qp.requester.on_acknowledge(now, packet.bth.psn, aeth, &mut self.completions)
            }
            Kind::ReadResponse => qp.requester.on_read_response(
                now,
                &path,
                &self.region,
                packet.bth.psn,
                packet.payload,
                &mut self.completions,
            ),
            Kind::Datagram => {
                self.counters.stray += 1;
                return;
            }
            Kind::Send | Kind::Write | Kind::ReadRequest => {
                let mut hands = Hands {
                    region: &self.region,
                    memory: &mut self.memory,
                    recv: self.recv_queues[qp.recv.0 as usize].as_mut().expect("its queue"),
                    out: &mut self.completions,
                };
                qp.responder.on_request(&path, &packet, &mut hands)
            }
        };
        self.note_timer(id);
        self.activate(id);
        if verdict == Verdict::Failed {
            self.fail(id);
        }
    }

    /// A congestion notification: the sender slows down, whoever sent it.
    fn on_congestion(&mut self, now: Now, source: IpAddr, datagram: &[u8]) {
        let qpn = u32::from_be_bytes([0, datagram[5], datagram[6], datagram[7]]);
        if let Some(id) = self.find(source, qpn) {
            self.counters.congestion += 1;
            self.qps[id.0 as usize].as_mut().expect("found").requester.on_congestion(now);
        }
    }

    fn find(&mut self, source: IpAddr, qpn: u32) -> Option<QpId> {
        let at = self.by_qpn[(qpn >> 8) as usize].checked_sub(1)?;
        let id = QpId(at);
        let qp = self.qps[at as usize].as_mut().expect("the table names attached ones");
        if qp.endpoint.qpn != qpn {
            return None;
        }
        qp.peer(id).is_some_and(|peer| peer.path.prefix.dest == source).then_some(id)
    }

    /// Lets the timers run that are due.
    pub(crate) fn on_time(&mut self, now: Now) {
        if self.deadline.is_none_or(|deadline| now < deadline) {
            return;
        }
        self.deadline = None;
        let mut place = 0;
        while let Some(&at) = self.timed.get(place) {
            let id = QpId(at);
            // Another may have its place by now, or none.
            if let Some(qp) = self.qps[at as usize].as_mut().filter(|qp| qp.timed && !qp.failed)
                && qp.requester.timeout().is_some_and(|due| due <= now)
            {
                let verdict = qp.requester.on_time(now, &mut self.completions);
                if verdict == Verdict::Failed {
                    self.fail(id);
                } else {
                    self.activate(id);
                }
            }
            let qp = self.qps[at as usize].as_mut().filter(|qp| qp.timed);
            if qp.as_ref().is_some_and(|qp| !qp.failed && qp.requester.timeout().is_some()) {
                self.note_timer(id);
                place += 1;
            } else {
                if let Some(qp) = qp {
                    qp.timed = false;
                }
                self.timed.swap_remove(place);
            }
        }
    }

    pub(crate) fn timeout(&self) -> Option<Now> {
        self.deadline
    }

    /// Writes what is to be transmitted into the batch, one queue pair after the other, until the
    /// batch is full or nothing is left. Returns whether something is left.
    pub(crate) fn transmit(&mut self, now: Now, batch: &mut Batch) -> bool {
        while batch.has_room() {
            let Some(at) = self.active.pop_front() else { return false };
            let Some(qp) = self.qps[at as usize].as_mut() else { continue };
            qp.active = false;
            let Some(path) = qp.peer.as_ref().map(|peer| peer.path) else { continue };
            let mut done = qp.responder.transmit(&path, &self.region, batch, TURN_BUDGET);
            if !qp.failed {
                let before = qp.requester.retransmitted;
                let left = TURN_BUDGET - done.min(TURN_BUDGET);
                done += qp.requester.transmit(now, &path, &self.region, batch, left);
                self.counters.retransmitted += qp.requester.retransmitted - before;
            }
            self.counters.sent += u64::from(done);
            let more = qp.responder.wants_to_transmit()
                || (!qp.failed && qp.requester.wants_to_transmit());
            self.note_timer(QpId(at));
            if more && done > 0 {
                self.activate(QpId(at));
            }
        }
        !self.active.is_empty()
    }

    /// The packets that a queue pair expects next: of requests, and of answers.
    #[cfg(feature = "fuzzing")]
    pub(crate) fn psns(&self, id: QpId) -> (Psn, Psn) {
        let qp = self.qps[id.0 as usize].as_ref().expect("an attached queue pair");
        (qp.responder.expected(), qp.requester.oldest())
    }

    /// Receives that are posted to a queue.
    #[cfg(feature = "fuzzing")]
    pub(crate) fn receives(&self, queue: RecvQueueId) -> usize {
        self.recv_queues[queue.0 as usize].as_ref().map_or(0, RecvQueue::len)
    }

    /// Whether a queue pair is attached that uses this socket.
    pub(crate) fn uses(&self, socket: &Arc<Socket>) -> bool {
        let is_same = |known: &Arc<Socket>| Arc::ptr_eq(known, socket);
        self.qps.iter().flatten().any(|qp| qp.endpoint.socket.as_ref().is_some_and(is_same))
    }

    /// Whether a queue pair may have something to transmit.
    pub(crate) fn wants_to_transmit(&self) -> bool {
        !self.active.is_empty()
    }

    /// Moves completions to `out`, at most `max`.
    pub(crate) fn poll(&mut self, max: usize, out: &mut Vec<Wc>) -> usize {
        self.completions.take(max, out)
    }

    pub(crate) fn has_completions(&self) -> bool {
        !self.completions.is_empty()
    }

    fn activate(&mut self, id: QpId) {
        if let Some(qp) = self.qps[id.0 as usize].as_mut()
            && !qp.active
        {
            qp.active = true;
            self.active.push_back(id.0);
        }
    }

    fn note_timer(&mut self, id: QpId) {
        let Some(qp) = self.qps[id.0 as usize].as_mut() else { return };
        let Some(due) = qp.requester.timeout() else { return };
        if !qp.timed {
            qp.timed = true;
            self.timed.push(id.0);
        }
        if self.deadline.is_none_or(|deadline| due < deadline) {
            self.deadline = Some(due);
        }
    }
}

fn flushed_recv(qp: QpId, wr: RecvWr) -> Wc {
    let op = WcOp::Recv { byte_len: 0, invalidated: None };
    Wc { wr_id: wr.wr_id, qp, op, status: WcStatus::Flushed }
}

/// Index of an empty place, made if there is none.
fn free_place<T>(places: &mut Vec<Option<T>>) -> u32 {
    let at = places.iter().position(Option::is_none).unwrap_or_else(|| {
        places.push(None);
        places.len() - 1
    });
    at as u32
}

#[cfg(test)]
mod tests;
