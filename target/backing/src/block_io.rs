//! The storage seam: what a core asks of its disks.

use region::Span;
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// A backing as the cores know it. Given by the control thread, never reused while the process
/// runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BackingId(pub u32);

/// What a backing offers; fixed while it is open, but for a capacity that may be re-read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Geometry {
    /// Size in bytes, a multiple of `block_size`.
    pub capacity: u64,
    /// Smallest unit of reading and writing, in bytes: a power of two, 512 to 4096.
    pub block_size: u32,
    /// Preferred unit, in bytes: a multiple of `block_size`.
    pub optimal_io: u32,
    /// Largest write that a power cut leaves whole or undone, in bytes (0: none promised).
    pub atomic_write: u32,
    /// Whether an acknowledged write may be lost in a power cut until flushed.
    pub volatile_cache: bool,
    /// Whether Deallocate gives space back (else it is accepted and does nothing).
    pub discard: bool,
    /// Whether deallocated blocks read back as zeroes for certain.
    pub discard_zeroes: bool,
    /// Whether writes are refused.
    pub read_only: bool,
}

/// What to do with a range of a backing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IoOp {
    /// Fill the buffer from the range.
    Read,
    /// Write the buffer to the range.
    Write {
        /// Durable before it is done (Force Unit Access).
        fua: bool,
    },
    /// Everything that was done before is durable when this is. The range is ignored.
    Flush,
    /// The range reads as zeroes afterwards. No buffer.
    WriteZeroes {
        /// The space may be given back.
        deallocate: bool,
        /// Durable before it is done.
        fua: bool,
    },
    /// The range's content is no longer wanted. No buffer.
    Deallocate,
}

/// One operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IoRequest {
    /// On which backing.
    pub backing: BackingId,
    /// What.
    pub op: IoOp,
    /// Start of the range in bytes, a multiple of the block size.
    pub offset: u64,
    /// Length of the range in bytes, a multiple of the block size; for Read and Write that of the
    /// buffer, which also starts on a multiple of 4096 within the region.
    pub len: u64,
    /// The buffer in the core's region (empty for operations without one).
    pub buffer: Span,
    /// Given back in [`IoDone`], never looked at.
    pub tag: u64,
}

/// How an operation failed; mapped to an NVMe status in one place, by the reactor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IoError {
    /// The range reaches past the end as it is known (it shrank, or our own check failed).
    OutOfRange,
    /// No space left to allocate.
    NoSpace,
    /// The medium failed to read, or the file ends before its size as it is known.
    ReadFault,
    /// The medium failed to write or flush.
    WriteFault,
    /// The backing is read-only.
    ReadOnly,
    /// The backing is gone or was never added.
    Gone,
    /// The operation is not supported and could not be done another way.
    Unsupported,
    /// It did not end in time.
    TimedOut,
    /// A passing shortage (memory, queue space): the host may try again.
    Busy,
    /// An NVMe device's own status of the command: the status field without the phase tag (NVMe Base
    /// 2.1, 4.2.3), for the host as it is.
    Device(u16),
    /// Anything else, with the system's error number.
    Other(i32),
}

/// A finished operation. Every submitted one yields exactly one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IoDone {
    /// The request's tag.
    pub tag: u64,
    /// Success means the whole range: short transfers are continued inside.
    pub result: Result<(), IoError>,
}

/// One core's way to all of its backings. Used by one thread, never blocks.
///
/// Wrappers that delay, fail or tear operations are `BlockIo` over `BlockIo`.
pub trait BlockIo {
    /// What [`add`](BlockIo::add) takes; shared by all cores.
    type Backing: Clone + Send;

    /// Makes a backing usable on this core under `id`.
    fn add(&mut self, id: BackingId, backing: Self::Backing);

    /// Forgets a backing. The caller has seen every operation on it done.
    fn remove(&mut self, id: BackingId);

    /// Takes an operation; any number may be taken between two flushes. It may be held back
    /// inside when the ring is full. An invalid one ends as an [`IoDone`] with its error.
    fn submit(&mut self, now: Duration, request: IoRequest);

    /// Hands everything taken to the system: at most one system call.
    fn flush(&mut self, now: Duration);

    /// Appends what is done to `out` and returns how many.
    fn poll(&mut self, now: Duration, out: &mut Vec<IoDone>) -> usize;

    /// Operations taken and not yet reported done.
    fn in_flight(&self) -> usize;

    /// Makes the [`wait_source`](BlockIo::wait_source) readable at the next completion. Call, then
    /// poll once more, then sleep.
    fn arm(&mut self) {}

    /// What to sleep on, if this engine has anything to sleep on.
    fn wait_source(&self) -> Option<BorrowedFd<'_>>;

    /// When [`poll`](BlockIo::poll) must be called next even if the source is not readable.
    fn timeout(&self) -> Option<Duration> {
        None
    }
}
