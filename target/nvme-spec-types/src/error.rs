//! The one failure that all structures share.

use core::fmt;

/// A structure could not be read because its bytes end too early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParseError {
    /// Bytes the structure takes.
    pub needed: usize,
    /// Bytes there were.
    pub got: usize,
}

impl ParseError {
    /// Passes when `bytes` holds at least `needed` bytes.
    pub(crate) fn check(bytes: &[u8], needed: usize) -> Result<(), Self> {
        if bytes.len() < needed {
            return Err(Self { needed, got: bytes.len() });
        }
        Ok(())
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "structure of {} bytes, only {} given", self.needed, self.got)
    }
}

impl core::error::Error for ParseError {}
