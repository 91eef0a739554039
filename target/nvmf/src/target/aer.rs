//! Asynchronous events: requests held until there is something to tell.
//!
//! An event of which the host has been told is masked until the host reads its log page without
//! Retain Asynchronous Event (NVMe Base 2.1, 5.1.2). What happens in between is not lost: it is in
//! the log page, which the host is about to read.

use super::controller::{Controller, Kind};
use super::fail::{Answer, Fail, Reply};
use super::{Target, TargetAction};
use crate::{Outcome, Slot};
use nvme_spec_types::feature::AsyncEventConfig;
use nvme_spec_types::status::{Status, StatusCode};
use nvme_spec_types::{AsyncEvent, Command, LogId};
use std::collections::VecDeque;

/// Most Asynchronous Event Requests held for a controller (AERL + 1).
pub(super) const MAX_HELD: u8 = 4;

/// What a controller can tell its host: OAES of Identify Controller.
pub(super) fn supported(kind: Kind) -> AsyncEventConfig {
    match kind {
        Kind::Io => AsyncEventConfig::NAMESPACE_ATTRIBUTE,
        Kind::Discovery => AsyncEventConfig::DISCOVERY_LOG,
    }
}

/// The events of one controller.
#[derive(Debug)]
pub(super) struct Events {
    /// Which the host wants (Asynchronous Event Configuration).
    pub(super) config: AsyncEventConfig,
    /// Requests without an answer, oldest first; at most [`MAX_HELD`].
    held: VecDeque<Held>,
    /// Events without a request, and what the host must want to be told; each at most once.
    pending: VecDeque<(AsyncEvent, AsyncEventConfig)>,
    /// Events told and not yet cleared; each at most once.
    masked: Vec<AsyncEvent>,
}

#[derive(Debug, Clone, Copy)]
struct Held {
    slot: Slot,
    cid: u16,
}

impl Events {
    /// Everything supported is told unless the host says otherwise.
    pub(super) fn new(kind: Kind) -> Events {
        Events {
            config: supported(kind),
            held: VecDeque::new(),
            pending: VecDeque::new(),
            masked: Vec::new(),
        }
    }

    /// Takes a request in, unless too many are held already.
    fn hold(&mut self, slot: Slot, cid: u16) -> Result<(), Fail> {
        if self.held.len() >= usize::from(MAX_HELD) {
            return Err(Fail::dnr(StatusCode::AER_LIMIT_EXCEEDED));
        }
        self.held.push_back(Held { slot, cid });
        Ok(())
    }

    /// Which events the host wants from now on; those it no longer wants are not told any more.
    pub(super) fn configure(&mut self, wanted: AsyncEventConfig) {
        self.config = wanted;
        self.pending.retain(|&(_, needs)| wanted.contains(needs));
    }

    /// Something happened that the host may want to know.
    fn raise(&mut self, event: AsyncEvent, wanted: AsyncEventConfig) {
        let known =
            self.masked.contains(&event) || self.pending.iter().any(|&(known, _)| known == event);
        if self.config.contains(wanted) && !known {
            self.pending.push_back((event, wanted));
        }
    }

    /// The next event to tell, and the request to tell it with.
    fn deliver(&mut self) -> Option<(Slot, AsyncEvent)> {
        let &(event, _) = self.pending.front()?;
        let held = self.held.pop_front()?;
        self.pending.pop_front();
        self.masked.push(event);
        Some((held.slot, event))
    }

    /// The host read this log page and keeps nothing back: what led there is known to it.
    pub(super) fn on_log_read(&mut self, log: LogId) {
        self.masked.retain(|event| event.log != log);
        self.pending.retain(|(event, _)| event.log != log);
    }

    /// Takes a held request out by its command id.
    pub(super) fn release(&mut self, cid: u16) -> Option<Slot> {
        let at = self.held.iter().position(|held| held.cid == cid)?;
        self.held.remove(at).map(|held| held.slot)
    }

    /// The slots of the requests held.
    pub(super) fn slots(&self) -> impl Iterator<Item = Slot> + '_ {
        self.held.iter().map(|held| held.slot)
    }

    /// How many events are remembered, told or not.
    pub(super) fn told(&self) -> usize {
        self.pending.len() + self.masked.len()
    }

    /// Whether every event has been told.
    pub(super) fn is_idle(&self) -> bool {
        self.pending.is_empty()
    }

    /// How many requests are held.
    pub(super) fn held(&self) -> usize {
        self.held.len()
    }
}

impl Controller {
    /// Tells the host, now or when it asks.
    pub(super) fn notify(
        &mut self,
        event: AsyncEvent,
        wanted: AsyncEventConfig,
        out: &mut Vec<TargetAction>,
    ) {
        self.events.raise(event, wanted);
        self.deliver_events(out);
    }

    /// Answers held requests while there are events for them.
    fn deliver_events(&mut self, out: &mut Vec<TargetAction>) {
        while let Some((slot, event)) = self.events.deliver() {
            let outcome = Outcome::result(event.to_dw0().into());
            out.push(TargetAction::Complete { queue: self.admin, slot, outcome });
        }
    }

    /// The controller is reset: held requests end, events and the configuration are forgotten.
    pub(super) fn reset_events(&mut self, out: &mut Vec<TargetAction>) {
        let events = std::mem::replace(&mut self.events, Events::new(self.kind));
        let status: Status = StatusCode::ABORT_REQUESTED.into();
        for Held { slot, .. } in events.held {
            let outcome = Outcome::error(status);
            out.push(TargetAction::Complete { queue: self.admin, slot, outcome });
        }
    }
}

impl Target {
    /// Asynchronous Event Request (NVMe Base 2.1, 5.1.2).
    pub(super) fn async_event_request(
        controller: &mut Controller,
        slot: Slot,
        command: &Command,
        out: &mut Vec<TargetAction>,
    ) -> Answer {
        controller.events.hold(slot, command.cid())?;
        controller.deliver_events(out);
        Ok(Reply::Later)
    }
}

#[cfg(test)]
mod tests;
