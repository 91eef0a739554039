//! Log pages.
//!
//! The pages are split by what they are about; here is what they share: the
//! identifiers and the command.

use crate::identify::Csi;
use crate::{AdminOpcode, Command, SglDescriptor, ZeroBased};

mod ana;
mod discovery;
mod effects;
mod health;
mod reservation;
#[cfg(test)]
mod tests;

pub use crate::identify::NamespaceList as ChangedNamespaceList;
pub use ana::{AnaGroupDescriptor, AnaLogHeader, AnaState, LSP_ANA_GROUPS_ONLY};
pub use discovery::{
    AddressFamily, DiscoveryEntry, DiscoveryEntryFlags, DiscoveryHeader, RdmaCms, RdmaProvider,
    RdmaQpType, RdmaTsas, SubsystemType, TransportRequirements, TransportType,
};
pub use effects::{
    CommandEffects, CommandEffectsLog, EffectScope, FeatureEffects, FeatureEffectsLog, LogSupport,
    SupportedLogs,
};
pub use health::{
    CriticalWarnings, ErrorEntry, FirmwareSlotLog, ParameterLocation, SelfTestLog, SelfTestResult,
    SmartLog,
};
pub use reservation::{ReservationNotification, ReservationNotificationKind};

/// First entry of [`ChangedNamespaceList`] when more than 1024 changed.
pub const CHANGED_NAMESPACES_OVERFLOW: u32 = 0xffff_ffff;

codes! {
    /// Log page identifier (LID) (NVMe Base 2.1, 5.1.12).
    pub struct LogId(u8) {
        SUPPORTED = 0x00, "Supported Log Pages";
        ERROR = 0x01, "Error Information";
        SMART = 0x02, "SMART / Health Information";
        FIRMWARE_SLOT = 0x03, "Firmware Slot Information";
        CHANGED_NAMESPACES = 0x04, "Changed Attached Namespace List";
        COMMAND_EFFECTS = 0x05, "Commands Supported and Effects";
        SELF_TEST = 0x06, "Device Self-test";
        TELEMETRY_HOST = 0x07, "Telemetry Host-Initiated";
        TELEMETRY_CONTROLLER = 0x08, "Telemetry Controller-Initiated";
        ENDURANCE_GROUP = 0x09, "Endurance Group Information";
        PREDICTABLE_LATENCY = 0x0a, "Predictable Latency Per NVM Set";
        PREDICTABLE_LATENCY_AGGREGATE = 0x0b, "Predictable Latency Event Aggregate";
        ANA = 0x0c, "Asymmetric Namespace Access";
        PERSISTENT_EVENT = 0x0d, "Persistent Event Log";
        LBA_STATUS = 0x0e, "LBA Status Information";
        ENDURANCE_GROUP_AGGREGATE = 0x0f, "Endurance Group Event Aggregate";
        MEDIA_UNIT_STATUS = 0x10, "Media Unit Status";
        CAPACITY_CONFIGURATION = 0x11, "Supported Capacity Configuration List";
        FEATURE_EFFECTS = 0x12, "Feature Identifiers Supported and Effects";
        NVME_MI_EFFECTS = 0x13, "NVMe-MI Commands Supported and Effects";
        LOCKDOWN = 0x14, "Command and Feature Lockdown";
        BOOT_PARTITION = 0x15, "Boot Partition";
        ROTATIONAL_MEDIA = 0x16, "Rotational Media Information";
        DISPERSED_NAMESPACES = 0x17, "Dispersed Namespace Participating NVM Subsystems";
        MANAGEMENT_ADDRESS_LIST = 0x18, "Management Address List";
        REACHABILITY_GROUPS = 0x1a, "Reachability Groups";
        REACHABILITY_ASSOCIATIONS = 0x1b, "Reachability Associations";
        CHANGED_ALLOCATED_NAMESPACES = 0x1c, "Changed Allocated Namespace List";
        FDP_CONFIGURATIONS = 0x20, "FDP Configurations";
        FDP_RECLAIM_UNIT_USAGE = 0x21, "Reclaim Unit Handle Usage";
        FDP_STATISTICS = 0x22, "FDP Statistics";
        FDP_EVENTS = 0x23, "FDP Events";
        DISCOVERY = 0x70, "Discovery";
        HOST_DISCOVERY = 0x71, "Host Discovery";
        AVE_DISCOVERY = 0x72, "AVE Discovery";
        PULL_MODEL_DDC_REQUEST = 0x73, "Pull Model DDC Request";
        RESERVATION_NOTIFICATION = 0x80, "Reservation Notification";
        SANITIZE = 0x81, "Sanitize Status";
        CHANGED_ZONES = 0xbf, "Changed Zone List";
    }
}

/// The Get Log Page command (NVMe Base 2.1, 5.1.12).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GetLogPage {
    /// Namespace, or FFFFFFFFh for the controller.
    pub nsid: u32,
    /// Log page.
    pub lid: LogId,
    /// Log specific parameter (LSP), 7 bits.
    pub lsp: u8,
    /// Retain asynchronous event (RAE): reading does not re-arm the event.
    pub rae: bool,
    /// Dwords to return (NUMDU and NUMDL); see [`GetLogPage::data_len`].
    pub numd: ZeroBased<u32>,
    /// Log specific identifier (LSI).
    pub lsi: u16,
    /// Where to start (LPOU and LPOL): a byte, a multiple of 4 if the host is
    /// right, or by [`GetLogPage::offset_is_index`] an entry.
    pub offset: u64,
    /// Offset type (OT).
    pub offset_is_index: bool,
    /// UUID index, 7 bits; 0 for none.
    pub uuid_index: u8,
    /// Command set, for the pages that are of one.
    pub csi: Csi,
}

impl GetLogPage {
    /// Reads the fields; the opcode is not looked at.
    pub fn from_command(cmd: &Command) -> Self {
        let (cdw10, cdw11, cdw14) = (cmd.cdw10(), cmd.cdw11(), cmd.cdw14());
        Self {
            nsid: cmd.nsid(),
            lid: LogId(cdw10 as u8),
            lsp: (cdw10 >> 8) as u8 & 0x7f,
            rae: cdw10 >> 15 & 1 != 0,
            numd: ZeroBased::<u32>::from_raw(cdw10 >> 16 | cdw11 << 16),
            lsi: (cdw11 >> 16) as u16,
            offset: u64::from(cmd.cdw12()) | u64::from(cmd.cdw13()) << 32,
            offset_is_index: cdw14 >> 23 & 1 != 0,
            uuid_index: cdw14 as u8 & 0x7f,
            csi: Csi((cdw14 >> 24) as u8),
        }
    }

    /// The command.
    pub fn to_command(&self, cid: u16, sgl: SglDescriptor) -> Command {
        let mut cmd = Command::admin(AdminOpcode::GET_LOG_PAGE, cid, self.nsid, sgl);
        let numd = self.numd.raw();
        cmd.set_cdw10(
            u32::from(self.lid.0)
                | u32::from(self.lsp & 0x7f) << 8
                | u32::from(self.rae) << 15
                | numd << 16,
        );
        cmd.set_cdw11(numd >> 16 | u32::from(self.lsi) << 16);
        cmd.set_cdw12(self.offset as u32);
        cmd.set_cdw13((self.offset >> 32) as u32);
        cmd.set_cdw14(
            u32::from(self.uuid_index & 0x7f)
                | u32::from(self.offset_is_index) << 23
                | u32::from(self.csi.0) << 24,
        );
        cmd
    }

    /// Bytes to return: 4 to 2 to the power of 34.
    pub const fn data_len(&self) -> u64 {
        self.numd.count() * 4
    }

    /// NUMD for `len` bytes, rounded up to dwords; at least one.
    pub const fn numd_for(len: u64) -> ZeroBased<u32> {
        ZeroBased::<u32>::saturating(len.div_ceil(4))
    }
}
