//! The second ring of a core: for reads and writes whose ends the kernel looks for when it is entered
//! (`IORING_SETUP_IOPOLL`), instead of being interrupted.
//!
//! A slot of the core's is in one of the two rings at a time, and both have an entry for each. What
//! cannot be polled, such as a flush, goes through the first ring. The core's thread alone uses it.

use super::setup::{register_buffers, register_files};
use super::{RingConfig, Uring};
use io_uring::squeue::{Entry128, PushError};
use io_uring::{IoUring, cqueue};
use region::Region;
use std::os::fd::RawFd;

pub(super) struct Polled {
    uring: Uring,
    /// The first so many entries of the table of backings can have registered descriptors.
    registrable: usize,
    /// Submissions written and not yet taken by the kernel.
    staged: usize,
    /// Those in the kernel.
    under_way: usize,
}

impl Polled {
    /// A ring as deep as the first one, with the same buffers; `None`, with a line in the log, where
    /// the kernel gives none: the disks work all the same.
    pub(super) fn new(config: &RingConfig, region: &Region) -> Option<Polled> {
        let mut builder = IoUring::<Entry128, cqueue::Entry32>::builder();
        builder.dontfork().setup_iopoll().setup_submit_all();
        let uring = match builder.build((config.depth + 1).next_power_of_two()) {
            Ok(uring) => uring,
            Err(error) => {
                tracing::warn!(%error, "no second io_uring: iopoll has no effect");
                return None;
            }
        };
        register_buffers(&uring, region);
        let files = register_files(&uring, config.backings);
        let registrable = if files { config.backings as usize } else { 0 };
        Some(Polled { uring, registrable, staged: 0, under_way: 0 })
    }

    /// Makes a disk known under its entry of the table; false if it cannot be used here. `fixed`: it
    /// is known so in the first ring, and submissions are the same for both.
    pub(super) fn add(&mut self, index: usize, fd: RawFd, fixed: bool) -> bool {
        if !fixed {
            return true;
        }
        index < self.registrable
            && self.uring.submitter().register_files_update(index as u32, &[fd]).is_ok()
    }

    pub(super) fn remove(&mut self, index: usize) {
        let update = self.uring.submitter().register_files_update(index as u32, &[-1]);
        update.expect("an entry of the file table, updated by the ring's owner");
    }

    /// Stages a submission.
    ///
    /// # Safety
    /// The memory that it names must stay valid until its completion has come.
    pub(super) unsafe fn push(&mut self, submission: &Entry128) -> Result<(), PushError> {
        // SAFETY: the caller vouches for the memory.
        unsafe { self.uring.submission().push(submission) }?;
        self.staged += 1;
        Ok(())
    }

    pub(super) fn has_staged(&self) -> bool {
        self.staged > 0
    }

    /// Whether anything is staged or in the kernel.
    pub(super) fn is_busy(&self) -> bool {
        self.staged + self.under_way > 0
    }

    /// Submits what is staged and has the kernel look for ends, without waiting; false if it could
    /// not take everything.
    pub(super) fn enter(&mut self) -> bool {
        match self.uring.submit() {
            Ok(taken) => {
                let taken = taken.min(self.staged);
                self.staged -= taken;
                self.under_way += taken;
            }
            Err(error) => match error.raw_os_error() {
                Some(libc::EINTR | libc::EAGAIN | libc::EBUSY | libc::ENOMEM) => {}
                _ => panic!("io_uring refused our submissions: {error}"),
            },
        }
        self.staged == 0
    }

    /// The next completion: what the submission carried, and its result.
    pub(super) fn next(&mut self) -> Option<(u64, i32)> {
        let done = self.uring.completion().next()?;
        self.under_way -= 1;
        Some((done.user_data(), done.result()))
    }
}
