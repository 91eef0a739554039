//! The service manager: told when the daemon is ready, when it stops, and that it lives.

use rdma::Now;
use sd_notify::NotifyState;
use std::time::Duration;

/// The service manager's end, if the daemon was started by one.
#[derive(Debug)]
pub(crate) struct ServiceManager {
    /// Half of the time after which it would think us dead, and when the next sign is due.
    watchdog: Option<(Duration, Now)>,
}

impl ServiceManager {
    pub(crate) fn new(now: Now) -> ServiceManager {
        let watchdog = sd_notify::watchdog_enabled().map(|limit| (limit / 2, now));
        ServiceManager { watchdog }
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

    /// Gives a sign of life when one is due.
    pub(crate) fn on_turn(&mut self, now: Now) {
        if let Some((every, due)) = &mut self.watchdog
            && *due <= now
        {
            *due = now + *every;
            tell(&[NotifyState::Watchdog]);
        }
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
