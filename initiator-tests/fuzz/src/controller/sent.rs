//! A command as its host knows it: the capsule, and the memory that it names.

use super::op::Op;
use nvme_spec_types::sgl::{KEYED_LEN_MAX, SGL_DESCRIPTOR_SIZE};
use nvme_spec_types::{Command, DataDirection, FabricsType, SglDescriptor};
use nvmf::queue::RemoteSegment;

/// In-capsule data that I/O queues take, in bytes.
pub(super) const IN_CAPSULE: u32 = 8192;
/// Largest transfer of a command, in bytes.
pub(super) const MAX_TRANSFER: u32 = 16384;

/// Memory of the host that a descriptor names.
#[derive(Debug, Clone, Copy)]
struct Memory {
    addr: u64,
    len: u32,
    key: u32,
    invalidate: bool,
    /// Which byte of the command's data is first in it.
    at: u64,
}

/// A command on its way.
#[derive(Debug, Clone)]
pub(super) struct Sent {
    pub(super) command: Command,
    /// What came behind the 64 bytes.
    pub(super) capsule: Vec<u8>,
    payload: Vec<u8>,
    memory: Vec<Memory>,
    /// Data in the capsule: where, and how much.
    inside: Option<(u64, u32)>,
    pub(super) answered: bool,
    /// The generation of the queue's view when it came.
    pub(super) arrived_in: Option<u64>,
    /// Whether everything about it is right as far as the host can see, so that it must succeed
    /// unless something happens; with the generation of the view it was judged by.
    pub(super) sound_in: Option<u64>,
}

impl Sent {
    /// The command with so many bytes behind it, whose data is `payload` where it is in memory.
    pub(super) fn new(command: Command, capsule: Vec<u8>, payload: Vec<u8>) -> Sent {
        let mut sent = Sent {
            command,
            capsule,
            payload,
            memory: Vec::new(),
            inside: None,
            answered: false,
            arrived_in: None,
            sound_in: None,
        };
        match command.sgl1() {
            SglDescriptor::InCapsule { offset, len } => sent.inside = Some((offset, len)),
            SglDescriptor::LastSegment { offset, len } => {
                let end = offset.saturating_add(u64::from(len));
                let list = sent.capsule.get(offset as usize..end as usize);
                for bytes in list.unwrap_or_default().to_vec().chunks_exact(SGL_DESCRIPTOR_SIZE) {
                    sent.give(bytes);
                }
            }
            _ => sent.give(&command.as_bytes()[24..40]),
        }
        sent
    }

    fn give(&mut self, descriptor: &[u8]) {
        let bytes = descriptor.first_chunk().copied().unwrap_or_default();
        if let SglDescriptor::Keyed { addr, len, key, invalidate } =
            SglDescriptor::from_bytes(&bytes)
        {
            let at = self.memory.last().map_or(0, |m| m.at + u64::from(m.len));
            self.memory.push(Memory { addr, len, key, invalidate, at });
        }
    }

    /// Bytes of the message that brings it.
    pub(super) fn received(&self) -> u32 {
        64 + self.capsule.len() as u32
    }

    /// Bytes of data that its descriptors name, in memory or in the capsule.
    pub(super) fn described(&self) -> u64 {
        let last = self.memory.last().map_or(0, |m| m.at + u64::from(m.len));
        self.inside.map_or(last, |(_, len)| len.into())
    }

    /// The first `len` bytes of the data that the host has for it.
    pub(super) fn data(&self, len: u64) -> Vec<u8> {
        match self.inside {
            Some((at, _)) => {
                let end = at.saturating_add(len) as usize;
                self.capsule.get(at as usize..end).unwrap_or_default().to_vec()
            }
            None => (0..len).map(|at| self.byte(at)).collect(),
        }
    }

    fn byte(&self, at: u64) -> u8 {
        self.payload.get(at as usize).copied().unwrap_or(0xa5 ^ at as u8)
    }

    /// Which bytes of the command's data are in these segments, one after the other: panics when one
    /// is not memory that the host gave.
    fn places(&self, segments: &[RemoteSegment]) -> Vec<(u64, u32)> {
        let place = |segment: &RemoteSegment| {
            let end = u128::from(segment.addr) + u128::from(segment.len);
            let given = |m: &&Memory| {
                m.key == segment.rkey
                    && m.addr <= segment.addr
                    && end <= u128::from(m.addr) + u128::from(m.len)
            };
            let memory = self.memory.iter().find(given);
            let memory =
                memory.unwrap_or_else(|| panic!("{segment:x?} is not memory that the host gave"));
            (memory.at + (segment.addr - memory.addr), segment.len)
        };
        segments.iter().map(place).collect()
    }

    /// What an RDMA READ of these segments brings.
    pub(super) fn pull(&self, segments: &[RemoteSegment]) -> Vec<u8> {
        let places = self.places(segments);
        places
            .iter()
            .flat_map(|&(at, len)| (at..at + u64::from(len)).map(|i| self.byte(i)))
            .collect()
    }

    /// An RDMA WRITE of `len` bytes over these segments: panics when it is not the front of the
    /// command's data, in order.
    pub(super) fn push(&self, segments: &[RemoteSegment], len: u32) {
        let mut next = 0;
        for (at, bytes) in self.places(segments) {
            assert_eq!(at, next, "the data goes to the host out of order");
            next += u64::from(bytes);
        }
        assert!(u64::from(len) <= next, "{len} bytes for the host, who gave room for {next}");
    }

    /// Whether the host asked for this key to be invalidated.
    pub(super) fn invalidates(&self, key: u32) -> bool {
        self.memory.iter().any(|m| m.invalidate && m.key == key && m.len > 0)
    }

    /// Whether its descriptors are all right for `len` bytes of data in that direction.
    pub(super) fn describes(&self, len: u64, direction: DataDirection) -> bool {
        let to_controller = direction == DataDirection::HostToController;
        let there = self.capsule.len().min(IN_CAPSULE as usize) as u64;
        let within = |at: u64, len: u64| at.checked_add(len).is_some_and(|end| end <= there);
        match self.command.sgl1() {
            SglDescriptor::Keyed { .. } => self.described() >= len,
            SglDescriptor::InCapsule { offset, len: room } => {
                to_controller && within(offset, room.into()) && u64::from(room) >= len
            }
            SglDescriptor::LastSegment { offset, len: list } => {
                let count = list as usize / SGL_DESCRIPTOR_SIZE;
                (1..=16).contains(&count)
                    && (list as usize).is_multiple_of(SGL_DESCRIPTOR_SIZE)
                    && within(offset, list.into())
                    && self.memory.len() == count
                    && (len..=u32::MAX.into()).contains(&self.described())
            }
            _ => false,
        }
    }
}

/// Which way a command's data goes, seen from its queue.
pub(super) fn direction(on_io_queue: bool, command: &Command) -> DataDirection {
    match command.fabrics_type() {
        Some(fctype) => FabricsType::direction(fctype),
        None if on_io_queue => command.io_opcode().direction(),
        None => command.admin_opcode().direction(),
    }
}

/// Gives a command a descriptor for its data, mostly a good one, and puts its capsule together.
/// `want` is how many bytes the command moves, `payload` what they are when the host has them.
pub(super) fn describe(op: &mut Op, mut command: Command, payload: Vec<u8>, want: u64) -> Sent {
    let want = want.min(KEYED_LEN_MAX.into()) as u32;
    let addr = match op.below(16) {
        0 => u64::MAX - op.below(1 << 15),
        roll => roll << 32,
    };
    let key = op.roll() as u32;
    let invalidate = op.once_in(4);
    let whole = SglDescriptor::Keyed { addr, len: want, key, invalidate };
    let mut capsule = Vec::new();
    let sgl = match op.byte(5) % 20 {
        0..=5 => whole,
        6..=8 => {
            capsule.clone_from(&payload);
            SglDescriptor::InCapsule { offset: 0, len: want }
        }
        9 => {
            let offset = op.below(600) * 8;
            capsule.resize(offset as usize, 0x5a);
            capsule.extend(&payload);
            SglDescriptor::InCapsule { offset, len: want }
        }
        10..=12 => {
            let count = 1 + op.below(16) as u32;
            let offset = op.below(3) * 16;
            capsule.resize(offset as usize, 0);
            let mut left = want;
            for at in 0..count {
                let part = op.below(u64::from(left) + 1) as u32;
                let len = if at + 1 == count { left } else { part };
                left -= len;
                let addr = addr.wrapping_add(u64::from(at) << 28);
                let key = key.wrapping_add(at);
                let part = SglDescriptor::Keyed { addr, len, key, invalidate: op.once_in(4) };
                capsule.extend(part.to_bytes());
            }
            SglDescriptor::LastSegment { offset, len: count * SGL_DESCRIPTOR_SIZE as u32 }
        }
        13 => {
            // A list with something wrong in it.
            let count = op.below(19) as u32;
            for at in 0..count {
                // No byte of memory is given twice: what it holds would be ambiguous.
                let addr = addr.wrapping_add(u64::from(at) << 28);
                let len = op.below(u64::from(want) + 2) as u32;
                let part = match op.below(8) {
                    0 => SglDescriptor::InCapsule { offset: 0, len },
                    1 => SglDescriptor::DataBlock { addr, len },
                    2 => SglDescriptor::LastSegment { offset: 0, len: 16 },
                    3 => SglDescriptor::Keyed { addr, len: KEYED_LEN_MAX, key, invalidate },
                    _ => SglDescriptor::Keyed { addr, len, key, invalidate },
                };
                capsule.extend(part.to_bytes());
            }
            let len = (count * 16).wrapping_add(op.below(3) as u32 * 8);
            SglDescriptor::LastSegment { offset: op.below(2) * 8, len }
        }
        14 => {
            let len = [0, want.wrapping_sub(1), want + 1, KEYED_LEN_MAX][op.below(4) as usize];
            SglDescriptor::Keyed { addr, len, key, invalidate }
        }
        15 => {
            capsule.clone_from(&payload);
            let offset = [0, 1, u64::MAX - 3, u64::from(IN_CAPSULE)][op.below(4) as usize];
            SglDescriptor::InCapsule { offset, len: want.wrapping_add(op.below(3) as u32) }
        }
        16 => SglDescriptor::NO_DATA,
        17 => SglDescriptor::DataBlock { addr, len: op.below(2) as u32 * want },
        18 => SglDescriptor::Segment { offset: 0, len: 16 },
        _ => {
            let mut bytes = [0; SGL_DESCRIPTOR_SIZE];
            bytes[..8].copy_from_slice(&op.roll().to_le_bytes());
            bytes[8..].copy_from_slice(&op.roll().to_le_bytes());
            SglDescriptor::from_bytes(&bytes)
        }
    };
    // A host that sends data which no descriptor names, or less than it says.
    match op.byte(9) {
        0xf0..=0xf7 => capsule.truncate(op.below(capsule.len() as u64 + 1) as usize),
        0xf8..=0xff => capsule.resize(op.below(9000) as usize, 0xee),
        _ => {}
    }
    command.set_sgl1(sgl);
    let mut bytes = *command.as_bytes();
    // Any byte may be any other.
    if op.byte(12) >= 0xe0 {
        bytes[op.pick(10, 64)] = op.byte(11);
    }
    Sent::new(Command::from_bytes(bytes), capsule, payload)
}
