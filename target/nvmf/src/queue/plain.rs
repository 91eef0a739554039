//! Plain Reads and Writes: what nearly every command is, the straight way.
//!
//! # Contract
//! A Read or Write is *plain* when nothing about it is out of the ordinary: it is not fused and
//! follows no half of a pair, its id is free, nobody has a limit, its blocks may be read or written,
//! its data is where one descriptor says, a Write's in the capsule on a page, and a Read does not ask
//! for the medium. [`Queue::start_plain`] looks for all of that, once. Whatever it does not find so,
//! it leaves to the general way from the beginning: that alone refuses and reports.
//!
//! A plain command waits in the same states as any other, and goes on the general way as soon as
//! something happens to it: its namespace changes, an operation fails, it is aborted, the queue
//! closes. The two ways ask for the same things in the same order; `tests/random.rs` holds them
//! side by side.

use super::action::{Action, IoKind, Place, Receive};
use super::fused::Fused;
use super::io::{ALIGNMENT, look_up};
use super::slot::{DataAt, State, Step};
use super::{Link, Need, Outward, Queue, data};
use crate::Slot;
use crate::target::Binding;
use nvme_spec_types::{Fuse, IoOpcode, Psdt, Status};

impl Queue {
    /// Starts the slot's command if it is plain, and returns what becomes of its receive; `None` for
    /// one that is not.
    #[inline]
    pub(super) fn start_plain(&mut self, slot: Slot, out: &mut Vec<Action>) -> Option<Receive> {
        #[cfg(test)]
        if self.general_only {
            return None;
        }
        let Queue { config, link, entries, cids, limits, offer, .. } = self;
        let Link::Bound(Binding { view: Some(view), .. }) = link else { return None };
        let entry = &mut entries[usize::from(slot.0)];
        let (command, opcode) = (&entry.command, entry.command.io_opcode());
        let ordinary = matches!(opcode, IoOpcode::READ | IoOpcode::WRITE)
            && command.fuse() == Fuse::Normal
            && command.psdt() == Psdt::Sgl
            && self.fused == Fused::Nothing
            && !limits.any
            && config.qid != 0;
        let cid = command.cid();
        let (word, bit) = (&mut cids[usize::from(cid >> 6)], 1 << (cid & 63));
        if !ordinary || *word & bit != 0 {
            return None;
        }
        let most = view.max_transfer.min(config.max_transfer);
        let Ok(extent) = look_up(view, most, command) else { return None };
        if extent.fua() && opcode == IoOpcode::READ {
            return None;
        }
        entry.control = None;
        let need = Need::Exactly(extent.len as u32); // at most the largest transfer
        if data::locate(entry, need, config.in_capsule).is_err() {
            return None;
        }
        let in_capsule = match entry.data {
            DataAt::Host => false,
            DataAt::Capsule(at) if at % ALIGNMENT == 0 => true,
            _ => return None,
        };
        *word |= bit;
        entry.owns_cid = true;
        entry.plain = true;
        (entry.extent, entry.checked_against) = (extent, *offer);
        if in_capsule {
            self.plain_io(slot, out);
            return Some(Receive::Held);
        }
        entry.state = State::AwaitBuffer;
        entry.recv = None;
        Some(Receive::FreeForBuffer { slot, len: entry.len })
    }

    /// The buffer of a plain command is there.
    #[inline]
    pub(super) fn plain_buffer(&mut self, slot: Slot, out: &mut Vec<Action>) {
        match self.entry(slot).command.io_opcode() {
            IoOpcode::WRITE => self.pull(slot, out),
            _ => self.plain_io(slot, out),
        }
    }

    /// All that a plain command needs from the host is here: asks for its operation.
    #[inline(always)]
    pub(super) fn plain_io(&mut self, slot: Slot, out: &mut Vec<Action>) {
        let entry = &mut self.entries[usize::from(slot.0)];
        if entry.checked_against != self.offer {
            self.with_data(slot, out);
            return;
        }
        let kind = match (entry.command.io_opcode(), &self.link) {
            (IoOpcode::WRITE, Link::Bound(binding)) => {
                let fua = entry.extent.fua() || binding.settings.write_through();
                IoKind::Write { fua }
            }
            _ => IoKind::Read,
        };
        let place = match entry.data {
            DataAt::Capsule(at) => Place::Capsule(at),
            _ => Place::Buffer(0),
        };
        entry.state = State::AwaitIo { left: 1, failed: None, step: Step::Main };
        out.push(Action::Io { slot, io: entry.extent.io(kind, place) });
    }

    /// The operation of a plain command has succeeded.
    #[inline]
    pub(super) fn plain_done(&mut self, slot: Slot, out: &mut Vec<Action>) {
        let entry = self.entry(slot);
        let (nsid, len) = (entry.command.nsid(), entry.len);
        let reads = entry.command.io_opcode() == IoOpcode::READ;
        self.count_on(nsid, |counters| {
            if reads {
                counters.count_read(u64::from(len));
            } else {
                counters.count_write(u64::from(len));
            }
        });
        let (status, push) = (Status::SUCCESS, if reads { len } else { 0 });
        self.complete(slot, Outward { status, result: 0, push, close: false }, out);
    }
}
