//! A queue's connection as its core sees it.

use super::CoreConfig;
use super::stages::{Probe, Stage};
use crate::mail::{QueueParams, Range};
use nvmf::queue::{Queue, QueueConfig};
use nvmf::view::QueueActivity;
use nvmf::{QueueKey, Slot};
use rdma::{Attached, QpId, QpLimits, WrId};
use region::Span;
use std::collections::VecDeque;

/// Bytes of a completion queue entry.
const CQE: u32 = nvme_spec_types::completion::COMPLETION_SIZE as u32;

/// How far a connection is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// Serving.
    Open,
    /// Its queue pair was failed and drains.
    Closing,
    /// Its endpoint went back; operations on a disk are still out.
    Orphan,
}

/// Which request of the queue a slot's work requests are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Doing {
    /// None.
    Nothing,
    /// RDMA READs of the slot's segments.
    Pulling,
    /// RDMA WRITEs and the SEND of its response.
    Responding,
}

/// What the core keeps for a slot.
#[derive(Debug, Clone, Copy)]
pub(super) struct SlotState {
    /// Its buffer; empty for none.
    pub(super) buffer: Span,
    /// The request that its work requests are for.
    pub(super) doing: Doing,
    /// Work requests that were posted and whose completion is to come.
    pub(super) signaled: u16,
    /// Send credits taken.
    pub(super) credits: u16,
    /// Next segment to read or write.
    pub(super) segment: u8,
    /// Whether the SEND was posted, which takes a response credit.
    pub(super) sent: bool,
    /// Bytes read or written so far, posted or done.
    pub(super) moved: u32,
    /// Bytes to write before the SEND.
    pub(super) push: u32,
    /// RDMA WRITEs that are still to be posted for that.
    pub(super) writes: u8,
    /// Remote key to invalidate with the SEND.
    pub(super) invalidate: Option<u32>,
    /// Operations on backings in flight.
    pub(super) ios: u32,
    /// From the first to the last byte that those in flight touch.
    pub(super) touches: Range,
    /// When its command began, in nanoseconds; 0 for none.
    pub(super) began_ns: u64,
    /// When what it waits for now was asked for: data, or an operation.
    pub(super) asked_ns: u64,
    /// Whether the probe follows its command.
    pub(super) marked: bool,
}

impl SlotState {
    const IDLE: SlotState = SlotState {
        buffer: Span::new(0, 0),
        doing: Doing::Nothing,
        signaled: 0,
        credits: 0,
        segment: 0,
        sent: false,
        moved: 0,
        push: 0,
        writes: 0,
        invalidate: None,
        ios: 0,
        touches: Range::NONE,
        began_ns: 0,
        asked_ns: 0,
        marked: false,
    };

    /// Something is done for its command: the first time, that is when the command begins.
    #[inline]
    pub(super) fn begin(&mut self, now_ns: u64, probe: &mut Probe) {
        if self.began_ns == 0 {
            self.began_ns = now_ns;
            self.marked |= probe.begins(now_ns);
        }
    }

    /// Its command comes to a stage.
    #[inline]
    pub(super) fn enter(&self, stage: Stage, now_ns: u64, probe: &mut Probe) {
        if self.marked {
            probe.enter(stage, now_ns);
        }
    }

    /// Its command is not followed any further.
    pub(super) fn lose(&mut self, probe: &mut Probe) {
        if std::mem::take(&mut self.marked) {
            probe.lose();
        }
    }
}

/// A queue, its queue pair and what of both is under way.
#[derive(Debug)]
pub(super) struct Conn {
    pub(super) key: QueueKey,
    /// Tells it from others that had the same number.
    pub(super) generation: u16,
    pub(super) qp: QpId,
    /// Its receive queue, as the core numbers them.
    pub(super) ring: u16,
    pub(super) limits: QpLimits,
    /// Responses that the host is ready to receive at a time, at least 1.
    pub(super) host_receives: u32,
    pub(super) activity: QueueActivity,
    pub(super) queue: Queue,
    /// Of every slot that the queue has made.
    pub(super) slots: Vec<SlotState>,
    /// One completion entry a slot.
    pub(super) cqes: Span,
    pub(super) phase: Phase,
    /// Whether sends may be posted.
    pub(super) established: bool,
    /// Whether it is on the list of connections to serve.
    pub(super) dirty: bool,
    /// Whether it is in line for an RDMA READ.
    pub(super) in_line: bool,
    /// Whether send credits are for responses alone, since one waits for them.
    pub(super) responses_first: bool,
    /// Send credits taken, at most `limits.max_send_wr`.
    pub(super) sends: u32,
    /// READ credits taken, at most `limits.max_reads`.
    pub(super) reads: u32,
    /// Bytes of the READs that are under way: those that count in the core's window, and those that
    /// the host has not sent in time.
    pub(super) read_bytes: u64,
    pub(super) silent_bytes: u64,
    /// Response credits taken, at most `host_receives`.
    pub(super) responses: u32,
    /// Work requests posted whose completion is to come.
    pub(super) signaled: u32,
    /// Operations on backings in flight.
    pub(super) ios: u32,
    /// Slots that wait to read, and to respond, first in, first out; bounded by the slots.
    pub(super) read_waits: VecDeque<Slot>,
    pub(super) send_waits: Vec<Slot>,
}

/// Bytes of completion entries that a queue takes.
pub(super) fn cqe_bytes(sq_entries: u16) -> u64 {
    u64::from(sq_entries.max(1)) * 2 * u64::from(CQE)
}

impl Conn {
    pub(super) fn new(
        key: QueueKey,
        generation: u16,
        attached: &Attached,
        ring: u16,
        cqes: Span,
        params: QueueParams,
        config: &CoreConfig,
    ) -> Conn {
        let queue = Queue::new(QueueConfig {
            qid: params.qid,
            sq_entries: params.sq_entries,
            in_capsule: params.in_capsule,
            max_transfer: config.max_transfer,
            core: usize::from(config.index.0),
        });
        Conn {
            key,
            generation,
            qp: attached.qp,
            ring,
            limits: attached.limits,
            host_receives: u32::from(params.host_receives).max(1),
            activity: params.activity,
            queue,
            slots: Vec::new(),
            cqes,
            phase: Phase::Open,
            established: false,
            dirty: false,
            in_line: false,
            responses_first: false,
            sends: 0,
            reads: 0,
            read_bytes: 0,
            silent_bytes: 0,
            responses: 0,
            signaled: 0,
            ios: 0,
            read_waits: VecDeque::new(),
            send_waits: Vec::new(),
        }
    }

    /// Makes room for the slots that the queue has made.
    #[inline]
    pub(super) fn follow_slots(&mut self) {
        if self.slots.len() < self.queue.made_slots() {
            self.slots.resize(self.queue.made_slots(), SlotState::IDLE);
        }
    }

    pub(super) fn slot(&mut self, slot: Slot) -> &mut SlotState {
        &mut self.slots[usize::from(slot.0)]
    }

    /// Puts it on the list of connections to serve at the end of the turn, unless it is closing.
    pub(super) fn mark_dirty(&mut self, c: u16, dirty: &mut Vec<u16>) {
        if !self.dirty && self.phase == Phase::Open {
            self.dirty = true;
            dirty.push(c);
        }
    }

    /// Where the slot's completion entry is.
    pub(super) fn cqe(&self, slot: Slot) -> Span {
        self.cqes.slice(u32::from(slot.0) * CQE, CQE)
    }
}

/// A connection that is known to be here, of all of a core.
#[inline]
pub(super) fn here(conns: &mut [Option<Box<Conn>>], c: u16) -> &mut Conn {
    conns[usize::from(c)].as_deref_mut().expect("a connection that is here")
}

/// The connection that a work request was posted for, if it is still here and not yet detached.
#[inline]
pub(super) fn there(conns: &mut [Option<Box<Conn>>], c: u16, generation: u16) -> Option<&mut Conn> {
    let conn = conns.get_mut(usize::from(c))?.as_deref_mut()?;
    (conn.generation == generation && conn.phase != Phase::Orphan).then_some(conn)
}

/// What a work request is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    /// A receive.
    Recv,
    /// An RDMA READ.
    Read,
    /// An RDMA WRITE that asks for no completion.
    Write,
    /// An RDMA WRITE that asks for one, since its response is posted in parts.
    LastWrite,
    /// The SEND of a response.
    Send,
}

/// The caller's part of a work request: bits 0 to 15 the slot, 16 to 31 the connection (for a
/// receive: the ring), 32 to 47 the connection's generation, 48 to 55 the kind.
pub(super) fn wr_id(kind: Kind, conn: u16, generation: u16, slot: u16) -> WrId {
    WrId(
        u64::from(slot) | u64::from(conn) << 16 | u64::from(generation) << 32 | (kind as u64) << 48,
    )
}

/// The parts of a work request's id: kind, connection or ring, generation, slot.
pub(super) fn parts(id: WrId) -> (Kind, u16, u16, u16) {
    let kind = match (id.0 >> 48) as u8 {
        0 => Kind::Recv,
        1 => Kind::Read,
        2 => Kind::Write,
        3 => Kind::LastWrite,
        _ => Kind::Send,
    };
    (kind, (id.0 >> 16) as u16, (id.0 >> 32) as u16, id.0 as u16)
}

/// The tag of an operation: slot, connection, generation, place of the backing.
pub(super) fn tag(conn: u16, generation: u16, slot: u16, backing: u16) -> u64 {
    u64::from(slot) | u64::from(conn) << 16 | u64::from(generation) << 32 | u64::from(backing) << 48
}

/// The parts of a tag: connection, generation, slot, place of the backing.
pub(super) fn tag_parts(tag: u64) -> (u16, u16, u16, u16) {
    ((tag >> 16) as u16, (tag >> 32) as u16, tag as u16, (tag >> 48) as u16)
}
