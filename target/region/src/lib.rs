//! DMA memory: one page-aligned mapping that an RDMA device and io_uring share.
//!
//! A [`Region`] owns one anonymous mapping for its whole life. It is handed
//! around as `Arc<Region>`: each device that registers it keeps a clone, so
//! the pages cannot be unmapped under a registration. Places inside it are
//! named by [`Span`]s, never by pointers.
//!
//! While a device may touch the memory it is *shared*: nobody may hold a Rust
//! reference into it. The only ways in and out are the bounds-checked raw
//! copies below. A copy that races with a device reads or leaves torn bytes,
//! never anything worse; protocol code therefore copies a capsule out once and
//! looks only at the copy.
//!
//! This crate never allocates inside a region: who may use which span is for
//! the owner (the reactor's buffer pool) to decide.
#![allow(unsafe_code)] // one of the three crates that may: the mapping and raw copies

mod span;
#[cfg(test)]
mod tests;

pub use span::Span;

use rustix::mm::{Advice, MapFlags, ProtFlags};
use std::ptr::NonNull;

/// Size of the pages that alignment promises are given in, in bytes.
///
/// Spans handed to direct I/O start on a multiple of this.
pub const PAGE_SIZE: usize = 4096;

/// Size of a huge page on the machines we support, in bytes.
const HUGE_PAGE_SIZE: usize = 2 << 20;

/// Largest region, in bytes: a [`Span`] addresses with 32 bits.
pub const MAX_REGION_LEN: usize = 1 << 32;

/// Which pages a region is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Pages {
    /// Ordinary pages; the kernel may merge them into transparent huge pages.
    #[default]
    Normal,
    /// Reserved huge pages (2 MiB) where the machine has enough, else ordinary ones.
    PreferHuge,
    /// Reserved huge pages (2 MiB) or none at all.
    Huge,
}

/// Why a region could not be mapped.
#[derive(Debug, thiserror::Error)]
pub enum MapError {
    /// The length is zero or over [`MAX_REGION_LEN`].
    #[error(
        "a memory region of {len} bytes cannot be made: it must be 1 to {MAX_REGION_LEN} bytes"
    )]
    Length {
        /// The length asked for, in bytes.
        len: usize,
    },
    /// There are not enough reserved huge pages.
    #[error(
        "{len} bytes of memory need {pages} huge pages of 2 MiB, and not as many are reserved and \
         free: {source}; reserve them (sysctl -w vm.nr_hugepages=COUNT), or do without"
    )]
    NoHugePages {
        /// The length asked for, in bytes.
        len: usize,
        /// Huge pages that it takes.
        pages: usize,
        /// The kernel's answer.
        source: std::io::Error,
    },
    /// The kernel refused the mapping.
    #[error("cannot map {len} bytes of memory: {source}; lower the memory setting or free memory")]
    Refused {
        /// The length asked for, in bytes.
        len: usize,
        /// The kernel's answer.
        source: std::io::Error,
    },
}

/// One page-aligned, zero-filled, read-write mapping.
#[derive(Debug)]
pub struct Region {
    base: NonNull<u8>,
    len: usize,
    huge: bool,
}

// SAFETY: a Region is an address range with no thread affinity, unmapped only on drop.
unsafe impl Send for Region {}
// SAFETY: shared access only performs raw byte copies; racing copies (with a device or another
// thread) may tear but cannot break any invariant of this type, which holds no references into it.
unsafe impl Sync for Region {}

impl Region {
    /// Maps `len` bytes, rounded up to whole pages, filled with zeroes.
    ///
    /// # Errors
    /// [`MapError`] when the length is out of range or the kernel refuses.
    pub fn map(len: usize, pages: Pages) -> Result<Region, MapError> {
        if len == 0 || len > MAX_REGION_LEN {
            return Err(MapError::Length { len });
        }
        if pages != Pages::Normal {
            let rounded = len.next_multiple_of(HUGE_PAGE_SIZE);
            match map_anonymous(rounded, MapFlags::PRIVATE | MapFlags::HUGETLB) {
                Ok(base) => return Ok(Region { base, len: rounded, huge: true }),
                Err(source) if pages == Pages::Huge => {
                    let pages = rounded / HUGE_PAGE_SIZE;
                    return Err(MapError::NoHugePages { len, pages, source });
                }
                Err(_) => {}
            }
        }
        let rounded = len.next_multiple_of(PAGE_SIZE);
        let base = map_anonymous(rounded, MapFlags::PRIVATE)
            .map_err(|source| MapError::Refused { len, source })?;
        // SAFETY: the range is exactly the mapping just made. A child after fork must not
        // inherit pages that a device writes to; failing to mark them is harmless here.
        let _ =
            unsafe { rustix::mm::madvise(base.as_ptr().cast(), rounded, Advice::LinuxDontFork) };
        Ok(Region { base, len: rounded, huge: false })
    }

    /// Length in bytes, a multiple of [`PAGE_SIZE`].
    pub fn len(&self) -> usize {
        self.len
    }

    /// Never true: a region holds at least one page.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Whether the mapping is made of reserved huge pages.
    pub fn is_huge(&self) -> bool {
        self.huge
    }

    /// The whole region as a span.
    ///
    /// # Panics
    /// For a region of exactly 4 GiB, whose length does not fit a span.
    pub fn span(&self) -> Span {
        Span::new(0, u32::try_from(self.len).expect("region below 4 GiB"))
    }

    /// Address of the first byte, for registration with a device.
    pub fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Address of `span` in this process, for a work request or a submission.
    ///
    /// # Panics
    /// If the span reaches past the region: our own bug, never a host's doing.
    #[inline]
    pub fn addr(&self, span: Span) -> NonNull<u8> {
        self.check(span);
        // SAFETY: the offset was just checked to lie within the mapping.
        unsafe { self.base.add(span.offset() as usize) }
    }

    /// Copies the bytes of `span` out. `out` must have the span's length.
    ///
    /// # Panics
    /// If the span reaches past the region or the lengths differ.
    #[inline]
    pub fn read(&self, span: Span, out: &mut [u8]) {
        assert_eq!(span.len() as usize, out.len(), "copy out: lengths differ");
        let from = self.addr(span);
        // SAFETY: `from` is valid for `out.len()` bytes (checked above) and `out` is a distinct
        // Rust allocation, since no slice of the mapping is ever made.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), out.as_mut_ptr(), out.len()) }
    }

    /// The bytes of `span`, which must have the array's length.
    ///
    /// # Panics
    /// If the span reaches past the region or the lengths differ.
    #[inline]
    pub fn read_array<const N: usize>(&self, span: Span) -> [u8; N] {
        assert!(span.len() as usize == N, "copy out: lengths differ");
        // SAFETY: the range is valid for `N` bytes (checked by addr) and an array of bytes has no
        // alignment; nobody holds a reference into the mapping.
        unsafe { self.addr(span).cast::<[u8; N]>().read() }
    }

    /// Copies `bytes` to the start of `span`, which must be at least as long.
    ///
    /// # Panics
    /// If the span reaches past the region or is shorter than `bytes`.
    #[inline]
    pub fn write(&self, span: Span, bytes: &[u8]) {
        assert!(bytes.len() <= span.len() as usize, "copy in: span too short");
        let to = self.addr(span);
        // SAFETY: `to` is valid for at least `bytes.len()` bytes (checked above) and `bytes` is a
        // distinct Rust allocation.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to.as_ptr(), bytes.len()) }
    }

    /// Fills `span` with one byte value.
    ///
    /// # Panics
    /// If the span reaches past the region.
    pub fn fill(&self, span: Span, value: u8) {
        let to = self.addr(span);
        // SAFETY: `to` is valid for the span's length (checked by addr).
        unsafe { std::ptr::write_bytes(to.as_ptr(), value, span.len() as usize) }
    }

    /// Copies `from` of this region to the start of `to` in `other`, which may be this region;
    /// the ranges may overlap.
    ///
    /// # Panics
    /// If a span reaches past its region or `to` is shorter than `from`.
    pub fn copy_to(&self, from: Span, other: &Region, to: Span) {
        assert!(from.len() <= to.len(), "copy across: span too short");
        let (source, dest) = (self.addr(from), other.addr(to));
        // SAFETY: both ranges were checked against their mappings; `copy` allows overlap.
        unsafe { std::ptr::copy(source.as_ptr(), dest.as_ptr(), from.len() as usize) }
    }

    /// Index of the first byte that differs between `a` and `b`, or `None` when they are equal.
    ///
    /// # Panics
    /// If a span reaches past the region or their lengths differ.
    pub fn first_difference(&self, a: Span, b: Span) -> Option<u32> {
        assert_eq!(a.len(), b.len(), "compare: lengths differ");
        const CHUNK: u32 = 256;
        let (mut left, mut right) = ([0u8; CHUNK as usize], [0u8; CHUNK as usize]);
        let mut at = 0;
        while at < a.len() {
            let n = CHUNK.min(a.len() - at);
            let (l, r) = (&mut left[..n as usize], &mut right[..n as usize]);
            self.read(a.slice(at, n), l);
            self.read(b.slice(at, n), r);
            if let Some(i) = l.iter().zip(r.iter()).position(|(x, y)| x != y) {
                return Some(at + i as u32);
            }
            at += n;
        }
        None
    }

    #[inline]
    fn check(&self, span: Span) {
        if span.end() > self.len as u64 {
            outside(span, self.len);
        }
    }
}

/// The words of a panic, out of the way of those who copy.
#[cold]
fn outside(span: Span, len: usize) -> ! {
    panic!("span {span:?} outside a region of {len} bytes");
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: base and len are those of the mapping made in `map`; every registration holds
        // an Arc of this region, so none is left.
        let _ = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.len) };
    }
}

fn map_anonymous(len: usize, flags: MapFlags) -> std::io::Result<NonNull<u8>> {
    // SAFETY: a new anonymous mapping at an address of the kernel's choice touches no existing one.
    let base = unsafe {
        rustix::mm::mmap_anonymous(
            std::ptr::null_mut(),
            len,
            ProtFlags::READ | ProtFlags::WRITE,
            flags,
        )
    }?;
    NonNull::new(base.cast()).ok_or_else(|| std::io::Error::other("mapping at address zero"))
}
