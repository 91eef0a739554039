//! Closing in every state.

use super::*;
use nvme_spec_types::nvm::{DatasetManagement, DsmAttributes};

fn closed(rig: &mut Rig) -> Vec<Action> {
    rig.event(|queue, out| queue.begin_close(out))
}

/// A queue with one command in slot 0, brought to a state by `steps`.
fn at(command: Command, data: u32, steps: &[fn(&mut Rig)]) -> Rig {
    let mut rig = Rig::io();
    rig.capsule(&command, data);
    steps.iter().for_each(|step| step(&mut rig));
    rig
}

fn read() -> Command {
    blocks(IoOpcode::READ, 0, 1, keyed(512))
}

#[test]
fn a_command_that_waits_for_a_buffer_ends_at_once() {
    let mut rig = at(read(), 0, &[]);
    assert_eq!(closed(&mut rig), []);
    assert!(rig.queue.is_drained());
    // A grant that was under way is ignored.
    assert_eq!(rig.buffer(S0), []);
}

#[test]
fn a_receive_that_is_held_comes_back() {
    let mut rig = at(blocks(IoOpcode::WRITE, 0, 1, in_capsule(16, 512)), 528, &[]);
    assert_eq!(closed(&mut rig), [release(1)]);
    assert!(rig.queue.is_drained());
}

#[test]
fn a_pull_ends_its_slot_when_it_is_answered() {
    let write = blocks(IoOpcode::WRITE, 0, 1, keyed(512));
    let mut rig = at(write, 0, &[|rig| drop(rig.buffer(S0))]);
    assert_eq!(closed(&mut rig), []);
    assert!(!rig.queue.is_drained());
    assert_eq!(rig.pulled(S0), []);
    assert!(rig.queue.is_drained());
}

#[test]
fn a_write_in_the_capsule_keeps_its_receive_until_the_disk_answers() {
    let mut rig = at(blocks(IoOpcode::WRITE, 0, 1, in_capsule(0, 512)), 512, &[]);
    assert_eq!(closed(&mut rig), []);
    assert_eq!(rig.io_done(S0), [release(1)]);
    assert!(rig.queue.is_drained());
}

#[test]
fn every_operation_of_a_slot_is_waited_for() {
    let nr = ZeroBased::<u8>::from_count(2u16).unwrap();
    let trim = DatasetManagement { nr, attributes: DsmAttributes::DEALLOCATE }.to_command(
        9,
        1,
        in_capsule(0, 32),
    );
    let mut bytes = [0; 32];
    (bytes[4], bytes[20]) = (1, 1);
    let mut rig = at(trim, 32, &[]);
    rig.event(|queue, out| queue.on_payload(S0, &bytes, out));
    assert_eq!(closed(&mut rig), []);
    assert_eq!(rig.io_done(S0), []);
    assert!(!rig.queue.is_drained());
    assert_eq!(rig.io_done(S0), []);
    assert!(rig.queue.is_drained());
}

#[test]
fn a_comparison_ends_at_once() {
    let compare = blocks(IoOpcode::COMPARE, 0, 1, in_capsule(0, 512));
    let steps: [fn(&mut Rig); 2] = [|rig| drop(rig.buffer(S0)), |rig| drop(rig.io_done(S0))];
    let mut rig = at(compare, 512, &steps);
    assert_eq!(closed(&mut rig), [release(1)]);
    assert!(rig.queue.is_drained());
    assert_eq!(rig.event(|queue, out| queue.on_compared(S0, None, out)), []);
}

#[test]
fn a_command_with_the_control_thread_is_abandoned() {
    let disconnect = Command::fabrics(FabricsType::DISCONNECT, 3, SglDescriptor::NO_DATA);
    let mut rig = at(disconnect, 0, &[]);
    assert_eq!(closed(&mut rig), []);
    assert!(rig.queue.is_drained());
    assert_eq!(rig.executed(S0, Outcome::ok()), []);
}

#[test]
fn outcome_data_on_its_way_is_dropped() {
    let mut rig = Rig::bound(0);
    rig.capsule(&Command::admin(AdminOpcode::IDENTIFY, 1, 0, keyed(64)), 0);
    rig.executed(S0, Outcome::data(vec![1; 64]));
    assert_eq!(closed(&mut rig), []);
    assert!(rig.queue.is_drained());
    assert_eq!(rig.queue.take_fill(S0), []);
}

#[test]
fn a_response_ends_its_slot_without_another_action() {
    let disconnect = Command::fabrics(FabricsType::DISCONNECT, 3, SglDescriptor::NO_DATA);
    let mut rig = at(disconnect, 0, &[|rig| drop(rig.executed(S0, Outcome::ok()))]);
    assert_eq!(closed(&mut rig), []);
    assert!(!rig.queue.is_drained());
    assert_eq!(rig.sent(S0), []);
    assert!(rig.queue.is_drained());
}

#[test]
fn a_descriptor_list_that_was_asked_for_is_ignored() {
    let list = SglDescriptor::LastSegment { offset: 0, len: 16 };
    let mut rig = at(blocks(IoOpcode::READ, 0, 1, list), 16, &[]);
    assert_eq!(closed(&mut rig), [release(1)]);
    let bytes = keyed(512).to_bytes();
    assert_eq!(rig.event(|queue, out| queue.on_payload(S0, &bytes, out)), []);
    assert!(rig.queue.is_drained());
}

#[test]
fn held_capsules_and_later_ones_give_their_receives_back() {
    let mut rig = Rig::io();
    for cid in 0..2 * ENTRIES {
        let mut refused = blocks(IoOpcode::READ, 2000, 1, keyed(512));
        refused.set_cid(cid);
        rig.capsule(&refused, 0);
    }
    assert_eq!(rig.capsule(&read(), 0), []);
    assert_eq!(closed(&mut rig), [release(9)]);
    assert_eq!(rig.capsule(&read(), 0), [release(10)]);
    for slot in 0..2 * ENTRIES {
        assert!(!rig.queue.is_drained());
        assert_eq!(rig.sent(Slot(slot)), []);
    }
    assert!(rig.queue.is_drained());
    assert_eq!(closed(&mut rig), []);
}
