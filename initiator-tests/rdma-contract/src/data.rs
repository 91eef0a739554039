//! Data in both directions, and its order.

use crate::bench::{Bench, PATIENCE, Provider, arrived, data_span, recv_span};
use crate::failures::refused_write;
use rdma::{Access, Device, HostDevice, SendOp, WcOp};
use std::time::Duration;

fn pattern(seed: u8, len: usize) -> Vec<u8> {
    (0..len).map(|i| seed.wrapping_add((i % 251) as u8)).collect()
}

pub(crate) fn sends_arrive_both_ways<P: Provider>(b: &mut Bench<P>) {
    sends_arrive(b, false);
}

pub(crate) fn sends_arrive_in_a_shared_queue<P: Provider>(b: &mut Bench<P>) {
    sends_arrive(b, true);
}

fn sends_arrive<P: Provider>(b: &mut Bench<P>, shared: bool) {
    b.listen();
    let (target, host) = b.connected(shared, 8);
    for (round, len) in [1u32, 16, 63, 64, 65, 128, 1500, 4096, 64 + 4096].into_iter().enumerate() {
        for from_host in [true, false] {
            let bytes = pattern(round as u8, len as usize);
            let span = data_span(1, len);
            let (from, link) =
                if from_host { (&mut b.host, &host) } else { (&mut b.target, &target) };
            from.region.write(span, &bytes);
            from.send(link, 900 + u64::from(len), span);
            let wc = b.next_wc(from_host);
            assert_eq!(arrived(&wc), len);
            let sent = b.next_wc(!from_host);
            assert!(sent.is_ok() && sent.op == WcOp::Send, "{sent:?}");
            assert_eq!(sent.wr_id.0, 900 + u64::from(len));
            let (to, link) =
                if from_host { (&mut b.target, &target) } else { (&mut b.host, &host) };
            assert_eq!(wc.qp, link.qp());
            let at = wc.wr_id.0 as u32;
            assert_eq!(to.bytes(recv_span(at).slice(0, len)), bytes, "{len} bytes");
            to.post_recvs(link, at..at + 1);
        }
    }
    b.tear_down(&target, &host, (if shared { 0 } else { 8 }, 8));
}

pub(crate) fn a_short_send_is_copied_when_posted<P: Provider>(b: &mut Bench<P>) {
    b.listen();
    let (target, host) = b.connected(false, 4);
    let len = target.at.limits.max_inline.min(16);
    if len > 0 {
        let span = data_span(1, len);
        b.target.region.write(span, &vec![1; len as usize]);
        b.target.send(&target, 1, span);
        b.target.region.write(span, &vec![2; len as usize]);
        let wc = b.next_wc(false);
        let got = b.host.bytes(recv_span(wc.wr_id.0 as u32).slice(0, len));
        assert_eq!(got, vec![1; len as usize]);
        b.next_wc(true);
        b.host.post_recvs(&host, wc.wr_id.0 as u32..wc.wr_id.0 as u32 + 1);
    }
    b.tear_down(&target, &host, (4, 4));
}

pub(crate) fn a_write_arrives_before_its_send<P: Provider>(b: &mut Bench<P>) {
    b.listen();
    let (target, host) = b.connected(false, 8);
    for round in 0..40u8 {
        let span = data_span(2, 65536);
        let remote =
            b.host.device.expose(host.qp(), span, Access::RemoteWrite).expect("a free key");
        b.host.send(&host, 5, data_span(0, 64));
        let capsule = b.next_wc(true);
        arrived(&capsule);
        let at = capsule.wr_id.0 as u32;
        b.target.post_recvs(&target, at..at + 1);
        let bytes = pattern(round, 65536);
        let source = data_span(3, 65536);
        b.target.region.write(source, &bytes);
        b.target.post(&target, 6, SendOp::Write { remote }, source, false);
        b.target.send(&target, 7, data_span(4, 16));
        // The host sees its SEND's end and the answer, in either order.
        let wcs = b.next_wcs(false, 2);
        let answer = wcs.iter().find(|w| w.op != WcOp::Send).expect("an answer");
        arrived(answer);
        assert!(b.host.bytes(span) == bytes, "round {round}: the WRITE came first");
        let sent = b.next_wc(true);
        assert!(sent.is_ok() && sent.wr_id.0 == 7, "{sent:?}");
        let at = answer.wr_id.0 as u32;
        b.host.post_recvs(&host, at..at + 1);
        b.host.device.unexpose(host.qp(), remote.rkey);
    }
    b.tear_down(&target, &host, (8, 8));
}

pub(crate) fn reads_at_depth_bring_the_bytes<P: Provider>(b: &mut Bench<P>) {
    b.listen();
    let (target, host) = b.connected(false, 4);
    let depth = target.at.limits.max_reads;
    let source = data_span(2, 65536);
    let bytes = pattern(9, 65536);
    b.host.region.write(source, &bytes);
    let remote = b.host.device.expose(host.qp(), source, Access::RemoteRead).expect("a free key");
    b.host.send(&host, 5, data_span(0, 64));
    arrived(&b.next_wc(true));
    assert!(b.next_wc(false).is_ok());
    for round in 0..10u32 {
        let sink = data_span(5, 65536);
        b.target.region.write(sink, &vec![0; 65536]);
        let piece = 65536 / depth.next_power_of_two();
        for i in 0..depth {
            let from = rdma::RemoteAddr { addr: remote.addr + u64::from(i * piece), ..remote };
            let id = u64::from(round * 100 + i);
            // READs complete even when not marked so.
            let to = sink.slice(i * piece, piece);
            b.target.post(&target, id, SendOp::Read { remote: from }, to, i % 2 == 0);
        }
        for i in 0..depth {
            let wc = b.next_wc(true);
            assert!(wc.is_ok(), "{wc:?}");
            assert_eq!(wc.wr_id.0, u64::from(round * 100 + i), "in order");
        }
        let got = (depth * piece) as usize;
        assert!(b.target.bytes(sink)[..got] == bytes[..got], "round {round}");
    }
    b.host.device.unexpose(host.qp(), remote.rkey);
    b.tear_down(&target, &host, (3, 4));
}

pub(crate) fn a_send_invalidates_the_key<P: Provider>(b: &mut Bench<P>) {
    b.listen();
    let (target, host) = b.connected(false, 8);
    for round in 0..100 {
        let span = data_span(2, 4096);
        let remote = b.host.device.expose(host.qp(), span, Access::RemoteWrite).expect("a key");
        b.host.send(&host, 5, data_span(0, 64));
        let capsule = b.next_wc(true);
        arrived(&capsule);
        let at = capsule.wr_id.0 as u32;
        b.target.post_recvs(&target, at..at + 1);
        b.target.post(&target, 6, SendOp::Write { remote }, data_span(3, 4096), false);
        let op = SendOp::SendWithInvalidate { rkey: remote.rkey };
        b.target.post(&target, 7, op, data_span(4, 16), true);
        let wcs = b.next_wcs(false, 2);
        let answer = wcs.iter().find(|w| w.op != WcOp::Send).expect("an answer");
        assert!(answer.is_ok(), "{answer:?}");
        assert_eq!(arrived(answer), 16);
        match answer.op {
            WcOp::Recv { invalidated: Some(rkey), .. } => assert_eq!(rkey, remote.rkey),
            _ if round == 0 => eprintln!("note: the invalidated key is not reported"),
            _ => {}
        }
        assert!(b.next_wc(true).is_ok());
        let at = answer.wr_id.0 as u32;
        b.host.post_recvs(&host, at..at + 1);
        if round == 99 {
            // Closed by the SEND alone: the key no longer opens anything.
            refused_write(b, &target, &host, remote, (8, 8));
            return;
        }
        b.host.device.unexpose(host.qp(), remote.rkey);
    }
}

pub(crate) fn keys_are_reused_safely<P: Provider>(b: &mut Bench<P>) {
    b.listen();
    let (target, host) = b.connected(false, 8);
    for round in 0..300u32 {
        let span = data_span(2 + round % 4, 4096);
        let remote = b.host.device.expose(host.qp(), span, Access::RemoteRead).expect("a key");
        if round % 3 == 0 {
            b.host.send(&host, 5, data_span(0, 64));
            let capsule = b.next_wc(true);
            arrived(&capsule);
            let at = capsule.wr_id.0 as u32;
            b.target.post_recvs(&target, at..at + 1);
            assert!(b.next_wc(false).is_ok());
            b.target.post(&target, 6, SendOp::Read { remote }, data_span(8, 4096), true);
            let read = b.next_wc(true);
            assert!(read.is_ok(), "round {round}: {read:?}");
        }
        b.host.device.unexpose(host.qp(), remote.rkey);
        b.turn();
    }
    assert!(b.host.done.is_empty(), "{:?}", b.host.done);
    b.tear_down(&target, &host, (8, 8));
}

pub(crate) fn signaled_work_completes_once_in_order<P: Provider>(b: &mut Bench<P>) {
    b.listen();
    let (target, host) = b.connected(false, 32);
    let span = data_span(2, 65536);
    let remote = b.host.device.expose(host.qp(), span, Access::RemoteWrite).expect("a key");
    b.host.send(&host, 5, data_span(0, 64));
    arrived(&b.next_wc(true));
    assert!(b.next_wc(false).is_ok());
    for i in 0..30u64 {
        b.target.post(&target, 1000 + i, SendOp::Write { remote }, data_span(3, 2048), false);
        b.target.send(&target, i, data_span(4, 16));
    }
    for i in 0..30 {
        let wc = b.next_wc(true);
        assert!(wc.is_ok() && wc.op == WcOp::Send && wc.wr_id.0 == i, "{wc:?}");
    }
    for i in 0..30 {
        let wc = b.next_wc(false);
        assert_eq!((arrived(&wc), wc.wr_id.0), (16, i), "own receives in order");
    }
    b.settle(Duration::from_millis(50));
    assert!(b.target.done.is_empty() && b.host.done.is_empty(), "nothing twice");
    b.tear_down(&target, &host, (31, 2));
}

pub(crate) fn a_sleeper_is_woken<P: Provider>(b: &mut Bench<P>) {
    b.listen();
    let (target, host) = b.connected(false, 4);
    for round in 0..20 {
        // Nothing is on its way, so arming and polling once more finds nothing.
        b.target.device.arm();
        b.turn();
        assert!(b.target.done.is_empty(), "{:?}", b.target.done);
        let woken = b.target.sleep(Duration::from_millis(20));
        assert!(!woken, "round {round}: woken by nothing");
        b.host.send(&host, 1, data_span(1, 64));
        let now = b.now();
        b.host.device.flush(now);
        assert!(b.target.sleep(PATIENCE), "round {round}: not woken");
        let wc = b.next_wc(true);
        arrived(&wc);
        let at = wc.wr_id.0 as u32;
        b.target.post_recvs(&target, at..at + 1);
        assert!(b.next_wc(false).is_ok());
        b.settle(Duration::from_millis(2));
    }
    b.tear_down(&target, &host, (4, 4));
}
