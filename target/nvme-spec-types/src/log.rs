//! Log pages.

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
