//! ASCII fields of a fixed length.

use core::fmt;

use crate::layout::Field;

/// An ASCII string of `N` bytes, left justified and filled up with spaces
/// (NVMe Base 2.1, 1.4.2). What a peer sent is kept as it is, ASCII or not.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct FixedStr<const N: usize>([u8; N]);

impl<const N: usize> FixedStr<N> {
    /// Only spaces.
    pub const EMPTY: Self = Self([b' '; N]);

    /// The field for `text`; `None` when it is longer than `N` bytes or has
    /// a character outside printable ASCII.
    pub fn new(text: &str) -> Option<Self> {
        let printable = text.bytes().all(|b| (0x20..0x7f).contains(&b));
        if !printable || text.len() > N {
            return None;
        }
        let mut bytes = [b' '; N];
        bytes[..text.len()].copy_from_slice(text.as_bytes());
        Some(Self(bytes))
    }

    /// The field as it stands on the wire.
    pub const fn from_bytes(bytes: [u8; N]) -> Self {
        Self(bytes)
    }

    /// The field as it goes on the wire.
    pub const fn as_bytes(&self) -> &[u8; N] {
        &self.0
    }

    /// Without the spaces at the end, nor the zero bytes with which some
    /// peers fill up.
    pub fn trimmed(&self) -> &[u8] {
        let end = self.0.iter().rposition(|&b| b != b' ' && b != 0);
        &self.0[..end.map_or(0, |at| at + 1)]
    }

    /// As text without the fill; `None` when it is not UTF-8.
    pub fn as_str(&self) -> Option<&str> {
        core::str::from_utf8(self.trimmed()).ok()
    }
}

impl<const N: usize> Default for FixedStr<N> {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl<const N: usize> fmt::Display for FixedStr<N> {
    /// Without the fill, other bytes than printable ASCII escaped.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.trimmed().escape_ascii())
    }
}

impl<const N: usize> fmt::Debug for FixedStr<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

impl<const N: usize> Field for FixedStr<N> {
    const SIZE: usize = N;
    fn get(bytes: &[u8]) -> Self {
        Self(Field::get(bytes))
    }
    fn put(&self, out: &mut [u8]) {
        out.copy_from_slice(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn text_is_left_justified_and_filled_with_spaces() {
        assert_eq!(FixedStr::<6>::new("ab").unwrap().as_bytes(), b"ab    ");
        assert_eq!(FixedStr::<2>::new("ab").unwrap().as_str(), Some("ab"));
    }

    #[test]
    fn long_or_unprintable_text_is_refused() {
        assert_eq!(FixedStr::<2>::new("abc"), None);
        assert_eq!(FixedStr::<9>::new("a\n"), None);
        assert_eq!(FixedStr::<9>::new("ü"), None);
    }

    #[test]
    fn both_kinds_of_fill_are_trimmed_and_the_rest_escaped() {
        assert_eq!(FixedStr::from_bytes(*b"4420\0\0\0 ").to_string(), "4420");
        assert_eq!(FixedStr::from_bytes(*b" a\n\xff ").to_string(), " a\\n\\xff");
        assert_eq!(FixedStr::from_bytes([0; 4]).trimmed(), b"");
    }
}
