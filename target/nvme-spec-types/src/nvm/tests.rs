use super::*;
use crate::testing::hex;
use proptest::prelude::*;

fn command(digits: &str) -> Command {
    Command::parse(&hex(digits)).unwrap()
}

// Captured from Linux 6.1: 4 KiB at LBA 8 of a 512-byte namespace.
#[test]
fn a_read_of_linux_is_decoded_and_rebuilt() {
    let cmd = command(
        "02401200010000000000000000000000000000000000000000b097bf8088ffff
         001000752300004f080000000000000007000000000000000000000000000000",
    );
    let read = BlockCommand::from_command(&cmd);
    assert_eq!((read.slba, read.nlb.count(), read.end()), (8, 8, Some(16)));
    assert_eq!(read.flags, BlockFlags::empty());
    assert_eq!(read.to_command(IoOpcode::READ, 0x12, 1, cmd.sgl1()), cmd);
}

// Captured from Linux 6.1: 64 KiB at LBA 1024.
#[test]
fn a_write_of_linux_is_decoded() {
    let cmd = command(
        "0140120001000000000000000000000000000000000000000000f0018088ffff
         000001782300004f00040000000000007f000000000000000000000000000000",
    );
    let write = BlockCommand::from_command(&cmd);
    assert_eq!((write.slba, write.nlb.count()), (0x400, 128));
    assert_eq!(cmd.sgl1().len(), 64 * 1024);
}

#[test]
fn flags_are_the_top_half_of_dword_12() {
    let mut cmd = Command::ZERO;
    cmd.set_cdw12(1 << 30 | 1 << 25 | 2 << 20 | 0xffff);
    cmd.set_cdw13(0xabcd_0012);
    let block = BlockCommand::from_command(&cmd);
    assert_eq!(block.nlb.count(), 65536);
    assert!(block.flags.contains(BlockFlags::FORCE_UNIT_ACCESS | BlockFlags::DEALLOCATE));
    assert!(!block.flags.contains(BlockFlags::LIMITED_RETRY));
    assert_eq!((block.flags.directive_type(), block.dsm, block.dspec), (2, 0x12, 0xabcd));
    assert!(!block.flags.has_protection_info());
    cmd.set_cdw12(1 << 29);
    assert!(BlockCommand::from_command(&cmd).flags.has_protection_info());
    cmd.set_cdw12(1 << 31);
    assert_eq!(BlockCommand::from_command(&cmd).flags, BlockFlags::LIMITED_RETRY);
}

#[test]
fn a_range_that_wraps_has_no_end() {
    assert_eq!(BlockCommand::new(u64::MAX, ZeroBased::<u16>::from_raw(0)).end(), None);
    assert_eq!(
        BlockCommand::new(u64::MAX - 1, ZeroBased::<u16>::from_raw(0)).end(),
        Some(u64::MAX)
    );
}

#[test]
fn dataset_management_counts_its_ranges() {
    let dsm = DatasetManagement {
        nr: ZeroBased::<u8>::saturating(256),
        attributes: DsmAttributes::DEALLOCATE,
    };
    let cmd = dsm.to_command(1, 1, SglDescriptor::NO_DATA);
    assert_eq!((cmd.cdw10(), cmd.cdw11()), (255, 4));
    assert_eq!(dsm.data_len(), 4096);
    assert_eq!(DatasetManagement::from_command(&cmd), dsm);
    let range = DsmRange { cattr: 0, nlb: 8, slba: 0x1122 };
    assert_eq!(range.to_bytes(), [0, 0, 0, 0, 8, 0, 0, 0, 0x22, 0x11, 0, 0, 0, 0, 0, 0]);
}

#[test]
fn copy_packs_format_and_flags_into_dword_12() {
    let copy = Copy {
        sdlba: 0x1_0000_0000,
        nr: ZeroBased::<u8>::saturating(2),
        format: 2,
        prinfo_read: 0,
        flags: BlockFlags::FORCE_UNIT_ACCESS,
    };
    let cmd = copy.to_command(1, 1, SglDescriptor::NO_DATA);
    assert_eq!((cmd.cdw10(), cmd.cdw11(), cmd.cdw12()), (0, 1, 0x4000_0201));
    assert_eq!(copy.data_len(), Some(64));
    assert_eq!(Copy::from_command(&cmd), copy);
}

#[test]
fn copy_ranges_lie_by_their_format() {
    let range =
        CopyRange { snsid: 7, slba: 0x55, nlb: ZeroBased::<u16>::from_raw(9), sopt: 0x8000 };
    let mut out = [0xee; 40];
    assert_eq!(range.encode(2, &mut out), Some(32));
    assert_eq!(
        out[..32],
        hex("07000000 00000000 5500000000000000 0900 0000 0000 0080 0000000000000000")[..]
    );
    assert_eq!(out[32], 0xee);
    assert_eq!(CopyRange::parse(2, &out), Ok(Some(range)));
    let plain = CopyRange { snsid: 0, sopt: 0, ..range };
    assert_eq!(CopyRange::parse(1, &out), Ok(Some(plain)));
    assert_eq!(CopyRange::parse(4, &out), Ok(None));
    assert_eq!(CopyRange::parse(3, &out[..39]), Err(ParseError { needed: 40, got: 39 }));
    assert_eq!(range.encode(3, &mut out[..39]), None);
}

proptest! {
    #[test]
    fn any_command_reads_the_same_twice(halves: [[u8; 32]; 2], format in 0u8..8) {
        let cmd = Command::parse(&halves.concat()).unwrap();
        let block = BlockCommand::from_command(&cmd);
        let _ = block.end();
        let again = block.to_command(IoOpcode::READ, 0, 0, SglDescriptor::NO_DATA);
        prop_assert_eq!(BlockCommand::from_command(&again), block);
        let copy = Copy::from_command(&cmd);
        let again = copy.to_command(0, 0, SglDescriptor::NO_DATA);
        prop_assert_eq!(Copy::from_command(&again), copy);
        let dsm = DatasetManagement::from_command(&cmd);
        let again = dsm.to_command(0, 0, SglDescriptor::NO_DATA);
        prop_assert_eq!(DatasetManagement::from_command(&again), dsm);
        if let Ok(Some(range)) = CopyRange::parse(format, cmd.as_bytes()) {
            let mut out = [0; 40];
            range.encode(format, &mut out).unwrap();
            prop_assert_eq!(CopyRange::parse(format, &out), Ok(Some(range)));
        }
    }
}
