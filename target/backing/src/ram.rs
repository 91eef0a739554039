//! Memory as a disk.
//!
//! One store is shared by all cores without locks. Operations that overlap in time on the same
//! bytes may tear, as on any disk: a read beside a write sees old and new bytes mixed, never
//! anything else. Nothing outlives the process, so there is no cache to flush: what is written is
//! as durable as it will ever be.

use region::{MapError, PAGE_SIZE, Pages, Region, Span};

/// Bytes per mapping; offsets inside one must fit a [`Span`].
const CHUNK: u64 = 1 << 30;

/// A zero-filled range of memory, taken from the system page by page when first written.
#[derive(Debug)]
pub(crate) struct RamStore {
    chunks: Vec<Region>,
}

impl RamStore {
    /// Maps `size` bytes.
    pub(crate) fn new(size: u64) -> Result<RamStore, MapError> {
        let chunks = (0..size.div_ceil(CHUNK))
            .map(|i| Region::map((size - i * CHUNK).min(CHUNK) as usize, Pages::Normal))
            .collect::<Result<_, _>>()?;
        Ok(RamStore { chunks })
    }

    /// Copies the bytes from `offset` into `span` of `region`.
    pub(crate) fn read(&self, offset: u64, region: &Region, span: Span) {
        self.each_piece(offset, span.len().into(), |chunk, piece, at| {
            chunk.copy_to(piece, region, span.slice(at as u32, piece.len()));
        });
    }

    /// Copies `span` of `region` to the bytes from `offset`.
    pub(crate) fn write(&self, offset: u64, region: &Region, span: Span) {
        self.each_piece(offset, span.len().into(), |chunk, piece, at| {
            region.copy_to(span.slice(at as u32, piece.len()), chunk, piece);
        });
    }

    /// Makes a range read as zeroes; whole pages in it go back to the system if `give_back`.
    pub(crate) fn zero(&self, offset: u64, len: u64, give_back: bool) {
        self.each_piece(offset, len, |chunk, piece, _| {
            if !give_back || !discard_pages(chunk, piece) {
                chunk.fill(piece, 0);
            }
        });
    }

    /// Calls `f` with each chunk touched, the span inside it, and how far into the range it is.
    fn each_piece(&self, offset: u64, len: u64, mut f: impl FnMut(&Region, Span, u64)) {
        let mut at = 0;
        while at < len {
            let start = offset + at;
            let within = start % CHUNK;
            let n = (CHUNK - within).min(len - at);
            f(&self.chunks[(start / CHUNK) as usize], Span::new(within as u32, n as u32), at);
            at += n;
        }
    }
}

/// Gives the whole pages of `piece` back and zeroes its edges. False, with nothing promised, if
/// the system refuses or there is no whole page.
fn discard_pages(chunk: &Region, piece: Span) -> bool {
    let first = piece.offset().next_multiple_of(PAGE_SIZE as u32);
    let end = (piece.end() / PAGE_SIZE as u64 * PAGE_SIZE as u64) as u32;
    if first >= end {
        return false;
    }
    let pages = Span::new(first, end - first);
    // SAFETY: the range is whole pages inside the chunk's private anonymous mapping (checked by
    // `addr`), which holds plain bytes that no reference points into; they become zeroes.
    let given = unsafe {
        rustix::mm::madvise(
            chunk.addr(pages).as_ptr().cast(),
            pages.len() as usize,
            rustix::mm::Advice::LinuxDontNeed,
        )
    };
    if given.is_err() {
        return false;
    }
    chunk.fill(Span::new(piece.offset(), first - piece.offset()), 0);
    chunk.fill(Span::new(end, (piece.end() - u64::from(end)) as u32), 0);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_crosses_the_border_between_mappings() {
        let ram = RamStore::new(CHUNK + 8192).unwrap();
        let region = Region::map(16384, Pages::Normal).unwrap();
        region.fill(Span::new(0, 8192), 0x5a);
        ram.write(CHUNK - 4096, &region, Span::new(0, 8192));
        ram.read(CHUNK - 4096, &region, Span::new(8192, 8192));
        assert_eq!(region.first_difference(Span::new(0, 8192), Span::new(8192, 8192)), None);
        ram.zero(CHUNK - 512, 1024, true);
        ram.read(CHUNK - 4096, &region, Span::new(8192, 8192));
        assert_eq!(
            region.first_difference(Span::new(0, 8192), Span::new(8192, 8192)),
            Some(4096 - 512)
        );
    }

    #[test]
    fn giving_pages_back_zeroes_the_edges_too() {
        let ram = RamStore::new(65536).unwrap();
        let region = Region::map(65536, Pages::Normal).unwrap();
        region.fill(Span::new(0, 65536), 7);
        ram.write(0, &region, Span::new(0, 65536));
        ram.zero(1024, 10240, true);
        ram.read(0, &region, Span::new(0, 65536));
        let mut out = vec![0; 65536];
        region.read(Span::new(0, 65536), &mut out);
        assert!(out[..1024].iter().all(|b| *b == 7));
        assert!(out[1024..11264].iter().all(|b| *b == 0));
        assert!(out[11264..].iter().all(|b| *b == 7));
    }
}
