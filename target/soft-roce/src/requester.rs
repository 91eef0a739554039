//! The requesting half of a queue pair: SEND, WRITE and READ of ours, until the peer has them.
//!
//! # Contract
//! Owns the send queue. Work requests come in with [`Requester::post`]; packets go out with
//! [`Requester::transmit`]; acknowledgements, READ responses and time come in and move it on;
//! completions go out in posting order, one for each signaled or failed work request.
//!
//! Packets are numbered when their work request is posted. Three numbers say where it stands:
//! `una` (the oldest packet not yet acknowledged or, within a READ, not yet received) ≤ `next` (the
//! packet to transmit next) ≤ `end` (one past the last posted). Going back after a loss is moving
//! `next` back to `una`. A READ takes one number per response packet; it is asked for in chunks, so
//! that responses in flight are bounded by the same window as requests.

use crate::batch::{Batch, Header};
use crate::completions::Completions;
use crate::pace::Pace;
use crate::path::Path;
use crate::psn::Psn;
use crate::wire::headers::{Aeth, Kind, Nak, Opcode, Part, RETH_LEN, Reth, Syndrome, rnr_delay_us};
use rdma::{Now, QpId, SendOp, SendWr, Wc, WcOp, WcStatus};
use region::Region;
use std::collections::VecDeque;
use std::time::Duration;

/// Response packets that one READ request asks for at most.
const READ_CHUNK: u32 = 32;
/// Packets after which an acknowledgement is asked for even in mid-stream.
const ACK_EVERY: u32 = 16;
/// How long a peer may stay silent before the connection is given up.
const GIVE_UP: Duration = Duration::from_secs(15);

/// A posted work request and its packet numbers.
#[derive(Debug, Clone, Copy)]
struct Wqe {
    wr: SendWr,
    first: Psn,
    packets: u32,
}

impl Wqe {
    fn end(&self) -> Psn {
        self.first.plus(self.packets)
    }

    fn is_read(&self) -> bool {
        matches!(self.wr.op, SendOp::Read { .. })
    }
}

/// What an incoming packet did to the queue pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(crate) enum Verdict {
    /// It goes on.
    Fine,
    /// The queue pair has failed; the work request at fault has been completed.
    Failed,
}

/// See the module's words.
#[derive(Debug)]
pub(crate) struct Requester {
    qp: QpId,
    queue: VecDeque<Wqe>,
    una: Psn,
    next: Psn,
    end: Psn,
    /// One past the highest packet ever transmitted.
    sent: Psn,
    /// Index in `queue` of the work request that `next` lies in; its length when all is sent.
    cursor: usize,
    /// Last response packet of each READ request that was transmitted and is not answered in
    /// full, oldest first, at most `max_reads`. Those from `next` on are to be repeated, with the
    /// same end: a peer answers a repeated request only within what it was asked before.
    reads: VecDeque<Psn>,
    max_reads: u32,
    since_ack_req: u32,
    pace: Pace,
    /// When to transmit again from `una`.
    deadline: Option<Now>,
    /// Since when nothing has moved although it was transmitted again.
    stuck_since: Option<Now>,
    /// Until when the peer asked us to wait for a receive.
    rnr_until: Option<Now>,
    /// The READ packet that was last asked for again, so that one gap is repaired once.
    repaired: Option<Psn>,
    /// Packets transmitted again, for the statistics.
    pub(crate) retransmitted: u64,
}

impl Requester {
    /// A requester whose first packet has number `first`.
    pub(crate) fn new(qp: QpId, first: Psn, max_reads: u32) -> Requester {
        Requester {
            qp,
            queue: VecDeque::new(),
            una: first,
            next: first,
            end: first,
            sent: first,
            cursor: 0,
            reads: VecDeque::new(),
            max_reads: max_reads.max(1),
            since_ack_req: 0,
            pace: Pace::default(),
            deadline: None,
            stuck_since: None,
            rnr_until: None,
            repaired: None,
            retransmitted: 0,
        }
    }

    /// The oldest packet that is not acknowledged.
    #[cfg(feature = "fuzzing")]
    pub(crate) fn oldest(&self) -> Psn {
        self.una
    }

    /// Takes a work request.
    pub(crate) fn post(&mut self, path: &Path, wr: SendWr) {
        let wqe = Wqe { wr, first: self.end, packets: path.packets(wr.local.len()) };
        self.end = wqe.end();
        self.queue.push_back(wqe);
    }

    /// Whether there is something that may be transmitted now.
    pub(crate) fn wants_to_transmit(&self) -> bool {
        self.rnr_until.is_none() && self.cursor < self.queue.len() && self.window_left() > 0
    }

    /// When [`on_time`](Requester::on_time) is due.
    pub(crate) fn timeout(&self) -> Option<Now> {
        match (self.deadline, self.rnr_until) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    fn in_flight(&self) -> u32 {
        self.next.since(self.una) as u32
    }

    fn window_left(&self) -> u32 {
        self.pace.window().saturating_sub(self.in_flight())
    }

    /// Writes packets into the batch, at most `budget`, and returns how many.
    pub(crate) fn transmit(
        &mut self,
        now: Now,
        path: &Path,
        region: &Region,
        batch: &mut Batch,
        budget: u32,
    ) -> u32 {
        if self.rnr_until.is_some() {
            return 0;
        }
        let mut done = 0;
        while done < budget && batch.has_room() && self.window_left() > 0 {
            let Some(wqe) = self.queue.get(self.cursor).copied() else { break };
            let index = self.next.since(wqe.first) as u32;
            let advanced = if wqe.is_read() {
                if self.reads_out() >= self.max_reads as usize {
                    break;
                }
                self.request_read(path, batch, &wqe, index)
            } else {
                self.send_packet(path, region, batch, &wqe, index);
                1
            };
            if self.next.is_before(self.sent) {
                self.retransmitted += 1;
            } else {
                self.pace.on_sent(now, self.next);
            }
            self.next = self.next.plus(advanced);
            if self.sent.is_before(self.next) {
                self.sent = self.next;
            }
            if self.next == wqe.end() {
                self.cursor += 1;
            }
            done += 1;
        }
        if done > 0 && self.deadline.is_none() {
            self.deadline = Some(now + self.pace.retransmit_after());
        }
        done
    }

    fn request_read(&mut self, path: &Path, batch: &mut Batch, wqe: &Wqe, index: u32) -> u32 {
        let SendOp::Read { remote } = wqe.wr.op else { unreachable!("a READ") };
        let asked_before = self.reads.get(self.reads_out());
        let packets = match asked_before {
            Some(last) => last.plus(1).since(self.next) as u32,
            None => (wqe.packets - index).min(READ_CHUNK).min(self.window_left()),
        };
        let is_new = asked_before.is_none();
        let offset = index * path.mtu;
        let len = (wqe.wr.local.len() - offset).min(packets * path.mtu);
        let reth = Reth { addr: remote.addr.wrapping_add(offset.into()), rkey: remote.rkey, len };
        let header = Header {
            opcode: Opcode::plain(Kind::ReadRequest, Part::Only),
            psn: self.next,
            ack_req: true,
            solicited: false,
            extension: &reth.to_bytes(),
        };
        batch.push(path, header, 0, |_| ());
        if is_new {
            self.reads.push_back(self.next.plus(packets - 1));
        }
        packets
    }

    /// READ requests that the peer has to answer.
    fn reads_out(&self) -> usize {
        self.reads.partition_point(|last| last.is_before(self.next))
    }

    fn send_packet(
        &mut self,
        path: &Path,
        region: &Region,
        batch: &mut Batch,
        wqe: &Wqe,
        index: u32,
    ) {
        let part = Part::of(index, wqe.packets);
        let offset = index * path.mtu;
        let len = (wqe.wr.local.len() - offset).min(path.mtu);
        let (kind, invalidate) = match wqe.wr.op {
            SendOp::Send => (Kind::Send, None),
            SendOp::SendWithInvalidate { rkey } => (Kind::Send, Some(rkey)),
            SendOp::Write { .. } | SendOp::Read { .. } => (Kind::Write, None),
        };
        let mut opcode = Opcode::plain(kind, part);
        let mut extension = [0; RETH_LEN];
        if let (SendOp::Write { remote }, true) = (wqe.wr.op, part.begins()) {
            let rkey = remote.rkey;
            extension = Reth { addr: remote.addr, rkey, len: wqe.wr.local.len() }.to_bytes();
        } else if let (Some(rkey), true) = (invalidate, part.ends()) {
            opcode.invalidate = true;
            extension[..4].copy_from_slice(&rkey.to_be_bytes());
        }
        // Ask for an acknowledgement where nothing more follows, where the window ends, and now
        // and then in between; each acknowledges all before it.
        let last_for_now =
            (part.ends() && self.cursor + 1 == self.queue.len()) || self.window_left() == 1;
        self.since_ack_req += 1;
        let ack_req = last_for_now || self.since_ack_req >= ACK_EVERY;
        if ack_req {
            self.since_ack_req = 0;
        }
        let header = Header {
            opcode,
            psn: self.next,
            ack_req,
            solicited: kind == Kind::Send && part.ends(),
            extension: &extension[..opcode.extension_len()],
        };
        let local = wqe.wr.local.slice(offset, len);
        batch.push(path, header, len as usize, |payload| region.read(local, payload));
    }

    /// An ACK, RNR NAK or NAK arrived.
    pub(crate) fn on_acknowledge(
        &mut self,
        now: Now,
        psn: Psn,
        aeth: Aeth,
        out: &mut Completions,
    ) -> Verdict {
        if psn.is_before(self.una) || !psn.is_before(self.sent) {
            return Verdict::Fine; // stale, or of a packet that we never sent
        }
        match aeth.syndrome {
            Syndrome::Ack => {
                let reached = self.advance(now, psn.plus(1), out);
                if reached != psn.plus(1) {
                    self.repair_read(now, reached);
                }
                Verdict::Fine
            }
            Syndrome::Rnr(code) => {
                self.advance(now, psn, out);
                self.go_back(psn);
                self.rnr_until = Some(now + Duration::from_micros(rnr_delay_us(code)));
                self.deadline = None;
                // The peer lives: it is not given up for what was lost before.
                self.stuck_since = None;
                Verdict::Fine
            }
            Syndrome::Nak(Nak::Sequence) => {
                self.advance(now, psn, out);
                self.pace.on_loss(now);
                self.go_back(self.una);
                self.deadline = Some(now + self.pace.retransmit_after());
                Verdict::Fine
            }
            Syndrome::Nak(nak) => {
                self.advance(now, psn, out);
                let status = match nak {
                    Nak::InvalidRequest => WcStatus::RemoteInvalidRequest,
                    Nak::RemoteAccess => WcStatus::RemoteAccess,
                    Nak::RemoteOperation => WcStatus::RemoteOperation,
                    Nak::Sequence | Nak::Other(_) => WcStatus::Other(0x60),
                };
                self.fail_front(status, out);
                Verdict::Failed
            }
            Syndrome::Unknown(_) => Verdict::Fine,
        }
    }

    /// A packet of a READ response arrived.
    pub(crate) fn on_read_response(
        &mut self,
        now: Now,
        path: &Path,
        region: &Region,
        psn: Psn,
        payload: &[u8],
        out: &mut Completions,
    ) -> Verdict {
        if psn.is_before(self.una) || !psn.is_before(self.sent) {
            return Verdict::Fine;
        }
        let Some(wqe) = self.find(psn).map(|at| self.queue[at]) else { return Verdict::Fine };
        if !wqe.is_read() {
            return Verdict::Fine;
        }
        if self.una.is_before(wqe.first) {
            // The peer answers this READ, so it has taken all that came before it.
            let reached = self.advance(now, wqe.first, out);
            if reached != wqe.first {
                self.repair_read(now, reached);
                return Verdict::Fine;
            }
        }
        if psn != self.una {
            self.repair_read(now, self.una);
            return Verdict::Fine;
        }
        let offset = psn.since(wqe.first) as u32 * path.mtu;
        let wanted = (wqe.wr.local.len() - offset).min(path.mtu);
        if payload.len() != wanted as usize {
            self.fail_front(WcStatus::LocalError, out);
            return Verdict::Failed;
        }
        region.write(wqe.wr.local.slice(offset, wanted), payload);
        while self.reads.front().is_some_and(|last| last.is_before(psn.plus(1))) {
            self.reads.pop_front();
        }
        self.move_una(now, psn.plus(1));
        self.complete_front(out);
        Verdict::Fine
    }

    /// The network between us and the peer is congested.
    pub(crate) fn on_congestion(&mut self, now: Now) {
        self.pace.on_loss(now);
    }

    /// Time has come to the point that [`timeout`](Requester::timeout) named.
    pub(crate) fn on_time(&mut self, now: Now, out: &mut Completions) -> Verdict {
        if self.rnr_until.is_some_and(|until| until <= now) {
            self.rnr_until = None;
        }
        if self.deadline.is_none_or(|deadline| now < deadline) {
            return Verdict::Fine;
        }
        let since = *self.stuck_since.get_or_insert(now);
        if now.saturating_sub(since) >= GIVE_UP {
            self.fail_front(WcStatus::RetryExceeded, out);
            return Verdict::Failed;
        }
        self.pace.on_timeout();
        self.repaired = None;
        self.go_back(self.una);
        self.deadline = Some(now + self.pace.retransmit_after());
        Verdict::Fine
    }

    /// Flushes everything that is queued: the queue pair has failed.
    pub(crate) fn flush(&mut self, out: &mut Completions) {
        while let Some(wqe) = self.queue.pop_front() {
            out.push_send(self.wc(&wqe, WcStatus::Flushed));
        }
        self.una = self.end;
        self.next = self.end;
        self.sent = self.end;
        self.cursor = 0;
        self.reads.clear();
        self.deadline = None;
        self.rnr_until = None;
    }

    /// Everything before `to` is acknowledged, but for READs whose data is not here: returns how
    /// far that goes.
    fn advance(&mut self, now: Now, to: Psn, out: &mut Completions) -> Psn {
        let mut reached = self.una;
        for wqe in &self.queue {
            if !wqe.first.is_before(to) {
                break;
            }
            if wqe.is_read() && self.una.is_before(wqe.end()) {
                // Acknowledged up to the first byte of it that is missing.
                if reached.is_before(wqe.first) {
                    reached = wqe.first;
                }
                break;
            }
            reached = if wqe.end().is_before(to) { wqe.end() } else { to };
        }
        if self.una.is_before(reached) {
            self.move_una(now, reached);
            self.complete_front(out);
        }
        reached
    }

    fn move_una(&mut self, now: Now, to: Psn) {
        self.pace.on_acked(now, to.minus(1), to.since(self.una) as u32);
        self.una = to;
        if self.next.is_before(to) {
            self.set_next(to);
        }
        self.stuck_since = None;
        self.repaired = None;
        self.pace.on_progress();
        let idle = self.in_flight() == 0;
        self.deadline = (!idle).then(|| now + self.pace.retransmit_after());
    }

    /// Completes the work requests that are wholly acknowledged.
    fn complete_front(&mut self, out: &mut Completions) {
        while let Some(wqe) = self.queue.front() {
            if self.una.is_before(wqe.end()) {
                break;
            }
            if wqe.wr.signaled || wqe.is_read() {
                out.push_send(self.wc(wqe, WcStatus::Success));
            }
            self.queue.pop_front();
            self.cursor = self.cursor.saturating_sub(1);
        }
    }

    /// The oldest work request has failed: completes it. The caller flushes the rest.
    fn fail_front(&mut self, status: WcStatus, out: &mut Completions) {
        if let Some(wqe) = self.queue.pop_front() {
            out.push_send(self.wc(&wqe, status));
            self.cursor = self.cursor.saturating_sub(1);
        }
    }

    /// A response was lost: asks again from the first missing packet, once for each gap.
    fn repair_read(&mut self, now: Now, missing: Psn) {
        if self.repaired == Some(missing) {
            return;
        }
        self.repaired = Some(missing);
        self.pace.on_loss(now);
        self.go_back(missing);
        self.deadline = Some(now + self.pace.retransmit_after());
    }

    fn go_back(&mut self, to: Psn) {
        if to.is_before(self.next) {
            self.set_next(to);
        }
    }

    fn set_next(&mut self, to: Psn) {
        self.next = to;
        self.cursor = self.find(to).unwrap_or(self.queue.len());
    }

    /// Index of the work request that a packet belongs to.
    fn find(&self, psn: Psn) -> Option<usize> {
        self.queue.iter().position(|wqe| psn.is_before(wqe.end()) && !psn.is_before(wqe.first))
    }

    fn wc(&self, wqe: &Wqe, status: WcStatus) -> Wc {
        Wc { wr_id: wqe.wr.wr_id, qp: self.qp, op: WcOp::Send, status }
    }
}
