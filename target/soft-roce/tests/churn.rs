//! Many connections, again and again: nothing is left behind. Alone in its process, since it
//! counts the process's file descriptors and memory.

mod common;

use common::{QP, World};
use rdma::*;
use region::Span;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::Duration;

const HOSTS: usize = 64;
const QUEUES: usize = 3;
const ROUNDS: usize = 100;

fn open_files() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Memory of this process that is resident, in bytes.
fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

#[test]
fn connections_come_and_go_and_leave_nothing() {
    let addr: SocketAddr = "127.0.80.1:4420".parse().unwrap();
    let mut w = World::new();
    let now = w.now();
    w.ends[1].manager.listen(now, addr).unwrap();
    w.turn();
    let files = open_files();
    let mut memory = 0;
    for round in 0..ROUNDS {
        one_round(&mut w, addr, round);
        // What is remembered is forgotten.
        w.pass(Duration::from_secs(12));
        for end in &mut w.ends {
            assert_eq!((end.manager.connections(), end.manager.queue_pairs()), (0, 0));
            end.events.clear();
        }
        assert_eq!(open_files(), files, "round {round}");
        if round == ROUNDS / 2 {
            memory = resident();
        }
    }
    let more = resident().saturating_sub(memory);
    // Buffers that a large batch reaches for the first time come to less; a leak of 128 bytes for
    // each end of a connection would show.
    assert!(more < 2 << 20, "{more} bytes more after {ROUNDS} rounds than after half of them");
    let counters = w.ends[1].device.counters();
    assert_eq!((counters.malformed, counters.damaged), (0, 0));
}

fn one_round(w: &mut World, addr: SocketAddr, round: usize) {
    let count = HOSTS * QUEUES;
    let params = ConnectParams {
        private_data: b"churn".to_vec(),
        initiator_depth: 1,
        responder_resources: 4,
    };
    let mut ours: HashMap<ConnId, Attached> = HashMap::new();
    for _ in 0..count {
        let now = w.now();
        let host = &mut w.ends[0];
        let (conn, endpoint) = host.manager.open(now, addr, CoreIndex(0), &QP).unwrap();
        let attached = host.device.attach(endpoint);
        assert!((attached.qp.0 as usize) < count, "places are used again");
        ours.insert(conn, attached);
        host.manager.connect(now, conn, &params).unwrap();
    }
    let mut theirs: HashMap<ConnId, Attached> = HashMap::new();
    let accept = AcceptParams {
        private_data: vec![],
        initiator_depth: 4,
        responder_resources: 1,
        rnr_retry: 7,
    };
    let up = |events: &[CmEvent]| {
        let is_up =
            |event: &&CmEvent| matches!(event, CmEvent::Established(_) | CmEvent::Connected { .. });
        events.iter().filter(is_up).count()
    };
    let deadline = w.now() + Duration::from_secs(60);
    while up(&w.ends[0].events) < count || up(&w.ends[1].events) < count {
        assert!(w.now() < deadline, "round {round}: connecting takes too long");
        w.turn();
        let now = w.now();
        let target = &mut w.ends[1];
        for event in &target.events {
            let CmEvent::Request(request) = event else { continue };
            if theirs.contains_key(&request.conn) {
                continue;
            }
            let endpoint = target.manager.prepare(request.conn, CoreIndex(0), &QP).unwrap();
            theirs.insert(request.conn, target.device.attach(endpoint));
            target.manager.accept(now, request.conn, &accept).unwrap();
        }
    }

    // A message on each; the shared receive queue takes them a few at a time.
    let queue = theirs.values().next().unwrap().recv_queue;
    assert!(queue.shared && theirs.values().all(|at| at.recv_queue == queue));
    let recv = |id| RecvWr { wr_id: WrId(id), head: Span::new(0, 64), tail: Span::default() };
    w.ends.iter_mut().for_each(|end| end.done.clear());
    for at in ours.values() {
        let send =
            SendWr { wr_id: WrId(1), op: SendOp::Send, local: Span::new(64, 64), signaled: true };
        w.ends[0].device.post_send(at.qp, send);
    }
    let mut arrived = 0;
    // The first round stocks the queue; what is left of it then serves the next.
    let mut to_post = if round == 0 { queue.depth as usize } else { 0 };
    let deadline = w.now() + Duration::from_secs(60);
    while arrived < count || w.ends[0].done.len() < count {
        assert!(w.now() < deadline, "round {round}: {arrived} of {count} messages");
        for _ in 0..std::mem::take(&mut to_post) {
            w.ends[1].device.post_recv(queue.id, recv(0));
        }
        w.turn();
        let done = std::mem::take(&mut w.ends[1].done);
        assert!(done.iter().all(Wc::is_ok));
        arrived += done.len();
        to_post = done.len();
    }
    for _ in 0..to_post {
        w.ends[1].device.post_recv(queue.id, recv(0));
    }
    assert!(w.ends[0].done.iter().all(Wc::is_ok));

    // Half of them end from here, half from there.
    let now = w.now();
    for (i, conn) in ours.keys().enumerate() {
        if i % 2 == 0 {
            w.ends[0].manager.disconnect(now, *conn);
        }
    }
    w.turn();
    w.turn();
    let now = w.now();
    for conn in theirs.keys() {
        w.ends[1].manager.disconnect(now, *conn); // harmless where it is gone already
    }
    let gone = |events: &[CmEvent]| {
        events.iter().filter(|event| matches!(event, CmEvent::Disconnected { .. })).count()
    };
    w.until("all ended", |w| gone(&w.ends[0].events) + gone(&w.ends[1].events) >= count);
    for (end, conns) in [(0, ours), (1, theirs)] {
        for (conn, at) in conns {
            let endpoint = w.ends[end].device.detach(at.qp);
            w.ends[end].manager.destroy(conn, endpoint);
        }
    }
}
