//! Changing inputs.

/// Random numbers (SplitMix64): the same seed gives the same run.
#[derive(Debug, Clone)]
pub struct Dice(u64);

impl Dice {
    /// Dice that roll as `seed` says.
    pub fn new(seed: u64) -> Dice {
        Dice(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`, which is not 0.
    pub fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    fn byte(&mut self) -> u8 {
        // Edges more often than the rest.
        match self.below(4) {
            0 => [0, 1, 0x7f, 0x80, 0xfe, 0xff][self.below(6)],
            _ => self.next() as u8,
        }
    }
}

/// A new input out of `old`, perhaps with pieces of `other`, in operations of `op_len` bytes and
/// at most `max_len` bytes.
pub fn change(dice: &mut Dice, old: &[u8], other: &[u8], op_len: usize, max_len: usize) -> Vec<u8> {
    let mut input = old.to_vec();
    for _ in 0..=dice.below(6) {
        change_once(dice, &mut input, other, op_len);
    }
    input.truncate(max_len);
    input
}

fn change_once(dice: &mut Dice, input: &mut Vec<u8>, other: &[u8], op_len: usize) {
    let ops = input.len() / op_len;
    match dice.below(9) {
        // Bytes and bits.
        0 | 1 if !input.is_empty() => {
            let at = dice.below(input.len());
            input[at] = dice.byte();
        }
        2 if !input.is_empty() => {
            let at = dice.below(input.len());
            input[at] ^= 1 << dice.below(8);
        }
        // Operations: one more, one less, one again, two the other way round.
        3 | 4 => {
            let at = dice.below(ops + 1) * op_len;
            for i in 0..op_len * (1 + dice.below(4)) {
                let byte = dice.byte();
                input.insert((at + i).min(input.len()), byte);
            }
        }
        5 if ops > 0 => {
            let at = dice.below(ops) * op_len;
            let count = (1 + dice.below(4)) * op_len;
            input.drain(at..(at + count).min(input.len()));
        }
        6 if ops > 0 => {
            let at = dice.below(ops) * op_len;
            let piece = input[at..at + op_len].to_vec();
            let to = dice.below(ops + 1) * op_len;
            input.splice(to..to, piece);
        }
        7 if ops > 1 => {
            let (a, b) = (dice.below(ops) * op_len, dice.below(ops) * op_len);
            for i in 0..op_len {
                input.swap(a + i, b + i);
            }
        }
        // The end of another.
        _ => {
            let cut = dice.below(ops + 1) * op_len;
            let from = dice.below(other.len() / op_len + 1) * op_len;
            input.truncate(cut);
            input.extend(&other[from.min(other.len())..]);
        }
    }
}
