//! Changes of the configuration while hosts are at work: namespaces come, go, grow, shrink, are
//! protected and move to other backings, and hosts lose and regain their right.
//!
//! A change is made on the control core; it is in force everywhere when each data core has taken
//! the mail that it led to. The model is told of both moments.

use super::plan::{self, VolumePlan};
use super::stage::{Fault, Stage};
use crate::guest::{Ban, Offer, PASSING_NSID, Shared};
use crate::rng::Rng;
use backing::BackingId;
use nvmf::BackingRef;
use nvmf::target::{AllowedHosts, NamespaceConfig};
use rdma::Now;

/// A namespace that comes and goes while hosts use it, and is not in the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Passing {
    Absent,
    Present,
    /// Removed; some core may still use its backing.
    Leaving(BackingId),
}

/// What was changed.
#[derive(Debug, Clone, Copy)]
enum Change {
    /// This one among the offers of a volume, which moved to another backing or not.
    Offer { volume: usize, number: usize, moved: bool },
    /// This one among the bans.
    Ban(usize),
}

/// A change that is not in force on every core for certain.
#[derive(Debug)]
pub(super) struct Settling {
    what: Change,
    /// For each data core, how much mail it must have taken. None until the mail was posted.
    marks: Option<Vec<u64>>,
}

impl Settling {
    /// The mail of all changes so far was posted; `posted` is the count for each core.
    pub(super) fn mail_was_posted(all: &mut [Settling], posted: impl Fn() -> Vec<u64>) {
        for settling in all.iter_mut().filter(|settling| settling.marks.is_none()) {
            settling.marks = Some(posted());
        }
    }

    /// Tells the model of those that are in force; `taken` counts for each core.
    pub(super) fn settle(all: &mut Vec<Settling>, taken: &[u64], shared: &mut Shared) {
        let done = |marks: &Vec<u64>| marks.iter().zip(taken).all(|(mark, taken)| taken >= mark);
        for settled in all.extract_if(.., |settling| settling.marks.as_ref().is_some_and(done)) {
            let now = shared.tick();
            match settled.what {
                Change::Offer { volume, number, moved } => {
                    shared.offers[volume].settle(now, number);
                    if moved {
                        shared.checker.moved(shared.volumes[volume].disk);
                    }
                }
                Change::Ban(at) => shared.bans[at].settled = Some(now),
            }
        }
    }
}

impl Stage {
    /// Something is changed.
    pub(super) fn rebuild(&mut self, now: Now, rng: &mut Rng, shared: &mut Shared) {
        match rng.below(8) {
            0..=1 => self.pass(now, shared),
            2 => self.ban(now, rng, shared),
            _ => {
                let volume = rng.below(shared.volumes.len() as u64) as usize;
                self.change_volume(now, volume, rng, shared);
            }
        }
    }

    /// The passing namespace comes, or goes while hosts use it.
    fn pass(&mut self, now: Now, shared: &mut Shared) {
        let (Some(control), Some(subsystem)) = (self.control.as_mut(), self.subsystem) else {
            return;
        };
        let Some(&(disk, volume)) = self.volumes.last() else { return };
        match self.passing {
            Passing::Absent => {
                let backing = BackingId(self.next_backing);
                self.next_backing += 1;
                control.add_backing(now, backing, disk);
                let config = namespace(PASSING_NSID, backing.0, &volume);
                let added = control.add_namespace(now, subsystem, config);
                added.expect("a namespace that is not there");
                self.passing = Passing::Present;
            }
            Passing::Present => {
                let removed = control.remove_namespace(now, subsystem, PASSING_NSID);
                self.passing = Passing::Leaving(removed.expect("a namespace that is there"));
            }
            Passing::Leaving(_) => return,
        }
        let moment = shared.tick();
        shared.changes.push((moment, PASSING_NSID));
    }

    /// One namespace of the model changes, or comes back.
    fn change_volume(&mut self, now: Now, volume: usize, rng: &mut Rng, shared: &mut Shared) {
        let before = shared.offers[volume].now();
        let full = shared.volumes[volume].blocks;
        let mut after = before;
        match rng.below(5) {
            _ if !before.present => after.present = true,
            0 => after.present = false,
            1 => after.read_only = !before.read_only,
            2 => after.blocks = full,
            _ => after.blocks = rng.range(1, full),
        }
        self.offer(now, volume, after, rng.chance(3_000), shared);
    }

    /// Offers a namespace of the model in another way, on another backing of the same disk or not.
    fn offer(&mut self, now: Now, volume: usize, after: Offer, move_on: bool, shared: &mut Shared) {
        let (Some(control), Some(subsystem)) = (self.control.as_mut(), self.subsystem) else {
            return;
        };
        let before = shared.offers[volume].now();
        let (disk, plan) = self.volumes[volume];
        let nsid = shared.volumes[volume].nsid;
        let moved = after.present && (!before.present || move_on);
        if moved {
            shared.checker.moves(shared.volumes[volume].disk);
            let backing = BackingId(self.next_backing);
            self.next_backing += 1;
            control.add_backing(now, backing, disk);
            self.backings[volume] = backing;
        }
        let plan = VolumePlan { blocks: after.blocks, read_only: after.read_only, ..plan };
        let config = namespace(nsid, self.backings[volume].0, &plan);
        match (before.present, after.present) {
            (true, false) => {
                let removed = control.remove_namespace(now, subsystem, nsid);
                removed.expect("a namespace that is there");
            }
            (false, true) => {
                let added = control.add_namespace(now, subsystem, config);
                added.expect("a namespace that is not there");
            }
            (true, true) if move_on && before.blocks == after.blocks => {
                // Another disk for all that hosts can tell, though it holds the same.
                let uuid = [0x80 | self.next_backing as u8; 16];
                let config = NamespaceConfig { uuid: namesake(uuid, nsid), ..config };
                self.uuids[volume] = Some(config.uuid);
                let replaced = control.replace_namespace(now, subsystem, config);
                replaced.expect("a namespace that is there");
            }
            (true, true) => {
                let uuid = self.uuids[volume].unwrap_or(config.uuid);
                let config = NamespaceConfig { uuid, ..config };
                let updated = control.update_namespace(now, subsystem, config);
                updated.expect("a namespace that is there");
                if before == after && !move_on {
                    return;
                }
            }
            (false, false) => return,
        }
        if !after.present || !before.present {
            self.uuids[volume] = None;
        }
        let moment = shared.tick();
        shared.changes.push((moment, nsid));
        let number = shared.offers[volume].change(moment, after);
        let what = Change::Offer { volume, number, moved };
        self.settling.push(Settling { what, marks: None });
    }

    /// A host may no longer use the subsystem, or may again.
    fn ban(&mut self, now: Now, rng: &mut Rng, shared: &mut Shared) {
        match shared.bans.last() {
            Some(Ban { until: None, .. }) => self.allow_all(now, shared),
            _ if self.guests > 1 => {
                let guest = rng.below(self.guests as u64) as usize;
                let others = (0..self.guests).filter(|&at| at != guest).map(plan::host_name);
                let since = shared.tick();
                shared.bans.push(Ban { guest, since, settled: None, until: None });
                let what = Change::Ban(shared.bans.len() - 1);
                self.settling.push(Settling { what, marks: None });
                if self.fault != Some(Fault::BanIgnored) {
                    self.set_hosts(now, AllowedHosts::Only(others.collect()));
                }
            }
            _ => {}
        }
    }

    fn allow_all(&mut self, now: Now, shared: &mut Shared) {
        if lift(shared) {
            self.set_hosts(now, AllowedHosts::Any);
        }
    }

    fn set_hosts(&mut self, now: Now, hosts: AllowedHosts) {
        let (Some(control), Some(subsystem)) = (self.control.as_mut(), self.subsystem) else {
            return;
        };
        control.set_hosts(now, subsystem, hosts).expect("names of hosts");
    }

    /// What comes and goes, goes; everything else is as it was planned.
    pub(super) fn begin_calm(&mut self, now: Now, shared: &mut Shared) {
        if self.passing == Passing::Present {
            self.pass(now, shared);
        }
        self.allow_all(now, shared);
        for volume in 0..shared.volumes.len() {
            let planned = planned(&self.volumes[volume].1);
            if shared.offers[volume].now() != planned {
                self.offer(now, volume, planned, false, shared);
            }
        }
    }

    /// Whether nothing is on its way out, and everything is in force.
    pub(super) fn is_built(&self) -> bool {
        self.passing == Passing::Absent && self.settling.is_empty()
    }

    /// The target is configured as planned, whatever an earlier one was.
    pub(super) fn forget_changes(&mut self, shared: &mut Shared) {
        self.passing = Passing::Absent;
        self.settling.clear();
        self.backings = (0..self.volumes.len() as u32).map(BackingId).collect();
        self.uuids = vec![None; self.volumes.len()];
        self.next_backing = self.volumes.len() as u32;
        lift(shared);
        for (offers, (_, plan)) in shared.offers.iter_mut().zip(&self.volumes) {
            shared.moment += 1;
            let number = offers.change(shared.moment, planned(plan));
            offers.settle(shared.moment, number);
        }
    }
}

/// Says that nobody is kept out any more, and whether that is new.
fn lift(shared: &mut Shared) -> bool {
    let now = shared.tick();
    let ban = shared.bans.last_mut().filter(|ban| ban.until.is_none());
    ban.map(|ban| ban.until = Some(now)).is_some()
}

/// A UUID of that look for a namespace.
fn namesake(mut uuid: [u8; 16], nsid: u32) -> [u8; 16] {
    uuid[..4].copy_from_slice(&nsid.to_be_bytes());
    uuid
}

/// What a plan offers.
pub(super) fn planned(plan: &VolumePlan) -> Offer {
    Offer { present: true, blocks: plan.blocks, read_only: plan.read_only }
}

/// The namespace of a plan, for the target.
pub(super) fn namespace(nsid: u32, backing: u32, volume: &VolumePlan) -> NamespaceConfig {
    NamespaceConfig {
        nsid,
        backing: BackingRef(backing),
        lba_shift: volume.lba_shift,
        block_count: volume.blocks,
        read_only: volume.read_only,
        uuid: [nsid as u8; 16],
        nguid: [0; 16],
        eui64: [0; 8],
        volatile_cache: volume.volatile,
        discard: true,
        discard_zeroes: volume.discard_zeroes,
        atomic_blocks: 0,
        optimal_blocks: 0,
    }
}
