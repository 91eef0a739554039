//! Queue pairs that failed, until everything posted to them has completed.
//!
//! # When a queue pair fails
//! From the first failed completion, refused posting or [`rdma::Device::fail`] on, nothing more is given
//! to the card: what is posted completes flushed. The queue pair is moved to the error state
//! *again* by us, after our last posting: soft-RoCE takes receives without telling its kernel
//! half, and flushes them only then. What the card still owes [`DRAIN_GRACE`] after that is
//! flushed by us: soft iWARP never completes what was posted while the connection broke.
//!
//! # When a card is removed
//! The queue pairs on it fail and are flushed by us. The last of them also brings the receives of
//! the shared queue back, flushed; the queue's id is dead from then on. What only the shared queue
//! held while no queue pair was on the card is not told of.

use super::{Failure, QpSlot, RqOwner, Stashed, VerbsDevice, flushed_recv};
use crate::sys;
use rdma::{Now, QpId, Wc, WcOp};
use std::time::Duration;

/// How long the card may take to flush a failed queue pair before we do it.
pub const DRAIN_GRACE: Duration = Duration::from_millis(500);

impl VerbsDevice {
    /// Begins the end of a queue pair that works.
    pub(super) fn mark_failed(&mut self, qp: u16) {
        let slot = &mut self.qps[usize::from(qp)];
        let Some(endpoint) = &slot.endpoint else { return };
        if slot.failure != Failure::No {
            return;
        }
        slot.failure = Failure::Noticed;
        // SAFETY: the endpoint keeps the queue pair. An error means that the card is gone, and
        // then the grace period ends the wait.
        let _ = unsafe { sys::move_to_error(endpoint.qp()) };
        self.failing.push(qp);
    }

    /// Completes what the card will not. Cheap when no queue pair is failing.
    pub(super) fn advance_failing(&mut self, now: Now) {
        let mut i = 0;
        while i < self.failing.len() {
            let qp = self.failing[i];
            let slot = &mut self.qps[usize::from(qp)];
            if slot.failure == Failure::Noticed {
                slot.failure = Failure::Since(now);
            }
            let Failure::Since(since) = slot.failure else {
                self.failing.swap_remove(i);
                continue;
            };
            let Some(endpoint) = &mut slot.endpoint else {
                self.failing.swap_remove(i);
                continue;
            };
            let card_owes =
                endpoint.sends.len() > 0 || endpoint.recvs.as_ref().is_some_and(|r| r.len() > 0);
            let abandon = now.saturating_sub(since) >= DRAIN_GRACE;
            if abandon && card_owes {
                tracing::debug!(qp, "the card did not flush all in time");
            }
            self.flush_local(qp, abandon);
            if abandon {
                self.qps[usize::from(qp)].failure = Failure::Drained;
                self.failing.swap_remove(i);
                self.flush_shared_of_dead_nic(qp);
            } else {
                i += 1;
            }
        }
    }

    /// Of a failed queue pair: tells what needs no card.
    pub(super) fn flush_local(&mut self, qp: u16, abandon: bool) {
        let slot = &mut self.qps[usize::from(qp)];
        let Some(endpoint) = &mut slot.endpoint else { return };
        let id = QpId(u32::from(qp));
        let stash = &mut self.stash;
        endpoint.sends.flush_local(abandon, |wr_id, status| {
            let wc = Wc { wr_id, qp: id, op: WcOp::Send, status };
            stash.push_back(Stashed { wc, shared: None });
        });
        if let Some(recvs) = &mut endpoint.recvs {
            let owed = recvs.len() > recvs.staged_len();
            // In order: what was never handed over comes after what the card still owes.
            if abandon || !owed {
                recvs.flush_local(abandon, |wr| {
                    let wc = flushed_recv(wr.wr_id, id);
                    stash.push_back(Stashed { wc, shared: None });
                });
            }
        }
    }

    /// The last queue pair on a removed card gives the shared receives back: nothing else would.
    pub(super) fn flush_shared_of_dead_nic(&mut self, qp: u16) {
        let at = self.qps[usize::from(qp)].nic;
        let Some(core) = &self.nics[at].core else { return };
        let alive =
            |s: &QpSlot| s.endpoint.is_some() && s.nic == at && s.failure != Failure::Drained;
        if !core.nic().is_dead() || self.qps.iter().any(alive) {
            return;
        }
        let Some(rq) = self.nics[at].shared_rq else { return };
        if let RqOwner::Shared { table, .. } = &mut self.rqs[usize::from(rq)].owner {
            let stash = &mut self.stash;
            table.flush_local(true, |wr| {
                let wc = flushed_recv(wr.wr_id, QpId(u32::from(qp)));
                stash.push_back(Stashed { wc, shared: None });
            });
        }
    }
}
