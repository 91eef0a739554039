//! Reads, writes and their kin on an I/O queue, and what is wrong with them.

use super::{Case, cases, with_session};
use crate::{Heard, Place, Session, assert_code};
use initiator::commands;
use nvme_spec_types::{Command, StatusCode};

pub(super) const CASES: &[Case] = cases![
    what_was_written_is_read,
    the_last_block_is_served_and_the_one_behind_it_is_not,
    transfers_go_up_to_mdts_and_not_a_block_further,
    compare_tells_equal_from_different,
    write_zeroes_and_deallocate_touch_only_their_blocks,
    flush_takes_one_namespace_or_all_but_none_that_is_not_there,
    durable_writes_and_reads_of_the_medium_succeed,
    a_namespace_that_is_not_there_has_no_blocks,
    a_read_only_namespace_refuses_what_changes_it,
    unknown_opcodes_are_refused_and_change_nothing,
    namespaces_are_not_mixed_up,
    a_full_queue_is_served_whatever_the_order_of_completions,
    more_commands_than_entries_end_the_connection,
];

fn what_was_written_is_read(place: &dyn Place) {
    with_session(place, |s| {
        s.fill_blocks(3, 8, 0xa7);
        let len = 8 * s.block_len as usize;
        assert_eq!(s.read_blocks(3, 8), vec![0xa7; len]);
        let first = s.read_blocks(2, 2);
        let lba = s.block_len as usize;
        assert_ne!(first[..lba], vec![0xa7; lba], "the block before is another");
        assert_eq!(first[lba..], vec![0xa7; lba]);
    });
}

fn the_last_block_is_served_and_the_one_behind_it_is_not(place: &dyn Place) {
    with_session(place, |s| {
        let last = s.blocks - 1;
        s.fill_blocks(last, 1, 0x3c);
        let buffer = s.buffer(2 * s.block_len, 0);
        for command in [
            commands::read(1, last, 2, false),
            commands::write(1, last, 2, false),
            commands::compare(1, last, 2),
            commands::write_zeroes(1, last, 2, false, false),
            commands::read(1, s.blocks, 1, false),
            commands::read(1, u64::MAX, 2, false),
        ] {
            let completion = s.io(command, buffer);
            assert_code(&completion, StatusCode::LBA_OUT_OF_RANGE);
        }
        assert_eq!(s.read_blocks(last, 1), vec![0x3c; s.block_len as usize]);
    });
}

fn transfers_go_up_to_mdts_and_not_a_block_further(place: &dyn Place) {
    with_session(place, |s| {
        let most = s.max_transfer / s.block_len;
        s.fill_blocks(0, most, 0x11);
        assert_eq!(s.read_blocks(0, most), vec![0x11; s.max_transfer as usize]);
        let buffer = s.buffer(s.max_transfer + s.block_len, 0);
        for command in [
            commands::read(1, 0, most + 1, false),
            commands::write(1, 0, most + 1, false),
            commands::compare(1, 0, most + 1),
        ] {
            let completion = s.io(command, buffer);
            assert_code(&completion, StatusCode::INVALID_FIELD);
        }
        // No data is moved here, so the limit is none of it.
        let zeroes = s.client.call(s.io, commands::write_zeroes(1, 0, most + 1, false, false));
        assert!(zeroes.status.is_success(), "{zeroes:?}");
        assert_eq!(s.read_blocks(0, 1), vec![0; s.block_len as usize]);
    });
}

fn compare_tells_equal_from_different(place: &dyn Place) {
    with_session(place, |s| {
        s.fill_blocks(0, 4, 0x77);
        let buffer = s.buffer(4 * s.block_len, 0x77);
        assert!(s.io(commands::compare(1, 0, 4), buffer).status.is_success());
        let mut bytes = vec![0x77; 4 * s.block_len as usize];
        *bytes.last_mut().unwrap() = 0x78;
        s.client.write(buffer, &bytes);
        assert_code(&s.io(commands::compare(1, 0, 4), buffer), StatusCode::COMPARE_FAILURE);
        assert!(s.io(commands::compare(1, 0, 3), buffer).status.is_success());
    });
}

fn write_zeroes_and_deallocate_touch_only_their_blocks(place: &dyn Place) {
    with_session(place, |s| {
        s.fill_blocks(0, 64, 0x99);
        let zeroes = s.client.call(s.io, commands::write_zeroes(1, 8, 8, false, false));
        assert!(zeroes.status.is_success(), "{zeroes:?}");
        let ranges = commands::dataset_ranges(&[(24, 8), (40, 8)]);
        let buffer = s.buffer(ranges.len() as u32, 0);
        s.client.write(buffer, &ranges);
        let completion = s.io(commands::deallocate(1, 2), buffer);
        assert!(completion.status.is_success(), "{completion:?}");
        let lba = s.block_len as usize;
        let data = s.read_blocks(0, 64);
        for (block, bytes) in data.chunks(lba).enumerate() {
            let whole = |byte| bytes == vec![byte; lba];
            match block {
                8..16 => assert!(whole(0), "block {block}"),
                // What a deallocated block holds is the target's choice of old and zero.
                24..32 | 40..48 => assert!(whole(0) || whole(0x99), "block {block}"),
                _ => assert!(whole(0x99), "block {block}"),
            }
        }
        let wrong = commands::dataset_ranges(&[(s.blocks - 1, 2)]);
        s.client.write(buffer, &wrong);
        let mut command = commands::deallocate(1, 1);
        command.set_sgl1(buffer.part(0, 16));
        assert_code(&s.client.call(s.io, command), StatusCode::LBA_OUT_OF_RANGE);
    });
}

fn flush_takes_one_namespace_or_all_but_none_that_is_not_there(place: &dyn Place) {
    with_session(place, |s| {
        for nsid in [1, u32::MAX] {
            let completion = s.client.call(s.io, commands::flush(nsid));
            assert!(completion.status.is_success(), "{nsid}: {completion:?}");
        }
        let completion = s.client.call(s.io, commands::flush(99));
        assert_code(&completion, StatusCode::INVALID_FIELD);
    });
}

fn durable_writes_and_reads_of_the_medium_succeed(place: &dyn Place) {
    with_session(place, |s| {
        let buffer = s.buffer(s.block_len, 0x42);
        assert!(s.io(commands::write(1, 5, 1, true), buffer).status.is_success());
        s.client.write(buffer, &vec![0; s.block_len as usize]);
        assert!(s.io(commands::read(1, 5, 1, true), buffer).status.is_success());
        assert_eq!(s.client.read(buffer), vec![0x42; s.block_len as usize]);
    });
}

fn a_namespace_that_is_not_there_has_no_blocks(place: &dyn Place) {
    with_session(place, |s| {
        let buffer = s.buffer(s.block_len, 0);
        let completion = s.io(commands::read(99, 0, 1, false), buffer);
        assert_code(&completion, StatusCode::INVALID_FIELD);
        for nsid in [0, u32::MAX - 1, u32::MAX] {
            let completion = s.io(commands::read(nsid, 0, 1, false), buffer);
            assert_code(&completion, StatusCode::INVALID_NAMESPACE_OR_FORMAT);
        }
        s.assert_alive();
    });
}

fn a_read_only_namespace_refuses_what_changes_it(place: &dyn Place) {
    let target = place.target();
    if !target.is_own() {
        return; // only our own target is known to have one
    }
    let mut s = Session::new(&target);
    let buffer = s.buffer(512, 1);
    assert!(s.io(commands::read(3, 0, 1, false), buffer).status.is_success());
    for command in [commands::write(3, 0, 1, false), commands::write_zeroes(3, 0, 1, false, false)]
    {
        assert_code(&s.io(command, buffer), StatusCode::NAMESPACE_WRITE_PROTECTED);
    }
}

fn unknown_opcodes_are_refused_and_change_nothing(place: &dyn Place) {
    with_session(place, |s| {
        for opcode in [0x03, 0x04, 0x30, 0x7e, 0x80, 0xc1, 0xff] {
            let mut bytes = [0u8; 64];
            bytes[0] = opcode;
            bytes[1] = 0x40;
            bytes[4] = 1;
            bytes[39] = 0x40;
            let completion = s.client.call(s.io, Command::from_bytes(bytes));
            assert_code(&completion, StatusCode::INVALID_OPCODE);
        }
        s.assert_alive();
    });
}

fn namespaces_are_not_mixed_up(place: &dyn Place) {
    let target = place.target();
    if !target.is_own() {
        return; // only our own target is known to have two
    }
    let mut s = Session::new(&target);
    s.fill_blocks(0, 8, 0x01);
    let buffer = s.buffer(4096, 0x02);
    assert!(s.io(commands::write(2, 0, 1, false), buffer).status.is_success());
    assert_eq!(s.read_blocks(0, 8), vec![1; 4096]);
    assert!(s.io(commands::read(2, 0, 1, false), buffer).status.is_success());
    assert_eq!(s.client.read(buffer), vec![2; 4096]);
}

fn a_full_queue_is_served_whatever_the_order_of_completions(place: &dyn Place) {
    with_session(place, |s| {
        let buffer = s.buffer(31 * s.block_len, 0xdd);
        let mut open = Vec::new();
        for index in 0..31u16 {
            let mut command = commands::write(1, u64::from(index), 1, false);
            command.set_cid(0x100 + index);
            command.set_sgl1(buffer.part(u32::from(index) * s.block_len, s.block_len));
            open.push(0x100 + index);
            s.client.send(s.io, command.as_bytes());
        }
        for _ in 0..31 {
            let completion = s.client.completion(s.io);
            assert!(completion.status.is_success(), "{completion:?}");
            assert!(usize::from(completion.sqhd) < 32);
            open.retain(|cid| *cid != completion.cid);
        }
        assert_eq!(open, []);
        assert_eq!(s.read_blocks(0, 31), vec![0xdd; 31 * s.block_len as usize]);
    });
}

fn more_commands_than_entries_end_the_connection(place: &dyn Place) {
    with_session(place, |s| {
        let buffer = s.buffer(s.max_transfer, 0);
        // Long reads, so that the later commands come before the first is answered.
        for index in 0..100u16 {
            let mut command = commands::read(1, 0, s.max_transfer / s.block_len, false);
            command.set_cid(index);
            command.set_sgl1(buffer.sgl());
            if !s.client.try_send(s.io, command.as_bytes()) {
                return; // the connection has ended already
            }
        }
        let mut answers = 0;
        while let Heard::Completion(..) = s.client.hear(s.io) {
            answers += 1;
            if answers == 100 {
                return; // the target was quicker than we: no more than allowed were outstanding
            }
        }
    });
}
