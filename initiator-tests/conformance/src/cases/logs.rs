//! Log pages: which there are, and that they can be read in any parts.

use super::{Case, cases, with_session};
use crate::{Place, Session, assert_code};
use initiator::commands;
use nvme_spec_types::{Completion, StatusCode};

pub(super) const CASES: &[Case] = cases![
    the_supported_log_pages_are_those_that_can_be_read,
    a_page_is_the_same_in_parts_of_any_size,
    smart_counts_what_was_read_and_written,
    effects_name_every_command_that_is_carried_out,
    a_page_beyond_the_largest_transfer_is_refused,
];

const SUPPORTED: u8 = 0x00;
const ERROR: u8 = 0x01;
const SMART: u8 = 0x02;
const FIRMWARE_SLOT: u8 = 0x03;
const CHANGED_NAMESPACES: u8 = 0x04;
const EFFECTS: u8 = 0x05;
const FEATURE_EFFECTS: u8 = 0x12;
const ALL: u32 = u32::MAX;

/// Part of a page.
fn part(s: &mut Session, lid: u8, offset: u64, len: u32) -> (Completion, Vec<u8>) {
    s.admin_in(commands::get_log_page(lid, ALL, offset, len, true), len)
}

fn page(s: &mut Session, lid: u8, len: u32) -> Vec<u8> {
    let (completion, data) = part(s, lid, 0, len);
    assert!(completion.status.is_success(), "page {lid:#x}: {completion:?}");
    data
}

fn the_supported_log_pages_are_those_that_can_be_read(place: &dyn Place) {
    with_session(place, |s| {
        let supported = page(s, SUPPORTED, 1024);
        for lid in 0..=255 {
            let says = supported[usize::from(lid) * 4] & 1 != 0;
            let (completion, _) = part(s, lid, 0, 4);
            if says {
                assert!(completion.status.is_success(), "page {lid:#x}: {completion:?}");
            } else {
                assert_code(&completion, StatusCode::INVALID_LOG_PAGE);
            }
        }
        for lid in [SUPPORTED, ERROR, SMART, FIRMWARE_SLOT] {
            assert_eq!(supported[usize::from(lid) * 4] & 1, 1, "page {lid:#x} is mandatory");
        }
    });
}

fn a_page_is_the_same_in_parts_of_any_size(place: &dyn Place) {
    with_session(place, |s| {
        let supported = page(s, SUPPORTED, 1024);
        s.admin(commands::get_features(0xee)); // something for the error log
        for (lid, len) in [
            (SUPPORTED, 1024u32),
            (ERROR, 256),
            (FIRMWARE_SLOT, 512),
            (CHANGED_NAMESPACES, 4096),
            (EFFECTS, 4096),
            (FEATURE_EFFECTS, 1024),
        ] {
            if supported[usize::from(lid) * 4] & 1 == 0 {
                continue;
            }
            let whole = page(s, lid, len);
            for size in [4, 12, 508, 2048] {
                let mut parts = Vec::new();
                while parts.len() < whole.len() {
                    let left = (whole.len() - parts.len()) as u32;
                    let (completion, data) = part(s, lid, parts.len() as u64, size.min(left));
                    assert!(completion.status.is_success(), "page {lid:#x}: {completion:?}");
                    parts.extend(data);
                    // One byte after another would take too long for large pages.
                    if size < 100 && parts.len() >= 96 {
                        break;
                    }
                }
                assert_eq!(parts, whole[..parts.len()], "page {lid:#x} in parts of {size}");
            }
            assert_code(&part(s, lid, 2, 4).0, StatusCode::INVALID_FIELD);
        }
    });
}

fn smart_counts_what_was_read_and_written(place: &dyn Place) {
    with_session(place, |s| {
        let le64 = |page: &[u8], at: usize| {
            u64::from_le_bytes(page[at..at + 8].try_into().expect("eight bytes"))
        };
        let before = page(s, SMART, 512);
        s.fill_blocks(0, 4, 1);
        s.read_blocks(0, 4);
        s.read_blocks(0, 4);
        let after = page(s, SMART, 512);
        let (host_reads, host_writes) = (64, 80);
        assert!(le64(&after, host_reads) >= le64(&before, host_reads) + 2);
        assert!(le64(&after, host_writes) > le64(&before, host_writes));
        assert!(le64(&after, 32) >= 1 && le64(&after, 48) >= 1, "data units, rounded up");
        assert_eq!(after[0], 0, "no critical warning");
        let failed = s.admin(commands::get_features(0xee));
        assert_code(&failed, StatusCode::INVALID_FIELD);
        let errors = page(s, SMART, 512);
        assert!(le64(&errors, 176) > le64(&after, 176), "entries of the error log");
    });
}

fn effects_name_every_command_that_is_carried_out(place: &dyn Place) {
    with_session(place, |s| {
        let effects = page(s, EFFECTS, 4096);
        for opcode in [0x02usize, 0x06, 0x08, 0x09, 0x0a, 0x0c, 0x18] {
            assert_eq!(effects[opcode * 4] & 1, 1, "admin command {opcode:#x}");
        }
        for opcode in [0x00usize, 0x01, 0x02] {
            assert_eq!(effects[1024 + opcode * 4] & 1, 1, "I/O command {opcode:#x}");
        }
        assert_eq!(effects[1024 + 4] & 2, 2, "Write changes blocks");
        for opcode in (0..=255u8).filter(|&o| effects[1024 + usize::from(o) * 4] & 1 == 0) {
            if opcode == 0x7f {
                continue; // Fabrics
            }
            let mut bytes = *commands::flush(1).as_bytes();
            bytes[0] = opcode;
            let completion = s.client.call(s.io, nvme_spec_types::Command::from_bytes(bytes));
            assert_code(&completion, StatusCode::INVALID_OPCODE);
        }
    });
}

fn a_page_beyond_the_largest_transfer_is_refused(place: &dyn Place) {
    with_session(place, |s| {
        let most = s.max_transfer;
        let mut command = commands::get_log_page(ERROR, ALL, 0, most + 4, true);
        let buffer = s.client.buffer(s.admin, 4096, 0);
        command.set_sgl1(buffer.sgl());
        assert_code(&s.client.call(s.admin, command), StatusCode::INVALID_FIELD);
        assert_eq!(s.client.read(buffer), vec![0; 4096]);
        s.assert_alive();
    });
}
