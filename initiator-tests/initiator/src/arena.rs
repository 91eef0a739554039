//! Who uses which part of the host's region: a first-fit allocator over spans.

use region::Span;
use std::collections::BTreeMap;

/// Hands out spans of a region that start on a multiple of 4096 and takes them back.
#[derive(Debug)]
pub struct Arena {
    /// Free ranges: offset to length, both multiples of [`Arena::UNIT`], never adjacent.
    free: BTreeMap<u32, u32>,
    total: u32,
}

impl Arena {
    /// Alignment and granularity in bytes.
    pub const UNIT: u32 = 4096;

    /// Everything in `span` is free.
    ///
    /// # Panics
    /// When `span` does not start and end on a multiple of [`Arena::UNIT`].
    pub fn new(span: Span) -> Arena {
        assert!(span.offset().is_multiple_of(Self::UNIT) && span.len().is_multiple_of(Self::UNIT));
        let mut free = BTreeMap::new();
        if !span.is_empty() {
            free.insert(span.offset(), span.len());
        }
        Arena { free, total: span.len() }
    }

    /// A span of `len` bytes (at least 1), or `None` when no free range is long enough.
    pub fn alloc(&mut self, len: u32) -> Option<Span> {
        let need = len.max(1).checked_next_multiple_of(Self::UNIT)?;
        let (&at, &size) = self.free.iter().find(|&(_, &size)| size >= need)?;
        self.free.remove(&at);
        if size > need {
            self.free.insert(at + need, size - need);
        }
        Some(Span::new(at, len))
    }

    /// Takes a span back that [`alloc`](Self::alloc) gave.
    ///
    /// # Panics
    /// When part of it is free already: our own bug.
    pub fn free(&mut self, span: Span) {
        let mut at = span.offset();
        let mut len = span.len().max(1).next_multiple_of(Self::UNIT);
        if let Some((&before, &size)) = self.free.range(..=at).next_back() {
            assert!(before + size <= at, "span {span:?} freed twice");
            if before + size == at {
                self.free.remove(&before);
                at = before;
                len += size;
            }
        }
        if let Some((&after, &size)) = self.free.range(at..).next() {
            assert!(at + len <= after, "span {span:?} freed twice");
            if at + len == after {
                self.free.remove(&after);
                len += size;
            }
        }
        self.free.insert(at, len);
    }

    /// Bytes in use, rounded up to units.
    pub fn used(&self) -> u32 {
        self.total - self.free.values().sum::<u32>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn freed_neighbours_become_one_range_again() {
        let mut arena = Arena::new(Span::new(0, 16384));
        let spans: Vec<Span> = (0..4).map(|_| arena.alloc(100).unwrap()).collect();
        assert_eq!(arena.alloc(1), None);
        for at in [1, 3, 0, 2] {
            arena.free(spans[at]);
        }
        assert_eq!(arena.used(), 0);
        assert_eq!(arena.alloc(16384), Some(Span::new(0, 16384)));
    }

    #[test]
    #[should_panic(expected = "freed twice")]
    fn freeing_twice_is_noticed() {
        let mut arena = Arena::new(Span::new(0, 16384));
        let span = arena.alloc(5000).unwrap();
        arena.free(span);
        arena.free(span);
    }
}
