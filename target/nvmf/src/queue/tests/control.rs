//! Commands that the control thread carries out.

use super::*;

const TOKEN: AbortToken = AbortToken(1);

fn aborted(stopped: bool) -> Action {
    Action::Aborted { token: TOKEN, stopped }
}

fn admin(opcode: AdminOpcode, sgl: SglDescriptor) -> Command {
    Command::admin(opcode, 4, 0, sgl)
}

#[test]
fn outcome_data_is_filled_into_a_buffer_and_pushed() {
    let mut rig = Rig::bound(0);
    assert_eq!(
        rig.capsule(&admin(AdminOpcode::IDENTIFY, keyed(4096)), 0),
        [Action::Execute { slot: S0, data: None }, release(1)]
    );
    assert_eq!(
        rig.executed(S0, Outcome::data(vec![5; 100])),
        [Action::Allocate { slot: S0, len: 100 }]
    );
    assert_eq!(rig.buffer(S0), [Action::Fill(S0), respond(S0, completion(4, OK, 1), 100)]);
    assert_eq!(rig.queue.take_fill(S0), [5; 100]);
}

#[test]
fn outcome_data_that_does_not_fit_is_an_error_and_not_sent() {
    for (described, given) in [(99, 100), (0, 1), (0xff_ffff, MAX_TRANSFER + 1)] {
        let mut rig = Rig::bound(0);
        rig.capsule(&admin(AdminOpcode::GET_LOG_PAGE, keyed(described)), 0);
        let status = StatusCode::DATA_SGL_LENGTH_INVALID.with_dnr();
        assert_eq!(
            rig.executed(S0, Outcome::data(vec![1; given as usize])),
            [respond(S0, completion(4, status, 1), 0)]
        );
    }
}

#[test]
fn data_is_sent_only_the_way_that_the_opcode_says_and_only_on_success() {
    let mut rig = Rig::bound(0);
    rig.capsule(&admin(AdminOpcode::SET_FEATURES, keyed(0)), 0);
    assert_eq!(rig.executed(S0, Outcome::data(vec![1; 8])), [respond(S0, completion(4, OK, 1), 0)]);
    rig.sent(S0);
    rig.capsule(&admin(AdminOpcode::IDENTIFY, keyed(4096)), 0);
    let status = StatusCode::INVALID_FIELD.with_dnr();
    let outcome = Outcome { data: vec![1; 8], ..Outcome::error(status) };
    assert_eq!(rig.executed(S0, outcome), [respond(S0, completion(4, status, 2), 0)]);
}

#[test]
fn data_of_an_admin_command_is_pulled_by_the_opcodes_direction() {
    let mut rig = Rig::bound(0);
    let command = admin(AdminOpcode::SET_FEATURES, keyed(256));
    assert_eq!(rig.capsule(&command, 0), [release(1), Action::Allocate { slot: S0, len: 256 }]);
    rig.buffer(S0);
    let data = Some((Place::Buffer(0), 256));
    assert_eq!(rig.pulled(S0), [Action::Execute { slot: S0, data }]);
}

#[test]
fn commands_without_data_do_not_look_at_the_sgl() {
    let mut rig = Rig::bound(0);
    let junk = SglDescriptor::Unknown { bytes: [0xff; 16] };
    for opcode in [AdminOpcode::KEEP_ALIVE, AdminOpcode::ASYNC_EVENT_REQUEST, AdminOpcode(0xc3)] {
        let actions = rig.capsule(&admin(opcode, junk), 0);
        let Action::Execute { slot, data: None } = actions[0] else { panic!("{actions:?}") };
        rig.executed(slot, Outcome::ok());
        rig.sent(slot);
    }
}

#[test]
fn a_late_outcome_is_dropped() {
    let mut rig = Rig::bound(0);
    assert_eq!(rig.executed(S0, Outcome::ok()), []);
    assert_eq!(rig.executed(Slot(9999), Outcome::ok()), []);
    rig.capsule(&admin(AdminOpcode::KEEP_ALIVE, keyed(0)), 0);
    rig.executed(S0, Outcome::ok());
    assert_eq!(rig.executed(S0, Outcome::ok()), []);
}

#[test]
fn more_data_than_the_largest_transfer_is_refused() {
    let mut rig = Rig::bound(0);
    let command = admin(AdminOpcode::SET_FEATURES, keyed(MAX_TRANSFER + 1));
    assert_eq!(rig.refused(&command, 0), StatusCode::INVALID_FIELD.with_dnr());
}

#[test]
fn a_command_that_waits_for_a_buffer_can_be_aborted_and_a_later_one_not() {
    let mut rig = Rig::io();
    rig.capsule(&blocks(IoOpcode::READ, 0, 1, keyed(512)), 0);
    let actions = rig.event(|queue, out| queue.on_abort(9, TOKEN, out));
    let status = completion(9, StatusCode::ABORT_REQUESTED.retryable(), 1);
    assert_eq!(actions, [Action::Withdraw(S0), respond(S0, status, 0), aborted(true)]);
    rig.sent(S0);
    rig.capsule(&blocks(IoOpcode::READ, 0, 1, keyed(512)), 0);
    rig.buffer(S0);
    for cid in [9, 10] {
        let actions = rig.event(|queue, out| queue.on_abort(cid, TOKEN, out));
        assert_eq!(actions, [aborted(false)]);
    }
}

#[test]
fn a_command_whose_data_is_on_its_way_is_stopped_when_it_has_come() {
    let mut rig = Rig::io();
    let pull = |rig: &mut Rig| {
        rig.capsule(&blocks(IoOpcode::WRITE, 0, 8, keyed(4096)), 0);
        rig.buffer(S0);
        rig.event(|queue, out| queue.on_abort(9, TOKEN, out))
    };
    assert_eq!(pull(&mut rig), []);
    // One Abort stops it, a second finds nothing to stop.
    let second = AbortToken(2);
    let actions = rig.event(|queue, out| queue.on_abort(9, second, out));
    assert_eq!(actions, [Action::Aborted { token: second, stopped: false }]);
    let status = completion(9, StatusCode::ABORT_REQUESTED.retryable(), 1);
    assert_eq!(rig.pulled(S0), [respond(S0, status, 0), aborted(true)]);
    rig.sent(S0);
    // The next command in the slot is nobody's to stop.
    rig.capsule(&blocks(IoOpcode::WRITE, 0, 8, keyed(4096)), 0);
    rig.buffer(S0);
    let write = io(S0, IoKind::Write { fua: false }, 0, 4096, Place::Buffer(0));
    assert_eq!(rig.pulled(S0), [write]);
}

#[test]
fn a_queue_that_closes_has_no_answer_for_an_abort_that_waits() {
    let mut rig = Rig::io();
    rig.capsule(&blocks(IoOpcode::WRITE, 0, 8, keyed(4096)), 0);
    rig.buffer(S0);
    rig.event(|queue, out| queue.on_abort(9, TOKEN, out));
    rig.event(|queue, out| queue.begin_close(out));
    assert_eq!(rig.pulled(S0), []);
    assert!(rig.queue.is_drained());
}

#[test]
fn flushes_for_the_control_thread_go_out_together_and_their_end_is_told_once() {
    let mut rig = Rig::bound(0);
    rig.capsule(&admin(AdminOpcode::SET_FEATURES, keyed(0)), 0);
    let backings = [BackingRef(10), BackingRef(50)];
    let asked = rig.event(|queue, out| queue.on_flush(S0, &backings, out));
    let flush = |backing| {
        let (kind, place) = (IoKind::Flush, Place::Buffer(0));
        Action::Io { slot: S0, io: Io { backing, kind, offset: 0, len: 0, place } }
    };
    assert_eq!(asked, backings.map(flush));
    let status = StatusCode::WRITE_FAULT.with_dnr();
    let failed = ExecStatus::Failed(status);
    assert_eq!(rig.event(|queue, out| queue.on_io_done(S0, failed, out)), []);
    assert_eq!(rig.io_done(S0), [Action::Flushed { slot: S0, failed: Some(status) }]);
    // The control thread decides what becomes of the command.
    assert_eq!(rig.executed(S0, Outcome::ok()), [respond(S0, completion(4, OK, 1), 0)]);
    assert_eq!(rig.reports, []);
}

#[test]
fn a_flush_for_a_command_that_was_answered_is_dropped() {
    let mut rig = Rig::bound(0);
    rig.capsule(&admin(AdminOpcode::SET_FEATURES, keyed(0)), 0);
    rig.executed(S0, Outcome::ok());
    assert_eq!(rig.event(|queue, out| queue.on_flush(S0, &[BackingRef(10)], out)), []);
}
