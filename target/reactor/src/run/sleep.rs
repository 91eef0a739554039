//! One sleep over all of a thread's sources.

use rdma::Now;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// The longest sleep: a lost wake-up, which would be our own bug, then costs this much and not a
/// dead core.
const LONGEST: Duration = Duration::from_secs(60);

/// Sleeps until a source is readable or `until` has come.
pub(super) fn sleep(sources: &[BorrowedFd<'_>], now: Now, until: Option<Now>) {
    let left = until.map_or(LONGEST, |at| at.saturating_sub(now)).min(LONGEST);
    if left.is_zero() {
        return;
    }
    let mut fds: Vec<PollFd<'_>> =
        sources.iter().map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN)).collect();
    let timeout =
        Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
    match poll(&mut fds, Some(&timeout)) {
        Ok(_) | Err(Errno::INTR | Errno::AGAIN | Errno::NOMEM) => {}
        // Every descriptor is open and borrowed for as long as this takes.
        Err(error) => panic!("poll(2) on our own descriptors failed: {error}"),
    }
}
