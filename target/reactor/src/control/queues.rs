//! The queues that the control thread knows, and where each is on its way.

use nvmf::QueueKey;
use nvmf::target::QueueInfo;
use rdma::{ConnId, CoreIndex, Now};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

/// Where a queue is between its connect request and its last trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Phase {
    /// Its core was asked to post receives.
    AwaitAttached,
    /// The connection was accepted; the peer has not confirmed it.
    AwaitEstablished,
    /// The connection is up; Connect has not succeeded.
    AwaitConnect,
    /// It belongs to a controller.
    Bound(Names),
    /// It was told to close and drains.
    AwaitDetached,
}

/// What logs call a bound queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Names {
    pub(super) subnqn: Arc<str>,
    pub(super) hostnqn: Arc<str>,
    pub(super) cntlid: u16,
}

/// One queue.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) conn: ConnId,
    pub(super) core: CoreIndex,
    pub(super) phase: Phase,
    pub(super) info: QueueInfo,
    /// RDMA READs promised to the peer as our most.
    pub(super) reads: u8,
    /// When a Connect must have succeeded.
    pub(super) connect_by: Now,
    /// The connection manager has said that the connection is gone, or was told to end it.
    pub(super) ended: bool,
}

impl Entry {
    /// Whether no Connect has succeeded and the queue is not closing.
    pub(super) fn is_pending(&self) -> bool {
        matches!(self.phase, Phase::AwaitAttached | Phase::AwaitEstablished | Phase::AwaitConnect)
    }
}

/// All queues, by key and by connection, with counts that keep them bounded.
#[derive(Debug, Default)]
pub(super) struct Queues {
    entries: BTreeMap<QueueKey, Entry>,
    by_conn: BTreeMap<ConnId, QueueKey>,
    /// Deadlines of pending queues; entries of queues that moved on are skipped.
    deadlines: BTreeMap<(Now, QueueKey), ()>,
    pending: usize,
    pending_of: BTreeMap<IpAddr, usize>,
    last_key: u64,
}

impl Queues {
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn pending(&self) -> usize {
        self.pending
    }

    pub(super) fn pending_of(&self, peer: IpAddr) -> usize {
        self.pending_of.get(&peer).copied().unwrap_or(0)
    }

    pub(super) fn next_key(&mut self) -> QueueKey {
        self.last_key += 1;
        QueueKey(self.last_key)
    }

    pub(super) fn insert(&mut self, key: QueueKey, entry: Entry) {
        self.by_conn.insert(entry.conn, key);
        self.deadlines.insert((entry.connect_by, key), ());
        self.pending += 1;
        *self.pending_of.entry(entry.info.peer.ip()).or_insert(0) += 1;
        self.entries.insert(key, entry);
    }

    pub(super) fn get(&self, key: QueueKey) -> Option<&Entry> {
        self.entries.get(&key)
    }

    pub(super) fn get_mut(&mut self, key: QueueKey) -> Option<&mut Entry> {
        self.entries.get_mut(&key)
    }

    pub(super) fn by_conn(&self, conn: ConnId) -> Option<QueueKey> {
        self.by_conn.get(&conn).copied()
    }

    /// Moves a queue on, keeping the counts.
    pub(super) fn set_phase(&mut self, key: QueueKey, phase: Phase) {
        let Some(entry) = self.entries.get_mut(&key) else { return };
        let was = entry.is_pending();
        entry.phase = phase;
        if was && !entry.is_pending() {
            self.deadlines.remove(&(entry.connect_by, key));
            let peer = entry.info.peer.ip();
            self.forget_pending(peer);
        }
    }

    pub(super) fn remove(&mut self, key: QueueKey) -> Option<Entry> {
        let entry = self.entries.remove(&key)?;
        self.by_conn.remove(&entry.conn);
        if entry.is_pending() {
            self.deadlines.remove(&(entry.connect_by, key));
            self.forget_pending(entry.info.peer.ip());
        }
        Some(entry)
    }

    fn forget_pending(&mut self, peer: IpAddr) {
        self.pending -= 1;
        if let Some(count) = self.pending_of.get_mut(&peer) {
            *count -= 1;
            if *count == 0 {
                self.pending_of.remove(&peer);
            }
        }
    }

    /// The first deadline of a pending queue.
    pub(super) fn next_deadline(&self) -> Option<(Now, QueueKey)> {
        self.deadlines.keys().next().copied()
    }

    /// All keys that are not draining yet.
    pub(super) fn open_keys(&self) -> Vec<QueueKey> {
        self.entries
            .iter()
            .filter(|(_, entry)| entry.phase != Phase::AwaitDetached)
            .map(|(key, _)| *key)
            .collect()
    }

    /// Queues on a core, draining ones included.
    pub(super) fn on_core(&self, core: CoreIndex) -> usize {
        self.entries.values().filter(|entry| entry.core == core).count()
    }
}
