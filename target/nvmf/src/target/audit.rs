//! Whether the target's books agree with each other. For tests: it walks all.

use super::controller::{Controller, Kind};
use super::{ControllerKey, MAX_NAMESPACES, Target, abort, aer, logs};
use crate::{QueueKey, Slot};
use nvme_spec_types::identify::NamespaceList;
use std::collections::BTreeSet;

/// More kinds of event than a controller has.
const EVENTS: usize = 8;

/// An error with these words unless the condition holds.
macro_rules! agree {
    ($condition:expr, $($words:tt)*) => {
        if !$condition {
            return Err(format!($($words)*));
        }
    };
}

impl Target {
    /// The commands that were taken in and wait for their [`super::TargetAction::Complete`].
    pub fn unanswered(&self) -> BTreeSet<(QueueKey, Slot)> {
        let events = self
            .controllers
            .values()
            .flat_map(|controller| controller.events.slots().map(|slot| (controller.admin, slot)));
        let aborts = self.aborts.values().map(|abort| (abort.asked_on, abort.slot));
        events.chain(aborts).chain(self.flushes.keys().copied()).collect()
    }

    /// Checks that queues, controllers and timers know each other, and that nothing which a host can
    /// make grow has grown beyond its bound.
    ///
    /// # Errors
    /// What does not agree.
    pub fn audit(&self) -> Result<(), String> {
        for (key, controller) in &self.controllers {
            self.audit_controller(*key, controller)?;
        }
        let timed = self.controllers.values().filter_map(|c| c.keep_alive.check_at);
        let (timed, deadlines) = (timed.count(), self.deadlines.len());
        agree!(timed == deadlines, "{timed} controllers with a timer, {deadlines} deadlines");
        for (queue, state) in &self.queues {
            let Some(bound) = state.bound else { continue };
            agree!(!state.closing, "{queue:?} belongs to a controller and is closing");
            let controller = self.controllers.get(&bound.controller);
            let known = controller.is_some_and(|c| c.queues().any(|q| q == *queue));
            agree!(known, "{queue:?} belongs to a controller that does not know it");
        }
        for subsystem in self.subsystems.values() {
            let (nqn, count) = (&subsystem.nqn, subsystem.namespaces.len());
            agree!(count <= MAX_NAMESPACES, "{nqn} has {count} namespaces");
            agree!(subsystem.view.namespaces.len() == count, "the view of {nqn} is not up to date");
        }
        Ok(())
    }

    fn audit_controller(&self, key: ControllerKey, controller: &Controller) -> Result<(), String> {
        let io_queues = controller.io_queues.iter().map(|(&qid, &queue)| (qid, queue));
        for (qid, queue) in [(0, controller.admin)].into_iter().chain(io_queues) {
            let bound = self.queues.get(&queue).and_then(|state| state.bound);
            let knows = bound.is_some_and(|b| (b.controller, b.qid) == (key, qid));
            agree!(knows, "queue {qid} of {key:?} does not know its controller");
            let most = controller.features.io_queues;
            agree!(qid <= most, "{key:?} has queue {qid} of {most}");
        }
        // Without a timeout only a lost I/O queue sets the timer, but that of discovery.
        let timer = &controller.keep_alive;
        let timed = timer.kato_ms != 0 || controller.kind == Kind::Discovery;
        agree!(timer.check_at.is_some() || !timed, "{key:?} has a timeout and no timer");
        let needed = timed || timer.lost_queue.is_some();
        agree!(timer.check_at.is_none() || needed, "{key:?} has a timer for nothing");
        let (held, told) = (controller.events.held(), controller.events.told());
        agree!(held <= aer::MAX_HELD.into(), "{key:?} holds {held} event requests");
        agree!(told <= EVENTS, "{key:?} remembers {told} events");
        agree!(held == 0 || controller.events.is_idle(), "{key:?} keeps an event from its host");
        let own = self.aborts.values().filter(|abort| abort.asked_on == controller.admin);
        let aborts = own.count();
        agree!(aborts <= abort::MAX_ABORTS.into(), "{key:?} has {aborts} Aborts outstanding");
        let errors = controller.errors.kept();
        agree!(errors <= logs::error::ENTRIES, "{key:?} keeps {errors} errors");
        let changed = controller.changed.kept();
        agree!(changed <= NamespaceList::CAPACITY, "{key:?} keeps {changed} changed namespaces");
        Ok(())
    }
}
