//! What happens to one queue: admission, acceptance, commands, its end.

use super::queues::{Entry, Names, Phase};
use super::{CONTROL_CORE, Control, ListenerState, Stopping};
use crate::mail::{QueueParams, ToControl, ToCore};
use backing::BlockIo;
use nvme_spec_types::nqn::{NQN_FIELD_SIZE, Nqn};
use nvme_spec_types::rdma_cm::{CmReject, CmRejectStatus, RECFMT};
use nvme_spec_types::status::Status;
use nvme_spec_types::{AdminOpcode, Command, IoOpcode};
use nvmf::QueueKey;
use nvmf::target::{Admission, QueueInfo, TargetAction};
use nvmf::view::QueueActivity;
use rdma::cm::QpParams;
use rdma::{
    AcceptParams, CmEvent, ConnId, ConnectRequest, ConnectionManager, CoreIndex, Device, Now,
};
use tracing::{debug, info, warn};

/// Send-side work requests that are kept free of a queue's depth: the longest chain of one
/// command, which is a WRITE per data descriptor and the SEND.
const LONGEST_CHAIN: u32 = nvmf::queue::MAX_SEGMENTS as u32 + 1;

/// Where a Connect command's data names the subsystem and the host (NVMe Base 2.1, 6.3).
const SUBNQN_AT: usize = 256;
const HOSTNQN_AT: usize = 512;

/// RNR retries that we accept with: for ever. A host without a posted receive is slow, not gone.
const RNR_RETRY: u8 = 7;

impl<C, D, B> Control<C, D, B>
where
    C: ConnectionManager,
    D: Device<Endpoint = C::Endpoint>,
    B: BlockIo,
{
    pub(super) fn on_cm_event(&mut self, now: Now, event: CmEvent) {
        match event {
            CmEvent::Request(request) => self.on_request(now, request),
            CmEvent::Established(conn) => self.on_established(now, conn),
            CmEvent::Disconnected { conn, reason } => {
                if let Some(key) = self.queues.by_conn(conn) {
                    if let Some(entry) = self.queues.get_mut(key) {
                        entry.ended = true;
                    }
                    self.close(now, key, &reason);
                    self.carry_out(now);
                }
            }
            CmEvent::ListenerUp { listener, device } => {
                if let Some(status) = self.listeners.get_mut(&listener) {
                    info!(address = %status.address, %device, "listening");
                    status.state = ListenerState::Up { device };
                }
            }
            CmEvent::ListenerDown { listener, reason, absent } => {
                if let Some(status) = self.listeners.get_mut(&listener) {
                    warn!(address = %status.address, %reason, "not listening, will try again");
                    status.state = ListenerState::Down { reason, absent };
                }
            }
            // Events of the connecting side: this side never connects.
            CmEvent::Connected { .. } | CmEvent::Refused { .. } => {}
        }
    }

    fn on_request(&mut self, now: Now, request: ConnectRequest) {
        self.stats.requests += 1;
        match self.admit(now, &request) {
            Ok(()) => {}
            Err((status, why)) => {
                self.stats.refused += 1;
                if let Some(dropped) = self.limits.rejected.allow(now) {
                    warn!(peer = %request.peer, local = %request.local, %why, dropped,
                        "connection refused");
                }
                self.cm.reject(now, request.conn, &reject_data(status));
            }
        }
    }

    /// Takes a connection in up to the message that has its core post receives.
    fn admit(
        &mut self,
        now: Now,
        request: &ConnectRequest,
    ) -> Result<(), (CmRejectStatus, String)> {
        let no_room = |why: &str| (CmRejectStatus::NO_RESOURCES, why.to_owned());
        if self.stopping != Stopping::No {
            return Err(no_room("the target stops"));
        }
        let Some(port) = self.listeners.get(&request.listener).map(|status| status.port) else {
            return Err(no_room("its listener is gone"));
        };
        let admission = self
            .target
            .admit(&request.private_data)
            .map_err(|reason| (reason.status(), reason.to_string()))?;
        if self.queues.len() >= self.config.max_queues {
            return Err(no_room("too many queues"));
        }
        if self.queues.pending() >= self.config.max_pending {
            return Err(no_room("too many connections without Connect"));
        }
        if self.queues.pending_of(request.peer.ip()) >= self.config.max_pending_per_peer {
            return Err(no_room("too many connections of this host without Connect"));
        }
        let core = self.choose_core(admission.qid);
        let qp = self.qp_params(&admission, request);
        let endpoint = self.cm.prepare(request.conn, core, &qp).map_err(|error| {
            (CmRejectStatus::NO_RESOURCES, format!("cannot make a queue pair: {error}"))
        })?;
        let key = self.queues.next_key();
        let activity = QueueActivity::default();
        activity.mark(now);
        let params = QueueParams {
            qid: admission.qid,
            sq_entries: admission.sq_entries,
            host_receives: admission.host_receives,
            in_capsule: if admission.qid == 0 { 0 } else { self.config.in_capsule },
            activity: activity.clone(),
        };
        let info =
            QueueInfo { admission, port, local: request.local, peer: request.peer, activity };
        debug!(peer = %request.peer, qid = info.admission.qid, core = core.0,
            device = %request.device.name, "connection requested");
        self.queues.insert(
            key,
            Entry {
                conn: request.conn,
                core,
                phase: Phase::AwaitAttached,
                info,
                reads: qp.max_reads,
                connect_by: now + self.config.connect_timeout,
                ended: false,
            },
        );
        self.tell(now, core, ToCore::Attach { key, endpoint, params });
        Ok(())
    }

    /// Admin queues stay here, I/O queues go where the fewest are.
    fn choose_core(&self, qid: u16) -> CoreIndex {
        if qid == 0 {
            return CONTROL_CORE;
        }
        (1..=self.config.data_cores)
            .map(CoreIndex)
            .min_by_key(|core| self.queues.on_core(*core))
            .unwrap_or(CONTROL_CORE)
    }

    fn qp_params(&self, admission: &Admission, request: &ConnectRequest) -> QpParams {
        let entries = u32::from(admission.sq_entries);
        // A response and one data transfer per command, and room for one long chain. Commands
        // beyond that wait for send credit, so less is slower but never wrong.
        let send_depth = (2 * entries + LONGEST_CHAIN).min(request.device.max_qp_wr.max(1));
        // The host's offer of READs that it answers bounds ours. Some hosts offer none and mean
        // nothing by it, so one is always used.
        let max_reads = request
            .responder_resources
            .min(request.device.max_qp_reads)
            .min(self.config.max_reads)
            .max(1);
        QpParams {
            send_depth,
            recv_depth: entries,
            max_reads,
            shared_recv: self.config.shared_recv,
        }
    }

    fn on_established(&mut self, now: Now, conn: ConnId) {
        let Some(key) = self.queues.by_conn(conn) else { return };
        let Some(entry) = self.queues.get(key) else { return };
        let core = entry.core;
        match entry.phase {
            Phase::AwaitEstablished => self.queues.set_phase(key, Phase::AwaitConnect),
            // The host's first command overtook the event; its core still waits for it.
            Phase::Bound(_) => {}
            Phase::AwaitAttached | Phase::AwaitConnect | Phase::AwaitDetached => return,
        }
        self.tell(now, core, ToCore::Established(key));
    }

    pub(super) fn on_mail(&mut self, now: Now, message: ToControl<C::Endpoint>) {
        match message {
            ToControl::Attached(key) => self.on_attached(now, key),
            ToControl::Refused { key, endpoint } => self.on_refused(now, key, endpoint),
            ToControl::Execute { key, slot, command, data } => {
                // A queue that closes meanwhile has no use for an answer.
                if self.core_of(key).is_some() {
                    self.ask_target(|target, out| {
                        target.on_command(now, key, slot, &command, &data, out);
                    });
                    self.log_refused_connect(now, key, &data);
                }
            }
            ToControl::Flushed { key, slot, failed } => {
                if self.core_of(key).is_some() {
                    let result = failed.map_or(Ok(()), Err);
                    self.ask_target(|target, out| target.on_flushed(key, slot, result, out));
                }
            }
            ToControl::Slow { key, command, took_ns, missed } => {
                self.log_slow(now, key, &command, took_ns, missed);
            }
            ToControl::Failed { key, command, status, location, missed } => {
                if let Some(core) = self.core_of(key) {
                    self.log_failed(now, key, &command, status);
                    self.target.on_command_failed(key, &command, status, location, missed);
                    self.tell(now, core, ToCore::Reported(key));
                }
            }
            ToControl::Aborted { token, stopped } => {
                self.ask_target(|target, out| target.on_abort_done(now, token, stopped, out));
            }
            ToControl::Closing { key, reason } => self.close(now, key, &reason),
            ToControl::Detached { key, endpoint } => self.on_detached(key, endpoint),
            ToControl::Here(core, call) => self.roll_call.on_answer(core, call),
            ToControl::BackingRemoved(id) => self.on_backing_removed(id),
            ToControl::Claim(id, range) => self.claims.on_ask(id, range),
            ToControl::Quiet(id) => self.claims.on_quiet(id),
            ToControl::Unclaim(id) => self.claims.on_end(id),
        }
        self.tell_of_claims(now);
        self.carry_out(now);
    }

    /// Says who was refused what, when a queue that has no controller was just given an error. The
    /// names are those that the host gave, where they can be read.
    fn log_refused_connect(&mut self, now: Now, key: QueueKey, data: &[u8]) {
        let Some(entry) = self.queues.get(key).filter(|entry| entry.is_pending()) else { return };
        let refused = self.actions.iter().find_map(|action| match action {
            TargetAction::Complete { queue, outcome, .. } if *queue == key => {
                (outcome.status != Status::SUCCESS).then_some(outcome.status)
            }
            _ => None,
        });
        let Some(status) = refused else { return };
        self.stats.connects_failed += 1;
        let Some(dropped) = self.limits.rejected.allow(now) else { return };
        let name = |at| {
            let field = data.get(at..at + NQN_FIELD_SIZE).and_then(|f| Nqn::from_field(f).ok());
            field.map_or_else(|| "?".to_owned(), |nqn| nqn.as_str().to_owned())
        };
        warn!(peer = %entry.info.peer, subnqn = name(SUBNQN_AT), hostnqn = name(HOSTNQN_AT),
            qid = entry.info.admission.qid, %status, dropped, "Connect refused");
    }

    /// Says which command a host was refused, or a disk failed.
    fn log_failed(&mut self, now: Now, key: QueueKey, command: &[u8; 64], status: Status) {
        let Some((entry, Names { subnqn, hostnqn, cntlid })) = self.bound(key) else { return };
        let (peer, qid) = (entry.info.peer, entry.info.admission.qid);
        let (subnqn, hostnqn, cntlid) = (subnqn.clone(), hostnqn.clone(), *cntlid);
        let Some(dropped) = self.limits.failed.allow(now) else { return };
        info!(%peer, %subnqn, %hostnqn, cntlid, qid, command = %in_words(qid, command), %status, dropped,
            "command failed");
    }

    /// Says which command took long.
    fn log_slow(&mut self, now: Now, key: QueueKey, command: &[u8; 64], took_ns: u64, missed: u64) {
        let Some((entry, Names { subnqn, hostnqn, cntlid })) = self.bound(key) else { return };
        let (peer, qid) = (entry.info.peer, entry.info.admission.qid);
        let (subnqn, hostnqn, cntlid) = (subnqn.clone(), hostnqn.clone(), *cntlid);
        let Some(dropped) = self.limits.slow.allow(now) else { return };
        warn!(%peer, %subnqn, %hostnqn, cntlid, qid, command = %in_words(qid, command),
            took_us = took_ns / 1000, missed, dropped, "slow command");
    }

    /// A queue that belongs to a controller, and what logs call it.
    fn bound(&self, key: QueueKey) -> Option<(&Entry, &Names)> {
        let entry = self.queues.get(key)?;
        match &entry.phase {
            Phase::Bound(names) => Some((entry, names)),
            _ => None,
        }
    }

    fn on_attached(&mut self, now: Now, key: QueueKey) {
        let Some(entry) = self.queues.get(key) else { return };
        if entry.phase != Phase::AwaitAttached {
            return;
        }
        let params = AcceptParams {
            private_data: self.target.accept_private_data(&entry.info.admission).to_vec(),
            initiator_depth: entry.reads,
            responder_resources: 0,
            rnr_retry: RNR_RETRY,
        };
        let (conn, info) = (entry.conn, entry.info.clone());
        // The target knows the queue before the peer can send anything.
        self.target.on_queue_opened(now, key, info);
        self.queues.set_phase(key, Phase::AwaitEstablished);
        if let Err(error) = self.cm.accept(now, conn, &params) {
            self.close(now, key, &format!("cannot accept: {error}"));
        }
    }

    fn on_refused(&mut self, now: Now, key: QueueKey, endpoint: C::Endpoint) {
        let Some(entry) = self.queues.remove(key) else {
            debug_assert!(false, "a core refused a queue that was never given to it");
            return;
        };
        self.stats.refused += 1;
        if !entry.ended {
            if let Some(dropped) = self.limits.rejected.allow(now) {
                warn!(peer = %entry.info.peer, qid = entry.info.admission.qid, core = entry.core.0,
                    dropped, "connection refused: the core has no memory left for its receives; \
                    raise tuning.memory");
            }
            self.cm.reject(now, entry.conn, &reject_data(CmRejectStatus::NO_RESOURCES));
        }
        self.cm.destroy(entry.conn, endpoint);
    }

    fn on_detached(&mut self, key: QueueKey, endpoint: C::Endpoint) {
        let Some(entry) = self.queues.remove(key) else {
            debug_assert!(false, "a core gave back a queue that was never given to it");
            return;
        };
        debug!(peer = %entry.info.peer, qid = entry.info.admission.qid, "queue drained");
        self.cm.destroy(entry.conn, endpoint);
    }

    /// Begins the end of a queue: once, whoever asks first.
    pub(super) fn close(&mut self, now: Now, key: QueueKey, reason: &str) {
        let Some(entry) = self.queues.get_mut(key) else { return };
        if entry.phase == Phase::AwaitDetached {
            return;
        }
        let was = entry.phase.clone();
        let (conn, core, ended) = (entry.conn, entry.core, entry.ended);
        entry.ended = true;
        let (peer, qid) = (entry.info.peer, entry.info.admission.qid);
        self.queues.set_phase(key, Phase::AwaitDetached);
        match &was {
            Phase::Bound(_) => self.stats.ended += 1,
            _ => self.stats.ended_early += 1,
        }
        if let Some(dropped) = self.limits.ended.allow(now) {
            match &was {
                Phase::Bound(Names { subnqn, hostnqn, cntlid }) => {
                    info!(%peer, %subnqn, %hostnqn, cntlid, qid, %reason, dropped, "disconnected");
                }
                _ => info!(%peer, qid, %reason, dropped, "connection ended before Connect"),
            }
        }
        if !ended {
            if was == Phase::AwaitAttached {
                self.cm.reject(now, conn, &reject_data(CmRejectStatus::NO_RESOURCES));
            } else {
                self.cm.disconnect(now, conn);
            }
        }
        self.tell(now, core, ToCore::Close(key));
        if was != Phase::AwaitAttached {
            self.ask_target(|target, out| target.on_queue_closed(now, key, out));
        }
    }

    fn ask_target(&mut self, ask: impl FnOnce(&mut nvmf::target::Target, &mut Vec<TargetAction>)) {
        let mut out = Vec::new();
        ask(&mut self.target, &mut out);
        self.actions.extend(out);
    }

    /// Carries out what the target asked for, in order, until nothing is left.
    pub(super) fn carry_out(&mut self, now: Now) {
        while let Some(action) = self.actions.pop_front() {
            match action {
                TargetAction::Bind { queue, binding } => {
                    let Some(core) = self.core_of(queue) else { continue };
                    let names = Names {
                        subnqn: binding.subnqn.clone(),
                        hostnqn: binding.hostnqn.clone(),
                        cntlid: binding.cntlid,
                    };
                    self.stats.connected += 1;
                    if let Some(dropped) = self.limits.connected.allow(now)
                        && let Some(entry) = self.queues.get(queue)
                    {
                        info!(peer = %entry.info.peer, subnqn = %names.subnqn,
                            hostnqn = %names.hostnqn, cntlid = names.cntlid, qid = binding.qid,
                            core = core.0, dropped, "connected");
                    }
                    self.queues.set_phase(queue, Phase::Bound(names));
                    self.tell(now, core, ToCore::Bind { key: queue, binding });
                }
                TargetAction::Complete { queue, slot, outcome } => {
                    if let Some(core) = self.core_of(queue) {
                        self.tell(now, core, ToCore::Complete { key: queue, slot, outcome });
                    }
                }
                TargetAction::Abort { queue, cid, token } => match self.core_of(queue) {
                    Some(core) => self.tell(now, core, ToCore::Abort { key: queue, cid, token }),
                    None => {
                        self.ask_target(|target, out| {
                            target.on_abort_done(now, token, false, out);
                        });
                    }
                },
                TargetAction::Flush { queue, slot, backings } => {
                    if let Some(core) = self.core_of(queue) {
                        self.tell(now, core, ToCore::Flush { key: queue, slot, backings });
                    }
                }
                TargetAction::Close { queue, reason } => self.close(now, queue, &reason),
                TargetAction::Publish(view) => {
                    for core in self.cores() {
                        self.tell(now, core, ToCore::Publish(view.clone()));
                    }
                }
            }
        }
    }
}

/// A command for the log: what, and for I/O commands on which namespace, from which block.
fn in_words(qid: u16, command: &[u8; 64]) -> String {
    match Command::parse(command) {
        Ok(command) if qid == 0 => AdminOpcode(command.opcode()).to_string(),
        Ok(command) => {
            let slba = u64::from(command.cdw10()) | u64::from(command.cdw11()) << 32;
            format!("{} nsid {} slba {slba}", IoOpcode(command.opcode()), command.nsid())
        }
        Err(_) => "?".to_owned(),
    }
}

fn reject_data(status: CmRejectStatus) -> Vec<u8> {
    CmReject { recfmt: RECFMT, sts: status }.to_bytes().to_vec()
}
