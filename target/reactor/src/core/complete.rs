//! What the two seams report: capsules, ended work requests, ended operations.

use super::conn::{Conn, Doing, Kind, Phase, here, parts, tag_parts, there};
use super::receive::token;
use super::stages::Probe;
use super::{Core, CoreStats, NONE};
use crate::mail::ToControl;
use crate::status::exec_status;
use backing::{BlockIo, IoDone};
use nvme_spec_types::command::COMMAND_SIZE;
use nvmf::Slot;
use nvmf::queue::{Action, Receive, RecvToken};
use rdma::{Device, Now, Wc, WcOp};
use region::Span;

impl<D: Device, B: BlockIo> Core<D, B> {
    /// A work request has ended.
    #[inline]
    pub(super) fn on_wc(&mut self, now: Now, wc: &Wc, out: &mut Vec<ToControl<D::Endpoint>>) {
        let (kind, number, generation, slot) = parts(wc.wr_id);
        if kind == Kind::Recv {
            self.on_recv(now, wc, number, slot, out);
            return;
        }
        if !wc.is_ok() && !self.on_failed(now, wc, out) {
            return;
        }
        let slot = Slot(slot);
        #[cfg(feature = "plant")]
        if kind == Kind::Read && self.takes_effect(super::Plant::ReadCreditLeaked) {
            self.conn(number).reads += 1;
        }
        let Some(conn) = there(&mut self.conns, number, generation) else {
            self.stats.strays += 1;
            return;
        };
        if kind == Kind::Read {
            self.pulls.ended(conn, slot, self.now_ns);
        }
        let state = &mut conn.slots[usize::from(slot.0)];
        // A READ gives its own credit back, the others those of all before them.
        let credits = if kind == Kind::Read { 1 } else { state.credits };
        state.credits -= credits;
        state.signaled -= 1;
        let signaled = state.signaled;
        conn.sends -= u32::from(credits);
        conn.signaled -= 1;
        let done = match kind {
            Kind::Read => {
                conn.reads -= 1;
                signaled == 0 && usize::from(state.segment) == conn.queue.segments(slot).len()
            }
            Kind::Send => {
                state.sent = false;
                conn.responses -= 1;
                true
            }
            Kind::Recv | Kind::Write | Kind::LastWrite => false,
        };
        if conn.phase != Phase::Open {
            if signaled == 0 {
                self.answer_last(now, number, slot, out);
            }
            return;
        }
        if !conn.send_waits.is_empty() || !conn.read_waits.is_empty() {
            conn.mark_dirty(number, &mut self.dirty);
        }
        if done {
            let buffer = answer(
                conn,
                slot,
                &mut self.stats,
                &mut self.probe,
                self.now_ns,
                &mut self.actions,
            );
            self.free_buffer(buffer);
            self.carry_out(now, number, out);
        }
    }

    /// A work request has failed: so has its connection. Returns whether it is one that asked for a
    /// completion, and is counted by it.
    #[cold]
    fn on_failed(&mut self, now: Now, wc: &Wc, out: &mut Vec<ToControl<D::Endpoint>>) -> bool {
        let (kind, number, generation, _) = parts(wc.wr_id);
        let Some(conn) = there(&mut self.conns, number, generation) else {
            self.stats.strays += 1;
            return false;
        };
        if conn.phase == Phase::Open {
            let what = match kind {
                Kind::Read => "an RDMA READ",
                Kind::Write | Kind::LastWrite => "an RDMA WRITE",
                Kind::Send | Kind::Recv => "a response",
            };
            let reason = format!("{what} failed: {:?}", wc.status);
            self.close(now, number, Some(reason), out);
        }
        kind != Kind::Write
    }

    /// The last work request of a slot of a closing queue has ended.
    #[cold]
    fn answer_last(&mut self, now: Now, c: u16, slot: Slot, out: &mut Vec<ToControl<D::Endpoint>>) {
        self.answer_request(now, c, slot, out);
        self.try_detach(c, out);
    }

    /// Tells the queue that a slot's READs, or its response, have ended.
    pub(super) fn answer_request(
        &mut self,
        now: Now,
        c: u16,
        slot: Slot,
        out: &mut Vec<ToControl<D::Endpoint>>,
    ) {
        let conn = here(&mut self.conns, c);
        let buffer =
            answer(conn, slot, &mut self.stats, &mut self.probe, self.now_ns, &mut self.actions);
        self.free_buffer(buffer);
        self.carry_out(now, c, out);
    }

    /// A message arrived, or a receive was flushed.
    fn on_recv(
        &mut self,
        now: Now,
        wc: &Wc,
        ring: u16,
        at: u16,
        out: &mut Vec<ToControl<D::Endpoint>>,
    ) {
        let Some(entry) = self.rings.get_mut(usize::from(ring)).and_then(Option::as_mut) else {
            self.stats.strays += 1;
            return;
        };
        let Some(head) = entry.take(at) else {
            self.stats.strays += 1;
            return;
        };
        let token = token(ring, at);
        let c = self.by_qp.get(wc.qp.0 as usize).copied().unwrap_or(NONE);
        let conn = self.conns.get_mut(usize::from(c)).and_then(|conn| conn.as_deref_mut());
        match (conn, wc.op) {
            (Some(conn), WcOp::Recv { byte_len, .. })
                if wc.is_ok() && conn.phase == Phase::Open =>
            {
                // The capsule is copied once before it is looked at: the host could write it again.
                let capsule: [u8; COMMAND_SIZE] = self.region.read_array(head);
                self.stats.capsules += 1;
                conn.activity.mark(now);
                conn.activity.count_capsule();
                let receive = conn.queue.on_capsule(&capsule, byte_len, token, &mut self.actions);
                conn.follow_slots();
                if receive != Receive::Held {
                    entry.post(&mut self.device, ring, at);
                }
                if let Receive::FreeForBuffer { slot, len } = receive {
                    self.allocate(c, slot, len);
                }
                self.carry_out_all(now, c, out);
            }
            _ => self.on_recv_in_vain(now, wc, c, token, out),
        }
    }

    /// A receive came back without a message that anybody wants.
    #[cold]
    fn on_recv_in_vain(
        &mut self,
        now: Now,
        wc: &Wc,
        c: u16,
        token: RecvToken,
        out: &mut Vec<ToControl<D::Endpoint>>,
    ) {
        self.release_recv(token, false);
        if c == NONE {
            // The queue pair is gone; a shared receive went back into use.
            self.stats.strays += 1;
            return;
        }
        if self.conn(c).phase == Phase::Open {
            let reason = format!("a receive failed: {:?}", wc.status);
            self.close(now, c, Some(reason), out);
        }
        self.try_detach(c, out);
    }

    /// An operation on a backing has ended.
    pub(super) fn on_io(&mut self, now: Now, done: IoDone, out: &mut Vec<ToControl<D::Endpoint>>) {
        let (c, generation, slot, at) = tag_parts(done.tag);
        let conn = self.conns.get_mut(usize::from(c)).and_then(|conn| conn.as_deref_mut());
        let Some(conn) = conn.filter(|conn| conn.generation == generation) else {
            self.stats.strays += 1;
            return;
        };
        let slot = Slot(slot);
        conn.ios -= 1;
        let state = &mut conn.slots[usize::from(slot.0)];
        state.ios -= 1;
        let last = state.ios == 0;
        let took_ns = self.now_ns.saturating_sub(state.asked_ns);
        self.stats.io_errors += u64::from(done.result.is_err());
        let backing = self.backings[usize::from(at)].as_mut().expect("a backing in use is here");
        backing.in_flight -= 1;
        backing.latency.count(took_ns);
        let removing = backing.removing;
        if last && self.claims.any() {
            self.claims.ended(c, slot, out);
        }
        conn.queue.on_io_done(slot, exec_status(done.result), &mut self.actions);
        let phase = conn.phase;
        if removing {
            self.finish_removal(at, out);
        }
        if last && phase != Phase::Open {
            self.take_back_buffer(c, slot);
        }
        self.carry_out_all(now, c, out);
        if phase == Phase::Orphan {
            self.try_forget(c);
        }
    }

    /// Gives buffers to commands that wait, in the order in which they asked.
    #[inline(never)]
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

/// Tells the queue that a slot's READs, or its response, have ended; returns the buffer that the slot
/// no longer needs.
#[inline]
fn answer(
    conn: &mut Conn,
    slot: Slot,
    stats: &mut CoreStats,
    probe: &mut Probe,
    now_ns: u64,
    actions: &mut Vec<Action>,
) -> Span {
    let closing = conn.phase != Phase::Open;
    let state = &mut conn.slots[usize::from(slot.0)];
    let doing = std::mem::replace(&mut state.doing, Doing::Nothing);
    if doing == Doing::Pulling && !closing {
        stats.pull_latency.count(now_ns.saturating_sub(state.asked_ns));
    }
    let ends = closing || doing == Doing::Responding;
    let buffer = if ends { std::mem::take(&mut state.buffer) } else { Span::default() };
    if ends && std::mem::take(&mut state.marked) {
        probe.end(now_ns);
    }
    match doing {
        Doing::Responding => conn.queue.on_sent(slot, actions),
        Doing::Pulling => conn.queue.on_pulled(slot, actions),
        Doing::Nothing => {}
    }
    buffer
}
