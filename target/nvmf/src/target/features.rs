//! Get Features and Set Features (NVMe Base 2.1, 5.1.11 and 5.1.25).
//!
//! Nothing is saved: a controller lasts as long as its association, and a saved value would have
//! nothing to come back to. A saved value is the default, and asking to save is refused.

mod data;

use super::aer;
use super::controller::{Controller, ControllerKey, Kind};
use super::fail::{Answer, Fail, at};
use super::flush::After;
use super::{Target, TargetAction, TargetConfig};
use crate::view::HostSettings;
use crate::{Outcome, Slot};
use core::time::Duration;
use data::Clock;
use nvme_spec_types::feature::{
    AsyncEventConfig, ErrorRecovery, FeatureCapabilities, GetFeatures, HostBehavior,
    NumberOfQueues, SetFeatures, TemperatureThreshold, VWC_ENABLE, WRITE_ATOMICITY_DISABLE_NORMAL,
};
use nvme_spec_types::nvm::NSID_ALL;
use nvme_spec_types::status::StatusCode;
use nvme_spec_types::{Command, FeatureId, FeatureSelect, ZeroBased};
use std::collections::BTreeMap;

/// What is feature-specific in Get and Set Features is at this byte.
const VALUE: u16 = at::CDW11;
/// Byte with the Select field (bits 10:8 of dword 10).
const SELECT: u16 = at::CDW10 + 1;
/// Bit with the Save field (bit 31 of dword 10).
const SAVE: u16 = (7 << 8) | (at::CDW10 + 3);
/// Arbitration as after a reset: no limit to a burst.
const ARBITRATION_DEFAULT: u32 = 7;
/// Over-temperature threshold as after a reset: never.
const OVER_TEMPERATURE_DEFAULT: u16 = u16::MAX;
/// Power Management: the power state, and the workload hint.
const POWER_STATE: u32 = 0x1f;
const WORKLOAD_HINT: u32 = 0xe0;
/// In Set Features: every temperature sensor.
const ALL_SENSORS: u8 = 0xf;

/// Features of a controller for I/O.
pub(super) const IO_FEATURES: &[FeatureId] = &[
    FeatureId::ARBITRATION,
    FeatureId::POWER_MANAGEMENT,
    FeatureId::TEMPERATURE_THRESHOLD,
    FeatureId::ERROR_RECOVERY,
    FeatureId::VOLATILE_WRITE_CACHE,
    FeatureId::NUMBER_OF_QUEUES,
    FeatureId::WRITE_ATOMICITY,
    FeatureId::ASYNC_EVENT,
    FeatureId::TIMESTAMP,
    FeatureId::KEEP_ALIVE_TIMER,
    FeatureId::HOST_BEHAVIOR,
    FeatureId::IO_COMMAND_SET_PROFILE,
    FeatureId::HOST_IDENTIFIER,
];

/// Features of a discovery controller.
pub(super) const DISCOVERY_FEATURES: &[FeatureId] =
    &[FeatureId::ASYNC_EVENT, FeatureId::KEEP_ALIVE_TIMER, FeatureId::HOST_IDENTIFIER];

/// The features that a controller of that kind has.
pub(super) fn supported(kind: Kind) -> &'static [FeatureId] {
    match kind {
        Kind::Io => IO_FEATURES,
        Kind::Discovery => DISCOVERY_FEATURES,
    }
}

/// What can be done with a feature.
pub(super) fn capabilities(fid: FeatureId) -> FeatureCapabilities {
    match fid {
        FeatureId::IO_COMMAND_SET_PROFILE | FeatureId::HOST_IDENTIFIER => {
            FeatureCapabilities::empty()
        }
        FeatureId::ERROR_RECOVERY => {
            FeatureCapabilities::CHANGEABLE | FeatureCapabilities::NAMESPACE_SPECIFIC
        }
        _ => FeatureCapabilities::CHANGEABLE,
    }
}

/// The features of one controller that are values only. Asynchronous events and keep alive keep
/// theirs themselves.
#[derive(Debug, Clone)]
pub(super) struct Features {
    /// I/O queues that the controller may have: ids 1 to this.
    pub(super) io_queues: u16,
    arbitration: u32,
    over_temperature: u16,
    under_temperature: u16,
    /// What I/O queues heed: the write cache, copy formats.
    pub(super) settings: HostSettings,
    behavior: HostBehavior,
    clock: Clock,
    /// Bits 7:5 of Power Management.
    workload_hint: u32,
    /// By namespace, where it is not the default; at most one for each namespace.
    error_recovery: BTreeMap<u32, u32>,
    write_atomicity: u32,
    /// The write cache was turned off, and what it held is durable.
    pub(super) cache_is_empty: bool,
}

impl Features {
    pub(super) fn new(now: Duration, kind: Kind, config: &TargetConfig) -> Features {
        Features {
            io_queues: match kind {
                Kind::Io => config.max_io_queues,
                Kind::Discovery => 0,
            },
            arbitration: ARBITRATION_DEFAULT,
            over_temperature: OVER_TEMPERATURE_DEFAULT,
            under_temperature: 0,
            settings: HostSettings::default(),
            behavior: HostBehavior::default(),
            clock: Clock::started(now),
            workload_hint: 0,
            error_recovery: BTreeMap::new(),
            write_atomicity: 0,
            cache_is_empty: false,
        }
    }

    /// The namespace is gone, and what was set for it.
    pub(super) fn forget_namespace(&mut self, nsid: u32) {
        self.error_recovery.remove(&nsid);
    }

    fn threshold(&mut self, under: bool) -> &mut u16 {
        if under { &mut self.under_temperature } else { &mut self.over_temperature }
    }
}

impl Target {
    /// Get Features.
    pub(super) fn get_features(
        &self,
        now: Duration,
        controller: &Controller,
        command: &Command,
    ) -> Answer {
        let get = GetFeatures::from_command(command);
        let fid = get.fid;
        if !supported(controller.kind).contains(&fid) {
            return Err(Fail::field(at::CDW10));
        }
        let default = Features::new(now, controller.kind, &self.config);
        let (features, events, kato_ms) = match get.sel {
            FeatureSelect::CURRENT => {
                (&controller.features, controller.events.config, controller.keep_alive.kato_ms)
            }
            FeatureSelect::DEFAULT | FeatureSelect::SAVED => {
                (&default, aer::supported(controller.kind), 0)
            }
            FeatureSelect::CAPABILITIES => {
                return Ok(Outcome::result(capabilities(fid).bits().into()).into());
            }
            _ => return Err(Fail::field(SELECT)),
        };
        let value = match fid {
            FeatureId::ARBITRATION => features.arbitration,
            FeatureId::TEMPERATURE_THRESHOLD => {
                let asked = TemperatureThreshold::from_dword(get.cdw11);
                let (Some(under), 0) = (asked.under, asked.sensor) else {
                    return Err(Fail::field(VALUE + 2));
                };
                let limit =
                    if under { features.under_temperature } else { features.over_temperature };
                limit.into()
            }
            FeatureId::ERROR_RECOVERY => {
                self.check_namespace_feature(controller, get.nsid)?;
                features.error_recovery.get(&get.nsid).copied().unwrap_or(0)
            }
            FeatureId::POWER_MANAGEMENT => features.workload_hint,
            FeatureId::VOLATILE_WRITE_CACHE if features.settings.write_through() => 0,
            FeatureId::VOLATILE_WRITE_CACHE => VWC_ENABLE,
            FeatureId::NUMBER_OF_QUEUES => queues(features.io_queues).to_dword(),
            FeatureId::WRITE_ATOMICITY => features.write_atomicity,
            FeatureId::ASYNC_EVENT => events.bits(),
            FeatureId::KEEP_ALIVE_TIMER => kato_ms,
            FeatureId::HOST_IDENTIFIER => {
                data::check_host_id_size(get.cdw11)?;
                return Ok(Outcome::data(controller.hostid.to_vec()).into());
            }
            FeatureId::HOST_BEHAVIOR => {
                return Ok(Outcome::data(features.behavior.to_bytes().to_vec()).into());
            }
            FeatureId::TIMESTAMP => {
                return Ok(Outcome::data(features.clock.read(now).to_vec()).into());
            }
            // One combination of command sets.
            _ => 0,
        };
        Ok(Outcome::result(value.into()).into())
    }

    /// Set Features.
    pub(super) fn set_features(
        &mut self,
        now: Duration,
        key: ControllerKey,
        slot: Slot,
        (command, data): (&Command, &[u8]),
        out: &mut Vec<TargetAction>,
    ) -> Answer {
        let set = SetFeatures::from_command(command);
        let controller = &self.controllers[&key];
        if !supported(controller.kind).contains(&set.fid) {
            return Err(Fail::field(at::CDW10));
        }
        if set.save {
            return Err(Fail::dnr(StatusCode::FEATURE_NOT_SAVEABLE).at(SAVE));
        }
        let of_namespace = capabilities(set.fid).contains(FeatureCapabilities::NAMESPACE_SPECIFIC);
        if of_namespace {
            if set.nsid != NSID_ALL {
                self.check_namespace_feature(controller, set.nsid)?;
            }
        } else if !matches!(set.nsid, 0 | NSID_ALL) {
            return Err(Fail::dnr(StatusCode::FEATURE_NOT_NAMESPACE_SPECIFIC).at(at::NSID));
        }
        let value = set.cdw11;
        if set.fid == FeatureId::KEEP_ALIVE_TIMER {
            self.set_kato(now, key, value);
            return Ok(Outcome::ok().into());
        }
        let most_queues = self.config.max_io_queues;
        let nsids: Vec<u32> = match set.nsid {
            NSID_ALL => self.subsystems[&key.subsystem].namespaces.keys().copied().collect(),
            nsid => vec![nsid],
        };
        let Some(controller) = self.controllers.get_mut(&key) else {
            return Err(Fail::dnr(StatusCode::INTERNAL_ERROR));
        };
        let features = &mut controller.features;
        match set.fid {
            FeatureId::ARBITRATION => features.arbitration = value & !0xf8,
            FeatureId::POWER_MANAGEMENT => {
                // Power state 0 is the only one; the workload hint is kept and changes nothing.
                if value & POWER_STATE != 0 {
                    return Err(Fail::field(VALUE));
                }
                features.workload_hint = value & WORKLOAD_HINT;
            }
            FeatureId::TEMPERATURE_THRESHOLD => {
                let asked = TemperatureThreshold::from_dword(value);
                match (asked.under, asked.sensor) {
                    (Some(under), 0 | ALL_SENSORS) => *features.threshold(under) = asked.kelvin,
                    _ => return Err(Fail::field(VALUE + 2)),
                }
            }
            FeatureId::ERROR_RECOVERY => {
                let asked = ErrorRecovery::from_dword(value);
                if asked.dulbe {
                    return Err(Fail::field(VALUE + 2));
                }
                for nsid in nsids {
                    features.error_recovery.insert(nsid, asked.to_dword());
                }
            }
            FeatureId::NUMBER_OF_QUEUES => {
                return set_number_of_queues(controller, value, most_queues);
            }
            FeatureId::WRITE_ATOMICITY => {
                features.write_atomicity = value & WRITE_ATOMICITY_DISABLE_NORMAL;
            }
            FeatureId::ASYNC_EVENT => {
                let wanted = AsyncEventConfig::from_bits_retain(value);
                // Only what Identify Controller does not offer is refused: the SMART bits (7:0)
                // may be set on any controller, and nothing ever triggers them here.
                let offered = aer::supported(controller.kind).bits() | 0xff;
                if wanted.bits() & !offered != 0 {
                    return Err(Fail::field(VALUE));
                }
                controller.events.configure(wanted);
            }
            FeatureId::VOLATILE_WRITE_CACHE => {
                let off = value & VWC_ENABLE == 0;
                features.settings.set_write_through(off);
                features.cache_is_empty &= off;
                if off {
                    return self.flush_first(key, slot, command, After::CacheOff, out);
                }
            }
            FeatureId::IO_COMMAND_SET_PROFILE => {
                // Combination 0 is the only one.
                if value & 0x1ff != 0 {
                    return Err(
                        Fail::dnr(StatusCode::IO_COMMAND_SET_COMBINATION_REJECTED).at(VALUE)
                    );
                }
            }
            FeatureId::HOST_BEHAVIOR => features.set_behavior(data)?,
            FeatureId::TIMESTAMP => features.set_timestamp(now, data)?,
            // The host identifier came with Connect (NVMe Base 2.1, 5.1.25.1.28).
            FeatureId::HOST_IDENTIFIER => {
                return Err(Fail::dnr(StatusCode::COMMAND_SEQUENCE_ERROR).at(at::CDW10));
            }
            _ => return Err(Fail::field(at::CDW10)),
        }
        Ok(Outcome::ok().into())
    }

    fn check_namespace_feature(&self, controller: &Controller, nsid: u32) -> Result<(), Fail> {
        let subsystem = &self.subsystems[&controller.key.subsystem];
        match subsystem.namespaces.contains_key(&nsid) {
            true => Ok(()),
            false => Err(subsystem.absent(nsid)),
        }
    }
}

/// Number of Queues: as many pairs as the host asked for, if that is not too many.
fn set_number_of_queues(controller: &mut Controller, value: u32, most: u16) -> Answer {
    let asked = NumberOfQueues::from_dword(value);
    let (submission, completion) = (asked.submission.count(), asked.completion.count());
    if submission > 0xffff {
        return Err(Fail::field(VALUE));
    }
    if completion > 0xffff {
        return Err(Fail::field(VALUE + 2));
    }
    // Not while there are I/O queues (NVMe Base 2.1, 5.1.25.2.1).
    if !controller.io_queues.is_empty() {
        return Err(Fail::dnr(StatusCode::COMMAND_SEQUENCE_ERROR).at(at::CDW10));
    }
    let granted = submission.min(completion).min(most.into()) as u16;
    controller.features.io_queues = granted;
    Ok(Outcome::result(queues(granted).to_dword().into()).into())
}

fn queues(count: u16) -> NumberOfQueues {
    let count = ZeroBased::<u16>::saturating(count.into());
    NumberOfQueues { submission: count, completion: count }
}

#[cfg(test)]
mod tests;
