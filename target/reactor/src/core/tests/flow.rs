//! Commands on their way through a core.

use super::*;
use backing::{IoError, IoOp, IoRequest};
use nvmf::Outcome;
use nvmf::target::AbortToken;
use rdma::RemoteAddr;

#[test]
fn a_read_is_one_chain_of_write_and_send_after_its_receive_was_posted_again() {
    let mut rig = Rig::serving(LIMITS);
    assert_eq!(rig.capsule(&read(5, 4096), &[]), []);
    assert_eq!(rig.core.io().requests[0].offset, 16 * 512);
    rig.core.device_mut().order.clear();
    let posted = rig.io_done();
    let [(_, push), (_, send)] = posted[..] else { panic!("{posted:?}") };
    assert_eq!(push.op, SendOp::Write { remote: RemoteAddr { addr: 0x1000, rkey: 0x77 } });
    assert_eq!(rig.bytes(push.local), [16; 4096]);
    assert!(!push.signaled && send.signaled);
    assert_eq!(send.op, SendOp::Send);
    let completion = rig.completion(&send);
    assert_eq!((completion.cid, completion.sqhd), (5, 1));
    assert!(completion.status.is_success());
    // Its receive was posted when the capsule was taken in, before the response.
    assert_eq!(rig.core.device().posted_recvs(RecvQueueId(101)), usize::from(ENTRIES));
    assert_eq!(rig.core.device().order, [None, None]);
    assert_ne!(rig.core.stats().transfer_bytes, 0);
    assert_eq!(rig.sends_done(), []);
    assert_eq!(rig.core.stats().transfer_bytes, 0);
}

#[test]
fn a_write_is_pulled_then_written_then_answered() {
    let mut rig = Rig::serving(LIMITS);
    let posted = rig.capsule(&write(5, 8192), &[]);
    let [(_, pull)] = posted[..] else { panic!("{posted:?}") };
    assert_eq!(pull.op, SendOp::Read { remote: RemoteAddr { addr: 0x1000, rkey: 0x77 } });
    assert_eq!(rig.core.io().requests.len(), 0);
    assert_eq!(rig.sends_done(), []);
    let request = rig.core.io().requests[0];
    assert_eq!((request.op, request.buffer), (IoOp::Write { fua: false }, pull.local));
    let posted = rig.io_done();
    assert!(matches!(posted[..], [(_, wr)] if is_send(&wr)));
    // The buffer is not kept for the SEND.
    assert_eq!(rig.core.stats().transfer_bytes, 0);
}

#[test]
fn a_write_in_the_capsule_goes_to_the_disk_from_where_it_arrived() {
    let mut rig = Rig::serving(LIMITS);
    let sgl = SglDescriptor::InCapsule { offset: 0, len: 4096 };
    rig.capsule(&blocks(IoOpcode::WRITE, 5, 8, sgl), &[0xab; 4096]);
    let request = rig.core.io().requests[0];
    assert_eq!(rig.bytes(request.buffer), [0xab; 4096]);
    assert_eq!(rig.core.stats().transfer_bytes, 0);
    let recvs = RecvQueueId(101);
    assert_eq!(rig.core.device().posted_recvs(recvs), usize::from(ENTRIES) - 1);
    rig.core.device_mut().order.clear();
    rig.io_done();
    assert_eq!(rig.core.device().order, [Some(recvs), None], "receive first, then the response");
}

#[test]
fn a_write_at_an_odd_place_of_the_capsule_is_moved_first() {
    let mut rig = Rig::serving(LIMITS);
    let sgl = SglDescriptor::InCapsule { offset: 24, len: 512 };
    let mut data = vec![1; 24];
    data.resize(24 + 512, 9);
    rig.capsule(&blocks(IoOpcode::WRITE, 5, 1, sgl), &data);
    assert_eq!(rig.bytes(rig.core.io().requests[0].buffer), [9; 512]);
}

#[test]
fn a_compare_looks_at_both_sides() {
    for (data, code) in [(16, StatusCode::SUCCESS), (17, StatusCode::COMPARE_FAILURE)] {
        let mut rig = Rig::serving(LIMITS);
        let sgl = SglDescriptor::InCapsule { offset: 0, len: 512 };
        rig.capsule(&blocks(IoOpcode::COMPARE, 5, 1, sgl), &[data; 512]);
        let posted = rig.io_done();
        assert_eq!(rig.completion(&posted[0].1).status.code, code);
    }
}

#[test]
fn data_in_sixteen_pieces_is_pushed_piece_by_piece() {
    let mut rig = Rig::serving(LIMITS);
    let (command, list) = scattered(IoOpcode::READ, 1, 16);
    rig.capsule(&command, &list);
    let posted = rig.io_done();
    assert_eq!(posted.len(), 17);
    for (n, (_, wr)) in posted[..16].iter().enumerate() {
        let addr = 0x10_0000 + n as u64 * 0x1000;
        assert_eq!(wr.op, SendOp::Write { remote: RemoteAddr { addr, rkey: 0x77 } });
        assert_eq!(wr.local.len(), 512);
        assert_eq!(wr.local.offset(), posted[0].1.local.offset() + n as u32 * 512);
    }
}

#[test]
fn storage_errors_become_the_commands_status_and_are_told_to_the_error_log() {
    let mut rig = Rig::serving(LIMITS);
    rig.told();
    rig.capsule(&read(5, 512), &[]);
    rig.core.io_mut().finish(Err(IoError::ReadFault));
    let posted = rig.turn();
    let [(_, send)] = posted[..] else { panic!("data of a failed read was sent") };
    let status = rig.completion(&send).status;
    assert_eq!(status.code, StatusCode::UNRECOVERED_READ_ERROR);
    assert!(status.dnr && status.more);
    assert_eq!(rig.core.stats().io_errors, 1);
    let [ToControl::Failed { command, status: told, .. }] = &rig.told()[..] else { panic!() };
    assert_eq!((command, *told), (read(5, 512).as_bytes(), status));
}

#[test]
fn the_host_is_asked_to_invalidate_its_key_when_it_wants_that() {
    let mut rig = Rig::serving(LIMITS);
    let sgl = SglDescriptor::Keyed { addr: 0, len: 512, key: 99, invalidate: true };
    rig.capsule(&blocks(IoOpcode::READ, 1, 1, sgl), &[]);
    let posted = rig.io_done();
    assert_eq!(posted[1].1.op, SendOp::SendWithInvalidate { rkey: 99 });
}

#[test]
fn nothing_is_sent_before_the_connection_is_up() {
    let mut rig = Rig::new(1 << 20);
    rig.tell(ToCore::Attach { key: KEY, endpoint: endpoint(QP, LIMITS), params: params() });
    rig.tell(ToCore::Bind { key: KEY, binding: binding() });
    assert_eq!(rig.capsule(&write(5, 512), &[]), []);
    assert_eq!(rig.capsule(&read(6, 512), &[]), []);
    assert_eq!(rig.io_done(), []);
    rig.tell(ToCore::Established(KEY));
    let posted = rig.turn();
    assert_eq!(posted.len(), 3);
    assert!(is_write(&posted[0].1) && is_send(&posted[1].1) && is_read(&posted[2].1));
}

#[test]
fn an_admin_command_travels_to_the_control_thread_and_back() {
    let mut rig = Rig::new(1 << 20);
    let admin = QueueParams { qid: 0, in_capsule: 0, ..params() };
    rig.open(KEY, endpoint(QP, LIMITS), admin);
    let identify =
        Command::admin(nvme_spec_types::AdminOpcode::IDENTIFY, 2, 0, keyed(0x9000, 4096));
    rig.capsule(&identify, &[]);
    let told = rig.told();
    let [ToControl::Execute { key: KEY, slot, command, data }] = &told[..] else {
        panic!("{told:?}")
    };
    assert_eq!((command, data.len()), (identify.as_bytes(), 0));
    let outcome = Outcome::data(vec![3; 4096]);
    rig.tell(ToCore::Complete { key: KEY, slot: *slot, outcome });
    let posted = rig.turn();
    assert_eq!(rig.bytes(posted[0].1.local), [3; 4096]);
    assert!(is_send(&posted[1].1));
}

#[test]
fn flushes_for_the_control_thread_reach_the_disk_before_the_command_is_answered() {
    let mut rig = Rig::new(1 << 20);
    rig.open(KEY, endpoint(QP, LIMITS), QueueParams { qid: 0, in_capsule: 0, ..params() });
    let set = Command::fabrics(nvme_spec_types::FabricsType::PROPERTY_SET, 2, keyed(0, 0));
    rig.capsule(&set, &[]);
    let told = rig.told();
    let [ToControl::Execute { slot, .. }] = told[..] else { panic!("{told:?}") };
    let backings = vec![BackingRef(BACKING.0)];
    rig.tell(ToCore::Flush { key: KEY, slot, backings });
    let requests = &rig.core.io().requests;
    assert!(matches!(requests[0], IoRequest { backing: BACKING, op: IoOp::Flush, .. }));
    assert_eq!((requests.len(), rig.told().len()), (1, 0));
    assert_eq!(rig.io_done(), []);
    let told = rig.told();
    assert!(matches!(told[..], [ToControl::Flushed { failed: None, .. }]), "{told:?}");
    rig.tell(ToCore::Complete { key: KEY, slot, outcome: Outcome::ok() });
    assert!(is_send(&rig.turn()[0].1));
}

#[test]
fn data_for_the_control_thread_is_copied_and_its_buffer_comes_back() {
    let mut rig = Rig::new(1 << 20);
    rig.open(KEY, endpoint(QP, LIMITS), QueueParams { qid: 0, in_capsule: 0, ..params() });
    let opcode = nvme_spec_types::AdminOpcode::SET_FEATURES;
    let posted = rig.capsule(&Command::admin(opcode, 2, 0, keyed(0x9000, 16)), &[]);
    rig.core.region.fill(posted[0].1.local, 8);
    rig.sends_done();
    let told = rig.told();
    let [ToControl::Execute { data, .. }] = &told[..] else { panic!("{told:?}") };
    assert_eq!(data[..], [8; 16]);
    assert_eq!(rig.core.stats().transfer_bytes, 0);
}

#[test]
fn data_in_the_capsule_reaches_the_control_thread_before_its_receive_is_posted_again() {
    let mut rig = Rig::new(1 << 20);
    rig.tell(ToCore::Attach { key: KEY, endpoint: endpoint(QP, LIMITS), params: params() });
    rig.told();
    let sgl = SglDescriptor::InCapsule { offset: 0, len: 1024 };
    let connect = Command::fabrics(nvme_spec_types::FabricsType::CONNECT, 1, sgl);
    rig.capsule(&connect, &[6; 1024]);
    let told = rig.told();
    let [ToControl::Execute { data, .. }] = &told[..] else { panic!("{told:?}") };
    assert_eq!(data[..], [6; 1024]);
    assert_eq!(rig.core.device().posted_recvs(RecvQueueId(101)), usize::from(ENTRIES));
}

#[test]
fn an_abort_of_a_write_that_is_being_pulled_is_answered_when_its_reads_have_ended() {
    let mut rig = Rig::serving(LIMITS);
    let posted = rig.capsule(&write(5, MAX_TRANSFER), &[]);
    assert!(is_read(&posted[0].1));
    let token = AbortToken(8);
    rig.tell(ToCore::Abort { key: KEY, cid: 5, token });
    assert!(rig.told().is_empty());
    let posted = rig.sends_done();
    assert_eq!(rig.completion(&posted[0].1).status.code, StatusCode::ABORT_REQUESTED);
    let told = rig.told();
    assert!(matches!(told[..], [ToControl::Aborted { stopped: true, .. }]), "{told:?}");
    assert!(rig.core.io().requests.is_empty());
}

#[test]
fn a_command_that_waits_for_a_buffer_can_be_aborted() {
    let mut rig = Rig::new(2 * MAX_TRANSFER);
    rig.open(KEY, endpoint(QP, LIMITS), params());
    for cid in 0..3 {
        rig.capsule(&read(cid, MAX_TRANSFER), &[]);
    }
    let abort = |cid| ToCore::Abort { key: KEY, cid, token: AbortToken(u64::from(cid)) };
    rig.tell(abort(2));
    rig.tell(abort(0));
    let told = rig.told();
    let stopped: Vec<bool> = told
        .iter()
        .map(|message| matches!(message, ToControl::Aborted { stopped: true, .. }))
        .collect();
    assert_eq!(stopped, [true, false]);
    let posted = rig.turn();
    assert_eq!(rig.completion(&posted[0].1).status.code, StatusCode::ABORT_REQUESTED);
}

#[test]
fn the_queue_is_marked_as_heard_from() {
    let mut rig = Rig::new(1 << 20);
    let params = params();
    let activity = params.activity.clone();
    rig.open(KEY, endpoint(QP, LIMITS), params);
    rig.capsule(&read(1, 512), &[]);
    assert_eq!(activity.last(), rig.now);
}
