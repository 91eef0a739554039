//! Abort, on the queue of the command that is to be stopped.
//!
//! A command can be stopped until its operations on backings are asked for: while it waits for its
//! turn or a buffer, at once; while its data is being pulled, when the READs have ended, for they
//! cannot be called back. One that goes through its blocks in portions (Verify, Copy) is stopped
//! before the next portion; a Copy tells then how far it came. Either half of a fused pair stops both.
//! What was stopped is completed as Command Abort Requested, and only then is the Abort answered
//! (NVMe Base 2.1, 5.1.1). All else runs on, and the Abort says so.

use super::slot::{Entry, State};
use super::{Action, Queue};
use crate::Slot;
use crate::target::AbortToken;
use nvme_spec_types::{IoOpcode, StatusCode};

impl Queue {
    /// Stops the command with this id if it can be stopped: [`Action::Aborted`] says whether it
    /// was, now or later. There is no answer when the queue closes first.
    pub fn on_abort(&mut self, cid: u16, token: AbortToken, out: &mut Vec<Action>) {
        let named = |entry: &Entry| entry.owns_cid && entry.command.cid() == cid;
        let at = self.entries.iter().position(named).filter(|_| !self.closing);
        let slot = at.map(|at| Slot(at as u16));
        match slot.map(|slot| (slot, self.entry(slot).state)) {
            Some((slot, State::AwaitTurn | State::AwaitBuffer)) => {
                out.push(Action::Withdraw(slot));
                self.stop(slot, token, out);
            }
            Some((slot, State::AwaitSecond)) => self.stop(slot, token, out),
            Some((slot, State::AwaitPartner)) if self.stop_second_of(slot, out) => {
                out.push(Action::Aborted { token, stopped: true });
            }
            Some((slot, State::AwaitPull)) if self.entry(slot).abort.is_none() => {
                self.entry_mut(slot).abort = Some(token);
            }
            Some((slot, State::AwaitIo { .. })) if self.can_stop_midway(slot) => {
                self.entry_mut(slot).abort = Some(token);
            }
            _ => out.push(Action::Aborted { token, stopped: false }),
        }
    }

    /// Completes a command that an Abort names, and then the Abort.
    pub(super) fn stop(&mut self, slot: Slot, token: AbortToken, out: &mut Vec<Action>) {
        self.refuse(slot, StatusCode::ABORT_REQUESTED.retryable(), out);
        out.push(Action::Aborted { token, stopped: true });
    }

    /// Whether a command under way has portions, and no Abort that waits for the end of one.
    fn can_stop_midway(&self, slot: Slot) -> bool {
        let entry = self.entry(slot);
        let in_portions = matches!(entry.command.io_opcode(), IoOpcode::VERIFY | IoOpcode::COPY);
        entry.control.is_none() && in_portions && entry.abort.is_none()
    }

    /// Between two portions: stops the command there if an Abort asked for it. Returns whether it did.
    pub(super) fn stopped_midway(&mut self, slot: Slot, out: &mut Vec<Action>) -> bool {
        let Some(token) = self.entry_mut(slot).abort.take() else { return false };
        self.fail_midway(slot, StatusCode::ABORT_REQUESTED.retryable(), out);
        out.push(Action::Aborted { token, stopped: true });
        true
    }

    /// A command in portions has ended by itself: an Abort that waited for the end of a portion came
    /// too late.
    pub(super) fn too_late_to_abort(&mut self, slot: Slot, out: &mut Vec<Action>) {
        if let Some(token) = self.entry_mut(slot).abort.take() {
            out.push(Action::Aborted { token, stopped: false });
        }
    }
}
