//! A well-behaved host and what it asks for. Everything it is told is checked.

mod ask;
mod copy;
mod features;
mod judge;
mod news;
mod offer;
mod pair;

pub use offer::{Moment, Offer, Offers};

use crate::checker::{Checker, Ending};
use crate::net::{SimCm, SimDevice};
use crate::pattern::Content;
use crate::rng::Rng;
use features::{Feature, Features};
use initiator::{Goodbye, Host, HostEvent, HostState, Lost, RESET, SHUT_DOWN};
use news::News;
use nvme_spec_types::{Completion, StatusCode};
use rdma::Now;
use region::Span;
use std::collections::BTreeMap;
use std::time::Duration;

/// The namespace that comes and goes, and is not in the model.
pub const PASSING_NSID: u32 = 50;

/// What stays of a namespace of the model.
#[derive(Debug, Clone, Copy)]
pub struct Volume {
    /// Its id.
    pub nsid: u32,
    /// The checker's number.
    pub disk: usize,
    /// Its full size in blocks.
    pub blocks: u64,
    /// log2 of the block size.
    pub lba_shift: u8,
}

/// A guest that may not use the subsystem.
#[derive(Debug, Clone, Copy)]
pub struct Ban {
    /// Its number.
    pub guest: usize,
    /// From then on.
    pub since: Moment,
    /// When the last core had heard of it.
    pub settled: Option<Moment>,
    /// Until it was lifted.
    pub until: Option<Moment>,
}

/// What guests share.
#[derive(Debug)]
pub struct Shared {
    /// The model.
    pub checker: Checker,
    /// Namespaces of the subsystem, by rising nsid.
    pub volumes: Vec<Volume>,
    /// How each is offered.
    pub offers: Vec<Offers>,
    /// When which namespace came, went or changed.
    pub changes: Vec<(Moment, u32)>,
    /// How often pairs took away which content, by disk and block.
    pub taken: BTreeMap<(usize, u64, Content), u32>,
    /// Who may or might not use the subsystem, and from when to when.
    pub bans: Vec<Ban>,
    /// Whether nothing but the configuration costs a guest its connections.
    pub steady: bool,
    /// Events so far.
    pub moment: Moment,
    /// Names requests, from 1; also stamps writes.
    pub next_token: u64,
    /// Whether disks may fail now or could when requests still outstanding were made.
    pub disk_faults: bool,
    /// Requests that ended, by success and failure, and those lost.
    pub ended: [u64; 3],
    /// What went wrong.
    pub violations: Vec<String>,
}

impl Shared {
    fn violation(&mut self, what: String) {
        self.violations.push(what);
    }

    /// One event more.
    pub fn tick(&mut self) -> Moment {
        self.moment += 1;
        self.moment
    }

    /// The disks, by the checker's numbers, that were offered all the time since then: what is asked
    /// of all namespaces is done to those.
    fn there_since(&self, issued: Moment) -> Vec<usize> {
        let there = |(_, offers): &(_, &Offers)| offers.since(issued).all(|offer| offer.present);
        let all = self.volumes.iter().zip(&self.offers).filter(there);
        all.map(|(volume, _)| volume.disk).collect()
    }

    fn token(&mut self) -> u64 {
        self.next_token += 1;
        self.next_token
    }
}

#[derive(Debug, Clone)]
enum Kind {
    Write,
    Read,
    /// With what it compares to, block by block.
    Compare(Vec<Content>),
    /// The Compare of a fused pair: with what it compares to, and the token of its Write.
    First {
        expected: Vec<Content>,
        second: u64,
    },
    /// The Write of a fused pair.
    Second {
        /// Whether its Compare has found them equal, once that has ended.
        compared: Option<bool>,
        /// What it takes away when it succeeds, block by block.
        takes: Vec<Content>,
    },
    Verify,
    /// From these sources.
    Copy(Vec<Source>),
    WriteZeroes,
    Deallocate,
    Flush,
    /// Of every namespace that is there.
    FlushAll,
    /// Must end with this status.
    Wrong(StatusCode),
    /// Of the command with this token.
    Abort(u64),
    Admin,
    Feature(Feature),
    /// Enables the copy formats that need it.
    EnableFormats,
    /// Reads which namespaces changed.
    Changed,
    /// On the namespace that comes and goes: any answer will do, but there must be one.
    Passing,
}

impl Kind {
    /// Whether it goes to one namespace of the model.
    fn is_on_volume(&self) -> bool {
        let others = matches!(self, Kind::Passing | Kind::FlushAll | Kind::Abort(_));
        !others && !self.is_admin()
    }

    /// Whether it goes to the admin queue.
    fn is_admin(&self) -> bool {
        let set_up = matches!(self, Kind::Feature(_) | Kind::EnableFormats);
        set_up || matches!(self, Kind::Abort(_) | Kind::Admin | Kind::Changed)
    }

    /// Whether it changes blocks, and so needs a namespace that may be written.
    fn writes(&self) -> bool {
        let zeroes = matches!(self, Kind::WriteZeroes | Kind::Deallocate);
        zeroes || matches!(self, Kind::Write | Kind::Second { .. } | Kind::Copy(_))
    }
}

/// Blocks that a Copy reads.
#[derive(Debug, Clone, Copy)]
struct Source {
    volume: usize,
    lba: u64,
    blocks: u64,
}

#[derive(Debug)]
struct Op {
    kind: Kind,
    volume: usize,
    lba: u64,
    blocks: u64,
    spans: Vec<Span>,
    cid: u16,
    qid: u16,
    issued: Moment,
    /// An abort of it was asked for.
    abort_asked: bool,
    /// The target said that it was aborted.
    abort_claimed: bool,
}

/// How a guest behaves.
#[derive(Debug, Clone)]
pub struct GuestConfig {
    /// Requests to make in all.
    pub budget: u32,
    /// Most requests outstanding.
    pub depth: usize,
    /// Largest data transfer in blocks.
    pub max_blocks: u64,
    /// Chances per 10,000 turns: leave the controller, fall silent.
    pub leave: u32,
    /// See `leave`.
    pub silence: u32,
    /// The same of a reset of the controller, after which it goes on.
    pub reset: u32,
    /// Whether keys are to be invalidated by the target.
    pub invalidate: bool,
    /// Silence after which its controller must be lost, if it asked for a keep alive timer.
    pub silence_limit: Option<Duration>,
}

/// See the [module](self).
pub struct Guest {
    /// The host.
    pub host: Host<SimCm, SimDevice>,
    /// Its name in traces.
    pub name: String,
    number: usize,
    config: GuestConfig,
    rng: Rng,
    /// When its controller, or its attempt to get one, began.
    trying_since: Moment,
    /// When its controller came into use.
    live_since: Moment,
    news: News,
    ops: BTreeMap<u64, Op>,
    /// It does not move from the one to the other.
    silent_until: Option<(Now, Now)>,
    /// No new requests.
    pub quiet: bool,
    /// Why it last lost a controller, for traces.
    pub last_loss: String,
    /// What is still to be read at the end: volume and block.
    sweep: Option<(usize, u64)>,
    /// The flush that a shutdown under way is, to the checker, and when it was asked for.
    shutdown: Option<(u64, Moment)>,
    features: Features,
    /// Whether its controller takes sources in other namespaces: it was asked to, and said yes.
    formats_enabled: bool,
}

impl Guest {
    /// A guest that is not connected.
    pub fn new(
        number: usize,
        host: Host<SimCm, SimDevice>,
        config: GuestConfig,
        rng: Rng,
    ) -> Guest {
        Guest {
            host,
            name: format!("host {number}"),
            number,
            trying_since: 0,
            live_since: 0,
            news: News::default(),
            config,
            rng,
            ops: BTreeMap::new(),
            silent_until: None,
            quiet: false,
            last_loss: String::new(),
            sweep: None,
            shutdown: None,
            features: Features::default(),
            formats_enabled: false,
        }
    }

    /// Whether it has nothing left to ask for and nothing outstanding.
    pub fn is_done(&self) -> bool {
        self.ops.is_empty()
            && self.sweep.is_none()
            && (self.config.budget == 0 || self.quiet)
            && self.silent_until.is_none()
    }

    /// Requests outstanding.
    pub fn outstanding(&self) -> usize {
        self.ops.len()
    }

    /// Whether blocks are left to be read.
    pub fn is_sweeping(&self) -> bool {
        self.sweep.is_some()
    }

    /// Begins to read every block.
    pub fn begin_sweep(&mut self) {
        self.sweep = Some((0, 0));
    }

    /// Ends misbehaviour of its own.
    pub fn calm(&mut self) {
        self.config.leave = 0;
        self.config.silence = 0;
        self.config.reset = 0;
        self.silent_until = None;
    }

    /// When it wants a turn.
    pub fn timeout(&self) -> Option<Now> {
        match self.silent_until {
            Some((_, until)) => Some(until),
            None => self.host.timeout(),
        }
    }

    /// One turn.
    pub fn turn(&mut self, now: Now, shared: &mut Shared) -> bool {
        let mut too_long = false;
        if let Some((since, until)) = self.silent_until {
            if now < until {
                return false;
            }
            self.silent_until = None;
            let limit = self.config.silence_limit;
            too_long = limit.is_some_and(|limit| now - since > limit);
        }
        let trying = |state| {
            matches!(state, HostState::Connecting(_) | HostState::Resetting(_) | HostState::Live)
        };
        if !trying(self.host.state()) {
            self.trying_since = shared.tick();
        }
        let mut worked = self.host.turn(now);
        if too_long && self.host.state() == HostState::Live {
            shared.violation(format!("{}: kept alive through a long silence", self.name));
        }
        while let Some(event) = self.host.poll_event() {
            worked = true;
            self.on_event(event, shared);
        }
        match self.host.state() {
            HostState::Off(None) if !self.quiet => {
                self.host.connect(now);
                worked = true;
            }
            HostState::Live => worked |= self.ask(now, shared),
            _ => {}
        }
        worked
    }

    fn ask(&mut self, now: Now, shared: &mut Shared) -> bool {
        if self.read_news(shared) {
            return true;
        }
        if let Some((volume, lba)) = self.sweep {
            return self.sweep_on(volume, lba, shared);
        }
        if self.quiet || self.config.budget == 0 {
            return false;
        }
        if self.rng.chance(self.config.leave) {
            let goodbye = [Goodbye::Shutdown, Goodbye::Disable, Goodbye::Abrupt];
            let goodbye = *self.rng.pick(&goodbye);
            if goodbye == Goodbye::Shutdown {
                let token = shared.token();
                shared.checker.begin(token);
                self.shutdown = Some((token, shared.tick()));
            }
            self.host.leave(now, goodbye);
            return true;
        }
        if self.rng.chance(self.config.reset) {
            self.trying_since = shared.tick();
            self.host.reset(now);
            return true;
        }
        if self.rng.chance(self.config.silence) {
            let until = now + Duration::from_millis(self.rng.range(1, 30_000));
            self.silent_until = Some((now, until));
            return true;
        }
        let mut worked = false;
        while self.ops.len() < self.config.depth && self.config.budget > 0 {
            if !self.request(shared) {
                break;
            }
            self.config.budget -= 1;
            worked = true;
            if self.rng.chance(3_000) {
                break;
            }
        }
        worked
    }

    /// Reads on from a block, as many at a time as it likes.
    fn sweep_on(&mut self, volume: usize, lba: u64, shared: &mut Shared) -> bool {
        let Some(&vol) = shared.volumes.get(volume) else {
            if self.ops.is_empty() {
                self.sweep = None;
            }
            return false;
        };
        if self.ops.len() >= 4 {
            return false;
        }
        let most = self.host.info().max_transfer.unwrap_or(1 << 16) >> vol.lba_shift;
        let blocks = (vol.blocks - lba).min(u64::from(most)).min(128);
        if !self.transfer(shared, Kind::Read, volume, lba, blocks) {
            return false;
        }
        let next = lba + blocks;
        self.sweep = Some(if next == vol.blocks { (volume + 1, 0) } else { (volume, next) });
        true
    }

    fn on_event(&mut self, event: HostEvent, shared: &mut Shared) {
        match event {
            HostEvent::Done { token, result, .. } => self.on_done(token, result, shared),
            HostEvent::Violation(qid, violation) => {
                shared.violation(format!("{} queue {qid}: {violation}", self.name));
            }
            HostEvent::Live => {
                self.check_admission(shared);
                self.check_namespaces(shared);
                self.live_since = shared.tick();
                self.features = Features::default();
                self.formats_enabled = false;
                self.news.begin(self.trying_since, self.live_since);
            }
            HostEvent::Down(reason) => {
                if reason != RESET {
                    self.check_loss(&reason, shared);
                }
                self.news.end();
                // A shutdown that is complete has made everything durable that is there.
                match self.shutdown.take() {
                    Some((token, issued)) if reason == SHUT_DOWN => {
                        let disks = shared.there_since(issued);
                        shared.checker.flushed(token, &disks);
                    }
                    Some((token, _)) => shared.checker.end(token),
                    None => {}
                }
                self.last_loss = reason;
            }
            HostEvent::Async(dw0) => self.news.on_event(dw0),
            HostEvent::Off => {}
        }
    }

    fn on_done(&mut self, token: u64, result: Result<Completion, Lost>, shared: &mut Shared) {
        let Some(op) = self.ops.remove(&token) else {
            return shared.violation(format!("{}: request {token} ended twice", self.name));
        };
        match result {
            Err(Lost) => {
                shared.ended[2] += 1;
                shared.checker.write_ended(token, Ending::Unknown);
                shared.checker.end(token);
            }
            Ok(completion) => {
                let code = completion.status.code;
                shared.ended[usize::from(!code.is_success())] += 1;
                if let Err(what) = self.check(token, &op, &completion, shared) {
                    let (lba, blocks, kind) = (op.lba, op.blocks, &op.kind);
                    shared.violation(format!(
                        "{}: {kind:?} {token} of {blocks} blocks at {lba} on queue {}: {what}",
                        self.name, op.qid
                    ));
                }
            }
        }
        self.free(op.spans);
    }
}
