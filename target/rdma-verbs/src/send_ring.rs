//! The send-side work requests of one queue pair, from staging to completion.
//!
//! A ring of sequence numbers: `head` ≤ `handed` ≤ `tail`. Those before `handed` were given to the
//! card, those after are staged, or, once the queue pair has failed, will never be given to it and
//! complete flushed when all before them are done. Everything is allocated when it is made.

use crate::config::MAX_INLINE;
use rdma::{SendOp, SendWr, WcStatus, WrId};
use rdma_sys::{ibv_mw, ibv_send_flags, ibv_send_wr, ibv_sge, ibv_wr_opcode};
use region::Region;
use std::ptr::null_mut;

/// What an entry is for.
#[derive(Debug, Clone, Copy)]
enum Purpose {
    /// The caller's: its completion is told.
    Caller(WrId),
    /// Opens or closes a memory window for us: only a failure matters, and that shows elsewhere.
    Window,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    purpose: Purpose,
    signaled: bool,
    /// How it ended, as soon as that is known; told when all before it are done.
    ended: Option<WcStatus>,
}

/// An opened window: which, where, with what key and rights.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BindWindow {
    /// The window.
    pub(crate) mw: *mut ibv_mw,
    /// Its new key.
    pub(crate) rkey: u32,
    /// The registration it opens a part of.
    pub(crate) mr: *mut rdma_sys::ibv_mr,
    /// First byte.
    pub(crate) addr: u64,
    /// Bytes.
    pub(crate) len: u64,
    /// `ibv_access_flags`.
    pub(crate) access: u32,
}

/// See the module.
pub(crate) struct SendRing {
    entries: Box<[Entry]>,
    /// In C form; their pointers are set just before they are handed over.
    wrs: Box<[ibv_send_wr]>,
    sges: Box<[ibv_sge]>,
    inline: Box<[[u8; MAX_INLINE as usize]]>,
    max_inline: u32,
    head: u32,
    handed: u32,
    tail: u32,
    /// Length of the last run without a signaled entry.
    unsignaled: u32,
}

fn zeroed_wr() -> ibv_send_wr {
    // SAFETY: all-zero bytes are a valid value of this plain C struct and its unions.
    unsafe { std::mem::zeroed() }
}

impl std::fmt::Debug for SendRing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SendRing")
            .field("head", &self.head)
            .field("handed", &self.handed)
            .field("tail", &self.tail)
            .finish_non_exhaustive()
    }
}

// SAFETY: the pointers in the work requests lead into the ring itself and are used only while
// they are handed over; windows belong to the same queue pair and travel with it.
unsafe impl Send for SendRing {}

impl SendRing {
    /// Room for `depth` work requests.
    pub(crate) fn new(depth: u32, max_inline: u32) -> SendRing {
        let len = depth.max(1).next_power_of_two() as usize;
        let entry = Entry { purpose: Purpose::Window, signaled: false, ended: None };
        let sge = ibv_sge { addr: 0, length: 0, lkey: 0 };
        let inline = if max_inline == 0 { 0 } else { len };
        SendRing {
            entries: vec![entry; len].into(),
            wrs: (0..len).map(|_| zeroed_wr()).collect(),
            sges: vec![sge; len].into(),
            inline: vec![[0; MAX_INLINE as usize]; inline].into(),
            max_inline,
            head: 0,
            handed: 0,
            tail: 0,
            unsignaled: 0,
        }
    }

    fn at(&self, seq: u32) -> usize {
        seq as usize & (self.entries.len() - 1)
    }

    /// Entries in use.
    pub(crate) fn len(&self) -> usize {
        self.tail.wrapping_sub(self.head) as usize
    }

    /// Entries that can still be staged.
    pub(crate) fn room(&self) -> usize {
        self.entries.len() - self.len()
    }

    /// Whether something waits to be handed over.
    pub(crate) fn has_staged(&self) -> bool {
        self.tail != self.handed
    }

    /// Whether the card owes a completion that it is certain to give.
    fn card_owes_signaled(&self) -> bool {
        (0..self.handed.wrapping_sub(self.head)).any(|i| {
            let entry = self.entries[self.at(self.head.wrapping_add(i))];
            entry.signaled && entry.ended.is_none()
        })
    }

    fn next(&mut self, purpose: Purpose, signaled: bool) -> (usize, u32) {
        assert!(self.room() > 0, "more sends posted than the queue pair takes");
        let seq = self.tail;
        let at = self.at(seq);
        self.entries[at] = Entry { purpose, signaled, ended: None };
        self.unsignaled = if signaled { 0 } else { self.unsignaled + 1 };
        self.tail = self.tail.wrapping_add(1);
        (at, seq)
    }

    /// Stages the caller's work request; `tag` makes its `wr_id` from its sequence number. With
    /// `ask_all` the card is asked for the completion of unsignaled ones too, which is not told.
    pub(crate) fn stage(
        &mut self,
        wr: &SendWr,
        region: &Region,
        lkey: u32,
        can_invalidate: bool,
        ask_all: bool,
        tag: impl Fn(u32) -> u64,
    ) {
        let signaled = wr.signaled || matches!(wr.op, SendOp::Read { .. });
        let (at, seq) = self.next(Purpose::Caller(wr.wr_id), signaled);
        let addr = region.addr(wr.local).as_ptr() as u64;
        self.sges[at] = ibv_sge { addr, length: wr.local.len(), lkey };
        let c = Self::blank(&mut self.wrs[at], tag(seq), signaled || ask_all);
        c.num_sge = i32::from(!wr.local.is_empty());
        let is_send = match wr.op {
            SendOp::Send => {
                c.opcode = ibv_wr_opcode::IBV_WR_SEND;
                true
            }
            // A card without memory management extensions has peers invalidate for themselves.
            SendOp::SendWithInvalidate { .. } if !can_invalidate => {
                c.opcode = ibv_wr_opcode::IBV_WR_SEND;
                true
            }
            SendOp::SendWithInvalidate { rkey } => {
                c.opcode = ibv_wr_opcode::IBV_WR_SEND_WITH_INV;
                c.imm_data_invalidated_rkey_union.invalidated_rkey = rkey;
                // libsiw looks for it here (see sys).
                c.wr.rdma = rdma_sys::rdma_t { remote_addr: 0, rkey };
                true
            }
            SendOp::Write { remote } => {
                c.opcode = ibv_wr_opcode::IBV_WR_RDMA_WRITE;
                c.wr.rdma = rdma_sys::rdma_t { remote_addr: remote.addr, rkey: remote.rkey };
                false
            }
            SendOp::Read { remote } => {
                c.opcode = ibv_wr_opcode::IBV_WR_RDMA_READ;
                c.wr.rdma = rdma_sys::rdma_t { remote_addr: remote.addr, rkey: remote.rkey };
                false
            }
        };
        if is_send && !wr.local.is_empty() && wr.local.len() <= self.max_inline {
            // Copied now, not when handed over: the caller may reuse the bytes at once.
            region.read(wr.local, &mut self.inline[at][..wr.local.len() as usize]);
            c.send_flags |= ibv_send_flags::IBV_SEND_INLINE.0;
        }
    }

    /// Stages the opening of a memory window.
    pub(crate) fn stage_bind(&mut self, bind: &BindWindow, tag: impl Fn(u32) -> u64) {
        let signaled = self.must_signal();
        let (at, seq) = self.next(Purpose::Window, signaled);
        let c = Self::blank(&mut self.wrs[at], tag(seq), signaled);
        c.opcode = ibv_wr_opcode::IBV_WR_BIND_MW;
        c.bind_mw_tso_union.bind_mw = rdma_sys::bind_mw_t {
            mw: bind.mw,
            rkey: bind.rkey,
            bind_info: rdma_sys::ibv_mw_bind_info {
                mr: bind.mr,
                addr: bind.addr,
                length: bind.len,
                mw_access_flags: bind.access,
            },
        };
    }

    /// Stages the closing of a memory window.
    pub(crate) fn stage_local_invalidate(&mut self, rkey: u32, tag: impl Fn(u32) -> u64) {
        let signaled = self.must_signal();
        let (at, seq) = self.next(Purpose::Window, signaled);
        let c = Self::blank(&mut self.wrs[at], tag(seq), signaled);
        c.opcode = ibv_wr_opcode::IBV_WR_LOCAL_INV;
        c.imm_data_invalidated_rkey_union.invalidated_rkey = rkey;
    }

    /// Our own entries ask for a completion now and then, or the ring would never empty.
    fn must_signal(&self) -> bool {
        self.unsignaled as usize >= self.entries.len() / 4
    }

    fn blank(wr: &mut ibv_send_wr, wr_id: u64, signaled: bool) -> &mut ibv_send_wr {
        *wr = zeroed_wr();
        wr.wr_id = wr_id;
        wr.send_flags = if signaled { ibv_send_flags::IBV_SEND_SIGNALED.0 } else { 0 };
        wr
    }

    /// Links what is staged into one chain and has `post` hand it over: it gets the first work
    /// request and returns the first one that was refused, null for all taken. On a refusal the
    /// refused ones stay staged and `false` is returned.
    pub(crate) fn hand_over(
        &mut self,
        post: impl FnOnce(*mut ibv_send_wr) -> *mut ibv_send_wr,
    ) -> bool {
        let mask = self.entries.len() - 1;
        let wrs = self.wrs.as_mut_ptr();
        let sges = self.sges.as_mut_ptr();
        let inline = self.inline.as_mut_ptr();
        let count = self.tail.wrapping_sub(self.handed);
        for i in 0..count {
            let at = self.handed.wrapping_add(i) as usize & mask;
            let next = self.handed.wrapping_add(i + 1) as usize & mask;
            // SAFETY: `at` and `next` are masked to the arrays' length; a staged work request was
            // initialised by `blank`; inline buffers exist when the flag was set.
            unsafe {
                let wr = wrs.add(at);
                (*wr).next = if i + 1 < count { wrs.add(next) } else { null_mut() };
                (*wr).sg_list = sges.add(at);
                if (*wr).send_flags & ibv_send_flags::IBV_SEND_INLINE.0 != 0 {
                    (*sges.add(at)).addr = inline.add(at) as u64;
                }
            }
        }
        // SAFETY: masked to the array's length.
        let bad = post(unsafe { wrs.add(self.handed as usize & mask) });
        let taken = if bad.is_null() {
            count
        } else {
            let bad = (bad as usize).wrapping_sub(wrs as usize) / size_of::<ibv_send_wr>();
            (bad as u32).wrapping_sub(self.handed) & mask as u32
        };
        for i in 0..taken {
            let at = self.handed.wrapping_add(i) as usize & mask;
            // SAFETY: masked; initialised; the union holds a bind for this opcode.
            unsafe {
                let wr = wrs.add(at);
                if (*wr).opcode == ibv_wr_opcode::IBV_WR_BIND_MW {
                    let bind = (*wr).bind_mw_tso_union.bind_mw;
                    (*bind.mw).rkey = bind.rkey;
                }
            }
        }
        self.handed = self.handed.wrapping_add(taken);
        taken == count
    }

    /// A completion of sequence number `seq`; what can be told now comes from
    /// [`next_done`](Self::next_done). Signaled work before it may be out still: soft iWARP
    /// completes a SEND that follows an RDMA READ when it is sent, and the READ when its data is
    /// there. Then it is held back, so that completions keep the order of posting.
    pub(crate) fn complete(&mut self, seq: u32, status: WcStatus) {
        let place = seq.wrapping_sub(self.head);
        if place >= self.handed.wrapping_sub(self.head) {
            return; // a stray one
        }
        let at = self.at(seq);
        self.entries[at].ended.get_or_insert(status);
        if place == 0 {
            return;
        }
        for i in (0..place).rev() {
            let before = self.at(self.head.wrapping_add(i));
            let entry = &mut self.entries[before];
            if entry.signaled || entry.ended.is_some() {
                break;
            }
            entry.ended = Some(WcStatus::Success);
        }
    }

    /// The caller's next work request, in posting order, that is done and to be told of. Those
    /// that ended well and were not signaled, and ours, leave the ring untold.
    pub(crate) fn next_done(&mut self) -> Option<(WrId, WcStatus)> {
        while self.head != self.handed {
            let entry = self.entries[self.at(self.head)];
            let status = entry.ended?;
            self.head = self.head.wrapping_add(1);
            if let Purpose::Caller(wr_id) = entry.purpose
                && (entry.signaled || status != WcStatus::Success)
            {
                return Some((wr_id, status));
            }
        }
        None
    }

    /// Of a failed queue pair: what completes without the card, in order: everything when
    /// `abandon`, else what was never handed over, once the card owes nothing before it.
    /// An unsignaled one that the card had is left out; it may have been carried out.
    pub(crate) fn flush_local(&mut self, abandon: bool, mut told: impl FnMut(WrId, WcStatus)) {
        if self.len() == 0 || (!abandon && (!self.has_staged() || self.card_owes_signaled())) {
            return;
        }
        while self.head != self.tail {
            let entry = self.entries[self.at(self.head)];
            let with_card = self.handed != self.head;
            if let Purpose::Caller(wr_id) = entry.purpose
                && (!with_card || entry.signaled)
            {
                told(wr_id, entry.ended.unwrap_or(WcStatus::Flushed));
            }
            self.head = self.head.wrapping_add(1);
            if !with_card {
                self.handed = self.head;
            }
        }
    }
}

#[cfg(test)]
#[path = "send_ring_tests.rs"]
mod tests;
