//! The control side: connections, queues on their way between hosts and cores, the target, and
//! the admin queues, which are served by a core of its own.
//!
//! # Contract
//! A [`Control`] owns the connection manager, the [`Target`] and the [`Core`] of index 0. It is
//! driven by [`Control::turn`] with the time and the mail that data cores sent, and answers with
//! mail for them; whoever drives it (a thread, or the simulator) delivers both, in order per core.
//! It has no thread, no clock and no file descriptor of its own.
//!
//! Each connection ends by exactly one `destroy` after its core gave the endpoint back, or by one
//! `reject` when it never had an endpoint. Everything that a host can make grow has a bound in
//! [`ControlConfig`].

mod claims;
mod config;
mod log_limit;
mod queues;
mod roll_call;
mod serve;
mod stats;
#[cfg(test)]
mod tests;

pub use config::ControlConfig;
pub use stats::ControlStats;

use crate::core::Core;
use crate::mail::{ToControl, ToCore};
use backing::{BackingId, BlockIo};
use claims::Claims;
use log_limit::LogLimit;
use nvmf::limit::LimitConfig;
use nvmf::target::{
    AllowedHosts, ConfigError, DiscoveryConfig, NamespaceConfig, PortConfig, SubsystemConfig,
    Target, TargetAction,
};
use nvmf::{BackingRef, QueueKey, SubsystemRef};
use queues::Queues;
use rdma::{
    ConnectionManager, CoreIndex, Device, ListenError, ListenerId, Now, device::PollSource,
};
use roll_call::RollCall;
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use tracing::{info, warn};

/// The core that serves admin queues.
pub const CONTROL_CORE: CoreIndex = CoreIndex(0);

/// Connection manager events taken in one turn.
const CM_EVENTS_PER_TURN: usize = 64;

/// Mail for a data core: which, and what.
pub type Outgoing<C, B> =
    (CoreIndex, ToCore<<C as ConnectionManager>::Endpoint, <B as BlockIo>::Backing>);

/// Something that whoever runs a [`Control`] may want to act on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ControlEvent {
    /// No core uses the backing any more: it may be closed.
    BackingRemoved(BackingId),
    /// The last queue has drained after [`Control::begin_stop`].
    Drained,
    /// [`ControlConfig::drain_timeout`] passed and this many queues have not drained.
    DrainTimedOut(usize),
}

/// What a listener is doing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListenerState {
    /// It was made; nothing was heard of it yet.
    Starting,
    /// It hears on this device.
    Up {
        /// The device's name.
        device: String,
    },
    /// It does not hear, for this reason; it is tried again.
    Down {
        /// Why, and what to do.
        reason: String,
        /// Whether its address or device is merely not there (yet).
        absent: bool,
    },
}

/// A listener's address, port identifier and state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListenerStatus {
    /// The address it was asked to listen on.
    pub address: SocketAddr,
    /// Its NVMe port identifier.
    pub port: u16,
    /// What it is doing.
    pub state: ListenerState,
}

/// How far a graceful stop has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stopping {
    No,
    DrainingUntil(Now),
    Done,
}

/// Logs that hosts can cause, each with a limit of its own.
#[derive(Debug)]
struct Limits {
    rejected: LogLimit,
    connected: LogLimit,
    ended: LogLimit,
    failed: LogLimit,
    slow: LogLimit,
}

/// The control side of the reactor.
pub struct Control<C, D, B>
where
    C: ConnectionManager,
    D: Device<Endpoint = C::Endpoint>,
    B: BlockIo,
{
    config: ControlConfig,
    cm: C,
    target: Target,
    core: Core<D, B>,
    queues: Queues,
    listeners: BTreeMap<ListenerId, ListenerStatus>,
    /// Backings being removed, and how many cores still have them.
    removing: BTreeMap<BackingId, usize>,
    claims: Claims,
    roll_call: RollCall,
    stopping: Stopping,
    limits: Limits,
    stats: ControlStats,
    /// What the target asked for and was not carried out yet.
    actions: VecDeque<TargetAction>,
    /// What core 0 had to say and was not taken in yet.
    own_mail: Vec<ToControl<C::Endpoint>>,
    outbox: Vec<Outgoing<C, B>>,
    events: Vec<ControlEvent>,
}

impl<C, D, B> Control<C, D, B>
where
    C: ConnectionManager,
    D: Device<Endpoint = C::Endpoint>,
    B: BlockIo,
{
    /// A control side without listeners, subsystems or queues.
    pub fn new(config: ControlConfig, cm: C, target: Target, core: Core<D, B>) -> Self {
        Control {
            config,
            cm,
            target,
            core,
            queues: Queues::default(),
            listeners: BTreeMap::new(),
            removing: BTreeMap::new(),
            claims: Claims::new(config.data_cores + 1),
            roll_call: RollCall::new(config.data_cores),
            stopping: Stopping::No,
            limits: Limits {
                rejected: LogLimit::new(),
                connected: LogLimit::new(),
                ended: LogLimit::new(),
                failed: LogLimit::new(),
                slow: LogLimit::new(),
            },
            stats: ControlStats::default(),
            actions: VecDeque::new(),
            own_mail: Vec::new(),
            outbox: Vec::new(),
            events: Vec::new(),
        }
    }

    /// Starts to listen and tells discovery about it.
    ///
    /// # Errors
    /// [`ListenError`] when trying again would be of no use. A port id or address that is in use
    /// already comes back as such an error too.
    pub fn listen(&mut self, now: Now, port: PortConfig) -> Result<ListenerId, ListenError> {
        let address = port.address;
        let id = port.id;
        let listener = self.cm.listen(now, address)?;
        let mut out = Vec::new();
        if let Err(error) = self.target.add_port(port, &mut out) {
            self.cm.unlisten(listener);
            return Err(ListenError::Invalid { addr: address, reason: error.to_string() });
        }
        self.actions.extend(out);
        self.listeners
            .insert(listener, ListenerStatus { address, port: id, state: ListenerState::Starting });
        self.carry_out(now);
        Ok(listener)
    }

    /// Stops listening there and tells discovery about it. Connections that came through it end.
    ///
    /// # Errors
    /// When there is no such listener.
    pub fn unlisten(&mut self, now: Now, listener: ListenerId) -> Result<(), ConfigError> {
        let Some(status) = self.listeners.remove(&listener) else {
            return Err(ConfigError::UnknownPort(0));
        };
        self.cm.unlisten(listener);
        self.configure(now, |target, out| target.remove_port(status.port, out))
    }

    /// Makes a backing usable on every core.
    pub fn add_backing(&mut self, now: Now, id: BackingId, backing: B::Backing) {
        for core in self.cores() {
            self.tell(now, core, ToCore::AddBacking(id, backing.clone()));
        }
    }

    /// Has every core forget a backing that no namespace uses; [`ControlEvent::BackingRemoved`]
    /// follows when all have.
    pub fn remove_backing(&mut self, now: Now, id: BackingId) {
        self.removing.insert(id, self.cores().count());
        for core in self.cores() {
            self.tell(now, core, ToCore::RemoveBacking(id));
        }
    }

    /// Adds a subsystem without namespaces.
    ///
    /// # Errors
    /// What the target finds wrong with it.
    pub fn add_subsystem(
        &mut self,
        now: Now,
        config: SubsystemConfig,
    ) -> Result<SubsystemRef, ConfigError> {
        self.configure(now, |target, out| target.add_subsystem(config, out))
    }

    /// Removes a subsystem: its connections end.
    ///
    /// # Errors
    /// When there is no such subsystem.
    pub fn remove_subsystem(
        &mut self,
        now: Now,
        subsystem: SubsystemRef,
    ) -> Result<(), ConfigError> {
        self.configure(now, |target, out| target.remove_subsystem(subsystem, out))
    }

    /// Changes what may change of a subsystem: who may use it and how, and the controller ids.
    /// Connections of hosts that may no longer use it end.
    ///
    /// # Errors
    /// When there is no such subsystem, its identity would change, or a setting is not valid.
    pub fn update_subsystem(
        &mut self,
        now: Now,
        subsystem: SubsystemRef,
        config: SubsystemConfig,
    ) -> Result<(), ConfigError> {
        self.configure(now, |target, out| target.update_subsystem(subsystem, config, out))
    }

    /// Sets which hosts may use a subsystem; connections of others end.
    ///
    /// # Errors
    /// When there is no such subsystem or an NQN is not valid.
    pub fn set_hosts(
        &mut self,
        now: Now,
        subsystem: SubsystemRef,
        hosts: AllowedHosts,
    ) -> Result<(), ConfigError> {
        self.configure(now, |target, out| target.set_hosts(subsystem, hosts, out))
    }

    /// Sets what discovery tells beside the subsystems.
    ///
    /// # Errors
    /// What the target finds wrong with it.
    pub fn set_discovery(&mut self, now: Now, config: DiscoveryConfig) -> Result<(), ConfigError> {
        self.configure(now, |target, out| target.set_discovery(config, out))
    }

    /// Adds a namespace whose backing was added before; connected hosts are told.
    ///
    /// # Errors
    /// What the target finds wrong with it.
    pub fn add_namespace(
        &mut self,
        now: Now,
        subsystem: SubsystemRef,
        config: NamespaceConfig,
    ) -> Result<(), ConfigError> {
        self.configure(now, |target, out| target.add_namespace(subsystem, config, out))
    }

    /// Changes what may change of a namespace: size, write protection, backing; connected hosts are
    /// told. The backing that it leaves, if it goes to another, is removed and returned, as by
    /// [`remove_namespace`](Self::remove_namespace).
    ///
    /// # Errors
    /// When there is no such namespace or its identity would change.
    pub fn update_namespace(
        &mut self,
        now: Now,
        subsystem: SubsystemRef,
        config: NamespaceConfig,
    ) -> Result<Option<BackingId>, ConfigError> {
        let after = config.backing;
        let before =
            self.configure(now, |target, out| target.update_namespace(subsystem, config, out))?;
        Ok((before.backing != after).then(|| self.abandon(now, before.backing)))
    }

    /// Puts another namespace, whose backing was added before, in the place of one: what hosts know
    /// it by may be another. Returns the backing that was there, as
    /// [`update_namespace`](Self::update_namespace) does.
    ///
    /// # Errors
    /// When there is no such namespace, or what the target finds wrong with the new one.
    pub fn replace_namespace(
        &mut self,
        now: Now,
        subsystem: SubsystemRef,
        config: NamespaceConfig,
    ) -> Result<Option<BackingId>, ConfigError> {
        let after = config.backing;
        let before =
            self.configure(now, |target, out| target.replace_namespace(subsystem, config, out))?;
        Ok((before.backing != after).then(|| self.abandon(now, before.backing)))
    }

    /// Removes a namespace and then its backing, which is returned;
    /// [`ControlEvent::BackingRemoved`] follows when no core uses it any more.
    ///
    /// # Errors
    /// When there is no such namespace.
    pub fn remove_namespace(
        &mut self,
        now: Now,
        subsystem: SubsystemRef,
        nsid: u32,
    ) -> Result<BackingId, ConfigError> {
        let removed =
            self.configure(now, |target, out| target.remove_namespace(subsystem, nsid, out))?;
        Ok(self.abandon(now, removed.backing))
    }

    fn abandon(&mut self, now: Now, backing: BackingRef) -> BackingId {
        let backing = BackingId(backing.0);
        self.remove_backing(now, backing);
        backing
    }

    /// Ends the connections of a controller; its host may come again. Says whether there was one.
    pub fn drop_controller(&mut self, now: Now, subnqn: &str, cntlid: u16) -> bool {
        let Some(subsystem) = self.target.find_subsystem(subnqn) else { return false };
        self.configure(now, |target, out| target.drop_controller(subsystem, cntlid, out))
    }

    /// Sets how much a namespace is served over all hosts; `None` for as much as can be.
    ///
    /// # Errors
    /// When there is no such subsystem or namespace.
    pub fn set_namespace_limit(
        &mut self,
        now: Now,
        subsystem: SubsystemRef,
        nsid: u32,
        limit: Option<LimitConfig>,
    ) -> Result<(), ConfigError> {
        self.configure(now, |target, out| target.set_namespace_limit(subsystem, nsid, limit, out))
    }

    /// Sets how much each of these hosts, by NQN, is served over all subsystems; others have no
    /// limit.
    pub fn set_host_limits(&mut self, now: Now, limits: BTreeMap<String, LimitConfig>) {
        let mut out = Vec::new();
        self.target.set_host_limits(limits, &mut out);
        self.actions.extend(out);
        self.carry_out(now);
    }

    /// Stops listening and ends all connections. [`ControlEvent::Drained`] or
    /// [`ControlEvent::DrainTimedOut`] follows.
    pub fn begin_stop(&mut self, now: Now) {
        if self.stopping != Stopping::No {
            return;
        }
        self.stopping = Stopping::DrainingUntil(now + self.config.drain_timeout);
        for listener in self.listeners.keys() {
            self.cm.unlisten(*listener);
        }
        self.listeners.clear();
        let open = self.queues.open_keys();
        info!(queues = open.len(), "stopping: ending connections");
        for key in open {
            self.close(now, key, "the target stops");
        }
        self.carry_out(now);
    }

    /// One round: connection events, mail from data cores, core 0, time. Mail for data cores is
    /// appended to `out`. Returns whether anything was done; call again before sleeping if so.
    pub fn turn(
        &mut self,
        now: Now,
        mail: &mut Vec<ToControl<C::Endpoint>>,
        out: &mut Vec<Outgoing<C, B>>,
    ) -> bool {
        let mut worked = !self.outbox.is_empty();
        for _ in 0..CM_EVENTS_PER_TURN {
            let Some(event) = self.cm.poll(now) else { break };
            self.on_cm_event(now, event);
            worked = true;
        }
        worked |= !mail.is_empty();
        for message in mail.drain(..) {
            self.on_mail(now, message);
        }
        let mut own = std::mem::take(&mut self.own_mail);
        worked |= self.core.turn(now, &mut own);
        worked |= !own.is_empty();
        for message in own.drain(..) {
            self.on_mail(now, message);
        }
        // What handling it made core 0 say comes after; keep the allocation for next time.
        own.append(&mut self.own_mail);
        self.own_mail = own;
        worked |= !self.own_mail.is_empty();
        worked |= self.on_time(now);
        out.append(&mut self.outbox);
        worked
    }

    /// Prepares to sleep: see [`Device::arm`]. Call, then [`turn`](Self::turn) once more, then
    /// sleep on [`wait_sources`](Self::wait_sources) if that did nothing.
    pub fn arm(&mut self) {
        self.core.arm();
    }

    /// What to sleep on.
    pub fn wait_sources<'a>(&'a self, out: &mut Vec<PollSource<'a>>) {
        self.cm.wait_sources(out);
        self.core.wait_sources(out);
    }

    /// When [`turn`](Self::turn) must be called next even if no source is readable.
    pub fn timeout(&self) -> Option<Now> {
        let draining = match self.stopping {
            Stopping::DrainingUntil(at) => Some(at),
            Stopping::No | Stopping::Done => None,
        };
        let pending = self.queues.next_deadline().map(|(at, _)| at);
        [self.cm.timeout(), self.core.timeout(), self.target.timeout(), pending, draining]
            .into_iter()
            .flatten()
            .min()
    }

    /// Asks every data core whether it lives; [`silent_cores`](Self::silent_cores) says which have
    /// not answered.
    pub fn call_roll(&mut self, now: Now) {
        let call = self.roll_call.begin();
        for core in self.cores().filter(|core| *core != CONTROL_CORE) {
            self.tell(now, core, ToCore::Call(call));
        }
    }

    /// Data cores that have not answered the last [`call_roll`](Self::call_roll).
    pub fn silent_cores(&self) -> impl Iterator<Item = CoreIndex> {
        self.roll_call.silent()
    }

    /// Takes the next event, if there is one.
    pub fn next_event(&mut self) -> Option<ControlEvent> {
        (!self.events.is_empty()).then(|| self.events.remove(0))
    }

    /// The listeners and their states.
    pub fn listeners(&self) -> impl Iterator<Item = &ListenerStatus> {
        self.listeners.values()
    }

    /// Queues from the connect request to the last trace.
    pub fn queue_count(&self) -> usize {
        self.queues.len()
    }

    /// What became of connections since the start.
    pub fn stats(&self) -> ControlStats {
        let keep_alive_expiries = self.target.keep_alive_expiries();
        ControlStats { keep_alive_expiries, ..self.stats }
    }

    /// The target, to look at.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// The core that serves admin queues, to look at.
    pub fn core(&self) -> &Core<D, B> {
        &self.core
    }

    /// The connection manager, to look at.
    pub fn cm(&self) -> &C {
        &self.cm
    }

    /// The connection manager.
    pub fn cm_mut(&mut self) -> &mut C {
        &mut self.cm
    }

    fn cores(&self) -> impl Iterator<Item = CoreIndex> + use<C, D, B> {
        (0..=self.config.data_cores).map(CoreIndex)
    }

    /// Has the target change, and carries out what it asks for.
    fn configure<T>(
        &mut self,
        now: Now,
        change: impl FnOnce(&mut Target, &mut Vec<TargetAction>) -> T,
    ) -> T {
        let mut out = Vec::new();
        let result = change(&mut self.target, &mut out);
        self.actions.extend(out);
        self.carry_out(now);
        result
    }

    /// Sends a message to a core: core 0 takes it at once, others by mail.
    fn tell(&mut self, now: Now, core: CoreIndex, message: ToCore<C::Endpoint, B::Backing>) {
        if core == CONTROL_CORE {
            self.core.handle(now, message, &mut self.own_mail);
        } else {
            self.outbox.push((core, message));
        }
    }

    fn on_time(&mut self, now: Now) -> bool {
        let mut worked = false;
        if self.target.timeout().is_some_and(|at| at <= now) {
            let mut out = Vec::new();
            self.target.on_time(now, &mut out);
            self.actions.extend(out);
            self.carry_out(now);
            worked = true;
        }
        while let Some((at, key)) = self.queues.next_deadline() {
            if at > now {
                break;
            }
            self.close(now, key, "no Connect in time");
            self.carry_out(now);
            worked = true;
        }
        if let Stopping::DrainingUntil(at) = self.stopping {
            let left = self.queues.len();
            if left == 0 {
                self.stopping = Stopping::Done;
                self.events.push(ControlEvent::Drained);
                worked = true;
            } else if at <= now {
                warn!(queues = left, "queues did not drain in time: a disk or device is stuck");
                self.stopping = Stopping::Done;
                self.events.push(ControlEvent::DrainTimedOut(left));
                worked = true;
            }
        }
        worked
    }

    fn on_backing_removed(&mut self, id: BackingId) {
        let Some(left) = self.removing.get_mut(&id) else { return };
        *left -= 1;
        if *left == 0 {
            self.removing.remove(&id);
            self.events.push(ControlEvent::BackingRemoved(id));
        }
    }

    /// The core of a queue that is open, as far as messages about its commands go.
    fn core_of(&self, key: QueueKey) -> Option<CoreIndex> {
        let entry = self.queues.get(key)?;
        (entry.phase != queues::Phase::AwaitDetached).then_some(entry.core)
    }
}
