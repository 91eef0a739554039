//! Controller properties, which fabrics hosts reach with Property Get and Set.

/// Offset of Controller Capabilities (CAP), 8 bytes.
pub const CAP_OFFSET: u32 = 0x00;
/// Offset of Version (VS), 4 bytes.
pub const VS_OFFSET: u32 = 0x08;
/// Offset of Controller Configuration (CC), 4 bytes.
pub const CC_OFFSET: u32 = 0x14;
/// Offset of Controller Status (CSTS), 4 bytes.
pub const CSTS_OFFSET: u32 = 0x1c;
/// Offset of NVM Subsystem Reset (NSSR), 4 bytes.
pub const NSSR_OFFSET: u32 = 0x20;
/// Offset of Controller Ready Timeouts (CRTO), 4 bytes.
pub const CRTO_OFFSET: u32 = 0x68;

/// What a host writes to NSSR to reset the subsystem: "NVMe" in ASCII.
pub const NSSR_RESET: u32 = 0x4e56_4d65;

/// A field of `bits` bits from bit `at`.
const fn field(value: u64, at: u32, bits: u32) -> u64 {
    value >> at & ((1 << bits) - 1)
}

/// `value` with a field of `bits` bits from bit `at` set to the low bits of `to`.
const fn with_field(value: u64, at: u32, bits: u32, to: u64) -> u64 {
    let mask = ((1 << bits) - 1) << at;
    value & !mask | to << at & mask
}

macro_rules! bit_fields {
    ($name:ident: $t:ty { $( $(#[$m:meta])* $get:ident $with:ident: $ft:ty = $at:literal, $bits:literal; )* }) => {
        impl $name {$(
            $(#[$m])*
            pub const fn $get(self) -> $ft {
                field(self.0 as u64, $at, $bits) as $ft
            }
            #[doc = concat!("With [`", stringify!($name), "::", stringify!($get), "`] set; higher bits are dropped.")]
            #[must_use]
            pub const fn $with(self, value: $ft) -> Self {
                Self(with_field(self.0 as u64, $at, $bits, value as u64) as $t)
            }
        )*}
    };
}

macro_rules! bits {
    ($name:ident: $t:ty { $( $(#[$m:meta])* $get:ident $with:ident = $at:literal; )* }) => {
        impl $name {$(
            $(#[$m])*
            pub const fn $get(self) -> bool {
                self.0 >> $at & 1 != 0
            }
            #[doc = concat!("With [`", stringify!($name), "::", stringify!($get), "`] set or cleared.")]
            #[must_use]
            pub const fn $with(self, on: bool) -> Self {
                Self(self.0 & !(1 << $at) | ((on as u64) << $at) as $t)
            }
        )*}
    };
}

/// Controller Capabilities (NVMe Base 2.1, 3.1.4.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cap(pub u64);

impl Cap {
    /// Most entries of an I/O queue (MQES), 1 to 65536.
    pub const fn max_queue_entries(self) -> u32 {
        field(self.0, 0, 16) as u32 + 1
    }

    /// With MQES for `entries`, which is brought into 1 to 65536.
    #[must_use]
    pub const fn with_max_queue_entries(self, entries: u32) -> Self {
        let raw = match entries {
            0 => 0,
            1..=65536 => entries - 1,
            _ => 65535,
        };
        Self(with_field(self.0, 0, 16, raw as u64))
    }
}

bit_fields! { Cap: u64 {
    /// Arbitration mechanisms (AMS): bit 0 weighted round robin.
    ams with_ams: u8 = 17, 2;
    /// Longest wait for CSTS.RDY to follow CC.EN (TO), in units of 500 ms.
    timeout_500ms with_timeout_500ms: u8 = 24, 8;
    /// Doorbell stride (DSTRD), 0 over fabrics.
    dstrd with_dstrd: u8 = 32, 4;
    /// I/O command sets (CSS): bit 0 NVM, bit 6 any by CC.CSS 110b, bit 7 none.
    css with_css: u8 = 37, 8;
    /// Smallest memory page (MPSMIN): 2 to the power of 12 plus this.
    mpsmin with_mpsmin: u8 = 48, 4;
    /// Largest memory page (MPSMAX): 2 to the power of 12 plus this.
    mpsmax with_mpsmax: u8 = 52, 4;
    /// Ready modes (CRMS): bit 0 with media, bit 1 independent of media.
    crms with_crms: u8 = 59, 2;
} }
bits! { Cap: u64 {
    /// Queues must be contiguous (CQR): 1 over fabrics.
    cqr with_cqr = 16;
    /// NVM subsystem reset is supported (NSSRS).
    nssrs with_nssrs = 36;
    /// NVM subsystem shutdown is supported (NSSS).
    nsss with_nsss = 58;
} }

/// Version (NVMe Base 2.1, 3.1.4.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub u32);

impl Version {
    /// NVMe 1.3.
    pub const V1_3: Self = Self::new(1, 3, 0);
    /// NVMe 1.4.
    pub const V1_4: Self = Self::new(1, 4, 0);
    /// NVMe 2.0.
    pub const V2_0: Self = Self::new(2, 0, 0);
    /// NVMe 2.1.
    pub const V2_1: Self = Self::new(2, 1, 0);

    /// From major, minor and tertiary number.
    pub const fn new(major: u16, minor: u8, tertiary: u8) -> Self {
        Self((major as u32) << 16 | (minor as u32) << 8 | tertiary as u32)
    }

    /// Major number (MJR).
    pub const fn major(self) -> u16 {
        (self.0 >> 16) as u16
    }

    /// Minor number (MNR).
    pub const fn minor(self) -> u8 {
        (self.0 >> 8) as u8
    }

    /// Tertiary number (TER).
    pub const fn tertiary(self) -> u8 {
        self.0 as u8
    }
}

/// Controller Configuration (NVMe Base 2.1, 3.1.4.5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cc(pub u32);

bits! { Cc: u32 {
    /// Enable (EN).
    en with_en = 0;
    /// Ready independent of media (CRIME).
    crime with_crime = 24;
} }
bit_fields! { Cc: u32 {
    /// I/O command set selected (CSS): 0 NVM, 6 all supported, 7 admin only.
    css with_css: u8 = 4, 3;
    /// Memory page (MPS): 2 to the power of 12 plus this.
    mps with_mps: u8 = 7, 4;
    /// Arbitration mechanism (AMS): 0 round robin.
    ams with_ams: u8 = 11, 3;
    /// Shutdown notification (SHN): 0 none, 1 normal, 2 abrupt.
    shn with_shn: u8 = 14, 2;
    /// I/O submission queue entry size (IOSQES), as a power of two: 6.
    iosqes with_iosqes: u8 = 16, 4;
    /// I/O completion queue entry size (IOCQES), as a power of two: 4.
    iocqes with_iocqes: u8 = 20, 4;
} }

/// Controller Status (NVMe Base 2.1, 3.1.4.6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Csts(pub u32);

/// CSTS.SHST: no shutdown is going on.
pub const SHST_NORMAL: u8 = 0;
/// CSTS.SHST: shutdown is going on.
pub const SHST_OCCURRING: u8 = 1;
/// CSTS.SHST: shutdown is complete.
pub const SHST_COMPLETE: u8 = 2;

bits! { Csts: u32 {
    /// Ready (RDY).
    rdy with_rdy = 0;
    /// Fatal (CFS): the host must reset the controller.
    cfs with_cfs = 1;
    /// NVM subsystem reset occurred (NSSRO).
    nssro with_nssro = 4;
    /// Processing paused (PP).
    pp with_pp = 5;
    /// The shutdown is of the whole subsystem (ST).
    st with_st = 6;
} }
bit_fields! { Csts: u32 {
    /// Shutdown status (SHST): [`SHST_NORMAL`] and following.
    shst with_shst: u8 = 2, 2;
} }

/// Controller Ready Timeouts (NVMe Base 2.1, 3.1.4), in units of 500 ms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Crto(pub u32);

bit_fields! { Crto: u32 {
    /// Ready with media (CRWMT).
    crwmt with_crwmt: u16 = 0, 16;
    /// Ready independent of media (CRIMT).
    crimt with_crimt: u16 = 16, 16;
} }

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cap_fields_lie_where_the_table_puts_them() {
        // What the Linux target reports: MQES 127, CQR, TO 15, CSS bit 0.
        let cap = Cap::default()
            .with_max_queue_entries(128)
            .with_cqr(true)
            .with_timeout_500ms(15)
            .with_css(1);
        assert_eq!(cap.0, 1 << 37 | 15 << 24 | 1 << 16 | 127);
        assert_eq!(cap.max_queue_entries(), 128);
        assert_eq!(Cap::default().with_mpsmax(0xf).0, 0xf << 52);
        assert_eq!(Cap::default().with_crms(3).0, 3 << 59);
        assert_eq!(Cap::default().with_nsss(true).0, 1 << 58);
        assert_eq!(Cap::default().with_nssrs(true).0, 1 << 36);
    }

    #[test]
    fn cc_as_linux_enables_a_controller() {
        let cc = Cc(0x0046_0001);
        assert!(cc.en());
        assert_eq!((cc.iosqes(), cc.iocqes()), (6, 4));
        assert_eq!((cc.css(), cc.mps(), cc.ams(), cc.shn()), (0, 0, 0, 0));
        assert_eq!(Cc::default().with_en(true).with_iosqes(6).with_iocqes(4), cc);
        assert_eq!(cc.with_shn(1).0, 0x0046_4001);
        assert_eq!(cc.with_css(6).0, 0x0046_0061);
    }

    #[test]
    fn setting_a_field_leaves_the_others_alone() {
        assert_eq!(Cc(u32::MAX).with_css(0).0, !(7 << 4));
        assert_eq!(Cc(u32::MAX).with_en(false).0, !1);
        assert_eq!(Cap(u64::MAX).with_css(0).0, !(0xff << 37));
        assert_eq!(Cap(0).with_mpsmin(0xff).0, 0xf << 48);
        assert_eq!(Csts(0).with_rdy(true).with_shst(SHST_COMPLETE).0, 0b1001);
    }

    #[test]
    fn version_2_1_reads_as_its_numbers() {
        assert_eq!(Version::V2_1.0, 0x0002_0100);
        assert_eq!(
            (Version::V2_1.major(), Version::V2_1.minor(), Version::V2_1.tertiary()),
            (2, 1, 0)
        );
        assert!(Version::V1_4 < Version::V2_0);
    }

    #[test]
    fn the_reset_value_spells_nvme() {
        assert_eq!(&NSSR_RESET.to_be_bytes(), b"NVMe");
    }
}
