//! What the reactor may know of a queue and of the commands in its slots, and take of what belongs to
//! them: nothing here asks for anything or ends a command.

use super::slot::{DataAt, State};
use super::{Link, Queue, RecvToken, RemoteSegment};
use crate::Slot;
use crate::target::Binding;
use nvme_spec_types::IoOpcode;
use nvme_spec_types::command::COMMAND_SIZE;

impl Queue {
    /// How many slots there may be: slot numbers are below this.
    pub fn slots(&self) -> usize {
        self.slots
    }

    /// How many slots were needed so far: those that are in use have lower numbers.
    #[inline]
    pub fn made_slots(&self) -> usize {
        self.entries.len()
    }

    /// Bytes of data that the slot's segments describe.
    pub fn data_len(&self, slot: Slot) -> u32 {
        self.entry(slot).segments().iter().map(|segment| segment.len).sum()
    }

    /// The host memory of a command's data; its lengths add up to what the command moves.
    pub fn segments(&self, slot: Slot) -> &[RemoteSegment] {
        self.entry(slot).segments()
    }

    /// Where in the slot's buffer its [`Action::Pull`] begins, in bytes.
    pub fn pull_to(&self, slot: Slot) -> u32 {
        self.entry(slot).pull_to
    }

    /// The command in a slot.
    pub fn command(&self, slot: Slot) -> &[u8; COMMAND_SIZE] {
        self.entry(slot).command.as_bytes()
    }

    /// The receive that brought a slot's command: what [`Place::Capsule`] is in. It may have been
    /// given back by an action that comes after the one that names the place.
    pub fn recv(&self, slot: Slot) -> RecvToken {
        self.entry(slot).brought_by
    }

    /// Where the data is in the capsule of a Write that waits for its turn, in bytes, and how long:
    /// the reactor may [move](Self::on_moved) it, so that the receive need not wait too.
    pub fn waits_with_data(&self, slot: Slot) -> Option<(u32, u32)> {
        let entry = self.entry(slot);
        let write = entry.command.io_opcode() == IoOpcode::WRITE && entry.first.is_none();
        match (entry.state, entry.data) {
            (State::AwaitTurn, DataAt::Capsule(from)) if write => Some((from, entry.len)),
            _ => None,
        }
    }

    /// The reactor has moved what [`Queue::waits_with_data`] told into a buffer of the slot, and
    /// taken the receive back itself.
    pub fn on_moved(&mut self, slot: Slot) {
        self.forget_recv(slot);
        self.entry_mut(slot).data = DataAt::Moved;
    }

    /// Whether the slot's data was moved so.
    pub fn was_moved(&self, slot: Slot) -> bool {
        self.entry(slot).data == DataAt::Moved
    }

    /// The reactor has moved the data of a write out of the slot's receive and taken the receive
    /// back itself: the queue no longer releases it.
    pub fn forget_recv(&mut self, slot: Slot) {
        self.entry_mut(slot).recv = None;
    }

    /// The outcome's data of a slot for which [`Action::Fill`] was asked.
    pub fn take_fill(&mut self, slot: Slot) -> Vec<u8> {
        std::mem::take(&mut self.entry_mut(slot).fill)
    }

    /// What the queue belongs to, once connected.
    pub fn binding(&self) -> Option<&Binding> {
        match &self.link {
            Link::Bound(binding) => Some(binding),
            Link::Unbound | Link::Connecting(_) => None,
        }
    }

    /// Whether [`Queue::begin_close`] was called.
    pub fn is_closing(&self) -> bool {
        self.closing
    }

    /// Whether no command is left in any slot or waiting for one.
    pub fn is_drained(&self) -> bool {
        self.free.len() == self.entries.len() && self.held.is_empty()
    }

    /// Slots in use and capsules that wait for one.
    pub fn occupied(&self) -> (usize, usize) {
        (self.entries.len() - self.free.len(), self.held.len())
    }

    /// The receives that commands still hold.
    pub fn held_recvs(&self) -> impl Iterator<Item = RecvToken> + '_ {
        let slots = self.entries.iter().filter_map(|entry| entry.recv);
        slots.chain(self.held.iter().map(|held| held.recv))
    }

    /// Checks that slots, outstanding commands and command ids add up. For tests: it walks all.
    ///
    /// # Errors
    /// What does not add up.
    pub fn audit(&self) -> Result<(), String> {
        let in_state = |wanted: fn(&State) -> bool| {
            self.entries.iter().filter(|entry| wanted(&entry.state)).count()
        };
        let free = in_state(|state| *state == State::Free);
        let sent = in_state(|state| matches!(state, State::AwaitSent { .. }));
        let outstanding = self.entries.len() - free - sent + self.held.len();
        let cids: u32 = self.cids.iter().map(|word| word.count_ones()).sum();
        let owners = self.entries.iter().filter(|entry| entry.owns_cid).count();
        if free != self.free.len() {
            return Err(format!("{free} free slots, {} on the free list", self.free.len()));
        }
        if outstanding != usize::from(self.outstanding) {
            return Err(format!("{outstanding} commands, {} counted", self.outstanding));
        }
        if cids as usize != owners {
            return Err(format!("{cids} command ids in use, {owners} owned"));
        }
        Ok(())
    }
}
