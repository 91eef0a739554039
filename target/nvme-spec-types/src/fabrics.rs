//! Fabrics commands: Connect, Disconnect, properties and authentication.
//!
//! Each command is read from a [`Command`] that the caller has found to be of
//! its type, and turned back into one. Where a value of Connect is refused,
//! the error says which field, because the host is told ([`ConnectLocation`]).

use crate::{Command, FabricsType, Nqn, NqnError, SglDescriptor, ZeroBased};

#[cfg(test)]
mod tests;

/// Controller id with which a host asks for any controller (dynamic model).
pub const CNTLID_DYNAMIC: u16 = 0xffff;
/// Controller id with which a host asks for any controller whose state is
/// kept (static model).
pub const CNTLID_STATIC_ANY: u16 = 0xfffe;
/// The highest controller id there is (NVMe Base 2.1, 3.1.2: FFF0h and above
/// are reserved).
pub const CNTLID_MAX: u16 = 0xffef;
/// Security protocol of NVMe in-band authentication (SECP).
pub const SECP_NVME: u8 = 0xe9;

flags! {
    /// Connect attributes (CATTR), byte 46 of the Connect command. Bits 1:0,
    /// the queue's priority class, are [`Connect::priority`].
    pub struct ConnectAttributes(u8) {
        /// The host asks for no submission queue flow control (DISSQFC).
        DISABLE_SQ_FLOW_CONTROL = 2;
        /// The host can delete I/O queues one by one with Disconnect (IOQDS).
        INDIVIDUAL_QUEUE_DELETION = 3;
    }
}

/// The Connect command (NVMe Base 2.1, 6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connect {
    /// Command identifier.
    pub cid: u16,
    /// Where the [`ConnectData`] is.
    pub sgl1: SglDescriptor,
    /// Record format (RECFMT); 0 is the one described here.
    pub recfmt: u16,
    /// Queue identifier: 0 the admin queue.
    pub qid: u16,
    /// Submission queue size in entries (SQSIZE).
    pub sqsize: ZeroBased<u16>,
    /// Attributes (CATTR).
    pub cattr: ConnectAttributes,
    /// Keep alive timeout in milliseconds (KATO), 0 for none; admin queue only.
    pub kato_ms: u32,
}

impl Connect {
    const RECFMT: usize = 40;
    const QID: usize = 42;
    const SQSIZE: usize = 44;
    const CATTR: usize = 46;
    const KATO: usize = 48;

    /// Reads the fields; the opcode and type are not looked at.
    pub fn from_command(cmd: &Command) -> Self {
        Self {
            cid: cmd.cid(),
            sgl1: cmd.sgl1(),
            recfmt: cmd.field(Self::RECFMT),
            qid: cmd.field(Self::QID),
            sqsize: cmd.field(Self::SQSIZE),
            cattr: cmd.field(Self::CATTR),
            kato_ms: cmd.field(Self::KATO),
        }
    }

    /// The command.
    pub fn to_command(&self) -> Command {
        let mut cmd = Command::fabrics(FabricsType::CONNECT, self.cid, self.sgl1);
        cmd.set_field(Self::RECFMT, self.recfmt);
        cmd.set_field(Self::QID, self.qid);
        cmd.set_field(Self::SQSIZE, self.sqsize);
        cmd.set_field(Self::CATTR, self.cattr);
        cmd.set_field(Self::KATO, self.kato_ms);
        cmd
    }

    /// Priority class the host asks for: 0 urgent, 1 high, 2 medium, 3 low.
    pub const fn priority(&self) -> u8 {
        self.cattr.bits() & 3
    }
}

layout! {
    /// What a Connect command carries (NVMe Base 2.1, 6.3), unchecked.
    pub struct ConnectData[1024] {
        /// Host identifier (HOSTID), a UUID as it goes on the wire.
        0 => pub hostid: [u8; 16],
        /// Controller asked for (CNTLID); see [`CNTLID_DYNAMIC`].
        16 => pub cntlid: u16,
        /// Subsystem NQN (SUBNQN) with its NUL; see [`ConnectData::subnqn`].
        256 => pub subnqn_field: [u8; 256],
        /// Host NQN (HOSTNQN) with its NUL; see [`ConnectData::hostnqn`].
        512 => pub hostnqn_field: [u8; 256],
    }
}

impl ConnectData {
    /// The data for a host that asks for `subnqn`.
    pub fn new(hostid: [u8; 16], cntlid: u16, subnqn: &Nqn, hostnqn: &Nqn) -> Self {
        Self { hostid, cntlid, subnqn_field: subnqn.to_field(), hostnqn_field: hostnqn.to_field() }
    }

    /// The subsystem's name.
    ///
    /// # Errors
    /// Why it is not a name, and the field's location for the response.
    pub fn subnqn(&self) -> Result<Nqn, ConnectError> {
        Nqn::from_field(&self.subnqn_field)
            .map_err(|reason| ConnectError { location: ConnectLocation::SUBNQN, reason })
    }

    /// The host's name.
    ///
    /// # Errors
    /// Why it is not a name, and the field's location for the response.
    pub fn hostnqn(&self) -> Result<Nqn, ConnectError> {
        Nqn::from_field(&self.hostnqn_field)
            .map_err(|reason| ConnectError { location: ConnectLocation::HOSTNQN, reason })
    }
}

/// A name in Connect data is not one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectError {
    /// For dword 0 of the response with status Connect Invalid Parameters.
    pub location: ConnectLocation,
    /// What is wrong.
    pub reason: NqnError,
}

impl core::fmt::Display for ConnectError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Connect {} {}: {}", self.location.part(), self.location.offset, self.reason)
    }
}

impl core::error::Error for ConnectError {}

/// Which field of Connect is invalid: dword 0 of a response with status
/// Connect Invalid Parameters (NVMe Base 2.1, 6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectLocation {
    /// Byte offset of the field (IPO) in the command or in the data.
    pub offset: u16,
    /// Whether the offset is in the data (IATTR bit 0) and not the command.
    pub in_data: bool,
}

impl ConnectLocation {
    /// RECFMT of the command.
    pub const RECFMT: Self = Self::command(Connect::RECFMT as u16);
    /// QID of the command.
    pub const QID: Self = Self::command(Connect::QID as u16);
    /// SQSIZE of the command.
    pub const SQSIZE: Self = Self::command(Connect::SQSIZE as u16);
    /// CATTR of the command.
    pub const CATTR: Self = Self::command(Connect::CATTR as u16);
    /// KATO of the command.
    pub const KATO: Self = Self::command(Connect::KATO as u16);
    /// HOSTID of the data.
    pub const HOSTID: Self = Self::data(0);
    /// CNTLID of the data.
    pub const CNTLID: Self = Self::data(16);
    /// SUBNQN of the data.
    pub const SUBNQN: Self = Self::data(256);
    /// HOSTNQN of the data.
    pub const HOSTNQN: Self = Self::data(512);

    const fn command(offset: u16) -> Self {
        Self { offset, in_data: false }
    }

    const fn data(offset: u16) -> Self {
        Self { offset, in_data: true }
    }

    const fn part(&self) -> &'static str {
        if self.in_data { "data byte" } else { "command byte" }
    }

    /// Dword 0 of the response: IPO in bits 15:0, IATTR in bits 23:16.
    pub const fn to_dw0(self) -> u32 {
        self.offset as u32 | (self.in_data as u32) << 16
    }

    /// From dword 0 of a response.
    pub const fn from_dw0(dw0: u32) -> Self {
        Self { offset: dw0 as u16, in_data: dw0 & 1 << 16 != 0 }
    }
}

/// Dword 0 of a successful Connect (NVMe Base 2.1, 6.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnectResponse {
    /// The controller's id.
    pub cntlid: u16,
    /// An authentication transaction is required (AUTHREQ.ATR).
    pub auth_required: bool,
    /// Authentication and a secure channel are required (AUTHREQ.ASCR).
    pub secure_channel_required: bool,
}

impl ConnectResponse {
    /// Dword 0 of the completion.
    pub const fn to_dw0(self) -> u32 {
        self.cntlid as u32
            | (self.auth_required as u32) << 17
            | (self.secure_channel_required as u32) << 18
    }

    /// From dword 0 of a completion.
    pub const fn from_dw0(dw0: u32) -> Self {
        Self {
            cntlid: dw0 as u16,
            auth_required: dw0 & 1 << 17 != 0,
            secure_channel_required: dw0 & 1 << 18 != 0,
        }
    }
}

/// Size of a property (bits 2:0 of ATTRIB).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PropertySize {
    /// 4 bytes.
    Four,
    /// 8 bytes.
    Eight,
    /// A reserved code.
    Reserved(u8),
}

impl PropertySize {
    const fn from_attrib(attrib: u8) -> Self {
        match attrib & 7 {
            0 => Self::Four,
            1 => Self::Eight,
            other => Self::Reserved(other),
        }
    }

    const fn to_attrib(self) -> u8 {
        match self {
            Self::Four => 0,
            Self::Eight => 1,
            Self::Reserved(code) => code & 7,
        }
    }
}

const ATTRIB: usize = 40;
const OFST: usize = 44;
const VALUE: usize = 48;

/// Byte of the ATTRIB field in a property command, for error locations.
pub const PROPERTY_ATTRIB_OFFSET: u16 = ATTRIB as u16;
/// Byte of the OFST field in a property command, for error locations.
pub const PROPERTY_OFST_OFFSET: u16 = OFST as u16;

/// The Property Get command (NVMe Base 2.1, 6.5). The value comes back in
/// dwords 0 and 1 of the completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PropertyGet {
    /// Command identifier.
    pub cid: u16,
    /// Size of the property.
    pub size: PropertySize,
    /// Offset of the property (OFST); see [`crate::property`].
    pub offset: u32,
}

impl PropertyGet {
    /// Reads the fields; the opcode and type are not looked at.
    pub fn from_command(cmd: &Command) -> Self {
        Self {
            cid: cmd.cid(),
            size: PropertySize::from_attrib(cmd.field(ATTRIB)),
            offset: cmd.field(OFST),
        }
    }

    /// The command.
    pub fn to_command(&self) -> Command {
        let mut cmd = Command::fabrics(FabricsType::PROPERTY_GET, self.cid, SglDescriptor::NO_DATA);
        cmd.set_field(ATTRIB, self.size.to_attrib());
        cmd.set_field(OFST, self.offset);
        cmd
    }
}

/// The Property Set command (NVMe Base 2.1, 6.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PropertySet {
    /// Command identifier.
    pub cid: u16,
    /// Size of the property.
    pub size: PropertySize,
    /// Offset of the property (OFST); see [`crate::property`].
    pub offset: u32,
    /// The new value; of a 4-byte property the low half counts.
    pub value: u64,
}

impl PropertySet {
    /// Reads the fields; the opcode and type are not looked at.
    pub fn from_command(cmd: &Command) -> Self {
        Self {
            cid: cmd.cid(),
            size: PropertySize::from_attrib(cmd.field(ATTRIB)),
            offset: cmd.field(OFST),
            value: cmd.field(VALUE),
        }
    }

    /// The command.
    pub fn to_command(&self) -> Command {
        let mut cmd = Command::fabrics(FabricsType::PROPERTY_SET, self.cid, SglDescriptor::NO_DATA);
        cmd.set_field(ATTRIB, self.size.to_attrib());
        cmd.set_field(OFST, self.offset);
        cmd.set_field(VALUE, self.value);
        cmd
    }
}

/// The Disconnect command, which deletes the I/O queue it is sent on
/// (NVMe Base 2.1, 6.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Disconnect {
    /// Command identifier.
    pub cid: u16,
    /// Record format (RECFMT), 0.
    pub recfmt: u16,
}

impl Disconnect {
    const RECFMT: usize = 40;

    /// Reads the fields; the opcode and type are not looked at.
    pub fn from_command(cmd: &Command) -> Self {
        Self { cid: cmd.cid(), recfmt: cmd.field(Self::RECFMT) }
    }

    /// The command.
    pub fn to_command(&self) -> Command {
        let mut cmd = Command::fabrics(FabricsType::DISCONNECT, self.cid, SglDescriptor::NO_DATA);
        cmd.set_field(Self::RECFMT, self.recfmt);
        cmd
    }
}

/// Authentication Send or Receive (NVMe Base 2.1, 6.1 and 6.2); which of the
/// two is the command's type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuthTransfer {
    /// Command identifier.
    pub cid: u16,
    /// Where the message is or goes.
    pub sgl1: SglDescriptor,
    /// SP Specific 0 (SPSP0): 1 for NVMe.
    pub spsp0: u8,
    /// SP Specific 1 (SPSP1): 1 for NVMe.
    pub spsp1: u8,
    /// Security protocol (SECP); [`SECP_NVME`].
    pub secp: u8,
    /// Bytes sent (TL), or the most that may be returned (AL).
    pub len: u32,
}

impl AuthTransfer {
    const SPSP0: usize = 41;
    const SPSP1: usize = 42;
    const SECP: usize = 43;
    const LEN: usize = 44;

    /// Reads the fields; the opcode and type are not looked at.
    pub fn from_command(cmd: &Command) -> Self {
        Self {
            cid: cmd.cid(),
            sgl1: cmd.sgl1(),
            spsp0: cmd.field(Self::SPSP0),
            spsp1: cmd.field(Self::SPSP1),
            secp: cmd.field(Self::SECP),
            len: cmd.field(Self::LEN),
        }
    }

    /// The command of type `fctype`, Authentication Send or Receive.
    pub fn to_command(&self, fctype: FabricsType) -> Command {
        let mut cmd = Command::fabrics(fctype, self.cid, self.sgl1);
        cmd.set_field(Self::SPSP0, self.spsp0);
        cmd.set_field(Self::SPSP1, self.spsp1);
        cmd.set_field(Self::SECP, self.secp);
        cmd.set_field(Self::LEN, self.len);
        cmd
    }
}
