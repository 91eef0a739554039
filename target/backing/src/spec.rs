//! What an administrator asks for: which medium, how large, how to be used.

use std::path::PathBuf;

/// The logical block sizes a namespace can have, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockSize {
    /// 512 bytes.
    B512,
    /// 4096 bytes.
    B4096,
}

impl BlockSize {
    /// In bytes.
    pub const fn bytes(self) -> u32 {
        match self {
            BlockSize::B512 => 512,
            BlockSize::B4096 => 4096,
        }
    }
}

/// A number of bytes that is not a block size we offer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a block size of {0} bytes is not possible: use 512 or 4096")]
pub struct NotABlockSize(pub u32);

impl TryFrom<u32> for BlockSize {
    type Error = NotABlockSize;

    fn try_from(bytes: u32) -> Result<BlockSize, NotABlockSize> {
        match bytes {
            512 => Ok(BlockSize::B512),
            4096 => Ok(BlockSize::B4096),
            other => Err(NotABlockSize(other)),
        }
    }
}

/// Where the bytes live.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Medium {
    /// A regular file, a block device, or the character device of an NVMe namespace.
    Path {
        /// Its path, followed through symbolic links.
        path: PathBuf,
        /// Regular files only, in bytes: a missing file is created and a smaller one extended
        /// with a hole, to this size. A larger one is refused, never cut.
        size: Option<u64>,
        /// Go through the page cache even where direct I/O is possible.
        buffered: bool,
    },
    /// Memory of this process: gone when the process ends.
    Ram {
        /// In bytes; pages are taken when first written.
        size: u64,
    },
    /// Nothing: writes are dropped, reads give zeroes. For measurements.
    Null {
        /// In bytes.
        size: u64,
    },
}

/// A backing to be opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackingSpec {
    /// Where the bytes live.
    pub medium: Medium,
    /// Logical block size; by default 512 bytes where the medium can do it, else 4096.
    pub block_size: Option<BlockSize>,
    /// Refuse every operation that changes content. Several read-only users may share one file.
    pub read_only: bool,
    /// Look for the ends of reads and writes instead of being told of them: NVMe devices with queues
    /// for that only. The core does not sleep while any is under way.
    pub iopoll: bool,
}

impl BackingSpec {
    /// A file or device that exists, with everything else by default.
    pub fn path(path: impl Into<PathBuf>) -> BackingSpec {
        BackingSpec::of(Medium::Path { path: path.into(), size: None, buffered: false })
    }

    /// A file that is created, or extended, to `size` bytes.
    pub fn sized_file(path: impl Into<PathBuf>, size: u64) -> BackingSpec {
        BackingSpec::of(Medium::Path { path: path.into(), size: Some(size), buffered: false })
    }

    /// `size` bytes of memory.
    pub fn ram(size: u64) -> BackingSpec {
        BackingSpec::of(Medium::Ram { size })
    }

    /// A null disk of `size` bytes.
    pub fn null(size: u64) -> BackingSpec {
        BackingSpec::of(Medium::Null { size })
    }

    /// With this logical block size.
    #[must_use]
    pub fn block_size(mut self, size: BlockSize) -> BackingSpec {
        self.block_size = Some(size);
        self
    }

    /// Through the page cache; nothing changes for RAM and null.
    #[must_use]
    pub fn buffered(mut self) -> BackingSpec {
        if let Medium::Path { buffered, .. } = &mut self.medium {
            *buffered = true;
        }
        self
    }

    /// Read-only.
    #[must_use]
    pub fn read_only(mut self) -> BackingSpec {
        self.read_only = true;
        self
    }

    /// With its ends looked for.
    #[must_use]
    pub fn iopoll(mut self) -> BackingSpec {
        self.iopoll = true;
        self
    }

    fn of(medium: Medium) -> BackingSpec {
        BackingSpec { medium, block_size: None, read_only: false, iopoll: false }
    }
}
