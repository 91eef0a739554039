//! What the two seams report: capsules, ended work requests, ended operations.

use super::conn::{Doing, Kind, Phase, parts, tag_parts};
use super::receive::{RecvState, token};
use super::{Core, NONE};
use crate::mail::ToControl;
use crate::status::exec_status;
use backing::{BlockIo, IoDone};
use nvme_spec_types::command::COMMAND_SIZE;
use nvmf::Slot;
use rdma::{Device, Now, Wc, WcOp};

impl<D: Device, B: BlockIo> Core<D, B> {
    /// A work request has ended.
    pub(super) fn on_wc(&mut self, now: Now, wc: Wc, out: &mut Vec<ToControl<D::Endpoint>>) {
        let (kind, number, generation, slot) = parts(wc.wr_id);
        if kind == Kind::Recv {
            self.on_recv(now, wc, number, slot, out);
            return;
        }
        let conn = self.conns.get_mut(usize::from(number)).and_then(|conn| conn.as_deref_mut());
        let Some(conn) =
            conn.filter(|conn| conn.generation == generation && conn.phase != Phase::Orphan)
        else {
            self.stats.strays += 1;
            return;
        };
        if !wc.is_ok() && conn.phase == Phase::Open {
            let what = match kind {
                Kind::Read => "an RDMA READ",
                Kind::Write | Kind::LastWrite => "an RDMA WRITE",
                Kind::Send | Kind::Recv => "a response",
            };
            let reason = format!("{what} failed: {:?}", wc.status);
            self.close(now, number, Some(reason), out);
        }
        if kind == Kind::Write {
            return; // it asked for no completion, so nothing is counted by it
        }
        let slot = Slot(slot);
        #[cfg(feature = "plant")]
        if kind == Kind::Read && self.takes_effect(super::Plant::ReadCreditLeaked) {
            self.conn(number).reads += 1;
        }
        let conn = self.conn(number);
        let (credits, signaled) = {
            let state = conn.slot(slot);
            // A READ gives its own credit back, the others those of all before them.
            let credits = if kind == Kind::Read { 1 } else { state.credits };
            state.credits -= credits;
            state.signaled -= 1;
            (credits, state.signaled)
        };
        conn.sends -= u32::from(credits);
        conn.signaled -= 1;
        match kind {
            Kind::Read => conn.reads -= 1,
            Kind::Send => {
                conn.slot(slot).sent = false;
                conn.responses -= 1;
            }
            Kind::Recv | Kind::Write | Kind::LastWrite => {}
        }
        if conn.phase != Phase::Open {
            if signaled == 0 {
                self.answer_request(now, number, slot, out);
                self.try_detach(number, out);
            }
            return;
        }
        if !conn.send_waits.is_empty() || !conn.read_waits.is_empty() {
            self.mark_dirty(number);
        }
        let conn = self.conn(number);
        let done = match kind {
            Kind::Read => {
                let all = conn.queue.segments(slot).len();
                signaled == 0 && usize::from(conn.slot(slot).segment) == all
            }
            Kind::Send => true,
            Kind::Recv | Kind::Write | Kind::LastWrite => false,
        };
        if done {
            self.answer_request(now, number, slot, out);
        }
    }

    /// Tells the queue that a slot's READs, or its response, have ended.
    pub(super) fn answer_request(
        &mut self,
        now: Now,
        c: u16,
        slot: Slot,
        out: &mut Vec<ToControl<D::Endpoint>>,
    ) {
        let doing = std::mem::replace(&mut self.conn(c).slot(slot).doing, Doing::Nothing);
        let closing = self.conn(c).phase != Phase::Open;
        if doing == Doing::Pulling && !closing {
            let asked_ns = self.conn(c).slot(slot).asked_ns;
            self.stats.pull_latency.count(self.now_ns.saturating_sub(asked_ns));
        }
        if closing || doing == Doing::Responding {
            self.take_back_buffer(c, slot);
        }
        let (conn, actions) = self.conn_and_actions(c);
        match doing {
            Doing::Pulling => conn.queue.on_pulled(slot, actions),
            Doing::Responding => conn.queue.on_sent(slot, actions),
            Doing::Nothing => {}
        }
        self.carry_out(now, c, out);
    }

    /// A message arrived, or a receive was flushed.
    fn on_recv(
        &mut self,
        now: Now,
        wc: Wc,
        ring: u16,
        at: u16,
        out: &mut Vec<ToControl<D::Endpoint>>,
    ) {
        let known = self.rings.get_mut(usize::from(ring)).and_then(Option::as_mut);
        let Some(entry) =
            known.filter(|entry| entry.states.get(usize::from(at)) == Some(&RecvState::Posted))
        else {
            self.stats.strays += 1;
            return;
        };
        entry.states[usize::from(at)] = RecvState::Held;
        entry.posted -= 1;
        let (head, shared) = (entry.head(at), entry.shared);
        let token = token(ring, at);
        let c = self.by_qp.get(wc.qp.0 as usize).copied().unwrap_or(NONE);
        if c == NONE {
            // The queue pair is gone; a shared receive goes back into use.
            self.stats.strays += 1;
            self.release_recv(token, false);
            return;
        }
        let received = match wc.op {
            WcOp::Recv { byte_len, .. } if wc.is_ok() => byte_len,
            _ => {
                self.release_recv(token, false);
                if self.conn(c).phase == Phase::Open {
                    let reason = format!("a receive failed: {:?}", wc.status);
                    self.close(now, c, Some(reason), out);
                }
                self.try_detach(c, out);
                return;
            }
        };
        if self.conn(c).phase != Phase::Open {
            self.release_recv(token, false);
            self.try_detach(c, out);
            return;
        }
        debug_assert!(shared || self.conn(c).ring == ring);
        // The capsule is copied once before it is looked at: the host could write it again.
        let mut capsule = [0; COMMAND_SIZE];
        self.region.read(head, &mut capsule);
        self.stats.capsules += 1;
        let (conn, actions) = self.conn_and_actions(c);
        conn.activity.mark(now);
        conn.activity.count_capsule();
        conn.queue.on_capsule(&capsule, received, token, actions);
        self.carry_out(now, c, out);
    }

    /// An operation on a backing has ended.
    pub(super) fn on_io(&mut self, now: Now, done: IoDone, out: &mut Vec<ToControl<D::Endpoint>>) {
        let (c, generation, slot, at) = tag_parts(done.tag);
        let here = self.conns.get(usize::from(c)).and_then(|conn| conn.as_deref());
        if here.is_none_or(|conn| conn.generation != generation) {
            self.stats.strays += 1;
            return;
        }
        self.stats.io_errors += u64::from(done.result.is_err());
        let asked_ns = here.map_or(0, |conn| conn.slots[usize::from(slot)].asked_ns);
        let took_ns = self.now_ns.saturating_sub(asked_ns);
        self.stats.disk_latency.count(took_ns);
        if let Some(backing) = self.backings.get_mut(usize::from(at)).and_then(Option::as_mut) {
            backing.in_flight -= 1;
            backing.latency.count(took_ns);
            if backing.removing {
                self.finish_removal(at, out);
            }
        }
        let slot = Slot(slot);
        let conn = self.conn(c);
        conn.ios -= 1;
        let state = conn.slot(slot);
        state.ios -= 1;
        let last = state.ios == 0;
        let phase = conn.phase;
        if last && self.claims.any() {
            self.claims.ended(c, slot, out);
        }
        let (conn, actions) = self.conn_and_actions(c);
        conn.queue.on_io_done(slot, exec_status(done.result), actions);
        if last && phase != Phase::Open {
            self.take_back_buffer(c, slot);
        }
        self.carry_out(now, c, out);
        if phase == Phase::Orphan {
            self.try_forget(c);
        }
    }

    /// Gives buffers to commands that wait, in the order in which they asked.
    pub(super) fn grant_buffers(&mut self, now: Now, out: &mut Vec<ToControl<D::Endpoint>>) {
        while let Some(&wait) = self.buffer_waits.front() {
            let Some(buffer) = self.buddy.allocate(wait.len) else { return };
            self.buffer_waits.pop_front();
            let (conn, actions) = self.conn_and_actions(wait.conn);
            conn.slot(wait.slot).buffer = buffer;
            conn.queue.on_buffer(wait.slot, actions);
            self.carry_out(now, wait.conn, out);
        }
    }
}
