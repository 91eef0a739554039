//! What the tests of this crate share.

use std::vec::Vec;

/// Bytes from hexadecimal digits; white space is skipped.
pub(crate) fn hex(digits: &str) -> Vec<u8> {
    let digits: Vec<u8> = digits.bytes().filter(|b| !b.is_ascii_whitespace()).collect();
    digits
        .chunks(2)
        .map(|pair| u8::from_str_radix(core::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

/// `N` bytes, zero but for the given pieces in hexadecimal.
pub(crate) fn sparse<const N: usize>(pieces: &[(usize, &str)]) -> [u8; N] {
    let mut bytes = [0; N];
    for (at, digits) in pieces {
        let piece = hex(digits);
        bytes[*at..at + piece.len()].copy_from_slice(&piece);
    }
    bytes
}
