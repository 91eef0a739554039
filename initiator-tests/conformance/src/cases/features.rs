//! Features: each with its four values, and what setting one does.

use super::{Case, cases, with_session};
use crate::{Place, Session, assert_code};
use initiator::commands;
use nvme_spec_types::{Completion, StatusCode};

pub(super) const CASES: &[Case] = cases![
    every_feature_is_what_its_capabilities_say,
    features_that_cannot_be_saved_are_not,
    a_clock_that_was_set_runs_on,
    copy_formats_are_used_once_they_are_enabled,
    without_a_write_cache_everything_is_still_there,
    a_feature_with_too_little_data_is_refused_and_unchanged,
];

const VOLATILE_WRITE_CACHE: u8 = 0x06;
const TIMESTAMP: u8 = 0x0e;
const HOST_BEHAVIOR: u8 = 0x16;
const HOST_IDENTIFIER: u8 = 0x81;
/// Values of Get Features: current, default, saved, supported capabilities.
const CURRENT: u32 = 0;
const CAPABILITIES: u32 = 3;
/// Supported capabilities.
const SAVEABLE: u32 = 1 << 0;
const NAMESPACE_SPECIFIC: u32 = 1 << 1;
const CHANGEABLE: u32 = 1 << 2;

/// Gets a feature: the completion, and as much data as any feature has.
fn get(s: &mut Session, fid: u8, select: u32) -> (Completion, Vec<u8>) {
    let mut command = commands::get_features(fid);
    command.set_cdw10(u32::from(fid) | select << 8);
    if fid == HOST_IDENTIFIER {
        command.set_cdw11(1); // 128 bits
    }
    s.admin_in(command, 4096)
}

/// What can be done with a feature; `None` when there is no such feature.
fn capabilities(s: &mut Session, fid: u8) -> Option<u32> {
    let (completion, _) = get(s, fid, CAPABILITIES);
    if !completion.status.is_success() {
        assert_code(&completion, StatusCode::INVALID_FIELD);
        return None;
    }
    Some(completion.dw0)
}

/// Sets a feature whose value is data.
fn set_data(s: &mut Session, fid: u8, data: &[u8]) -> Completion {
    let buffer = s.client.buffer(s.admin, data.len() as u32, 0);
    s.client.write(buffer, data);
    let mut command = commands::set_features(fid, 0);
    command.set_sgl1(buffer.sgl());
    let completion = s.client.call(s.admin, command);
    s.client.take_back(s.admin, buffer);
    completion
}

fn every_feature_is_what_its_capabilities_say(place: &dyn Place) {
    with_session(place, |s| {
        let mut offered = 0;
        for fid in 0..=255 {
            let Some(can) = capabilities(s, fid) else {
                for select in 0..3 {
                    assert_code(&get(s, fid, select).0, StatusCode::INVALID_FIELD);
                }
                assert_code(&s.admin(commands::set_features(fid, 0)), StatusCode::INVALID_FIELD);
                continue;
            };
            offered += 1;
            if can & NAMESPACE_SPECIFIC == 0 {
                for select in 0..3 {
                    let (completion, _) = get(s, fid, select);
                    assert!(completion.status.is_success(), "{fid:#x}/{select}: {completion:?}");
                }
            }
            if can & CHANGEABLE == 0 {
                let (before, _) = get(s, fid, CURRENT);
                s.admin(commands::set_features(fid, !before.dw0));
                assert_eq!(get(s, fid, CURRENT).0.dw0, before.dw0, "{fid:#x} changed");
            }
            assert_code(&get(s, fid, 5).0, StatusCode::INVALID_FIELD);
        }
        assert!(offered >= 4, "Number of Queues, events, keep alive, host identifier");
        s.assert_alive();
    });
}

fn features_that_cannot_be_saved_are_not(place: &dyn Place) {
    with_session(place, |s| {
        for fid in 0..=255 {
            let Some(can) = capabilities(s, fid) else { continue };
            let mut command = commands::set_features(fid, 0);
            command.set_cdw10(u32::from(fid) | 1 << 31);
            if can & SAVEABLE == 0 {
                assert_code(&s.admin(command), StatusCode::FEATURE_NOT_SAVEABLE);
            }
        }
    });
}

fn a_clock_that_was_set_runs_on(place: &dyn Place) {
    with_session(place, |s| {
        if capabilities(s, TIMESTAMP).is_none() {
            return;
        }
        const SET: u64 = 1_700_000_000_000;
        assert!(set_data(s, TIMESTAMP, &SET.to_le_bytes()).status.is_success());
        let (_, first) = get(s, TIMESTAMP, CURRENT);
        let time =
            |data: &[u8]| u64::from_le_bytes(data[..8].try_into().unwrap()) & ((1 << 48) - 1);
        assert!((SET..SET + 60_000).contains(&time(&first)), "{first:?}");
        assert_eq!(first[6] >> 1 & 7, 1, "the host set it");
        let (_, second) = get(s, TIMESTAMP, CURRENT);
        assert!(time(&second) >= time(&first));
    });
}

fn copy_formats_are_used_once_they_are_enabled(place: &dyn Place) {
    with_session(place, |s| {
        let identity = s.identify(1, 0);
        let offers_format_2 = identity[521] & 1 != 0 && identity[534] & 1 << 2 != 0;
        if capabilities(s, HOST_BEHAVIOR).is_none() || !offers_format_2 {
            return;
        }
        s.fill_blocks(0, 8, 0x11);
        s.fill_blocks(2, 1, 0x22);
        let copy = |s: &mut Session| {
            let list = commands::copy_ranges(Some(1), &[(2, 1)]);
            let buffer = s.buffer(list.len() as u32, 0);
            s.client.write(buffer, &list);
            let completion = s.io(commands::copy(1, 5, 1, 2, false), buffer);
            s.client.take_back(s.io, buffer);
            completion
        };
        assert_code(&copy(s), StatusCode::INVALID_FIELD);
        let mut behavior = [0; 512];
        behavior[4] = 1 << 2;
        assert!(set_data(s, HOST_BEHAVIOR, &behavior).status.is_success());
        assert_eq!(get(s, HOST_BEHAVIOR, CURRENT).1[..512], behavior);
        assert!(copy(s).status.is_success());
        assert_eq!(s.read_blocks(5, 1), vec![0x22; s.block_len as usize]);
    });
}

fn without_a_write_cache_everything_is_still_there(place: &dyn Place) {
    with_session(place, |s| {
        let can = capabilities(s, VOLATILE_WRITE_CACHE).unwrap_or(0);
        if can & CHANGEABLE == 0 {
            return;
        }
        s.fill_blocks(0, 4, 0x44);
        for on in [0, 1] {
            let set = s.admin(commands::set_features(VOLATILE_WRITE_CACHE, on));
            assert!(set.status.is_success(), "{set:?}");
            assert_eq!(get(s, VOLATILE_WRITE_CACHE, CURRENT).0.dw0 & 1, on);
            s.fill_blocks(4, 4, 0x55 + on as u8);
            assert_eq!(s.read_blocks(4, 1)[0], 0x55 + on as u8);
        }
        assert_eq!(s.read_blocks(0, 1)[0], 0x44);
    });
}

fn a_feature_with_too_little_data_is_refused_and_unchanged(place: &dyn Place) {
    with_session(place, |s| {
        for (fid, len) in [(TIMESTAMP, 8), (HOST_BEHAVIOR, 512)] {
            if capabilities(s, fid).is_none() {
                continue;
            }
            let (_, before) = get(s, fid, CURRENT);
            let short = set_data(s, fid, &vec![0xff; len - 4]);
            assert_code(&short, StatusCode::DATA_SGL_LENGTH_INVALID);
            let (_, after) = get(s, fid, CURRENT);
            // A clock runs on, but what is at its end stays.
            assert_eq!(before[6..len], after[6..len], "{fid:#x}");
        }
        s.assert_alive();
    });
}
