//! What a block holds: a function of its address, a generation and a seed.

/// A generation's pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pattern {
    pub(crate) seed: u64,
    pub(crate) generation: u64,
}

/// Spreads the bits of `x` over all of the result.
pub(crate) fn mix(mut x: u64) -> u64 {
    x ^= x >> 32;
    x = x.wrapping_mul(0xd6e8_feb8_6659_fd93);
    x ^= x >> 32;
    x = x.wrapping_mul(0xd6e8_feb8_6659_fd93);
    x ^ x >> 32
}

impl Pattern {
    /// Fills one logical block: its address, the generation, and words that depend on both.
    pub(crate) fn fill(&self, lba: u64, block: &mut [u8]) {
        let mut state = mix(self.seed ^ mix(lba ^ mix(self.generation)));
        for (index, word) in block.chunks_exact_mut(8).enumerate() {
            let value = match index {
                0 => lba,
                1 => self.generation,
                _ => {
                    state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(lba | 1);
                    state ^ state >> 29
                }
            };
            word.copy_from_slice(&value.to_le_bytes());
        }
    }

    /// `None` when the block is as [`fill`](Self::fill) leaves it, else what is wrong, in words.
    pub(crate) fn check(&self, lba: u64, block: &[u8], expected: &mut [u8]) -> Option<String> {
        let expected = &mut expected[..block.len()];
        self.fill(lba, expected);
        let at = block.iter().zip(expected.iter()).position(|(found, should)| found != should)?;
        let word = |index: usize| {
            let bytes = block[index * 8..index * 8 + 8].try_into().expect("eight bytes");
            u64::from_le_bytes(bytes)
        };
        let other = Pattern { generation: word(1), ..*self };
        other.fill(word(0), expected);
        let guess = if block.iter().all(|&byte| byte == 0) {
            "it is all zeroes".to_owned()
        } else if expected == block {
            format!("it holds what belongs at block {} in generation {}", word(0), word(1))
        } else {
            format!("it begins {:02x?}", &block[at..(at + 16).min(block.len())])
        };
        Some(format!(
            "block {lba} is wrong from byte {at} on, in generation {}: {guess}",
            self.generation
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATTERN: Pattern = Pattern { seed: 7, generation: 3 };

    #[test]
    fn a_block_is_right_only_in_its_place_and_generation() {
        let (mut block, mut scratch) = ([0u8; 512], [0u8; 512]);
        PATTERN.fill(9, &mut block);
        assert_eq!(PATTERN.check(9, &block, &mut scratch), None);
        let wrong = PATTERN.check(10, &block, &mut scratch).unwrap();
        assert!(wrong.contains("belongs at block 9 in generation 3"), "{wrong}");
        let later = Pattern { generation: 4, ..PATTERN };
        let wrong = later.check(9, &block, &mut scratch).unwrap();
        assert!(wrong.contains("in generation 3"), "{wrong}");
    }

    #[test]
    fn one_wrong_byte_is_found_and_named() {
        let (mut block, mut scratch) = ([0u8; 4096], [0u8; 4096]);
        PATTERN.fill(1 << 40, &mut block);
        block[4095] ^= 1;
        let wrong = PATTERN.check(1 << 40, &block, &mut scratch).unwrap();
        assert!(wrong.contains("from byte 4095"), "{wrong}");
    }

    #[test]
    fn blocks_have_nothing_in_common_beyond_their_head() {
        let (mut a, mut b) = ([0u8; 4096], [0u8; 4096]);
        PATTERN.fill(0, &mut a);
        PATTERN.fill(1, &mut b);
        let same = a.chunks(8).zip(b.chunks(8)).filter(|(a, b)| a == b).count();
        assert_eq!(same, 1, "only the generation");
    }
}
