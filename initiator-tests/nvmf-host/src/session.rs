//! A host in use by one thread: its clock, its sleep, and commands one at a time.

use anyhow::{Result, bail};
use initiator::controller::ControllerConfig;
use initiator::{
    Goodbye, Host, HostConfig, HostEvent, HostState, Lost, NamespaceInfo, Pace, Payload, Request,
};
use nvme_spec_types::{Command, Completion, Nqn};
use rdma::{Access, Connector, CoreIndex, HostDevice, Now};
use region::{Pages, Region};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long to go on looking for work before sleeping, unless told otherwise.
const SPIN: Duration = Duration::from_micros(50);
/// How long connecting may take.
const CONNECT_WITHIN: Duration = Duration::from_secs(10);
/// How long a command may take that is waited for alone.
const COMMAND_WITHIN: Duration = Duration::from_secs(60);
/// How long leaving may take.
const LEAVE_WITHIN: Duration = Duration::from_secs(3);
/// Room for each slot of a queue: its receive, its capsule, and in-capsule data of up to 16 KiB.
const BYTES_PER_ENTRY: u64 = 128 + (16 << 10);
/// Room for the controller's own data.
const OWN_BYTES: u64 = 4 << 20;

/// The signal handler's word that the user wants to stop.
pub(crate) static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Whom to connect to and as whom.
#[derive(Debug, Clone)]
pub(crate) struct Peer {
    pub(crate) target: SocketAddr,
    pub(crate) subnqn: Nqn,
    pub(crate) hostnqn: Nqn,
    pub(crate) hostid: [u8; 16],
    /// Milliseconds; 0 for none.
    pub(crate) kato_ms: u32,
}

/// How many I/O queues, and how deep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shape {
    /// I/O queues; 0 for a controller used for admin commands only.
    pub(crate) queues: u16,
    /// Commands outstanding on each, at least 1.
    pub(crate) depth: u16,
    /// Bytes of data that the user holds at a time.
    pub(crate) data: u64,
}

impl Shape {
    /// For admin commands, and data of up to 16 MiB.
    pub(crate) const ADMIN: Shape = Shape { queues: 0, depth: 1, data: 16 << 20 };

    /// Memory that this takes.
    ///
    /// # Errors
    /// When it is more than one region can hold.
    pub(crate) fn map(&self) -> Result<Arc<Region>> {
        let entries = u64::from(self.queues) * (u64::from(self.depth) + 1);
        let len = entries * BYTES_PER_ENTRY + self.data + OWN_BYTES;
        if len >= region::MAX_REGION_LEN as u64 {
            bail!(
                "{len} bytes of memory are needed, of at most 4 GiB: lower queues, depth or size"
            );
        }
        Ok(Arc::new(Region::map(len as usize, Pages::Normal)?))
    }
}

/// What the host library is told.
pub(crate) fn host_config(peer: &Peer, shape: &Shape, core: CoreIndex) -> HostConfig {
    HostConfig {
        target: peer.target,
        core,
        controller: ControllerConfig {
            subnqn: peer.subnqn,
            hostnqn: peer.hostnqn,
            hostid: peer.hostid,
            admin_entries: 32,
            io_queues: shape.queues,
            // The queue is full with one entry left.
            io_entries: shape.depth.saturating_add(1).clamp(2, 4096),
            kato_ms: peer.kato_ms,
            flow_control: true,
            async_events: 1,
        },
        pace: Pace::Head,
        responder_resources: 32,
        invalidate: true,
        connect_in_capsule: true,
        attempt_timeout: CONNECT_WITHIN,
        reconnect_delay: None,
        lenient: false,
    }
}

/// A host and its thread's clock.
pub(crate) struct Session<C: Connector, D: HostDevice<Endpoint = C::Endpoint>> {
    pub(crate) host: Host<C, D>,
    start: Instant,
    spin: Duration,
    idle_since: Option<Now>,
}

impl<C: Connector, D: HostDevice<Endpoint = C::Endpoint>> Session<C, D> {
    /// A session that is not connected.
    pub(crate) fn new(config: HostConfig, region: Arc<Region>, cm: C, device: D) -> Session<C, D> {
        let host = Host::new(config, region, cm, device);
        Session { host, start: Instant::now(), spin: SPIN, idle_since: None }
    }

    /// Goes on looking for work so long before sleeping; for no time, leaves the processor at once
    /// to others that have something to do.
    pub(crate) fn set_spin(&mut self, spin: Duration) {
        self.spin = spin;
    }

    /// The time since the session began.
    pub(crate) fn now(&self) -> Now {
        self.start.elapsed()
    }

    /// Lets the host work, and sleeps when it has had none for a while, until `deadline` at most.
    ///
    /// # Errors
    /// When the user has interrupted the program.
    pub(crate) fn step(&mut self, deadline: Option<Now>) -> Result<()> {
        if INTERRUPTED.load(Ordering::Relaxed) {
            bail!("interrupted");
        }
        self.turn(deadline);
        Ok(())
    }

    fn turn(&mut self, deadline: Option<Now>) {
        self.turn_at(self.now(), deadline);
    }

    /// As [`step`](Self::step), with the time as the caller read it, and whatever the user wants.
    pub(crate) fn turn_at(&mut self, now: Now, deadline: Option<Now>) {
        if self.host.turn(now) {
            self.idle_since = None;
            return;
        }
        if now.saturating_sub(*self.idle_since.get_or_insert(now)) < self.spin {
            return;
        }
        self.host.provider().1.arm();
        if self.host.turn(now) {
            return;
        }
        let until = [self.host.timeout(), deadline].into_iter().flatten().min();
        // An interrupt by the user is noticed between two sleeps.
        let longest = Duration::from_millis(200);
        let left = until.map_or(longest, |at| at.saturating_sub(now)).min(longest);
        let mut sources = Vec::new();
        let (cm, device) = self.host.provider();
        cm.wait_sources(&mut sources);
        let left = if sources.is_empty() { left.min(Duration::from_millis(1)) } else { left };
        device.wait_sources(&mut sources);
        if !left.is_zero() {
            let mut fds: Vec<PollFd<'_>> =
                sources.iter().map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN)).collect();
            let timeout =
                Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
            // Interrupted or not: the next turn looks.
            let _ = poll(&mut fds, Some(&timeout));
        }
    }

    /// Begins to connect; turns go on with it.
    pub(crate) fn begin(&mut self) {
        let now = self.now();
        self.host.connect(now);
    }

    /// Connects, or says why not.
    ///
    /// # Errors
    /// The target's or the network's refusal.
    pub(crate) fn connect(&mut self) -> Result<()> {
        self.begin();
        let mut why = None;
        loop {
            while let Some(event) = self.host.poll_event() {
                match event {
                    HostEvent::Live => return Ok(()),
                    HostEvent::Down(reason) => why = Some(reason),
                    HostEvent::Off => {
                        bail!("cannot connect: {}", why.as_deref().unwrap_or("no reason given"))
                    }
                    HostEvent::Violation(qid, violation) => bail!("queue {qid}: {violation}"),
                    HostEvent::Async(_) | HostEvent::Done { .. } => {}
                }
            }
            self.step(None)?;
        }
    }

    /// Leaves the controller in good order, or gives up after a while.
    pub(crate) fn leave(&mut self) {
        self.end(Goodbye::Shutdown);
    }

    /// Ends the connections; requests that are outstanding end as lost and are dropped.
    pub(crate) fn end(&mut self, goodbye: Goodbye) {
        let now = self.now();
        self.host.leave(now, goodbye);
        let deadline = now + LEAVE_WITHIN;
        while !matches!(self.host.state(), HostState::Off(_)) && self.now() < deadline {
            self.turn(Some(deadline));
        }
        while self.host.poll_event().is_some() {}
    }

    /// The next event of use, or `None` when nothing happened within one step.
    ///
    /// # Errors
    /// When the controller is lost, the target misbehaves, or the user interrupts.
    pub(crate) fn next(&mut self, deadline: Option<Now>) -> Result<Option<Ended>> {
        loop {
            match self.host.poll_event() {
                Some(HostEvent::Done { token, result: Ok(completion), .. }) => {
                    return Ok(Some(Ended { token, completion }));
                }
                Some(HostEvent::Done { result: Err(Lost), .. } | HostEvent::Off) => {
                    bail!("the connection was lost")
                }
                Some(HostEvent::Down(reason)) => bail!("the controller is lost: {reason}"),
                Some(HostEvent::Violation(qid, violation)) => bail!("queue {qid}: {violation}"),
                Some(HostEvent::Async(_) | HostEvent::Live) => {}
                None => break,
            }
        }
        self.step(deadline)?;
        Ok(None)
    }

    /// Carries out one command with nothing else outstanding, and returns its completion and the
    /// data that came.
    ///
    /// # Errors
    /// When it cannot be sent, takes too long, or the controller is lost.
    pub(crate) fn execute(
        &mut self,
        qid: u16,
        command: Command,
        data: Data,
    ) -> Result<(Completion, Vec<u8>)> {
        let (len, access) = match data {
            Data::None => (0, Access::RemoteRead),
            Data::In(len) => (len, Access::RemoteWrite),
        };
        let span = if len == 0 { None } else { self.host.arena().alloc(len) };
        if len > 0 && span.is_none() {
            bail!("no memory for {len} bytes of data");
        }
        let payload = match span {
            None => Payload::None,
            Some(span) => Payload::Keyed { spans: vec![span], access, invalidate: true },
        };
        self.host.submit(qid, Request { command, data: payload, token: 0 })?;
        let deadline = self.now() + COMMAND_WITHIN;
        let completion = loop {
            if let Some(ended) = self.next(Some(deadline))? {
                break ended.completion;
            }
            if self.now() >= deadline {
                bail!("no answer within {} s", COMMAND_WITHIN.as_secs());
            }
        };
        let mut answer = Vec::new();
        if let Some(span) = span {
            if access == Access::RemoteWrite {
                answer.resize(len as usize, 0);
                self.host.region().read(span, &mut answer);
            }
            self.host.arena().free(span);
        }
        Ok((completion, answer))
    }

    /// As [`execute`](Self::execute), for a command that must succeed.
    ///
    /// # Errors
    /// As there, and when the status is not success.
    pub(crate) fn must(
        &mut self,
        what: &str,
        qid: u16,
        command: Command,
        data: Data,
    ) -> Result<(Completion, Vec<u8>)> {
        let (completion, answer) = self.execute(qid, command, data)?;
        if !completion.status.is_success() {
            bail!("{what}: {}", completion.status);
        }
        Ok((completion, answer))
    }

    /// A namespace of the controller.
    ///
    /// # Errors
    /// When there is no such namespace; the message lists those there are.
    pub(crate) fn namespace(&self, nsid: u32) -> Result<NamespaceInfo> {
        let all = self.host.namespaces();
        if let Some(found) = all.iter().find(|ns| ns.nsid == nsid) {
            return Ok(*found);
        }
        let ids: Vec<String> = all.iter().map(|ns| ns.nsid.to_string()).collect();
        match ids.len() {
            0 => bail!("there is no namespace {nsid}: the subsystem has none"),
            _ => bail!("there is no namespace {nsid}; there is {}", ids.join(", ")),
        }
    }
}

/// A request that was answered.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ended {
    pub(crate) token: u64,
    pub(crate) completion: Completion,
}

/// Data of a single command.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Data {
    None,
    /// So many bytes from the controller.
    In(u32),
}
