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
//! `next` back to `una`. When nothing has come for a while, all may be lost or just late: so the
//! first thing to be sent again is the oldest packet alone, as a *probe*, which leaves `next` where
//! it is. What comes then tells whether to go back. A READ takes one number per response packet; it
//! is asked for in chunks, so that responses in flight are bounded by the same window as requests.

use crate::batch::{Batch, Header};
use crate::completions::Completions;
use crate::pace::{Answer, Pace};
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

/// Whether the oldest packet was sent again to see if the peer has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Probe {
    None,
    /// To be transmitted.
    Due,
    /// Transmitted, together up to `end`, when all before `sent` had been long before.
    Out {
        end: Psn,
        sent: Psn,
    },
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
    /// When to transmit `una` again.
    deadline: Option<Now>,
    /// What is known of a probe.
    probe: Probe,
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
            probe: Probe::None,
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

    #[cfg(test)]
    pub(crate) fn pace(&self) -> &Pace {
        &self.pace
    }

    /// Takes a work request.
    pub(crate) fn post(&mut self, path: &Path, wr: SendWr) {
        let wqe = Wqe { wr, first: self.end, packets: path.packets(wr.local.len()) };
        self.end = wqe.end();
        self.queue.push_back(wqe);
    }

    /// Whether there is something that may be transmitted now.
    pub(crate) fn wants_to_transmit(&self) -> bool {
        let more = self.cursor < self.queue.len() && self.window_left() > 0;
        self.rnr_until.is_none() && (more || self.probe == Probe::Due)
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
        if self.probe == Probe::Due && done < budget && batch.has_room() {
            done += self.transmit_probe(now, path, region, batch);
        }
        while done < budget && batch.has_room() && self.window_left() > 0 {
            let Some(wqe) = self.queue.get(self.cursor).copied() else { break };
            let advanced = if wqe.is_read() {
                if self.reads_out() >= self.max_reads as usize {
                    break;
                }
                self.request_read(path, batch, &wqe)
            } else {
                let ack_req = self.asks_for_ack(&wqe);
                send_packet(path, region, batch, &wqe, self.next, ack_req);
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

    /// Sends the oldest packet again, or asks again for what is left of the oldest READ request.
    /// Returns how many packets that took.
    fn transmit_probe(&mut self, now: Now, path: &Path, region: &Region, batch: &mut Batch) -> u32 {
        self.probe = Probe::None;
        let Some(wqe) = self.queue.front().copied() else { return 0 };
        let end = if wqe.is_read() {
            let Some(last) = self.reads.front() else { return 0 };
            let end = last.plus(1);
            ask_for(path, batch, &wqe, self.una, end.since(self.una) as u32);
            end
        } else {
            send_packet(path, region, batch, &wqe, self.una, true);
            self.una.plus(1)
        };
        self.probe = Probe::Out { end, sent: self.next };
        self.retransmitted += 1;
        self.pace.on_probe(now);
        1
    }

    fn request_read(&mut self, path: &Path, batch: &mut Batch, wqe: &Wqe) -> u32 {
        let asked_before = self.reads.get(self.reads_out());
        let packets = match asked_before {
            Some(last) => last.plus(1).since(self.next) as u32,
            None => (wqe.end().since(self.next) as u32).min(READ_CHUNK).min(self.window_left()),
        };
        let is_new = asked_before.is_none();
        ask_for(path, batch, wqe, self.next, packets);
        if is_new {
            self.reads.push_back(self.next.plus(packets - 1));
        }
        packets
    }

    /// Whether to ask for an acknowledgement with the packet `next`: where nothing more follows,
    /// where the window ends, and now and then in between; each acknowledges all before it.
    fn asks_for_ack(&mut self, wqe: &Wqe) -> bool {
        let ends = self.next.plus(1) == wqe.end();
        let last_for_now = (ends && self.cursor + 1 == self.queue.len()) || self.window_left() == 1;
        self.since_ack_req += 1;
        let ack_req = last_for_now || self.since_ack_req >= ACK_EVERY;
        if ack_req {
            self.since_ack_req = 0;
        }
        ack_req
    }

    /// READ requests that the peer has to answer.
    fn reads_out(&self) -> usize {
        self.reads.partition_point(|last| last.is_before(self.next))
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
                let probe = self.probe;
                let reached = self.advance(now, psn.plus(1), out);
                if reached != psn.plus(1) {
                    self.repair_read(now, reached);
                } else if let Probe::Out { end, sent } = probe {
                    // Whoever has been late had all of it by then.
                    let answer = if reached.is_before(sent) {
                        Answer::Loss
                    } else if end.is_before(sent) {
                        Answer::All
                    } else {
                        Answer::Probe
                    };
                    self.pace.on_answer(now, answer);
                    if answer == Answer::Loss {
                        self.on_loss(now);
                    }
                }
                Verdict::Fine
            }
            Syndrome::Rnr(code) => {
                self.advance(now, psn, out);
                self.go_back(psn);
                self.pace.stop_measuring();
                self.rnr_until = Some(now + Duration::from_micros(rnr_delay_us(code)));
                self.deadline = None;
                // The peer lives: it is not given up for what was lost before.
                self.stuck_since = None;
                Verdict::Fine
            }
            Syndrome::Nak(Nak::Sequence) => {
                self.advance(now, psn, out);
                self.on_loss(now);
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
        self.pace.on_answer(now, Answer::Probe);
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
        if self.in_flight() > 0 && self.probe == Probe::None && self.pace.is_patient() {
            self.probe = Probe::Due;
        } else {
            self.pace.on_timeout();
            self.repaired = None;
            self.go_back(self.una);
        }
        self.pace.back_off();
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
        self.probe = Probe::None;
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
        // As long as no more is answered than the probe, it is not sent a second time.
        if !matches!(self.probe, Probe::Out { end, sent } if !end.is_before(to) && to.is_before(sent))
        {
            self.probe = Probe::None;
        }
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
        self.on_loss(now);
    }

    /// Packets from `una` on were lost.
    fn on_loss(&mut self, now: Now) {
        self.pace.on_loss(now);
        self.go_back(self.una);
        self.deadline = Some(now + self.pace.retransmit_after());
    }

    fn go_back(&mut self, to: Psn) {
        self.probe = Probe::None;
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

/// Asks for `packets` response packets of a READ, from `psn` on.
fn ask_for(path: &Path, batch: &mut Batch, wqe: &Wqe, psn: Psn, packets: u32) {
    let SendOp::Read { remote } = wqe.wr.op else { unreachable!("a READ") };
    let offset = psn.since(wqe.first) as u32 * path.mtu;
    let len = (wqe.wr.local.len() - offset).min(packets * path.mtu);
    let reth = Reth { addr: remote.addr.wrapping_add(offset.into()), rkey: remote.rkey, len };
    let header = Header {
        opcode: Opcode::plain(Kind::ReadRequest, Part::Only),
        psn,
        ack_req: true,
        solicited: false,
        extension: &reth.to_bytes(),
    };
    batch.push(path, header, 0, |_| ());
}

/// Writes packet `psn` of a SEND or WRITE.
fn send_packet(
    path: &Path,
    region: &Region,
    batch: &mut Batch,
    wqe: &Wqe,
    psn: Psn,
    ack_req: bool,
) {
    let index = psn.since(wqe.first) as u32;
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
    let header = Header {
        opcode,
        psn,
        ack_req,
        solicited: kind == Kind::Send && part.ends(),
        extension: &extension[..opcode.extension_len()],
    };
    let local = wqe.wr.local.slice(offset, len);
    batch.push(path, header, len as usize, |payload| region.read(local, payload));
}
