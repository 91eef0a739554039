//! Who uses which bytes of a core's region.
//!
//! The region has two parts. The *standing* part holds what lives as long as a connection or a
//! receive queue: receives and completion entries. It is handed out in whole pages, first fit, at
//! connect rate. The *transfer* part holds the buffers of commands in flight: a buddy allocator with
//! a constant number of steps per level and no memory of its own to grow. They are apart so that
//! connections can never split up the space that the largest transfer needs.

use region::{PAGE_SIZE, Span};

#[cfg(test)]
mod tests;

const PAGE: u32 = PAGE_SIZE as u32;
/// Levels of the buddy allocator: blocks of 4 KiB to 4 GiB.
const LEVELS: usize = 21;
/// End of a free list.
const NIL: u32 = u32::MAX;
/// Mark of a page that does not start a block.
const INSIDE: u8 = 0xff;
/// Flag of a page that starts a block in use; the rest is its level.
const USED: u8 = 0x80;
/// Flag of a page that starts a block kept at hand; the rest is its level.
const AT_HAND: u8 = 0x40;
/// Blocks of one level kept at hand at most.
const KEPT: usize = 64;

/// Buffers of commands in flight, in blocks of 4 KiB times a power of two.
#[derive(Debug)]
pub(crate) struct Buddy {
    /// First page of the part.
    base: u32,
    max_level: usize,
    /// First free block of each level, as a page number within the part.
    heads: [u32; LEVELS],
    next: Box<[u32]>,
    prev: Box<[u32]>,
    /// What each page is: the start of a free block of that level, of a used one, or neither.
    marks: Box<[u8]>,
    /// Freed blocks of each level that were not joined with their neighbours yet: most are wanted
    /// again at once. They are joined when a request would fail otherwise.
    at_hand: [Vec<u32>; LEVELS],
    used_blocks: u32,
    used_pages: u32,
}

impl Buddy {
    /// Takes over `part` (whole pages). No block is larger than `max_block` bytes, a power of two
    /// of at least 4096.
    pub(crate) fn new(part: Span, max_block: u32) -> Buddy {
        assert!(part.offset().is_multiple_of(PAGE) && part.len().is_multiple_of(PAGE));
        let pages = part.len() / PAGE;
        let max_level = level_of(max_block);
        let mut buddy = Buddy {
            base: part.offset() / PAGE,
            max_level,
            heads: [NIL; LEVELS],
            next: vec![NIL; pages as usize].into(),
            prev: vec![NIL; pages as usize].into(),
            marks: vec![INSIDE; pages as usize].into(),
            at_hand: std::array::from_fn(|level| {
                Vec::with_capacity(if level <= max_level { KEPT } else { 0 })
            }),
            used_blocks: 0,
            used_pages: 0,
        };
        let mut page = 0;
        while page < pages {
            let fits = (pages - page).ilog2() as usize;
            let aligned = if page == 0 { max_level } else { page.trailing_zeros() as usize };
            let level = fits.min(aligned).min(max_level);
            buddy.link(page, level);
            page += 1 << level;
        }
        buddy
    }

    /// A buffer of `len` bytes (at least 1) that starts on a page, if a block is free.
    #[inline]
    pub(crate) fn allocate(&mut self, len: u32) -> Option<Span> {
        let level = level_of(len);
        let page = match self.at_hand.get_mut(level)?.pop() {
            Some(page) => page,
            None => self.find(level)?,
        };
        self.marks[page as usize] = USED | level as u8;
        self.used_blocks += 1;
        self.used_pages += 1 << level;
        Some(Span::new((self.base + page) * PAGE, len))
    }

    /// A block that is not at hand; `None` for a level that is too high.
    #[inline(never)]
    fn find(&mut self, level: usize) -> Option<u32> {
        self.split(level).or_else(|| {
            self.join_all();
            self.split(level)
        })
    }

    /// Takes a buffer back.
    ///
    /// # Panics
    /// If it is not one that is in use: our own bug.
    #[inline]
    pub(crate) fn free(&mut self, buffer: Span) {
        let page = buffer.offset() / PAGE - self.base;
        let mark = self.marks[page as usize];
        assert!(mark != INSIDE && mark & USED != 0, "buffer {buffer:?} is not in use");
        let level = usize::from(mark & !USED);
        self.used_blocks -= 1;
        self.used_pages -= 1 << level;
        let at_hand = &mut self.at_hand[level];
        if at_hand.len() < KEPT {
            self.marks[page as usize] = AT_HAND | level as u8;
            at_hand.push(page);
        } else {
            self.join(page, level);
        }
    }

    /// Takes a block of the level out of the free lists, splitting a larger one where needed.
    fn split(&mut self, wanted: usize) -> Option<u32> {
        let mut level = (wanted..=self.max_level).find(|&level| self.heads[level] != NIL)?;
        let page = self.heads[level];
        self.unlink(page, level);
        while level > wanted {
            level -= 1;
            self.link(page + (1 << level), level);
        }
        Some(page)
    }

    /// Puts a block into the free lists, joined with its free neighbours.
    fn join(&mut self, mut page: u32, mut level: usize) {
        self.marks[page as usize] = INSIDE;
        while level < self.max_level {
            let other = page ^ (1 << level);
            if self.marks.get(other as usize) != Some(&(level as u8)) {
                break;
            }
            self.unlink(other, level);
            page = page.min(other);
            level += 1;
        }
        self.link(page, level);
    }

    /// Joins everything at hand.
    fn join_all(&mut self) {
        for level in 0..=self.max_level {
            while let Some(page) = self.at_hand[level].pop() {
                self.join(page, level);
            }
        }
    }

    /// Blocks in use, and the bytes they take.
    pub(crate) fn used(&self) -> (u32, u64) {
        (self.used_blocks, u64::from(self.used_pages) * u64::from(PAGE))
    }

    /// Bytes that a buffer in use takes; `None` when it is not one.
    pub(crate) fn block_len(&self, buffer: Span) -> Option<u64> {
        let page = (buffer.offset() / PAGE).checked_sub(self.base)?;
        let mark = *self.marks.get(page as usize)?;
        (mark != INSIDE && mark & USED != 0).then(|| u64::from(PAGE) << (mark & !USED))
    }

    fn link(&mut self, page: u32, level: usize) {
        let head = self.heads[level];
        self.next[page as usize] = head;
        self.prev[page as usize] = NIL;
        if head != NIL {
            self.prev[head as usize] = page;
        }
        self.heads[level] = page;
        self.marks[page as usize] = level as u8;
    }

    fn unlink(&mut self, page: u32, level: usize) {
        let (next, prev) = (self.next[page as usize], self.prev[page as usize]);
        match prev {
            NIL => self.heads[level] = next,
            _ => self.next[prev as usize] = next,
        }
        if next != NIL {
            self.prev[next as usize] = prev;
        }
        self.marks[page as usize] = INSIDE;
    }
}

/// The level whose blocks hold `len` bytes.
fn level_of(len: u32) -> usize {
    let last_page = (len.max(1) - 1) / PAGE;
    (u32::BITS - last_page.leading_zeros()) as usize
}

/// Memory that lives with connections and receive queues, in whole pages.
#[derive(Debug)]
pub(crate) struct Standing {
    /// Free runs of pages as (first, count), by rising first, never adjacent.
    free: Vec<(u32, u32)>,
    used_pages: u32,
}

impl Standing {
    /// Takes over `part` (whole pages).
    pub(crate) fn new(part: Span) -> Standing {
        assert!(part.offset().is_multiple_of(PAGE) && part.len().is_multiple_of(PAGE));
        let run = (part.offset() / PAGE, part.len() / PAGE);
        Standing { free: if run.1 == 0 { Vec::new() } else { vec![run] }, used_pages: 0 }
    }

    /// `len` bytes that start on a page, if so many are free in one run. Empty for 0.
    pub(crate) fn allocate(&mut self, len: u64) -> Option<Span> {
        if len == 0 {
            return Some(Span::default());
        }
        let pages = u32::try_from(len.div_ceil(u64::from(PAGE))).ok()?;
        let at = self.free.iter().position(|&(_, count)| count >= pages)?;
        let (first, count) = self.free[at];
        if count == pages {
            self.free.remove(at);
        } else {
            self.free[at] = (first + pages, count - pages);
        }
        self.used_pages += pages;
        Some(Span::new(first * PAGE, u32::try_from(len).ok()?))
    }

    /// Takes memory back that [`Standing::allocate`] gave.
    pub(crate) fn free(&mut self, span: Span) {
        if span.is_empty() {
            return;
        }
        let (first, pages) = (span.offset() / PAGE, span.len().div_ceil(PAGE));
        self.used_pages -= pages;
        let at = self.free.partition_point(|&(start, _)| start < first);
        self.free.insert(at, (first, pages));
        if at + 1 < self.free.len() && first + pages == self.free[at + 1].0 {
            self.free[at].1 += self.free.remove(at + 1).1;
        }
        if at > 0 && self.free[at - 1].0 + self.free[at - 1].1 == first {
            self.free[at - 1].1 += self.free.remove(at).1;
        }
    }

    /// Bytes in use.
    pub(crate) fn used(&self) -> u64 {
        u64::from(self.used_pages) * u64::from(PAGE)
    }
}
