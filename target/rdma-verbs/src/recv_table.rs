//! The receives of one receive queue, own or shared, from staging to completion.
//!
//! A shared queue's receives complete in any order, so entries are a table with a free list.
//! Everything is allocated when it is made.

use rdma::RecvWr;
use rdma_sys::{ibv_recv_wr, ibv_sge};
use region::Region;
use std::ptr::null_mut;

#[derive(Debug, Clone, Copy)]
struct Entry {
    /// `None` while free.
    wr: Option<RecvWr>,
    /// Order of posting.
    seq: u64,
}

/// See the module.
pub(crate) struct RecvTable {
    entries: Box<[Entry]>,
    free: Vec<u32>,
    staged: Vec<u32>,
    wrs: Box<[ibv_recv_wr]>,
    sges: Box<[[ibv_sge; 2]]>,
    next_seq: u64,
}

impl std::fmt::Debug for RecvTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RecvTable")
            .field("entries", &self.entries.len())
            .field("free", &self.free.len())
            .field("staged", &self.staged.len())
            .finish_non_exhaustive()
    }
}

// SAFETY: the pointers in the work requests lead into the table itself and are used only while
// they are handed over.
unsafe impl Send for RecvTable {}

impl RecvTable {
    /// Room for `depth` receives.
    pub(crate) fn new(depth: u32) -> RecvTable {
        let len = depth as usize;
        let blank = ibv_recv_wr { wr_id: 0, next: null_mut(), sg_list: null_mut(), num_sge: 0 };
        let sge = ibv_sge { addr: 0, length: 0, lkey: 0 };
        RecvTable {
            entries: vec![Entry { wr: None, seq: 0 }; len].into(),
            free: (0..depth).rev().collect(),
            staged: Vec::with_capacity(len),
            wrs: vec![blank; len].into(),
            sges: vec![[sge; 2]; len].into(),
            next_seq: 0,
        }
    }

    /// Receives that can be posted at once.
    pub(crate) fn depth(&self) -> u32 {
        self.entries.len() as u32
    }

    /// Receives staged and not handed over.
    pub(crate) fn staged_len(&self) -> usize {
        self.staged.len()
    }

    /// Receives posted (or staged) and not completed.
    pub(crate) fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    /// Stages a receive.
    pub(crate) fn stage(&mut self, wr: RecvWr) {
        let at = self.free.pop().expect("more receives posted than the queue takes");
        self.entries[at as usize] = Entry { wr: Some(wr), seq: self.next_seq };
        self.next_seq += 1;
        self.staged.push(at);
    }

    /// Links what is staged into one chain and has `post` hand it over: it gets the first work
    /// request and returns the first one that was refused, null for all taken. Refused ones stay
    /// staged, and `false` is returned.
    pub(crate) fn hand_over(
        &mut self,
        region: &Region,
        lkey: u32,
        tag: impl Fn(u32) -> u64,
        post: impl FnOnce(*mut ibv_recv_wr) -> *mut ibv_recv_wr,
    ) -> bool {
        let count = self.staged.len();
        let wrs = self.wrs.as_mut_ptr();
        let sges = self.sges.as_mut_ptr();
        for (i, &at) in self.staged.iter().enumerate() {
            let wr = self.entries[at as usize].wr.expect("a staged receive");
            let sge = |span: region::Span| ibv_sge {
                addr: region.addr(span).as_ptr() as u64,
                length: span.len(),
                lkey,
            };
            let two = !wr.tail.is_empty();
            // SAFETY: at most `depth` are staged, so `i` is within the arrays, and so is `i + 1`
            // when there is another.
            unsafe {
                *sges.add(i) = [sge(wr.head), if two { sge(wr.tail) } else { sge(wr.head) }];
                *wrs.add(i) = ibv_recv_wr {
                    wr_id: tag(at),
                    next: if i + 1 < count { wrs.add(i + 1) } else { null_mut() },
                    sg_list: sges.add(i).cast(),
                    num_sge: if two { 2 } else { 1 },
                };
            }
        }
        let bad = post(wrs);
        if bad.is_null() {
            self.staged.clear();
            return true;
        }
        let taken = (bad as usize).wrapping_sub(wrs as usize) / size_of::<ibv_recv_wr>();
        self.staged.drain(..taken.min(count));
        false
    }

    /// A completion of entry `at`: frees it and gives what was posted, `None` for a stray one.
    pub(crate) fn complete(&mut self, at: u32) -> Option<RecvWr> {
        let wr = self.entries.get_mut(at as usize)?.wr.take()?;
        self.free.push(at);
        Some(wr)
    }

    /// Frees the entries that were never handed over, or all with `abandon`, in posting order.
    pub(crate) fn flush_local(&mut self, abandon: bool, mut told: impl FnMut(RecvWr)) {
        if !abandon {
            for i in 0..self.staged.len() {
                if let Some(wr) = self.complete(self.staged[i]) {
                    told(wr);
                }
            }
            self.staged.clear();
            return;
        }
        self.staged.clear();
        let mut posted: Vec<u32> =
            (0..self.depth()).filter(|&at| self.entries[at as usize].wr.is_some()).collect();
        posted.sort_by_key(|&at| self.entries[at as usize].seq);
        for at in posted {
            if let Some(wr) = self.complete(at) {
                told(wr);
            }
        }
    }
}

#[cfg(test)]
#[path = "recv_table_tests.rs"]
mod tests;
