//! Commands: who carries out what, and the one place that answers.

use super::controller::ControllerKey;
use super::fail::{Answer, Fail, Reply, at};
use super::{Bound, Target, TargetAction};
use crate::{Outcome, QueueKey, Slot};
use core::time::Duration;
use nvme_spec_types::fabrics::Disconnect;
use nvme_spec_types::log::ParameterLocation;
use nvme_spec_types::status::{Status, StatusCode};
use nvme_spec_types::{AdminOpcode, Command, FabricsType};

impl Target {
    /// Carries out a command that a queue handed on: every command of an admin queue, and of an
    /// I/O queue those that it does not know itself. `data` is what the host sent with it.
    ///
    /// Commands of a queue that is not open are dropped: its connection is gone.
    pub fn on_command(
        &mut self,
        now: Duration,
        queue: QueueKey,
        slot: Slot,
        command: &[u8; 64],
        data: &[u8],
        out: &mut Vec<TargetAction>,
    ) {
        let command = Command::from_bytes(*command);
        let Some(state) = self.queues.get(&queue) else { return };
        let bound = state.bound;
        let answer = match bound {
            _ if state.closing => Err(Fail::retry(StatusCode::ABORTED_SQ_DELETION)),
            None => self.unconnected(now, queue, &command, data, out),
            Some(Bound { qid: 0, controller, .. }) => {
                self.admin(now, controller, slot, (&command, data), out)
            }
            Some(_) => self.io(&command),
        };
        match answer {
            Ok(Reply::Later) => {}
            Ok(Reply::Done(outcome)) => out.push(TargetAction::Complete { queue, slot, outcome }),
            Ok(Reply::Last(outcome)) => {
                out.push(TargetAction::Complete { queue, slot, outcome });
                self.unbind_io_queue(queue);
                self.retire_queue(queue, out);
                if let Some(bound) = bound {
                    self.on_queue_managed(bound.controller);
                }
            }
            Err(fail) => {
                let outcome = self.note_failure(bound, &command, fail);
                out.push(TargetAction::Complete { queue, slot, outcome });
            }
        }
    }

    /// Enters a failure into the error log of the controller, and says so in the status.
    pub(super) fn note_failure(
        &mut self,
        bound: Option<Bound>,
        command: &Command,
        fail: Fail,
    ) -> Outcome {
        let mut outcome = fail.outcome();
        if let Some(bound) = bound
            && let Some(controller) = self.controllers.get_mut(&bound.controller)
        {
            outcome.status.more = true;
            controller.errors.add(bound.qid, command, outcome.status, fail.location());
        }
        outcome
    }

    /// A command failed on its queue, before or without coming here: for the error log. `missed`
    /// are failures before it of which nothing more is known.
    pub fn on_command_failed(
        &mut self,
        queue: QueueKey,
        command: &[u8; 64],
        status: Status,
        location: ParameterLocation,
        missed: u32,
    ) {
        let bound = self.queues.get(&queue).and_then(|state| state.bound);
        if let Some(bound) = bound
            && let Some(controller) = self.controllers.get_mut(&bound.controller)
        {
            controller.errors.skip(missed);
            controller.errors.add(bound.qid, &Command::from_bytes(*command), status, location);
        }
    }

    /// Before Connect there is only Connect.
    fn unconnected(
        &mut self,
        now: Duration,
        queue: QueueKey,
        command: &Command,
        data: &[u8],
        out: &mut Vec<TargetAction>,
    ) -> Answer {
        match command.fabrics_type() {
            Some(FabricsType::CONNECT) => self.connect(now, queue, command, data, out),
            Some(_) => Err(Fail::dnr(StatusCode::COMMAND_SEQUENCE_ERROR).at(at::FCTYPE)),
            None => Err(Fail::dnr(StatusCode::COMMAND_SEQUENCE_ERROR).at(at::OPCODE)),
        }
    }

    /// What an I/O queue hands on.
    fn io(&self, command: &Command) -> Answer {
        match command.fabrics_type() {
            Some(FabricsType::CONNECT) => {
                Err(Fail::dnr(StatusCode::COMMAND_SEQUENCE_ERROR).at(at::FCTYPE))
            }
            Some(FabricsType::DISCONNECT) => disconnect(command),
            Some(_) => Err(Fail::dnr(StatusCode::INVALID_OPCODE).at(at::FCTYPE)),
            None => Err(Fail::dnr(StatusCode::INVALID_OPCODE).at(at::OPCODE)),
        }
    }

    fn admin(
        &mut self,
        now: Duration,
        key: ControllerKey,
        slot: Slot,
        (command, data): (&Command, &[u8]),
        out: &mut Vec<TargetAction>,
    ) -> Answer {
        let Some(controller) = self.controllers.get_mut(&key) else {
            return Err(Fail::retry(StatusCode::ABORTED_SQ_DELETION));
        };
        match command.fabrics_type() {
            Some(FabricsType::PROPERTY_GET) => {
                return self.property_get(&self.controllers[&key], command);
            }
            Some(FabricsType::PROPERTY_SET) => {
                return self.property_set(now, key, slot, command, out);
            }
            Some(FabricsType::CONNECT) => {
                return Err(Fail::dnr(StatusCode::COMMAND_SEQUENCE_ERROR).at(at::FCTYPE));
            }
            // Only I/O queues are deleted that way (NVMe Base 2.1, 6.5).
            Some(FabricsType::DISCONNECT) => {
                return Err(Fail::dnr(StatusCode::INVALID_QUEUE_TYPE).at(at::FCTYPE));
            }
            Some(_) => return Err(Fail::dnr(StatusCode::INVALID_OPCODE).at(at::FCTYPE)),
            None => {}
        }
        let opcode = command.admin_opcode();
        if opcode == AdminOpcode::KEEP_ALIVE {
            controller.keep_alive.last = now;
            return Ok(Outcome::ok().into());
        }
        if !ADMIN_COMMANDS.contains(&opcode) {
            return Err(Fail::dnr(StatusCode::INVALID_OPCODE).at(at::OPCODE));
        }
        // Nothing but properties until the controller is enabled, and after a shutdown until it is
        // reset.
        if !controller.is_ready() || controller.is_shut_down() {
            return Err(Fail::dnr(StatusCode::COMMAND_SEQUENCE_ERROR).at(at::OPCODE));
        }
        match opcode {
            AdminOpcode::IDENTIFY => self.identify(&self.controllers[&key], command),
            AdminOpcode::GET_LOG_PAGE => self.get_log_page(now, key, command),
            AdminOpcode::GET_FEATURES => self.get_features(now, &self.controllers[&key], command),
            AdminOpcode::SET_FEATURES => self.set_features(now, key, slot, (command, data), out),
            AdminOpcode::ABORT => self.abort(key, slot, command, out),
            AdminOpcode::ASYNC_EVENT_REQUEST => {
                Target::async_event_request(controller, slot, command, out)
            }
            _ => Err(Fail::dnr(StatusCode::INVALID_OPCODE).at(at::OPCODE)),
        }
    }
}

/// Admin commands of either kind of controller, Fabrics commands aside.
pub(super) const ADMIN_COMMANDS: &[AdminOpcode] = &[
    AdminOpcode::GET_LOG_PAGE,
    AdminOpcode::IDENTIFY,
    AdminOpcode::ABORT,
    AdminOpcode::SET_FEATURES,
    AdminOpcode::GET_FEATURES,
    AdminOpcode::ASYNC_EVENT_REQUEST,
    AdminOpcode::KEEP_ALIVE,
];

/// Disconnect of an I/O queue (NVMe Base 2.1, 6.5). The queue closes the connection when the
/// response has gone out; closing it from here could overtake the response.
fn disconnect(command: &Command) -> Answer {
    if Disconnect::from_command(command).recfmt != 0 {
        return Err(Fail::dnr(StatusCode::CONNECT_INCOMPATIBLE_FORMAT).at(at::CDW10));
    }
    Ok(Reply::Last(Outcome::ok()))
}

#[cfg(test)]
mod tests;
