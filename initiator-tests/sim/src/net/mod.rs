//! A network of RDMA devices, made of chance: implements both halves of the seam for every node.
//!
//! # What it does
//! Messages of one queue pair arrive in the order posted, each after a latency drawn anew; messages
//! of different queue pairs overtake each other. The sender's memory is read when the message
//! arrives and an RDMA READ's destination is written when its answer comes, so that a buffer reused
//! early is noticed. Completions come later still, in posting order.
//!
//! # What it checks
//! Every rule that the seam states for its callers: depths, READs outstanding, no SEND before the
//! connection is up, nothing outstanding at detach, every endpoint destroyed once. Towards a
//! *trusted* node (a well-behaved host) also: no SEND without a receive posted, no access outside
//! of opened memory. What is broken is put down as a violation; the world looks at the list every
//! turn.

mod cm;
mod device;
mod transport;

pub use cm::SimCm;
pub use device::SimDevice;

use crate::rng::Rng;
use rdma::{CmEvent, ConnId, QpLimits, RecvWr, SendWr, Wc, WcStatus};
use region::{Region, Span};
use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

/// Nanoseconds since the start.
pub(crate) type Nanos = u64;

/// How the network behaves. Chances are per 10,000.
#[derive(Debug, Clone)]
pub struct NetConfig {
    /// Latency of a message in nanoseconds: least and most.
    pub latency: (u64, u64),
    /// Chance that a message takes a hundred times as long.
    pub slow: u32,
    /// Chance that a connect request is rejected on the way.
    pub refuse: u32,
    /// Chance that a connect request or its answer is lost.
    pub lose_connect: u32,
    /// Chance, at each poll, that fewer completions are handed out than there are.
    pub short_poll: u32,
    /// SENDs up to this length are copied when posted.
    pub max_inline: u32,
    /// RDMA READs that a device can have outstanding per queue pair.
    pub device_reads: u8,
    /// Work requests that a queue pair of a device can hold.
    pub max_qp_wr: u32,
    /// Whether devices have a shared receive queue, and of what depth.
    pub shared_recv: Option<u32>,
}

impl NetConfig {
    /// Faults off; latencies stay.
    pub fn calm(&mut self) {
        self.slow = 0;
        self.refuse = 0;
        self.lose_connect = 0;
    }
}

/// A fault planted to show that it is caught.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NetFault {
    /// A successful SEND of an untrusted node's device never completes.
    LoseSendCompletion,
    /// The memory of a SEND is read long after it completed.
    StaleSend,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum QpState {
    /// Made; receives may be posted, and messages arrive.
    Init,
    /// May send.
    Ready,
    Error,
    Destroyed,
}

#[derive(Debug)]
struct Entry {
    wr: SendWr,
    /// Copied when posted.
    inline: Option<[u8; 64]>,
    /// What an RDMA READ brings, from its arrival on.
    answer: Vec<u8>,
    arrive_at: Nanos,
    executed: bool,
    /// When the sender knows, once it is decided.
    done_at: Option<Nanos>,
    status: WcStatus,
}

#[derive(Debug)]
struct Qp {
    device: usize,
    /// Id while attached.
    local: Option<u32>,
    peer: Option<usize>,
    state: QpState,
    limits: QpLimits,
    rq: usize,
    staged: Vec<Entry>,
    sq: VecDeque<Entry>,
    last_arrival: Nanos,
    last_done: Nanos,
    /// Executed entries lead the send queue: how many.
    executed: usize,
    /// Nothing arrives before: the receiver was not ready.
    rnr_until: Nanos,
    reads_out: u32,
    /// Posted and not yet seen completed by the caller.
    sends_held: u32,
    /// Successful unsignaled entries whose successor has not completed.
    unsignaled_done: u32,
    /// Receives of an own queue that the caller has not seen completed.
    recvs_held: u32,
}

#[derive(Debug)]
struct Rq {
    device: usize,
    local: u32,
    shared: bool,
    depth: u32,
    staged: Vec<RecvWr>,
    posted: VecDeque<RecvWr>,
    /// Queue pair of an own queue.
    owner: Option<usize>,
}

#[derive(Debug, Clone)]
struct Key {
    qp: usize,
    span: Span,
    writable: bool,
    valid: bool,
    generation: u8,
}

/// A completion on its way to the caller.
#[derive(Debug)]
struct Cqe {
    qp: usize,
    wc: Wc,
    /// Send-side entries that it stands for.
    retires: u32,
    /// The receive it used up, for handing it back when the queue pair is gone.
    recv: Option<(usize, RecvWr)>,
}

#[derive(Debug)]
struct Dev {
    node: usize,
    region: Arc<Region>,
    /// Address of the region's first byte, as peers know it.
    base: u64,
    /// Attached queue pairs by local id.
    locals: Vec<Option<usize>>,
    /// Receive queues by local id.
    rqs: Vec<usize>,
    shared_rq: Option<usize>,
    cq: VecDeque<Cqe>,
    keys: Vec<Key>,
    free_keys: Vec<u32>,
    staged_qps: Vec<usize>,
    staged_rqs: Vec<usize>,
}

#[derive(Debug)]
struct Node {
    addr: SocketAddr,
    trusted: bool,
    inbox: VecDeque<CmEvent>,
    /// Devices by core.
    devices: BTreeMap<u16, usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    /// Knows nothing (yet).
    Unaware,
    /// Passive: told of the request. Active: opened.
    Known,
    /// Passive: accepted. Active: request sent.
    Waiting,
    Up,
    /// Told, or said itself, that it is over.
    Over,
}

#[derive(Debug)]
struct Conn {
    /// Active, passive.
    nodes: [usize; 2],
    sides: [Side; 2],
    qps: [Option<usize>; 2],
    request: Option<rdma::ConnectParams>,
    /// RDMA READs that the passive side may have outstanding.
    reads: u8,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// Entries of a queue pair may arrive.
    Arrive(usize),
    /// Entries of a queue pair may complete.
    Complete(usize),
    /// A queue pair fails.
    Fail(usize),
    /// The receives of a failed queue pair come back.
    FlushRecvs(usize),
    /// The connect request arrives.
    Request(u64),
    /// The accept arrives, with an index into the accepts kept.
    Accepted(u64, usize),
    /// The active side's confirmation arrives.
    Confirmed(u64),
    /// The reject arrives, with an index into the rejects kept.
    Refused(u64, usize),
    /// One side (0 active, 1 passive) learns that it is over.
    Over(u64, usize),
}

/// The network's state. Shared by all handles through [`Fabric`].
#[derive(Debug)]
pub(crate) struct Net {
    config: NetConfig,
    rng: Rng,
    now: Nanos,
    seq: u64,
    events: BinaryHeap<Reverse<(Nanos, u64, Event)>>,
    nodes: Vec<Node>,
    devices: Vec<Dev>,
    qps: Vec<Qp>,
    rqs: Vec<Rq>,
    conns: Vec<Conn>,
    listeners: Vec<(usize, SocketAddr, bool)>,
    accepts: Vec<rdma::AcceptParams>,
    refusals: Vec<(String, Vec<u8>)>,
    violations: Vec<String>,
    plant: Option<NetFault>,
}

/// A handle to the network.
#[derive(Debug, Clone)]
pub struct Fabric(Rc<RefCell<Net>>);

impl Fabric {
    /// A network without nodes.
    pub fn new(config: NetConfig, rng: Rng) -> Fabric {
        Fabric(Rc::new(RefCell::new(Net {
            config,
            rng,
            now: 0,
            seq: 0,
            events: BinaryHeap::new(),
            nodes: Vec::new(),
            devices: Vec::new(),
            qps: Vec::new(),
            rqs: Vec::new(),
            conns: Vec::new(),
            listeners: Vec::new(),
            accepts: Vec::new(),
            refusals: Vec::new(),
            violations: Vec::new(),
            plant: None,
        })))
    }

    /// Adds a node. A *trusted* one never gives a peer reason for a failed access, so that one is
    /// a violation of its peer.
    pub fn add_node(&self, addr: SocketAddr, trusted: bool) -> SimCm {
        let mut net = self.0.borrow_mut();
        net.nodes.push(Node { addr, trusted, inbox: VecDeque::new(), devices: BTreeMap::new() });
        let node = net.nodes.len() - 1;
        drop(net);
        SimCm::new(self.clone(), node)
    }

    /// Opens the device of a node for a core, over the core's region.
    pub fn open_device(&self, cm: &SimCm, core: rdma::CoreIndex, region: Arc<Region>) -> SimDevice {
        let mut net = self.0.borrow_mut();
        let device = net.devices.len();
        // Far apart, and never zero, so that an offset taken for an address is refused.
        let base = (0x1000 + device as u64) << 36 | net.rng.below(1 << 20) << 12;
        net.devices.push(Dev {
            node: cm.node(),
            region,
            base,
            locals: Vec::new(),
            rqs: Vec::new(),
            shared_rq: None,
            cq: VecDeque::new(),
            keys: Vec::new(),
            free_keys: Vec::new(),
            staged_qps: Vec::new(),
            staged_rqs: Vec::new(),
        });
        net.nodes[cm.node()].devices.insert(core.0, device);
        drop(net);
        SimDevice::new(self.clone(), device)
    }

    /// Lets everything happen that is due at `now`.
    pub fn advance(&self, now: rdma::Now) -> bool {
        self.0.borrow_mut().advance(now.as_nanos() as Nanos)
    }

    /// When the next thing happens.
    pub fn next_event(&self) -> Option<rdma::Now> {
        let net = self.0.borrow();
        net.events.peek().map(|Reverse((at, ..))| rdma::Now::from_nanos(*at))
    }

    /// Ends a connection as a pulled cable does: nobody is told at once.
    pub fn cut(&self, conn: ConnId) {
        self.0.borrow_mut().cut(conn.0);
    }

    /// A node loses power: its connections end without a word, its queue pairs are gone, and it
    /// listens no more.
    pub fn power_off(&self, addr: SocketAddr) {
        let mut net = self.0.borrow_mut();
        let gone = |node: &Node| node.addr == addr;
        let Some(node) = net.nodes.iter().rposition(gone) else { return };
        for listener in net.listeners.iter_mut().filter(|listener| listener.0 == node) {
            listener.2 = false;
        }
        for conn in 0..net.conns.len() {
            if net.conns[conn].nodes.contains(&node) {
                net.cut(conn as u64);
            }
        }
        for qp in 0..net.qps.len() {
            let device = net.qps[qp].device;
            if net.devices[device].node == node && net.qps[qp].state != QpState::Destroyed {
                net.qps[qp].local = None;
                net.destroy_qp(qp);
            }
        }
        for device in net.devices.iter_mut().filter(|device| device.node == node) {
            device.cq.clear();
        }
        net.nodes[node].inbox.clear();
    }

    /// Connections that are up on both sides.
    pub fn live_connections(&self) -> Vec<ConnId> {
        let net = self.0.borrow();
        let up = |conn: &(usize, &Conn)| conn.1.sides == [Side::Up, Side::Up];
        net.conns.iter().enumerate().filter(up).map(|(at, _)| ConnId(at as u64)).collect()
    }

    /// Turns faults off.
    pub fn calm(&self) {
        self.0.borrow_mut().config.calm();
    }

    /// Plants a fault.
    pub fn plant(&self, fault: NetFault) {
        self.0.borrow_mut().plant = Some(fault);
    }

    /// The first violation, if there was one.
    pub fn violation(&self) -> Option<String> {
        self.0.borrow().violations.first().cloned()
    }

    /// Queue pairs made and not destroyed.
    pub fn queue_pairs(&self) -> usize {
        self.0.borrow().qps.iter().filter(|qp| qp.state != QpState::Destroyed).count()
    }

    /// Keys that open memory now.
    pub fn open_keys(&self) -> usize {
        let net = self.0.borrow();
        net.devices.iter().flat_map(|dev| &dev.keys).filter(|key| key.valid).count()
    }

    /// Completions that nobody has taken.
    pub fn completions_waiting(&self) -> usize {
        self.0.borrow().devices.iter().map(|dev| dev.cq.len()).sum()
    }
}

impl Net {
    fn violation(&mut self, what: String) {
        self.violations.push(what);
    }

    fn schedule(&mut self, at: Nanos, event: Event) {
        self.seq += 1;
        self.events.push(Reverse((at, self.seq, event)));
    }

    /// How long a message takes.
    fn latency(&mut self) -> Nanos {
        let (low, high) = self.config.latency;
        let usual = self.rng.range(low, high);
        if self.rng.chance(self.config.slow) { usual * 100 } else { usual }
    }

    fn advance(&mut self, now: Nanos) -> bool {
        self.now = self.now.max(now);
        let mut worked = false;
        while let Some(Reverse((at, ..))) = self.events.peek() {
            if *at > self.now {
                break;
            }
            let Some(Reverse((_, _, event))) = self.events.pop() else { break };
            worked = true;
            match event {
                Event::Arrive(qp) => self.on_arrive(qp),
                Event::Complete(qp) => self.on_complete(qp),
                Event::Fail(qp) => self.fail(qp),
                Event::FlushRecvs(qp) => self.flush_recvs(qp, self.qps[qp].rq),
                Event::Request(conn) => self.on_request(conn),
                Event::Accepted(conn, index) => self.on_accepted(conn, index),
                Event::Confirmed(conn) => self.on_confirmed(conn),
                Event::Refused(conn, index) => self.on_refused(conn, index),
                Event::Over(conn, side) => self.on_over(conn, side),
            }
        }
        worked
    }

    /// Whether the peer of a queue pair gives no reason for failed accesses.
    fn peer_is_trusted(&self, qp: usize) -> bool {
        let peer = self.qps[qp].peer.map(|peer| self.devices[self.qps[peer].device].node);
        peer.is_some_and(|node| self.nodes[node].trusted)
    }
}

#[cfg(test)]
mod tests;
