//! Completions as the library gives them, and as the seam names them.

use crate::tag::Tag;
use rdma::WcStatus;
use rdma_sys::{ibv_cq, ibv_wc};
use std::ptr::null_mut;

/// Completions taken from a completion queue at a time.
pub(crate) const POLL_BATCH: usize = 32;

/// Room for a batch of completions.
pub(crate) struct WcBatch(Box<[ibv_wc; POLL_BATCH]>);

impl WcBatch {
    /// An empty one.
    pub(crate) fn new() -> WcBatch {
        // SAFETY: all-zero bytes are a valid value of this plain C struct.
        WcBatch(Box::new(std::array::from_fn(|_| unsafe { std::mem::zeroed() })))
    }

    /// Takes up to `want` completions off a queue; returns how many, `None` when it broke.
    ///
    /// # Safety
    /// `cq` exists.
    pub(crate) unsafe fn poll(&mut self, cq: *mut ibv_cq, want: usize) -> Option<usize> {
        let want = want.min(POLL_BATCH) as i32;
        // SAFETY: the queue exists, and the batch has room for as many.
        let got = unsafe { rdma_sys::ibv_poll_cq(cq, want, self.0.as_mut_ptr()) };
        usize::try_from(got).ok()
    }

    /// Number `at` of those taken last; any of `invalidated_flags` says that it names a key.
    pub(crate) fn get(&self, at: usize, invalidated_flags: u32) -> Raw {
        Raw::of(&self.0[at], invalidated_flags)
    }
}

impl std::fmt::Debug for WcBatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("WcBatch")
    }
}

/// What of a completion is looked at.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Raw {
    pub(crate) tag: Tag,
    pub(crate) status: u32,
    pub(crate) byte_len: u32,
    pub(crate) qp_num: u32,
    pub(crate) invalidated: Option<u32>,
}

impl Raw {
    fn of(wc: &ibv_wc, invalidated_flags: u32) -> Raw {
        let has_key = wc.wc_flags & invalidated_flags != 0;
        // SAFETY: a flag says that the union holds a key; any bits are a valid number.
        let key = unsafe { wc.imm_data_invalidated_rkey_union.invalidated_rkey };
        Raw {
            tag: Tag::decode(wc.wr_id),
            status: wc.status,
            byte_len: wc.byte_len,
            qp_num: wc.qp_num,
            invalidated: has_key.then_some(key),
        }
    }
}

/// Our words for the library's status.
pub(crate) fn status_of(status: u32) -> WcStatus {
    use rdma_sys::ibv_wc_status as s;
    match status {
        s::IBV_WC_SUCCESS => WcStatus::Success,
        s::IBV_WC_WR_FLUSH_ERR => WcStatus::Flushed,
        s::IBV_WC_REM_ACCESS_ERR => WcStatus::RemoteAccess,
        s::IBV_WC_REM_INV_REQ_ERR => WcStatus::RemoteInvalidRequest,
        s::IBV_WC_REM_OP_ERR => WcStatus::RemoteOperation,
        s::IBV_WC_RETRY_EXC_ERR => WcStatus::RetryExceeded,
        s::IBV_WC_RNR_RETRY_EXC_ERR => WcStatus::RnrRetryExceeded,
        s::IBV_WC_LOC_LEN_ERR
        | s::IBV_WC_LOC_QP_OP_ERR
        | s::IBV_WC_LOC_PROT_ERR
        | s::IBV_WC_LOC_ACCESS_ERR
        | s::IBV_WC_MW_BIND_ERR => WcStatus::LocalError,
        other => WcStatus::Other(other),
    }
}

/// Turns "0, or an error and the first refused work request" into the first refused one. A library
/// that does not name it is taken to have taken all: those are flushed with the queue pair.
pub(crate) fn refused<T>(ret: i32, first: *mut T, bad: *mut T) -> (*mut T, bool) {
    match ret {
        0 => (null_mut(), false),
        _ if bad.is_null() => (null_mut(), true),
        _ => {
            tracing::debug!(errno = ret, at_first = (first == bad), "work requests refused");
            (bad, true)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{WcBatch, refused, status_of};
    use crate::sys::invalidated_flags;
    use crate::tag::Tag;
    use rdma::WcStatus;
    use std::ptr::null_mut;

    #[test]
    fn a_status_of_the_card_has_one_name() {
        assert_eq!(status_of(0), WcStatus::Success);
        assert_eq!(status_of(1), WcStatus::LocalError);
        assert_eq!(status_of(5), WcStatus::Flushed);
        assert_eq!(status_of(9), WcStatus::RemoteInvalidRequest);
        assert_eq!(status_of(10), WcStatus::RemoteAccess);
        assert_eq!(status_of(11), WcStatus::RemoteOperation);
        assert_eq!(status_of(12), WcStatus::RetryExceeded);
        assert_eq!(status_of(13), WcStatus::RnrRetryExceeded);
        assert_eq!(status_of(21), WcStatus::Other(21));
    }

    #[test]
    fn an_invalidated_key_is_read_only_under_its_flag() {
        let mut batch = WcBatch::new();
        let tag = Tag { recv: true, generation: 3, slot: 4, index: 5 };
        batch.0[1].wr_id = tag.encode();
        batch.0[1].imm_data_invalidated_rkey_union.invalidated_rkey = 0x77;
        let flags = [(0, false, None), (8, false, Some(0x77)), (4, false, None)];
        for (set, rxe, expected) in flags.into_iter().chain([(4, true, Some(0x77))]) {
            batch.0[1].wc_flags = set;
            let raw = batch.get(1, invalidated_flags(rxe));
            assert_eq!((raw.tag, raw.invalidated), (tag, expected), "flags {set}, rxe {rxe}");
        }
    }

    #[test]
    fn a_library_that_names_no_refused_request_has_taken_all() {
        let (mut first, mut second) = (1u8, 2u8);
        assert_eq!(refused(0, &raw mut first, null_mut()), (null_mut(), false));
        assert_eq!(refused(-22, &raw mut first, null_mut()), (null_mut(), true));
        let bad = &raw mut second;
        assert_eq!(refused(12, &raw mut first, bad), (bad, true));
    }
}
