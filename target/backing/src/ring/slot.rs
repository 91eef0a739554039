//! Operations in the kernel's hands: one slot each, all made at the start.

use crate::{IoOp, IoRequest};
use region::Span;

/// What the kernel is doing for an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// Moving the rest of the buffer; `dsync`: durable when done.
    Transfer { dsync: bool },
    /// Making everything durable; the operation's last step.
    Sync,
    /// Changing the allocation of the range.
    Allocate(Allocation),
    /// Writing the rest of the range with zeroes.
    WriteZeroes,
    /// An NVMe command for what is left of the range, or as much of it as one can do.
    Command,
}

impl Step {
    /// Whether its end can be looked for on a disk of that kind: plain reads and writes.
    pub(super) fn is_polled(self, op: IoOp) -> bool {
        let moves = matches!(op, IoOp::Read | IoOp::Write { .. });
        self == (Step::Transfer { dsync: false }) || (self == Step::Command && moves)
    }
}

/// Ways to change what a range is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Allocation {
    /// Zeroes, keeping its space.
    ZeroRange,
    /// A hole that reads as zeroes.
    PunchHole,
    /// Unused blocks of a device, with any content.
    Discard,
}

/// One operation and how far it is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Slot {
    pub(super) request: IoRequest,
    /// Index into the ring's table of backings.
    pub(super) entry: u32,
    pub(super) step: Step,
    /// Bytes of the range that are done, a multiple of what transfers may be continued at.
    pub(super) done: u64,
    /// Whether commands name its buffer as any memory, and not as a registered one.
    pub(super) plain: bool,
    /// Times that the current step made no progress and was tried again.
    pub(super) tries: u8,
}

/// A fixed number of slots.
#[derive(Debug)]
pub(super) struct Slots {
    slots: Vec<Slot>,
    /// Whether a slot is taken.
    live: Vec<bool>,
    free: Vec<u32>,
}

impl Slots {
    /// `n` free slots.
    pub(super) fn new(n: u32) -> Slots {
        let empty = Slot {
            request: IoRequest {
                backing: crate::BackingId(0),
                op: IoOp::Flush,
                offset: 0,
                len: 0,
                buffer: Span::new(0, 0),
                tag: 0,
            },
            entry: 0,
            step: Step::Sync,
            done: 0,
            plain: false,
            tries: 0,
        };
        Slots {
            slots: vec![empty; n as usize],
            live: vec![false; n as usize],
            free: (0..n).rev().collect(),
        }
    }

    pub(super) fn used(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub(super) fn has_free(&self) -> bool {
        !self.free.is_empty()
    }

    /// Puts an operation into a free slot; there must be one.
    pub(super) fn take(&mut self, request: IoRequest, entry: u32, step: Step, plain: bool) -> u32 {
        let index = self.free.pop().expect("asked for a free slot before");
        self.slots[index as usize] = Slot { request, entry, step, done: 0, plain, tries: 0 };
        self.live[index as usize] = true;
        index
    }

    pub(super) fn get(&self, index: u32) -> &Slot {
        assert!(self.live[index as usize], "completion for a free slot");
        &self.slots[index as usize]
    }

    pub(super) fn get_mut(&mut self, index: u32) -> &mut Slot {
        assert!(self.live[index as usize], "completion for a free slot");
        &mut self.slots[index as usize]
    }

    /// Frees the slot; returns the operation's tag.
    pub(super) fn release(&mut self, index: u32) -> u64 {
        assert!(self.live[index as usize], "completion for a free slot");
        self.live[index as usize] = false;
        self.free.push(index);
        self.slots[index as usize].request.tag
    }

    /// Whether an operation uses this entry of the table of backings.
    pub(super) fn any_on(&self, entry: u32) -> bool {
        self.slots.iter().zip(&self.live).any(|(slot, live)| *live && slot.entry == entry)
    }
}
