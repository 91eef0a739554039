//! What there is now, as the control socket, the metrics and the live view tell it.
//!
//! A [`Picture`] is taken on the control thread, in one go, and is nobody's afterwards; the operator
//! adds what it alone knows, of disks and limits. Counts begin
//! at the start of the daemon, or with the thing that they are counted on.

use backing::BlockIo;
use nvmf::limit::LimitConfig;
use nvmf::target::{AllowedHosts, ControllerStatus, NamespaceStatus, SubsystemStatus};
use nvmf::view::IoTotals;
use rdma::{ConnectionManager, Device, Now};
use reactor::control::{Control, ControlStats, ListenerState};
use reactor::run::Shown;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};
use uuid::Uuid;

/// Everything.
#[derive(Debug, Clone, Default)]
pub(crate) struct Picture {
    /// When it was taken.
    pub(crate) taken: Option<Instant>,
    /// Since the start of the daemon.
    pub(crate) uptime: Now,
    pub(crate) subsystems: Vec<Subsystem>,
    pub(crate) connections: Vec<Connection>,
    pub(crate) listeners: Vec<Listener>,
    /// What was done on namespaces that are no more.
    pub(crate) removed: Io,
    /// Queues from the connect request to the last trace.
    pub(crate) queues: usize,
    /// What became of connections.
    pub(crate) control: ControlStats,
    /// The control thread's own core.
    pub(crate) control_core: Shown,
}

impl Picture {
    /// How long ago it was taken.
    pub(crate) fn age(&self) -> Duration {
        self.taken.map_or(Duration::ZERO, |taken| taken.elapsed())
    }

    pub(crate) fn namespaces(&self) -> impl Iterator<Item = &Namespace> {
        self.subsystems.iter().flat_map(|subsystem| &subsystem.namespaces)
    }
}

/// A subsystem.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Subsystem {
    pub(crate) nqn: String,
    pub(crate) serial: String,
    pub(crate) model: String,
    pub(crate) allow_any_host: bool,
    /// The hosts that may connect, where not all may.
    pub(crate) allowed_hosts: Vec<String>,
    /// By rising nsid.
    pub(crate) namespaces: Vec<Namespace>,
}

/// A namespace.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Namespace {
    /// The subsystem it is in.
    pub(crate) subsystem: String,
    pub(crate) nsid: u32,
    /// The path of its disk as it is written in the configuration; "ram" or "null" without one.
    pub(crate) medium: String,
    /// Bytes of a logical block.
    pub(crate) block_size: u64,
    /// Size in bytes.
    pub(crate) size: u64,
    pub(crate) read_only: bool,
    pub(crate) uuid: String,
    /// How much it is served at most.
    pub(crate) limit: Option<Limit>,
    /// What has become of its disk since it was opened, and what to do; null when it is well.
    pub(crate) trouble: Option<String>,
    /// The number of its disk, for what cores count on that.
    #[serde(skip)]
    pub(crate) disk: u32,
    /// What was done on it.
    pub(crate) io: Io,
}

/// How much something is served at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Limit {
    /// Commands a second; 0 for any number.
    pub(crate) iops: u64,
    /// Bytes a second; 0 for any number.
    pub(crate) bandwidth: u64,
    /// For how long who was idle may go over it, in milliseconds.
    pub(crate) burst_ms: u64,
}

impl Limit {
    pub(crate) fn of(config: &LimitConfig) -> Limit {
        let LimitConfig { iops, bandwidth, burst } = *config;
        Limit { iops, bandwidth, burst_ms: burst.as_millis() as u64 }
    }
}

/// Counts of commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Io {
    /// Read and Compare commands that succeeded.
    pub(crate) reads: u64,
    /// Write commands that succeeded.
    pub(crate) writes: u64,
    pub(crate) read_bytes: u64,
    pub(crate) write_bytes: u64,
    /// Commands that failed on the medium.
    pub(crate) errors: u64,
}

/// A host's connection to a subsystem: a controller.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Connection {
    /// The subsystem it is connected to.
    pub(crate) subsystem: String,
    /// Controller id, unique within the subsystem.
    pub(crate) cntlid: u16,
    /// The host's NQN.
    pub(crate) host: String,
    /// The host's identifier.
    pub(crate) hostid: String,
    /// The host's address.
    pub(crate) peer: String,
    /// The listener's port identifier.
    pub(crate) port: u16,
    /// Whether it is one to the discovery service.
    pub(crate) discovery: bool,
    /// Whether the host has enabled the controller.
    pub(crate) ready: bool,
    /// Keep-alive timeout in milliseconds; 0 for none.
    pub(crate) kato_ms: u64,
    /// Since the host was last heard, in milliseconds.
    pub(crate) silent_ms: u64,
    /// Admin commands that failed.
    pub(crate) admin_errors: u64,
    /// I/O queues.
    pub(crate) io_queues: usize,
    /// Commands received on the I/O queues that it has now.
    pub(crate) io_commands: u64,
    /// What they did on namespaces.
    pub(crate) io: Io,
    /// Commands received on the admin queue.
    pub(crate) admin_commands: u64,
}

/// A listener.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Listener {
    pub(crate) address: String,
    /// Its NVMe port identifier.
    pub(crate) port: u16,
    /// "starting", "up" or "down".
    pub(crate) state: String,
    /// The device it hears on, or why it does not.
    pub(crate) detail: String,
}

/// Takes a picture.
pub(crate) fn look<C, D, B>(now: Now, control: &Control<C, D, B>) -> Picture
where
    C: ConnectionManager,
    D: Device<Endpoint = C::Endpoint>,
    B: BlockIo,
{
    let target = control.target();
    Picture {
        taken: Some(Instant::now()),
        uptime: now,
        subsystems: target.subsystems().map(subsystem).collect(),
        connections: target.controllers().map(|status| connection(now, &status)).collect(),
        listeners: control.listeners().map(listener).collect(),
        removed: target.removed_totals().into(),
        queues: control.queue_count(),
        control: control.stats(),
        control_core: Shown::of(control.core()),
    }
}

fn subsystem(status: SubsystemStatus) -> Subsystem {
    let (allow_any_host, allowed_hosts) = match status.hosts {
        AllowedHosts::Any => (true, Vec::new()),
        AllowedHosts::Only(hosts) => (false, hosts),
    };
    let nqn = status.nqn.to_string();
    let namespaces = status.namespaces.iter().map(|found| namespace(&nqn, found)).collect();
    Subsystem {
        nqn,
        serial: status.serial,
        model: status.model,
        allow_any_host,
        allowed_hosts,
        namespaces,
    }
}

fn namespace(nqn: &str, status: &NamespaceStatus) -> Namespace {
    let NamespaceStatus { config, totals } = status;
    Namespace {
        subsystem: nqn.to_owned(),
        nsid: config.nsid,
        medium: String::new(),
        block_size: 1 << config.lba_shift,
        size: config.block_count << config.lba_shift,
        read_only: config.read_only,
        uuid: Uuid::from_bytes(config.uuid).to_string(),
        limit: None,
        trouble: None,
        disk: config.backing.0,
        io: (*totals).into(),
    }
}

impl std::ops::AddAssign for Io {
    fn add_assign(&mut self, other: Io) {
        self.reads += other.reads;
        self.writes += other.writes;
        self.read_bytes += other.read_bytes;
        self.write_bytes += other.write_bytes;
        self.errors += other.errors;
    }
}

impl From<IoTotals> for Io {
    fn from(totals: IoTotals) -> Io {
        Io {
            reads: totals.read_commands,
            writes: totals.write_commands,
            read_bytes: totals.read_bytes,
            write_bytes: totals.write_bytes,
            errors: totals.errors,
        }
    }
}

fn connection(now: Now, status: &ControllerStatus) -> Connection {
    let admin = status.queues.first();
    let io_queues = || status.queues.iter().filter(|queue| queue.qid != 0);
    let mut io = Io::default();
    io_queues().for_each(|queue| io += queue.totals.into());
    Connection {
        subsystem: status.subnqn.to_string(),
        cntlid: status.cntlid,
        host: status.hostnqn.to_string(),
        hostid: Uuid::from_bytes(status.hostid).to_string(),
        peer: admin.map_or_else(String::new, |queue| queue.peer.to_string()),
        port: admin.map_or(0, |queue| queue.port),
        discovery: status.discovery,
        ready: status.ready,
        kato_ms: status.kato.as_millis() as u64,
        silent_ms: now.saturating_sub(status.last_heard).as_millis() as u64,
        admin_errors: status.admin_errors,
        io_queues: io_queues().count(),
        io_commands: io_queues().map(|queue| queue.commands).sum(),
        io,
        admin_commands: admin.map_or(0, |queue| queue.commands),
    }
}

fn listener(status: &reactor::control::ListenerStatus) -> Listener {
    let (state, detail) = match &status.state {
        ListenerState::Starting => ("starting", String::new()),
        ListenerState::Up { device } => ("up", device.clone()),
        ListenerState::Down { reason, .. } => ("down", reason.clone()),
    };
    let (address, port) = (status.address.to_string(), status.port);
    Listener { address, port, state: state.to_owned(), detail }
}
