//! Verify and Copy, where a target offers them.

use super::{Case, cases, with_session};
use crate::{Place, Session, assert_code};
use initiator::commands;
use nvme_spec_types::{Completion, StatusCode};

pub(super) const CASES: &[Case] = cases![
    verify_takes_blocks_up_to_the_last_and_moves_no_data,
    copies_gather_their_ranges_in_order,
    copies_that_cannot_be_made_change_nothing,
    the_limits_of_identify_namespace_bound_a_copy,
    formats_that_identify_does_not_list_are_refused,
];

/// The bits of ONCS.
const VERIFY: u16 = 1 << 7;
const COPY: u16 = 1 << 8;

/// A case of one session with a usual target, where its ONCS has all of these bits.
fn where_offered(place: &dyn Place, bits: u16, case: impl FnOnce(&mut Session)) {
    with_session(place, |s| {
        let identity = s.identify(1, 0);
        if u16::from_le_bytes([identity[520], identity[521]]) & bits == bits {
            case(s);
        }
    });
}

fn copy(s: &mut Session, sdlba: u64, ranges: &[(u64, u32)]) -> Completion {
    let list = commands::copy_ranges(None, ranges);
    let buffer = s.buffer(list.len() as u32, 0);
    s.client.write(buffer, &list);
    let completion = s.io(commands::copy(1, sdlba, ranges.len() as u32, 0, false), buffer);
    s.client.take_back(s.io, buffer);
    completion
}

fn verify_takes_blocks_up_to_the_last_and_moves_no_data(place: &dyn Place) {
    where_offered(place, VERIFY, |s| {
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
        assert_code(&elsewhere, StatusCode::INVALID_FIELD);
    });
}

fn copies_gather_their_ranges_in_order(place: &dyn Place) {
    where_offered(place, COPY, |s| {
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

fn copies_that_cannot_be_made_change_nothing(place: &dyn Place) {
    where_offered(place, COPY, |s| {
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

fn the_limits_of_identify_namespace_bound_a_copy(place: &dyn Place) {
    where_offered(place, COPY, |s| {
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

fn formats_that_identify_does_not_list_are_refused(place: &dyn Place) {
    where_offered(place, COPY, |s| {
        let identity = s.identify(1, 0);
        let formats = u16::from_le_bytes([identity[534], identity[535]]);
        let buffer = s.buffer(40, 0);
        for format in (0..16u8).filter(|&format| formats & 1 << format == 0) {
            let completion = s.io(commands::copy(1, 16, 1, format, false), buffer);
            assert_code(&completion, StatusCode::INVALID_FIELD);
        }
    });
}
