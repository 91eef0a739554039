//! Two providers in one process, over real sockets on the loopback interface.

use rdma::cm::QpParams;
use rdma::*;
use region::{Pages, Region, Span};
use soft_roce::{Config, Manager, SoftDevice};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

struct End {
    manager: Manager,
    device: SoftDevice,
    region: Arc<Region>,
    events: Vec<CmEvent>,
    done: Vec<Wc>,
}

struct World {
    start: Instant,
    ends: [End; 2],
}

const QP: QpParams = QpParams { send_depth: 256, recv_depth: 64, max_reads: 8, shared_recv: true };

impl World {
    fn new() -> World {
        let ends = std::array::from_fn(|_| {
            let config = Config { shared_recv_depth: 64, ..Config::default() };
            let mut manager = Manager::new(config);
            let region = Arc::new(Region::map(8 << 20, Pages::Normal).unwrap());
            let device = manager.open_device(region.clone());
            End { manager, device, region, events: Vec::new(), done: Vec::new() }
        });
        World { start: Instant::now(), ends }
    }

    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    fn turn(&mut self) {
        let now = self.now();
        for end in &mut self.ends {
            while let Some(event) = end.manager.poll(now) {
                end.events.push(event);
            }
            end.device.poll_cq(now, 64, &mut end.done);
            end.device.flush(now);
        }
    }

    fn until(&mut self, what: &str, done: impl Fn(&World) -> bool) {
        let deadline = self.now() + Duration::from_secs(20);
        while !done(self) {
            assert!(self.now() < deadline, "{what}: not within 20 s; {:?}", self.ends[0].events);
            self.turn();
        }
    }

    /// Connects end 0 to a listener of end 1 and returns both queue pairs.
    fn connect(&mut self, addr: SocketAddr) -> [(ConnId, Attached); 2] {
        let now = self.now();
        let host = &mut self.ends[0];
        host.events.clear();
        let (conn, endpoint) = host.manager.open(now, addr, CoreIndex(0), &QP).unwrap();
        let ours = host.device.attach(endpoint);
        let params = ConnectParams {
            private_data: b"hello".to_vec(),
            initiator_depth: 4,
            responder_resources: 16,
        };
        host.manager.connect(now, conn, &params).unwrap();
        self.ends[1].events.clear();
        self.until("request", |w| {
            w.ends[1].events.iter().any(|event| matches!(event, CmEvent::Request(_)))
        });
        let request = self.ends[1].events.iter().find_map(|event| match event {
            CmEvent::Request(request) => Some(request.clone()),
            _ => None,
        });
        let request = request.unwrap();
        assert_eq!(request.private_data[..5], *b"hello");
        assert_eq!((request.responder_resources, request.initiator_depth), (16, 4));
        let now = self.now();
        let target = &mut self.ends[1];
        let endpoint = target.manager.prepare(request.conn, CoreIndex(0), &QP).unwrap();
        let theirs = target.device.attach(endpoint);
        let accept = AcceptParams {
            private_data: b"welcome".to_vec(),
            initiator_depth: 8,
            responder_resources: 4,
            rnr_retry: 7,
        };
        target.manager.accept(now, request.conn, &accept).unwrap();
        self.until("connection", |w| {
            w.ends[0].events.iter().any(|event| {
                matches!(event, CmEvent::Connected { private_data, .. }
                    if private_data[..7] == *b"welcome")
            }) && w.ends[1].events.contains(&CmEvent::Established(request.conn))
        });
        [(conn, ours), (request.conn, theirs)]
    }
}

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
    let CmEvent::ListenerDown { reason, .. } = &w.ends[1].events[0] else { panic!() };
    assert!(reason.contains("taken"), "{reason}");
}

#[test]
fn an_address_that_is_not_there_is_waited_for() {
    let mut w = World::new();
    let now = w.now();
    w.ends[0].manager.listen(now, "192.0.2.77:4420".parse().unwrap()).unwrap();
    w.turn();
    let CmEvent::ListenerDown { reason, .. } = &w.ends[0].events[0] else { panic!() };
    assert!(reason.contains("no address"), "{reason}");
    assert!(w.ends[0].manager.timeout().is_some());
}
