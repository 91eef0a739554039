//! Limits: a command's turn.
//!
//! Where its namespace or its host has a limit, a command asks for its turn once it was checked and
//! before it takes a buffer, and waits in line until it is admitted. Where neither has, it costs one
//! look at a flag. A Flush or a Dataset Management is one command and no bytes; a Copy is charged for
//! its bytes when its ranges are known, what it reads to the namespaces that it reads from, so that it
//! is what comes after it that waits for them.

use super::action::Action;
use super::slot::{DataAt, State};
use super::{Link, Queue};
use crate::Slot;
use crate::limit::Limit;
use crate::target::Binding;
use nvme_spec_types::nvm::NSID_ALL;
use nvme_spec_types::{Fuse, IoOpcode};
use std::sync::Arc;

/// What a queue knows of limits; made anew with each view.
#[derive(Debug, Clone, Default)]
pub(super) struct Limits {
    /// Whether there is any, of the host or of a namespace.
    pub(super) any: bool,
    host: Option<Arc<Limit>>,
}

impl Queue {
    /// The limits of the host, and of the namespace that the slot's command is for.
    pub fn limits(&self, slot: Slot) -> [Option<&Arc<Limit>>; 2] {
        self.limits_on(self.entry(slot).command.nsid())
    }

    /// The limits of the host, and of a namespace.
    pub fn limits_on(&self, nsid: u32) -> [Option<&Arc<Limit>>; 2] {
        let namespace = match nsid {
            NSID_ALL => None,
            nsid => self.namespace(nsid).ok(),
        };
        [self.limits.host.as_ref(), namespace.and_then(|namespace| namespace.limit.as_ref())]
    }

    /// Looks at the limits of a view that is new to the queue.
    pub(super) fn renew_limits(&mut self) {
        self.limits = Limits::default();
        let Link::Bound(Binding { view: Some(view), hostnqn, .. }) = &self.link else { return };
        let host = view.host_limits.get(&**hostnqn).cloned();
        let any = host.is_some() || view.namespaces.iter().any(|ns| ns.limit.is_some());
        self.limits = Limits { any, host };
    }

    /// Asks for the turn of a command that is about to take a buffer; returns whether it must.
    #[inline]
    pub(super) fn awaits_turn(&mut self, slot: Slot, out: &mut Vec<Action>) -> bool {
        self.limits.any && self.ask_turn(slot, out)
    }

    /// [`Queue::awaits_turn`] where somebody has a limit.
    fn ask_turn(&mut self, slot: Slot, out: &mut Vec<Action>) -> bool {
        // The second command of a fused pair asks for both.
        if self.entry(slot).command.fuse() == Fuse::First {
            return false;
        }
        if self.limits(slot).iter().all(Option::is_none) {
            return false;
        }
        let entry = self.entry(slot);
        let commands = if entry.first.is_some() { 2 } else { 1 };
        let bytes = match entry.command.io_opcode() {
            IoOpcode::READ | IoOpcode::WRITE | IoOpcode::COMPARE => {
                u64::from(commands) * u64::from(entry.len)
            }
            IoOpcode::VERIFY => entry.extent.len,
            _ => 0,
        };
        if !matches!(entry.data, DataAt::Capsule(_)) {
            self.release_recv(slot, out);
        }
        self.entry_mut(slot).state = State::AwaitTurn;
        out.push(Action::AskTurn { slot, commands, bytes });
        true
    }

    /// The slot's command is admitted by its limits.
    pub fn on_turn(&mut self, slot: Slot, out: &mut Vec<Action>) {
        match self.entry(slot).state {
            State::AwaitTurn => self.begin_io(slot, out),
            state => self.unexpected("a turn", state),
        }
    }

    /// Charges a command that was admitted before it was known how many bytes it moves, and where.
    pub(super) fn charge(
        &self,
        slot: Slot,
        moved: impl Iterator<Item = (u32, u64)>,
        out: &mut Vec<Action>,
    ) {
        if self.limits.any {
            out.extend(moved.map(|(nsid, bytes)| Action::Charge { slot, nsid, bytes }));
        }
    }
}
