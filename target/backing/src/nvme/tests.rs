//! Commands as the device and the kernel see them, and what identify data leads to.

use super::command::{Data, identify, next};
use super::identify::{QueueLimits, Unfit, facts};
use super::*;
use crate::{Geometry, IoOp};
use nvme_spec_types::identify::{
    Cns, DeallocateFeatures, FormattedLba, Identify, IdentifyController, IdentifyControllerNvm,
    IdentifyNamespace, LbaFormat, NamespaceAttributes, NamespaceFeatures, OptionalNvmCommands,
    VolatileWriteCache,
};
use nvme_spec_types::nvm::{BlockCommand, BlockFlags, DsmRange};
use nvme_spec_types::{IoOpcode, ZeroBased};

const MIB: u64 = 1 << 20;

const LIMITS: Limits = Limits {
    block_shift: 12,
    transfer: 512 << 10,
    zeroes: 2 << 20,
    zeroes_deallocate: true,
    discard: 64 << 20,
};

/// All commands of an operation, with the bytes each covers.
fn commands(limits: Limits, op: IoOp, offset: u64, len: u64) -> Vec<(Piece, u64)> {
    let mut done = 0;
    let mut all = Vec::new();
    while done < len {
        let piece = next(7, &limits, op, offset + done, len - done, 256 << 10).unwrap();
        all.push((piece, offset + done));
        done += piece.covers;
    }
    assert_eq!(done, len, "no more than was asked for");
    all
}

#[test]
fn a_large_transfer_is_split_at_what_the_device_takes() {
    for (op, opcode) in [(IoOp::Read, IoOpcode::READ), (IoOp::Write { fua: true }, IoOpcode::WRITE)]
    {
        let all = commands(LIMITS, op, 5 * MIB, MIB + 4096);
        let sizes: Vec<u64> = all.iter().map(|(piece, _)| piece.covers).collect();
        assert_eq!(sizes, [512 << 10, 512 << 10, 4096]);
        for (piece, offset) in all {
            let command = piece.command();
            let block = BlockCommand::from_command(command);
            assert_eq!((command.io_opcode(), command.nsid()), (opcode, 7));
            assert_eq!(block.slba, offset / 4096);
            assert_eq!(u64::from(block.nlb.count()) * 4096, piece.covers);
            let fua = block.flags.contains(BlockFlags::FORCE_UNIT_ACCESS);
            assert_eq!(fua, op == IoOp::Write { fua: true });
            assert_eq!(piece.data, Data::Buffer);
        }
    }
}

#[test]
fn zeroes_are_the_device_s_where_it_can_and_written_where_not() {
    let op = IoOp::WriteZeroes { deallocate: true, fua: true };
    let all = commands(LIMITS, op, 0, 3 * MIB);
    assert_eq!(all.len(), 2);
    let (first, _) = all[0];
    let flags = BlockCommand::from_command(first.command()).flags;
    assert_eq!(first.command().io_opcode(), IoOpcode::WRITE_ZEROES);
    assert_eq!(flags, BlockFlags::FORCE_UNIT_ACCESS | BlockFlags::DEALLOCATE);
    assert_eq!(first.data, Data::Nothing);

    let plain = Limits { zeroes_deallocate: false, ..LIMITS };
    let (first, _) = commands(plain, op, 0, MIB)[0];
    let flags = BlockCommand::from_command(first.command()).flags;
    assert_eq!(flags, BlockFlags::FORCE_UNIT_ACCESS, "what the device does not know is not asked");

    let without = Limits { zeroes: 0, ..LIMITS };
    let all = commands(without, op, 0, MIB);
    assert_eq!(all.len(), 4, "as many as the source of zeroes needs");
    let (first, _) = all[0];
    assert_eq!(first.command().io_opcode(), IoOpcode::WRITE);
    assert_eq!(first.data, Data::Zeroes);
    let flags = BlockCommand::from_command(first.command()).flags;
    assert_eq!(flags, BlockFlags::FORCE_UNIT_ACCESS);
}

#[test]
fn deallocation_names_its_range_and_is_nothing_where_the_device_cannot() {
    let (piece, _) = commands(LIMITS, IoOp::Deallocate, 8192, 65536)[0];
    let Data::Range(range) = piece.data else { panic!("{:?}", piece.data) };
    assert_eq!(DsmRange::parse(&range).unwrap(), DsmRange { cattr: 0, nlb: 16, slba: 2 });
    assert_eq!(piece.command().io_opcode(), IoOpcode::DATASET_MANAGEMENT);
    assert_eq!((piece.command().cdw10(), piece.command().cdw11()), (0, 0b100));
    assert_eq!(commands(LIMITS, IoOp::Deallocate, 0, 200 * MIB).len(), 4);

    let without = Limits { discard: 0, ..LIMITS };
    assert!(next(7, &without, IoOp::Deallocate, 0, MIB, 0).is_none());
}

#[test]
fn a_flush_is_one_command_without_a_range() {
    let piece = next(7, &LIMITS, IoOp::Flush, 0, 0, 0).unwrap();
    assert_eq!(piece.command().io_opcode(), IoOpcode::FLUSH);
    assert_eq!((piece.covers, piece.data), (0, Data::Nothing));
    assert_eq!(piece.command().cdw10(), 0);
}

#[test]
fn the_kernel_s_form_has_every_field_at_its_place() {
    let offset = 0x1_2345_6789 << 12;
    let piece = next(7, &LIMITS, IoOp::Write { fua: true }, offset, 8192, 0).unwrap();
    let passed = piece.passed(0x7fff_0000_1000, 8192);
    let mut expected = [0; 80];
    expected[0] = 1;
    expected[4] = 7;
    expected[24..32].copy_from_slice(&0x7fff_0000_1000u64.to_le_bytes());
    expected[36..40].copy_from_slice(&8192u32.to_le_bytes());
    expected[40..48].copy_from_slice(&0x1_2345_6789u64.to_le_bytes());
    expected[48..52].copy_from_slice(&0x4000_0001u32.to_le_bytes());
    assert_eq!(passed, expected);
    assert_eq!(URING_CMD_IO, 0xc048_4e80);

    let ask = Identify { nsid: 7, cns: Cns::NAMESPACE, ..Identify::default() };
    let passed = identify(ask, 0x1000, 4096);
    assert_eq!((passed[0], passed[4], passed[25], passed[37]), (6, 7, 0x10, 0x10));
}

/// A device with everything, of 4096-byte blocks.
fn device() -> (IdentifyController, IdentifyControllerNvm, IdentifyNamespace) {
    let controller = IdentifyController {
        mdts: 7,
        oncs: OptionalNvmCommands::DATASET_MANAGEMENT | OptionalNvmCommands::WRITE_ZEROES,
        vwc: VolatileWriteCache::PRESENT,
        awupf: ZeroBased::<u16>::saturating(4),
        ..Default::default()
    };
    let nvm = IdentifyControllerNvm { wzsl: 5, dmrsl: 1024, ..Default::default() };
    let mut namespace = IdentifyNamespace {
        nsze: 1000,
        flbas: FormattedLba::new(3, false),
        dlfeat: DeallocateFeatures::READS_ZEROES | DeallocateFeatures::WRITE_ZEROES,
        ..Default::default()
    };
    namespace.lbaf[3] = LbaFormat { lbads: 12, ..Default::default() };
    (controller, nvm, namespace)
}

const QUEUE: QueueLimits = QueueLimits { bytes: 1 << 20, segments: 256 };

#[test]
fn a_device_is_offered_as_it_describes_itself() {
    let (controller, nvm, namespace) = device();
    let (geometry, limits) = facts(&controller, Some(&nvm), &namespace, QUEUE).unwrap();
    let expected = Geometry {
        capacity: 4096 * 1000,
        block_size: 4096,
        optimal_io: 4096,
        atomic_write: 16384,
        volatile_cache: true,
        discard: true,
        discard_zeroes: true,
        read_only: false,
    };
    assert_eq!(geometry, expected);
    let expected = Limits {
        block_shift: 12,
        transfer: 512 << 10,
        zeroes: 128 << 10,
        zeroes_deallocate: true,
        discard: 4096 << 10,
    };
    assert_eq!(limits, expected);
}

#[test]
fn a_device_with_nothing_optional_promises_nothing() {
    let (_, _, mut namespace) = device();
    namespace.dlfeat = DeallocateFeatures::READS_ZEROES;
    namespace.nsattr = NamespaceAttributes::WRITE_PROTECTED;
    let controller = IdentifyController::default();
    let (geometry, limits) = facts(&controller, None, &namespace, QUEUE).unwrap();
    assert!(!geometry.discard && !geometry.discard_zeroes && !geometry.volatile_cache);
    assert!(geometry.read_only);
    assert_eq!((limits.zeroes, limits.discard, limits.zeroes_deallocate), (0, 0, false));
}

#[test]
fn a_transfer_is_as_large_as_device_and_kernel_take() {
    let (mut controller, _, namespace) = device();
    let mut of = |mdts, bytes, segments| {
        controller.mdts = mdts;
        facts(&controller, None, &namespace, QueueLimits { bytes, segments }).unwrap().1.transfer
    };
    assert_eq!(of(5, 1 << 20, 256), 128 << 10, "the device's limit");
    assert_eq!(of(0, 1 << 20, 256), 1 << 20, "the kernel's, where the device has none");
    assert_eq!(of(7, 1 << 20, 127), 256 << 10, "the kernel's pieces, a power of two of them");
    assert_eq!(of(0, 0, 0), 128 << 10, "careful where nothing is known");
    assert_eq!(of(0, 6 << 10, 256), 4096, "whole blocks");
}

#[test]
fn an_atomic_unit_with_a_boundary_is_not_promised() {
    let (controller, nvm, mut namespace) = device();
    namespace.nsfeat = NamespaceFeatures::ATOMIC_UNITS;
    namespace.nawupf = ZeroBased::<u16>::saturating(8);
    let (geometry, _) = facts(&controller, Some(&nvm), &namespace, QUEUE).unwrap();
    assert_eq!(geometry.atomic_write, 8 * 4096);
    namespace.nabspf = ZeroBased::<u16>::saturating(8);
    let (geometry, _) = facts(&controller, Some(&nvm), &namespace, QUEUE).unwrap();
    assert_eq!(geometry.atomic_write, 4096);
}

#[test]
fn metadata_and_strange_blocks_are_refused() {
    let (controller, nvm, mut namespace) = device();
    namespace.lbaf[3] = LbaFormat { ms: 8, lbads: 12, rp: 0 };
    let refusal = facts(&controller, Some(&nvm), &namespace, QUEUE);
    assert_eq!(refusal, Err(Unfit::Metadata(8)));
    namespace.lbaf[3] = LbaFormat { ms: 0, lbads: 16, rp: 0 };
    let refusal = facts(&controller, Some(&nvm), &namespace, QUEUE);
    assert_eq!(refusal, Err(Unfit::Blocks(65536)));
}
