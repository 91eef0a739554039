//! Descriptors: where a command's data is, and what is wrong with it.

use super::{Case, cases, with_session};
use crate::{Buffer, Heard, Place, Session, assert_code};
use initiator::commands;
use nvme_spec_types::{SglDescriptor, StatusCode};
use rdma::Access;

pub(super) const CASES: &[Case] = cases![
    lists_of_one_to_sixteen_descriptors_carry_data_in_order,
    segments_may_be_of_odd_lengths,
    a_list_of_more_than_msdbd_is_refused,
    lists_that_are_no_lists_are_refused,
    descriptors_of_other_transports_are_refused,
    a_descriptor_shorter_than_the_data_is_refused,
    memory_beyond_the_data_is_not_touched,
    in_capsule_data_is_taken_at_any_offset_that_was_sent,
    a_whole_capsule_of_data_is_taken,
    in_capsule_data_that_was_not_sent_is_refused,
    a_read_cannot_put_its_data_into_the_capsule,
    a_key_is_invalidated_when_asked_for_and_only_then,
    a_key_that_opens_nothing_costs_the_connection_or_the_command_but_no_other_host,
    memory_that_may_only_be_read_is_not_written_to,
    two_commands_with_one_identifier_are_one_too_many,
];

/// A list of keyed descriptors over parts of `buffer`, each `len` bytes, and the one that names it.
fn list(buffer: Buffer, count: u32, len: u32) -> (SglDescriptor, Vec<u8>) {
    let parts = (0..count).flat_map(|index| buffer.part(index * len, len).to_bytes());
    let bytes: Vec<u8> = parts.collect();
    (SglDescriptor::LastSegment { offset: 0, len: bytes.len() as u32 }, bytes)
}

fn lists_of_one_to_sixteen_descriptors_carry_data_in_order(place: &dyn Place) {
    with_session(place, |s| {
        let len = s.block_len;
        for count in 1..=16u32 {
            let buffer = s.buffer(count * len, 0);
            let pattern: Vec<u8> = (0..count * len).map(|at| (at / len + count) as u8).collect();
            s.client.write(buffer, &pattern);
            let (sgl, tail) = list(buffer, count, len);
            let wrote = s.io_sgl(commands::write(1, 0, count, false), sgl, &tail);
            assert!(wrote.status.is_success(), "{count} descriptors: {wrote:?}");
            assert_eq!(s.read_blocks(0, count), pattern, "{count} descriptors written");
            s.client.write(buffer, &vec![0; (count * len) as usize]);
            let read = s.io_sgl(commands::read(1, 0, count, false), sgl, &tail);
            assert!(read.status.is_success(), "{count} descriptors: {read:?}");
            assert_eq!(s.client.read(buffer), pattern, "{count} descriptors read");
            s.client.take_back(s.io, buffer);
        }
    });
}

fn segments_may_be_of_odd_lengths(place: &dyn Place) {
    with_session(place, |s| {
        let len = 4 * s.block_len;
        let buffer = s.buffer(len, 0);
        let pattern: Vec<u8> = (0..len).map(|at| (at * 7 % 251) as u8).collect();
        s.client.write(buffer, &pattern);
        let cuts = [0, 1, 4, 515, 516, 1500, len];
        let parts = cuts.windows(2).flat_map(|w| buffer.part(w[0], w[1] - w[0]).to_bytes());
        let tail: Vec<u8> = parts.collect();
        let sgl = SglDescriptor::LastSegment { offset: 0, len: tail.len() as u32 };
        let wrote = s.io_sgl(commands::write(1, 0, 4, false), sgl, &tail);
        assert!(wrote.status.is_success(), "{wrote:?}");
        assert_eq!(s.read_blocks(0, 4), pattern);
    });
}

fn a_list_of_more_than_msdbd_is_refused(place: &dyn Place) {
    with_session(place, |s| {
        let msdbd = u32::from(s.identify(1, 0)[1803]);
        let buffer = s.buffer(64 * s.block_len, 0);
        let count = if msdbd == 0 { 64 } else { msdbd + 1 };
        let (sgl, tail) = list(buffer, count, s.block_len);
        let completion = s.io_sgl(commands::read(1, 0, count, false), sgl, &tail);
        assert_code(&completion, StatusCode::INVALID_NUMBER_OF_SGL_DESCRIPTORS);
        s.assert_alive();
    });
}

fn lists_that_are_no_lists_are_refused(place: &dyn Place) {
    with_session(place, |s| {
        let buffer = s.buffer(s.block_len, 0);
        let read = commands::read(1, 0, 1, false);
        let keyed = buffer.sgl().to_bytes();
        let last = |offset, len| SglDescriptor::LastSegment { offset, len };
        let invalid = StatusCode::INVALID_SGL_SEGMENT_DESCRIPTOR;
        assert_code(&s.io_sgl(read, last(0, 0), &keyed), invalid);
        assert_code(&s.io_sgl(read, last(0, 15), &keyed), invalid);
        assert_code(&s.io_sgl(read, last(0, 17), &keyed), invalid);
        // Longer than what was sent, behind it, and beyond all numbers.
        let offset = StatusCode::SGL_OFFSET_INVALID;
        assert_code(&s.io_sgl(read, last(0, 32), &keyed), offset);
        assert_code(&s.io_sgl(read, last(16, 16), &keyed), offset);
        assert_code(&s.io_sgl(read, last(u64::MAX - 15, 16), &keyed), offset);
        let nested = last(0, 16).to_bytes();
        let kind = StatusCode::SGL_DESCRIPTOR_TYPE_INVALID;
        assert_code(&s.io_sgl(read, last(0, 16), &nested), kind);
        s.assert_alive();
    });
}

fn descriptors_of_other_transports_are_refused(place: &dyn Place) {
    with_session(place, |s| {
        let read = commands::read(1, 0, 1, false);
        let kind = StatusCode::SGL_DESCRIPTOR_TYPE_INVALID;
        let block = SglDescriptor::DataBlock { addr: 4096, len: s.block_len };
        assert_code(&s.io_sgl(read, block, &[]), kind);
        let segment = SglDescriptor::Segment { offset: 0, len: 16 };
        assert_code(&s.io_sgl(read, segment, &[0; 16]), kind);
        for code in [0x10u8, 0x20, 0x41, 0x50, 0x5a, 0xf0, 0xff] {
            let mut bytes = [0u8; 16];
            bytes[8..12].copy_from_slice(&s.block_len.to_le_bytes());
            bytes[15] = code;
            let completion = s.io_sgl(read, SglDescriptor::from_bytes(&bytes), &[]);
            assert_code(&completion, kind);
        }
        s.assert_alive();
    });
}

fn a_descriptor_shorter_than_the_data_is_refused(place: &dyn Place) {
    with_session(place, |s| {
        let buffer = s.buffer(2 * s.block_len, 0);
        let short = buffer.part(0, 2 * s.block_len - 1);
        for command in [commands::read(1, 0, 2, false), commands::write(1, 0, 2, false)] {
            let completion = s.io_sgl(command, short, &[]);
            assert_code(&completion, StatusCode::DATA_SGL_LENGTH_INVALID);
        }
        let none = s.io_sgl(commands::read(1, 0, 1, false), SglDescriptor::NO_DATA, &[]);
        assert_code(&none, StatusCode::DATA_SGL_LENGTH_INVALID);
    });
}

fn memory_beyond_the_data_is_not_touched(place: &dyn Place) {
    with_session(place, |s| {
        s.fill_blocks(0, 1, 0x21);
        let buffer = s.buffer(4096, 0xcc);
        let completion = s.io(commands::read(1, 0, 1, false), buffer);
        assert!(completion.status.is_success(), "{completion:?}");
        let data = s.client.read(buffer);
        let lba = s.block_len as usize;
        assert_eq!(data[..lba], vec![0x21; lba]);
        assert_eq!(data[lba..], vec![0xcc; 4096 - lba]);
    });
}

fn in_capsule_data_is_taken_at_any_offset_that_was_sent(place: &dyn Place) {
    with_session(place, |s| {
        let lba = s.block_len;
        for offset in [0, 4, 100, s.in_capsule - lba] {
            let mut tail = vec![0xff; offset as usize];
            tail.extend(vec![offset as u8 ^ 0x5a; lba as usize]);
            let sgl = SglDescriptor::InCapsule { offset: offset.into(), len: lba };
            let completion = s.io_sgl(commands::write(1, 7, 1, false), sgl, &tail);
            assert!(completion.status.is_success(), "offset {offset}: {completion:?}");
            assert_eq!(s.read_blocks(7, 1), vec![offset as u8 ^ 0x5a; lba as usize]);
        }
    });
}

fn a_whole_capsule_of_data_is_taken(place: &dyn Place) {
    with_session(place, |s| {
        let blocks = s.in_capsule / s.block_len;
        let len = blocks * s.block_len;
        let sgl = SglDescriptor::InCapsule { offset: 0, len };
        let tail = vec![0x6b; len as usize];
        let completion = s.io_sgl(commands::write(1, 0, blocks, false), sgl, &tail);
        assert!(completion.status.is_success(), "{completion:?}");
        assert_eq!(s.read_blocks(0, blocks), tail);
    });
}

fn in_capsule_data_that_was_not_sent_is_refused(place: &dyn Place) {
    with_session(place, |s| {
        let lba = s.block_len;
        let write = commands::write(1, 0, 1, false);
        let tail = vec![1; lba as usize];
        let code = StatusCode::SGL_OFFSET_INVALID;
        for (offset, len) in [(1, lba), (u64::from(lba), lba), (u64::MAX, lba), (0, lba + 1)] {
            let sgl = SglDescriptor::InCapsule { offset, len };
            assert_code(&s.io_sgl(write, sgl, &tail), code);
        }
        let sgl = SglDescriptor::InCapsule { offset: 0, len: lba };
        assert_code(&s.io_sgl(write, sgl, &[]), code);
        s.assert_alive();
    });
}

fn a_read_cannot_put_its_data_into_the_capsule(place: &dyn Place) {
    with_session(place, |s| {
        let sgl = SglDescriptor::InCapsule { offset: 0, len: s.block_len };
        let tail = vec![0; s.block_len as usize];
        let completion = s.io_sgl(commands::read(1, 0, 1, false), sgl, &tail);
        assert_code(&completion, StatusCode::INVALID_FIELD);
    });
}

fn a_key_is_invalidated_when_asked_for_and_only_then(place: &dyn Place) {
    let target = place.target();
    let mut s = Session::new(&target);
    let read = commands::read(1, 0, 1, false);
    let write = commands::write(1, 0, 1, false);
    for (wanted, mut command) in [(false, read), (true, write)] {
        let buffer = s.buffer(s.block_len, 0);
        command.set_sgl1(if wanted { buffer.sgl_invalidate() } else { buffer.sgl() });
        command.set_cid(77);
        s.client.send(s.io, command.as_bytes());
        match s.client.hear(s.io) {
            Heard::Completion(completion, invalidated) => {
                assert!(completion.status.is_success(), "{completion:?}");
                let told = wanted && (target.tells_invalidated() || invalidated.is_some());
                assert_eq!(invalidated, told.then_some(buffer.remote.rkey));
            }
            Heard::Gone => panic!("the connection ended"),
        }
    }
}

fn a_key_that_opens_nothing_costs_the_connection_or_the_command_but_no_other_host(
    place: &dyn Place,
) {
    let target = place.target();
    let mut other = Session::new(&target);
    let mut s = Session::new(&target);
    let sgl =
        SglDescriptor::Keyed { addr: 0x1000, len: s.block_len, key: 0xdead, invalidate: false };
    let mut command = commands::write(1, 0, 1, false);
    command.set_sgl1(sgl);
    s.client.send(s.io, command.as_bytes());
    match s.client.hear(s.io) {
        Heard::Completion(completion, _) => assert!(!completion.status.is_success()),
        Heard::Gone => {}
    }
    other.assert_alive();
}

fn memory_that_may_only_be_read_is_not_written_to(place: &dyn Place) {
    let target = place.target();
    let mut other = Session::new(&target);
    let mut s = Session::new(&target);
    let buffer = s.client.buffer_with(s.io, s.block_len, 0xab, Access::RemoteRead);
    let mut command = commands::read(1, 0, 1, false);
    command.set_sgl1(buffer.sgl());
    s.client.send(s.io, command.as_bytes());
    if let Heard::Completion(completion, _) = s.client.hear(s.io) {
        assert!(!completion.status.is_success(), "{completion:?}");
    }
    assert_eq!(s.client.read(buffer), vec![0xab; s.block_len as usize]);
    other.assert_alive();
}

fn two_commands_with_one_identifier_are_one_too_many(place: &dyn Place) {
    with_session(place, |s| {
        // A long read and its double right behind it.
        let buffer = s.buffer(s.max_transfer, 0);
        let mut command = commands::read(1, 0, s.max_transfer / s.block_len, false);
        command.set_cid(0x1234);
        command.set_sgl1(buffer.sgl());
        for _ in 0..8 {
            s.client.send(s.io, command.as_bytes());
        }
        let mut good = 0;
        for _ in 0..8 {
            let completion = s.client.completion(s.io);
            assert_eq!(completion.cid, 0x1234);
            match completion.status.code {
                StatusCode::SUCCESS => good += 1,
                code => assert_eq!(code, StatusCode::COMMAND_ID_CONFLICT),
            }
        }
        assert!(good >= 1, "the first one is in order");
        s.assert_alive();
    });
}
