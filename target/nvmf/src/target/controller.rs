//! A controller: one host's association with a subsystem.

use super::aer::Events;
use super::features::Features;
use super::keep_alive::KeepAlive;
use super::logs::changed::ChangedNamespaces;
use super::logs::error::ErrorLog;
use crate::{HostId, QueueKey, SubsystemRef};
use nvme_spec_types::property::{Cc, Csts};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Names a controller: ids are unique within a subsystem.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct ControllerKey {
    pub(super) subsystem: SubsystemRef,
    pub(super) cntlid: u16,
}

/// What a controller is for (CNTRLTYPE).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// It has namespaces and I/O queues.
    Io,
    /// It has the discovery log.
    Discovery,
}

#[derive(Debug)]
pub(super) struct Controller {
    pub(super) key: ControllerKey,
    pub(super) kind: Kind,
    pub(super) subnqn: Arc<str>,
    pub(super) hostnqn: Arc<str>,
    pub(super) hostid: HostId,
    pub(super) admin: QueueKey,
    /// By queue id; at most [`Features::io_queues`].
    pub(super) io_queues: BTreeMap<u16, QueueKey>,
    pub(super) cc: Cc,
    pub(super) csts: Csts,
    pub(super) keep_alive: KeepAlive,
    pub(super) features: Features,
    pub(super) events: Events,
    pub(super) errors: ErrorLog,
    pub(super) changed: ChangedNamespaces,
}

impl Controller {
    /// Whether it carries out commands: enabled and without a fatal error.
    pub(super) fn is_ready(&self) -> bool {
        self.cc.en() && self.csts.rdy()
    }

    /// Whether the host said that it is shutting down.
    pub(super) fn is_shut_down(&self) -> bool {
        self.csts.shst() != nvme_spec_types::property::SHST_NORMAL
    }

    /// All its queues, the admin queue first.
    pub(super) fn queues(&self) -> impl Iterator<Item = QueueKey> + '_ {
        [self.admin].into_iter().chain(self.io_queues.values().copied())
    }
}
