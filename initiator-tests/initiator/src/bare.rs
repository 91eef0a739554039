//! Queue pairs without a host's manners.
//!
//! [`Host`](crate::Host) is a good host: it connects in order, numbers its commands and describes
//! its data rightly. [`Bare`] does as it is told: any private data, any message, at any time. It is
//! for tests of what a target makes of that.
//!
//! # Contract
//! [`open`](Bare::open) asks for a connection, [`send`](Bare::send) sends a message on it,
//! [`turn`](Bare::turn) lets things happen, and [`poll_event`](Bare::poll_event) tells what did.
//! After [`BareEvent::Gone`] or [`BareEvent::Refused`] a queue's number means nothing any more.

use crate::Arena;
use crate::link::{RECV_LEN, Work};
use rdma::cm::QpParams;
use rdma::{
    Access, CmError, CmEvent, ConnId, ConnectParams, Connector, CoreIndex, HostDevice, Now, QpId,
    RecvQueueId, RecvWr, RemoteAddr, SendOp, SendWr, Wc, WcOp,
};
use region::{Region, Span};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;

/// Messages that may be on the way on one queue.
const SENDS: u32 = 256;
/// Completions taken from the device at a time.
const POLL_BATCH: usize = 64;

/// A queue of a [`Bare`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BareQueue(pub usize);

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BareEvent {
    /// A connection is up.
    Connected {
        /// Which.
        queue: BareQueue,
        /// Private data of the accept, perhaps with zeroes behind it.
        private_data: Vec<u8>,
    },
    /// A connection was refused.
    Refused {
        /// Which.
        queue: BareQueue,
        /// Why, in words.
        reason: String,
        /// Private data of the reject.
        private_data: Vec<u8>,
    },
    /// A message came: its first 64 bytes at most.
    Message {
        /// On which queue.
        queue: BareQueue,
        /// The message.
        bytes: Vec<u8>,
        /// The key of ours that was invalidated with it.
        invalidated: Option<u32>,
    },
    /// A connection ended, from whichever side.
    Gone {
        /// Which.
        queue: BareQueue,
        /// Why, in words.
        reason: String,
    },
}

#[derive(Debug)]
struct Queue {
    conn: ConnId,
    qp: QpId,
    recv_queue: RecvQueueId,
    memory: Span,
    up: bool,
    /// Why it ends, once it does.
    ending: Option<BareEvent>,
    recvs_posted: u32,
    sends_out: u32,
    lent: Vec<u32>,
}

/// See the [module](self).
pub struct Bare<C: Connector, D: HostDevice<Endpoint = C::Endpoint>> {
    target: SocketAddr,
    core: CoreIndex,
    region: Arc<Region>,
    cm: C,
    device: D,
    arena: Arena,
    queues: Vec<Option<Queue>>,
    events: VecDeque<BareEvent>,
    completions: Vec<Wc>,
}

impl<C: Connector, D: HostDevice<Endpoint = C::Endpoint>> Bare<C, D> {
    /// Without connections. `device` is that of `core` and was opened with `region`.
    pub fn new(
        target: SocketAddr,
        core: CoreIndex,
        region: Arc<Region>,
        cm: C,
        device: D,
    ) -> Bare<C, D> {
        let arena = Arena::new(region.span());
        Bare {
            target,
            core,
            region,
            cm,
            device,
            arena,
            queues: Vec::new(),
            events: VecDeque::new(),
            completions: Vec::new(),
        }
    }

    /// The memory that spans are of.
    pub fn region(&self) -> &Arc<Region> {
        &self.region
    }

    /// Memory for data.
    pub fn arena(&mut self) -> &mut Arena {
        &mut self.arena
    }

    /// The connector and the device, for sleeping.
    pub fn provider(&mut self) -> (&mut C, &mut D) {
        (&mut self.cm, &mut self.device)
    }

    /// Asks for a connection with this private data (at most 56 bytes), `recvs` receives posted
    /// and `reads` RDMA READs of the target answered at a time.
    ///
    /// # Errors
    /// When the provider cannot make or ask for it.
    pub fn open(
        &mut self,
        now: Now,
        private_data: &[u8],
        recvs: u16,
        reads: u8,
    ) -> Result<BareQueue, CmError> {
        let no_memory = || CmError::System {
            what: "taking memory for receives",
            source: std::io::ErrorKind::OutOfMemory.into(),
        };
        let memory = self.arena.alloc(u32::from(recvs) * RECV_LEN).ok_or_else(no_memory)?;
        let params = QpParams {
            send_depth: SENDS,
            recv_depth: u32::from(recvs),
            max_reads: 1,
            shared_recv: false,
        };
        let (conn, endpoint) = match self.cm.open(now, self.target, self.core, &params) {
            Ok(opened) => opened,
            Err(error) => {
                self.arena.free(memory);
                return Err(error);
            }
        };
        let attached = self.device.attach(endpoint);
        let at = self.queues.iter().position(Option::is_none).unwrap_or(self.queues.len());
        if at == self.queues.len() {
            self.queues.push(None);
        }
        let mut queue = Queue {
            conn,
            qp: attached.qp,
            recv_queue: attached.recv_queue.id,
            memory,
            up: false,
            ending: None,
            recvs_posted: 0,
            sends_out: 0,
            lent: Vec::new(),
        };
        for index in 0..recvs {
            queue.post_recv(index, &mut self.device);
        }
        self.queues[at] = Some(queue);
        self.device.flush(now);
        let params = ConnectParams {
            private_data: private_data.to_vec(),
            initiator_depth: 0,
            responder_resources: reads,
        };
        self.cm.connect(now, conn, &params)?;
        Ok(BareQueue(at))
    }

    /// Sends a message. Returns whether the queue could take it.
    pub fn send(&mut self, queue: BareQueue, message: &[u8]) -> bool {
        let Some(place) = self.queues.get_mut(queue.0).and_then(Option::as_mut) else {
            return false;
        };
        if !place.up || place.ending.is_some() || place.sends_out == SENDS {
            return false;
        }
        let Some(span) = self.arena.alloc(message.len() as u32) else { return false };
        self.region.write(span, message);
        place.sends_out += 1;
        let wr_id = Work::Raw(span).id();
        let wr = SendWr { wr_id, op: SendOp::Send, local: span, signaled: true };
        self.device.post_send(place.qp, wr);
        true
    }

    /// Opens memory to the target until [`take_back`](Self::take_back) or the connection's end.
    pub fn lend(&mut self, queue: BareQueue, span: Span, access: Access) -> Option<RemoteAddr> {
        let place = self.queues.get_mut(queue.0)?.as_mut()?;
        let remote = self.device.expose(place.qp, span, access)?;
        place.lent.push(remote.rkey);
        Some(remote)
    }

    /// Closes memory that was lent.
    pub fn take_back(&mut self, queue: BareQueue, rkey: u32) {
        if let Some(place) = self.queues.get_mut(queue.0).and_then(Option::as_mut)
            && let Some(at) = place.lent.iter().position(|&lent| lent == rkey)
        {
            place.lent.swap_remove(at);
            self.device.unexpose(place.qp, rkey);
        }
    }

    /// Ends a connection; [`BareEvent::Gone`] comes when nothing of it is left.
    pub fn close(&mut self, now: Now, queue: BareQueue) {
        let reason = "closed".to_owned();
        self.end(now, queue.0, BareEvent::Gone { queue, reason });
    }

    /// What happened, oldest first.
    pub fn poll_event(&mut self) -> Option<BareEvent> {
        self.events.pop_front()
    }

    /// Does what there is to do and returns whether there was anything.
    pub fn turn(&mut self, now: Now) -> bool {
        let mut worked = false;
        while let Some(event) = self.cm.poll(now) {
            worked = true;
            self.on_cm_event(now, event);
        }
        let mut completions = std::mem::take(&mut self.completions);
        worked |= self.device.poll_cq(now, POLL_BATCH, &mut completions) > 0;
        for wc in completions.drain(..) {
            self.on_completion(now, &wc);
        }
        self.completions = completions;
        self.reap();
        self.device.flush(now);
        worked
    }

    /// When [`turn`](Self::turn) is due even if nothing happens.
    pub fn timeout(&self) -> Option<Now> {
        [self.cm.timeout(), self.device.timeout()].into_iter().flatten().min()
    }

    fn find(&self, is: impl Fn(&Queue) -> bool) -> Option<usize> {
        self.queues.iter().position(|place| place.as_ref().is_some_and(&is))
    }

    fn on_cm_event(&mut self, now: Now, event: CmEvent) {
        match event {
            CmEvent::Connected { conn, private_data, .. } => {
                let Some(at) = self.find(|queue| queue.conn == conn) else { return };
                self.queues[at].as_mut().expect("found").up = true;
                let queue = BareQueue(at);
                self.events.push_back(BareEvent::Connected { queue, private_data });
            }
            CmEvent::Refused { conn, reason, private_data } => {
                let Some(at) = self.find(|queue| queue.conn == conn) else { return };
                let queue = BareQueue(at);
                self.end(now, at, BareEvent::Refused { queue, reason, private_data });
            }
            CmEvent::Disconnected { conn, reason } => {
                let Some(at) = self.find(|queue| queue.conn == conn) else { return };
                self.end(now, at, BareEvent::Gone { queue: BareQueue(at), reason });
            }
            CmEvent::Request(request) => self.cm.reject(now, request.conn, &[]),
            CmEvent::Established(_) | CmEvent::ListenerDown { .. } | CmEvent::ListenerUp { .. } => {
            }
        }
    }

    fn on_completion(&mut self, now: Now, wc: &Wc) {
        let Some(at) = self.find(|queue| queue.qp == wc.qp) else { return };
        let place = self.queues[at].as_mut().expect("found");
        let work = Work::of(wc.wr_id);
        match work {
            Work::Raw(span) => {
                place.sends_out -= 1;
                self.arena.free(span);
            }
            _ => place.recvs_posted -= 1,
        }
        if !wc.is_ok() {
            // The queue pair of a refused connection may fail before the refusal is heard.
            if !place.up {
                return;
            }
            let reason = format!("{work:?} failed: {:?}", wc.status);
            return self.end(now, at, BareEvent::Gone { queue: BareQueue(at), reason });
        }
        if let (Work::Recv(index), WcOp::Recv { byte_len, invalidated }) = (work, wc.op) {
            let span = place.recv_span(index).slice(0, byte_len.min(RECV_LEN));
            let mut bytes = vec![0; span.len() as usize];
            self.region.read(span, &mut bytes);
            if place.ending.is_none() {
                place.post_recv(index, &mut self.device);
            }
            let queue = BareQueue(at);
            self.events.push_back(BareEvent::Message { queue, bytes, invalidated });
        }
    }

    fn end(&mut self, now: Now, at: usize, event: BareEvent) {
        let Some(place) = self.queues.get_mut(at).and_then(Option::as_mut) else { return };
        if place.ending.is_none() {
            place.ending = Some(event);
            self.cm.disconnect(now, place.conn);
            self.device.fail(place.qp);
        }
    }

    /// Takes away what has ended and drained.
    fn reap(&mut self) {
        for place in &mut self.queues {
            let drained = |queue: &Queue| queue.recvs_posted == 0 && queue.sends_out == 0;
            let Some(queue) = place.take_if(|queue| queue.ending.is_some() && drained(queue))
            else {
                continue;
            };
            for &rkey in &queue.lent {
                self.device.unexpose(queue.qp, rkey);
            }
            let endpoint = self.device.detach(queue.qp);
            self.cm.destroy(queue.conn, endpoint);
            self.arena.free(queue.memory);
            self.events.extend(queue.ending);
        }
    }
}

impl Queue {
    fn recv_span(&self, index: u16) -> Span {
        self.memory.slice(u32::from(index) * RECV_LEN, RECV_LEN)
    }

    fn post_recv<D: HostDevice>(&mut self, index: u16, device: &mut D) {
        let head = self.recv_span(index);
        let wr = RecvWr { wr_id: Work::Recv(index).id(), head, tail: Span::new(head.offset(), 0) };
        device.post_recv(self.recv_queue, wr);
        self.recvs_posted += 1;
    }
}
