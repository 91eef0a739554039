//! Opening a disk: finding out what it is, making sure that nobody else has it, deciding how to
//! reach it. Runs on the control thread and may block.

use crate::backing::{Backing, FileStore, Store};
use crate::nvme;
use crate::probe::{self, Facts};
use crate::ram::RamStore;
use crate::{BackingSpec, BlockSize, Geometry, Medium, OpenError};
use rustix::fs::{FlockOperation, OFlags};
use rustix::io::Errno;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long to wait for a lock or claim that somebody else holds. The kernel closes the files of
/// a process that was killed only after its last operation, so a restarted daemon may find its own
/// former self in the way.
const RELEASE_WAIT: Duration = Duration::from_secs(1);

/// How often to look meanwhile.
const RELEASE_STEP: Duration = Duration::from_millis(20);

/// Preferred unit of RAM and null disks, in bytes.
const MEMORY_OPTIMAL_IO: u32 = 4096;

impl Backing {
    /// Opens what `spec` describes.
    ///
    /// A regular file is locked (flock) and a device opened exclusively: a second exporter, in
    /// this process or another, and a mounted device are refused. Read-only users of one *file*
    /// may share it. Direct I/O is used unless the file system refuses it or `spec` says so.
    ///
    /// # Errors
    /// [`OpenError`], whose message tells the administrator what to do.
    pub fn open(spec: &BackingSpec) -> Result<Arc<Backing>, OpenError> {
        Backing::open_as(spec, Purpose::Use)
    }

    /// What opening would find, of a disk that this process has open already and would let go of
    /// first. Takes neither lock nor claim, so it says nothing of other processes.
    ///
    /// # Errors
    /// As for [`open`](Self::open).
    pub fn peek(spec: &BackingSpec) -> Result<Geometry, OpenError> {
        Backing::open_as(spec, Purpose::Look).map(|backing| backing.geometry())
    }

    fn open_as(spec: &BackingSpec, purpose: Purpose) -> Result<Arc<Backing>, OpenError> {
        match &spec.medium {
            Medium::Path { .. } => open_path(spec, purpose),
            _ if spec.iopoll => Err(OpenError::Polling {
                what: "a disk in memory".to_owned(),
                why: "it has no queues to look at",
            }),
            Medium::Ram { size } => {
                let geometry = memory_geometry(spec, "RAM disk", *size, true)?;
                let store = RamStore::new(geometry.capacity)
                    .map_err(|source| OpenError::Memory { size: *size, source })?;
                Ok(backing(Store::Ram(store), geometry))
            }
            Medium::Null { size } => {
                Ok(backing(Store::Null, memory_geometry(spec, "null disk", *size, false)?))
            }
        }
    }
}

/// What a disk is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// To be used, by this process alone where it is written to.
    Use,
    /// To be looked at and closed again, beside whoever has it.
    Look,
}

fn backing(store: Store, geometry: Geometry) -> Arc<Backing> {
    let capacity = AtomicU64::new(geometry.capacity);
    Arc::new(Backing { store, geometry, capacity, learned: Default::default() })
}

/// Geometry of a disk without a medium. A flush has nothing to do there, so no cache is owned up
/// to: of a RAM disk nothing outlives the process anyway.
fn memory_geometry(
    spec: &BackingSpec,
    what: &str,
    size: u64,
    discard: bool,
) -> Result<Geometry, OpenError> {
    let block_size = spec.block_size.unwrap_or(BlockSize::B512).bytes();
    Ok(Geometry {
        capacity: whole_blocks(what, size, block_size)?,
        block_size,
        optimal_io: MEMORY_OPTIMAL_IO,
        atomic_write: 0,
        volatile_cache: false,
        discard,
        discard_zeroes: true,
        read_only: spec.read_only,
    })
}

fn whole_blocks(what: &str, bytes: u64, block_size: u32) -> Result<u64, OpenError> {
    match bytes / u64::from(block_size) * u64::from(block_size) {
        0 => Err(OpenError::TooSmall { what: what.to_owned(), bytes, block_size }),
        capacity => Ok(capacity),
    }
}

fn open_path(spec: &BackingSpec, purpose: Purpose) -> Result<Arc<Backing>, OpenError> {
    let Medium::Path { path, size, buffered } = &spec.medium else {
        unreachable!("a disk in memory has no path")
    };
    let (path, size, buffered) = (path.as_path(), *size, *buffered);
    let kind = kind_of(path, size.is_some(), spec.read_only)?;
    if kind != Kind::File && size.is_some() {
        return Err(OpenError::SizeOfDevice { path: path.to_owned() });
    }
    if kind == Kind::Nvme {
        return open_nvme(spec, path, buffered, purpose);
    }
    let is_device = kind == Kind::Block;
    let existed = path.exists();
    let exclusive = is_device && purpose == Purpose::Use;
    let create = size.is_some() && !spec.read_only && !is_device;
    let (file, direct) = open_file(path, spec.read_only, exclusive, create, !buffered)?;
    let meta = file.metadata().map_err(|e| system(path, "look at it", e))?;
    let claim = if is_device || purpose == Purpose::Look {
        Claim::none()
    } else {
        lock(&file, path, spec.read_only)?;
        Claim::on(meta.dev(), meta.ino())
    };
    if let Some(wanted) = size {
        extend(&file, path, meta.len(), wanted, spec.read_only).inspect_err(|_| {
            // What was made for nothing goes again; it is locked, and still empty.
            if !existed && meta.len() == 0 {
                let _ = std::fs::remove_file(path);
            }
        })?;
    }
    let facts = if is_device {
        probe::device(&file, path, meta.rdev(), direct)?
    } else {
        probe::file(&file, path, direct)?
    };
    if spec.iopoll {
        let unfit = |why| OpenError::Polling { what: path.display().to_string(), why };
        if !is_device {
            return Err(unfit("only devices have queues to look at, not files"));
        }
        if !direct {
            return Err(unfit("it goes through the page cache: leave buffered out"));
        }
        may_poll(path, probe::device_name(meta.rdev()).as_deref())?;
    }
    if facts.read_only && !spec.read_only {
        // The kernel may let a read-only device be opened for writing, to fail each write later.
        return Err(OpenError::MediumReadOnly { path: path.to_owned() });
    }
    let block_size = choose_block_size(spec.block_size, &facts, path)?;
    let geometry = Geometry {
        capacity: whole_blocks(&path.display().to_string(), facts.bytes, block_size)?,
        block_size,
        optimal_io: facts.optimal_io.max(block_size).next_multiple_of(block_size),
        atomic_write: 0,
        volatile_cache: facts.volatile_cache,
        discard: facts.discard && !spec.read_only,
        discard_zeroes: facts.discard_zeroes && !spec.read_only,
        read_only: spec.read_only,
    };
    let store = FileStore {
        file,
        is_device,
        direct,
        polled: spec.iopoll,
        memory_align: facts.memory_align,
        progress_unit: block_size.max(facts.offset_align).max(facts.memory_align),
        _claim: claim,
    };
    Ok(backing(Store::File(store), geometry))
}

/// An NVMe namespace by its character device.
fn open_nvme(
    spec: &BackingSpec,
    path: &Path,
    buffered: bool,
    purpose: Purpose,
) -> Result<Arc<Backing>, OpenError> {
    if buffered {
        return Err(OpenError::BufferedCommands { path: path.to_owned() });
    }
    let (store, own) = nvme::open(spec, path, purpose)?;
    if own.read_only && !spec.read_only {
        return Err(OpenError::MediumReadOnly { path: path.to_owned() });
    }
    let block_size = block_size_from(spec.block_size, own.block_size, path)?;
    let geometry = Geometry {
        capacity: whole_blocks(&path.display().to_string(), own.capacity, block_size)?,
        block_size,
        optimal_io: own.optimal_io.next_multiple_of(block_size),
        atomic_write: own.atomic_write / block_size * block_size,
        discard: own.discard && !spec.read_only,
        discard_zeroes: own.discard_zeroes && !spec.read_only,
        read_only: spec.read_only,
        ..own
    };
    Ok(backing(Store::Nvme(store), geometry))
}

/// What a path leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    File,
    /// A block device.
    Block,
    /// An NVMe namespace, as a character device.
    Nvme,
}

/// What is there; an absent file is one, if it may be created.
fn kind_of(path: &Path, has_size: bool, read_only: bool) -> Result<Kind, OpenError> {
    let meta = match std::fs::metadata(path) {
        Ok(meta) => meta,
        Err(e) if e.kind() == io::ErrorKind::NotFound && has_size && !read_only => {
            return Ok(Kind::File);
        }
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Err(not_found(path, read_only)),
        Err(e) => return Err(refused(path, true, e)),
    };
    let odd = |kind| Err(OpenError::Kind { path: path.to_owned(), kind });
    match meta.file_type() {
        kind if kind.is_file() => Ok(Kind::File),
        kind if kind.is_block_device() => Ok(Kind::Block),
        kind if kind.is_char_device() && nvme::is_generic(meta.rdev()) => Ok(Kind::Nvme),
        kind if kind.is_dir() => odd("a folder"),
        kind if kind.is_char_device() => odd("a character device"),
        kind if kind.is_fifo() => odd("a pipe"),
        kind if kind.is_socket() => odd("a socket"),
        _ => odd("something else"),
    }
}

fn not_found(path: &Path, read_only: bool) -> OpenError {
    let path = path.to_owned();
    if read_only { OpenError::NotCreated { path } } else { OpenError::NotFound { path } }
}

/// Opens it, for direct I/O if wanted and possible (the second value says so).
fn open_file(
    path: &Path,
    read_only: bool,
    exclusive: bool,
    create: bool,
    want_direct: bool,
) -> Result<(File, bool), OpenError> {
    let open = |direct: bool| {
        let mut flags = OFlags::empty();
        flags.set(OFlags::DIRECT, direct);
        // Of a device: refuse if it is mounted or otherwise claimed, and claim it.
        flags.set(OFlags::EXCL, exclusive);
        OpenOptions::new()
            .read(true)
            .write(!read_only)
            .create(create)
            .truncate(false)
            .mode(0o600)
            .custom_flags(flags.bits() as i32)
            .open(path)
    };
    let existed = path.exists();
    let first = patiently(|| open(want_direct), |e| e.raw_os_error() == Some(libc::EBUSY));
    let result = match first {
        Ok(file) => Ok((file, want_direct)),
        Err(e) if want_direct && e.raw_os_error() == Some(libc::EINVAL) => {
            tracing::info!(path = %path.display(), "no direct I/O here: going through the page cache");
            open(false).map(|file| (file, false))
        }
        Err(e) => Err(e),
    };
    result.map_err(|source| {
        if create && !existed {
            OpenError::Create { path: path.to_owned(), source }
        } else {
            refused(path, read_only, source)
        }
    })
}

/// Tries again while the failure is one that may pass, for [`RELEASE_WAIT`] at most.
pub(crate) fn patiently<T, E>(
    mut attempt: impl FnMut() -> Result<T, E>,
    may_pass: impl Fn(&E) -> bool,
) -> Result<T, E> {
    let start = Instant::now();
    loop {
        match attempt() {
            Err(error) if may_pass(&error) && start.elapsed() < RELEASE_WAIT => {
                std::thread::sleep(RELEASE_STEP);
            }
            result => return result,
        }
    }
}

/// What a refusal to open means.
pub(crate) fn refused(path: &Path, read_only: bool, source: io::Error) -> OpenError {
    let path = path.to_owned();
    match source.raw_os_error() {
        Some(libc::EBUSY) => OpenError::DeviceBusy { path },
        Some(libc::EROFS) => OpenError::MediumReadOnly { path },
        Some(libc::EACCES | libc::EPERM) if read_only => {
            OpenError::Permission { path, verb: "read", hint: "" }
        }
        Some(libc::EACCES | libc::EPERM) => OpenError::Permission {
            path,
            verb: "read and write",
            hint: ", or set read_only if it can only be read",
        },
        Some(libc::ENOENT) => not_found(&path, read_only),
        _ => OpenError::System { path, doing: "open it", source },
    }
}

/// Takes the advisory lock: shared for reading, else exclusive. It belongs to the open file, so
/// a second opening conflicts within one process too.
pub(crate) fn lock(file: &File, path: &Path, read_only: bool) -> Result<(), OpenError> {
    let operation = if read_only {
        FlockOperation::NonBlockingLockShared
    } else {
        FlockOperation::NonBlockingLockExclusive
    };
    let here = || file.metadata().is_ok_and(|meta| Claim::exists(meta.dev(), meta.ino()));
    let locked = patiently(
        || rustix::fs::flock(file, operation),
        |error| *error == Errno::WOULDBLOCK && !here(),
    );
    match locked {
        Ok(()) => Ok(()),
        Err(Errno::WOULDBLOCK) if here() => Err(OpenError::LockedHere { path: path.to_owned() }),
        Err(Errno::WOULDBLOCK) => Err(OpenError::LockedElsewhere { path: path.to_owned() }),
        Err(error) => {
            // A file system without locks (some network ones) is no reason to refuse its files.
            tracing::warn!(path = %path.display(), %error, "cannot lock the file: make sure that nothing else writes to it");
            Ok(())
        }
    }
}

fn extend(
    file: &File,
    path: &Path,
    actual: u64,
    wanted: u64,
    read_only: bool,
) -> Result<(), OpenError> {
    let path: PathBuf = path.to_owned();
    if actual > wanted {
        return Err(OpenError::WouldShrink { path, actual, wanted });
    }
    if actual < wanted && read_only {
        return Err(OpenError::NotExtended { path, actual, wanted });
    }
    if actual < wanted {
        file.set_len(wanted).map_err(|source| OpenError::Extend { path, wanted, source })?;
    }
    Ok(())
}

/// Whether the ends of a block device's operations can be looked for.
pub(crate) fn may_poll(path: &Path, device: Option<&str>) -> Result<(), OpenError> {
    let told = device.and_then(|name| probe::queue_text(name, "io_poll"));
    if told.is_some_and(|told| told.trim() == "1") {
        return Ok(());
    }
    let why = "its driver has no queue for that: NVMe has with the kernel's parameter nvme.poll_queues=1 (see queue/io_poll of the device in sysfs)";
    Err(OpenError::Polling { what: path.display().to_string(), why })
}

/// The block size asked for, if the medium can do it; else the smallest it can do.
fn choose_block_size(
    wanted: Option<BlockSize>,
    facts: &Facts,
    path: &Path,
) -> Result<u32, OpenError> {
    block_size_from(wanted, facts.offset_align, path)
}

/// As [`choose_block_size`], with the smallest that the medium can do.
fn block_size_from(wanted: Option<BlockSize>, needed: u32, path: &Path) -> Result<u32, OpenError> {
    if needed > BlockSize::B4096.bytes() {
        return Err(OpenError::BlocksTooLarge { path: path.to_owned(), needed });
    }
    match wanted.map(BlockSize::bytes) {
        Some(wanted) if wanted < needed => {
            Err(OpenError::BlockSize { path: path.to_owned(), wanted, needed: 4096 })
        }
        Some(wanted) => Ok(wanted),
        None if needed <= 512 => Ok(512),
        None => Ok(4096),
    }
}

fn system(path: &Path, doing: &'static str, source: io::Error) -> OpenError {
    OpenError::System { path: path.to_owned(), doing, source }
}

/// Files that this process has open as backings, by device and inode: only to tell an
/// administrator *who* holds a lock. One entry per opening.
static CLAIMS: Mutex<Vec<(u64, u64)>> = Mutex::new(Vec::new());

/// One entry of [`CLAIMS`], taken back on drop.
#[derive(Debug)]
pub(crate) struct Claim(Option<(u64, u64)>);

impl Claim {
    pub(crate) fn none() -> Claim {
        Claim(None)
    }

    pub(crate) fn on(dev: u64, ino: u64) -> Claim {
        CLAIMS.lock().unwrap_or_else(PoisonError::into_inner).push((dev, ino));
        Claim(Some((dev, ino)))
    }

    fn exists(dev: u64, ino: u64) -> bool {
        CLAIMS.lock().unwrap_or_else(PoisonError::into_inner).contains(&(dev, ino))
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if let Some(key) = self.0 {
            let mut claims = CLAIMS.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(at) = claims.iter().position(|claim| *claim == key) {
                claims.swap_remove(at);
            }
        }
    }
}
