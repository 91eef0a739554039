//! What is sent again, and when: for what was lost, and for what is just late.

use super::*;

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// A pair whose end 0 knows the round trip, and what it may write to at the other end.
fn warm() -> (Pair, RemoteAddr) {
    let mut p = Pair::new(1, 1024, Faults::default());
    let remote = p.expose(1, Span::new(0, 1 << 20), Access::RemoteWrite);
    for id in 0..50 {
        write(&mut p, id, remote, 1024);
        p.run_until("a write", |p| p.done[0].len() as u64 == id + 1);
    }
    p.done[0].clear();
    (p, remote)
}

fn write(p: &mut Pair, id: u64, remote: RemoteAddr, len: u32) {
    p.post(0, id, SendOp::Write { remote }, Span::new(0, len), true);
}

fn pace(p: &Pair) -> &crate::pace::Pace {
    let qp = p.qp(0);
    p.engines[0].qps[qp.0 as usize].as_ref().unwrap().requester.pace()
}

/// How long it takes until what end 0 posted is done.
fn time_until_done(p: &mut Pair, count: usize) -> Duration {
    let start = p.now;
    p.run_until("repair", |p| p.done[0].len() == count);
    assert!(p.done[0].iter().all(Wc::is_ok));
    p.now - start
}

/// The other end's thread has no processor for so long.
fn stall(p: &mut Pair, time: Duration) {
    p.asleep = Some(1);
    let end = p.now + time;
    while p.now < end {
        p.step();
    }
    p.asleep = None;
}

#[test]
fn a_lost_last_packet_is_sent_again_after_a_few_milliseconds() {
    let (mut p, remote) = warm();
    p.lost = p.packets + 9..p.packets + 10;
    write(&mut p, 1, remote, 10 << 10);
    let took = time_until_done(&mut p, 1);
    assert!(took < ms(5), "{took:?}");
    assert_eq!(p.engines[0].counters.retransmitted, 2, "the probe, and what it showed");
}

#[test]
fn all_that_was_lost_is_repaired_within_one_wait() {
    let (mut p, remote) = warm();
    p.lost = p.packets..p.packets + 40;
    write(&mut p, 1, remote, 40 << 10);
    let took = time_until_done(&mut p, 1);
    assert!(took < ms(5), "{took:?}");
    assert_eq!(p.engines[0].counters.retransmitted, 40, "the probe and what followed it");
}

#[test]
fn reads_whose_requests_were_all_lost_are_asked_for_again() {
    let (mut p, _) = warm();
    let remote = p.expose(1, Span::new(0, 1 << 20), Access::RemoteRead);
    p.lost = p.packets..p.packets + 2;
    for id in 0..2 {
        p.post(0, id, SendOp::Read { remote }, Span::new(0, 20 << 10), true);
    }
    let took = time_until_done(&mut p, 2);
    assert!(took < ms(9), "{took:?}");
    assert_eq!(p.engines[0].counters.retransmitted, 2);
}

#[test]
fn a_lost_probe_is_followed_by_all_after_twice_the_wait() {
    let (mut p, remote) = warm();
    p.lost = p.packets..p.packets + 5;
    write(&mut p, 1, remote, 4 << 10);
    let took = time_until_done(&mut p, 1);
    assert!((ms(12)..ms(13)).contains(&took), "{took:?}");
    assert_eq!(p.engines[0].counters.retransmitted, 5);
}

#[test]
fn a_peer_that_is_slow_for_a_moment_costs_a_packet_and_soon_none() {
    let (mut p, remote) = warm();
    let window = pace(&p).window();
    let mut repeated = Vec::new();
    for id in 0..4 {
        let before = p.engines[0].counters.retransmitted;
        write(&mut p, id, remote, 40 << 10);
        stall(&mut p, ms(7));
        time_until_done(&mut p, id as usize + 1);
        repeated.push(p.engines[0].counters.retransmitted - before);
    }
    assert_eq!(repeated, [1, 0, 0, 0]);
    assert!(pace(&p).window() >= window, "it is no sign of congestion");
}

#[test]
fn a_slow_peer_is_not_taken_for_a_lost_read_either() {
    let (mut p, _) = warm();
    let remote = p.expose(1, Span::new(0, 1 << 20), Access::RemoteRead);
    for id in 0..4 {
        p.post(0, id, SendOp::Read { remote }, Span::new(0, 40 << 10), true);
    }
    stall(&mut p, ms(7));
    time_until_done(&mut p, 4);
    assert_eq!(p.engines[0].counters.retransmitted, 1);
}

#[test]
fn the_wait_for_a_receive_is_no_round_trip() {
    let mut p = Pair::new(1, 1024, Faults::default());
    for id in 0..20 {
        p.post(0, id, SendOp::Send, Span::new(0, 64), true);
        p.settle(); // longer than it is asked to wait
        p.recv(1, id, Span::new(0, 64), Span::default());
        p.run_until("a message", |p| p.done[0].len() as u64 == id + 1);
    }
    assert_eq!(pace(&p).round_trip_at_most(), None);
}
