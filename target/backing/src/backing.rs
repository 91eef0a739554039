//! One opened disk.
//!
//! Made on the control thread by [`Backing::open`], shared by all cores as `Arc<Backing>`, closed
//! (and unlocked) when the last holder lets go of it. It holds no state of any operation, only
//! what was learned about the medium.

use crate::Geometry;
use crate::nvme::NvmeStore;
use crate::open::Claim;
use crate::probe;
use crate::ram::RamStore;
use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// One opened file, block device, NVMe namespace, RAM or null disk.
#[derive(Debug)]
pub struct Backing {
    pub(crate) store: Store,
    pub(crate) geometry: Geometry,
    /// The capacity in bytes, which alone may change while open.
    pub(crate) capacity: AtomicU64,
    pub(crate) learned: Learned,
}

/// Where the bytes are.
#[derive(Debug)]
pub(crate) enum Store {
    File(FileStore),
    Nvme(NvmeStore),
    Ram(RamStore),
    Null,
}

/// An opened file or device.
#[derive(Debug)]
pub(crate) struct FileStore {
    pub(crate) file: File,
    pub(crate) is_device: bool,
    /// Opened for direct I/O.
    pub(crate) direct: bool,
    /// Whether the ends of reads and writes are looked for.
    pub(crate) polled: bool,
    /// What buffer addresses must be a multiple of, in bytes: a power of two up to 4096.
    pub(crate) memory_align: u32,
    /// What a transfer may be continued at, in bytes.
    pub(crate) progress_unit: u32,
    /// Says that this process has it open; let go after the file.
    pub(crate) _claim: Claim,
}

impl Drop for FileStore {
    fn drop(&mut self) {
        // A ring that was closed may hold on to the open file for a while yet; its lock must not
        // outlast the backing.
        let _ = rustix::fs::flock(&self.file, rustix::fs::FlockOperation::Unlock);
    }
}

/// What the medium turned out not to do, found out by trying. Never unlearned. All cores share
/// it; a core that has not seen it yet merely tries once more.
#[derive(Debug, Default)]
pub(crate) struct Learned {
    /// RWF_DSYNC is refused: a durable write is a write and a sync.
    pub(crate) no_dsync: Flag,
    /// Zeroing a range keeping its space is refused: zeroes are written.
    pub(crate) no_zero_range: Flag,
    /// Punching holes is refused.
    pub(crate) no_punch: Flag,
    /// Discarding with undefined content (devices) is refused.
    pub(crate) no_discard: Flag,
    /// NVMe commands with a registered buffer are refused (before Linux 6.1).
    pub(crate) no_fixed_command: Flag,
}

/// A fact that only ever becomes true.
#[derive(Debug, Default)]
pub(crate) struct Flag(AtomicBool);

impl Flag {
    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Backing {
    /// What it offers now.
    pub fn geometry(&self) -> Geometry {
        Geometry { capacity: self.capacity(), ..self.geometry }
    }

    /// Its size now, in bytes: a multiple of the block size.
    pub fn capacity(&self) -> u64 {
        self.capacity.load(Ordering::Relaxed)
    }

    /// Looks again how large the file or device is and returns the new capacity in bytes, rounded
    /// down to whole blocks. Operations past a smaller capacity fail from then on; the owner tells
    /// the hosts.
    ///
    /// # Errors
    /// What the system answers when asked for the size; the capacity stays as it was.
    pub fn refresh_capacity(&self) -> io::Result<u64> {
        let bytes = match &self.store {
            Store::File(store) => probe::bytes_now(&store.file, store.is_device)?,
            Store::Nvme(store) => store.bytes_now()?,
            Store::Ram(_) | Store::Null => return Ok(self.capacity()),
        };
        let block = u64::from(self.geometry.block_size);
        self.capacity.store(bytes / block * block, Ordering::Relaxed);
        Ok(self.capacity())
    }

    /// Makes a file at least `bytes` long and returns the new capacity, as
    /// [`refresh_capacity`](Self::refresh_capacity) does. Nothing else than a file is made larger.
    ///
    /// # Errors
    /// The system's: no space, most often. The capacity stays as it was.
    pub fn grow(&self, bytes: u64) -> io::Result<u64> {
        if let Store::File(FileStore { file, is_device: false, .. }) = &self.store
            && file.metadata()?.len() < bytes
        {
            file.set_len(bytes)?;
        }
        self.refresh_capacity()
    }

    /// Whether operations go past the page cache, straight to the device.
    pub fn is_direct(&self) -> bool {
        match &self.store {
            Store::File(store) => store.direct,
            Store::Nvme(_) => true,
            Store::Ram(_) | Store::Null => false,
        }
    }
}
