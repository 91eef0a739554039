//! Keep Alive: a host that is silent for too long is gone.
//!
//! Any capsule counts as a sign of life (traffic based keep alive, NVMe Base 2.1, 3.9.4.2), so the
//! timer runs from the latest of the last Keep Alive command and what the queues last heard.
//! Queues only note the time; the target looks when the timer would have run out, and then either
//! ends the controller or sets the timer anew.
//!
//! A host that waits for a shutdown sends nothing, and the timer does not run then (NVMe Base 2.1,
//! 3.9.4): while flushes are under way for a controller, the time passes for nobody.

use super::controller::{Controller, ControllerKey, Kind};
use super::{Target, TargetAction};
use core::time::Duration;

/// Granularity of keep-alive timeouts in units of 100 ms (KAS).
pub(super) const KAS: u16 = 1;
/// The same in milliseconds.
pub(super) const STEP_MS: u32 = KAS as u32 * 100;

/// How long a host without a keep-alive timer may be silent once its last I/O queue was lost.
const LOST_HOST: Duration = Duration::from_secs(30);

/// How long a host without a keep-alive timer may ask a discovery controller nothing (NVMe Base
/// 2.1, 3.1.3.3.2): it came for the log and is not meant to stay.
const IDLE_DISCOVERY: Duration = Duration::from_secs(120);

/// A controller's keep-alive timer.
#[derive(Debug, Default)]
pub(super) struct KeepAlive {
    /// Milliseconds; 0 for no timer. A multiple of [`STEP_MS`] (or the largest number).
    pub(super) kato_ms: u32,
    /// When the controller began or the last Keep Alive command came.
    pub(super) last: Duration,
    /// When an I/O queue was last lost: ended without a Disconnect command. Forgotten when the host
    /// does something about its queues after that.
    pub(super) lost_queue: Option<Duration>,
    /// The controller's entry among the deadlines.
    pub(super) check_at: Option<Duration>,
}

/// The timeout as it is kept: rounded up to the granularity.
pub(super) fn rounded(kato_ms: u32) -> u32 {
    kato_ms.checked_next_multiple_of(STEP_MS).unwrap_or(u32::MAX)
}

impl Target {
    /// Time has passed: ends the controllers whose hosts have been silent for longer than they
    /// said they would.
    pub fn on_time(&mut self, now: Duration, out: &mut Vec<TargetAction>) {
        while let Some(&(at, key)) = self.deadlines.first()
            && at <= now
        {
            self.deadlines.pop_first();
            let waits = self.flushes.values().any(|flush| flush.key == key);
            let controller = self.controllers.get_mut(&key);
            let Some(controller) = controller else { continue };
            controller.keep_alive.check_at = None;
            if waits {
                controller.keep_alive.last = now;
            }
            let kato_ms = controller.keep_alive.kato_ms;
            let discovery = controller.kind == Kind::Discovery;
            if self.expiry(key).is_some_and(|expiry| expiry <= now) {
                let reason = match kato_ms {
                    0 if discovery => "nothing asked of discovery for two minutes".to_owned(),
                    0 => "the host's I/O queues were lost, and it has been silent since".to_owned(),
                    _ => format!("keep alive: nothing heard from the host for {kato_ms} ms"),
                };
                self.keep_alive_expiries += 1;
                self.end_controller(key, &reason, out);
            } else {
                self.arm_keep_alive(key);
            }
        }
    }

    /// Starts or restarts a controller's timer with this timeout.
    pub(super) fn set_kato(&mut self, now: Duration, key: ControllerKey, kato_ms: u32) {
        if let Some(controller) = self.controllers.get_mut(&key) {
            controller.keep_alive.kato_ms = rounded(kato_ms);
            controller.keep_alive.last = now;
            self.arm_keep_alive(key);
        }
    }

    /// An I/O queue ended without a Disconnect command. A host that set no timer may have vanished:
    /// nothing else would ever tell.
    pub(super) fn on_queue_lost(&mut self, now: Duration, key: ControllerKey) {
        if let Some(controller) = self.controllers.get_mut(&key) {
            controller.keep_alive.lost_queue = Some(now);
            self.arm_keep_alive(key);
        }
    }

    /// The host gave an I/O queue back, or connected one: it has not vanished with those that were
    /// lost before.
    pub(super) fn on_queue_managed(&mut self, key: ControllerKey) {
        if let Some(controller) = self.controllers.get_mut(&key) {
            controller.keep_alive.lost_queue = None;
            self.arm_keep_alive(key);
        }
    }

    /// Puts the controller's next look among the deadlines, in place of the one before.
    fn arm_keep_alive(&mut self, key: ControllerKey) {
        let at = self.expiry(key);
        let Some(controller) = self.controllers.get_mut(&key) else { return };
        if let Some(old) = std::mem::replace(&mut controller.keep_alive.check_at, at) {
            self.deadlines.remove(&(old, key));
        }
        if let Some(at) = at {
            self.deadlines.insert((at, key));
        }
    }

    /// When the controller's timer runs out if nothing more is heard; none without a timer.
    fn expiry(&self, key: ControllerKey) -> Option<Duration> {
        let controller = self.controllers.get(&key)?;
        let kato_ms = controller.keep_alive.kato_ms;
        if kato_ms != 0 {
            return Some(self.last_heard(controller) + Duration::from_millis(kato_ms.into()));
        }
        if controller.kind == Kind::Discovery {
            return Some(self.last_heard(controller) + IDLE_DISCOVERY);
        }
        let lost = controller.keep_alive.lost_queue?;
        let alone = controller.io_queues.is_empty();
        alone.then(|| self.last_heard(controller).max(lost) + LOST_HOST)
    }

    /// When the host last gave a sign of life.
    pub(super) fn last_heard(&self, controller: &Controller) -> Duration {
        let queues = controller.queues().filter_map(|queue| self.queues.get(&queue));
        queues
            .map(|queue| queue.info.activity.last())
            .fold(controller.keep_alive.last, Duration::max)
    }
}

#[cfg(test)]
mod tests;
