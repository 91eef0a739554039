//! Features: what Set Features and Get Features speak of.

use crate::layout::{Field, get, put};
use crate::{AdminOpcode, Command, SglDescriptor, ZeroBased};

#[cfg(test)]
mod tests;

codes! {
    /// Feature identifier (FID) (NVMe Base 2.1, 5.1.25).
    pub struct FeatureId(u8) {
        ARBITRATION = 0x01, "Arbitration";
        POWER_MANAGEMENT = 0x02, "Power Management";
        LBA_RANGE_TYPE = 0x03, "LBA Range Type";
        TEMPERATURE_THRESHOLD = 0x04, "Temperature Threshold";
        ERROR_RECOVERY = 0x05, "Error Recovery";
        VOLATILE_WRITE_CACHE = 0x06, "Volatile Write Cache";
        NUMBER_OF_QUEUES = 0x07, "Number of Queues";
        INTERRUPT_COALESCING = 0x08, "Interrupt Coalescing";
        INTERRUPT_VECTOR = 0x09, "Interrupt Vector Configuration";
        WRITE_ATOMICITY = 0x0a, "Write Atomicity Normal";
        ASYNC_EVENT = 0x0b, "Asynchronous Event Configuration";
        AUTONOMOUS_POWER = 0x0c, "Autonomous Power State Transition";
        HOST_MEMORY_BUFFER = 0x0d, "Host Memory Buffer";
        TIMESTAMP = 0x0e, "Timestamp";
        KEEP_ALIVE_TIMER = 0x0f, "Keep Alive Timer";
        HOST_THERMAL = 0x10, "Host Controlled Thermal Management";
        NON_OPERATIONAL_POWER = 0x11, "Non-Operational Power State Config";
        READ_RECOVERY_LEVEL = 0x12, "Read Recovery Level Config";
        PREDICTABLE_LATENCY_CONFIG = 0x13, "Predictable Latency Mode Config";
        PREDICTABLE_LATENCY_WINDOW = 0x14, "Predictable Latency Mode Window";
        LBA_STATUS_INTERVAL = 0x15, "LBA Status Information Report Interval";
        HOST_BEHAVIOR = 0x16, "Host Behavior Support";
        SANITIZE_CONFIG = 0x17, "Sanitize Config";
        ENDURANCE_GROUP_EVENT = 0x18, "Endurance Group Event Configuration";
        IO_COMMAND_SET_PROFILE = 0x19, "I/O Command Set Profile";
        SPINUP_CONTROL = 0x1a, "Spinup Control";
        POWER_LOSS_SIGNALING = 0x1b, "Power Loss Signaling Config";
        PERFORMANCE_CHARACTERISTICS = 0x1c, "Performance Characteristics";
        FDP = 0x1d, "Flexible Data Placement";
        FDP_EVENTS = 0x1e, "Flexible Data Placement Events";
        NAMESPACE_ADMIN_LABEL = 0x1f, "Namespace Admin Label";
        CONTROLLER_DATA_QUEUE = 0x21, "Controller Data Queue";
        ENHANCED_CONTROLLER_METADATA = 0x7d, "Enhanced Controller Metadata";
        CONTROLLER_METADATA = 0x7e, "Controller Metadata";
        NAMESPACE_METADATA = 0x7f, "Namespace Metadata";
        SOFTWARE_PROGRESS = 0x80, "Software Progress Marker";
        HOST_IDENTIFIER = 0x81, "Host Identifier";
        RESERVATION_NOTIFICATION_MASK = 0x82, "Reservation Notification Mask";
        RESERVATION_PERSISTENCE = 0x83, "Reservation Persistence";
        NAMESPACE_WRITE_PROTECTION = 0x84, "Namespace Write Protection Config";
        BOOT_PARTITION_WRITE_PROTECTION = 0x85, "Boot Partition Write Protection Config";
    }
}

codes! {
    /// Which value of a feature Get Features asks for (SEL), 3 bits.
    pub struct FeatureSelect(u8) {
        CURRENT = 0, "current";
        DEFAULT = 1, "default";
        SAVED = 2, "saved";
        CAPABILITIES = 3, "supported capabilities";
    }
}

flags! {
    /// Dword 0 of Get Features that asked for
    /// [`FeatureSelect::CAPABILITIES`].
    pub struct FeatureCapabilities(u32) {
        /// The value can be saved.
        SAVEABLE = 0;
        /// The feature is of a namespace.
        NAMESPACE_SPECIFIC = 1;
        /// The value can be changed.
        CHANGEABLE = 2;
    }
}

/// The Get Features command (NVMe Base 2.1, 5.1.11).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GetFeatures {
    /// Namespace, for features that are of one.
    pub nsid: u32,
    /// Feature.
    pub fid: FeatureId,
    /// Which of its values.
    pub sel: FeatureSelect,
    /// Dword 11, which some features read.
    pub cdw11: u32,
    /// UUID index, 7 bits; 0 for none.
    pub uuid_index: u8,
}

impl GetFeatures {
    /// Reads the fields; the opcode is not looked at.
    pub fn from_command(cmd: &Command) -> Self {
        let cdw10 = cmd.cdw10();
        Self {
            nsid: cmd.nsid(),
            fid: FeatureId(cdw10 as u8),
            sel: FeatureSelect((cdw10 >> 8) as u8 & 7),
            cdw11: cmd.cdw11(),
            uuid_index: cmd.cdw14() as u8 & 0x7f,
        }
    }

    /// The command.
    pub fn to_command(&self, cid: u16, sgl: SglDescriptor) -> Command {
        let mut cmd = Command::admin(AdminOpcode::GET_FEATURES, cid, self.nsid, sgl);
        cmd.set_cdw10(u32::from(self.fid.0) | u32::from(self.sel.0 & 7) << 8);
        cmd.set_cdw11(self.cdw11);
        cmd.set_cdw14(u32::from(self.uuid_index & 0x7f));
        cmd
    }
}

/// The Set Features command (NVMe Base 2.1, 5.1.25).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetFeatures {
    /// Namespace, for features that are of one.
    pub nsid: u32,
    /// Feature.
    pub fid: FeatureId,
    /// The value must outlive power and reset (SV).
    pub save: bool,
    /// The value of most features.
    pub cdw11: u32,
    /// More of the value, for some.
    pub cdw12: u32,
    /// UUID index, 7 bits; 0 for none.
    pub uuid_index: u8,
}

impl SetFeatures {
    /// Reads the fields; the opcode is not looked at.
    pub fn from_command(cmd: &Command) -> Self {
        Self {
            nsid: cmd.nsid(),
            fid: FeatureId(cmd.cdw10() as u8),
            save: cmd.cdw10() >> 31 != 0,
            cdw11: cmd.cdw11(),
            cdw12: cmd.cdw12(),
            uuid_index: cmd.cdw14() as u8 & 0x7f,
        }
    }

    /// The command.
    pub fn to_command(&self, cid: u16, sgl: SglDescriptor) -> Command {
        let mut cmd = Command::admin(AdminOpcode::SET_FEATURES, cid, self.nsid, sgl);
        cmd.set_cdw10(u32::from(self.fid.0) | u32::from(self.save) << 31);
        cmd.set_cdw11(self.cdw11);
        cmd.set_cdw12(self.cdw12);
        cmd.set_cdw14(u32::from(self.uuid_index & 0x7f));
        cmd
    }
}

/// Number of Queues, both as asked for (NSQR, NCQR in dword 11) and as given
/// (NSQA, NCQA in dword 0 of the completion) (NVMe Base 2.1, 5.1.25.2.1).
/// The admin queue is not counted. A host may not ask for 65536.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NumberOfQueues {
    /// I/O submission queues.
    pub submission: ZeroBased<u16>,
    /// I/O completion queues.
    pub completion: ZeroBased<u16>,
}

impl NumberOfQueues {
    /// From the dword.
    pub const fn from_dword(dword: u32) -> Self {
        Self {
            submission: ZeroBased::<u16>::from_raw(dword as u16),
            completion: ZeroBased::<u16>::from_raw((dword >> 16) as u16),
        }
    }

    /// The dword.
    pub const fn to_dword(self) -> u32 {
        self.submission.raw() as u32 | (self.completion.raw() as u32) << 16
    }
}

flags! {
    /// Asynchronous Event Configuration, dword 11 (NVMe Base 2.1, 5.1.25.1.5),
    /// and in bits 31:8 also Optional Asynchronous Events Supported (OAES) of
    /// Identify Controller.
    pub struct AsyncEventConfig(u32) {
        /// SMART: spare below threshold.
        SMART_SPARE = 0;
        /// SMART: temperature.
        SMART_TEMPERATURE = 1;
        /// SMART: reliability degraded.
        SMART_RELIABILITY = 2;
        /// SMART: media read only.
        SMART_READ_ONLY = 3;
        /// SMART: volatile memory backup failed.
        SMART_BACKUP_FAILED = 4;
        /// SMART: persistent memory region read only.
        SMART_PMR_READ_ONLY = 5;
        /// Attached namespace attribute notices.
        NAMESPACE_ATTRIBUTE = 8;
        /// Firmware activation notices.
        FIRMWARE_ACTIVATION = 9;
        /// Telemetry log notices.
        TELEMETRY_LOG = 10;
        /// Asymmetric namespace access change notices.
        ANA_CHANGE = 11;
        /// Predictable latency event aggregate log change notices.
        PREDICTABLE_LATENCY = 12;
        /// LBA status information notices.
        LBA_STATUS = 13;
        /// Endurance group event aggregate log change notices.
        ENDURANCE_GROUP = 14;
        /// Normal NVM subsystem shutdown.
        NORMAL_SHUTDOWN = 15;
        /// Temperature threshold hysteresis recovery.
        TEMPERATURE_HYSTERESIS = 16;
        /// Reachability groups change notices.
        REACHABILITY_GROUP = 17;
        /// Reachability association change notices.
        REACHABILITY_ASSOCIATION = 18;
        /// Allocated namespace attribute notices.
        ALLOCATED_NAMESPACE_ATTRIBUTE = 19;
        /// Zone descriptor changed notices.
        ZONE_DESCRIPTOR = 27;
        /// Discovery log page change notifications.
        DISCOVERY_LOG = 31;
    }
}

/// Arbitration, dword 11 (NVMe Base 2.1, 5.1.25.1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arbitration {
    /// Burst (AB), 3 bits: 2 to the power of this; 7 is no limit.
    pub burst: u8,
    /// Weight of the low class.
    pub low: ZeroBased<u8>,
    /// Weight of the medium class.
    pub medium: ZeroBased<u8>,
    /// Weight of the high class.
    pub high: ZeroBased<u8>,
}

impl Arbitration {
    /// From the dword.
    pub const fn from_dword(dword: u32) -> Self {
        let [burst, low, medium, high] = dword.to_le_bytes();
        Self {
            burst: burst & 7,
            low: ZeroBased::<u8>::from_raw(low),
            medium: ZeroBased::<u8>::from_raw(medium),
            high: ZeroBased::<u8>::from_raw(high),
        }
    }

    /// The dword.
    pub const fn to_dword(self) -> u32 {
        u32::from_le_bytes([self.burst & 7, self.low.raw(), self.medium.raw(), self.high.raw()])
    }
}

/// Temperature Threshold, dword 11 (NVMe Base 2.1, 5.1.25.1.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TemperatureThreshold {
    /// Threshold in kelvins (TMPTH).
    pub kelvin: u16,
    /// Sensor (TMPSEL), 4 bits: 0 composite, 1 to 8 a sensor, Fh all in Set.
    pub sensor: u8,
    /// An under-temperature threshold (THSEL 1) and not an over-temperature
    /// one (0); `None` for a reserved value.
    pub under: Option<bool>,
    /// Hysteresis in kelvins (TMPTHH), 3 bits.
    pub hysteresis: u8,
}

impl TemperatureThreshold {
    /// From the dword.
    pub const fn from_dword(dword: u32) -> Self {
        Self {
            kelvin: dword as u16,
            sensor: (dword >> 16) as u8 & 0xf,
            under: match dword >> 20 & 3 {
                0 => Some(false),
                1 => Some(true),
                _ => None,
            },
            hysteresis: (dword >> 22) as u8 & 7,
        }
    }

    /// The dword; a reserved THSEL comes out as 2.
    pub const fn to_dword(self) -> u32 {
        let thsel = match self.under {
            Some(under) => under as u32,
            None => 2,
        };
        self.kelvin as u32
            | (self.sensor as u32 & 0xf) << 16
            | thsel << 20
            | (self.hysteresis as u32 & 7) << 22
    }
}

/// Error Recovery, dword 11 (NVM 1.1, 4.1.3.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ErrorRecovery {
    /// Time limit for retries in units of 100 ms (TLER); 0 for none.
    pub time_limit_100ms: u16,
    /// Reading a deallocated or unwritten block is an error (DULBE).
    pub dulbe: bool,
}

impl ErrorRecovery {
    /// From the dword.
    pub const fn from_dword(dword: u32) -> Self {
        Self { time_limit_100ms: dword as u16, dulbe: dword >> 16 & 1 != 0 }
    }

    /// The dword.
    pub const fn to_dword(self) -> u32 {
        self.time_limit_100ms as u32 | (self.dulbe as u32) << 16
    }
}

/// Volatile Write Cache, dword 11: the cache is on (WCE)
/// (NVMe Base 2.1, 5.1.25.1.4).
pub const VWC_ENABLE: u32 = 1 << 0;
/// Write Atomicity Normal, dword 11: AWUN and NAWUN need not be kept (DN)
/// (NVM 1.1, 4.1.3.4).
pub const WRITE_ATOMICITY_DISABLE_NORMAL: u32 = 1 << 0;
/// Host Identifier, dword 11: the identifier has 128 bits (EXHID), always so
/// over fabrics (NVMe Base 2.1, 5.1.25).
pub const HOST_ID_EXTENDED: u32 = 1 << 0;
/// Reservation Persistence, dword 11: reservations outlive power loss (PTPL)
/// (NVMe Base 2.1, 5.1.25).
pub const RESERVATION_PTPL: u32 = 1 << 0;

flags! {
    /// Reservation Notification Mask, dword 11: a set bit keeps the
    /// notification away (NVMe Base 2.1, 5.1.25).
    pub struct ReservationMask(u32) {
        /// Registration preempted (REGPRE).
        REGISTRATION_PREEMPTED = 1;
        /// Reservation released (RESREL).
        RESERVATION_RELEASED = 2;
        /// Reservation preempted (RESPRE).
        RESERVATION_PREEMPTED = 3;
    }
}

codes! {
    /// Namespace Write Protection state, bits 2:0 of dword 11
    /// (NVMe Base 2.1, 5.1.25).
    pub struct WriteProtection(u8) {
        NONE = 0, "no write protect";
        PROTECTED = 1, "write protect";
        UNTIL_POWER_CYCLE = 2, "write protect until power cycle";
        PERMANENT = 3, "permanent write protect";
    }
}

layout! {
    /// What Host Behavior Support transfers (NVMe Base 2.1, 5.1.25).
    pub struct HostBehavior[512] {
        /// Advanced command retry (ACRE): 1 when the host heeds the retry
        /// delay of a status.
        0 => pub acre: u8,
        /// Extended telemetry data area 4 (ETDAS).
        1 => pub etdas: u8,
        /// Extended LBA formats (LBAFEE).
        2 => pub lbafee: u8,
        /// Host dispersed namespaces (HDISNS).
        3 => pub hdisns: u8,
        /// Copy descriptor formats 2 and up that the host uses (CDFE), a bit
        /// for each.
        4 => pub cdfe: u16,
    }
}

/// What Timestamp transfers: 8 bytes (NVMe Base 2.1, 5.1.25.1.7).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timestamp {
    /// Milliseconds since the Unix epoch or since a reset, 48 bits.
    pub milliseconds: u64,
    /// The clock may have stood still (SYNC).
    pub may_have_stopped: bool,
    /// Where the value came from, 3 bits: 0 a reset, 1 Set Features.
    pub origin: u8,
}

impl Timestamp {
    /// Reads the eight bytes.
    pub fn from_bytes(bytes: &[u8; 8]) -> Self {
        let word: u64 = get(bytes, 0);
        Self {
            milliseconds: word & 0xffff_ffff_ffff,
            may_have_stopped: bytes[6] & 1 != 0,
            origin: bytes[6] >> 1 & 7,
        }
    }

    /// The eight bytes; milliseconds above 48 bits are dropped.
    pub fn to_bytes(&self) -> [u8; 8] {
        let mut out = [0; u64::SIZE];
        put(&mut out, 0, self.milliseconds & 0xffff_ffff_ffff);
        out[6] = u8::from(self.may_have_stopped) | (self.origin & 7) << 1;
        out
    }
}
