//! Slots, command ids and the bounds of a queue.

use super::*;

fn read(cid: u16) -> Command {
    let mut command = blocks(IoOpcode::READ, 0, 1, keyed(512));
    command.set_cid(cid);
    command
}

/// Takes a read to the point where its response is on its way.
fn answered(rig: &mut Rig, cid: u16) -> Slot {
    let actions = rig.capsule(&read(cid), 0);
    let Some(Action::Allocate { slot, .. }) = actions.get(1).copied() else {
        panic!("{actions:?}")
    };
    rig.buffer(slot);
    rig.io_done(slot);
    slot
}

#[test]
fn a_short_capsule_ends_the_connection() {
    let mut rig = Rig::io();
    for received in [0, 63] {
        rig.receive(&[0; 64], received, RecvToken(5));
        let close = Action::Close(CloseReason::ShortCapsule(received));
        assert_eq!(rig.taken(), [release(5), close]);
    }
}

#[test]
fn more_commands_than_entries_end_the_connection() {
    let mut rig = Rig::io();
    for cid in 0..ENTRIES {
        assert_eq!(rig.capsule(&read(cid), 0).len(), 2);
    }
    let close = Action::Close(CloseReason::TooManyCommands(ENTRIES));
    assert_eq!(rig.capsule(&read(99), 0), [release(5), close]);
}

#[test]
fn a_command_id_in_use_is_refused_and_its_owner_goes_on() {
    let mut rig = Rig::io();
    rig.capsule(&read(3), 0);
    let conflict = completion(3, StatusCode::COMMAND_ID_CONFLICT.with_dnr(), 1);
    assert_eq!(rig.capsule(&read(3), 0), [release(2), respond(Slot(1), conflict, 0)]);
    // The conflict has not freed the owner's id.
    let conflict = completion(3, StatusCode::COMMAND_ID_CONFLICT.with_dnr(), 2);
    assert_eq!(rig.capsule(&read(3), 0), [release(3), respond(Slot(2), conflict, 0)]);
    rig.buffer(S0);
    assert_eq!(rig.io_done(S0), [respond(S0, completion(3, OK, 3), 512)]);
    // Answered: the id is the host's again, also before our SEND has completed.
    assert_eq!(rig.capsule(&read(3), 0)[1], Action::Allocate { slot: Slot(3), len: 512 });
}

#[test]
fn all_command_ids_can_be_used() {
    let mut rig = Rig::io();
    for cid in (0..=u16::MAX).step_by(7).chain([u16::MAX]) {
        let slot = answered(&mut rig, cid);
        rig.sent(slot);
    }
}

#[test]
fn a_host_may_reuse_its_entries_before_our_sends_have_completed() {
    let mut rig = Rig::io();
    let first: Vec<Slot> = (0..ENTRIES).map(|cid| answered(&mut rig, cid)).collect();
    let second: Vec<Slot> = (0..ENTRIES).map(|cid| answered(&mut rig, cid)).collect();
    assert!(first.iter().all(|slot| !second.contains(slot)));
    assert_eq!(rig.queue.occupied(), (8, 0));
    // No slot is left: capsules are held, in order, with their receives.
    assert_eq!(rig.capsule(&read(20), 0), []);
    assert_eq!(rig.capsule(&read(21), 0), []);
    assert_eq!(rig.queue.occupied(), (8, 2));
    let slot = first[0];
    assert_eq!(rig.sent(slot), [release(9), Action::Allocate { slot, len: 512 }]);
    assert_eq!(rig.queue.command(slot), read(20).as_bytes());
    let slot = second[3];
    assert_eq!(rig.sent(slot), [release(10), Action::Allocate { slot, len: 512 }]);
    assert_eq!(rig.queue.command(slot), read(21).as_bytes());
}

#[test]
fn held_capsules_count_as_outstanding() {
    let mut rig = Rig::io();
    for cid in 0..2 * ENTRIES {
        answered(&mut rig, cid);
    }
    for cid in 0..ENTRIES {
        assert_eq!(rig.capsule(&read(cid), 0), []);
    }
    let actions = rig.capsule(&read(50), 0);
    assert_eq!(actions[1], Action::Close(CloseReason::TooManyCommands(ENTRIES)));
}

#[test]
#[should_panic(expected = "pulled data for a slot in state")]
fn an_event_that_nobody_asked_for_is_our_own_bug() {
    let mut rig = Rig::io();
    rig.capsule(&read(1), 0);
    rig.pulled(S0);
}
