//! Which content each block may have, by what hosts were told.
//!
//! # The rule
//! A value becomes possible when its write is issued. When a write has succeeded, every value whose
//! own write ended before this one began is impossible: it was overwritten. Values of writes that
//! overlapped it in time stay possible (either may have come last), as do those of failed writes,
//! and those of writes whose connection was lost stay possible for as long as the target may still
//! carry them out. A read may return what was possible at any moment between its issue and its end.
//!
//! After a power cut a block may also hold what was overwritten since it was last made durable: by
//! a flush that began after the overwriting write had ended, or by a write with Force Unit Access.
//!
//! Time here is a count of events, so that "before" is never in doubt.

use crate::pattern::Stamp;
use std::collections::BTreeMap;

/// A moment: the number of an event.
pub type Moment = u64;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Value {
    stamp: Stamp,
    /// The write that put it there; 0 for what was there at the start.
    write: u64,
    /// When its write ended, successfully or not.
    ended: Option<Moment>,
    /// When it was overwritten for certain.
    gone: Option<Moment>,
}

/// The blocks of one namespace.
#[derive(Debug)]
struct Disk {
    blocks: Vec<Vec<Value>>,
    /// Whether overwritten values come back after a power cut.
    volatile: bool,
}

/// A write that has not ended.
#[derive(Debug, Clone)]
struct Write {
    disk: usize,
    /// First block and count, of each range.
    ranges: Vec<(u64, u64)>,
    issued: Moment,
    durable: bool,
    /// Whether its blocks may also keep what they held (Deallocate).
    maybe: bool,
    /// Its host lost the connection: it may happen yet.
    orphan: bool,
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
        let zero = Value { stamp: 0, write: 0, ended: Some(0), gone: None };
        self.disks.push(Disk { blocks: vec![vec![zero]; blocks as usize], volatile });
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
        let value = Value { stamp, write: token, ended: None, gone: None };
        for block in covered(ranges) {
            self.disks[disk].blocks[block].push(value);
        }
        let ranges = ranges.to_vec();
        let write = Write { disk, ranges, issued, durable, maybe, orphan: false };
        self.writes.insert(token, write);
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
                self.disks[write.disk].blocks[block].retain(|value| value.write != token);
            }
            return;
        }
        let volatile = self.disks[write.disk].volatile;
        let overwrites = ending == Ending::Success && !write.maybe;
        for block in covered(&write.ranges) {
            let values = &mut self.disks[write.disk].blocks[block];
            for value in values.iter_mut() {
                if value.write == token {
                    value.ended = Some(now);
                } else if overwrites && value.ended.is_some_and(|ended| ended < write.issued) {
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

    /// Whether `stamp` may be what the read `token` got for a block.
    pub fn may_read(&self, token: u64, disk: usize, lba: u64, stamp: Stamp) -> bool {
        let issued = self.reads.get(&token).copied().unwrap_or(0);
        let values = &self.disks[disk].blocks[lba as usize];
        values.iter().any(|v| v.stamp == stamp && v.gone.is_none_or(|gone| gone > issued))
    }

    /// Whether the read `token` could get nothing but `stamp` for a block.
    pub fn must_read(&self, token: u64, disk: usize, lba: u64, stamp: Stamp) -> bool {
        let issued = self.reads.get(&token).copied().unwrap_or(0);
        let values = &self.disks[disk].blocks[lba as usize];
        values.iter().filter(|v| v.gone.is_none_or(|gone| gone > issued)).all(|v| v.stamp == stamp)
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
    /// may be back. From here on every possible value counts as written.
    pub fn power_was_cut(&mut self) {
        let now = self.tick();
        for disk in self.disks.iter_mut().filter(|disk| disk.volatile) {
            for values in &mut disk.blocks {
                for value in values.iter_mut() {
                    value.gone = None;
                    value.ended.get_or_insert(now);
                }
            }
        }
    }

    fn oldest_read(&self) -> Moment {
        self.reads.values().copied().min().unwrap_or(Moment::MAX)
    }
}

fn covered(ranges: &[(u64, u64)]) -> impl Iterator<Item = usize> + '_ {
    ranges.iter().flat_map(|&(first, count)| first as usize..(first + count) as usize)
}

#[cfg(test)]
mod tests;
