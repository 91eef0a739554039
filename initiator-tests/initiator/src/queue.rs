//! One queue pair as the host sees it.
//!
//! # Contract
//! A command goes through [`begin`](HostQueue::begin) (an identifier is taken), then
//! [`on_sent`](HostQueue::on_sent) and [`on_response`](HostQueue::on_response) in either order; when
//! both have happened the queue gives it back, once, as [`Finished`]. Until then its identifier, its
//! capsule and its memory stay taken. [`drain`](HostQueue::drain) gives back what is left when the
//! connection is gone.

use nvme_spec_types::Completion;
use nvme_spec_types::completion::COMPLETION_SIZE;

/// How many commands a host keeps outstanding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// As the specification has it: the queue is full when one entry is left, by the heads that
    /// responses bring (NVMe Base 2.1, 3.3.1.2.1).
    Head,
    /// As many as the queue has entries, whatever the heads say: what Linux does.
    Entries,
}

/// What a queue is like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueShape {
    /// 0 for the admin queue.
    pub qid: u16,
    /// Entries, 2 to 4096 (SQSIZE + 1).
    pub entries: u16,
    /// Bytes of data that fit a capsule after the command.
    pub in_capsule: u32,
    /// How many commands may be outstanding.
    pub pace: Pace,
}

/// What no correct target does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// A response that is not 16 bytes.
    #[error("a response of {0} bytes instead of 16")]
    Length(u32),
    /// A response to a command that is not outstanding.
    #[error("a response to command {0:#06x}, which is not outstanding")]
    UnknownCid(u16),
    /// A second response to one command.
    #[error("a second response to command {0:#06x}")]
    Duplicate(u16),
    /// A submission queue head that went back or ran ahead.
    #[error("a queue head of {sqhd} in the response to command {cid:#06x}: {head} of {tail} sent")]
    Head {
        /// What came.
        sqhd: u16,
        /// With which response.
        cid: u16,
        /// Commands known to be consumed before it.
        head: u64,
        /// Commands sent.
        tail: u64,
    },
    /// A key was invalidated that the command did not ask for.
    #[error("key {rkey:#x} invalidated with the response to command {cid:#06x}")]
    Invalidated {
        /// The key.
        rkey: u32,
        /// With which response.
        cid: u16,
    },
}

/// A command that has ended: sent, and answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished<T> {
    /// What [`HostQueue::begin`] was given.
    pub tag: T,
    /// The response.
    pub completion: Completion,
}

#[derive(Debug)]
struct Pending<T> {
    tag: T,
    /// Commands sent on the queue up to and with this one.
    order: u64,
    /// Keys that the target may invalidate with the response.
    may_invalidate: Vec<u32>,
    sent: bool,
    response: Option<Completion>,
}

#[derive(Debug)]
struct Slot<T> {
    /// Differs between successive uses, so that a late duplicate is recognised.
    generation: u16,
    pending: Option<Pending<T>>,
}

/// See the [module](self).
#[derive(Debug)]
pub struct HostQueue<T> {
    shape: QueueShape,
    flow_control: bool,
    slots: Vec<Slot<T>>,
    /// Slots not in use, taken from the front so that identifiers are reused late.
    free: std::collections::VecDeque<u16>,
    /// Commands sent so far.
    tail: u64,
    /// Commands known to be consumed.
    head: u64,
}

/// Bits of a command identifier that name the slot; the rest is its generation.
const SLOT_BITS: u32 = 12;

impl<T> HostQueue<T> {
    /// An empty queue.
    ///
    /// # Panics
    /// When the shape has fewer than 2 or more than 4096 entries.
    pub fn new(shape: QueueShape) -> HostQueue<T> {
        assert!((2..=4096).contains(&shape.entries), "{} entries", shape.entries);
        HostQueue {
            shape,
            flow_control: true,
            slots: (0..shape.entries).map(|_| Slot { generation: 0, pending: None }).collect(),
            free: (0..shape.entries).collect(),
            tail: 0,
            head: 0,
        }
    }

    /// What it is like.
    pub fn shape(&self) -> &QueueShape {
        &self.shape
    }

    /// Heads are not looked at any more: the target agreed to leave them out.
    pub fn disable_flow_control(&mut self) {
        self.flow_control = false;
    }

    /// Commands that have not ended.
    pub fn outstanding(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Whether another command may be sent.
    pub fn has_room(&self) -> bool {
        self.room() > 0
    }

    /// How many more commands may be sent.
    pub fn room(&self) -> usize {
        let by_head = self.flow_control && self.shape.pace == Pace::Head;
        let entries = u64::from(self.shape.entries) - 1;
        let by_head = by_head.then(|| entries.saturating_sub(self.tail - self.head) as usize);
        self.free.len().min(by_head.unwrap_or(usize::MAX))
    }

    /// Takes an identifier for a command that is sent now; `None` when there is no
    /// [room](Self::has_room). `may_invalidate` are the keys that it asks to be invalidated.
    pub fn begin(&mut self, tag: T, may_invalidate: Vec<u32>) -> Option<u16> {
        if !self.has_room() {
            return None;
        }
        let index = self.free.pop_front()?;
        self.tail += 1;
        let slot = &mut self.slots[usize::from(index)];
        slot.generation = slot.generation.wrapping_add(1) & ((1 << (16 - SLOT_BITS)) - 1);
        slot.pending =
            Some(Pending { tag, order: self.tail, may_invalidate, sent: false, response: None });
        Some(slot.generation << SLOT_BITS | index)
    }

    /// The slot of an identifier: below [`QueueShape::entries`] for those that
    /// [`begin`](Self::begin) gave.
    pub fn slot_of(cid: u16) -> u16 {
        cid & ((1 << SLOT_BITS) - 1)
    }

    /// The tag of a command that has not ended, by its slot.
    pub fn tag(&self, slot: u16) -> Option<&T> {
        Some(&self.slots.get(usize::from(slot))?.pending.as_ref()?.tag)
    }

    /// The SEND of the command in `slot` has completed.
    pub fn on_sent(&mut self, slot: u16) -> Option<Finished<T>> {
        self.slots[usize::from(slot)].pending.as_mut()?.sent = true;
        self.finish(slot)
    }

    /// A message arrived: its bytes and, if a key of ours was invalidated with it, that key.
    ///
    /// # Errors
    /// [`Violation`] when no correct target sends it. The queue is as it was before.
    pub fn on_response(
        &mut self,
        message: &[u8],
        invalidated: Option<u32>,
    ) -> Result<Option<Finished<T>>, Violation> {
        if message.len() != COMPLETION_SIZE {
            return Err(Violation::Length(message.len() as u32));
        }
        let completion = Completion::parse(message).expect("length checked");
        let cid = completion.cid;
        let index = Self::slot_of(cid);
        let unknown = Violation::UnknownCid(cid);
        let slot = self.slots.get_mut(usize::from(index)).ok_or(unknown)?;
        let pending = slot.pending.as_mut().ok_or(unknown)?;
        if slot.generation != cid >> SLOT_BITS {
            return Err(unknown);
        }
        if pending.response.is_some() {
            return Err(Violation::Duplicate(cid));
        }
        if let Some(rkey) = invalidated
            && !pending.may_invalidate.contains(&rkey)
        {
            return Err(Violation::Invalidated { rkey, cid });
        }
        if self.flow_control {
            // The head is a count modulo the entries. It need not include this command: targets in
            // use count entries as free when they answer, and answers overtake each other.
            let entries = u64::from(self.shape.entries);
            let sqhd = completion.sqhd;
            let ahead = (u64::from(sqhd) + entries - self.head % entries) % entries;
            if u64::from(sqhd) >= entries || self.head + ahead > self.tail {
                return Err(Violation::Head { sqhd, cid, head: self.head, tail: self.tail });
            }
            self.head += ahead;
        }
        pending.response = Some(completion);
        Ok(self.finish(index))
    }

    /// Ends every command that is outstanding, oldest first, and returns their tags.
    pub fn drain(&mut self) -> Vec<T> {
        let mut left: Vec<(u64, T)> = Vec::new();
        for (index, slot) in self.slots.iter_mut().enumerate() {
            if let Some(pending) = slot.pending.take() {
                left.push((pending.order, pending.tag));
                self.free.push_back(index as u16);
            }
        }
        left.sort_by_key(|&(order, _)| order);
        left.into_iter().map(|(_, tag)| tag).collect()
    }

    fn finish(&mut self, index: u16) -> Option<Finished<T>> {
        let slot = &mut self.slots[usize::from(index)];
        let pending = slot.pending.as_ref()?;
        let completion = pending.response.filter(|_| pending.sent)?;
        let tag = slot.pending.take()?.tag;
        self.free.push_back(index);
        Some(Finished { tag, completion })
    }
}

#[cfg(test)]
mod tests;
