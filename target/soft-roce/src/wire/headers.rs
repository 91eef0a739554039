//! The transport headers (InfiniBand Architecture vol. 1, chapter 9).

use crate::psn::Psn;

/// Length of the base transport header in bytes.
pub(crate) const BTH_LEN: usize = 12;
/// Length of the RDMA extended transport header in bytes.
pub(crate) const RETH_LEN: usize = 16;
/// Length of the ACK extended transport header in bytes.
pub(crate) const AETH_LEN: usize = 4;
/// Length of the datagram extended transport header in bytes.
pub(crate) const DETH_LEN: usize = 8;
/// Length of immediate data, and of the invalidate header, in bytes.
pub(crate) const IMM_LEN: usize = 4;
/// Length of the invariant CRC in bytes.
pub(crate) const ICRC_LEN: usize = 4;
/// The default partition, full membership.
pub(crate) const DEFAULT_PKEY: u16 = 0xffff;

/// What kind of message a packet belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Send,
    Write,
    ReadRequest,
    ReadResponse,
    Acknowledge,
    Datagram,
}

/// Where in its message a packet stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    First,
    Middle,
    Last,
    Only,
}

impl Part {
    /// Whether the packet begins a message.
    pub(crate) fn begins(self) -> bool {
        matches!(self, Part::First | Part::Only)
    }

    /// Whether the packet ends a message.
    pub(crate) fn ends(self) -> bool {
        matches!(self, Part::Last | Part::Only)
    }

    /// The part that packet `index` of `count` plays.
    pub(crate) fn of(index: u32, count: u32) -> Part {
        match (index == 0, index + 1 == count) {
            (true, true) => Part::Only,
            (true, false) => Part::First,
            (false, true) => Part::Last,
            (false, false) => Part::Middle,
        }
    }
}

/// An opcode we understand, taken apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Opcode {
    pub(crate) kind: Kind,
    pub(crate) part: Part,
    /// Carries immediate data (ImmDt).
    pub(crate) immediate: bool,
    /// Carries a key to invalidate (IETH).
    pub(crate) invalidate: bool,
}

const fn op(kind: Kind, part: Part, immediate: bool, invalidate: bool) -> Opcode {
    Opcode { kind, part, immediate, invalidate }
}

/// Every opcode we understand, with its number (table 38).
const OPCODES: [(u8, Opcode); 22] = [
    (0x00, op(Kind::Send, Part::First, false, false)),
    (0x01, op(Kind::Send, Part::Middle, false, false)),
    (0x02, op(Kind::Send, Part::Last, false, false)),
    (0x03, op(Kind::Send, Part::Last, true, false)),
    (0x04, op(Kind::Send, Part::Only, false, false)),
    (0x05, op(Kind::Send, Part::Only, true, false)),
    (0x16, op(Kind::Send, Part::Last, false, true)),
    (0x17, op(Kind::Send, Part::Only, false, true)),
    (0x06, op(Kind::Write, Part::First, false, false)),
    (0x07, op(Kind::Write, Part::Middle, false, false)),
    (0x08, op(Kind::Write, Part::Last, false, false)),
    (0x09, op(Kind::Write, Part::Last, true, false)),
    (0x0a, op(Kind::Write, Part::Only, false, false)),
    (0x0b, op(Kind::Write, Part::Only, true, false)),
    (0x0c, op(Kind::ReadRequest, Part::Only, false, false)),
    (0x0d, op(Kind::ReadResponse, Part::First, false, false)),
    (0x0e, op(Kind::ReadResponse, Part::Middle, false, false)),
    (0x0f, op(Kind::ReadResponse, Part::Last, false, false)),
    (0x10, op(Kind::ReadResponse, Part::Only, false, false)),
    (0x11, op(Kind::Acknowledge, Part::Only, false, false)),
    (0x64, op(Kind::Datagram, Part::Only, false, false)),
    (0x65, op(Kind::Datagram, Part::Only, true, false)),
];

/// The same, to be looked up.
const BY_NUMBER: [Option<Opcode>; 256] = {
    let mut table = [None; 256];
    let mut at = 0;
    while at < OPCODES.len() {
        table[OPCODES[at].0 as usize] = Some(OPCODES[at].1);
        at += 1;
    }
    table
};

/// Congestion notification packet (annex 17).
pub(crate) const OPCODE_CNP: u8 = 0x81;

impl Opcode {
    /// The opcode of that number, if we understand it.
    pub(crate) fn from_byte(byte: u8) -> Option<Opcode> {
        BY_NUMBER[usize::from(byte)]
    }

    /// Its number.
    pub(crate) fn to_byte(self) -> u8 {
        let found = OPCODES.iter().find(|(_, opcode)| *opcode == self);
        found.map(|(number, _)| *number).expect("an opcode that exists")
    }

    /// A packet of a plain message.
    pub(crate) fn plain(kind: Kind, part: Part) -> Opcode {
        op(kind, part, false, false)
    }

    /// Whether a RETH follows the BTH.
    pub(crate) fn has_reth(self) -> bool {
        self.kind == Kind::ReadRequest || (self.kind == Kind::Write && self.part.begins())
    }

    /// Whether an AETH follows the BTH.
    pub(crate) fn has_aeth(self) -> bool {
        self.kind == Kind::Acknowledge
            || (self.kind == Kind::ReadResponse && self.part != Part::Middle)
    }

    /// Bytes of headers after the BTH.
    pub(crate) fn extension_len(self) -> usize {
        let deth = if self.kind == Kind::Datagram { DETH_LEN } else { 0 };
        let reth = if self.has_reth() { RETH_LEN } else { 0 };
        let aeth = if self.has_aeth() { AETH_LEN } else { 0 };
        let imm = if self.immediate || self.invalidate { IMM_LEN } else { 0 };
        deth + reth + aeth + imm
    }
}

/// Base transport header, less what it always is (version 0, migration 0).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bth {
    pub(crate) opcode: u8,
    /// Solicited event.
    pub(crate) solicited: bool,
    /// Bytes of padding behind the payload, 0 to 3.
    pub(crate) pad: u8,
    pub(crate) pkey: u16,
    /// Backward congestion notification.
    pub(crate) becn: bool,
    /// Destination queue pair number, 24 bits.
    pub(crate) dest_qpn: u32,
    /// The sender wants an acknowledgement.
    pub(crate) ack_req: bool,
    pub(crate) psn: Psn,
}

impl Bth {
    /// Reads the header. `None` for a transport version that is not 0.
    pub(crate) fn parse(b: &[u8; BTH_LEN]) -> Option<Bth> {
        if b[1] & 0x0f != 0 {
            return None;
        }
        Some(Bth {
            opcode: b[0],
            solicited: b[1] & 0x80 != 0,
            pad: (b[1] >> 4) & 3,
            pkey: u16::from_be_bytes([b[2], b[3]]),
            becn: b[4] & 0x40 != 0,
            dest_qpn: u32::from_be_bytes([0, b[5], b[6], b[7]]),
            ack_req: b[8] & 0x80 != 0,
            psn: Psn::new(u32::from_be_bytes([0, b[9], b[10], b[11]])),
        })
    }

    /// The header's bytes.
    pub(crate) fn to_bytes(self) -> [u8; BTH_LEN] {
        let mut b = [0; BTH_LEN];
        b[0] = self.opcode;
        b[1] = u8::from(self.solicited) << 7 | (self.pad & 3) << 4;
        b[2..4].copy_from_slice(&self.pkey.to_be_bytes());
        b[4..8].copy_from_slice(&(self.dest_qpn & 0xff_ffff).to_be_bytes());
        b[4] = u8::from(self.becn) << 6;
        b[8..12].copy_from_slice(&self.psn.get().to_be_bytes());
        b[8] = u8::from(self.ack_req) << 7;
        b
    }
}

/// RDMA extended transport header: which remote memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reth {
    pub(crate) addr: u64,
    pub(crate) rkey: u32,
    /// Length of the whole message in bytes.
    pub(crate) len: u32,
}

impl Reth {
    pub(crate) fn parse(b: &[u8; RETH_LEN]) -> Reth {
        let [a0, a1, a2, a3, a4, a5, a6, a7, k0, k1, k2, k3, l0, l1, l2, l3] = *b;
        Reth {
            addr: u64::from_be_bytes([a0, a1, a2, a3, a4, a5, a6, a7]),
            rkey: u32::from_be_bytes([k0, k1, k2, k3]),
            len: u32::from_be_bytes([l0, l1, l2, l3]),
        }
    }

    pub(crate) fn to_bytes(self) -> [u8; RETH_LEN] {
        let mut b = [0; RETH_LEN];
        b[..8].copy_from_slice(&self.addr.to_be_bytes());
        b[8..12].copy_from_slice(&self.rkey.to_be_bytes());
        b[12..].copy_from_slice(&self.len.to_be_bytes());
        b
    }
}

/// Why a responder refuses (table 45).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Nak {
    /// A packet is missing: the PSN field names the one expected.
    Sequence,
    InvalidRequest,
    RemoteAccess,
    RemoteOperation,
    /// A code we do not know.
    Other(u8),
}

/// What an acknowledgement says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Syndrome {
    /// All up to the PSN was taken. The credit count is not used by us: 31 says none is kept.
    Ack,
    /// No receive was posted: try again after the time that this code stands for.
    Rnr(u8),
    Nak(Nak),
    /// Reserved.
    Unknown(u8),
}

/// ACK extended transport header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Aeth {
    pub(crate) syndrome: Syndrome,
    /// Messages taken so far, 24 bits.
    pub(crate) msn: u32,
}

impl Aeth {
    pub(crate) fn parse(b: &[u8; AETH_LEN]) -> Aeth {
        let value = b[0] & 0x1f;
        let syndrome = match (b[0] >> 5) & 7 {
            0 => Syndrome::Ack,
            1 => Syndrome::Rnr(value),
            3 => Syndrome::Nak(match value {
                0 => Nak::Sequence,
                1 => Nak::InvalidRequest,
                2 => Nak::RemoteAccess,
                3 => Nak::RemoteOperation,
                other => Nak::Other(other),
            }),
            _ => Syndrome::Unknown(b[0]),
        };
        Aeth { syndrome, msn: u32::from_be_bytes([0, b[1], b[2], b[3]]) }
    }

    pub(crate) fn to_bytes(self) -> [u8; AETH_LEN] {
        let mut b = (self.msn & 0xff_ffff).to_be_bytes();
        b[0] = match self.syndrome {
            Syndrome::Ack => 0x1f,
            Syndrome::Rnr(code) => 0x20 | (code & 0x1f),
            Syndrome::Nak(nak) => {
                0x60 | match nak {
                    Nak::Sequence => 0,
                    Nak::InvalidRequest => 1,
                    Nak::RemoteAccess => 2,
                    Nak::RemoteOperation => 3,
                    Nak::Other(code) => code & 0x1f,
                }
            }
            Syndrome::Unknown(byte) => byte,
        };
        b
    }
}

/// Datagram extended transport header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Deth {
    pub(crate) qkey: u32,
    /// Source queue pair number, 24 bits.
    pub(crate) src_qpn: u32,
}

impl Deth {
    pub(crate) fn parse(b: &[u8; DETH_LEN]) -> Deth {
        Deth {
            qkey: u32::from_be_bytes([b[0], b[1], b[2], b[3]]),
            src_qpn: u32::from_be_bytes([0, b[5], b[6], b[7]]),
        }
    }

    pub(crate) fn to_bytes(self) -> [u8; DETH_LEN] {
        let mut b = [0; DETH_LEN];
        b[..4].copy_from_slice(&self.qkey.to_be_bytes());
        b[4..].copy_from_slice(&(self.src_qpn & 0xff_ffff).to_be_bytes());
        b
    }
}

/// Time that an RNR code stands for, in microseconds (table 46).
pub(crate) fn rnr_delay_us(code: u8) -> u64 {
    const TENS: [u64; 32] = [
        65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024,
        1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
    ];
    TENS[usize::from(code & 0x1f)] * 10
}
