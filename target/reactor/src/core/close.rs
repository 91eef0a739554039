//! The end of a connection.

use super::conn::{Doing, Phase, here};
use super::{Core, NONE};
use crate::mail::ToControl;
use backing::BlockIo;
use nvmf::Slot;
use rdma::{Device, Now};

impl<D: Device, B: BlockIo> Core<D, B> {
    /// Begins to close a queue: fails its queue pair and drops everything that waits. With a
    /// `reason` of our own the control thread is told. Harmless when repeated.
    pub(super) fn close(
        &mut self,
        now: Now,
        c: u16,
        reason: Option<String>,
        out: &mut Vec<ToControl<D::Endpoint>>,
    ) {
        let conn = self.conns[usize::from(c)].as_deref_mut().expect("a connection that is here");
        if conn.phase != Phase::Open {
            return;
        }
        conn.phase = Phase::Closing;
        conn.read_waits.clear();
        conn.send_waits.clear();
        self.device.fail(conn.qp);
        if let Some(reason) = reason {
            self.stats.faults += 1;
            out.push(ToControl::Closing { key: conn.key, reason });
        }
        self.buffer_waits.retain(|wait| wait.conn != c);
        self.lines.forget(c);
        self.pulls.forget(conn, c);
        conn.queue.begin_close(&mut self.actions);
        self.carry_out(now, c, out);
        self.drop_held_back(now, c, out);
        for at in 0..self.conn(c).slots.len() {
            let slot = Slot(at as u16);
            here(&mut self.conns, c).slot(slot).lose(&mut self.probe);
            let state = *self.conn(c).slot(slot);
            if state.signaled > 0 || state.ios > 0 {
                continue; // it ends when those do
            }
            // WRITEs that were posted without asking for a completion are always followed by one
            // that does, so nothing of the slot is under way here.
            if state.doing == Doing::Nothing {
                self.take_back_buffer(c, slot);
            } else {
                self.answer_request(now, c, slot, out);
            }
        }
        self.try_detach(c, out);
    }

    /// Gives the endpoint of a closing queue back once its queue pair has drained.
    pub(super) fn try_detach(&mut self, c: u16, out: &mut Vec<ToControl<D::Endpoint>>) {
        let Some(conn) = self.conns[usize::from(c)].as_deref_mut() else { return };
        let ring = self.rings[usize::from(conn.ring)].as_ref().expect("a ring that is here");
        let drained = conn.signaled == 0 && (ring.shared || ring.posted == 0);
        if conn.phase != Phase::Closing || !drained {
            return;
        }
        conn.phase = Phase::Orphan;
        assert!(conn.sends == 0 && conn.reads == 0, "credits outlived their work requests");
        let (key, qp) = (conn.key, conn.qp);
        let endpoint = self.device.detach(qp);
        self.by_qp[qp.0 as usize] = NONE;
        self.by_key.remove(&key);
        out.push(ToControl::Detached { key, endpoint });
        self.try_forget(c);
    }

    /// Forgets a detached connection once nothing is in flight for it.
    pub(super) fn try_forget(&mut self, c: u16) {
        let conn = self.conns[usize::from(c)].as_deref().expect("a connection that is here");
        if conn.phase != Phase::Orphan || conn.ios > 0 {
            return;
        }
        assert!(conn.queue.is_drained(), "a command outlived its connection");
        let (ring, cqes) = (conn.ring, conn.cqes);
        self.conns[usize::from(c)] = None;
        self.free_conns.push(c);
        self.drop_ring(ring);
        self.standing.free(cqes);
    }
}
