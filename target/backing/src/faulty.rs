//! Faults on purpose: any [`BlockIo`] with delays, reordering, errors, torn writes and a stop.
//!
//! For fault drills and tests. All chance comes from one seed and all time from the caller, so
//! the same requests at the same times meet the same faults. Data is never made wrong silently:
//! what is reported done was done, in whole, by the wrapped engine.

#[cfg(test)]
mod tests;

use crate::{BackingId, BlockIo, IoDone, IoError, IoOp, IoRequest};
use region::{PAGE_SIZE, Span};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::num::NonZeroU32;
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// Which operations a rule is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// All of them.
    All,
    /// Read.
    Reads,
    /// Write, Write Zeroes and Deallocate.
    Writes,
    /// Flush.
    Flushes,
}

impl Class {
    fn holds(self, op: IoOp) -> bool {
        match self {
            Class::All => true,
            Class::Reads => op == IoOp::Read,
            Class::Writes => !matches!(op, IoOp::Read | IoOp::Flush),
            Class::Flushes => op == IoOp::Flush,
        }
    }
}

/// Which of a rule's operations fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// The n-th, the 2n-th and so on, counted from when the faults were set.
    EveryNth(NonZeroU32),
    /// One in so many, by chance.
    OneIn(NonZeroU32),
    /// Those that touch this range, in bytes. A Flush touches none.
    Range {
        /// Its start.
        offset: u64,
        /// Its length.
        len: u64,
    },
}

/// Makes some operations fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ErrorRule {
    /// Among these operations,
    pub class: Class,
    /// these ones
    pub when: When,
    /// end so.
    pub error: IoError,
    /// A Write that fails is carried out on its first half, cut to 4096 bytes; else a failing
    /// operation has no effect.
    pub torn: bool,
}

/// What happens to the operations of one backing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Faults {
    /// Each takes at least so long,
    pub delay: Duration,
    /// and up to so much longer, by chance: completions overtake each other.
    pub jitter: Duration,
    /// The first rule that matches decides. At most a handful: all are tried for each operation.
    pub rules: Vec<ErrorRule>,
}

/// An engine with faults. See the module's description.
#[derive(Debug)]
pub struct Faulty<B> {
    inner: B,
    rng: u64,
    plans: BTreeMap<BackingId, Plan>,
    /// Operations that the caller waits for, by the tag the inner engine knows them under.
    /// As many as the caller keeps in flight.
    pending: Vec<Option<Pending>>,
    free: Vec<usize>,
    /// Ended inside, not yet due: by time, then in order of ending.
    late: BinaryHeap<Reverse<(Duration, u64, usize)>>,
    sequence: u64,
    scratch: Vec<IoDone>,
}

#[derive(Debug, Default)]
struct Plan {
    faults: Faults,
    /// Operations seen by each rule.
    seen: Vec<u32>,
    stuck: bool,
    /// Taken while stuck, in order.
    held: Vec<IoRequest>,
}

#[derive(Debug)]
struct Pending {
    tag: u64,
    due: Duration,
    /// Reported instead of what the inner engine says.
    error: Option<IoError>,
    result: Result<(), IoError>,
}

impl<B: BlockIo> Faulty<B> {
    /// Wraps `inner`; without faults until some are set. `seed` decides what chance does.
    pub fn new(inner: B, seed: u64) -> Faulty<B> {
        Faulty {
            inner,
            rng: seed,
            plans: BTreeMap::new(),
            pending: Vec::new(),
            free: Vec::new(),
            late: BinaryHeap::new(),
            sequence: 0,
            scratch: Vec::new(),
        }
    }

    /// Sets what happens to a backing's operations from now on.
    pub fn set(&mut self, id: BackingId, faults: Faults) {
        let plan = self.plans.entry(id).or_default();
        plan.seen = vec![0; faults.rules.len()];
        plan.faults = faults;
    }

    /// Stops a backing: no operation taken from now on begins, let alone ends.
    pub fn stick(&mut self, id: BackingId) {
        self.plans.entry(id).or_default().stuck = true;
    }

    /// Lets a stopped backing go on, with all that it was given meanwhile, in order. The caller
    /// flushes afterwards.
    pub fn release(&mut self, now: Duration, id: BackingId) {
        let Some(plan) = self.plans.get_mut(&id) else { return };
        plan.stuck = false;
        for request in std::mem::take(&mut plan.held) {
            self.submit(now, request);
        }
    }

    /// The engine inside.
    pub fn inner(&self) -> &B {
        &self.inner
    }

    /// The engine inside. Operations given to it directly would be mistaken for our own.
    pub fn inner_mut(&mut self) -> &mut B {
        &mut self.inner
    }

    /// A number below `n` (0 for 0), the next of the seed's sequence (splitmix64).
    fn chance(&mut self, n: u64) -> u64 {
        self.rng = self.rng.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.rng;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)).checked_rem(n).unwrap_or(0)
    }

    /// The rule that makes this operation fail, if any does.
    fn failing(&mut self, request: &IoRequest) -> Option<ErrorRule> {
        let rules = self.plans.get(&request.backing)?.faults.rules.len();
        (0..rules).find_map(|i| {
            let plan = self.plans.get_mut(&request.backing)?;
            let rule = plan.faults.rules[i];
            if !rule.class.holds(request.op) {
                return None;
            }
            plan.seen[i] = plan.seen[i].wrapping_add(1);
            let fails = match rule.when {
                When::EveryNth(n) => plan.seen[i].is_multiple_of(n.get()),
                When::OneIn(n) => self.chance(n.get().into()) == 0,
                When::Range { offset, len } => {
                    request.op != IoOp::Flush
                        && request.offset < offset.saturating_add(len)
                        && offset < request.offset.saturating_add(request.len)
                }
            };
            fails.then_some(rule)
        })
    }

    fn due(&mut self, now: Duration, id: BackingId) -> Duration {
        let Some(plan) = self.plans.get(&id) else { return Duration::ZERO };
        let (delay, jitter) = (plan.faults.delay, plan.faults.jitter);
        if delay + jitter == Duration::ZERO {
            return Duration::ZERO;
        }
        let extra = self.chance(u64::try_from(jitter.as_nanos()).unwrap_or(u64::MAX));
        now + delay + Duration::from_nanos(extra)
    }

    fn keep(&mut self, pending: Pending) -> usize {
        match self.free.pop() {
            Some(index) => {
                self.pending[index] = Some(pending);
                index
            }
            None => {
                self.pending.push(Some(pending));
                self.pending.len() - 1
            }
        }
    }

    /// An operation has ended inside: it is reported when it is due.
    fn ended(&mut self, index: usize, result: Result<(), IoError>) {
        let pending = self.pending[index].as_mut().expect("an operation that we gave inside");
        pending.result = pending.error.map_or(result, Err);
        self.late.push(Reverse((pending.due, self.sequence, index)));
        self.sequence += 1;
    }
}

impl<B: BlockIo> BlockIo for Faulty<B> {
    type Backing = B::Backing;

    fn add(&mut self, id: BackingId, backing: Self::Backing) {
        self.inner.add(id, backing);
    }

    fn remove(&mut self, id: BackingId) {
        self.plans.remove(&id);
        self.inner.remove(id);
    }

    fn submit(&mut self, now: Duration, request: IoRequest) {
        if let Some(plan) = self.plans.get_mut(&request.backing).filter(|plan| plan.stuck) {
            plan.held.push(request);
            return;
        }
        let rule = self.failing(&request);
        let due = self.due(now, request.backing);
        let error = rule.map(|rule| rule.error);
        let index = self.keep(Pending { tag: request.tag, due, error, result: Ok(()) });
        let request = IoRequest { tag: index as u64, ..request };
        match rule.map(|rule| first_half(&request).filter(|_| rule.torn)) {
            None => self.inner.submit(now, request),
            Some(Some(half)) => self.inner.submit(now, half),
            Some(None) => self.ended(index, Ok(())),
        }
    }

    fn flush(&mut self, now: Duration) {
        self.inner.flush(now);
    }

    fn poll(&mut self, now: Duration, out: &mut Vec<IoDone>) -> usize {
        let mut scratch = std::mem::take(&mut self.scratch);
        self.inner.poll(now, &mut scratch);
        for done in scratch.drain(..) {
            self.ended(done.tag as usize, done.result);
        }
        self.scratch = scratch;
        let before = out.len();
        while let Some(Reverse((due, _, index))) = self.late.peek().copied() {
            if due > now {
                break;
            }
            self.late.pop();
            let pending = self.pending[index].take().expect("ends once");
            self.free.push(index);
            out.push(IoDone { tag: pending.tag, result: pending.result });
        }
        out.len() - before
    }

    fn in_flight(&self) -> usize {
        let held: usize = self.plans.values().map(|plan| plan.held.len()).sum();
        self.pending.len() - self.free.len() + held
    }

    fn arm(&mut self) {
        self.inner.arm();
    }

    fn wait_source(&self) -> Option<BorrowedFd<'_>> {
        self.inner.wait_source()
    }

    fn timeout(&self) -> Option<Duration> {
        let late = self.late.peek().map(|Reverse((due, ..))| *due);
        [late, self.inner.timeout()].into_iter().flatten().min()
    }
}

/// The part of a write that a torn one carries out, if there is one.
fn first_half(request: &IoRequest) -> Option<IoRequest> {
    let len = request.len / 2 / PAGE_SIZE as u64 * PAGE_SIZE as u64;
    if !matches!(request.op, IoOp::Write { .. }) || len == 0 {
        return None;
    }
    let buffer: Span = request.buffer.slice(0, len as u32);
    Some(IoRequest { len, buffer, ..*request })
}
