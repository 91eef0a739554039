//! Commands that end when what was written is durable: a normal shutdown, and turning the volatile
//! write cache off.
//!
//! Which namespaces a controller has written to is not kept, so all of its subsystem that have a
//! cache are flushed. A backing that has nothing to write is quick about it.

use super::controller::{Controller, ControllerKey};
use super::fail::{Answer, Fail, Reply};
use super::{Target, TargetAction};
use crate::{BackingRef, Outcome, QueueKey, Slot};
use nvme_spec_types::Command;
use nvme_spec_types::property::{SHST_COMPLETE, SHST_OCCURRING};
use nvme_spec_types::status::Status;

/// What the command that waits is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum After {
    /// CC.SHN was set to normal shutdown.
    Shutdown,
    /// The volatile write cache was turned off.
    CacheOff,
}

/// A command that waits for its flushes. There is at most one for each slot of an admin queue.
#[derive(Debug)]
pub(super) struct PendingFlush {
    pub(super) key: ControllerKey,
    command: Command,
    after: After,
}

impl Target {
    /// Has everything that may still be in a cache written out before the command is answered.
    pub(super) fn flush_first(
        &mut self,
        key: ControllerKey,
        slot: Slot,
        command: &Command,
        after: After,
        out: &mut Vec<TargetAction>,
    ) -> Answer {
        let namespaces = self.subsystems[&key.subsystem].namespaces.values();
        let cached = namespaces.filter(|namespace| namespace.config.volatile_cache);
        let backings: Vec<BackingRef> = cached.map(|namespace| namespace.config.backing).collect();
        let Some(controller) = self.controllers.get_mut(&key) else { return Ok(Reply::Later) };
        if backings.is_empty() {
            controller.flushed(after, true, false);
            return Ok(Outcome::ok().into());
        }
        let queue = controller.admin;
        let pending = PendingFlush { key, command: *command, after };
        self.flushes.insert((queue, slot), pending);
        out.push(TargetAction::Flush { queue, slot, backings });
        Ok(Reply::Later)
    }

    /// A core answers [`TargetAction::Flush`]: everything is durable, or one of the flushes failed
    /// in this way. Ignored when the queue was closed meanwhile.
    pub fn on_flushed(
        &mut self,
        queue: QueueKey,
        slot: Slot,
        result: Result<(), Status>,
        out: &mut Vec<TargetAction>,
    ) {
        let Some(PendingFlush { key, command, after }) = self.flushes.remove(&(queue, slot)) else {
            return;
        };
        let again = |other: &PendingFlush| other.key == key && other.after == After::CacheOff;
        let again = self.flushes.values().any(again);
        let Some(controller) = self.controllers.get_mut(&key) else { return };
        controller.flushed(after, result.is_ok(), again);
        let outcome = match result {
            Ok(()) => Outcome::ok(),
            Err(status) => {
                let bound = self.queues.get(&queue).and_then(|state| state.bound);
                self.note_failure(bound, &command, Fail::with(status))
            }
        };
        out.push(TargetAction::Complete { queue, slot, outcome });
    }
}

impl Controller {
    /// The flushes have ended. A shutdown whose data could not be made durable is a fatal error;
    /// a write cache that could not be emptied stays on, unless it was off before, or is being turned
    /// off `again`.
    fn flushed(&mut self, after: After, durable: bool, again: bool) {
        match after {
            After::Shutdown if self.csts.shst() == SHST_OCCURRING => {
                self.csts = self.csts.with_shst(SHST_COMPLETE);
                if !durable {
                    self.csts = self.csts.with_cfs(true);
                }
            }
            // A reset came between.
            After::Shutdown => {}
            After::CacheOff if durable => {
                self.features.cache_is_empty = self.features.settings.write_through();
            }
            After::CacheOff if again || self.features.cache_is_empty => {}
            After::CacheOff => self.features.settings.set_write_through(false),
        }
    }
}

#[cfg(test)]
mod tests;
