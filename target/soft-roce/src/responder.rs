//! The responding half of a queue pair: the peer's SENDs, WRITEs and READs.
//!
//! # Contract
//! Packets of requests come in with [`Responder::on_request`]; acknowledgements and READ responses
//! go out with [`Responder::transmit`]. A request is carried out once, in order: earlier packets
//! are duplicates (acknowledged again, or for a READ answered again), later ones show a gap, which
//! is reported once. Acknowledgements are coalesced: one for all that came in between two
//! transmissions.
//!
//! A fault of the peer (a key that opens nothing, a message that does not fit) is answered with a
//! NAK, and the queue pair has failed.

use crate::batch::{Batch, Header};
use crate::completions::Completions;
use crate::memory::Memory;
use crate::path::Path;
use crate::psn::Psn;
use crate::recv::RecvQueue;
use crate::requester::Verdict;
use crate::wire::headers::{Aeth, Kind, Nak, Opcode, Part, Reth, Syndrome};
use crate::wire::packet::Packet;
use rdma::{Now, QpId, RecvWr, RemoteAddr, Wc, WcOp, WcStatus};
use region::{Region, Span};
use std::collections::VecDeque;
use std::time::Duration;

/// How long the peer shall wait when no receive is posted: 0.64 ms.
const RNR_CODE: u8 = 12;

/// A sender that meets congestion is told at most once in this time (DCQCN's N).
const NOTIFY_EVERY: Duration = Duration::from_micros(50);

/// A READ of the peer that we answer, and keep to answer again.
#[derive(Debug, Clone, Copy)]
struct Read {
    first: Psn,
    packets: u32,
    source: Span,
    /// What was asked for.
    reth: Reth,
}

/// A READ response on its way out: from packet `next` of `packets`.
#[derive(Debug, Clone, Copy)]
struct Response {
    read: Read,
    next: u32,
    /// The packet that the (repeated) request began at.
    start: u32,
}

/// A message that has begun and not ended.
#[derive(Debug, Clone, Copy)]
enum Inbound {
    Send { recv: RecvWr, filled: u32 },
    Write { dest: Span, filled: u32 },
}

/// What the device lends for carrying out a request.
pub(crate) struct Hands<'a> {
    pub(crate) region: &'a Region,
    pub(crate) memory: &'a mut Memory,
    pub(crate) recv: &'a mut RecvQueue,
    pub(crate) out: &'a mut Completions,
}

/// See the module's words.
#[derive(Debug)]
pub(crate) struct Responder {
    qp: QpId,
    expected: Psn,
    /// Messages carried out.
    msn: u32,
    inbound: Option<Inbound>,
    /// Whether the gap before `expected` has been reported.
    gap_reported: bool,
    /// To be sent after the READ responses.
    answer: Option<Syndrome>,
    responses: VecDeque<Response>,
    /// READs answered lately, oldest first, at most `resources`.
    answered: VecDeque<Read>,
    resources: u32,
    /// When the peer was last told of congestion, and whether to tell it now.
    notified: Option<Now>,
    notify: bool,
}

impl Responder {
    /// A responder that expects packet `first` and answers at most `resources` READs at a time.
    pub(crate) fn new(qp: QpId, first: Psn, resources: u32) -> Responder {
        Responder {
            qp,
            expected: first,
            msn: 0,
            inbound: None,
            gap_reported: false,
            answer: None,
            responses: VecDeque::new(),
            answered: VecDeque::new(),
            resources,
            notified: None,
            notify: false,
        }
    }

    /// The packet that is to come next.
    #[cfg(feature = "fuzzing")]
    pub(crate) fn expected(&self) -> Psn {
        self.expected
    }

    /// A packet of the peer arrived with the network's congestion mark.
    pub(crate) fn on_congestion(&mut self, now: Now) {
        if self.notified.is_none_or(|at| now.saturating_sub(at) >= NOTIFY_EVERY) {
            self.notified = Some(now);
            self.notify = true;
        }
    }

    /// Whether there is something to transmit.
    pub(crate) fn wants_to_transmit(&self) -> bool {
        self.notify || self.answer.is_some() || !self.responses.is_empty()
    }

    /// A packet of a request arrived.
    pub(crate) fn on_request(
        &mut self,
        path: &Path,
        packet: &Packet<'_>,
        hands: &mut Hands<'_>,
    ) -> Verdict {
        let ahead = packet.bth.psn.since(self.expected);
        if ahead < 0 {
            self.on_duplicate(path, packet, hands.memory);
            return Verdict::Fine;
        }
        if ahead > 0 {
            if !self.gap_reported {
                self.gap_reported = true;
                self.answer = Some(Syndrome::Nak(Nak::Sequence));
            }
            return Verdict::Fine;
        }
        let result = match packet.opcode.kind {
            Kind::Send => self.on_send(path, packet, hands),
            Kind::Write => self.on_write(path, packet, hands),
            Kind::ReadRequest => self.on_read(path, packet, hands),
            Kind::ReadResponse | Kind::Acknowledge | Kind::Datagram => Err(Nak::InvalidRequest),
        };
        match result {
            Ok(()) => Verdict::Fine,
            Err(nak) => {
                self.answer = Some(Syndrome::Nak(nak));
                Verdict::Failed
            }
        }
    }

    fn on_duplicate(&mut self, path: &Path, packet: &Packet<'_>, memory: &Memory) {
        if packet.opcode.kind != Kind::ReadRequest {
            self.answer.get_or_insert(Syndrome::Ack);
            return;
        }
        let (Some(reth), psn) = (packet.reth, packet.bth.psn) else { return };
        let Some(read) = self.answered.iter().copied().find(|read| {
            !psn.is_before(read.first) && psn.is_before(read.first.plus(read.packets))
        }) else {
            return;
        };
        // The key may have been closed since: the memory is no longer the peer's to read.
        if self.open(memory, read.reth, false) != Ok(read.source) {
            return;
        }
        // It may ask for the rest only; what it asks for must be what it asked for.
        let start = psn.since(read.first) as u32;
        let end = start.saturating_add(path.packets(reth.len)).min(read.packets);
        let cut = Read { packets: end, ..read };
        let again = Response { read: cut, next: start, start };
        // Answers stay in the order of the requests: one that comes too early shows a gap.
        let at = self.responses.partition_point(|other| other.read.first.is_before(read.first));
        match self.responses.get_mut(at) {
            Some(other) if other.read.first == read.first => *other = again,
            _ => self.responses.insert(at, again),
        }
    }

    fn on_send(
        &mut self,
        path: &Path,
        packet: &Packet<'_>,
        hands: &mut Hands<'_>,
    ) -> Result<(), Nak> {
        let part = packet.opcode.part;
        let (recv, filled) = match (self.inbound, part.begins()) {
            (None, true) => {
                let Some(recv) = hands.recv.take() else {
                    self.answer = Some(Syndrome::Rnr(RNR_CODE));
                    self.gap_reported = true; // what follows this packet is dropped in silence
                    return Ok(());
                };
                (recv, 0)
            }
            (Some(Inbound::Send { recv, filled }), false) => (recv, filled),
            _ => return Err(Nak::InvalidRequest),
        };
        let failed = |out: &mut Completions| {
            let op = WcOp::Recv { byte_len: 0, invalidated: None };
            let status = WcStatus::LocalError;
            out.push_recv(Wc { wr_id: recv.wr_id, qp: self.qp, op, status }, recv);
            Err(Nak::InvalidRequest)
        };
        self.inbound = None;
        let room = recv.head.len() + recv.tail.len() - filled;
        let len = packet.payload.len() as u32;
        if !fits(path, part, len) || len > room {
            return failed(hands.out);
        }
        scatter(hands.region, recv, filled, packet.payload);
        let filled = filled + len;
        if !part.ends() {
            self.inbound = Some(Inbound::Send { recv, filled });
            self.accept(1, packet.bth.ack_req);
            return Ok(());
        }
        let invalidated = packet.opcode.invalidate.then_some(packet.imm);
        if let Some(rkey) = invalidated
            && !hands.memory.close(self.qp, rkey)
        {
            return failed(hands.out);
        }
        self.msn = self.msn.wrapping_add(1);
        let op = WcOp::Recv { byte_len: filled, invalidated };
        let status = WcStatus::Success;
        hands.out.push_recv(Wc { wr_id: recv.wr_id, qp: self.qp, op, status }, recv);
        self.accept(1, packet.bth.ack_req);
        Ok(())
    }

    fn on_write(
        &mut self,
        path: &Path,
        packet: &Packet<'_>,
        hands: &mut Hands<'_>,
    ) -> Result<(), Nak> {
        let part = packet.opcode.part;
        if packet.opcode.immediate {
            return Err(Nak::InvalidRequest); // would take a receive; nobody here asks for it
        }
        let (dest, filled) = match (self.inbound, packet.reth) {
            (None, Some(reth)) => (self.open(hands.memory, reth, true)?, 0),
            (Some(Inbound::Write { dest, filled }), None) => (dest, filled),
            // The receive of a SEND that was begun stays where the flush finds it.
            _ => return Err(Nak::InvalidRequest),
        };
        self.inbound = None;
        let len = packet.payload.len() as u32;
        let left = dest.len() - filled;
        if !fits(path, part, len) || len > left || (part.ends() && len != left) {
            return Err(Nak::InvalidRequest);
        }
        hands.region.write(dest.slice(filled, len), packet.payload);
        if part.ends() {
            self.msn = self.msn.wrapping_add(1);
        } else {
            self.inbound = Some(Inbound::Write { dest, filled: filled + len });
        }
        self.accept(1, packet.bth.ack_req);
        Ok(())
    }

    fn on_read(
        &mut self,
        path: &Path,
        packet: &Packet<'_>,
        hands: &mut Hands<'_>,
    ) -> Result<(), Nak> {
        let Some(reth) = packet.reth else { return Err(Nak::InvalidRequest) };
        if self.inbound.is_some() || self.resources == 0 {
            return Err(Nak::InvalidRequest);
        }
        let source = self.open(hands.memory, reth, false)?;
        let read = Read { first: self.expected, packets: path.packets(reth.len), source, reth };
        if self.answered.len() as u32 >= self.resources
            && let Some(oldest) = self.answered.pop_front()
        {
            // With this many since, the peer has its data: what may still be queued is a repetition.
            self.responses.retain(|response| response.read.first != oldest.first);
        }
        self.answered.push_back(read);
        self.responses.push_back(Response { read, next: 0, start: 0 });
        self.msn = self.msn.wrapping_add(1);
        // The response acknowledges all before it.
        self.answer = None;
        self.accept(read.packets, false);
        Ok(())
    }

    /// Finds the local bytes. A request for no bytes opens nothing and needs no key.
    fn open(&self, memory: &Memory, reth: Reth, write: bool) -> Result<Span, Nak> {
        if reth.len == 0 {
            return Ok(Span::default());
        }
        let remote = RemoteAddr { addr: reth.addr, rkey: reth.rkey };
        memory.resolve(self.qp, remote, reth.len, write).ok_or(Nak::RemoteAccess)
    }

    fn accept(&mut self, packets: u32, ack_req: bool) {
        self.expected = self.expected.plus(packets);
        self.gap_reported = false;
        if ack_req {
            self.answer = Some(Syndrome::Ack);
        }
    }

    /// Writes packets into the batch, at most `budget`, and returns how many.
    pub(crate) fn transmit(
        &mut self,
        path: &Path,
        region: &Region,
        batch: &mut Batch,
        budget: u32,
    ) -> u32 {
        let mut done = 0;
        if self.notify && batch.has_room() {
            self.notify = false;
            batch.push_notification(path);
            done += 1;
        }
        while done < budget && batch.has_room() {
            let Some(response) = self.responses.front_mut() else { break };
            let Response { read, next, start } = *response;
            response.next += 1;
            if response.next >= read.packets {
                self.responses.pop_front();
            }
            // A repeated request that began in the middle is answered like one of its own.
            let part = Part::of(next - start, read.packets - start);
            let opcode = Opcode::plain(Kind::ReadResponse, part);
            let offset = next * path.mtu;
            let source = read.source.slice(offset, (read.source.len() - offset).min(path.mtu));
            let aeth = Aeth { syndrome: Syndrome::Ack, msn: self.msn }.to_bytes();
            let header = Header {
                opcode,
                psn: read.first.plus(next),
                ack_req: false,
                solicited: false,
                extension: if opcode.has_aeth() { &aeth } else { &[] },
            };
            batch.push(path, header, source.len() as usize, |out| region.read(source, out));
            done += 1;
        }
        if done < budget
            && batch.has_room()
            && self.responses.is_empty()
            && let Some(syndrome) = self.answer.take()
        {
            let psn = match syndrome {
                Syndrome::Ack => self.expected.minus(1),
                _ => self.expected,
            };
            let aeth = Aeth { syndrome, msn: self.msn }.to_bytes();
            let header = Header {
                opcode: Opcode::plain(Kind::Acknowledge, Part::Only),
                psn,
                ack_req: false,
                solicited: false,
                extension: &aeth,
            };
            batch.push(path, header, 0, |_| ());
            done += 1;
        }
        done
    }

    /// The queue pair has failed: the receive of a message that had begun comes back flushed. An
    /// answer that is due (the NAK) may still be transmitted.
    pub(crate) fn flush(&mut self, out: &mut Completions) {
        self.responses.clear();
        self.answered.clear();
        if let Some(Inbound::Send { recv, .. }) = self.inbound.take() {
            let op = WcOp::Recv { byte_len: 0, invalidated: None };
            let status = WcStatus::Flushed;
            out.push_recv(Wc { wr_id: recv.wr_id, qp: self.qp, op, status }, recv);
        }
    }
}

/// Whether a payload has the length that its place in the message demands.
fn fits(path: &Path, part: Part, len: u32) -> bool {
    match part {
        Part::First | Part::Middle => len == path.mtu,
        Part::Last => len > 0 && len <= path.mtu,
        Part::Only => len <= path.mtu,
    }
}

/// Copies `payload` to a receive of which `filled` bytes are taken.
fn scatter(region: &Region, recv: RecvWr, filled: u32, payload: &[u8]) {
    let len = payload.len() as u32;
    let in_head = recv.head.len().saturating_sub(filled).min(len);
    if in_head > 0 {
        region.write(recv.head.slice(filled, in_head), &payload[..in_head as usize]);
    }
    if len > in_head {
        let at = filled + in_head - recv.head.len();
        region.write(recv.tail.slice(at, len - in_head), &payload[in_head as usize..]);
    }
}
