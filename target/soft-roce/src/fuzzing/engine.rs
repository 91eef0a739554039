//! Two queue pairs of one engine, one with receives of its own and one on the shared queue, and a
//! peer that sends anything.

use super::{OP_LEN, Op};
use crate::batch::Batch;
use crate::endpoint::{Endpoint, Peer};
use crate::engine::Engine;
use crate::path::Path;
use crate::psn::Psn;
use crate::wire::headers::{Bth, DEFAULT_PKEY, ICRC_LEN, Opcode, Reth};
use crate::wire::icrc::Prefix;
use rdma::{
    Access, Attached, QpLimits, RecvWr, RemoteAddr, SendOp, SendWr, Wc, WcOp, WcStatus, WrId,
};
use region::{Pages, Region, Span};
use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

const MTU: u32 = 256;
const US: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
const PEER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2));
const RECV_DEPTH: usize = 8;
const SEND_DEPTH: usize = 16;
/// Room for a message in each receive, in two pieces.
const HEAD: u32 = 64;
const TAIL: u32 = 1024;

/// The region: receives, then opened windows, then what we send, then what nobody may touch.
const WINDOWS: u32 = 64 << 10;
const WINDOW: u32 = 4096;
const SOURCES: u32 = 128 << 10;
const GUARD: u32 = 192 << 10;
const REGION: u32 = 256 << 10;
const GUARD_BYTE: u8 = 0xee;

struct Qp {
    at: Attached,
    qpn: u32,
    /// Posted and not completed, oldest first, with whether success completes it.
    sends: VecDeque<(u64, bool)>,
    keys: Vec<RemoteAddr>,
}

struct World {
    now: Duration,
    engine: Engine,
    region: Arc<Region>,
    qps: [Qp; 2],
    next_qpn: u32,
    next_id: u64,
    /// Receives posted and not completed, by id; the queue pair they belong to, or the shared
    /// queue.
    recvs: BTreeMap<u64, Option<usize>>,
    free_places: Vec<u32>,
    places: BTreeMap<u64, u32>,
    batch: Batch,
    seen: Vec<u32>,
    /// Opcode of the packet before, for each queue pair.
    last: [u8; 2],
}

/// Carries out the operations that `data` spells on two queue pairs.
///
/// # Panics
/// When a work request completes twice, out of order or never, when a receive is lost, or when
/// memory changes that was not opened.
pub fn queue_pairs(data: &[u8]) -> Vec<u32> {
    let mut world = World::new();
    for op in data.chunks(OP_LEN).take(400) {
        world.carry_out(&Op(op));
    }
    world.finish();
    world.seen.sort_unstable();
    world.seen.dedup();
    world.seen
}

fn endpoint(qpn: u32, shared_recv: bool) -> Endpoint {
    let prefix = Prefix { source: US, dest: PEER, source_port: 4791, dest_port: 4791 };
    let path = Path { prefix, traffic_class: 0, mtu: MTU, dest_qpn: 77 };
    let peer = Peer { path, first_psn: Psn::new(0xff_fff8), max_reads: 2 };
    Endpoint {
        qpn,
        expected_psn: Psn::new(0xff_fffc),
        resources: 2,
        limits: QpLimits { max_send_wr: SEND_DEPTH as u32, max_reads: 2, max_inline: 0 },
        recv_depth: RECV_DEPTH as u32,
        shared_recv,
        peer: Arc::new(OnceLock::from(peer)),
        socket: None,
    }
}

impl World {
    fn new() -> World {
        let region = Arc::new(Region::map(REGION as usize, Pages::Normal).expect("memory"));
        region.fill(Span::new(GUARD, REGION - GUARD), GUARD_BYTE);
        let mut engine = Engine::new(region.clone(), RECV_DEPTH as u32, [1; 32]);
        let qps = [(0x1_01, false), (0x2_01, true)].map(|(qpn, shared)| Qp {
            at: engine.attach(endpoint(qpn, shared)),
            qpn,
            sends: VecDeque::new(),

            keys: Vec::new(),
        });
        World {
            now: Duration::from_secs(1),
            engine,
            region,
            qps,
            next_qpn: 3,
            next_id: 1,
            recvs: BTreeMap::new(),
            free_places: (0..2 * RECV_DEPTH as u32).collect(),
            places: BTreeMap::new(),
            batch: Batch::new(64 << 10, true),
            seen: Vec::new(),
            last: [0; 2],
        }
    }

    fn carry_out(&mut self, op: &Op<'_>) {
        let at = usize::from(op.byte(1) & 1);
        match op.byte(0) % 16 {
            0 | 1 => self.post_recv(at),
            2 | 3 => self.post_send(at, op),
            4..=9 => self.packet(at, op),
            10 => self.raw(at, op),
            11 => self.pass(Duration::from_micros(u64::from(op.long(2)) % 3_000_000)),
            12 => self.transmit(),
            13 => self.poll(usize::from(op.byte(2) % 8) + 1),
            14 => self.open_or_close(at, op),
            _ => match op.byte(2) % 4 {
                0 => self.fail(at),
                1 => self.replace(at),
                _ => self.transmit(),
            },
        }
    }

    fn post_recv(&mut self, at: usize) {
        let owner = (at == 0).then_some(0);
        let posted = self.recvs.values().filter(|of| **of == owner).count();
        if posted >= RECV_DEPTH {
            return;
        }
        let place = self.free_places.pop().expect("as many as both queues take");
        let id = self.next_id;
        self.next_id += 1;
        let start = place * (HEAD + TAIL);
        let wr = RecvWr {
            wr_id: WrId(id),
            head: Span::new(start, HEAD),
            tail: Span::new(start + HEAD, TAIL),
        };
        self.recvs.insert(id, owner);
        self.places.insert(id, place);
        self.engine.post_recv(self.qps[at].at.recv_queue.id, wr);
    }

    fn post_send(&mut self, at: usize, op: &Op<'_>) {
        let qp = &mut self.qps[at];
        if qp.sends.len() >= SEND_DEPTH {
            return;
        }
        let len = u32::from(op.word(2)) % 2000;
        let remote = RemoteAddr { addr: op.long(4).into(), rkey: op.long(8) };
        let kind = match op.byte(0) / 16 % 4 {
            0 => SendOp::Send,
            1 => SendOp::SendWithInvalidate { rkey: remote.rkey },
            2 => SendOp::Write { remote },
            _ => SendOp::Read { remote },
        };
        let signaled = op.byte(1) & 2 != 0 || matches!(kind, SendOp::Read { .. });
        let id = self.next_id;
        self.next_id += 1;
        qp.sends.push_back((id, signaled));
        let local = Span::new(SOURCES, len);
        self.engine.post_send(qp.at.qp, SendWr { wr_id: WrId(id), op: kind, local, signaled });
    }

    /// A packet with headers that are mostly plausible.
    fn packet(&mut self, at: usize, op: &Op<'_>) {
        let opcode = op.byte(2) % 0x18;
        let Some(parsed) = Opcode::from_byte(opcode) else { return };
        let qp = &self.qps[at];
        let (expected, una) = self.engine.psns(qp.at.qp);
        // Usually what is awaited, else somewhere near it, seldom anywhere.
        let answers = matches!(opcode, 0x0d..=0x11);
        let base = if answers { una } else { expected };
        let psn = match op.byte(3) {
            0..=159 => base,
            near @ 160..=239 => base.plus(u32::from(near - 160)).minus(16),
            _ => Psn::new(op.long(4)),
        };
        let key = qp.keys.get(usize::from(op.byte(4) & 3)).copied();
        let remote = key.unwrap_or(RemoteAddr { addr: 1 << 32, rkey: op.long(4) });
        let reth = Reth {
            addr: remote.addr.wrapping_add(u64::from(op.byte(5) & 7) * 256),
            rkey: remote.rkey.wrapping_add(u32::from(op.byte(5) == 0xff)),
            len: match op.byte(6) {
                255 => op.long(7),
                other => u32::from(other & 15) * 256 + u32::from(other & 16),
            },
        };
        let mut body = Vec::new();
        if parsed.has_reth() {
            body.extend(reth.to_bytes());
        }
        if parsed.has_aeth() {
            body.extend([op.byte(7), 0, 0, 1]);
        }
        if parsed.immediate || parsed.invalidate {
            body.extend(remote.rkey.to_be_bytes());
        }
        let len = match op.byte(8) {
            0..=127 if !parsed.part.ends() => MTU,
            other => u32::from(other) * 4 % 300,
        };
        body.resize(body.len() + len as usize, op.byte(9));
        let pad = op.byte(10) & 3;
        let bth = Bth {
            opcode,
            solicited: false,
            pad: if op.byte(10) & 4 == 0 { 0 } else { pad },
            pkey: if op.byte(10) == 0xff { 1 } else { DEFAULT_PKEY },
            becn: false,
            dest_qpn: qp.qpn,
            ack_req: op.byte(11) & 1 == 1,
            psn,
        };
        let mut bytes = bth.to_bytes().to_vec();
        bytes.extend(body);
        bytes.extend([0; ICRC_LEN]);
        let before = (self.engine.psns(qp.at.qp), self.engine.counters.failed);
        let id = qp.at.qp;
        self.deliver(op.byte(11), &bytes);
        // What it did, after what came before it.
        let after = (self.engine.psns(id), self.engine.counters.failed);
        let did = u32::from(before.0.0 != after.0.0) | u32::from(before.0.1 != after.0.1) << 1;
        let did = did | u32::from(before.1 != after.1) << 2;
        let last = u32::from(std::mem::replace(&mut self.last[at], opcode));
        self.note(3 << 20 | last << 10 | u32::from(opcode) << 4 | did);
    }

    fn raw(&mut self, at: usize, op: &Op<'_>) {
        let mut bytes = op.0.get(2..).unwrap_or_default().repeat(4);
        if bytes.len() > 8 {
            bytes[5..8].copy_from_slice(&self.qps[at].qpn.to_be_bytes()[1..]);
        }
        self.deliver(op.byte(1), &bytes);
    }

    fn deliver(&mut self, how: u8, bytes: &[u8]) {
        let from = if how & 0xf0 == 0xf0 { US } else { PEER };
        self.engine.on_datagram(self.now, from, how & 0x0e == 0x0e, bytes);
    }

    fn open_or_close(&mut self, at: usize, op: &Op<'_>) {
        let qp = &mut self.qps[at];
        if op.byte(2) & 1 == 0 && qp.keys.len() < 4 {
            let place = (at * 4 + qp.keys.len()) as u32;
            let span = Span::new(WINDOWS + place * WINDOW, WINDOW);
            let access = if op.byte(2) & 2 == 0 { Access::RemoteWrite } else { Access::RemoteRead };
            qp.keys.push(self.engine.expose(qp.at.qp, span, access).expect("a key is left"));
        } else if let Some(key) = qp.keys.pop() {
            self.engine.unexpose(qp.at.qp, key.rkey);
        }
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
        self.engine.on_time(self.now);
    }

    fn transmit(&mut self) {
        self.batch.clear();
        self.engine.transmit(self.now, &mut self.batch);
        for run in self.batch.runs() {
            for packet in self.batch.bytes(run).chunks(run.segment) {
                self.seen.push(1 << 20 | u32::from(packet[0]) << 8 | u32::from(packet[12] >> 4));
            }
        }
    }

    fn poll(&mut self, max: usize) {
        let mut done = Vec::new();
        self.engine.poll(max, &mut done);
        for wc in done {
            self.on_wc(wc);
        }
    }

    fn on_wc(&mut self, wc: Wc) {
        let at = self.qps.iter().position(|qp| qp.at.qp == wc.qp).expect("a queue pair of ours");
        self.note(2 << 20 | status_number(wc.status) << 8 | u32::from(wc.op == WcOp::Send));
        match wc.op {
            WcOp::Send => {
                let qp = &mut self.qps[at];
                // Unsignaled ones before it succeeded in silence; those of a failed queue pair
                // all complete.
                while let Some((id, signaled)) = qp.sends.pop_front() {
                    if id == wc.wr_id.0 {
                        assert!(signaled || !wc.is_ok(), "{wc:?} was not asked for");
                        return;
                    }
                    assert!(!signaled, "{id} was passed over by {wc:?}");
                }
                panic!("{wc:?} of nothing");
            }
            WcOp::Recv { byte_len, .. } => {
                let owner = self.recvs.remove(&wc.wr_id.0).expect("posted, and completed once");
                assert_eq!(owner, (at == 0).then_some(0));
                assert!(byte_len <= HEAD + TAIL);
                let place = self.places.remove(&wc.wr_id.0).expect("it has a place");
                self.free_places.push(place);
            }
        }
    }

    fn fail(&mut self, at: usize) {
        self.engine.fail(self.qps[at].at.qp);
    }

    /// Fails a queue pair, drains it as a caller would and puts another in its place.
    fn replace(&mut self, at: usize) {
        self.fail(at);
        self.poll(1000);
        // Unsignaled ones that nothing followed may have succeeded in silence.
        assert!(!self.qps[at].sends.iter().any(|(_, signaled)| *signaled), "a send never ends");
        assert!(at == 1 || !self.recvs.values().any(|of| *of == Some(0)), "a receive never ends");
        self.qps[at].sends.clear();
        self.engine.detach(self.qps[at].at.qp);
        let qpn = self.next_qpn << 8 | 1;
        self.next_qpn += 1;
        let qp = &mut self.qps[at];
        qp.at = self.engine.attach(endpoint(qpn, at == 1));
        qp.qpn = qpn;
        qp.keys.clear();
    }

    fn note(&mut self, feature: u32) {
        self.seen.push(feature);
    }

    /// A silent peer is given up, and then everything has come back.
    fn finish(&mut self) {
        for _ in 0..1000 {
            self.transmit();
            self.poll(1000);
            match self.engine.timeout() {
                Some(due) => {
                    self.now = self.now.max(due);
                    self.engine.on_time(self.now);
                }
                None if !self.engine.wants_to_transmit() => break,
                None => {}
            }
        }
        assert!(!self.engine.wants_to_transmit() && self.engine.timeout().is_none());
        self.poll(1000);
        for qp in &self.qps {
            assert!(!qp.sends.iter().any(|(_, signaled)| *signaled), "a send never ends");
        }
        self.replace(1);
        self.replace(0);
        let posted = self.engine.receives(self.qps[1].at.recv_queue.id);
        assert_eq!(posted, self.recvs.len(), "shared receives were lost");
        let mut guard = vec![0; (REGION - GUARD) as usize];
        self.region.read(Span::new(GUARD, REGION - GUARD), &mut guard);
        assert!(guard.iter().all(|&byte| byte == GUARD_BYTE), "memory written that is not open");
    }
}

fn status_number(status: WcStatus) -> u32 {
    match status {
        WcStatus::Success => 0,
        WcStatus::Flushed => 1,
        WcStatus::RemoteAccess => 2,
        WcStatus::RemoteInvalidRequest => 3,
        WcStatus::RemoteOperation => 4,
        WcStatus::RetryExceeded => 5,
        WcStatus::RnrRetryExceeded => 6,
        WcStatus::LocalError => 7,
        WcStatus::Other(_) => 8,
    }
}
