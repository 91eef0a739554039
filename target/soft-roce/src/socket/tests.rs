use super::*;
use crate::batch::Header;
use crate::intake::Intake;
use crate::path::Path;
use crate::psn::Psn;
use crate::wire::headers::{Kind, Opcode, Part};
use crate::wire::icrc::Prefix;
use crate::wire::packet::Packet;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::net::UdpSocket;

fn path(from: IpAddr, to: IpAddr) -> Path {
    let prefix = Prefix { source: from, dest: to, source_port: ROCE_PORT, dest_port: ROCE_PORT };
    Path { prefix, traffic_class: 0, mtu: 4096, dest_qpn: 1 }
}

fn push(batch: &mut Batch, path: &Path, psn: u32, len: usize) {
    let header = Header {
        opcode: Opcode::plain(Kind::Send, Part::Only),
        psn: Psn::new(psn),
        ack_req: false,
        solicited: false,
        extension: &[],
    };
    batch.push(path, header, len, |payload| payload.fill(psn as u8));
}

/// Whether a thread that sleeps on the socket's sources would wake.
fn wakes(socket: &Socket) -> bool {
    let source = |fd| PollFd::from_borrowed_fd(fd, PollFlags::IN);
    let mut fds: Vec<_> = socket.wait_sources().map(source).collect();
    poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap() > 0
}

fn send_all(socket: &Socket, batch: &mut Batch) -> usize {
    let mut calls = 0;
    while !batch.runs().is_empty() {
        let sent = socket.send(batch).unwrap();
        batch.advance(sent);
        calls += 1;
    }
    calls
}

/// Receives until `count` packets have come, all of them undamaged.
fn receive_all(socket: &Socket, count: usize, mut take: impl FnMut(bool, &[u8])) -> Intake {
    let (mut intake, mut seen) = (Intake::new(), 0);
    for _ in 0..1000 {
        intake.receive(socket, 1, |_, marked, datagram| {
            take(marked, datagram);
            seen += 1;
        });
        assert_eq!(intake.damaged(), 0, "after {seen} packets");
        if seen >= count {
            return intake;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    panic!("{seen} of {count} packets came");
}

#[test]
fn packets_of_any_lengths_leave_together_and_arrive_right_and_in_order() {
    let addr = |last| IpAddr::from([127, 1, 90, last]);
    let ends = [1, 2].map(|last| Socket::bind(addr(last), None, 2, 4 << 20).unwrap());
    // As messages do: runs of equal packets, a longer first and a shorter last one, lone ones.
    let lens: Vec<usize> = (0..600)
        .map(|i: usize| match i % 40 {
            0 => 1040,
            1..=30 => 1024,
            31 => 16,
            32 => 64,
            33 => 0,
            n => n * 17,
        })
        .collect();
    for segmented in [true, false] {
        let mut batch = Batch::new(1 << 20, segmented);
        for (psn, len) in lens.iter().enumerate() {
            push(&mut batch, &path(addr(1), addr(2)), psn as u32, *len);
        }
        let runs = batch.runs().len();
        let calls = send_all(&ends[0], &mut batch);
        assert!(calls < runs, "{runs} runs in {calls} calls");
        let mut next = 0u32;
        receive_all(&ends[1], lens.len(), |_, datagram| {
            let packet = Packet::parse(datagram).unwrap();
            assert_eq!(packet.bth.psn, Psn::new(next));
            assert_eq!(packet.payload.len(), lens[next as usize]);
            assert!(packet.payload.iter().all(|&byte| byte == next as u8));
            next += 1;
        });
    }
}

#[test]
fn packets_for_several_cores_come_to_each_in_one_batch() {
    let addr = |last| IpAddr::from([127, 1, 93, last]);
    let from = Socket::bind(addr(1), None, 0, 4 << 20).unwrap();
    let group = bind_group(addr(2), 2, 0, 4 << 20).unwrap();
    let mut batch = Batch::new(1 << 20, true);
    const EACH: u32 = 8;
    for psn in 0..EACH * 3 {
        // In turns, as the acknowledgements of several queue pairs do: all of one length.
        let dest_qpn = [1, qpn_of(7, 0), qpn_of(7, 1)][psn as usize % 3];
        push(&mut batch, &Path { dest_qpn, ..path(addr(1), addr(2)) }, psn, 0);
    }
    send_all(&from, &mut batch);
    for (socket, place) in group.iter().zip(0..) {
        let mut came = Vec::new();
        receive_all(socket, EACH as usize, |_, datagram| {
            came.push(Packet::parse(datagram).unwrap().bth.psn);
        });
        let expected: Vec<Psn> = (0..EACH).map(|n| Psn::new(n * 3 + place)).collect();
        assert_eq!(came, expected);
    }
}

/// Sends what a peer does that knows nothing of our cores: packets for all sockets of a group in
/// turns, as one segmented send. The kernel steers it by the first, which is for place `first`.
fn send_mixed(from: &Socket, to: IpAddr, first: usize, count: u32) {
    let mut batch = Batch::new(1 << 20, false);
    for psn in 0..count {
        let dest_qpn = [1, qpn_of(7, 0), qpn_of(7, 1)][(first + psn as usize) % 3];
        push(&mut batch, &Path { dest_qpn, ..path(from.local(), to) }, psn, 0);
    }
    let bytes: Vec<u8> = batch.runs().iter().flat_map(|run| batch.bytes(run)).copied().collect();
    let (dest, segment) = (SockaddrStorage::from(SocketAddr::new(to, ROCE_PORT)), 16);
    let (iov, cut) = ([IoSlice::new(&bytes)], [ControlMessage::UdpGsoSegments(&segment)]);
    let sent = sendmsg(from.socket.as_raw_fd(), &iov, &cut, MsgFlags::empty(), Some(&dest));
    assert_eq!(sent, Ok(16 * count as usize));
}

#[test]
fn joined_packets_for_several_cores_come_to_each() {
    let addr = |last| IpAddr::from([127, 1, 94, last]);
    let from = Socket::bind(addr(1), None, 0, 4 << 20).unwrap();
    let group = bind_group(addr(2), 2, 0, 4 << 20).unwrap();
    const EACH: u32 = 20;
    for first in 0..3 {
        send_mixed(&from, addr(2), first, EACH * 3);
        // Whoever gets them all is woken by its socket, and the others by that.
        let mut all: Vec<Vec<Psn>> = vec![Vec::new(); 3];
        for place in (0..3).map(|n| (first + n) % 3) {
            assert!(wakes(&group[place]));
            let intake = receive_all(&group[place], EACH as usize, |_, datagram| {
                all[place].push(Packet::parse(datagram).unwrap().bth.psn);
            });
            let passed_on = if place == first { EACH * 2 } else { 0 };
            assert_eq!((intake.passed_on, intake.overrun), (u64::from(passed_on), 0));
            receive_all(&group[place], 0, |_, _| ());
            assert!(!wakes(&group[place]), "place {place} would not sleep again");
        }
        for (place, came) in all.iter().enumerate() {
            let offset = ((place + 3 - first) % 3) as u32;
            let expected: Vec<Psn> = (0..EACH).map(|n| Psn::new(n * 3 + offset)).collect();
            assert_eq!(*came, expected, "place {place}");
        }
    }
}

#[test]
fn a_flood_for_a_core_that_does_not_keep_up_is_bounded_and_counted() {
    let addr = |last| IpAddr::from([127, 1, 95, last]);
    let from = Socket::bind(addr(1), None, 0, 4 << 20).unwrap();
    let group = bind_group(addr(2), 2, 0, 4 << 20).unwrap();
    const RUNS: u32 = 40; // of 20 packets for each socket
    let mut came = 0;
    let mut lost = 0;
    let mut passed_on = 0;
    for _ in 0..RUNS {
        send_mixed(&from, addr(2), 1, 60);
        let intake = receive_all(&group[1], 20, |_, _| came += 1);
        passed_on += intake.passed_on;
        lost += intake.overrun;
    }
    assert_eq!(came, RUNS * 20, "its own are not held up");
    let room = 2 * crate::exchange::QUEUE as u64;
    assert_eq!((passed_on, lost), (room, u64::from(RUNS * 40) - room));
}

#[test]
fn lone_runs_and_groups_do_not_change_each_other() {
    let addr = |last| IpAddr::from([127, 1, 92, last]);
    let ends = [1, 2].map(|last| Socket::bind(addr(last), None, 2, 4 << 20).unwrap());
    // Batches of a run or two: what a group set must not cut what follows alone.
    let batches: [&[usize]; 7] = [
        &[1024, 1024, 64, 1024, 1024, 64],
        &[2000],
        &[64],
        &[512, 512, 512],
        &[2000, 1900, 30],
        &[40, 3000],
        &[1024, 1024, 1040, 1024],
    ];
    let mut batch = Batch::new(1 << 20, true);
    let all: Vec<usize> = batches.iter().flat_map(|lens| lens.iter().copied()).collect();
    let mut psn = 0;
    for lens in batches {
        batch.clear();
        for len in lens {
            push(&mut batch, &path(addr(1), addr(2)), psn, *len);
            psn += 1;
        }
        send_all(&ends[0], &mut batch);
    }
    let mut lens = Vec::new();
    receive_all(&ends[1], all.len(), |_, datagram| {
        lens.push(Packet::parse(datagram).unwrap().payload.len());
    });
    assert_eq!(lens, all);
}

#[test]
fn packets_carry_the_traffic_class_that_was_set() {
    let addr = |last| IpAddr::from([127, 1, 91, last]);
    for (class, expected) in [(2, false), (3, true)] {
        let ends = [1, 2].map(|last| Socket::bind(addr(last), None, class, 1 << 16).unwrap());
        let mut batch = Batch::new(1 << 16, true);
        for psn in 0..3 {
            push(&mut batch, &path(addr(1), addr(2)), psn, 64);
        }
        send_all(&ends[0], &mut batch);
        // The lowest two bits both set say that the network is congested.
        receive_all(&ends[1], 3, |marked, _| assert_eq!(marked, expected));
    }
}

sockopt_impl!(
    /// Sends UDP over IPv6 without a checksum, as Linux does for RoCE.
    UdpNoCheck6Tx,
    SetOnly,
    libc::SOL_UDP,
    libc::UDP_NO_CHECK6_TX,
    bool
);

#[test]
fn packets_without_a_udp_checksum_are_taken_over_ipv6() {
    let local: IpAddr = "::1".parse().unwrap();
    let Ok(socket) = Socket::bind(local, None, 2, 1 << 16) else {
        return; // a machine without IPv6
    };
    let peer = UdpSocket::bind((local, 0)).unwrap();
    setsockopt(&peer, UdpNoCheck6Tx, &true).unwrap();
    let mut batch = Batch::new(1 << 16, false);
    let mut path = path(local, local);
    path.prefix.source_port = peer.local_addr().unwrap().port();
    push(&mut batch, &path, 7, 100);
    peer.send_to(batch.bytes(&batch.runs()[0]), (local, ROCE_PORT)).unwrap();
    receive_all(&socket, 1, |_, _| ());
}
