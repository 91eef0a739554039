//! A namespace's disk, looked at without changing it: what serving would find.
//!
//! What cannot be known without writing (whether a file can be made, whether a device takes writes)
//! is told from permissions and from what the file system says of itself.

use super::growth;
use backing::{Backing, BackingSpec, Geometry, Medium, OpenError};
use rustix::fs::{Access, access};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

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
    let Medium::Path { path, size, buffered } = &spec.medium else {
        return Backing::open(spec).map(|backing| Found::Disk(backing.geometry()));
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
    let backing = match Backing::open(&probe) {
        Ok(backing) => backing,
        Err(error @ OpenError::LockedElsewhere { .. }) => return Ok(Found::InUse(error)),
        Err(error @ OpenError::DeviceBusy { .. }) if !is_mounted_or_held(path) => {
            return Ok(Found::InUse(error));
        }
        // A file that is too small now is extended when it is served.
        Err(OpenError::TooSmall { .. }) if size.is_some() => {
            let size = size.unwrap_or(0);
            growth::fits(path, size)?;
            return Ok(Found::WouldBeCreated(size));
        }
        Err(error) => return Err(error),
    };
    let mut geometry = backing.geometry();
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
            growth::fits(path, wanted)?;
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
