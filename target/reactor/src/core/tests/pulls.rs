//! How much is asked of hosts ahead, by all connections together.

use super::*;
use crate::core::pulls::SILENCE;
use rdma::WcStatus;

const QPS: [QpId; 3] = [QpId(1), QpId(2), QpId(3)];
const READS: usize = 16;

/// Three hosts with eight large writes each, which is more than the window; what was posted for them.
fn crowded() -> (Rig, Vec<(QpId, SendWr)>) {
    let mut rig = Rig::new(4 << 20);
    assert_eq!(READS as u32 * MAX_TRANSFER, rig.core.device().read_window(QPS[0]));
    for qp in QPS {
        let limits = QpLimits { max_reads: 8, ..LIMITS };
        rig.open(QueueKey(qp.0.into()), endpoint(qp, limits), params());
    }
    for qp in QPS {
        (0..8).for_each(|cid| rig.deliver(qp, &write(cid, MAX_TRANSFER), &[]));
    }
    let posted = rig.turn();
    (rig, posted)
}

fn of(posted: &[(QpId, SendWr)], qp: QpId) -> usize {
    posted.iter().filter(|(on, wr)| *on == qp && is_read(wr)).count()
}

#[test]
fn no_more_is_asked_for_ahead_than_the_window_and_each_host_has_its_part() {
    let (mut rig, posted) = crowded();
    assert_eq!(posted.len(), READS);
    let mut each = QPS.map(|qp| of(&posted, qp));
    each.sort_unstable();
    assert_eq!(each, [5, 5, 6]);
    assert_eq!(rig.turn(), [], "the window is full");
    assert!(rig.core.stats().window_waits >= 2);
    let mut more = 0;
    for _ in 0..8 {
        more += rig.sends_done().len();
    }
    assert_eq!(more, 3 * 8 - READS, "all are read in the end");
    assert_eq!(rig.core.pulls.bytes, 0);
}

#[test]
fn a_small_write_comes_next_though_others_have_much_to_write() {
    let (mut rig, _) = crowded();
    rig.open(QueueKey(9), endpoint(QpId(9), LIMITS), params());
    rig.deliver(QpId(9), &write(1, 512), &[]);
    assert_eq!(of(&rig.turn(), QpId(9)), 0);
    let mut turns = 0;
    while of(&rig.turn(), QpId(9)) == 0 {
        turns += 1;
        assert!(turns <= QPS.len() + 1, "each of the others once, and one to make room");
        rig.core.device_mut().complete(QPS[turns % 3], WcStatus::Success);
    }
}

#[test]
fn a_host_that_answers_goes_on_though_others_wait_longer_with_reads_under_way() {
    let (mut rig, _) = crowded();
    let quick = QpId(9);
    rig.open(QueueKey(9), endpoint(quick, LIMITS), params());
    (0..3).for_each(|cid| rig.deliver(quick, &write(cid, MAX_TRANSFER), &[]));
    assert_eq!(rig.turn(), []);
    rig.core.device_mut().complete(QPS[0], WcStatus::Success);
    for left in (0..3).rev() {
        let posted = rig.turn();
        assert_eq!((posted.len(), of(&posted, quick)), (1, 1), "{left} are left");
        rig.core.device_mut().complete(quick, WcStatus::Success);
    }
    let posted = rig.turn();
    assert_eq!((posted.len(), of(&posted, quick)), (1, 0), "then the others have their turn");
}

#[test]
fn what_a_host_that_left_had_asked_for_is_free_for_others() {
    let (mut rig, posted) = crowded();
    rig.tell(ToCore::Close(QueueKey(1)));
    let (freed, after) = (of(&posted, QPS[0]), rig.turn());
    assert!(freed > 0);
    assert_eq!((after.len(), of(&after, QPS[0])), (freed, 0));
}

#[test]
fn hosts_that_do_not_answer_keep_others_from_writing_for_a_moment_only() {
    let (mut rig, posted) = crowded();
    rig.open(QueueKey(9), endpoint(QpId(9), LIMITS), params());
    rig.deliver(QpId(9), &write(1, MAX_TRANSFER), &[]);
    assert_eq!(of(&rig.turn(), QpId(9)), 0, "the others are asked, and may answer yet");
    assert_eq!(rig.core.timeout(), Some(Now::from_micros(1) + SILENCE));
    rig.now += SILENCE;
    let more = rig.turn();
    assert_eq!(of(&more, QpId(9)), 1);
    assert_eq!(rig.core.timeout(), None, "nobody is in line any more");
    // One of them answers after all, and then everybody does.
    for _ in 0..posted.len() + more.len() {
        for qp in QPS {
            rig.core.device_mut().complete(qp, WcStatus::Success);
        }
        rig.turn();
    }
    rig.core.device_mut().complete(QpId(9), WcStatus::Success);
    rig.turn();
    assert_eq!(rig.core.pulls.bytes, 0);
}

#[test]
fn a_slot_that_has_read_all_is_not_in_line_for_its_next_command() {
    let (mut rig, _) = crowded();
    let qp = QpId(9);
    rig.open(QueueKey(9), endpoint(qp, LIMITS), params());
    rig.deliver(qp, &write(1, 512), &[]);
    // Room for a small READ, and for no more.
    let mut turns = 0;
    while of(&rig.turn(), qp) == 0 {
        turns += 1;
        rig.core.device_mut().complete(QPS[turns % 3], WcStatus::Success);
    }
    rig.core.device_mut().complete(qp, WcStatus::Success);
    rig.turn();
    let mut posted = Vec::new();
    while !posted.iter().any(|(on, wr)| *on == qp && is_send(wr)) {
        posted = rig.io_done();
    }
    rig.core.device_mut().complete(qp, WcStatus::Success);
    rig.turn();
    // The next command has the same slot, and a buffer of its own.
    rig.deliver(qp, &read(2, 512), &[]);
    for _ in 0..20 {
        assert_eq!(of(&rig.turn(), qp), 0, "a Read has nothing to read from its host");
        for other in QPS {
            rig.core.device_mut().complete(other, WcStatus::Success);
        }
    }
}
