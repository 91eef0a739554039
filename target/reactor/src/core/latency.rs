//! How long things take, counted in buckets that double.
//!
//! Times come from the turn's one clock read, so nothing shorter than a turn is told apart: what
//! begins and ends in one turn counts as no time. Counting is a subtraction, a shift and two
//! additions.

/// Buckets: below 1 µs (1024 ns exactly), 2 µs and so on to 8 s, and one for all that is longer.
pub const BUCKETS: usize = 25;

/// log2 of the first bucket's bound in nanoseconds.
const FIRST: u32 = 10;

/// A histogram of times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Latency {
    counts: [u64; BUCKETS],
    sum_ns: u64,
}

impl Latency {
    /// Counts a time.
    pub(super) fn count(&mut self, ns: u64) {
        let bucket = (u64::BITS - (ns >> FIRST).leading_zeros()) as usize;
        self.counts[bucket.min(BUCKETS - 1)] += 1;
        self.sum_ns += ns;
    }

    /// Upper bound of each bucket in nanoseconds, not included (none for the last), and how many
    /// times fell into it.
    pub fn buckets(&self) -> impl Iterator<Item = (Option<u64>, u64)> + '_ {
        let bound = |at: usize| (at + 1 < BUCKETS).then(|| 1 << (FIRST as usize + at));
        self.counts.iter().enumerate().map(move |(at, count)| (bound(at), *count))
    }

    /// How many times were counted.
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// All of them together, in nanoseconds.
    pub fn sum_ns(&self) -> u64 {
        self.sum_ns
    }
}

impl std::ops::AddAssign for Latency {
    fn add_assign(&mut self, other: Latency) {
        for (count, more) in self.counts.iter_mut().zip(other.counts) {
            *count += more;
        }
        self.sum_ns += other.sum_ns;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_falls_into_the_bucket_whose_bound_is_the_next_above() {
        for (ns, bound) in [
            (0, Some(1024)),
            (1023, Some(1024)),
            (1024, Some(2048)),
            (5_000_000, Some(8 << 20)),
            (8_000_000_000, Some(1 << 33)),
            (u64::MAX >> 1, None),
        ] {
            let mut latency = Latency::default();
            latency.count(ns);
            let (found, _) = latency.buckets().find(|(_, count)| *count == 1).unwrap();
            assert_eq!(found, bound, "{ns}");
            assert_eq!((latency.total(), latency.sum_ns()), (1, ns));
        }
    }
}
