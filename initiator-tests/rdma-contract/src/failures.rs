//! What ends a connection, and what is owed then.

use crate::bench::{Bench, Link, Provider, arrived, data_span};
use rdma::{
    Access, CmEvent, ConnectionManager, Device, HostDevice, RecvWr, RemoteAddr, SendOp, Wc, WcOp,
    WcStatus, WrId,
};
use region::Span;
use std::time::Duration;

fn ids(wcs: &[Wc]) -> Vec<u64> {
    wcs.iter().map(|w| w.wr_id.0).collect()
}

/// Nothing more comes.
fn quiet<P: Provider>(b: &mut Bench<P>) {
    b.settle(rdma_grace());
    assert!(b.target.done.is_empty(), "told twice: {:?}", b.target.done);
    assert!(b.host.done.is_empty(), "told twice: {:?}", b.host.done);
}

/// Longer than a provider takes to give up on a card.
fn rdma_grace() -> Duration {
    Duration::from_millis(700)
}

fn release<P: Provider>(b: &mut Bench<P>, target: &Link, host: &Link) {
    b.target.free(target);
    b.host.free(host);
}

pub(crate) fn failing_flushes_receives_in_order<P: Provider>(b: &mut Bench<P>) {
    b.listen();
    let (target, host) = b.connected(false, 10);
    b.target.device.fail(target.qp());
    b.target.device.fail(target.qp());
    let wcs = b.next_wcs(true, 10);
    // Receive 0 took the host's first message and was posted again last.
    assert_eq!(ids(&wcs), [1, 2, 3, 4, 5, 6, 7, 8, 9, 0]);
    for wc in &wcs {
        assert_eq!(wc.status, WcStatus::Flushed);
        assert_eq!(wc.op, WcOp::Recv { byte_len: 0, invalidated: None });
        assert_eq!(wc.qp, target.qp());
    }
    b.host.device.fail(host.qp());
    assert_eq!(b.next_wcs(false, 10).len(), 10);
    quiet(b);
    release(b, &target, &host);
}

pub(crate) fn work_posted_after_a_failure<P: Provider>(b: &mut Bench<P>) {
    b.listen();
    let (target, host) = b.connected(false, 2);
    b.target.device.fail(target.qp());
    b.next_wcs(true, 2);
    b.target.post_recvs(&target, 5..8);
    for i in 0..5 {
        b.target.send(&target, 50 + i, data_span(1, 16));
    }
    let wcs = b.next_wcs(true, 8);
    assert!(wcs.iter().all(|w| w.status == WcStatus::Flushed), "{wcs:?}");
    let sends: Vec<u64> = wcs.iter().filter(|w| w.op == WcOp::Send).map(|w| w.wr_id.0).collect();
    assert_eq!(sends, [50, 51, 52, 53, 54]);
    b.host.device.fail(host.qp());
    b.next_wcs(false, 2);
    quiet(b);
    release(b, &target, &host);
}

pub(crate) fn sends_without_a_receive_are_flushed<P: Provider>(b: &mut Bench<P>) {
    b.listen();
    let (target, host) = b.connected(false, 4);
    for i in 0..10 {
        b.target.send(&target, i, data_span(1, 16));
    }
    b.settle(Duration::from_millis(30));
    b.target.device.fail(target.qp());
    let wcs = b.next_wcs(true, 14);
    let sends: Vec<&Wc> = wcs.iter().filter(|w| w.op == WcOp::Send).collect();
    let order: Vec<u64> = sends.iter().map(|w| w.wr_id.0).collect();
    assert_eq!(order, (0..10).collect::<Vec<u64>>(), "every SEND once, in order");
    let good = sends.iter().take_while(|w| w.is_ok()).count();
    assert!(sends[good..].iter().all(|w| !w.is_ok()), "no success after a failure");
    b.host.device.fail(host.qp());
    b.next_wcs(false, 4);
    quiet(b);
    release(b, &target, &host);
}

pub(crate) fn a_late_receive_is_found_soon<P: Provider>(b: &mut Bench<P>) {
    b.listen();
    let (target, host) = b.connected(false, 1);
    b.host.send(&host, 1, data_span(1, 64));
    b.host.send(&host, 2, data_span(1, 65));
    assert_eq!(arrived(&b.next_wc(true)), 64);
    b.settle(Duration::from_millis(20));
    b.target.post_recvs(&target, 1..2);
    let posted = b.now();
    // Where nobody waits for a receive the connection ends instead.
    let waits = b.until("the message or the end", |b| {
        let ended = |e: &CmEvent| matches!(e, CmEvent::Disconnected { .. });
        let came = b.target.done.first().map(Wc::is_ok);
        came.or_else(|| b.target.events.iter().any(ended).then_some(false))
    });
    if waits {
        assert_eq!(arrived(&b.next_wc(true)), 65);
        let waited = b.now() - posted;
        assert!(waited < Duration::from_millis(200), "it came after {waited:?}");
        b.tear_down(&target, &host, (0, 3));
    } else {
        eprintln!("note: no waiting for receives here");
        b.tear_down(&target, &host, (1, 3));
    }
}

pub(crate) fn a_disconnect_in_flight_loses_nothing<P: Provider>(b: &mut Bench<P>) {
    b.listen();
    for round in 0..20 {
        let (target, host) = b.connected(false, 16);
        let span = data_span(2, 65536);
        let remote = b.host.device.expose(host.qp(), span, Access::RemoteWrite).expect("a key");
        b.host.send(&host, 100, data_span(0, 64));
        arrived(&b.next_wc(true));
        assert!(b.next_wc(false).is_ok());
        for i in 0..12u64 {
            b.target.post(&target, 1000 + i, SendOp::Write { remote }, data_span(3, 65536), false);
            b.target.send(&target, 200 + i, data_span(4, 16));
            b.host.send(&host, 200 + i, data_span(4, 16));
        }
        for _ in 0..round % 4 {
            b.turn();
        }
        let now = b.now();
        if round % 2 == 0 {
            b.host.manager.disconnect(now, host.conn);
            b.ended(true, &target);
        } else {
            b.target.manager.disconnect(now, target.conn);
            b.ended(false, &host);
        }
        b.target.device.fail(target.qp());
        b.host.device.fail(host.qp());
        for at_target in [true, false] {
            let recvs = if at_target { 15 } else { 16 };
            let wcs: Vec<Wc> = std::iter::from_fn(|| Some(b.next_wc(at_target)))
                .filter(|w| w.wr_id.0 < 1000 || w.op != WcOp::Send)
                .take(recvs + 12)
                .collect();
            let sends: Vec<u64> =
                wcs.iter().filter(|w| w.op == WcOp::Send).map(|w| w.wr_id.0).collect();
            assert_eq!(sends, (200..212).collect::<Vec<u64>>(), "round {round}");
        }
        b.settle(Duration::from_millis(20));
        b.target.done.retain(|w| w.wr_id.0 < 1000);
        assert!(b.target.done.is_empty() && b.host.done.is_empty(), "told twice");
        release(b, &target, &host);
    }
}

/// A WRITE to a key that opens nothing ends the connection.
pub(crate) fn refused_write<P: Provider>(
    b: &mut Bench<P>,
    target: &Link,
    host: &Link,
    remote: RemoteAddr,
    posted: (usize, usize),
) {
    b.target.region.write(data_span(3, 4096), &[0xee; 4096]);
    b.target.post(target, 77, SendOp::Write { remote }, data_span(3, 4096), true);
    b.ended_or_failed(target, host);
    b.target.device.fail(target.qp());
    b.host.device.fail(host.qp());
    let wcs = b.next_wcs(true, posted.0 + 1);
    b.next_wcs(false, posted.1);
    // On iWARP a WRITE may count as done when it is on its way.
    let write = wcs.iter().find(|w| w.wr_id.0 == 77 && w.op == WcOp::Send).expect("told");
    let iwarp_like = write.is_ok() || write.status != WcStatus::RemoteAccess;
    if iwarp_like {
        eprintln!("note: the refused WRITE ended as {:?}", write.status);
    }
    release(b, target, host);
}

pub(crate) fn a_wrong_key_is_refused<P: Provider>(b: &mut Bench<P>) {
    b.listen();
    let (target, host) = b.connected(false, 4);
    let kept = data_span(2, 4096);
    b.host.region.write(kept, &[0x11; 4096]);
    let addr = b.host.region.addr(kept).as_ptr() as u64;
    refused_write(b, &target, &host, RemoteAddr { addr, rkey: 0x0bad_0123 }, (4, 4));
    assert_eq!(b.host.bytes(kept), vec![0x11; 4096], "nothing was written");
}

pub(crate) fn a_closed_key_is_refused<P: Provider>(b: &mut Bench<P>) {
    b.listen();
    let (target, host) = b.connected(false, 4);
    let kept = data_span(2, 4096);
    let remote = b.host.device.expose(host.qp(), kept, Access::RemoteWrite).expect("a key");
    b.host.device.unexpose(host.qp(), remote.rkey);
    b.host.send(&host, 5, data_span(0, 64));
    arrived(&b.next_wc(true));
    assert!(b.next_wc(false).is_ok());
    b.host.region.write(kept, &[0x11; 4096]);
    refused_write(b, &target, &host, remote, (3, 4));
    assert_eq!(b.host.bytes(kept), vec![0x11; 4096], "nothing was written");
}

pub(crate) fn a_write_behind_opened_memory<P: Provider>(b: &mut Bench<P>) {
    b.listen();
    let (target, host) = b.connected(false, 4);
    let around = data_span(2, 8192);
    b.host.region.write(around, &[0x11; 8192]);
    let opened = around.slice(0, 4096);
    let remote = b.host.device.expose(host.qp(), opened, Access::RemoteWrite).expect("a key");
    b.host.send(&host, 5, data_span(0, 64));
    arrived(&b.next_wc(true));
    assert!(b.next_wc(false).is_ok());
    // The last byte of 4096 would lie behind it.
    let beyond = RemoteAddr { addr: remote.addr + 1, ..remote };
    if !P::CHECKS_BOUNDS {
        eprintln!("note: what lies behind opened memory is not protected here");
        b.host.device.unexpose(host.qp(), remote.rkey);
        return b.tear_down(&target, &host, (3, 4));
    }
    refused_write(b, &target, &host, beyond, (3, 4));
    assert_eq!(b.host.bytes(around.slice(4096, 4096)), vec![0x11; 4096], "nothing was written");
}

pub(crate) fn a_write_to_memory_opened_for_reading<P: Provider>(b: &mut Bench<P>) {
    b.listen();
    let (target, host) = b.connected(false, 4);
    let kept = data_span(2, 4096);
    b.host.region.write(kept, &[0x11; 4096]);
    let remote = b.host.device.expose(host.qp(), kept, Access::RemoteRead).expect("a key");
    b.host.send(&host, 5, data_span(0, 64));
    arrived(&b.next_wc(true));
    assert!(b.next_wc(false).is_ok());
    refused_write(b, &target, &host, remote, (3, 4));
    assert_eq!(b.host.bytes(kept), vec![0x11; 4096], "nothing was written");
}

pub(crate) fn a_read_with_a_wrong_key<P: Provider>(b: &mut Bench<P>) {
    b.listen();
    let (target, host) = b.connected(false, 4);
    let remote = RemoteAddr { addr: 0x1000, rkey: 0x0bad_0123 };
    b.target.post(&target, 77, SendOp::Read { remote }, data_span(3, 4096), true);
    b.target.send(&target, 78, data_span(4, 16));
    b.ended_or_failed(&target, &host);
    b.target.device.fail(target.qp());
    b.host.device.fail(host.qp());
    let wcs = b.next_wcs(true, 6);
    let sends: Vec<&Wc> = wcs.iter().filter(|w| w.op == WcOp::Send).collect();
    assert_eq!(sends.iter().map(|w| w.wr_id.0).collect::<Vec<u64>>(), [77, 78]);
    assert!(!sends[0].is_ok(), "{sends:?}");
    if sends[1].is_ok() {
        eprintln!("note: the SEND behind the failed READ counts as done");
    }
    b.next_wcs(false, 4);
    quiet(b);
    release(b, &target, &host);
}

pub(crate) fn an_overlong_message<P: Provider>(b: &mut Bench<P>) {
    b.listen();
    let (target, host) = b.connected(false, 1);
    b.target.device.fail(target.qp());
    b.next_wc(true);
    b.host.device.fail(host.qp());
    b.next_wc(false);
    release(b, &target, &host);

    let host = b.ask(b"", 1);
    let request = b.request();
    let target = b.prepare(&request, false, 0);
    let wr = RecvWr { wr_id: WrId(3), head: Span::new(0, 64), tail: Span::new(0, 0) };
    b.target.device.post_recv(target.at.recv_queue.id, wr);
    let now = b.now();
    b.target.device.flush(now);
    b.accept(&target, b"");
    b.up(&target, &host);
    b.host.send(&host, 9, data_span(1, 4096));
    let wc = b.next_wc(true);
    assert!(!wc.is_ok(), "{wc:?}");
    assert_eq!(wc.wr_id, WrId(3));
    b.host.device.fail(host.qp());
    b.target.device.fail(target.qp());
    b.next_wcs(false, 2);
    quiet(b);
    release(b, &target, &host);
}

pub(crate) fn shared_receives_outlive_a_connection<P: Provider>(b: &mut Bench<P>) {
    b.listen();
    let (target, host) = b.connected(true, 12);
    // A second connection takes from the same queue and needs no receives of its own.
    let other_host = b.ask(b"", 4);
    let request = b.request();
    let other = b.prepare(&request, true, 0);
    assert_eq!(other.at.recv_queue.id, target.at.recv_queue.id);
    b.accept(&other, b"");
    b.up(&other, &other_host);
    b.host.send(&other_host, 1, data_span(1, 100));
    let wc = b.next_wc(true);
    assert_eq!((arrived(&wc), wc.qp), (100, other.qp()));
    let at = wc.wr_id.0 as u32;
    b.target.post_recvs(&other, at..at + 1);
    assert!(b.next_wc(false).is_ok());

    // The first goes while messages of it are on their way.
    for i in 0..6 {
        b.host.send(&host, i, data_span(1, 64 + 4096));
    }
    let now = b.now();
    b.host.device.flush(now);
    b.target.device.fail(target.qp());
    let early: Vec<Wc> = std::mem::take(&mut b.target.done);
    b.target.free(&target);
    let held = early.len();
    b.settle(Duration::from_millis(50));
    b.target.done.retain(|w| w.op == WcOp::Send);
    b.host.device.fail(host.qp());
    b.next_wcs(false, 12 + 6);
    b.host.free(&host);

    // All but those that were told are still there for the second.
    for i in 0..(12 - held as u64) {
        b.host.send(&other_host, i, data_span(1, 64));
        let wc = b.next_wc(true);
        assert_eq!((arrived(&wc), wc.qp), (64, other.qp()), "receive {i}");
        assert!(b.next_wc(false).is_ok());
    }
    b.tear_down(&other, &other_host, (0, 4));
}
