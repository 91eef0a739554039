//! How fast to send and how long to wait: a congestion window and a retransmission timer.
//!
//! The window grows by one packet for each window acknowledged and is halved by a loss or a
//! congestion mark, at most once a round trip. The timer follows the measured round trip
//! (RFC 6298), doubles while nothing moves, and is bounded on both sides.
//!
//! A round trip says little about how long a peer can be silent: its thread waits for a processor now
//! and then, a hundred round trips long. So the lower bound learns. Whoever waited that long sends a
//! probe first. Where the answer shows that the peer was just slow, waits are twice as long from
//! then on, and half as long where it shows that packets were lost.

use crate::psn::Psn;
use rdma::Now;
use std::time::Duration;

const START_WINDOW: u32 = 64;
const MIN_WINDOW: u32 = 2;
/// Bounds what one connection can have in the network and in the peer's socket buffer.
const MAX_WINDOW: u32 = 512;
/// Bounds of the lower bound of a wait.
const MIN_WAIT: Duration = Duration::from_millis(4);
const MAX_PATIENCE: Duration = Duration::from_millis(32);
const FIRST_WAIT: Duration = Duration::from_millis(100);
const MAX_WAIT: Duration = Duration::from_secs(1);

/// What the answer to a probe shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The peer had all that came after the probe.
    All,
    /// There was nothing after the probe, or that is not known yet.
    Probe,
    /// Something is missing that left long before the probe.
    Loss,
}

#[derive(Debug)]
pub(crate) struct Pace {
    window: u32,
    /// Packets acknowledged since the window last grew.
    credit: u32,
    smoothed: Option<Duration>,
    variation: Duration,
    /// A packet whose round trip is being measured, and when it left.
    sample: Option<(Psn, Now)>,
    /// The least wait.
    patience: Duration,
    /// When a probe left that is not answered.
    probed: Option<Now>,
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
            patience: MIN_WAIT,
            probed: None,
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
        let base = self.round_trip_at_most().map_or(FIRST_WAIT, |most| most.max(self.patience));
        (base * (1 << self.backoff.min(8))).min(MAX_WAIT)
    }

    /// What nearly no round trip takes longer than, once one was measured.
    pub(crate) fn round_trip_at_most(&self) -> Option<Duration> {
        self.smoothed.map(|smoothed| smoothed + 4 * self.variation)
    }

    /// Whether something has moved since the last timeout.
    pub(crate) fn is_patient(&self) -> bool {
        self.backoff == 0
    }

    /// The oldest packet was sent again, to see whether it was lost.
    pub(crate) fn on_probe(&mut self, now: Now) {
        self.sample = None;
        self.probed = Some(now);
    }

    /// Something moved after a probe, the first time.
    pub(crate) fn on_answer(&mut self, now: Now, answer: Answer) {
        let Some(at) = self.probed.take() else { return };
        let took = now.saturating_sub(at);
        let no_round_trip = self.smoothed.is_some_and(|smoothed| took < smoothed / 2)
            || self.round_trip_at_most().is_some_and(|most| took > most);
        match answer {
            Answer::Loss => self.patience = (self.patience / 2).max(MIN_WAIT),
            Answer::Probe if !no_round_trip => {}
            Answer::Probe | Answer::All => self.patience = (self.patience * 2).min(MAX_PATIENCE),
        }
    }

    /// What comes next may be the answer to either of two packets, or to one that the peer has put
    /// off: that is no round trip.
    pub(crate) fn stop_measuring(&mut self) {
        self.sample = None;
        self.probed = None;
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
        self.stop_measuring();
        let round_trip = self.smoothed.unwrap_or(FIRST_WAIT);
        if self.cut_at.is_none_or(|at| now.saturating_sub(at) > round_trip) {
            self.window = (self.window / 2).max(MIN_WINDOW);
            self.credit = 0;
            self.cut_at = Some(now);
        }
    }

    /// Nothing moved for the whole wait.
    pub(crate) fn back_off(&mut self) {
        self.backoff += 1;
    }

    /// Nothing moved, and all is taken to be lost.
    pub(crate) fn on_timeout(&mut self) {
        self.stop_measuring();
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
        pace.back_off();
        pace.back_off();
        assert_eq!(pace.retransmit_after(), MIN_WAIT * 4);
        for _ in 0..40 {
            pace.back_off();
        }
        assert_eq!(pace.retransmit_after(), MAX_WAIT);
        pace.on_progress();
        assert_eq!(pace.retransmit_after(), MIN_WAIT);
    }

    #[test]
    fn the_least_wait_doubles_for_a_slow_peer_and_halves_for_a_loss() {
        let mut pace = Pace::default();
        pace.on_sent(ms(0), Psn::new(0));
        pace.on_acked(ms(1), Psn::new(0), 1); // 3 ms at most
        let mut wait = |took: Duration, answer: Answer| {
            pace.on_probe(ms(100));
            pace.on_answer(ms(100) + took, answer);
            pace.on_answer(ms(1000), Answer::All); // of no probe
            pace.retransmit_after()
        };
        assert_eq!(wait(ms(1), Answer::Probe), MIN_WAIT);
        assert_eq!(wait(ms(1), Answer::All), MIN_WAIT * 2);
        assert_eq!(wait(ms(4), Answer::Probe), MIN_WAIT * 4, "it took its time");
        assert_eq!(wait(ms(0), Answer::Probe), MIN_WAIT * 8, "the answer was on its way");
        assert_eq!(wait(ms(0), Answer::Probe), MAX_PATIENCE);
        assert_eq!(wait(ms(1), Answer::Probe), MAX_PATIENCE, "which of the two, nobody knows");
        assert_eq!(wait(ms(4), Answer::Loss), MAX_PATIENCE / 2);
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
