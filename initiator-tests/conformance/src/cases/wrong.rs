//! I/O commands that are wrong, kind by kind: each ends as it must, says whether to try again, is in
//! the error log with the field at fault, and changes no block.

use super::malformed::assert_logged;
use super::{Case, cases, with_session};
use crate::{Buffer, Place, Session, assert_code};
use initiator::commands;
use nvme_spec_types::{Command, Fuse, SglDescriptor, StatusCode};

pub(super) const CASES: &[Case] = cases![
    commands_for_no_namespace_are_refused_whatever_they_are,
    blocks_behind_the_last_are_refused_whatever_is_done_with_them,
    data_that_is_described_wrongly_is_refused_whatever_it_is,
    a_list_of_keyed_and_in_capsule_data_is_refused,
    commands_that_cannot_be_fused_are_refused_when_they_say_they_are,
    reserved_bits_of_commands_mean_nothing,
    dataset_management_takes_as_many_ranges_as_can_be_said,
];

/// Bytes of the submission queue entry: the places of the error log.
const FLAGS: u16 = 1;
const NSID: u16 = 4;
const DATA_POINTER: u16 = 24;
const DATA_POINTER_TYPE: u16 = 39;
const SLBA: u16 = 40;

/// What block 0 and those behind it hold before and after.
const KEPT: u8 = 0x5e;
const KEPT_BLOCKS: u32 = 8;

/// Commands on one block that have a block range.
fn on_block(nsid: u32, slba: u64) -> [Command; 5] {
    [
        commands::read(nsid, slba, 1, false),
        commands::write(nsid, slba, 1, false),
        commands::compare(nsid, slba, 1),
        commands::write_zeroes(nsid, slba, 1, true, false),
        commands::verify(nsid, slba, 1, false),
    ]
}

/// Commands whose data is a list of ranges.
fn with_ranges(nsid: u32) -> [Command; 2] {
    [commands::deallocate(nsid, 1), commands::copy(nsid, 4, 1, 0, false)]
}

/// A case of one session, with memory of one block; blocks are what they were afterwards.
fn harmless(place: &dyn Place, case: impl FnOnce(&mut Session, Buffer)) {
    with_session(place, |s| {
        s.fill_blocks(0, KEPT_BLOCKS, KEPT);
        let buffer = s.buffer(s.block_len, 0);
        case(s, buffer);
        let len = KEPT_BLOCKS * s.block_len;
        assert_eq!(s.read_blocks(0, KEPT_BLOCKS), vec![KEPT; len as usize]);
        assert_eq!(s.client.read(buffer), vec![0; s.block_len as usize], "nothing was read");
        s.assert_alive();
    });
}

/// Sends a command that must be refused for good, and finds it in the error log.
#[track_caller]
fn refused(
    s: &mut Session,
    command: Command,
    sgl: SglDescriptor,
    tail: &[u8],
    (code, at): (StatusCode, u16),
) {
    let completion = s.io_sgl(command, sgl, tail);
    assert_code(&completion, code);
    assert!(completion.status.dnr, "it may be tried again: {completion:?}");
    assert_logged(s, 1, &completion, at);
}

fn commands_for_no_namespace_are_refused_whatever_they_are(place: &dyn Place) {
    harmless(place, |s, buffer| {
        for nsid in [0, u32::MAX - 1] {
            let all = on_block(nsid, 0).into_iter().chain(with_ranges(nsid));
            for command in all.chain([commands::flush(nsid)]) {
                let end = (StatusCode::INVALID_NAMESPACE_OR_FORMAT, NSID);
                refused(s, command, buffer.sgl(), &[], end);
            }
        }
    });
}

fn blocks_behind_the_last_are_refused_whatever_is_done_with_them(place: &dyn Place) {
    harmless(place, |s, buffer| {
        for slba in [s.blocks, u64::MAX] {
            for command in on_block(1, slba) {
                refused(s, command, buffer.sgl(), &[], (StatusCode::LBA_OUT_OF_RANGE, SLBA));
            }
        }
    });
}

fn data_that_is_described_wrongly_is_refused_whatever_it_is(place: &dyn Place) {
    harmless(place, |s, buffer| {
        let moving = on_block(1, 0).into_iter().take(3).chain(with_ranges(1));
        for command in moving {
            let segment = SglDescriptor::Segment { offset: 0, len: 16 };
            let block = SglDescriptor::DataBlock { addr: 4096, len: s.block_len };
            for sgl in [segment, block] {
                let end = (StatusCode::SGL_DESCRIPTOR_TYPE_INVALID, DATA_POINTER_TYPE);
                refused(s, command, sgl, &[0; 16], end);
            }
            for sgl in [buffer.part(0, 15), SglDescriptor::NO_DATA] {
                let end = (StatusCode::DATA_SGL_LENGTH_INVALID, DATA_POINTER);
                refused(s, command, sgl, &[], end);
            }
        }
    });
}

fn a_list_of_keyed_and_in_capsule_data_is_refused(place: &dyn Place) {
    harmless(place, |s, buffer| {
        let half = s.block_len / 2;
        let keyed = buffer.part(0, half).to_bytes();
        let offset = SglDescriptor::InCapsule { offset: 32, len: half }.to_bytes();
        let mut tail = [keyed, offset].concat();
        tail.resize(32 + half as usize, 0);
        let list = SglDescriptor::LastSegment { offset: 0, len: 32 };
        for command in on_block(1, 0).into_iter().take(3) {
            let end = (StatusCode::SGL_DESCRIPTOR_TYPE_INVALID, DATA_POINTER_TYPE);
            refused(s, command, list, &tail, end);
        }
    });
}

fn commands_that_cannot_be_fused_are_refused_when_they_say_they_are(place: &dyn Place) {
    harmless(place, |s, buffer| {
        let [read, write, compare, zeroes, verify] = on_block(1, 0);
        let first = [read, write, zeroes, verify, commands::flush(1)];
        let second = [read, compare, zeroes, verify, commands::flush(1)];
        for (fuse, all) in [(Fuse::First, first), (Fuse::Second, second)] {
            for mut command in all {
                command.set_fuse(fuse);
                refused(s, command, buffer.sgl(), &[], (StatusCode::INVALID_FIELD, FLAGS));
            }
        }
    });
}

fn reserved_bits_of_commands_mean_nothing(place: &dyn Place) {
    with_session(place, |s| {
        s.fill_blocks(0, 1, KEPT);
        for command in on_block(1, 0).into_iter().chain([commands::flush(1)]) {
            let buffer = s.buffer(s.block_len, KEPT);
            let mut bytes = *command.as_bytes();
            bytes[1] |= 0x3c;
            bytes[8..16].fill(0xff);
            bytes[50] |= 0x0f;
            let completion = s.io(Command::from_bytes(bytes), buffer);
            assert!(completion.status.is_success(), "{command:?}: {completion:?}");
        }
    });
}

fn dataset_management_takes_as_many_ranges_as_can_be_said(place: &dyn Place) {
    with_session(place, |s| {
        s.fill_blocks(0, KEPT_BLOCKS, KEPT);
        let ranges: Vec<(u64, u32)> = (0..256).map(|at| (1000 + 2 * at, 1)).collect();
        let list = commands::dataset_ranges(&ranges);
        let buffer = s.buffer(list.len() as u32, 0);
        s.client.write(buffer, &list);
        let completion = s.io(commands::deallocate(1, 256), buffer);
        assert!(completion.status.is_success(), "{completion:?}");
        // One range less than that is described.
        let short = buffer.part(0, list.len() as u32 - 16);
        let end = (StatusCode::DATA_SGL_LENGTH_INVALID, DATA_POINTER);
        refused(s, commands::deallocate(1, 256), short, &[], end);
        let len = KEPT_BLOCKS * s.block_len;
        assert_eq!(s.read_blocks(0, KEPT_BLOCKS), vec![KEPT; len as usize]);
    });
}
