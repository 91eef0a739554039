//! How connections end.

use super::*;
use nvmf::Outcome;
use rdma::WcStatus;

fn is_detached(message: &ToControl<FakeEndpoint>) -> bool {
    matches!(message, ToControl::Detached { key: KEY, endpoint: FakeEndpoint { qp: QP, .. } })
}

/// Nothing is left of the queue.
fn assert_gone(rig: &Rig) {
    let stats = rig.core.stats();
    assert_eq!((stats.queues, stats.transfer_bytes, stats.standing_bytes), (0, 0, 0));
    assert!(rig.core.is_idle());
}

#[test]
fn an_idle_queue_drains_its_receives_and_goes() {
    let mut rig = Rig::serving(LIMITS);
    rig.tell(ToCore::Close(KEY));
    rig.tell(ToCore::Close(KEY));
    assert!(rig.core.device().is_failed(QP));
    assert_eq!(rig.told().len(), 0);
    rig.turn();
    let told = rig.told();
    assert!(matches!(&told[..], [message] if is_detached(message)), "{told:?}");
    assert_gone(&rig);
    rig.tell(ToCore::Close(KEY));
    rig.tell(ToCore::Established(KEY));
    assert_eq!(rig.turn(), []);
}

#[test]
fn a_queue_on_a_shared_receive_queue_goes_at_once_and_the_receives_stay() {
    let mut rig = Rig::new(1 << 20);
    rig.open(KEY, shared_endpoint(QP, 32), params());
    rig.tell(ToCore::Close(KEY));
    assert!(matches!(&rig.told()[..], [message] if is_detached(message)));
    assert_eq!(rig.core.device().posted_recvs(RecvQueueId(1)), 32);
    assert_eq!(rig.core.stats().queues, 0);
}

#[test]
fn a_failed_response_closes_the_queue_and_is_told_once() {
    let mut rig = Rig::serving(LIMITS);
    for cid in 0..2 {
        rig.capsule(&read(cid, 512), &[]);
    }
    (0..2).for_each(|_| rig.core.io_mut().finish(Ok(())));
    assert_eq!(rig.turn().len(), 4);
    let device = rig.core.device_mut();
    device.complete(QP, WcStatus::Success);
    device.complete(QP, WcStatus::Success);
    device.complete(QP, WcStatus::RetryExceeded);
    rig.turn();
    rig.turn();
    let told = rig.told();
    let [ToControl::Closing { key: KEY, reason }, detached] = &told[..] else { panic!("{told:?}") };
    assert!(is_detached(detached));
    assert_eq!(reason, "a response failed: RetryExceeded");
    assert_gone(&rig);
}

#[test]
fn a_failed_write_before_its_response_closes_the_queue() {
    let mut rig = Rig::serving(LIMITS);
    rig.capsule(&read(1, 512), &[]);
    rig.io_done();
    rig.core.device_mut().complete(QP, WcStatus::RemoteAccess);
    rig.turn();
    rig.turn();
    let told = rig.told();
    assert!(
        matches!(&told[..], [ToControl::Closing { reason, .. }, _] if reason.contains("WRITE")),
        "{told:?}"
    );
    assert_gone(&rig);
}

#[test]
fn a_failed_pull_closes_the_queue() {
    let mut rig = Rig::serving(QpLimits { max_reads: 2, ..LIMITS });
    let (command, list) = scattered(IoOpcode::WRITE, 1, 5);
    rig.capsule(&command, &list);
    rig.core.device_mut().complete(QP, WcStatus::RemoteAccess);
    rig.turn();
    rig.turn();
    assert_eq!(rig.told().len(), 2);
    assert_eq!(rig.core.io().requests.len(), 0, "half-pulled data is not written");
    assert_gone(&rig);
}

#[test]
fn a_short_capsule_closes_the_queue() {
    let mut rig = Rig::serving(LIMITS);
    rig.core.device_mut().deliver(QP, &[0; 63], &[]);
    rig.turn();
    rig.turn();
    let told = rig.told();
    assert!(
        matches!(&told[..], [ToControl::Closing { reason, .. }, _] if reason.contains("63 bytes")),
        "{told:?}"
    );
    assert_gone(&rig);
}

#[test]
fn a_hanging_disk_keeps_its_buffer_but_not_the_connection() {
    let mut rig = Rig::serving(LIMITS);
    rig.capsule(&read(1, 4096), &[]);
    let sgl = SglDescriptor::InCapsule { offset: 0, len: 512 };
    rig.capsule(&blocks(IoOpcode::WRITE, 2, 1, sgl), &[7; 512]);
    let buffer = rig.core.io().requests[1].buffer;
    rig.tell(ToCore::Close(KEY));
    rig.turn();
    assert!(matches!(&rig.told()[..], [message] if is_detached(message)));
    assert_eq!(rig.core.stats().queues, 1);
    assert!(!rig.core.is_idle());
    // The host is back, on the same queue pair number, and is served.
    rig.open(QueueKey(2), endpoint(QP, LIMITS), params());
    rig.capsule(&read(1, 512), &[]);
    assert_eq!(rig.bytes(buffer), [7; 512], "memory of the hanging write was given away");
    rig.core.io_mut().requests.rotate_left(2);
    assert_eq!(rig.io_done().len(), 2);
    // The disk answers at last.
    rig.io_done();
    assert_eq!(rig.core.stats().queues, 2);
    rig.io_done();
    assert_eq!(rig.core.stats().queues, 1);
    rig.sends_done();
    assert_eq!(rig.core.stats().transfer_bytes, 0);
    assert_eq!(rig.told().len(), 0);
}

#[test]
fn commands_that_wait_are_dropped_with_their_queue() {
    let mut rig = Rig::new(2 * MAX_TRANSFER);
    rig.open(KEY, endpoint(QP, QpLimits { max_reads: 1, ..LIMITS }), params());
    rig.open(QueueKey(2), endpoint(QpId(2), LIMITS), params());
    let (command, list) = scattered(IoOpcode::WRITE, 1, 8);
    rig.capsule(&command, &list); // a READ is out, seven segments wait
    rig.capsule(&write(2, 512), &[]); // waits for a READ credit
    rig.capsule(&read(3, MAX_TRANSFER), &[]); // with the disk
    rig.capsule(&read(4, MAX_TRANSFER), &[]); // waits for a buffer
    rig.deliver(QpId(2), &read(5, MAX_TRANSFER), &[]); // behind it
    rig.turn();
    rig.tell(ToCore::Close(KEY));
    rig.turn();
    assert!(matches!(&rig.told()[..], [message] if is_detached(message)));
    rig.io_done();
    assert_eq!(rig.core.stats().queues, 1);
    assert_eq!(rig.core.io().requests.len(), 1, "the other queue's turn has come");
}

#[test]
fn a_late_outcome_of_a_dead_queue_is_dropped() {
    let mut rig = Rig::serving(LIMITS);
    let fctype = nvme_spec_types::FabricsType::DISCONNECT;
    rig.capsule(&Command::fabrics(fctype, 1, SglDescriptor::NO_DATA), &[]);
    let told = rig.told();
    let [ToControl::Execute { slot, .. }] = told[..] else { panic!("{told:?}") };
    rig.tell(ToCore::Close(KEY));
    rig.tell(ToCore::Complete { key: KEY, slot, outcome: Outcome::ok() });
    rig.turn();
    rig.tell(ToCore::Complete { key: KEY, slot, outcome: Outcome::ok() });
    assert_gone(&rig);
}

#[test]
fn a_disconnect_is_answered_before_the_queue_closes() {
    let mut rig = Rig::serving(LIMITS);
    let fctype = nvme_spec_types::FabricsType::DISCONNECT;
    rig.capsule(&Command::fabrics(fctype, 1, SglDescriptor::NO_DATA), &[]);
    let told = rig.told();
    let [ToControl::Execute { slot, .. }] = told[..] else { panic!("{told:?}") };
    rig.tell(ToCore::Complete { key: KEY, slot, outcome: Outcome::ok() });
    assert_eq!(rig.turn().len(), 1);
    assert!(!rig.core.device().is_failed(QP));
    rig.sends_done();
    rig.turn();
    let told = rig.told();
    assert!(matches!(&told[..], [ToControl::Closing { .. }, message] if is_detached(message)));
}

#[test]
fn capsules_behind_the_fault_are_not_looked_at() {
    let mut rig = Rig::serving(LIMITS);
    rig.core.device_mut().deliver(QP, &[0; 10], &[]);
    rig.deliver(QP, &write(1, 512), &[]);
    assert_eq!(rig.turn(), []);
    rig.turn();
    assert_gone(&rig);
}

#[test]
fn a_close_before_anything_was_sent_answers_what_was_withheld() {
    let mut rig = Rig::new(1 << 20);
    rig.tell(ToCore::Attach { key: KEY, endpoint: endpoint(QP, LIMITS), params: params() });
    rig.tell(ToCore::Bind { key: KEY, binding: binding() });
    rig.capsule(&write(1, 512), &[]);
    rig.capsule(&read(2, 512), &[]);
    rig.io_done();
    rig.tell(ToCore::Close(KEY));
    rig.turn();
    assert_gone(&rig);
}
