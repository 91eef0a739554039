//! The cores: what a reactor's core does for its queues, at times that the input decides.

use super::conn::Conn;
use super::judge::{DISK_FAILURES, judge_io, judge_response};
use super::mail::{Execute, ToControl};
use super::op::Op;
use super::sent::MAX_TRANSFER;
use super::world::World;
use nvme_spec_types::{Fuse, IoOpcode};
use nvmf::queue::{Action, Io, IoKind, Queue, RecvToken};
use nvmf::{BackingRef, ExecStatus, QueueKey, Slot};
use std::collections::VecDeque;
use std::ops::Range;

/// Something that a queue waits for.
#[derive(Debug, Clone, Copy)]
pub(super) enum Owed {
    /// RDMA READs.
    Pull(QueueKey, Slot),
    /// An operation on a disk.
    Io(QueueKey, Slot, Io),
    /// The end of a response.
    Send(QueueKey, Slot),
    /// A range of a backing.
    Claim(QueueKey, Slot),
}

impl Owed {
    pub(super) fn key(&self) -> QueueKey {
        match *self {
            Owed::Pull(key, _) | Owed::Io(key, _, _) | Owed::Send(key, _) | Owed::Claim(key, _) => {
                key
            }
        }
    }
}

/// A range that a fused pair wants, or has.
#[derive(Debug, Clone)]
pub(super) struct Claim {
    at: (QueueKey, Slot),
    backing: BackingRef,
    range: Range<u64>,
    granted: bool,
}

impl Claim {
    fn touches(&self, io: &Io) -> bool {
        let other = io.offset..io.offset + io.len;
        let overlap = self.range.start < other.end && other.start < self.range.end;
        self.backing == io.backing && io.kind != IoKind::Flush && overlap
    }
}

/// What is seen to happen, for the numbers of what was reached.
fn number(action: &Action) -> u32 {
    match action {
        Action::ReleaseRecv(_) => 0,
        Action::Allocate { .. } => 1,
        Action::Withdraw(_) => 2,
        Action::Lift { .. } => 3,
        Action::Pull(_) => 4,
        Action::Claim { .. } => 5,
        Action::Unclaim(_) => 6,
        Action::Peek { .. } => 7,
        Action::Io { .. } => 8,
        Action::Compare { .. } => 9,
        Action::Execute { .. } => 10,
        Action::Report { .. } => 11,
        Action::Aborted { .. } => 12,
        Action::Flushed { .. } => 13,
        Action::Fill(_) => 14,
        Action::Respond { .. } => 15,
        Action::Close(_) => 16,
        Action::AskTurn { .. } => 17,
        Action::Charge { .. } => 18,
    }
}

/// The slot that an action is for.
fn slot_of(action: &Action) -> Option<Slot> {
    match *action {
        Action::Allocate { slot, .. }
        | Action::AskTurn { slot, .. }
        | Action::Charge { slot, .. }
        | Action::Withdraw(slot)
        | Action::Lift { slot, .. }
        | Action::Pull(slot)
        | Action::Claim { slot, .. }
        | Action::Unclaim(slot)
        | Action::Peek { slot, .. }
        | Action::Io { slot, .. }
        | Action::Compare { slot, .. }
        | Action::Execute { slot, .. }
        | Action::Report { slot, .. }
        | Action::Flushed { slot, .. }
        | Action::Fill(slot)
        | Action::Respond { slot, .. } => Some(slot),
        Action::ReleaseRecv(_) | Action::Aborted { .. } | Action::Close(_) => None,
    }
}

/// Has a queue take in a message; that its receive is free is told as an action, before all others.
pub(super) fn take_in(
    queue: &mut Queue,
    capsule: &[u8; 64],
    received: u32,
    token: RecvToken,
    out: &mut Vec<Action>,
) {
    let at = out.len();
    let receive = queue.on_capsule(capsule, received, token, out);
    out.splice(at..at, receive.actions(token));
}

impl World {
    /// Tells a queue of something, and does what it asks for.
    pub(super) fn tell_queue(
        &mut self,
        op: &mut Op,
        key: QueueKey,
        event: impl FnOnce(&mut Queue, &mut Vec<Action>),
    ) {
        let Some(mut conn) = self.conns.remove(&key) else { return };
        let mut out = Vec::new();
        event(&mut conn.queue, &mut out);
        let mut at = 0;
        while let Some(&action) = out.get(at) {
            at += 1;
            let after = matches!(
                action,
                Action::ReleaseRecv(_)
                    | Action::Unclaim(_)
                    | Action::Aborted { stopped: false, .. }
            );
            assert!(conn.open || after, "{action:?} after the end of its queue");
            if let Some(slot) = slot_of(&action) {
                conn.slot(slot);
                let on_io_queue = conn.on_io_queue();
                let command = &conn.command(slot).command;
                self.reached.event(number(&action), on_io_queue, command);
            }
            self.carry_out(op, &mut conn, action, &mut out);
        }
        conn.check();
        let reason = conn.to_close.take();
        self.conns.insert(key, conn);
        if let Some(reason) = reason {
            self.end_on_core(op, key, Some(reason.to_string()));
        }
        self.try_held_back(op);
    }

    fn carry_out(&mut self, op: &mut Op, conn: &mut Conn, action: Action, out: &mut Vec<Action>) {
        let key = conn.key;
        match action {
            Action::ReleaseRecv(RecvToken(token)) => {
                assert!(conn.held.remove(&token), "a receive was given back twice");
            }
            Action::AskTurn { slot, commands, .. } => {
                assert!(conn.queue.limits(slot).iter().any(Option::is_some), "a turn of no limit");
                let second = conn.command(slot).command.fuse() == Fuse::Second;
                assert_eq!(commands, 1 + u8::from(second), "a turn for so many commands");
                let model = conn.slot(slot);
                assert!(!std::mem::replace(&mut model.waits, true), "a turn while it waits");
                assert!(model.buffer.is_none(), "a buffer is held in line");
                self.turns.push_back((key, slot));
            }
            Action::Charge { slot: _, nsid, bytes } => {
                for limit in conn.queue.limits_on(nsid).into_iter().flatten() {
                    limit.charge(self.now, 0, bytes);
                }
            }
            Action::Allocate { slot, len } => {
                let line = &mut self.buffer_lines[conn.core];
                let model = conn.slot(slot);
                assert!(model.buffer.is_none() && !model.waits, "a second buffer for {slot:?}");
                assert!((1..=2 * MAX_TRANSFER).contains(&len), "a buffer of {len} bytes");
                if line.is_empty() && !op.once_in(3) {
                    model.buffer = Some(vec![0xcc; len as usize]);
                    conn.queue.on_buffer(slot, out);
                } else {
                    model.waits = true;
                    line.push_back((key, slot, len));
                }
            }
            Action::Withdraw(slot) => {
                assert!(std::mem::take(&mut conn.slot(slot).waits), "nothing to withdraw");
                self.turns.retain(|&waits| waits != (key, slot));
                let line = &mut self.buffer_lines[conn.core];
                line.retain(|&(k, s, _)| (k, s) != (key, slot));
            }
            Action::Lift { slot, of, from, len, to } => {
                let bytes = conn.bytes(of, nvmf::queue::Place::Capsule(from), len);
                conn.fill(slot, to, &bytes);
            }
            Action::Pull(slot) => {
                let len = conn.queue.data_len(slot);
                assert!(len > 0, "READs of nothing");
                conn.bytes(slot, nvmf::queue::Place::Buffer(conn.queue.pull_to(slot)), len);
                conn.slot(slot).busy = true;
                self.owed.push(Owed::Pull(key, slot));
            }
            Action::Claim { slot, backing, offset, len } => {
                let claim =
                    Claim { at: (key, slot), backing, range: offset..offset + len, granted: false };
                assert!(self.claims.iter().all(|c| c.at != claim.at), "a second claim");
                self.claims.push(claim);
                self.owed.push(Owed::Claim(key, slot));
            }
            Action::Unclaim(slot) => {
                let at = self.claims.iter().position(|claim| claim.at == (key, slot));
                self.claims.remove(at.expect("a claim to let go of"));
                let asks = |o: &Owed| matches!(*o, Owed::Claim(k, s) if (k, s) == (key, slot));
                self.owed.retain(|owed| !asks(owed));
                self.claims_ended = true;
            }
            Action::Peek { slot, place, len } => {
                let bytes = conn.bytes(slot, place, len);
                conn.queue.on_payload(slot, &bytes, out);
            }
            Action::Io { slot, io } => {
                judge_io(conn, slot, &io);
                if let IoKind::Read | IoKind::Write { .. } = io.kind {
                    conn.bytes(slot, io.place, io.len as u32);
                }
                self.vacate(op, conn, slot, &io);
                self.submit(conn, slot, io, out);
            }
            Action::Compare { slot, a, b, len } => {
                let (a, b) = (conn.bytes(slot, a, len), conn.bytes(slot, b, len));
                let difference = a.iter().zip(&b).position(|(a, b)| a != b);
                let first = conn
                    .first_of(slot)
                    .filter(|_| conn.command(slot).command.fuse() == Fuse::Second);
                let hosts = first.unwrap_or_else(|| conn.command(slot)).data(len.into());
                let progress = &mut conn.slot(slot).progress;
                let equal = hosts == progress.seen;
                assert_eq!(difference.is_none(), equal, "the wrong bytes are compared");
                progress.equal = Some(equal);
                conn.queue.on_compared(slot, difference.map(|at| at as u32), out);
            }
            Action::Execute { slot, data } => {
                let bytes = data.map(|(place, len)| conn.bytes(slot, place, len));
                let hosts = bytes.as_ref().map(|b| conn.command(slot).data(b.len() as u64));
                assert_eq!(bytes, hosts, "other data than the host's");
                let command = *conn.queue.command(slot);
                let model = conn.slot(slot);
                model.buffer = None;
                assert!(!std::mem::replace(&mut model.executing, true), "executed twice");
                let data = bytes.unwrap_or_default();
                let execute = Execute { key, slot, command, data };
                self.to_control[conn.core].push_back(ToControl::Execute(execute));
            }
            Action::Report { slot, status, location, missed } => {
                conn.reports += 1;
                assert!(conn.reports <= 8, "{} reports on their way", conn.reports);
                let command = *conn.queue.command(slot);
                let report = ToControl::Failed { key, command, status, location, missed };
                self.to_control[conn.core].push_back(report);
            }
            Action::Aborted { token, stopped } => {
                self.to_control[conn.core].push_back(ToControl::Aborted { token, stopped });
            }
            Action::Flushed { slot, failed } => {
                conn.slot(slot).executing = true;
                self.to_control[conn.core].push_back(ToControl::Flushed { key, slot, failed });
            }
            Action::Fill(slot) => {
                let bytes = conn.queue.take_fill(slot);
                assert!(!bytes.is_empty(), "nothing to fill a buffer with");
                conn.fill(slot, 0, &bytes);
            }
            Action::Respond { slot, completion, push, invalidate } => {
                judge_response(conn, slot, &completion, push, invalidate);
                if push > 0 {
                    conn.bytes(slot, nvmf::queue::Place::Buffer(0), push);
                } else {
                    conn.slot(slot).buffer = None;
                }
                let token = conn.token(slot);
                let on_io_queue = conn.on_io_queue();
                let sent = conn.sent.get_mut(&token).expect("judged above");
                sent.answered = true;
                self.reached.answer(on_io_queue, &sent.command, completion.status.code);
                conn.head = Some(completion.sqhd);
                conn.slot(slot).busy = true;
                self.owed.push(Owed::Send(key, slot));
            }
            Action::Close(reason) => {
                conn.to_close.get_or_insert(reason);
            }
        }
    }

    /// Moves the data of a write out of its receive, as a core does that runs out of them.
    fn vacate(&mut self, op: &mut Op, conn: &mut Conn, slot: Slot, io: &Io) {
        let nvmf::queue::Place::Capsule(_) = io.place else { return };
        if !matches!(io.kind, IoKind::Write { .. }) || !op.once_in(4) {
            return;
        }
        let bytes = conn.bytes(slot, io.place, io.len as u32);
        let token = conn.token(slot);
        conn.queue.forget_recv(slot);
        conn.held.remove(&token);
        conn.slot(slot).buffer = Some(bytes);
    }

    /// Begins an operation, unless another's claim holds it back or its backing is gone.
    fn submit(&mut self, conn: &mut Conn, slot: Slot, io: Io, out: &mut Vec<Action>) {
        let key = conn.key;
        let mine = |claim: &Claim| claim.at == (key, slot);
        if self.claims.iter().any(|claim| claim.granted && !mine(claim) && claim.touches(&io)) {
            self.held_back.push_back((key, slot, io));
            return;
        }
        if self.gone.contains(&io.backing) {
            let status = DISK_FAILURES[2];
            conn.slot(slot).progress.failed.insert(status);
            conn.queue.on_io_done(slot, ExecStatus::Failed(status.retryable()), out);
            return;
        }
        conn.slot(slot).ios += 1;
        self.owed.push(Owed::Io(key, slot, io));
    }

    /// Begins what was held back, where the claims are over.
    fn try_held_back(&mut self, op: &mut Op) {
        while std::mem::take(&mut self.claims_ended) {
            for (key, slot, io) in std::mem::take(&mut self.held_back) {
                let Some(mut conn) = self.conns.remove(&key) else { continue };
                let mut out = Vec::new();
                self.submit(&mut conn, slot, io, &mut out);
                self.conns.insert(key, conn);
                // What follows from a backing that is gone.
                self.tell_queue(op, key, |_, actions| actions.append(&mut out));
            }
        }
    }

    /// Admits the first that waits for its limits.
    pub(super) fn grant_turn(&mut self, op: &mut Op) -> bool {
        let Some((key, slot)) = self.turns.pop_front() else { return false };
        if let Some(conn) = self.conns.get_mut(&key) {
            let model = conn.slot(slot);
            assert!(std::mem::take(&mut model.waits), "in line without waiting");
            model.progress.admitted = true;
        }
        self.tell_queue(op, key, |queue, out| queue.on_turn(slot, out));
        true
    }

    /// Gives the first in line its buffer.
    pub(super) fn grant_buffer(&mut self, op: &mut Op, core: usize) -> bool {
        let Some((key, slot, len)) = self.buffer_lines[core].pop_front() else { return false };
        if let Some(conn) = self.conns.get_mut(&key) {
            let model = conn.slot(slot);
            assert!(std::mem::take(&mut model.waits), "in line without waiting");
            model.buffer = Some(vec![0xcc; len as usize]);
        }
        self.tell_queue(op, key, |queue, out| queue.on_buffer(slot, out));
        true
    }

    /// Answers one of the things that queues wait for, well or, if `fails`, badly. Returns whether
    /// it could.
    pub(super) fn answer(&mut self, op: &mut Op, at: usize, fails: bool) -> bool {
        let owed = self.owed[at];
        let key = owed.key();
        let open = self.conns.get(&key).is_some_and(|conn| conn.open);
        match owed {
            Owed::Claim(_, slot) => return self.grant_claim(op, key, slot),
            Owed::Pull(..) | Owed::Send(..) if fails && open => {
                // A work request that fails takes the connection with it, and ends later.
                self.end_on_core(op, key, Some("a work request failed".to_owned()));
                return true;
            }
            _ => self.owed.swap_remove(at),
        };
        match owed {
            Owed::Claim(..) => {}
            Owed::Pull(_, slot) | Owed::Send(_, slot) => self.finish_work(op, owed, key, slot),
            Owed::Io(_, slot, io) => {
                let status = self.operate(op, slot, key, &io, fails);
                if let Some(conn) = self.conns.get_mut(&key) {
                    let model = conn.slot(slot);
                    model.ios -= 1;
                    if model.ios == 0 && !open {
                        model.buffer = None;
                    }
                }
                self.tell_queue(op, key, |queue, out| queue.on_io_done(slot, status, out));
            }
        }
        self.forget_if_drained(key);
        true
    }

    fn finish_work(&mut self, op: &mut Op, owed: Owed, key: QueueKey, slot: Slot) {
        let Some(conn) = self.conns.get_mut(&key) else { return };
        let pull = matches!(owed, Owed::Pull(..));
        conn.slot(slot).busy = false;
        if pull && conn.open {
            let to = conn.queue.pull_to(slot);
            let segments = conn.queue.segments(slot).to_vec();
            let second = conn.command(slot).command.fuse() == Fuse::Second && to > 0;
            let owner = if second { conn.first_of(slot) } else { None };
            let bytes = owner.unwrap_or_else(|| conn.command(slot)).pull(&segments);
            conn.fill(slot, to, &bytes);
        } else {
            conn.slot(slot).buffer = None;
        }
        if !pull {
            let token = conn.token(slot);
            conn.sent.remove(&token);
            conn.firsts.remove(&token);
        }
        self.tell_queue(op, key, |queue, out| match pull {
            true => queue.on_pulled(slot, out),
            false => queue.on_sent(slot, out),
        });
    }

    /// Carries out an operation on its disk.
    fn operate(
        &mut self,
        op: &mut Op,
        slot: Slot,
        key: QueueKey,
        io: &Io,
        fails: bool,
    ) -> ExecStatus {
        let Some(conn) = self.conns.get_mut(&key) else { return ExecStatus::Ok };
        let command = conn.command(slot).command;
        if fails {
            let code = DISK_FAILURES[op.below(3) as usize];
            conn.slot(slot).progress.failed.insert(code);
            let status = if op.once_in(2) { code.with_dnr() } else { code.retryable() };
            return ExecStatus::Failed(status);
        }
        let (backing, offset, len) = (io.backing, io.offset, io.len);
        match io.kind {
            IoKind::Read => {
                let bytes = self.disks.read(backing, offset, len);
                // Also when its queue has ended: the memory must be there.
                let nvmf::queue::Place::Buffer(at) = io.place else {
                    panic!("{io:?} reads into a receive")
                };
                conn.fill(slot, at, &bytes);
                let progress = &mut conn.slot(slot).progress;
                progress.read += len;
                progress.seen = bytes;
            }
            IoKind::Write { .. } => {
                let vacated = matches!(io.place, nvmf::queue::Place::Capsule(_))
                    && !conn.held.contains(&conn.token(slot));
                let place = if vacated { nvmf::queue::Place::Buffer(0) } else { io.place };
                let bytes = conn.bytes(slot, place, len as u32);
                if command.io_opcode() == IoOpcode::WRITE {
                    let hosts = conn.command(slot).data(len);
                    assert!(bytes == hosts, "other data than the host's: {command:?}");
                }
                if let Some(first) = conn.first_of(slot)
                    && conn.slots[usize::from(slot.0)].progress.equal == Some(true)
                {
                    let there = self.disks.read(backing, offset, len);
                    assert!(there == first.data(len), "others came between a fused pair");
                }
                self.disks.write(backing, offset, &bytes);
                conn.slot(slot).progress.written += len;
            }
            IoKind::Flush => {
                conn.slot(slot).progress.flushed.insert(backing);
            }
            IoKind::WriteZeroes { .. } => {
                self.disks.zero(backing, offset, len);
                conn.slot(slot).progress.zeroed += len;
            }
            IoKind::Deallocate => {
                self.disks.zero(backing, offset, len);
                conn.slot(slot).progress.deallocated += len;
            }
        }
        ExecStatus::Ok
    }

    /// Grants a claim if nothing else touches its range.
    fn grant_claim(&mut self, op: &mut Op, key: QueueKey, slot: Slot) -> bool {
        let at = self.claims.iter().position(|claim| claim.at == (key, slot));
        let at = at.expect("a claim that is asked for");
        let claim = &self.claims[at];
        let touched = |owed: &Owed| match owed {
            Owed::Io(k, s, io) => (*k, *s) != claim.at && claim.touches(io),
            _ => false,
        };
        let overlaps = |other: &Claim| {
            let apart =
                other.range.end <= claim.range.start || claim.range.end <= other.range.start;
            other.granted && other.backing == claim.backing && !apart
        };
        if self.owed.iter().any(touched) || self.claims.iter().any(overlaps) {
            return false;
        }
        self.claims[at].granted = true;
        self.owed.retain(|o| !matches!(*o, Owed::Claim(k, s) if (k, s) == (key, slot)));
        self.tell_queue(op, key, |queue, out| queue.on_claimed(slot, out));
        true
    }

    /// A core ends a connection, for a reason of its own or because it was told to.
    pub(super) fn end_on_core(&mut self, op: &mut Op, key: QueueKey, reason: Option<String>) {
        let Some(conn) = self.conns.get_mut(&key).filter(|conn| conn.open) else { return };
        conn.open = false;
        for slot in &mut conn.slots {
            slot.waits = false;
            // What has work requests or operations under way keeps its buffer until they end.
            if !slot.busy && slot.ios == 0 {
                slot.buffer = None;
            }
        }
        let core = conn.core;
        self.buffer_lines[core].retain(|&(k, _, _)| k != key);
        self.turns.retain(|&(k, _)| k != key);
        if let Some(reason) = reason {
            self.to_control[core].push_back(ToControl::Closing { key, reason });
        }
        self.tell_queue(op, key, |queue, out| queue.begin_close(out));
        // What was held back is never begun.
        let held_back = std::mem::take(&mut self.held_back);
        let (mine, others): (VecDeque<_>, VecDeque<_>) =
            held_back.into_iter().partition(|held| held.0 == key);
        self.held_back = others;
        for (_, slot, _) in mine {
            let status = ExecStatus::Failed(DISK_FAILURES[2].retryable());
            if let Some(conn) = self.conns.get_mut(&key) {
                conn.slot(slot).buffer = None;
            }
            self.tell_queue(op, key, |queue, out| queue.on_io_done(slot, status, out));
        }
        self.forget_if_drained(key);
    }

    /// Forgets a queue of which nothing is left on either side.
    pub(super) fn forget_if_drained(&mut self, key: QueueKey) {
        let over = self.conns.get(&key).is_some_and(|conn| !conn.open && conn.ending);
        let owed = self.owed.iter().any(|owed| owed.key() == key);
        if over && !owed {
            let conn = self.conns.remove(&key).expect("looked at above");
            conn.check_drained();
        }
    }
}
