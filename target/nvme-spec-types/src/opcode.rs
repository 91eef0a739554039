//! Opcodes, by the kind of queue they are sent on.

codes! {
    /// Opcode on the admin queue (NVMe Base 2.1, 5: table of admin opcodes).
    pub struct AdminOpcode(u8) {
        DELETE_IO_SQ = 0x00, "Delete I/O Submission Queue";
        CREATE_IO_SQ = 0x01, "Create I/O Submission Queue";
        GET_LOG_PAGE = 0x02, "Get Log Page";
        DELETE_IO_CQ = 0x04, "Delete I/O Completion Queue";
        CREATE_IO_CQ = 0x05, "Create I/O Completion Queue";
        IDENTIFY = 0x06, "Identify";
        ABORT = 0x08, "Abort";
        SET_FEATURES = 0x09, "Set Features";
        GET_FEATURES = 0x0a, "Get Features";
        ASYNC_EVENT_REQUEST = 0x0c, "Asynchronous Event Request";
        NAMESPACE_MANAGEMENT = 0x0d, "Namespace Management";
        FIRMWARE_COMMIT = 0x10, "Firmware Commit";
        FIRMWARE_DOWNLOAD = 0x11, "Firmware Image Download";
        DEVICE_SELF_TEST = 0x14, "Device Self-test";
        NAMESPACE_ATTACHMENT = 0x15, "Namespace Attachment";
        KEEP_ALIVE = 0x18, "Keep Alive";
        DIRECTIVE_SEND = 0x19, "Directive Send";
        DIRECTIVE_RECEIVE = 0x1a, "Directive Receive";
        VIRTUALIZATION_MANAGEMENT = 0x1c, "Virtualization Management";
        NVME_MI_SEND = 0x1d, "NVMe-MI Send";
        NVME_MI_RECEIVE = 0x1e, "NVMe-MI Receive";
        CAPACITY_MANAGEMENT = 0x20, "Capacity Management";
        DISCOVERY_INFORMATION_MANAGEMENT = 0x21, "Discovery Information Management";
        FABRIC_ZONING_RECEIVE = 0x22, "Fabric Zoning Receive";
        LOCKDOWN = 0x24, "Lockdown";
        FABRIC_ZONING_LOOKUP = 0x25, "Fabric Zoning Lookup";
        FABRIC_ZONING_SEND = 0x29, "Fabric Zoning Send";
        SEND_DISCOVERY_LOG_PAGE = 0x39, "Send Discovery Log Page";
        TRACK_SEND = 0x3d, "Track Send";
        TRACK_RECEIVE = 0x3e, "Track Receive";
        MIGRATION_SEND = 0x41, "Migration Send";
        MIGRATION_RECEIVE = 0x42, "Migration Receive";
        CONTROLLER_DATA_QUEUE = 0x45, "Controller Data Queue";
        DOORBELL_BUFFER_CONFIG = 0x7c, "Doorbell Buffer Config";
        FABRICS = 0x7f, "Fabrics";
        FORMAT_NVM = 0x80, "Format NVM";
        SECURITY_SEND = 0x81, "Security Send";
        SECURITY_RECEIVE = 0x82, "Security Receive";
        SANITIZE = 0x84, "Sanitize";
        GET_LBA_STATUS = 0x86, "Get LBA Status";
    }
}

codes! {
    /// Opcode on an I/O queue (NVMe Base 2.1, 7; NVM 1.1, 3.3).
    pub struct IoOpcode(u8) {
        FLUSH = 0x00, "Flush";
        WRITE = 0x01, "Write";
        READ = 0x02, "Read";
        WRITE_UNCORRECTABLE = 0x04, "Write Uncorrectable";
        COMPARE = 0x05, "Compare";
        WRITE_ZEROES = 0x08, "Write Zeroes";
        DATASET_MANAGEMENT = 0x09, "Dataset Management";
        VERIFY = 0x0c, "Verify";
        RESERVATION_REGISTER = 0x0d, "Reservation Register";
        RESERVATION_REPORT = 0x0e, "Reservation Report";
        RESERVATION_ACQUIRE = 0x11, "Reservation Acquire";
        IO_MANAGEMENT_RECEIVE = 0x12, "I/O Management Receive";
        RESERVATION_RELEASE = 0x15, "Reservation Release";
        CANCEL = 0x18, "Cancel";
        COPY = 0x19, "Copy";
        IO_MANAGEMENT_SEND = 0x1d, "I/O Management Send";
        ZONE_MANAGEMENT_SEND = 0x79, "Zone Management Send";
        ZONE_MANAGEMENT_RECEIVE = 0x7a, "Zone Management Receive";
        ZONE_APPEND = 0x7d, "Zone Append";
        FABRICS = 0x7f, "Fabrics";
    }
}

codes! {
    /// Fabrics command type, byte 4 of a command whose opcode is 7Fh
    /// (NVMe Base 2.1, 6).
    pub struct FabricsType(u8) {
        PROPERTY_SET = 0x00, "Property Set";
        CONNECT = 0x01, "Connect";
        PROPERTY_GET = 0x04, "Property Get";
        AUTH_SEND = 0x05, "Authentication Send";
        AUTH_RECEIVE = 0x06, "Authentication Receive";
        DISCONNECT = 0x08, "Disconnect";
    }
}

/// The opcode of every Fabrics command, on either kind of queue.
pub const FABRICS_OPCODE: u8 = 0x7f;

/// Which way a command's data goes, seen from the two ends and not from the
/// RDMA operation that carries it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DataDirection {
    /// No data.
    None,
    /// The host has the data, the controller takes it.
    HostToController,
    /// The controller has the data, the host takes it.
    ControllerToHost,
    /// Both ways.
    Bidirectional,
}

impl DataDirection {
    /// From the two low bits of an opcode or a Fabrics command type
    /// (NVMe Base 2.1, 5 and 6).
    #[inline]
    pub const fn from_code(code: u8) -> Self {
        match code & 0b11 {
            0b00 => Self::None,
            0b01 => Self::HostToController,
            0b10 => Self::ControllerToHost,
            _ => Self::Bidirectional,
        }
    }
}

impl AdminOpcode {
    /// Which way the data goes by the opcode's low bits. Meaningless for
    /// [`AdminOpcode::FABRICS`], where the Fabrics type says it.
    #[inline]
    pub const fn direction(self) -> DataDirection {
        DataDirection::from_code(self.0)
    }

    /// C0h and above belong to the vendor.
    pub const fn is_vendor_specific(self) -> bool {
        self.0 >= 0xc0
    }
}

impl IoOpcode {
    /// Which way the data goes by the opcode's low bits. Meaningless for
    /// [`IoOpcode::FABRICS`], where the Fabrics type says it.
    #[inline]
    pub const fn direction(self) -> DataDirection {
        DataDirection::from_code(self.0)
    }

    /// Whether the command names one range of blocks, in dwords 10 to 12
    /// (NVM 1.1, 3.3: Read, Write and those like them).
    pub const fn has_block_range(self) -> bool {
        matches!(self, Self::READ | Self::WRITE | Self::COMPARE | Self::WRITE_ZEROES | Self::VERIFY)
    }

    /// 80h and above belong to the vendor.
    pub const fn is_vendor_specific(self) -> bool {
        self.0 >= 0x80
    }
}

impl FabricsType {
    /// Which way the data goes.
    #[inline]
    pub const fn direction(self) -> DataDirection {
        DataDirection::from_code(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn the_low_bits_of_an_opcode_give_the_direction() {
        assert_eq!(IoOpcode::FLUSH.direction(), DataDirection::None);
        assert_eq!(IoOpcode::WRITE.direction(), DataDirection::HostToController);
        assert_eq!(IoOpcode::READ.direction(), DataDirection::ControllerToHost);
        assert_eq!(IoOpcode::COMPARE.direction(), DataDirection::HostToController);
        assert_eq!(FabricsType::CONNECT.direction(), DataDirection::HostToController);
        assert_eq!(FabricsType::AUTH_RECEIVE.direction(), DataDirection::ControllerToHost);
        assert_eq!(FabricsType::PROPERTY_GET.direction(), DataDirection::None);
        assert_eq!(AdminOpcode::IDENTIFY.direction(), DataDirection::ControllerToHost);
    }

    #[test]
    fn unknown_opcodes_are_kept_and_shown_as_numbers() {
        let odd = IoOpcode(0xa7);
        assert_eq!(odd.name(), None);
        assert_eq!(odd.to_string(), "IoOpcode(0xa7)");
        assert!(odd.is_vendor_specific());
        assert_eq!(IoOpcode(2).to_string(), "Read");
    }
}
