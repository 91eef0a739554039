//! Identify Controller, common and of the NVM command set.

use crate::feature::AsyncEventConfig;
use crate::fixed_str::FixedStr;
use crate::layout::Field;
use crate::property::Version;
use crate::{Nqn, NqnError, ZeroBased};

flags! {
    /// Controller multi-path and namespace sharing (CMIC).
    pub struct Cmic(u8) {
        /// The subsystem may have more than one port.
        MULTI_PORT = 0;
        /// The subsystem may have more than one controller.
        MULTI_CONTROLLER = 1;
        /// The controller is of an SR-IOV virtual function.
        VIRTUAL_FUNCTION = 2;
        /// Asymmetric namespace access is reported.
        ANA = 3;
    }
}

flags! {
    /// Controller attributes (CTRATT).
    pub struct ControllerAttributes(u32) {
        /// Host identifiers have 128 bits.
        HOST_ID_128 = 0;
        /// Non-operational power state permissive mode.
        NON_OPERATIONAL_POWER = 1;
        /// NVM sets.
        NVM_SETS = 2;
        /// Read recovery levels.
        READ_RECOVERY_LEVELS = 3;
        /// Endurance groups.
        ENDURANCE_GROUPS = 4;
        /// Predictable latency mode.
        PREDICTABLE_LATENCY = 5;
        /// Keep alive is restarted by any command (TBKAS).
        TRAFFIC_KEEP_ALIVE = 6;
        /// Namespace granularity.
        NAMESPACE_GRANULARITY = 7;
        /// Submission queue associations.
        SQ_ASSOCIATIONS = 8;
        /// UUID list.
        UUID_LIST = 9;
        /// Multiple domains.
        MULTI_DOMAIN = 10;
        /// Fixed capacity management.
        FIXED_CAPACITY = 11;
        /// Variable capacity management.
        VARIABLE_CAPACITY = 12;
        /// Endurance groups can be deleted.
        DELETE_ENDURANCE_GROUP = 13;
        /// NVM sets can be deleted.
        DELETE_NVM_SET = 14;
        /// Extended LBA formats.
        EXTENDED_LBA_FORMATS = 15;
        /// MDTS and size limits leave metadata out.
        MDTS_EXCLUDES_METADATA = 16;
        /// Host memory buffer is restricted to non-operational states.
        HMB_RESTRICT = 17;
        /// Reservations follow the host identifier's changes (RHII).
        RESERVATION_HOST_ID = 18;
        /// Flexible data placement.
        FDP = 19;
    }
}

codes! {
    /// Controller type (CNTRLTYPE).
    pub struct ControllerType(u8) {
        NOT_REPORTED = 0, "not reported";
        IO = 1, "I/O controller";
        DISCOVERY = 2, "discovery controller";
        ADMINISTRATIVE = 3, "administrative controller";
    }
}

flags! {
    /// Optional admin commands (OACS).
    pub struct OptionalAdminCommands(u16) {
        /// Security Send and Receive.
        SECURITY = 0;
        /// Format NVM.
        FORMAT = 1;
        /// Firmware Commit and Image Download.
        FIRMWARE = 2;
        /// Namespace Management and Attachment.
        NAMESPACE_MANAGEMENT = 3;
        /// Device Self-test.
        SELF_TEST = 4;
        /// Directive Send and Receive.
        DIRECTIVES = 5;
        /// NVMe-MI Send and Receive.
        NVME_MI = 6;
        /// Virtualization Management.
        VIRTUALIZATION = 7;
        /// Doorbell Buffer Config.
        DOORBELL_BUFFER = 8;
        /// Get LBA Status.
        GET_LBA_STATUS = 9;
        /// Lockdown.
        LOCKDOWN = 10;
        /// Host managed live migration.
        LIVE_MIGRATION = 11;
    }
}

flags! {
    /// Log page attributes (LPA).
    pub struct LogPageAttributes(u8) {
        /// The SMART log can be of a namespace.
        SMART_PER_NAMESPACE = 0;
        /// Commands Supported and Effects.
        COMMAND_EFFECTS = 1;
        /// Get Log Page takes a 32-bit length and an offset.
        EXTENDED_DATA = 2;
        /// Telemetry.
        TELEMETRY = 3;
        /// Persistent event log.
        PERSISTENT_EVENT = 4;
        /// Supported Log Pages, Feature Identifiers Effects and scopes.
        SUPPORTED_PAGES = 5;
        /// Telemetry data area 4.
        TELEMETRY_AREA_4 = 6;
    }
}

flags! {
    /// Asymmetric namespace access capabilities (ANACAP).
    pub struct AnaCapabilities(u8) {
        /// Reports the optimized state.
        OPTIMIZED = 0;
        /// Reports the non-optimized state.
        NON_OPTIMIZED = 1;
        /// Reports the inaccessible state.
        INACCESSIBLE = 2;
        /// Reports the persistent loss state.
        PERSISTENT_LOSS = 3;
        /// Reports the change state.
        CHANGE = 4;
        /// A namespace's group does not change while it is attached.
        GROUP_ID_FIXED = 6;
        /// Namespace Management can set the group.
        GROUP_ID_MANAGED = 7;
    }
}

/// Queue entry sizes (SQES, CQES), as powers of two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EntrySizes(u8);

impl EntrySizes {
    /// 64 bytes required and most: what SQES is.
    pub const SUBMISSION: Self = Self::new(6, 6);
    /// 16 bytes required and most: what CQES is.
    pub const COMPLETION: Self = Self::new(4, 4);

    /// From powers of two, 0 to 15 each; higher bits are dropped.
    pub const fn new(required: u8, most: u8) -> Self {
        Self(required & 0xf | most << 4)
    }

    /// Required size, as a power of two.
    pub const fn required(self) -> u8 {
        self.0 & 0xf
    }

    /// Largest size, as a power of two.
    pub const fn most(self) -> u8 {
        self.0 >> 4
    }
}

flags! {
    /// Optional NVM commands and features (ONCS).
    pub struct OptionalNvmCommands(u16) {
        /// Compare.
        COMPARE = 0;
        /// Write Uncorrectable.
        WRITE_UNCORRECTABLE = 1;
        /// Dataset Management.
        DATASET_MANAGEMENT = 2;
        /// Write Zeroes.
        WRITE_ZEROES = 3;
        /// Features can be saved and selected.
        FEATURE_SAVE = 4;
        /// Reservations.
        RESERVATIONS = 5;
        /// Timestamp.
        TIMESTAMP = 6;
        /// Verify.
        VERIFY = 7;
        /// Copy.
        COPY = 8;
        /// Every copy is a fast copy.
        ALL_FAST_COPY = 9;
        /// Write Zeroes that deallocate have a limit of their own.
        WRITE_ZEROES_DEALLOCATE_LIMIT = 10;
        /// Write Zeroes can cover the whole namespace.
        NAMESPACE_ZEROES = 11;
    }
}

flags! {
    /// Fused operations (FUSES).
    pub struct FusedOperations(u16) {
        /// Compare and Write.
        COMPARE_AND_WRITE = 0;
    }
}

flags! {
    /// Format NVM attributes (FNA).
    pub struct FormatAttributes(u8) {
        /// A format covers all namespaces.
        FORMAT_ALL = 0;
        /// A secure erase covers all namespaces.
        ERASE_ALL = 1;
        /// Cryptographic erase.
        CRYPTO_ERASE = 2;
        /// The broadcast namespace is not taken.
        NO_BROADCAST = 3;
    }
}

flags! {
    /// Volatile write cache (VWC). Bits 2:1 say what Flush does for all
    /// namespaces: 10b refused, 11b done.
    pub struct VolatileWriteCache(u8) {
        /// There is one.
        PRESENT = 0;
        /// Flush of the broadcast namespace is done; only with
        /// [`VolatileWriteCache::FLUSH_BROADCAST_DEFINED`].
        FLUSH_BROADCAST = 1;
        /// What Flush of the broadcast namespace does is said.
        FLUSH_BROADCAST_DEFINED = 2;
    }
}

flags! {
    /// SGL support (SGLS). Bits 15:8 are the recommended most descriptors.
    pub struct SglSupport(u32) {
        /// SGLs are supported, at any alignment.
        SUPPORTED = 0;
        /// SGLs are supported if dwords are aligned.
        SUPPORTED_DWORD_ALIGNED = 1;
        /// Keyed data block descriptors.
        KEYED = 2;
        /// Bit bucket descriptors.
        BIT_BUCKET = 16;
        /// A byte aligned contiguous metadata buffer.
        METADATA_BYTE_ALIGNED = 17;
        /// An SGL longer than the transfer.
        LONGER_THAN_DATA = 18;
        /// The metadata pointer may name an SGL.
        METADATA_SGL = 19;
        /// Offsets as addresses: data in the capsule.
        OFFSET = 20;
        /// Transport data block descriptors.
        TRANSPORT = 21;
    }
}

flags! {
    /// Fabrics controller attributes (FCATT).
    pub struct FabricsAttributes(u8) {
        /// The controller model is static, else dynamic.
        STATIC_CONTROLLERS = 0;
    }
}

flags! {
    /// Optional Fabrics commands (OFCS).
    pub struct OptionalFabricsCommands(u16) {
        /// Disconnect.
        DISCONNECT = 0;
    }
}

layout! {
    /// Power state descriptor (NVMe Base 2.1, 5.1.13.2.1).
    pub struct PowerState[32] {
        /// Maximum power (MP), in units of 0.01 W or by the scale bit of
        /// `flags` 0.0001 W.
        0 => pub mp: u16,
        /// Bit 0 the scale of MP, bit 1 non-operational.
        3 => pub flags: u8,
        /// Entry latency in microseconds.
        4 => pub enlat_us: u32,
        /// Exit latency in microseconds.
        8 => pub exlat_us: u32,
        /// Relative read throughput.
        12 => pub rrt: u8,
        /// Relative read latency.
        13 => pub rrl: u8,
        /// Relative write throughput.
        14 => pub rwt: u8,
        /// Relative write latency.
        15 => pub rwl: u8,
        /// Idle power.
        16 => pub idlp: u16,
        /// Idle power scale, bits 7:6.
        18 => pub ips: u8,
        /// Active power.
        20 => pub actp: u16,
        /// Active power scale, bits 7:6, and workload, bits 2:0.
        22 => pub apws: u8,
        /// Emergency power fail recovery time.
        23 => pub epfrt: u8,
        /// Forced quiescence vault time.
        24 => pub fqvt: u8,
        /// Emergency power fail vault time.
        25 => pub epfvt: u8,
        /// Scales of the times before.
        26 => pub epf_scales: u8,
        /// Scale of the vault time.
        27 => pub epfvts: u8,
    }
}

layout! {
    /// Identify Controller, CNS 01h (NVMe Base 2.1, 5.1.13.2.1). Fields that
    /// only PCIe or physical media have are there for the host side and for
    /// devices that are passed through.
    pub struct IdentifyController[4096] {
        /// PCI vendor id.
        0 => pub vid: u16,
        /// PCI subsystem vendor id.
        2 => pub ssvid: u16,
        /// Serial number (SN).
        4 => pub sn: FixedStr<20>,
        /// Model number (MN).
        24 => pub mn: FixedStr<40>,
        /// Firmware revision (FR).
        64 => pub fr: FixedStr<8>,
        /// Recommended arbitration burst, as a power of two.
        72 => pub rab: u8,
        /// IEEE OUI, least significant byte first.
        73 => pub ieee: [u8; 3],
        /// Multi-path and sharing.
        76 => pub cmic: Cmic,
        /// Largest transfer (MDTS): 2 to the power of this, in pages of
        /// CAP.MPSMIN; 0 for no limit.
        77 => pub mdts: u8,
        /// Controller id.
        78 => pub cntlid: u16,
        /// Version.
        80 => pub ver: Version,
        /// RTD3 resume latency in microseconds.
        84 => pub rtd3r_us: u32,
        /// RTD3 entry latency in microseconds.
        88 => pub rtd3e_us: u32,
        /// Optional asynchronous events (OAES), in bits 31:8.
        92 => pub oaes: AsyncEventConfig,
        /// Controller attributes.
        96 => pub ctratt: ControllerAttributes,
        /// Read recovery levels.
        100 => pub rrls: u16,
        /// Boot partition capabilities.
        102 => pub bpcap: u8,
        /// NVM subsystem shutdown latency in microseconds.
        104 => pub nssl_us: u32,
        /// Power loss signaling.
        110 => pub plsi: u8,
        /// Controller type.
        111 => pub cntrltype: ControllerType,
        /// FRU GUID.
        112 => pub fguid: [u8; 16],
        /// Retry delay 1 in units of 100 ms, for CRD 1 of a status.
        128 => pub crdt1_100ms: u16,
        /// Retry delay 2 in units of 100 ms.
        130 => pub crdt2_100ms: u16,
        /// Retry delay 3 in units of 100 ms.
        132 => pub crdt3_100ms: u16,
        /// Reachability capabilities.
        134 => pub crcap: u8,
        /// NVM subsystem report.
        253 => pub nvmsr: u8,
        /// VPD write cycles.
        254 => pub vwci: u8,
        /// Management endpoint capabilities.
        255 => pub mec: u8,
        /// Optional admin commands.
        256 => pub oacs: OptionalAdminCommands,
        /// Abort commands at once (ACL).
        258 => pub acl: ZeroBased<u8>,
        /// Asynchronous event requests at once (AERL).
        259 => pub aerl: ZeroBased<u8>,
        /// Firmware updates: bit 0 slot 1 read only, bits 3:1 slots, bit 4
        /// activation without reset.
        260 => pub frmw: u8,
        /// Log page attributes.
        261 => pub lpa: LogPageAttributes,
        /// Error log entries (ELPE).
        262 => pub elpe: ZeroBased<u8>,
        /// Power states (NPSS).
        263 => pub npss: ZeroBased<u8>,
        /// Admin vendor specific command configuration.
        264 => pub avscc: u8,
        /// Autonomous power state transitions.
        265 => pub apsta: u8,
        /// Warning temperature in kelvins.
        266 => pub wctemp: u16,
        /// Critical temperature in kelvins.
        268 => pub cctemp: u16,
        /// Maximum time for firmware activation in units of 100 ms.
        270 => pub mtfa_100ms: u16,
        /// Host memory buffer preferred size in units of 4 KiB.
        272 => pub hmpre: u32,
        /// Host memory buffer minimum size in units of 4 KiB.
        276 => pub hmmin: u32,
        /// Total capacity in bytes.
        280 => pub tnvmcap: u128,
        /// Unallocated capacity in bytes.
        296 => pub unvmcap: u128,
        /// Replay protected memory block support.
        312 => pub rpmbs: u32,
        /// Extended self-test time in minutes.
        316 => pub edstt_min: u16,
        /// Self-test options.
        318 => pub dsto: u8,
        /// Firmware update granularity in units of 4 KiB.
        319 => pub fwug: u8,
        /// Keep alive granularity in units of 100 ms; 0 for no keep alive.
        320 => pub kas_100ms: u16,
        /// Host controlled thermal management.
        322 => pub hctma: u16,
        /// Minimum thermal management temperature in kelvins.
        324 => pub mntmt: u16,
        /// Maximum thermal management temperature in kelvins.
        326 => pub mxtmt: u16,
        /// Sanitize capabilities.
        328 => pub sanicap: u32,
        /// Host memory buffer minimum entry in units of 4 KiB.
        332 => pub hmminds: u32,
        /// Host memory buffer entries.
        336 => pub hmmaxd: u16,
        /// Highest NVM set.
        338 => pub nsetidmax: u16,
        /// Highest endurance group.
        340 => pub endgidmax: u16,
        /// ANA transition time in seconds.
        342 => pub anatt_s: u8,
        /// ANA capabilities.
        343 => pub anacap: AnaCapabilities,
        /// Highest ANA group.
        344 => pub anagrpmax: u32,
        /// Number of ANA groups.
        348 => pub nanagrpid: u32,
        /// Persistent event log size in units of 64 KiB.
        352 => pub pels: u32,
        /// Domain.
        356 => pub domainid: u16,
        /// Key per I/O capabilities.
        358 => pub kpioc: u8,
        /// Time of a firmware activation without reset in units of 100 ms.
        360 => pub mptfawr_100ms: u16,
        /// Largest endurance group in bytes.
        368 => pub megcap: u128,
        /// Temperature threshold hysteresis attributes.
        384 => pub tmpthha: u8,
        /// Time for commands to quiesce after communication is lost, in
        /// milliseconds (CQT).
        386 => pub cqt_ms: u16,
        /// Submission queue entry sizes.
        512 => pub sqes: EntrySizes,
        /// Completion queue entry sizes.
        513 => pub cqes: EntrySizes,
        /// Commands at once on a queue (MAXCMD), a count; 0 unknown.
        514 => pub maxcmd: u16,
        /// Highest namespace id (NN).
        516 => pub nn: u32,
        /// Optional NVM commands.
        520 => pub oncs: OptionalNvmCommands,
        /// Fused operations.
        522 => pub fuses: FusedOperations,
        /// Format attributes.
        524 => pub fna: FormatAttributes,
        /// Volatile write cache.
        525 => pub vwc: VolatileWriteCache,
        /// Atomic write unit in blocks (AWUN).
        526 => pub awun: ZeroBased<u16>,
        /// Atomic write unit at power fail in blocks (AWUPF).
        528 => pub awupf: ZeroBased<u16>,
        /// I/O command set vendor specific command configuration.
        530 => pub icsvscc: u8,
        /// Namespace write protection capabilities.
        531 => pub nwpc: u8,
        /// Atomic compare and write unit in blocks (ACWU).
        532 => pub acwu: ZeroBased<u16>,
        /// Copy formats, bit n for format n (CDFS).
        534 => pub cdfs: u16,
        /// SGL support.
        536 => pub sgls: SglSupport,
        /// Most namespaces (MNAN); 0 as NN.
        540 => pub mnan: u32,
        /// Namespace attachments of a domain.
        544 => pub maxdna: u128,
        /// Namespace attachments of a controller.
        560 => pub maxcna: u32,
        /// Optimal commands at once on all queues.
        564 => pub oaqd: u32,
        /// Subsystem NQN (SUBNQN) with its NUL; see
        /// [`IdentifyController::subnqn`].
        768 => pub subnqn_field: [u8; 256],
        /// I/O command capsule in units of 16 bytes (IOCCSZ).
        1792 => pub ioccsz: u32,
        /// I/O response capsule in units of 16 bytes (IORCSZ).
        1796 => pub iorcsz: u32,
        /// In-capsule data offset in units of 16 bytes (ICDOFF).
        1800 => pub icdoff: u16,
        /// Fabrics attributes.
        1802 => pub fcatt: FabricsAttributes,
        /// Most descriptors in a capsule (MSDBD); 0 for no limit.
        1803 => pub msdbd: u8,
        /// Optional Fabrics commands.
        1804 => pub ofcs: OptionalFabricsCommands,
        /// Discovery controller type: 1 direct, 2 central.
        1806 => pub dctype: u8,
        /// Power states, of which NPSS count.
        2048 => pub psd: [PowerState; 32],
        /// Vendor specific.
        3072 => pub vs: [u8; 1024],
    }
}

impl IdentifyController {
    /// The subsystem's name.
    ///
    /// # Errors
    /// Why the field is not a name.
    pub fn subnqn(&self) -> Result<Nqn, NqnError> {
        Nqn::from_field(&self.subnqn_field)
    }

    /// Sets the subsystem's name.
    pub fn set_subnqn(&mut self, name: &Nqn) {
        self.subnqn_field = name.to_field();
    }

    /// Bytes of in-capsule data that IOCCSZ and ICDOFF leave on I/O queues.
    pub const fn in_capsule_data_len(&self) -> u64 {
        (self.ioccsz as u64 * 16).saturating_sub(64 + self.icdoff as u64 * 16)
    }
}

impl Field for Version {
    const SIZE: usize = 4;
    fn get(bytes: &[u8]) -> Self {
        Self(Field::get(bytes))
    }
    fn put(&self, out: &mut [u8]) {
        self.0.put(out);
    }
}

impl Field for EntrySizes {
    const SIZE: usize = 1;
    fn get(bytes: &[u8]) -> Self {
        Self(Field::get(bytes))
    }
    fn put(&self, out: &mut [u8]) {
        self.0.put(out);
    }
}

layout! {
    /// Identify Controller of the NVM command set, CNS 06h with CSI 0
    /// (NVM 1.1, 4.1.5.4). Size limits are as MDTS: 2 to the power of the
    /// value in pages, 0 for none.
    pub struct IdentifyControllerNvm[4096] {
        /// Verify size limit.
        0 => pub vsl: u8,
        /// Write Zeroes size limit.
        1 => pub wzsl: u8,
        /// Write Uncorrectable size limit.
        2 => pub wusl: u8,
        /// Dataset Management ranges, a count; 0 for no limit.
        3 => pub dmrl: u8,
        /// Blocks of one Dataset Management range; 0 for no limit.
        4 => pub dmrsl: u32,
        /// Blocks of a whole Dataset Management command; 0 for no limit.
        8 => pub dmsl: u64,
        /// Key per I/O capabilities.
        16 => pub kpiocap: u8,
        /// Write Zeroes with deallocate size limit.
        17 => pub wzdsl: u8,
        /// Admin optional command support.
        18 => pub aocs: u16,
        /// Version of the NVM command set specification.
        20 => pub ver: Version,
        /// LBA migration queue format.
        24 => pub lbamqf: u8,
    }
}
