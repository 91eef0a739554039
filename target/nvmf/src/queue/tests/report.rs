//! Failures that the error log is told of.

use super::*;
use nvme_spec_types::log::ParameterLocation;
use nvme_spec_types::nvm::{Copy, CopyRange};

/// What was reported of a command that is refused.
fn reported(qid: u16, command: &Command, data: u32) -> (StatusCode, Option<(u8, u8)>) {
    let mut rig = Rig::bound(qid);
    rig.refused(command, data);
    let [Action::Report { slot: S0, status, location, missed: 0 }] = rig.reports[..] else {
        panic!("{:?}", rig.reports);
    };
    assert!(status.more && status.dnr);
    (status.code, location.get())
}

fn with_flags_byte(command: &Command, flags: u8) -> Command {
    let mut bytes = *command.as_bytes();
    bytes[1] = flags;
    Command::from_bytes(bytes)
}

#[test]
fn a_report_names_the_field_at_fault() {
    let read = blocks(IoOpcode::READ, 0, 1, keyed(512));
    let at = |byte| Some((byte, 0));
    for (command, code, place) in [
        (blocks(IoOpcode(0xc1), 0, 1, keyed(512)), StatusCode::INVALID_OPCODE, at(0)),
        (with_flags_byte(&read, 0), StatusCode::INVALID_FIELD, Some((1, 6))),
        (blocks_on(9, IoOpcode::READ, 0, 1, keyed(512)), StatusCode::INVALID_FIELD, at(4)),
        (
            blocks_on(1025, IoOpcode::READ, 0, 1, keyed(512)),
            StatusCode::INVALID_NAMESPACE_OR_FORMAT,
            at(4),
        ),
        (
            blocks_on(5, IoOpcode::WRITE, 0, 1, keyed(4096)),
            StatusCode::NAMESPACE_WRITE_PROTECTED,
            at(4),
        ),
        (blocks(IoOpcode::READ, BLOCKS, 1, keyed(512)), StatusCode::LBA_OUT_OF_RANGE, at(40)),
        (blocks(IoOpcode::READ, 0, 129, keyed(66048)), StatusCode::INVALID_FIELD, at(48)),
        (blocks(IoOpcode::READ, 0, 1, keyed(511)), StatusCode::DATA_SGL_LENGTH_INVALID, at(24)),
        (blocks(IoOpcode::READ, 0, 1, in_capsule(0, 512)), StatusCode::INVALID_FIELD, at(39)),
    ] {
        assert_eq!(reported(1, &command, 512), (code, place), "{command:?}");
    }
    let segment = SglDescriptor::Segment { offset: 0, len: 16 };
    let command = Command::admin(AdminOpcode::IDENTIFY, 9, 0, segment);
    let code = StatusCode::SGL_DESCRIPTOR_TYPE_INVALID;
    assert_eq!(reported(0, &command, 0), (code, at(39)));
    // Opcode 02h of an admin queue names no blocks.
    let command = with_flags_byte(&Command::admin(AdminOpcode::GET_LOG_PAGE, 9, 0, keyed(4)), 0x41);
    assert_eq!(reported(0, &command, 0), (StatusCode::INVALID_FIELD, at(1)));
}

#[test]
fn a_report_of_a_copy_names_what_is_wrong_in_the_command_and_nothing_of_its_list() {
    let copy = |sdlba, ranges, format| {
        Copy {
            sdlba,
            nr: ZeroBased::<u8>::from_count(ranges).unwrap(),
            format,
            prinfo_read: 0,
            flags: BlockFlags::empty(),
        }
        .to_command(9, 1, in_capsule(0, u32::from(ranges) * 32))
    };
    let limit = StatusCode::COMMAND_SIZE_LIMIT_EXCEEDED;
    assert_eq!(reported(1, &copy(0, 1, 3), 32), (StatusCode::INVALID_FIELD, Some((49, 0))));
    assert_eq!(reported(1, &copy(0, 129, 0), 129 * 32), (limit, Some((48, 0))));
    let out_of_range = StatusCode::LBA_OUT_OF_RANGE;
    for (sdlba, source, code, place) in [
        (BLOCKS, (1, 0), out_of_range, Some((40, 0))),
        (0, (1, BLOCKS), out_of_range, None),
        (0, (2, 0), StatusCode::INVALID_FIELD, None),
        (0, (5, 0), StatusCode::INCOMPATIBLE_NAMESPACE_OR_FORMAT, None),
    ] {
        let mut rig = Rig::io();
        rig.capsule(&copy(sdlba, 1, 2), 32);
        rig.buffer(S0);
        let mut list = [0; 32];
        let (snsid, slba) = source;
        CopyRange { snsid, slba, nlb: ZeroBased::<u16>::from_raw(0), sopt: 0 }.encode(2, &mut list);
        rig.event(|queue, out| queue.on_payload(S0, &list, out));
        let [Action::Report { status, location, .. }] = rig.reports[..] else {
            panic!("{:?}", rig.reports);
        };
        assert_eq!((status.code, location.get()), (code, place), "{source:?} to {sdlba}");
    }
}

#[test]
fn an_operation_that_fails_is_reported_when_it_ends() {
    let mut rig = Rig::io();
    rig.capsule(&blocks(IoOpcode::READ, 0, 1, keyed(512)), 0);
    rig.buffer(S0);
    let failed = ExecStatus::Failed(StatusCode::UNRECOVERED_READ_ERROR.with_dnr());
    rig.event(|queue, out| queue.on_io_done(S0, failed, out));
    let status = Status { more: true, ..StatusCode::UNRECOVERED_READ_ERROR.with_dnr() };
    let location = ParameterLocation::NONE;
    assert_eq!(rig.reports, [Action::Report { slot: S0, status, location, missed: 0 }]);
}

#[test]
fn a_difference_and_an_abort_are_no_failures() {
    let mut rig = Rig::io();
    rig.capsule(&blocks(IoOpcode::COMPARE, 0, 1, in_capsule(0, 512)), 512);
    rig.buffer(S0);
    rig.io_done(S0);
    rig.event(|queue, out| queue.on_compared(S0, Some(3), out));
    rig.sent(S0);
    rig.capsule(&blocks(IoOpcode::READ, 0, 1, keyed(512)), 0);
    let token = AbortToken(1);
    let stopped = rig.event(|queue, out| queue.on_abort(9, token, out));
    assert!(stopped.contains(&Action::Aborted { token, stopped: true }));
    assert_eq!(rig.reports, []);
}

#[test]
fn before_connect_there_is_no_log_to_report_to() {
    let mut rig = Rig::unbound(1);
    rig.refused(&blocks(IoOpcode::READ, 0, 1, keyed(512)), 0);
    assert_eq!(rig.reports, []);
}

#[test]
fn failures_beyond_eight_reports_are_counted_and_told_with_the_next() {
    let mut rig = Rig::io();
    let bad = blocks(IoOpcode(0xc1), 0, 1, keyed(512));
    for _ in 0..11 {
        rig.refused(&bad, 0);
    }
    assert_eq!(rig.reports.len(), 8);
    rig.queue.on_reported();
    rig.refused(&bad, 0);
    rig.refused(&bad, 0);
    assert_eq!(rig.reports.len(), 9);
    assert!(matches!(rig.reports[8], Action::Report { missed: 3, .. }));
    rig.queue.on_reported();
    rig.refused(&bad, 0);
    assert!(matches!(rig.reports[9], Action::Report { missed: 1, .. }));
}
