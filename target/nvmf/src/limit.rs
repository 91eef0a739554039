//! Limits on how much a namespace, or a host, is served: commands and bytes a second.
//!
//! # Contract
//! A [`Limit`] is shared by all cores and has no lock. It keeps, for commands and for bytes, the
//! moment up to which what was admitted so far has been used up: each command moves it on by what it
//! costs at the rate. A command is admitted while that moment is no more than the burst ahead of
//! now, and then pays in full, so that a command larger than the burst passes too and those behind it
//! wait the longer for it. A host that was idle finds its burst saved up, and no more.
//!
//! Cores that admit at the same moment may together go over by one command each; it is paid back by
//! what comes after. Who waits, and in which order, is the business of the cores.

use core::time::Duration;
use std::sync::atomic::{AtomicU64, Ordering};

#[cfg(test)]
mod tests;

/// Parts of a nanosecond that costs are counted in: a block at 100 GB a second is 5 ns.
const PARTS: u64 = 16;

/// What a limit allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LimitConfig {
    /// Commands a second; 0 for any number.
    pub iops: u64,
    /// Bytes a second that are read, written, compared or verified; 0 for any number.
    pub bandwidth: u64,
    /// How long an idle namespace or host saves up for: what it may use at once is what the limit
    /// allows in this time.
    pub burst: Duration,
}

/// A limit in force.
#[derive(Debug)]
pub struct Limit {
    config: LimitConfig,
    commands: Bucket,
    bytes: Bucket,
}

/// One rate. In parts of a nanosecond.
#[derive(Debug)]
struct Bucket {
    /// Cost of one unit, times 2^32, so that small costs are not rounded away.
    unit: u128,
    /// Up to when what was admitted is used up.
    used_up: AtomicU64,
}

impl Limit {
    /// A limit of which nothing was used.
    pub fn new(config: LimitConfig) -> Limit {
        Limit { config, commands: Bucket::new(config.iops), bytes: Bucket::new(config.bandwidth) }
    }

    /// What it allows.
    pub fn config(&self) -> LimitConfig {
        self.config
    }

    /// When a command may be admitted: `None` for now.
    pub fn not_before(&self, now: Duration) -> Option<Duration> {
        let latest = parts(now.saturating_add(self.config.burst));
        let used_up = [&self.commands, &self.bytes].map(Bucket::used_up).into_iter().max();
        let over = used_up.unwrap_or(0).saturating_sub(latest);
        (over > 0).then(|| now.saturating_add(Duration::from_nanos(over.div_ceil(PARTS))))
    }

    /// Charges so many commands and bytes, which were admitted at `now`.
    pub fn charge(&self, now: Duration, commands: u64, bytes: u64) {
        let now = parts(now);
        self.commands.charge(now, commands);
        self.bytes.charge(now, bytes);
    }
}

impl Bucket {
    fn new(per_second: u64) -> Bucket {
        let second = (u128::from(PARTS) * 1_000_000_000) << 32;
        let unit = second.checked_div(per_second.into()).unwrap_or(0);
        Bucket { unit, used_up: AtomicU64::new(0) }
    }

    fn used_up(&self) -> u64 {
        self.used_up.load(Ordering::Relaxed)
    }

    fn charge(&self, now: u64, units: u64) {
        let cost = u64::try_from(self.unit.saturating_mul(units.into()) >> 32).unwrap_or(u64::MAX);
        if cost > 0 {
            let paid = |used_up: u64| Some(used_up.max(now).saturating_add(cost));
            // It always updates.
            let _ = self.used_up.fetch_update(Ordering::Relaxed, Ordering::Relaxed, paid);
        }
    }
}

fn parts(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX).saturating_mul(PARTS)
}
