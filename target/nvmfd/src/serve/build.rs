//! From the configuration to the reactor's parts, whatever the RDMA provider.

use super::daemon::{Daemon, STOP_WITHIN};
use crate::change::{Doors, Step, carry_out};
use crate::config::{Config, Inject, Tuning};
use crate::disks::{self, Disk};
use crate::operator::{Operator, Start, desk, operate};
use crate::signals::Signals;
use anyhow::Context;
use backing::faulty::{Class, ErrorRule, Faults, Faulty, When};
use backing::{Backing, BackingId, BlockIo, IoError, Ring, RingConfig};
use nvmf::target::{Target, TargetConfig};
use rdma::{ConnectionManager, CoreIndex, Device};
use reactor::control::{CONTROL_CORE, Control, ControlConfig};
use reactor::core::{Core, CoreConfig};
use reactor::mail::ToCore;
use reactor::run::{
    Clock, CoreOptions, Meter, PollMode, leave_to_cores, mailbox, run_control, spawn_core,
};
use region::Region;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;
use tracing::{debug, info, warn};

/// Seed of what chance does in fault drills: a drill can be repeated.
const DRILL_SEED: u64 = 1;

/// Disks that may be added while running before adding more costs time with each operation.
const ROOM_FOR_DISKS: u32 = 256;

/// How long cores wait for what is in flight on their disks, within [`STOP_WITHIN`].
const DISKS_WITHIN: Duration = Duration::from_secs(5);

/// An RDMA provider: a connection manager that opens devices.
pub(super) trait Provider: ConnectionManager + 'static {
    type Device: Device<Endpoint = Self::Endpoint> + Send + 'static;

    /// The device of a core whose memory is `region`.
    fn open_device(&mut self, core: CoreIndex, region: Arc<Region>) -> Self::Device;
}

/// Makes a core's way to its disks; called on the core's own thread.
trait MakeIo: Clone + Send + 'static {
    type Io: BlockIo<Backing = Arc<Backing>> + 'static;

    fn make(&self, region: Arc<Region>) -> anyhow::Result<Self::Io>;
}

#[derive(Clone)]
struct PlainIo(RingConfig);

impl MakeIo for PlainIo {
    type Io = Ring;

    fn make(&self, region: Arc<Region>) -> anyhow::Result<Ring> {
        Ok(Ring::new(self.0, region)?)
    }
}

/// For fault drills.
#[derive(Clone)]
struct FaultyIo(RingConfig, Vec<(BackingId, Faults)>);

impl MakeIo for FaultyIo {
    type Io = Faulty<Ring>;

    fn make(&self, region: Arc<Region>) -> anyhow::Result<Faulty<Ring>> {
        let mut io = Faulty::new(Ring::new(self.0, region)?, DRILL_SEED);
        for (id, faults) in &self.1 {
            io.set(*id, faults.clone());
        }
        Ok(io)
    }
}

/// Serves until asked to stop.
pub(super) fn serve<P: Provider>(
    start: Start,
    disks: Vec<Disk>,
    provider: P,
) -> anyhow::Result<()> {
    let config = &start.config;
    let backings = (disks.len() as u32 + ROOM_FOR_DISKS).min(32768);
    let ring = RingConfig { backings, ..Default::default() };
    let drills: Vec<(BackingId, Faults)> =
        disks.iter().filter_map(|disk| Some((disk.id, faults(disk.namespace.inject?)))).collect();
    if drills.is_empty() {
        serve_with(start, disks, provider, PlainIo(ring))
    } else {
        for (id, faults) in &drills {
            let place = &disks[id.0 as usize];
            let subnqn = &config.subsystems[place.subsystem].nqn;
            warn!(%subnqn, nsid = place.namespace.nsid, ?faults, "fault drill: this namespace \
                is made to misbehave");
        }
        serve_with(start, disks, provider, FaultyIo(ring, drills))
    }
}

fn faults(inject: Inject) -> Faults {
    let rule = |class, error| {
        let every = NonZeroU32::new(inject.error_every)?;
        Some(ErrorRule { class, when: When::EveryNth(every), error, torn: false })
    };
    let rules = [
        rule(Class::Reads, IoError::ReadFault),
        rule(Class::Writes, IoError::WriteFault),
        rule(Class::Flushes, IoError::WriteFault),
    ];
    Faults {
        delay: inject.delay,
        jitter: Duration::ZERO,
        rules: rules.into_iter().flatten().collect(),
    }
}

fn serve_with<P: Provider, M: MakeIo>(
    mut start: Start,
    disks: Vec<Disk>,
    mut provider: P,
    make_io: M,
) -> anyhow::Result<()> {
    let tuning = start.config.tuning.clone();
    let tuning = &tuning;
    // Before any thread is made: whoever makes one hands this on.
    leave_to_cores(&tuning.cpus);
    let clock = Clock::start();
    let signals = Signals::catch().context("cannot catch signals")?;
    let (to_control, inbox) = mailbox().context("cannot make a mailbox")?;

    let region = map(tuning, tuning.control_memory)?;
    let device = provider.open_device(CONTROL_CORE, region.clone());
    let io = make_io.make(region.clone())?;
    let own =
        Core::new(core_config(&start.config, CONTROL_CORE, region.len()), region, device, io)?;

    let mut posts = Vec::new();
    let mut cores = Vec::new();
    let mut meters = Vec::new();
    for index in (1..=tuning.data_cores).map(CoreIndex) {
        let (post, mail) = mailbox().context("cannot make a mailbox")?;
        let region = map(tuning, tuning.memory)?;
        let device = provider.open_device(index, region.clone());
        let meter = Arc::new(Meter::default());
        let options = CoreOptions {
            index,
            cpu: tuning.cpus.get(usize::from(index.0) - 1).copied(),
            poll: tuning.poll,
            stop_timeout: DISKS_WITHIN,
            clock,
            meter: meter.clone(),
        };
        meters.push(meter);
        let make = make_io.clone();
        let core_config = core_config(&start.config, index, region.len());
        let handle = spawn_core(options, mail, to_control.clone(), move || {
            let io = make.make(region.clone())?;
            Ok::<_, anyhow::Error>(Core::new(core_config, region, device, io)?)
        })
        .with_context(|| format!("cannot start data core {}", index.0))?;
        posts.push(post);
        cores.push(handle);
    }

    let target = Target::new(TargetConfig {
        max_transfer: tuning.max_transfer,
        in_capsule: tuning.in_capsule,
        max_queue_entries: tuning.queue_depth,
        max_io_queues: tuning.max_io_queues,
        cores: usize::from(tuning.data_cores) + 1,
    });
    let control_config = ControlConfig {
        data_cores: tuning.data_cores,
        in_capsule: tuning.in_capsule,
        shared_recv: tuning.shared_receive_queue,
        max_reads: tuning.max_reads,
        max_queues: tuning.max_queues,
        ..ControlConfig::default()
    };
    let mut control = Control::new(control_config, provider, target, own);
    let doors = offer(&mut control, clock, &start.config, &disks)?;
    let (orders, desk) = desk(doors).context("cannot make a mailbox")?;
    let (events, outlets) = (start.events.clone(), std::mem::take(&mut start.outlets));
    let socket = outlets.control.as_ref().map(|control| control.path.clone());
    let operator = Operator::new(start, disks, orders, meters);
    let ids = operator.ids();
    let reload = operate(operator, events, outlets)?;

    info!(
        version = env!("CARGO_PKG_VERSION"),
        commit = env!("NVMFD_COMMIT"),
        data_cores = tuning.data_cores,
        control = %socket.as_ref().map_or_else(|| "none".into(), |path| path.to_string_lossy()),
        "starting"
    );
    let mut daemon = Daemon::new(signals, clock.now(), desk, ids, reload);
    // The control thread sleeps whenever it can: nothing on it is counted in microseconds.
    run_control(clock, PollMode::Interrupt, &mut control, &inbox, &posts, &mut daemon);
    if let Some(path) = &socket {
        // Its lock stays: taking that away too could give two daemons one each.
        let _ = std::fs::remove_file(path);
    }

    for post in &posts {
        post.send(ToCore::Stop);
    }
    let leave_by = daemon.stop_by().unwrap_or_else(|| clock.now() + STOP_WITHIN);
    while clock.now() < leave_by && cores.iter().any(|core| !core.is_finished()) {
        std::thread::sleep(Duration::from_millis(2));
    }
    let stuck = cores.iter().filter(|core| !core.is_finished()).count();
    if stuck > 0 || !control.core().is_idle() {
        // Taking things apart would wait for a disk that does not answer. The kernel ends what
        // is left when the process is gone.
        warn!(cores = stuck, "leaving with operations on a disk that does not answer");
        crate::logging::flush();
        std::process::exit(0);
    }
    if let Some(why) = daemon.failure() {
        anyhow::bail!("no listener came up: {why}");
    }
    info!("stopped");
    Ok(())
}

fn map(tuning: &Tuning, bytes: usize) -> anyhow::Result<Arc<Region>> {
    let region = Region::map(bytes, tuning.hugepages)?;
    let pages = if region.is_huge() { "huge" } else { "ordinary" };
    debug!(bytes = region.len(), pages, "memory of a core");
    Ok(Arc::new(region))
}

fn core_config(config: &Config, index: CoreIndex, memory: usize) -> CoreConfig {
    let tuning = &config.tuning;
    // Commands of admin queues carry no data in their capsules.
    let in_capsule = if index == CONTROL_CORE { 0 } else { tuning.in_capsule };
    CoreConfig {
        slow: config.log.slow,
        ..CoreConfig::halves(index, tuning.max_transfer, in_capsule, memory)
    }
}

/// Adds what the configuration lists, in the steps in which it could be added later.
fn offer<C, D, B>(
    control: &mut Control<C, D, B>,
    clock: Clock,
    config: &Config,
    disks: &[Disk],
) -> anyhow::Result<Doors>
where
    C: ConnectionManager,
    D: Device<Endpoint = C::Endpoint>,
    B: BlockIo<Backing = Arc<Backing>>,
{
    let now = clock.now();
    let mut doors = Doors::default();
    let mut make = |step| carry_out(control, &mut doors, now, step).map_err(anyhow::Error::msg);
    for (place, subsystem) in config.subsystems.iter().enumerate() {
        let wrong = || format!("subsystem {}", subsystem.nqn);
        make(Step::AddSubsystem(disks::subsystem_config(subsystem))).with_context(wrong)?;
        for disk in disks.iter().filter(|disk| disk.subsystem == place) {
            let namespace = disks::namespace_config(&disk.namespace, disk.id, &disk.backing);
            info!(subnqn = %subsystem.nqn, nsid = namespace.nsid, spec = ?disk.namespace.spec.medium,
                blocks = namespace.block_count, block_size = 1u32 << namespace.lba_shift,
                read_only = namespace.read_only, "namespace");
            let backing = disk.backing.clone();
            make(Step::AddNamespace(subsystem.nqn.clone(), namespace, backing))
                .with_context(wrong)?;
        }
    }
    make(Step::SetLimits(config.limits.clone())).context("limits")?;
    make(Step::SetDiscovery(config.discovery.clone())).context("discovery")?;
    for listener in &config.listeners {
        make(Step::Listen(listener.address))?;
    }
    Ok(doors)
}
