//! Peers that mean harm, beside a connection that must not notice.

mod common;

use common::{QP, World};
use rdma::*;
use region::Span;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::time::Duration;

const ROCE_PORT: u16 = 4791;
const CM_QPN: u32 = 1;

/// Dice of our own, so that a failure can be repeated.
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        self.0 >> 24
    }

    fn below(&mut self, end: u64) -> u64 {
        self.roll() % end
    }

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.roll() as u8).collect()
    }
}

/// Sends packets from one address, which may be somebody else's, to an end's port.
struct Attacker {
    socket: UdpSocket,
    from: Ipv4Addr,
    to: Ipv4Addr,
    sent: u64,
}

impl Attacker {
    fn new(from: IpAddr, to: IpAddr) -> Attacker {
        let (IpAddr::V4(from), IpAddr::V4(to)) = (from, to) else { panic!("IPv4") };
        // Any port but 4791, which the owner of the address has.
        Attacker { socket: UdpSocket::bind((from, 0)).unwrap(), from, to, sent: 0 }
    }

    /// A peer at an address of its own, which hears what it is answered.
    fn peer(from: [u8; 4], to: IpAddr) -> Attacker {
        let mut peer = Attacker::new(from.into(), to);
        peer.socket = UdpSocket::bind((peer.from, ROCE_PORT)).unwrap();
        peer.socket.set_nonblocking(true).unwrap();
        peer
    }

    /// The next datagram that came, while the world turns.
    fn hear(&self, w: &mut World) -> Vec<u8> {
        let deadline = w.now() + Duration::from_secs(10);
        let mut buffer = [0; 5000];
        loop {
            assert!(w.now() < deadline, "no answer");
            w.turn();
            if let Ok(len) = self.socket.recv(&mut buffer) {
                return buffer[..len].to_vec();
            }
        }
    }

    fn raw(&mut self, bytes: &[u8]) {
        let _ = self.socket.send_to(bytes, (self.to, ROCE_PORT));
        self.sent += 1;
    }

    /// A packet with a right ICRC: `body` is what follows the BTH.
    fn packet(&mut self, opcode: u8, qpn: u32, psn: u32, body: &[u8]) {
        let sealed = self.seal(opcode, qpn, psn, body);
        self.raw(&sealed);
    }

    fn seal(&self, opcode: u8, qpn: u32, psn: u32, body: &[u8]) -> Vec<u8> {
        let mut packet = vec![opcode, 0, 0xff, 0xff];
        packet.extend(qpn.to_be_bytes());
        packet.extend((psn & 0xff_ffff | 1 << 31).to_be_bytes());
        packet.extend(body);
        let udp_len = (8 + packet.len() + 4) as u16;
        let mut covered = vec![0xff; 8];
        covered.extend([0x45, 0xff]);
        covered.extend((20 + udp_len).to_be_bytes());
        covered.extend([0, 0, 0x40, 0, 0xff, 17, 0xff, 0xff]);
        covered.extend(self.from.octets());
        covered.extend(self.to.octets());
        covered.extend(self.socket.local_addr().unwrap().port().to_be_bytes());
        covered.extend(ROCE_PORT.to_be_bytes());
        covered.extend(udp_len.to_be_bytes());
        covered.extend([0xff, 0xff]);
        covered.extend(&packet);
        covered[8 + 20 + 8 + 4] = 0xff;
        packet.extend(crc32fast::hash(&covered).to_le_bytes());
        packet
    }

    /// A connection management message: its number and what follows the MAD header.
    fn mad(&mut self, attribute: u16, transaction: u64, fields: &[u8]) {
        let mut body = vec![0x80, 0x01, 0, 0, 0, 0, 0, 1]; // queue key, source queue pair
        body.extend([1, 7, 2, 3, 0, 0, 0, 0]);
        body.extend(transaction.to_be_bytes());
        body.extend(attribute.to_be_bytes());
        body.extend([0; 6]);
        body.extend(fields);
        body.resize(8 + 256, 0);
        self.packet(0x64, CM_QPN, 0, &body);
    }

    fn request(&mut self, comm_id: u32, qpn: u32, port: u16, mtu_code: u8) {
        let mut fields = vec![0; 232];
        fields[..4].copy_from_slice(&comm_id.to_be_bytes());
        fields[8..16].copy_from_slice(&(0x0106_0000u64 | u64::from(port)).to_be_bytes());
        fields[32..36].copy_from_slice(&(qpn << 8).to_be_bytes());
        fields[50] = mtu_code << 4;
        fields[141] = 0x40;
        self.mad(0x10, comm_id.into(), &fields);
    }
}

/// Moves data both ways over a connection and checks every byte.
struct Mover {
    ours: Attached,
    theirs: Attached,
    window: RemoteAddr,
    rounds: u8,
}

const OURS: Span = Span::new(1 << 20, 64 << 10);
const THEIRS: Span = Span::new(2 << 20, 64 << 10);
const BACK: Span = Span::new(3 << 20, 64 << 10);

impl Mover {
    fn new(w: &mut World, at: [(ConnId, Attached); 2]) -> Mover {
        let [(_, ours), (_, theirs)] = at;
        let window = w.ends[0].device.expose(ours.qp, OURS, Access::RemoteWrite).unwrap();
        Mover { ours, theirs, window, rounds: 0 }
    }

    /// A WRITE to the host, a READ of the same, a SEND each way; `harm` is done in between.
    fn round(&mut self, w: &mut World, mut harm: impl FnMut(&mut World)) {
        self.rounds = self.rounds.wrapping_add(1);
        let bytes: Vec<u8> = (0..THEIRS.len()).map(|i| i as u8 ^ self.rounds).collect();
        w.ends[1].region.write(THEIRS, &bytes);
        let recv = |id| RecvWr { wr_id: WrId(id), head: Span::new(0, 64), tail: Span::default() };
        w.ends[0].device.post_recv(self.ours.recv_queue.id, recv(1));
        w.ends[1].device.post_recv(self.theirs.recv_queue.id, recv(2));
        let send = |id, op, local| SendWr { wr_id: WrId(id), op, local, signaled: true };
        let remote = self.window;
        let target = &mut w.ends[1].device;
        target.post_send(self.theirs.qp, send(3, SendOp::Write { remote }, THEIRS));
        target.post_send(self.theirs.qp, send(4, SendOp::Read { remote }, BACK));
        target.post_send(self.theirs.qp, send(5, SendOp::Send, Span::new(64, 16)));
        w.ends[0].device.post_send(self.ours.qp, send(6, SendOp::Send, Span::new(64, 64)));
        let deadline = w.now() + Duration::from_secs(20);
        while w.ends[0].done.len() < 2 || w.ends[1].done.len() < 4 {
            assert!(w.now() < deadline, "round {}: {:?}", self.rounds, w.ends[1].device.counters());
            harm(w);
            w.turn();
        }
        assert!(w.ends.iter().all(|end| end.done.iter().all(Wc::is_ok)));
        w.ends.iter_mut().for_each(|end| end.done.clear());
        for (end, span) in [(0, OURS), (1, BACK)] {
            let mut out = vec![0; bytes.len()];
            w.ends[end].region.read(span, &mut out);
            assert!(out == bytes, "round {}: wrong data", self.rounds);
        }
    }
}

fn world(addr: SocketAddr) -> (World, [(ConnId, Attached); 2], IpAddr) {
    let mut w = World::new();
    let now = w.now();
    w.ends[1].manager.listen(now, addr).unwrap();
    let at = w.connect(addr);
    let host = w.ends[1].events.iter().find_map(|event| match event {
        CmEvent::Request(request) => Some(request.peer.ip()),
        _ => None,
    });
    (w, at, host.unwrap())
}

#[test]
fn damaged_forged_and_random_packets_do_not_disturb_a_connection() {
    let addr: SocketAddr = "127.0.81.1:4420".parse().unwrap();
    let (mut w, at, host) = world(addr);
    let stranger = "127.0.81.200".parse().unwrap();
    let mut attackers = [Attacker::new(host, addr.ip()), Attacker::new(stranger, addr.ip())];
    let mut mover = Mover::new(&mut w, at);
    let mut dice = Dice(1);
    for round in 0..150u32 {
        mover.round(&mut w, |_| {
            for attacker in &mut attackers {
                for _ in 0..8 {
                    // Queue pairs of the one core there is.
                    let qpn = (dice.below(1 << 16) as u32) << 8 | 1;
                    let psn = dice.roll() as u32;
                    let len = dice.below(1200) as usize;
                    let body = dice.bytes(len / 4 * 4);
                    let opcode = dice.below(0x18) as u8;
                    match dice.below(5) {
                        0 => attacker.raw(&dice.bytes(len)),
                        1 => {
                            let whole = attacker.seal(opcode, qpn, psn, &body);
                            attacker.raw(&whole[..len.min(whole.len())]);
                        }
                        2 => {
                            let mut damaged = attacker.seal(opcode, qpn, psn, &body);
                            let at = dice.below(damaged.len() as u64) as usize;
                            damaged[at] ^= 1 << dice.below(8);
                            attacker.raw(&damaged);
                        }
                        3 => attacker.packet(opcode, qpn, psn, &body),
                        _ => attacker.packet(0x81, qpn, 0, &[0; 16]),
                    }
                }
            }
        });
        if round == 0 {
            // Every queue pair once, so that the right one is among them: a WRITE with a key that
            // was made up, from the host's own address.
            let mut reth = vec![0, 0, 0, 1, 0, 0, 0, 0, 1, 2, 3, 4, 0, 0, 0, 64];
            reth.extend([9; 64]);
            for sequence in 0..1 << 16 {
                attackers[0].packet(0x0a, sequence << 8 | 1, dice.roll() as u32, &reth);
                if sequence % 64 == 0 {
                    w.turn();
                }
            }
        }
    }
    let counters = w.ends[1].device.counters();
    assert!(counters.damaged > 100, "the integrity check saw them: {counters:?}");
    assert!(counters.malformed > 100 && counters.stray > 100, "{counters:?}");
    assert_eq!(counters.failed, 0);
    assert!(attackers.iter().all(|attacker| attacker.sent > 1000));
}

#[test]
fn forged_connection_messages_do_not_disturb_a_connection() {
    let addr: SocketAddr = "127.0.81.2:4420".parse().unwrap();
    let (mut w, at, host) = world(addr);
    let stranger = "127.0.81.201".parse().unwrap();
    let mut attackers = [Attacker::new(host, addr.ip()), Attacker::new(stranger, addr.ip())];
    let mut mover = Mover::new(&mut w, at);
    w.ends.iter_mut().for_each(|end| end.events.clear());
    let mut dice = Dice(2);
    for _ in 0..30 {
        mover.round(&mut w, |_| {
            for attacker in &mut attackers {
                for _ in 0..4 {
                    // REP, RTU, REJ, DREQ, DREP, MRA and such as do not exist, with ids made up.
                    let attribute = 0x11 + dice.below(9) as u16;
                    let fields = dice.bytes(232);
                    attacker.mad(attribute, dice.roll(), &fields);
                    let garbage = dice.bytes(dice.0 as usize % 300 / 4 * 4);
                    attacker.packet(0x64, CM_QPN, 0, &garbage);
                }
            }
        });
    }
    assert!(w.ends.iter().all(|end| end.events.is_empty()), "{:?}", w.ends[1].events);
    assert_eq!(w.ends[1].manager.connections(), 1);
}

#[test]
fn a_flood_of_requests_is_bounded_and_others_still_get_in() {
    let addr: SocketAddr = "127.0.81.3:4420".parse().unwrap();
    let (mut w, at, _) = world(addr);
    let mut mover = Mover::new(&mut w, at);
    let mut flooder = Attacker::new("127.0.81.202".parse().unwrap(), addr.ip());
    let mut next = 1;
    w.ends[1].events.clear();
    for _ in 0..20 {
        mover.round(&mut w, |w| {
            for _ in 0..40 {
                flooder.request(next, next, addr.port(), 3);
                next += 1;
            }
            // The upper layer refuses half of them and never decides the others.
            let now = w.now();
            let target = &mut w.ends[1];
            for (i, event) in std::mem::take(&mut target.events).into_iter().enumerate() {
                if let CmEvent::Request(request) = event
                    && i % 2 == 0
                {
                    target.manager.reject(now, request.conn, &[]);
                }
            }
        });
    }
    // Until its share is used up.
    while next < 20_000 {
        for _ in 0..100 {
            flooder.request(next, next, addr.port(), 3);
            next += 1;
        }
        w.turn();
    }
    let held = w.ends[1].manager.connections();
    assert!((1000..9400).contains(&held), "{held}");
    // Another host, from another address.
    let other = w.connect(addr);
    let mut other = Mover::new(&mut w, other);
    other.round(&mut w, |_| ());
    mover.round(&mut w, |_| ());
    w.ends[1].events.clear();
    w.pass(Duration::from_secs(35));
    assert_eq!(w.ends[1].manager.connections(), 2, "the flood is forgotten");
    mover.round(&mut w, |_| ());
}

#[test]
fn a_key_of_another_connection_or_none_fails_just_its_own_queue_pair() {
    let addr: SocketAddr = "127.0.81.4:4420".parse().unwrap();
    let (mut w, at, _) = world(addr);
    let mut mover = Mover::new(&mut w, at);
    let window = w.ends[1].device.expose(at[1].1.qp, THEIRS, Access::RemoteWrite).unwrap();
    let made_up = RemoteAddr { rkey: window.rkey ^ 1, ..window };
    for remote in [window, made_up] {
        let [(_, ours), _] = w.connect(addr);
        // The key is the first connection's, the queue pair another's.
        let local = Span::new(0, 4096);
        let op = SendOp::Write { remote };
        let wr = SendWr { wr_id: WrId(1), op, local, signaled: true };
        w.ends[0].device.post_send(ours.qp, wr);
        w.until("the refusal", |w| !w.ends[0].done.is_empty());
        assert_eq!(w.ends[0].done[0].status, WcStatus::RemoteAccess);
        w.ends[0].done.clear();
        mover.round(&mut w, |_| ());
        // The offender is left behind.
        w.ends[0].device.fail(ours.qp);
    }
    assert_eq!(w.ends[1].device.counters().failed, 2);
}

fn number(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap())
}

#[test]
fn what_a_connected_peer_damages_or_forges_is_not_taken() {
    let addr: SocketAddr = "127.0.81.5:4420".parse().unwrap();
    let mut w = World::new();
    let now = w.now();
    w.ends[1].manager.listen(now, addr).unwrap();
    // A peer made by hand, which knows the numbers that a stranger would have to guess.
    let mut peer = Attacker::peer([127, 0, 81, 205], addr.ip());
    peer.request(77, 9, addr.port(), 3);
    w.until("request", |w| w.ends[1].events.iter().any(|e| matches!(e, CmEvent::Request(_))));
    let Some(CmEvent::Request(request)) = w.ends[1].events.pop() else { unreachable!() };
    let endpoint = w.ends[1].manager.prepare(request.conn, CoreIndex(0), &QP).unwrap();
    let at = w.ends[1].device.attach(endpoint);
    let recv = |id| RecvWr { wr_id: WrId(id), head: Span::new(0, 2048), tail: Span::default() };
    w.ends[1].device.post_recv(at.recv_queue.id, recv(1));
    w.ends[1].device.post_recv(at.recv_queue.id, recv(2));
    let accept = AcceptParams {
        private_data: vec![],
        initiator_depth: 1,
        responder_resources: 1,
        rnr_retry: 7,
    };
    let now = w.now();
    w.ends[1].manager.accept(now, request.conn, &accept).unwrap();
    let rep = peer.hear(&mut w).split_off(12 + 8 + 24);
    let (qpn, psn) = (number(&rep, 12) >> 8, number(&rep, 20) >> 8);
    let mut ids = 77u32.to_be_bytes().to_vec();
    ids.extend(&rep[..4]);
    peer.mad(0x14, 77, &ids);
    w.until("the end of connecting", |w| {
        w.ends[1].events.contains(&CmEvent::Established(request.conn))
    });

    let settle = |w: &mut World| {
        for _ in 0..200 {
            w.turn();
            std::thread::sleep(Duration::from_micros(50));
        }
    };
    let body: Vec<u8> = (0..64).collect();
    let right = peer.seal(0x04, qpn, psn, &body);
    for at in [12, 30, right.len() - 1] {
        let mut damaged = right.clone();
        damaged[at] ^= 4;
        peer.raw(&damaged);
    }
    peer.raw(&right[..right.len() - 4]);
    settle(&mut w);
    assert_eq!(w.ends[1].done, [], "damaged");
    // One too many ahead shows a gap; the right one is taken; then the gap's is no duplicate.
    peer.packet(0x04, qpn, psn + 1, &body);
    let nak = peer.hear(&mut w);
    assert_eq!((nak[0], nak[12], number(&nak, 8) & 0xff_ffff), (0x11, 0x60, psn & 0xff_ffff));
    peer.raw(&right);
    w.until("the message", |w| w.ends[1].done.len() == 1);
    let mut out = [0; 64];
    w.ends[1].region.read(Span::new(0, 64), &mut out);
    assert_eq!((out[..] == body[..], w.ends[1].done[0].wr_id), (true, WrId(1)));
    let ack = peer.hear(&mut w);
    assert_eq!((ack[0], ack[12] >> 5), (0x11, 0));
    // A duplicate is acknowledged again and not carried out again.
    peer.raw(&right);
    assert_eq!(peer.hear(&mut w)[12] >> 5, 0);
    assert_eq!(w.ends[1].done.len(), 1);
    // A WRITE with a key that was never given fails the queue pair and nothing else.
    let mut reth = vec![0, 0, 0, 1, 0, 0, 0, 0, 1, 2, 3, 4, 0, 0, 0, 64];
    reth.extend(&body);
    peer.packet(0x0a, qpn, psn + 1, &reth);
    assert_eq!(peer.hear(&mut w)[12], 0x62);
    settle(&mut w);
    assert_eq!(w.ends[1].device.counters().failed, 1);
    assert!(w.ends[1].device.counters().damaged >= 4);
}
