//! Compare and Write as one fused operation, where a target offers it.

use super::{Case, cases, with_session};
use crate::{Buffer, Place, Session, assert_code};
use initiator::{BareQueue, commands};
use nvme_spec_types::{Command, Completion, StatusCode};

pub(super) const CASES: &[Case] = cases![
    a_fused_pair_compares_and_writes,
    halves_without_each_other_are_aborted,
    a_refused_half_takes_the_other_with_it,
    halves_on_different_blocks_are_invalid,
    counters_raised_by_pairs_from_four_queues_end_exact,
];

/// A case of one session with a usual target, where it offers fused Compare and Write.
fn where_offered(place: &dyn Place, case: impl FnOnce(&mut Session)) {
    with_session(place, |s| {
        if s.identify(1, 0)[522] & 1 != 0 {
            case(s);
        }
    });
}

/// Identifiers of the commands of [`pair`].
const FIRST: u16 = 0x51;
const SECOND: u16 = 0x52;

/// Sends commands with their data in parts of a buffer, one after the other.
fn send(s: &mut Session, queue: BareQueue, cids: [u16; 2], pair: [Command; 2], data: [Buffer; 2]) {
    for ((mut command, cid), data) in pair.into_iter().zip(cids).zip(data) {
        command.set_cid(cid);
        command.set_sgl1(data.sgl());
        s.client.send(queue, command.as_bytes());
    }
}

/// Sends two commands that compare with `old` and write `new`; their completions in the order of
/// the commands.
fn pair(s: &mut Session, commands: [Command; 2], old: u8, new: u8, len: u32) -> [Completion; 2] {
    let buffers = [s.buffer(len, old), s.buffer(len, new)];
    send(s, s.io, [FIRST, SECOND], commands, buffers);
    let mut both = [s.client.completion(s.io), s.client.completion(s.io)];
    both.sort_by_key(|completion| completion.cid);
    assert_eq!(both.map(|completion| completion.cid), [FIRST, SECOND]);
    for buffer in buffers {
        s.client.take_back(s.io, buffer);
    }
    both
}

fn a_fused_pair_compares_and_writes(place: &dyn Place) {
    where_offered(place, |s| {
        s.fill_blocks(0, 4, 1);
        let len = s.block_len;
        let [first, second] = pair(s, commands::compare_and_write(1, 1, 1), 1, 2, len);
        assert!(first.status.is_success() && second.status.is_success(), "{first:?} {second:?}");
        let [first, second] = pair(s, commands::compare_and_write(1, 2, 1), 9, 3, len);
        assert_code(&first, StatusCode::COMPARE_FAILURE);
        assert_code(&second, StatusCode::ABORTED_FAILED_FUSED);
        let blocks: Vec<u8> =
            s.read_blocks(0, 4).chunks(len as usize).map(|block| block[0]).collect();
        assert_eq!(blocks, [1, 2, 1, 1]);
    });
}

fn halves_without_each_other_are_aborted(place: &dyn Place) {
    where_offered(place, |s| {
        s.fill_blocks(0, 1, 1);
        let len = s.block_len;
        let [compare, write] = commands::compare_and_write(1, 0, 1);
        let missing = StatusCode::ABORTED_MISSING_FUSED;
        // A second without a first, and a first before something else.
        let [alone, other] = pair(s, [write, commands::read(1, 0, 1, false)], 7, 0, len);
        assert_code(&alone, missing);
        assert!(other.status.is_success());
        let [alone, other] = pair(s, [compare, commands::read(1, 0, 1, false)], 1, 0, len);
        assert_code(&alone, missing);
        assert!(other.status.is_success());
        assert_eq!(s.read_blocks(0, 1), vec![1; len as usize]);
    });
}

fn a_refused_half_takes_the_other_with_it(place: &dyn Place) {
    where_offered(place, |s| {
        let (len, beyond) = (s.block_len, s.blocks);
        let [first, second] = pair(s, commands::compare_and_write(1, beyond, 1), 0, 0, len);
        assert_code(&first, StatusCode::LBA_OUT_OF_RANGE);
        assert_code(&second, StatusCode::ABORTED_FAILED_FUSED);
        s.fill_blocks(0, 2, 1);
        let [compare, write] = commands::compare_and_write(1, 0, 2);
        let buffers = [s.buffer(2 * len, 1), s.buffer(len, 2)];
        send(s, s.io, [FIRST, SECOND], [compare, write], buffers);
        let mut both = [s.client.completion(s.io), s.client.completion(s.io)];
        both.sort_by_key(|completion| completion.cid);
        assert_code(&both[0], StatusCode::ABORTED_FAILED_FUSED);
        assert_code(&both[1], StatusCode::DATA_SGL_LENGTH_INVALID);
        assert_eq!(s.read_blocks(0, 2), vec![1; 2 * len as usize]);
    });
}

fn halves_on_different_blocks_are_invalid(place: &dyn Place) {
    where_offered(place, |s| {
        s.fill_blocks(0, 2, 1);
        let len = s.block_len;
        let [compare, _] = commands::compare_and_write(1, 0, 1);
        let [_, write] = commands::compare_and_write(1, 1, 1);
        for completion in pair(s, [compare, write], 1, 2, len) {
            assert_code(&completion, StatusCode::INVALID_FIELD);
        }
        assert_eq!(s.read_blocks(0, 2), vec![1; 2 * len as usize]);
    });
}

fn counters_raised_by_pairs_from_four_queues_end_exact(place: &dyn Place) {
    const ROUNDS: u8 = 60;
    where_offered(place, |s| {
        let len = s.block_len;
        s.fill_blocks(0, 1, 0);
        let further = [2, 3, 4].map(|qid| s.join(qid).expect("a further queue"));
        let queues = [s.io, further[0], further[1], further[2]];
        // What each queue believes to be there, and how often it has raised it.
        let mut believed = [0u8; 4];
        let mut raised = 0u8;
        let buffers = queues.map(|queue| [0; 2].map(|_| s.client.buffer(queue, len, 0)));
        while raised < ROUNDS {
            for at in 0..4 {
                s.client.write(buffers[at][0], &vec![believed[at]; len as usize]);
                s.client.write(buffers[at][1], &vec![believed[at] + 1; len as usize]);
                let pair = commands::compare_and_write(1, 0, 1);
                send(s, queues[at], [FIRST, SECOND], pair, buffers[at]);
            }
            for at in 0..4 {
                let both = [s.client.completion(queues[at]), s.client.completion(queues[at])];
                if both.iter().all(|completion| completion.status.is_success()) {
                    raised += 1;
                    believed[at] += 1;
                } else {
                    let failures = both.map(|completion| completion.status.code);
                    assert!(failures.contains(&StatusCode::COMPARE_FAILURE), "{failures:?}");
                    believed[at] = s.read_blocks(0, 1)[0];
                }
            }
        }
        assert_eq!(s.read_blocks(0, 1), vec![raised; len as usize]);
    });
}
