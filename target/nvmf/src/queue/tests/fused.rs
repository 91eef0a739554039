//! Compare and Write as one: how pairs are made, carried out, and come apart.

use super::*;
use crate::target::AbortToken;

const S1: Slot = Slot(1);
/// Where the blocks of a pair of one block are read to.
const AS_IT_IS: Place = Place::Buffer(4096);

fn half(opcode: IoOpcode, slba: u64, count: u32, sgl: SglDescriptor) -> Command {
    let mut command = blocks(opcode, slba, count, sgl);
    let (fuse, cid) = match opcode {
        IoOpcode::COMPARE => (Fuse::First, 9),
        _ => (Fuse::Second, 10),
    };
    command.set_fuse(fuse);
    command.set_cid(cid);
    command
}

fn compare(slba: u64, count: u32) -> Command {
    half(IoOpcode::COMPARE, slba, count, keyed(count * 512))
}

fn write(slba: u64, count: u32) -> Command {
    half(IoOpcode::WRITE, slba, count, keyed(count * 512))
}

fn status(code: StatusCode) -> Status {
    code.with_dnr()
}

const TOKEN: AbortToken = AbortToken(4);

fn stopped(stopped: bool) -> Action {
    Action::Aborted { token: TOKEN, stopped }
}

const MISSING: StatusCode = StatusCode::ABORTED_MISSING_FUSED;
const FAILED: StatusCode = StatusCode::ABORTED_FAILED_FUSED;

impl Rig {
    /// A pair of one block at block 8 that waits for its claim.
    fn claiming() -> Rig {
        let mut rig = Rig::io();
        assert_eq!(rig.capsule(&compare(8, 1), 0), [release(1)]);
        let allocate = Action::Allocate { slot: S1, len: 4096 + 512 };
        assert_eq!(rig.capsule(&write(8, 1), 0), [release(2), allocate]);
        assert_eq!(rig.buffer(S1), [Action::Pull(S1)]);
        assert_eq!(rig.queue.pull_to(S1), 0);
        assert_eq!(rig.pulled(S1), [Action::Pull(S1)]);
        assert_eq!(rig.queue.pull_to(S1), 512);
        let backing = BackingRef(10);
        assert_eq!(rig.pulled(S1), [Action::Claim { slot: S1, backing, offset: 4096, len: 512 }]);
        rig
    }

    fn claimed(&mut self) -> Vec<Action> {
        self.event(|queue, out| queue.on_claimed(S1, out))
    }

    fn compared(&mut self, difference: Option<u32>) -> Vec<Action> {
        self.event(|queue, out| queue.on_compared(S1, difference, out))
    }

    fn abort(&mut self, cid: u16) -> Vec<Action> {
        self.event(|queue, out| queue.on_abort(cid, TOKEN, out))
    }

    fn io_failed(&mut self, code: StatusCode) -> Vec<Action> {
        let failed = ExecStatus::Failed(code.with_dnr());
        self.event(|queue, out| queue.on_io_done(S1, failed, out))
    }
}

/// Both completions of a pair, as the first to end on the queue.
fn both(first: Status, second: Status) -> [Action; 2] {
    [respond(S0, completion(9, first, 1), 0), respond(S1, completion(10, second, 2), 0)]
}

/// Both completions of a pair that lets go of its blocks.
fn let_go(first: Status, second: Status) -> [Action; 3] {
    let [a, b] = both(first, second);
    [Action::Unclaim(S1), a, b]
}

#[test]
fn a_pair_claims_reads_compares_and_writes() {
    let mut rig = Rig::claiming();
    assert_eq!(rig.claimed(), [io(S1, IoKind::Read, 4096, 512, AS_IT_IS)]);
    let compare = Action::Compare { slot: S1, a: Place::Buffer(512), b: AS_IT_IS, len: 512 };
    assert_eq!(rig.io_done(S1), [compare]);
    let write = IoKind::Write { fua: false };
    assert_eq!(rig.compared(None), [io(S1, write, 4096, 512, Place::Buffer(0))]);
    assert_eq!(rig.io_done(S1), let_go(OK, OK));
    rig.sent(S0);
    rig.sent(S1);
    assert!(rig.queue.is_drained());
}

#[test]
fn a_pair_that_differs_writes_nothing() {
    let mut rig = Rig::claiming();
    rig.claimed();
    rig.io_done(S1);
    let differs = let_go(status(StatusCode::COMPARE_FAILURE), status(FAILED));
    assert_eq!(rig.compared(Some(3)), differs);
}

#[test]
fn a_failed_read_ends_both_and_a_failed_write_its_own_half() {
    let mut rig = Rig::claiming();
    rig.claimed();
    let unread = StatusCode::UNRECOVERED_READ_ERROR;
    assert_eq!(rig.io_failed(unread), let_go(status(unread), status(FAILED)));
    let mut rig = Rig::claiming();
    rig.claimed();
    rig.io_done(S1);
    rig.compared(None);
    let fault = StatusCode::WRITE_FAULT;
    assert_eq!(rig.io_failed(fault), let_go(OK, status(fault)));
}

#[test]
fn the_data_of_both_may_come_in_their_capsules() {
    let mut rig = Rig::io();
    assert_eq!(rig.capsule(&half(IoOpcode::COMPARE, 0, 1, in_capsule(8, 512)), 520), []);
    let allocate = Action::Allocate { slot: S1, len: 4096 + 512 };
    assert_eq!(rig.capsule(&half(IoOpcode::WRITE, 0, 1, in_capsule(0, 512)), 512), [allocate]);
    let (len, backing) = (512, BackingRef(10));
    assert_eq!(
        rig.buffer(S1),
        [
            Action::Lift { slot: S1, of: S1, from: 0, len, to: 0 },
            release(2),
            Action::Lift { slot: S1, of: S0, from: 8, len, to: 512 },
            release(1),
            Action::Claim { slot: S1, backing, offset: 0, len: 512 },
        ]
    );
}

#[test]
fn force_unit_access_of_either_half_is_kept() {
    let mut rig = Rig::io();
    for command in [compare(8, 1), write(8, 1)] {
        let mut fua = with_flags(&command, BlockFlags::FORCE_UNIT_ACCESS);
        fua.set_fuse(command.fuse());
        rig.capsule(&fua, 0);
    }
    rig.buffer(S1);
    rig.pulled(S1);
    rig.pulled(S1);
    assert_eq!(rig.claimed(), [io(S1, IoKind::Flush, 0, 0, Place::Buffer(0))]);
    assert_eq!(rig.io_done(S1), [io(S1, IoKind::Read, 4096, 512, AS_IT_IS)]);
    rig.io_done(S1);
    let durable = IoKind::Write { fua: true };
    assert_eq!(rig.compared(None), [io(S1, durable, 4096, 512, Place::Buffer(0))]);
}

#[test]
fn a_first_command_without_its_second_is_missing_it() {
    let mut rig = Rig::io();
    rig.capsule(&compare(8, 1), 0);
    let mut read = blocks(IoOpcode::READ, 0, 1, keyed(512));
    read.set_cid(11);
    assert_eq!(
        rig.capsule(&read, 0),
        [
            respond(S0, completion(9, status(MISSING), 1), 0),
            release(2),
            Action::Allocate { slot: S1, len: 512 },
        ]
    );
}

#[test]
fn a_first_command_after_another_is_the_one_that_waits() {
    let mut rig = Rig::io();
    rig.capsule(&compare(8, 1), 0);
    let mut again = compare(16, 1);
    again.set_cid(11);
    let missing = respond(S0, completion(9, status(MISSING), 1), 0);
    assert_eq!(rig.capsule(&again, 0), [missing, release(2)]);
    let actions = rig.capsule(&write(16, 1), 0);
    assert_eq!(actions[1], Action::Allocate { slot: Slot(2), len: 4096 + 512 });
}

#[test]
fn a_second_command_without_its_first_is_missing_it() {
    let mut rig = Rig::io();
    assert_eq!(rig.refused(&write(8, 1), 0), status(MISSING));
}

#[test]
fn a_second_command_after_a_refused_first_fails_by_it() {
    let mut rig = Rig::io();
    let outside = rig.refused(&compare(1000, 1), 0);
    assert_eq!(outside, status(StatusCode::LBA_OUT_OF_RANGE));
    assert_eq!(rig.refused(&write(1000, 1), 0), status(FAILED));
    // Only the one next to it.
    assert_eq!(rig.refused(&write(1000, 1), 0), status(MISSING));
}

#[test]
fn a_first_command_fails_by_a_refused_second() {
    let mut rig = Rig::io();
    rig.capsule(&compare(8, 2), 0);
    let short = half(IoOpcode::WRITE, 8, 2, keyed(512));
    let refused = status(StatusCode::DATA_SGL_LENGTH_INVALID);
    let [first, second] = both(status(FAILED), refused);
    assert_eq!(rig.capsule(&short, 0), [first, release(2), second]);
}

#[test]
fn a_second_command_that_is_no_write_is_no_pair() {
    let mut rig = Rig::io();
    rig.capsule(&compare(8, 1), 0);
    let mut read = blocks(IoOpcode::READ, 8, 1, keyed(512));
    read.set_fuse(Fuse::Second);
    read.set_cid(10);
    let [first, second] = both(status(MISSING), status(StatusCode::INVALID_FIELD));
    assert_eq!(rig.capsule(&read, 0), [first, release(2), second]);
}

#[test]
fn halves_on_different_blocks_are_both_invalid() {
    let invalid = status(StatusCode::INVALID_FIELD);
    for other in [write(9, 1), write(8, 2)] {
        let mut rig = Rig::io();
        rig.capsule(&compare(8, 1), 0);
        let [first, second] = both(invalid, invalid);
        assert_eq!(rig.capsule(&other, 0), [first, release(2), second]);
    }
}

#[test]
fn a_pair_larger_than_the_atomic_unit_is_refused() {
    let mut rig = Rig::io();
    let most = fused_limit(MAX_TRANSFER) / 512;
    let exceeded = status(StatusCode::ATOMIC_WRITE_UNIT_EXCEEDED);
    assert_eq!(rig.refused(&compare(0, most + 1), 0), exceeded);
    assert_eq!(rig.refused(&write(0, most + 1), 0), status(FAILED));
    let mut rig = Rig::io();
    rig.capsule(&compare(0, most), 0);
    let Action::Allocate { len, .. } = rig.capsule(&write(0, most), 0)[1] else { panic!() };
    assert_eq!(len, 3 * MAX_TRANSFER / 2);
}

#[test]
fn a_pair_is_aborted_as_a_whole_until_it_has_its_buffer() {
    let aborted = StatusCode::ABORT_REQUESTED.retryable();
    let failed = FAILED.retryable();
    for (cid, wanted) in [(9, both(aborted, failed)), (10, both(failed, aborted))] {
        let mut rig = Rig::io();
        rig.capsule(&compare(8, 1), 0);
        rig.capsule(&write(8, 1), 0);
        let actions = rig.abort(cid);
        assert_eq!(actions[0], Action::Withdraw(S1));
        assert_eq!(actions[1..3], wanted);
        assert_eq!(actions[3..], [stopped(true)]);
    }
    let mut rig = Rig::claiming();
    assert_eq!(rig.abort(9), [stopped(false)]);
    assert_eq!(rig.abort(10), [stopped(false)]);
}

#[test]
fn a_pair_whose_data_is_on_its_way_is_aborted_when_it_has_come() {
    let mut rig = Rig::io();
    rig.capsule(&compare(8, 1), 0);
    rig.capsule(&write(8, 1), 0);
    rig.buffer(S1);
    assert_eq!(rig.abort(10), []);
    let [first, second] = both(FAILED.retryable(), StatusCode::ABORT_REQUESTED.retryable());
    assert_eq!(rig.pulled(S1), [first, second, stopped(true)]);
}

#[test]
fn a_first_command_that_is_aborted_while_it_waits_fails_its_second() {
    let mut rig = Rig::io();
    rig.capsule(&compare(8, 1), 0);
    let aborted = StatusCode::ABORT_REQUESTED.retryable();
    let ended = respond(S0, completion(9, aborted, 1), 0);
    assert_eq!(rig.abort(9), [ended, stopped(true)]);
    let refused = respond(S1, completion(10, FAILED.retryable(), 2), 0);
    assert_eq!(rig.capsule(&write(8, 1), 0), [release(2), refused]);
}

#[test]
fn a_queue_that_closes_lets_go_of_what_a_pair_claims() {
    // Not granted yet.
    let mut rig = Rig::claiming();
    assert_eq!(rig.event(Queue::begin_close), [Action::Unclaim(S1)]);
    assert!(rig.queue.is_drained());
    // With an operation under way: when that has ended.
    let mut rig = Rig::claiming();
    rig.claimed();
    assert_eq!(rig.event(Queue::begin_close), []);
    assert_eq!(rig.io_done(S1), [Action::Unclaim(S1)]);
    assert!(rig.queue.is_drained());
    // A first command alone.
    let mut rig = Rig::io();
    rig.capsule(&half(IoOpcode::COMPARE, 0, 1, in_capsule(0, 512)), 512);
    assert_eq!(rig.event(Queue::begin_close), [release(1)]);
    assert!(rig.queue.is_drained());
}

#[test]
fn a_namespace_that_goes_while_a_pair_waits_ends_both() {
    let mut rig = Rig::io();
    rig.capsule(&compare(8, 1), 0);
    rig.capsule(&write(8, 1), 0);
    rig.buffer(S1);
    rig.pulled(S1);
    let mut gone = (*view(2, MAX_TRANSFER)).clone();
    gone.namespaces.clear();
    rig.queue.on_publish(&Arc::new(gone));
    let invalid = status(StatusCode::INVALID_FIELD);
    assert_eq!(rig.pulled(S1), both(status(FAILED), invalid));
}

/// The view in which namespace 1 is another thing than it was.
fn changed(change: impl FnOnce(&NamespaceView) -> NamespaceView) -> Arc<SubsystemView> {
    let mut changed = (*view(2, MAX_TRANSFER)).clone();
    changed.namespaces[0] = Arc::new(change(&changed.namespaces[0]));
    Arc::new(changed)
}

fn same(found: &NamespaceView) -> NamespaceView {
    NamespaceView { counters: found.counters.clone(), limit: None, ..*found }
}

#[test]
fn nothing_is_written_once_the_namespace_is_read_only() {
    let mut rig = Rig::claiming();
    rig.claimed();
    rig.io_done(S1);
    rig.queue.on_publish(&changed(|found| NamespaceView { read_only: true, ..same(found) }));
    let refused = status(StatusCode::NAMESPACE_WRITE_PROTECTED);
    assert_eq!(rig.compared(None), let_go(OK, refused));
}

#[test]
fn a_namespace_that_is_replaced_while_a_pair_waits_for_its_claim_is_claimed_anew() {
    let mut rig = Rig::claiming();
    let backing = BackingRef(11);
    rig.queue.on_publish(&changed(|found| NamespaceView { backing, ..same(found) }));
    let anew = Action::Claim { slot: S1, backing, offset: 4096, len: 512 };
    assert_eq!(rig.claimed(), [Action::Unclaim(S1), anew]);
}

#[test]
fn a_pair_whose_namespace_is_replaced_while_it_has_its_blocks_writes_nothing() {
    let mut rig = Rig::claiming();
    rig.claimed();
    rig.io_done(S1);
    let backing = BackingRef(11);
    rig.queue.on_publish(&changed(|found| NamespaceView { backing, ..same(found) }));
    let invalid = status(StatusCode::INVALID_NAMESPACE_OR_FORMAT);
    assert_eq!(rig.compared(None), let_go(OK, invalid));
}

#[test]
fn a_pair_writes_through_when_the_write_cache_is_off() {
    let mut rig = Rig::claiming();
    rig.queue.binding().unwrap().settings.set_write_through(true);
    rig.claimed();
    rig.io_done(S1);
    let write = IoKind::Write { fua: true };
    assert_eq!(rig.compared(None), [io(S1, write, 4096, 512, Place::Buffer(0))]);
}
