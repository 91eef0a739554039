//! Connecting, refusing, ending.

use crate::bench::{Bench, Link, Provider, arrived, data_span, params, take};
use rdma::{CmEvent, ConnectionManager, Connector, CoreIndex, Device};
use std::time::Duration;

pub(crate) fn private_data_arrives_both_ways<P: Provider>(b: &mut Bench<P>) {
    b.listen();
    let asked: Vec<u8> = (1..=32).collect();
    let host = b.ask(&asked, 4);
    let request = b.request();
    assert_eq!(request.private_data[..32], asked[..]);
    assert!(request.private_data[32..].iter().all(|&x| x == 0), "padding is zeroes");
    assert_eq!(request.local.ip(), b.addr.ip());
    assert!(request.responder_resources >= 1, "the host answers READs: {request:?}");
    assert!(request.device.max_qp_wr >= 64 && request.device.max_qp_reads >= 1);
    assert!(!request.device.name.is_empty());
    let target = b.prepare(&request, false, 4);
    assert!((1..=8).contains(&target.at.limits.max_reads));
    b.accept(&target, &[7; 32]);
    let answer = b.up(&target, &host);
    assert_eq!(answer[..32], [7; 32]);
    b.tear_down(&target, &host, (4, 4));
}

/// Waits until the host is refused; gives the reject's private data.
fn refusal<P: Provider>(b: &mut Bench<P>, host: &Link) -> Vec<u8> {
    b.until("Refused", |b| {
        take(&mut b.host.events, |e| match e {
            CmEvent::Refused { conn, private_data, .. } if *conn == host.conn => {
                Some(private_data.clone())
            }
            _ => None,
        })
    })
}

pub(crate) fn a_reject_carries_its_data<P: Provider>(b: &mut Bench<P>) {
    b.listen();
    let host = b.ask(&[1; 32], 2);
    let request = b.request();
    let now = b.now();
    b.target.manager.reject(now, request.conn, &[0, 0, 6, 0]);
    let data = refusal(b, &host);
    assert_eq!(data[..4], [0, 0, 6, 0]);
    b.host.device.fail(host.qp());
    b.next_wcs(false, 2);
    b.host.free(&host);
}

pub(crate) fn private_data_of_the_largest_size<P: Provider>(b: &mut Bench<P>) {
    b.listen();
    let bytes = |len: u8| -> Vec<u8> { (1..=len).collect() };
    let host = b.ask(&bytes(56), 1);
    let request = b.request();
    assert_eq!(request.private_data, bytes(56));
    let target = b.prepare(&request, false, 1);
    b.accept(&target, &bytes(196));
    assert_eq!(b.up(&target, &host)[..196], bytes(196));
    b.tear_down(&target, &host, (1, 1));

    let host = b.ask(&bytes(56), 1);
    let request = b.request();
    let now = b.now();
    b.target.manager.reject(now, request.conn, &bytes(148));
    assert_eq!(refusal(b, &host)[..148], bytes(148));
    b.host.device.fail(host.qp());
    b.next_wcs(false, 1);
    b.host.free(&host);
}

pub(crate) fn nobody_listening_refuses<P: Provider>(b: &mut Bench<P>) {
    // At another port somebody does, so that there is someone to say no.
    b.listen();
    b.addr.set_port(b.addr.port() + 1);
    let host = b.ask(&[], 1);
    b.until("Refused", |b| {
        take(&mut b.host.events, |e| matches!(e, CmEvent::Refused { .. }).then_some(()))
    });
    b.host.device.fail(host.qp());
    b.next_wcs(false, 1);
    b.host.free(&host);
}

pub(crate) fn a_missing_address_is_told_once<P: Provider>(b: &mut Bench<P>) {
    let now = b.now();
    let elsewhere = "192.0.2.77:4420".parse().expect("an address");
    b.target.manager.listen(now, elsewhere).expect("made all the same");
    b.settle(Duration::from_millis(1200));
    let downs = |e: &&CmEvent| matches!(e, CmEvent::ListenerDown { .. });
    assert_eq!(b.target.events.iter().filter(downs).count(), 1, "{:?}", b.target.events);
    if let Some(next) = b.target.manager.timeout() {
        assert!(next > b.now(), "it tries again, and not at once");
    }
}

pub(crate) fn the_end_is_told_to_the_other_side<P: Provider>(b: &mut Bench<P>) {
    b.listen();
    for from_host in [true, false] {
        let (target, host) = b.connected(false, 4);
        let now = b.now();
        if from_host {
            b.host.manager.disconnect(now, host.conn);
        } else {
            b.target.manager.disconnect(now, target.conn);
        }
        // Whoever asked may be told or not; the other is told, and nobody twice.
        if from_host {
            b.ended(true, &target);
        } else {
            b.ended(false, &host);
        }
        b.settle(Duration::from_millis(20));
        let ends = |e: &&CmEvent| matches!(e, CmEvent::Disconnected { .. });
        let told = |events: &[CmEvent]| events.iter().filter(ends).count();
        let (at_target, at_host) = (told(&b.target.events), told(&b.host.events));
        let (asked, other) = if from_host { (at_host, at_target) } else { (at_target, at_host) };
        assert!(asked <= 1 && other == 0, "told twice: {asked} {other}");
        b.tear_down(&target, &host, (4, 4));
    }
}

pub(crate) fn disconnecting_before_the_accept<P: Provider>(b: &mut Bench<P>) {
    b.listen();
    let host = b.ask(&[], 1);
    let request = b.request();
    let target = b.prepare(&request, false, 3);
    let now = b.now();
    b.target.manager.disconnect(now, target.conn);
    b.target.device.fail(target.qp());
    b.next_wcs(true, 3);
    b.target.free(&target);
    b.until("the host to hear", |b| {
        take(&mut b.host.events, |e| matches!(e, CmEvent::Refused { .. }).then_some(()))
    });
    b.host.device.fail(host.qp());
    b.next_wcs(false, 1);
    b.host.free(&host);
}

pub(crate) fn a_hundred_connections_leak_nothing<P: Provider>(b: &mut Bench<P>) {
    b.listen();
    let mut before = 0;
    for i in 0..110 {
        let (target, host) = b.connected(i % 2 == 0, 4);
        let owed = if i % 2 == 0 { 0 } else { 4 };
        b.tear_down(&target, &host, (owed, 4));
        // The shared queue keeps the four receives of every other round.
        assert!(i % 2 == 1 || target.at.recv_queue.depth >= 4 * 56, "room for every round");
        b.target.done.clear();
        b.host.done.clear();
        if i == 9 {
            before = open_files();
        }
    }
    assert_eq!(open_files(), before, "open descriptors");
    let now = b.now();
    let opened = b.host.manager.open(now, b.addr, CoreIndex(0), &params(false));
    let (conn, endpoint) = opened.expect("still works");
    b.host.manager.destroy(conn, endpoint);
}

pub(crate) fn many_connections_work_at_once<P: Provider>(b: &mut Bench<P>) {
    b.listen();
    // More than one completion queue of the usual size can serve.
    let links: Vec<_> = (0..90).map(|_| b.connected(false, 2)).collect();
    for (i, (target, host)) in links.iter().enumerate() {
        let len = 16 + i as u32;
        b.target.send(target, i as u64, data_span(1, len));
        let wc = b.next_wc(false);
        assert_eq!((arrived(&wc), wc.qp), (len, host.qp()));
        let sent = b.next_wc(true);
        assert_eq!((sent.is_ok(), sent.wr_id.0, sent.qp), (true, i as u64, target.qp()));
    }
    for (target, host) in &links {
        b.tear_down(target, host, (2, 1));
    }
}

/// Descriptors that this process has open.
fn open_files() -> usize {
    std::fs::read_dir("/proc/self/fd").expect("/proc is mounted").count()
}
