//! Which content each block may have, by what hosts were told.
//!
//! # The rule
//! A value becomes possible when its write is issued. When a write has succeeded, every value whose
//! own write ended before this one began is impossible: it was overwritten. Values of writes that
//! overlapped it in time stay possible (either may have come last), as do those of failed writes,
//! and those of writes whose connection was lost stay possible for as long as the target may still
//! carry them out. A read may return what was possible at any moment between its issue and its end.
//!
//! A copy is a write of whatever its source was possible to hold at any moment while it was under
//! way, block by block: it promises no atomicity. What becomes possible in a source meanwhile becomes
//! possible in its destination.
//!
//! A fused pair leaves no room between what it compared with and what it wrote. When the one value
//! that it can have found had ended before another write began, that write came after the pair, also
//! where the two overlapped in time: so the pair's value is overwritten when both have succeeded.
//! That is not so while the namespace moves: a pair has its blocks for itself on one backing, and the
//! disk is under two. (A daemon opens no disk twice; simulated disks are, since it is harder.)
//!
//! After a power cut a block may also hold what was overwritten since it was last made durable: by
//! a flush that began after the overwriting write had ended, or by a write with Force Unit Access.
//!
//! Time here is a count of events, so that "before" is never in doubt.

use crate::pattern::{Content, Stamp};
use std::collections::BTreeMap;

/// A moment: the number of an event.
pub type Moment = u64;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Value {
    content: Content,
    /// The write that put it there; 0 for what was there at the start.
    write: u64,
    /// When that was issued.
    issued: Moment,
    /// When its write ended, successfully or not.
    ended: Option<Moment>,
    /// Whether its write was carried out for certain.
    done: bool,
    /// Of a fused pair: when the write had ended of what it replaced, with nothing in between.
    replaced: Option<Moment>,
    /// When it was overwritten for certain.
    gone: Option<Moment>,
}

impl Value {
    /// Whether a write that was issued then came later in the block, if it was carried out.
    fn precedes(&self, issued: Moment) -> bool {
        let before = |ended: Option<Moment>| ended.is_some_and(|ended| ended < issued);
        before(self.ended) || self.ended.is_some() && before(self.replaced)
    }
}

/// The blocks of one namespace.
#[derive(Debug)]
struct Disk {
    blocks: Vec<Vec<Value>>,
    /// How many copies to each block were ever issued.
    copied: Vec<u32>,
    /// Whether overwritten values come back after a power cut.
    volatile: bool,
    /// Moves to other backings that are not in force everywhere.
    moving: u32,
    /// When the last one was.
    moved: Moment,
}

/// A run of blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// The checker's number of the disk.
    pub disk: usize,
    /// First block.
    pub first: u64,
    /// Blocks.
    pub count: u64,
}

/// A write that has not ended.
#[derive(Debug, Clone)]
struct Write {
    disk: usize,
    /// First block and count, of each range.
    ranges: Vec<(u64, u64)>,
    /// Of a copy: where its one range comes from, one run after the other.
    sources: Vec<Run>,
    issued: Moment,
    durable: bool,
    /// Whether its blocks may also keep what they held (Deallocate).
    maybe: bool,
    /// Its host lost the connection: it may happen yet.
    orphan: bool,
}

impl Write {
    /// The blocks that a copy makes of this one.
    fn copies_of(&self, disk: usize, block: u64) -> impl Iterator<Item = u64> + '_ {
        let mut to = self.ranges.first().map_or(0, |range| range.0);
        self.sources.iter().filter_map(move |run| {
            let from = to;
            to += run.count;
            let inside = run.disk == disk && (run.first..run.first + run.count).contains(&block);
            inside.then(|| from + (block - run.first))
        })
    }
}

/// The model of all namespaces. See the [module](self).
#[derive(Debug, Default)]
pub struct Checker {
    now: Moment,
    disks: Vec<Disk>,
    writes: BTreeMap<u64, Write>,
    /// Issue of each read and flush that has not ended, by token.
    reads: BTreeMap<u64, Moment>,
}

/// How a write ended, for its host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// Done.
    Success,
    /// Failed: some of its blocks may have changed, none will change later.
    Failure,
    /// Nothing of it happened or will.
    Refused,
    /// The connection was lost: it may yet happen.
    Unknown,
}

impl Checker {
    /// No namespaces.
    pub fn new() -> Checker {
        Checker::default()
    }

    /// Adds a namespace of `blocks` zeroed blocks.
    pub fn add_disk(&mut self, blocks: u64, volatile: bool) -> usize {
        let zero = Value {
            content: Content::ZERO,
            write: 0,
            issued: 0,
            ended: Some(0),
            done: true,
            replaced: None,
            gone: None,
        };
        let copied = vec![0; blocks as usize];
        let blocks = vec![vec![zero]; blocks as usize];
        self.disks.push(Disk { blocks, copied, volatile, moving: 0, moved: 0 });
        self.disks.len() - 1
    }

    fn tick(&mut self) -> Moment {
        self.now += 1;
        self.now
    }

    /// A write of `stamp` (0: zeroes) to `ranges` is issued; `token` is its name, above 0.
    pub fn write(
        &mut self,
        token: u64,
        disk: usize,
        ranges: &[(u64, u64)],
        stamp: Stamp,
        durable: bool,
        maybe: bool,
    ) {
        let issued = self.tick();
        for block in covered(ranges) {
            self.may_become(disk, block, Content::new(stamp, disk, block), token, issued);
        }
        let (ranges, sources) = (ranges.to_vec(), Vec::new());
        let write = Write { disk, ranges, sources, issued, durable, maybe, orphan: false };
        self.writes.insert(token, write);
    }

    /// A copy of `sources`, one after the other, to the blocks from `first` on is issued.
    pub fn copy(&mut self, token: u64, disk: usize, first: u64, sources: &[Run], durable: bool) {
        let issued = self.tick();
        let count = sources.iter().map(|run| run.count).sum();
        let (ranges, sources) = (vec![(first, count)], sources.to_vec());
        let write = Write {
            disk,
            ranges,
            sources: sources.clone(),
            issued,
            durable,
            maybe: false,
            orphan: false,
        };
        self.writes.insert(token, write);
        for block in first..first + count {
            self.disks[disk].copied[block as usize] += 1;
        }
        let from = sources.iter().flat_map(|run| {
            (run.first..run.first + run.count).map(|block| (run.disk, block as usize))
        });
        for ((from, block), to) in from.zip(first..) {
            for content in self.possible(from, block) {
                self.may_become(disk, to, content, token, issued);
            }
        }
    }

    /// A value becomes possible, and with it those of the copies that are reading the block.
    fn may_become(
        &mut self,
        disk: usize,
        block: u64,
        content: Content,
        write: u64,
        issued: Moment,
    ) {
        let values = &mut self.disks[disk].blocks[block as usize];
        if values.iter().any(|value| value.write == write && value.content == content) {
            return;
        }
        let (ended, done, replaced, gone) = (None, false, None, None);
        values.push(Value { content, write, issued, ended, done, replaced, gone });
        let reading = self.writes.iter().flat_map(|(&token, copy)| {
            copy.copies_of(disk, block).map(move |to| (copy.disk, to, token, copy.issued))
        });
        for (disk, to, token, issued) in reading.collect::<Vec<_>>() {
            self.may_become(disk, to, content, token, issued);
        }
    }

    /// What a block may hold now.
    fn possible(&self, disk: usize, block: usize) -> Vec<Content> {
        let values = self.disks[disk].blocks[block].iter();
        values.filter(|value| value.gone.is_none()).map(|value| value.content).collect()
    }

    /// The latest of what a block may hold.
    pub fn guess(&self, disk: usize, lba: u64) -> Content {
        self.possible(disk, lba as usize).last().copied().unwrap_or(Content::ZERO)
    }

    /// How many copies to a block were ever issued.
    pub fn copies_to(&self, disk: usize, lba: u64) -> u32 {
        self.disks[disk].copied[lba as usize]
    }

    /// A disk goes to another backing.
    pub fn moves(&mut self, disk: usize) {
        self.disks[disk].moving += 1;
    }

    /// A move of a disk is in force everywhere.
    pub fn moved(&mut self, disk: usize) {
        self.disks[disk].moved = self.tick();
        self.disks[disk].moving -= 1;
    }

    /// Whether a disk has been under one backing since the read `token` was issued.
    pub fn stayed_since(&self, token: u64, disk: usize) -> bool {
        let Disk { moving, moved, .. } = self.disks[disk];
        moving == 0 && self.reads.get(&token).is_some_and(|&issued| issued > moved)
    }

    /// The Compare `first` of a fused pair, whose Write is `second`, found `content` in a block: says
    /// so before its [`end`](Self::end).
    pub fn compared(&mut self, first: u64, second: u64, disk: usize, lba: u64, content: Content) {
        if !self.stayed_since(first, disk) {
            return;
        }
        let issued = self.reads.get(&first).copied().unwrap_or(0);
        let Disk { blocks, moved, .. } = &mut self.disks[disk];
        let values = &mut blocks[lba as usize];
        let mut found = values
            .iter()
            .filter(|v| v.content == content && v.gone.is_none_or(|gone| gone > issued));
        // Of two writes of the same content it cannot be told which one it was.
        if let (Some(&Value { ended: Some(ended), .. }), None) = (found.next(), found.next()) {
            let written = values.iter_mut().filter(|value| value.write == second);
            // A write that began before the move may have gone to the other backing.
            written.for_each(|value| value.replaced = Some(ended.max(*moved)));
        }
    }

    /// A write has ended.
    pub fn write_ended(&mut self, token: u64, ending: Ending) {
        let now = self.tick();
        let oldest = self.oldest_read();
        if ending == Ending::Unknown {
            if let Some(write) = self.writes.get_mut(&token) {
                write.orphan = true;
            }
            return;
        }
        let Some(write) = self.writes.remove(&token) else { return };
        if ending == Ending::Refused {
            for block in covered(&write.ranges) {
                let values = &mut self.disks[write.disk].blocks[block as usize];
                values.retain(|value| value.write != token);
            }
            return;
        }
        let volatile = self.disks[write.disk].volatile;
        let overwrites = ending == Ending::Success && !write.maybe;
        for block in covered(&write.ranges) {
            let values = &mut self.disks[write.disk].blocks[block as usize];
            for value in values.iter_mut().filter(|value| value.write == token) {
                value.ended = Some(now);
                value.done = overwrites;
                value.replaced.take_if(|_| !overwrites);
            }
            // The latest issue among other writes that were carried out for certain.
            let others = values.iter().filter(|value| value.write != token && value.done);
            let last = others.map(|value| value.issued).max();
            for value in values.iter_mut() {
                let overwritten = match value.write == token {
                    true => last.is_some_and(|issued| value.precedes(issued)),
                    false => overwrites && value.precedes(write.issued),
                };
                if overwritten {
                    value.gone.get_or_insert(now);
                }
            }
            // What nobody can see any more is forgotten. A durable write keeps the cache from giving
            // back what ended before it began; a value that overlapped it may be younger, and have
            // been flushed before a later write took its place.
            let in_cache = |v: &Value| {
                let older = v.ended.is_some_and(|ended| ended < write.issued);
                volatile && !(write.durable && overwrites && older)
            };
            values.retain(|v| in_cache(v) || v.gone.is_none_or(|gone| gone >= oldest));
        }
    }

    /// Writes whose connection was lost will not happen any more.
    pub fn orphans_are_over(&mut self) {
        let orphans = self.writes.iter().filter(|(_, w)| w.orphan).map(|(&token, _)| token);
        for token in orphans.collect::<Vec<_>>() {
            self.write_ended(token, Ending::Failure);
        }
    }

    /// Writes whose connection was lost and that may yet happen.
    pub fn orphans(&self) -> usize {
        self.writes.values().filter(|w| w.orphan).count()
    }

    /// A read, compare or flush is issued.
    pub fn begin(&mut self, token: u64) {
        let now = self.tick();
        self.reads.insert(token, now);
    }

    /// It has ended without a result to check.
    pub fn end(&mut self, token: u64) {
        self.tick();
        self.reads.remove(&token);
    }

    /// Whether `content` may be what the read `token` got for a block.
    pub fn may_read(&self, token: u64, disk: usize, lba: u64, content: Content) -> bool {
        self.seen_by(token, disk, lba).any(|value| value.content == content)
    }

    /// Whether the read `token` could get nothing but `content` for a block.
    pub fn must_read(&self, token: u64, disk: usize, lba: u64, content: Content) -> bool {
        self.seen_by(token, disk, lba).all(|value| value.content == content)
    }

    fn seen_by(&self, token: u64, disk: usize, lba: u64) -> impl Iterator<Item = &Value> {
        let issued = self.reads.get(&token).copied().unwrap_or(0);
        let values = self.disks[disk].blocks[lba as usize].iter();
        values.filter(move |value| value.gone.is_none_or(|gone| gone > issued))
    }

    /// What a block may hold now, in words.
    pub fn describe(&self, disk: usize, lba: u64) -> String {
        format!("{:?}", self.disks[disk].blocks[lba as usize])
    }

    /// A flush of these namespaces succeeded.
    pub fn flushed(&mut self, token: u64, disks: &[usize]) {
        let issued = self.reads.get(&token).copied().unwrap_or(0);
        self.end(token);
        let oldest = self.oldest_read();
        for &disk in disks {
            if !self.disks[disk].volatile {
                continue;
            }
            for values in &mut self.disks[disk].blocks {
                values.retain(|v| v.gone.is_none_or(|gone| gone > issued || gone >= oldest));
            }
        }
    }

    /// Power was cut while nothing was in flight: what was overwritten and not made durable since
    /// may be back. From here on every possible value counts as written, and just now.
    pub fn power_was_cut(&mut self) {
        let now = self.tick();
        for disk in &mut self.disks {
            (disk.moving, disk.moved) = (0, now);
            for value in disk.blocks.iter_mut().flatten() {
                if disk.volatile {
                    value.gone = None;
                }
                value.ended = Some(now);
                value.replaced = None;
            }
        }
    }

    fn oldest_read(&self) -> Moment {
        self.reads.values().copied().min().unwrap_or(Moment::MAX)
    }
}

fn covered(ranges: &[(u64, u64)]) -> impl Iterator<Item = u64> + '_ {
    ranges.iter().flat_map(|&(first, count)| first..first + count)
}

#[cfg(test)]
mod tests;
