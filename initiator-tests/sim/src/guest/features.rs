//! Features that a guest sets, and what follows from them for what it is told later.

use super::ask::Extent;
use super::{Guest, Kind, Op, Shared};
use initiator::{Payload, Request, commands};
use nvme_spec_types::StatusCode;
use rdma::Access;

/// Volatile Write Cache.
const WRITE_CACHE: u8 = 0x06;
/// Timestamp, and the size of its data.
const TIMESTAMP: (u8, u32) = (0x0e, 8);
/// Those that can be read by their number alone.
const READABLE: [u8; 9] = [0x01, 0x02, 0x04, 0x06, 0x07, 0x0a, 0x0b, 0x0f, 0x19];
/// Milliseconds between two times that a guest sets: more than a run has.
const STEP_MS: u64 = 1 << 24;

/// What a guest has set on its controller.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Features {
    /// The write cache is off: every write is durable.
    pub(super) write_through: bool,
    /// The time that the clock shows at least.
    clock_ms: u64,
}

/// A command on a feature.
#[derive(Debug, Clone, Copy)]
pub(super) enum Feature {
    /// Turns the write cache off.
    CacheOff,
    /// Sets the clock.
    SetClock(u64),
    /// Reads the clock, which shows this at least.
    ReadClock(u64),
}

impl Guest {
    /// Sets a feature, or reads one.
    pub(super) fn feature(&mut self, shared: &mut Shared) -> bool {
        let invalidate = self.config.invalidate;
        let (clock, len) = TIMESTAMP;
        let mut spans = Vec::new();
        let mut data = Payload::None;
        let kind = match self.rng.below(4) {
            0 if !self.features.write_through => Kind::Feature(Feature::CacheOff),
            1 => Kind::Feature(Feature::SetClock(self.features.clock_ms + STEP_MS)),
            2 => Kind::Feature(Feature::ReadClock(self.features.clock_ms)),
            _ => Kind::Admin,
        };
        if let Kind::Feature(Feature::SetClock(_) | Feature::ReadClock(_)) = kind {
            let Some(memory) = self.memory(len, 1) else { return false };
            spans = memory;
            let access = match kind {
                Kind::Feature(Feature::SetClock(_)) => Access::RemoteRead,
                _ => Access::RemoteWrite,
            };
            data = Payload::Keyed { spans: spans.clone(), access, invalidate };
        }
        let token = shared.token();
        let command = match kind {
            Kind::Feature(Feature::CacheOff) => {
                shared.checker.begin(token); // it flushes
                commands::set_features(WRITE_CACHE, 0)
            }
            Kind::Feature(Feature::SetClock(ms)) => {
                self.put(&spans, &ms.to_le_bytes());
                commands::set_features(clock, 0)
            }
            Kind::Feature(Feature::ReadClock(_)) => commands::get_features(clock),
            _ => commands::get_features(*self.rng.pick(&READABLE)),
        };
        self.submit(shared, Request { command, data, token }, kind, Extent::NONE, spans)
    }

    /// A command on a feature has ended.
    pub(super) fn check_feature(
        &mut self,
        token: u64,
        op: &Op,
        feature: Feature,
        code: StatusCode,
        shared: &mut Shared,
    ) -> Result<(), String> {
        match feature {
            Feature::CacheOff if code.is_success() => {
                let disks = shared.there_since(op.issued);
                shared.checker.flushed(token, &disks);
                self.features.write_through = true;
            }
            Feature::CacheOff => {
                shared.checker.end(token);
                // A flush may fail, also because its namespace goes.
                let changed =
                    shared.offers.iter().any(|offers| offers.since(op.issued).count() > 1);
                let gone = changed && code == StatusCode::NAMESPACE_NOT_READY;
                if gone || shared.disk_faults && code != StatusCode::INVALID_FIELD {
                    return Ok(());
                }
            }
            Feature::SetClock(ms) if code.is_success() => {
                self.features.clock_ms = self.features.clock_ms.max(ms);
            }
            Feature::ReadClock(least) if code.is_success() => {
                let bytes = self.take(&op.spans);
                let shown =
                    bytes[..6].iter().rev().fold(0, |ms: u64, &byte| ms << 8 | u64::from(byte));
                if shown < least {
                    return Err(format!("the clock shows {shown} ms and was set to {least}"));
                }
            }
            Feature::SetClock(_) | Feature::ReadClock(_) => {}
        }
        // The host said goodbye before it was carried out.
        match code.is_success() || code == StatusCode::COMMAND_SEQUENCE_ERROR {
            true => Ok(()),
            false => Err(format!("ended with {code:?}")),
        }
    }
}
