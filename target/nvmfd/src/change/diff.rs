//! The difference between two configurations, as a value.
//!
//! What goes comes before what changes, and that before what comes: a disk or an address may move
//! from one place to another. Fields are taken apart by name, so that a new one cannot be
//! forgotten: it does not compile until it is decided whether it can change live.

use crate::config::{Config, Limits, Listener, Log, Namespace, Subsystem, Tuning};
use backing::{BackingSpec, Medium};
use nvmf::target::DiscoveryConfig;
use std::net::SocketAddr;

/// One thing that is different and can be changed while running.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Change {
    /// Stop listening there; connections that came through it end.
    RemoveListener(SocketAddr),
    /// Stop serving a disk.
    RemoveNamespace { nqn: String, nsid: u32 },
    /// Stop serving a subsystem that has no disks any more; its connections end.
    RemoveSubsystem { nqn: String },
    /// Serve a subsystem, without disks for now.
    AddSubsystem(Subsystem),
    /// Change who may use a subsystem and how, and its controller ids; connections of hosts that may
    /// no longer use it end. Without its disks.
    SetSubsystem(Subsystem),
    /// Serve namespaces and hosts as much as these limits allow, and all others without a limit.
    SetLimits(Limits),
    /// Tell something else in discovery.
    SetDiscovery(DiscoveryConfig),
    /// Make a disk larger, or say no more how large it is. `to` is the whole namespace as it shall be.
    Grow { nqn: String, to: Namespace },
    /// Refuse writes to a disk from now on. `to` is the whole namespace as it shall be.
    Protect { nqn: String, to: Namespace },
    /// The same disk, to be written to again.
    Unprotect { nqn: String, to: Namespace },
    /// Serve a disk.
    AddNamespace { nqn: String, namespace: Namespace },
    /// Listen there.
    AddListener(Listener),
    /// Log by another filter.
    SetLogFilter(String),
}

/// What there is to do to get from one configuration to another.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Plan {
    /// In the order in which they are to be made.
    pub(crate) changes: Vec<Change>,
    /// Settings that are different and stay as they are until a restart, in the words of the file.
    pub(crate) restart: Vec<String>,
}

/// What is different between `old`, which is in force, and `new`. `at_hand` says of a listener
/// whether its RDMA provider is running.
pub(crate) fn diff(old: &Config, new: &Config, at_hand: impl Fn(&Listener) -> bool) -> Plan {
    let Config { listeners, subsystems, limits, discovery, log, tuning, control, metrics } = new;
    let mut plan = Plan::default();
    for listener in &old.listeners {
        if !listeners.contains(listener) {
            plan.changes.push(Change::RemoveListener(listener.address));
        }
    }
    for subsystem in &old.subsystems {
        leave(subsystem, subsystems.iter().find(|other| other.nqn == subsystem.nqn), &mut plan);
    }
    for subsystem in subsystems {
        let before = old.subsystems.iter().find(|other| other.nqn == subsystem.nqn);
        arrive(before, subsystem, &mut plan);
    }
    // A disk that comes has no limit yet.
    let comes = |change: &Change| match change {
        Change::AddNamespace { nqn, namespace } => {
            limits.namespaces.contains_key(&(nqn.clone(), namespace.nsid))
        }
        _ => false,
    };
    if old.limits != *limits || plan.changes.iter().any(comes) {
        plan.changes.push(Change::SetLimits(limits.clone()));
    }
    if old.discovery != *discovery {
        plan.changes.push(Change::SetDiscovery(discovery.clone()));
    }
    for listener in listeners.iter().filter(|listener| !old.listeners.contains(listener)) {
        if at_hand(listener) {
            plan.changes.push(Change::AddListener(*listener));
            continue;
        }
        let Listener { address, provider: _ } = listener;
        plan.restart.push(format!("listener {address} (its RDMA provider is not running)"));
        // The old one is better than none.
        plan.changes.retain(|change| *change != Change::RemoveListener(*address));
    }
    let Log { filter, json, slow } = log;
    if old.log.filter != *filter {
        plan.changes.push(Change::SetLogFilter(filter.clone()));
    }
    if old.log.json != *json {
        plan.restart.push("log.format".to_owned());
    }
    if old.log.slow != *slow {
        plan.restart.push("log.slow_ms".to_owned());
    }
    tuned(&old.tuning, tuning, &mut plan.restart);
    if old.control != *control {
        plan.restart.push("control".to_owned());
    }
    if old.metrics != *metrics {
        plan.restart.push("metrics".to_owned());
    }
    plan
}

/// What a subsystem loses: disks, or all of itself.
fn leave(old: &Subsystem, new: Option<&Subsystem>, plan: &mut Plan) {
    for before in &old.namespaces {
        let after = new.and_then(|new| new.namespaces.iter().find(|ns| ns.nsid == before.nsid));
        if after.is_none_or(|after| kind(before, after) == Kind::Another) {
            let (nqn, nsid) = (old.nqn.clone(), before.nsid);
            plan.changes.push(Change::RemoveNamespace { nqn, nsid });
        }
    }
    if new.is_none() {
        plan.changes.push(Change::RemoveSubsystem { nqn: old.nqn.clone() });
    }
}

/// What a subsystem gets: itself, other hosts, disks.
fn arrive(old: Option<&Subsystem>, new: &Subsystem, plan: &mut Plan) {
    let Subsystem { nqn, serial, model, hosts, duplicates, cntlids, namespaces } = new;
    match old {
        None => {
            let bare = Subsystem { namespaces: Vec::new(), ..new.clone() };
            plan.changes.push(Change::AddSubsystem(bare));
        }
        Some(old) => {
            if old.serial != *serial {
                plan.restart.push(format!("serial of subsystem {nqn}"));
            }
            if old.model != *model {
                plan.restart.push(format!("model of subsystem {nqn}"));
            }
            let rules = (hosts, duplicates, cntlids);
            if (&old.hosts, &old.duplicates, &old.cntlids) != rules {
                let (serial, model) = (old.serial.clone(), old.model.clone());
                let bare = Subsystem { serial, model, namespaces: Vec::new(), ..new.clone() };
                plan.changes.push(Change::SetSubsystem(bare));
            }
        }
    }
    for after in namespaces {
        let before =
            old.and_then(|old| old.namespaces.iter().find(|before| before.nsid == after.nsid));
        match before.map(|before| (kind(before, after), before)) {
            Some((Kind::Same, before)) => adjust(nqn, before, after, plan),
            Some((Kind::Drill, _)) => {
                plan.restart.push(format!("inject of {nqn} namespace {}", after.nsid));
            }
            Some((Kind::Another, _)) | None if after.inject.is_some() => {
                plan.restart.push(format!("{nqn} namespace {} (it has inject)", after.nsid));
                let removal = Change::RemoveNamespace { nqn: nqn.clone(), nsid: after.nsid };
                plan.changes.retain(|change| *change != removal);
            }
            Some((Kind::Another, _)) | None => {
                let (nqn, namespace) = (nqn.clone(), after.clone());
                plan.changes.push(Change::AddNamespace { nqn, namespace });
            }
        }
    }
}

/// A disk that stays in place, of another size or with other rights. It grows while it may be
/// written to.
fn adjust(nqn: &str, before: &Namespace, after: &Namespace, plan: &mut Plan) {
    let as_it_is_to_be = |medium: &Medium, read_only| {
        let spec = BackingSpec { medium: medium.clone(), read_only, ..after.spec.clone() };
        (nqn.to_owned(), Namespace { spec, ..after.clone() })
    };
    let (was, is) = (&before.spec, &after.spec);
    if was.read_only && !is.read_only {
        let (nqn, to) = as_it_is_to_be(&was.medium, false);
        plan.changes.push(Change::Unprotect { nqn, to });
    }
    if was.medium != is.medium {
        let (nqn, to) = as_it_is_to_be(&is.medium, was.read_only && is.read_only);
        plan.changes.push(Change::Grow { nqn, to });
    }
    if !was.read_only && is.read_only {
        let (nqn, to) = as_it_is_to_be(&is.medium, true);
        plan.changes.push(Change::Protect { nqn, to });
    }
}

/// What became of a namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// The same disk, though perhaps of another size or with other rights.
    Same,
    /// Only its fault drill is another: drills are set up when the cores start.
    Drill,
    /// A disk that hosts must see as another, or that has to be opened anew.
    Another,
}

fn kind(before: &Namespace, after: &Namespace) -> Kind {
    // The line says nothing about the disk.
    let Namespace { line: _, nsid: _, spec, uuid, nguid, eui64, inject } = after;
    let identity = (before.uuid, before.nguid, before.eui64) == (*uuid, *nguid, *eui64);
    let manner = before.spec.iopoll == spec.iopoll;
    if !identity || !manner || before.spec.block_size != spec.block_size {
        return Kind::Another;
    }
    if before.inject != *inject {
        return if before.spec == *spec { Kind::Drill } else { Kind::Another };
    }
    if is_same_but_for_size(&before.spec.medium, &spec.medium) { Kind::Same } else { Kind::Another }
}

/// Whether the two are one but for the size of a file. A size that is smaller is told when the file is
/// looked at, a size that is not written any more asks for nothing.
fn is_same_but_for_size(old: &Medium, new: &Medium) -> bool {
    match (old, new) {
        (Medium::Path { path, buffered, .. }, Medium::Path { path: p, buffered: b, .. }) => {
            path == p && buffered == b
        }
        _ => old == new,
    }
}

/// Names the settings of `tuning` that are different: all of them shape threads and memory that
/// stand from the start.
fn tuned(old: &Tuning, new: &Tuning, restart: &mut Vec<String>) {
    macro_rules! compare {
        ($($field:ident),* $(,)?) => {
            let Tuning { $($field),* } = new;
            $(if old.$field != *$field {
                restart.push(concat!("tuning.", stringify!($field)).to_owned());
            })*
        };
    }
    compare!(
        data_cores,
        cpus,
        poll,
        memory,
        control_memory,
        hugepages,
        max_transfer,
        in_capsule,
        queue_depth,
        max_io_queues,
        max_queues,
        max_reads,
        shared_receive_queue,
        traffic_class,
    );
}

impl Plan {
    /// Leaves out what could not be made before, with what would only make room for it.
    pub(crate) fn leave_out(&mut self, refused: &[Change]) {
        let lines_apart = |change: &Change| refused.contains(&change.without_line());
        let (out, mut rest): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.changes).into_iter().partition(lines_apart);
        for change in out {
            if let Change::AddNamespace { nqn, namespace } = change {
                let room = Change::RemoveNamespace { nqn, nsid: namespace.nsid };
                rest.retain(|change| *change != room);
            }
        }
        self.changes = rest;
    }
}

impl Change {
    /// The same, wherever in the file its disk stands.
    pub(crate) fn without_line(&self) -> Change {
        let mut change = self.clone();
        match &mut change {
            Change::AddNamespace { namespace: to, .. }
            | Change::Grow { to, .. }
            | Change::Protect { to, .. }
            | Change::Unprotect { to, .. } => to.line = 0,
            _ => {}
        }
        change
    }

    /// Writes the change, once made, into the configuration that is in force.
    pub(crate) fn record(&self, config: &mut Config) {
        let mut subsystem = |nqn: &str, change: &mut dyn FnMut(&mut Subsystem)| {
            config.subsystems.iter_mut().filter(|s| s.nqn == nqn).for_each(change);
        };
        match self {
            Change::RemoveListener(address) => {
                config.listeners.retain(|listener| listener.address != *address);
            }
            Change::AddListener(listener) => config.listeners.push(*listener),
            Change::RemoveSubsystem { nqn } => config.subsystems.retain(|s| s.nqn != *nqn),
            Change::AddSubsystem(subsystem) => config.subsystems.push(subsystem.clone()),
            Change::SetSubsystem(to) => subsystem(&to.nqn, &mut |s| {
                let namespaces = std::mem::take(&mut s.namespaces);
                *s = Subsystem { namespaces, ..to.clone() };
            }),
            Change::SetLimits(to) => config.limits = to.clone(),
            Change::SetDiscovery(to) => config.discovery = to.clone(),
            Change::RemoveNamespace { nqn, nsid } => {
                subsystem(nqn, &mut |s| s.namespaces.retain(|ns| ns.nsid != *nsid));
            }
            Change::AddNamespace { nqn, namespace: to }
            | Change::Grow { nqn, to }
            | Change::Protect { nqn, to }
            | Change::Unprotect { nqn, to } => subsystem(nqn, &mut |s| {
                s.namespaces.retain(|ns| ns.nsid != to.nsid);
                let at = s.namespaces.partition_point(|ns| ns.nsid < to.nsid);
                s.namespaces.insert(at, to.clone());
            }),
            Change::SetLogFilter(filter) => config.log.filter = filter.clone(),
        }
    }
}
