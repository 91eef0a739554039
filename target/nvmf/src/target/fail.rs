//! How a command fails: the status, and which of its fields is at fault.

use crate::Outcome;
use nvme_spec_types::fabrics::ConnectLocation;
use nvme_spec_types::log::ParameterLocation;
use nvme_spec_types::status::{Status, StatusCode};

/// Bytes of the submission queue entry, for error locations.
pub(super) mod at {
    pub(crate) const OPCODE: u16 = 0;
    pub(crate) const FCTYPE: u16 = 4;
    pub(crate) const NSID: u16 = 4;
    pub(crate) const SGL1: u16 = 24;
    pub(crate) const CDW10: u16 = 40;
    pub(crate) const CDW11: u16 = 44;
    pub(crate) const CDW12: u16 = 48;
    pub(crate) const CDW14: u16 = 56;
}

/// Not one field is at fault (NVMe Base 2.1, 5.1.12.1.2: Parameter Error Location).
const NOWHERE: u16 = 0xffff;

/// A command that fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fail {
    /// With Do Not Retry where it belongs.
    pub(super) status: Status,
    /// Completion dword 0.
    pub(super) dw0: u32,
    /// Byte of the command that is at fault, bit in bits 10:8; or [`NOWHERE`].
    pub(super) location: u16,
}

impl Fail {
    /// In this way.
    pub(super) const fn with(status: Status) -> Fail {
        Fail { status, dw0: 0, location: NOWHERE }
    }

    /// Repeating the command will not help.
    pub(super) const fn dnr(code: StatusCode) -> Fail {
        Fail::with(code.with_dnr())
    }

    /// Repeating the command may help.
    pub(super) const fn retry(code: StatusCode) -> Fail {
        Fail::with(code.retryable())
    }

    /// Invalid Field in Command: the one at this byte.
    pub(super) const fn field(location: u16) -> Fail {
        Fail::dnr(StatusCode::INVALID_FIELD).at(location)
    }

    /// The field that is at fault.
    pub(super) const fn at(mut self, location: u16) -> Fail {
        self.location = location;
        self
    }

    /// Connect Invalid Parameters: this one.
    pub(super) const fn connect(location: ConnectLocation) -> Fail {
        Fail {
            status: StatusCode::CONNECT_INVALID_PARAMETERS.with_dnr(),
            dw0: location.to_dw0(),
            location: if location.in_data { NOWHERE } else { location.offset },
        }
    }

    /// The field that is at fault, as the error log tells it.
    pub(super) const fn location(&self) -> ParameterLocation {
        match self.location {
            NOWHERE => ParameterLocation::NONE,
            at => ParameterLocation::new(at as u8, (at >> 8) as u8),
        }
    }

    pub(super) fn outcome(&self) -> Outcome {
        Outcome { status: self.status, result: u64::from(self.dw0), data: Vec::new() }
    }
}

/// What to do about a command that did not fail.
#[derive(Debug)]
pub(super) enum Reply {
    /// Complete it.
    Done(Outcome),
    /// Complete it; its queue then ends the connection itself.
    Last(Outcome),
    /// It is held and will be completed later.
    Later,
}

impl From<Outcome> for Reply {
    fn from(outcome: Outcome) -> Reply {
        Reply::Done(outcome)
    }
}

/// What handlers of commands return.
pub(super) type Answer = Result<Reply, Fail>;
