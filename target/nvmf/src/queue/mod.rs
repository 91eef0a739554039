//! One NVMe queue pair: capsules in, actions out.
//!
//! # Contract
//! The reactor owns memory, RDMA and I/O; a queue owns what they are for. For each command the
//! queue walks these states, skipping those that the command does not need, and every arrow is an
//! event from the reactor:
//!
//! ```text
//! capsule ─▶ AwaitTurn ─▶ AwaitBuffer ─▶ AwaitPull ─▶ AwaitPayload / AwaitIo / AwaitControl ─▶ AwaitSent ─▶ free
//! ```
//!
//! - A slot has at most one buffer. [`Action::Allocate`] asks for it, [`Queue::on_buffer`] grants
//!   it, and it is the reactor's to take back when the slot ends ([`Queue::on_sent`]), or as soon as
//!   a [`Action::Respond`] says that it pushes nothing.
//! - The receive that brought a capsule is held until [`Action::ReleaseRecv`]: at once for most,
//!   after the I/O for a write whose data came in the capsule. It always comes before the
//!   command's [`Action::Respond`], so that a host never finds its queue without a receive.
//! - Every slot ends with exactly one [`Action::Respond`] and one [`Queue::on_sent`], unless the
//!   queue closes: then no more responses are made, and each slot ends when nothing of the reactor
//!   is outstanding for it any more.
//! - The two commands of a fused pair become one way through these states, that of the second, with a
//!   claim on their blocks before the first operation (`fused.rs`).
//! - A violation that cannot be answered yields [`Action::Close`].
//!
//! # Closing
//! [`Queue::begin_close`] ends at once what waits for a buffer, for the control thread or for a
//! free slot. A [`Action::Pull`], [`Action::Io`] or [`Action::Respond`] that was asked for is still
//! answered, exactly once, also when the reactor never got to carry it out; that ends its slot.
//! Afterwards the only actions are [`Action::ReleaseRecv`] and [`Action::Unclaim`], events for ended
//! slots are ignored, and an Abort is told at once that it stopped nothing.
//!
//! # Order of checks
//! A command is checked in full before it takes anything but its slot: command id, PSDT and fuse,
//! Connect state, opcode, namespace, write protection, transfer size, block range, SGL. What may
//! change while it waits (the namespace) is looked up again when its I/O is made.

mod abort;
pub mod action;
mod copy;
mod data;
mod fused;
mod io;
mod look;
mod plain;
mod report;
mod slot;
#[cfg(test)]
mod tests;
mod turn;
mod verify;

pub use action::{
    Action, CloseReason, Io, IoKind, MAX_SEGMENTS, Place, Receive, RecvToken, RemoteSegment,
};
pub use copy::{COPY_FORMATS, MAX_COPY_BLOCKS, MAX_COPY_RANGE_BLOCKS, MAX_COPY_RANGES};
pub use fused::fused_limit;

use crate::target::Binding;
use crate::view::SubsystemView;
use crate::{Outcome, Slot};
use data::Need;
use fused::Fused;
use nvme_spec_types::command::COMMAND_SIZE;
use nvme_spec_types::{
    AdminOpcode, Command, Completion, DataDirection, FabricsType, IoOpcode, Psdt, Status,
    StatusCode,
};
use report::Reports;
use slot::{DataAt, Entry, State};
use std::collections::VecDeque;
use std::sync::Arc;
use turn::Limits;

/// Most slots of one queue: twice the entries, as far as a [`Slot`] reaches.
const MAX_SLOTS: usize = u16::MAX as usize;

/// Submission queue head pointer that a completion carries when flow control is off
/// (NVMe Base 2.1, 3.3.3.2.1).
const SQHD_NO_FLOW_CONTROL: u16 = 0xffff;

/// How a queue is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueConfig {
    /// 0 for an admin queue.
    pub qid: u16,
    /// Entries of the submission queue, at least 1: how many commands may be outstanding.
    pub sq_entries: u16,
    /// In-capsule data that is accepted, in bytes; 0 for none.
    pub in_capsule: u32,
    /// Largest data transfer of one command, in bytes.
    pub max_transfer: u32,
    /// The core's index, for counters.
    pub core: usize,
}

/// Where a queue stands with Connect.
#[derive(Debug, Clone)]
enum Link {
    /// No Connect yet, or one that failed.
    Unbound,
    /// A Connect is being carried out, in this slot.
    Connecting(Slot),
    /// Part of a controller.
    Bound(Binding),
}

/// A capsule for which no slot was free.
#[derive(Debug, Clone, Copy)]
struct Held {
    capsule: [u8; COMMAND_SIZE],
    received: u32,
    recv: RecvToken,
}

/// What a command is answered with.
struct Outward {
    status: Status,
    /// Completion dwords 0 and 1.
    result: u64,
    /// Bytes of data that go before.
    push: u32,
    /// Whether the connection ends with it.
    close: bool,
}

/// One queue pair. See the module for its contract.
#[derive(Debug)]
pub struct Queue {
    config: QueueConfig,
    link: Link,
    closing: bool,
    /// How many slots there may be. Twice the entries: a host may send a command again before our own
    /// SEND completion of its last response has been seen.
    slots: usize,
    /// The slots that were needed so far, in use or free: an idle queue has hardly any.
    entries: Vec<Entry>,
    free: Vec<Slot>,
    /// Capsules beyond that; bounded by `sq_entries`, since each is an outstanding command.
    held: VecDeque<Held>,
    /// Commands taken in and not yet responded to; at most `sq_entries`.
    outstanding: u16,
    /// One bit per command id in use.
    cids: Box<[u64; 1024]>,
    /// What the error log is told of failures.
    reports: Reports,
    /// What the last capsule leaves for a second command of a fused pair.
    fused: Fused,
    limits: Limits,
    /// Number of what is offered now: grows with each change of the namespaces, from 1.
    offer: u64,
    /// Submission queue head: entries freed so far, modulo the queue's size.
    head: u16,
    /// Entries of the submission queue by its Connect, at least 1; by [`QueueConfig`] before.
    size: u16,
    /// Whether completions tell the head.
    flow_control: bool,
    /// Whether every command goes the general way, to hold the straight one against it.
    #[cfg(test)]
    general_only: bool,
}

impl Queue {
    /// A queue that waits for its Connect. Its slots are made when they are needed first, and kept.
    pub fn new(config: QueueConfig) -> Queue {
        let slots = (usize::from(config.sq_entries.max(1)) * 2).min(MAX_SLOTS);
        Queue {
            config,
            link: Link::Unbound,
            closing: false,
            slots,
            entries: Vec::new(),
            free: Vec::new(),
            held: VecDeque::new(),
            outstanding: 0,
            cids: Box::new([0; 1024]),
            reports: Reports::default(),
            fused: Fused::Nothing,
            limits: Limits::default(),
            offer: 1,
            head: 0,
            size: config.sq_entries.max(1),
            flow_control: true,
            #[cfg(test)]
            general_only: false,
        }
    }

    /// A message of `received` bytes arrived; `capsule` is a copy of its first 64. Returns what
    /// becomes of its receive.
    pub fn on_capsule(
        &mut self,
        capsule: &[u8; COMMAND_SIZE],
        received: u32,
        recv: RecvToken,
        out: &mut Vec<Action>,
    ) -> Receive {
        if self.closing {
            return Receive::Free;
        }
        if received < COMMAND_SIZE as u32 {
            out.push(Action::Close(CloseReason::ShortCapsule(received)));
            return Receive::Free;
        }
        if self.outstanding >= self.config.sq_entries {
            out.push(Action::Close(CloseReason::TooManyCommands(self.config.sq_entries)));
            return Receive::Free;
        }
        self.outstanding += 1;
        // Nobody overtakes a capsule that waits: while one does, no slot is free (see `end`).
        match self.free.pop().or_else(|| self.make_slot()) {
            Some(slot) => {
                self.entry_mut(slot).occupy(capsule, received, recv);
                if let Some(receive) = self.start_plain(slot, out) {
                    return receive;
                }
                self.start(slot, out);
            }
            None => self.held.push_back(Held { capsule: *capsule, received, recv }),
        }
        Receive::Held
    }

    /// A slot that was not needed before; `None` when there are as many as there may be.
    #[cold]
    fn make_slot(&mut self) -> Option<Slot> {
        let at = self.entries.len();
        if at == self.slots {
            return None;
        }
        self.entries.push(Entry::new());
        Some(Slot(at as u16))
    }

    /// The slot's buffer is there.
    #[inline(always)] // where one is at hand, that is found out one step before
    pub fn on_buffer(&mut self, slot: Slot, out: &mut Vec<Action>) {
        let entry = self.entry(slot);
        if entry.plain && entry.state == State::AwaitBuffer {
            self.plain_buffer(slot, out);
        } else {
            self.any_buffer(slot, out);
        }
    }

    /// [`Queue::on_buffer`] for what is not plain.
    fn any_buffer(&mut self, slot: Slot, out: &mut Vec<Action>) {
        match self.entry(slot).state {
            State::AwaitBuffer => self.with_buffer(slot, out),
            State::AwaitFill => {
                let push = self.entry(slot).fill.len() as u32;
                let result = self.entry(slot).result;
                out.push(Action::Fill(slot));
                self.respond(slot, Status::SUCCESS, result, push, out);
            }
            state => self.unexpected("a buffer", state),
        }
    }

    /// The host's data is in the slot's buffer.
    pub fn on_pulled(&mut self, slot: Slot, out: &mut Vec<Action>) {
        match self.entry(slot).state {
            State::AwaitPull if self.closing => self.end(slot, out),
            State::AwaitPull if self.entry(slot).abort.is_some() => {
                if let Some(token) = self.entry_mut(slot).abort.take() {
                    self.stop(slot, token, out);
                }
            }
            State::AwaitPull if self.entry(slot).plain => self.plain_io(slot, out),
            State::AwaitPull if self.entry(slot).first.is_some() => self.gather(slot, out),
            State::AwaitPull => match self.entry(slot).control {
                Some(_) => {
                    let len = self.entry(slot).len;
                    self.execute(slot, Some((Place::Buffer(0), len)), out);
                }
                None => self.with_data(slot, out),
            },
            state => self.unexpected("pulled data", state),
        }
    }

    /// A look at what [`Action::Peek`] asked for.
    pub fn on_payload(&mut self, slot: Slot, bytes: &[u8], out: &mut Vec<Action>) {
        match self.entry(slot).state {
            State::AwaitDescriptors => {
                let located = self.need(slot).and_then(|need| {
                    let need = need.unwrap_or(Need::Exactly(0));
                    data::read_list(self.entry_mut(slot), need, bytes)
                });
                match located {
                    Ok(()) => self.proceed(slot, out),
                    Err(status) => self.refuse(slot, status, out),
                }
            }
            State::AwaitPayload => match self.entry(slot).command.io_opcode() {
                IoOpcode::COPY => self.with_sources(slot, bytes, out),
                _ => self.with_ranges(slot, bytes, out),
            },
            State::AwaitSource => self.with_source(slot, bytes, out),
            state => self.unexpected("a payload", state),
        }
    }

    /// The control thread has carried the command out. An outcome for a slot that does not wait for
    /// one (its command was abandoned) is dropped.
    pub fn on_executed(&mut self, slot: Slot, outcome: Outcome, out: &mut Vec<Action>) {
        let known = self.entries.get(usize::from(slot.0));
        if known.is_none_or(|entry| entry.state != State::AwaitControl) {
            return;
        }
        let Outcome { status, result, data } = outcome;
        let direction = self.entry(slot).direction();
        if !status.is_success() || data.is_empty() || direction != DataDirection::ControllerToHost {
            self.respond(slot, status, result, 0, out);
            return;
        }
        // The data must fit what the host described and what a buffer holds.
        let room = self.data_len(slot).min(self.config.max_transfer) as usize;
        if data.len() > room {
            self.fail(slot, StatusCode::DATA_SGL_LENGTH_INVALID.with_dnr(), out);
            return;
        }
        let len = data.len() as u32;
        let entry = self.entry_mut(slot);
        entry.fill = data;
        entry.result = result;
        entry.state = State::AwaitFill;
        out.push(Action::Allocate { slot, len });
    }

    /// The response's SEND has completed: the slot ends.
    pub fn on_sent(&mut self, slot: Slot, out: &mut Vec<Action>) {
        let entry = &mut self.entries[usize::from(slot.0)];
        match entry.state {
            // It holds nothing any more, and nobody waits for its place.
            State::AwaitSent { .. } if entry.plain && self.held.is_empty() => {
                entry.state = State::Free;
                self.free.push(slot);
            }
            State::AwaitSent { close } => {
                self.end(slot, out);
                if close && !self.closing {
                    out.push(Action::Close(CloseReason::HostDisconnect));
                }
            }
            state => self.unexpected("the end of a SEND", state),
        }
    }

    /// Connect succeeded; its outcome follows.
    pub fn on_bind(&mut self, binding: Binding) {
        (self.size, self.flow_control) = (binding.sq_entries.max(1), binding.flow_control);
        self.head %= self.size;
        self.link = Link::Bound(binding);
        self.offer += 1;
        self.renew_limits();
    }

    /// New namespaces of a subsystem; ignored when it is not this queue's, or old.
    pub fn on_publish(&mut self, new: &Arc<SubsystemView>) {
        if let Link::Bound(Binding { subsystem, view: Some(view), .. }) = &mut self.link
            && *subsystem == new.subsystem
            && new.generation > view.generation
        {
            *view = Arc::clone(new);
            self.offer += 1;
            self.renew_limits();
        }
    }

    /// The connection ends: see the module for what follows. Harmless when repeated.
    pub fn begin_close(&mut self, out: &mut Vec<Action>) {
        if self.closing {
            return;
        }
        self.closing = true;
        while let Some(held) = self.held.pop_front() {
            self.outstanding -= 1;
            out.push(Action::ReleaseRecv(held.recv));
        }
        for at in 0..self.entries.len() {
            match self.entries[at].state {
                State::Free
                | State::AwaitPull
                | State::AwaitIo { .. }
                | State::AwaitSent { .. } => {}
                State::AwaitSecond
                | State::AwaitPartner
                | State::AwaitClaim
                | State::AwaitDescriptors
                | State::AwaitTurn
                | State::AwaitBuffer
                | State::AwaitPayload
                | State::AwaitSource
                | State::AwaitCompare
                | State::AwaitControl
                | State::AwaitFill => self.end(Slot(at as u16), out),
            }
        }
    }

    /// A capsule was taken into a slot: does as much as can be done now.
    fn start(&mut self, slot: Slot, out: &mut Vec<Action>) {
        let control = self.control_direction(&self.entry(slot).command);
        let entry = &mut self.entries[usize::from(slot.0)];
        let cid = entry.command.cid();
        let (word, bit) = (&mut self.cids[usize::from(cid >> 6)], 1 << (cid & 63));
        let conflict = *word & bit != 0;
        *word |= bit;
        entry.owns_cid = !conflict;
        entry.control = control;
        let paired = self.pair_up(slot, out);
        let checked = match conflict {
            true => Err(StatusCode::COMMAND_ID_CONFLICT.with_dnr()),
            false => paired.and_then(|()| self.check(slot)),
        };
        match checked {
            Ok(()) => self.proceed(slot, out),
            Err(status) => self.refuse(slot, status, out),
        }
    }

    /// All checks that need nothing but the capsule.
    fn check(&mut self, slot: Slot) -> Result<(), Status> {
        let command = &self.entry(slot).command;
        if command.psdt() != Psdt::Sgl || !self.can_be_fused_so(slot) {
            return Err(StatusCode::INVALID_FIELD.with_dnr());
        }
        let is_connect = command.fabrics_type() == Some(FabricsType::CONNECT);
        match (&self.link, is_connect) {
            (Link::Bound(_), false) => {}
            (Link::Unbound, true) => self.link = Link::Connecting(slot),
            _ => return Err(StatusCode::COMMAND_SEQUENCE_ERROR.with_dnr()),
        }
        let Some(need) = self.need(slot)? else { return Ok(()) };
        let in_capsule = self.config.in_capsule;
        data::locate(self.entry_mut(slot), need, in_capsule)
    }

    /// How much data the slot's command moves; `None` when it has none. For I/O commands this is
    /// where namespace, size and range are checked.
    fn need(&mut self, slot: Slot) -> Result<Option<Need>, Status> {
        match self.entry(slot).control {
            None => Ok(self.io_need(slot)?.map(Need::Exactly)),
            Some(DataDirection::HostToController) => Ok(Some(Need::UpTo(self.config.max_transfer))),
            Some(DataDirection::ControllerToHost) => Ok(Some(Need::UpTo(u32::MAX))),
            Some(DataDirection::None | DataDirection::Bidirectional) => Ok(None),
        }
    }

    /// Which way the data goes of a command for the control thread; `None` for an I/O command.
    fn control_direction(&self, command: &Command) -> Option<DataDirection> {
        match command.fabrics_type() {
            Some(fctype) => Some(fctype.direction()),
            None if self.config.qid == 0 => Some(AdminOpcode::direction(command.admin_opcode())),
            None => None,
        }
    }

    /// The data is located: asks for what comes next.
    fn proceed(&mut self, slot: Slot, out: &mut Vec<Action>) {
        let entry = self.entry_mut(slot);
        if let DataAt::List { offset, count } = entry.data {
            entry.state = State::AwaitDescriptors;
            let len = count * nvme_spec_types::sgl::SGL_DESCRIPTOR_SIZE as u32;
            out.push(Action::Peek { slot, place: Place::Capsule(offset), len });
            return;
        }
        match entry.control {
            None => self.proceed_io(slot, out),
            Some(direction) => self.proceed_control(slot, direction, out),
        }
    }

    /// The data of a command for the control thread is located.
    fn proceed_control(&mut self, slot: Slot, direction: DataDirection, out: &mut Vec<Action>) {
        let entry = self.entry(slot);
        match (direction, entry.data, entry.len) {
            (DataDirection::HostToController, DataAt::Host, len) => {
                self.await_buffer(slot, len, out);
            }
            (DataDirection::HostToController, DataAt::Capsule(at), len) => {
                self.execute(slot, Some((Place::Capsule(at), len)), out);
            }
            _ => self.execute(slot, None, out),
        }
    }

    /// Gives the receive back, unless the data in it is still wanted, and asks for a buffer.
    fn await_buffer(&mut self, slot: Slot, len: u32, out: &mut Vec<Action>) {
        let entry = self.entry_mut(slot);
        entry.state = State::AwaitBuffer;
        if !matches!(entry.data, DataAt::Capsule(_)) {
            entry.release_recv(out);
        }
        out.push(Action::Allocate { slot, len });
    }

    /// The buffer is there: pulls the host's data, or goes on without.
    fn with_buffer(&mut self, slot: Slot, out: &mut Vec<Action>) {
        let entry = self.entry(slot);
        if entry.first.is_some() {
            self.gather(slot, out);
            return;
        }
        let pulls =
            entry.data == DataAt::Host && entry.direction() == DataDirection::HostToController;
        if pulls {
            self.pull(slot, out);
        } else {
            self.with_data(slot, out);
        }
    }

    fn pull(&mut self, slot: Slot, out: &mut Vec<Action>) {
        self.entry_mut(slot).state = State::AwaitPull;
        out.push(Action::Pull(slot));
    }

    fn execute(&mut self, slot: Slot, data: Option<(Place, u32)>, out: &mut Vec<Action>) {
        self.entry_mut(slot).state = State::AwaitControl;
        out.push(Action::Execute { slot, data });
        self.release_recv(slot, out);
    }

    /// Completes a command that failed.
    fn fail(&mut self, slot: Slot, status: Status, out: &mut Vec<Action>) {
        self.fail_with(slot, status, 0, out);
    }

    /// Completes a command that failed, with completion dwords 0 and 1.
    fn fail_with(&mut self, slot: Slot, status: Status, result: u64, out: &mut Vec<Action>) {
        let status = self.report(slot, status, out);
        self.respond(slot, status, result, 0, out);
    }

    /// Completes a command: its id and its queue entry are the host's again.
    fn respond(
        &mut self,
        slot: Slot,
        status: Status,
        result: u64,
        push: u32,
        out: &mut Vec<Action>,
    ) {
        if let Link::Connecting(by) = self.link
            && by == slot
        {
            self.link = Link::Unbound;
        }
        let entry = self.entry(slot);
        let close = entry.control.is_some()
            && self.config.qid != 0
            && status.is_success()
            && entry.command.fabrics_type() == Some(FabricsType::DISCONNECT);
        self.complete(slot, Outward { status, result, push, close }, out);
    }

    /// [`Queue::respond`] with all that is decided there. Small and on the way of every command, so
    /// that it is worth its place in each that ends one.
    #[inline(always)]
    fn complete(&mut self, slot: Slot, outward: Outward, out: &mut Vec<Action>) {
        let Outward { status, result, push, close } = outward;
        self.head = if self.head + 1 >= self.size { 0 } else { self.head + 1 };
        self.outstanding -= 1;
        self.give_back_cid(slot);
        let sqhd = if self.flow_control { self.head } else { SQHD_NO_FLOW_CONTROL };
        let entry = self.entry_mut(slot);
        entry.release_recv(out);
        entry.state = State::AwaitSent { close };
        let mut completion = Completion::new(entry.command.cid(), status);
        completion.sqhd = sqhd;
        completion.set_result64(result);
        let invalidate = entry.invalidate;
        out.push(Action::Respond { slot, completion, push, invalidate });
    }

    fn release_recv(&mut self, slot: Slot, out: &mut Vec<Action>) {
        self.entry_mut(slot).release_recv(out);
    }

    /// Frees a slot and lets the next capsule have it.
    fn end(&mut self, slot: Slot, out: &mut Vec<Action>) {
        self.release_recv(slot, out);
        self.unclaim(slot, out);
        let entry = self.entry_mut(slot);
        let responded = matches!(entry.state, State::AwaitSent { .. });
        entry.state = State::Free;
        entry.fill = Vec::new();
        if !responded {
            self.give_back_cid(slot);
            self.outstanding -= 1;
        }
        match self.held.pop_front() {
            None => self.free.push(slot),
            Some(Held { capsule, received, recv }) => {
                self.entry_mut(slot).occupy(&capsule, received, recv);
                self.start(slot, out);
            }
        }
    }

    fn give_back_cid(&mut self, slot: Slot) {
        let entry = self.entry_mut(slot);
        let cid = entry.command.cid();
        if std::mem::take(&mut entry.owns_cid) {
            self.cids[usize::from(cid >> 6)] &= !(1 << (cid & 63));
        }
    }

    fn entry(&self, slot: Slot) -> &Entry {
        &self.entries[usize::from(slot.0)]
    }

    fn entry_mut(&mut self, slot: Slot) -> &mut Entry {
        &mut self.entries[usize::from(slot.0)]
    }

    /// An event that no slot in this state asked for: harmless while closing, else the reactor's
    /// bug.
    fn unexpected(&self, what: &str, state: State) {
        assert!(self.closing && state == State::Free, "{what} for a slot in state {state:?}");
    }
}
