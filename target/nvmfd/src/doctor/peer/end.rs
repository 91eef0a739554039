//! One side of a test: a connection manager, a device and at most one connection.

use super::CORE;
use super::message::MESSAGE_LEN;
use rdma::cm::QpParams;
use rdma::{
    Access, Attached, CmError, CmEvent, ConnId, Connector, HostDevice, Now, PollSource, RecvWr,
    RemoteAddr, SendOp, SendWr, Wc, WcOp, WcStatus, WrId,
};
use region::{Region, Span};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Bytes of data that one side holds.
pub(super) const DATA_LEN: u32 = 2 << 20;
/// Operations that may be outstanding.
pub(super) const MAX_DEPTH: u32 = 16;
/// Receives and sends for messages.
const MESSAGES: u32 = 8;
const MESSAGE: u32 = MESSAGE_LEN as u32;
/// Where data begins, behind the messages.
const DATA_AT: u32 = 4096;
/// Bytes of a side's memory.
pub(super) const REGION_LEN: usize = (DATA_AT + DATA_LEN) as usize;

/// How long to look for work before sleeping: other threads may run meanwhile.
const SPIN: Duration = Duration::from_millis(1);
/// The longest sleep.
const LONGEST: Duration = Duration::from_millis(200);
/// How long work requests of a failed queue pair may take to come back.
const DRAIN_WITHIN: Duration = Duration::from_secs(5);

/// What happened on a side.
#[derive(Debug)]
pub(super) enum Event {
    /// A message came.
    Message(Vec<u8>),
    /// Operation `slot` was carried out.
    Carried { slot: u32 },
    /// A work request failed: the connection is of no more use.
    Failed(WcStatus),
    /// Of the connection manager.
    Cm(CmEvent),
}

/// What a work request is, in its id: a kind above, a number below.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Work {
    Receive(u32),
    Send,
    Operation(u32),
}

impl Work {
    fn id(self) -> WrId {
        WrId(match self {
            Work::Receive(number) => 1 << 32 | u64::from(number),
            Work::Send => 2 << 32,
            Work::Operation(slot) => 3 << 32 | u64::from(slot),
        })
    }

    fn of(id: WrId) -> Work {
        match (id.0 >> 32, id.0 as u32) {
            (1, number) => Work::Receive(number),
            (2, _) => Work::Send,
            (_, slot) => Work::Operation(slot),
        }
    }
}

/// The connection of a side.
#[derive(Debug)]
struct Link {
    conn: ConnId,
    at: Attached,
    /// Work requests that have not come back.
    posted: u32,
    /// Messages sent, whose places are used in turn.
    sent: u32,
}

/// See the [module](self).
pub(super) struct End<M, D> {
    manager: M,
    device: D,
    region: Arc<Region>,
    start: Instant,
    link: Option<Link>,
    done: VecDeque<Wc>,
    idle_since: Option<Now>,
}

impl<M, D> End<M, D>
where
    M: Connector<Endpoint = D::Endpoint>,
    D: HostDevice,
{
    /// A side without a connection; the device was opened with the region.
    pub(super) fn new(manager: M, device: D, region: Arc<Region>) -> End<M, D> {
        assert_eq!(region.len(), REGION_LEN, "a side's memory has a fixed layout");
        let (start, done) = (Instant::now(), VecDeque::new());
        End { manager, device, region, start, link: None, done, idle_since: None }
    }

    pub(super) fn now(&self) -> Now {
        self.start.elapsed()
    }

    /// The connection manager, to listen, accept and reject with.
    pub(super) fn manager(&mut self) -> &mut M {
        &mut self.manager
    }

    /// Packets sent so far, and those of them that were sent again, where the provider sees them.
    pub(super) fn packets(&self) -> (u64, u64) {
        let wire = self.device.counters();
        (wire.sent, wire.resent)
    }

    fn params() -> QpParams {
        QpParams {
            send_depth: MAX_DEPTH + MESSAGES + 2,
            recv_depth: MESSAGES,
            max_reads: MAX_DEPTH as u8,
            shared_recv: false,
        }
    }

    /// Makes the connection for a request of our own, ready to receive.
    pub(super) fn open(&mut self, to: SocketAddr) -> Result<ConnId, CmError> {
        let now = self.now();
        let (conn, endpoint) = self.manager.open(now, to, CORE, &Self::params())?;
        self.attach(conn, endpoint);
        Ok(conn)
    }

    /// Makes the connection for a request that came, ready to receive.
    pub(super) fn prepare(&mut self, conn: ConnId) -> Result<(), CmError> {
        let endpoint = self.manager.prepare(conn, CORE, &Self::params())?;
        self.attach(conn, endpoint);
        Ok(())
    }

    fn attach(&mut self, conn: ConnId, endpoint: D::Endpoint) {
        assert!(self.link.is_none(), "one connection at a time");
        let at = self.device.attach(endpoint);
        self.done.clear();
        self.link = Some(Link { conn, at, posted: 0, sent: 0 });
        for number in 0..MESSAGES {
            self.post_receive(number);
        }
        let now = self.now();
        self.device.flush(now);
    }

    /// Whether an event is of the connection that there is.
    pub(super) fn is_ours(&self, conn: ConnId) -> bool {
        self.link.as_ref().is_some_and(|link| link.conn == conn)
    }

    /// RDMA READs that may be outstanding.
    pub(super) fn max_reads(&self) -> u32 {
        self.link.as_ref().map_or(1, |link| link.at.limits.max_reads)
    }

    fn link(&mut self) -> &mut Link {
        self.link.as_mut().expect("a connection is open")
    }

    fn post_receive(&mut self, number: u32) {
        let head = Span::new(number * MESSAGE, MESSAGE);
        let wr = RecvWr { wr_id: Work::Receive(number).id(), head, tail: Span::new(0, 0) };
        let link = self.link();
        link.posted += 1;
        let queue = link.at.recv_queue.id;
        self.device.post_recv(queue, wr);
    }

    fn post(&mut self, work: Work, op: SendOp, local: Span) {
        let link = self.link();
        link.posted += 1;
        let qp = link.at.qp;
        self.device.post_send(qp, SendWr { wr_id: work.id(), op, local, signaled: true });
    }

    /// Sends a message. Sides speak in turn, so that a place is free again when its turn comes.
    pub(super) fn send(&mut self, message: &[u8; MESSAGE_LEN]) {
        let link = self.link();
        let place = MESSAGES + link.sent % MESSAGES;
        link.sent += 1;
        let local = Span::new(place * MESSAGE, MESSAGE);
        self.region.write(local, message);
        self.post(Work::Send, SendOp::Send, local);
    }

    /// Begins an operation between the local data `local` and the peer's memory.
    pub(super) fn begin(&mut self, slot: u32, op: SendOp, local: Span) {
        self.post(Work::Operation(slot), op, local);
    }

    /// Local data: `len` bytes from `at`.
    pub(super) fn data(at: u32, len: u32) -> Span {
        Span::new(DATA_AT, DATA_LEN).slice(at, len)
    }

    pub(super) fn region(&self) -> &Region {
        &self.region
    }

    /// Opens local data to the peer.
    pub(super) fn expose(&mut self, span: Span, access: Access) -> Option<RemoteAddr> {
        let qp = self.link().at.qp;
        self.device.expose(qp, span, access)
    }

    /// Closes it again.
    pub(super) fn unexpose(&mut self, rkey: u32) {
        let qp = self.link().at.qp;
        self.device.unexpose(qp, rkey);
    }

    /// The next thing that happens, or `None` when `until` has come first.
    pub(super) fn next(&mut self, until: Now) -> Option<Event> {
        loop {
            let now = self.now();
            self.turn(now);
            while let Some(wc) = self.done.pop_front() {
                if let Some(event) = self.on_completion(&wc) {
                    self.idle_since = None;
                    return Some(event);
                }
            }
            if let Some(event) = self.manager.poll(now) {
                self.idle_since = None;
                return Some(Event::Cm(event));
            }
            if now >= until {
                return None;
            }
            if now.saturating_sub(*self.idle_since.get_or_insert(now)) < SPIN {
                std::thread::yield_now();
            } else {
                self.sleep(now, until);
            }
        }
    }

    fn turn(&mut self, now: Now) {
        self.device.flush(now);
        let mut done = Vec::new();
        self.device.poll_cq(now, 64, &mut done);
        self.done.extend(done);
    }

    fn on_completion(&mut self, wc: &Wc) -> Option<Event> {
        let link = self.link.as_mut().filter(|link| link.at.qp == wc.qp)?;
        link.posted -= 1;
        if !wc.is_ok() {
            return Some(Event::Failed(wc.status));
        }
        match (Work::of(wc.wr_id), wc.op) {
            (Work::Receive(number), WcOp::Recv { byte_len, .. }) => {
                let len = byte_len.min(MESSAGE);
                let mut message = vec![0; len as usize];
                self.region.read(Span::new(number * MESSAGE, len), &mut message);
                self.post_receive(number);
                Some(Event::Message(message))
            }
            (Work::Operation(slot), _) => Some(Event::Carried { slot }),
            _ => None,
        }
    }

    fn sleep(&mut self, now: Now, until: Now) {
        self.device.arm();
        self.turn(now);
        if !self.done.is_empty() {
            return;
        }
        let times = [Some(until), self.device.timeout(), self.manager.timeout()];
        let until = times.into_iter().flatten().min().unwrap_or(until);
        let left = until.saturating_sub(now).min(LONGEST);
        if left.is_zero() {
            return;
        }
        let mut sources: Vec<PollSource<'_>> = Vec::new();
        self.manager.wait_sources(&mut sources);
        self.device.wait_sources(&mut sources);
        let mut fds: Vec<PollFd<'_>> =
            sources.iter().map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN)).collect();
        let timeout = Timespec { tv_sec: 0, tv_nsec: i64::from(left.subsec_nanos()) };
        // Whatever comes of it, the next turn looks.
        let _ = poll(&mut fds, Some(&timeout));
    }

    /// Ends the connection and gives back what it had. Returns whether all of it came back.
    pub(super) fn close(&mut self) -> bool {
        let Some(Link { conn, at, .. }) = self.link else { return true };
        let now = self.now();
        self.manager.disconnect(now, conn);
        self.device.fail(at.qp);
        let deadline = now + DRAIN_WITHIN;
        while self.link().posted > 0 {
            let now = self.now();
            if now >= deadline {
                return false;
            }
            self.turn(now);
            while let Some(wc) = self.done.pop_front() {
                let link = self.link();
                if wc.qp == link.at.qp {
                    link.posted -= 1;
                }
            }
            std::thread::yield_now();
        }
        self.link = None;
        let endpoint = self.device.detach(at.qp);
        self.manager.destroy(conn, endpoint);
        true
    }
}
