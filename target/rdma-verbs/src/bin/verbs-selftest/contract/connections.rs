//! Connecting, refusing, ending.

use super::bench::{Bench, Provider, arrived, data_span, params, take};
use rdma::{CmEvent, ConnectionManager, Connector, CoreIndex, Device};
use std::time::Duration;

pub(super) fn private_data_arrives_both_ways<P: Provider>(b: &mut Bench<P>) {
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

pub(super) fn a_reject_carries_its_data<P: Provider>(b: &mut Bench<P>) {
    b.listen();
    let host = b.ask(&[1; 32], 2);
    let request = b.request();
    let now = b.now();
    b.target.manager.reject(now, request.conn, &[0, 0, 6, 0]);
    let data = b.until("Refused", |b| {
        take(&mut b.host.events, |e| match e {
            CmEvent::Refused { conn, private_data, .. } if *conn == host.conn => {
                Some(private_data.clone())
            }
            _ => None,
        })
    });
    assert_eq!(data[..4], [0, 0, 6, 0]);
    b.host.device.fail(host.qp());
    b.next_wcs(false, 2);
    b.host.free(&host);
}

pub(super) fn nobody_listening_refuses<P: Provider>(b: &mut Bench<P>) {
    b.addr.set_port(b.addr.port() + 1);
    let host = b.ask(&[], 1);
    b.until("Refused", |b| {
        take(&mut b.host.events, |e| matches!(e, CmEvent::Refused { .. }).then_some(()))
    });
    b.host.device.fail(host.qp());
    b.next_wcs(false, 1);
    b.host.free(&host);
}

pub(super) fn a_missing_address_is_told_once<P: Provider>(b: &mut Bench<P>) {
    let now = b.now();
    let elsewhere = "192.0.2.77:4420".parse().expect("an address");
    b.target.manager.listen(now, elsewhere).expect("made all the same");
    b.settle(Duration::from_millis(1200));
    let downs = |e: &&CmEvent| matches!(e, CmEvent::ListenerDown { .. });
    assert_eq!(b.target.events.iter().filter(downs).count(), 1, "{:?}", b.target.events);
    let next = b.target.manager.timeout().expect("tries again");
    assert!(next > b.now(), "not at once");
}

pub(super) fn the_end_is_told_to_both<P: Provider>(b: &mut Bench<P>) {
    b.listen();
    for from_host in [true, false] {
        let (target, host) = b.connected(false, 4);
        let now = b.now();
        if from_host {
            b.host.manager.disconnect(now, host.conn);
        } else {
            b.target.manager.disconnect(now, target.conn);
        }
        b.ended(true, &target);
        b.ended(false, &host);
        b.settle(Duration::from_millis(20));
        let ends = |e: &CmEvent| matches!(e, CmEvent::Disconnected { .. });
        assert!(!b.target.events.iter().any(ends), "told once");
        assert!(!b.host.events.iter().any(ends), "told once");
        b.tear_down(&target, &host, (4, 4));
    }
}

pub(super) fn disconnecting_before_the_accept<P: Provider>(b: &mut Bench<P>) {
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

pub(super) fn a_hundred_connections_leak_nothing<P: Provider>(b: &mut Bench<P>) {
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

pub(super) fn many_connections_work_at_once<P: Provider>(b: &mut Bench<P>) {
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

/// The caller's script takes the device away after "READY" and brings it back after "GONE".
pub(crate) fn a_removed_device_comes_back<P: Provider>(b: &mut Bench<P>) {
    b.listen();
    let (target, host) = b.connected(true, 4);
    let files = open_files();
    println!("READY");
    b.until("the listener to be down", |b| {
        take(&mut b.target.events, |e| matches!(e, CmEvent::ListenerDown { .. }).then_some(()))
    });
    b.ended(true, &target);
    b.ended(false, &host);
    b.target.device.fail(target.qp());
    b.host.device.fail(host.qp());
    // The last connection of a removed device gives the shared receives back too.
    b.next_wcs(true, 4);
    b.next_wcs(false, 4);
    b.target.free(&target);
    b.host.free(&host);
    b.target.device.arm();
    b.host.device.arm();
    // A receive that was in use meanwhile goes nowhere, and harms nothing.
    b.target.post_recvs(&target, 0..1);
    println!("GONE");
    b.until("the listener to be up", |b| {
        take(&mut b.target.events, |e| matches!(e, CmEvent::ListenerUp { .. }).then_some(()))
    });
    let (target, host) = b.connected(true, 4);
    assert_eq!(target.at.recv_queue.depth, 256, "a new queue, empty");
    assert_eq!(open_files(), files, "descriptors of the removed device are closed");
    b.tear_down(&target, &host, (0, 4));
}

fn open_files() -> usize {
    std::fs::read_dir("/proc/self/fd").expect("/proc is mounted").count()
}
