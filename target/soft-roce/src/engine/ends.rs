//! What becomes of receives, keys and silent peers at the edges of a queue pair's life.

use super::*;
use crate::wire::headers::{Aeth, Bth, DEFAULT_PKEY, ICRC_LEN, RETH_LEN, Reth, Syndrome};

/// Hands end `to` a packet that its peer might have sent. The ICRC is the edge's to check.
fn inject(p: &mut Pair, to: usize, opcode: u8, psn: Psn, body: &[u8]) {
    let bth = Bth {
        opcode,
        solicited: false,
        pad: 0,
        pkey: DEFAULT_PKEY,
        becn: false,
        dest_qpn: QPNS[to],
        ack_req: true,
        psn,
    };
    let mut bytes = bth.to_bytes().to_vec();
    bytes.extend(body);
    bytes.extend([0; ICRC_LEN]);
    p.engines[to].on_datagram(p.now, ADDRS[1 - to], false, &bytes);
}

#[test]
fn a_shared_receive_whose_end_nobody_saw_stays_posted() {
    let mut p = Pair::shared(1, 1024, 4);
    for i in 0..4 {
        p.recv(1, i, Span::new(i as u32 * 4096, 4096), Span::default());
    }
    let psn = Psn::new(PSNS[0]);
    inject(&mut p, 1, 0x04, psn, &[1; 64]); // a whole message
    inject(&mut p, 1, 0x00, psn.plus(1), &[2; 1024]); // the first part of another
    let qp = p.qp(1);
    p.engines[1].fail(qp);
    p.engines[1].detach(qp);
    let queue = p.attached[1].recv_queue.id;
    let place = p.engines[1].recv_queues[queue.0 as usize].as_mut().unwrap();
    let mut left: Vec<u64> = std::iter::from_fn(|| place.take()).map(|wr| wr.wr_id.0).collect();
    left.sort_unstable();
    assert_eq!(left, [0, 1, 2, 3]);
    assert!(!p.engines[1].has_completions());
}

#[test]
fn a_read_is_not_answered_again_once_its_key_is_closed() {
    let mut p = Pair::new(1, 1024, Faults::default());
    let open = p.expose(1, Span::new(0, 4096), Access::RemoteRead);
    p.post(0, 1, SendOp::Read { remote: open }, Span::new(0, 4096), true);
    p.run_until("the read", |p| p.done[0].len() == 1);
    let reth: [u8; RETH_LEN] = Reth { addr: open.addr, rkey: open.rkey, len: 4096 }.to_bytes();
    let repeat = |p: &mut Pair| {
        inject(p, 1, 0x0c, Psn::new(PSNS[0]), &reth);
        let sent = p.engines[1].counters.sent;
        p.batch.clear();
        p.engines[1].transmit(p.now, &mut p.batch);
        p.engines[1].counters.sent - sent
    };
    assert_eq!(repeat(&mut p), 4);
    let qp = p.qp(1);
    p.engines[1].unexpose(qp, open.rkey);
    assert_eq!(repeat(&mut p), 0);
}

#[test]
fn a_peer_that_asks_to_wait_is_not_given_up_for_an_old_loss() {
    let mut p = Pair::new(1, 1024, Faults::default());
    p.post(0, 1, SendOp::Send, Span::new(0, 64), true);
    let psn = Psn::new(PSNS[0]);
    let rnr = Aeth { syndrome: Syndrome::Rnr(31), msn: 0 }.to_bytes();
    // One loss early on, then twenty seconds of a peer without receives, then another loss.
    for step in 0..42 {
        loop {
            p.batch.clear();
            p.engines[0].transmit(p.now, &mut p.batch);
            if !p.batch.runs().is_empty() || p.engines[0].has_completions() {
                break;
            }
            p.now = p.engines[0].timeout().expect("something is waited for");
            p.engines[0].on_time(p.now);
        }
        if step != 0 && step != 40 {
            inject(&mut p, 0, 0x11, psn, &rnr);
        }
    }
    assert!(p.now > Duration::from_secs(20));
    assert!(!p.engines[0].has_completions(), "given up after {:?}", p.now);
}

#[test]
fn a_write_in_the_middle_of_a_send_gives_the_receive_back() {
    let mut p = Pair::new(1, 1024, Faults::default());
    p.recv(1, 7, Span::new(0, 4096), Span::default());
    let psn = Psn::new(PSNS[0]);
    inject(&mut p, 1, 0x00, psn, &[1; 1024]);
    inject(&mut p, 1, 0x07, psn.plus(1), &[2; 1024]);
    let mut done = Vec::new();
    p.engines[1].poll(10, &mut done);
    assert_eq!(done.len(), 1);
    assert_eq!((done[0].wr_id, done[0].status), (WrId(7), WcStatus::Flushed));
}

#[test]
fn a_small_message_waits_for_one_turn_of_a_queue_pair_with_much_to_send() {
    const OTHER: u32 = 0x9a_bc01;
    let mut p = Pair::new(1, 4096, Faults::default());
    let prefix = Prefix { source: ADDRS[0], dest: ADDRS[1], source_port: 4791, dest_port: 4791 };
    let path = Path { prefix, traffic_class: 0, mtu: 4096, dest_qpn: OTHER };
    let peer = Peer { path, first_psn: Psn::new(1), max_reads: 1 };
    let small = p.engines[0].attach(Endpoint {
        qpn: OTHER,
        expected_psn: Psn::new(1),
        resources: 1,
        limits: QpLimits { max_send_wr: 16, max_reads: 1, max_inline: 0 },
        recv_depth: 4,
        shared_recv: false,
        peer: Arc::new(OnceLock::from(peer)),
        socket: None,
    });
    let open = p.expose(1, Span::new(0, 1 << 20), Access::RemoteWrite);
    p.post(0, 1, SendOp::Write { remote: open }, Span::new(0, 1 << 20), true);
    let local = Span::new(0, 16);
    let wr = SendWr { wr_id: WrId(2), op: SendOp::Send, local, signaled: true };
    p.engines[0].post_send(small.qp, wr);
    p.batch.clear();
    p.engines[0].transmit(p.now, &mut p.batch);
    let runs = p.batch.runs();
    let bytes = runs.iter().flat_map(|run| p.batch.bytes(run).chunks(run.segment));
    let to: Vec<[u8; 3]> = bytes.map(|packet| [packet[5], packet[6], packet[7]]).collect();
    let before = to.iter().position(|qpn| qpn[..] == OTHER.to_be_bytes()[1..]);
    assert_eq!(before, Some(TURN_BUDGET as usize));
    assert!(to.len() > TURN_BUDGET as usize + 1, "then the first goes on");
}

#[test]
fn a_place_is_used_again_by_whoever_connects_next() {
    let mut p = Pair::new(1, 1024, Faults::default());
    let qp = p.qp(1);
    let endpoint = p.engines[1].detach(qp);
    assert_eq!(p.engines[1].attach(endpoint).qp, qp);
    assert_eq!(p.engines[1].qps.len(), 1);
}
