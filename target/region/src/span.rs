/// A range of bytes inside one region: offset and length, both 32-bit.
///
/// A span says nothing about which region it belongs to; each data core has
/// exactly one, so there is no room for a mix-up there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Span {
    offset: u32,
    len: u32,
}

impl Span {
    /// The `len` bytes at `offset`, both in bytes.
    pub const fn new(offset: u32, len: u32) -> Span {
        Span { offset, len }
    }

    /// First byte, counted from the start of the region.
    pub const fn offset(self) -> u32 {
        self.offset
    }

    /// Length in bytes.
    pub const fn len(self) -> u32 {
        self.len
    }

    /// Whether the span holds no byte.
    pub const fn is_empty(self) -> bool {
        self.len == 0
    }

    /// One past the last byte.
    pub const fn end(self) -> u64 {
        self.offset as u64 + self.len as u64
    }

    /// The `len` bytes that start `at` bytes into this span.
    ///
    /// # Panics
    /// If that reaches past this span's end.
    #[must_use]
    #[inline]
    pub fn slice(self, at: u32, len: u32) -> Span {
        if u64::from(at) + u64::from(len) > u64::from(self.len) {
            past_end(at, len, self.len);
        }
        Span::new(self.offset + at, len)
    }
}

/// The words of [`Span::slice`]'s panic, out of the way of those who slice.
#[cold]
fn past_end(at: u32, len: u32, of: u32) -> ! {
    panic!("slice {at}+{len} of a span of {of} bytes");
}
