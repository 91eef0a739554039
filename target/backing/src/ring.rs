//! One core's io_uring.
//!
//! **Owns** the ring, the table of backings, one slot per operation in the kernel and a queue of
//! those that wait for a slot. All of it is allocated at the start; nothing is while running.
//!
//! **Thread**: a [`Ring`] may be made anywhere, but the thread that first submits owns it from
//! then on: the kernel refuses all others (`IORING_SETUP_SINGLE_ISSUER`). The ring is therefore
//! made disabled and enabled by its first system call. [`BlockIo::add`] before that may come from
//! the making thread, later only from the owner.
//!
//! **System calls**: [`BlockIo::flush`] makes one for everything staged, and none if nothing is.
//! [`BlockIo::poll`] reads the completion queue from memory; it enters the kernel only when the
//! kernel asks for it (task work is waiting) or when something has to go on by itself: the rest
//! of a short transfer, the second step of an operation, a request that waited for a slot.
//!
//! **Sleep**: the wait source is an event descriptor that the kernel signals only while armed.
//! (The ring's own descriptor would not do: with deferred completions, poll(2) on it is not woken
//! by work that waits, only by completions already written; seen on Linux 6.18.)
//!
//! **Entries** have 128 bytes to submit and 32 to complete, as NVMe commands need them, so that one
//! ring and one system call serve disks of every kind.
//!
//! **Polled disks** ([`crate::BackingSpec::iopoll`]) have their reads and writes in a second ring,
//! made when the first of them is added, in which the kernel looks for ends when it is entered. While
//! one is under way every poll enters it, and [`BlockIo::timeout`] says that there is no time to sleep.
//!
//! **Memory**: buffers lie in the core's region, which the ring keeps alive. Dropping a ring
//! cancels and waits for what the kernel still holds, for a bounded time; if the disk is stuck,
//! the region is leaked rather than unmapped under it. (The process can then run on, but the
//! kernel lets it *end* only when the disk answers or errors: no user-space means avoids that.)

mod commands;
mod polled;
mod setup;
mod slot;
mod steps;
#[cfg(test)]
mod tests;

pub use setup::{RingConfig, RingError, RingMode};

use crate::backing::{Backing, Store};
use crate::{BackingId, BlockIo, IoDone, IoError, IoOp, IoRequest};
use io_uring::{IoUring, cqueue, opcode, squeue, types};
use polled::Polled;
use region::Region;
use slot::{Slots, Step};
use std::collections::VecDeque;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use std::time::{Duration, Instant};

/// Ids are given in sequence, so a plain table finds them; this bounds it.
pub const MAX_BACKING_ID: u32 = 1 << 20;

/// Pause after the kernel could not take submissions for want of memory.
const RETRY_AFTER: Duration = Duration::from_millis(1);

/// Marks an id without a table entry.
const NO_ENTRY: u32 = u32::MAX;

/// Completion of the cancellation that drop sends; no slot has this index.
const CANCEL_DATA: u64 = u64::MAX;

/// What a ring did since it was made. Counts; they wrap never in practice.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RingStats {
    /// System calls to submit and to let the kernel work.
    pub enters: u64,
    /// System calls to take back a signal, one per sleep at most.
    pub wake_reads: u64,
    /// Operations taken.
    pub submitted: u64,
    /// Operations reported done.
    pub done: u64,
    /// Operations that had to wait inside for a slot.
    pub held_back: u64,
    /// Submissions to the kernel: at least one per operation on a file or device.
    pub kernel_ops: u64,
    /// NVMe commands sent to devices.
    pub commands: u64,
    /// Submissions whose ends are looked for.
    pub polled: u64,
    /// Transfers that came back short and were continued.
    pub continued: u64,
    /// Steps tried again after EINTR or EAGAIN.
    pub retried: u64,
    /// Writes made durable by RWF_DSYNC.
    pub dsync_writes: u64,
    /// Syncs: flushes, and second steps of durable writes and zeroing.
    pub syncs: u64,
    /// Submissions that write zeroes, where the medium cannot make them otherwise.
    pub zeroes_written: u64,
}

/// One entry of the table of backings.
#[derive(Debug)]
struct Entry {
    backing: Arc<Backing>,
    /// Descriptor for submissions: an index into registered files if `fixed`, else a plain one.
    fd: types::Fd,
    fixed: bool,
    /// Whether its reads and writes go to the second ring.
    polled: bool,
}

/// The kernel's side: see the module's description.
type Uring = IoUring<squeue::Entry128, cqueue::Entry32>;

/// Memory that submissions name, and how.
struct Sources<'a> {
    region: &'a Region,
    zeroes: &'a Region,
    ranges: &'a Region,
    mode: &'a RingMode,
}

/// What a sleeping core is woken by.
struct Wake {
    /// Signalled by the kernel at completions while armed.
    event: OwnedFd,
    armed: bool,
    /// It may have been signalled since it was last read.
    stale: bool,
}

/// One core's way to its backings, over io_uring. See the module's description.
pub struct Ring {
    // First, so that it is closed before the memory below goes away.
    uring: Uring,
    /// For polled disks, once there is one.
    polled: Option<Polled>,
    config: RingConfig,
    region: Arc<Region>,
    mode: RingMode,
    wake: Wake,
    enabled: bool,
    /// Pages of zeroes that are only ever read.
    zeroes: Arc<Region>,
    /// A range of Dataset Management for each slot.
    ranges: Arc<Region>,
    /// Entry index by id, or [`NO_ENTRY`].
    by_id: Vec<u32>,
    /// Grows when a backing is added to a full table.
    entries: Vec<Option<Entry>>,
    /// The first so many entries can have registered descriptors.
    registrable: usize,
    slots: Slots,
    /// Requests that wait for a slot, first in first out; at most `backlog_limit`.
    backlog: VecDeque<IoRequest>,
    backlog_limit: usize,
    /// Done without the kernel, or refused; reported by the next poll.
    ready: Vec<IoDone>,
    /// Submissions written since the last system call.
    staged: u32,
    /// Something staged by ourselves must be submitted by poll.
    owed: bool,
    /// When to try the kernel again after it was short of memory.
    retry_at: Option<Duration>,
    drain: Duration,
    stats: RingStats,
}

impl std::fmt::Debug for Ring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ring")
            .field("mode", &self.mode)
            .field("in_kernel", &self.slots.used())
            .field("backlog", &self.backlog.len())
            .finish_non_exhaustive()
    }
}

impl Ring {
    /// What the kernel granted.
    pub fn mode(&self) -> RingMode {
        self.mode
    }

    /// Counters since the ring was made.
    pub fn stats(&self) -> RingStats {
        self.stats
    }

    /// The memory that buffers lie in.
    pub fn region(&self) -> &Arc<Region> {
        &self.region
    }

    fn entry(&self, index: u32) -> &Entry {
        self.entries[index as usize].as_ref().expect("an operation's backing is in the table")
    }

    fn lookup(&self, id: BackingId) -> Option<u32> {
        self.by_id.get(id.0 as usize).copied().filter(|index| *index != NO_ENTRY)
    }

    fn report(&mut self, tag: u64, result: Result<(), IoError>) {
        self.ready.push(IoDone { tag, result });
    }

    /// Does what needs no kernel; returns the request's entry if it must go there.
    fn take(&mut self, request: &IoRequest) -> Result<Option<u32>, IoError> {
        let index = self.lookup(request.backing).ok_or(IoError::Gone)?;
        let backing = &self.entry(index).backing;
        steps::check(backing, request)?;
        match &backing.store {
            Store::File(_) if request.len == 0 && request.op != IoOp::Flush => Ok(None),
            Store::Nvme(_) if request.len == 0 && request.op != IoOp::Flush => Ok(None),
            Store::File(_) | Store::Nvme(_) => Ok(steps::first(backing, request.op).map(|_| index)),
            Store::Ram(ram) => {
                match request.op {
                    IoOp::Read => ram.read(request.offset, &self.region, request.buffer),
                    IoOp::Write { .. } => ram.write(request.offset, &self.region, request.buffer),
                    IoOp::Flush => {}
                    IoOp::WriteZeroes { deallocate, .. } => {
                        ram.zero(request.offset, request.len, deallocate);
                    }
                    IoOp::Deallocate => ram.zero(request.offset, request.len, true),
                }
                Ok(None)
            }
            Store::Null => {
                // The buffer may hold another host's data: a read must always fill it.
                if request.op == IoOp::Read {
                    self.region.fill(request.buffer, 0);
                }
                Ok(None)
            }
        }
    }

    /// Moves waiting requests into free slots.
    fn admit(&mut self) {
        while !self.backlog.is_empty() && self.slots.has_free() {
            let request = self.backlog.pop_front().expect("not empty");
            // Looked up again: it may have been removed, or have shrunk, meanwhile.
            match self.take(&request) {
                Ok(Some(index)) => {
                    self.start(request, index);
                    self.owed = true;
                }
                Ok(None) => self.report(request.tag, Ok(())),
                Err(error) => self.report(request.tag, Err(error)),
            }
        }
    }

    fn start(&mut self, request: IoRequest, entry: u32) {
        let step = steps::first(&self.entry(entry).backing, request.op);
        // Another core may have learned just now that nothing can be done.
        let Some(step) = step else { return self.report(request.tag, Ok(())) };
        let plain = self.entry(entry).backing.learned.no_fixed_command.is_set();
        let slot = self.slots.take(request, entry, step, plain);
        self.stage(slot);
    }

    /// Writes the submission for a slot's current step.
    fn stage(&mut self, index: u32) {
        let slot = self.slots.get(index);
        let entry = self.entry(slot.entry);
        let polled = entry.polled && slot.step.is_polled(slot.request.op);
        let sources = Sources {
            region: &self.region,
            zeroes: &self.zeroes,
            ranges: &self.ranges,
            mode: &self.mode,
        };
        let submission = match (&entry.backing.store, slot.step) {
            (Store::Nvme(store), _) => commands::submission(slot, index, entry, store, &sources),
            _ => steps::submission(slot, entry, &sources).into(),
        }
        .user_data(index.into());
        match slot.step {
            Step::Transfer { dsync: true } => self.stats.dsync_writes += 1,
            Step::Sync => self.stats.syncs += 1,
            Step::WriteZeroes => self.stats.zeroes_written += 1,
            Step::Command => self.stats.commands += 1,
            _ => {}
        }
        // SAFETY: the memory named lies in the region, the zero pages or the ranges, which outlive what the
        // kernel holds (see drop), inside their bounds (checked when the address was made).
        let pushed = unsafe {
            match &mut self.polled {
                Some(second) if polled => second.push(&submission),
                _ => self.uring.submission().push(&submission),
            }
        };
        pushed.expect("the submission queue has an entry for every slot");
        if polled {
            self.stats.polled += 1;
        } else {
            self.staged += 1;
        }
        self.stats.kernel_ops += 1;
    }

    /// Submits what is staged for polled disks and looks for ends of theirs.
    fn look(&mut self, now: Duration) {
        let Some(second) = &mut self.polled else { return };
        self.stats.enters += 1;
        if !second.enter() {
            self.retry_at = Some(now.saturating_add(RETRY_AFTER));
        }
        while let Some((data, result)) = self.polled.as_mut().and_then(Polled::next) {
            self.on_completion(data as u32, result);
        }
    }

    /// Whether something is under way on polled disks.
    fn must_look(&self) -> bool {
        self.polled.as_ref().is_some_and(Polled::is_busy)
    }

    /// Submits what is staged and lets the kernel run its waiting task work.
    fn enter(&mut self, now: Duration) {
        if !self.enabled {
            self.enabled = true;
            if self.mode.single_issuer {
                let enabled = self.uring.submitter().register_enable_rings();
                enabled.expect("a ring made disabled can be enabled once");
            }
        }
        self.stats.enters += 1;
        self.owed = false;
        self.retry_at = None;
        match self.uring.submit() {
            Ok(taken) => self.staged = self.staged.saturating_sub(taken as u32),
            Err(error) => match error.raw_os_error() {
                Some(libc::EINTR | libc::EAGAIN | libc::EBUSY | libc::ENOMEM) => {}
                // EEXIST: used from a second thread. Everything else is malformed use.
                _ => panic!("io_uring refused our submissions: {error}"),
            },
        }
        if self.staged > 0 {
            self.retry_at = Some(now.saturating_add(RETRY_AFTER));
        }
    }

    /// Takes completions out of the queue.
    fn reap(&mut self) {
        const BATCH: usize = 32;
        loop {
            let mut cqes = [const { MaybeUninit::uninit() }; BATCH];
            let cqes = self.uring.completion().fill(&mut cqes).iter();
            let mut batch = [(0u64, 0i32); BATCH];
            let mut n = 0;
            for cqe in cqes {
                batch[n] = (cqe.user_data(), cqe.result());
                n += 1;
            }
            for (data, result) in &batch[..n] {
                if *data != CANCEL_DATA {
                    self.on_completion(*data as u32, *result);
                }
            }
            if n < BATCH {
                return;
            }
        }
    }

    fn on_completion(&mut self, index: u32, result: i32) {
        let slot = self.slots.get_mut(index);
        let entry = self.entries[slot.entry as usize].as_ref().expect("entry of a live slot");
        let advanced = match &entry.backing.store {
            Store::Nvme(store) => {
                commands::advance(slot, &entry.backing, store, result, &mut self.stats)
            }
            _ => steps::advance(slot, &entry.backing, result, &mut self.stats),
        };
        match advanced {
            None => {
                self.owed = true;
                self.stage(index);
            }
            Some(outcome) => {
                let tag = self.slots.release(index);
                self.report(tag, outcome);
            }
        }
    }

    /// Whether the kernel has work for us that only a system call brings out.
    fn kernel_asks(&mut self) -> bool {
        let queue = self.uring.submission();
        queue.taskrun() || queue.cq_overflow()
    }

    /// Waits until the kernel holds nothing of ours, at most `limit`; false if it still does.
    /// What ends meanwhile is reported by the next poll; what waits inside stays there.
    pub fn drain(&mut self, limit: Duration) -> bool {
        let deadline = Instant::now() + limit;
        loop {
            self.reap();
            if self.slots.used() == 0 {
                return true;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            if self.must_look() {
                self.look(Duration::ZERO);
                if self.must_look() {
                    std::thread::sleep(Duration::from_micros(50));
                }
                continue;
            }
            if self.staged > 0 {
                self.enter(Duration::ZERO);
            }
            let timeout = types::Timespec::from(left.min(Duration::from_millis(100)));
            let args = types::SubmitArgs::new().timespec(&timeout);
            self.stats.enters += 1;
            match self.uring.submitter().submit_with_args(1, &args) {
                Ok(_) => {}
                Err(error) if error.raw_os_error() == Some(libc::ETIME) => {}
                Err(error) if error.raw_os_error() == Some(libc::EINTR) => {}
                // Another thread than the owner, or a kernel without timed waits.
                Err(_) => std::thread::sleep(Duration::from_millis(5)),
            }
        }
    }
}

impl BlockIo for Ring {
    type Backing = Arc<Backing>;

    fn add(&mut self, id: BackingId, backing: Arc<Backing>) {
        assert!(id.0 < MAX_BACKING_ID, "backing ids are given in sequence");
        assert!(self.lookup(id).is_none(), "backing {id:?} was added before");
        let index = match self.entries.iter().position(Option::is_none) {
            Some(free) => free,
            None => {
                self.entries.push(None);
                self.entries.len() - 1
            }
        };
        let fd = match &backing.store {
            Store::File(store) => store.file.as_raw_fd(),
            Store::Nvme(store) => store.file.as_raw_fd(),
            Store::Ram(_) | Store::Null => -1,
        };
        let fixed = fd >= 0 && self.register_file(index, fd);
        let polled = match &backing.store {
            Store::File(store) => store.polled,
            Store::Nvme(store) => store.polled,
            Store::Ram(_) | Store::Null => false,
        };
        if polled && self.polled.is_none() {
            self.polled = Polled::new(&self.config, &self.region);
        }
        let polled = match &mut self.polled {
            Some(second) if polled => second.add(index, fd, fixed),
            _ => false,
        };
        let fd = types::Fd(if fixed { index as i32 } else { fd });
        self.entries[index] = Some(Entry { backing, fd, fixed, polled });
        let at = id.0 as usize;
        if self.by_id.len() <= at {
            self.by_id.resize(at + 1, NO_ENTRY);
        }
        self.by_id[at] = index as u32;
    }

    fn remove(&mut self, id: BackingId) {
        let Some(index) = self.lookup(id) else { return };
        assert!(
            !self.slots.any_on(index) && !self.backlog.iter().any(|r| r.backing == id),
            "backing {id:?} removed with operations on it"
        );
        self.by_id[id.0 as usize] = NO_ENTRY;
        let (fixed, polled) = (self.entry(index).fixed, self.entry(index).polled);
        if fixed {
            self.unregister_file(index as usize);
        }
        if let Some(second) = self.polled.as_mut().filter(|_| polled && fixed) {
            second.remove(index as usize);
        }
        self.entries[index as usize] = None;
    }

    fn submit(&mut self, _now: Duration, request: IoRequest) {
        self.stats.submitted += 1;
        match self.take(&request) {
            Ok(None) => self.report(request.tag, Ok(())),
            Err(error) => self.report(request.tag, Err(error)),
            Ok(Some(entry)) if self.backlog.is_empty() && self.slots.has_free() => {
                self.start(request, entry);
            }
            Ok(Some(_)) if self.backlog.len() < self.backlog_limit => {
                self.stats.held_back += 1;
                self.backlog.push_back(request);
            }
            Ok(Some(_)) => self.report(request.tag, Err(IoError::Busy)),
        }
    }

    fn flush(&mut self, now: Duration) {
        if self.staged > 0 {
            self.enter(now);
        }
        if self.polled.as_ref().is_some_and(Polled::has_staged) {
            self.look(now);
        }
    }

    fn poll(&mut self, now: Duration, out: &mut Vec<IoDone>) -> usize {
        if self.slots.used() > 0 {
            self.reap();
            if self.must_look() {
                self.look(now);
            }
            if self.kernel_asks() || self.retry_at.is_some_and(|at| at <= now) {
                self.enter(now);
                self.reap();
            }
            self.admit();
            if self.owed {
                self.enter(now);
            }
        }
        let n = self.ready.len();
        if n > 0 && self.wake.armed {
            // The core is awake: no signals until it arms again.
            self.wake.armed = false;
            self.uring.completion().disable_eventfd();
        }
        out.append(&mut self.ready);
        self.stats.done += n as u64;
        n
    }

    fn in_flight(&self) -> usize {
        self.slots.used() + self.backlog.len() + self.ready.len()
    }

    fn arm(&mut self) {
        if self.wake.stale {
            // Non-blocking; fails if there was no signal.
            let _ = rustix::io::read(&self.wake.event, &mut [0; 8]);
            self.stats.wake_reads += 1;
        }
        self.wake.armed = true;
        self.wake.stale = true;
        self.uring.completion().enable_eventfd();
        // What ends before the kernel sees this is seen by the poll that follows.
        fence(Ordering::SeqCst);
    }

    fn wait_source(&self) -> Option<BorrowedFd<'_>> {
        Some(self.wake.event.as_fd())
    }

    /// At once while something done waits to be reported or has to be looked for, or when the kernel is to be tried again.
    fn timeout(&self) -> Option<Duration> {
        if !self.ready.is_empty() || self.must_look() {
            Some(Duration::ZERO)
        } else if self.slots.used() > 0 {
            self.retry_at
        } else {
            None // whatever was to be tried again has ended
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        if self.slots.used() > 0 && !self.cancel_and_drain() {
            tracing::error!(
                operations = self.slots.used(),
                waited_ms = self.drain.as_millis() as u64,
                "a disk does not answer: leaving its buffers mapped"
            );
            let memory = [&self.region, &self.zeroes, &self.ranges];
            std::mem::forget(memory.map(Arc::clone));
            return;
        }
        // The kernel takes a closed ring apart at leisure, and holds on to the files meanwhile: a
        // device would stay claimed. Asked like this it lets go at once. It refuses threads other
        // than the owner, for whom the delay has to do.
        let _ = self.uring.submitter().unregister_files();
    }
}

impl Ring {
    fn cancel_and_drain(&mut self) -> bool {
        self.backlog.clear();
        let any = opcode::AsyncCancel2::new(types::CancelBuilder::any().all()).build();
        // SAFETY: a cancellation names no memory.
        let pushed = unsafe { self.uring.submission().push(&any.user_data(CANCEL_DATA).into()) };
        if pushed.is_ok() {
            self.staged += 1;
        }
        self.drain(self.drain)
    }
}
