//! Carrying out what a queue asks for.

use super::conn::{Conn, Doing, Phase, here, tag};
use super::receive::{Ring, of_token};
use super::send::writes;
use super::stages::Stage;
use super::{BufferWait, Core};
use crate::mail::{Range, ToControl};
use crate::status::exec_status;
use backing::{BackingId, BlockIo, IoError, IoOp, IoRequest};
use nvme_spec_types::Completion;
use nvmf::Slot;
use nvmf::queue::{Action, Io, IoKind, Place, RecvToken};
use rdma::{Device, Now};
use region::Span;

impl<D: Device, B: BlockIo> Core<D, B> {
    /// Carries out what a queue has asked for, and what follows from it, in order. For events after
    /// which a queue often asks for nothing, or that are rare.
    #[inline]
    pub(super) fn carry_out(&mut self, now: Now, c: u16, out: &mut Vec<ToControl<D::Endpoint>>) {
        if !self.actions.is_empty() {
            self.carry_out_some(now, c, out);
        }
    }

    #[inline(never)]
    fn carry_out_some(&mut self, now: Now, c: u16, out: &mut Vec<ToControl<D::Endpoint>>) {
        self.carry_out_all(now, c, out);
    }

    /// [`Core::carry_out`] for the two events of every command: a capsule, the end of an operation.
    #[inline(always)]
    pub(super) fn carry_out_all(
        &mut self,
        now: Now,
        c: u16,
        out: &mut Vec<ToControl<D::Endpoint>>,
    ) {
        let mut at = 0;
        while at < self.actions.len() {
            // What most commands ask for is read where it is, the rest is copied.
            match self.actions[at] {
                Action::ReleaseRecv(token) => {
                    let open = here(&mut self.conns, c).phase == Phase::Open;
                    self.release_recv(token, open);
                }
                Action::Allocate { slot, len } => self.allocate(c, slot, len),
                Action::Io { slot, io } => self.submit(now, c, slot, io, false),
                Action::Respond { slot, completion, push, invalidate } => {
                    self.respond(c, slot, &completion, push, invalidate, out);
                }
                action => self.act(now, c, action, out),
            }
            at += 1;
        }
        self.actions.clear();
        if let Some(reason) = self.to_close.take() {
            self.close(now, c, Some(reason.to_string()), out);
        }
    }

    /// Grants a buffer, or a place in line for one.
    pub(super) fn allocate(&mut self, c: u16, slot: Slot, len: u32) {
        let conn = here(&mut self.conns, c);
        let state = conn.slot(slot);
        state.begin(self.now_ns, &mut self.probe);
        state.enter(Stage::Buffer, self.now_ns, &mut self.probe);
        // Nobody overtakes a command that waits.
        let granted = if self.buffer_waits.is_empty() { self.buddy.allocate(len) } else { None };
        match granted {
            Some(buffer) => {
                state.buffer = buffer;
                conn.queue.on_buffer(slot, &mut self.actions);
            }
            None => {
                self.stats.buffer_waits += 1;
                self.buffer_waits.push_back(BufferWait { conn: c, slot, len });
            }
        }
    }

    /// Stages a response.
    #[inline(always)]
    fn respond(
        &mut self,
        c: u16,
        slot: Slot,
        completion: &Completion,
        push: u32,
        invalidate: Option<u32>,
        out: &mut Vec<ToControl<D::Endpoint>>,
    ) {
        let conn = here(&mut self.conns, c);
        self.region.write(conn.cqe(slot), &completion.to_bytes());
        if !completion.status.is_success() {
            *self.failures.entry(completion.status.code).or_insert(0) += 1;
        }
        conn.send_waits.push(slot);
        conn.mark_dirty(c, &mut self.dirty);
        let state = &mut conn.slots[usize::from(slot.0)];
        state.enter(Stage::DataOut, self.now_ns, &mut self.probe);
        state.doing = Doing::Responding;
        state.segment = 0;
        state.moved = 0;
        state.push = push;
        state.writes = writes(conn.queue.segments(slot), push);
        state.invalidate = invalidate;
        // A command that failed at once has not begun.
        let began_ns = std::mem::take(&mut state.began_ns);
        if push == 0 {
            self.take_back_buffer(c, slot);
        }
        if began_ns != 0 {
            let took_ns = self.now_ns.saturating_sub(began_ns);
            self.stats.command_latency.count(took_ns);
            if took_ns > self.slow_ns {
                self.tell_slow(c, slot, took_ns, out);
            }
        }
    }

    /// Tells the control thread of a slow command, of one a turn.
    #[cold]
    fn tell_slow(
        &mut self,
        c: u16,
        slot: Slot,
        took_ns: u64,
        out: &mut Vec<ToControl<D::Endpoint>>,
    ) {
        if self.told_slow {
            self.untold_slow += 1;
            return;
        }
        self.told_slow = true;
        let missed = std::mem::take(&mut self.untold_slow);
        let conn = here(&mut self.conns, c);
        let (key, command) = (conn.key, *conn.queue.command(slot));
        out.push(ToControl::Slow { key, command, took_ns, missed });
    }

    /// Carries out one of the rarer actions.
    #[inline(never)]
    fn act(&mut self, now: Now, c: u16, action: Action, out: &mut Vec<ToControl<D::Endpoint>>) {
        let conn = here(&mut self.conns, c);
        match action {
            Action::ReleaseRecv(_)
            | Action::Allocate { .. }
            | Action::Io { .. }
            | Action::Respond { .. } => unreachable!("carried out where they are"),
            Action::AskTurn { slot, commands, bytes } => {
                self.ask_turn(now, c, slot, commands, bytes);
            }
            Action::Charge { slot: _, nsid, bytes } => {
                for limit in conn.queue.limits_on(nsid).into_iter().flatten() {
                    limit.charge(now, 0, bytes);
                }
            }
            Action::Withdraw(slot) => {
                self.lines.withdraw(c, slot);
                self.buffer_waits.retain(|wait| wait.conn != c || wait.slot != slot);
            }
            Action::Lift { slot, of, from, len, to } => {
                let source = place(&self.rings, conn, of, Place::Capsule(from), len);
                let buffer = conn.slot(slot).buffer;
                self.region.copy_to(source, &self.region, buffer.slice(to, len));
            }
            Action::Pull(slot) => {
                let to = conn.queue.pull_to(slot);
                let state = conn.slot(slot);
                state.enter(Stage::DataIn, self.now_ns, &mut self.probe);
                state.doing = Doing::Pulling;
                state.asked_ns = self.now_ns;
                state.segment = 0;
                state.moved = to;
                conn.read_waits.push_back(slot);
                conn.mark_dirty(c, &mut self.dirty);
            }
            Action::Peek { slot, place: at, len } => {
                let source = place(&self.rings, conn, slot, at, len);
                let bytes = &mut self.scratch[..len as usize];
                self.region.read(source, bytes);
                conn.queue.on_payload(slot, bytes, &mut self.actions);
            }
            Action::Claim { slot, backing, offset, len } => {
                let range = Range { backing, start: offset, end: offset + len };
                out.push(self.claims.ask(self.config.index, c, slot, range));
            }
            Action::Unclaim(slot) => out.extend(self.claims.let_go(c, slot)),
            Action::Compare { slot, a, b, len } => {
                let a = place(&self.rings, conn, slot, a, len);
                let b = place(&self.rings, conn, slot, b, len);
                let difference = self.region.first_difference(a, b);
                conn.queue.on_compared(slot, difference, &mut self.actions);
            }
            Action::Execute { slot, data } => {
                let mut bytes = Vec::new();
                if let Some((at, len)) = data {
                    bytes.resize(len as usize, 0);
                    let source = place(&self.rings, conn, slot, at, len);
                    self.region.read(source, &mut bytes);
                }
                self.stats.executes += 1;
                let command = *conn.queue.command(slot);
                out.push(ToControl::Execute { key: conn.key, slot, command, data: bytes });
                conn.slot(slot).lose(&mut self.probe);
                // The control thread has its copy, and may take long.
                self.take_back_buffer(c, slot);
            }
            Action::Aborted { token, stopped } => out.push(ToControl::Aborted { token, stopped }),
            Action::Flushed { slot, failed } => {
                out.push(ToControl::Flushed { key: conn.key, slot, failed });
            }
            Action::Report { slot, status, location, missed } => {
                let command = *conn.queue.command(slot);
                out.push(ToControl::Failed { key: conn.key, command, status, location, missed });
            }
            Action::Fill(slot) => {
                let bytes = conn.queue.take_fill(slot);
                self.region.write(conn.slot(slot).buffer, &bytes);
            }
            Action::Close(reason) => {
                self.to_close.get_or_insert(reason);
            }
        }
    }

    /// Hands an operation to storage, or fails it when its backing is not (or no longer) there. It
    /// waits while a fused pair has its blocks, and is then `resumed`: its backing has stayed for it.
    #[inline(always)]
    pub(super) fn submit(&mut self, now: Now, c: u16, slot: Slot, mut io: Io, resumed: bool) {
        if self.claims.any() && self.holds_back(c, slot, &io) {
            return;
        }
        let at = self.backing(io.backing.0);
        if let (IoKind::Write { .. }, Place::Capsule(from)) = (io.kind, io.place)
            && self.vacate_recv(c, slot, from, io.len as u32)
        {
            io.place = Place::Buffer(0);
        }
        let conn = here(&mut self.conns, c);
        let state = &mut conn.slots[usize::from(slot.0)];
        state.begin(self.now_ns, &mut self.probe);
        state.enter(Stage::Disk, self.now_ns, &mut self.probe);
        let backing = at.and_then(|at| {
            let backing = self.backings[usize::from(at)].as_mut()?;
            let stays = !backing.removing || resumed || self.claims.uses(io.backing.0);
            stays.then_some((at, backing))
        });
        let Some((at, backing)) = backing else {
            self.stats.io_errors += 1;
            let gone = exec_status(Err(IoError::Gone));
            conn.queue.on_io_done(slot, gone, &mut self.actions);
            return;
        };
        backing.in_flight += 1;
        conn.ios += 1;
        state.touches = match state.ios {
            0 => touched(&io),
            _ => state.touches.through(&touched(&io)),
        };
        state.ios += 1;
        state.asked_ns = self.now_ns;
        let (op, has_data) = match io.kind {
            IoKind::Read => (IoOp::Read, true),
            IoKind::Write { fua } => (IoOp::Write { fua }, true),
            IoKind::Flush => (IoOp::Flush, false),
            IoKind::WriteZeroes { deallocate, fua } => {
                (IoOp::WriteZeroes { deallocate, fua }, false)
            }
            IoKind::Deallocate => (IoOp::Deallocate, false),
        };
        let buffer = if has_data {
            place(&self.rings, conn, slot, io.place, io.len as u32)
        } else {
            Span::default()
        };
        let tag = tag(c, conn.generation, slot.0, at);
        let backing = BackingId(io.backing.0);
        let request = IoRequest { backing, op, offset: io.offset, len: io.len, buffer, tag };
        self.stats.ios += 1;
        self.io.submit(now, request);
    }

    /// Whether the operation waits for the end of a fused pair on its blocks.
    #[cold]
    fn holds_back(&mut self, c: u16, slot: Slot, io: &Io) -> bool {
        #[cfg(feature = "plant")]
        if self.plant == Some(super::Plant::ClaimsIgnored) {
            return false;
        }
        let held_back = self.claims.holds_back(c, slot, io, &touched(io));
        if held_back {
            let state = here(&mut self.conns, c).slot(slot);
            state.begin(self.now_ns, &mut self.probe);
            state.enter(Stage::Disk, self.now_ns, &mut self.probe);
            self.stats.claim_waits += 1;
        }
        held_back
    }

    /// Moves the data of a write out of its receive when a shared receive queue runs low, so that
    /// writes that wait for a slow disk or for their turn do not keep other hosts' capsules out.
    /// Returns whether it did: it needs a buffer that is free now.
    pub(super) fn vacate_recv(&mut self, c: u16, slot: Slot, from: u32, len: u32) -> bool {
        let conn = here(&mut self.conns, c);
        let token = conn.queue.recv(slot);
        let ring = self.rings[usize::from(of_token(token).0)].as_ref();
        if !ring.is_some_and(Ring::is_low) || !self.buffer_waits.is_empty() {
            return false;
        }
        let source = place(&self.rings, conn, slot, Place::Capsule(from), len);
        let Some(buffer) = self.buddy.allocate(len) else { return false };
        self.region.copy_to(source, &self.region, buffer);
        conn.slot(slot).buffer = buffer;
        conn.queue.forget_recv(slot);
        self.stats.vacated += 1;
        self.release_recv(token, true);
        true
    }

    /// Gives a slot's buffer back to the pool, if it has one.
    pub(super) fn take_back_buffer(&mut self, c: u16, slot: Slot) {
        let buffer = std::mem::take(&mut here(&mut self.conns, c).slot(slot).buffer);
        self.free_buffer(buffer);
    }

    /// Gives a buffer back to the pool; an empty one is none.
    pub(super) fn free_buffer(&mut self, buffer: Span) {
        if buffer.is_empty() {
            return;
        }
        self.buddy.free(buffer);
        #[cfg(feature = "plant")]
        if self.takes_effect(super::Plant::BufferFreedTwice) {
            self.buddy.free(buffer);
        }
    }
}

/// The bytes that an operation touches.
fn touched(io: &Io) -> Range {
    Range { backing: io.backing, start: io.offset, end: io.offset + io.len }
}

/// Where in the region a place of a slot is.
#[inline(always)]
fn place(rings: &[Option<Ring>], conn: &Conn, slot: Slot, place: Place, len: u32) -> Span {
    match place {
        Place::Buffer(at) => conn.slots[usize::from(slot.0)].buffer.slice(at, len),
        Place::Capsule(at) => {
            let token: RecvToken = conn.queue.recv(slot);
            let (ring, receive) = of_token(token);
            let ring = rings[usize::from(ring)].as_ref().expect("a ring that is here");
            ring.data(receive).slice(at, len)
        }
    }
}
