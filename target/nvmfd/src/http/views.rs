//! What is told on the control socket beside the parts of a picture.

use crate::change::Plan;
use crate::config::Tuning;
use crate::status::{Io, Namespace, Picture};
use reactor::core::{CoreStats, Latency, Stage, StageLatency};
use reactor::run::{PollMode, Shown};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The daemon in a few numbers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Status {
    pub(crate) version: String,
    pub(crate) commit: String,
    pub(crate) pid: u32,
    /// The configuration file.
    pub(crate) config: String,
    /// Seconds since the start.
    pub(crate) uptime: f64,
    /// Seconds since all this was so: more than a moment, when the control thread is held up.
    pub(crate) age: f64,
    pub(crate) subsystems: usize,
    pub(crate) namespaces: usize,
    /// Controllers, those of the discovery service included.
    pub(crate) connections: usize,
    /// Queues from the connect request to the last trace.
    pub(crate) queues: usize,
    pub(crate) listeners_up: usize,
    pub(crate) listeners_down: usize,
    pub(crate) data_cores: usize,
    /// What was done on all namespaces since the start, those included that are no more.
    pub(crate) io: Io,
    /// What has become of disks since they were opened, a line each.
    pub(crate) troubles: Vec<String>,
}

impl Status {
    pub(super) fn of(picture: &Picture, config: &std::path::Path, data_cores: usize) -> Status {
        let namespaces = || picture.namespaces();
        let up = picture.listeners.iter().filter(|listener| listener.state == "up").count();
        let mut io = picture.removed;
        for namespace in namespaces() {
            io += namespace.io;
        }
        Status {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            commit: env!("NVMFD_COMMIT").to_owned(),
            pid: std::process::id(),
            config: config.display().to_string(),
            uptime: picture.uptime.as_secs_f64(),
            age: picture.age().as_secs_f64(),
            subsystems: picture.subsystems.len(),
            namespaces: namespaces().count(),
            connections: picture.connections.len(),
            queues: picture.queues,
            listeners_up: up,
            listeners_down: picture.listeners.len() - up,
            data_cores,
            io,
            troubles: namespaces().filter_map(trouble).collect(),
        }
    }
}

fn trouble(namespace: &Namespace) -> Option<String> {
    let Namespace { subsystem, nsid, trouble, .. } = namespace;
    trouble.as_ref().map(|trouble| format!("{subsystem} namespace {nsid}: {trouble}"))
}

/// A host that is connected, or allowed by name.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Host {
    pub(crate) nqn: String,
    /// Subsystems that name it.
    pub(crate) allowed: Vec<String>,
    /// Subsystems that it is connected to; one may be there several times.
    pub(crate) connected: Vec<String>,
}

/// All hosts of a picture.
pub(super) fn hosts(picture: &Picture) -> Vec<Host> {
    let mut hosts: BTreeMap<&str, Host> = BTreeMap::new();
    for subsystem in &picture.subsystems {
        for nqn in &subsystem.allowed_hosts {
            hosts.entry(nqn).or_default().allowed.push(subsystem.nqn.clone());
        }
    }
    for connection in &picture.connections {
        let host = hosts.entry(&connection.host).or_default();
        host.connected.push(connection.subsystem.clone());
    }
    let named = |(nqn, host): (&str, Host)| Host { nqn: nqn.to_owned(), ..host };
    hosts.into_iter().map(named).collect()
}

/// A core of the reactor. Counts begin at the start of the daemon.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Core {
    /// 0 is the control thread, which serves admin queues.
    pub(crate) core: usize,
    /// Queues here now.
    pub(crate) queues: u64,
    /// Turns of its loop, and those that found something to do.
    pub(crate) turns: u64,
    pub(crate) busy_turns: u64,
    /// Commands received, and responses sent.
    pub(crate) capsules: u64,
    pub(crate) responses: u64,
    /// RDMA READs and WRITEs posted.
    pub(crate) rdma_reads: u64,
    pub(crate) rdma_writes: u64,
    /// Operations on disks, and those that failed.
    pub(crate) disk_operations: u64,
    pub(crate) disk_errors: u64,
    /// Times that a command waited for a buffer, for an RDMA READ credit, for a send credit.
    pub(crate) buffer_waits: u64,
    pub(crate) read_waits: u64,
    pub(crate) send_waits: u64,
    /// Queues that ended by a fault or a broken rule, and those refused for lack of memory.
    pub(crate) faults: u64,
    pub(crate) refused: u64,
    /// Mean time of a command from its capsule to its response, and of an operation on a disk, in
    /// microseconds.
    pub(crate) command_us: f64,
    pub(crate) disk_us: f64,
    /// Times counted so far for these two, and their sums in nanoseconds.
    pub(crate) command_times: u64,
    pub(crate) command_ns: u64,
    pub(crate) disk_times: u64,
    pub(crate) disk_ns: u64,
    pub(crate) stages: Stages,
    /// Packets sent again, where the RDMA provider sees packets.
    pub(crate) packets_resent: u64,
    /// Bytes in use now: for transfers, and for receives.
    pub(crate) transfer_bytes: u64,
    pub(crate) receive_bytes: u64,
}

/// Where a sample of a core's commands spent their time: means in microseconds, of those that passed
/// the stage.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Stages {
    /// Waiting for its turn, by a limit.
    pub(crate) received_us: f64,
    /// Waiting for a buffer.
    pub(crate) buffer_us: f64,
    /// Data coming from the host.
    pub(crate) data_in_us: f64,
    /// Operations on disks.
    pub(crate) disk_us: f64,
    /// Waiting to be posted.
    pub(crate) data_out_us: f64,
    /// From the post of the response to the host's acknowledgement.
    pub(crate) sent_us: f64,
    /// Commands followed to their end.
    pub(crate) commands: u64,
}

impl Stages {
    fn of(stages: &StageLatency) -> Stages {
        let mean_of = |stage| mean(stages.of(stage));
        Stages {
            received_us: mean_of(Stage::Received),
            buffer_us: mean_of(Stage::Buffer),
            data_in_us: mean_of(Stage::DataIn),
            disk_us: mean_of(Stage::Disk),
            data_out_us: mean_of(Stage::DataOut),
            sent_us: mean_of(Stage::Sent),
            commands: stages.of(Stage::Sent).total(),
        }
    }
}

/// In microseconds; 0 of none.
fn mean(latency: &Latency) -> f64 {
    latency.sum_ns() as f64 / latency.total().max(1) as f64 / 1e3
}

impl Core {
    fn of(core: usize, stats: &CoreStats) -> Core {
        Core {
            core,
            queues: stats.queues,
            turns: stats.turns,
            busy_turns: stats.busy_turns,
            capsules: stats.capsules,
            responses: stats.responses,
            rdma_reads: stats.reads,
            rdma_writes: stats.writes,
            disk_operations: stats.ios,
            disk_errors: stats.io_errors,
            buffer_waits: stats.buffer_waits,
            read_waits: stats.read_waits,
            send_waits: stats.send_waits,
            faults: stats.faults,
            refused: stats.refused,
            command_us: mean(&stats.command_latency),
            disk_us: mean(&stats.disk_latency),
            command_times: stats.command_latency.total(),
            command_ns: stats.command_latency.sum_ns(),
            disk_times: stats.disk_latency.total(),
            disk_ns: stats.disk_latency.sum_ns(),
            stages: Stages::of(&stats.stages),
            packets_resent: stats.wire.resent,
            transfer_bytes: stats.transfer_bytes,
            receive_bytes: stats.standing_bytes,
        }
    }
}

/// All cores, the control thread's first.
pub(super) fn cores(picture: &Picture, data: &[Shown]) -> Vec<Core> {
    let all = std::iter::once(&picture.control_core).chain(data).enumerate();
    all.map(|(core, shown)| Core::of(core, &shown.core)).collect()
}

/// What a reload would do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct PlanView {
    /// A line for each change, in the order in which they would be made.
    pub(crate) changes: Vec<String>,
    /// What would stay as it is until a restart.
    pub(crate) restart: Vec<String>,
}

impl From<Plan> for PlanView {
    fn from(plan: Plan) -> PlanView {
        let changes = plan.changes.iter().map(ToString::to_string).collect();
        PlanView { changes, restart: plan.restart }
    }
}

/// Why a request was not carried out. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Failure {
    /// What is wrong and what to do, in one line or several.
    pub(crate) error: String,
}

/// The settings of `[tuning]` that are in force. Sizes are in bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Limits {
    pub(crate) data_cores: u16,
    pub(crate) cpus: Vec<usize>,
    /// "adaptive", "always" or "interrupt".
    pub(crate) poll: String,
    pub(crate) memory: usize,
    pub(crate) control_memory: usize,
    pub(crate) max_transfer: u32,
    pub(crate) in_capsule: u32,
    pub(crate) queue_depth: u16,
    pub(crate) max_io_queues: u16,
    pub(crate) max_queues: usize,
    pub(crate) max_reads: u8,
}

impl Limits {
    pub(super) fn of(tuning: &Tuning) -> Limits {
        let poll = match tuning.poll {
            PollMode::Adaptive { .. } => "adaptive",
            PollMode::Always => "always",
            PollMode::Interrupt => "interrupt",
        };
        Limits {
            data_cores: tuning.data_cores,
            cpus: tuning.cpus.clone(),
            poll: poll.to_owned(),
            memory: tuning.memory,
            control_memory: tuning.control_memory,
            max_transfer: tuning.max_transfer,
            in_capsule: tuning.in_capsule,
            queue_depth: tuning.queue_depth,
            max_io_queues: tuning.max_io_queues,
            max_queues: tuning.max_queues,
            max_reads: tuning.max_reads,
        }
    }
}
