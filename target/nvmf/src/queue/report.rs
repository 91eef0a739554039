//! Reports of commands that failed here: what the controller's error log is made of.
//!
//! The error log is on the control thread, and failures are found on every core. A report goes with
//! the response, whose status then says that there is more to read (M). No more than
//! [`MAX_REPORTS`] of a queue are on their way at a time; failures beyond are counted, and the next
//! report tells how many, so that a host that does nothing but fail costs no memory.
//!
//! What the control thread refuses it enters itself, and what is no fault of anybody is not
//! reported: a comparison that finds a difference, a command that the host itself aborted.

use super::slot::{Entry, State};
use super::{Action, Link, Queue};
use crate::Slot;
use nvme_spec_types::log::ParameterLocation;
use nvme_spec_types::nvm::NSID_ALL;
use nvme_spec_types::sgl::SglDescriptor;
use nvme_spec_types::{DataDirection, IoOpcode, Psdt, Status, StatusCode};

/// Reports of a queue that may be on their way at a time.
pub(super) const MAX_REPORTS: u8 = 8;

/// Bytes of the submission queue entry.
const FLAGS: u8 = 1;
const CID: u8 = 2;
pub(super) const NSID: u8 = 4;
const DATA_POINTER: u8 = 24;
const DATA_POINTER_TYPE: u8 = 39;
const SLBA: u8 = 40;
pub(super) const SDLBA: u8 = 40;
const NLB: u8 = 48;
/// Of a Copy: how many source ranges (NR), and of which format (DESFMT).
const RANGES: u8 = 48;
const RANGE_FORMAT: u8 = 49;
/// First bit of PSDT in the flags.
const PSDT_BIT: u8 = 6;

/// What is on its way to the error log, and what did not get there.
#[derive(Debug, Default)]
pub(super) struct Reports {
    /// Reports on their way; at most [`MAX_REPORTS`].
    under_way: u8,
    /// Failures since the last report that could not be reported.
    missed: u32,
}

impl Queue {
    /// Reports that the slot's command fails with `status`; returns the status to answer with.
    pub(super) fn report(&mut self, slot: Slot, status: Status, out: &mut Vec<Action>) -> Status {
        let location = self.field_at_fault(slot, status.code);
        self.report_at(slot, status, location, out)
    }

    /// [`Queue::report`] where the field at fault is known.
    pub(super) fn report_at(
        &mut self,
        slot: Slot,
        status: Status,
        location: ParameterLocation,
        out: &mut Vec<Action>,
    ) -> Status {
        let has_log = matches!(self.link, Link::Bound(_));
        if !has_log || is_expected(status.code) {
            return status;
        }
        if self.reports.under_way == MAX_REPORTS {
            self.reports.missed = self.reports.missed.saturating_add(1);
            return status;
        }
        self.reports.under_way += 1;
        let missed = std::mem::take(&mut self.reports.missed);
        let status = Status { more: true, ..status };
        out.push(Action::Report { slot, status, location, missed });
        status
    }

    /// The field of the slot's command that is at fault when it ends so.
    fn field_at_fault(&self, slot: Slot, code: StatusCode) -> ParameterLocation {
        match code {
            StatusCode::INVALID_FIELD if !self.can_be_fused_so(slot) => {
                ParameterLocation::new(FLAGS, 0)
            }
            StatusCode::INVALID_FIELD if self.names_no_namespace(slot) => {
                ParameterLocation::new(NSID, 0)
            }
            code => location(self.entry(slot), code),
        }
    }

    /// Whether an I/O command, right in form, is for a namespace that is not there.
    fn names_no_namespace(&self, slot: Slot) -> bool {
        let entry = self.entry(slot);
        let is_io = entry.control.is_none() && entry.command.psdt() == Psdt::Sgl;
        is_io && entry.command.nsid() != NSID_ALL && self.namespace(entry.command.nsid()).is_err()
    }

    /// A report has arrived in the error log.
    pub fn on_reported(&mut self) {
        assert!(self.reports.under_way > 0, "a report that was not made");
        self.reports.under_way -= 1;
    }
}

/// Whether a command that ends so is no failure for the log.
fn is_expected(code: StatusCode) -> bool {
    matches!(
        code,
        StatusCode::COMPARE_FAILURE
            | StatusCode::ABORT_REQUESTED
            | StatusCode::ABORTED_FAILED_FUSED
            | StatusCode::ABORTED_SQ_DELETION
    )
}

/// The field that is at fault when a queue ends a command so (NVMe Base 2.1, 5.1.12.1.2).
fn location(entry: &Entry, code: StatusCode) -> ParameterLocation {
    let command = &entry.command;
    let in_capsule = matches!(command.sgl1(), SglDescriptor::InCapsule { .. });
    let to_host = entry.direction() == DataDirection::ControllerToHost;
    let blocks = entry.control.is_none() && command.io_opcode().has_block_range();
    // Of a Copy whose list of ranges was not looked at.
    let copy = entry.control.is_none()
        && command.io_opcode() == IoOpcode::COPY
        && !matches!(entry.state, State::AwaitIo { .. } | State::AwaitSource);
    let byte = match code {
        StatusCode::INVALID_OPCODE => 0,
        StatusCode::COMMAND_ID_CONFLICT => CID,
        StatusCode::INVALID_NAMESPACE_OR_FORMAT | StatusCode::NAMESPACE_WRITE_PROTECTED => NSID,
        StatusCode::SGL_DESCRIPTOR_TYPE_INVALID => DATA_POINTER_TYPE,
        StatusCode::DATA_SGL_LENGTH_INVALID
        | StatusCode::SGL_OFFSET_INVALID
        | StatusCode::INVALID_SGL_SEGMENT_DESCRIPTOR
        | StatusCode::INVALID_NUMBER_OF_SGL_DESCRIPTORS => DATA_POINTER,
        StatusCode::LBA_OUT_OF_RANGE if blocks => SLBA,
        StatusCode::INVALID_FIELD if command.psdt() != Psdt::Sgl => {
            return ParameterLocation::new(FLAGS, PSDT_BIT);
        }
        // Data for the host cannot be in the capsule.
        StatusCode::INVALID_FIELD if in_capsule && to_host => DATA_POINTER_TYPE,
        StatusCode::INVALID_FIELD if copy => RANGE_FORMAT,
        StatusCode::COMMAND_SIZE_LIMIT_EXCEEDED if copy => RANGES,
        // The transfer is too large.
        StatusCode::INVALID_FIELD if blocks => NLB,
        _ => return ParameterLocation::NONE,
    };
    ParameterLocation::new(byte, 0)
}
