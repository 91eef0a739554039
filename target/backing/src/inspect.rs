//! Whether an open disk is still what it was opened as: somebody else may cut, delete or replace its
//! file, or pull its device. Looks only, may block, and belongs on no thread that serves.

use crate::backing::{Backing, FileStore, Store};
use crate::probe;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// What has become of a disk. Each message says what hosts notice and what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Trouble {
    /// It is shorter than what hosts were promised.
    #[error(
        "was cut to {actual} of {served} bytes, and what was behind is lost: reads there fail, or give \
         zeroes where hosts have written further on. Make it as long again (truncate \
         --size={served} FILE) and restore what was there from a backup"
    )]
    Cut {
        /// Bytes there are.
        actual: u64,
        /// Bytes that hosts see.
        served: u64,
    },
    /// The file has no name any more.
    #[error(
        "was deleted: hosts use it as before, and it is lost when nvmfd ends or lets go of it. \
         While it runs, have hosts stop writing and copy it: cp --sparse=always /proc/{process}/fd/{fd} COPY"
    )]
    Deleted {
        /// Our process.
        process: u32,
        /// Its descriptor of the file.
        fd: i32,
    },
    /// Its name leads elsewhere, or nowhere.
    #[error(
        "is served no more under that name: {what} is there, and the file that hosts use has \
         another name. Put it back before nvmfd starts again, which would serve what is there then"
    )]
    Elsewhere {
        /// What is there.
        what: &'static str,
    },
    /// The device does not say how large it is.
    #[error("cannot be reached any more: {0}. Look at the kernel's log (journalctl -k)")]
    Unreachable(String),
}

impl Backing {
    /// What has become of it, where it is not as it was opened at `path`. Disks in memory are always
    /// well.
    pub fn inspect(&self, path: &Path) -> Option<Trouble> {
        let bytes = match &self.store {
            Store::File(store) if !store.is_device => return self.inspect_file(store, path),
            Store::File(store) => probe::bytes_now(&store.file, true),
            Store::Nvme(store) => store.bytes_now(),
            Store::Ram(_) | Store::Null => return None,
        };
        match bytes {
            Ok(actual) => self.cut_to(actual),
            Err(error) => Some(Trouble::Unreachable(error.to_string())),
        }
    }

    fn inspect_file(&self, store: &FileStore, path: &Path) -> Option<Trouble> {
        use std::os::fd::AsRawFd;
        let own = match store.file.metadata() {
            Ok(own) => own,
            Err(error) => return Some(Trouble::Unreachable(error.to_string())),
        };
        if own.nlink() == 0 {
            let (process, fd) = (std::process::id(), store.file.as_raw_fd());
            return Some(Trouble::Deleted { process, fd });
        }
        self.cut_to(own.len()).or_else(|| match std::fs::metadata(path) {
            Ok(there) if (there.dev(), there.ino()) == (own.dev(), own.ino()) => None,
            Ok(_) => Some(Trouble::Elsewhere { what: "another file" }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Some(Trouble::Elsewhere { what: "nothing" })
            }
            // Whether the name still leads to it cannot be seen by this user.
            Err(_) => None,
        })
    }

    fn cut_to(&self, actual: u64) -> Option<Trouble> {
        let served = self.capacity();
        (actual < served).then_some(Trouble::Cut { actual, served })
    }
}
