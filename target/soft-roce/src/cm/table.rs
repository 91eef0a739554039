//! The connections, every way they are looked up, and the bounds on how many there may be.

use super::connection::{Connection, LINGER, State};
use super::{MAX_HALF_OPEN, MAX_HALF_OPEN_OF_PEER, MAX_REMEMBERED};
use rand::Rng;
use rand::rngs::StdRng;
use rdma::{ConnId, Now};
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::net::IpAddr;

/// See the module's words.
#[derive(Debug)]
pub(crate) struct Table {
    next_conn: u64,
    connections: BTreeMap<ConnId, Connection>,
    by_comm_id: HashMap<u32, ConnId>,
    /// Passive connections by the peer's address and communication id.
    by_peer: HashMap<(IpAddr, u32), ConnId>,
    /// Passive connections by the queue pair that the peer uses: address, GUID, number.
    by_remote: HashMap<(IpAddr, u64, u32), ConnId>,
    /// Passive connections that are neither established nor ended, by peer.
    half_open: HashMap<IpAddr, usize>,
    half_open_total: usize,
    /// When each running timer is due.
    timers: BTreeSet<(Now, ConnId)>,
    /// Ended connections and when to forget them, in that order; at most [`MAX_REMEMBERED`].
    ended: VecDeque<(Now, ConnId)>,
}

impl Table {
    pub(crate) fn new() -> Table {
        Table {
            next_conn: 1,
            connections: BTreeMap::new(),
            by_comm_id: HashMap::new(),
            by_peer: HashMap::new(),
            by_remote: HashMap::new(),
            half_open: HashMap::new(),
            half_open_total: 0,
            timers: BTreeSet::new(),
            ended: VecDeque::new(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.connections.len()
    }

    pub(crate) fn get(&self, id: ConnId) -> Option<&Connection> {
        self.connections.get(&id)
    }

    /// A connection to change, in anything but its state, its timer and what it is found by.
    pub(crate) fn get_mut(&mut self, id: ConnId) -> Option<&mut Connection> {
        self.connections.get_mut(&id)
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &Connection> {
        self.connections.values()
    }

    /// Whether one more request of that peer may be taken in.
    pub(crate) fn has_room_for(&self, peer: IpAddr) -> bool {
        let of_peer = self.half_open.get(&peer).copied().unwrap_or(0);
        self.half_open_total < MAX_HALF_OPEN && of_peer < MAX_HALF_OPEN_OF_PEER
    }

    /// Adds a connection and chooses its ids.
    pub(crate) fn insert(&mut self, rng: &mut StdRng, mut conn: Connection) -> ConnId {
        let id = ConnId(self.next_conn);
        self.next_conn += 1;
        let mut comm_id = rng.random();
        while comm_id == 0 || self.by_comm_id.contains_key(&comm_id) {
            comm_id = rng.random();
        }
        (conn.id, conn.local_comm_id) = (id, comm_id);
        self.by_comm_id.insert(comm_id, id);
        if conn.passive {
            self.by_peer.insert((conn.peer, conn.remote_comm_id), id);
            self.by_remote.insert((conn.peer, conn.remote_guid, conn.remote_qpn), id);
        }
        if conn.is_half_open() {
            *self.half_open.entry(conn.peer).or_default() += 1;
            self.half_open_total += 1;
        }
        self.connections.insert(id, conn);
        id
    }

    /// The connection that our communication id names, if the message comes from its peer.
    pub(crate) fn of_comm_id(&self, from: IpAddr, ours: u32) -> Option<&Connection> {
        let id = self.by_comm_id.get(&ours)?;
        self.connections.get(id).filter(|conn| conn.peer == from)
    }

    /// The passive connection of a request that came before.
    pub(crate) fn of_request(&self, from: IpAddr, theirs: u32) -> Option<&Connection> {
        self.by_peer.get(&(from, theirs)).and_then(|id| self.connections.get(id))
    }

    /// The passive connection that uses this queue pair of the peer.
    pub(crate) fn of_remote(&self, from: IpAddr, guid: u64, qpn: u32) -> Option<&Connection> {
        self.by_remote.get(&(from, guid, qpn)).and_then(|id| self.connections.get(id))
    }

    pub(crate) fn set_state(&mut self, id: ConnId, state: State) {
        let conn = self.connections.get_mut(&id).expect("a known connection");
        let was = conn.is_half_open();
        conn.state = state;
        assert!(was || !conn.is_half_open(), "no connection becomes half open later");
        if was && !conn.is_half_open() {
            let peer = conn.peer;
            self.leave_half_open(peer);
        }
    }

    /// Starts, moves or stops a connection's timer.
    pub(crate) fn set_timer(&mut self, id: ConnId, due: Option<Now>) {
        let conn = self.connections.get_mut(&id).expect("a known connection");
        if let Some(old) = conn.timer.take() {
            self.timers.remove(&(old, id));
        }
        conn.timer = due;
        if let Some(due) = due {
            self.timers.insert((due, id));
        }
    }

    /// Ends a connection; it is remembered for a while, to answer repeats of its messages.
    pub(crate) fn end(&mut self, now: Now, id: ConnId) {
        if self.connections.get(&id).is_none_or(|conn| conn.state == State::Ended) {
            return;
        }
        self.set_state(id, State::Ended);
        self.set_timer(id, None);
        self.ended.push_back((now + LINGER, id));
        if self.ended.len() > MAX_REMEMBERED
            && let Some((_, oldest)) = self.ended.pop_front()
        {
            self.forget(oldest);
        }
    }

    /// The next connection whose timer is due, with the timer stopped. Forgets what is to be
    /// forgotten on the way.
    pub(crate) fn next_due(&mut self, now: Now) -> Option<ConnId> {
        while let Some(&(at, id)) = self.ended.front()
            && at <= now
        {
            self.ended.pop_front();
            self.forget(id);
        }
        let &(due, id) = self.timers.first()?;
        if due > now {
            return None;
        }
        self.set_timer(id, None);
        Some(id)
    }

    /// When [`next_due`](Table::next_due) has something to do.
    pub(crate) fn timeout(&self) -> Option<Now> {
        let (timer, ended) =
            (self.timers.first().map(|at| at.0), self.ended.front().map(|at| at.0));
        match (timer, ended) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// Forgets a connection at once.
    pub(crate) fn forget(&mut self, id: ConnId) {
        let Some(conn) = self.connections.remove(&id) else { return };
        self.by_comm_id.remove(&conn.local_comm_id);
        if let Some(due) = conn.timer {
            self.timers.remove(&(due, id));
        }
        if conn.is_half_open() {
            self.leave_half_open(conn.peer);
        }
        if conn.passive {
            self.by_peer.remove(&(conn.peer, conn.remote_comm_id));
            let key = (conn.peer, conn.remote_guid, conn.remote_qpn);
            if self.by_remote.get(&key) == Some(&id) {
                self.by_remote.remove(&key);
            }
        }
    }

    fn leave_half_open(&mut self, peer: IpAddr) {
        self.half_open_total -= 1;
        if let Some(count) = self.half_open.get_mut(&peer) {
            *count -= 1;
            if *count == 0 {
                self.half_open.remove(&peer);
            }
        }
    }

    /// Panics when the ways to look up disagree, or a bound is passed.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(crate) fn audit(&self) {
        let half_open = self.values().filter(|conn| conn.is_half_open()).count();
        assert_eq!(half_open, self.half_open_total);
        assert_eq!(half_open, self.half_open.values().sum::<usize>());
        assert!(half_open <= MAX_HALF_OPEN);
        assert!(self.half_open.values().all(|&of_peer| of_peer <= MAX_HALF_OPEN_OF_PEER));
        assert!(self.ended.len() <= MAX_REMEMBERED);
        let ended = self.values().filter(|conn| conn.state == State::Ended).count();
        assert_eq!(ended, self.ended.len());
        assert_eq!(self.by_comm_id.len(), self.len());
        assert_eq!(self.by_peer.len(), self.values().filter(|conn| conn.passive).count());
        assert!(self.by_remote.len() <= self.by_peer.len());
        assert_eq!(self.timers.len(), self.values().filter(|conn| conn.timer.is_some()).count());
        for conn in self.values() {
            let waits = matches!(
                conn.state,
                State::AwaitDecision
                    | State::AwaitReady
                    | State::AwaitReply
                    | State::AwaitDisconnected
            );
            assert_eq!(waits, conn.timer.is_some(), "{conn:?}: whoever waits has a timer");
        }
    }
}
