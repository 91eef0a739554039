//! Two engines and the network between them.

use super::*;
use crate::path::Path;
use crate::wire::icrc::{Columns, Prefix, Solved};
use rand::Rng;
use rdma::{QpLimits, SendOp, WrId};
use region::Pages;
use std::net::Ipv4Addr;
use std::sync::OnceLock;
use std::time::Duration;

#[path = "ends.rs"]
mod ends;
#[path = "repairs.rs"]
mod repairs;

const ADDRS: [IpAddr; 2] =
    [IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)), IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2))];
const QPNS: [u32; 2] = [0x12_3401, 0x56_7801];
const PSNS: [u32; 2] = [0xff_fff0, 5]; // one of them wraps soon

/// What the network does to packets, in parts of a thousand.
#[derive(Clone, Copy, Default)]
struct Faults {
    loss: u32,
    duplicate: u32,
    reorder: u32,
    damage: u32,
}

struct Pair {
    now: Duration,
    rng: StdRng,
    faults: Faults,
    engines: [Engine; 2],
    regions: [Arc<Region>; 2],
    attached: [Attached; 2],
    wires: [VecDeque<Vec<u8>>; 2],
    batch: Batch,
    columns: Columns,
    done: [Vec<Wc>; 2],
    packets: u64,
    /// Numbers of packets that are lost, whatever else the network does.
    lost: std::ops::Range<u64>,
    /// An end whose thread has no processor.
    asleep: Option<usize>,
    mtu: u32,
    /// First and last response packet of every READ that an end asked for.
    asked: [Vec<(Psn, Psn)>; 2],
}

impl Pair {
    fn new(seed: u64, mtu: u32, faults: Faults) -> Pair {
        Pair::with(seed, mtu, faults, 16, 64)
    }

    fn with(seed: u64, mtu: u32, faults: Faults, reads: u32, recv_depth: u32) -> Pair {
        Pair::build(seed, mtu, faults, reads, recv_depth, false)
    }

    /// Both ends take from shared receive queues.
    fn shared(seed: u64, mtu: u32, recv_depth: u32) -> Pair {
        Pair::build(seed, mtu, Faults::default(), 16, recv_depth, true)
    }

    fn build(
        seed: u64,
        mtu: u32,
        faults: Faults,
        reads: u32,
        recv_depth: u32,
        shared_recv: bool,
    ) -> Pair {
        let depth = if shared_recv { recv_depth } else { 0 };
        let regions: [_; 2] =
            std::array::from_fn(|_| Arc::new(Region::map(4 << 20, Pages::Normal).unwrap()));
        let mut engines: [_; 2] =
            std::array::from_fn(|i| Engine::new(regions[i].clone(), depth, [i as u8 + 1; 32]));
        let attached = std::array::from_fn(|i| {
            let prefix =
                Prefix { source: ADDRS[i], dest: ADDRS[1 - i], source_port: 4791, dest_port: 4791 };
            let path = Path { prefix, traffic_class: 0, mtu, dest_qpn: QPNS[1 - i] };
            let first_psn = Psn::new(PSNS[i]);
            let peer = Arc::new(OnceLock::from(Peer { path, first_psn, max_reads: reads }));
            engines[i].attach(Endpoint {
                qpn: QPNS[i],
                expected_psn: Psn::new(PSNS[1 - i]),
                resources: reads,
                limits: QpLimits { max_send_wr: 1024, max_reads: reads, max_inline: 0 },
                recv_depth,
                shared_recv,
                peer,
                socket: None,
            })
        });
        Pair {
            now: Duration::from_secs(1),
            rng: StdRng::seed_from_u64(seed),
            faults,
            engines,
            regions,
            attached,
            wires: Default::default(),
            batch: Batch::new(1 << 20, true),
            columns: Columns::default(),
            done: Default::default(),
            packets: 0,
            lost: 0..0,
            asleep: None,
            mtu,
            asked: Default::default(),
        }
    }

    fn qp(&self, end: usize) -> QpId {
        self.attached[end].qp
    }

    fn chance(&mut self, per_mille: u32) -> bool {
        per_mille > 0 && self.rng.random_range(0..1000) < per_mille
    }

    /// A repeated READ must lie within one that the peer had: Linux drops one that asks for more.
    fn note_read(&mut self, end: usize, packet: &[u8]) {
        const READ_REQUEST: u8 = 0x0c;
        if packet[0] != READ_REQUEST {
            return;
        }
        let number = |at: usize| u32::from_be_bytes(packet[at..at + 4].try_into().unwrap());
        let first = Psn::new(number(8) & 0xff_ffff);
        let last = first.plus(number(24).div_ceil(self.mtu).max(1) - 1);
        let within = |&&(from, to): &&(Psn, Psn)| !first.is_before(from) && !to.is_before(first);
        if let Some((from, to)) = self.asked[end].iter().find(within) {
            assert!(!to.is_before(last), "{first:?}..{last:?} exceeds {from:?}..{to:?}");
        } else {
            self.asked[end].push((first, last));
        }
    }

    /// Both ends transmit, the network delivers, time passes.
    fn step(&mut self) {
        let asleep = self.asleep;
        let awake = [0, 1].into_iter().filter(|&end| asleep != Some(end));
        for end in awake.clone() {
            self.batch.clear();
            self.engines[end].transmit(self.now, &mut self.batch);
            let mut packets = Vec::new();
            for run in self.batch.runs() {
                for packet in self.batch.bytes(run).chunks(run.segment) {
                    packets.push(packet.to_vec());
                }
            }
            for mut packet in packets {
                self.packets += 1;
                self.note_read(end, &packet);
                if self.chance(self.faults.loss) || self.lost.contains(&(self.packets - 1)) {
                    continue;
                }
                if self.chance(self.faults.damage) {
                    let at = self.rng.random_range(0..packet.len());
                    packet[at] ^= 1 << self.rng.random_range(0..8);
                }
                if self.chance(self.faults.duplicate) {
                    self.wires[1 - end].push_back(packet.clone());
                }
                self.wires[1 - end].push_back(packet);
            }
        }
        self.now += Duration::from_micros(50);
        for end in awake {
            let mut wire = std::mem::take(&mut self.wires[end]);
            let mut late = VecDeque::new();
            while let Some(mut packet) = wire.pop_front() {
                if self.chance(self.faults.reorder) {
                    late.push_back(packet);
                    continue;
                }
                let prefix = Prefix {
                    source: ADDRS[1 - end],
                    dest: ADDRS[end],
                    source_port: 4791,
                    dest_port: 4791,
                };
                match prefix.solve(&mut self.columns, 0, &mut packet) {
                    Solved::Identification(_) => {
                        self.engines[end].on_datagram(self.now, ADDRS[1 - end], false, &packet);
                    }
                    Solved::Damaged => {}
                }
            }
            self.wires[end] = late;
            self.engines[end].on_time(self.now);
            self.engines[end].poll(1024, &mut self.done[end]);
        }
        // Nothing on the way: jump to the next timer, as a sleeping core would.
        if self.wires.iter().all(VecDeque::is_empty)
            && !self.engines.iter().any(Engine::wants_to_transmit)
            && let Some(due) = self.engines.iter().filter_map(Engine::timeout).min()
        {
            self.now = self.now.max(due);
        }
    }

    fn run_until(&mut self, what: &str, done: impl Fn(&Pair) -> bool) {
        for _ in 0..200_000 {
            if done(self) {
                return;
            }
            self.step();
        }
        panic!("{what}: not within 200,000 steps; {:?}", self.engines[0].counters);
    }

    fn settle(&mut self) {
        for _ in 0..50 {
            self.step();
        }
    }

    fn recv(&mut self, end: usize, id: u64, head: Span, tail: Span) {
        let queue = self.attached[end].recv_queue.id;
        self.engines[end].post_recv(queue, RecvWr { wr_id: WrId(id), head, tail });
    }

    fn post(&mut self, end: usize, id: u64, op: SendOp, local: Span, signaled: bool) {
        let qp = self.qp(end);
        self.engines[end].post_send(qp, SendWr { wr_id: WrId(id), op, local, signaled });
    }

    fn expose(&mut self, end: usize, span: Span, access: Access) -> RemoteAddr {
        let qp = self.qp(end);
        self.engines[end].expose(qp, span, access).unwrap()
    }

    fn pattern(&self, end: usize, span: Span, seed: u8) -> Vec<u8> {
        let bytes: Vec<u8> =
            (0..span.len()).map(|i| (i as u8).wrapping_mul(31).wrapping_add(seed)).collect();
        self.regions[end].write(span, &bytes);
        bytes
    }

    fn bytes(&self, end: usize, span: Span) -> Vec<u8> {
        let mut out = vec![0; span.len() as usize];
        self.regions[end].read(span, &mut out);
        out
    }
}

fn recv_ok(id: u64, qp: QpId, byte_len: u32) -> Wc {
    let op = WcOp::Recv { byte_len, invalidated: None };
    Wc { wr_id: WrId(id), qp, op, status: WcStatus::Success }
}

fn send_wc(id: u64, qp: QpId, status: WcStatus) -> Wc {
    Wc { wr_id: WrId(id), qp, op: WcOp::Send, status }
}

#[test]
fn a_send_fills_head_then_tail_and_both_ends_complete() {
    for mtu in [256, 1024, 4096] {
        let mut p = Pair::new(1, mtu, Faults::default());
        let sent = p.pattern(0, Span::new(0, 4160), 7);
        p.recv(1, 11, Span::new(0, 64), Span::new(4096, 4096));
        p.post(0, 1, SendOp::Send, Span::new(0, 4160), true);
        p.run_until("send", |p| p.done.iter().all(|d| d.len() == 1));
        assert_eq!(p.done[1], [recv_ok(11, p.qp(1), 4160)]);
        assert_eq!(p.done[0], [send_wc(1, p.qp(0), WcStatus::Success)]);
        assert_eq!(p.bytes(1, Span::new(0, 64)), sent[..64]);
        assert_eq!(p.bytes(1, Span::new(4096, 4096)), sent[64..]);
    }
}

#[test]
fn an_nvme_read_costs_six_packets_or_less() {
    let mut p = Pair::new(1, 4096, Faults::default());
    let dest = p.expose(0, Span::new(8192, 4096), Access::RemoteWrite);
    let data = p.pattern(1, Span::new(0, 4096), 3);
    p.recv(1, 1, Span::new(1 << 20, 64), Span::default());
    p.recv(0, 2, Span::new(1 << 20, 64), Span::default());
    p.post(0, 3, SendOp::Send, Span::new(0, 64), true);
    p.run_until("capsule", |p| p.done[1].len() == 1);
    p.post(1, 4, SendOp::Write { remote: dest }, Span::new(0, 4096), false);
    p.post(1, 5, SendOp::SendWithInvalidate { rkey: dest.rkey }, Span::new(0, 16), true);
    p.run_until("response", |p| p.done[0].len() == 2 && p.done[1].len() == 2);
    assert_eq!(p.bytes(0, Span::new(8192, 4096)), data);
    let invalidated = Some(dest.rkey);
    assert!(p.done[0].iter().any(|wc| wc.op == WcOp::Recv { byte_len: 16, invalidated }));
    assert!(p.packets <= 6, "{} packets", p.packets);
    assert_eq!(p.engines[0].memory.len(), 0);
}

#[test]
fn reads_come_back_whole_at_any_depth_credit_and_mtu() {
    for (mtu, credit) in [(256, 1), (1024, 2), (4096, 16)] {
        let mut p = Pair::with(1, mtu, Faults::default(), credit, 64);
        let data = p.pattern(1, Span::new(0, 1 << 20), 9);
        let source = p.expose(1, Span::new(0, 1 << 20), Access::RemoteRead);
        for i in 0..8u32 {
            let at = i * 100_000;
            let remote = RemoteAddr { addr: source.addr + u64::from(at), ..source };
            p.post(0, i.into(), SendOp::Read { remote }, Span::new(at, 99_999), true);
        }
        p.run_until("reads", |p| p.done[0].len() == 8);
        let ids: Vec<_> = p.done[0].iter().map(|wc| wc.wr_id.0).collect();
        assert_eq!(ids, (0..8).collect::<Vec<_>>());
        assert!(p.done[0].iter().all(Wc::is_ok));
        for i in 0..8 {
            let span = Span::new(i * 100_000, 99_999);
            assert_eq!(p.bytes(0, span), data[span.offset() as usize..][..99_999]);
        }
    }
}

#[test]
fn a_missing_receive_is_waited_for() {
    let mut p = Pair::new(1, 1024, Faults::default());
    p.pattern(0, Span::new(0, 3000), 1);
    p.post(0, 1, SendOp::Send, Span::new(0, 3000), true);
    p.post(0, 2, SendOp::Send, Span::new(0, 10), true);
    p.settle();
    assert!(p.done[0].is_empty());
    p.recv(1, 10, Span::new(0, 4096), Span::default());
    p.recv(1, 11, Span::new(4096, 4096), Span::default());
    p.run_until("both", |p| p.done[0].len() == 2 && p.done[1].len() == 2);
    assert_eq!(p.done[1], [recv_ok(10, p.qp(1), 3000), recv_ok(11, p.qp(1), 10)]);
}

#[test]
fn a_wrong_key_fails_the_request_and_flushes_the_rest() {
    let mut p = Pair::new(1, 1024, Faults::default());
    p.recv(1, 20, Span::new(0, 64), Span::default());
    let remote = RemoteAddr { addr: 1 << 32, rkey: 1 };
    p.post(0, 1, SendOp::Write { remote }, Span::new(0, 5000), false);
    p.post(0, 2, SendOp::Send, Span::new(0, 16), true);
    p.run_until("failure", |p| p.done[0].len() == 2);
    let expected =
        [(1, WcStatus::RemoteAccess), (2, WcStatus::Flushed)].map(|(i, s)| send_wc(i, p.qp(0), s));
    assert_eq!(p.done[0], expected);
    assert_eq!(p.done[1][0].status, WcStatus::Flushed);
}

#[test]
fn a_message_longer_than_the_receive_fails_both_ends() {
    let mut p = Pair::new(1, 1024, Faults::default());
    p.recv(1, 20, Span::new(0, 64), Span::default());
    p.post(0, 1, SendOp::Send, Span::new(0, 65), true);
    p.run_until("failure", |p| p.done[0].len() == 1 && p.done[1].len() == 1);
    assert_eq!(p.done[0], [send_wc(1, p.qp(0), WcStatus::RemoteInvalidRequest)]);
    assert_eq!(p.done[1][0].status, WcStatus::LocalError);
}

#[test]
fn more_reads_than_offered_are_refused() {
    let mut p = Pair::with(1, 1024, Faults::default(), 16, 4);
    // The peer offers none.
    let qp = p.qp(1);
    p.engines[1].qps[qp.0 as usize].as_mut().unwrap().responder =
        Responder::new(qp, Psn::new(PSNS[0]), 0);
    let remote = p.expose(1, Span::new(0, 64), Access::RemoteRead);
    p.post(0, 1, SendOp::Read { remote }, Span::new(0, 64), true);
    p.run_until("refusal", |p| p.done[0].len() == 1);
    assert_eq!(p.done[0][0].status, WcStatus::RemoteInvalidRequest);
}

#[test]
fn a_silent_peer_is_given_up() {
    let mut p = Pair::new(1, 1024, Faults { loss: 1000, ..Faults::default() });
    p.post(0, 1, SendOp::Send, Span::new(0, 64), false);
    let start = p.now;
    p.run_until("giving up", |p| !p.done[0].is_empty());
    assert_eq!(p.done[0], [send_wc(1, p.qp(0), WcStatus::RetryExceeded)]);
    let took = p.now - start;
    assert!((15..20).contains(&took.as_secs()), "{took:?}");
}

#[test]
fn a_failed_queue_pair_flushes_everything_and_what_is_posted_later() {
    let mut p = Pair::new(1, 1024, Faults::default());
    p.recv(0, 1, Span::new(0, 64), Span::default());
    p.post(0, 2, SendOp::Send, Span::new(0, 64), false);
    let qp = p.qp(0);
    p.engines[0].fail(qp);
    p.engines[0].fail(qp);
    p.recv(0, 3, Span::new(0, 64), Span::default());
    p.post(0, 4, SendOp::Send, Span::new(0, 64), false);
    p.settle();
    let ids: Vec<_> = p.done[0].iter().map(|wc| (wc.wr_id.0, wc.status)).collect();
    assert_eq!(ids, [2, 1, 3, 4].map(|id| (id, WcStatus::Flushed)));
    p.engines[0].detach(qp);
    assert!(p.engines[0].by_qpn.iter().all(|&at| at == 0));
}

/// A mix of everything in both directions over a bad network: all of it arrives, once, in order.
fn mixed(seed: u64, faults: Faults) {
    let mtu = [256, 1024, 4096][seed as usize % 3];
    let credit = [1, 4, 16][(seed / 3) as usize % 3];
    let mut p = Pair::with(seed, mtu, faults, credit, 512);
    const COUNT: u64 = 40;
    const STEP: u32 = 40_000;
    let mut expected = Vec::new();
    for end in 0..2usize {
        for i in 0..COUNT {
            let span = Span::new(i as u32 * STEP, p.rng.random_range(0..STEP / 2));
            expected.push((end, span, p.pattern(end, span, (i as u8) ^ (end as u8 * 77))));
        }
    }
    // Each end's upper half of a step takes what the other end's lower half holds.
    for end in 0..2usize {
        let all = Span::new(0, 4 << 20);
        let open = p.expose(1 - end, all, Access::RemoteWrite);
        for i in 0..COUNT {
            let local = expected[end * COUNT as usize + i as usize].1;
            let at = u64::from(local.offset() + STEP / 2);
            let remote = RemoteAddr { addr: open.addr + at, ..open };
            match i % 4 {
                0 | 1 => p.post(end, i, SendOp::Write { remote }, local, i % 2 == 0),
                2 => {
                    let theirs = expected[(1 - end) * COUNT as usize + i as usize].1;
                    let source =
                        RemoteAddr { addr: open.addr + u64::from(theirs.offset()), ..open };
                    let dest = Span::new(theirs.offset() + STEP / 2, theirs.len());
                    p.post(end, i, SendOp::Read { remote: source }, dest, true);
                }
                _ => {
                    let dest = Span::new(local.offset() + STEP / 2, STEP / 2);
                    p.recv(1 - end, 1000 + i, dest, Span::default());
                    p.post(end, i, SendOp::Send, local, true);
                }
            }
        }
    }
    let wanted = COUNT as usize / 4 * 4; // three quarters signaled or READ, one quarter receives
    p.run_until("the mix", |p| p.done.iter().all(|done| done.len() >= wanted));
    p.settle();
    for end in 0..2 {
        assert!(p.done[end].iter().all(Wc::is_ok), "seed {seed}: {:?}", p.done[end]);
        let sends: Vec<_> =
            p.done[end].iter().filter(|wc| wc.op == WcOp::Send).map(|wc| wc.wr_id.0).collect();
        assert_eq!(sends, (0..COUNT).filter(|i| i % 4 != 1).collect::<Vec<_>>(), "seed {seed}");
    }
    for (i, (end, span, bytes)) in expected.iter().enumerate() {
        let moved = Span::new(span.offset() + STEP / 2, span.len());
        let at = 1 - end;
        assert!(p.bytes(at, moved) == *bytes, "seed {seed}: item {i} of end {end}");
    }
}

#[test]
fn everything_arrives_over_a_good_network() {
    for seed in 0..20 {
        mixed(seed, Faults::default());
    }
}

#[test]
fn everything_arrives_over_a_bad_network() {
    let faults = Faults { loss: 20, duplicate: 20, reorder: 20, damage: 20 };
    for seed in 0..60 {
        mixed(seed, faults);
    }
}

#[test]
fn everything_arrives_with_a_tenth_lost() {
    let seeds = std::env::var("SOFT_ROCE_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(60);
    for seed in 0..seeds {
        mixed(seed, Faults { loss: 100, ..Faults::default() });
    }
}
