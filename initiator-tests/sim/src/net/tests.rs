use super::*;
use rdma::cm::QpParams;
use rdma::{
    AcceptParams, Access, Attached, ConnectParams, ConnectionManager, Connector, CoreIndex, Device,
    HostDevice, Now, RemoteAddr, SendOp, WcOp, WrId,
};

fn config() -> NetConfig {
    NetConfig {
        latency: (1_000, 50_000),
        slow: 0,
        refuse: 0,
        lose_connect: 0,
        short_poll: 0,
        max_inline: 0,
        device_reads: 4,
        max_qp_wr: 16_384,
        shared_recv: None,
    }
}

struct End {
    cm: SimCm,
    device: SimDevice,
    region: Arc<Region>,
    attached: Option<Attached>,
    conn: ConnId,
}

impl End {
    fn new(fabric: &Fabric, number: u8, trusted: bool) -> End {
        let cm = fabric.add_node(SocketAddr::from(([10, 0, 0, number], 1)), trusted);
        let region = Arc::new(Region::map(1 << 16, region::Pages::Normal).unwrap());
        let device = fabric.open_device(&cm, CoreIndex(0), region.clone());
        End { cm, device, region, attached: None, conn: ConnId(0) }
    }

    fn qp(&self) -> rdma::QpId {
        self.attached.unwrap().qp
    }

    fn recv(&mut self, id: u64, offset: u32, len: u32) {
        let (head, tail) = (Span::new(offset, len), Span::new(offset, 0));
        let queue = self.attached.unwrap().recv_queue.id;
        self.device.post_recv(queue, RecvWr { wr_id: WrId(id), head, tail });
    }

    fn post(&mut self, id: u64, op: SendOp, local: Span, signaled: bool) {
        self.device.post_send(self.qp(), SendWr { wr_id: WrId(id), op, local, signaled });
    }
}

struct Pair {
    fabric: Fabric,
    host: End,
    target: End,
    now: Now,
}

const PARAMS: QpParams =
    QpParams { send_depth: 16, recv_depth: 8, max_reads: 2, shared_recv: false };

impl Pair {
    /// Two ends, connected, each with four receives of 64 bytes at offset 0, 64, …
    fn connected(config: NetConfig) -> Pair {
        let fabric = Fabric::new(config, Rng::new(3));
        let mut pair = Pair {
            host: End::new(&fabric, 2, true),
            target: End::new(&fabric, 1, false),
            fabric,
            now: Now::ZERO,
        };
        let to = SocketAddr::from(([10, 0, 0, 1], 4420));
        pair.target.cm.listen(pair.now, to).unwrap();
        let (conn, endpoint) = pair.host.cm.open(pair.now, to, CoreIndex(0), &PARAMS).unwrap();
        pair.host.attached = Some(pair.host.device.attach(endpoint));
        let params =
            ConnectParams { private_data: vec![1, 2], initiator_depth: 0, responder_resources: 9 };
        pair.host.conn = conn;
        pair.stock(true);
        pair.host.cm.connect(pair.now, conn, &params).unwrap();
        pair.run();
        assert!(matches!(pair.target.cm.poll(pair.now), Some(CmEvent::ListenerUp { .. })));
        let Some(CmEvent::Request(request)) = pair.target.cm.poll(pair.now) else { panic!() };
        assert_eq!(&request.private_data[..2], [1, 2]);
        assert_eq!(request.responder_resources, 9);
        pair.target.conn = request.conn;
        let endpoint = pair.target.cm.prepare(request.conn, CoreIndex(0), &PARAMS).unwrap();
        pair.target.attached = Some(pair.target.device.attach(endpoint));
        pair.stock(false);
        let accept = AcceptParams {
            private_data: vec![3],
            initiator_depth: 2,
            responder_resources: 0,
            rnr_retry: 7,
        };
        pair.target.cm.accept(pair.now, request.conn, &accept).unwrap();
        pair.run();
        let connected = pair.host.cm.poll(pair.now);
        assert!(matches!(connected, Some(CmEvent::Connected { initiator_depth: 2, .. })));
        pair.run();
        assert_eq!(pair.target.cm.poll(pair.now), Some(CmEvent::Established(request.conn)));
        pair
    }

    fn stock(&mut self, host: bool) {
        let end = if host { &mut self.host } else { &mut self.target };
        for n in 0..4 {
            end.recv(100 + u64::from(n), n * 64, 64);
        }
        end.device.flush(self.now);
    }

    fn run(&mut self) {
        self.host.device.flush(self.now);
        self.target.device.flush(self.now);
        while let Some(at) = self.fabric.next_event() {
            self.now = self.now.max(at);
            self.fabric.advance(self.now);
        }
    }

    fn poll(&mut self, host: bool) -> Vec<Wc> {
        let end = if host { &mut self.host } else { &mut self.target };
        let mut out = Vec::new();
        end.device.poll_cq(self.now, 64, &mut out);
        out
    }

    fn expose(&mut self, span: Span, access: Access) -> RemoteAddr {
        let qp = self.host.qp();
        self.host.device.expose(qp, span, access).unwrap()
    }
}

#[test]
fn a_write_is_there_when_the_send_after_it_arrives() {
    let mut pair = Pair::connected(config());
    let remote = pair.expose(Span::new(4096, 512), Access::RemoteWrite);
    pair.target.region.fill(Span::new(8192, 512), 9);
    pair.target.region.fill(Span::new(1024, 16), 5);
    pair.target.post(1, SendOp::Write { remote }, Span::new(8192, 512), false);
    let op = SendOp::SendWithInvalidate { rkey: remote.rkey };
    pair.target.post(2, op, Span::new(1024, 16), true);
    pair.run();
    let host = pair.poll(true);
    let op = WcOp::Recv { byte_len: 16, invalidated: Some(remote.rkey) };
    assert_eq!(host, [Wc { wr_id: WrId(100), qp: pair.host.qp(), op, status: WcStatus::Success }]);
    let mut seen = [0; 512];
    pair.host.region.read(Span::new(4096, 512), &mut seen);
    assert_eq!(seen, [9; 512]);
    assert_eq!(pair.poll(false).iter().map(|wc| wc.wr_id.0).collect::<Vec<_>>(), [2]);
    assert_eq!((pair.fabric.open_keys(), pair.fabric.violation()), (0, None));
}

#[test]
fn an_access_outside_of_opened_memory_fails_and_is_the_targets_fault() {
    for bad in [
        |r: RemoteAddr| (r, 513),
        |r: RemoteAddr| (RemoteAddr { addr: r.addr - 1, ..r }, 512),
        |r: RemoteAddr| (RemoteAddr { rkey: r.rkey + 1, ..r }, 512),
    ] {
        let mut pair = Pair::connected(config());
        let remote = pair.expose(Span::new(4096, 512), Access::RemoteRead);
        let (remote, len) = bad(remote);
        pair.target.post(1, SendOp::Read { remote }, Span::new(8192, len), true);
        pair.run();
        let wcs = pair.poll(false);
        assert_eq!((wcs[0].wr_id.0, wcs[0].status), (1, WcStatus::RemoteAccess));
        assert_eq!(wcs.len(), 5, "the receives are flushed: {wcs:?}");
        assert!(pair.fabric.violation().is_some());
    }
}

#[test]
fn a_write_to_memory_opened_for_reading_fails() {
    let mut pair = Pair::connected(config());
    let remote = pair.expose(Span::new(4096, 512), Access::RemoteRead);
    pair.target.post(1, SendOp::Write { remote }, Span::new(8192, 512), true);
    pair.run();
    assert_eq!(pair.poll(false)[0].status, WcStatus::RemoteAccess);
}

#[test]
fn a_read_brings_what_was_there_and_completes_in_order() {
    let mut pair = Pair::connected(config());
    let remote = pair.expose(Span::new(4096, 1024), Access::RemoteRead);
    pair.host.region.fill(Span::new(4096, 1024), 3);
    for n in 0..2 {
        let at = Span::new(8192 + n * 512, 512);
        let remote = RemoteAddr { addr: remote.addr + u64::from(n) * 512, ..remote };
        pair.target.post(u64::from(n), SendOp::Read { remote }, at, true);
    }
    pair.run();
    let order: Vec<u64> = pair.poll(false).iter().map(|wc| wc.wr_id.0).collect();
    assert_eq!(order, [0, 1]);
    let mut seen = [0; 1024];
    pair.target.region.read(Span::new(8192, 1024), &mut seen);
    assert_eq!(seen, [3; 1024]);
    assert_eq!(pair.fabric.violation(), None);
}

#[test]
fn limits_that_the_caller_breaks_are_violations() {
    let mut pair = Pair::connected(config());
    let remote = pair.expose(Span::new(4096, 1024), Access::RemoteRead);
    for n in 0..3 {
        pair.target.post(n, SendOp::Read { remote }, Span::new(8192, 512), true);
    }
    assert!(pair.fabric.violation().unwrap().contains("READs"));
    let mut pair = Pair::connected(config());
    for n in 0..17 {
        pair.target.post(n, SendOp::Send, Span::new(0, 16), false);
    }
    assert!(pair.fabric.violation().unwrap().contains("17 sends"));
    let mut pair = Pair::connected(config());
    for n in 0..5 {
        pair.target.recv(n, 0, 64);
    }
    assert!(pair.fabric.violation().unwrap().contains("9 receives"));
}

#[test]
fn a_send_without_a_receive_is_the_targets_fault_towards_a_host() {
    let mut pair = Pair::connected(config());
    for n in 0..5 {
        pair.target.post(n, SendOp::Send, Span::new(0, 16), true);
    }
    pair.target.device.flush(pair.now);
    for _ in 0..100 {
        let Some(at) = pair.fabric.next_event() else { break };
        pair.fabric.advance(at);
    }
    assert!(pair.fabric.violation().unwrap().contains("no receive posted"));
}

#[test]
fn a_failed_queue_pair_completes_everything_once() {
    let mut pair = Pair::connected(config());
    for n in 0..4 {
        pair.host.post(n, SendOp::Send, Span::new(0, 16), true);
    }
    pair.host.device.flush(pair.now);
    pair.host.post(4, SendOp::Send, Span::new(0, 16), true);
    let qp = pair.host.qp();
    pair.host.device.fail(qp);
    pair.host.post(5, SendOp::Send, Span::new(0, 16), true);
    pair.run();
    let mut ids: Vec<u64> = pair.poll(true).iter().map(|wc| wc.wr_id.0).collect();
    ids.sort_unstable();
    assert_eq!(ids, [0, 1, 2, 3, 4, 5, 100, 101, 102, 103]);
    let endpoint = pair.host.device.detach(qp);
    pair.host.cm.destroy(pair.host.conn, endpoint);
    assert_eq!(pair.fabric.violation(), None);
}

#[test]
fn detaching_with_work_outstanding_is_a_violation() {
    let mut pair = Pair::connected(config());
    let qp = pair.host.qp();
    pair.host.device.detach(qp);
    assert!(pair.fabric.violation().unwrap().contains("4 receives"));
}

#[test]
fn a_disconnect_reaches_the_other_side_and_fails_both_queue_pairs() {
    let mut pair = Pair::connected(config());
    pair.host.cm.disconnect(pair.now, pair.host.conn);
    pair.run();
    let conn = pair.target.conn;
    assert!(matches!(pair.target.cm.poll(pair.now),
        Some(CmEvent::Disconnected { conn: c, .. }) if c == conn));
    assert_eq!(pair.target.cm.poll(pair.now), None);
    for host in [true, false] {
        let wcs = pair.poll(host);
        assert_eq!(wcs.len(), 4);
        assert!(wcs.iter().all(|wc| wc.status == WcStatus::Flushed));
    }
}

#[test]
fn what_comes_for_a_detached_queue_pair_leaves_the_shared_receives_whole() {
    let mut config = config();
    config.shared_recv = Some(8);
    let fabric = Fabric::new(config, Rng::new(1));
    let mut end = End::new(&fabric, 1, false);
    let mut net = fabric.0.borrow_mut();
    let params = QpParams { shared_recv: true, ..PARAMS };
    let (qp, other) = (net.make_qp(0, &params, 1), net.make_qp(0, &PARAMS, 1));
    net.qps[other].peer = Some(qp);
    net.qps[other].state = QpState::Ready;
    drop(net);
    end.attached = Some(end.device.attach(device::SimEndpoint { qp }));
    end.recv(1, 0, 64);
    end.device.flush(Now::ZERO);
    let mut net = fabric.0.borrow_mut();
    let wr = SendWr { wr_id: WrId(0), op: SendOp::Send, local: Span::new(512, 16), signaled: true };
    net.qps[other].staged.push(Entry {
        wr,
        inline: None,
        answer: Vec::new(),
        arrive_at: 0,
        executed: false,
        done_at: None,
        status: WcStatus::Success,
    });
    net.send_staged(other);
    net.advance(1_000_000);
    assert_eq!(net.devices[0].cq.len(), 1, "the message is there, and nobody looked");
    drop(net);
    end.device.detach(end.qp());
    let mut out = Vec::new();
    assert_eq!(end.device.poll_cq(Now::ZERO, 8, &mut out), 0);
    let net = fabric.0.borrow();
    assert_eq!(net.rqs[net.qps[qp].rq].posted.len(), 1);
}
