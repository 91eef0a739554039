//! Before, during and after Connect.

use super::*;

#[test]
fn connect_is_handed_on_with_its_pulled_data() {
    let mut rig = Rig::unbound(1);
    assert_eq!(
        rig.capsule(&connect(keyed(1024)), 0),
        [release(1), Action::Allocate { slot: S0, len: 1024 }]
    );
    assert_eq!(rig.buffer(S0), [Action::Pull(S0)]);
    let data = Some((Place::Buffer(0), 1024));
    assert_eq!(rig.pulled(S0), [Action::Execute { slot: S0, data }]);
    rig.queue.on_bind(binding(1, None));
    let actions = rig.executed(S0, Outcome::result(0x1_0002));
    let mut expected = completion(1, OK, 1);
    expected.dw0 = 0x1_0002;
    assert_eq!(actions, [respond(S0, expected, 0)]);
    assert_eq!(rig.queue.binding().unwrap().cntlid, 1);
}

#[test]
fn connect_data_may_come_in_the_capsule() {
    let mut rig = Rig::unbound(1);
    let data = Some((Place::Capsule(0), 1024));
    assert_eq!(
        rig.capsule(&connect(in_capsule(0, 1024)), 1024),
        [Action::Execute { slot: S0, data }, release(1)]
    );
}

#[test]
fn an_admin_queue_without_in_capsule_data_takes_none() {
    let mut rig = Rig::unbound(0);
    let status = rig.refused(&connect(in_capsule(0, 1024)), 1024);
    assert_eq!(status, StatusCode::SGL_OFFSET_INVALID.with_dnr());
}

#[test]
fn nothing_but_connect_is_taken_before_connect() {
    for qid in [0, 1] {
        let mut rig = Rig::unbound(qid);
        let sequence = StatusCode::COMMAND_SEQUENCE_ERROR.with_dnr();
        assert_eq!(rig.refused(&blocks(IoOpcode::READ, 0, 1, keyed(512)), 0), sequence);
        let get = Command::fabrics(FabricsType::PROPERTY_GET, 2, SglDescriptor::NO_DATA);
        assert_eq!(rig.refused(&get, 0), sequence);
    }
}

#[test]
fn nothing_is_taken_while_connect_is_carried_out() {
    let mut rig = Rig::unbound(1);
    rig.capsule(&connect(in_capsule(0, 1024)), 1024);
    let read = blocks(IoOpcode::READ, 0, 1, keyed(512));
    let refused = completion(9, StatusCode::COMMAND_SEQUENCE_ERROR.with_dnr(), 1);
    assert_eq!(rig.capsule(&read, 0), [release(2), respond(Slot(1), refused, 0)]);
}

#[test]
fn a_second_connect_is_refused_and_the_queue_lives_on() {
    let mut rig = Rig::io();
    let status = rig.refused(&connect(in_capsule(0, 1024)), 1024);
    assert_eq!(status, StatusCode::COMMAND_SEQUENCE_ERROR.with_dnr());
    assert_ne!(rig.capsule(&blocks(IoOpcode::READ, 0, 1, keyed(512)), 0), []);
}

#[test]
fn a_connect_that_failed_may_be_tried_again() {
    let mut rig = Rig::unbound(1);
    // Refused by its SGL, then by the target.
    rig.refused(&connect(keyed(MAX_TRANSFER + 1)), 0);
    rig.capsule(&connect(in_capsule(0, 1024)), 1024);
    let status = StatusCode::CONNECT_INVALID_HOST.with_dnr();
    rig.executed(S0, Outcome::error(status));
    rig.sent(S0);
    let actions = rig.capsule(&connect(in_capsule(0, 1024)), 1024);
    assert!(matches!(actions[0], Action::Execute { .. }));
}

#[test]
fn completions_tell_the_queue_head_modulo_the_size_that_connect_asked_for() {
    let mut rig = Rig::unbound(1);
    let small = Binding { sq_entries: 3, ..binding(1, Some(view(1, MAX_TRANSFER))) };
    rig.queue.on_bind(small);
    let heads: Vec<u16> = (0..4)
        .map(|_| {
            let actions = rig.capsule(&blocks(IoOpcode::READ, 2000, 1, keyed(512)), 0);
            let Action::Respond { slot, completion, .. } = actions[1] else { panic!() };
            rig.sent(slot);
            completion.sqhd
        })
        .collect();
    assert_eq!(heads, [1, 2, 0, 1]);
}

#[test]
fn without_flow_control_completions_carry_no_queue_head() {
    let mut rig = Rig::unbound(1);
    rig.queue.on_bind(Binding { flow_control: false, ..binding(1, None) });
    let actions = rig.capsule(&Command::io(IoOpcode(0xff), 9, 1, keyed(0)), 0);
    let refused = completion(9, StatusCode::INVALID_OPCODE.with_dnr(), 0xffff);
    assert_eq!(actions, [release(1), respond(S0, refused, 0)]);
}

#[test]
fn disconnect_is_answered_and_then_the_connection_ends() {
    let mut rig = Rig::io();
    let disconnect = Command::fabrics(FabricsType::DISCONNECT, 3, SglDescriptor::NO_DATA);
    assert_eq!(rig.capsule(&disconnect, 0), [Action::Execute { slot: S0, data: None }, release(1)]);
    assert_eq!(rig.executed(S0, Outcome::ok()), [respond(S0, completion(3, OK, 1), 0)]);
    assert_eq!(rig.sent(S0), [Action::Close(CloseReason::HostDisconnect)]);
}

#[test]
fn a_refused_disconnect_ends_nothing() {
    let mut rig = Rig::io();
    rig.capsule(&Command::fabrics(FabricsType::DISCONNECT, 3, SglDescriptor::NO_DATA), 0);
    rig.executed(S0, Outcome::error(StatusCode::INVALID_QUEUE_TYPE.with_dnr()));
    assert_eq!(rig.sent(S0), []);
}
