//! What a target under test offers.

/// The subsystem with the namespaces; any host may connect.
pub const SUBNQN: &str = "nqn.2026-11.io.nvmfd:conformance";
/// A subsystem with one namespace of 1 MiB, which only [`ALLOWED_HOSTNQN`] may use.
pub const CLOSED_SUBNQN: &str = "nqn.2026-11.io.nvmfd:conformance-closed";
/// The host that may use [`CLOSED_SUBNQN`].
pub const ALLOWED_HOSTNQN: &str = "nqn.2014-08.org.example:somebody-else";

/// Largest transfer in bytes.
pub const MAX_TRANSFER: u32 = 256 << 10;
/// In-capsule data of an I/O queue in bytes.
pub const IN_CAPSULE: u32 = 8 << 10;
/// Entries of a queue at most.
pub const QUEUE_DEPTH: u16 = 64;
/// I/O queues of a controller at most.
pub const MAX_IO_QUEUES: u16 = 4;
/// Memory of the data core, and of the control core, in bytes.
pub const MEMORY: [u32; 2] = [16 << 20, 8 << 20];

/// A namespace in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Namespace {
    /// Size in MiB.
    pub mib: u32,
    /// Bytes of a block: 512 or 4096.
    pub block_size: u32,
    /// Whether what changes it is refused.
    pub read_only: bool,
}

impl Namespace {
    /// A writable one.
    pub const fn ram(mib: u32, block_size: u32) -> Namespace {
        Namespace { mib, block_size, read_only: false }
    }
}

/// The namespaces of a usual target, numbered from 1.
pub const USUAL: &[Namespace] = &[
    Namespace::ram(16, 512),
    Namespace::ram(16, 4096),
    Namespace { read_only: true, ..Namespace::ram(1, 512) },
];
