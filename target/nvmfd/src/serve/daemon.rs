//! A running daemon: signals, the service manager, and the order of a graceful end.

use crate::notify::ServiceManager;
use crate::signals::Signals;
use backing::BlockIo;
use rdma::{ConnectionManager, Device, Now};
use reactor::control::{Control, ControlEvent, ListenerState};
use reactor::run::{Flow, Hooks};
use std::os::fd::BorrowedFd;
use std::time::Duration;
use tracing::{info, warn};

/// How long after being asked to stop the daemon is gone, whatever its disks do: below the ten
/// seconds that operators and service managers are promised.
pub(super) const STOP_WITHIN: Duration = Duration::from_secs(9);

/// What looks after the control side of a running daemon.
pub(super) struct Daemon {
    signals: Signals,
    manager: ServiceManager,
    ready: bool,
    stop_by: Option<Now>,
}

impl Daemon {
    pub(super) fn new(signals: Signals, now: Now) -> Daemon {
        Daemon { signals, manager: ServiceManager::new(now), ready: false, stop_by: None }
    }

    /// When the process must be gone, if it was asked to stop.
    pub(super) fn stop_by(&self) -> Option<Now> {
        self.stop_by
    }
}

impl<C, D, B> Hooks<C, D, B> for Daemon
where
    C: ConnectionManager,
    D: Device<Endpoint = C::Endpoint>,
    B: BlockIo,
{
    fn on_turn(&mut self, now: Now, control: &mut Control<C, D, B>) -> Flow {
        // The first turn has taken in what the listeners had to say.
        if !self.ready {
            self.ready = true;
            announce(control, &self.manager);
        }
        self.manager.on_turn(now);
        if self.signals.take_reload() {
            self.signals.drain();
            warn!("SIGHUP: the configuration is not read again while running; restart to apply it");
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
                // Nothing but a stop removes backings yet.
                ControlEvent::BackingRemoved(_) => {}
            }
        }
        Flow::Continue
    }

    fn wait_sources<'a>(&'a self, out: &mut Vec<BorrowedFd<'a>>) {
        out.push(self.signals.wait_source());
    }

    fn timeout(&self) -> Option<Now> {
        self.manager.timeout()
    }
}

/// Says that hosts may come.
fn announce<C, D, B>(control: &Control<C, D, B>, manager: &ServiceManager)
where
    C: ConnectionManager,
    D: Device<Endpoint = C::Endpoint>,
    B: BlockIo,
{
    let mut addresses = Vec::new();
    let mut down = 0;
    for listener in control.listeners() {
        addresses.push(listener.address.to_string());
        down += usize::from(matches!(listener.state, ListenerState::Down { .. }));
    }
    let addresses = addresses.join(", ");
    info!(%addresses, not_listening_yet = down, "ready");
    manager.ready(&format!("serving on {addresses}"));
}
