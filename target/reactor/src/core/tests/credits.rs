//! READ, send and response credits.

use super::*;

#[test]
fn one_read_credit_carries_sixteen_segments() {
    let mut rig = Rig::serving(QpLimits { max_reads: 1, ..LIMITS });
    let (command, list) = scattered(IoOpcode::WRITE, 1, 16);
    let mut posted = rig.capsule(&command, &list);
    for n in 0..16 {
        let [(_, wr)] = posted[..] else { panic!("{posted:?}") };
        assert!(is_read(&wr), "READ {n}");
        assert_eq!(rig.core.io().requests.len(), 0);
        posted = rig.sends_done();
    }
    assert_eq!(posted, []);
    assert_eq!(rig.core.io().requests.len(), 1);
}

#[test]
fn read_credits_are_given_first_in_first_out() {
    let mut rig = Rig::serving(QpLimits { max_reads: 2, ..LIMITS });
    let (command, list) = scattered(IoOpcode::WRITE, 1, 3);
    rig.deliver(QP, &command, &list);
    rig.deliver(QP, &write(2, 512), &[]);
    let first = rig.turn();
    assert_eq!(first.len(), 2);
    rig.core.device_mut().complete(QP, rdma::WcStatus::Success);
    let third = rig.turn();
    assert_eq!(third.len(), 1, "the third segment of the first command");
    assert_eq!(third[0].1.local.offset(), first[0].1.local.offset() + 1024);
    rig.core.device_mut().complete(QP, rdma::WcStatus::Success);
    let fourth = rig.turn();
    assert_eq!(fourth.len(), 1, "the second command's turn");
    assert_ne!(fourth[0].1.wr_id, first[0].1.wr_id);
}

#[test]
fn no_more_responses_are_under_way_than_the_host_has_receives() {
    let mut rig = Rig::new(1 << 20);
    rig.open(KEY, endpoint(QP, LIMITS), QueueParams { host_receives: 2, ..params() });
    for cid in 0..4 {
        rig.capsule(&read(cid, 512), &[]);
    }
    let sends = |posted: &[(QpId, SendWr)]| posted.iter().filter(|(_, wr)| is_send(wr)).count();
    (0..4).for_each(|_| rig.core.io_mut().finish(Ok(())));
    assert_eq!(sends(&rig.turn()), 2);
    assert_eq!(sends(&rig.turn()), 0);
    for _ in ["a WRITE", "the other's", "the first SEND"] {
        rig.core.device_mut().complete(QP, rdma::WcStatus::Success);
    }
    assert_eq!(sends(&rig.turn()), 1);
    assert_eq!(sends(&rig.sends_done()), 1);
}

#[test]
fn a_host_that_is_not_ready_for_responses_still_has_its_data_pulled() {
    let mut rig = Rig::new(1 << 20);
    rig.open(KEY, endpoint(QP, LIMITS), QueueParams { host_receives: 1, ..params() });
    for cid in 0..2 {
        rig.capsule(&read(cid, 512), &[]);
    }
    (0..2).for_each(|_| rig.core.io_mut().finish(Ok(())));
    assert_eq!(rig.turn().len(), 2, "one response is out, one waits");
    let posted = rig.capsule(&write(5, 512), &[]);
    assert!(matches!(posted[..], [(_, wr)] if is_read(&wr)));
}

#[test]
fn responses_wait_for_room_in_the_send_queue() {
    let mut rig = Rig::serving(QpLimits { max_send_wr: 3, ..LIMITS });
    for cid in 0..3 {
        rig.capsule(&read(cid, 512), &[]);
    }
    (0..3).for_each(|_| rig.core.io_mut().finish(Ok(())));
    assert_eq!(rig.turn().len(), 2, "WRITE and SEND of one");
    assert_eq!(rig.sends_done().len(), 2);
    assert_eq!(rig.sends_done().len(), 2);
}

#[test]
fn a_response_larger_than_the_send_queue_goes_in_parts() {
    let mut rig = Rig::serving(QpLimits { max_send_wr: 4, ..LIMITS });
    let (command, list) = scattered(IoOpcode::READ, 1, 10);
    rig.capsule(&command, &list);
    let mut posted = rig.io_done();
    let mut parts = Vec::new();
    let mut addresses = Vec::new();
    while !posted.is_empty() {
        parts.push(posted.len());
        assert!(posted.last().unwrap().1.signaled);
        for (_, wr) in &posted {
            if let SendOp::Write { remote } = wr.op {
                addresses.push(remote.addr);
            }
        }
        posted = rig.sends_done();
    }
    assert_eq!(parts, [4, 4, 3]);
    assert_eq!(addresses, (0..10).map(|n| 0x10_0000 + n * 0x1000).collect::<Vec<u64>>());
    assert_eq!(rig.core.stats().transfer_bytes, 0);
}

#[test]
fn a_send_queue_of_one_still_serves() {
    let mut rig = Rig::serving(QpLimits { max_send_wr: 1, max_reads: 1, max_inline: 0 });
    rig.deliver(QP, &read(1, 512), &[]);
    rig.deliver(QP, &write(2, 512), &[]);
    rig.turn();
    let mut sends = 0;
    for _ in 0..12 {
        while !rig.core.io().requests.is_empty() {
            rig.core.io_mut().finish(Ok(()));
        }
        sends += rig.sends_done().iter().filter(|(_, wr)| is_send(wr)).count();
    }
    assert_eq!(sends, 2);
}

#[test]
fn reads_do_not_take_the_room_that_a_large_response_waits_for() {
    let mut rig = Rig::serving(QpLimits { max_send_wr: 4, max_reads: 4, max_inline: 0 });
    let (command, list) = scattered(IoOpcode::READ, 1, 3);
    rig.deliver(QP, &command, &list);
    rig.deliver(QP, &write(2, 512), &[]);
    assert!(is_read(&rig.turn()[0].1));
    rig.core.io_mut().finish(Ok(()));
    rig.deliver(QP, &write(3, 512), &[]);
    assert_eq!(rig.turn(), [], "three credits are free: the response needs four");
    let posted = rig.sends_done();
    assert_eq!(posted.len(), 4);
    assert!(is_send(&posted[3].1));
}

#[test]
fn the_writes_of_small_responses_go_before_their_sends() {
    let mut rig = Rig::serving(LIMITS);
    for cid in 0..3 {
        rig.capsule(&read(cid, 512), &[]);
    }
    (0..3).for_each(|_| rig.core.io_mut().finish(Ok(())));
    let posted = rig.turn();
    let sends: Vec<bool> = posted.iter().map(|(_, wr)| is_send(wr)).collect();
    assert_eq!(sends, [false, false, false, true, true, true]);
}

#[test]
fn a_large_response_does_not_wait_for_the_writes_of_the_next() {
    let mut rig = Rig::serving(LIMITS);
    for cid in 0..2 {
        rig.capsule(&read(cid, 64 << 10), &[]);
    }
    (0..2).for_each(|_| rig.core.io_mut().finish(Ok(())));
    let posted = rig.turn();
    let sends: Vec<bool> = posted.iter().map(|(_, wr)| is_send(wr)).collect();
    assert_eq!(sends, [false, true, false, true]);
}

#[test]
fn one_flush_a_turn_serves_all() {
    let mut rig = Rig::serving(LIMITS);
    for cid in 0..4 {
        rig.deliver(QP, &write(cid, 512), &[]);
    }
    let before = rig.core.device().flushes;
    assert_eq!(rig.turn().len(), 4);
    assert_eq!(rig.core.device().flushes, before + 1);
}

#[cfg(feature = "plant")]
#[test]
fn the_audit_sees_a_leaked_read_credit() {
    let mut rig = Rig::serving(LIMITS);
    rig.core.plant(Plant::ReadCreditLeaked);
    rig.capsule(&write(1, 512), &[]);
    rig.core.device_mut().complete_all();
    rig.core.turn(rig.now, &mut rig.out);
    let error = rig.core.audit().unwrap_err();
    assert!(error.contains("READ credits: 0 held, 1 counted"), "{error}");
}

#[cfg(feature = "plant")]
#[test]
#[should_panic(expected = "is not in use")]
fn the_pool_sees_a_buffer_freed_twice() {
    let mut rig = Rig::serving(LIMITS);
    rig.core.plant(Plant::BufferFreedTwice);
    rig.capsule(&read(1, 512), &[]);
    rig.io_done();
    rig.sends_done();
}
