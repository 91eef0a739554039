//! Features whose value is data and not a dword: Host Behavior Support, Timestamp, Host Identifier.

use super::super::fail::{Fail, at};
use super::{Features, VALUE};
use crate::queue::COPY_FORMATS;
use core::time::Duration;
use nvme_spec_types::feature::{HOST_ID_EXTENDED, HostBehavior, Timestamp};
use nvme_spec_types::status::StatusCode;

/// Copy formats that a host has to enable before it uses them: 2 and up (NVM 1.1, 3.3.2).
const OPTIONAL_COPY_FORMATS: u16 = COPY_FORMATS & !0b11;
/// Timestamp origin: a reset.
const FROM_RESET: u8 = 0;
/// Timestamp origin: Set Features.
const FROM_HOST: u8 = 1;

/// A clock that a host has set, or that started with the controller.
#[derive(Debug, Clone, Copy)]
pub(super) struct Clock {
    /// What it showed then, in milliseconds.
    milliseconds: u64,
    /// When that was.
    at: Duration,
    origin: u8,
}

impl Clock {
    /// It starts from 0.
    pub(super) fn started(now: Duration) -> Clock {
        Clock { milliseconds: 0, at: now, origin: FROM_RESET }
    }

    /// What Get Features tells. It never stands still: our time does not.
    pub(super) fn read(&self, now: Duration) -> [u8; 8] {
        let passed = now.saturating_sub(self.at).as_millis() as u64;
        let milliseconds = self.milliseconds.wrapping_add(passed);
        Timestamp { milliseconds, may_have_stopped: false, origin: self.origin }.to_bytes()
    }
}

impl Features {
    /// Sets Timestamp (NVMe Base 2.1, 5.1.25.1.7).
    pub(super) fn set_timestamp(&mut self, now: Duration, data: &[u8]) -> Result<(), Fail> {
        let Some(bytes) = data.first_chunk() else { return Err(too_short()) };
        let Timestamp { milliseconds, .. } = Timestamp::from_bytes(bytes);
        self.clock = Clock { milliseconds, at: now, origin: FROM_HOST };
        Ok(())
    }

    /// Sets Host Behavior Support (NVMe Base 2.1, 5.1.25.1.14). That a host heeds retry delays is
    /// kept; none is ever asked for. The copy formats that it enables its I/O queues take from then
    /// on.
    pub(super) fn set_behavior(&mut self, data: &[u8]) -> Result<(), Fail> {
        let behavior = HostBehavior::parse(data).map_err(|_| too_short())?;
        let HostBehavior { acre, etdas, lbafee, hdisns, cdfe, .. } = behavior;
        // Neither telemetry nor extended formats nor dispersed namespaces are offered.
        let offered = acre <= 1 && (etdas, lbafee, hdisns) == (0, 0, 0);
        if !offered || cdfe & !OPTIONAL_COPY_FORMATS != 0 {
            return Err(Fail::dnr(StatusCode::INVALID_FIELD));
        }
        self.settings.enable_copy_formats(cdfe);
        self.behavior = behavior;
        Ok(())
    }
}

/// Host Identifier: over fabrics it always has 128 bits.
pub(super) fn check_host_id_size(cdw11: u32) -> Result<(), Fail> {
    if cdw11 & HOST_ID_EXTENDED == 0 { Err(Fail::field(VALUE)) } else { Ok(()) }
}

/// The host described less data than the feature has.
fn too_short() -> Fail {
    Fail::dnr(StatusCode::DATA_SGL_LENGTH_INVALID).at(at::SGL1)
}
