//! Verify and Copy: commands that go through their blocks in portions.

use super::*;
use nvme_spec_types::nvm::{Copy, CopyRange};

/// Bytes of the buffer that such a command takes here.
const BUFFER: u32 = 128 << 10;
/// Where a Copy has its portions.
const PORTION: Place = Place::Buffer(4096);

fn verify(slba: u64, count: u32) -> Command {
    blocks(IoOpcode::VERIFY, slba, count, SglDescriptor::NO_DATA)
}

fn copy(sdlba: u64, ranges: u16, format: u8, sgl: SglDescriptor) -> Command {
    Copy {
        sdlba,
        nr: ZeroBased::<u8>::from_count(ranges).unwrap(),
        format,
        prinfo_read: 0,
        flags: BlockFlags::empty(),
    }
    .to_command(9, 1, sgl)
}

fn range(snsid: u32, slba: u64, nlb: u32) -> CopyRange {
    CopyRange { snsid, slba, nlb: ZeroBased::<u16>::from_raw((nlb - 1) as u16), sopt: 0 }
}

fn list(format: u8, ranges: &[CopyRange]) -> Vec<u8> {
    let mut bytes = vec![0; ranges.len() * 32];
    for (range, bytes) in ranges.iter().zip(bytes.chunks_mut(32)) {
        range.encode(format, bytes).unwrap();
    }
    bytes
}

impl Rig {
    fn payload(&mut self, bytes: &[u8]) -> Vec<Action> {
        self.event(|queue, out| queue.on_payload(S0, bytes, out))
    }

    /// Delivers a Copy of `ranges` in the capsule, up to the look at them; returns what follows.
    fn copy(&mut self, sdlba: u64, format: u8, ranges: &[CopyRange]) -> Vec<Action> {
        let len = ranges.len() as u32 * 32;
        let command = copy(sdlba, ranges.len() as u16, format, in_capsule(0, len));
        let actions = self.capsule(&command, len);
        assert_eq!(actions, [Action::Allocate { slot: S0, len: BUFFER }]);
        let recv = self.recvs;
        let place = Place::Buffer(0);
        assert_eq!(
            self.buffer(S0),
            [
                Action::Lift { slot: S0, of: S0, from: 0, len, to: 0 },
                release(recv),
                Action::Peek { slot: S0, place, len },
            ]
        );
        self.payload(&list(format, ranges))
    }

    /// The status with which such a Copy is refused once its ranges are seen.
    fn copy_refused(&mut self, sdlba: u64, format: u8, ranges: &[CopyRange]) -> StatusCode {
        match self.copy(sdlba, format, ranges)[..] {
            [Action::Respond { completion, push: 0, .. }] => {
                assert!(completion.status.dnr);
                assert_eq!(completion.dw0, 0, "nothing was copied");
                completion.status.code
            }
            ref other => panic!("not a refusal: {other:?}"),
        }
    }
}

#[test]
fn a_verify_reads_the_medium_in_portions_and_sends_nothing() {
    let mut rig = Rig::io();
    assert_eq!(
        rig.capsule(&verify(10, 600), 0),
        [release(1), Action::Allocate { slot: S0, len: BUFFER }]
    );
    let read = |offset, len| [io(S0, IoKind::Read, offset, len, Place::Buffer(0))];
    assert_eq!(rig.buffer(S0), read(5120, 131_072));
    assert_eq!(rig.io_done(S0), read(5120 + 131_072, 131_072));
    assert_eq!(rig.io_done(S0), read(5120 + 262_144, 600 * 512 - 262_144));
    assert_eq!(rig.io_done(S0), [respond(S0, completion(9, OK, 1), 0)]);
}

#[test]
fn a_verify_of_the_medium_flushes_first() {
    let mut rig = Rig::io();
    rig.capsule(&with_flags(&verify(0, 1), BlockFlags::FORCE_UNIT_ACCESS), 0);
    assert_eq!(rig.buffer(S0), [io(S0, IoKind::Flush, 0, 0, Place::Buffer(0))]);
    assert_eq!(rig.io_done(S0), [io(S0, IoKind::Read, 0, 512, Place::Buffer(0))]);
}

#[test]
fn a_block_that_cannot_be_read_fails_its_verify() {
    let mut rig = Rig::io();
    rig.capsule(&verify(0, 600), 0);
    rig.buffer(S0);
    rig.io_done(S0);
    let status = StatusCode::UNRECOVERED_READ_ERROR.with_dnr();
    let actions = rig.event(|queue, out| queue.on_io_done(S0, ExecStatus::Failed(status), out));
    assert_eq!(actions, [respond(S0, completion(9, status, 1), 0)]);
}

#[test]
fn a_verify_stays_inside_its_namespace() {
    let mut rig = Rig::io();
    for (slba, count) in [(1000, 1), (999, 2), (u64::MAX, 2)] {
        assert_eq!(rig.refused(&verify(slba, count), 0), StatusCode::LBA_OUT_OF_RANGE.with_dnr());
    }
    let elsewhere = blocks_on(2, IoOpcode::VERIFY, 0, 1, SglDescriptor::NO_DATA);
    let refused = StatusCode::INVALID_FIELD.with_dnr();
    assert_eq!(rig.refused(&elsewhere, 0), refused);
}

#[test]
fn a_verify_sees_a_namespace_that_shrank_meanwhile() {
    let mut rig = Rig::io();
    rig.capsule(&verify(0, 1000), 0);
    rig.buffer(S0);
    let mut small = (*view(2, MAX_TRANSFER)).clone();
    small.namespaces.clear();
    rig.queue.on_publish(&Arc::new(small));
    let gone = StatusCode::INVALID_FIELD.with_dnr();
    assert_eq!(rig.io_done(S0), [respond(S0, completion(9, gone, 1), 0)]);
}

#[test]
fn a_copy_reads_and_writes_range_after_range() {
    let mut rig = Rig::io();
    let write = IoKind::Write { fua: false };
    let first = rig.copy(500, 0, &[range(0, 0, 300), range(0, 400, 2)]);
    let portion = 126_976; // a buffer less the page of the list
    assert_eq!(first, [io(S0, IoKind::Read, 0, portion, PORTION)]);
    let at = 500 * 512;
    assert_eq!(rig.io_done(S0), [io(S0, write, at, portion, PORTION)]);
    let rest = 300 * 512 - portion;
    assert_eq!(rig.io_done(S0), [io(S0, IoKind::Read, portion, rest, PORTION)]);
    assert_eq!(rig.io_done(S0), [io(S0, write, at + portion, rest, PORTION)]);
    let peek = Action::Peek { slot: S0, place: Place::Buffer(32), len: 32 };
    assert_eq!(rig.io_done(S0), [peek]);
    let second = rig.payload(&list(0, &[range(0, 400, 2)]));
    assert_eq!(second, [io(S0, IoKind::Read, 400 * 512, 1024, PORTION)]);
    assert_eq!(rig.io_done(S0), [io(S0, write, 800 * 512, 1024, PORTION)]);
    assert_eq!(rig.io_done(S0), [respond(S0, completion(9, OK, 1), 0)]);
    let totals =
        rig.queue.binding().unwrap().view.as_ref().unwrap().namespaces[0].counters[0].totals();
    assert_eq!((totals.read_bytes, totals.write_bytes), (302 * 512, 302 * 512));
    assert_eq!((totals.read_commands, totals.write_commands), (0, 0));
}

#[test]
fn the_list_of_a_copy_is_pulled_from_the_host() {
    let mut rig = Rig::io();
    let command = copy(500, 128, 0, keyed(4096));
    assert_eq!(rig.capsule(&command, 0), [release(1), Action::Allocate { slot: S0, len: BUFFER }]);
    assert_eq!(rig.buffer(S0), [Action::Pull(S0)]);
    let place = Place::Buffer(0);
    assert_eq!(rig.pulled(S0), [Action::Peek { slot: S0, place, len: 4096 }]);
}

#[test]
fn a_durable_copy_writes_durably() {
    let mut rig = Rig::io();
    let bytes = list(0, &[range(0, 0, 1)]);
    let command = copy(500, 1, 0, in_capsule(0, 32));
    let mut wanted = Copy::from_command(&command);
    wanted.flags = BlockFlags::FORCE_UNIT_ACCESS;
    rig.capsule(&wanted.to_command(9, 1, command.sgl1()), 32);
    rig.buffer(S0);
    rig.payload(&bytes);
    assert_eq!(rig.io_done(S0), [io(S0, IoKind::Write { fua: true }, 256_000, 512, PORTION)]);
}

#[test]
fn a_copy_that_fails_names_the_range_it_came_to() {
    let mut rig = Rig::io();
    rig.copy(500, 0, &[range(0, 0, 1), range(0, 1, 1), range(0, 2, 1)]);
    rig.io_done(S0);
    rig.io_done(S0);
    rig.payload(&list(0, &[range(0, 1, 1)]));
    let status = StatusCode::UNRECOVERED_READ_ERROR.with_dnr();
    let actions = rig.event(|queue, out| queue.on_io_done(S0, ExecStatus::Failed(status), out));
    let failed = Completion { dw0: 1, ..completion(9, status, 1) };
    assert_eq!(actions, [respond(S0, failed, 0)]);
}

#[test]
fn a_copy_reads_no_more_of_a_source_that_shrank_or_went() {
    let halves = |change: &dyn Fn(&mut SubsystemView)| {
        let mut rig = Rig::io();
        rig.copy(500, 0, &[range(0, 0, 300)]);
        rig.io_done(S0);
        let mut changed = (*view(2, MAX_TRANSFER)).clone();
        change(&mut changed);
        rig.queue.on_publish(&Arc::new(changed));
        let actions = rig.io_done(S0);
        let [Action::Respond { completion, .. }] = actions[..] else { panic!("{actions:?}") };
        completion.status.code
    };
    let other = |block_count, backing| {
        move |view: &mut SubsystemView| {
            let found = &mut view.namespaces[0];
            let counters = found.counters.clone();
            let backing = BackingRef(backing);
            let limit = None;
            *found = Arc::new(NamespaceView { block_count, backing, counters, limit, ..**found });
        }
    };
    assert_eq!(halves(&other(299, 10)), StatusCode::LBA_OUT_OF_RANGE);
    assert_eq!(halves(&other(BLOCKS, 11)), StatusCode::INVALID_NAMESPACE_OR_FORMAT);
    let inactive = |view: &mut SubsystemView| drop(view.namespaces.remove(0));
    assert_eq!(halves(&inactive), StatusCode::INVALID_FIELD);
}

impl Rig {
    fn abort_midway(&mut self) -> Vec<Action> {
        self.event(|queue, out| queue.on_abort(9, AbortToken(1), out))
    }
}

/// An Abort that stopped its command, or did not.
fn aborted(stopped: bool) -> Action {
    Action::Aborted { token: AbortToken(1), stopped }
}

#[test]
fn a_verify_under_way_stops_before_its_next_portion() {
    let mut rig = Rig::io();
    rig.capsule(&verify(0, 600), 0);
    rig.buffer(S0);
    assert_eq!(rig.abort_midway(), []);
    let stopped = completion(9, StatusCode::ABORT_REQUESTED.retryable(), 1);
    assert_eq!(rig.io_done(S0), [respond(S0, stopped, 0), aborted(true)]);
    assert_eq!(rig.reports, []);
}

#[test]
fn a_copy_under_way_stops_between_two_portions_and_says_how_far_it_came() {
    // After the write of the first portion, and after that of the first range.
    for (ranges, range) in [(&[range(0, 0, 300)][..], 0), (&[range(0, 0, 2), range(0, 9, 2)], 1)] {
        let mut rig = Rig::io();
        rig.copy(500, 0, ranges);
        assert_eq!(rig.abort_midway(), []);
        let second = rig.event(|queue, out| queue.on_abort(9, AbortToken(2), out));
        assert_eq!(second, [Action::Aborted { token: AbortToken(2), stopped: false }]);
        assert!(matches!(rig.io_done(S0)[..], [Action::Io { .. }]), "what was read is written");
        let status = StatusCode::ABORT_REQUESTED.retryable();
        let stopped = Completion { dw0: range, ..completion(9, status, 1) };
        assert_eq!(rig.io_done(S0), [respond(S0, stopped, 0), aborted(true)]);
    }
}

#[test]
fn what_ends_with_its_last_portion_or_fails_was_not_stopped() {
    let mut rig = Rig::io();
    rig.capsule(&verify(0, 10), 0);
    rig.buffer(S0);
    assert_eq!(rig.abort_midway(), []);
    assert_eq!(rig.io_done(S0), [respond(S0, completion(9, OK, 1), 0), aborted(false)]);
    let mut rig = Rig::io();
    rig.copy(500, 0, &[range(0, 0, 2)]);
    rig.io_done(S0);
    assert_eq!(rig.abort_midway(), []);
    assert_eq!(rig.io_done(S0), [respond(S0, completion(9, OK, 1), 0), aborted(false)]);
    let mut rig = Rig::io();
    rig.copy(500, 0, &[range(0, 0, 300)]);
    assert_eq!(rig.abort_midway(), []);
    let status = StatusCode::UNRECOVERED_READ_ERROR.with_dnr();
    let actions = rig.event(|queue, out| queue.on_io_done(S0, ExecStatus::Failed(status), out));
    assert_eq!(actions, [respond(S0, completion(9, status, 1), 0), aborted(false)]);
}

#[test]
fn an_abort_that_waits_for_a_portion_has_no_answer_when_the_queue_closes() {
    let mut rig = Rig::io();
    rig.capsule(&verify(0, 600), 0);
    rig.buffer(S0);
    assert_eq!(rig.abort_midway(), []);
    assert_eq!(rig.event(Queue::begin_close), []);
    assert_eq!(rig.io_done(S0), []);
    assert!(rig.queue.is_drained());
}

#[test]
fn copies_outside_the_namespace_are_refused_before_they_begin() {
    for (sdlba, ranges) in [
        (500, &[range(0, 0, 1), range(0, 999, 2)][..]),
        (500, &[range(0, 1000, 1)]),
        (500, &[range(0, u64::MAX, 1)]),
        (999, &[range(0, 0, 2)]),
        (u64::MAX, &[range(0, 0, 2)]),
    ] {
        let status = Rig::io().copy_refused(sdlba, 0, ranges);
        assert_eq!(status, StatusCode::LBA_OUT_OF_RANGE);
    }
}

#[test]
fn a_copy_measured_in_smaller_blocks_does_not_go_on_in_larger_ones() {
    // Blocks of 4096 bytes while the first portion is read, and between two ranges.
    for (ranges, done) in [(&[range(0, 0, 7)][..], 0), (&[range(0, 0, 7), range(0, 20, 7)], 1)] {
        let mut rig = Rig::io();
        rig.copy(500, 0, ranges);
        for _ in 0..done {
            rig.io_done(S0);
        }
        let mut changed = (*view(2, MAX_TRANSFER)).clone();
        let found = &mut changed.namespaces[0];
        let counters = found.counters.clone();
        *found = Arc::new(NamespaceView { lba_shift: 12, counters, limit: None, ..**found });
        rig.queue.on_publish(&Arc::new(changed));
        let mut actions = rig.io_done(S0);
        if let [Action::Peek { .. }] = actions[..] {
            actions = rig.payload(&list(0, &ranges[1..]));
        }
        let [Action::Respond { completion, .. }] = actions[..] else { panic!("{actions:?}") };
        assert_eq!(completion.status.code, StatusCode::INVALID_NAMESPACE_OR_FORMAT);
    }
}

#[test]
fn a_copy_onto_its_own_source_is_refused() {
    for (sdlba, ranges) in [
        (0, &[range(0, 0, 1)][..]),
        (9, &[range(0, 0, 10)]),
        (0, &[range(0, 9, 10)]),
        (10, &[range(0, 0, 10), range(0, 29, 10)]),
    ] {
        let status = Rig::io().copy_refused(sdlba, 0, ranges);
        assert_eq!(status, StatusCode::OVERLAPPING_IO_RANGE);
    }
    // Side by side is apart.
    assert!(matches!(Rig::io().copy(10, 0, &[range(0, 0, 10)])[..], [Action::Io { .. }]));
    assert!(matches!(Rig::io().copy(0, 0, &[range(0, 10, 10)])[..], [Action::Io { .. }]));
}

#[test]
fn the_limits_of_a_copy_are_those_of_identify() {
    let mut rig = Rig::io();
    let too_many = copy(0, 129, 0, keyed(129 * 32));
    let limit = StatusCode::COMMAND_SIZE_LIMIT_EXCEEDED;
    assert_eq!(rig.refused(&too_many, 0), limit.with_dnr());
    assert_eq!(Rig::io().copy_refused(500, 0, &[range(0, 0, 4097)]), limit);
    // The namespace here has fewer blocks than a command may copy: source blocks may repeat.
    let repeated = [range(0, 0, 1000); 33];
    assert_eq!(Rig::io().copy_refused(500, 0, &repeated), limit);
}

#[test]
fn formats_that_are_not_offered_are_refused() {
    for format in [1, 3, 4, 15] {
        let command = copy(500, 1, format, keyed(4096));
        assert_eq!(Rig::io().refused(&command, 0), StatusCode::INVALID_FIELD.with_dnr());
    }
}

#[test]
fn format_2_is_refused_until_the_host_enables_it() {
    let mut rig = Rig::io();
    let settings = rig.queue.binding().unwrap().settings.clone();
    settings.enable_copy_formats(0);
    let command = copy(500, 1, 2, keyed(32));
    assert_eq!(rig.refused(&command, 0), StatusCode::INVALID_FIELD.with_dnr());
    settings.enable_copy_formats(1 << 2);
    assert!(matches!(rig.capsule(&command, 0)[..], [_, Action::Allocate { .. }]));
}

#[test]
fn a_source_of_format_2_is_where_its_range_says() {
    let mut rig = Rig::io();
    let actions = rig.copy(500, 2, &[range(1, 0, 1)]);
    assert_eq!(actions, [io(S0, IoKind::Read, 0, 512, PORTION)]);
    let missing = Rig::io().copy_refused(500, 2, &[range(2, 0, 1)]);
    assert_eq!(missing, StatusCode::INVALID_FIELD);
    let other_blocks = Rig::io().copy_refused(500, 2, &[range(5, 0, 1)]);
    assert_eq!(other_blocks, StatusCode::INCOMPATIBLE_NAMESPACE_OR_FORMAT);
    let fast = CopyRange { sopt: 1 << 15, ..range(1, 0, 1) };
    assert_eq!(Rig::io().copy_refused(500, 2, &[fast]), StatusCode::FAST_COPY_NOT_POSSIBLE);
}

#[test]
fn a_copy_is_charged_where_it_reads_and_where_it_writes() {
    let mut rig = Rig::io();
    let mut limited = (*limited_view(2)).clone();
    let counters = IoCounters::for_cores(1);
    let (nsid, backing, limit) = (6, BackingRef(60), None);
    let another = NamespaceView { nsid, backing, limit, counters, ..*limited.namespaces[0] };
    limited.namespaces.push(Arc::new(another));
    rig.queue.on_publish(&Arc::new(limited));
    let ranges = [range(6, 0, 4), range(1, 0, 2)];
    rig.capsule(&copy(500, 2, 2, in_capsule(0, 64)), 64);
    rig.event(|queue, out| queue.on_turn(S0, out));
    rig.buffer(S0);
    let actions = rig.payload(&list(2, &ranges));
    let charge = |nsid, blocks: u64| Action::Charge { slot: S0, nsid, bytes: blocks * 512 };
    assert_eq!(actions[..3], [charge(6, 4), charge(1, 2), charge(1, 6)]);
    assert!(rig.queue.limits_on(1)[1].is_some() && rig.queue.limits_on(6)[1].is_none());
}

#[test]
fn a_read_only_namespace_is_no_destination() {
    let mut command = copy(500, 1, 0, keyed(32));
    command.set_nsid(5);
    let protected = StatusCode::NAMESPACE_WRITE_PROTECTED.with_dnr();
    assert_eq!(Rig::io().refused(&command, 0), protected);
}

#[test]
fn the_list_of_a_copy_must_be_described_in_full() {
    let short = copy(500, 2, 0, keyed(63));
    assert_eq!(Rig::io().refused(&short, 0), StatusCode::DATA_SGL_LENGTH_INVALID.with_dnr());
}
