//! Identify Controller.

use super::super::abort::MAX_ABORTS;
use super::super::aer::{self, MAX_HELD};
use super::super::controller::{Controller, Kind};
use super::super::keep_alive::KAS;
use super::super::logs::error::ENTRIES;
use super::super::property::VERSION;
use super::super::subsystem::Namespace;
use super::super::{ADMIN_QUEUE_ENTRIES, MAX_NAMESPACES, Target};
use crate::queue::{COPY_FORMATS, MAX_SEGMENTS, fused_limit};
use nvme_spec_types::fixed_str::FixedStr;
use nvme_spec_types::identify::{
    Cmic, ControllerAttributes, ControllerType, EntrySizes, FusedOperations, IdentifyController,
    IdentifyControllerNvm, LogPageAttributes, OptionalFabricsCommands, OptionalNvmCommands,
    SglSupport, VolatileWriteCache,
};
use nvme_spec_types::property::Version;
use nvme_spec_types::{Nqn, ZeroBased};

/// Bytes of a command capsule before its data, in the unit of IOCCSZ.
const CAPSULE_HEADER: u32 = 64;
/// Recommended Arbitration Burst: no limit, as a power of two.
const RAB: u8 = 7;
/// Firmware updates: one slot, which cannot be written (FRMW).
const FRMW: u8 = 1 << 1 | 1;
/// Discovery Controller Type: it tells about its own subsystems.
const DIRECT_DISCOVERY: u8 = 1;

/// log2 of the largest logical block: atomic units of a controller hold for every format.
const MOST_LBA_SHIFT: u8 = 12;

/// Blocks of a fused pair at most (ACWU, NACWU), at least one.
pub(super) fn fused_blocks(max_transfer: u32, lba_shift: u8) -> ZeroBased<u16> {
    ZeroBased::<u16>::saturating(fused_limit(max_transfer) >> lba_shift)
}

/// Firmware revision (FR): this program's version, cut to 8 characters.
pub(in super::super) fn firmware_revision() -> FixedStr<8> {
    let version = env!("CARGO_PKG_VERSION");
    version.get(..8).or(Some(version)).and_then(FixedStr::new).unwrap_or_default()
}

impl Target {
    /// Identify Controller (NVMe Base 2.1, 5.1.13.2.1).
    pub(super) fn identify_controller(&self, controller: &Controller) -> IdentifyController {
        let subsystem = &self.subsystems[&controller.key.subsystem];
        let mut id = IdentifyController {
            sn: FixedStr::new(&subsystem.serial).unwrap_or_default(),
            mn: FixedStr::new(&subsystem.model).unwrap_or_default(),
            fr: firmware_revision(),
            // One page as the smallest, thus 2^MDTS pages of 4096 bytes.
            mdts: (self.config.max_transfer / 4096).ilog2() as u8,
            cntlid: controller.key.cntlid,
            ver: VERSION,
            oaes: aer::supported(controller.kind),
            ctratt: ControllerAttributes::HOST_ID_128 | ControllerAttributes::TRAFFIC_KEEP_ALIVE,
            acl: ZeroBased::<u8>::saturating(MAX_ABORTS.into()),
            aerl: ZeroBased::<u8>::saturating(MAX_HELD.into()),
            elpe: ZeroBased::<u8>::saturating(ENTRIES as u16),
            kas_100ms: KAS,
            maxcmd: self.config.max_queue_entries,
            sgls: SglSupport::SUPPORTED
                | SglSupport::KEYED
                | SglSupport::LONGER_THAN_DATA
                | SglSupport::OFFSET,
            iorcsz: 1,
            msdbd: self.most_descriptors(),
            ..IdentifyController::default()
        };
        if let Ok(name) = Nqn::new(&controller.subnqn) {
            id.set_subnqn(&name);
        }
        match controller.kind {
            Kind::Io => {
                id.cntrltype = ControllerType::IO;
                id.rab = RAB;
                id.cmic = Cmic::MULTI_PORT | Cmic::MULTI_CONTROLLER;
                id.frmw = FRMW;
                id.lpa = LogPageAttributes::SMART_PER_NAMESPACE
                    | LogPageAttributes::COMMAND_EFFECTS
                    | LogPageAttributes::EXTENDED_DATA
                    | LogPageAttributes::SUPPORTED_PAGES;
                id.sqes = EntrySizes::SUBMISSION;
                id.cqes = EntrySizes::COMPLETION;
                // All of it is allocated: there is no Namespace Management to take more.
                id.tnvmcap = subsystem.namespaces.values().map(Namespace::bytes).sum();
                id.nn = subsystem.highest_nsid();
                id.mnan = MAX_NAMESPACES as u32;
                id.oncs = OptionalNvmCommands::COMPARE
                    | OptionalNvmCommands::DATASET_MANAGEMENT
                    | OptionalNvmCommands::WRITE_ZEROES
                    | OptionalNvmCommands::FEATURE_SAVE
                    | OptionalNvmCommands::TIMESTAMP
                    | OptionalNvmCommands::VERIFY
                    | OptionalNvmCommands::COPY;
                id.cdfs = COPY_FORMATS;
                // A pair is atomic to everybody; of plain writes one block is promised here, and
                // more by namespaces whose backing keeps more whole.
                if fused_limit(self.config.max_transfer) > 0 {
                    id.fuses = FusedOperations::COMPARE_AND_WRITE;
                    id.acwu = fused_blocks(self.config.max_transfer, MOST_LBA_SHIFT);
                }
                // Always there: a namespace with a cache may come later, and the host looks only
                // once. Namespaces without one say so themselves.
                id.vwc = VolatileWriteCache::PRESENT
                    | VolatileWriteCache::FLUSH_BROADCAST
                    | VolatileWriteCache::FLUSH_BROADCAST_DEFINED;
                id.ioccsz = (CAPSULE_HEADER + self.config.in_capsule) / 16;
                id.ofcs = OptionalFabricsCommands::DISCONNECT;
            }
            Kind::Discovery => {
                id.cntrltype = ControllerType::DISCOVERY;
                id.lpa = LogPageAttributes::COMMAND_EFFECTS
                    | LogPageAttributes::EXTENDED_DATA
                    | LogPageAttributes::SUPPORTED_PAGES;
                id.dctype = DIRECT_DISCOVERY;
                id.maxcmd = ADMIN_QUEUE_ENTRIES;
                id.ioccsz = CAPSULE_HEADER / 16;
            }
        }
        id
    }

    /// Most data descriptors of a command (MSDBD): one in the command, or those that fit into the
    /// data area of its capsule.
    fn most_descriptors(&self) -> u8 {
        (self.config.in_capsule / 16).clamp(1, MAX_SEGMENTS as u32) as u8
    }
}

/// Identify Controller of the NVM command set (NVM 1.1, 4.1.5.4): Verify, Write Zeroes and Dataset
/// Management are not limited beyond what their fields can say.
pub(super) fn identify_nvm() -> IdentifyControllerNvm {
    IdentifyControllerNvm { ver: Version::new(1, 1, 0), ..IdentifyControllerNvm::default() }
}
