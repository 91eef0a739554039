//! I/O commands of the NVM command set.

use crate::layout::Field;
use crate::{Command, IoOpcode, ParseError, SglDescriptor, ZeroBased};

#[cfg(test)]
mod tests;

/// Namespace identifier that means every namespace (Flush, Identify, features).
pub const NSID_ALL: u32 = 0xffff_ffff;

flags! {
    /// Bits 31:16 of dword 12 of commands that name a block range
    /// (NVM 1.1, 3.3). Bits 7:4, the directive type, are
    /// [`BlockFlags::directive_type`].
    pub struct BlockFlags(u16) {
        /// Check the storage tag (STC).
        STORAGE_TAG_CHECK = 8;
        /// Deallocate (DEAC); Write Zeroes only.
        DEALLOCATE = 9;
        /// Check the reference tag (PRCHK bit 0).
        CHECK_REFERENCE_TAG = 10;
        /// Check the application tag (PRCHK bit 1).
        CHECK_APPLICATION_TAG = 11;
        /// Check the guard (PRCHK bit 2).
        CHECK_GUARD = 12;
        /// Insert or strip protection information (PRACT).
        PRACT = 13;
        /// Force unit access (FUA).
        FORCE_UNIT_ACCESS = 14;
        /// Limited retry (LR).
        LIMITED_RETRY = 15;
    }
}

impl BlockFlags {
    /// Directive type (DTYPE), 4 bits; 0 for none.
    pub const fn directive_type(self) -> u8 {
        (self.bits() >> 4) as u8 & 0xf
    }

    /// Whether any of the protection information bits (PRINFO) is set.
    pub const fn has_protection_info(self) -> bool {
        self.bits() >> 10 & 0xf != 0
    }
}

/// Read, Write, Compare, Write Zeroes, Verify and Write Uncorrectable: the
/// commands that name one range of blocks (NVM 1.1, 3.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockCommand {
    /// Starting logical block (SLBA).
    pub slba: u64,
    /// Number of logical blocks (NLB), 1 to 65536.
    pub nlb: ZeroBased<u16>,
    /// Force unit access, limited retry, deallocate and the like.
    pub flags: BlockFlags,
    /// Dataset management hints (DSM), of Read and Write.
    pub dsm: u8,
    /// Directive specific (DSPEC), of Write and Write Uncorrectable.
    pub dspec: u16,
}

impl BlockCommand {
    const SLBA: usize = 40;
    const NLB: usize = 48;
    const FLAGS: usize = 50;
    const DSM: usize = 52;
    const DSPEC: usize = 54;

    /// `count` blocks from `slba`, no flags.
    pub fn new(slba: u64, nlb: ZeroBased<u16>) -> Self {
        Self { slba, nlb, flags: BlockFlags::empty(), dsm: 0, dspec: 0 }
    }

    /// Reads the fields; the opcode is not looked at.
    #[inline]
    pub fn from_command(cmd: &Command) -> Self {
        Self {
            slba: cmd.field(Self::SLBA),
            nlb: cmd.field(Self::NLB),
            flags: cmd.field(Self::FLAGS),
            dsm: cmd.field(Self::DSM),
            dspec: cmd.field(Self::DSPEC),
        }
    }

    /// The command with `opcode`.
    pub fn to_command(&self, opcode: IoOpcode, cid: u16, nsid: u32, sgl: SglDescriptor) -> Command {
        let mut cmd = Command::io(opcode, cid, nsid, sgl);
        cmd.set_field(Self::SLBA, self.slba);
        cmd.set_field(Self::NLB, self.nlb);
        cmd.set_field(Self::FLAGS, self.flags);
        cmd.set_field(Self::DSM, self.dsm);
        cmd.set_field(Self::DSPEC, self.dspec);
        cmd
    }

    /// The block after the last; `None` when that is past 2 to the power of
    /// 64 less 1, where no namespace reaches.
    #[inline]
    pub const fn end(&self) -> Option<u64> {
        self.slba.checked_add(self.nlb.count() as u64)
    }
}

flags! {
    /// Dword 11 of Dataset Management (NVM 1.1, 3.3.3).
    pub struct DsmAttributes(u32) {
        /// Integral dataset for read (IDR).
        INTEGRAL_READ = 0;
        /// Integral dataset for write (IDW).
        INTEGRAL_WRITE = 1;
        /// Deallocate (AD).
        DEALLOCATE = 2;
    }
}

/// The Dataset Management command (NVM 1.1, 3.3.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatasetManagement {
    /// Number of ranges (NR), 1 to 256.
    pub nr: ZeroBased<u8>,
    /// What the ranges are told.
    pub attributes: DsmAttributes,
}

impl DatasetManagement {
    const NR: usize = 40;
    const ATTRIBUTES: usize = 44;

    /// Reads the fields; the opcode is not looked at.
    pub fn from_command(cmd: &Command) -> Self {
        Self { nr: cmd.field(Self::NR), attributes: cmd.field(Self::ATTRIBUTES) }
    }

    /// The command.
    pub fn to_command(&self, cid: u16, nsid: u32, sgl: SglDescriptor) -> Command {
        let mut cmd = Command::io(IoOpcode::DATASET_MANAGEMENT, cid, nsid, sgl);
        cmd.set_field(Self::NR, self.nr);
        cmd.set_field(Self::ATTRIBUTES, self.attributes);
        cmd
    }

    /// Bytes that the ranges take.
    pub const fn data_len(&self) -> usize {
        self.nr.count() as usize * DsmRange::SIZE
    }
}

layout! {
    /// One range of Dataset Management (NVM 1.1, 3.3.3).
    pub struct DsmRange[16] {
        /// Context attributes (CATTR), hints.
        0 => pub cattr: u32,
        /// Length in logical blocks: a count, 0 for none.
        4 => pub nlb: u32,
        /// Starting logical block.
        8 => pub slba: u64,
    }
}

/// The Copy command (NVM 1.1, 3.3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copy {
    /// First logical block of the destination (SDLBA).
    pub sdlba: u64,
    /// Number of source ranges (NR), 1 to 256.
    pub nr: ZeroBased<u8>,
    /// Format of the ranges (DESFMT), 4 bits; see [`CopyRange::parse`].
    pub format: u8,
    /// Protection information of the reads (PRINFOR), 4 bits.
    pub prinfo_read: u8,
    /// Flags of the write.
    pub flags: BlockFlags,
}

impl Copy {
    const SDLBA: usize = 40;
    const NR: usize = 48;
    const FORMAT: usize = 49;
    const FLAGS: usize = 50;

    /// Reads the fields; the opcode is not looked at.
    pub fn from_command(cmd: &Command) -> Self {
        let format: u8 = cmd.field(Self::FORMAT);
        Self {
            sdlba: cmd.field(Self::SDLBA),
            nr: cmd.field(Self::NR),
            format: format & 0xf,
            prinfo_read: format >> 4,
            flags: cmd.field(Self::FLAGS),
        }
    }

    /// The command.
    pub fn to_command(&self, cid: u16, nsid: u32, sgl: SglDescriptor) -> Command {
        let mut cmd = Command::io(IoOpcode::COPY, cid, nsid, sgl);
        cmd.set_field(Self::SDLBA, self.sdlba);
        cmd.set_field(Self::NR, self.nr);
        cmd.set_field(Self::FORMAT, self.format & 0xf | self.prinfo_read << 4);
        cmd.set_field(Self::FLAGS, self.flags);
        cmd
    }

    /// Bytes that the source ranges take; `None` for an unknown format.
    pub const fn data_len(&self) -> Option<usize> {
        match CopyRange::size(self.format) {
            Some(size) => Some(self.nr.count() as usize * size),
            None => None,
        }
    }
}

/// One source range of Copy, of any format (NVM 1.1, 3.3.2). Protection
/// information tags are not kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CopyRange {
    /// Source namespace (SNSID), of formats 2 and 3; 0 in the others, whose
    /// source is the command's namespace.
    pub snsid: u32,
    /// Starting logical block.
    pub slba: u64,
    /// Number of logical blocks, 1 to 65536.
    pub nlb: ZeroBased<u16>,
    /// Source options (SOPT), of formats 2 and 3: bit 15 asks for a fast copy
    /// only.
    pub sopt: u16,
}

impl CopyRange {
    /// Bytes of a range in `format`; `None` past format 3.
    pub const fn size(format: u8) -> Option<usize> {
        match format {
            0 | 2 => Some(32),
            1 | 3 => Some(40),
            _ => None,
        }
    }

    /// Reads a range; `Ok(None)` for an unknown format.
    ///
    /// # Errors
    /// [`ParseError`] when there are fewer bytes than the format has.
    pub fn parse(format: u8, bytes: &[u8]) -> Result<Option<Self>, ParseError> {
        let Some(size) = Self::size(format) else { return Ok(None) };
        ParseError::check(bytes, size)?;
        let named = format >= 2;
        Ok(Some(Self {
            snsid: if named { u32::get(&bytes[0..4]) } else { 0 },
            slba: u64::get(&bytes[8..16]),
            nlb: ZeroBased::get(&bytes[16..18]),
            sopt: if named { u16::get(&bytes[22..24]) } else { 0 },
        }))
    }

    /// Writes a range in `format` to the front of `out`, tags zero, and
    /// returns its size; `None`, with nothing written, for an unknown format
    /// or when `out` is too short.
    pub fn encode(&self, format: u8, out: &mut [u8]) -> Option<usize> {
        let size = Self::size(format)?;
        let out = out.get_mut(..size)?;
        out.fill(0);
        self.slba.put(&mut out[8..16]);
        self.nlb.put(&mut out[16..18]);
        if format >= 2 {
            self.snsid.put(&mut out[0..4]);
            self.sopt.put(&mut out[22..24]);
        }
        Some(size)
    }
}
