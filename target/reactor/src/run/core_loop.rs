//! A data core's thread.

use super::mailbox::{Inbox, Postbox};
use super::meter::{Meter, Pace};
use super::sleep::sleep;
use super::{Clock, PollMode};
use crate::core::Core;
use crate::mail::{ToControl, ToCore};
use backing::BlockIo;
use rdma::{CoreIndex, Device};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;
use tracing::{debug, error, warn};

/// Messages taken before the core turns.
const MAIL_PER_TURN: usize = 256;

/// How a data core's thread runs.
#[derive(Debug, Clone)]
pub struct CoreOptions {
    /// Which core, 1 or more.
    pub index: CoreIndex,
    /// The CPU to stay on, if any.
    pub cpu: Option<usize>,
    /// What to do when idle.
    pub poll: PollMode,
    /// How long a core that was told to stop waits for operations on its disks.
    pub stop_timeout: Duration,
    /// The reactor's clock.
    pub clock: Clock,
    /// Where it shows its counts.
    pub meter: Arc<Meter>,
}

/// A running data core. Dropping it leaves the thread running.
#[derive(Debug)]
pub struct CoreHandle {
    thread: JoinHandle<()>,
}

impl CoreHandle {
    /// Whether its thread has ended.
    pub fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }
}

/// Starts a data core. `build` makes the core on its own thread (an io_uring may belong to the
/// thread that made it); the call returns when it has.
///
/// # Errors
/// The error of `build`, or the system's when it gives no thread.
pub fn spawn_core<D, B, E>(
    options: CoreOptions,
    inbox: Inbox<ToCore<D::Endpoint, B::Backing>>,
    control: Postbox<ToControl<D::Endpoint>>,
    build: impl FnOnce() -> Result<Core<D, B>, E> + Send + 'static,
) -> Result<CoreHandle, E>
where
    D: Device + 'static,
    D::Endpoint: 'static,
    B: BlockIo + 'static,
    B::Backing: 'static,
    E: From<std::io::Error> + Send + 'static,
{
    let (ready, built) = mpsc::channel();
    let name = format!("core-{}", options.index.0);
    let thread = std::thread::Builder::new().name(name).spawn(move || {
        or_end_process(|| {
            if let Some(cpu) = options.cpu {
                pin(cpu);
            }
            match build() {
                Ok(core) => {
                    let _ = ready.send(Ok(()));
                    run_core(options, core, inbox, control);
                }
                Err(error) => {
                    let _ = ready.send(Err(error));
                }
            }
        });
    })?;
    match built.recv() {
        Ok(Ok(())) => Ok(CoreHandle { thread }),
        Ok(Err(error)) => Err(error),
        Err(mpsc::RecvError) => Err(E::from(std::io::Error::other("a core ended at its start"))),
    }
}

/// Runs `body`; a panic in it ends the process with status 101, after a line in the log.
pub(super) fn or_end_process(body: impl FnOnce()) {
    if catch_unwind(AssertUnwindSafe(body)).is_err() {
        error!(
            thread = std::thread::current().name().unwrap_or("?"),
            "a thread of the reactor panicked: this is a bug; ending the process"
        );
        std::process::exit(101);
    }
}

fn pin(cpu: usize) {
    let mut set = CpuSet::new();
    set.set(cpu);
    match sched_setaffinity(None, &set) {
        Ok(()) => debug!(cpu, "pinned"),
        Err(error) => warn!(cpu, %error, "cannot stay on this CPU; going on without"),
    }
}

/// Has this thread, and those that it starts from now on, leave CPUs to the data cores that stay on
/// them: whatever runs there instead of a core makes all of its hosts wait. Nothing changes where
/// there are no other CPUs to run on.
pub fn leave_to_cores(cpus: &[usize]) {
    let Ok(mut set) = sched_getaffinity(None) else { return };
    cpus.iter().for_each(|&cpu| set.unset(cpu));
    if set.count() == 0 {
        return;
    }
    if let Err(error) = sched_setaffinity(None, &set) {
        warn!(%error, "cannot leave the CPUs of the data cores to them; going on without");
    }
}

fn run_core<D: Device, B: BlockIo>(
    options: CoreOptions,
    mut core: Core<D, B>,
    inbox: Inbox<ToCore<D::Endpoint, B::Backing>>,
    control: Postbox<ToControl<D::Endpoint>>,
) {
    let mut out = Vec::new();
    // When the last turn that worked was over, and whether the turn before this one was such a one.
    let (mut worked_at, mut just_worked) = (options.clock.now(), false);
    let mut stop_by = None;
    let mut pace = Pace::default();
    loop {
        let now = options.clock.now();
        if std::mem::take(&mut just_worked) {
            worked_at = now;
        }
        if pace.is_due(now) {
            options.meter.show(&core);
            pace.shown();
        }
        let mut worked = false;
        for _ in 0..MAIL_PER_TURN {
            let Some(message) = inbox.try_recv() else { break };
            worked = true;
            if matches!(message, ToCore::Stop) {
                stop_by = Some(now + options.stop_timeout);
            } else {
                core.handle(now, message, &mut out);
            }
        }
        worked |= core.turn(now, &mut out);
        for message in out.drain(..) {
            control.send(message);
        }
        if let Some(at) = stop_by {
            if core.is_idle() {
                return;
            }
            if now >= at {
                warn!("operations on a disk did not end in time; leaving them behind");
                return;
            }
        }
        if worked {
            just_worked = true;
            pace.counted();
            continue;
        }
        if !options.poll.should_sleep(now.saturating_sub(worked_at), core.awaits_disks()) {
            std::hint::spin_loop();
            continue;
        }
        inbox.prepare_sleep();
        core.arm();
        let before = options.clock.now();
        if inbox.is_empty() && !core.turn(before, &mut out) && out.is_empty() {
            let mut sources = Vec::with_capacity(8);
            sources.push(inbox.wait_source());
            core.wait_sources(&mut sources);
            let until = [core.timeout(), stop_by, pace.show_by()].into_iter().flatten().min();
            sleep(&sources, before, until);
        } else {
            just_worked = true;
            pace.counted();
        }
        inbox.awake();
        for message in out.drain(..) {
            control.send(message);
        }
    }
}
