//! Verify: reads blocks from the medium and keeps them to itself (NVM 1.1, 3.3.6).
//!
//! A command may name more than a transfer moves, so it goes through its blocks in portions, with
//! one buffer and one operation at a time, and the size of a Verify has no limit of its own (VSL).

use super::Queue;
use super::action::{Action, Io, IoKind, Place};
use super::io::Extent;
use super::slot::Step;
use crate::Slot;
use nvme_spec_types::Status;

impl Queue {
    /// The read of the next portion of a Verify whose blocks are `extent`.
    pub(super) fn portion_to_verify(&self, slot: Slot, extent: &Extent) -> Io {
        let done = self.entry(slot).progress.done.min(extent.len);
        let len = (extent.len - done).min(self.portion_buffer().into());
        let whole = extent.io(IoKind::Read, Place::Buffer(0));
        Io { offset: extent.offset + done, len, ..whole }
    }

    /// A portion is read: goes on with the next, or is done.
    pub(super) fn verified(&mut self, slot: Slot, out: &mut Vec<Action>) {
        // The namespace may have changed since the last portion.
        let extent = match self.extent(slot) {
            Ok(extent) => extent,
            Err(status) => {
                self.fail_midway(slot, status, out);
                return;
            }
        };
        let read = self.portion_to_verify(slot, &extent).len;
        self.entry_mut(slot).progress.done += read;
        self.count(slot, |counters| counters.count_moved(read, 0));
        if self.entry(slot).progress.done >= extent.len {
            self.respond(slot, Status::SUCCESS, 0, 0, out);
            self.too_late_to_abort(slot, out);
        } else if !self.stopped_midway(slot, out) {
            let io = self.portion_to_verify(slot, &extent);
            self.ask_io(slot, Step::Main, io, out);
        }
    }
}
