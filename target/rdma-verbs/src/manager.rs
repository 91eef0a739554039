//! The connection manager: listeners, connections, cards.
//!
//! Everything that events speak of has a key (the `context` of its id): a listener, a connection
//! or a card's keeper. A key is never used again, so an event of something forgotten finds
//! nothing.

use crate::config::{MAX_INLINE, OpenError, VerbsConfig};
use crate::context::{CoreNic, Cq, CqShare, Nic, cm_error};
use crate::device::VerbsDevice;
use crate::endpoint::Endpoint;
use crate::event::{Event, EventKind, next_event};
use crate::expose::ExposeTable;
use crate::id::{CmId, EventChannel};
use crate::listener::{Change, Listener};
use crate::recv_table::RecvTable;
use crate::send_ring::SendRing;
use crate::sys::{self, async_event};
use rdma::cm::QpParams;
use rdma::{
    AcceptParams, CmError, CmEvent, ConnId, ConnectRequest, ConnectionManager, CoreIndex,
    ListenError, ListenerId, Now, PollSource, QpLimits,
};
use rdma_sys::{ibv_qp_init_attr, rdma_conn_param};
use region::Region;
use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

/// Times that the library repeats what is not acknowledged; 7 is the most.
const RETRY_COUNT: u8 = 7;

/// On the connecting side each of the caller's sends may carry the opening and the closing of a
/// memory window.
const HOST_SENDS: u32 = 3;

/// The connection manager of this provider.
#[derive(Debug)]
pub struct Verbs {
    pub(crate) config: VerbsConfig,
    pub(crate) channel: Arc<EventChannel>,
    listeners: HashMap<u64, (ListenerId, Listener)>,
    pub(crate) conns: HashMap<u64, Conn>,
    nics: Vec<NicEntry>,
    cores: HashMap<CoreIndex, Arc<Region>>,
    pending: VecDeque<CmEvent>,
    next_key: u64,
    next_listener: u32,
}

/// A card and what each core has on it.
#[derive(Debug)]
struct NicEntry {
    key: u64,
    nic: Arc<Nic>,
    cores: HashMap<CoreIndex, (Arc<CoreNic>, Vec<Arc<Cq>>)>,
}

/// A connection.
#[derive(Debug)]
pub(crate) struct Conn {
    pub(crate) id: Arc<CmId>,
    pub(crate) active: bool,
    pub(crate) phase: Phase,
    /// Whether an endpoint is out, so that the record stays until it comes back.
    pub(crate) endpoint_out: bool,
    /// READs that the peer is ready to answer.
    peer_answers: u8,
}

impl Conn {
    /// One that we ask for.
    pub(crate) fn active(id: CmId) -> Conn {
        Conn {
            id: Arc::new(id),
            active: true,
            phase: Phase::Open,
            endpoint_out: false,
            peer_answers: u8::MAX,
        }
    }
}

/// How far a connection has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Asked for, not answered.
    Open,
    /// We accepted, or asked.
    Answered,
    /// Up.
    Up,
    /// Ended, and told.
    Gone,
}

/// Names of the machine's RDMA devices.
///
/// # Errors
/// [`OpenError::NoDevices`] when there is none.
pub fn devices() -> Result<Vec<String>, OpenError> {
    let none = |source| OpenError::NoDevices { source };
    let names = sys::device_names().map_err(none)?;
    if names.is_empty() {
        return Err(none(io::Error::from_raw_os_error(libc::ENODEV)));
    }
    Ok(names)
}

/// Name of the RDMA device that owns a local address now, if one does. For the wildcard address: of
/// any device.
pub fn device_at(addr: SocketAddr) -> Option<String> {
    let names = devices().ok()?;
    if addr.ip().is_unspecified() {
        return names.into_iter().next();
    }
    let channel = EventChannel::open().ok()?;
    let id = CmId::create(&channel, 0).ok()?;
    id.bind(SocketAddr::new(addr.ip(), 0)).ok()?;
    let context = std::ptr::NonNull::new(id.verbs())?;
    // SAFETY: librdmacm set the context when the address turned out to be a device's, and the id
    // keeps it open; its device and name live as long.
    let name = unsafe { std::ffi::CStr::from_ptr((*(*context.as_ptr()).device).name.as_ptr()) };
    Some(name.to_string_lossy().into_owned())
}

impl Verbs {
    /// Opens the connection manager.
    ///
    /// # Errors
    /// [`OpenError::NoDevices`] when the machine has no RDMA device (now): the caller may use
    /// another provider. [`OpenError::Permission`] when this user may not open them.
    pub fn new(config: VerbsConfig) -> Result<Verbs, OpenError> {
        let channel = EventChannel::open().map_err(|source| match source.raw_os_error() {
            Some(libc::ENODEV | libc::ENOENT | libc::ENOSYS | libc::ENXIO) => {
                OpenError::NoDevices { source }
            }
            Some(libc::EACCES | libc::EPERM) => OpenError::Permission { source },
            _ => OpenError::System { source },
        })?;
        devices()?;
        Ok(Verbs {
            config,
            channel,
            listeners: HashMap::new(),
            conns: HashMap::new(),
            nics: Vec::new(),
            cores: HashMap::new(),
            pending: VecDeque::new(),
            next_key: 1,
            next_listener: 0,
        })
    }

    /// Opens the device of a core. Its region is registered with a card when the core's first
    /// connection there is prepared.
    ///
    /// # Panics
    /// When the core has one already.
    pub fn open_device(&mut self, core: CoreIndex, region: Arc<Region>) -> VerbsDevice {
        let before = self.cores.insert(core, region.clone());
        assert!(before.is_none(), "core {core:?} has a device already");
        VerbsDevice::new(core, region)
    }

    pub(crate) fn take_key(&mut self) -> u64 {
        self.next_key += 1;
        self.next_key
    }

    /// The card that an id is bound to.
    pub(crate) fn nic_of(&mut self, id: &CmId) -> Result<Arc<Nic>, CmError> {
        let context = id.verbs();
        let known = self.nics.iter().find(|n| n.nic.context() == context && !n.nic.is_dead());
        if let Some(entry) = known {
            return Ok(entry.nic.clone());
        }
        let key = self.take_key();
        let nic = Arc::new(Nic::open(&self.channel, key, id.local(), context)?);
        tracing::info!(device = nic.caps().name, "using RDMA device");
        self.nics.push(NicEntry { key, nic: nic.clone(), cores: HashMap::new() });
        Ok(nic)
    }

    /// What `core` has on `nic`, with `need` completion queue entries set aside.
    fn core_share(
        &mut self,
        nic: &Arc<Nic>,
        core: CoreIndex,
        need: u32,
    ) -> Result<(Arc<CoreNic>, CqShare), CmError> {
        let region = self.cores.get(&core).expect("the core's device was opened").clone();
        let entry = self.nics.iter_mut().find(|n| Arc::ptr_eq(&n.nic, nic)).ok_or(CmError::Gone)?;
        let (core_nic, cqs) = match entry.cores.entry(core) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(place) => {
                let made = CoreNic::new(nic, &region, &self.config)?;
                place.insert((Arc::new(made), Vec::new()))
            }
        };
        if let Some(share) = cqs.iter().find_map(|cq| cq.reserve(need)) {
            return Ok((core_nic.clone(), share));
        }
        let cq = Cq::new(core_nic, core, need, cqs.len(), &self.config)?;
        let share = cq.reserve(need).expect("made with room for it");
        cqs.push(cq);
        Ok((core_nic.clone(), share))
    }

    /// Makes the queue pair of a connection and the endpoint that carries it.
    pub(crate) fn make_endpoint(
        &mut self,
        key: u64,
        core: CoreIndex,
        params: &QpParams,
    ) -> Result<Endpoint, CmError> {
        let conn = self.conns.get(&key).ok_or(CmError::Gone)?;
        if conn.phase == Phase::Gone {
            return Err(CmError::Gone);
        }
        assert!(!conn.endpoint_out, "a connection is prepared once");
        let (id, active, peer_answers) = (conn.id.clone(), conn.active, conn.peer_answers);
        let nic = self.nic_of(&id)?;
        let sends = if active { params.send_depth * HOST_SENDS } else { params.send_depth };
        let sends = sends.clamp(1, nic.caps().max_qp_wr);
        let shared =
            params.shared_recv && self.config.shared_recv_depth > 0 && nic.max_shared_recv() > 0;
        let recvs = if shared { 0 } else { params.recv_depth.clamp(1, nic.caps().max_qp_wr) };
        let (core_nic, share) = self.core_share(&nic, core, sends + recvs)?;
        let cq = share.cq().clone();

        // SAFETY: all-zero bytes are a valid value of this plain C struct.
        let mut attr: ibv_qp_init_attr = unsafe { std::mem::zeroed() };
        attr.qp_type = rdma_sys::ibv_qp_type::IBV_QPT_RC;
        attr.send_cq = cq.as_ptr();
        attr.recv_cq = cq.as_ptr();
        if shared {
            attr.srq = core_nic.make_srq()?;
        }
        attr.cap.max_send_wr = sends;
        attr.cap.max_recv_wr = recvs;
        attr.cap.max_send_sge = 1;
        attr.cap.max_recv_sge = if shared { 0 } else { 2 };
        let inline = self.config.inline_sends && nic.can_inline();
        attr.cap.max_inline_data = if inline { MAX_INLINE } else { 0 };
        let hint = "the card has no queue pair left, or too little memory may be locked \
                    (LimitMEMLOCK=infinity, ulimit -l)";
        id.create_qp(&mut attr, &core_nic, share)
            .map_err(|source| cm_error("making a queue pair", source, hint))?;
        let max_inline =
            if self.config.inline_sends { attr.cap.max_inline_data.min(MAX_INLINE) } else { 0 };
        let exposed = if active {
            ExposeTable::new(&core_nic, params.send_depth)?
        } else {
            ExposeTable::none()
        };
        let offered = if active { u8::MAX } else { peer_answers };
        let max_reads = params.max_reads.min(nic.caps().max_qp_reads).min(offered).max(1);
        if let Some(conn) = self.conns.get_mut(&key) {
            conn.endpoint_out = true;
        }
        Ok(Endpoint {
            conn: ConnId(key),
            sends: SendRing::new(sends, max_inline),
            recvs: (!shared).then(|| RecvTable::new(recvs)),
            exposed,
            limits: QpLimits {
                max_send_wr: if active { params.send_depth.min(sends) } else { sends },
                max_reads: u32::from(max_reads),
                max_inline,
            },
            id,
            cq,
        })
    }

    /// What accept and connect tell the library, which reads `data` during the call.
    pub(crate) fn conn_param(
        nic: &Nic,
        data: &[u8],
        initiator_depth: u8,
        responder_resources: u8,
        rnr_retry: u8,
    ) -> rdma_conn_param {
        // SAFETY: all-zero bytes are a valid value of this plain C struct.
        let mut param: rdma_conn_param = unsafe { std::mem::zeroed() };
        if !data.is_empty() {
            param.private_data = data.as_ptr().cast();
            param.private_data_len = u8::try_from(data.len()).expect("private data fits");
        }
        param.initiator_depth = initiator_depth.min(nic.caps().max_qp_reads);
        param.responder_resources = responder_resources.min(nic.max_reads_answered());
        param.flow_control = 1;
        param.retry_count = RETRY_COUNT;
        param.rnr_retry_count = rnr_retry.min(7);
        param
    }

    fn on_event(&mut self, now: Now, event: Event) {
        if event.kind == EventKind::Request {
            self.on_request(event);
            return;
        }
        let key = event.key;
        if event.kind == EventKind::DeviceRemoved {
            self.on_device_removed(key);
        }
        if let Some((listener, state)) = self.listeners.get_mut(&key) {
            let lost = matches!(event.kind, EventKind::DeviceRemoved | EventKind::AddressChanged);
            let change = if lost { state.lose(now, event.words) } else { None };
            let listener = *listener;
            self.tell(listener, change);
        } else if self.conns.contains_key(&key) {
            self.on_conn_event(key, event);
        }
    }

    /// The device of a listener, a connection or a keeper was removed: whichever hears of it first
    /// speaks for the card, so that no core lets go of its last queue pair there unaware.
    fn on_device_removed(&mut self, key: u64) {
        let listening = self.listeners.get(&key).and_then(|(_, state)| state.context());
        let context = self.conns.get(&key).map(|c| c.id.verbs()).or(listening);
        let is_it = |n: &NicEntry| n.key == key || context == Some(n.nic.context());
        let Some(at) = self.nics.iter().position(is_it) else { return };
        let entry = self.nics.swap_remove(at);
        tracing::warn!(device = entry.nic.caps().name, "RDMA device removed");
        entry.nic.mark_dead();
        for (core_nic, _) in entry.cores.values() {
            core_nic.tell_removed();
        }
        self.end_all_on(&entry.nic, "the RDMA device was removed");
    }

    fn end_all_on(&mut self, nic: &Nic, reason: &str) {
        let on_it = |c: &Conn| c.id.verbs() == nic.context() && c.phase != Phase::Gone;
        let keys: Vec<u64> =
            self.conns.iter().filter(|(_, c)| on_it(c)).map(|(&key, _)| key).collect();
        for key in keys {
            self.end(key, reason.to_owned());
        }
    }

    fn on_request(&mut self, event: Event) {
        let Some(new_id) = event.new_id else { return };
        let key = self.take_key();
        // SAFETY: the event brought it, and nobody owns it yet.
        let id = unsafe { CmId::adopt(&self.channel, new_id, key) };
        let Some(&(listener, _)) = self.listeners.get(&event.key) else {
            id.reject(&[]);
            return;
        };
        let nic = match self.nic_of(&id) {
            Ok(nic) => nic,
            Err(e) => {
                tracing::warn!(peer = %id.peer(), "a connection request cannot be served: {e}");
                id.reject(&[]);
                return;
            }
        };
        let request = ConnectRequest {
            conn: ConnId(key),
            listener,
            local: id.local(),
            peer: id.peer(),
            private_data: event.private_data,
            responder_resources: event.peer_answers,
            initiator_depth: event.peer_reads,
            device: nic.caps().clone(),
        };
        let conn = Conn {
            id: Arc::new(id),
            active: false,
            phase: Phase::Open,
            endpoint_out: false,
            peer_answers: event.peer_answers,
        };
        self.conns.insert(key, conn);
        self.pending.push_back(CmEvent::Request(request));
    }

    fn on_conn_event(&mut self, key: u64, event: Event) {
        let Some(conn) = self.conns.get_mut(&key) else { return };
        match event.kind {
            EventKind::Established if conn.phase != Phase::Gone => {
                conn.phase = Phase::Up;
                let known = self.nics.iter().find(|n| n.nic.context() == conn.id.verbs());
                if let (true, Some(entry)) = (conn.active, known) {
                    shorten_rnr_wait(&entry.nic, &conn.id);
                }
                self.pending.push_back(if conn.active {
                    CmEvent::Connected {
                        conn: ConnId(key),
                        private_data: event.private_data,
                        initiator_depth: event.peer_reads,
                        responder_resources: event.peer_answers,
                    }
                } else {
                    CmEvent::Established(ConnId(key))
                });
            }
            EventKind::Rejected | EventKind::Failed if conn.active && conn.phase != Phase::Up => {
                self.refuse(key, event.words, event.private_data);
            }
            EventKind::Rejected
            | EventKind::Failed
            | EventKind::Disconnected
            | EventKind::TimewaitExit
            | EventKind::AddressChanged
            | EventKind::DeviceRemoved => self.end(key, event.words),
            EventKind::Established | EventKind::Request | EventKind::Other => {}
        }
    }

    pub(crate) fn refuse(&mut self, key: u64, reason: String, private_data: Vec<u8>) {
        let Some(conn) = self.conns.get_mut(&key) else { return };
        if conn.phase == Phase::Gone {
            return;
        }
        conn.phase = Phase::Gone;
        self.pending.push_back(CmEvent::Refused { conn: ConnId(key), reason, private_data });
        if !conn.endpoint_out {
            self.conns.remove(&key);
        }
    }

    /// A connection ended: the queue pair flushes, the user is told once.
    fn end(&mut self, key: u64, reason: String) {
        let Some(conn) = self.conns.get_mut(&key) else { return };
        if conn.phase == Phase::Gone {
            return;
        }
        conn.phase = Phase::Gone;
        conn.id.disconnect();
        self.pending.push_back(CmEvent::Disconnected { conn: ConnId(key), reason });
        if !conn.endpoint_out {
            self.conns.remove(&key);
        }
    }

    fn tell(&mut self, listener: ListenerId, change: Option<Change>) {
        match change {
            None => {}
            Some(Change::Up(device)) => {
                self.pending.push_back(CmEvent::ListenerUp { listener, device });
            }
            Some(Change::Down { reason, absent }) => {
                self.pending.push_back(CmEvent::ListenerDown { listener, reason, absent });
            }
        }
    }

    fn poll_async_events(&mut self) {
        for at in 0..self.nics.len() {
            while let Some(event) = self.nics[at].nic.next_async_event() {
                let nic = self.nics[at].nic.clone();
                self.on_async_event(&nic, event);
            }
        }
    }

    fn on_async_event(&mut self, nic: &Nic, event: sys::AsyncEvent) {
        let device = &nic.caps().name;
        let of_qp = |(_, c): &(&u64, &Conn)| !event.qp.is_null() && c.id.qp() == event.qp;
        let key = self.conns.iter().find(of_qp).map(|(&key, _)| key);
        match event.kind {
            async_event::COMM_EST => {
                // A message came before the peer's last handshake packet: that counts as it.
                if let Some(conn) = key.and_then(|k| self.conns.get(&k)) {
                    let kind = rdma_sys::ibv_event_type::IBV_EVENT_COMM_EST;
                    // SAFETY: the id exists; an error says that the connection is up already.
                    let _ = unsafe { rdma_sys::rdma_notify(conn.id.as_ptr(), kind) };
                }
            }
            async_event::QP_FATAL | async_event::QP_REQ_ERR | async_event::QP_ACCESS_ERR => {
                tracing::info!(device, event = event.kind, conn = key, "a queue pair failed");
                if let Some(key) = key {
                    self.end(key, format!("the queue pair failed (event {})", event.kind));
                }
            }
            async_event::DEVICE_FATAL => {
                tracing::error!(device, "the RDMA device failed");
                self.end_all_on(nic, "the RDMA device failed");
            }
            async_event::SQ_DRAINED | async_event::LAST_WQE_REACHED => {}
            other => tracing::info!(device, event = other, "RDMA device event"),
        }
    }
}

impl ConnectionManager for Verbs {
    type Endpoint = Endpoint;

    fn listen(&mut self, now: Now, addr: SocketAddr) -> Result<ListenerId, ListenError> {
        let key = self.take_key();
        let (state, change) = Listener::new(&self.channel, key, addr, now, &self.config)?;
        let listener = ListenerId(self.next_listener);
        self.next_listener += 1;
        self.listeners.insert(key, (listener, state));
        self.tell(listener, change);
        Ok(listener)
    }

    fn unlisten(&mut self, listener: ListenerId) {
        self.listeners.retain(|_, (id, _)| *id != listener);
    }

    fn poll(&mut self, now: Now) -> Option<CmEvent> {
        if let Some(event) = self.pending.pop_front() {
            return Some(event);
        }
        while let Some(event) = next_event(&self.channel) {
            self.on_event(now, event);
            if let Some(event) = self.pending.pop_front() {
                return Some(event);
            }
        }
        self.poll_async_events();
        let mut changes = Vec::new();
        for (id, state) in self.listeners.values_mut() {
            if let Some(change) = state.poll(&self.channel, now, &self.config) {
                changes.push((*id, change));
            }
        }
        for (listener, change) in changes {
            self.tell(listener, Some(change));
        }
        self.pending.pop_front()
    }

    fn prepare(
        &mut self,
        conn: ConnId,
        core: CoreIndex,
        params: &QpParams,
    ) -> Result<Endpoint, CmError> {
        self.make_endpoint(conn.0, core, params)
    }

    fn accept(&mut self, _now: Now, conn: ConnId, params: &AcceptParams) -> Result<(), CmError> {
        let record = self.conns.get(&conn.0).ok_or(CmError::Gone)?;
        if record.phase == Phase::Gone {
            return Err(CmError::Gone);
        }
        let id = record.id.clone();
        let nic = self.nic_of(&id)?;
        let mut param = Verbs::conn_param(
            &nic,
            &params.private_data,
            params.initiator_depth,
            params.responder_resources,
            params.rnr_retry,
        );
        // SAFETY: the id exists and has its queue pair; the private data lives during the call.
        sys::cm_result(unsafe { rdma_sys::rdma_accept(id.as_ptr(), &raw mut param) })
            .map_err(|source| CmError::System { what: "accepting a connection", source })?;
        shorten_rnr_wait(&nic, &id);
        if let Some(record) = self.conns.get_mut(&conn.0) {
            record.phase = Phase::Answered;
        }
        Ok(())
    }

    fn reject(&mut self, _now: Now, conn: ConnId, private_data: &[u8]) {
        let Some(record) = self.conns.get_mut(&conn.0) else { return };
        if record.phase == Phase::Open {
            record.id.reject(private_data);
        }
        record.phase = Phase::Gone;
        if !record.endpoint_out {
            self.conns.remove(&conn.0);
        }
    }

    fn disconnect(&mut self, _now: Now, conn: ConnId) {
        let Some(record) = self.conns.get_mut(&conn.0) else { return };
        match record.phase {
            Phase::Gone => {}
            Phase::Open if !record.active => {
                record.id.reject(&[]);
                self.end(conn.0, "refused by us".to_owned());
            }
            Phase::Open | Phase::Answered | Phase::Up => record.id.disconnect(),
        }
    }

    fn destroy(&mut self, conn: ConnId, endpoint: Endpoint) {
        assert_eq!(endpoint.conn, conn, "the endpoint belongs to the connection");
        let record = self.conns.remove(&conn.0);
        // The endpoint lets go of the id first; the record's drop then frees queue pair and id.
        drop(endpoint);
        drop(record);
        self.pending.retain(|event| !is_of(event, conn));
    }

    fn wait_sources<'a>(&'a self, out: &mut Vec<PollSource<'a>>) {
        out.push(self.channel.fd());
        out.extend(self.nics.iter().map(|n| n.nic.async_fd()));
    }

    fn timeout(&self) -> Option<Now> {
        if !self.pending.is_empty() {
            return Some(Now::ZERO);
        }
        self.listeners.values().filter_map(|(_, state)| state.timeout()).min()
    }
}

/// Asks the peer to wait less when it finds no receive. Only a matter of speed, so a card that does
/// not take it, or a queue pair that failed meanwhile, is none the worse.
fn shorten_rnr_wait(nic: &Nic, id: &CmId) {
    if nic.has_rnr() {
        // SAFETY: an accepted or connected id has its queue pair.
        if let Err(e) = unsafe { sys::shorten_rnr_wait(id.qp()) } {
            tracing::debug!(device = nic.caps().name, "the wait for receives stays long: {e}");
        }
    }
}

/// Whether an event that was not told yet is of a connection that is forgotten now.
fn is_of(event: &CmEvent, conn: ConnId) -> bool {
    match event {
        CmEvent::Request(request) => request.conn == conn,
        CmEvent::Established(c)
        | CmEvent::Disconnected { conn: c, .. }
        | CmEvent::Connected { conn: c, .. }
        | CmEvent::Refused { conn: c, .. } => *c == conn,
        CmEvent::ListenerDown { .. } | CmEvent::ListenerUp { .. } => false,
    }
}
