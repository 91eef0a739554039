//! All connections and what moves them.

use super::MAX_HALF_OPEN;
use super::connection::{
    Connection, DISCONNECT_REPEATS, FIRST_WAIT, LINGER, REPEATS, Repeat, State,
};
use crate::psn::Psn;
use crate::wire::cm::{
    Answered, Mad, Message, REJ_PRIVATE, REP_PRIVATE, REQ_PRIVATE, Rej, Rep, Req, reason,
};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use rdma::{ConnId, Now};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::net::{IpAddr, SocketAddr};

/// A message on its way out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Datagram {
    pub(crate) from: IpAddr,
    pub(crate) to: IpAddr,
    pub(crate) mad: Mad,
}

/// What happened to a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Event {
    /// A peer asks; `local` is the address that it reached.
    Request { conn: ConnId, local: SocketAddr, req: Box<Req> },
    /// Passive: the peer is ready to use it.
    Established(ConnId),
    /// Active: the peer accepted.
    Accepted { conn: ConnId, rep: Box<Rep> },
    /// Active: the peer, or nobody, refused.
    Refused { conn: ConnId, reason: String, private_data: Vec<u8> },
    /// It has ended.
    Ended { conn: ConnId, reason: String },
}

/// Our half of an accepted connection.
#[derive(Debug, Clone)]
pub(crate) struct Reply {
    pub(crate) qpn: u32,
    pub(crate) starting_psn: Psn,
    pub(crate) responder_resources: u8,
    pub(crate) initiator_depth: u8,
    pub(crate) rnr_retry: u8,
    pub(crate) private_data: Vec<u8>,
}

/// Our half of a connection that we ask for.
#[derive(Debug, Clone)]
pub(crate) struct ActiveOpen {
    pub(crate) local: IpAddr,
    pub(crate) to: SocketAddr,
    pub(crate) qpn: u32,
    pub(crate) starting_psn: Psn,
    pub(crate) mtu_code: u8,
    pub(crate) traffic_class: u8,
    pub(crate) responder_resources: u8,
    pub(crate) initiator_depth: u8,
    pub(crate) private_data: Vec<u8>,
}

/// See the module's words.
#[derive(Debug)]
pub(crate) struct Machine {
    rng: StdRng,
    guid: u64,
    next_conn: u64,
    connections: BTreeMap<ConnId, Connection>,
    by_comm_id: HashMap<u32, ConnId>,
    /// Passive connections by the peer's address and communication id.
    by_peer: HashMap<(IpAddr, u32), ConnId>,
    half_open: usize,
    /// No connection's timer is due before this.
    deadline: Option<Now>,
    out: VecDeque<Datagram>,
    events: VecDeque<Event>,
}

impl Machine {
    /// A machine with no connections. Communication ids and the like come from `seed`.
    pub(crate) fn new(seed: [u8; 32]) -> Machine {
        let mut rng = StdRng::from_seed(seed);
        Machine {
            guid: rng.random(),
            rng,
            next_conn: 1,
            connections: BTreeMap::new(),
            by_comm_id: HashMap::new(),
            by_peer: HashMap::new(),
            half_open: 0,
            deadline: None,
            out: VecDeque::new(),
            events: VecDeque::new(),
        }
    }

    /// The next message to send.
    pub(crate) fn poll_transmit(&mut self) -> Option<Datagram> {
        self.out.pop_front()
    }

    /// The next event.
    pub(crate) fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// When [`on_time`](Machine::on_time) is due.
    pub(crate) fn timeout(&self) -> Option<Now> {
        self.deadline
    }

    /// Connections that are not forgotten yet.
    pub(crate) fn len(&self) -> usize {
        self.connections.len()
    }

    /// A message arrived at `local`. `listens` says whether someone listens on a port there.
    pub(crate) fn on_mad(
        &mut self,
        now: Now,
        local: IpAddr,
        from: IpAddr,
        mad: Mad,
        listens: impl Fn(SocketAddr) -> bool,
    ) {
        let transaction = mad.transaction;
        match mad.message {
            Message::Req(req) => self.on_req(now, local, from, transaction, *req, listens),
            Message::Rep(rep) => self.on_rep(local, from, transaction, rep),
            Message::Rtu { local_comm_id, remote_comm_id } => {
                let conn = self.find(from, remote_comm_id, local_comm_id);
                if let Some(conn) = conn
                    && conn.state == State::AwaitReady
                {
                    conn.state = State::Established;
                    conn.repeat = None;
                    let id = conn.id;
                    self.half_open -= 1;
                    self.events.push_back(Event::Established(id));
                }
            }
            Message::Rej(rej) => self.on_rej(now, from, &rej),
            Message::Mra { local_comm_id, remote_comm_id, timeout, .. } => {
                // The peer needs more time: wait that long before the next repeat.
                if let Some(conn) = self.find(from, remote_comm_id, local_comm_id)
                    && let Some(repeat) = &mut conn.repeat
                {
                    let wait = crate::wire::cm::timeout_ns(timeout.min(24));
                    repeat.due = now + std::time::Duration::from_nanos(wait);
                }
            }
            Message::Dreq { local_comm_id, remote_comm_id, qpn } => {
                let drep =
                    Message::Drep { local_comm_id: remote_comm_id, remote_comm_id: local_comm_id };
                let Some(conn) = self.find(from, remote_comm_id, local_comm_id) else {
                    // Of a connection long gone: the answer lets the peer forget it too.
                    self.send(local, from, transaction, drep);
                    return;
                };
                if conn.local_qpn != qpn {
                    return;
                }
                let (id, was) = (conn.id, conn.state);
                if was != State::Ended {
                    self.end(now, id);
                    if was != State::AwaitDisconnected {
                        let reason = "the peer disconnected".to_owned();
                        self.events.push_back(Event::Ended { conn: id, reason });
                    }
                }
                self.send(local, from, transaction, drep);
            }
            Message::Drep { local_comm_id, remote_comm_id } => {
                if let Some(conn) = self.find(from, remote_comm_id, local_comm_id)
                    && conn.state == State::AwaitDisconnected
                {
                    let id = conn.id;
                    self.end(now, id);
                }
            }
        }
    }

    fn on_req(
        &mut self,
        now: Now,
        local: IpAddr,
        from: IpAddr,
        transaction: u64,
        req: Req,
        listens: impl Fn(SocketAddr) -> bool,
    ) {
        if let Some(id) = self.by_peer.get(&(from, req.local_comm_id)) {
            // A repeat: so is our answer, if there is one yet.
            let conn = &self.connections[id];
            if let Some(last) = conn.last.clone() {
                self.out.push_back(Datagram { from: conn.local, to: conn.peer, mad: last });
            }
            return;
        }
        let reached = SocketAddr::new(local, req.port);
        let refusal = if !listens(reached) {
            Some(reason::INVALID_SERVICE_ID)
        } else if crate::wire::cm::mtu_bytes(req.mtu_code).is_none() {
            Some(reason::INVALID_MTU)
        } else if self.half_open >= MAX_HALF_OPEN {
            Some(reason::NO_RESOURCES)
        } else {
            None
        };
        if let Some(reason) = refusal {
            let rej = Rej {
                local_comm_id: 0,
                remote_comm_id: req.local_comm_id,
                answered: Answered::Req,
                reason,
                private_data: [0; REJ_PRIVATE],
            };
            self.send(local, from, transaction, Message::Rej(Box::new(rej)));
            return;
        }
        self.drop_stale(now, from, &req);
        let id = self.insert(Connection {
            id: ConnId(0),
            state: State::AwaitDecision,
            local_comm_id: 0,
            remote_comm_id: req.local_comm_id,
            local,
            peer: from,
            local_addr: reached,
            peer_addr: SocketAddr::new(from, req.source.port()),
            local_qpn: 0,
            remote_qpn: req.qpn,
            remote_guid: req.ca_guid,
            last: None,
            repeat: None,
            forget: None,
            passive: true,
            transaction,
        });
        self.by_peer.insert((from, req.local_comm_id), id);
        self.half_open += 1;
        self.events.push_back(Event::Request { conn: id, local: reached, req: Box::new(req) });
    }

    /// A peer that uses a queue pair number anew has lost the connection it had with it.
    fn drop_stale(&mut self, now: Now, from: IpAddr, req: &Req) {
        let stale = self.connections.values().find(|conn| {
            conn.peer == from
                && conn.remote_qpn == req.qpn
                && conn.remote_guid == req.ca_guid
                && matches!(conn.state, State::Established | State::AwaitReady)
        });
        if let Some(id) = stale.map(|conn| conn.id) {
            self.end(now, id);
            let reason = "the peer began anew with the same queue pair".to_owned();
            self.events.push_back(Event::Ended { conn: id, reason });
        }
    }

    fn on_rep(&mut self, local: IpAddr, from: IpAddr, transaction: u64, rep: Box<Rep>) {
        let Some(conn) = self.find_active(from, rep.remote_comm_id) else {
            return;
        };
        let rtu =
            Message::Rtu { local_comm_id: conn.local_comm_id, remote_comm_id: rep.local_comm_id };
        match conn.state {
            State::AwaitReply => {
                conn.state = State::Established;
                conn.repeat = None;
                conn.remote_comm_id = rep.local_comm_id;
                conn.remote_qpn = rep.qpn;
                conn.remote_guid = rep.ca_guid;
                let id = conn.id;
                self.half_open -= 1;
                self.events.push_back(Event::Accepted { conn: id, rep });
            }
            State::Established if conn.remote_comm_id == rep.local_comm_id => {}
            _ => return,
        }
        self.send(local, from, transaction, rtu);
    }

    fn on_rej(&mut self, now: Now, from: IpAddr, rej: &Rej) {
        let id = self.by_comm_id.get(&rej.remote_comm_id);
        let conn = id.and_then(|id| self.connections.get(id)).filter(|conn| conn.peer == from);
        let Some((id, state)) = conn.map(|conn| (conn.id, conn.state)) else { return };
        let text = format!("rejected by the peer, reason {}", reject_text(rej.reason));
        match state {
            State::AwaitReply => {
                self.end(now, id);
                let private_data = rej.private_data.to_vec();
                self.events.push_back(Event::Refused { conn: id, reason: text, private_data });
            }
            State::AwaitReady | State::Established => {
                self.end(now, id);
                self.events.push_back(Event::Ended { conn: id, reason: text });
            }
            State::AwaitDecision | State::AwaitDisconnected | State::Ended => {}
        }
    }

    /// Accepts a requested connection. `false` when it is gone already.
    pub(crate) fn accept(&mut self, now: Now, id: ConnId, reply: Reply) -> bool {
        let guid = self.guid;
        let Some(conn) = self.connections.get_mut(&id) else { return false };
        if conn.state != State::AwaitDecision {
            return false;
        }
        conn.state = State::AwaitReady;
        conn.local_qpn = reply.qpn;
        conn.repeat = Some(Repeat::starting(now, REPEATS));
        let rep = Rep {
            local_comm_id: conn.local_comm_id,
            remote_comm_id: conn.remote_comm_id,
            qpn: reply.qpn,
            starting_psn: reply.starting_psn,
            responder_resources: reply.responder_resources,
            initiator_depth: reply.initiator_depth,
            rnr_retry: reply.rnr_retry,
            ca_guid: guid,
            private_data: padded::<REP_PRIVATE>(&reply.private_data),
        };
        self.answer(id, Message::Rep(Box::new(rep)));
        self.note_timer(now + FIRST_WAIT);
        true
    }

    /// Refuses a requested connection with the upper layer's words.
    pub(crate) fn reject(&mut self, now: Now, id: ConnId, private_data: &[u8]) {
        let Some(conn) = self.connections.get(&id) else { return };
        if conn.state != State::AwaitDecision {
            return;
        }
        let rej = Rej {
            local_comm_id: conn.local_comm_id,
            remote_comm_id: conn.remote_comm_id,
            answered: Answered::Req,
            reason: reason::CONSUMER,
            private_data: padded::<REJ_PRIVATE>(private_data),
        };
        self.answer(id, Message::Rej(Box::new(rej)));
        self.end(now, id);
    }

    /// Asks `open.to` for a connection.
    pub(crate) fn open(&mut self, open: &ActiveOpen) -> ConnId {
        self.insert(Connection {
            id: ConnId(0),
            state: State::AwaitReply,
            local_comm_id: 0,
            remote_comm_id: 0,
            local: open.local,
            peer: open.to.ip(),
            local_addr: SocketAddr::new(open.local, 0),
            peer_addr: open.to,
            local_qpn: open.qpn,
            remote_qpn: 0,
            remote_guid: 0,
            last: None,
            repeat: None,
            forget: None,
            passive: false,
            transaction: 0,
        })
    }

    /// Sends the request of a connection that [`open`](Machine::open) made.
    pub(crate) fn connect(&mut self, now: Now, id: ConnId, open: &ActiveOpen) -> bool {
        let port = self.rng.random_range(0xc000..=0xffffu16);
        let flow_label = self.rng.random_range(1..1 << 20);
        let transaction = self.rng.random();
        let guid = self.guid;
        let Some(conn) = self.connections.get_mut(&id) else { return false };
        if conn.state != State::AwaitReply {
            return false;
        }
        conn.repeat = Some(Repeat::starting(now, REPEATS));
        conn.local_addr.set_port(port);
        let req = Req {
            local_comm_id: conn.local_comm_id,
            port: open.to.port(),
            ca_guid: guid,
            qpn: open.qpn,
            responder_resources: open.responder_resources,
            initiator_depth: open.initiator_depth,
            starting_psn: open.starting_psn,
            mtu_code: open.mtu_code,
            retry_count: 7,
            rnr_retry: 7,
            ack_timeout: 17,
            cm_timeout: 20,
            max_cm_retries: 15,
            local_gid: open.local,
            remote_gid: open.to.ip(),
            flow_label,
            traffic_class: open.traffic_class,
            hop_limit: 64,
            source: conn.local_addr,
            dest: open.to.ip(),
            private_data: padded::<REQ_PRIVATE>(&open.private_data),
        };
        let mad = Mad { transaction, message: Message::Req(Box::new(req)) };
        conn.last = Some(mad.clone());
        let (from, to) = (conn.local, conn.peer);
        self.half_open += 1;
        self.note_timer(now + FIRST_WAIT);
        self.out.push_back(Datagram { from, to, mad });
        true
    }

    /// Ends a connection from our side.
    pub(crate) fn disconnect(&mut self, now: Now, id: ConnId) {
        let Some(conn) = self.connections.get_mut(&id) else { return };
        match conn.state {
            State::Established | State::AwaitReady => {
                if conn.state == State::AwaitReady {
                    self.half_open -= 1;
                }
                conn.state = State::AwaitDisconnected;
                conn.repeat = Some(Repeat::starting(now, DISCONNECT_REPEATS));
                let transaction = self.rng.random();
                let message = Message::Dreq {
                    local_comm_id: conn.local_comm_id,
                    remote_comm_id: conn.remote_comm_id,
                    qpn: conn.remote_qpn,
                };
                let mad = Mad { transaction, message };
                conn.last = Some(mad.clone());
                let (from, to) = (conn.local, conn.peer);
                self.note_timer(now + FIRST_WAIT);
                self.out.push_back(Datagram { from, to, mad });
            }
            State::AwaitDecision => self.reject(now, id, &[]),
            State::AwaitReply => self.end(now, id),
            State::AwaitDisconnected | State::Ended => {}
        }
    }

    /// Lets the timers run that are due.
    pub(crate) fn on_time(&mut self, now: Now) {
        if self.deadline.is_none_or(|deadline| now < deadline) {
            return;
        }
        let due: Vec<ConnId> = self
            .connections
            .values()
            .filter(|conn| conn.due().is_some_and(|due| due <= now))
            .map(|conn| conn.id)
            .collect();
        for id in due {
            let conn = self.connections.get_mut(&id).expect("listed");
            if conn.state == State::Ended {
                self.forget(id);
                continue;
            }
            let again = conn.repeat.as_mut().is_some_and(|repeat| repeat.again(now));
            if again {
                if let Some(mad) = conn.last.clone() {
                    let (from, to) = (conn.local, conn.peer);
                    self.out.push_back(Datagram { from, to, mad });
                }
                continue;
            }
            let state = conn.state;
            self.end(now, id);
            match state {
                State::AwaitReply => {
                    let reason = "no answer from the peer".to_owned();
                    self.events.push_back(Event::Refused {
                        conn: id,
                        reason,
                        private_data: Vec::new(),
                    });
                }
                State::AwaitReady => {
                    let reason = "the peer did not confirm the connection".to_owned();
                    self.events.push_back(Event::Ended { conn: id, reason });
                }
                _ => {}
            }
        }
        self.deadline = self.connections.values().filter_map(Connection::due).min();
    }

    /// The addresses that a connection's upper layers know it by: ours and the peer's.
    pub(crate) fn addresses(&self, id: ConnId) -> Option<(SocketAddr, SocketAddr)> {
        self.connections.get(&id).map(|conn| (conn.local_addr, conn.peer_addr))
    }

    fn note_timer(&mut self, due: Now) {
        self.deadline = Some(self.deadline.map_or(due, |deadline| deadline.min(due)));
    }

    fn insert(&mut self, mut conn: Connection) -> ConnId {
        let id = ConnId(self.next_conn);
        self.next_conn += 1;
        let mut comm_id = self.rng.random();
        while comm_id == 0 || self.by_comm_id.contains_key(&comm_id) {
            comm_id = self.rng.random();
        }
        conn.id = id;
        conn.local_comm_id = comm_id;
        self.by_comm_id.insert(comm_id, id);
        self.connections.insert(id, conn);
        id
    }

    /// The connection of those ids, if the message comes from its peer.
    fn find(&mut self, from: IpAddr, ours: u32, theirs: u32) -> Option<&mut Connection> {
        let id = self.by_comm_id.get(&ours)?;
        let conn = self.connections.get_mut(id)?;
        // The peer's id is not known before its reply.
        let known = conn.remote_comm_id == theirs || conn.state == State::AwaitReply;
        (conn.peer == from && known).then_some(conn)
    }

    fn find_active(&mut self, from: IpAddr, ours: u32) -> Option<&mut Connection> {
        let id = self.by_comm_id.get(&ours)?;
        let conn = self.connections.get_mut(id)?;
        (conn.peer == from && !conn.passive).then_some(conn)
    }

    fn end(&mut self, now: Now, id: ConnId) {
        let Some(conn) = self.connections.get_mut(&id) else { return };
        let requested = conn.passive || conn.repeat.is_some();
        if matches!(conn.state, State::AwaitDecision | State::AwaitReady)
            || (conn.state == State::AwaitReply && requested)
        {
            self.half_open -= 1;
        }
        conn.state = State::Ended;
        conn.repeat = None;
        conn.forget = Some(now + LINGER);
        self.note_timer(now + LINGER);
    }

    fn forget(&mut self, id: ConnId) {
        if let Some(conn) = self.connections.remove(&id) {
            self.by_comm_id.remove(&conn.local_comm_id);
            if conn.passive {
                self.by_peer.remove(&(conn.peer, conn.remote_comm_id));
            }
        }
    }

    /// Sends the answer to a request and keeps it for repeats.
    fn answer(&mut self, id: ConnId, message: Message) {
        let conn = self.connections.get_mut(&id).expect("a known connection");
        let mad = Mad { transaction: conn.transaction, message };
        conn.last = Some(mad.clone());
        let (from, to) = (conn.local, conn.peer);
        self.out.push_back(Datagram { from, to, mad });
    }

    fn send(&mut self, from: IpAddr, to: IpAddr, transaction: u64, message: Message) {
        self.out.push_back(Datagram { from, to, mad: Mad { transaction, message } });
    }
}

fn padded<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut out = [0; N];
    let len = bytes.len().min(N);
    out[..len].copy_from_slice(&bytes[..len]);
    out
}

fn reject_text(code: u16) -> String {
    let words = match code {
        reason::NO_RESOURCES => "it has no resources",
        reason::TIMEOUT => "it waited in vain",
        reason::INVALID_SERVICE_ID => "nobody listens on that port",
        reason::UNSUPPORTED => "it does not support the request",
        reason::STALE_CONNECTION => "it still knows an older connection of this queue pair",
        reason::INVALID_MTU => "the path MTU does not suit it",
        reason::CONSUMER => "the application refused",
        _ => return code.to_string(),
    };
    format!("{code} ({words})")
}
