//! Completion queue entry: the 16 bytes every response is.

use crate::layout::{get, put};
use crate::{ParseError, Status};

/// Bytes of a completion queue entry.
pub const COMPLETION_SIZE: usize = 16;

/// A completion queue entry (NVMe Base 2.1, 3.3.3.2).
///
/// Over fabrics the phase tag does not exist: it is written as 0 and ignored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Completion {
    /// Command specific, dword 0.
    pub dw0: u32,
    /// Command specific, dword 1.
    pub dw1: u32,
    /// Submission queue head pointer (SQHD); FFFFh when submission queue flow
    /// control is off.
    pub sqhd: u16,
    /// Submission queue identifier (SQID); reserved, thus 0, over fabrics.
    pub sqid: u16,
    /// Identifier of the command that is completed.
    pub cid: u16,
    /// What became of it.
    pub status: Status,
}

impl Completion {
    /// The completion of `cid` with `status`, everything else zero.
    #[inline]
    pub fn new(cid: u16, status: impl Into<Status>) -> Self {
        Self { cid, status: status.into(), ..Self::default() }
    }

    /// Reads a completion from the first 16 bytes.
    ///
    /// # Errors
    /// [`ParseError`] when there are fewer.
    #[inline]
    pub fn parse(bytes: &[u8]) -> Result<Self, ParseError> {
        ParseError::check(bytes, COMPLETION_SIZE)?;
        Ok(Self {
            dw0: get(bytes, 0),
            dw1: get(bytes, 4),
            sqhd: get(bytes, 8),
            sqid: get(bytes, 10),
            cid: get(bytes, 12),
            status: Status::from_wire(get(bytes, 14)),
        })
    }

    /// The completion as it goes on the wire.
    #[inline]
    pub fn to_bytes(&self) -> [u8; COMPLETION_SIZE] {
        let mut out = [0; COMPLETION_SIZE];
        put(&mut out, 0, self.dw0);
        put(&mut out, 4, self.dw1);
        put(&mut out, 8, self.sqhd);
        put(&mut out, 10, self.sqid);
        put(&mut out, 12, self.cid);
        put(&mut out, 14, self.status.to_wire());
        out
    }

    /// Dwords 0 and 1 as one value, as Property Get returns it.
    #[inline]
    pub const fn result64(&self) -> u64 {
        self.dw0 as u64 | (self.dw1 as u64) << 32
    }

    /// Sets dwords 0 and 1 from one value.
    #[inline]
    pub fn set_result64(&mut self, value: u64) {
        self.dw0 = value as u32;
        self.dw1 = (value >> 32) as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::StatusCode;
    use proptest::prelude::*;

    #[test]
    fn an_invalid_field_completion_is_encoded_by_the_table() {
        let mut cqe = Completion::new(0x1234, StatusCode::INVALID_FIELD.with_dnr());
        cqe.sqhd = 5;
        cqe.set_result64(0x0102_0304_0506_0708);
        assert_eq!(cqe.to_bytes(), [8, 7, 6, 5, 4, 3, 2, 1, 5, 0, 0, 0, 0x34, 0x12, 0x04, 0x80]);
        assert_eq!(cqe.result64(), 0x0102_0304_0506_0708);
    }

    #[test]
    fn fifteen_bytes_are_refused() {
        assert_eq!(Completion::parse(&[0; 15]), Err(ParseError { needed: 16, got: 15 }));
    }

    proptest! {
        #[test]
        fn all_but_the_phase_tag_survives(mut bytes: [u8; 16]) {
            let cqe = Completion::parse(&bytes).unwrap();
            bytes[14] &= !1;
            prop_assert_eq!(cqe.to_bytes(), bytes);
        }
    }
}
