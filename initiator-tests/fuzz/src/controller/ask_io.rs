//! Commands that a host sends on its I/O queues.

use super::disks::Disks;
use super::op::Op;
use super::sent::{MAX_TRANSFER, Sent, describe};
use nvme_spec_types::nvm::{
    BlockCommand, BlockFlags, Copy, CopyRange, DatasetManagement, DsmAttributes, DsmRange, NSID_ALL,
};
use nvme_spec_types::{Command, Fuse, IoOpcode, SglDescriptor, ZeroBased};
use nvmf::view::SubsystemView;

/// Most often sent, each as often as it is listed.
const OPCODES: [IoOpcode; 16] = [
    IoOpcode::READ,
    IoOpcode::WRITE,
    IoOpcode::READ,
    IoOpcode::WRITE,
    IoOpcode::COMPARE,
    IoOpcode::FLUSH,
    IoOpcode::WRITE_ZEROES,
    IoOpcode::DATASET_MANAGEMENT,
    IoOpcode::VERIFY,
    IoOpcode::COPY,
    IoOpcode::COPY,
    IoOpcode::COMPARE,
    IoOpcode::DATASET_MANAGEMENT,
    IoOpcode::WRITE_UNCORRECTABLE,
    IoOpcode::RESERVATION_REPORT,
    IoOpcode::CANCEL,
];

/// What is there to be asked for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Known<'a> {
    /// The namespaces, as far as the queue knows them.
    pub(super) view: &'a SubsystemView,
    pub(super) disks: &'a Disks,
}

/// A namespace as the host sees it.
#[derive(Debug, Clone, Copy)]
struct Place {
    nsid: u32,
    blocks: u64,
    shift: u8,
}

/// An I/O command.
pub(super) fn io(op: &mut Op, cid: u16, known: Known<'_>) -> Sent {
    let opcode = match op.byte(2) {
        0xf8..=0xff => IoOpcode(op.roll() as u8),
        _ => OPCODES[op.pick(2, OPCODES.len())],
    };
    let place = place(op, known);
    match opcode {
        IoOpcode::DATASET_MANAGEMENT => ranges(op, cid, place),
        IoOpcode::COPY => copy(op, cid, place, known),
        _ => blocks(op, opcode, cid, place, known),
    }
}

/// A Compare and a Write that are one, or nearly.
pub(super) fn pair(op: &mut Op, cids: [u16; 2], known: Known<'_>) -> [Sent; 2] {
    let place = place(op, known);
    let mut first = op.clone();
    let mut compare = blocks(&mut first, IoOpcode::COMPARE, cids[0], place, known);
    if op.byte(10) & 0xf0 == 0xf0 {
        // For other blocks than the Compare.
        op.roll();
    }
    let mut write = blocks(op, IoOpcode::WRITE, cids[1], place, known);
    compare.command.set_fuse(Fuse::First);
    write.command.set_fuse(Fuse::Second);
    [compare, write]
}

fn place(op: &mut Op, known: Known<'_>) -> Place {
    let found = &known.view.namespaces;
    // Mostly one that is there.
    let at = op.pick(4, 4 * found.len() + 1);
    match found.get(at / 4) {
        Some(ns) => Place { nsid: ns.nsid, blocks: ns.block_count, shift: ns.lba_shift },
        None => {
            let nsid = [0, NSID_ALL, 1, 0xffff_fffe][op.below(4) as usize];
            Place { nsid, blocks: 64, shift: 9 }
        }
    }
}

/// How many blocks, and the first of them; mostly of those that there are.
fn range(op: &mut Op, place: Place) -> (u64, u32) {
    let most = u64::from(MAX_TRANSFER) >> place.shift;
    let count = match op.byte(7) % 16 {
        0..=7 => 1 + op.below(4),
        8..=10 => 1 + op.below(most),
        11 => most,
        12 => most + 1,
        13 => 1 + op.below(place.blocks),
        14 => place.blocks,
        _ => 1 + op.below(0x1_0000),
    };
    let last = place.blocks.saturating_sub(count);
    let first = match op.byte(6) % 16 {
        0..=5 => op.below(4).min(last),
        6..=10 => op.below(last + 1),
        11 | 12 => last,
        13 => last + 1,
        14 => place.blocks,
        _ => u64::MAX - op.below(4),
    };
    (first, count.clamp(1, 0x1_0000) as u32)
}

fn blocks(op: &mut Op, opcode: IoOpcode, cid: u16, place: Place, known: Known<'_>) -> Sent {
    let (slba, count) = range(op, place);
    let mut block = BlockCommand::new(slba, ZeroBased::<u16>::from_raw((count - 1) as u16));
    if op.byte(8) & 3 == 0 {
        block.flags = BlockFlags::from_bits_retain(op.roll() as u16 & 0xff3f);
    }
    if op.byte(8) & 0x0c == 0x0c {
        block.flags |= BlockFlags::FORCE_UNIT_ACCESS;
    }
    let mut command = block.to_command(opcode, cid, place.nsid, SglDescriptor::NO_DATA);
    if op.byte(8) >= 0xf8 {
        let odd = [Fuse::First, Fuse::Second, Fuse::Reserved, Fuse::Normal];
        command.set_fuse(odd[op.below(4) as usize]);
    }
    let len = u64::from(count) << place.shift;
    let moves = matches!(opcode, IoOpcode::READ | IoOpcode::WRITE | IoOpcode::COMPARE);
    let want = if moves { len } else { 0 };
    let mut payload = Vec::new();
    if moves && opcode != IoOpcode::READ && len <= 2 * u64::from(MAX_TRANSFER) {
        let found = known.view.namespaces.iter().find(|ns| ns.nsid == place.nsid);
        payload = match found {
            Some(ns) if opcode == IoOpcode::COMPARE && !op.once_in(3) => {
                known.disks.read(ns.backing, slba.saturating_mul(1 << place.shift), len)
            }
            _ => {
                let first = op.roll() as u8;
                (0..len).map(|at| first.wrapping_add((at >> 3) as u8)).collect()
            }
        };
    }
    if !moves && op.byte(5) % 20 < 14 {
        return Sent::new(command, Vec::new(), payload);
    }
    describe(op, command, payload, want)
}

fn ranges(op: &mut Op, cid: u16, place: Place) -> Sent {
    let count = match op.byte(3) >> 4 {
        0..=12 => 1 + op.below(4),
        13 => 256,
        _ => 1 + op.below(256),
    };
    let mut payload = Vec::new();
    for _ in 0..count {
        let (slba, nlb) = range(op, place);
        let nlb = if op.once_in(8) { 0 } else { nlb };
        payload.extend(DsmRange { cattr: 0, nlb, slba }.to_bytes());
    }
    let deallocate = !op.once_in(6);
    let dsm = DatasetManagement {
        nr: ZeroBased::<u8>::saturating(count as u16),
        attributes: if deallocate { DsmAttributes::DEALLOCATE } else { DsmAttributes::empty() },
    };
    let command = dsm.to_command(cid, place.nsid, SglDescriptor::NO_DATA);
    let want = payload.len() as u64;
    describe(op, command, payload, want)
}

fn copy(op: &mut Op, cid: u16, place: Place, known: Known<'_>) -> Sent {
    // All of the first half to the second: more than one portion.
    let (whole, half) = (op.byte(7) >= 0xe0, (place.blocks / 2) as u32);
    let count = match op.byte(3) >> 4 {
        _ if whole => 1,
        0..=13 => 1 + op.below(3),
        _ => 1 + op.below(256),
    };
    let format = [0, 0, 2, 0, 2, 1, 3, 15][op.below(8) as usize];
    let mut payload = Vec::new();
    for _ in 0..count {
        let (slba, nlb) = if whole { (0, half.clamp(1, 0x1_0000)) } else { range(op, place) };
        let from = &known.view.namespaces;
        let snsid = from.get(op.below(8) as usize).map_or(place.nsid, |ns| ns.nsid);
        let range = CopyRange {
            snsid,
            slba,
            nlb: ZeroBased::<u16>::from_raw((nlb - 1) as u16),
            sopt: if op.once_in(16) { 1 << 15 } else { 0 },
        };
        let size = CopyRange::size(format).unwrap_or(32);
        let at = payload.len();
        payload.resize(at + size, 0);
        range.encode(format, &mut payload[at..]);
    }
    let (sdlba, _) = range(op, place);
    let copy = Copy {
        sdlba: if op.once_in(2) && !whole { sdlba } else { place.blocks / 2 },
        nr: ZeroBased::<u8>::saturating(count as u16),
        format,
        prinfo_read: 0,
        flags: BlockFlags::from_bits_retain(if op.once_in(4) {
            op.roll() as u16 & 0xff00
        } else {
            0
        }),
    };
    let command = copy.to_command(cid, place.nsid, SglDescriptor::NO_DATA);
    let want = payload.len() as u64;
    describe(op, command, payload, want)
}

/// The bytes of a block command's range, as the host counts: first byte and length.
pub(super) fn extent(command: &Command, shift: u8) -> (u128, u64) {
    let block = BlockCommand::from_command(command);
    (u128::from(block.slba) << shift, u64::from(block.nlb.count()) << shift)
}
