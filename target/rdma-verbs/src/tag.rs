//! What goes into a work request's `wr_id`: whose completion it is, without any look-up.
//!
//! The caller's own id stays in our tables. A generation tells the completions of a queue pair
//! that is gone from those of the one that took its place.

/// Queue pairs or receive queues of one device, at most.
pub(crate) const MAX_SLOTS: usize = 1 << 16;

const GENERATION_MASK: u16 = 0x7fff;
const RECV_BIT: u64 = 1 << 63;

/// A work request of ours: bit 63 receive, 62-48 generation, 47-32 slot, 31-0 index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tag {
    /// A receive rather than a send-side work request.
    pub(crate) recv: bool,
    /// Which owner of the slot, 15 bits.
    pub(crate) generation: u16,
    /// Queue pair, or receive queue for a receive.
    pub(crate) slot: u16,
    /// Sequence number of a send-side work request, or entry of a receive.
    pub(crate) index: u32,
}

impl Tag {
    /// As a `wr_id`.
    pub(crate) fn encode(self) -> u64 {
        let recv = if self.recv { RECV_BIT } else { 0 };
        recv | u64::from(self.generation & GENERATION_MASK) << 48
            | u64::from(self.slot) << 32
            | u64::from(self.index)
    }

    /// From a `wr_id`.
    pub(crate) fn decode(wr_id: u64) -> Tag {
        Tag {
            recv: wr_id & RECV_BIT != 0,
            generation: (wr_id >> 48) as u16 & GENERATION_MASK,
            slot: (wr_id >> 32) as u16,
            index: wr_id as u32,
        }
    }
}

/// The generation after `generation`.
pub(crate) fn next_generation(generation: u16) -> u16 {
    generation.wrapping_add(1) & GENERATION_MASK
}

#[cfg(test)]
mod tests {
    use super::{Tag, next_generation};

    #[test]
    fn a_tag_survives_the_way_through_a_wr_id() {
        for tag in [
            Tag { recv: false, generation: 0, slot: 0, index: 0 },
            Tag { recv: true, generation: 0x7fff, slot: 0xffff, index: u32::MAX },
            Tag { recv: true, generation: 1, slot: 2, index: 3 },
            Tag { recv: false, generation: 0x4000, slot: 0x8001, index: 0x8000_0001 },
        ] {
            assert_eq!(Tag::decode(tag.encode()), tag);
        }
    }

    #[test]
    fn generations_wrap_within_their_bits() {
        assert_eq!(next_generation(0x7fff), 0);
        assert_eq!(next_generation(7), 8);
    }
}
