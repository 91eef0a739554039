//! The connection half of the provider: the machine of `cm`, sockets, and queue pair numbers.

use crate::batch::{Batch, Header};
use crate::cm::{ActiveOpen, Datagram, Event, Machine, Reply};
use crate::config::Config;
use crate::device::SoftDevice;
use crate::endpoint::{Endpoint, Peer};
use crate::intake::Intake;
use crate::path::Path;
use crate::psn::Psn;
use crate::sites::{Sites, local_addresses, mtu_code_to, route_to, try_out};
use crate::socket::qpn_of;
use crate::wire::ROCE_PORT;
use crate::wire::cm::{CM_QKEY, CM_QPN, MAD_LEN, Mad, Req, mtu_bytes};
use crate::wire::headers::{Deth, Kind, Opcode, Part};
use crate::wire::icrc::Prefix;
use crate::wire::packet::Packet;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use rdma::cm::{DeviceCaps, QpParams};
use rdma::{
    AcceptParams, CmError, CmEvent, ConnId, ConnectParams, ConnectRequest, ConnectionManager,
    Connector, CoreIndex, ListenError, ListenerId, Now, PollSource, QpLimits,
};
use region::Region;
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// How often addresses that are not there are looked for again.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// READs that one queue pair may have out, in either direction.
const MAX_READS: u8 = 32;
/// Work requests of one queue pair.
const MAX_WR: u32 = 16_384;
/// Messages of a connection manager that one poll takes in.
const MAX_RECEIVES: usize = 16;

/// Why an address cannot be listened on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Absence {
    /// What is in the way, and what to do.
    pub reason: String,
    /// Whether the address is merely not there yet.
    pub absent: bool,
}

#[derive(Debug)]
struct Listener {
    addr: SocketAddr,
    /// What was last said about it: up, or why not.
    state: Option<Result<(), Absence>>,
}

/// What is kept of a connection beside the machine's own state.
#[derive(Debug)]
struct Conn {
    /// Passive side: what the peer asked for.
    req: Option<Box<Req>>,
    /// Active side: what we ask for.
    open: Option<ActiveOpen>,
    local: IpAddr,
    peer: Arc<OnceLock<Peer>>,
    qpn: Option<u32>,
    expected_psn: Psn,
    max_reads: u32,
}

/// The connection half of the provider.
#[derive(Debug)]
pub struct Manager {
    config: Config,
    rng: StdRng,
    machine: Machine,
    sites: Sites,
    listeners: BTreeMap<ListenerId, Listener>,
    next_listener: u32,
    conns: HashMap<ConnId, Conn>,
    /// Sequence part of the queue pair number to try next, per core.
    next_qpn: Vec<u16>,
    used_qpns: HashSet<u32>,
    events: VecDeque<CmEvent>,
    look_at: Option<Now>,
    /// Whether sites are open just for a last message.
    closing: bool,
    intake: Intake,
    batch: Batch,
}

impl Manager {
    /// A connection manager without listeners.
    ///
    /// # Panics
    /// When the configuration names no core or more than 250.
    pub fn new(config: Config) -> Manager {
        assert!((1..=250).contains(&config.cores), "1 to 250 cores");
        let mut rng = StdRng::from_os_rng();
        // A random start: a peer that remembers queue pairs of an earlier run is not confused.
        let next_qpn = (0..config.cores).map(|_| rng.random()).collect();
        Manager {
            machine: Machine::new(rng.random()),
            rng,
            sites: Sites::new(config),
            listeners: BTreeMap::new(),
            next_listener: 0,
            conns: HashMap::new(),
            next_qpn,
            used_qpns: HashSet::new(),
            events: VecDeque::new(),
            look_at: None,
            closing: false,
            intake: Intake::new(),
            batch: Batch::new(1 << 16, false),
            config,
        }
    }

    /// Opens the device of one core: work requests name places in `region`.
    pub fn open_device(&mut self, region: Arc<Region>) -> SoftDevice {
        SoftDevice::new(region, self.config.shared_recv_depth, self.rng.random())
    }

    /// Connections that are set up, being set up, or remembered for a while after their end.
    pub fn connections(&self) -> usize {
        self.machine.len()
    }

    /// Queue pairs that were made and not destroyed.
    pub fn queue_pairs(&self) -> usize {
        self.used_qpns.len()
    }

    fn look_for_addresses(&mut self, now: Now) {
        self.look_at = None;
        for (id, listener) in &mut self.listeners {
            let addrs = if listener.addr.ip().is_unspecified() {
                local_addresses(listener.addr)
            } else {
                vec![listener.addr.ip()]
            };
            let wildcard = listener.addr.ip().is_unspecified();
            let mut state =
                Err(explain(&io::ErrorKind::AddrNotAvailable.into(), listener.addr.ip()));
            for addr in addrs {
                match self.sites.ensure(addr) {
                    Ok(()) => state = Ok(()),
                    Err(_) if state.is_ok() => {}
                    Err(error) => state = Err(explain(&error, addr)),
                }
            }
            if wildcard || state.is_err() {
                self.look_at = Some(now + LOOK_EVERY);
            }
            if listener.state.as_ref() != Some(&state) {
                self.events.push_back(match &state {
                    Ok(()) => CmEvent::ListenerUp { listener: *id, device: "soft-roce".to_owned() },
                    Err(Absence { reason, absent }) => CmEvent::ListenerDown {
                        listener: *id,
                        reason: reason.clone(),
                        absent: *absent,
                    },
                });
                listener.state = Some(state);
            }
        }
    }

    /// Closes the sockets of addresses that no listener and no connection needs.
    fn close_unused(&mut self) {
        let (listeners, conns, machine) = (&self.listeners, &self.conns, &self.machine);
        // What stays for a disconnect request that may have to be repeated is closed later.
        let mut closing = false;
        self.sites.retain(|local| {
            let like = |listener: &Listener| {
                listener.addr.ip() == local
                    || (listener.addr.ip().is_unspecified()
                        && listener.addr.is_ipv4() == local.is_ipv4())
            };
            // A listener's address, that of nearly all, is kept without a look at who is connected.
            if listeners.values().any(like) || conns.values().any(|conn| conn.local == local) {
                return true;
            }
            let leaving = machine.is_disconnecting_at(local);
            closing |= leaving;
            leaving
        });
        self.closing = closing;
    }

    fn listener_at(&self, reached: SocketAddr) -> Option<ListenerId> {
        let exact = self.listeners.iter().find(|(_, listener)| {
            listener.addr.ip() == reached.ip() && listener.addr.port() == reached.port()
        });
        let wild = || {
            self.listeners.iter().find(|(_, listener)| {
                listener.addr.ip().is_unspecified()
                    && listener.addr.is_ipv4() == reached.is_ipv4()
                    && listener.addr.port() == reached.port()
            })
        };
        exact.or_else(wild).map(|(id, _)| *id)
    }

    fn receive(&mut self, now: Now) {
        let mut mads = Vec::new();
        for (local, site) in self.sites.iter() {
            self.intake.receive(&site.control, MAX_RECEIVES, |from, _, datagram| {
                mads.extend(mad_of(datagram).map(|mad| (*local, from, mad)));
            });
        }
        for (local, from, mad) in mads {
            let listeners = &self.listeners;
            self.machine.on_mad(now, local, from, mad, |reached| {
                listeners.values().any(|listener| {
                    listener.addr.port() == reached.port()
                        && (listener.addr.ip() == reached.ip()
                            || (listener.addr.ip().is_unspecified()
                                && listener.addr.is_ipv4() == reached.is_ipv4()))
                })
            });
        }
    }

    fn transmit(&mut self) {
        while let Some(Datagram { from, to, mad }) = self.machine.poll_transmit() {
            let Some(site) = self.sites.get(from) else { continue };
            let prefix =
                Prefix { source: from, dest: to, source_port: ROCE_PORT, dest_port: ROCE_PORT };
            let path = Path { prefix, traffic_class: 0, mtu: 256, dest_qpn: CM_QPN };
            let deth = Deth { qkey: CM_QKEY, src_qpn: CM_QPN }.to_bytes();
            let header = Header {
                opcode: Opcode::plain(Kind::Datagram, Part::Only),
                psn: Psn::new(0),
                ack_req: false,
                solicited: false,
                extension: &deth,
            };
            self.batch.clear();
            let bytes = mad.to_bytes();
            self.batch.push(&path, header, MAD_LEN, |payload| payload.copy_from_slice(&bytes));
            let _ = site.control.send(&self.batch); // a lost one is repeated like any other
        }
    }

    fn translate(&mut self, now: Now, event: Event) -> Option<CmEvent> {
        Some(match event {
            Event::Request { conn, local, req } => {
                let Some(listener) = self.listener_at(local) else {
                    self.machine.reject(now, conn, &[]);
                    return None;
                };
                let peer = self.machine.addresses(conn)?.1;
                let request = ConnectRequest {
                    conn,
                    listener,
                    local,
                    peer,
                    private_data: req.private_data.to_vec(),
                    responder_resources: req.responder_resources,
                    initiator_depth: req.initiator_depth,
                    device: DeviceCaps {
                        name: "soft-roce".to_owned(),
                        max_qp_wr: MAX_WR,
                        max_qp_reads: MAX_READS,
                    },
                };
                self.conns.insert(
                    conn,
                    Conn {
                        req: Some(req),
                        open: None,
                        local: local.ip(),
                        peer: Arc::default(),
                        qpn: None,
                        expected_psn: Psn::new(self.rng.random()),
                        max_reads: 1,
                    },
                );
                CmEvent::Request(request)
            }
            Event::Established(conn) => CmEvent::Established(conn),
            Event::Accepted { conn, rep } => {
                let known = self.conns.get(&conn)?;
                let open = known.open.as_ref()?;
                let path = Path {
                    prefix: Prefix {
                        source: known.local,
                        dest: open.to.ip(),
                        source_port: ROCE_PORT,
                        dest_port: ROCE_PORT,
                    },
                    traffic_class: self.config.traffic_class,
                    mtu: mtu_bytes(open.mtu_code).unwrap_or(256),
                    dest_qpn: rep.qpn,
                };
                let offered = u32::from(rep.responder_resources);
                let max_reads = known.max_reads.min(offered).max(1);
                let first_psn = rep.starting_psn;
                let _ = known.peer.set(Peer { path, first_psn, max_reads });
                CmEvent::Connected {
                    conn,
                    private_data: rep.private_data.to_vec(),
                    initiator_depth: rep.initiator_depth,
                    responder_resources: rep.responder_resources,
                }
            }
            Event::Refused { conn, reason, private_data } => {
                CmEvent::Refused { conn, reason, private_data }
            }
            Event::Ended { conn, reason } => {
                // Nobody above remembers one that was destroyed.
                if self.conns.get(&conn)?.qpn.is_none() {
                    self.conns.remove(&conn);
                }
                CmEvent::Disconnected { conn, reason }
            }
        })
    }

    fn take_qpn(&mut self, core: CoreIndex) -> Option<u32> {
        let next = &mut self.next_qpn[usize::from(core.0)];
        for _ in 0..=u16::MAX {
            *next = next.wrapping_add(1);
            let qpn = qpn_of(*next, core.0);
            // The lowest numbers are not for connections: queue pair 1 is the manager's.
            if *next != 0 && self.used_qpns.insert(qpn) {
                return Some(qpn);
            }
        }
        None
    }

    fn endpoint(
        &mut self,
        conn: ConnId,
        core: CoreIndex,
        params: &QpParams,
        resources: u8,
    ) -> Result<Endpoint, CmError> {
        let qpn =
            self.take_qpn(core).ok_or_else(|| no_resources("choosing a queue pair number"))?;
        let Some(known) = self.conns.get_mut(&conn) else {
            self.used_qpns.remove(&qpn);
            return Err(CmError::Gone);
        };
        known.qpn = Some(qpn);
        let socket =
            self.sites.get(known.local).map(|site| site.cores[usize::from(core.0)].clone());
        Ok(Endpoint {
            qpn,
            expected_psn: known.expected_psn,
            resources: u32::from(resources.min(MAX_READS)),
            limits: QpLimits {
                max_send_wr: params.send_depth.min(MAX_WR),
                max_reads: known.max_reads,
                max_inline: 0,
            },
            recv_depth: params.recv_depth,
            shared_recv: params.shared_recv,
            peer: known.peer.clone(),
            socket,
        })
    }
}

impl ConnectionManager for Manager {
    type Endpoint = Endpoint;

    fn listen(&mut self, now: Now, addr: SocketAddr) -> Result<ListenerId, ListenError> {
        let id = ListenerId(self.next_listener);
        self.next_listener += 1;
        self.listeners.insert(id, Listener { addr, state: None });
        self.look_for_addresses(now);
        Ok(id)
    }

    fn unlisten(&mut self, listener: ListenerId) {
        self.listeners.remove(&listener);
        self.close_unused();
    }

    fn poll(&mut self, now: Now) -> Option<CmEvent> {
        if self.look_at.is_some_and(|at| at <= now) {
            self.look_for_addresses(now);
        }
        if let Some(event) = self.events.pop_front() {
            return Some(event);
        }
        self.receive(now);
        self.machine.on_time(now);
        self.transmit();
        while let Some(event) = self.machine.poll_event() {
            if let Some(event) = self.translate(now, event) {
                self.events.push_back(event);
            }
        }
        self.transmit();
        if self.closing {
            self.close_unused();
        }
        self.events.pop_front()
    }

    fn prepare(
        &mut self,
        conn: ConnId,
        core: CoreIndex,
        params: &QpParams,
    ) -> Result<Endpoint, CmError> {
        let known = self.conns.get_mut(&conn).ok_or(CmError::Gone)?;
        let req = known.req.as_ref().ok_or(CmError::Gone)?;
        let mtu = mtu_bytes(req.mtu_code).ok_or(CmError::Gone)?;
        let (_, peer) = self.machine.addresses(conn).ok_or(CmError::Gone)?;
        if req.mtu_code > mtu_code_to(known.local, peer) {
            return Err(CmError::System {
                what: "agreeing on a path MTU",
                source: io::Error::other(format!(
                    "the host wants {mtu} bytes, more than the way from {} to {} carries: give \
                     both ends' interfaces the same MTU",
                    known.local,
                    peer.ip()
                )),
            });
        }
        known.max_reads =
            u32::from(params.max_reads.min(req.responder_resources).min(MAX_READS)).max(1);
        let path = Path {
            prefix: Prefix {
                source: known.local,
                dest: peer.ip(),
                source_port: ROCE_PORT,
                dest_port: ROCE_PORT,
            },
            traffic_class: self.config.traffic_class,
            mtu,
            dest_qpn: req.qpn,
        };
        let first_psn = req.starting_psn;
        let _ = known.peer.set(Peer { path, first_psn, max_reads: known.max_reads });
        let resources = req.initiator_depth;
        self.endpoint(conn, core, params, resources)
    }

    fn accept(&mut self, now: Now, conn: ConnId, params: &AcceptParams) -> Result<(), CmError> {
        let known = self.conns.get(&conn).ok_or(CmError::Gone)?;
        let reply = Reply {
            qpn: known.qpn.ok_or(CmError::Gone)?,
            starting_psn: known.expected_psn,
            responder_resources: params.responder_resources,
            initiator_depth: params.initiator_depth,
            rnr_retry: params.rnr_retry,
            private_data: params.private_data.clone(),
        };
        let accepted = self.machine.accept(now, conn, reply);
        self.transmit();
        if accepted { Ok(()) } else { Err(CmError::Gone) }
    }

    fn reject(&mut self, now: Now, conn: ConnId, private_data: &[u8]) {
        self.machine.reject(now, conn, private_data);
        self.transmit();
        if self.conns.get(&conn).is_some_and(|known| known.qpn.is_none()) {
            self.conns.remove(&conn);
        }
    }

    fn disconnect(&mut self, now: Now, conn: ConnId) {
        self.machine.disconnect(now, conn);
        self.transmit();
    }

    fn destroy(&mut self, conn: ConnId, endpoint: Endpoint) {
        self.used_qpns.remove(&endpoint.qpn);
        self.conns.remove(&conn);
        self.machine.abandon(conn);
        self.transmit();
        drop(endpoint); // and with it the core's socket
        self.close_unused();
    }

    fn wait_sources<'a>(&'a self, out: &mut Vec<PollSource<'a>>) {
        out.extend(self.sites.iter().flat_map(|(_, site)| site.control.wait_sources()));
    }

    fn timeout(&self) -> Option<Now> {
        if !self.events.is_empty() {
            return Some(Now::ZERO);
        }
        match (self.look_at, self.machine.timeout()) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }
}

impl Connector for Manager {
    fn open(
        &mut self,
        _now: Now,
        to: SocketAddr,
        core: CoreIndex,
        params: &QpParams,
    ) -> Result<(ConnId, Endpoint), CmError> {
        let system = |what| move |source| CmError::System { what, source };
        let candidates = route_to(to).map_err(system("finding the way to the peer"))?;
        let mut local = candidates.iter().copied().find(|local| self.sites.get(*local).is_some());
        let mut last = None;
        for candidate in candidates {
            if local.is_some() {
                break;
            }
            match self.sites.ensure(candidate) {
                Ok(()) => local = Some(candidate),
                Err(error) => last = Some(error),
            }
        }
        let Some(local) = local else {
            let what = "binding UDP port 4791";
            let source = last.unwrap_or_else(|| io::Error::other("no local address"));
            if source.kind() == io::ErrorKind::AddrInUse {
                let hint = "who listens at that address of this machine has the port there: have it \
                            listen at 127.0.0.1, and connect there, for a host on the same machine";
                return Err(CmError::Resources { what, source, hint });
            }
            return Err(CmError::System { what, source });
        };
        let mtu_code = mtu_code_to(local, to);
        let open = ActiveOpen {
            local,
            to,
            qpn: 0,
            starting_psn: Psn::new(self.rng.random()),
            mtu_code,
            traffic_class: self.config.traffic_class,
            responder_resources: MAX_READS,
            initiator_depth: params.max_reads,
            private_data: Vec::new(),
        };
        let conn = self.machine.open(&open);
        self.conns.insert(
            conn,
            Conn {
                req: None,
                local,
                peer: Arc::default(),
                qpn: None,
                expected_psn: open.starting_psn,
                max_reads: u32::from(params.max_reads.min(MAX_READS)).max(1),
                open: Some(open),
            },
        );
        let endpoint = self.endpoint(conn, core, params, MAX_READS)?;
        Ok((conn, endpoint))
    }

    fn connect(&mut self, now: Now, conn: ConnId, params: &ConnectParams) -> Result<(), CmError> {
        let known = self.conns.get_mut(&conn).ok_or(CmError::Gone)?;
        let qpn = known.qpn.ok_or(CmError::Gone)?;
        let open = known.open.as_mut().ok_or(CmError::Gone)?;
        open.qpn = qpn;
        open.initiator_depth = params.initiator_depth;
        open.responder_resources = params.responder_resources.min(MAX_READS);
        open.private_data.clone_from(&params.private_data);
        let sent = self.machine.connect(now, conn, open);
        self.transmit();
        if sent { Ok(()) } else { Err(CmError::Gone) }
    }
}

/// The connection management message in a datagram, if it is one.
fn mad_of(datagram: &[u8]) -> Option<Mad> {
    let packet = Packet::parse(datagram).ok()?;
    let deth = packet.deth?;
    if packet.bth.dest_qpn != CM_QPN || deth.qkey != CM_QKEY {
        return None;
    }
    Mad::parse(packet.payload).ok()
}

fn no_resources(what: &'static str) -> CmError {
    CmError::Resources {
        what,
        source: io::Error::other("all 65,535 of this core are in use"),
        hint: "use more data cores",
    }
}

/// Whether a listener at that address would come up now, and if not, what it would say. A wildcard
/// needs one address of the machine that is free.
///
/// # Errors
/// Why it would not.
pub fn may_listen(addr: IpAddr) -> Result<(), Absence> {
    let all =
        if addr.is_unspecified() { local_addresses(SocketAddr::new(addr, 0)) } else { vec![addr] };
    let mut state = Err(explain(&io::ErrorKind::AddrNotAvailable.into(), addr));
    for local in all {
        match try_out(local) {
            Ok(()) => return Ok(()),
            Err(error) => state = Err(explain(&error, local)),
        }
    }
    state
}

fn explain(error: &io::Error, addr: IpAddr) -> Absence {
    let absent = error.kind() == io::ErrorKind::AddrNotAvailable;
    let reason = match error.kind() {
        io::ErrorKind::AddrInUse => format!(
            "UDP port 4791 of {addr} is taken, by another process or by the kernel's soft-RoCE \
             (rdma_rxe): end that process, or remove the kernel's devices (rdma link delete NAME) \
             or use them with provider = \"verbs\""
        ),
        io::ErrorKind::AddrNotAvailable => {
            format!("this machine has no address {addr} yet; it is looked for every 2 s")
        }
        _ if matches!(addr, IpAddr::V6(v6) if v6.is_unicast_link_local()) => format!(
            "soft-RoCE cannot use the link-local address {addr}: give the interface a unique local \
             (fd00::/8) or global address, or use an RDMA device with provider = \"verbs\""
        ),
        io::ErrorKind::PermissionDenied => {
            format!("not allowed to bind UDP port 4791 of {addr}: {error}")
        }
        _ if error.raw_os_error() == Some(libc::EMFILE) => format!(
            "cannot bind UDP port 4791 of {addr}: {error}; raise the limit of open files (ulimit -n, \
             LimitNOFILE of a service)"
        ),
        _ => format!("cannot bind UDP port 4791 of {addr}: {error}"),
    };
    Absence { reason, absent }
}
