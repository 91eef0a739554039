//! Keeps one noisy host from filling the log.

use rdma::Now;
use std::time::Duration;

/// Lines that may come at once: one for each queue of a large host.
const BURST: u32 = 256;
/// How long until one more line may come.
const REFILL: Duration = Duration::from_millis(100);

/// A token bucket for log lines of one kind.
#[derive(Debug)]
pub(super) struct LogLimit {
    tokens: u32,
    refilled: Now,
    dropped: u64,
}

impl LogLimit {
    pub(super) fn new() -> LogLimit {
        LogLimit { tokens: BURST, refilled: Duration::ZERO, dropped: 0 }
    }

    /// Whether a line may be written now; if so, how many were dropped since the last one.
    pub(super) fn allow(&mut self, now: Now) -> Option<u64> {
        let due = now.saturating_sub(self.refilled).as_millis() / REFILL.as_millis();
        if due > 0 {
            self.tokens = self.tokens.saturating_add(due.min(u128::from(BURST)) as u32).min(BURST);
            self.refilled = now;
        }
        if self.tokens == 0 {
            self.dropped += 1;
            return None;
        }
        self.tokens -= 1;
        Some(std::mem::take(&mut self.dropped))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_passes_and_the_rest_is_counted() {
        let mut limit = LogLimit::new();
        for _ in 0..BURST {
            assert_eq!(limit.allow(Duration::ZERO), Some(0));
        }
        assert_eq!(limit.allow(Duration::ZERO), None);
        assert_eq!(limit.allow(Duration::ZERO), None);
        assert_eq!(limit.allow(REFILL), Some(2));
        assert_eq!(limit.allow(REFILL), None);
    }

    #[test]
    fn time_gives_back_no_more_than_a_burst() {
        let mut limit = LogLimit::new();
        let late = Duration::from_secs(1_000_000);
        for _ in 0..BURST {
            assert_eq!(limit.allow(late), Some(0));
        }
        assert_eq!(limit.allow(late), None);
    }
}
