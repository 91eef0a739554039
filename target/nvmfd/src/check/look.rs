//! A namespace's disk, looked at without changing it: what serving would find.
//!
//! What cannot be known without writing (whether a file can be made, whether a device takes writes)
//! is told from permissions and from what the file system says of itself.

use super::growth;
use backing::{Backing, BackingSpec, Geometry, Medium, OpenError};
use rustix::fs::{Access, access};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// How long another process's lock is waited for.
const LOCK_ENDS_WITHIN: Duration = Duration::from_secs(1);
/// How often it is looked at meanwhile.
const LOCK_STEP: Duration = Duration::from_millis(20);

/// What was found where a namespace's data should be.
#[derive(Debug)]
pub(crate) enum Found {
    /// A disk that can be served.
    Disk(Geometry),
    /// Serving it would make the file.
    WouldBeCreated(u64),
    /// Another process, perhaps a running nvmfd, has it: what serving it would fail with.
    InUse(OpenError),
}

/// Opens the disk for reading only and closes it again.
///
/// # Errors
/// What serving it would fail with.
pub(crate) fn look(spec: &BackingSpec) -> Result<Found, OpenError> {
    // Locked while it is looked at: so another process's lock is noticed.
    look_by(spec, |spec| Backing::open(spec).map(|backing| backing.geometry()))
}

/// The same for a disk that this process has open and would let go of first.
///
/// # Errors
/// What serving it would fail with.
pub(crate) fn look_at_own(spec: &BackingSpec) -> Result<Found, OpenError> {
    let found = look_by(spec, Backing::peek)?;
    match &spec.medium {
        // Where it is read only now, others may read it too.
        Medium::Path { path, .. } if !spec.read_only && stays_locked_by_others(path) => {
            Ok(Found::InUse(OpenError::LockedElsewhere { path: path.clone() }))
        }
        _ => Ok(found),
    }
}

/// Whether another process has locked the file and keeps it locked for a while: one that was killed
/// may be just ending.
fn stays_locked_by_others(path: &Path) -> bool {
    let start = Instant::now();
    while is_locked_by_others(path) {
        if start.elapsed() >= LOCK_ENDS_WITHIN {
            return true;
        }
        std::thread::sleep(LOCK_STEP);
    }
    false
}

/// Whether another process has locked the file, as far as the kernel's list of locks tells.
fn is_locked_by_others(path: &Path) -> bool {
    let Ok(meta) = std::fs::metadata(path) else { return false };
    let (major, minor) = (rustix::fs::major(meta.dev()), rustix::fs::minor(meta.dev()));
    let file = format!("{major:02x}:{minor:02x}:{}", meta.ino());
    let own = std::process::id().to_string();
    let locks = std::fs::read_to_string("/proc/locks").unwrap_or_default();
    // "1: FLOCK ADVISORY READ pid device:inode start end"
    locks.lines().map(|line| line.split_whitespace().collect::<Vec<_>>()).any(|words| {
        matches!(words[..], [_, "FLOCK", _, _, pid, place, ..] if place == file && pid != own)
    })
}

fn look_by(
    spec: &BackingSpec,
    open: impl Fn(&BackingSpec) -> Result<Geometry, OpenError>,
) -> Result<Found, OpenError> {
    let Medium::Path { path, size, buffered } = &spec.medium else {
        return open(spec).map(Found::Disk);
    };
    if let (false, Some(size), false) = (path.exists(), size, spec.read_only) {
        return match path.parent().map(std::fs::metadata) {
            Some(Ok(folder)) if folder.is_dir() => {
                may_create(path)?;
                growth::fits(path, *size).map(|()| Found::WouldBeCreated(*size))
            }
            Some(Ok(_)) => {
                let source = std::io::ErrorKind::NotADirectory.into();
                Err(OpenError::Create { path: path.clone(), source })
            }
            Some(Err(source)) => Err(OpenError::Create { path: path.clone(), source }),
            None => Err(OpenError::NotFound { path: path.clone() }),
        };
    }
    let probe = BackingSpec {
        medium: Medium::Path { path: path.clone(), size: None, buffered: *buffered },
        read_only: true,
        ..spec.clone()
    };
    let mut geometry = match open(&probe) {
        Ok(geometry) => geometry,
        Err(OpenError::NotCreated { path }) if !spec.read_only => {
            return Err(OpenError::NotFound { path });
        }
        Err(error @ OpenError::LockedElsewhere { .. }) => return Ok(Found::InUse(error)),
        Err(error @ OpenError::DeviceBusy { .. }) if !is_mounted_or_held(path) => {
            return Ok(Found::InUse(error));
        }
        // A file that is too small now is extended when it is served.
        Err(OpenError::TooSmall { bytes, .. }) if size.is_some() => {
            let size = size.unwrap_or(0);
            may_extend(spec, path, bytes, size)?;
            return Ok(Found::WouldBeCreated(size));
        }
        Err(error) => return Err(error),
    };
    if let Some(wanted) = *size {
        let meta = std::fs::metadata(path).map_err(|source| OpenError::System {
            path: path.clone(),
            doing: "look at it",
            source,
        })?;
        if !meta.is_file() {
            return Err(OpenError::SizeOfDevice { path: path.clone() });
        }
        if meta.len() > wanted {
            return Err(OpenError::WouldShrink { path: path.clone(), actual: meta.len(), wanted });
        }
        if meta.len() < wanted {
            may_extend(spec, path, meta.len(), wanted)?;
        }
        geometry.capacity =
            wanted / u64::from(geometry.block_size) * u64::from(geometry.block_size);
    }
    if !spec.read_only {
        // The probe could not write, so it knows nothing of this.
        geometry.discard |= meta_is_file(path);
        may_write(path)?;
    }
    Ok(Found::Disk(geometry))
}

fn meta_is_file(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|meta| meta.is_file())
}

/// Whether a file can be extended.
fn may_extend(spec: &BackingSpec, path: &Path, actual: u64, wanted: u64) -> Result<(), OpenError> {
    if spec.read_only {
        return Err(OpenError::NotExtended { path: path.to_owned(), actual, wanted });
    }
    growth::fits(path, wanted)
}

/// Whether this user may write there, as far as permissions go.
fn may_write(path: &Path) -> Result<(), OpenError> {
    match access(path, Access::WRITE_OK) {
        Ok(()) => Ok(()),
        Err(rustix::io::Errno::ROFS) => Err(OpenError::MediumReadOnly { path: path.to_owned() }),
        Err(_) => Err(OpenError::Permission {
            path: path.to_owned(),
            verb: "read and write",
            hint: ", or set read_only if it can only be read",
        }),
    }
}

/// Whether this user may make that file, as far as permissions go.
fn may_create(path: &Path) -> Result<(), OpenError> {
    let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) else {
        return Ok(());
    };
    access(folder, Access::WRITE_OK | Access::EXEC_OK)
        .map_err(|error| OpenError::Create { path: path.to_owned(), source: error.into() })
}

/// Whether a block device is mounted or part of another device: then it could not be served.
fn is_mounted_or_held(path: &Path) -> bool {
    let Ok(meta) = std::fs::metadata(path) else { return false };
    let number = format!("{}:{}", rustix::fs::major(meta.rdev()), rustix::fs::minor(meta.rdev()));
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let mounted = mounts.lines().any(|line| line.split(' ').nth(2) == Some(number.as_str()));
    let holders = std::fs::read_dir(format!("/sys/dev/block/{number}/holders"));
    mounted || holders.is_ok_and(|mut holders| holders.next().is_some())
}
