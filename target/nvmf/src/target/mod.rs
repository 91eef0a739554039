//! Subsystems, namespaces, hosts and controllers: everything that is not the data path.
//!
//! # Contract
//! A [`Target`] is fed by the control thread: configuration calls, queues that open and close,
//! commands that queues handed on, and time. It answers with [`TargetAction`]s, to be carried out
//! in order. Every command fed to [`Target::on_command`] is answered by exactly one
//! [`TargetAction::Complete`], at once or later (Asynchronous Event Request, Abort), unless its
//! queue closes first.
//!
//! What it never does: I/O, reading a clock, logging. Reasons for the log come with
//! [`TargetAction::Close`], and [`Target::controllers`] and its like tell the rest.
//!
//! # Inside
//! Everything is kept in ordered maps, so that the same events give the same actions. Handlers of
//! commands return what to answer or a failure with its place; [`Target::on_command`] alone
//! completes.

mod abort;
mod admission;
mod aer;
mod api;
mod audit;
mod config;
mod connect;
mod controller;
mod discovery;
mod execute;
mod fail;
mod features;
mod flush;
mod identify;
mod keep_alive;
mod limits;
mod logs;
mod property;
mod status;
mod subsystem;
#[cfg(test)]
mod tests;

pub use crate::nsid::MAX_NAMESPACES;
pub use admission::{ADMIN_QUEUE_ENTRIES, RejectReason};
pub use api::{
    ALL_CNTLIDS, AbortToken, Admission, AllowedHosts, Binding, DiscoveryConfig, DuplicateHosts,
    NamespaceConfig, PortConfig, QueueInfo, Referral, SubsystemConfig, TargetAction, TargetConfig,
    TellPorts,
};
pub use config::{ConfigError, MAX_REFERRALS};
pub use status::{ControllerStatus, NamespaceStatus, QueueStatus, SubsystemStatus};
pub use subsystem::DISCOVERY_SUBSYSTEM;

use crate::view::{HostLimits, IoTotals};
use crate::{QueueKey, Slot, SubsystemRef};
use abort::PendingAbort;
use controller::{Controller, ControllerKey};
use core::time::Duration;
use flush::PendingFlush;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use subsystem::Subsystem;

/// The control side of an NVMe over Fabrics target.
#[derive(Debug)]
pub struct Target {
    config: TargetConfig,
    /// The discovery subsystem among them, as [`DISCOVERY_SUBSYSTEM`].
    subsystems: BTreeMap<SubsystemRef, Subsystem>,
    names: BTreeMap<Arc<str>, SubsystemRef>,
    next_subsystem: u32,
    ports: BTreeMap<u16, PortConfig>,
    discovery: DiscoveryConfig,
    host_limits: HostLimits,
    /// GENCTR of the discovery log.
    discovery_generation: u64,
    queues: BTreeMap<QueueKey, QueueState>,
    controllers: BTreeMap<ControllerKey, Controller>,
    /// When to look whether a controller's host is still there; at most one entry for each.
    deadlines: BTreeSet<(Duration, ControllerKey)>,
    aborts: BTreeMap<AbortToken, PendingAbort>,
    next_abort: u64,
    /// Commands of admin queues that wait for flushes.
    flushes: BTreeMap<(QueueKey, Slot), PendingFlush>,
    /// Controllers that ended since their hosts were not heard in time.
    keep_alive_expiries: u64,
    /// What was counted on namespaces that are no more.
    removed: IoTotals,
    /// The time of the first event: power-on hours count from here.
    started: Option<Duration>,
}

/// A queue whose connection is open.
#[derive(Debug)]
struct QueueState {
    info: QueueInfo,
    bound: Option<Bound>,
    /// Its end was asked for, by us or by Disconnect: nothing will come of it any more.
    closing: bool,
}

/// What a queue has belonged to since its Connect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Bound {
    controller: ControllerKey,
    qid: u16,
    sq_entries: u16,
}

impl Target {
    /// A target with nothing but its discovery subsystem.
    ///
    /// # Panics
    /// When a limit is outside what [`TargetConfig`] says of it.
    pub fn new(config: TargetConfig) -> Target {
        let pages = config.max_transfer / 4096;
        assert!(
            config.max_transfer.is_multiple_of(4096) && pages.is_power_of_two(),
            "max_transfer is 4096 times a power of two"
        );
        assert!(config.in_capsule.is_multiple_of(16), "in_capsule is a multiple of 16");
        assert!((16..=4096).contains(&config.max_queue_entries), "a queue has 16 to 4096 entries");
        assert!(config.max_io_queues > 0 && config.cores > 0);
        let discovery = Subsystem::discovery();
        let names = BTreeMap::from([(discovery.nqn.clone(), DISCOVERY_SUBSYSTEM)]);
        Target {
            config,
            subsystems: BTreeMap::from([(DISCOVERY_SUBSYSTEM, discovery)]),
            names,
            next_subsystem: DISCOVERY_SUBSYSTEM.0 + 1,
            ports: BTreeMap::new(),
            discovery: DiscoveryConfig::default(),
            host_limits: HostLimits::default(),
            discovery_generation: 0,
            queues: BTreeMap::new(),
            controllers: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            aborts: BTreeMap::new(),
            next_abort: 0,
            flushes: BTreeMap::new(),
            keep_alive_expiries: 0,
            removed: IoTotals::default(),
            started: None,
        }
    }

    /// The connection of an admitted queue is being set up or stands; commands may follow.
    ///
    /// # Panics
    /// When the key is in use.
    pub fn on_queue_opened(&mut self, now: Duration, queue: QueueKey, info: QueueInfo) {
        self.started.get_or_insert(now);
        let state = QueueState { info, bound: None, closing: false };
        assert!(self.queues.insert(queue, state).is_none(), "{queue:?} opened twice");
    }

    /// The queue's connection is gone, for whatever reason; commands of it that were held are
    /// forgotten. With an admin queue its controller ends, and so do the I/O queues of that.
    pub fn on_queue_closed(&mut self, now: Duration, queue: QueueKey, out: &mut Vec<TargetAction>) {
        let Some(state) = self.queues.get(&queue) else { return };
        let bound = state.bound.as_ref().map(|bound| (bound.qid, bound.controller));
        self.unbind_io_queue(queue);
        self.queues.remove(&queue);
        self.end_aborts_aimed_at(queue, out);
        match bound {
            Some((0, key)) => {
                self.end_controller(key, "the controller's admin queue is gone", out);
            }
            Some((_, key)) => self.on_queue_lost(now, key),
            None => {}
        }
    }

    /// The earliest time at which [`Target::on_time`] has something to do; none when there is no
    /// keep-alive timer.
    pub fn timeout(&self) -> Option<Duration> {
        self.deadlines.first().map(|&(at, _)| at)
    }

    /// Ends a controller of a subsystem because an operator wants it; its host may come again. Says
    /// whether there was one.
    pub fn drop_controller(
        &mut self,
        subsystem: SubsystemRef,
        cntlid: u16,
        out: &mut Vec<TargetAction>,
    ) -> bool {
        let key = ControllerKey { subsystem, cntlid };
        let known = self.controllers.contains_key(&key);
        self.end_controller(key, "an operator dropped the connection", out);
        known
    }

    /// Ends a controller: its queues are closed for `reason`.
    fn end_controller(&mut self, key: ControllerKey, reason: &str, out: &mut Vec<TargetAction>) {
        let Some(controller) = self.controllers.remove(&key) else { return };
        if let Some(at) = controller.keep_alive.check_at {
            self.deadlines.remove(&(at, key));
        }
        self.aborts.retain(|_, abort| abort.asked_on != controller.admin);
        self.flushes.retain(|_, flush| flush.key != key);
        for queue in controller.io_queues.values().chain([&controller.admin]) {
            self.close_queue(*queue, reason, out);
        }
    }

    /// Takes an I/O queue out of its controller, which remembers when the host was last heard on
    /// it. Nothing happens to an admin queue.
    fn unbind_io_queue(&mut self, queue: QueueKey) {
        let Some(state) = self.queues.get_mut(&queue) else { return };
        let Some(bound) = state.bound.take_if(|bound| bound.qid != 0) else { return };
        if let Some(controller) = self.controllers.get_mut(&bound.controller) {
            controller.io_queues.remove(&bound.qid);
            let heard = state.info.activity.last();
            controller.keep_alive.last = controller.keep_alive.last.max(heard);
        }
    }

    /// Asks for the end of a connection, once. From now on the queue belongs to nobody.
    fn close_queue(&mut self, queue: QueueKey, reason: &str, out: &mut Vec<TargetAction>) {
        if self.retire_queue(queue, out) {
            out.push(TargetAction::Close { queue, reason: reason.to_owned() });
        }
    }

    /// The queue is about to end and belongs to nobody any more. Says whether that is new.
    fn retire_queue(&mut self, queue: QueueKey, out: &mut Vec<TargetAction>) -> bool {
        let Some(state) = self.queues.get_mut(&queue) else { return false };
        state.bound = None;
        let new = !std::mem::replace(&mut state.closing, true);
        if new {
            self.end_aborts_aimed_at(queue, out);
        }
        new
    }
}
