//! What there is now, for status displays.

use super::controller::Kind;
use super::{AllowedHosts, DISCOVERY_SUBSYSTEM, NamespaceConfig, PortConfig, Target};
use crate::view::IoTotals;
use crate::{HostId, QueueKey, SubsystemRef};
use core::time::Duration;
use std::net::SocketAddr;
use std::sync::Arc;

/// A subsystem.
#[derive(Debug, Clone)]
pub struct SubsystemStatus {
    /// Which.
    pub subsystem: SubsystemRef,
    /// Its name.
    pub nqn: Arc<str>,
    /// Serial number.
    pub serial: String,
    /// Model number.
    pub model: String,
    /// Who may connect.
    pub hosts: AllowedHosts,
    /// By rising nsid.
    pub namespaces: Vec<NamespaceStatus>,
}

/// A namespace.
#[derive(Debug, Clone)]
pub struct NamespaceStatus {
    /// What it is.
    pub config: NamespaceConfig,
    /// What was counted on it, over all cores.
    pub totals: IoTotals,
}

/// A controller.
#[derive(Debug, Clone)]
pub struct ControllerStatus {
    /// Its subsystem.
    pub subsystem: SubsystemRef,
    /// The subsystem's name.
    pub subnqn: Arc<str>,
    /// Its id, unique within the subsystem.
    pub cntlid: u16,
    /// Whether it is a discovery controller.
    pub discovery: bool,
    /// The host's name.
    pub hostnqn: Arc<str>,
    /// The host's identifier.
    pub hostid: HostId,
    /// Whether the host enabled it and it works (CC.EN and CSTS.RDY).
    pub ready: bool,
    /// Keep-alive timeout; zero for none.
    pub kato: Duration,
    /// When the host was last heard, in the time of the target's events.
    pub last_heard: Duration,
    /// Asynchronous Event Requests held.
    pub events_held: usize,
    /// Commands that failed, on all its queues.
    pub errors: u64,
    /// Those of them that were admin commands.
    pub admin_errors: u64,
    /// Its queues, the admin queue first.
    pub queues: Vec<QueueStatus>,
}

/// A queue of a controller.
#[derive(Debug, Clone)]
pub struct QueueStatus {
    /// Which.
    pub queue: QueueKey,
    /// 0 for the admin queue.
    pub qid: u16,
    /// Entries of the submission queue.
    pub sq_entries: u16,
    /// The port it came to.
    pub port: u16,
    /// The address of ours that it reached.
    pub local: SocketAddr,
    /// The host's address.
    pub peer: SocketAddr,
    /// Commands received so far.
    pub commands: u64,
    /// What they did on namespaces.
    pub totals: IoTotals,
}

impl Target {
    /// The subsystems of the configuration, in the order they were added.
    pub fn subsystems(&self) -> impl Iterator<Item = SubsystemStatus> + '_ {
        let configured = self.subsystems.iter().filter(|&(&id, _)| id != DISCOVERY_SUBSYSTEM);
        configured.map(|(&subsystem, found)| SubsystemStatus {
            subsystem,
            nqn: found.nqn.clone(),
            serial: found.serial.clone(),
            model: found.model.clone(),
            hosts: found.hosts.clone(),
            namespaces: found
                .namespaces
                .values()
                .map(|ns| NamespaceStatus { config: ns.config.clone(), totals: ns.totals() })
                .collect(),
        })
    }

    /// What was counted until they went, over all namespaces that were removed or replaced. What their
    /// last commands, still at work then, do afterwards is left out.
    pub fn removed_totals(&self) -> IoTotals {
        self.removed
    }

    /// The ports of the configuration, by rising id.
    pub fn ports(&self) -> impl Iterator<Item = &PortConfig> + '_ {
        self.ports.values()
    }

    /// All controllers, those of discovery first.
    pub fn controllers(&self) -> impl Iterator<Item = ControllerStatus> + '_ {
        self.controllers.values().map(|controller| ControllerStatus {
            subsystem: controller.key.subsystem,
            subnqn: controller.subnqn.clone(),
            cntlid: controller.key.cntlid,
            discovery: controller.kind == Kind::Discovery,
            hostnqn: controller.hostnqn.clone(),
            hostid: controller.hostid,
            ready: controller.is_ready(),
            kato: Duration::from_millis(controller.keep_alive.kato_ms.into()),
            last_heard: self.last_heard(controller),
            events_held: controller.events.held(),
            errors: controller.errors.count(),
            admin_errors: controller.errors.admin_count(),
            queues: controller.queues().filter_map(|queue| self.queue_status(queue)).collect(),
        })
    }

    /// Controllers that ended since their hosts were not heard in time.
    pub fn keep_alive_expiries(&self) -> u64 {
        self.keep_alive_expiries
    }

    fn queue_status(&self, queue: QueueKey) -> Option<QueueStatus> {
        let state = self.queues.get(&queue)?;
        let bound = state.bound?;
        Some(QueueStatus {
            queue,
            qid: bound.qid,
            sq_entries: bound.sq_entries,
            port: state.info.port,
            local: state.info.local,
            peer: state.info.peer,
            commands: state.info.activity.capsules(),
            totals: state.info.activity.io().totals(),
        })
    }
}
