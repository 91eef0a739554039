//! Two providers in one process, over real sockets on the loopback interface.

mod common;

use common::{QP, World};
use rdma::*;
use region::Span;
use std::net::SocketAddr;

#[test]
fn connects_moves_data_both_ways_and_disconnects() {
    let addr: SocketAddr = "127.0.77.1:4420".parse().unwrap();
    let mut w = World::new();
    let now = w.now();
    w.ends[1].manager.listen(now, addr).unwrap();
    let [(conn, ours), (_, theirs)] = w.connect(addr);

    // A capsule one way, a WRITE and a SEND with Invalidate back, then a READ.
    let window = Span::new(1 << 20, 1 << 20);
    let bytes: Vec<u8> = (0..window.len()).map(|i| (i * 7) as u8).collect();
    w.ends[1].region.write(window, &bytes);
    let remote =
        w.ends[0].device.expose(ours.qp, window, Access::RemoteWrite).expect("a key is left");
    let recv = |id| RecvWr { wr_id: WrId(id), head: Span::new(0, 64), tail: Span::default() };
    w.ends[1].device.post_recv(theirs.recv_queue.id, recv(1));
    w.ends[0].device.post_recv(ours.recv_queue.id, recv(2));
    let send = |id, op, local| SendWr { wr_id: WrId(id), op, local, signaled: true };
    w.ends[0].device.post_send(ours.qp, send(3, SendOp::Send, Span::new(64, 64)));
    w.until("capsule", |w| !w.ends[1].done.is_empty());
    let op = WcOp::Recv { byte_len: 64, invalidated: None };
    assert_eq!(w.ends[1].done[0].op, op);
    w.ends[1].device.post_send(theirs.qp, send(4, SendOp::Write { remote }, window));
    let elsewhere = Span::new(4 << 20, 1 << 20);
    w.ends[1].device.post_send(theirs.qp, send(5, SendOp::Read { remote }, elsewhere));
    let invalidate = SendOp::SendWithInvalidate { rkey: remote.rkey };
    w.ends[1].device.post_send(theirs.qp, send(6, invalidate, Span::new(64, 16)));
    w.until("all", |w| w.ends[1].done.len() == 4 && w.ends[0].done.len() == 2);
    assert!(w.ends.iter().all(|end| end.done.iter().all(Wc::is_ok)));
    let mut out = vec![0; bytes.len()];
    w.ends[0].region.read(window, &mut out);
    assert!(out == bytes);
    w.ends[1].region.read(elsewhere, &mut out);
    assert!(out == bytes);

    let now = w.now();
    w.ends[0].manager.disconnect(now, conn);
    w.until("the end", |w| {
        w.ends[1].events.iter().any(|event| matches!(event, CmEvent::Disconnected { .. }))
    });
}

#[test]
fn a_rejected_request_carries_the_reason_back() {
    let addr: SocketAddr = "127.0.77.2:4420".parse().unwrap();
    let mut w = World::new();
    let now = w.now();
    w.ends[1].manager.listen(now, addr).unwrap();
    let (conn, _endpoint) = w.ends[0].manager.open(now, addr, CoreIndex(0), &QP).unwrap();
    let params = ConnectParams { private_data: vec![], initiator_depth: 0, responder_resources: 1 };
    w.ends[0].manager.connect(now, conn, &params).unwrap();
    w.until("request", |w| {
        w.ends[1].events.iter().any(|event| matches!(event, CmEvent::Request(_)))
    });
    let now = w.now();
    let Some(CmEvent::Request(request)) =
        w.ends[1].events.iter().find(|event| matches!(event, CmEvent::Request(_))).cloned()
    else {
        unreachable!()
    };
    w.ends[1].manager.reject(now, request.conn, &[0, 0, 6, 0]);
    w.until("refusal", |w| {
        w.ends[0].events.iter().any(|event| {
            matches!(event, CmEvent::Refused { private_data, .. }
                if private_data[..4] == [0, 0, 6, 0])
        })
    });
}

#[test]
fn a_port_without_listener_is_refused() {
    let mut w = World::new();
    let now = w.now();
    w.ends[1].manager.listen(now, "127.0.77.3:4420".parse().unwrap()).unwrap();
    let to = "127.0.77.3:4421".parse().unwrap();
    let (conn, _endpoint) = w.ends[0].manager.open(now, to, CoreIndex(0), &QP).unwrap();
    let params = ConnectParams { private_data: vec![], initiator_depth: 0, responder_resources: 1 };
    w.ends[0].manager.connect(now, conn, &params).unwrap();
    w.until("refusal", |w| {
        w.ends[0].events.iter().any(|event| matches!(event, CmEvent::Refused { .. }))
    });
}

#[test]
fn an_address_that_is_taken_is_said_so() {
    let mut w = World::new();
    let now = w.now();
    let addr = "127.0.77.4:4420".parse().unwrap();
    w.ends[0].manager.listen(now, addr).unwrap();
    w.ends[1].manager.listen(now, addr).unwrap();
    w.turn();
    let CmEvent::ListenerDown { reason, absent, .. } = &w.ends[1].events[0] else { panic!() };
    assert!(reason.contains("taken") && !absent, "{reason}");
}

#[test]
fn an_address_that_is_not_there_is_waited_for() {
    let mut w = World::new();
    let now = w.now();
    w.ends[0].manager.listen(now, "192.0.2.77:4420".parse().unwrap()).unwrap();
    w.turn();
    let CmEvent::ListenerDown { reason, absent, .. } = &w.ends[0].events[0] else { panic!() };
    assert!(reason.contains("no address") && *absent, "{reason}");
    assert!(w.ends[0].manager.timeout().is_some());
}
