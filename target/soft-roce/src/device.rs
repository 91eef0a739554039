//! A core's device: its engine and its sockets.

use crate::batch::Batch;
use crate::endpoint::Endpoint;
use crate::engine::{Counters, Engine};
use crate::intake::Intake;
use crate::socket::Socket;
use rdma::{
    Access, Attached, Device, HostDevice, Now, PollSource, QpId, RecvQueueId, RecvWr, RemoteAddr,
    SendWr, Wc, WireCounters,
};
use region::{Region, Span};
use std::io;
use std::sync::Arc;

/// Bytes of packets that one flush hands to the kernel. The rest waits for the next turn, which looks
/// first whether somebody else wants something. They are read twice soon after they are written, by
/// the integrity check and by the kernel: so few that they are still in the processor's cache, and
/// enough for 4 KiB responses at depth 32.
const BATCH_LEN: usize = 192 << 10;
/// Receive calls that one poll makes at most for each socket, so that a flood cannot hold up the
/// rest of the core.
const MAX_RECEIVES: usize = 8;
/// Turns in a row that may leave something in a socket before timers count all the same: as many as
/// a buffer of the usual size lasts for.
const MAX_UNREAD: u32 = 16;
/// Bytes of READs under way that keep a core busy, which takes in some four gigabytes a second. All
/// that it is sent waits in one socket.
const READ_WINDOW: u32 = 256 << 10;
/// How long to wait when the kernel has no room for what is to be sent.
const RETRY_AFTER: Now = Now::from_micros(100);

/// The data half of the provider, for one core.
#[derive(Debug)]
pub struct SoftDevice {
    engine: Engine,
    /// One for each local address that a queue pair of this core was set up at.
    sockets: Vec<Arc<Socket>>,
    batch: Batch,
    intake: Intake,
    /// Turns in a row that left something in a socket.
    unread: u32,
    /// Runs of packets that the kernel did not take.
    unsent: u64,
    /// When to try again to send what the kernel had no room for.
    blocked: Option<Now>,
}

impl SoftDevice {
    pub(crate) fn new(region: Arc<Region>, shared_depth: u32, seed: [u8; 32]) -> SoftDevice {
        SoftDevice {
            engine: Engine::new(region, shared_depth, seed),
            sockets: Vec::new(),
            batch: Batch::new(BATCH_LEN, true),
            intake: Intake::new(),
            unread: 0,
            unsent: 0,
            blocked: None,
        }
    }

    /// What this device counted.
    pub fn counters(&self) -> Counters {
        Counters {
            damaged: self.intake.damaged(),
            passed_on: self.intake.passed_on,
            overrun: self.intake.overrun,
            unsent: self.unsent,
            ..self.engine.counters
        }
    }

    /// Sends what is in the batch. When the kernel has no room the rest stays for later.
    fn send(&mut self, now: Now) {
        self.blocked = None;
        while let Some(run) = self.batch.runs().first() {
            let source = run.prefix.source;
            let Some(socket) = self.sockets.iter().find(|socket| socket.local() == source) else {
                self.batch.advance(1); // its last queue pair was detached meanwhile
                continue;
            };
            match socket.send(&self.batch) {
                Ok(count) => self.batch.advance(count),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.blocked = Some(now + RETRY_AFTER);
                    return;
                }
                Err(error) => {
                    // Lost, as it might be further on. Why shows where nothing gets through.
                    tracing::debug!(%error, from = %source, "packets not sent");
                    self.unsent += 1;
                    self.batch.advance(1);
                    if !socket.segments() {
                        self.batch.stop_segmenting();
                    }
                }
            }
        }
    }

    fn receive(&mut self, now: Now) {
        let mut all = true;
        for socket in &self.sockets {
            all &= self.intake.receive(socket, MAX_RECEIVES, |from, marked, datagram| {
                self.engine.on_datagram(now, from, marked, datagram);
            });
        }
        self.unread = if all { 0 } else { self.unread + 1 };
    }
}

impl Device for SoftDevice {
    type Endpoint = Endpoint;

    fn attach(&mut self, endpoint: Endpoint) -> Attached {
        if let Some(socket) = &endpoint.socket
            && !self.sockets.iter().any(|known| Arc::ptr_eq(known, socket))
        {
            if !socket.segments() {
                self.batch.stop_segmenting();
            }
            self.sockets.push(socket.clone());
        }
        self.engine.attach(endpoint)
    }

    fn detach(&mut self, qp: QpId) -> Endpoint {
        let endpoint = self.engine.detach(qp);
        // The last one at an address lets its socket go, so that the address can be left.
        if let Some(socket) = &endpoint.socket
            && !self.engine.uses(socket)
        {
            self.sockets.retain(|known| !Arc::ptr_eq(known, socket));
        }
        endpoint
    }

    fn fail(&mut self, qp: QpId) {
        self.engine.fail(qp);
    }

    fn post_recv(&mut self, queue: RecvQueueId, wr: RecvWr) {
        self.engine.post_recv(queue, wr);
    }

    fn post_send(&mut self, qp: QpId, wr: SendWr) {
        self.engine.post_send(qp, wr);
    }

    fn flush(&mut self, now: Now) {
        if self.batch.runs().is_empty() {
            if !self.engine.wants_to_transmit() {
                return;
            }
            self.batch.clear();
            self.engine.transmit(now, &mut self.batch);
        }
        self.send(now);
    }

    fn poll_cq(&mut self, now: Now, max: usize, out: &mut Vec<Wc>) -> usize {
        self.receive(now);
        // What a timer waits for may be in a socket already.
        if self.unread == 0 || self.unread > MAX_UNREAD {
            self.engine.on_time(now);
        }
        self.engine.poll(max, out)
    }

    fn arm(&mut self) {
        // A socket with a datagram in it is readable, and a bell that was rung: there is nothing to
        // ask for.
    }

    fn wait_sources<'a>(&'a self, out: &mut Vec<PollSource<'a>>) {
        out.extend(self.sockets.iter().flat_map(|socket| socket.wait_sources()));
    }

    fn timeout(&self) -> Option<Now> {
        if self.engine.has_completions() {
            return Some(Now::ZERO);
        }
        match (self.blocked, self.engine.timeout()) {
            (None, _) if self.engine.wants_to_transmit() => Some(Now::ZERO),
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    fn read_window(&self, _qp: QpId) -> u32 {
        READ_WINDOW
    }

    fn counters(&self) -> WireCounters {
        let counters = SoftDevice::counters(self);
        WireCounters {
            received: counters.received + counters.damaged + counters.overrun,
            sent: counters.sent,
            resent: counters.retransmitted,
            discarded: counters.malformed + counters.stray + counters.damaged + counters.overrun,
            congestion: counters.congestion,
            failed: counters.failed,
        }
    }
}

impl HostDevice for SoftDevice {
    fn expose(&mut self, qp: QpId, span: Span, access: Access) -> Option<RemoteAddr> {
        self.engine.expose(qp, span, access)
    }

    fn unexpose(&mut self, qp: QpId, rkey: u32) {
        self.engine.unexpose(qp, rkey);
    }
}
