//! Commands of namespaces and hosts that have a limit.

use super::*;
use crate::target::AbortToken;
use nvme_spec_types::nvm::NSID_ALL;

impl Rig {
    fn limited() -> Rig {
        let mut rig = Rig::io();
        rig.queue.on_publish(&limited_view(2));
        rig
    }

    fn turn(&mut self, slot: Slot) -> Vec<Action> {
        self.event(|queue, out| queue.on_turn(slot, out))
    }
}

fn ask(slot: Slot, commands: u8, bytes: u64) -> Action {
    Action::AskTurn { slot, commands, bytes }
}

#[test]
fn a_command_waits_for_its_turn_before_its_buffer() {
    let mut rig = Rig::limited();
    let read = blocks(IoOpcode::READ, 0, 8, keyed(4096));
    assert_eq!(rig.capsule(&read, 0), [release(1), ask(S0, 1, 4096)]);
    assert_eq!(rig.turn(S0), [Action::Allocate { slot: S0, len: 4096 }]);
}

#[test]
fn data_in_the_capsule_waits_where_it_is() {
    let mut rig = Rig::limited();
    let write = blocks(IoOpcode::WRITE, 0, 1, in_capsule(0, 512));
    assert_eq!(rig.capsule(&write, 512), [ask(S0, 1, 512)]);
    let io = io(S0, IoKind::Write { fua: false }, 0, 512, Place::Capsule(0));
    assert_eq!(rig.turn(S0), [io]);
}

#[test]
fn a_namespace_without_a_limit_waits_for_nothing() {
    let mut rig = Rig::limited();
    let read = blocks_on(5, IoOpcode::READ, 0, 1, keyed(4096));
    assert_eq!(rig.capsule(&read, 0)[1], Action::Allocate { slot: S0, len: 4096 });
}

#[test]
fn what_is_refused_is_not_charged() {
    let mut rig = Rig::limited();
    let outside = blocks(IoOpcode::READ, 1000, 1, keyed(512));
    assert_eq!(rig.refused(&outside, 0), StatusCode::LBA_OUT_OF_RANGE.with_dnr());
}

#[test]
fn commands_are_charged_for_what_they_move() {
    let charged = |command: Command| match Rig::limited().capsule(&command, 0)[..] {
        [.., Action::AskTurn { commands: 1, bytes, .. }] => bytes,
        ref other => panic!("{other:?}"),
    };
    let none = SglDescriptor::NO_DATA;
    assert_eq!(charged(blocks(IoOpcode::COMPARE, 0, 1, keyed(512))), 512);
    assert_eq!(charged(blocks(IoOpcode::VERIFY, 0, 600, none)), 600 * 512);
    assert_eq!(charged(blocks(IoOpcode::WRITE_ZEROES, 0, 600, none)), 0);
    assert_eq!(charged(Command::io(IoOpcode::FLUSH, 9, 1, none)), 0);
    // All namespaces are no namespace with a limit.
    let all = Command::io(IoOpcode::FLUSH, 9, NSID_ALL, none);
    assert!(matches!(
        Rig::limited().capsule(&all, 0)[..],
        [_, Action::Io { .. }, Action::Io { .. }]
    ));
}

#[test]
fn a_fused_pair_is_two_commands_with_one_turn() {
    let mut rig = Rig::limited();
    let mut compare = blocks(IoOpcode::COMPARE, 0, 1, keyed(512));
    compare.set_fuse(Fuse::First);
    let mut write = blocks(IoOpcode::WRITE, 0, 1, keyed(512));
    write.set_fuse(Fuse::Second);
    write.set_cid(10);
    assert_eq!(rig.capsule(&compare, 0), [release(1)]);
    assert_eq!(rig.capsule(&write, 0), [release(2), ask(Slot(1), 2, 1024)]);
    assert_eq!(rig.turn(Slot(1)), [Action::Allocate { slot: Slot(1), len: 4608 }]);
}

#[test]
fn a_command_in_line_can_be_aborted() {
    let mut rig = Rig::limited();
    rig.capsule(&blocks(IoOpcode::READ, 0, 1, keyed(512)), 0);
    let actions = rig.event(|queue, out| queue.on_abort(9, AbortToken(1), out));
    let aborted = completion(9, StatusCode::ABORT_REQUESTED.retryable(), 1);
    assert_eq!(actions[..2], [Action::Withdraw(S0), respond(S0, aborted, 0)]);
}

#[test]
fn a_queue_that_closes_leaves_the_line() {
    let mut rig = Rig::limited();
    rig.capsule(&blocks(IoOpcode::WRITE, 0, 1, in_capsule(0, 512)), 512);
    assert_eq!(rig.event(Queue::begin_close), [release(1)]);
    assert!(rig.queue.is_drained());
}

#[test]
fn the_limit_of_a_host_holds_on_every_namespace() {
    let mut rig = Rig::io();
    let mut limited = (*view(2, MAX_TRANSFER)).clone();
    let host = limited_view(1).namespaces[0].limit.clone().unwrap();
    let name = rig.queue.binding().unwrap().hostnqn.to_string();
    limited.host_limits = Arc::new([(name, host.clone())].into());
    rig.queue.on_publish(&Arc::new(limited));
    let read = blocks_on(5, IoOpcode::READ, 0, 1, keyed(4096));
    assert_eq!(rig.capsule(&read, 0)[1], ask(S0, 1, 4096));
    let [found, namespace] = rig.queue.limits(S0);
    assert!(Arc::ptr_eq(found.unwrap(), &host) && namespace.is_none());
}
