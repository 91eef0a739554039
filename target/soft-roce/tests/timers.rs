//! What happens when an end falls silent.

mod common;

use common::{QP, World};
use rdma::*;
use region::Span;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::Duration;

fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}

#[test]
fn a_vanished_peer_fails_the_queue_pair_and_is_forgotten() {
    let addr: SocketAddr = "127.0.79.1:4420".parse().unwrap();
    let mut w = World::new();
    let now = w.now();
    w.ends[1].manager.listen(now, addr).unwrap();
    let [(conn, ours), _] = w.connect(addr);
    w.ends[1].silent = true;
    let recv = RecvWr { wr_id: WrId(1), head: Span::new(0, 64), tail: Span::default() };
    w.ends[0].device.post_recv(ours.recv_queue.id, recv);
    let send = |id, signaled| SendWr {
        wr_id: WrId(id),
        op: SendOp::Send,
        local: Span::new(64, 64),
        signaled,
    };
    w.ends[0].device.post_send(ours.qp, send(2, false));
    w.ends[0].device.post_send(ours.qp, send(3, true));
    w.pass(seconds(14));
    assert_eq!(w.ends[0].done, [], "it may be slow");
    w.pass(seconds(6));
    let status: Vec<_> = w.ends[0].done.iter().map(|wc| (wc.wr_id.0, wc.status)).collect();
    assert_eq!(status, [(2, WcStatus::RetryExceeded), (3, WcStatus::Flushed)]);

    // The upper layer hangs up; nobody answers that either.
    let now = w.now();
    w.ends[0].manager.disconnect(now, conn);
    let endpoint = w.ends[0].device.detach(ours.qp);
    w.ends[0].manager.destroy(conn, endpoint);
    w.pass(seconds(2));
    assert_eq!(w.ends[0].manager.connections(), 1, "remembered for late messages");
    w.pass(seconds(11));
    assert_eq!((w.ends[0].manager.connections(), w.ends[0].manager.queue_pairs()), (0, 0));
    assert_eq!(w.ends[0].manager.timeout(), None);
}

#[test]
fn a_request_that_nobody_decides_is_refused_and_told_of() {
    let addr: SocketAddr = "127.0.79.2:4420".parse().unwrap();
    let mut w = World::new();
    let now = w.now();
    w.ends[1].manager.listen(now, addr).unwrap();
    let (conn, endpoint) = w.ends[0].manager.open(now, addr, CoreIndex(0), &QP).unwrap();
    let params = ConnectParams { private_data: vec![], initiator_depth: 0, responder_resources: 1 };
    w.ends[0].manager.connect(now, conn, &params).unwrap();
    w.until("request", |w| w.ends[1].events.iter().any(|e| matches!(e, CmEvent::Request(_))));
    w.pass(seconds(25));
    let gone = |events: &[CmEvent]| {
        events.iter().filter(|e| matches!(e, CmEvent::Disconnected { .. })).count()
    };
    assert_eq!(gone(&w.ends[1].events), 1);
    let refused = |e: &&CmEvent| matches!(e, CmEvent::Refused { conn: c, .. } if *c == conn);
    assert_eq!(w.ends[0].events.iter().filter(refused).count(), 1);
    w.ends[0].manager.destroy(conn, endpoint);
    w.pass(seconds(11));
    assert!(w.ends.iter().all(|end| end.manager.connections() == 0));
}

#[test]
fn an_accepted_peer_that_never_confirms_is_told_of() {
    let addr: SocketAddr = "127.0.79.3:4420".parse().unwrap();
    let mut w = World::new();
    let now = w.now();
    w.ends[1].manager.listen(now, addr).unwrap();
    let (conn, _endpoint) = w.ends[0].manager.open(now, addr, CoreIndex(0), &QP).unwrap();
    let params = ConnectParams { private_data: vec![], initiator_depth: 0, responder_resources: 1 };
    w.ends[0].manager.connect(now, conn, &params).unwrap();
    w.until("request", |w| w.ends[1].events.iter().any(|e| matches!(e, CmEvent::Request(_))));
    w.ends[0].silent = true;
    let Some(CmEvent::Request(request)) = w.ends[1].events.pop() else { unreachable!() };
    w.ends[1].events.clear();
    let endpoint = w.ends[1].manager.prepare(request.conn, CoreIndex(0), &QP).unwrap();
    let attached = w.ends[1].device.attach(endpoint);
    let accept = AcceptParams {
        private_data: vec![],
        initiator_depth: 1,
        responder_resources: 1,
        rnr_retry: 7,
    };
    let now = w.now();
    w.ends[1].manager.accept(now, request.conn, &accept).unwrap();
    w.pass(seconds(14));
    assert!(matches!(&w.ends[1].events[..],
        [CmEvent::Disconnected { conn, .. }] if *conn == request.conn));
    let endpoint = w.ends[1].device.detach(attached.qp);
    w.ends[1].manager.destroy(request.conn, endpoint);
    w.pass(seconds(11));
    assert_eq!((w.ends[1].manager.connections(), w.ends[1].manager.queue_pairs()), (0, 0));
}

/// Whether a socket of this process has the provider's port at a local address of IPv4.
fn holds(local: IpAddr) -> bool {
    let IpAddr::V4(v4) = local else { unreachable!("the loopback network's") };
    let at = format!("{:08X}:{:04X}", u32::from_ne_bytes(v4.octets()), 4791);
    let table = std::fs::read_to_string("/proc/self/net/udp").unwrap();
    let inodes = table.lines().filter_map(|line| {
        let mut words = line.split_whitespace().skip(1);
        (words.next() == Some(&at)).then(|| format!("socket:[{}]", words.nth(7).unwrap()))
    });
    let there: Vec<String> = inodes.collect();
    let files = std::fs::read_dir("/proc/self/fd").unwrap();
    let mut links = files.filter_map(|file| std::fs::read_link(file.ok()?.path()).ok());
    links.any(|link| there.iter().any(|socket| link.as_os_str() == socket.as_str()))
}

#[test]
fn an_end_that_left_an_address_holds_nothing_there_and_can_connect_again() {
    let addr: SocketAddr = "127.0.79.4:4420".parse().unwrap();
    let mut w = World::new();
    let now = w.now();
    w.ends[1].manager.listen(now, addr).unwrap();
    for _ in 0..3 {
        let [(conn, ours), (_, theirs)] = w.connect(addr);
        let now = w.now();
        w.ends[0].manager.disconnect(now, conn);
        w.until("the end", |w| {
            w.ends[1].events.iter().any(|e| matches!(e, CmEvent::Disconnected { .. }))
        });
        let request = w.request();
        // Which of the loopback network's it is depends on who else is there.
        let local = request.peer.ip();
        assert!(holds(local));
        let endpoint = w.ends[0].device.detach(ours.qp);
        w.ends[0].manager.destroy(conn, endpoint);
        let endpoint = w.ends[1].device.detach(theirs.qp);
        w.ends[1].manager.destroy(request.conn, endpoint);
        w.pass(seconds(3));
        assert!(!holds(local), "{local}");
        assert!(holds(addr.ip()), "that of the listener");
    }
}

#[test]
fn an_answer_that_waits_behind_others_is_read_before_its_timer_counts() {
    let addr: SocketAddr = "127.0.79.5:4420".parse().unwrap();
    let mut w = World::new();
    let now = w.now();
    w.ends[1].manager.listen(now, addr).unwrap();
    let [(_, ours), (_, theirs)] = w.connect(addr);
    let host = w.request().peer.ip();
    let recv = RecvWr { wr_id: WrId(1), head: Span::new(0, 64), tail: Span::default() };
    w.ends[1].device.post_recv(theirs.recv_queue.id, recv);
    let send =
        SendWr { wr_id: WrId(2), op: SendOp::Send, local: Span::new(64, 64), signaled: true };
    w.ends[0].device.post_send(ours.qp, send);
    let now = w.now();
    w.ends[0].device.flush(now);
    // More than one turn takes in, for the core that waits: a stranger's.
    let stranger = UdpSocket::bind("127.0.79.6:0").unwrap();
    for _ in 0..200 {
        stranger.send_to(&[0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0], (host, 4791)).unwrap();
    }
    w.ends[0].silent = true;
    w.until("the message", |w| !w.ends[1].done.is_empty());
    w.turn();
    w.ends[0].silent = false;
    w.skip(seconds(1));
    w.until("its answer", |w| !w.ends[0].done.is_empty());
    assert!(w.ends[0].done.iter().all(Wc::is_ok));
    assert_eq!(w.ends[0].device.counters().retransmitted, 0);
}
