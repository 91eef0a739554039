//! Get Log Page (NVMe Base 2.1, 5.1.12).

pub(super) mod changed;
pub(super) mod error;

use super::Target;
use super::controller::{Controller, ControllerKey, Kind};
use super::execute::ADMIN_COMMANDS;
use super::fail::{Answer, Fail, at};
use super::features;
use super::identify::firmware_revision;
use crate::Outcome;
use crate::view::IoTotals;
use core::time::Duration;
use nvme_spec_types::feature::FeatureCapabilities;
use nvme_spec_types::identify::Csi;
use nvme_spec_types::log::{
    CommandEffects, CommandEffectsLog, EffectScope, FeatureEffects, FeatureEffectsLog,
    FirmwareSlotLog, GetLogPage, LogSupport, SmartLog, SupportedLogs,
};
use nvme_spec_types::nvm::NSID_ALL;
use nvme_spec_types::status::StatusCode;
use nvme_spec_types::{Command, IoOpcode, LogId};

/// Log pages of a controller for I/O.
const IO_LOGS: &[LogId] = &[
    LogId::SUPPORTED,
    LogId::ERROR,
    LogId::SMART,
    LogId::FIRMWARE_SLOT,
    LogId::CHANGED_NAMESPACES,
    LogId::COMMAND_EFFECTS,
    LogId::FEATURE_EFFECTS,
    LogId::NVME_MI_EFFECTS,
];

/// Log pages of a discovery controller.
const DISCOVERY_LOGS: &[LogId] = &[
    LogId::SUPPORTED,
    LogId::ERROR,
    LogId::COMMAND_EFFECTS,
    LogId::FEATURE_EFFECTS,
    LogId::NVME_MI_EFFECTS,
    LogId::DISCOVERY,
];

/// In the supported log pages, of the discovery log: port local entries can be asked for.
const PORT_LOCAL_SUPPORTED: u16 = 1 << 1;
/// In the log specific parameter for the discovery log: entries of the asked port only.
const PORT_LOCAL: u8 = 1 << 1;

/// What I/O queues carry out, and whether it changes what is stored.
const IO_COMMANDS: &[(IoOpcode, bool)] = &[
    (IoOpcode::FLUSH, false),
    (IoOpcode::WRITE, true),
    (IoOpcode::READ, false),
    (IoOpcode::COMPARE, false),
    (IoOpcode::WRITE_ZEROES, true),
    (IoOpcode::DATASET_MANAGEMENT, true),
    (IoOpcode::VERIFY, false),
    (IoOpcode::COPY, true),
];

/// The NVMe-MI commands log is this long; no command is supported.
const NVME_MI_LOG_SIZE: usize = 4096;
/// Spare left, in percent: there is no medium here that wears out.
const SPARE: u8 = 100;
/// The firmware slot in use, the only one.
const SLOT: u8 = 1;

/// A part of a log page, from `offset` on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Window {
    pub(super) offset: u64,
    /// At most the largest transfer.
    pub(super) len: usize,
}

impl Window {
    /// That part of `page`; beyond its end is zero.
    ///
    /// # Errors
    /// Invalid Field when it starts beyond the end.
    fn of(self, page: &[u8]) -> Result<Vec<u8>, Fail> {
        let rest = usize::try_from(self.offset).ok().and_then(|at| page.get(at..));
        let rest = rest.ok_or(Fail::field(at::CDW12))?;
        let mut part = rest[..rest.len().min(self.len)].to_vec();
        part.resize(self.len, 0);
        Ok(part)
    }
}

impl Target {
    /// Get Log Page.
    pub(super) fn get_log_page(
        &mut self,
        now: Duration,
        key: ControllerKey,
        command: &Command,
    ) -> Answer {
        let get = GetLogPage::from_command(command);
        let controller = &self.controllers[&key];
        let logs = match controller.kind {
            Kind::Io => IO_LOGS,
            Kind::Discovery => DISCOVERY_LOGS,
        };
        if !logs.contains(&get.lid) {
            return Err(Fail::dnr(StatusCode::INVALID_LOG_PAGE).at(at::CDW10));
        }
        if get.lid != LogId::SMART && !matches!(get.nsid, 0 | NSID_ALL) {
            return Err(Fail::field(at::NSID));
        }
        if get.data_len() > self.config.max_transfer.into() {
            return Err(Fail::field(at::CDW10 + 2));
        }
        if get.offset_is_index {
            return Err(Fail::field((7 << 8) | (at::CDW14 + 2)));
        }
        if !get.offset.is_multiple_of(4) {
            return Err(Fail::field(at::CDW12));
        }
        let window = Window { offset: get.offset, len: get.data_len() as usize };
        let data = match get.lid {
            LogId::SUPPORTED => window.of(&supported(logs).to_bytes())?,
            LogId::ERROR => window.of(&controller.errors.page())?,
            LogId::SMART => window.of(&self.smart(now, controller, get.nsid)?.to_bytes())?,
            LogId::FIRMWARE_SLOT => window.of(&firmware_slot().to_bytes())?,
            LogId::CHANGED_NAMESPACES => window.of(&controller.changed.page().to_bytes())?,
            LogId::COMMAND_EFFECTS => {
                window.of(&command_effects(controller.kind, get.csi).to_bytes())?
            }
            LogId::FEATURE_EFFECTS => window.of(&feature_effects(controller.kind).to_bytes())?,
            LogId::NVME_MI_EFFECTS => window.of(&[0; NVME_MI_LOG_SIZE])?,
            _ => self.discovery_log(controller, get.lsp & PORT_LOCAL != 0, window)?,
        };
        if !get.rae
            && let Some(controller) = self.controllers.get_mut(&key)
        {
            controller.events.on_log_read(get.lid);
            if get.lid == LogId::CHANGED_NAMESPACES {
                controller.changed.clear();
            }
        }
        Ok(Outcome::data(data).into())
    }

    /// SMART / Health Information, of a namespace or of all. There are no sensors: a temperature
    /// of 0 says so.
    fn smart(&self, now: Duration, controller: &Controller, nsid: u32) -> Result<SmartLog, Fail> {
        let subsystem = &self.subsystems[&controller.key.subsystem];
        let namespaces = &subsystem.namespaces;
        let mut totals = IoTotals::default();
        match nsid {
            0 | NSID_ALL => namespaces.values().for_each(|ns| totals += ns.totals()),
            _ => match namespaces.get(&nsid) {
                Some(namespace) => totals += namespace.totals(),
                None => return Err(subsystem.absent(nsid)),
            },
        }
        let running = now.saturating_sub(self.started.unwrap_or(now));
        Ok(SmartLog {
            avail_spare: SPARE,
            data_units_read: SmartLog::data_units(totals.read_bytes.into()),
            data_units_written: SmartLog::data_units(totals.write_bytes.into()),
            host_reads: totals.read_commands.into(),
            host_writes: totals.write_commands.into(),
            power_on_hours: (running.as_secs() / 3600).into(),
            media_errors: totals.errors.into(),
            error_log_entries: controller.errors.count().into(),
            ..SmartLog::default()
        })
    }
}

fn supported(logs: &[LogId]) -> SupportedLogs {
    let mut page = SupportedLogs::default();
    for &lid in logs {
        let specific = if lid == LogId::DISCOVERY { PORT_LOCAL_SUPPORTED } else { 0 };
        *page.log_mut(lid) = LogSupport { supported: true, index_offset: false, specific };
    }
    page
}

fn firmware_slot() -> FirmwareSlotLog {
    let mut page = FirmwareSlotLog { afi: SLOT, ..FirmwareSlotLog::default() };
    page.frs[0] = firmware_revision();
    page
}

/// Of a command set that is not offered no I/O command is supported, and that is the answer: hosts
/// ask for sets without knowing which there are.
fn command_effects(kind: Kind, set: Csi) -> CommandEffectsLog {
    let mut page = CommandEffectsLog::default();
    for &opcode in ADMIN_COMMANDS {
        *page.admin_mut(opcode) = CommandEffects::SUPPORTED;
    }
    let io = if (kind, set) == (Kind::Io, Csi::NVM) { IO_COMMANDS } else { &[] };
    for &(opcode, changes) in io {
        let content = if changes { CommandEffects::BLOCK_CONTENT } else { CommandEffects::empty() };
        *page.io_mut(opcode) = CommandEffects::SUPPORTED | content;
    }
    page
}

fn feature_effects(kind: Kind) -> FeatureEffectsLog {
    let mut page = FeatureEffectsLog::default();
    for &fid in features::supported(kind) {
        let of_namespace =
            features::capabilities(fid).contains(FeatureCapabilities::NAMESPACE_SPECIFIC);
        let scope = if of_namespace { EffectScope::NAMESPACE } else { EffectScope::CONTROLLER };
        *page.feature_mut(fid) = FeatureEffects::SUPPORTED.with_scope(scope);
    }
    page
}

#[cfg(test)]
mod tests;
