//! What can go wrong with a disk: at opening (for the administrator) and per operation (for the
//! host, by way of [`IoError`]).

use crate::IoError;
use nvme_spec_types::identify::Csi;
use std::io;
use std::path::PathBuf;

/// Why a backing could not be opened. Each message names the path and says what to do.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// There is no such file or device.
    #[error("{path}: no such file or device; give a size to have a file created", path = .path.display())]
    NotFound {
        /// The path asked for.
        path: PathBuf,
    },
    /// There is no such file or device, and it was to be read only.
    #[error("{path}: no such file or device, and a disk that is read_only is not created; correct the path, or make the file first", path = .path.display())]
    NotCreated {
        /// The path asked for.
        path: PathBuf,
    },
    /// The file could not be created.
    #[error("{path}: cannot create the file: {source}; its folder must exist and be writable", path = .path.display())]
    Create {
        /// The path asked for.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// The process may not open it.
    #[error("{path}: permission denied; run as a user who may {verb} it{hint}", path = .path.display())]
    Permission {
        /// The path asked for.
        path: PathBuf,
        /// "read" or "read and write".
        verb: &'static str,
        /// What else would help, or nothing.
        hint: &'static str,
    },
    /// The medium refuses writes.
    #[error("{path}: the device or its file system is read-only; set read_only to export it so", path = .path.display())]
    MediumReadOnly {
        /// The path asked for.
        path: PathBuf,
    },
    /// Nothing that can be a disk.
    #[error("{path}: is {kind}, neither a regular file, a block device nor an NVMe namespace (/dev/ng0n1)", path = .path.display())]
    Kind {
        /// The path asked for.
        path: PathBuf,
        /// What it is.
        kind: &'static str,
    },
    /// Mounted, part of an array or volume, or opened exclusively.
    #[error("{path}: the device is in use (mounted, part of an array or volume group, or already exported); release it first", path = .path.display())]
    DeviceBusy {
        /// The path asked for.
        path: PathBuf,
    },
    /// A lock on the file is held elsewhere.
    #[error("{path}: already exported by another process; stop it, or have both use read_only", path = .path.display())]
    LockedElsewhere {
        /// The path asked for.
        path: PathBuf,
    },
    /// The same file is already open in this process.
    #[error("{path}: already exported as another namespace of this process, or what a removed one had under way has not ended; export it once, have both use read_only, or try again then", path = .path.display())]
    LockedHere {
        /// The path asked for.
        path: PathBuf,
    },
    /// The file is larger than the size asked for.
    #[error("{path}: holds {actual} bytes, more than the size of {wanted}; files are never cut: raise the size or leave it out", path = .path.display())]
    WouldShrink {
        /// The path asked for.
        path: PathBuf,
        /// Bytes in the file.
        actual: u64,
        /// Bytes asked for.
        wanted: u64,
    },
    /// The file is smaller than the size asked for, and is to be read only.
    #[error("{path}: holds {actual} bytes, less than the size of {wanted}, and a disk that is read_only is not extended; leave the size out, or extend the file first", path = .path.display())]
    NotExtended {
        /// The path asked for.
        path: PathBuf,
        /// Bytes in the file.
        actual: u64,
        /// Bytes asked for.
        wanted: u64,
    },
    /// A size was given for something whose size is its own.
    #[error("{path}: is a device, whose size cannot be set; leave the size out", path = .path.display())]
    SizeOfDevice {
        /// The path asked for.
        path: PathBuf,
    },
    /// Extending failed.
    #[error("{path}: cannot extend the file to {wanted} bytes: {source}{hint}", path = .path.display(), hint = extend_hint(.source))]
    Extend {
        /// The path asked for.
        path: PathBuf,
        /// Bytes asked for.
        wanted: u64,
        /// The system's answer.
        source: io::Error,
    },
    /// No whole block fits.
    #[error("{what}: {bytes} bytes are less than one block of {block_size}; give a larger size")]
    TooSmall {
        /// The path, or the kind of medium.
        what: String,
        /// Bytes there are.
        bytes: u64,
        /// Bytes per block.
        block_size: u32,
    },
    /// Direct I/O cannot be done in blocks this small.
    #[error("{path}: direct I/O needs blocks of {needed} bytes, not {wanted}; set block_size = {needed}, or buffered = true if it is no NVMe character device", path = .path.display())]
    BlockSize {
        /// The path asked for.
        path: PathBuf,
        /// Block size asked for, in bytes.
        wanted: u32,
        /// Smallest one possible, in bytes.
        needed: u32,
    },
    /// The medium's own blocks are larger than any we offer.
    #[error("{path}: has blocks of {needed} bytes, more than the 4096 supported; a file or block device can be served with buffered = true", path = .path.display())]
    BlocksTooLarge {
        /// The path asked for.
        path: PathBuf,
        /// The medium's smallest block, in bytes.
        needed: u32,
    },
    /// NVMe commands may not be sent.
    #[error("{path}: may be opened, but not sent commands; before Linux 6.2 that takes CAP_SYS_ADMIN: run as root, or give the block device of the same namespace", path = .path.display())]
    Commands {
        /// The path asked for.
        path: PathBuf,
    },
    /// The blocks of an NVMe namespace have metadata.
    #[error("{path}: its blocks carry {bytes} bytes of metadata, which cannot be exported; format it without (nvme format --lbaf, which erases it)", path = .path.display())]
    Metadata {
        /// The path asked for.
        path: PathBuf,
        /// Of each block.
        bytes: u16,
    },
    /// An NVMe namespace without blocks, or with rules for writing them.
    #[error("{path}: is of the {command_set}; only namespaces of the NVM Command Set can be exported", path = .path.display())]
    CommandSet {
        /// The path asked for.
        path: PathBuf,
        /// What it is of.
        command_set: Csi,
    },
    /// The page cache was asked for where there is none.
    #[error("{path}: is sent NVMe commands, past the page cache; leave buffered out, or give the block device of the same namespace", path = .path.display())]
    BufferedCommands {
        /// The path asked for.
        path: PathBuf,
    },
    /// Its operations cannot be polled.
    #[error("{what}: iopoll is not possible: {why}")]
    Polling {
        /// The path, or the kind of medium.
        what: String,
        /// What is missing.
        why: &'static str,
    },
    /// No memory for a RAM disk.
    #[error("RAM disk of {size} bytes: {source}")]
    Memory {
        /// Bytes asked for.
        size: u64,
        /// What refused.
        source: region::MapError,
    },
    /// Anything else.
    #[error("{path}: cannot {doing}: {source}", path = .path.display())]
    System {
        /// The path asked for.
        path: PathBuf,
        /// What was being done.
        doing: &'static str,
        /// The system's answer.
        source: io::Error,
    },
}

/// What to do when a file cannot be extended, where there is something beside making space.
fn extend_hint(source: &io::Error) -> &'static str {
    match source.raw_os_error() {
        Some(libc::EFBIG | libc::EINVAL | libc::EOVERFLOW) => {
            "; its file system, or the limit of file sizes (ulimit -f), allows no file as large: \
             choose a smaller size or another file system"
        }
        _ => "",
    }
}

/// Which way an operation moved data, which decides what a failing medium is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    Read,
    Write,
}

/// The one place where the system's error numbers become ours.
pub(crate) fn io_error(errno: i32, direction: Direction) -> IoError {
    match errno {
        // Block layer statuses: plain failure, medium error, protection error, target error.
        libc::EIO | libc::ENODATA | libc::EILSEQ | libc::EREMOTEIO | libc::EUCLEAN => {
            match direction {
                Direction::Read => IoError::ReadFault,
                Direction::Write => IoError::WriteFault,
            }
        }
        libc::ENOSPC | libc::EDQUOT => IoError::NoSpace,
        libc::EFBIG => IoError::OutOfRange,
        libc::EROFS | libc::EPERM | libc::EACCES => IoError::ReadOnly,
        libc::ENODEV | libc::ENXIO | libc::ESHUTDOWN | libc::ESTALE => IoError::Gone,
        libc::ETIMEDOUT | libc::ETIME => IoError::TimedOut,
        libc::ENOMEM | libc::EAGAIN | libc::EINTR | libc::EBUSY => IoError::Busy,
        libc::EOPNOTSUPP | libc::ENOSYS => IoError::Unsupported,
        other => IoError::Other(other),
    }
}
