//! What the host is told when storage fails: the one place where storage errors become NVMe status.
//!
//! Do Not Retry is set where trying again is pointless (the range, the space, the medium), so that
//! a host gives the error to its file system at once, and not set where the trouble may pass.

use backing::IoError;
use nvme_spec_types::{Status, StatusCode};
use nvmf::ExecStatus;

/// The NVMe status of a storage error (NVMe Base 2.1, 4.2.3).
///
/// A Linux host shows Capacity Exceeded to its file systems as "no space", the two media errors as
/// medium errors, and Write Protected as a write error without retry.
pub fn status_of(error: IoError) -> Status {
    match error {
        IoError::OutOfRange => StatusCode::LBA_OUT_OF_RANGE.with_dnr(),
        IoError::NoSpace => StatusCode::CAPACITY_EXCEEDED.with_dnr(),
        IoError::ReadFault => StatusCode::UNRECOVERED_READ_ERROR.with_dnr(),
        IoError::WriteFault => StatusCode::WRITE_FAULT.with_dnr(),
        IoError::ReadOnly => StatusCode::NAMESPACE_WRITE_PROTECTED.with_dnr(),
        // The disk will not come back under this identity.
        IoError::Gone => StatusCode::NAMESPACE_NOT_READY.with_dnr(),
        IoError::Unsupported => StatusCode::INVALID_OPCODE.with_dnr(),
        IoError::TimedOut | IoError::Busy => StatusCode::COMMAND_INTERRUPTED.retryable(),
        // The device has spoken. Its error log and its times to wait are not the host's to ask for.
        IoError::Device(field) => Status { crd: 0, more: false, ..Status::from_wire(field << 1) },
        IoError::Other(_) => StatusCode::INTERNAL_ERROR.retryable(),
    }
}

/// How an operation ended, in the queue's terms.
pub(crate) fn exec_status(result: Result<(), IoError>) -> ExecStatus {
    match result {
        Ok(()) => ExecStatus::Ok,
        Err(error) => ExecStatus::Failed(status_of(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_s_own_status_reaches_the_host_as_it_is() {
        // DNR, More, a retry delay of 3 and Unrecovered Read Error, as a kernel gives them.
        let status = status_of(IoError::Device(0x7a81));
        assert_eq!(status, StatusCode::UNRECOVERED_READ_ERROR.with_dnr());
        assert_eq!(status_of(IoError::Device(0x0002)), StatusCode::INVALID_FIELD.retryable());
    }

    #[test]
    fn only_passing_trouble_may_be_retried() {
        for (error, dnr) in [
            (IoError::OutOfRange, true),
            (IoError::NoSpace, true),
            (IoError::ReadFault, true),
            (IoError::WriteFault, true),
            (IoError::ReadOnly, true),
            (IoError::Gone, true),
            (IoError::Unsupported, true),
            (IoError::TimedOut, false),
            (IoError::Busy, false),
            (IoError::Other(5), false),
        ] {
            let status = status_of(error);
            assert!(!status.is_success(), "{error:?}");
            assert_eq!(status.dnr, dnr, "{error:?}");
        }
    }
}
