//! Receives: where capsules arrive.

use super::conn::{Kind, wr_id};
use super::{Core, NONE};
use crate::mail::QueueParams;
use backing::BlockIo;
use nvme_spec_types::command::COMMAND_SIZE;
use nvmf::queue::RecvToken;
use rdma::{Device, RecvQueue, RecvQueueId, RecvWr};
use region::{PAGE_SIZE, Span};

const CAPSULE: u32 = COMMAND_SIZE as u32;

/// Where a receive is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RecvState {
    /// Posted.
    Posted,
    /// It brought a capsule that is not done with.
    Held,
    /// Neither: its queue pair is closing.
    Idle,
}

/// The receives of one receive queue, a queue pair's own or shared.
#[derive(Debug)]
pub(super) struct Ring {
    id: RecvQueueId,
    pub(super) shared: bool,
    /// All of its memory: capsules first, data areas from the next page on.
    area: Span,
    /// First data area, in bytes from the start of the area.
    data_at: u32,
    /// Bytes of a data area that receives use, and from one to the next (whole pages).
    data_len: u32,
    data_stride: u32,
    pub(super) states: Box<[RecvState]>,
    pub(super) posted: u32,
}

impl Ring {
    /// Whether it is shared and fewer than a quarter of its receives are posted.
    pub(super) fn is_low(&self) -> bool {
        self.shared && (self.posted as usize) < self.states.len() / 4
    }

    /// A posted receive has ended: it is held from now on. Returns where its capsule is; `None` when
    /// it was not posted.
    #[inline]
    pub(super) fn take(&mut self, at: u16) -> Option<Span> {
        let state = self.states.get_mut(usize::from(at))?;
        if *state != RecvState::Posted {
            return None;
        }
        *state = RecvState::Held;
        self.posted -= 1;
        Some(self.head(at))
    }

    /// Posts a receive. `number` is the ring's own.
    #[inline(always)]
    pub(super) fn post<D: Device>(&mut self, device: &mut D, number: u16, at: u16) {
        let state = &mut self.states[usize::from(at)];
        assert!(*state != RecvState::Posted, "a receive posted twice");
        *state = RecvState::Posted;
        self.posted += 1;
        let wr_id = wr_id(Kind::Recv, number, 0, at);
        let wr = RecvWr { wr_id, head: self.head(at), tail: self.data(at) };
        device.post_recv(self.id, wr);
    }

    /// Where a capsule arrives.
    fn head(&self, at: u16) -> Span {
        self.area.slice(u32::from(at) * CAPSULE, CAPSULE)
    }

    /// Where its in-capsule data arrives.
    pub(super) fn data(&self, at: u16) -> Span {
        if self.data_len == 0 {
            return Span::default();
        }
        self.area.slice(self.data_at + u32::from(at) * self.data_stride, self.data_len)
    }
}

/// Names a receive to a queue: the ring above, the place in it below.
pub(super) fn token(ring: u16, at: u16) -> RecvToken {
    RecvToken(u32::from(ring) << 16 | u32::from(at))
}

/// Ring and place of a receive.
pub(super) fn of_token(token: RecvToken) -> (u16, u16) {
    ((token.0 >> 16) as u16, token.0 as u16)
}

impl<D: Device, B: BlockIo> Core<D, B> {
    /// The ring of a queue pair's receive queue, stocked; `None` when memory is short.
    ///
    /// A shared queue is stocked to its depth when it is first seen, or as deep as memory allows,
    /// but never for less than the queue at hand. A queue pair's own gets a receive for each entry
    /// of the submission queue: more can never be outstanding.
    pub(super) fn ring_for(&mut self, queue: &RecvQueue, params: &QueueParams) -> Option<u16> {
        let entries = u32::from(params.sq_entries.max(1));
        let (mut count, least, data_len) = if queue.shared {
            let known = |ring: &Option<Ring>| {
                ring.as_ref().is_some_and(|ring| ring.shared && ring.id == queue.id)
            };
            if let Some(at) = self.rings.iter().position(known) {
                return Some(at as u16);
            }
            (queue.depth, entries.min(queue.depth), self.config.in_capsule)
        } else {
            let count = entries.min(queue.depth);
            (count, count, params.in_capsule)
        };
        count = count.clamp(1, u32::from(NONE));
        let data_stride = data_len.next_multiple_of(PAGE_SIZE as u32);
        let (area, data_at) = loop {
            let data_at = (count * CAPSULE).next_multiple_of(PAGE_SIZE as u32);
            let bytes = u64::from(data_at) + u64::from(count) * u64::from(data_stride);
            // A shared queue leaves a quarter of the memory for what each connection needs.
            let too_much = queue.shared && bytes > u64::from(self.config.standing) / 4 * 3;
            if too_much && count / 2 >= least {
                count /= 2;
                continue;
            }
            match self.standing.allocate(bytes) {
                Some(area) => break (area, data_at),
                None if count / 2 >= least => count /= 2,
                None => return None,
            }
        };
        let at = match self.rings.iter().position(Option::is_none) {
            Some(at) => at,
            None if self.rings.len() < usize::from(NONE) => {
                self.rings.push(None);
                self.rings.len() - 1
            }
            None => {
                self.standing.free(area);
                return None;
            }
        } as u16;
        let mut ring = Ring {
            id: queue.id,
            shared: queue.shared,
            area,
            data_at,
            data_len,
            data_stride,
            states: vec![RecvState::Idle; count as usize].into(),
            posted: 0,
        };
        for place in 0..count as u16 {
            ring.post(&mut self.device, at, place);
        }
        self.rings[usize::from(at)] = Some(ring);
        Some(at)
    }

    /// Gives the memory of a queue pair's own ring back.
    pub(super) fn drop_ring(&mut self, ring: u16) {
        if let Some(gone) = self.rings[usize::from(ring)].take_if(|ring| !ring.shared) {
            self.standing.free(gone.area);
        }
    }

    /// A capsule is done with: its receive goes back to the queue, unless that is closing and the
    /// queue pair's own.
    #[inline]
    pub(super) fn release_recv(&mut self, token: RecvToken, open: bool) {
        let (ring, at) = of_token(token);
        let entry = self.rings[usize::from(ring)].as_mut().expect("a ring that is here");
        let state = &mut entry.states[usize::from(at)];
        assert!(*state == RecvState::Held, "a receive released twice");
        if open || entry.shared {
            entry.post(&mut self.device, ring, at);
        } else {
            *state = RecvState::Idle;
        }
    }
}
