//! Scatter gather list descriptors: 16 bytes that say where data is.

use crate::layout::{Field, get, put};

/// Bytes of one descriptor.
pub const SGL_DESCRIPTOR_SIZE: usize = 16;

/// The longest transfer of one keyed descriptor: 24 bits of length.
pub const KEYED_LEN_MAX: u32 = 0x00ff_ffff;

const KIND: usize = 15;
const DATA_BLOCK_ADDRESS: u8 = 0x00;
const DATA_BLOCK_OFFSET: u8 = 0x01;
const SEGMENT_OFFSET: u8 = 0x21;
const LAST_SEGMENT_OFFSET: u8 = 0x31;
const KEYED_ADDRESS: u8 = 0x40;
const KEYED_INVALIDATE: u8 = 0x4f;

/// One SGL descriptor (NVMe Base 2.1, 4.3.2; the forms that RDMA uses are in
/// RDMA Transport 1.1, "SGL descriptors").
///
/// A command without data carries [`SglDescriptor::NO_DATA`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SglDescriptor {
    /// Keyed data block: host memory named by a remote key.
    Keyed {
        /// Host virtual address.
        addr: u64,
        /// Length in bytes, 24 bits; the encoder drops what is above.
        len: u32,
        /// Remote key.
        key: u32,
        /// The host asks for the key to be invalidated by the response
        /// (subtype Fh).
        invalidate: bool,
    },
    /// Data block with offset: data inside the capsule.
    InCapsule {
        /// Bytes from the start of the in-capsule data area (after ICDOFF).
        offset: u64,
        /// Length in bytes.
        len: u32,
    },
    /// Data block by address: memory transports only.
    DataBlock {
        /// Host physical address.
        addr: u64,
        /// Length in bytes.
        len: u32,
    },
    /// Further descriptors inside the capsule, with another segment after.
    Segment {
        /// Bytes from the start of the in-capsule data area.
        offset: u64,
        /// Length of the descriptor array in bytes.
        len: u32,
    },
    /// Further descriptors inside the capsule, and no segment after.
    LastSegment {
        /// Bytes from the start of the in-capsule data area.
        offset: u64,
        /// Length of the descriptor array in bytes: a multiple of 16 if the
        /// host is right.
        len: u32,
    },
    /// Any other type and subtype, kept as it came.
    Unknown {
        /// The descriptor; byte 15 holds type (high) and subtype (low nibble).
        bytes: [u8; SGL_DESCRIPTOR_SIZE],
    },
}

impl SglDescriptor {
    /// What a command without data carries: an empty keyed descriptor.
    pub const NO_DATA: Self = Self::Keyed { addr: 0, len: 0, key: 0, invalidate: false };

    /// Reads a descriptor. Total: what is not understood is
    /// [`SglDescriptor::Unknown`].
    #[inline(always)] // where one form is looked for, the others are gone
    pub fn from_bytes(bytes: &[u8; SGL_DESCRIPTOR_SIZE]) -> Self {
        let first: u64 = get(bytes, 0);
        let len: u32 = get(bytes, 8);
        match bytes[KIND] {
            kind @ (KEYED_ADDRESS | KEYED_INVALIDATE) => Self::Keyed {
                addr: first,
                len: len & KEYED_LEN_MAX,
                key: get(bytes, 11),
                invalidate: kind == KEYED_INVALIDATE,
            },
            DATA_BLOCK_OFFSET => Self::InCapsule { offset: first, len },
            DATA_BLOCK_ADDRESS => Self::DataBlock { addr: first, len },
            SEGMENT_OFFSET => Self::Segment { offset: first, len },
            LAST_SEGMENT_OFFSET => Self::LastSegment { offset: first, len },
            _ => Self::Unknown { bytes: *bytes },
        }
    }

    /// The descriptor as it goes on the wire.
    #[inline]
    pub fn to_bytes(&self) -> [u8; SGL_DESCRIPTOR_SIZE] {
        let mut out = [0; SGL_DESCRIPTOR_SIZE];
        let (kind, first, len) = match *self {
            Self::Keyed { addr, len, key, invalidate } => {
                // The key is written over the length's fourth byte.
                put(&mut out, 0, addr);
                put(&mut out, 8, len);
                put(&mut out, 11, key);
                out[KIND] = if invalidate { KEYED_INVALIDATE } else { KEYED_ADDRESS };
                return out;
            }
            Self::Unknown { bytes } => return bytes,
            Self::InCapsule { offset, len } => (DATA_BLOCK_OFFSET, offset, len),
            Self::DataBlock { addr, len } => (DATA_BLOCK_ADDRESS, addr, len),
            Self::Segment { offset, len } => (SEGMENT_OFFSET, offset, len),
            Self::LastSegment { offset, len } => (LAST_SEGMENT_OFFSET, offset, len),
        };
        put(&mut out, 0, first);
        put(&mut out, 8, len);
        out[KIND] = kind;
        out
    }

    /// Length field in bytes: of data, or of the descriptor array a segment
    /// names. 0 for [`SglDescriptor::Unknown`].
    #[inline]
    pub const fn len(&self) -> u32 {
        match *self {
            Self::Keyed { len, .. }
            | Self::InCapsule { len, .. }
            | Self::DataBlock { len, .. }
            | Self::Segment { len, .. }
            | Self::LastSegment { len, .. } => len,
            Self::Unknown { .. } => 0,
        }
    }

    /// Whether the length is 0.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Type, the high nibble of byte 15: 0 data block, 1 bit bucket, 2
    /// segment, 3 last segment, 4 keyed, 5 transport, Fh vendor.
    pub const fn descriptor_type(&self) -> u8 {
        self.kind() >> 4
    }

    /// Subtype, the low nibble of byte 15: 0 address, 1 offset, Fh (keyed)
    /// invalidate.
    pub const fn subtype(&self) -> u8 {
        self.kind() & 0xf
    }

    const fn kind(&self) -> u8 {
        match *self {
            Self::Keyed { invalidate: false, .. } => KEYED_ADDRESS,
            Self::Keyed { invalidate: true, .. } => KEYED_INVALIDATE,
            Self::InCapsule { .. } => DATA_BLOCK_OFFSET,
            Self::DataBlock { .. } => DATA_BLOCK_ADDRESS,
            Self::Segment { .. } => SEGMENT_OFFSET,
            Self::LastSegment { .. } => LAST_SEGMENT_OFFSET,
            Self::Unknown { bytes } => bytes[KIND],
        }
    }
}

impl Field for SglDescriptor {
    const SIZE: usize = SGL_DESCRIPTOR_SIZE;
    #[inline(always)]
    fn get(bytes: &[u8]) -> Self {
        let mut descriptor = [0; SGL_DESCRIPTOR_SIZE];
        descriptor.copy_from_slice(bytes);
        Self::from_bytes(&descriptor)
    }
    #[inline]
    fn put(&self, out: &mut [u8]) {
        out.copy_from_slice(&self.to_bytes());
    }
}

#[cfg(test)]
mod tests;
