//! The one source of chance: xoshiro256** over a seed spread by splitmix64 (both public domain
//! algorithms of Blackman and Vigna).

/// A stream of numbers that a seed fixes for ever.
#[derive(Debug, Clone)]
pub struct Rng {
    state: [u64; 4],
}

impl Rng {
    /// The stream of `seed`.
    pub fn new(seed: u64) -> Rng {
        let mut at = seed;
        let state = std::array::from_fn(|_| {
            at = at.wrapping_add(0x9e37_79b9_7f4a_7c15);
            mix(at)
        });
        Rng { state }
    }

    /// A stream of its own for one part of the world, so that what another part draws does not
    /// change it.
    pub fn fork(&mut self) -> Rng {
        Rng::new(self.next())
    }

    /// Any number.
    #[allow(clippy::should_implement_trait)] // an endless stream is no iterator
    pub fn next(&mut self) -> u64 {
        let s = &mut self.state;
        let result = s[1].wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// 0 to `n - 1`; 0 when `n` is 0.
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(n)) >> 64) as u64
    }

    /// `low` to `high`, both included.
    pub fn range(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// True once in 10,000 times `per_10k`.
    pub fn chance(&mut self, per_10k: u32) -> bool {
        per_10k != 0 && self.below(10_000) < u64::from(per_10k)
    }

    /// One of the choices.
    pub fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.below(choices.len() as u64) as usize]
    }
}

/// Spreads the bits of a number.
pub(crate) fn mix(n: u64) -> u64 {
    let n = (n ^ (n >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let n = (n ^ (n >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    n ^ (n >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_fixes_the_stream_and_another_seed_changes_it() {
        let stream = |seed| {
            let mut rng = Rng::new(seed);
            (0..8).map(|_| rng.next()).collect::<Vec<_>>()
        };
        assert_eq!(stream(7), stream(7));
        assert_ne!(stream(7), stream(8));
    }

    #[test]
    fn bounds_are_kept_and_reached() {
        let mut rng = Rng::new(1);
        let mut seen = [false; 5];
        for _ in 0..200 {
            seen[rng.range(3, 7) as usize - 3] = true;
        }
        assert_eq!(seen, [true; 5]);
        assert_eq!(rng.below(0), 0);
    }
}
