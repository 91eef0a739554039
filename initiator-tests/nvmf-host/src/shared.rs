//! One connection manager for the hosts of several threads.
//!
//! A provider's port belongs to one connection manager, but every thread's host wants to open and
//! follow connections of its own. Each holds a [`Handle`]; whoever polls takes the events of all
//! and puts those of others into their lines.

use rdma::cm::QpParams;
use rdma::{
    AcceptParams, CmError, CmEvent, ConnId, ConnectParams, ConnectionManager, Connector, CoreIndex,
    ListenError, ListenerId, Now, PollSource,
};
use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

#[derive(Debug)]
struct Inner<M> {
    manager: M,
    owners: HashMap<ConnId, usize>,
    lines: Vec<VecDeque<CmEvent>>,
}

/// One thread's share of the connection manager.
#[derive(Debug)]
pub(crate) struct Handle<M> {
    inner: Arc<Mutex<Inner<M>>>,
    index: usize,
}

/// Handles for `count` threads.
pub(crate) fn share<M>(manager: M, count: usize) -> Vec<Handle<M>> {
    let lines = (0..count).map(|_| VecDeque::new()).collect();
    let inner = Arc::new(Mutex::new(Inner { manager, owners: HashMap::new(), lines }));
    (0..count).map(|index| Handle { inner: inner.clone(), index }).collect()
}

impl<M> Handle<M> {
    fn lock(&self) -> MutexGuard<'_, Inner<M>> {
        // A thread that panicked is reported by whoever joins it.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn conn_of(event: &CmEvent) -> Option<ConnId> {
    match event {
        CmEvent::Request(request) => Some(request.conn),
        CmEvent::Established(conn)
        | CmEvent::Disconnected { conn, .. }
        | CmEvent::Connected { conn, .. }
        | CmEvent::Refused { conn, .. } => Some(*conn),
        CmEvent::ListenerDown { .. } | CmEvent::ListenerUp { .. } => None,
    }
}

impl<M: ConnectionManager> ConnectionManager for Handle<M> {
    type Endpoint = M::Endpoint;

    fn listen(&mut self, now: Now, addr: SocketAddr) -> Result<ListenerId, ListenError> {
        self.lock().manager.listen(now, addr)
    }

    fn unlisten(&mut self, listener: ListenerId) {
        self.lock().manager.unlisten(listener);
    }

    fn poll(&mut self, now: Now) -> Option<CmEvent> {
        let mut guard = self.lock();
        let inner = &mut *guard;
        while let Some(event) = inner.manager.poll(now) {
            let owner = conn_of(&event).and_then(|conn| inner.owners.get(&conn).copied());
            inner.lines[owner.unwrap_or(self.index)].push_back(event);
        }
        inner.lines[self.index].pop_front()
    }

    fn prepare(
        &mut self,
        conn: ConnId,
        core: CoreIndex,
        params: &QpParams,
    ) -> Result<Self::Endpoint, CmError> {
        self.lock().manager.prepare(conn, core, params)
    }

    fn accept(&mut self, now: Now, conn: ConnId, params: &AcceptParams) -> Result<(), CmError> {
        self.lock().manager.accept(now, conn, params)
    }

    fn reject(&mut self, now: Now, conn: ConnId, private_data: &[u8]) {
        self.lock().manager.reject(now, conn, private_data);
    }

    fn disconnect(&mut self, now: Now, conn: ConnId) {
        self.lock().manager.disconnect(now, conn);
    }

    fn destroy(&mut self, conn: ConnId, endpoint: Self::Endpoint) {
        let mut inner = self.lock();
        inner.owners.remove(&conn);
        inner.manager.destroy(conn, endpoint);
    }

    /// Gives none: sources cannot be borrowed from behind a lock. The session looks every
    /// millisecond instead.
    fn wait_sources<'a>(&'a self, _out: &mut Vec<PollSource<'a>>) {}

    fn timeout(&self) -> Option<Now> {
        let inner = self.lock();
        if inner.lines[self.index].is_empty() { inner.manager.timeout() } else { Some(Now::ZERO) }
    }
}

impl<M: Connector> Connector for Handle<M> {
    fn open(
        &mut self,
        now: Now,
        to: SocketAddr,
        core: CoreIndex,
        params: &QpParams,
    ) -> Result<(ConnId, Self::Endpoint), CmError> {
        let mut inner = self.lock();
        let (conn, endpoint) = inner.manager.open(now, to, core, params)?;
        inner.owners.insert(conn, self.index);
        Ok((conn, endpoint))
    }

    fn connect(&mut self, now: Now, conn: ConnId, params: &ConnectParams) -> Result<(), CmError> {
        self.lock().manager.connect(now, conn, params)
    }
}
