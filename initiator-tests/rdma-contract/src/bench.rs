//! Two ends in one process: a target that listens and a host that connects, each with a connection
//! manager and a device of its own, driven by one polling loop.

use rdma::cm::QpParams;
use rdma::{
    AcceptParams, Attached, CmEvent, ConnId, ConnectParams, ConnectRequest, ConnectionManager,
    Connector, CoreIndex, Device, HostDevice, Now, QpId, RecvWr, SendOp, SendWr, Wc, WcOp, WrId,
};
use region::{Pages, Region, Span};
use rustix::event::{PollFd, PollFlags, Timespec};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// How long anything may take before a check fails.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// Bytes of each side's region.
pub(crate) const REGION_LEN: usize = 4 << 20;

const CORE: CoreIndex = CoreIndex(0);

/// Receives that a shared receive queue of the target holds.
pub const SHARED_RECV_DEPTH: u32 = 256;

/// Which end a connection manager is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Listens and accepts; its shared receive queues hold [`SHARED_RECV_DEPTH`].
    Target,
    /// Connects; it has no shared receive queues.
    Host,
}

/// Makes the ends of a provider, and owns the time.
pub trait Provider {
    /// Its connection manager.
    type Manager: Connector<Endpoint = <Self::Device as Device>::Endpoint>;
    /// Its device.
    type Device: HostDevice;

    /// Whether its devices have something to sleep on. A simulated one has not: nothing happens
    /// there but in a turn.
    const SLEEPS: bool;

    /// Whether its devices keep a peer within the bounds of opened memory.
    const CHECKS_BOUNDS: bool;

    /// Where the target listens: an address of a device.
    fn address(&self) -> SocketAddr;

    /// A connection manager.
    fn manager(&self, role: Role) -> Self::Manager;

    /// Opens the device of a core.
    fn device(
        &self,
        manager: &mut Self::Manager,
        core: CoreIndex,
        region: Arc<Region>,
    ) -> Self::Device;

    /// The time. Called once a turn at least; a simulator lets things happen here.
    fn now(&self) -> Now;
}

/// One end.
pub struct Side<P: Provider> {
    /// Its connection manager.
    pub manager: P::Manager,
    /// Its device.
    pub device: P::Device,
    /// Its memory.
    pub region: Arc<Region>,
    /// Completions polled and not yet looked at.
    pub done: Vec<Wc>,
    /// Events polled and not yet looked at.
    pub events: Vec<CmEvent>,
}

/// A connection as one end sees it.
#[derive(Debug, Clone, Copy)]
pub struct Link {
    /// Its connection.
    pub conn: ConnId,
    /// Its queue pair.
    pub at: Attached,
}

impl Link {
    /// Its queue pair's id.
    pub fn qp(&self) -> QpId {
        self.at.qp
    }
}

/// Both ends.
pub struct Bench<P: Provider> {
    provider: P,
    /// Where the target listens.
    pub addr: SocketAddr,
    /// The accepting end.
    pub target: Side<P>,
    /// The connecting end.
    pub host: Side<P>,
}

/// A queue pair's size in most checks.
pub(crate) fn params(shared_recv: bool) -> QpParams {
    QpParams { send_depth: 64, recv_depth: 32, max_reads: 8, shared_recv }
}

impl<P: Provider> Bench<P> {
    /// Two ends with nothing between them.
    pub fn new(provider: P) -> Self {
        let addr = provider.address();
        let side = |role| {
            let mut manager = provider.manager(role);
            let region = Arc::new(Region::map(REGION_LEN, Pages::Normal).expect("memory"));
            let device = provider.device(&mut manager, CORE, region.clone());
            Side { manager, device, region, done: Vec::new(), events: Vec::new() }
        };
        let (target, host) = (side(Role::Target), side(Role::Host));
        Bench { provider, addr, target, host }
    }

    /// Time since the start.
    pub fn now(&self) -> Now {
        self.provider.now()
    }

    /// One turn of both ends.
    pub fn turn(&mut self) {
        let now = self.now();
        for side in [&mut self.target, &mut self.host] {
            side.device.flush(now);
            side.device.poll_cq(now, 64, &mut side.done);
            while let Some(event) = side.manager.poll(now) {
                side.events.push(event);
            }
        }
    }

    /// Turns until `ready` gives something.
    pub fn until<T>(&mut self, what: &str, mut ready: impl FnMut(&mut Self) -> Option<T>) -> T {
        let start = self.now();
        loop {
            if let Some(value) = ready(self) {
                return value;
            }
            assert!(self.now() - start < PATIENCE, "waited too long for {what}");
            self.turn();
        }
    }

    /// Turns for a while.
    pub fn settle(&mut self, time: Duration) {
        let end = self.now() + time;
        while self.now() < end {
            self.turn();
        }
    }

    /// Listens, and waits until it is heard.
    pub fn listen(&mut self) {
        let now = self.now();
        self.target.manager.listen(now, self.addr).expect("listen");
        self.until("the listener", |b| {
            take(&mut b.target.events, |e| match e {
                CmEvent::ListenerUp { .. } => Some(()),
                CmEvent::ListenerDown { reason, .. } => panic!("cannot listen: {reason}"),
                _ => None,
            })
        });
    }

    /// Has the host ask, with its queue pair made and `recvs` receives posted.
    pub fn ask(&mut self, data: &[u8], recvs: u32) -> Link {
        let now = self.now();
        let (conn, endpoint) = self
            .host
            .manager
            .open(now, self.addr, CORE, &params(false))
            .unwrap_or_else(|e| panic!("open: {e}"));
        let at = self.host.device.attach(endpoint);
        let link = Link { conn, at };
        self.host.post_recvs(&link, 0..recvs);
        self.host.device.flush(now);
        let params = ConnectParams {
            private_data: data.to_vec(),
            initiator_depth: 0,
            responder_resources: 8,
        };
        self.host.manager.connect(now, conn, &params).expect("connect");
        link
    }

    /// Waits for the request to arrive.
    pub fn request(&mut self) -> ConnectRequest {
        self.until("the request", |b| {
            take(&mut b.target.events, |e| match e {
                CmEvent::Request(r) => Some(r.clone()),
                _ => None,
            })
        })
    }

    /// Prepares, attaches and posts `recvs` receives for a request; does not accept.
    pub fn prepare(&mut self, request: &ConnectRequest, shared: bool, recvs: u32) -> Link {
        let endpoint = self
            .target
            .manager
            .prepare(request.conn, CORE, &params(shared))
            .unwrap_or_else(|e| panic!("prepare: {e}"));
        let at = self.target.device.attach(endpoint);
        assert_eq!(at.recv_queue.shared, shared);
        let link = Link { conn: request.conn, at };
        self.target.post_recvs(&link, 0..recvs);
        let now = self.now();
        self.target.device.flush(now);
        link
    }

    /// Accepts.
    pub fn accept(&mut self, link: &Link, data: &[u8]) {
        let now = self.now();
        let params = AcceptParams {
            private_data: data.to_vec(),
            initiator_depth: 8,
            responder_resources: 0,
            rnr_retry: 7,
        };
        self.target.manager.accept(now, link.conn, &params).expect("accept");
    }

    /// Waits until both ends say that the connection is up; gives the accept's private data.
    pub fn up(&mut self, target: &Link, host: &Link) -> Vec<u8> {
        let (t, h) = (target.conn, host.conn);
        let data = self.until("Connected", |b| {
            take(&mut b.host.events, |e| match e {
                CmEvent::Connected { conn, private_data, .. } if *conn == h => {
                    Some(private_data.clone())
                }
                CmEvent::Refused { reason, .. } => panic!("refused: {reason}"),
                _ => None,
            })
        });
        self.until("Established", |b| {
            take(&mut b.target.events, |e| (*e == CmEvent::Established(t)).then_some(()))
        });
        data
    }

    /// A connection with `recvs` (at least 1) receives posted on each side, over which the host
    /// has spoken first, as iWARP demands; (target's view, host's view).
    pub fn connected(&mut self, shared: bool, recvs: u32) -> (Link, Link) {
        let host = self.ask(b"", recvs);
        let request = self.request();
        let target = self.prepare(&request, shared, recvs);
        self.accept(&target, b"");
        self.up(&target, &host);
        self.host.send(&host, 0, data_span(0, 16));
        let hello = self.next_wc(true);
        assert_eq!((arrived(&hello), hello.qp), (16, target.qp()));
        assert!(self.next_wc(false).is_ok());
        self.target.post_recvs(&target, hello.wr_id.0 as u32..hello.wr_id.0 as u32 + 1);
        (target, host)
    }

    /// Waits for the next completion of the target, or of the host.
    pub fn next_wc(&mut self, at_target: bool) -> Wc {
        let what = if at_target { "a completion at the target" } else { "one at the host" };
        self.until(what, |b| {
            let done = if at_target { &mut b.target.done } else { &mut b.host.done };
            (!done.is_empty()).then(|| done.remove(0))
        })
    }

    /// Waits for the next `count` completions.
    pub fn next_wcs(&mut self, at_target: bool, count: usize) -> Vec<Wc> {
        (0..count).map(|_| self.next_wc(at_target)).collect()
    }

    /// Waits until the end of a connection is told, on the target or the host.
    pub fn ended(&mut self, at_target: bool, link: &Link) {
        let conn = link.conn;
        self.until("Disconnected", |b| {
            let side_events = if at_target { &mut b.target.events } else { &mut b.host.events };
            take(side_events, |e| match e {
                CmEvent::Disconnected { conn: c, .. } if *c == conn => Some(()),
                _ => None,
            })
        });
    }

    /// Waits until one of the ends says that the connection ended, or a work request of the target
    /// failed.
    pub fn ended_or_failed(&mut self, target: &Link, host: &Link) {
        let conns = [target.conn, host.conn];
        self.until("the connection to fail", |b| {
            let ended = |e: &CmEvent| match e {
                CmEvent::Disconnected { conn, .. } => conns.contains(conn),
                _ => false,
            };
            let told = b.target.events.iter().any(ended) || b.host.events.iter().any(ended);
            (told || b.target.done.iter().any(|w| !w.is_ok())).then_some(())
        });
    }

    /// Fails both queue pairs, waits for `owed` completions in all (target, host), frees all.
    pub fn tear_down(&mut self, target: &Link, host: &Link, owed: (usize, usize)) {
        let now = self.now();
        self.host.manager.disconnect(now, host.conn);
        self.target.manager.disconnect(now, target.conn);
        self.target.device.fail(target.qp());
        self.host.device.fail(host.qp());
        self.next_wcs(true, owed.0);
        self.next_wcs(false, owed.1);
        self.target.free(target);
        self.host.free(host);
    }
}

impl<P: Provider> Side<P> {
    /// Sleeps until the armed device has something, at most `limit`; returns whether it had.
    pub fn sleep(&self, limit: Duration) -> bool {
        let mut sources = Vec::new();
        self.device.wait_sources(&mut sources);
        let timeout = Timespec::try_from(limit).expect("seconds");
        let mut fds: Vec<PollFd<'_>> =
            sources.iter().map(|s| PollFd::from_borrowed_fd(*s, PollFlags::IN)).collect();
        rustix::event::poll(&mut fds, Some(&timeout)).expect("poll") > 0
    }

    /// Detaches and destroys.
    pub fn free(&mut self, link: &Link) {
        let endpoint = self.device.detach(link.qp());
        self.manager.destroy(link.conn, endpoint);
        self.events
            .retain(|e| !matches!(e, CmEvent::Disconnected { conn, .. } if *conn == link.conn));
    }

    /// Posts receives: number `i` has its 64 + 4096 bytes at [`recv_span`].
    pub fn post_recvs(&mut self, link: &Link, which: std::ops::Range<u32>) {
        for i in which {
            let span = recv_span(i);
            let wr = RecvWr {
                wr_id: WrId(u64::from(i)),
                head: span.slice(0, 64),
                tail: span.slice(64, 4096),
            };
            self.device.post_recv(link.at.recv_queue.id, wr);
        }
    }

    /// Posts a SEND of `span`.
    pub fn send(&mut self, link: &Link, id: u64, span: Span) {
        self.post(link, id, SendOp::Send, span, true);
    }

    /// Posts any send-side work request.
    pub fn post(&mut self, link: &Link, id: u64, op: SendOp, local: Span, signaled: bool) {
        self.device.post_send(link.qp(), SendWr { wr_id: WrId(id), op, local, signaled });
    }

    /// Bytes of a span.
    pub fn bytes(&self, span: Span) -> Vec<u8> {
        let mut out = vec![0; span.len() as usize];
        self.region.read(span, &mut out);
        out
    }
}

/// Where receive `i` puts its message: in the first MiB.
pub(crate) fn recv_span(i: u32) -> Span {
    Span::new(i * 8192, 64 + 4096)
}

/// Where data is kept: block `i` of 64 KiB, after the first MiB.
pub(crate) fn data_span(i: u32, len: u32) -> Span {
    assert!(len <= 65536);
    Span::new((1 << 20) + i * 65536, len)
}

/// Bytes of a message that arrived; panics when the completion is of something else.
pub(crate) fn arrived(wc: &Wc) -> u32 {
    assert!(wc.is_ok(), "{wc:?}");
    match wc.op {
        WcOp::Recv { byte_len, .. } => byte_len,
        WcOp::Send => panic!("not a receive: {wc:?}"),
    }
}

/// Takes the first event that `pick` gives something for.
pub fn take<T>(events: &mut Vec<CmEvent>, pick: impl Fn(&CmEvent) -> Option<T>) -> Option<T> {
    let at = events.iter().position(|e| pick(e).is_some())?;
    pick(&events.remove(at))
}
