//! The service manager: told when the daemon is ready, when it stops, and that it lives.

use rdma::{CoreIndex, Now};
use sd_notify::NotifyState;
use std::time::Duration;
use tracing::error;

/// How often cores are looked at that have not given their sign of life in time.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// The service manager's end, if the daemon was started by one.
#[derive(Debug)]
pub(crate) struct ServiceManager {
    /// Half of the time after which it would think us dead, and when the next sign is due.
    watchdog: Option<(Duration, Now)>,
    /// Whether it was said that there is none.
    told: bool,
}

impl ServiceManager {
    pub(crate) fn new(now: Now) -> ServiceManager {
        let watchdog = sd_notify::watchdog_enabled().map(|limit| (limit / 2, now));
        ServiceManager { watchdog, told: false }
    }

    pub(crate) fn ready(&self, status: &str) {
        tell(&[NotifyState::Ready, NotifyState::Status(status)]);
    }

    /// Not ready, and why.
    pub(crate) fn waiting(&self, status: &str) {
        tell(&[NotifyState::Status(status)]);
    }

    pub(crate) fn stopping(&self) {
        tell(&[NotifyState::Stopping, NotifyState::Status("ending connections")]);
    }

    /// Gives a sign of life when one is due, if all data cores have given theirs: `silent` are those
    /// that have not. Says whether they are to be asked for the next one.
    pub(crate) fn on_turn(
        &mut self,
        now: Now,
        mut silent: impl Iterator<Item = CoreIndex>,
    ) -> bool {
        let Some((every, due)) = &mut self.watchdog else { return false };
        if *due > now {
            return false;
        }
        if let Some(CoreIndex(core)) = silent.next() {
            *due = now + LOOK_AGAIN.min(*every);
            if !std::mem::replace(&mut self.told, true) {
                error!(core, "a data core hangs: the service manager will end this process");
            }
            return false;
        }
        *due = now + *every;
        self.told = false;
        tell(&[NotifyState::Watchdog]);
        true
    }

    /// When the next sign of life is due.
    pub(crate) fn timeout(&self) -> Option<Now> {
        self.watchdog.map(|(_, due)| due)
    }
}

fn tell(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        tracing::warn!(%error, "cannot reach the service manager");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_no_sign_of_life_while_a_core_is_silent() {
        let second = Duration::from_secs(1);
        let watchdog = Some((15 * second, 100 * second));
        let mut manager = ServiceManager { watchdog, told: false };
        let mut turn = |at: u32, silent: &[u16]| {
            let asks = manager.on_turn(at * second, silent.iter().map(|core| CoreIndex(*core)));
            (asks, manager.timeout().map(|due| due.as_secs()))
        };
        assert_eq!(turn(99, &[]), (false, Some(100)));
        assert_eq!(turn(100, &[]), (true, Some(115)));
        assert_eq!(turn(115, &[2]), (false, Some(116)));
        assert_eq!(turn(116, &[2]), (false, Some(117)));
        assert_eq!(turn(117, &[]), (true, Some(132)));
    }

    #[test]
    fn without_a_watchdog_cores_are_left_alone() {
        let mut manager = ServiceManager { watchdog: None, told: false };
        assert!(!manager.on_turn(Duration::from_secs(9), std::iter::empty()));
        assert_eq!(manager.timeout(), None);
    }
}
