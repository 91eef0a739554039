//! Handing to the card what is staged: once a turn, a chain for each queue.

use super::{Failure, RqOwner, VerbsDevice};
use crate::completion::refused;
use crate::tag::Tag;
use rdma_sys::{ibv_recv_wr, ibv_send_wr};
use std::ptr::null_mut;

impl VerbsDevice {
    /// Hands the staged receives of a queue to the card.
    pub(super) fn flush_recvs(&mut self, rq: u16) -> bool {
        let slot = &mut self.rqs[usize::from(rq)];
        slot.dirty = false;
        let generation = slot.generation;
        let tag = |index| Tag { recv: true, generation, slot: rq, index }.encode();
        match &mut slot.owner {
            RqOwner::Free | RqOwner::Retired => true,
            RqOwner::Shared { nic, table } => {
                let Some(core) = &self.nics[*nic].core else { return true };
                let Some(srq) = core.srq() else { return true };
                let done = table.hand_over(&self.region, core.lkey(), tag, |first| {
                    let mut bad: *mut ibv_recv_wr = null_mut();
                    // SAFETY: the queue exists; the chain is valid during the call.
                    let ret = unsafe { rdma_sys::ibv_post_srq_recv(srq, first, &raw mut bad) };
                    refused(ret, first, bad).0
                });
                if !done && !core.nic().is_dead() {
                    // The card has not yet noticed that entries are free: next flush.
                    slot.dirty = true;
                    return false;
                }
                true
            }
            RqOwner::Own { qp } => {
                let qp = *qp;
                let slot = &mut self.qps[usize::from(qp)];
                let (failure, Some(endpoint)) = (slot.failure, &mut slot.endpoint) else {
                    return true;
                };
                if failure != Failure::No {
                    self.flush_local(qp, failure == Failure::Drained);
                    return true;
                }
                let queue_pair = endpoint.qp();
                let lkey = endpoint.cq.core().lkey();
                let Some(recvs) = &mut endpoint.recvs else { return true };
                let mut failed = false;
                let done = recvs.hand_over(&self.region, lkey, tag, |first| {
                    let mut bad: *mut ibv_recv_wr = null_mut();
                    // SAFETY: the endpoint keeps the queue pair; the chain is valid during the
                    // call.
                    let ret = unsafe { rdma_sys::ibv_post_recv(queue_pair, first, &raw mut bad) };
                    let (bad, is_failed) = refused(ret, first, bad);
                    failed = is_failed;
                    bad
                });
                if failed || !done {
                    self.mark_failed(qp);
                }
                true
            }
        }
    }

    /// Hands the staged sends of a queue pair to the card.
    pub(super) fn flush_sends(&mut self, qp: u16) {
        let slot = &mut self.qps[usize::from(qp)];
        slot.dirty = false;
        let (failure, Some(endpoint)) = (slot.failure, &mut slot.endpoint) else { return };
        if failure != Failure::No {
            self.flush_local(qp, failure == Failure::Drained);
            return;
        }
        if !endpoint.sends.has_staged() {
            return;
        }
        let queue_pair = endpoint.qp();
        let mut failed = false;
        let done = endpoint.sends.hand_over(|first| {
            let mut bad: *mut ibv_send_wr = null_mut();
            // SAFETY: the endpoint keeps the queue pair; the chain is valid during the call.
            let ret = unsafe { rdma_sys::ibv_post_send(queue_pair, first, &raw mut bad) };
            let (bad, is_failed) = refused(ret, first, bad);
            failed = is_failed;
            bad
        });
        if failed || !done {
            self.mark_failed(qp);
        }
    }
}
