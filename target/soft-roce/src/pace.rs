//! How fast to send and how long to wait: a congestion window and a retransmission timer.
//!
//! The window grows by one packet for each window acknowledged and is halved by a loss or a
//! congestion mark, at most once a round trip. The timer follows the measured round trip
//! (RFC 6298), doubles while nothing moves, and is bounded on both sides.

use crate::psn::Psn;
use rdma::Now;
use std::time::Duration;

const START_WINDOW: u32 = 64;
const MIN_WINDOW: u32 = 2;
/// Bounds what one connection can have in the network and in the peer's socket buffer.
const MAX_WINDOW: u32 = 512;
const MIN_WAIT: Duration = Duration::from_millis(4);
const FIRST_WAIT: Duration = Duration::from_millis(100);
const MAX_WAIT: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) struct Pace {
    window: u32,
    /// Packets acknowledged since the window last grew.
    credit: u32,
    smoothed: Option<Duration>,
    variation: Duration,
    /// A packet whose round trip is being measured, and when it left.
    sample: Option<(Psn, Now)>,
    /// Timeouts in a row.
    backoff: u32,
    /// When the window was last cut.
    cut_at: Option<Now>,
}

impl Default for Pace {
    fn default() -> Pace {
        Pace {
            window: START_WINDOW,
            credit: 0,
            smoothed: None,
            variation: Duration::ZERO,
            sample: None,
            backoff: 0,
            cut_at: None,
        }
    }
}

impl Pace {
    /// Packets that may be in flight.
    pub(crate) fn window(&self) -> u32 {
        self.window
    }

    /// How long to wait for progress before sending again.
    pub(crate) fn retransmit_after(&self) -> Duration {
        let base = match self.smoothed {
            Some(smoothed) => (smoothed + 4 * self.variation).max(MIN_WAIT),
            None => FIRST_WAIT,
        };
        (base * (1 << self.backoff.min(8))).min(MAX_WAIT)
    }

    /// A packet left for the first time.
    pub(crate) fn on_sent(&mut self, now: Now, psn: Psn) {
        self.sample.get_or_insert((psn, now));
    }

    /// `packets` more packets, up to `psn`, are acknowledged.
    pub(crate) fn on_acked(&mut self, now: Now, psn: Psn, packets: u32) {
        if let Some((sampled, at)) = self.sample
            && !psn.is_before(sampled)
        {
            self.measure(now.saturating_sub(at));
            self.sample = None;
        }
        self.credit += packets;
        if self.credit >= self.window {
            self.credit = 0;
            self.window = (self.window + self.window / 8 + 1).min(MAX_WINDOW);
        }
    }

    /// Something moved.
    pub(crate) fn on_progress(&mut self) {
        self.backoff = 0;
    }

    /// A packet was lost, or the network marked one.
    pub(crate) fn on_loss(&mut self, now: Now) {
        self.sample = None;
        let round_trip = self.smoothed.unwrap_or(FIRST_WAIT);
        if self.cut_at.is_none_or(|at| now.saturating_sub(at) > round_trip) {
            self.window = (self.window / 2).max(MIN_WINDOW);
            self.credit = 0;
            self.cut_at = Some(now);
        }
    }

    /// Nothing moved for the whole wait.
    pub(crate) fn on_timeout(&mut self) {
        self.sample = None;
        self.backoff += 1;
        self.window = (self.window / 2).max(MIN_WINDOW);
        self.credit = 0;
    }

    fn measure(&mut self, round_trip: Duration) {
        match self.smoothed {
            None => {
                self.smoothed = Some(round_trip);
                self.variation = round_trip / 2;
            }
            Some(smoothed) => {
                self.variation = (3 * self.variation + smoothed.abs_diff(round_trip)) / 4;
                self.smoothed = Some((7 * smoothed + round_trip) / 8);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn the_wait_follows_the_round_trip_and_doubles_while_stuck() {
        let mut pace = Pace::default();
        assert_eq!(pace.retransmit_after(), FIRST_WAIT);
        for i in 0..50 {
            pace.on_sent(ms(i * 10), Psn::new(i as u32));
            pace.on_acked(ms(i * 10 + 2), Psn::new(i as u32), 1);
        }
        assert_eq!(pace.retransmit_after(), MIN_WAIT);
        pace.on_timeout();
        pace.on_timeout();
        assert_eq!(pace.retransmit_after(), MIN_WAIT * 4);
        for _ in 0..40 {
            pace.on_timeout();
        }
        assert_eq!(pace.retransmit_after(), MAX_WAIT);
        pace.on_progress();
        assert_eq!(pace.retransmit_after(), MIN_WAIT);
    }

    #[test]
    fn one_loss_halves_the_window_once_a_round_trip() {
        let mut pace = Pace::default();
        pace.on_loss(ms(1000));
        pace.on_loss(ms(1001));
        assert_eq!(pace.window(), START_WINDOW / 2);
        pace.on_loss(ms(1200));
        assert_eq!(pace.window(), START_WINDOW / 4);
        for i in 0..100_000 {
            pace.on_acked(ms(2000), Psn::new(i), 1);
        }
        assert_eq!(pace.window(), MAX_WINDOW);
    }
}
