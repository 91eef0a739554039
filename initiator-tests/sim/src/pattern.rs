//! What blocks hold: content made of a stamp and a place, so that 512 bytes can be told from one
//! number, and a number from 512 bytes.

use crate::rng::mix;

/// Names the content of a block: 0 is all zeroes, any other is the write that put it there.
pub type Stamp = u64;

/// Fills `block` with the content of `stamp` at block number `lba`.
pub fn fill(block: &mut [u8], stamp: Stamp, lba: u64) {
    if stamp == 0 {
        return block.fill(0);
    }
    block[..8].copy_from_slice(&stamp.to_le_bytes());
    let mut word = mix(stamp ^ mix(lba + 1));
    for chunk in block[8..].chunks_exact_mut(8) {
        chunk.copy_from_slice(&word.to_le_bytes());
        word = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
    }
}

/// The stamp of `block` at `lba`, or `None` when it is no whole content of any.
pub fn stamp_of(block: &[u8], lba: u64) -> Option<Stamp> {
    let stamp = u64::from_le_bytes(block[..8].try_into().ok()?);
    if stamp == 0 {
        return block.iter().all(|&byte| byte == 0).then_some(0);
    }
    let mut word = mix(stamp ^ mix(lba + 1));
    for chunk in block[8..].chunks_exact(8) {
        if u64::from_le_bytes(chunk.try_into().ok()?) != word {
            return None;
        }
        word = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
    }
    Some(stamp)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_names_its_stamp_and_nothing_else_does() {
        let mut block = [0u8; 512];
        fill(&mut block, 7, 3);
        assert_eq!(stamp_of(&block, 3), Some(7));
        assert_eq!(stamp_of(&block, 4), None, "in another place");
        block[511] ^= 1;
        assert_eq!(stamp_of(&block, 3), None, "with a bit flipped");
        assert_eq!(stamp_of(&[0; 512], 3), Some(0));
        block.fill(0);
        block[300] = 1;
        assert_eq!(stamp_of(&block, 3), None, "almost zero");
    }
}
