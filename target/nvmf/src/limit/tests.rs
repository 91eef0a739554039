//! What is admitted over time.

use super::*;

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

fn limit(iops: u64, bandwidth: u64, burst: Duration) -> Limit {
    Limit::new(LimitConfig { iops, bandwidth, burst })
}

/// Commands of `bytes` that a greedy host gets through from `from` to `to`.
fn admitted(limit: &Limit, from: Duration, to: Duration, bytes: u64) -> u64 {
    let (mut now, mut count) = (from, 0);
    loop {
        while let Some(at) = limit.not_before(now) {
            assert!(at > now, "the wait ends later");
            now = at;
        }
        if now >= to {
            return count;
        }
        limit.charge(now, 1, bytes);
        count += 1;
    }
}

#[test]
fn commands_come_at_the_rate_after_the_burst() {
    let limit = limit(1000, 0, 100 * MS);
    let first = admitted(&limit, SECOND, 2 * SECOND, 4096);
    assert!((1095..=1105).contains(&first), "{first}");
    let next = admitted(&limit, 2 * SECOND, 3 * SECOND, 4096);
    assert!((995..=1005).contains(&next), "{next}");
}

#[test]
fn bytes_come_at_the_rate_whatever_the_size_of_commands() {
    for size in [512, 4096, 1 << 20] {
        let limit = limit(0, 100_000_000, 10 * MS);
        let bytes = admitted(&limit, SECOND, 11 * SECOND, size) * size;
        assert!((1_000_000_000..1_005_000_000).contains(&bytes), "{bytes} of {size}");
    }
}

#[test]
fn the_lower_of_both_rates_counts() {
    let limit = limit(1000, 4096 * 10, Duration::ZERO);
    assert!(admitted(&limit, SECOND, 2 * SECOND, 4096) <= 11);
    assert!(admitted(&limit, 9 * SECOND, 10 * SECOND, 0) >= 999);
}

#[test]
fn high_rates_are_kept_too() {
    let limit = limit(3_000_000, 0, MS);
    let count = admitted(&limit, SECOND, 2 * SECOND, 0);
    assert!((3_000_000..3_010_000).contains(&count), "{count}");
}

#[test]
fn nothing_more_than_the_burst_is_saved_up() {
    let limit = limit(100, 0, 50 * MS);
    admitted(&limit, SECOND, 2 * SECOND, 0);
    let after_a_rest = admitted(&limit, 3600 * SECOND, 3601 * SECOND, 0);
    assert!((104..=106).contains(&after_a_rest), "{after_a_rest}");
}

#[test]
fn a_command_larger_than_the_burst_passes_and_is_paid_for() {
    let limit = limit(0, 1000, MS);
    assert_eq!(limit.not_before(SECOND), None);
    limit.charge(SECOND, 1, 10_000);
    let at = limit.not_before(SECOND).unwrap();
    assert_eq!(at, 11 * SECOND - MS);
}

#[test]
fn a_rate_of_zero_is_no_limit() {
    let limit = limit(0, 0, Duration::ZERO);
    limit.charge(SECOND, 1, u64::MAX);
    assert_eq!(limit.not_before(SECOND), None);
}
