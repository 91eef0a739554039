//! Verify and Copy.

use conformance::{Daemon, Session, assert_code};
use initiator::commands;
use nvme_spec_types::{Completion, StatusCode};

/// A session with a controller that offers what bit `oncs` of ONCS stands for; `None` without.
fn session(daemon: &Daemon, oncs: u8) -> Option<Session> {
    let mut session = Session::new(daemon);
    let identity = session.identify(1, 0);
    let offered = u16::from_le_bytes([identity[520], identity[521]]);
    (offered & 1 << oncs != 0).then_some(session)
}

fn with_verify(test: impl FnOnce(&mut Session)) {
    let daemon = Daemon::start();
    if let Some(mut session) = session(&daemon, 7) {
        test(&mut session);
    }
}

fn with_copy(test: impl FnOnce(&mut Session)) {
    let daemon = Daemon::start();
    if let Some(mut session) = session(&daemon, 8) {
        test(&mut session);
    }
}

fn copy(s: &mut Session, sdlba: u64, ranges: &[(u64, u32)]) -> Completion {
    let list = commands::copy_ranges(None, ranges);
    let buffer = s.buffer(list.len() as u32, 0);
    s.client.write(buffer, &list);
    let completion = s.io(commands::copy(1, sdlba, ranges.len() as u32, 0, false), buffer);
    s.client.take_back(s.io, buffer);
    completion
}

#[test]
fn verify_takes_blocks_up_to_the_last_and_moves_no_data() {
    with_verify(|s| {
        let most = 65536.min(s.blocks as u32);
        for command in [
            commands::verify(1, 0, 1, false),
            commands::verify(1, 0, most, true),
            commands::verify(1, s.blocks - 1, 1, false),
        ] {
            let completion = s.client.call(s.io, command);
            assert!(completion.status.is_success(), "{completion:?}");
        }
        for command in
            [commands::verify(1, s.blocks - 1, 2, false), commands::verify(1, u64::MAX, 1, false)]
        {
            assert_code(&s.client.call(s.io, command), StatusCode::LBA_OUT_OF_RANGE);
        }
        let elsewhere = s.client.call(s.io, commands::verify(99, 0, 1, false));
        assert_code(&elsewhere, StatusCode::INVALID_NAMESPACE_OR_FORMAT);
    });
}

#[test]
fn copies_gather_their_ranges_in_order() {
    with_copy(|s| {
        s.fill_blocks(0, 64, 0);
        s.fill_blocks(0, 4, 0xa1);
        s.fill_blocks(9, 1, 0xa2);
        let completion = copy(s, 32, &[(9, 1), (0, 4), (9, 1)]);
        assert!(completion.status.is_success(), "{completion:?}");
        let lba = s.block_len as usize;
        let firsts: Vec<u8> = s.read_blocks(30, 10).chunks(lba).map(|block| block[0]).collect();
        assert_eq!(firsts, [0, 0, 0xa2, 0xa1, 0xa1, 0xa1, 0xa1, 0xa2, 0, 0]);
    });
}

#[test]
fn copies_that_cannot_be_made_change_nothing() {
    with_copy(|s| {
        s.fill_blocks(0, 16, 0x33);
        let last = s.blocks - 1;
        for (sdlba, ranges, code) in [
            (0, &[(8, 1), (last, 2)][..], StatusCode::LBA_OUT_OF_RANGE),
            (last, &[(0, 2)], StatusCode::LBA_OUT_OF_RANGE),
            (u64::MAX, &[(0, 1)], StatusCode::LBA_OUT_OF_RANGE),
            (4, &[(0, 5)], StatusCode::OVERLAPPING_IO_RANGE),
        ] {
            let completion = copy(s, sdlba, ranges);
            assert_code(&completion, code);
            assert_eq!(completion.dw0, 0, "no range was copied");
        }
        assert_eq!(s.read_blocks(0, 16), vec![0x33; 16 * s.block_len as usize]);
    });
}

#[test]
fn the_limits_of_identify_namespace_bound_a_copy() {
    with_copy(|s| {
        let ns = s.identify(0, 1);
        let mssrl = u32::from(u16::from_le_bytes([ns[74], ns[75]]));
        let msrc = usize::from(ns[80]) + 1;
        assert!(mssrl > 0);
        let far = s.blocks / 2;
        let completion = copy(s, far, &vec![(0, 1); msrc]);
        assert!(completion.status.is_success(), "{completion:?}");
        let limit = StatusCode::COMMAND_SIZE_LIMIT_EXCEEDED;
        if msrc < 256 {
            assert_code(&copy(s, far, &vec![(0, 1); msrc + 1]), limit);
        }
        if u64::from(mssrl) < far && mssrl < 65535 {
            assert_code(&copy(s, far, &[(0, mssrl + 1)]), limit);
        }
    });
}

#[test]
fn formats_that_identify_does_not_list_are_refused() {
    with_copy(|s| {
        let identity = s.identify(1, 0);
        let formats = u16::from_le_bytes([identity[534], identity[535]]);
        let buffer = s.buffer(40, 0);
        for format in (0..16u8).filter(|&format| formats & 1 << format == 0) {
            let completion = s.io(commands::copy(1, 16, 1, format, false), buffer);
            assert_code(&completion, StatusCode::INVALID_FIELD);
        }
    });
}
