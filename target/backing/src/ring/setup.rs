//! Making a ring: which of io_uring's abilities the kernel has, and registering what may be.

use super::slot::Slots;
use super::{Ring, RingStats, Uring, Wake};
use io_uring::{IoUring, Probe, cqueue, opcode, squeue};
use nvme_spec_types::nvm::DsmRange;
use region::{MapError, Pages, Region, Span};
use rustix::event::EventfdFlags;
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::time::Duration;

/// Largest buffer that can be registered, in bytes.
const FIXED_BUFFER_LEN: usize = 1 << 30;

/// Bytes of zeroes that one submission can write where zeroes have to be written.
pub(super) const ZEROES_LEN: usize = 256 << 10;

/// Bounds of one ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RingConfig {
    /// Operations in the kernel at once, 1 to 16384.
    pub depth: u32,
    /// Operations held back inside while `depth` are in the kernel; more end as `Busy`.
    pub backlog: u32,
    /// Backings at once that get a registered descriptor, 1 to 32768; more than that work too, with a
    /// little more work per operation.
    pub backings: u32,
    /// How long dropping the ring waits for what the kernel still holds.
    pub drain: Duration,
}

impl Default for RingConfig {
    fn default() -> RingConfig {
        RingConfig { depth: 256, backlog: 4096, backings: 256, drain: Duration::from_secs(2) }
    }
}

/// Why no ring could be made. The message says what to do.
#[derive(Debug, thiserror::Error)]
pub enum RingError {
    /// A bound is out of its range.
    #[error("io_uring: {name} = {value} is not within {min} to {max}")]
    Config {
        /// Which.
        name: &'static str,
        /// Its value.
        value: u32,
        /// Smallest possible.
        min: u32,
        /// Largest possible.
        max: u32,
    },
    /// The kernel has no io_uring.
    #[error(
        "this kernel has no io_uring, or a filter of system calls hides it: Linux 5.19 or newer with \
         CONFIG_IO_URING is needed, and in a container a seccomp profile with io_uring_setup"
    )]
    Missing,
    /// It is there, but not for us.
    #[error(
        "io_uring is not permitted: set sysctl kernel.io_uring_disabled=0 (or join the group in \
         kernel.io_uring_group), and allow io_uring_setup in the container's seccomp profile"
    )]
    Denied,
    /// Too old.
    #[error("this kernel's io_uring lacks {operation}: Linux 5.19 or newer is needed")]
    TooOld {
        /// What it lacks.
        operation: &'static str,
    },
    /// Out of some resource.
    #[error("io_uring: {source}; raise LimitMEMLOCK (ulimit -l) or LimitNOFILE, or lower depth")]
    Resources {
        /// The system's answer.
        source: io::Error,
    },
    /// No memory for the page of zeroes.
    #[error(transparent)]
    Memory(#[from] MapError),
}

/// What the kernel granted a ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RingMode {
    /// One thread submits, and the kernel relies on it (Linux 6.0).
    pub single_issuer: bool,
    /// Completions are worked out only when we enter (Linux 6.1): no interruptions.
    pub defer_taskrun: bool,
    /// Buffers are registered: no page is pinned or looked up per operation.
    pub fixed_buffers: bool,
    /// Descriptors are registered.
    pub fixed_files: bool,
}

impl RingMode {
    /// The registered buffer that holds all of `span`.
    pub(super) fn fixed_buffer(&self, span: Span) -> Option<u16> {
        let first = span.offset() as usize / FIXED_BUFFER_LEN;
        let last = (span.end().saturating_sub(1)) as usize / FIXED_BUFFER_LEN;
        (self.fixed_buffers && first == last).then_some(first as u16)
    }
}

impl Ring {
    /// Makes a ring for one core whose buffers lie in `region`.
    ///
    /// Takes the best mode the kernel has and says in one log line each what it has not. May be
    /// called on any thread; the first to submit owns the ring.
    ///
    /// # Errors
    /// [`RingError`] when io_uring is missing, forbidden or too old, or memory is short.
    pub fn new(config: RingConfig, region: Arc<Region>) -> Result<Ring, RingError> {
        check_range("depth", config.depth, 1, 16384)?;
        check_range("backings", config.backings, 1, 32768)?;
        Ring::from_parts(config, region, build(config.depth)?)
    }

    /// As [`Ring::new`], at a level that an older kernel would have.
    #[cfg(test)]
    pub(super) fn at(level: Level, region: Arc<Region>) -> Ring {
        let config = RingConfig::default();
        Ring::from_parts(config, region, build_at(level, config.depth).unwrap()).unwrap()
    }

    fn from_parts(
        config: RingConfig,
        region: Arc<Region>,
        (mut uring, mut mode): (Uring, RingMode),
    ) -> Result<Ring, RingError> {
        check_operations(&uring)?;
        let wake = wake(&mut uring)?;
        mode.fixed_buffers = register_buffers(&uring, &region);
        mode.fixed_files = register_files(&uring, config.backings);
        Ok(Ring {
            uring,
            polled: None,
            config,
            region,
            mode,
            wake,
            enabled: false,
            registrable: if mode.fixed_files { config.backings as usize } else { 0 },
            zeroes: Arc::new(Region::map(ZEROES_LEN, Pages::Normal)?),
            ranges: Arc::new(Region::map(config.depth as usize * DsmRange::SIZE, Pages::Normal)?),
            by_id: Vec::new(),
            entries: Vec::with_capacity(config.backings as usize),
            slots: Slots::new(config.depth),
            backlog: VecDeque::with_capacity(config.backlog as usize),
            backlog_limit: config.backlog as usize,
            ready: Vec::with_capacity(config.depth as usize),
            staged: 0,
            owed: false,
            retry_at: None,
            drain: config.drain,
            stats: RingStats::default(),
        })
    }

    /// Registers a descriptor under `index`; false if there is no place for it.
    pub(super) fn register_file(&mut self, index: usize, fd: RawFd) -> bool {
        if index >= self.registrable {
            return false;
        }
        let update = self.uring.submitter().register_files_update(index as u32, &[fd]);
        update.expect("an entry of the file table, updated by the ring's owner");
        true
    }

    pub(super) fn unregister_file(&mut self, index: usize) {
        let update = self.uring.submitter().register_files_update(index as u32, &[-1]);
        update.expect("an entry of the file table, updated by the ring's owner");
    }
}

fn check_range(name: &'static str, value: u32, min: u32, max: u32) -> Result<(), RingError> {
    if (min..=max).contains(&value) {
        return Ok(());
    }
    Err(RingError::Config { name, value, min, max })
}

/// How completions get from the kernel to us, best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Level {
    /// Worked out only when we enter, by one thread (Linux 6.1).
    Deferred,
    /// Worked out when we enter for anything.
    Cooperative,
}

/// Takes the best level the kernel has.
fn build(depth: u32) -> Result<(Uring, RingMode), RingError> {
    if let Some(best) = granted(build_at(Level::Deferred, depth))? {
        return Ok(best);
    }
    tracing::info!("io_uring without deferred completions: Linux 6.1 has them");
    granted(build_at(Level::Cooperative, depth))?
        .ok_or(RingError::TooOld { operation: "entries of 128 bytes" })
}

/// `None` if the kernel does not know what was asked for.
fn granted<T>(result: io::Result<T>) -> Result<Option<T>, RingError> {
    match result {
        Ok(ring) => Ok(Some(ring)),
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Ok(None),
        Err(error) => Err(refusal(error)),
    }
}

/// A ring with submission entries for every slot and one cancellation.
fn build_at(level: Level, depth: u32) -> io::Result<(Uring, RingMode)> {
    let mut builder = IoUring::<squeue::Entry128, cqueue::Entry32>::builder();
    builder.dontfork();
    match level {
        Level::Deferred => builder
            .setup_submit_all()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_taskrun_flag()
            .setup_r_disabled(),
        Level::Cooperative => builder.setup_submit_all().setup_coop_taskrun().setup_taskrun_flag(),
    };
    let mode = RingMode {
        single_issuer: level == Level::Deferred,
        defer_taskrun: level == Level::Deferred,
        fixed_buffers: false,
        fixed_files: false,
    };
    Ok((builder.build((depth + 1).next_power_of_two())?, mode))
}

fn refusal(source: io::Error) -> RingError {
    match source.raw_os_error() {
        Some(libc::ENOSYS) => RingError::Missing,
        Some(libc::EPERM | libc::EACCES) => RingError::Denied,
        _ => RingError::Resources { source },
    }
}

fn check_operations(uring: &Uring) -> Result<(), RingError> {
    let mut probe = Probe::new();
    if uring.submitter().register_probe(&mut probe).is_err() {
        return Err(RingError::TooOld { operation: "the probe of operations" });
    }
    let needed = [
        ("fixed reads", opcode::ReadFixed::CODE),
        ("fixed writes", opcode::WriteFixed::CODE),
        ("reads", opcode::Read::CODE),
        ("writes", opcode::Write::CODE),
        ("fsync", opcode::Fsync::CODE),
        ("fallocate", opcode::Fallocate::CODE),
        ("cancellation", opcode::AsyncCancel::CODE),
        ("commands of devices", opcode::UringCmd80::CODE),
    ];
    match needed.iter().find(|(_, code)| !probe.is_supported(*code)) {
        Some((operation, _)) => Err(RingError::TooOld { operation }),
        None if !uring.params().is_feature_nodrop() => {
            Err(RingError::TooOld { operation: "completions that are never dropped" })
        }
        None => Ok(()),
    }
}

/// An event descriptor that the ring signals, not armed.
fn wake(uring: &mut Uring) -> Result<Wake, RingError> {
    let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
    let resources = |source| RingError::Resources { source };
    let event = rustix::event::eventfd(0, flags).map_err(|error| resources(error.into()))?;
    uring.submitter().register_eventfd(event.as_raw_fd()).map_err(resources)?;
    uring.completion().disable_eventfd();
    Ok(Wake { event, armed: false, stale: false })
}

/// Whether the region could be registered, in pieces of at most 1 GiB.
pub(super) fn register_buffers(uring: &Uring, region: &Region) -> bool {
    let pieces: Vec<libc::iovec> = (0..region.len())
        .step_by(FIXED_BUFFER_LEN)
        .map(|at| {
            let len = FIXED_BUFFER_LEN.min(region.len() - at);
            let address = region.addr(Span::new(at as u32, len as u32)).as_ptr();
            libc::iovec { iov_base: address.cast(), iov_len: len }
        })
        .collect();
    // SAFETY: the pieces are the region's mapping, which the ring keeps until it is closed.
    match unsafe { uring.submitter().register_buffers(&pieces) } {
        Ok(()) => true,
        Err(error) => {
            tracing::warn!(
                %error,
                bytes = region.len(),
                "io_uring cannot lock the buffers, each operation will pin its own: set \
                 LimitMEMLOCK (ulimit -l) to at least the buffer memory of all cores, twice with RDMA"
            );
            false
        }
    }
}

/// Whether a table of `n` descriptors could be registered, all empty.
pub(super) fn register_files(uring: &Uring, n: u32) -> bool {
    match uring.submitter().register_files(&vec![-1; n as usize]) {
        Ok(()) => true,
        Err(error) => {
            tracing::info!(%error, "io_uring without registered files: raise LimitNOFILE (ulimit -n)");
            false
        }
    }
}
