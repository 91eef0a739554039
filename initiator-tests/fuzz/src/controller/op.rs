//! Numbers out of the bytes of one operation.

/// Bytes of an operation.
pub const OP_LEN: usize = 16;

/// One operation: what its bytes say, and as many more numbers as it takes, which follow from them.
#[derive(Debug, Clone)]
pub(super) struct Op {
    bytes: [u8; OP_LEN],
    dice: u64,
}

impl Op {
    /// The operation that these bytes spell; missing ones are zero.
    pub(super) fn new(spelled: &[u8]) -> Op {
        let mut bytes = [0; OP_LEN];
        let len = spelled.len().min(OP_LEN);
        bytes[..len].copy_from_slice(&spelled[..len]);
        let dice = bytes.iter().fold(0xcbf2_9ce4_8422_2325, |sum: u64, &byte| {
            (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        Op { bytes, dice }
    }

    pub(super) fn byte(&self, at: usize) -> u8 {
        self.bytes[at]
    }

    pub(super) fn long(&self, at: usize) -> u32 {
        u32::from_le_bytes([self.byte(at), self.byte(at + 1), self.byte(at + 2), self.byte(at + 3)])
    }

    /// One of so many things, by the byte at `at`.
    pub(super) fn pick(&self, at: usize, of: usize) -> usize {
        usize::from(self.byte(at)) % of.max(1)
    }

    /// The next number that follows from the bytes.
    pub(super) fn roll(&mut self) -> u64 {
        self.dice = self.dice.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.dice ^ (self.dice >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z ^ (z >> 29)
    }

    /// The same below `end`, which is not 0.
    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.roll() % end
    }

    /// True once in `n` times.
    pub(super) fn once_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}
