//! Abort: of a held event request at once, of an I/O command by asking the queue's core.

use super::controller::ControllerKey;
use super::fail::{Answer, Fail, Reply};
use super::{AbortToken, Target, TargetAction};
use crate::{Outcome, QueueKey, Slot};
use core::time::Duration;
use nvme_spec_types::Command;
use nvme_spec_types::status::StatusCode;

/// Most Abort commands of a controller that may be outstanding (ACL + 1).
pub(super) const MAX_ABORTS: u8 = 4;

/// Bit 0 of completion dword 0 when the command was not stopped (NVMe Base 2.1, 5.1.1).
const NOT_ABORTED: u64 = 1;

/// An Abort that waits for a core.
#[derive(Debug)]
pub(super) struct PendingAbort {
    /// The admin queue and slot of the Abort.
    pub(super) asked_on: QueueKey,
    pub(super) slot: Slot,
    /// The queue of the command that is to be stopped.
    aimed_at: QueueKey,
}

impl Target {
    /// Abort (NVMe Base 2.1, 5.1.1).
    pub(super) fn abort(
        &mut self,
        key: ControllerKey,
        slot: Slot,
        command: &Command,
        out: &mut Vec<TargetAction>,
    ) -> Answer {
        let Some(controller) = self.controllers.get_mut(&key) else {
            return Err(Fail::dnr(StatusCode::COMMAND_SEQUENCE_ERROR));
        };
        let asked_on = controller.admin;
        let (sqid, cid) = (command.cdw10() as u16, (command.cdw10() >> 16) as u16);
        if sqid == 0 {
            let Some(held) = controller.events.release(cid) else {
                return Ok(Outcome::result(NOT_ABORTED).into());
            };
            let outcome = Outcome::error(StatusCode::ABORT_REQUESTED.into());
            out.push(TargetAction::Complete { queue: asked_on, slot: held, outcome });
            return Ok(Outcome::ok().into());
        }
        let Some(&aimed_at) = controller.io_queues.get(&sqid) else {
            return Ok(Outcome::result(NOT_ABORTED).into());
        };
        let outstanding = self.aborts.values().filter(|a| a.asked_on == asked_on).count();
        if outstanding >= usize::from(MAX_ABORTS) {
            return Err(Fail::retry(StatusCode::ABORT_COMMAND_LIMIT_EXCEEDED));
        }
        let token = AbortToken(self.next_abort);
        self.next_abort += 1;
        self.aborts.insert(token, PendingAbort { asked_on, slot, aimed_at });
        out.push(TargetAction::Abort { queue: aimed_at, cid, token });
        Ok(Reply::Later)
    }

    /// A core answers [`TargetAction::Abort`]: was the command stopped? Ignored when the Abort has
    /// been answered already because one of the two queues ended.
    pub fn on_abort_done(
        &mut self,
        _now: Duration,
        token: AbortToken,
        stopped: bool,
        out: &mut Vec<TargetAction>,
    ) {
        if let Some(abort) = self.aborts.remove(&token) {
            out.push(abort.complete(stopped));
        }
    }

    /// A queue ends: Aborts aimed at it stop nothing any more.
    pub(super) fn end_aborts_aimed_at(&mut self, queue: QueueKey, out: &mut Vec<TargetAction>) {
        self.aborts.retain(|_, abort| {
            let ends = abort.aimed_at == queue;
            if ends {
                out.push(abort.complete(false));
            }
            !ends
        });
    }
}

impl PendingAbort {
    fn complete(&self, stopped: bool) -> TargetAction {
        let outcome = Outcome::result(if stopped { 0 } else { NOT_ABORTED });
        TargetAction::Complete { queue: self.asked_on, slot: self.slot, outcome }
    }
}

#[cfg(test)]
mod tests;
