//! What blocks hold: content that names the write that made it and the block it was made for, so
//! that a block can be told from two numbers, and they from a block, also after it was copied
//! elsewhere.

use crate::rng::mix;

/// Names a write that put content into blocks: 0 is all zeroes.
pub type Stamp = u64;

/// What a block holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Content {
    /// The write that made it.
    pub stamp: Stamp,
    /// The disk in the upper 16 bits and the block below that it was written to; where it was copied
    /// to does not matter.
    home: u64,
}

impl Content {
    /// Nothing but zeroes.
    pub const ZERO: Content = Content { stamp: 0, home: 0 };

    /// What the write of `stamp` puts into block `lba` of a disk.
    pub fn new(stamp: Stamp, disk: usize, lba: u64) -> Content {
        match stamp {
            0 => Content::ZERO,
            _ => Content { stamp, home: (disk as u64) << 48 | lba },
        }
    }

    /// Fills a block with it.
    pub fn fill(self, block: &mut [u8]) {
        if self == Content::ZERO {
            return block.fill(0);
        }
        block[..8].copy_from_slice(&self.stamp.to_le_bytes());
        block[8..16].copy_from_slice(&self.home.to_le_bytes());
        for (chunk, word) in block[16..].chunks_exact_mut(8).zip(self.words()) {
            chunk.copy_from_slice(&word.to_le_bytes());
        }
    }

    /// What `block` holds, or `None` when it is no whole content of any.
    pub fn of(block: &[u8]) -> Option<Content> {
        let word = |chunk: &[u8]| chunk.try_into().ok().map(u64::from_le_bytes);
        let content = Content { stamp: word(&block[..8])?, home: word(&block[8..16])? };
        if content.stamp == 0 {
            return block.iter().all(|&byte| byte == 0).then_some(Content::ZERO);
        }
        let mut rest = block[16..].chunks_exact(8).zip(content.words());
        rest.all(|(chunk, expected)| word(chunk) == Some(expected)).then_some(content)
    }

    /// What follows the two numbers, 8 bytes at a time.
    fn words(self) -> impl Iterator<Item = u64> {
        let first = mix(self.stamp ^ mix(self.home + 1));
        let next = |word: &u64| Some(word.wrapping_add(0x9e37_79b9_7f4a_7c15));
        std::iter::successors(Some(first), next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_names_its_write_and_its_home_and_nothing_else_does() {
        let mut block = [0u8; 512];
        let content = Content::new(7, 1, 3);
        content.fill(&mut block);
        assert_eq!(Content::of(&block), Some(content));
        block[8] ^= 1;
        assert_eq!(Content::of(&block), None, "of another home");
        block[8] ^= 1;
        block[511] ^= 1;
        assert_eq!(Content::of(&block), None, "with a bit flipped");
        assert_eq!(Content::of(&[0; 512]), Some(Content::ZERO));
        assert_eq!(Content::new(0, 1, 3), Content::ZERO, "zeroes have no home");
        block.fill(0);
        block[300] = 1;
        assert_eq!(Content::of(&block), None, "almost zero");
    }
}
