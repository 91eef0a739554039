//! Completion status: type, code and what the host may do about it.

use core::fmt;

mod codes;
#[cfg(test)]
mod tests;

/// Status code type (SCT) and status code (SC) as one number:
/// `sct << 8 | sc` (NVMe Base 2.1, 4.2.3).
///
/// Values nobody has named are kept. Command specific values 80h to BFh mean
/// something else for each command set; the Fabrics meaning is named where
/// both exist.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StatusCode(u16);

codes! {
    /// Status code type (SCT), 3 bits (NVMe Base 2.1, 4.2.3).
    pub struct StatusType(u8) {
        GENERIC = 0, "generic";
        COMMAND_SPECIFIC = 1, "command specific";
        MEDIA = 2, "media and data integrity";
        PATH = 3, "path related";
        VENDOR = 7, "vendor specific";
    }
}

impl StatusCode {
    /// From a status code type (3 bits, the rest is dropped) and a code.
    #[inline]
    pub const fn new(sct: u8, sc: u8) -> Self {
        Self((sct as u16 & 7) << 8 | sc as u16)
    }

    /// Status code type.
    #[inline]
    pub const fn sct(self) -> StatusType {
        StatusType((self.0 >> 8) as u8)
    }

    /// Status code within its type.
    #[inline]
    pub const fn sc(self) -> u8 {
        self.0 as u8
    }

    /// `sct << 8 | sc`, as Linux and nvme-cli print it (without DNR).
    #[inline]
    pub const fn raw(self) -> u16 {
        self.0
    }

    /// Whether the command did what it was asked.
    #[inline]
    pub const fn is_success(self) -> bool {
        self.0 == 0
    }

    /// A status that asks the host not to repeat the command.
    #[inline]
    pub const fn with_dnr(self) -> Status {
        Status { code: self, crd: 0, more: false, dnr: true }
    }

    /// A status that lets the host repeat the command.
    #[inline]
    pub const fn retryable(self) -> Status {
        Status { code: self, crd: 0, more: false, dnr: false }
    }
}

impl fmt::Display for StatusCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "{} status {:#04x}", self.sct(), self.sc()),
        }
    }
}

impl fmt::Debug for StatusCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#05x} ({self})", self.0)
    }
}

/// The status field of a completion, without the phase tag
/// (NVMe Base 2.1, 4.2.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Status {
    /// Type and code.
    pub code: StatusCode,
    /// Command retry delay index (CRD), 0 to 3: which of CRDT1 to CRDT3 to
    /// wait before a retry; 0 is at once. The encoder drops higher bits.
    pub crd: u8,
    /// More (M): the error log has more about this.
    pub more: bool,
    /// Do not retry (DNR).
    pub dnr: bool,
}

impl Status {
    /// The command did what it was asked.
    pub const SUCCESS: Self = StatusCode::SUCCESS.retryable();

    /// From bytes 14 and 15 of a completion; bit 0, the phase tag, is ignored.
    #[inline]
    pub const fn from_wire(field: u16) -> Self {
        Self {
            code: StatusCode(field >> 1 & 0x7ff),
            crd: (field >> 12 & 3) as u8,
            more: field & 1 << 14 != 0,
            dnr: field & 1 << 15 != 0,
        }
    }

    /// For bytes 14 and 15 of a completion, phase tag 0.
    #[inline]
    pub const fn to_wire(self) -> u16 {
        self.code.0 << 1
            | (self.crd as u16 & 3) << 12
            | (self.more as u16) << 14
            | (self.dnr as u16) << 15
    }

    /// Status code type.
    #[inline]
    pub const fn sct(self) -> StatusType {
        self.code.sct()
    }

    /// Status code within its type.
    #[inline]
    pub const fn sc(self) -> u8 {
        self.code.sc()
    }

    /// Whether the command did what it was asked.
    #[inline]
    pub const fn is_success(self) -> bool {
        self.code.is_success()
    }
}

impl From<StatusCode> for Status {
    /// Retryable; use [`StatusCode::with_dnr`] for the other.
    #[inline]
    fn from(code: StatusCode) -> Self {
        code.retryable()
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.code)?;
        if self.dnr {
            f.write_str(", do not retry")?;
        }
        Ok(())
    }
}
