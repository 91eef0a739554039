//! Times of many operations, as a few numbers.

use serde::Serialize;

/// How long operations took, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub(super) struct Spread {
    /// Half of them were done within this.
    pub(super) p50_ns: u64,
    pub(super) p90_ns: u64,
    pub(super) p99_ns: u64,
    pub(super) max_ns: u64,
}

impl Spread {
    /// Of these times; all zero when there are none.
    pub(super) fn of(mut times: Vec<u64>) -> Spread {
        times.sort_unstable();
        // The least time that so many in a hundred do not exceed.
        let at = |percent: usize| {
            let rank = (times.len() * percent).div_ceil(100);
            times.get(rank.saturating_sub(1)).copied().unwrap_or(0)
        };
        Spread { p50_ns: at(50), p90_ns: at(90), p99_ns: at(99), max_ns: at(100) }
    }

    /// In words.
    pub(super) fn in_words(&self) -> String {
        let [p50, p90, p99, max] = [self.p50_ns, self.p90_ns, self.p99_ns, self.max_ns].map(time);
        format!("half within {p50}, 90 % {p90}, 99 % {p99}, all {max}")
    }
}

/// A time to three digits.
pub(super) fn time(ns: u64) -> String {
    let (value, unit) = match ns {
        0..1_000 => return format!("{ns} ns"),
        1_000..1_000_000 => (ns as f64 / 1e3, "µs"),
        1_000_000..1_000_000_000 => (ns as f64 / 1e6, "ms"),
        _ => (ns as f64 / 1e9, "s"),
    };
    let digits = if value < 10.0 { 2 } else { usize::from(value < 100.0) };
    format!("{value:.digits$} {unit}")
}

/// Bytes a second, as networks are told of: by powers of ten, with bits beside.
pub(super) fn rate(bytes_per_s: u64) -> String {
    let bytes = bytes_per_s as f64;
    let (bytes, unit) = if bytes < 1e9 { (bytes / 1e6, "MB/s") } else { (bytes / 1e9, "GB/s") };
    format!("{bytes:.2} {unit} ({:.2} Gbit/s)", bytes_per_s as f64 * 8.0 / 1e9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_times_that_were_measured() {
        let spread = Spread::of((1..=200).rev().collect());
        let expected = Spread { p50_ns: 100, p90_ns: 180, p99_ns: 198, max_ns: 200 };
        assert_eq!(spread, expected);
        assert_eq!(Spread::of(vec![7]).p50_ns, 7);
        assert_eq!(Spread::of(Vec::new()), Spread::default());
    }

    #[test]
    fn times_and_rates_read_well() {
        let all = [999, 1_234, 45_600, 789_000, 2_500_000, 1_500_000_000].map(time);
        assert_eq!(all, ["999 ns", "1.23 µs", "45.6 µs", "789 µs", "2.50 ms", "1.50 s"]);
        assert_eq!(rate(12_500_000_000), "12.50 GB/s (100.00 Gbit/s)");
        assert_eq!(rate(1_250_000), "1.25 MB/s (0.01 Gbit/s)");
    }
}
