//! A running daemon: signals, the service manager, and the order of a graceful end.

use crate::notify::ServiceManager;
use crate::operator::{Desk, Ids};
use crate::signals::Signals;
use backing::{Backing, BlockIo};
use rdma::{ConnectionManager, Device, Now};
use reactor::control::{Control, ControlEvent, ListenerState, ListenerStatus};
use reactor::run::{Flow, Hooks};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tracing::{info, warn};

/// How long after being asked to stop the daemon is gone, whatever its disks do: below the ten
/// seconds that operators and service managers are promised.
pub(super) const STOP_WITHIN: Duration = Duration::from_secs(9);

/// What looks after the control side of a running daemon.
pub(super) struct Daemon {
    signals: Signals,
    manager: ServiceManager,
    start: Start,
    stop_by: Option<Now>,
    desk: Desk,
    ids: Arc<Ids>,
    /// Wakes the operator to read the configuration again.
    reload: Arc<Notify>,
}

/// How far the daemon is in letting hosts come.
#[derive(Debug, PartialEq, Eq)]
enum Start {
    /// Nothing was looked at.
    First,
    /// No listener is up, as their addresses are not there; that was said.
    Waiting,
    /// At least one was up, which was said.
    Ready,
    /// None came up, for these reasons.
    Failed(String),
}

impl Daemon {
    /// `desk` is where orders come in, `ids` are the numbers of disks, and `reload` wakes whoever
    /// reads the configuration again.
    pub(super) fn new(
        signals: Signals,
        now: Now,
        desk: Desk,
        ids: Arc<Ids>,
        reload: Arc<Notify>,
    ) -> Daemon {
        let manager = ServiceManager::new(now);
        Daemon { signals, manager, start: Start::First, stop_by: None, desk, ids, reload }
    }

    /// When the process must be gone, if it was asked to stop.
    pub(super) fn stop_by(&self) -> Option<Now> {
        self.stop_by
    }

    /// Why no host could ever come, if that is why the daemon leaves.
    pub(super) fn failure(&self) -> Option<&str> {
        match &self.start {
            Start::Failed(why) => Some(why),
            _ => None,
        }
    }

    /// Looks whether hosts can come, until they can.
    fn look_at_listeners<'a>(&mut self, listeners: impl Iterator<Item = &'a ListenerStatus>) {
        let found = Found::of(listeners);
        let next = found.next();
        match &next {
            Start::Ready => {
                let up = found.up.join(", ");
                if found.down.is_empty() {
                    info!(addresses = %up, "ready");
                } else {
                    let down = found.down.join(", ");
                    warn!(addresses = %up, not_listening = %down, "ready");
                }
                self.manager.ready(&format!("serving on {up}"));
            }
            Start::Waiting if self.start == Start::First => {
                let addresses = found.down.join(", ");
                warn!(%addresses, "not ready: no listening address is there, waiting for one");
                self.manager.waiting(&format!("waiting for {addresses}"));
            }
            _ => {}
        }
        self.start = next;
    }
}

/// What the listeners are doing.
#[derive(Debug, Default)]
struct Found {
    up: Vec<String>,
    down: Vec<String>,
    /// Of those that are down for another reason than that their address is not there.
    faults: Vec<String>,
}

impl Found {
    fn of<'a>(listeners: impl Iterator<Item = &'a ListenerStatus>) -> Found {
        let mut found = Found::default();
        for ListenerStatus { address, state, .. } in listeners {
            match state {
                ListenerState::Up { .. } => found.up.push(address.to_string()),
                ListenerState::Starting | ListenerState::Down { absent: true, .. } => {
                    found.down.push(address.to_string());
                }
                ListenerState::Down { reason, absent: false } => {
                    found.down.push(address.to_string());
                    found.faults.push(format!("{address}: {reason}"));
                }
            }
        }
        found
    }

    fn next(&self) -> Start {
        match (self.up.is_empty(), self.faults.is_empty()) {
            (false, _) => Start::Ready,
            (true, true) => Start::Waiting,
            (true, false) => Start::Failed(self.faults.join("; ")),
        }
    }
}

impl<C, D, B> Hooks<C, D, B> for Daemon
where
    C: ConnectionManager,
    D: Device<Endpoint = C::Endpoint>,
    B: BlockIo<Backing = Arc<Backing>>,
{
    fn on_turn(&mut self, now: Now, control: &mut Control<C, D, B>) -> Flow {
        // The first turn has taken in what the listeners had to say.
        if self.start != Start::Ready {
            self.look_at_listeners(control.listeners());
            if self.failure().is_some() {
                return Flow::Leave;
            }
        }
        if self.manager.on_turn(now, control.silent_cores()) {
            control.call_roll(now);
        }
        if self.signals.take_reload() {
            self.signals.drain();
            self.reload.notify_one();
        }
        if self.stop_by.is_none() {
            self.desk.serve(now, control);
        }
        if self.stop_by.is_none() && self.signals.stop() {
            self.signals.drain();
            self.stop_by = Some(now + STOP_WITHIN);
            info!("asked to stop");
            self.manager.stopping();
            control.begin_stop(now);
        }
        while let Some(event) = control.next_event() {
            match event {
                ControlEvent::Drained => {
                    info!("all queues have drained");
                    return Flow::Leave;
                }
                ControlEvent::DrainTimedOut(_) => return Flow::Leave,
                ControlEvent::BackingRemoved(id) => self.ids.give_back(id),
            }
        }
        Flow::Continue
    }

    fn wait_sources<'a>(&'a self, out: &mut Vec<BorrowedFd<'a>>) {
        out.push(self.signals.wait_source());
        out.push(self.desk.wait_source());
    }

    fn timeout(&self) -> Option<Now> {
        self.manager.timeout()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(states: &[ListenerState]) -> Start {
        let statuses: Vec<_> = states
            .iter()
            .zip(1u16..)
            .map(|(state, port)| ListenerStatus {
                address: ([10, 0, 0, 1], port).into(),
                port,
                state: state.clone(),
            })
            .collect();
        Found::of(statuses.iter()).next()
    }

    #[test]
    fn hosts_can_come_when_one_listener_is_up_and_never_when_all_have_faults() {
        let up = ListenerState::Up { device: "soft-roce".to_owned() };
        let absent = ListenerState::Down { reason: "not there".to_owned(), absent: true };
        let fault = ListenerState::Down { reason: "taken".to_owned(), absent: false };
        let failed = |why: &str| Start::Failed(why.to_owned());
        assert_eq!(found(&[up.clone(), fault.clone(), absent.clone()]), Start::Ready);
        assert_eq!(found(std::slice::from_ref(&absent)), Start::Waiting);
        assert_eq!(found(&[absent, fault.clone()]), failed("10.0.0.1:2: taken"));
        assert_eq!(found(&[fault.clone(), fault]), failed("10.0.0.1:1: taken; 10.0.0.1:2: taken"));
    }
}
