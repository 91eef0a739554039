//! Identify Namespace: of the NVM command set and independent of it.

use crate::ZeroBased;
use crate::layout::{Field, get, put};

flags! {
    /// Namespace features (NSFEAT) (NVM 1.1, 4.1.5.1).
    pub struct NamespaceFeatures(u8) {
        /// Thin provisioning.
        THIN = 0;
        /// NAWUN, NAWUPF and NACWU are this namespace's own.
        ATOMIC_UNITS = 1;
        /// Reading a deallocated block can be an error (DAE).
        DEALLOCATED_ERROR = 2;
        /// NGUID and EUI64 are never used again.
        ID_NOT_REUSED = 3;
        /// NPWG, NPWA, NPDG, NPDA and NOWS are filled in.
        OPTIMAL_WRITE = 4;
        /// With bit 4: the large deallocate fields are filled in.
        OPTIMAL_DEALLOCATE_LARGE = 5;
        /// Multiple atomicity mode.
        MULTIPLE_ATOMICITY = 6;
        /// Optimal read fields are filled in.
        OPTIMAL_READ = 7;
    }
}

flags! {
    /// Namespace features whatever the command set (NSFEAT).
    pub struct CommonNamespaceFeatures(u8) {
        /// NGUID and EUI64 are never used again.
        ID_NOT_REUSED = 3;
        /// It is on rotational media.
        ROTATIONAL = 4;
        /// It has no volatile write cache, whatever the controller has.
        NO_WRITE_CACHE = 5;
    }
}

flags! {
    /// Multi-path and sharing (NMIC).
    pub struct NamespaceSharing(u8) {
        /// More than one controller may have it attached.
        SHARED = 0;
        /// It is dispersed over subsystems.
        DISPERSED = 1;
    }
}

flags! {
    /// Reservation capabilities (RESCAP).
    pub struct ReservationCapabilities(u8) {
        /// Persist through power loss.
        PTPL = 0;
        /// Write Exclusive.
        WRITE_EXCLUSIVE = 1;
        /// Exclusive Access.
        EXCLUSIVE_ACCESS = 2;
        /// Write Exclusive, Registrants Only.
        WRITE_EXCLUSIVE_REGISTRANTS = 3;
        /// Exclusive Access, Registrants Only.
        EXCLUSIVE_ACCESS_REGISTRANTS = 4;
        /// Write Exclusive, All Registrants.
        WRITE_EXCLUSIVE_ALL = 5;
        /// Exclusive Access, All Registrants.
        EXCLUSIVE_ACCESS_ALL = 6;
        /// Ignore Existing Key as since revision 1.3.
        IGNORE_EXISTING_KEY = 7;
    }
}

flags! {
    /// What deallocation does (DLFEAT). Bits 2:0 say what a deallocated block
    /// reads as: 0 not said, 1 zeroes, 2 ones.
    pub struct DeallocateFeatures(u8) {
        /// Deallocated blocks read as zeroes.
        READS_ZEROES = 0;
        /// Deallocated blocks read as ones.
        READS_ONES = 1;
        /// Write Zeroes takes the deallocate bit.
        WRITE_ZEROES = 3;
        /// The guard of a deallocated block is a right one.
        GUARD_CRC = 4;
    }
}

flags! {
    /// Namespace attributes (NSATTR).
    pub struct NamespaceAttributes(u8) {
        /// It is write protected now.
        WRITE_PROTECTED = 0;
    }
}

flags! {
    /// Namespace status (NSTAT).
    pub struct NamespaceStatus(u8) {
        /// It is ready (NRDY).
        READY = 0;
    }
}

/// Formatted LBA size (FLBAS): which format is in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FormattedLba(u8);

impl FormattedLba {
    /// Format `index`, 0 to 63, metadata at the end of each block or apart.
    pub const fn new(index: u8, metadata_in_block: bool) -> Self {
        Self(index & 0xf | (metadata_in_block as u8) << 4 | (index >> 4 & 3) << 5)
    }

    /// Format in use, 0 to 63; bits 3:0 and 6:5.
    pub const fn index(self) -> u8 {
        self.0 & 0xf | (self.0 >> 5 & 3) << 4
    }

    /// Metadata is at the end of each block.
    pub const fn metadata_in_block(self) -> bool {
        self.0 >> 4 & 1 != 0
    }
}

impl Field for FormattedLba {
    const SIZE: usize = 1;
    fn get(bytes: &[u8]) -> Self {
        Self(Field::get(bytes))
    }
    fn put(&self, out: &mut [u8]) {
        self.0.put(out);
    }
}

/// LBA format (LBAF) (NVM 1.1, 4.1.5.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LbaFormat {
    /// Metadata bytes of a block.
    pub ms: u16,
    /// Block size as a power of two, 9 or more; 0 for a format not there.
    pub lbads: u8,
    /// Relative performance, 2 bits: 0 best, 3 degraded.
    pub rp: u8,
}

impl LbaFormat {
    /// Block size in bytes; `None` for a format not there or one past 2 to
    /// the power of 31.
    pub const fn block_size(self) -> Option<u32> {
        match self.lbads {
            9..32 => Some(1 << self.lbads),
            _ => None,
        }
    }
}

impl Field for LbaFormat {
    const SIZE: usize = 4;
    fn get(bytes: &[u8]) -> Self {
        Self { ms: get(bytes, 0), lbads: get(bytes, 2), rp: bytes[3] & 3 }
    }
    fn put(&self, out: &mut [u8]) {
        put(out, 0, self.ms);
        put(out, 2, self.lbads);
        put(out, 3, self.rp & 3);
    }
}

layout! {
    /// Identify Namespace of the NVM command set, CNS 00h
    /// (NVM 1.1, 4.1.5.1). All zero for a namespace that is not active.
    pub struct IdentifyNamespace[4096] {
        /// Size in blocks.
        0 => pub nsze: u64,
        /// Capacity in blocks.
        8 => pub ncap: u64,
        /// Utilization in blocks.
        16 => pub nuse: u64,
        /// Features.
        24 => pub nsfeat: NamespaceFeatures,
        /// LBA formats.
        25 => pub nlbaf: ZeroBased<u8>,
        /// Format in use.
        26 => pub flbas: FormattedLba,
        /// Metadata capabilities.
        27 => pub mc: u8,
        /// End-to-end protection capabilities.
        28 => pub dpc: u8,
        /// End-to-end protection in use.
        29 => pub dps: u8,
        /// Sharing.
        30 => pub nmic: NamespaceSharing,
        /// Reservations.
        31 => pub rescap: ReservationCapabilities,
        /// Format progress: bit 7 supported, bits 6:0 percent left.
        32 => pub fpi: u8,
        /// Deallocation.
        33 => pub dlfeat: DeallocateFeatures,
        /// Atomic write unit in blocks.
        34 => pub nawun: ZeroBased<u16>,
        /// Atomic write unit at power fail in blocks.
        36 => pub nawupf: ZeroBased<u16>,
        /// Atomic compare and write unit in blocks.
        38 => pub nacwu: ZeroBased<u16>,
        /// Atomic boundary in blocks; raw 0 for none.
        40 => pub nabsn: ZeroBased<u16>,
        /// Offset of the first atomic boundary in blocks.
        42 => pub nabo: u16,
        /// Atomic boundary at power fail in blocks; raw 0 for none.
        44 => pub nabspf: ZeroBased<u16>,
        /// Optimal I/O boundary in blocks, a count; 0 for none.
        46 => pub noiob: u16,
        /// Capacity in bytes.
        48 => pub nvmcap: u128,
        /// Preferred write granularity in blocks.
        64 => pub npwg: ZeroBased<u16>,
        /// Preferred write alignment in blocks.
        66 => pub npwa: ZeroBased<u16>,
        /// Preferred deallocate granularity in blocks.
        68 => pub npdg: ZeroBased<u16>,
        /// Preferred deallocate alignment in blocks.
        70 => pub npda: ZeroBased<u16>,
        /// Optimal write size in blocks.
        72 => pub nows: ZeroBased<u16>,
        /// Most blocks of one Copy source range, a count.
        74 => pub mssrl: u16,
        /// Most blocks of a Copy, a count.
        76 => pub mcl: u32,
        /// Most source ranges of a Copy.
        80 => pub msrc: ZeroBased<u8>,
        /// Key per I/O status.
        81 => pub kpios: u8,
        /// Unique attribute LBA formats.
        82 => pub nulbaf: u8,
        /// Key per I/O data access granularity.
        84 => pub kpiodaag: u32,
        /// ANA group.
        92 => pub anagrpid: u32,
        /// Attributes.
        99 => pub nsattr: NamespaceAttributes,
        /// NVM set.
        100 => pub nvmsetid: u16,
        /// Endurance group.
        102 => pub endgid: u16,
        /// Globally unique identifier, as printed; zero for none.
        104 => pub nguid: [u8; 16],
        /// IEEE extended unique identifier, as printed; zero for none.
        120 => pub eui64: [u8; 8],
        /// LBA formats.
        128 => pub lbaf: [LbaFormat; 64],
        /// Vendor specific.
        384 => pub vs: [u8; 3712],
    }
}

impl IdentifyNamespace {
    /// The format in use.
    pub fn format(&self) -> LbaFormat {
        // The index has six bits and the table 64 entries.
        self.lbaf[usize::from(self.flbas.index())]
    }
}

layout! {
    /// Identify Namespace of the NVM command set, CNS 05h with CSI 0
    /// (NVM 1.1, 4.1.5.3).
    pub struct IdentifyNamespaceNvm[4096] {
        /// Logical block storage tag mask.
        0 => pub lbstm: u64,
        /// Protection information capabilities.
        8 => pub pic: u8,
        /// Protection information format attributes.
        9 => pub pifa: u8,
        /// Extended LBA formats: bits 6:0 storage tag size, bits 8:7 guard.
        12 => pub elbaf: [u32; 64],
        /// Preferred deallocate granularity in blocks, large; a count.
        268 => pub npdgl: u32,
        /// Preferred read granularity in blocks; a count.
        272 => pub nprg: u32,
        /// Preferred read alignment in blocks; a count.
        276 => pub npra: u32,
        /// Optimal read size in blocks; a count.
        280 => pub nors: u32,
        /// Preferred deallocate alignment in blocks, large; a count.
        284 => pub npdal: u32,
        /// Format placement shard size.
        288 => pub lbapss: u32,
        /// Tracked allocation granularity.
        292 => pub tlbaag: u32,
    }
}

layout! {
    /// Identify Namespace whatever the command set, CNS 08h
    /// (NVMe Base 2.1, 5.1.13.2.8).
    pub struct IdentifyNamespaceIndependent[4096] {
        /// Features.
        0 => pub nsfeat: CommonNamespaceFeatures,
        /// Sharing.
        1 => pub nmic: NamespaceSharing,
        /// Reservations.
        2 => pub rescap: ReservationCapabilities,
        /// Format progress: bit 7 supported, bits 6:0 percent left.
        3 => pub fpi: u8,
        /// ANA group.
        4 => pub anagrpid: u32,
        /// Attributes.
        8 => pub nsattr: NamespaceAttributes,
        /// NVM set.
        10 => pub nvmsetid: u16,
        /// Endurance group.
        12 => pub endgid: u16,
        /// Status.
        14 => pub nstat: NamespaceStatus,
        /// Key per I/O status.
        15 => pub kpios: u8,
        /// Highest key tag.
        16 => pub maxkt: u16,
        /// Reachability group.
        20 => pub rgrpid: u32,
    }
}
