//! Asynchronous events: what completes an Asynchronous Event Request.

use crate::log::LogId;

codes! {
    /// Event type (AET), 3 bits (NVMe Base 2.1, 5.1.2.1).
    pub struct AsyncEventType(u8) {
        ERROR = 0, "error";
        SMART = 1, "SMART / health";
        NOTICE = 2, "notice";
        IMMEDIATE = 3, "immediate";
        IO_COMMAND_SPECIFIC = 6, "I/O command specific";
        VENDOR = 7, "vendor specific";
    }
}

/// Type and information of an event (NVMe Base 2.1, 5.1.2.1), for dword 0 of
/// the completion. Events nobody has named are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AsyncEvent {
    /// Type (AET).
    pub kind: AsyncEventType,
    /// Information within the type (AEI).
    pub info: u8,
    /// The log page to read, which re-arms the event (LID).
    pub log: LogId,
}

macro_rules! events {
    ($( $konst:ident = $kind:ident $info:literal $log:ident, $text:literal; )*) => {
        impl AsyncEvent {$(
            #[doc = concat!($text, ".")]
            pub const $konst: Self =
                Self { kind: AsyncEventType::$kind, info: $info, log: LogId::$log };
        )*}
    };
}

events! {
    INVALID_DOORBELL_REGISTER = ERROR 0x00 ERROR, "Write to an invalid doorbell register";
    INVALID_DOORBELL_VALUE = ERROR 0x01 ERROR, "Invalid doorbell value";
    DIAGNOSTIC_FAILURE = ERROR 0x02 ERROR, "Diagnostic failure";
    PERSISTENT_INTERNAL_ERROR = ERROR 0x03 ERROR, "Persistent internal error";
    TRANSIENT_INTERNAL_ERROR = ERROR 0x04 ERROR, "Transient internal error";
    FIRMWARE_LOAD_ERROR = ERROR 0x05 ERROR, "Firmware image load error";
    RELIABILITY_DEGRADED = SMART 0x00 SMART, "NVM subsystem reliability degraded";
    TEMPERATURE_THRESHOLD = SMART 0x01 SMART, "Temperature threshold crossed";
    SPARE_BELOW_THRESHOLD = SMART 0x02 SMART, "Spare below threshold";
    NAMESPACE_ATTRIBUTE_CHANGED = NOTICE 0x00 CHANGED_NAMESPACES, "A namespace was attached, detached or changed";
    FIRMWARE_ACTIVATION_STARTING = NOTICE 0x01 FIRMWARE_SLOT, "Firmware activation is starting";
    TELEMETRY_LOG_CHANGED = NOTICE 0x02 TELEMETRY_CONTROLLER, "The telemetry log changed";
    ANA_CHANGE = NOTICE 0x03 ANA, "Asymmetric namespace access changed";
    DISCOVERY_LOG_CHANGED = NOTICE 0xf0 DISCOVERY, "The discovery log changed";
    RESERVATION_LOG_AVAILABLE = IO_COMMAND_SPECIFIC 0x00 RESERVATION_NOTIFICATION, "The reservation notification log has an entry";
    SANITIZE_COMPLETED = IO_COMMAND_SPECIFIC 0x01 SANITIZE, "A sanitize operation completed";
}

impl AsyncEvent {
    /// Dword 0 of the completion: type in bits 2:0, information in 15:8, log
    /// page in 23:16.
    pub const fn to_dw0(self) -> u32 {
        (self.kind.0 & 7) as u32 | (self.info as u32) << 8 | (self.log.0 as u32) << 16
    }

    /// From dword 0 of a completion.
    pub const fn from_dw0(dw0: u32) -> Self {
        Self {
            kind: AsyncEventType(dw0 as u8 & 7),
            info: (dw0 >> 8) as u8,
            log: LogId((dw0 >> 16) as u8),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_encoded_as_linux_reads_them() {
        assert_eq!(AsyncEvent::NAMESPACE_ATTRIBUTE_CHANGED.to_dw0(), 0x04_00_02);
        assert_eq!(AsyncEvent::ANA_CHANGE.to_dw0(), 0x0c_03_02);
        assert_eq!(AsyncEvent::DISCOVERY_LOG_CHANGED.to_dw0(), 0x70_f0_02);
        assert_eq!(AsyncEvent::RESERVATION_LOG_AVAILABLE.to_dw0(), 0x80_00_06);
    }

    #[test]
    fn any_dword_is_read_and_what_is_named_survives() {
        for event in [AsyncEvent::ANA_CHANGE, AsyncEvent::SPARE_BELOW_THRESHOLD] {
            assert_eq!(AsyncEvent::from_dw0(event.to_dw0()), event);
        }
        assert_eq!(AsyncEvent::from_dw0(u32::MAX).to_dw0(), 0x00ff_ff07);
    }
}
