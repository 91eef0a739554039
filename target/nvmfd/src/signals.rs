//! Signals: flags that the control loop looks at, and a pipe that wakes it.

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::{flag, low_level::pipe};
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The signals that were caught.
#[derive(Debug)]
pub(crate) struct Signals {
    stop: Arc<AtomicBool>,
    reload: Arc<AtomicBool>,
    wake: UnixStream,
}

impl Signals {
    /// Catches SIGTERM, SIGINT and SIGHUP from now on. The second SIGTERM or SIGINT ends the
    /// process at once, with status 1, whatever its threads are doing.
    pub(crate) fn catch() -> io::Result<Signals> {
        let stop = Arc::new(AtomicBool::new(false));
        let reload = Arc::new(AtomicBool::new(false));
        let (wake, write) = UnixStream::pair()?;
        wake.set_nonblocking(true)?;
        // They act in this order. The pipe comes before the flags: whoever sees a flag and empties the
        // pipe leaves nothing in it. And the first signal finds the flag unset, sets it and passes.
        for signal in [SIGTERM, SIGINT] {
            pipe::register(signal, write.try_clone()?)?;
            flag::register_conditional_shutdown(signal, 1, stop.clone())?;
            flag::register(signal, stop.clone())?;
        }
        pipe::register(SIGHUP, write)?;
        flag::register(SIGHUP, reload.clone())?;
        Ok(Signals { stop, reload, wake })
    }

    /// Whether the daemon was asked to stop.
    pub(crate) fn stop(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Whether a reload was asked for since the last call.
    pub(crate) fn take_reload(&self) -> bool {
        self.reload.load(Ordering::Relaxed) && self.reload.swap(false, Ordering::Relaxed)
    }

    /// Empties the pipe, so that it wakes again only for a new signal.
    pub(crate) fn drain(&mut self) {
        let mut bytes = [0; 64];
        while self.wake.read(&mut bytes).is_ok_and(|n| n > 0) {}
    }

    /// Becomes readable at a signal.
    pub(crate) fn wait_source(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}
