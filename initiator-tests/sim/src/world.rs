//! The production reactor between simulated hosts and disks, turn by turn.
//!
//! # The run of a seed
//! 1. *Storm*: hosts work, disks and network misbehave, connections are cut, namespaces and the right
//!    to use them change, threads get their turns in any order and mail between them is late.
//! 2. In some seeds, a *power cut*: the target is gone with all it held in memory, disks lose what
//!    was not durable, and a new target is started on them.
//! 3. *Calm*: faults stop. Everything outstanding must end within a bound, every host has been told
//!    of every change, and one reads every block of every namespace.
//! 4. *End*: hosts leave, the target stops; nothing may be left: no queue pair, buffer, receive,
//!    key, message or operation.
//!
//! Time is simulated: it creeps while somebody has work and jumps to the next event when nobody has.

mod changes;
mod plan;
mod stage;
#[cfg(test)]
mod tests;

pub use plan::Plan;
pub use stage::Fault;

use crate::checker::Checker;
use crate::disk::Disks;
use crate::guest::{Guest, Shared};
use crate::hostile::Hostile;
use crate::knocker::Knocker;
use crate::net::Fabric;
use crate::rng::Rng;
use initiator::{Goodbye, HostState};
use stage::Stage;
use std::collections::BTreeMap;
use std::time::Duration;

/// What a run came to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Report {
    /// Turns given.
    pub steps: u64,
    /// Simulated time.
    pub elapsed: Duration,
    /// Requests that succeeded, failed and were lost.
    pub requests: [u64; 3],
    /// Controllers that came into use.
    pub connects: u64,
}

/// Turns in a storm at most, unless the caller says otherwise.
pub const STORM_STEPS: u64 = 6_000;
/// Turns that calm and end may take: far more than they need.
const CALM_STEPS: u64 = 100_000;
/// Simulated time that calm and end may take. A stuck operation takes ten seconds.
const CALM_TIME: Duration = Duration::from_secs(180);

/// See the [module](self).
pub struct World {
    plan: Plan,
    rng: Rng,
    fabric: Fabric,
    disks: Disks,
    stage: Stage,
    guests: Vec<Guest>,
    hostiles: Vec<Hostile>,
    knocker: Knocker,
    shared: Shared,
    now: Duration,
    steps: u64,
    /// Turns in a row in which nobody had anything to do.
    idle: u32,
    storm: bool,
    trace: bool,
}

impl World {
    /// The world of a seed, with a fault planted or not.
    pub fn new(seed: u64, fault: Option<Fault>, trace: bool) -> World {
        let mut rng = Rng::new(seed);
        let plan = Plan::draw(&mut rng);
        if trace {
            println_trace(&format!("{plan:#?}"));
        }
        let fabric = Fabric::new(plan.net.clone(), rng.fork());
        let disks = Disks::new(plan.disk.clone(), rng.fork());
        let mut shared = Shared {
            checker: Checker::new(),
            volumes: Vec::new(),
            offers: Vec::new(),
            changes: Vec::new(),
            taken: BTreeMap::new(),
            bans: Vec::new(),
            steady: plan.steady,
            moment: 0,
            next_token: 0,
            disk_faults: plan.disk.fault + plan.disk.busy > 0,
            ended: [0; 3],
            violations: Vec::new(),
        };
        let stage = Stage::new(&plan, &fabric, &disks, &mut shared, fault);
        let guests =
            (0..plan.guests.len()).map(|at| plan::guest(&plan, at, &fabric, rng.fork())).collect();
        let hostiles =
            (0..plan.hostiles).map(|at| plan::hostile(&plan, at, &fabric, rng.fork())).collect();
        let knocker = plan::knocker(&plan, &fabric, rng.fork());
        World {
            plan,
            rng,
            fabric,
            disks,
            stage,
            guests,
            hostiles,
            knocker,
            shared,
            now: Duration::from_secs(1),
            steps: 0,
            idle: 0,
            storm: true,
            trace,
        }
    }

    /// Runs it to its end.
    ///
    /// # Errors
    /// The first thing that went wrong, in words.
    pub fn run(mut self, storm_steps: u64) -> Result<Report, String> {
        self.stage.start(self.now, &mut self.shared)?;
        let limit = self.steps + storm_steps;
        while self.steps < limit && !self.storm_is_over() {
            self.step()?;
        }
        if self.plan.power_cut {
            self.cut_power()?;
        }
        self.calm()?;
        let connects = self.guests.iter().map(|guest| guest.host.stats().connects).sum();
        let elapsed = self.now;
        self.end()?;
        Ok(Report { steps: self.steps, elapsed, requests: self.shared.ended, connects })
    }

    fn storm_is_over(&self) -> bool {
        self.guests.iter().all(Guest::is_done) && self.hostiles.iter().all(Hostile::is_done)
    }

    /// One turn of somebody.
    fn step(&mut self) -> Result<(), String> {
        self.steps += 1;
        self.now += Duration::from_nanos(self.rng.below(2_000));
        let mut worked = self.fabric.advance(self.now);
        if self.storm {
            self.mischief();
        }
        let cores = self.stage.cores();
        let actors = cores + self.guests.len() + self.hostiles.len() + 1;
        let actor = self.rng.below(actors as u64) as usize;
        worked |= self.turn(actor)?;
        self.check()?;
        self.idle = if worked { 0 } else { self.idle + 1 };
        if self.idle as usize > actors {
            self.sweep()?;
        }
        Ok(())
    }

    fn turn(&mut self, actor: usize) -> Result<bool, String> {
        let cores = self.stage.cores();
        if actor < cores {
            return self.stage.turn(self.now, actor, &mut self.rng, &mut self.shared);
        }
        let actor = actor - cores;
        if let Some(guest) = self.guests.get_mut(actor) {
            return Ok(guest.turn(self.now, &mut self.shared));
        }
        Ok(match self.hostiles.get_mut(actor - self.guests.len()) {
            Some(hostile) => hostile.turn(self.now),
            None => self.knocker.turn(self.now),
        })
    }

    /// Gives everybody a turn; if nobody had use for it, time jumps to the next event.
    fn sweep(&mut self) -> Result<(), String> {
        self.idle = 0;
        let cores = self.stage.cores();
        for actor in 0..cores + self.guests.len() + self.hostiles.len() + 1 {
            if self.turn(actor)? {
                return Ok(());
            }
        }
        let guests = self.guests.iter().filter_map(Guest::timeout);
        let hostiles = self.hostiles.iter().filter_map(|hostile| hostile.host.timeout());
        let next = [self.fabric.next_event(), self.stage.timeout()]
            .into_iter()
            .flatten()
            .chain(guests)
            .chain(hostiles)
            .min();
        match next {
            Some(at) => {
                self.now = self.now.max(at);
                Ok(())
            }
            None if self.quiet() => Ok(()),
            None => Err(self.stalled("nothing will ever happen")),
        }
    }

    /// Whether nobody waits for anything.
    fn quiet(&self) -> bool {
        self.guests.iter().all(|guest| guest.outstanding() == 0)
    }

    fn stalled(&self, why: &str) -> String {
        let waiting: Vec<String> = self
            .guests
            .iter()
            .map(|g| {
                let (state, left) = (g.host.state(), g.outstanding());
                format!("{}: {state:?}, {left} requests, last lost by {}", g.name, g.last_loss)
            })
            .collect();
        format!("{why} after {} turns and {:?}: {waiting:?}", self.steps, self.now)
    }

    /// The first violation that anybody noticed.
    fn check(&mut self) -> Result<(), String> {
        if let Some(what) = self.fabric.violation() {
            return Err(format!("network: {what}"));
        }
        if let Some(what) = self.disks.violation() {
            return Err(format!("disk: {what}"));
        }
        match self.shared.violations.first() {
            Some(what) => Err(what.clone()),
            None => Ok(()),
        }
    }

    /// What befalls connections and namespaces.
    fn mischief(&mut self) {
        if self.rng.chance(self.plan.rebuild) {
            self.stage.rebuild(self.now, &mut self.rng, &mut self.shared);
        }
        if self.rng.chance(self.plan.cut) {
            let live = self.fabric.live_connections();
            if !live.is_empty() {
                let conn = *self.rng.pick(&live);
                self.fabric.cut(conn);
            }
        }
    }

    /// Steps until `done` holds.
    fn run_until(&mut self, what: &str, done: impl Fn(&World) -> bool) -> Result<(), String> {
        let (steps, time) = (self.steps + CALM_STEPS, self.now + CALM_TIME);
        while !done(self) {
            self.step()?;
            if self.steps > steps || self.now > time {
                return Err(self.stalled(&format!("{what} takes too long")));
            }
        }
        Ok(())
    }

    /// The target loses power and is started anew.
    fn cut_power(&mut self) -> Result<(), String> {
        self.say("power cut");
        self.shared.steady = false;
        for guest in &mut self.guests {
            guest.quiet = true;
            guest.calm();
            guest.host.set_reconnect_delay(None);
        }
        for hostile in &mut self.hostiles {
            hostile.quiet = true;
            hostile.host.set_reconnect_delay(None);
        }
        self.knocker.leave(self.now);
        self.stage.power_off(&self.fabric);
        self.disks.cut_power();
        let off = |state| matches!(state, HostState::Off(None));
        for guest in &mut self.guests {
            guest.host.leave(self.now, Goodbye::Abrupt);
        }
        for hostile in &mut self.hostiles {
            hostile.host.leave(self.now, Goodbye::Abrupt);
        }
        self.run_until("noticing the power cut", |world| {
            world.guests.iter().all(|guest| off(guest.host.state()))
                && world.hostiles.iter().all(|hostile| off(hostile.host.state()))
        })?;
        self.shared.checker.orphans_are_over();
        self.shared.checker.power_was_cut();
        self.stage.power_on(&self.plan, &self.fabric, &self.disks, &self.shared)?;
        self.stage.start(self.now, &mut self.shared)
    }

    /// Faults stop; everything outstanding ends; every block is read.
    fn calm(&mut self) -> Result<(), String> {
        self.say("calm");
        self.storm = false;
        self.fabric.calm();
        self.disks.calm();
        for guest in &mut self.guests {
            guest.quiet = true;
            guest.calm();
        }
        for hostile in &mut self.hostiles {
            hostile.quiet = true;
            hostile.host.leave(self.now, Goodbye::Abrupt);
        }
        self.knocker.leave(self.now);
        self.stage.begin_calm(self.now, &mut self.shared);
        self.run_until("finishing what is outstanding", |world| {
            world.guests.iter().all(|guest| guest.outstanding() == 0)
                && world.disks.in_flight() == 0
                && world.knocker.is_gone()
                && world.stage.is_built()
                && world.guests.iter().all(|guest| guest.is_informed(&world.shared))
        })?;
        self.shared.disk_faults = false;
        let reader = &mut self.guests[0];
        reader.quiet = false;
        reader.host.set_reconnect_delay(Some(Duration::from_millis(1)));
        reader.begin_sweep();
        self.run_until("reading every block", |world| {
            let reader = &world.guests[0];
            !reader.is_sweeping() && reader.outstanding() == 0
        })
    }

    /// Everybody leaves, and nothing is left.
    fn end(&mut self) -> Result<(), String> {
        self.say("end");
        self.shared.steady = false;
        for guest in &mut self.guests {
            guest.quiet = true;
            guest.host.set_reconnect_delay(None);
            let goodbye = *self.rng.pick(&[Goodbye::Shutdown, Goodbye::Disable, Goodbye::Abrupt]);
            guest.host.leave(self.now, goodbye);
        }
        let stop_first = self.rng.chance(3_000);
        if stop_first {
            self.stage.stop(self.now);
        }
        let off = |state| matches!(state, HostState::Off(None));
        self.run_until("leaving", |world| {
            world.guests.iter().all(|guest| off(guest.host.state()))
                && world.hostiles.iter().all(|hostile| off(hostile.host.state()))
                && world.stage.is_empty()
        })?;
        self.stage.nothing_is_left()?;
        let mut left = Vec::new();
        let mut count = |what: &str, n: usize| {
            if n != 0 {
                left.push(format!("{n} {what}"));
            }
        };
        count("queue pairs", self.fabric.queue_pairs());
        count("open keys", self.fabric.open_keys());
        count("completions", self.fabric.completions_waiting());
        count("disk operations", self.disks.in_flight());
        for guest in &mut self.guests {
            count("bytes of a host's memory", guest.host.arena().used() as usize);
        }
        if left.is_empty() { Ok(()) } else { Err(format!("left at the end: {left:?}")) }
    }

    fn say(&self, what: &str) {
        if self.trace {
            println_trace(&format!("[{:?}, turn {}] {what}", self.now, self.steps));
        }
    }
}

#[allow(clippy::print_stdout)] // a trace is for whoever replays a seed
fn println_trace(line: &str) {
    println!("{line}");
}
