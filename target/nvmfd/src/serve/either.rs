//! Two providers side by side: some listeners on one, some on the other.
//!
//! Ids are told apart by their lowest bit: 0 for the first provider, 1 for the second. A core has a
//! device of each; one that no connection uses costs a branch a turn.

use rdma::cm::QpParams;
use rdma::{
    AcceptParams, Attached, CmError, CmEvent, ConnId, ConnectRequest, ConnectionManager, CoreIndex,
    Device, ListenError, ListenerId, Now, PollSource, QpId, RecvQueueId, RecvWr, SendWr, Wc,
    WireCounters,
};
use std::net::SocketAddr;

/// One of two.
#[derive(Debug)]
pub(super) enum Either<A, B> {
    First(A),
    Second(B),
}

/// Which of two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Which {
    First,
    Second,
}

impl Which {
    fn of_u64(id: u64) -> (Which, u64) {
        (if id & 1 == 0 { Which::First } else { Which::Second }, id >> 1)
    }

    fn of_u32(id: u32) -> (Which, u32) {
        let (which, inner) = Which::of_u64(u64::from(id));
        (which, inner as u32)
    }

    fn mark_u64(self, inner: u64) -> u64 {
        inner << 1 | u64::from(self == Which::Second)
    }

    fn mark_u32(self, inner: u32) -> u32 {
        inner << 1 | u32::from(self == Which::Second)
    }

    fn conn(self, inner: ConnId) -> ConnId {
        ConnId(self.mark_u64(inner.0))
    }

    fn listener(self, inner: ListenerId) -> ListenerId {
        ListenerId(self.mark_u32(inner.0))
    }
}

/// The connection managers of both.
#[derive(Debug)]
pub(super) struct EitherManager<A, B, F> {
    first: A,
    second: B,
    /// Decides for each listening address.
    choose: F,
    /// Whose events are asked for first, in turn.
    second_first: bool,
}

impl<A, B, F> EitherManager<A, B, F> {
    pub(super) fn new(first: A, second: B, choose: F) -> EitherManager<A, B, F> {
        EitherManager { first, second, choose, second_first: false }
    }

    pub(super) fn parts(&mut self) -> (&mut A, &mut B) {
        (&mut self.first, &mut self.second)
    }
}

fn marked(which: Which, event: CmEvent) -> CmEvent {
    match event {
        CmEvent::Request(request) => CmEvent::Request(ConnectRequest {
            conn: which.conn(request.conn),
            listener: which.listener(request.listener),
            ..request
        }),
        CmEvent::Established(conn) => CmEvent::Established(which.conn(conn)),
        CmEvent::Disconnected { conn, reason } => {
            CmEvent::Disconnected { conn: which.conn(conn), reason }
        }
        CmEvent::Connected { conn, private_data, initiator_depth, responder_resources } => {
            let conn = which.conn(conn);
            CmEvent::Connected { conn, private_data, initiator_depth, responder_resources }
        }
        CmEvent::Refused { conn, reason, private_data } => {
            CmEvent::Refused { conn: which.conn(conn), reason, private_data }
        }
        CmEvent::ListenerDown { listener, reason, absent } => {
            CmEvent::ListenerDown { listener: which.listener(listener), reason, absent }
        }
        CmEvent::ListenerUp { listener, device } => {
            CmEvent::ListenerUp { listener: which.listener(listener), device }
        }
    }
}

impl<A, B, F> ConnectionManager for EitherManager<A, B, F>
where
    A: ConnectionManager,
    B: ConnectionManager,
    F: FnMut(SocketAddr) -> Which,
{
    type Endpoint = Either<A::Endpoint, B::Endpoint>;

    fn listen(&mut self, now: Now, addr: SocketAddr) -> Result<ListenerId, ListenError> {
        let which = (self.choose)(addr);
        let inner = match which {
            Which::First => self.first.listen(now, addr)?,
            Which::Second => self.second.listen(now, addr)?,
        };
        Ok(which.listener(inner))
    }

    fn unlisten(&mut self, listener: ListenerId) {
        match Which::of_u32(listener.0) {
            (Which::First, inner) => self.first.unlisten(ListenerId(inner)),
            (Which::Second, inner) => self.second.unlisten(ListenerId(inner)),
        }
    }

    fn poll(&mut self, now: Now) -> Option<CmEvent> {
        self.second_first = !self.second_first;
        let (first, second) = (&mut self.first, &mut self.second);
        let mut one = || first.poll(now).map(|event| marked(Which::First, event));
        let mut other = || second.poll(now).map(|event| marked(Which::Second, event));
        if self.second_first { other().or_else(one) } else { one().or_else(other) }
    }

    fn prepare(
        &mut self,
        conn: ConnId,
        core: CoreIndex,
        params: &QpParams,
    ) -> Result<Self::Endpoint, CmError> {
        match Which::of_u64(conn.0) {
            (Which::First, inner) => {
                self.first.prepare(ConnId(inner), core, params).map(Either::First)
            }
            (Which::Second, inner) => {
                self.second.prepare(ConnId(inner), core, params).map(Either::Second)
            }
        }
    }

    fn accept(&mut self, now: Now, conn: ConnId, params: &AcceptParams) -> Result<(), CmError> {
        match Which::of_u64(conn.0) {
            (Which::First, inner) => self.first.accept(now, ConnId(inner), params),
            (Which::Second, inner) => self.second.accept(now, ConnId(inner), params),
        }
    }

    fn reject(&mut self, now: Now, conn: ConnId, private_data: &[u8]) {
        match Which::of_u64(conn.0) {
            (Which::First, inner) => self.first.reject(now, ConnId(inner), private_data),
            (Which::Second, inner) => self.second.reject(now, ConnId(inner), private_data),
        }
    }

    fn disconnect(&mut self, now: Now, conn: ConnId) {
        match Which::of_u64(conn.0) {
            (Which::First, inner) => self.first.disconnect(now, ConnId(inner)),
            (Which::Second, inner) => self.second.disconnect(now, ConnId(inner)),
        }
    }

    fn destroy(&mut self, conn: ConnId, endpoint: Self::Endpoint) {
        let inner = ConnId(conn.0 >> 1);
        match endpoint {
            Either::First(endpoint) => self.first.destroy(inner, endpoint),
            Either::Second(endpoint) => self.second.destroy(inner, endpoint),
        }
    }

    fn wait_sources<'a>(&'a self, out: &mut Vec<PollSource<'a>>) {
        self.first.wait_sources(out);
        self.second.wait_sources(out);
    }

    fn timeout(&self) -> Option<Now> {
        earlier(self.first.timeout(), self.second.timeout())
    }
}

/// The devices of both, for one core.
#[derive(Debug)]
pub(super) struct EitherDevice<A, B> {
    first: A,
    second: B,
}

impl<A, B> EitherDevice<A, B> {
    pub(super) fn new(first: A, second: B) -> EitherDevice<A, B> {
        EitherDevice { first, second }
    }
}

fn attached(which: Which, mut attached: Attached) -> Attached {
    attached.qp = QpId(which.mark_u32(attached.qp.0));
    attached.recv_queue.id = RecvQueueId(which.mark_u32(attached.recv_queue.id.0));
    attached
}

impl<A: Device, B: Device> Device for EitherDevice<A, B> {
    type Endpoint = Either<A::Endpoint, B::Endpoint>;

    fn attach(&mut self, endpoint: Self::Endpoint) -> Attached {
        match endpoint {
            Either::First(endpoint) => attached(Which::First, self.first.attach(endpoint)),
            Either::Second(endpoint) => attached(Which::Second, self.second.attach(endpoint)),
        }
    }

    fn detach(&mut self, qp: QpId) -> Self::Endpoint {
        match Which::of_u32(qp.0) {
            (Which::First, inner) => Either::First(self.first.detach(QpId(inner))),
            (Which::Second, inner) => Either::Second(self.second.detach(QpId(inner))),
        }
    }

    fn fail(&mut self, qp: QpId) {
        match Which::of_u32(qp.0) {
            (Which::First, inner) => self.first.fail(QpId(inner)),
            (Which::Second, inner) => self.second.fail(QpId(inner)),
        }
    }

    fn post_recv(&mut self, queue: RecvQueueId, wr: RecvWr) {
        match Which::of_u32(queue.0) {
            (Which::First, inner) => self.first.post_recv(RecvQueueId(inner), wr),
            (Which::Second, inner) => self.second.post_recv(RecvQueueId(inner), wr),
        }
    }

    fn post_send(&mut self, qp: QpId, wr: SendWr) {
        match Which::of_u32(qp.0) {
            (Which::First, inner) => self.first.post_send(QpId(inner), wr),
            (Which::Second, inner) => self.second.post_send(QpId(inner), wr),
        }
    }

    fn flush(&mut self, now: Now) {
        self.first.flush(now);
        self.second.flush(now);
    }

    fn poll_cq(&mut self, now: Now, max: usize, out: &mut Vec<Wc>) -> usize {
        // Half of the room for the first where both are busy.
        let before = out.len();
        let count = self.first.poll_cq(now, max.div_ceil(2), out);
        for wc in &mut out[before..] {
            wc.qp = QpId(Which::First.mark_u32(wc.qp.0));
        }
        let middle = out.len();
        let count = count + self.second.poll_cq(now, max - count, out);
        for wc in &mut out[middle..] {
            wc.qp = QpId(Which::Second.mark_u32(wc.qp.0));
        }
        count
    }

    fn arm(&mut self) {
        self.first.arm();
        self.second.arm();
    }

    fn wait_sources<'a>(&'a self, out: &mut Vec<PollSource<'a>>) {
        self.first.wait_sources(out);
        self.second.wait_sources(out);
    }

    fn timeout(&self) -> Option<Now> {
        earlier(self.first.timeout(), self.second.timeout())
    }

    fn read_window(&self, qp: QpId) -> u32 {
        match Which::of_u32(qp.0) {
            (Which::First, inner) => self.first.read_window(QpId(inner)),
            (Which::Second, inner) => self.second.read_window(QpId(inner)),
        }
    }

    fn counters(&self) -> WireCounters {
        let mut counters = self.first.counters();
        counters += self.second.counters();
        counters
    }
}

fn earlier(a: Option<Now>, b: Option<Now>) -> Option<Now> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}
