//! Completions on their way to the caller.

use rdma::{QpId, RecvWr, Wc, WcOp};
use std::collections::VecDeque;

/// Completions, oldest first. With each of a receive goes what was posted, so that a shared one
/// can be posted again when its queue pair is detached before the caller has seen it.
#[derive(Debug, Default)]
pub(crate) struct Completions {
    queue: VecDeque<Wc>,
    /// One for each receive in `queue`, in the same order.
    recvs: VecDeque<RecvWr>,
}

impl Completions {
    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Adds that of a send-side work request.
    pub(crate) fn push_send(&mut self, wc: Wc) {
        debug_assert_eq!(wc.op, WcOp::Send);
        self.queue.push_back(wc);
    }

    /// Adds that of the receive `wr`.
    pub(crate) fn push_recv(&mut self, wc: Wc, wr: RecvWr) {
        debug_assert!(matches!(wc.op, WcOp::Recv { .. }));
        self.queue.push_back(wc);
        self.recvs.push_back(wr);
    }

    /// Moves at most `max` to `out`, and returns how many.
    pub(crate) fn take(&mut self, max: usize, out: &mut Vec<Wc>) -> usize {
        let count = max.min(self.queue.len());
        let start = out.len();
        out.extend(self.queue.drain(..count));
        let recvs = out[start..].iter().filter(|wc| wc.op != WcOp::Send).count();
        self.recvs.drain(..recvs);
        count
    }

    /// Drops what is of a queue pair, and hands over its receives.
    pub(crate) fn remove(&mut self, qp: QpId, mut recv: impl FnMut(RecvWr)) {
        let mut recvs = std::mem::take(&mut self.recvs).into_iter();
        self.queue.retain(|wc| {
            let wr = (wc.op != WcOp::Send).then(|| recvs.next().expect("one for each receive"));
            if wc.qp != qp {
                self.recvs.extend(wr);
                return true;
            }
            if let Some(wr) = wr {
                recv(wr);
            }
            false
        });
    }
}
