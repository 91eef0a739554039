//! Identify: the command, and what its many forms return.
//!
//! Every structure it returns is 4096 bytes.

use crate::{AdminOpcode, Command, SglDescriptor};

mod controller;
mod lists;
mod namespace;
#[cfg(test)]
mod tests;

pub use controller::{
    AnaCapabilities, Cmic, ControllerAttributes, ControllerType, EntrySizes, FabricsAttributes,
    FormatAttributes, FusedOperations, IdentifyController, IdentifyControllerNvm,
    LogPageAttributes, OptionalAdminCommands, OptionalFabricsCommands, OptionalNvmCommands,
    PowerState, SglSupport, VolatileWriteCache,
};
pub use lists::{
    ControllerList, IdentifierKind, IoCommandSetList, IoCommandSets, NamespaceIdentifier,
    NamespaceIdentifiers, NamespaceList, UuidAssociation, UuidList, UuidListEntry,
    encode_namespace_identifiers,
};
pub use namespace::{
    CommonNamespaceFeatures, DeallocateFeatures, FormattedLba, IdentifyNamespace,
    IdentifyNamespaceIndependent, IdentifyNamespaceNvm, LbaFormat, NamespaceAttributes,
    NamespaceFeatures, NamespaceSharing, NamespaceStatus, ReservationCapabilities,
};

/// Bytes of every structure that Identify returns.
pub const IDENTIFY_SIZE: usize = 4096;

codes! {
    /// Controller or Namespace Structure (CNS): what to return
    /// (NVMe Base 2.1, 5.1.13).
    pub struct Cns(u8) {
        NAMESPACE = 0x00, "Identify Namespace";
        CONTROLLER = 0x01, "Identify Controller";
        ACTIVE_NAMESPACES = 0x02, "Active Namespace ID list";
        NAMESPACE_IDENTIFIERS = 0x03, "Namespace Identification Descriptor list";
        NVM_SETS = 0x04, "NVM Set list";
        NAMESPACE_CSI = 0x05, "I/O Command Set specific Identify Namespace";
        CONTROLLER_CSI = 0x06, "I/O Command Set specific Identify Controller";
        ACTIVE_NAMESPACES_CSI = 0x07, "I/O Command Set specific Active Namespace ID list";
        NAMESPACE_INDEPENDENT = 0x08, "I/O Command Set Independent Identify Namespace";
        NAMESPACE_FORMAT = 0x09, "Identify Namespace for a format index";
        NAMESPACE_FORMAT_CSI = 0x0a, "I/O Command Set specific Identify Namespace for a format index";
        ALLOCATED_NAMESPACES = 0x10, "Allocated Namespace ID list";
        ALLOCATED_NAMESPACE = 0x11, "Identify Namespace for an allocated Namespace ID";
        NAMESPACE_CONTROLLERS = 0x12, "Namespace Attached Controller list";
        CONTROLLERS = 0x13, "Controller list";
        PRIMARY_CAPABILITIES = 0x14, "Primary Controller Capabilities";
        SECONDARY_CONTROLLERS = 0x15, "Secondary Controller list";
        NAMESPACE_GRANULARITY = 0x16, "Namespace Granularity list";
        UUIDS = 0x17, "UUID list";
        DOMAINS = 0x18, "Domain list";
        ENDURANCE_GROUPS = 0x19, "Endurance Group list";
        ALLOCATED_NAMESPACES_CSI = 0x1a, "I/O Command Set specific Allocated Namespace ID list";
        ALLOCATED_NAMESPACE_CSI = 0x1b, "I/O Command Set specific Identify Namespace for an allocated Namespace ID";
        IO_COMMAND_SETS = 0x1c, "I/O Command Set";
        ALLOCATED_NAMESPACE_INDEPENDENT = 0x1f, "I/O Command Set Independent Identify Namespace for an allocated Namespace ID";
        CONTROLLER_STATE_FORMATS = 0x20, "Supported Controller State Formats";
    }
}

codes! {
    /// Command Set Identifier (CSI) (NVMe Base 2.1, 5.1.13).
    pub struct Csi(u8) {
        NVM = 0x00, "NVM Command Set";
        KEY_VALUE = 0x01, "Key Value Command Set";
        ZONED = 0x02, "Zoned Namespace Command Set";
        SUBSYSTEM_LOCAL_MEMORY = 0x03, "Subsystem Local Memory Command Set";
        COMPUTATIONAL_PROGRAMS = 0x04, "Computational Programs Command Set";
    }
}

/// The Identify command (NVMe Base 2.1, 5.1.13).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Identify {
    /// Namespace; for lists the one after which to start.
    pub nsid: u32,
    /// What to return.
    pub cns: Cns,
    /// Controller after which a list starts, or whose data it is (CNTID).
    pub cntid: u16,
    /// CNS specific identifier (CNSSID), such as an NVM set.
    pub cnssid: u16,
    /// Command set, for the structures that are of one.
    pub csi: Csi,
    /// UUID index, 7 bits; 0 for none.
    pub uuid_index: u8,
}

impl Identify {
    /// Reads the fields; the opcode is not looked at.
    pub fn from_command(cmd: &Command) -> Self {
        Self {
            nsid: cmd.nsid(),
            cns: Cns(cmd.cdw10() as u8),
            cntid: (cmd.cdw10() >> 16) as u16,
            cnssid: cmd.cdw11() as u16,
            csi: Csi((cmd.cdw11() >> 24) as u8),
            uuid_index: cmd.cdw14() as u8 & 0x7f,
        }
    }

    /// The command.
    pub fn to_command(&self, cid: u16, sgl: SglDescriptor) -> Command {
        let mut cmd = Command::admin(AdminOpcode::IDENTIFY, cid, self.nsid, sgl);
        cmd.set_cdw10(u32::from(self.cns.0) | u32::from(self.cntid) << 16);
        cmd.set_cdw11(u32::from(self.cnssid) | u32::from(self.csi.0) << 24);
        cmd.set_cdw14(u32::from(self.uuid_index & 0x7f));
        cmd
    }
}
