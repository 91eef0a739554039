//! Commands as a host fills them in (NVMe Base 2.1, 5; NVM 1.1, 3.3), without identifier and data
//! descriptor, which [`crate::Host::submit`] adds.
//!
//! Fields are put into their dwords here and not by the wire crate's command structures, which the
//! target reads them with.

use nvme_spec_types::{AdminOpcode, Command, Fuse, IoOpcode, SglDescriptor};

/// Bit 30 of dword 12: Force Unit Access.
const FUA: u32 = 1 << 30;
/// Bit 25 of dword 12 of Write Zeroes: Deallocate.
const DEAC: u32 = 1 << 25;

fn io(opcode: IoOpcode, nsid: u32) -> Command {
    Command::io(opcode, 0, nsid, SglDescriptor::NO_DATA)
}

fn admin(opcode: AdminOpcode, nsid: u32) -> Command {
    Command::admin(opcode, 0, nsid, SglDescriptor::NO_DATA)
}

/// A command on `blocks` logical blocks (1 to 65536) from `slba`.
fn range(opcode: IoOpcode, nsid: u32, slba: u64, blocks: u32, flags: u32) -> Command {
    let mut command = io(opcode, nsid);
    command.set_cdw10(slba as u32);
    command.set_cdw11((slba >> 32) as u32);
    command.set_cdw12((blocks.wrapping_sub(1) & 0xffff) | flags);
    command
}

/// Read.
pub fn read(nsid: u32, slba: u64, blocks: u32, fua: bool) -> Command {
    range(IoOpcode::READ, nsid, slba, blocks, if fua { FUA } else { 0 })
}

/// Write.
pub fn write(nsid: u32, slba: u64, blocks: u32, fua: bool) -> Command {
    range(IoOpcode::WRITE, nsid, slba, blocks, if fua { FUA } else { 0 })
}

/// Compare.
pub fn compare(nsid: u32, slba: u64, blocks: u32) -> Command {
    range(IoOpcode::COMPARE, nsid, slba, blocks, 0)
}

/// The two commands of a fused Compare and Write, to be submitted one right after the other.
pub fn compare_and_write(nsid: u32, slba: u64, blocks: u32) -> [Command; 2] {
    let (mut first, mut second) = (compare(nsid, slba, blocks), write(nsid, slba, blocks, false));
    first.set_fuse(Fuse::First);
    second.set_fuse(Fuse::Second);
    [first, second]
}

/// Verify.
pub fn verify(nsid: u32, slba: u64, blocks: u32, fua: bool) -> Command {
    range(IoOpcode::VERIFY, nsid, slba, blocks, if fua { FUA } else { 0 })
}

/// Copy of `ranges` source ranges (1 to 256) in `format` to the blocks from `sdlba`.
pub fn copy(nsid: u32, sdlba: u64, ranges: u32, format: u8, fua: bool) -> Command {
    let mut command = io(IoOpcode::COPY, nsid);
    command.set_cdw10(sdlba as u32);
    command.set_cdw11((sdlba >> 32) as u32);
    let flags = if fua { FUA } else { 0 };
    command.set_cdw12((ranges.wrapping_sub(1) & 0xff) | u32::from(format & 0xf) << 8 | flags);
    command
}

/// The data of Copy in format 0, or in format 2 with a namespace of the source: each range as
/// (first block, blocks), 32 bytes each.
pub fn copy_ranges(snsid: Option<u32>, ranges: &[(u64, u32)]) -> Vec<u8> {
    let mut out = Vec::with_capacity(ranges.len() * 32);
    for &(slba, blocks) in ranges {
        out.extend_from_slice(&snsid.unwrap_or(0).to_le_bytes());
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&slba.to_le_bytes());
        out.extend_from_slice(&(blocks.wrapping_sub(1) as u16).to_le_bytes());
        out.extend_from_slice(&[0; 14]);
    }
    out
}

/// Write Zeroes.
pub fn write_zeroes(nsid: u32, slba: u64, blocks: u32, deallocate: bool, fua: bool) -> Command {
    let flags = if deallocate { DEAC } else { 0 } | if fua { FUA } else { 0 };
    range(IoOpcode::WRITE_ZEROES, nsid, slba, blocks, flags)
}

/// Flush; `nsid` FFFFFFFFh for all namespaces.
pub fn flush(nsid: u32) -> Command {
    io(IoOpcode::FLUSH, nsid)
}

/// Dataset Management with the Deallocate attribute, for `ranges` ranges (1 to 256).
pub fn deallocate(nsid: u32, ranges: u32) -> Command {
    let mut command = io(IoOpcode::DATASET_MANAGEMENT, nsid);
    command.set_cdw10(ranges.wrapping_sub(1) & 0xff);
    command.set_cdw11(1 << 2);
    command
}

/// The data of Dataset Management: each range as (first block, blocks), 16 bytes each.
pub fn dataset_ranges(ranges: &[(u64, u32)]) -> Vec<u8> {
    let mut out = Vec::with_capacity(ranges.len() * 16);
    for &(slba, blocks) in ranges {
        out.extend_from_slice(&0u32.to_le_bytes());
        out.extend_from_slice(&blocks.to_le_bytes());
        out.extend_from_slice(&slba.to_le_bytes());
    }
    out
}

/// Identify, with `cns` and 4096 bytes of data.
pub fn identify(cns: u8, nsid: u32) -> Command {
    let mut command = admin(AdminOpcode::IDENTIFY, nsid);
    command.set_cdw10(u32::from(cns));
    command
}

/// Get Log Page: `len` bytes (a multiple of 4) of page `lid` from byte `offset`; `retain` leaves
/// the page's asynchronous event masked.
pub fn get_log_page(lid: u8, nsid: u32, offset: u64, len: u32, retain: bool) -> Command {
    let dwords = (len / 4).wrapping_sub(1);
    let mut command = admin(AdminOpcode::GET_LOG_PAGE, nsid);
    command.set_cdw10(u32::from(lid) | u32::from(retain) << 15 | (dwords & 0xffff) << 16);
    command.set_cdw11(dwords >> 16);
    command.set_cdw12(offset as u32);
    command.set_cdw13((offset >> 32) as u32);
    command
}

/// Set Features with a value in dword 11.
pub fn set_features(fid: u8, value: u32) -> Command {
    let mut command = admin(AdminOpcode::SET_FEATURES, 0);
    command.set_cdw10(u32::from(fid));
    command.set_cdw11(value);
    command
}

/// Get Features, current value.
pub fn get_features(fid: u8) -> Command {
    let mut command = admin(AdminOpcode::GET_FEATURES, 0);
    command.set_cdw10(u32::from(fid));
    command
}

/// Abort of command `cid` on queue `sqid`.
pub fn abort(sqid: u16, cid: u16) -> Command {
    let mut command = admin(AdminOpcode::ABORT, 0);
    command.set_cdw10(u32::from(sqid) | u32::from(cid) << 16);
    command
}

/// Asynchronous Event Request.
pub fn async_event() -> Command {
    admin(AdminOpcode::ASYNC_EVENT_REQUEST, 0)
}

/// Keep Alive.
pub fn keep_alive() -> Command {
    admin(AdminOpcode::KEEP_ALIVE, 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_of_one_block_carries_zero_in_nlb() {
        let command = write(1, 0x1_0000_0002, 1, true);
        assert_eq!((command.cdw10(), command.cdw11()), (2, 1));
        assert_eq!(command.cdw12(), 0x4000_0000);
        assert_eq!(write(1, 0, 65536, false).cdw12(), 0xffff);
    }

    #[test]
    fn log_page_lengths_are_zero_based_dwords_over_two_fields() {
        let command = get_log_page(0x70, 0, 1 << 32 | 4, 0x4_0004, true);
        assert_eq!(command.cdw10(), 0x0000_8070);
        assert_eq!((command.cdw11(), command.cdw12(), command.cdw13()), (1, 4, 1));
    }

    #[test]
    fn the_halves_of_a_pair_say_which_they_are() {
        let heads = compare_and_write(1, 0, 1).map(|c| [c.as_bytes()[0], c.as_bytes()[1]]);
        assert_eq!(heads, [[5, 0x41], [1, 0x42]]);
    }

    #[test]
    fn a_copy_range_has_its_blocks_zero_based_behind_its_start() {
        assert_eq!(copy(1, 2, 3, 2, true).cdw12(), 0x4000_0202);
        let bytes = copy_ranges(Some(7), &[(0x10, 8)]);
        assert_eq!(bytes[..8], [7, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(bytes[8..18], [0x10, 0, 0, 0, 0, 0, 0, 0, 7, 0]);
        assert_eq!(bytes[18..], [0; 14]);
    }

    #[test]
    fn a_dataset_range_is_attributes_length_start() {
        let bytes = dataset_ranges(&[(0x10, 8)]);
        assert_eq!(bytes, [0, 0, 0, 0, 8, 0, 0, 0, 0x10, 0, 0, 0, 0, 0, 0, 0]);
    }
}
