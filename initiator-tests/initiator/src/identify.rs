//! The few fields of Identify data that a host acts on, read by their offsets in NVMe Base 2.1,
//! 5.1.13.2.1 and NVM 1.1, 4.1.5.1: again without the structures the target writes them with.

/// Bytes of each Identify data structure.
pub(crate) const IDENTIFY_LEN: u32 = 4096;

fn le16(data: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([data[at], data[at + 1]])
}

fn le32(data: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(data[at..at + 4].try_into().expect("four bytes"))
}

/// What Identify Controller told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ControllerInfo {
    /// Controller id (CNTLID).
    pub cntlid: u16,
    /// Largest transfer in bytes (MDTS over pages of 4096), `None` for no limit.
    pub max_transfer: Option<u32>,
    /// Most commands that a queue may hold (MAXCMD); 0 when not told.
    pub maxcmd: u16,
    /// Highest namespace id (NN).
    pub nn: u32,
    /// Optional commands (ONCS).
    pub oncs: u16,
    /// In-capsule data of I/O queues in bytes (IOCCSZ less the 64 of the command).
    pub in_capsule: u32,
    /// Offset of in-capsule data, in units of 16 bytes (ICDOFF).
    pub icdoff: u16,
    /// Most data descriptors of a command (MSDBD); 0 for no limit.
    pub msdbd: u8,
    /// Most Asynchronous Event Requests held (AERL, made a count).
    pub aer_limit: u16,
    /// Whether a volatile write cache is present (VWC bit 0).
    pub volatile_cache: bool,
    /// SGL support (SGLS).
    pub sgls: u32,
}

impl ControllerInfo {
    /// Reads the 4096 bytes of CNS 01h.
    pub(crate) fn read(data: &[u8]) -> ControllerInfo {
        let mdts = data[77];
        ControllerInfo {
            cntlid: le16(data, 78),
            max_transfer: (mdts != 0 && mdts < 20).then(|| 4096 << mdts),
            maxcmd: le16(data, 514),
            nn: le32(data, 516),
            oncs: le16(data, 520),
            in_capsule: (le32(data, 1792).saturating_mul(16)).saturating_sub(64),
            icdoff: le16(data, 1800),
            msdbd: data[1803],
            aer_limit: u16::from(data[259]) + 1,
            volatile_cache: data[525] & 1 != 0,
            sgls: le32(data, 536),
        }
    }
}

/// A namespace in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NamespaceInfo {
    /// Its id.
    pub nsid: u32,
    /// Size in logical blocks (NSZE).
    pub blocks: u64,
    /// log2 of the logical block size (LBADS of the format in use).
    pub lba_shift: u8,
}

impl NamespaceInfo {
    /// Reads the 4096 bytes of CNS 00h.
    pub(crate) fn read(nsid: u32, data: &[u8]) -> NamespaceInfo {
        let low = u64::from(le32(data, 0));
        let high = u64::from(le32(data, 4));
        let format = usize::from(data[26] & 0xf);
        NamespaceInfo { nsid, blocks: high << 32 | low, lba_shift: data[128 + format * 4 + 2] }
    }
}

/// The ids of an active namespace list (CNS 02h), which a zero ends.
pub(crate) fn namespace_ids(data: &[u8]) -> Vec<u32> {
    data.chunks_exact(4).map(|id| le32(id, 0)).take_while(|&id| id != 0).collect()
}
