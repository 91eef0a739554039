//! A device and a disk that do nothing by themselves, and complain when the core breaks a rule.

use backing::{BackingId, BlockIo, IoDone, IoError, IoOp, IoRequest};
use rdma::{
    Attached, Device, Now, PollSource, QpId, QpLimits, RecvQueue, RecvQueueId, RecvWr, SendOp,
    SendWr, Wc, WcOp, WcStatus,
};
use region::Region;
use std::collections::{BTreeMap, VecDeque};
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// A queue pair as it travels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FakeEndpoint {
    pub(super) qp: QpId,
    pub(super) recv_queue: RecvQueue,
    pub(super) limits: QpLimits,
}

/// A queue pair.
#[derive(Debug)]
struct FakeQp {
    endpoint: FakeEndpoint,
    failed: bool,
    /// Posted and not completed, in order.
    sends: VecDeque<SendWr>,
}

/// The RDMA world.
#[derive(Debug)]
pub(super) struct FakeDevice {
    region: Arc<Region>,
    qps: BTreeMap<u32, FakeQp>,
    recvs: BTreeMap<u32, VecDeque<RecvWr>>,
    wcs: VecDeque<Wc>,
    /// What was posted to queue pairs since this was last emptied.
    pub(super) posted_now: Vec<(QpId, SendWr)>,
    /// Receives and sends in the order in which they were posted: the queue's id, or none for a
    /// send.
    pub(super) order: Vec<Option<RecvQueueId>>,
    /// Calls of flush.
    pub(super) flushes: usize,
}

impl FakeDevice {
    pub(super) fn new(region: &Arc<Region>) -> FakeDevice {
        FakeDevice {
            region: Arc::clone(region),
            qps: BTreeMap::new(),
            recvs: BTreeMap::new(),
            wcs: VecDeque::new(),
            posted_now: Vec::new(),
            order: Vec::new(),
            flushes: 0,
        }
    }

    /// A message from the peer into the next receive.
    pub(super) fn deliver(&mut self, qp: QpId, capsule: &[u8], data: &[u8]) {
        let queue = self.qps[&qp.0].endpoint.recv_queue.id;
        let recv = self.recvs.get_mut(&queue.0).unwrap().pop_front().expect("a posted receive");
        self.region.write(recv.head, capsule);
        self.region.write(recv.tail, data);
        let byte_len = (capsule.len() + data.len()) as u32;
        let op = WcOp::Recv { byte_len, invalidated: None };
        self.wcs.push_back(Wc { wr_id: recv.wr_id, qp, op, status: WcStatus::Success });
    }

    /// A receive of a shared queue ends for a queue pair that is gone.
    pub(super) fn stray_recv(&mut self, queue: RecvQueueId, qp: QpId) {
        let recv = self.recvs.get_mut(&queue.0).unwrap().pop_front().unwrap();
        let op = WcOp::Recv { byte_len: 0, invalidated: None };
        self.wcs.push_back(Wc { wr_id: recv.wr_id, qp, op, status: WcStatus::Flushed });
    }

    pub(super) fn posted_recvs(&self, queue: RecvQueueId) -> usize {
        self.recvs.get(&queue.0).map_or(0, VecDeque::len)
    }

    /// Whether a message could be delivered on this queue pair.
    pub(super) fn can_deliver(&self, qp: QpId) -> bool {
        self.qps
            .get(&qp.0)
            .is_some_and(|pair| !pair.failed && self.posted_recvs(pair.endpoint.recv_queue.id) > 0)
    }

    /// Completes the oldest work request of a queue pair with a status; returns whether there was
    /// one.
    pub(super) fn complete(&mut self, qp: QpId, status: WcStatus) -> bool {
        let Some(pair) = self.qps.get_mut(&qp.0) else { return false };
        let Some(wr) = pair.sends.pop_front() else { return false };
        if wr.signaled || status != WcStatus::Success {
            self.wcs.push_back(Wc { wr_id: wr.wr_id, qp, op: WcOp::Send, status });
        }
        true
    }

    /// Completes everything posted, well.
    pub(super) fn complete_all(&mut self) {
        let qps: Vec<u32> = self.qps.keys().copied().collect();
        for qp in qps {
            while self.complete(QpId(qp), WcStatus::Success) {}
        }
    }

    pub(super) fn is_failed(&self, qp: QpId) -> bool {
        self.qps[&qp.0].failed
    }
}

impl Device for FakeDevice {
    type Endpoint = FakeEndpoint;

    fn attach(&mut self, endpoint: FakeEndpoint) -> Attached {
        let FakeEndpoint { qp, recv_queue, limits } = endpoint;
        let pair = FakeQp { endpoint, failed: false, sends: VecDeque::new() };
        assert!(self.qps.insert(qp.0, pair).is_none());
        Attached { qp, recv_queue, limits }
    }

    fn detach(&mut self, qp: QpId) -> FakeEndpoint {
        let pair = self.qps.remove(&qp.0).expect("an attached queue pair");
        assert!(pair.sends.is_empty(), "detached with sends posted");
        let queue = pair.endpoint.recv_queue;
        if !queue.shared {
            assert_eq!(self.posted_recvs(queue.id), 0, "detached with receives posted");
        }
        pair.endpoint
    }

    /// As a provider may, leaves out the flush of unsignaled work.
    fn fail(&mut self, qp: QpId) {
        let pair = self.qps.get_mut(&qp.0).expect("an attached queue pair");
        if std::mem::replace(&mut pair.failed, true) {
            return;
        }
        let status = WcStatus::Flushed;
        for wr in pair.sends.drain(..).filter(|wr| wr.signaled) {
            self.wcs.push_back(Wc { wr_id: wr.wr_id, qp, op: WcOp::Send, status });
        }
        let queue = pair.endpoint.recv_queue;
        if !queue.shared {
            let op = WcOp::Recv { byte_len: 0, invalidated: None };
            for recv in self.recvs.entry(queue.id.0).or_default().drain(..) {
                self.wcs.push_back(Wc { wr_id: recv.wr_id, qp, op, status });
            }
        }
    }

    fn post_recv(&mut self, queue: RecvQueueId, wr: RecvWr) {
        assert_eq!(wr.head.len(), 64);
        self.order.push(Some(queue));
        self.recvs.entry(queue.0).or_default().push_back(wr);
    }

    fn post_send(&mut self, qp: QpId, wr: SendWr) {
        let pair = self.qps.get_mut(&qp.0).expect("an attached queue pair");
        let limits = pair.endpoint.limits;
        assert!(!pair.failed, "posted to a failed queue pair");
        pair.sends.push_back(wr);
        assert!(pair.sends.len() <= limits.max_send_wr as usize, "send queue overrun");
        let reads = pair.sends.iter().filter(|wr| matches!(wr.op, SendOp::Read { .. })).count();
        assert!(reads <= limits.max_reads as usize, "too many READs");
        self.posted_now.push((qp, wr));
        self.order.push(None);
    }

    fn flush(&mut self, _now: Now) {
        self.flushes += 1;
    }

    fn poll_cq(&mut self, _now: Now, max: usize, out: &mut Vec<Wc>) -> usize {
        let count = max.min(self.wcs.len());
        out.extend(self.wcs.drain(..count));
        count
    }

    fn arm(&mut self) {}

    fn wait_sources<'a>(&'a self, _out: &mut Vec<PollSource<'a>>) {}

    fn timeout(&self) -> Option<Now> {
        None
    }
}

/// The storage world.
#[derive(Debug)]
pub(super) struct FakeIo {
    region: Arc<Region>,
    pub(super) backings: Vec<BackingId>,
    pub(super) requests: VecDeque<IoRequest>,
    done: Vec<IoDone>,
}

impl FakeIo {
    pub(super) fn new(region: &Arc<Region>) -> FakeIo {
        FakeIo {
            region: Arc::clone(region),
            backings: Vec::new(),
            requests: VecDeque::new(),
            done: Vec::new(),
        }
    }

    /// Ends the oldest operation. A read fills its buffer with the low byte of the offset in
    /// blocks.
    pub(super) fn finish(&mut self, result: Result<(), IoError>) {
        let request = self.requests.pop_front().expect("an operation");
        if request.op == IoOp::Read && result.is_ok() {
            self.region.fill(request.buffer, (request.offset / 512) as u8);
        }
        self.done.push(IoDone { tag: request.tag, result });
    }
}

impl BlockIo for FakeIo {
    type Backing = ();

    fn add(&mut self, id: BackingId, _backing: ()) {
        self.backings.push(id);
    }

    fn remove(&mut self, id: BackingId) {
        assert!(self.requests.iter().all(|request| request.backing != id));
        self.backings.retain(|known| *known != id);
    }

    fn submit(&mut self, _now: Now, request: IoRequest) {
        assert!(self.backings.contains(&request.backing));
        if matches!(request.op, IoOp::Read | IoOp::Write { .. }) {
            assert_eq!(u64::from(request.buffer.len()), request.len);
            assert_eq!(request.buffer.offset() % 4096, 0);
        }
        self.requests.push_back(request);
    }

    fn flush(&mut self, _now: Now) {}

    fn poll(&mut self, _now: Now, out: &mut Vec<IoDone>) -> usize {
        out.append(&mut self.done);
        out.len()
    }

    fn in_flight(&self) -> usize {
        self.requests.len() + self.done.len()
    }

    fn wait_source(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}
