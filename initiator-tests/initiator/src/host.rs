//! The driver: one controller over a connector and a device.

use crate::controller::{Controller, ControllerConfig, Goodbye, Step};
use crate::link::{Link, LinkState, Owner, RECV_LEN, Tag, Work};
use crate::queue::{Finished, Pace, Violation};
use crate::request::{Lost, Request, SubmitError};
use crate::{Arena, ControllerInfo, NamespaceInfo};
use nvme_spec_types::Completion;
use rdma::{Access, Connector, CoreIndex, HostDevice, Now, QpId, Wc, WcOp};
use region::{Region, Span};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

mod links;
mod send;

/// How a host goes about it.
#[derive(Debug, Clone)]
pub struct HostConfig {
    /// The target's address.
    pub target: SocketAddr,
    /// The core whose device is given to [`Host::new`].
    pub core: CoreIndex,
    /// What to ask for.
    pub controller: ControllerConfig,
    /// How many commands are kept outstanding on I/O queues.
    pub pace: Pace,
    /// RDMA READs of the target that each queue pair answers at a time, 1 to 255.
    pub responder_resources: u8,
    /// Whether the target is asked to invalidate keys in commands of our own.
    pub invalidate: bool,
    /// Whether the data of Connect goes inside the capsule on I/O queues.
    pub connect_in_capsule: bool,
    /// How long connecting may take before it is given up.
    pub attempt_timeout: Duration,
    /// How long after a loss to connect anew; `None` for never.
    pub reconnect_delay: Option<Duration>,
    /// Whether to carry on after a [`Violation`] (for hosts that provoke them).
    pub lenient: bool,
}

/// Where a host is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostState {
    /// No connection. With a time: connects anew then.
    Off(Option<Now>),
    /// On the way to a controller; given up at this time.
    Connecting(Now),
    /// In use.
    Live,
    /// Leaving the controller in good order; torn down at this time.
    Leaving(Now),
    /// Resetting the controller in place; given up at this time.
    Resetting(Now),
    /// The connections are being taken down.
    TearingDown,
}

/// What a host tells its user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostEvent {
    /// The controller is in use.
    Live,
    /// A request ended. Its memory is the caller's again.
    Done {
        /// On which queue.
        qid: u16,
        /// Which.
        token: u64,
        /// How.
        result: Result<Completion, Lost>,
    },
    /// An asynchronous event: dword 0 of its completion.
    Async(u32),
    /// The controller is lost, or was left or reset; requests end as lost.
    Down(String),
    /// Nothing of the connections is left.
    Off,
    /// The target did what no correct target does.
    Violation(u16, Violation),
}

/// What a host counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HostStats {
    /// Capsules sent, the controller's own included.
    pub commands: u64,
    /// Responses received.
    pub responses: u64,
    /// Responses that invalidated a key.
    pub invalidations: u64,
    /// Times that a controller came into use.
    pub connects: u64,
}

/// A host with at most one controller at a time. See the [crate](crate).
pub struct Host<C: Connector, D: HostDevice<Endpoint = C::Endpoint>> {
    config: HostConfig,
    region: Arc<Region>,
    cm: C,
    device: D,
    arena: Arena,
    controller: Controller,
    state: HostState,
    /// Whether the user wants a controller: what decides about connecting anew.
    wanted: bool,
    /// By queue id; a queue that was never opened or is gone is `None`.
    links: Vec<Option<Link>>,
    steps: Vec<Step>,
    events: VecDeque<HostEvent>,
    completions: Vec<Wc>,
    stats: HostStats,
    /// While the controller is in use, how long the connection manager is left alone.
    cm_interval: Duration,
    cm_due: Now,
    /// The queue of the last completion: the next one is likely of the same.
    last_qid: usize,
}

/// What [`HostEvent::Down`] says when the controller told that its shutdown is complete: what was
/// written is durable.
pub const SHUT_DOWN: &str = "shut down";

/// What [`HostEvent::Down`] says when the host resets its controller and stays.
pub const RESET: &str = "reset";

/// Completions taken from the device at a time.
const POLL_BATCH: usize = 64;

impl<C: Connector, D: HostDevice<Endpoint = C::Endpoint>> Host<C, D> {
    /// A host that is off. `device` was opened with `region`, all of which the host hands out.
    pub fn new(config: HostConfig, region: Arc<Region>, cm: C, device: D) -> Host<C, D> {
        Host {
            controller: Controller::new(config.controller.clone()),
            arena: Arena::new(region.span()),
            config,
            region,
            cm,
            device,
            state: HostState::Off(None),
            wanted: false,
            links: Vec::new(),
            steps: Vec::new(),
            events: VecDeque::new(),
            completions: Vec::new(),
            stats: HostStats::default(),
            cm_interval: Duration::ZERO,
            cm_due: Now::ZERO,
            last_qid: 0,
        }
    }

    /// Where it is.
    pub fn state(&self) -> HostState {
        self.state
    }

    /// What it counted.
    pub fn stats(&self) -> HostStats {
        self.stats
    }

    /// The memory that spans are of.
    pub fn region(&self) -> &Arc<Region> {
        &self.region
    }

    /// Memory for data.
    pub fn arena(&mut self) -> &mut Arena {
        &mut self.arena
    }

    /// The controller's Identify data.
    pub fn info(&self) -> &ControllerInfo {
        self.controller.info()
    }

    /// Namespaces that were there when the controller came into use.
    pub fn namespaces(&self) -> &[NamespaceInfo] {
        self.controller.namespaces()
    }

    /// I/O queues in use: ids 1 to this.
    pub fn io_queues(&self) -> u16 {
        self.controller.io_queues()
    }

    /// The controller id.
    pub fn cntlid(&self) -> u16 {
        self.controller.cntlid()
    }

    /// Entries of a queue in use; 0 when it is not.
    pub fn entries(&self, qid: u16) -> u16 {
        self.link(qid).map_or(0, |link| link.queue.shape().entries)
    }

    /// Commands outstanding on a queue.
    pub fn outstanding(&self, qid: u16) -> usize {
        self.link(qid).map_or(0, |link| link.queue.outstanding())
    }

    /// Starts to connect, if off.
    pub fn connect(&mut self, now: Now) {
        if let HostState::Off(_) = self.state {
            self.state = HostState::Connecting(now + self.config.attempt_timeout);
            self.wanted = true;
            self.controller.start(&mut self.steps);
            self.carry_out(now);
        }
    }

    /// Leaves the controller; [`HostEvent::Off`] comes when it is done.
    pub fn leave(&mut self, now: Now, goodbye: Goodbye) {
        self.wanted = false;
        match self.state {
            HostState::Live => {
                self.state = HostState::Leaving(now + self.config.attempt_timeout);
                self.controller.leave(goodbye, &mut self.steps);
                self.carry_out(now);
            }
            HostState::Connecting(_) | HostState::Resetting(_) => self.tear_down(now, "given up"),
            HostState::Off(_) => self.state = HostState::Off(None),
            HostState::Leaving(_) | HostState::TearingDown => {}
        }
    }

    /// Resets the controller in place, by CC.EN on the admin queue that stays connected: the I/O
    /// queues end and come back. [`HostEvent::Down`] comes at once and [`HostEvent::Live`] later, or
    /// [`HostEvent::Down`] once more when the controller is lost meanwhile.
    pub fn reset(&mut self, now: Now) {
        if self.state == HostState::Live {
            self.state = HostState::Resetting(now + self.config.attempt_timeout);
            self.events.push_back(HostEvent::Down(RESET.to_owned()));
            self.controller.reset(&mut self.steps);
            self.carry_out(now);
        }
    }

    /// Changes when to connect anew after the next loss.
    pub fn set_reconnect_delay(&mut self, delay: Option<Duration>) {
        self.config.reconnect_delay = delay;
        if let (HostState::Off(at @ Some(_)), None) = (&mut self.state, delay) {
            *at = None;
        }
    }

    /// While the controller is in use, looks for events of connections only so often: a provider
    /// may need a system call for it. By default every [`turn`](Self::turn) does.
    pub fn set_cm_interval(&mut self, interval: Duration) {
        self.cm_interval = interval;
        self.cm_due = Now::ZERO;
    }

    /// Opens memory to the target on queue `qid` for longer than one command: until
    /// [`take_back`](Self::take_back) or the end of the connection. The caller puts address and
    /// key into its commands and sends them with [`Payload::AsIs`], without asking for the key to
    /// be invalidated.
    ///
    /// # Errors
    /// [`SubmitError`] when the queue is not in use, or the device has no key left.
    pub fn lend(
        &mut self,
        qid: u16,
        span: Span,
        access: Access,
    ) -> Result<rdma::RemoteAddr, SubmitError> {
        let link = self.links.get_mut(usize::from(qid)).and_then(Option::as_mut);
        let link = link.filter(|link| link.state == LinkState::Up);
        let link = link.ok_or(SubmitError::NotConnected)?;
        let remote = self.device.expose(link.qp, span, access).ok_or(SubmitError::Data)?;
        link.lent.push(remote.rkey);
        Ok(remote)
    }

    /// Closes memory that was [lent](Self::lend). Harmless when the connection has ended.
    pub fn take_back(&mut self, qid: u16, rkey: u32) {
        if let Some(link) = self.links.get_mut(usize::from(qid)).and_then(Option::as_mut)
            && let Some(at) = link.lent.iter().position(|&lent| lent == rkey)
        {
            link.lent.swap_remove(at);
            self.device.unexpose(link.qp, rkey);
        }
    }

    /// Sends at once what was submitted since the last [`turn`](Self::turn).
    pub fn flush(&mut self, now: Now) {
        self.device.flush(now);
    }

    /// Sends a request on queue `qid`. It goes out with the next [`turn`](Self::turn).
    ///
    /// # Errors
    /// [`SubmitError`]; nothing was sent then.
    pub fn submit(&mut self, qid: u16, request: Request) -> Result<u16, SubmitError> {
        if self.state != HostState::Live {
            return Err(SubmitError::NotConnected);
        }
        if self.link(qid).is_some() && self.room(qid) == 0 {
            return Err(SubmitError::Full);
        }
        let Request { command, data, token } = request;
        self.send(qid, command, data, Owner::User(token), None)
    }

    /// How many commands queue `qid` takes now. Those that the controller makes itself have their
    /// place on the admin queue besides.
    pub fn room(&self, qid: u16) -> usize {
        let link = self.link(qid);
        let link = link.filter(|link| link.state == LinkState::Up && self.state == HostState::Live);
        let reserve = if qid == 0 { self.controller.reserve() } else { 0 };
        link.map_or(0, |link| link.queue.room().saturating_sub(reserve))
    }

    /// Sends a message that need not be a capsule at all on queue `qid`. What the target answers
    /// is reported as a [`Violation`] unless it fits a command outstanding.
    ///
    /// # Errors
    /// [`SubmitError`]; nothing was sent then.
    pub fn send_raw(&mut self, qid: u16, message: &[u8]) -> Result<(), SubmitError> {
        let span = self.arena.alloc(message.len() as u32).ok_or(SubmitError::Data)?;
        match self.links.get_mut(usize::from(qid)).and_then(Option::as_mut) {
            Some(link) if link.state == LinkState::Up && link.takes_raw() => {
                self.region.write(span, message);
                link.send_raw(span, &mut self.device);
                Ok(())
            }
            _ => {
                self.arena.free(span);
                Err(SubmitError::NotConnected)
            }
        }
    }

    /// What happened, oldest first.
    pub fn poll_event(&mut self) -> Option<HostEvent> {
        self.events.pop_front()
    }

    /// Does what there is to do and returns whether there was anything.
    pub fn turn(&mut self, now: Now) -> bool {
        let mut worked = false;
        if self.state != HostState::Live || now >= self.cm_due {
            self.cm_due = now + self.cm_interval;
            while let Some(event) = self.cm.poll(now) {
                worked = true;
                self.on_cm_event(now, event);
            }
        }
        let mut completions = std::mem::take(&mut self.completions);
        worked |= self.device.poll_cq(now, POLL_BATCH, &mut completions) > 0;
        for wc in completions.drain(..) {
            self.on_completion(now, &wc);
        }
        self.completions = completions;
        worked |= self.on_time(now);
        worked |= self.reap(now);
        self.device.flush(now);
        worked
    }

    /// When [`turn`](Self::turn) is due even if nothing happens.
    pub fn timeout(&self) -> Option<Now> {
        let own = match self.state {
            HostState::Off(at) => at,
            HostState::Connecting(at) | HostState::Leaving(at) | HostState::Resetting(at) => {
                Some(at)
            }
            HostState::Live | HostState::TearingDown => None,
        };
        [own, self.controller.timeout(), self.cm.timeout(), self.device.timeout()]
            .into_iter()
            .flatten()
            .min()
    }

    /// The connector and the device, for arming and sleeping.
    pub fn provider(&mut self) -> (&mut C, &mut D) {
        (&mut self.cm, &mut self.device)
    }

    fn link(&self, qid: u16) -> Option<&Link> {
        self.links.get(usize::from(qid))?.as_ref()
    }

    fn qid_of_qp(&mut self, qp: QpId) -> Option<usize> {
        let is_of = |link: &Option<Link>| link.as_ref().is_some_and(|link| link.qp == qp);
        if !self.links.get(self.last_qid).is_some_and(is_of) {
            self.last_qid = self.links.iter().position(is_of)?;
        }
        Some(self.last_qid)
    }

    fn on_completion(&mut self, now: Now, wc: &Wc) {
        let Some(qid) = self.qid_of_qp(wc.qp) else { return };
        let work = Work::of(wc.wr_id);
        let link = self.links[qid].as_mut().expect("found above");
        link.retire(work);
        if let Work::Raw(span) = work {
            self.arena.free(span);
        }
        if !wc.is_ok() {
            if link.state != LinkState::Draining && !self.loses_queue(now, qid) {
                self.tear_down(now, &format!("queue {qid}: {work:?} failed: {:?}", wc.status));
            }
            return;
        }
        match (work, wc.op) {
            (Work::Recv(index), WcOp::Recv { byte_len, invalidated }) => {
                let message = link.message(index, byte_len, &self.region);
                let len = byte_len.min(RECV_LEN) as usize;
                let result = link.queue.on_response(&message[..len], invalidated);
                if link.state != LinkState::Draining {
                    link.post_recv(index, &mut self.device);
                }
                self.stats.responses += 1;
                self.stats.invalidations += u64::from(invalidated.is_some());
                match result {
                    Ok(Some(finished)) => self.on_finished(now, qid as u16, finished),
                    Ok(None) => {}
                    Err(violation) => {
                        self.events.push_back(HostEvent::Violation(qid as u16, violation));
                        if !self.config.lenient {
                            self.tear_down(now, &format!("queue {qid}: {violation}"));
                        }
                    }
                }
            }
            (Work::Capsule(slot), _) => {
                if let Some(finished) = link.queue.on_sent(slot) {
                    self.on_finished(now, qid as u16, finished);
                }
            }
            _ => {}
        }
    }

    fn on_finished(&mut self, now: Now, qid: u16, finished: Finished<Tag>) {
        let Finished { tag, completion } = finished;
        if let Some(qp) = self.link(qid).map(|link| link.qp) {
            for &rkey in &tag.keys {
                self.device.unexpose(qp, rkey);
            }
        }
        let mut data = Vec::new();
        if let Some((span, from_controller)) = tag.scratch {
            if from_controller {
                data.resize(span.len() as usize, 0);
                self.region.read(span, &mut data);
            }
            self.arena.free(span);
        }
        match tag.owner {
            Owner::User(token) => {
                self.events.push_back(HostEvent::Done { qid, token, result: Ok(completion) });
            }
            Owner::Controller(purpose) => {
                self.controller.on_done(now, purpose, &completion, &data, &mut self.steps);
                self.carry_out(now);
            }
        }
    }

    fn on_time(&mut self, now: Now) -> bool {
        match self.state {
            HostState::Off(Some(at)) if at <= now => {
                self.connect(now);
                return true;
            }
            HostState::Connecting(at) if at <= now => {
                self.tear_down(now, "connecting took too long");
                return true;
            }
            HostState::Leaving(at) if at <= now => {
                self.tear_down(now, "leaving took too long");
                return true;
            }
            HostState::Resetting(at) if at <= now => {
                self.tear_down(now, "resetting took too long");
                return true;
            }
            _ => {}
        }
        self.controller.on_time(now, &mut self.steps);
        let worked = !self.steps.is_empty();
        self.carry_out(now);
        worked
    }

    fn carry_out(&mut self, now: Now) {
        // Steps may add to the list while they are carried out.
        let mut at = 0;
        while at < self.steps.len() && self.state != HostState::TearingDown {
            let step = std::mem::replace(&mut self.steps[at], Step::Left(Goodbye::Abrupt));
            at += 1;
            match step {
                Step::Open { qid, entries, cntlid, in_capsule } => {
                    if let Err(reason) = self.open(now, qid, entries, cntlid, in_capsule) {
                        self.tear_down(now, &reason);
                    }
                }
                Step::Send { qid, purpose, command, data } => {
                    if let Err(error) = self.send_control(qid, purpose, command, data) {
                        self.tear_down(now, &format!("{purpose:?} cannot be sent: {error}"));
                    }
                }
                Step::Live => {
                    self.state = HostState::Live;
                    self.stats.connects += 1;
                    self.events.push_back(HostEvent::Live);
                }
                Step::Event(dw0) => self.events.push_back(HostEvent::Async(dw0)),
                Step::Disabled => {
                    for qid in 1..self.links.len() {
                        self.drain(now, qid);
                    }
                }
                Step::Left(Goodbye::Shutdown) => self.tear_down(now, SHUT_DOWN),
                Step::Left(_) => self.tear_down(now, "left"),
                Step::Fail(reason) => self.tear_down(now, &reason),
            }
        }
        self.steps.clear();
    }
}
