//! Submission queue entry: the 64 bytes every command starts with.
//!
//! [`Command`] is a copy of those bytes, taken once from the capsule, with
//! accessors that cannot fail. Fields that only some commands have are in the
//! structures of those commands ([`crate::fabrics`] and others), which read
//! themselves from a `Command`.

use core::fmt;

use crate::layout::{Field, get, put};
use crate::{AdminOpcode, FabricsType, IoOpcode, ParseError, SglDescriptor};

/// Bytes of a submission queue entry.
pub const COMMAND_SIZE: usize = 64;

const OPCODE: usize = 0;
const FLAGS: usize = 1;
const CID: usize = 2;
const NSID: usize = 4;
const FCTYPE: usize = 4;
const MPTR: usize = 16;
const SGL1: usize = 24;
const CDW10: usize = 40;

/// A submission queue entry (NVMe Base 2.1, 3.3.3.1, common command format).
///
/// Reserved bits are kept: what is read from a capsule is written back equal.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub struct Command([u8; COMMAND_SIZE]);
const _: () = assert!(size_of::<Command>() == COMMAND_SIZE);

/// Fused operation, bits 1:0 of byte 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fuse {
    /// A command on its own.
    Normal,
    /// First of a fused pair.
    First,
    /// Second of a fused pair.
    Second,
    /// Value 3, which means nothing.
    Reserved,
}

/// PRP or SGL for data transfer, bits 7:6 of byte 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Psdt {
    /// PRPs: not allowed over fabrics.
    Prp,
    /// SGL; the metadata pointer is a buffer address. What RDMA hosts send.
    Sgl,
    /// SGL; the metadata pointer is an SGL segment.
    SglMetadataSgl,
    /// Value 3, which means nothing.
    Reserved,
}

impl Command {
    /// All bytes zero.
    pub const ZERO: Self = Self([0; COMMAND_SIZE]);

    /// Copies a command from the first 64 bytes of a capsule.
    ///
    /// # Errors
    /// [`ParseError`] when there are fewer.
    #[inline]
    pub fn parse(bytes: &[u8]) -> Result<Self, ParseError> {
        match bytes.first_chunk() {
            Some(entry) => Ok(Self(*entry)),
            None => Err(ParseError { needed: COMMAND_SIZE, got: bytes.len() }),
        }
    }

    /// Takes a command as it stands.
    #[inline]
    pub const fn from_bytes(bytes: [u8; COMMAND_SIZE]) -> Self {
        Self(bytes)
    }

    /// The command as it goes on the wire.
    #[inline]
    pub const fn as_bytes(&self) -> &[u8; COMMAND_SIZE] {
        &self.0
    }

    /// An admin command for `nsid` (0 where none is used) that transfers what
    /// `sgl` names, with PSDT set for an SGL and everything else zero.
    pub fn admin(opcode: AdminOpcode, cid: u16, nsid: u32, sgl: SglDescriptor) -> Self {
        Self::with_opcode(opcode.0, cid, nsid, sgl)
    }

    /// An I/O command; see [`Command::admin`].
    pub fn io(opcode: IoOpcode, cid: u16, nsid: u32, sgl: SglDescriptor) -> Self {
        Self::with_opcode(opcode.0, cid, nsid, sgl)
    }

    /// A Fabrics command; see [`Command::admin`]. Bytes 4 to 7 hold its type
    /// and not a namespace.
    pub fn fabrics(fctype: FabricsType, cid: u16, sgl: SglDescriptor) -> Self {
        Self::with_opcode(AdminOpcode::FABRICS.0, cid, u32::from(fctype.0), sgl)
    }

    fn with_opcode(opcode: u8, cid: u16, nsid: u32, sgl: SglDescriptor) -> Self {
        let mut command = Self::ZERO;
        command.0[OPCODE] = opcode;
        command.set_psdt(Psdt::Sgl);
        command.set_cid(cid);
        command.set_nsid(nsid);
        command.set_sgl1(sgl);
        command
    }

    /// Opcode (OPC), byte 0, whatever the queue.
    #[inline]
    pub const fn opcode(&self) -> u8 {
        self.0[OPCODE]
    }

    /// The opcode as an admin queue reads it.
    #[inline]
    pub const fn admin_opcode(&self) -> AdminOpcode {
        AdminOpcode(self.0[OPCODE])
    }

    /// The opcode as an I/O queue reads it.
    #[inline]
    pub const fn io_opcode(&self) -> IoOpcode {
        IoOpcode(self.0[OPCODE])
    }

    /// Fabrics command type, byte 4, when the opcode is 7Fh.
    #[inline]
    pub fn fabrics_type(&self) -> Option<FabricsType> {
        (self.0[OPCODE] == AdminOpcode::FABRICS.0).then_some(FabricsType(self.0[FCTYPE]))
    }

    /// Fused operation (FUSE).
    #[inline]
    pub const fn fuse(&self) -> Fuse {
        match self.0[FLAGS] & 0b11 {
            0 => Fuse::Normal,
            1 => Fuse::First,
            2 => Fuse::Second,
            _ => Fuse::Reserved,
        }
    }

    /// Sets FUSE.
    pub fn set_fuse(&mut self, fuse: Fuse) {
        let bits = match fuse {
            Fuse::Normal => 0,
            Fuse::First => 1,
            Fuse::Second => 2,
            Fuse::Reserved => 3,
        };
        self.0[FLAGS] = self.0[FLAGS] & !0b11 | bits;
    }

    /// PRP or SGL for data transfer (PSDT).
    #[inline]
    pub const fn psdt(&self) -> Psdt {
        match self.0[FLAGS] >> 6 {
            0 => Psdt::Prp,
            1 => Psdt::Sgl,
            2 => Psdt::SglMetadataSgl,
            _ => Psdt::Reserved,
        }
    }

    /// Sets PSDT.
    pub fn set_psdt(&mut self, psdt: Psdt) {
        let bits = match psdt {
            Psdt::Prp => 0,
            Psdt::Sgl => 1,
            Psdt::SglMetadataSgl => 2,
            Psdt::Reserved => 3,
        };
        self.0[FLAGS] = self.0[FLAGS] & 0x3f | bits << 6;
    }

    /// Command identifier (CID).
    #[inline]
    pub fn cid(&self) -> u16 {
        get(&self.0, CID)
    }

    /// Sets the command identifier.
    #[inline]
    pub fn set_cid(&mut self, cid: u16) {
        put(&mut self.0, CID, cid);
    }

    /// Namespace identifier (NSID): 0 none, FFFFFFFFh all.
    #[inline]
    pub fn nsid(&self) -> u32 {
        get(&self.0, NSID)
    }

    /// Sets the namespace identifier.
    #[inline]
    pub fn set_nsid(&mut self, nsid: u32) {
        put(&mut self.0, NSID, nsid);
    }

    /// Metadata pointer (MPTR).
    #[inline]
    pub fn mptr(&self) -> u64 {
        get(&self.0, MPTR)
    }

    /// The command's SGL descriptor (SGL1), bytes 24 to 39.
    #[inline]
    pub fn sgl1(&self) -> SglDescriptor {
        get(&self.0, SGL1)
    }

    /// Sets SGL1.
    #[inline]
    pub fn set_sgl1(&mut self, sgl: SglDescriptor) {
        put(&mut self.0, SGL1, sgl);
    }

    /// Command dword 2.
    #[inline]
    pub fn cdw2(&self) -> u32 {
        get(&self.0, 8)
    }

    /// Command dword 3.
    #[inline]
    pub fn cdw3(&self) -> u32 {
        get(&self.0, 12)
    }

    /// Sets command dword 2.
    #[inline]
    pub fn set_cdw2(&mut self, value: u32) {
        put(&mut self.0, 8, value);
    }

    /// Sets command dword 3.
    #[inline]
    pub fn set_cdw3(&mut self, value: u32) {
        put(&mut self.0, 12, value);
    }

    /// Reads a field of a particular command at byte `at`.
    #[inline]
    pub(crate) fn field<T: Field>(&self, at: usize) -> T {
        get(&self.0, at)
    }

    /// Writes a field of a particular command at byte `at`.
    #[inline]
    pub(crate) fn set_field<T: Field>(&mut self, at: usize, value: T) {
        put(&mut self.0, at, value);
    }
}

macro_rules! dwords {
    ($($n:literal $get:ident $set:ident),*) => {
        impl Command {$(
            #[doc = concat!("Command dword ", stringify!($n), ".")]
            #[inline]
            pub fn $get(&self) -> u32 {
                get(&self.0, CDW10 + ($n - 10) * 4)
            }
            #[doc = concat!("Sets command dword ", stringify!($n), ".")]
            #[inline]
            pub fn $set(&mut self, value: u32) {
                put(&mut self.0, CDW10 + ($n - 10) * 4, value);
            }
        )*}
    };
}
dwords!(10 cdw10 set_cdw10, 11 cdw11 set_cdw11, 12 cdw12 set_cdw12,
        13 cdw13 set_cdw13, 14 cdw14 set_cdw14, 15 cdw15 set_cdw15);

impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Command")
            .field("opcode", &format_args!("{:#04x}", self.opcode()))
            .field("fuse", &self.fuse())
            .field("psdt", &self.psdt())
            .field("cid", &self.cid())
            .field("nsid", &format_args!("{:#x}", self.nsid()))
            .field("sgl1", &self.sgl1())
            .field(
                "cdw10_15",
                &format_args!(
                    "{:08x} {:08x} {:08x} {:08x} {:08x} {:08x}",
                    self.cdw10(),
                    self.cdw11(),
                    self.cdw12(),
                    self.cdw13(),
                    self.cdw14(),
                    self.cdw15()
                ),
            )
            .finish()
    }
}

#[cfg(test)]
mod tests;
