//! A disk reached by NVMe commands, past the block layer: the character device of an NVMe namespace
//! (`/dev/ng0n1`).
//!
//! **Owns** the open character device, what the device says of itself, and a claim on the block
//! device beside it, so that nobody mounts what is served here. **Gives** the ring one command at a
//! time for what is left of an operation: none moves more than the device and the kernel take at
//! once. **Never** sends a command itself, except Identify, when opened and when asked for the size.
//!
//! The device's status goes to the host as it is ([`crate::IoError::Device`]). Namespaces whose
//! blocks carry metadata, and those of other command sets than NVM, are refused.

mod command;
mod identify;
mod ioctl;
mod open;
#[cfg(test)]
mod tests;

pub(crate) use command::{Data, Piece, URING_CMD_IO, piece};
pub(crate) use open::{is_generic, open};

use crate::open::Claim;
use std::fs::File;
use std::io;

/// An open namespace.
#[derive(Debug)]
pub(crate) struct NvmeStore {
    pub(crate) file: File,
    pub(crate) nsid: u32,
    pub(crate) limits: Limits,
    /// Whether the ends of reads and writes are looked for.
    pub(crate) polled: bool,
    /// The block device of the same namespace, opened exclusively, where there is one.
    _block: Option<File>,
    _claim: Claim,
}

/// What one command may cover.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Logical block as a power of two, 9 to 12.
    pub(crate) block_shift: u8,
    /// Bytes that a command moves at most: whole blocks, at least one.
    pub(crate) transfer: u32,
    /// Bytes that a Write Zeroes covers at most; 0 where the device has no such command.
    pub(crate) zeroes: u64,
    /// Whether Write Zeroes may deallocate.
    pub(crate) zeroes_deallocate: bool,
    /// Bytes that a range of Dataset Management covers at most; 0 where the device has no such
    /// command.
    pub(crate) discard: u64,
}

impl NvmeStore {
    /// Size now, in bytes.
    ///
    /// # Errors
    /// What the system or the device answers to Identify.
    pub(crate) fn bytes_now(&self) -> io::Result<u64> {
        let namespace = ioctl::identify_namespace(&self.file, self.nsid)?;
        Ok(namespace.nsze << self.limits.block_shift)
    }
}

impl Drop for NvmeStore {
    fn drop(&mut self) {
        // As with files: a closed ring may hold on to the device for a while, its lock must not.
        let _ = rustix::fs::flock(&self.file, rustix::fs::FlockOperation::Unlock);
    }
}

#[cfg(test)]
impl NvmeStore {
    /// Of a file that takes no commands: for decisions alone.
    pub(crate) fn of_file(file: File, limits: Limits) -> NvmeStore {
        NvmeStore { file, nsid: 1, limits, polled: false, _block: None, _claim: Claim::none() }
    }
}
