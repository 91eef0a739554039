//! The control socket's place in the file system: where it is, that one daemon only has it, and who
//! may open it.
//!
//! Beside the socket lies a file whose lock says that a daemon is alive: a socket without it was
//! left behind by one that was killed, and is replaced.

use crate::config::ControlSocket;
use rustix::fs::{Access, FlockOperation, access, flock};
use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How often a lock is taken anew that turns out to be deleted: more daemons do not fail at once.
const LOCK_TRIES: usize = 8;

/// The socket, for as long as the daemon lives.
#[derive(Debug)]
pub(crate) struct ControlListener {
    pub(crate) listener: UnixListener,
    /// Users that may use it besides root and the daemon's own.
    pub(crate) users: Arc<[u32]>,
    pub(crate) path: PathBuf,
}

/// Why there is no control socket.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SocketError {
    /// Let it end, or give this one a socket of its own.
    #[error(
        "another nvmfd has the control socket {}: end it, or give this one a socket of its own \
         with socket in [control]", .0.display()
    )]
    Taken(PathBuf),
    /// Name a place where nothing is, or an old socket.
    #[error(
        "the control socket {} cannot be made: something that is no socket is there, and is left \
         alone; name another place with socket in [control]", .0.display()
    )]
    Occupied(PathBuf),
    /// Give the daemon a folder that it may write to.
    #[error("cannot make the control socket {}: {source}", .path.display())]
    System {
        /// The socket.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
}

/// Where the socket is when the configuration does not say: none when this user has no place.
pub(crate) fn usual_place() -> Option<PathBuf> {
    let folder = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    if let Some(folder) = folder("RUNTIME_DIRECTORY") {
        return Some(folder.join("control.sock"));
    }
    if rustix::process::geteuid().is_root() {
        return Some(PathBuf::from("/run/nvmfd/control.sock"));
    }
    folder("XDG_RUNTIME_DIR").map(|folder| folder.join("nvmfd.sock"))
}

/// Makes the socket that the configuration asks for. One that it does not ask for by name is left
/// out when that cannot be; the log says why.
///
/// # Errors
/// [`SocketError`] when it asks for one that cannot be had.
pub(crate) fn open(config: &ControlSocket) -> Result<Option<ControlListener>, SocketError> {
    if !config.enabled {
        return Ok(None);
    }
    let users = config.users.clone().into();
    if let Some(path) = &config.path {
        let listener = bind(path, config.mode)?;
        return Ok(Some(ControlListener { listener, users, path: path.clone() }));
    }
    let Some(path) = usual_place() else {
        tracing::info!("no control socket: this user has no folder for it; name one in [control]");
        return Ok(None);
    };
    match bind(&path, config.mode) {
        Ok(listener) => Ok(Some(ControlListener { listener, users, path })),
        Err(error) => {
            tracing::warn!("no control socket: {error}");
            Ok(None)
        }
    }
}

/// What [`open`] would find in the way, without making or taking anything.
///
/// # Errors
/// As for [`open`].
pub(crate) fn look(path: &Path) -> Result<(), SocketError> {
    let wrong = |source| SocketError::System { path: path.to_owned(), source };
    if let Some(folder) = standing_folder(path)? {
        access(folder, Access::WRITE_OK | Access::EXEC_OK).map_err(|no| wrong(no.into()))?;
    }
    let lock = lock_beside(path);
    if lock.exists() {
        File::options().write(true).open(lock).map_err(wrong)?;
    }
    is_free_or_socket(path)?;
    // Whoever listens there is alive.
    match UnixStream::connect(path) {
        Ok(_) => Err(SocketError::Taken(path.to_owned())),
        Err(_) => Ok(()),
    }
}

/// The folder of the socket, or the one in which it would be made.
fn standing_folder(path: &Path) -> Result<Option<&Path>, SocketError> {
    let found = path.ancestors().skip(1).find(|folder| folder.exists());
    match found {
        Some(folder) if !folder.is_dir() => {
            let source = io::ErrorKind::NotADirectory.into();
            Err(SocketError::System { path: path.to_owned(), source })
        }
        found => Ok(found),
    }
}

/// The file whose lock says that a daemon has the socket.
fn lock_beside(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".lock");
    path.with_file_name(name)
}

/// Whether there is a socket; else there must be nothing.
fn is_free_or_socket(path: &Path) -> Result<bool, SocketError> {
    match fs::symlink_metadata(path) {
        Ok(there) if there.file_type().is_socket() => Ok(true),
        Ok(_) => Err(SocketError::Occupied(path.to_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(source) => Err(SocketError::System { path: path.to_owned(), source }),
    }
}

fn bind(path: &Path, mode: u32) -> Result<UnixListener, SocketError> {
    let wrong = |source| SocketError::System { path: path.to_owned(), source };
    standing_folder(path)?;
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(wrong)?;
    }
    let lock = take_lock(path)?;
    let bound = bind_locked(path, mode);
    match &bound {
        // The lock ends with the process, however that ends.
        Ok(_) => std::mem::forget(lock),
        // While it is held: so it is nobody else's that is deleted.
        Err(_) => {
            let _ = fs::remove_file(lock_beside(path));
        }
    }
    bound
}

/// Takes the lock that says that a daemon has the socket.
fn take_lock(path: &Path) -> Result<File, SocketError> {
    let wrong = |source| SocketError::System { path: path.to_owned(), source };
    let place = lock_beside(path);
    for _ in 0..LOCK_TRIES {
        let lock =
            File::options().create(true).truncate(false).write(true).open(&place).map_err(wrong)?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => break,
            Err(error) => return Err(wrong(error.into())),
        }
        // Whoever had it until now may have deleted it, and the next one would make another.
        let ours = lock.metadata().map_err(wrong)?;
        if fs::metadata(&place).is_ok_and(|there| there.ino() == ours.ino()) {
            return Ok(lock);
        }
    }
    Err(SocketError::Taken(path.to_owned()))
}

/// Makes the socket, for who has its lock.
fn bind_locked(path: &Path, mode: u32) -> Result<UnixListener, SocketError> {
    let wrong = |source| SocketError::System { path: path.to_owned(), source };
    if is_free_or_socket(path)? {
        fs::remove_file(path).map_err(wrong)?;
    }
    let listener = UnixListener::bind(path).map_err(wrong)?;
    fs::set_permissions(path, Permissions::from_mode(mode)).map_err(wrong)?;
    listener.set_nonblocking(true).map_err(wrong)?;
    Ok(listener)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_daemon_is_refused_and_what_a_killed_one_left_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/a.sock");
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        drop(UnixListener::bind(&path).unwrap());
        let first = bind(&path, 0o660).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o660);
        let second = bind(&path, 0o660).unwrap_err().to_string();
        assert!(second.starts_with("another nvmfd has the control socket"), "{second}");
        assert_eq!(look(&path).unwrap_err().to_string(), second);
        drop(first);
    }

    #[test]
    fn a_file_in_the_sockets_place_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("disk.img");
        fs::write(&path, "data").unwrap();
        let error = bind(&path, 0o660).unwrap_err().to_string();
        assert!(error.contains("no socket is there"), "{error}");
        assert_eq!(look(&path).unwrap_err().to_string(), error);
        assert_eq!(fs::read_to_string(&path).unwrap(), "data");
        let left: Vec<_> = fs::read_dir(folder.path()).unwrap().flatten().collect();
        assert_eq!(left.len(), 1, "{left:?}");
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_named() {
        let place = Path::new("/dev/null/a.sock");
        let error = bind(place, 0o600).unwrap_err().to_string();
        assert_eq!(look(place).unwrap_err().to_string(), error);
        assert!(error.starts_with("cannot make the control socket /dev/null/a.sock: "), "{error}");
    }
}
