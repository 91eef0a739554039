//! Errors, health, firmware and self-test.

use crate::Status;
use crate::fixed_str::FixedStr;
use crate::layout::Field;
use crate::log::TransportType;

/// Where in the command the error is: byte and bit (PEL), or FFFFh for
/// nowhere in particular.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParameterLocation(u16);

impl ParameterLocation {
    /// The error is not of a field.
    pub const NONE: Self = Self(0xffff);

    /// Bit `bit` (0 to 7) of byte `byte` of the command.
    pub const fn new(byte: u8, bit: u8) -> Self {
        Self(byte as u16 | (bit as u16 & 7) << 8)
    }

    /// Byte and bit; `None` for [`ParameterLocation::NONE`].
    pub const fn get(self) -> Option<(u8, u8)> {
        match self.0 {
            0xffff => None,
            raw => Some((raw as u8, (raw >> 8) as u8 & 7)),
        }
    }
}

impl Field for ParameterLocation {
    const SIZE: usize = 2;
    fn get(bytes: &[u8]) -> Self {
        Self(Field::get(bytes))
    }
    fn put(&self, out: &mut [u8]) {
        self.0.put(out);
    }
}

impl Field for Status {
    const SIZE: usize = 2;
    fn get(bytes: &[u8]) -> Self {
        Self::from_wire(Field::get(bytes))
    }
    fn put(&self, out: &mut [u8]) {
        self.to_wire().put(out);
    }
}

layout! {
    /// One entry of Error Information, log page 01h, newest first
    /// (NVMe Base 2.1, 5.1.12.1.2).
    pub struct ErrorEntry[64] {
        /// Number of the error since ever, from 1; 0 for no entry.
        0 => pub error_count: u64,
        /// Queue of the command; FFFFh for none in particular.
        8 => pub sqid: u16,
        /// Command; FFFFh for none in particular.
        10 => pub cid: u16,
        /// Its status.
        12 => pub status: Status,
        /// Where in the command.
        14 => pub location: ParameterLocation,
        /// First logical block that failed.
        16 => pub lba: u64,
        /// Namespace.
        24 => pub nsid: u32,
        /// Vendor specific log page with more; 0 for none.
        28 => pub vendor_lid: u8,
        /// Transport; 0 not said.
        29 => pub trtype: TransportType,
        /// Command set of the command.
        30 => pub csi: u8,
        /// Opcode of the command.
        31 => pub opcode: u8,
        /// Command specific.
        32 => pub command_specific: u64,
        /// Transport specific.
        40 => pub transport_specific: u16,
        /// Version of this layout: 1 when CSI and opcode are filled in.
        63 => pub version: u8,
    }
}

flags! {
    /// Critical warnings of [`SmartLog`].
    pub struct CriticalWarnings(u8) {
        /// Spare is below the threshold.
        SPARE = 0;
        /// A temperature is past its threshold.
        TEMPERATURE = 1;
        /// Reliability is degraded.
        RELIABILITY = 2;
        /// Media is read only.
        READ_ONLY = 3;
        /// Volatile memory backup failed.
        BACKUP_FAILED = 4;
        /// The persistent memory region is read only or unreliable.
        PMR = 5;
    }
}

layout! {
    /// SMART / Health Information, log page 02h (NVMe Base 2.1, 5.1.12.1.3).
    pub struct SmartLog[512] {
        /// What is wrong now.
        0 => pub critical_warning: CriticalWarnings,
        /// Composite temperature in kelvins; 0 not said.
        1 => pub temperature_k: u16,
        /// Spare left in percent.
        3 => pub avail_spare: u8,
        /// Threshold for it in percent.
        4 => pub spare_threshold: u8,
        /// Life used in percent; may pass 100.
        5 => pub percent_used: u8,
        /// Critical warnings of endurance groups.
        6 => pub endurance_warning: u8,
        /// Data read, in thousands of 512 bytes, rounded up.
        32 => pub data_units_read: u128,
        /// Data written, in thousands of 512 bytes, rounded up.
        48 => pub data_units_written: u128,
        /// Reads and compares.
        64 => pub host_reads: u128,
        /// Writes.
        80 => pub host_writes: u128,
        /// Time busy with I/O, in minutes.
        96 => pub busy_time_min: u128,
        /// Power cycles.
        112 => pub power_cycles: u128,
        /// Hours of power.
        128 => pub power_on_hours: u128,
        /// Unsafe shutdowns.
        144 => pub unsafe_shutdowns: u128,
        /// Media and data integrity errors.
        160 => pub media_errors: u128,
        /// Entries that the error log ever had.
        176 => pub error_log_entries: u128,
        /// Minutes past the warning temperature.
        192 => pub warning_time_min: u32,
        /// Minutes past the critical temperature.
        196 => pub critical_time_min: u32,
        /// Sensors in kelvins; 0 for none.
        200 => pub sensors_k: [u16; 8],
        /// Transitions to thermal management 1.
        216 => pub thermal_1_count: u32,
        /// Transitions to thermal management 2.
        220 => pub thermal_2_count: u32,
        /// Seconds in thermal management 1.
        224 => pub thermal_1_s: u32,
        /// Seconds in thermal management 2.
        228 => pub thermal_2_s: u32,
    }
}

impl SmartLog {
    /// Data units for `bytes`: thousands of 512 bytes, rounded up.
    pub const fn data_units(bytes: u128) -> u128 {
        bytes.div_ceil(512_000)
    }
}

layout! {
    /// Firmware Slot Information, log page 03h (NVMe Base 2.1, 5.1.12.1.4).
    pub struct FirmwareSlotLog[512] {
        /// Bits 2:0 active slot, bits 6:4 slot after the next reset.
        0 => pub afi: u8,
        /// Revisions in slots 1 to 7; zero for an empty slot.
        8 => pub frs: [FixedStr<8>; 7],
    }
}

layout! {
    /// One result of [`SelfTestLog`].
    pub struct SelfTestResult[28] {
        /// Bits 3:0 result (0 passed, Fh entry not used), bits 7:4 kind.
        0 => pub status: u8,
        /// Segment that failed.
        1 => pub segment: u8,
        /// Which of the following fields count: bit 0 nsid, 1 lba, 2 sct, 3 sc.
        2 => pub valid: u8,
        /// Hours of power.
        4 => pub power_on_hours: u64,
        /// Namespace.
        12 => pub nsid: u32,
        /// Logical block.
        16 => pub lba: u64,
        /// Status code type.
        24 => pub sct: u8,
        /// Status code.
        25 => pub sc: u8,
        /// Vendor specific.
        26 => pub vs: u16,
    }
}

layout! {
    /// Device Self-test, log page 06h, newest result first
    /// (NVMe Base 2.1, 5.1.12.1.7).
    pub struct SelfTestLog[564] {
        /// Kind of the test under way, 4 bits; 0 for none.
        0 => pub current: u8,
        /// How far it is in percent, 7 bits.
        1 => pub completion: u8,
        /// Results.
        4 => pub results: [SelfTestResult; 20],
    }
}
