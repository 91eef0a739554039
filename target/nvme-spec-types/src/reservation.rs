//! Reservations: which hosts may write to a namespace that several share
//! (NVMe Base 2.1, 7.3 to 7.6 and 8.1.22).

use crate::layout::{get, put};
use crate::{Command, IoOpcode, ParseError, SglDescriptor, ZeroBased};

#[cfg(test)]
mod tests;

codes! {
    /// Reservation type (RTYPE).
    pub struct ReservationType(u8) {
        NONE = 0, "none";
        WRITE_EXCLUSIVE = 1, "Write Exclusive";
        EXCLUSIVE_ACCESS = 2, "Exclusive Access";
        WRITE_EXCLUSIVE_REGISTRANTS = 3, "Write Exclusive - Registrants Only";
        EXCLUSIVE_ACCESS_REGISTRANTS = 4, "Exclusive Access - Registrants Only";
        WRITE_EXCLUSIVE_ALL = 5, "Write Exclusive - All Registrants";
        EXCLUSIVE_ACCESS_ALL = 6, "Exclusive Access - All Registrants";
    }
}

codes! {
    /// What Reservation Register does (RREGA), 3 bits.
    pub struct RegisterAction(u8) {
        REGISTER = 0, "register key";
        UNREGISTER = 1, "unregister key";
        REPLACE = 2, "replace key";
    }
}

codes! {
    /// Change persist through power loss state (CPTPL), 2 bits.
    pub struct ChangePtpl(u8) {
        NO_CHANGE = 0, "no change";
        CLEAR = 2, "not persistent";
        PERSIST = 3, "persistent";
    }
}

codes! {
    /// What Reservation Acquire does (RACQA), 3 bits.
    pub struct AcquireAction(u8) {
        ACQUIRE = 0, "acquire";
        PREEMPT = 1, "preempt";
        PREEMPT_AND_ABORT = 2, "preempt and abort";
    }
}

codes! {
    /// What Reservation Release does (RRELA), 3 bits.
    pub struct ReleaseAction(u8) {
        RELEASE = 0, "release";
        CLEAR = 1, "clear";
    }
}

const IEKEY: u32 = 1 << 3;

/// The Reservation Register command (NVMe Base 2.1, 7.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReservationRegister {
    /// What to do.
    pub action: RegisterAction,
    /// The current key is not looked at (IEKEY).
    pub ignore_existing_key: bool,
    /// What becomes of persistence.
    pub cptpl: ChangePtpl,
}

impl ReservationRegister {
    /// Reads the fields; the opcode is not looked at.
    pub fn from_command(cmd: &Command) -> Self {
        let cdw10 = cmd.cdw10();
        Self {
            action: RegisterAction(cdw10 as u8 & 7),
            ignore_existing_key: cdw10 & IEKEY != 0,
            cptpl: ChangePtpl((cdw10 >> 30) as u8),
        }
    }

    /// The command, whose data is [`RegisterData`].
    pub fn to_command(&self, cid: u16, nsid: u32, sgl: SglDescriptor) -> Command {
        let mut cmd = Command::io(IoOpcode::RESERVATION_REGISTER, cid, nsid, sgl);
        let iekey = if self.ignore_existing_key { IEKEY } else { 0 };
        cmd.set_cdw10(u32::from(self.action.0 & 7) | iekey | u32::from(self.cptpl.0 & 3) << 30);
        cmd
    }
}

layout! {
    /// What Reservation Register carries.
    pub struct RegisterData[16] {
        /// Current key (CRKEY).
        0 => pub crkey: u64,
        /// New key (NRKEY).
        8 => pub nrkey: u64,
    }
}

/// The Reservation Acquire command (NVMe Base 2.1, 7.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReservationAcquire {
    /// What to do.
    pub action: AcquireAction,
    /// Reserved since revision 1.3 (IEKEY); a controller refuses it.
    pub ignore_existing_key: bool,
    /// Type of the reservation.
    pub rtype: ReservationType,
}

impl ReservationAcquire {
    /// Reads the fields; the opcode is not looked at.
    pub fn from_command(cmd: &Command) -> Self {
        let cdw10 = cmd.cdw10();
        Self {
            action: AcquireAction(cdw10 as u8 & 7),
            ignore_existing_key: cdw10 & IEKEY != 0,
            rtype: ReservationType((cdw10 >> 8) as u8),
        }
    }

    /// The command, whose data is [`AcquireData`].
    pub fn to_command(&self, cid: u16, nsid: u32, sgl: SglDescriptor) -> Command {
        let mut cmd = Command::io(IoOpcode::RESERVATION_ACQUIRE, cid, nsid, sgl);
        let iekey = if self.ignore_existing_key { IEKEY } else { 0 };
        cmd.set_cdw10(u32::from(self.action.0 & 7) | iekey | u32::from(self.rtype.0) << 8);
        cmd
    }
}

layout! {
    /// What Reservation Acquire carries.
    pub struct AcquireData[16] {
        /// Current key (CRKEY).
        0 => pub crkey: u64,
        /// Key of the registrants to preempt (PRKEY).
        8 => pub prkey: u64,
    }
}

/// The Reservation Release command (NVMe Base 2.1, 7.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReservationRelease {
    /// What to do.
    pub action: ReleaseAction,
    /// Reserved since revision 1.3 (IEKEY); a controller refuses it.
    pub ignore_existing_key: bool,
    /// Type of the reservation, which must be the one held.
    pub rtype: ReservationType,
}

impl ReservationRelease {
    /// Reads the fields; the opcode is not looked at.
    pub fn from_command(cmd: &Command) -> Self {
        let cdw10 = cmd.cdw10();
        Self {
            action: ReleaseAction(cdw10 as u8 & 7),
            ignore_existing_key: cdw10 & IEKEY != 0,
            rtype: ReservationType((cdw10 >> 8) as u8),
        }
    }

    /// The command, whose data is [`ReleaseData`].
    pub fn to_command(&self, cid: u16, nsid: u32, sgl: SglDescriptor) -> Command {
        let mut cmd = Command::io(IoOpcode::RESERVATION_RELEASE, cid, nsid, sgl);
        let iekey = if self.ignore_existing_key { IEKEY } else { 0 };
        cmd.set_cdw10(u32::from(self.action.0 & 7) | iekey | u32::from(self.rtype.0) << 8);
        cmd
    }
}

layout! {
    /// What Reservation Release carries.
    pub struct ReleaseData[8] {
        /// Current key (CRKEY).
        0 => pub crkey: u64,
    }
}

/// The Reservation Report command (NVMe Base 2.1, 7.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReservationReport {
    /// Dwords to return (NUMD); see [`ReservationReport::data_len`].
    pub numd: ZeroBased<u32>,
    /// The extended form (EDS), which 128-bit host identifiers need.
    pub extended: bool,
}

impl ReservationReport {
    /// Reads the fields; the opcode is not looked at.
    pub fn from_command(cmd: &Command) -> Self {
        Self { numd: ZeroBased::<u32>::from_raw(cmd.cdw10()), extended: cmd.cdw11() & 1 != 0 }
    }

    /// The command, which returns a [`ReservationStatus`].
    pub fn to_command(&self, cid: u16, nsid: u32, sgl: SglDescriptor) -> Command {
        let mut cmd = Command::io(IoOpcode::RESERVATION_REPORT, cid, nsid, sgl);
        cmd.set_cdw10(self.numd.raw());
        cmd.set_cdw11(u32::from(self.extended));
        cmd
    }

    /// Bytes to return: 4 to 2 to the power of 34.
    pub const fn data_len(&self) -> u64 {
        self.numd.count() * 4
    }
}

/// What the report starts with; `regctl` registrants follow (NVMe Base 2.1,
/// 7.6). The extended form pads it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReservationStatus {
    /// Generation: counts registrations, preemptions and clears (GEN).
    pub generation: u32,
    /// Reservation held, [`ReservationType::NONE`] if none.
    pub rtype: ReservationType,
    /// Registrants (REGCTL), which is also their number in the report of a
    /// namespace whatever the length asked for.
    pub regctl: u16,
    /// Reservations persist through power loss (PTPLS), 0 or 1.
    pub ptpls: u8,
}

impl ReservationStatus {
    /// Bytes it takes.
    pub const fn size(extended: bool) -> usize {
        if extended { 64 } else { 24 }
    }

    /// Reads it; both forms start alike.
    ///
    /// # Errors
    /// [`ParseError`] when there are fewer than 24 bytes.
    pub fn parse(bytes: &[u8]) -> Result<Self, ParseError> {
        ParseError::check(bytes, Self::size(false))?;
        Ok(Self {
            generation: get(bytes, 0),
            rtype: ReservationType(bytes[4]),
            regctl: get(bytes, 5),
            ptpls: bytes[9],
        })
    }

    /// Writes it to the front of `out`, the rest of its size zero, and
    /// returns that size; `None` when `out` is too short.
    pub fn encode(&self, extended: bool, out: &mut [u8]) -> Option<usize> {
        let size = Self::size(extended);
        let out = out.get_mut(..size)?;
        out.fill(0);
        put(out, 0, self.generation);
        put(out, 4, self.rtype);
        put(out, 5, self.regctl);
        put(out, 9, self.ptpls);
        Some(size)
    }
}

/// One registrant of the report (NVMe Base 2.1, 7.6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Registrant {
    /// Its controller; FFFFh with the dynamic model when there is none.
    pub cntlid: u16,
    /// It holds the reservation (RCSTS bit 0).
    pub holder: bool,
    /// Host identifier; of a 64-bit one the first 8 bytes.
    pub hostid: [u8; 16],
    /// Key.
    pub rkey: u64,
}

impl Registrant {
    /// Bytes it takes.
    pub const fn size(extended: bool) -> usize {
        if extended { 64 } else { 24 }
    }

    /// Reads one.
    ///
    /// # Errors
    /// [`ParseError`] when there are fewer bytes than the form has.
    pub fn parse(extended: bool, bytes: &[u8]) -> Result<Self, ParseError> {
        ParseError::check(bytes, Self::size(extended))?;
        let (hostid, rkey) = if extended {
            (get(bytes, 16), get(bytes, 8))
        } else {
            let mut hostid = [0; 16];
            hostid[..8].copy_from_slice(&bytes[8..16]);
            (hostid, get(bytes, 16))
        };
        Ok(Self { cntlid: get(bytes, 0), holder: bytes[2] & 1 != 0, hostid, rkey })
    }

    /// Writes one to the front of `out` and returns its size; `None` when
    /// `out` is too short. The short form takes 8 bytes of the host
    /// identifier.
    pub fn encode(&self, extended: bool, out: &mut [u8]) -> Option<usize> {
        let size = Self::size(extended);
        let out = out.get_mut(..size)?;
        out.fill(0);
        put(out, 0, self.cntlid);
        put(out, 2, u8::from(self.holder));
        if extended {
            put(out, 8, self.rkey);
            put(out, 16, self.hostid);
        } else {
            out[8..16].copy_from_slice(&self.hostid[..8]);
            put(out, 16, self.rkey);
        }
        Some(size)
    }
}
