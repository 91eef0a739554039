//! Read, Write, Flush, Write Zeroes, Dataset Management, Compare: their way through the states.

use super::*;
use nvme_spec_types::nvm::{DatasetManagement, DsmAttributes, DsmRange, NSID_ALL};

#[test]
fn a_read_goes_from_the_backing_to_the_host() {
    let mut rig = Rig::io();
    let command = blocks(IoOpcode::READ, 8, 8, keyed(4096));
    assert_eq!(rig.capsule(&command, 0), [release(1), Action::Allocate { slot: S0, len: 4096 }]);
    assert_eq!(rig.buffer(S0), [io(S0, IoKind::Read, 4096, 4096, Place::Buffer(0))]);
    assert_eq!(rig.io_done(S0), [respond(S0, completion(9, OK, 1), 4096)]);
    assert_eq!(
        rig.queue.segments(S0),
        [RemoteSegment { addr: 0x10_0000, len: 4096, rkey: 0xabcd }]
    );
    assert_eq!(rig.sent(S0), []);
    assert!(rig.queue.is_drained());
}

#[test]
fn a_write_pulls_before_it_writes() {
    let mut rig = Rig::io();
    let command = blocks(IoOpcode::WRITE, 0, 16, keyed(8192));
    assert_eq!(rig.capsule(&command, 0), [release(1), Action::Allocate { slot: S0, len: 8192 }]);
    assert_eq!(rig.buffer(S0), [Action::Pull(S0)]);
    let write = IoKind::Write { fua: false };
    assert_eq!(rig.pulled(S0), [io(S0, write, 0, 8192, Place::Buffer(0))]);
    assert_eq!(rig.io_done(S0), [respond(S0, completion(9, OK, 1), 0)]);
}

#[test]
fn a_write_in_the_capsule_holds_its_receive_until_it_is_done() {
    let mut rig = Rig::io();
    let command = blocks(IoOpcode::WRITE, 1, 8, in_capsule(0, 4096));
    let write = io(S0, IoKind::Write { fua: false }, 512, 4096, Place::Capsule(0));
    assert_eq!(rig.capsule(&command, 4096), [write]);
    assert_eq!(rig.queue.recv(S0), RecvToken(1));
    assert_eq!(rig.io_done(S0), [release(1), respond(S0, completion(9, OK, 1), 0)]);
}

#[test]
fn a_write_at_an_odd_place_of_the_capsule_is_lifted_into_a_buffer() {
    let mut rig = Rig::io();
    let command = blocks(IoOpcode::WRITE, 1, 1, in_capsule(16, 512));
    assert_eq!(rig.capsule(&command, 528), [Action::Allocate { slot: S0, len: 512 }]);
    assert_eq!(
        rig.buffer(S0),
        [
            Action::Lift { slot: S0, of: S0, from: 16, len: 512, to: 0 },
            release(1),
            io(S0, IoKind::Write { fua: false }, 512, 512, Place::Buffer(0)),
        ]
    );
}

#[test]
fn force_unit_access_reaches_the_backing() {
    let mut rig = Rig::io();
    let write = blocks(IoOpcode::WRITE, 0, 1, in_capsule(0, 512));
    let write = with_flags(&write, BlockFlags::FORCE_UNIT_ACCESS);
    let fua = IoKind::Write { fua: true };
    assert_eq!(rig.capsule(&write, 512), [io(S0, fua, 0, 512, Place::Capsule(0))]);
}

#[test]
fn a_read_with_force_unit_access_flushes_first() {
    let mut rig = Rig::io();
    let read = blocks(IoOpcode::READ, 2, 1, keyed(512));
    rig.capsule(&with_flags(&read, BlockFlags::FORCE_UNIT_ACCESS), 0);
    assert_eq!(rig.buffer(S0), [io(S0, IoKind::Flush, 0, 0, Place::Buffer(0))]);
    assert_eq!(rig.io_done(S0), [io(S0, IoKind::Read, 1024, 512, Place::Buffer(0))]);
    assert_eq!(rig.io_done(S0), [respond(S0, completion(9, OK, 1), 512)]);
}

#[test]
fn a_flush_goes_to_one_namespace_or_to_all() {
    let mut rig = Rig::io();
    let one = Command::io(IoOpcode::FLUSH, 9, 1, SglDescriptor::NO_DATA);
    assert_eq!(rig.capsule(&one, 0), [release(1), io(S0, IoKind::Flush, 0, 0, Place::Buffer(0))]);
    rig.io_done(S0);
    rig.sent(S0);
    let all = Command::io(IoOpcode::FLUSH, 9, NSID_ALL, SglDescriptor::NO_DATA);
    let actions = rig.capsule(&all, 0);
    let backings: Vec<u32> = actions
        .iter()
        .filter_map(|action| match action {
            Action::Io { io, .. } => Some(io.backing.0),
            _ => None,
        })
        .collect();
    assert_eq!(backings, [10, 50]);
    assert_eq!(rig.io_done(S0), []);
    assert_eq!(rig.io_done(S0), [respond(S0, completion(9, OK, 2), 0)]);
}

#[test]
fn a_flush_of_a_namespace_that_is_not_there_is_refused() {
    let mut rig = Rig::io();
    let flush = Command::io(IoOpcode::FLUSH, 9, 2, SglDescriptor::NO_DATA);
    assert_eq!(rig.refused(&flush, 0), StatusCode::INVALID_FIELD.with_dnr());
}

#[test]
fn write_zeroes_moves_no_data_and_is_not_limited_by_the_transfer_size() {
    let mut rig = Rig::io();
    let command = blocks(IoOpcode::WRITE_ZEROES, 0, 1000, SglDescriptor::NO_DATA);
    let flags = BlockFlags::DEALLOCATE | BlockFlags::FORCE_UNIT_ACCESS;
    let kind = IoKind::WriteZeroes { deallocate: true, fua: true };
    assert_eq!(
        rig.capsule(&with_flags(&command, flags), 0),
        [release(1), io(S0, kind, 0, 512_000, Place::Buffer(0))]
    );
    assert_eq!(rig.io_done(S0), [respond(S0, completion(9, OK, 1), 0)]);
}

fn dsm(ranges: u16, attributes: DsmAttributes, sgl: SglDescriptor) -> Command {
    let nr = ZeroBased::<u8>::from_count(ranges).unwrap();
    DatasetManagement { nr, attributes }.to_command(9, 1, sgl)
}

fn ranges(list: &[(u64, u32)]) -> Vec<u8> {
    list.iter().flat_map(|&(slba, nlb)| DsmRange { cattr: 0, nlb, slba }.to_bytes()).collect()
}

#[test]
fn each_range_of_a_deallocate_is_an_operation_of_its_own() {
    let mut rig = Rig::io();
    let command = dsm(3, DsmAttributes::DEALLOCATE, keyed(48));
    assert_eq!(rig.capsule(&command, 0), [release(1), Action::Allocate { slot: S0, len: 48 }]);
    assert_eq!(rig.buffer(S0), [Action::Pull(S0)]);
    let place = Place::Buffer(0);
    assert_eq!(rig.pulled(S0), [Action::Peek { slot: S0, place, len: 48 }]);
    let bytes = ranges(&[(0, 8), (5, 0), (999, 1)]);
    assert_eq!(
        rig.event(|queue, out| queue.on_payload(S0, &bytes, out)),
        [
            io(S0, IoKind::Deallocate, 0, 4096, place),
            io(S0, IoKind::Deallocate, 999 * 512, 512, place),
        ]
    );
    assert_eq!(
        rig.event(|queue, out| {
            let failed = ExecStatus::Failed(StatusCode::WRITE_FAULT.with_dnr());
            queue.on_io_done(S0, failed, out);
        }),
        []
    );
    let fault = completion(9, StatusCode::WRITE_FAULT.with_dnr(), 1);
    assert_eq!(rig.io_done(S0), [respond(S0, fault, 0)]);
}

#[test]
fn a_deallocate_in_the_capsule_is_looked_at_in_place() {
    let mut rig = Rig::io();
    let command = dsm(1, DsmAttributes::DEALLOCATE, in_capsule(32, 16));
    let place = Place::Capsule(32);
    assert_eq!(rig.capsule(&command, 48), [Action::Peek { slot: S0, place, len: 16 }]);
    let bytes = ranges(&[(2, 1)]);
    assert_eq!(
        rig.event(|queue, out| queue.on_payload(S0, &bytes, out)),
        [release(1), io(S0, IoKind::Deallocate, 1024, 512, Place::Buffer(0))]
    );
}

#[test]
fn one_range_outside_undoes_the_whole_deallocate() {
    for outside in [(1000, 1), (u64::MAX, 1), (0, 1001), (999, 2)] {
        let mut rig = Rig::io();
        rig.capsule(&dsm(2, DsmAttributes::DEALLOCATE, in_capsule(0, 32)), 32);
        let bytes = ranges(&[(0, 1), outside]);
        let actions = rig.event(|queue, out| queue.on_payload(S0, &bytes, out));
        let refused = completion(9, StatusCode::LBA_OUT_OF_RANGE.with_dnr(), 1);
        assert_eq!(actions, [release(1), respond(S0, refused, 0)]);
    }
}

/// The view in which the blocks of namespace 1 have 4096 bytes.
fn larger_blocks() -> Arc<SubsystemView> {
    let mut changed = (*view(2, MAX_TRANSFER)).clone();
    let found = &mut changed.namespaces[0];
    let counters = found.counters.clone();
    *found = Arc::new(NamespaceView { lba_shift: 12, counters, limit: None, ..**found });
    Arc::new(changed)
}

#[test]
fn a_command_measured_in_smaller_blocks_is_not_carried_out_in_larger_ones() {
    let invalid = StatusCode::INVALID_NAMESPACE_OR_FORMAT.with_dnr();
    let ended = [respond(S0, completion(9, invalid, 1), 0)];
    // Its buffer was for 2048 bytes, not for 16384.
    let mut rig = Rig::io();
    rig.capsule(&blocks(IoOpcode::READ, 0, 4, keyed(2048)), 0);
    rig.queue.on_publish(&larger_blocks());
    assert_eq!(rig.buffer(S0), ended);
    // While the medium is made to have what is cached.
    let mut rig = Rig::io();
    let read = blocks(IoOpcode::READ, 0, 4, keyed(2048));
    rig.capsule(&with_flags(&read, BlockFlags::FORCE_UNIT_ACCESS), 0);
    rig.buffer(S0);
    rig.queue.on_publish(&larger_blocks());
    assert_eq!(rig.io_done(S0), ended);
    // While its data was on its way.
    let mut rig = Rig::io();
    rig.capsule(&blocks(IoOpcode::WRITE, 0, 4, keyed(2048)), 0);
    rig.buffer(S0);
    rig.queue.on_publish(&larger_blocks());
    assert_eq!(rig.pulled(S0), ended);
}

#[test]
fn nothing_is_deallocated_once_the_namespace_is_read_only() {
    let mut rig = Rig::io();
    rig.capsule(&dsm(1, DsmAttributes::DEALLOCATE, keyed(16)), 0);
    rig.buffer(S0);
    let mut protected = (*view(2, MAX_TRANSFER)).clone();
    let found = &mut protected.namespaces[0];
    *found = Arc::new(NamespaceView {
        read_only: true,
        counters: found.counters.clone(),
        limit: None,
        ..**found
    });
    rig.queue.on_publish(&Arc::new(protected));
    rig.pulled(S0);
    let list = ranges(&[(0, 8)]);
    let actions = rig.event(|queue, out| queue.on_payload(S0, &list, out));
    let status = StatusCode::NAMESPACE_WRITE_PROTECTED.with_dnr();
    assert_eq!(actions, [respond(S0, completion(9, status, 1), 0)]);
}

#[test]
fn hints_without_deallocate_succeed_at_once() {
    let mut rig = Rig::io();
    let command = dsm(256, DsmAttributes::INTEGRAL_READ, keyed(4096));
    assert_eq!(rig.capsule(&command, 0), [release(1), respond(S0, completion(9, OK, 1), 0)]);
    rig.sent(S0);
    let most = dsm(256, DsmAttributes::DEALLOCATE, keyed(4096));
    assert_eq!(rig.capsule(&most, 0)[1], Action::Allocate { slot: S0, len: 4096 });
}

#[test]
fn a_compare_pulls_reads_and_compares() {
    let mut rig = Rig::io();
    let command = blocks(IoOpcode::COMPARE, 0, 1, keyed(512));
    let len = 4096 + 512;
    assert_eq!(rig.capsule(&command, 0), [release(1), Action::Allocate { slot: S0, len }]);
    assert_eq!(rig.buffer(S0), [Action::Pull(S0)]);
    assert_eq!(rig.pulled(S0), [io(S0, IoKind::Read, 0, 512, Place::Buffer(4096))]);
    let (a, b) = (Place::Buffer(0), Place::Buffer(4096));
    assert_eq!(rig.io_done(S0), [Action::Compare { slot: S0, a, b, len: 512 }]);
    let actions = rig.event(|queue, out| queue.on_compared(S0, Some(3), out));
    let failure = completion(9, StatusCode::COMPARE_FAILURE.with_dnr(), 1);
    assert_eq!(actions, [respond(S0, failure, 0)]);
}

#[test]
fn a_compare_with_data_in_the_capsule_reads_into_a_buffer_beside_it() {
    let mut rig = Rig::io();
    let command = blocks(IoOpcode::COMPARE, 0, 1, in_capsule(8, 512));
    assert_eq!(rig.capsule(&command, 520), [Action::Allocate { slot: S0, len: 512 }]);
    assert_eq!(rig.buffer(S0), [io(S0, IoKind::Read, 0, 512, Place::Buffer(0))]);
    let (a, b) = (Place::Capsule(8), Place::Buffer(0));
    assert_eq!(rig.io_done(S0), [Action::Compare { slot: S0, a, b, len: 512 }]);
    let actions = rig.event(|queue, out| queue.on_compared(S0, None, out));
    assert_eq!(actions, [release(1), respond(S0, completion(9, OK, 1), 0)]);
}

#[test]
fn a_failed_operation_is_the_commands_status() {
    let mut rig = Rig::io();
    rig.capsule(&blocks(IoOpcode::READ, 0, 1, keyed(512)), 0);
    rig.buffer(S0);
    let status = StatusCode::UNRECOVERED_READ_ERROR.with_dnr();
    let actions = rig.event(|queue, out| queue.on_io_done(S0, ExecStatus::Failed(status), out));
    assert_eq!(actions, [respond(S0, completion(9, status, 1), 0)]);
}

#[test]
fn counters_tell_commands_bytes_and_errors() {
    let mut rig = Rig::io();
    let view = view(2, MAX_TRANSFER);
    rig.queue.on_publish(&view);
    rig.capsule(&blocks(IoOpcode::READ, 0, 2, keyed(1024)), 0);
    rig.buffer(S0);
    rig.io_done(S0);
    rig.sent(S0);
    rig.capsule(&blocks(IoOpcode::WRITE, 0, 1, in_capsule(0, 512)), 512);
    rig.io_done(S0);
    rig.sent(S0);
    rig.capsule(&blocks(IoOpcode::WRITE, 0, 1, in_capsule(0, 512)), 512);
    let failed = ExecStatus::Failed(StatusCode::WRITE_FAULT.with_dnr());
    rig.event(|queue, out| queue.on_io_done(S0, failed, out));
    let totals = view.namespaces[0].counters[0].totals();
    assert_eq!((totals.read_commands, totals.read_bytes), (1, 1024));
    assert_eq!((totals.write_commands, totals.write_bytes, totals.errors), (1, 512, 1));
}

#[test]
fn blocks_outside_the_namespace_are_refused() {
    for (slba, count) in [(1000, 1), (999, 2), (u64::MAX, 1), (u64::MAX - 1, 4), (0, 1001)] {
        let mut rig = Rig::io();
        for opcode in [IoOpcode::READ, IoOpcode::WRITE, IoOpcode::COMPARE] {
            if count <= 128 {
                let command = blocks(opcode, slba, count, keyed(count * 512));
                let status = rig.refused(&command, 0);
                assert_eq!(status, StatusCode::LBA_OUT_OF_RANGE.with_dnr());
            }
        }
        let zeroes = blocks(IoOpcode::WRITE_ZEROES, slba, count, SglDescriptor::NO_DATA);
        assert_eq!(rig.refused(&zeroes, 0), StatusCode::LBA_OUT_OF_RANGE.with_dnr());
    }
}

#[test]
fn the_last_block_can_be_read() {
    let mut rig = Rig::io();
    let actions = rig.capsule(&blocks(IoOpcode::READ, 999, 1, keyed(512)), 0);
    assert_eq!(actions[1], Action::Allocate { slot: S0, len: 512 });
}

#[test]
fn a_transfer_of_the_largest_size_passes_and_one_block_more_does_not() {
    let mut rig = Rig::io();
    let largest = blocks(IoOpcode::READ, 0, 128, keyed(65536));
    assert_eq!(rig.capsule(&largest, 0)[1], Action::Allocate { slot: S0, len: 65536 });
    let mut rig = Rig::io();
    let over = blocks(IoOpcode::READ, 0, 129, keyed(129 * 512));
    assert_eq!(rig.refused(&over, 0), StatusCode::INVALID_FIELD.with_dnr());
    // The subsystem's own limit holds too.
    rig.queue.on_publish(&view(2, 4096));
    let over = blocks(IoOpcode::WRITE, 0, 9, keyed(9 * 512));
    assert_eq!(rig.refused(&over, 0), StatusCode::INVALID_FIELD.with_dnr());
}

#[test]
fn a_read_only_namespace_is_read_and_never_written() {
    let mut rig = Rig::io();
    let protected = StatusCode::NAMESPACE_WRITE_PROTECTED.with_dnr();
    assert_eq!(rig.refused(&blocks_on(5, IoOpcode::WRITE, 0, 1, keyed(4096)), 0), protected);
    let zeroes = blocks_on(5, IoOpcode::WRITE_ZEROES, 0, 1, SglDescriptor::NO_DATA);
    assert_eq!(rig.refused(&zeroes, 0), protected);
    let mut trim = dsm(1, DsmAttributes::DEALLOCATE, keyed(16));
    trim.set_nsid(5);
    assert_eq!(rig.refused(&trim, 0), protected);
    let read = blocks_on(5, IoOpcode::READ, 0, 1, keyed(4096));
    assert_eq!(rig.capsule(&read, 0)[1], Action::Allocate { slot: S0, len: 4096 });
}

#[test]
fn namespaces_that_are_not_there_are_refused() {
    let mut rig = Rig::io();
    // NN is 1024: up to there ids are valid, if inactive.
    let of = |nsid| blocks_on(nsid, IoOpcode::READ, 0, 1, keyed(512));
    for nsid in [2, 4, 6, 1024] {
        assert_eq!(rig.refused(&of(nsid), 0), StatusCode::INVALID_FIELD.with_dnr());
    }
    for nsid in [0, 1025, NSID_ALL - 1, NSID_ALL] {
        let invalid = StatusCode::INVALID_NAMESPACE_OR_FORMAT.with_dnr();
        assert_eq!(rig.refused(&of(nsid), 0), invalid);
    }
}

#[test]
fn opcodes_that_are_not_offered_are_refused() {
    let mut rig = Rig::io();
    for opcode in 0..=255u8 {
        let known = [0x00, 0x01, 0x02, 0x05, 0x08, 0x09, 0x0c, 0x19, 0x7f];
        if known.contains(&opcode) {
            continue;
        }
        let command = Command::io(IoOpcode(opcode), 9, 1, keyed(512));
        assert_eq!(rig.refused(&command, 0), StatusCode::INVALID_OPCODE.with_dnr());
    }
}

#[test]
fn fused_commands_and_prps_are_refused() {
    let mut rig = Rig::io();
    for fuse in [Fuse::First, Fuse::Second, Fuse::Reserved] {
        let mut command = blocks(IoOpcode::READ, 0, 1, keyed(512));
        command.set_fuse(fuse);
        assert_eq!(rig.refused(&command, 0), StatusCode::INVALID_FIELD.with_dnr());
    }
    for psdt in [Psdt::Prp, Psdt::SglMetadataSgl, Psdt::Reserved] {
        let mut command = blocks(IoOpcode::READ, 0, 1, keyed(512));
        command.set_psdt(psdt);
        assert_eq!(rig.refused(&command, 0), StatusCode::INVALID_FIELD.with_dnr());
    }
}

#[test]
fn a_namespace_that_goes_while_a_command_waits_ends_the_command() {
    let mut rig = Rig::io();
    rig.capsule(&blocks(IoOpcode::READ, 0, 1, keyed(512)), 0);
    let mut gone = (*view(2, MAX_TRANSFER)).clone();
    gone.namespaces.clear();
    rig.queue.on_publish(&Arc::new(gone));
    let status = StatusCode::INVALID_FIELD.with_dnr();
    assert_eq!(rig.buffer(S0), [respond(S0, completion(9, status, 1), 0)]);
}

#[test]
fn views_of_other_subsystems_and_old_ones_are_ignored() {
    let mut rig = Rig::io();
    let mut other = (*view(9, MAX_TRANSFER)).clone();
    other.namespaces.clear();
    other.subsystem = SubsystemRef(8);
    rig.queue.on_publish(&Arc::new(other.clone()));
    other.subsystem = SubsystemRef(7);
    other.generation = 1;
    rig.queue.on_publish(&Arc::new(other));
    let actions = rig.capsule(&blocks(IoOpcode::READ, 0, 1, keyed(512)), 0);
    assert_eq!(actions[1], Action::Allocate { slot: S0, len: 512 });
}

#[test]
fn with_the_write_cache_off_every_write_is_durable() {
    let mut rig = Rig::io();
    let settings = rig.queue.binding().unwrap().settings.clone();
    let write = |rig: &mut Rig| {
        let actions = rig.capsule(&blocks(IoOpcode::WRITE, 0, 8, in_capsule(0, 4096)), 4096);
        rig.io_done(S0);
        rig.sent(S0);
        actions
    };
    for fua in [false, true, false] {
        settings.set_write_through(fua);
        let expected = io(S0, IoKind::Write { fua }, 0, 4096, Place::Capsule(0));
        assert_eq!(write(&mut rig), [expected]);
    }
    settings.set_write_through(true);
    let zeroes = rig.capsule(&blocks(IoOpcode::WRITE_ZEROES, 0, 1, SglDescriptor::NO_DATA), 0);
    let kind = IoKind::WriteZeroes { deallocate: false, fua: true };
    assert!(zeroes.contains(&io(S0, kind, 0, 512, Place::Buffer(0))), "{zeroes:?}");
}
