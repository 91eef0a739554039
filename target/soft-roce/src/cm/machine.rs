//! All connections and what moves them.

use super::connection::{
    Connection, DECIDE_WITHIN, DISCONNECT_REPEATS, FIRST_WAIT, LONGEST_MRA, REPEATS, Repeat, State,
};
use super::table::Table;
use crate::psn::Psn;
use crate::wire::cm::{
    Answered, Mad, Message, REJ_PRIVATE, REP_PRIVATE, REQ_PRIVATE, Rej, Rep, Req, reason,
};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use rdma::{ConnId, Now};
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

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
    table: Table,
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
            table: Table::new(),
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
        self.table.timeout()
    }

    /// Connections that are not forgotten yet.
    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    /// Panics when its books are wrong.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(crate) fn audit(&self) {
        self.table.audit();
    }

    /// Our communication id of a connection.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(crate) fn comm_id(&self, id: ConnId) -> u32 {
        self.table.get(id).map_or(0, |conn| conn.local_comm_id)
    }

    /// Whether a connection from that address of ours still has something to say.
    pub(crate) fn is_disconnecting_at(&self, local: IpAddr) -> bool {
        let leaving = |conn: &Connection| conn.state == State::AwaitDisconnected;
        self.table.values().any(|conn| conn.local == local && leaving(conn))
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
                if let Some((id, State::AwaitReady)) =
                    self.find(from, remote_comm_id, local_comm_id)
                {
                    self.established(id);
                    self.events.push_back(Event::Established(id));
                }
            }
            Message::Rej(rej) => self.on_rej(now, from, &rej),
            Message::Mra { local_comm_id, remote_comm_id, timeout, .. } => {
                // The peer needs more time: wait that long before the next repeat. It counts as
                // one, so that nobody waits for ever.
                if let Some((id, state)) = self.find(from, remote_comm_id, local_comm_id)
                    && state != State::Ended
                    && let Some(repeat) = self.table.get_mut(id).and_then(|c| c.repeat.as_mut())
                    && repeat.again().is_some()
                {
                    let wait = crate::wire::cm::timeout_ns(timeout.min(LONGEST_MRA));
                    self.table.set_timer(id, Some(now + Duration::from_nanos(wait)));
                }
            }
            Message::Dreq { local_comm_id, remote_comm_id, qpn } => {
                let drep =
                    Message::Drep { local_comm_id: remote_comm_id, remote_comm_id: local_comm_id };
                let Some((id, was)) = self.find(from, remote_comm_id, local_comm_id) else {
                    // Of a connection long gone: the answer lets the peer forget it too.
                    self.send(local, from, transaction, drep);
                    return;
                };
                if self.table.get(id).is_none_or(|conn| conn.local_qpn != qpn) {
                    return;
                }
                if was != State::Ended {
                    self.table.end(now, id);
                    if was != State::AwaitDisconnected {
                        let reason = "the peer disconnected".to_owned();
                        self.events.push_back(Event::Ended { conn: id, reason });
                    }
                }
                self.send(local, from, transaction, drep);
            }
            Message::Drep { local_comm_id, remote_comm_id } => {
                if let Some((id, State::AwaitDisconnected)) =
                    self.find(from, remote_comm_id, local_comm_id)
                {
                    self.table.end(now, id);
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
        if let Some(conn) = self.table.of_request(from, req.local_comm_id) {
            // A repeat: so is our answer, if there is one yet. What has ended is not confirmed
            // once more.
            let (local, peer) = (conn.local, conn.peer);
            match conn.last.clone() {
                Some(Mad { message: Message::Rep(rep), .. }) if conn.state == State::Ended => {
                    let answered = Answered::Req;
                    self.refuse(local, peer, transaction, answered, &rep, reason::TIMEOUT);
                }
                Some(mad) => self.out.push_back(Datagram { from: local, to: peer, mad }),
                None => {}
            }
            return;
        }
        let reached = SocketAddr::new(local, req.port);
        let refusal = if !listens(reached) {
            Some(reason::INVALID_SERVICE_ID)
        } else if crate::wire::cm::mtu_bytes(req.mtu_code).is_none() {
            Some(reason::INVALID_MTU)
        } else if !self.table.has_room_for(from) {
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
        let conn = Connection {
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
            timer: None,
            passive: true,
            transaction,
        };
        let id = self.table.insert(&mut self.rng, conn);
        self.table.set_timer(id, Some(now + DECIDE_WITHIN));
        self.events.push_back(Event::Request { conn: id, local: reached, req: Box::new(req) });
    }

    /// A peer that uses a queue pair number anew has lost the connection it had with it.
    fn drop_stale(&mut self, now: Now, from: IpAddr, req: &Req) {
        let stale = self
            .table
            .of_remote(from, req.ca_guid, req.qpn)
            .filter(|conn| matches!(conn.state, State::Established | State::AwaitReady));
        if let Some(id) = stale.map(|conn| conn.id) {
            self.table.end(now, id);
            let reason = "the peer began anew with the same queue pair".to_owned();
            self.events.push_back(Event::Ended { conn: id, reason });
        }
    }

    fn on_rep(&mut self, local: IpAddr, from: IpAddr, transaction: u64, rep: Box<Rep>) {
        let known = self.table.of_comm_id(from, rep.remote_comm_id).filter(|conn| !conn.passive);
        let Some((id, state)) = known.map(|conn| (conn.id, conn.state)) else { return };
        let conn = self.table.get_mut(id).expect("just found");
        match state {
            State::AwaitReply => {
                conn.remote_comm_id = rep.local_comm_id;
                conn.remote_qpn = rep.qpn;
                conn.remote_guid = rep.ca_guid;
            }
            State::Established if conn.remote_comm_id == rep.local_comm_id => {}
            State::Ended => {
                // We are no longer interested: the peer need not wait for us to confirm.
                self.refuse(local, from, transaction, Answered::Rep, &rep, reason::TIMEOUT);
                return;
            }
            _ => return,
        }
        let rtu =
            Message::Rtu { local_comm_id: conn.local_comm_id, remote_comm_id: rep.local_comm_id };
        if state == State::AwaitReply {
            self.established(id);
            self.events.push_back(Event::Accepted { conn: id, rep });
        }
        self.send(local, from, transaction, rtu);
    }

    fn established(&mut self, id: ConnId) {
        self.table.set_state(id, State::Established);
        self.table.set_timer(id, None);
        if let Some(conn) = self.table.get_mut(id) {
            conn.repeat = None;
        }
    }

    fn on_rej(&mut self, now: Now, from: IpAddr, rej: &Rej) {
        let conn = self.table.of_comm_id(from, rej.remote_comm_id);
        let Some((id, state)) = conn.map(|conn| (conn.id, conn.state)) else { return };
        let text = format!("rejected by the peer, reason {}", reject_text(rej.reason));
        match state {
            State::AwaitReply => {
                self.table.end(now, id);
                let private_data = rej.private_data.to_vec();
                self.events.push_back(Event::Refused { conn: id, reason: text, private_data });
            }
            State::AwaitReady | State::Established => {
                self.table.end(now, id);
                self.events.push_back(Event::Ended { conn: id, reason: text });
            }
            State::Idle | State::AwaitDecision | State::AwaitDisconnected | State::Ended => {}
        }
    }

    /// Accepts a requested connection. `false` when it is gone already.
    pub(crate) fn accept(&mut self, now: Now, id: ConnId, reply: Reply) -> bool {
        let guid = self.guid;
        let Some(conn) = self.table.get_mut(id) else { return false };
        if conn.state != State::AwaitDecision {
            return false;
        }
        conn.local_qpn = reply.qpn;
        conn.repeat = Some(Repeat::new(REPEATS));
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
        self.table.set_state(id, State::AwaitReady);
        self.table.set_timer(id, Some(now + FIRST_WAIT));
        self.answer(id, Message::Rep(Box::new(rep)));
        true
    }

    /// Refuses a requested connection with the upper layer's words.
    pub(crate) fn reject(&mut self, now: Now, id: ConnId, private_data: &[u8]) {
        self.reject_because(now, id, reason::CONSUMER, private_data);
    }

    fn reject_because(&mut self, now: Now, id: ConnId, reason: u16, private_data: &[u8]) {
        let Some(conn) = self.table.get(id) else { return };
        if conn.state != State::AwaitDecision {
            return;
        }
        let rej = Rej {
            local_comm_id: conn.local_comm_id,
            remote_comm_id: conn.remote_comm_id,
            answered: Answered::Req,
            reason,
            private_data: padded::<REJ_PRIVATE>(private_data),
        };
        self.answer(id, Message::Rej(Box::new(rej)));
        self.table.end(now, id);
    }

    /// Makes a connection to `open.to`, for [`connect`](Machine::connect) to ask for.
    pub(crate) fn open(&mut self, open: &ActiveOpen) -> ConnId {
        let conn = Connection {
            id: ConnId(0),
            state: State::Idle,
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
            timer: None,
            passive: false,
            transaction: 0,
        };
        self.table.insert(&mut self.rng, conn)
    }

    /// Sends the request of a connection that [`open`](Machine::open) made.
    pub(crate) fn connect(&mut self, now: Now, id: ConnId, open: &ActiveOpen) -> bool {
        let port = self.rng.random_range(0xc000..=0xffffu16);
        let flow_label = self.rng.random_range(1..1 << 20);
        let transaction = self.rng.random();
        let guid = self.guid;
        let Some(conn) = self.table.get_mut(id) else { return false };
        if conn.state != State::Idle {
            return false;
        }
        conn.local_qpn = open.qpn;
        conn.repeat = Some(Repeat::new(REPEATS));
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
        self.table.set_state(id, State::AwaitReply);
        self.table.set_timer(id, Some(now + FIRST_WAIT));
        self.out.push_back(Datagram { from, to, mad });
        true
    }

    /// Ends a connection from our side.
    pub(crate) fn disconnect(&mut self, now: Now, id: ConnId) {
        let Some(state) = self.table.get(id).map(|conn| conn.state) else { return };
        match state {
            State::Established | State::AwaitReady => {
                self.table.set_state(id, State::AwaitDisconnected);
                self.table.set_timer(id, Some(now + FIRST_WAIT));
                self.say_goodbye(id);
            }
            State::AwaitDecision => self.reject(now, id, &[]),
            State::Idle | State::AwaitReply => self.table.end(now, id),
            State::AwaitDisconnected | State::Ended => {}
        }
    }

    /// Our side has no more use for a connection, whatever its state: what is not ending already
    /// is ended without waiting for the peer's answer.
    pub(crate) fn abandon(&mut self, id: ConnId) {
        let Some(state) = self.table.get(id).map(|conn| conn.state) else { return };
        match state {
            State::AwaitDisconnected | State::Ended => return,
            State::Established | State::AwaitReady => self.say_goodbye(id),
            State::Idle | State::AwaitReply | State::AwaitDecision => {}
        }
        self.table.forget(id);
    }

    /// Sends a disconnect request, and repeats it as long as the connection's timer runs.
    fn say_goodbye(&mut self, id: ConnId) {
        let transaction = self.rng.random();
        let conn = self.table.get_mut(id).expect("a known connection");
        conn.repeat = Some(Repeat::new(DISCONNECT_REPEATS));
        let message = Message::Dreq {
            local_comm_id: conn.local_comm_id,
            remote_comm_id: conn.remote_comm_id,
            qpn: conn.remote_qpn,
        };
        let mad = Mad { transaction, message };
        conn.last = Some(mad.clone());
        let (from, to) = (conn.local, conn.peer);
        self.out.push_back(Datagram { from, to, mad });
    }

    /// Lets the timers run that are due.
    pub(crate) fn on_time(&mut self, now: Now) {
        while let Some(id) = self.table.next_due(now) {
            self.on_timer(now, id);
        }
    }

    fn on_timer(&mut self, now: Now, id: ConnId) {
        let conn = self.table.get_mut(id).expect("a timer is of a known connection");
        if let Some(wait) = conn.repeat.as_mut().and_then(Repeat::again) {
            if let Some(mad) = conn.last.clone() {
                let (from, to) = (conn.local, conn.peer);
                self.out.push_back(Datagram { from, to, mad });
            }
            self.table.set_timer(id, Some(now + wait));
            return;
        }
        let state = conn.state;
        let ended = |reason: &str| Event::Ended { conn: id, reason: reason.to_owned() };
        let event = match state {
            State::AwaitReply => Some(Event::Refused {
                conn: id,
                reason: "no answer from the peer".to_owned(),
                private_data: Vec::new(),
            }),
            State::AwaitReady => Some(ended("the peer did not confirm the connection")),
            State::AwaitDecision => {
                self.reject_because(now, id, reason::NO_RESOURCES, &[]);
                Some(ended("the request was not decided in time"))
            }
            State::Idle | State::Established | State::AwaitDisconnected | State::Ended => None,
        };
        self.events.extend(event);
        self.table.end(now, id);
    }

    /// The addresses that a connection's upper layers know it by: ours and the peer's.
    pub(crate) fn addresses(&self, id: ConnId) -> Option<(SocketAddr, SocketAddr)> {
        self.table.get(id).map(|conn| (conn.local_addr, conn.peer_addr))
    }

    /// The connection of those ids and its state, if the message comes from its peer.
    fn find(&self, from: IpAddr, ours: u32, theirs: u32) -> Option<(ConnId, State)> {
        let conn = self.table.of_comm_id(from, ours)?;
        // The peer's id is not known before its reply.
        let known = conn.remote_comm_id == theirs || conn.state == State::AwaitReply;
        known.then_some((conn.id, conn.state))
    }

    /// Refuses a reply of the peer, or its request that `rep` of ours answered.
    fn refuse(
        &mut self,
        from: IpAddr,
        to: IpAddr,
        transaction: u64,
        answered: Answered,
        rep: &Rep,
        reason: u16,
    ) {
        let (local_comm_id, remote_comm_id) = match answered {
            Answered::Req => (rep.local_comm_id, rep.remote_comm_id),
            _ => (rep.remote_comm_id, rep.local_comm_id),
        };
        let private_data = [0; REJ_PRIVATE];
        let rej = Rej { local_comm_id, remote_comm_id, answered, reason, private_data };
        self.send(from, to, transaction, Message::Rej(Box::new(rej)));
    }

    /// Sends the answer to a request and keeps it for repeats.
    fn answer(&mut self, id: ConnId, message: Message) {
        let conn = self.table.get_mut(id).expect("a known connection");
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
