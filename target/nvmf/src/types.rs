//! Values that cross between queues, the target and the reactor.

use nvme_spec_types::status::Status;

/// A queue from the RDMA connect request to the last trace of its connection. Given by the
/// control thread, never reused while the process runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct QueueKey(pub u64);

/// A command's place in its queue, from the capsule to the end of the response's SEND.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Slot(pub u16);

/// A backing, as the reactor numbers them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct BackingRef(pub u32);

/// A subsystem, as the target numbers them. Never reused while the process runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SubsystemRef(pub u32);

/// A host identifier: 16 bytes of the host's choosing (NVMe Base 2.1, 5.1.25.1.28).
pub type HostId = [u8; 16];

/// How a command that was handed on ended: what its completion carries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// Status, with Do Not Retry where it belongs.
    pub status: Status,
    /// Completion dwords 0 and 1.
    pub result: u64,
    /// Data for the host, already cut to what the command asked for; empty for none. Sent only
    /// with a successful status.
    pub data: Vec<u8>,
}

impl Outcome {
    /// Success without a result.
    pub fn ok() -> Outcome {
        Outcome::result(0)
    }

    /// Success with completion dwords 0 and 1.
    pub fn result(result: u64) -> Outcome {
        Outcome { status: Status::SUCCESS, result, data: Vec::new() }
    }

    /// Success with data for the host.
    pub fn data(data: Vec<u8>) -> Outcome {
        Outcome { status: Status::SUCCESS, result: 0, data }
    }

    /// A failure.
    pub fn error(status: Status) -> Outcome {
        Outcome { status, result: 0, data: Vec::new() }
    }
}

/// How an operation on a backing ended, in the terms of this crate; the reactor maps its storage
/// errors to these in one place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExecStatus {
    /// Done.
    Ok,
    /// It failed with this NVMe status.
    Failed(Status),
}
