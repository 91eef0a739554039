//! From an operation to NVMe commands, and from a command to what io_uring carries.

use super::{Limits, NvmeStore};
use crate::IoOp;
use nvme_spec_types::identify::Identify;
use nvme_spec_types::nvm::{BlockCommand, BlockFlags, DatasetManagement, DsmAttributes, DsmRange};
use nvme_spec_types::{Command, IoOpcode, SglDescriptor, ZeroBased};
use rustix::ioctl::opcode;

/// Bytes of the kernel's form of a command, for io_uring and for ioctl alike.
pub(super) const PASSED_LEN: usize = 72;

/// `NVME_URING_CMD_IO`: what the submission asks of the character device.
pub(crate) const URING_CMD_IO: u32 = opcode::read_write::<[u8; PASSED_LEN]>(b'N', 0x80);

/// The next command of an operation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Piece {
    command: Command,
    /// Bytes of the range that are done with it.
    pub(crate) covers: u64,
    /// What its data is.
    pub(crate) data: Data,
}

/// The data of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Data {
    /// None.
    Nothing,
    /// As many bytes of the operation's buffer as the command covers.
    Buffer,
    /// As many zeroes as it covers.
    Zeroes,
    /// A range of Dataset Management.
    Range(DsmRangeBytes),
}

/// A range of Dataset Management as the device reads it.
pub(crate) type DsmRangeBytes = [u8; DsmRange::SIZE];

/// The command for what is left of an operation: `left` bytes from `offset`, whole blocks. `None`
/// where nothing can be done and nothing was promised: to deallocate, on a device that cannot.
/// At most `zeroes` bytes can be written from a source of zeroes.
pub(crate) fn piece(
    store: &NvmeStore,
    op: IoOp,
    offset: u64,
    left: u64,
    zeroes: u64,
) -> Option<Piece> {
    next(store.nsid, &store.limits, op, offset, left, zeroes)
}

/// As [`piece`], without an open device.
pub(super) fn next(
    nsid: u32,
    limits: &Limits,
    op: IoOp,
    offset: u64,
    left: u64,
    zeroes: u64,
) -> Option<Piece> {
    let at = offset >> limits.block_shift;
    let blocks = |opcode: IoOpcode, covers: u64, flags: BlockFlags, data: Data| {
        let nlb = ZeroBased::<u16>::saturating((covers >> limits.block_shift) as u32);
        let command = BlockCommand { flags, ..BlockCommand::new(at, nlb) };
        let command = command.to_command(opcode, 0, nsid, SglDescriptor::NO_DATA);
        Some(Piece { command, covers, data })
    };
    let durable = |fua: bool| {
        if fua { BlockFlags::FORCE_UNIT_ACCESS } else { BlockFlags::empty() }
    };
    let transfer = left.min(limits.transfer.into());
    match op {
        IoOp::Read => blocks(IoOpcode::READ, transfer, BlockFlags::empty(), Data::Buffer),
        IoOp::Write { fua } => blocks(IoOpcode::WRITE, transfer, durable(fua), Data::Buffer),
        IoOp::Flush => {
            let command = Command::io(IoOpcode::FLUSH, 0, nsid, SglDescriptor::NO_DATA);
            Some(Piece { command, covers: left, data: Data::Nothing })
        }
        IoOp::WriteZeroes { fua, .. } if limits.zeroes == 0 => {
            blocks(IoOpcode::WRITE, transfer.min(zeroes), durable(fua), Data::Zeroes)
        }
        IoOp::WriteZeroes { deallocate, fua } => {
            let mut flags = durable(fua);
            flags.set(BlockFlags::DEALLOCATE, deallocate && limits.zeroes_deallocate);
            blocks(IoOpcode::WRITE_ZEROES, left.min(limits.zeroes), flags, Data::Nothing)
        }
        IoOp::Deallocate if limits.discard == 0 => None,
        IoOp::Deallocate => {
            let covers = left.min(limits.discard);
            let nlb = (covers >> limits.block_shift) as u32;
            let range = DsmRange { cattr: 0, nlb, slba: at };
            let nr = ZeroBased::<u8>::saturating(1);
            let command = DatasetManagement { nr, attributes: DsmAttributes::DEALLOCATE };
            let command = command.to_command(0, nsid, SglDescriptor::NO_DATA);
            Some(Piece { command, covers, data: Data::Range(range.to_bytes()) })
        }
    }
}

impl Piece {
    /// What io_uring carries for it, with the address and the length of its data.
    pub(crate) fn passed(&self, address: u64, len: u32) -> [u8; 80] {
        let mut out = [0; 80];
        out[..PASSED_LEN].copy_from_slice(&passed(&self.command, address, len));
        out
    }

    #[cfg(test)]
    pub(super) fn command(&self) -> &Command {
        &self.command
    }
}

/// Identify in the kernel's form.
pub(super) fn identify(identify: Identify, address: u64, len: u32) -> [u8; PASSED_LEN] {
    passed(&identify.to_command(0, SglDescriptor::NO_DATA), address, len)
}

/// `struct nvme_uring_cmd`, and `struct nvme_passthru_cmd` up to its result: the command's opcode,
/// namespace and dwords at their places, and the data by address where the command has its pointer.
/// The time a command may take is the kernel's own.
fn passed(command: &Command, address: u64, len: u32) -> [u8; PASSED_LEN] {
    const NSID: usize = 4;
    const ADDRESS: usize = 24;
    const DATA_LEN: usize = 36;
    const DWORD_10: usize = 40;
    let mut out = [0; PASSED_LEN];
    out[0] = command.opcode();
    out[NSID..NSID + 4].copy_from_slice(&command.nsid().to_ne_bytes());
    out[ADDRESS..ADDRESS + 8].copy_from_slice(&address.to_ne_bytes());
    out[DATA_LEN..DATA_LEN + 4].copy_from_slice(&len.to_ne_bytes());
    let dwords = [
        command.cdw10(),
        command.cdw11(),
        command.cdw12(),
        command.cdw13(),
        command.cdw14(),
        command.cdw15(),
    ];
    for (place, dword) in out[DWORD_10..].chunks_exact_mut(4).zip(dwords) {
        place.copy_from_slice(&dword.to_ne_bytes());
    }
    out
}
