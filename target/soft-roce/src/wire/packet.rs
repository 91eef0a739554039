//! A whole packet behind the UDP header.

use super::headers::{
    AETH_LEN, Aeth, BTH_LEN, Bth, DETH_LEN, Deth, ICRC_LEN, IMM_LEN, Opcode, RETH_LEN, Reth,
};

/// Why a packet is dropped. Each has a counter of its own at the edge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PacketError {
    /// It ends before its headers do.
    #[error("a packet of {0} bytes ends before its headers do")]
    Short(usize),
    /// The transport version is not 0.
    #[error("unknown transport version")]
    Version,
    /// An opcode that this endpoint does not speak.
    #[error("unknown opcode {0:#04x}")]
    Opcode(u8),
    /// More padding than payload, or a length that is not a multiple of four.
    #[error("wrong padding")]
    Padding,
}

/// A packet taken apart. The ICRC has been checked by whoever had the IP header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Packet<'a> {
    pub(crate) bth: Bth,
    pub(crate) opcode: Opcode,
    pub(crate) deth: Option<Deth>,
    pub(crate) reth: Option<Reth>,
    pub(crate) aeth: Option<Aeth>,
    /// Immediate data, or the key to invalidate.
    pub(crate) imm: u32,
    /// Without padding.
    pub(crate) payload: &'a [u8],
}

impl<'a> Packet<'a> {
    /// Takes apart what follows the UDP header, ICRC included.
    pub(crate) fn parse(datagram: &'a [u8]) -> Result<Packet<'a>, PacketError> {
        let short = PacketError::Short(datagram.len());
        let body_len = datagram.len().checked_sub(ICRC_LEN).ok_or(short)?;
        let body = &datagram[..body_len];
        let (head, rest) = body.split_first_chunk::<BTH_LEN>().ok_or(short)?;
        let bth = Bth::parse(head).ok_or(PacketError::Version)?;
        let opcode = Opcode::from_byte(bth.opcode).ok_or(PacketError::Opcode(bth.opcode))?;
        let mut rest = rest;
        let mut deth = None;
        if opcode.kind == super::headers::Kind::Datagram {
            deth = Some(Deth::parse(take::<DETH_LEN>(&mut rest).ok_or(short)?));
        }
        let mut reth = None;
        if opcode.has_reth() {
            reth = Some(Reth::parse(take::<RETH_LEN>(&mut rest).ok_or(short)?));
        }
        let mut aeth = None;
        if opcode.has_aeth() {
            aeth = Some(Aeth::parse(take::<AETH_LEN>(&mut rest).ok_or(short)?));
        }
        let mut imm = 0;
        if opcode.immediate || opcode.invalidate {
            imm = u32::from_be_bytes(*take::<IMM_LEN>(&mut rest).ok_or(short)?);
        }
        let payload_len =
            rest.len().checked_sub(usize::from(bth.pad)).ok_or(PacketError::Padding)?;
        if !rest.len().is_multiple_of(4) {
            return Err(PacketError::Padding);
        }
        Ok(Packet { bth, opcode, deth, reth, aeth, imm, payload: &rest[..payload_len] })
    }
}

fn take<'a, const N: usize>(rest: &mut &'a [u8]) -> Option<&'a [u8; N]> {
    let (head, tail) = rest.split_first_chunk::<N>()?;
    *rest = tail;
    Some(head)
}

/// Bytes of padding that a payload of `len` bytes needs.
pub(crate) fn pad_len(len: usize) -> usize {
    len.wrapping_neg() & 3
}

/// Length in bytes of a packet with that opcode and payload, from the BTH to the ICRC.
pub(crate) fn packet_len(opcode: Opcode, payload: usize) -> usize {
    BTH_LEN + opcode.extension_len() + payload + pad_len(payload) + ICRC_LEN
}
