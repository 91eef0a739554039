//! Buffers, receives, and what happens when they run short.

use super::*;

#[test]
fn buffers_are_granted_in_the_order_asked_for_over_all_queues() {
    let mut rig = Rig::new(2 * MAX_TRANSFER);
    rig.open(KEY, endpoint(QP, LIMITS), params());
    rig.open(QueueKey(2), endpoint(QpId(2), LIMITS), params());
    // Half of the pool, a page of the other half; then a large one of one queue, for which there
    // is no room, and a small one of the other, for which there would be.
    rig.capsule(&read(1, MAX_TRANSFER), &[]);
    rig.capsule(&read(2, 512), &[]);
    rig.capsule(&read(3, MAX_TRANSFER), &[]);
    rig.deliver(QpId(2), &read(4, 512), &[]);
    rig.turn();
    assert_eq!(rig.core.io().requests.len(), 2);
    assert_eq!(rig.core.stats().buffer_waits, 2);
    rig.io_done();
    rig.sends_done();
    let lens: Vec<u64> = rig.core.io().requests.iter().map(|request| request.len).collect();
    assert_eq!(lens, [512, u64::from(MAX_TRANSFER), 512], "the small one has not overtaken");
}

#[test]
fn a_shared_receive_queue_is_stocked_once() {
    let mut rig = Rig::new(1 << 20);
    rig.open(KEY, shared_endpoint(QP, 32), params());
    let standing = rig.core.stats().standing_bytes;
    rig.open(QueueKey(2), shared_endpoint(QpId(2), 32), params());
    assert_eq!(rig.core.device().posted_recvs(RecvQueueId(1)), 32);
    assert!(rig.core.stats().standing_bytes <= standing + 4096);
}

#[test]
fn a_shared_receive_queue_shrinks_to_the_memory_there_is() {
    let mut rig = Rig::new(1 << 20);
    rig.open(KEY, shared_endpoint(QP, 1024), params());
    // 1 MiB has no room for 1024, 512 or 256 receives of 4 KiB and 64 bytes.
    assert_eq!(rig.core.device().posted_recvs(RecvQueueId(1)), 128);
}

#[test]
fn a_slow_disk_does_not_keep_the_receives_of_a_shared_queue() {
    let mut rig = Rig::new(1 << 20);
    rig.open(KEY, shared_endpoint(QP, 8), params());
    let sgl = SglDescriptor::InCapsule { offset: 0, len: 512 };
    for cid in 0..8 {
        rig.capsule(&blocks(IoOpcode::WRITE, cid, 1, sgl), &[cid as u8; 512]);
        assert!(rig.core.device().posted_recvs(RecvQueueId(1)) > 0);
    }
    assert_eq!(rig.core.stats().vacated, 2);
    let bytes: Vec<u8> =
        rig.core.io().requests.iter().map(|request| rig.bytes(request.buffer)[0]).collect();
    assert_eq!(bytes, [0, 1, 2, 3, 4, 5, 6, 7]);
    (0..8).for_each(|_| rig.core.io_mut().finish(Ok(())));
    assert_eq!(rig.turn().iter().filter(|(_, wr)| is_send(wr)).count(), 8);
    assert_eq!(rig.core.device().posted_recvs(RecvQueueId(1)), 8);
    assert_eq!(rig.core.stats().transfer_bytes, 0);
}

#[test]
fn a_shared_receive_that_ends_for_nobody_goes_back_into_use() {
    let mut rig = Rig::new(1 << 20);
    rig.open(KEY, shared_endpoint(QP, 32), params());
    rig.core.device_mut().stray_recv(RecvQueueId(1), QpId(9));
    rig.turn();
    assert_eq!(rig.core.device().posted_recvs(RecvQueueId(1)), 32);
    assert_eq!(rig.core.stats().strays, 1);
    assert_eq!(rig.told().len(), 0);
}

#[test]
fn a_queue_without_memory_for_its_receives_is_refused_and_costs_nothing() {
    let mut rig = Rig::new(1 << 20);
    let large = QueueParams { sq_entries: 128, ..params() };
    let deep = |qp| {
        let mut endpoint = endpoint(QpId(qp), LIMITS);
        endpoint.recv_queue.depth = 128;
        endpoint
    };
    rig.open(KEY, deep(1), large.clone());
    let before = rig.core.stats();
    let endpoint = deep(2);
    rig.tell(ToCore::Attach { key: QueueKey(2), endpoint, params: large });
    let told = rig.told();
    assert!(
        matches!(told[..], [ToControl::Refused { key: QueueKey(2), endpoint: e }] if e == endpoint)
    );
    let after = rig.core.stats();
    assert_eq!(after.standing_bytes, before.standing_bytes);
    assert_eq!((after.queues, after.refused), (1, 1));
}

#[test]
fn receives_are_posted_before_the_control_thread_hears_of_it() {
    let mut rig = Rig::new(1 << 20);
    rig.tell(ToCore::Attach { key: KEY, endpoint: endpoint(QP, LIMITS), params: params() });
    assert_eq!(rig.core.device().posted_recvs(RecvQueueId(101)), usize::from(ENTRIES));
    assert_eq!(rig.core.device().flushes, 1);
}

#[test]
fn a_core_needs_room_for_the_largest_command() {
    let region = Arc::new(Region::map(1 << 20, Pages::Normal).unwrap());
    let make = |max_transfer, standing| {
        let config =
            CoreConfig { index: CoreIndex(0), max_transfer, in_capsule: 0, standing, slow: None };
        let (device, io) = (FakeDevice::new(&region), FakeIo::new(&region));
        Core::new(config, Arc::clone(&region), device, io).map(|_| ())
    };
    assert_eq!(make(256 * 1024, 512 * 1024), Ok(()));
    let need = (1 << 20) + 4096;
    let short = CoreError::TooLittleMemory { have: 1 << 20, need };
    assert_eq!(make(256 * 1024, 512 * 1024 + 4096), Err(short));
    assert_eq!(make(5000, 0), Err(CoreError::MaxTransfer(5000)));
    assert_eq!(make(2048, 0), Err(CoreError::MaxTransfer(2048)));
    let halves = CoreConfig::halves(CoreIndex(0), 4096, 0, 3 * 4096);
    assert_eq!(halves.standing, 4096);
}

#[test]
fn a_backing_is_removed_when_nothing_is_in_flight_on_it() {
    let mut rig = Rig::serving(LIMITS);
    rig.capsule(&read(1, 512), &[]);
    rig.tell(ToCore::RemoveBacking(BACKING));
    assert_eq!(rig.told().len(), 0);
    // What comes now is refused, though the namespace is still shown.
    let posted = rig.capsule(&read(2, 512), &[]);
    let status = rig.completion(&posted[0].1).status;
    assert_eq!(status.code, StatusCode::NAMESPACE_NOT_READY);
    assert!(matches!(rig.told()[..], [ToControl::Failed { .. }]));
    rig.io_done();
    assert!(matches!(rig.told()[..], [ToControl::BackingRemoved(BACKING)]));
    assert_eq!(rig.core.io().backings, []);
    rig.tell(ToCore::RemoveBacking(BACKING));
    assert!(matches!(rig.told()[..], [ToControl::BackingRemoved(BACKING)]));
    // The number is free for another.
    rig.tell(ToCore::AddBacking(BackingId(9), ()));
    assert_eq!(rig.core.io().backings, [BackingId(9)]);
}
