//! A subsystem: its name, who may use it, its namespaces.

use super::fail::{Fail, at};
use super::{ALL_CNTLIDS, AllowedHosts, DuplicateHosts, NamespaceConfig};
use super::{SubsystemConfig, TargetConfig};
use crate::SubsystemRef;
use crate::limit::{Limit, LimitConfig};
use crate::nsid;
use crate::view::{HostLimits, IoCounters, IoTotals, NamespaceView, SubsystemView};
use nvme_spec_types::nqn::DISCOVERY_NQN;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;

/// The discovery subsystem, which is always there.
pub const DISCOVERY_SUBSYSTEM: SubsystemRef = SubsystemRef(0);

#[derive(Debug)]
pub(super) struct Subsystem {
    pub(super) nqn: Arc<str>,
    pub(super) serial: String,
    pub(super) model: String,
    pub(super) hosts: AllowedHosts,
    pub(super) duplicates: DuplicateHosts,
    pub(super) cntlids: RangeInclusive<u16>,
    /// By nsid; at most [`MAX_NAMESPACES`](crate::nsid::MAX_NAMESPACES).
    pub(super) namespaces: BTreeMap<u32, Namespace>,
    /// What its I/O queues were last told.
    pub(super) view: Arc<SubsystemView>,
    /// The controller id that was given last; 0 for none.
    last_cntlid: u16,
}

#[derive(Debug)]
pub(super) struct Namespace {
    pub(super) config: NamespaceConfig,
    pub(super) view: Arc<NamespaceView>,
}

impl Subsystem {
    pub(super) fn new(
        id: SubsystemRef,
        config: SubsystemConfig,
        max_transfer: u32,
        host_limits: HostLimits,
    ) -> Subsystem {
        let view = SubsystemView {
            subsystem: id,
            generation: 1,
            max_transfer,
            namespaces: Vec::new(),
            host_limits,
        };
        Subsystem {
            nqn: config.nqn.into(),
            serial: config.serial,
            model: config.model,
            hosts: config.hosts,
            duplicates: config.duplicates,
            cntlids: config.cntlids,
            namespaces: BTreeMap::new(),
            view: Arc::new(view),
            last_cntlid: 0,
        }
    }

    /// The one that tells about the others.
    pub(super) fn discovery() -> Subsystem {
        let config = SubsystemConfig {
            nqn: DISCOVERY_NQN.to_owned(),
            serial: "discovery".to_owned(),
            model: "nvmfd".to_owned(),
            hosts: AllowedHosts::Any,
            duplicates: DuplicateHosts::Allow,
            cntlids: ALL_CNTLIDS,
        };
        Subsystem::new(DISCOVERY_SUBSYSTEM, config, 0, HostLimits::default())
    }

    /// The highest namespace id in use; 0 for none.
    fn last_nsid(&self) -> u32 {
        self.namespaces.keys().next_back().copied().unwrap_or(0)
    }

    /// The highest namespace id as controllers tell it (NN).
    pub(super) fn highest_nsid(&self) -> u32 {
        nsid::highest(self.last_nsid())
    }

    /// How a command fails that needs a namespace of this id, which is not there.
    pub(super) fn absent(&self, nsid: u32) -> Fail {
        Fail::dnr(nsid::absent(self.last_nsid(), nsid)).at(at::NSID)
    }

    pub(super) fn allows(&self, hostnqn: &str) -> bool {
        self.hosts.contains(hostnqn)
    }

    /// A controller id of the subsystem's range that is not in use: the next after the last one
    /// given, so that an id comes back as late as possible.
    pub(super) fn allocate_cntlid(&mut self, in_use: impl Fn(u16) -> bool) -> Option<u16> {
        let (first, last) = (*self.cntlids.start(), *self.cntlids.end());
        let next = match self.last_cntlid {
            given if self.cntlids.contains(&given) => given + 1,
            _ => first,
        };
        let cntlid = (next..=last).chain(first..next).find(|&id| !in_use(id))?;
        self.last_cntlid = cntlid;
        Some(cntlid)
    }

    /// Makes the view anew after a change.
    pub(super) fn renew_view(&mut self) -> Arc<SubsystemView> {
        self.view = Arc::new(SubsystemView {
            subsystem: self.view.subsystem,
            generation: self.view.generation + 1,
            max_transfer: self.view.max_transfer,
            namespaces: self.namespaces.values().map(|ns| ns.view.clone()).collect(),
            host_limits: self.view.host_limits.clone(),
        });
        self.view.clone()
    }

    /// Makes the view anew with other limits of hosts.
    pub(super) fn limit_hosts(&mut self, limits: &HostLimits) -> Arc<SubsystemView> {
        let renewed = self.renew_view();
        self.view = Arc::new(SubsystemView { host_limits: limits.clone(), ..(*renewed).clone() });
        self.view.clone()
    }
}

impl AllowedHosts {
    /// Whether the host of that name is among them.
    pub fn contains(&self, hostnqn: &str) -> bool {
        match self {
            AllowedHosts::Any => true,
            AllowedHosts::Only(names) => names.iter().any(|name| name == hostnqn),
        }
    }
}

impl Namespace {
    pub(super) fn new(config: NamespaceConfig, target: &TargetConfig) -> Namespace {
        let counters = IoCounters::for_cores(target.cores);
        let view = Arc::new(view_of(&config, None, counters));
        Namespace { config, view }
    }

    /// The same namespace, changed: what was counted stays, and its limit.
    pub(super) fn changed(&self, config: NamespaceConfig) -> Namespace {
        self.with(config, self.view.limit.clone())
    }

    /// The same namespace with another limit.
    pub(super) fn limited(&self, limit: Option<LimitConfig>) -> Namespace {
        self.with(self.config.clone(), limit.map(|limit| Arc::new(Limit::new(limit))))
    }

    fn with(&self, config: NamespaceConfig, limit: Option<Arc<Limit>>) -> Namespace {
        let view = Arc::new(view_of(&config, limit, self.view.counters.clone()));
        Namespace { config, view }
    }

    /// What was counted on it, over all cores.
    pub(super) fn totals(&self) -> IoTotals {
        let mut totals = IoTotals::default();
        for core in self.view.counters.iter() {
            totals += core.totals();
        }
        totals
    }
}

fn view_of(
    config: &NamespaceConfig,
    limit: Option<Arc<Limit>>,
    counters: Arc<[IoCounters]>,
) -> NamespaceView {
    NamespaceView {
        limit,
        nsid: config.nsid,
        backing: config.backing,
        lba_shift: config.lba_shift,
        block_count: config.block_count,
        read_only: config.read_only,
        counters,
    }
}
