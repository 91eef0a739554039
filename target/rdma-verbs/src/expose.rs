//! Memory that a host opens to its peer.
//!
//! Where the card has memory windows of type 2 each exposed span gets one: its opening travels in
//! front of the capsule on the same queue pair, and the peer's SEND with Invalidate closes it.
//! Elsewhere (soft iWARP) each exposed span is a registration of its own, which costs a system
//! call each way. The region itself is never open to a peer, except that the kernel's soft-RoCE
//! looks at the bounds of the registration and not of the window in it.

use crate::context::CoreNic;
use crate::send_ring::{BindWindow, SendRing};
use crate::sys::not_null;
use rdma::{Access, CmError, RemoteAddr};
use rdma_sys::{ibv_access_flags, ibv_mr, ibv_mw};
use region::Span;
use std::collections::HashMap;
use std::ptr::NonNull;
use std::sync::Arc;

/// What a queue pair has open, by remote key.
#[derive(Debug)]
pub(crate) struct ExposeTable {
    windows: Vec<NonNull<ibv_mw>>,
    free: Vec<usize>,
    open: HashMap<u32, Opened>,
    limit: usize,
    nic: Option<Arc<CoreNic>>,
}

#[derive(Debug)]
enum Opened {
    Window { index: usize, closed_by_peer: bool },
    Registration(NonNull<ibv_mr>),
}

// SAFETY: windows and registrations have no thread affinity, and the library locks for itself.
unsafe impl Send for ExposeTable {}

impl ExposeTable {
    /// For a queue pair that exposes nothing (the accepting side).
    pub(crate) fn none() -> ExposeTable {
        ExposeTable {
            windows: Vec::new(),
            free: Vec::new(),
            open: HashMap::new(),
            limit: 0,
            nic: None,
        }
    }

    /// For a queue pair that has up to `limit` spans open.
    pub(crate) fn new(nic: &Arc<CoreNic>, limit: u32) -> Result<ExposeTable, CmError> {
        let mut table = ExposeTable {
            windows: Vec::new(),
            free: (0..limit as usize).rev().collect(),
            open: HashMap::with_capacity(limit as usize),
            limit: limit as usize,
            nic: Some(nic.clone()),
        };
        if nic.nic().has_windows() {
            for _ in 0..limit {
                let kind = rdma_sys::ibv_mw_type::IBV_MW_TYPE_2;
                // SAFETY: the protection domain exists.
                let mw = not_null(unsafe { rdma_sys::ibv_alloc_mw(nic.nic().pd(), kind) })
                    .map_err(|source| {
                        let hint = "the card has no memory window left: lower the queue depth";
                        crate::context::cm_error("making a memory window", source, hint)
                    })?;
                table.windows.push(mw);
            }
        }
        Ok(table)
    }

    /// Opens a span, `None` when nothing is left to open it with.
    pub(crate) fn expose(
        &mut self,
        span: Span,
        access: Access,
        sends: &mut SendRing,
        tag: impl Fn(u32) -> u64,
    ) -> Option<RemoteAddr> {
        let nic = self.nic.clone()?;
        if self.open.len() >= self.limit {
            return None;
        }
        let mut rights = ibv_access_flags::IBV_ACCESS_REMOTE_READ.0;
        if access == Access::RemoteWrite {
            rights |= ibv_access_flags::IBV_ACCESS_REMOTE_WRITE.0;
        }
        let addr = nic.region().addr(span).as_ptr();
        if self.windows.is_empty() {
            let rights = rights | ibv_access_flags::IBV_ACCESS_LOCAL_WRITE.0;
            // SAFETY: the span lies in the region (checked), which `nic` keeps mapped.
            let mr = not_null(unsafe {
                rdma_sys::ibv_reg_mr(
                    nic.nic().pd(),
                    addr.cast(),
                    span.len() as usize,
                    rights as i32,
                )
            })
            .ok()?;
            // SAFETY: just made.
            let rkey = unsafe { (*mr.as_ptr()).rkey };
            self.open.insert(rkey, Opened::Registration(mr));
            return Some(RemoteAddr { addr: addr as u64, rkey });
        }
        if sends.room() == 0 {
            return None;
        }
        let index = self.free.pop()?;
        let mw = self.windows[index].as_ptr();
        // SAFETY: the table owns the window.
        let old = unsafe { (*mw).rkey };
        // The low byte is ours to choose, and must differ from the last one.
        let rkey = (old & !0xff) | (old.wrapping_add(1) & 0xff);
        let (addr, len) = (addr as u64, u64::from(span.len()));
        sends.stage_bind(&BindWindow { mw, rkey, mr: nic.mr(), addr, len, access: rights }, tag);
        self.open.insert(rkey, Opened::Window { index, closed_by_peer: false });
        Some(RemoteAddr { addr, rkey })
    }

    /// The peer's SEND with Invalidate closed `rkey`.
    pub(crate) fn on_invalidated(&mut self, rkey: u32) {
        if let Some(Opened::Window { closed_by_peer, .. }) = self.open.get_mut(&rkey) {
            *closed_by_peer = true;
        }
    }

    /// Closes `rkey`; nothing happens when it is not open. `failed` queue pairs have no use for a
    /// work request that closes a window: destroying them closes it.
    pub(crate) fn unexpose(
        &mut self,
        rkey: u32,
        failed: bool,
        sends: &mut SendRing,
        tag: impl Fn(u32) -> u64,
    ) {
        match self.open.remove(&rkey) {
            None => {}
            Some(Opened::Registration(mr)) => {
                // SAFETY: made by expose, removed from the table, so freed once.
                unsafe { rdma_sys::ibv_dereg_mr(mr.as_ptr()) };
            }
            Some(Opened::Window { index, closed_by_peer }) => {
                if !closed_by_peer && !failed {
                    if sends.room() == 0 {
                        // Cannot be closed now, so it is not used again.
                        return;
                    }
                    sends.stage_local_invalidate(rkey, tag);
                }
                self.free.push(index);
            }
        }
    }
}

impl Drop for ExposeTable {
    fn drop(&mut self) {
        for opened in self.open.values() {
            if let Opened::Registration(mr) = opened {
                // SAFETY: owned, freed once.
                unsafe { rdma_sys::ibv_dereg_mr(mr.as_ptr()) };
            }
        }
        for mw in &self.windows {
            // SAFETY: owned, freed once; `nic` keeps the protection domain until after this.
            unsafe { rdma_sys::ibv_dealloc_mw(mw.as_ptr()) };
        }
    }
}
