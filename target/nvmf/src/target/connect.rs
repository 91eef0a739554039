//! Connect: a queue becomes part of a controller (NVMe Base 2.1, 6.3).

use super::aer::Events;
use super::controller::{Controller, ControllerKey, Kind};
use super::fail::{Answer, Fail, at};
use super::features::Features;
use super::keep_alive::KeepAlive;
use super::logs::changed::ChangedNamespaces;
use super::logs::error::ErrorLog;
use super::{Binding, Bound, DISCOVERY_SUBSYSTEM, DuplicateHosts, Target, TargetAction};
use crate::{Outcome, QueueKey, SubsystemRef};
use core::time::Duration;
use nvme_spec_types::fabrics::{
    CNTLID_DYNAMIC, Connect, ConnectAttributes, ConnectData, ConnectError, ConnectLocation,
    ConnectResponse,
};
use nvme_spec_types::property::{Cc, Csts};
use nvme_spec_types::status::StatusCode;
use nvme_spec_types::{Command, Nqn};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Record format of Connect that we know.
const RECFMT: u16 = 0;

/// A Connect whose fields are readable.
struct Request {
    connect: Connect,
    hostid: [u8; 16],
    cntlid: u16,
    subsystem: SubsystemRef,
    hostnqn: Nqn,
}

impl Target {
    /// The Connect of a queue that belongs to nobody yet.
    pub(super) fn connect(
        &mut self,
        now: Duration,
        queue: QueueKey,
        command: &Command,
        data: &[u8],
        out: &mut Vec<TargetAction>,
    ) -> Answer {
        let request = self.read_connect(queue, command, data)?;
        let key = match request.connect.qid {
            0 => self.connect_admin(now, queue, &request)?,
            _ => self.connect_io(queue, &request)?,
        };
        out.push(self.bind(queue, key, &request));
        let response = ConnectResponse { cntlid: key.cntlid, ..ConnectResponse::default() };
        Ok(Outcome::result(response.to_dw0().into()).into())
    }

    /// The checks that are the same for every queue.
    fn read_connect(
        &self,
        queue: QueueKey,
        command: &Command,
        data: &[u8],
    ) -> Result<Request, Fail> {
        let connect = Connect::from_command(command);
        if data.len() != ConnectData::SIZE {
            return Err(Fail::dnr(StatusCode::DATA_SGL_LENGTH_INVALID).at(at::SGL1));
        }
        if connect.recfmt != RECFMT {
            return Err(Fail::dnr(StatusCode::CONNECT_INCOMPATIBLE_FORMAT)
                .at(ConnectLocation::RECFMT.offset));
        }
        let admission = &self.queues[&queue].info.admission;
        if connect.qid != admission.qid {
            return Err(Fail::connect(ConnectLocation::QID));
        }
        // No more than the RDMA request announced: so many receives are posted.
        if connect.sqsize.raw() == 0 || connect.sqsize.count() > admission.sq_entries.into() {
            return Err(Fail::connect(ConnectLocation::SQSIZE));
        }
        let data = ConnectData::parse(data)
            .map_err(|_| Fail::dnr(StatusCode::DATA_SGL_LENGTH_INVALID).at(at::SGL1))?;
        let bad_name = |e: ConnectError| Fail::connect(e.location);
        let subnqn = data.subnqn().map_err(bad_name)?;
        let hostnqn = data.hostnqn().map_err(bad_name)?;
        let Some(&subsystem) = self.names.get(subnqn.as_str()) else {
            return Err(Fail::connect(ConnectLocation::SUBNQN));
        };
        if !self.subsystems[&subsystem].allows(hostnqn.as_str()) {
            return Err(Fail::dnr(StatusCode::CONNECT_INVALID_HOST));
        }
        let ConnectData { hostid, cntlid, .. } = data;
        Ok(Request { connect, hostid, cntlid, subsystem, hostnqn })
    }

    /// An admin queue makes a controller.
    fn connect_admin(
        &mut self,
        now: Duration,
        queue: QueueKey,
        request: &Request,
    ) -> Result<ControllerKey, Fail> {
        // Controllers are made when asked for: no host can know an id, nor ask for an old state.
        if request.cntlid != CNTLID_DYNAMIC {
            return Err(Fail::connect(ConnectLocation::CNTLID));
        }
        let id = request.subsystem;
        if self.is_one_too_many(queue, request) {
            // Not for ever: its controller from before ends at the latest with its timer.
            return Err(Fail::retry(StatusCode::CONNECT_CONTROLLER_BUSY));
        }
        let controllers = &self.controllers;
        let in_use = |cntlid| controllers.contains_key(&ControllerKey { subsystem: id, cntlid });
        let subsystem = self.subsystems.get_mut(&id);
        let subsystem = subsystem.ok_or(Fail::connect(ConnectLocation::SUBNQN))?;
        let cntlid = subsystem
            .allocate_cntlid(in_use)
            .ok_or(Fail::retry(StatusCode::CONNECT_CONTROLLER_BUSY))?;
        let kind = if id == DISCOVERY_SUBSYSTEM { Kind::Discovery } else { Kind::Io };
        let key = ControllerKey { subsystem: id, cntlid };
        let controller = Controller {
            key,
            kind,
            subnqn: subsystem.nqn.clone(),
            hostnqn: Arc::from(request.hostnqn.as_str()),
            hostid: request.hostid,
            admin: queue,
            io_queues: BTreeMap::new(),
            cc: Cc::default(),
            csts: Csts::default(),
            keep_alive: KeepAlive::default(),
            features: Features::new(now, kind, &self.config),
            events: Events::new(kind),
            errors: ErrorLog::default(),
            changed: ChangedNamespaces::default(),
        };
        self.controllers.insert(key, controller);
        self.set_kato(now, key, request.connect.kato_ms);
        Ok(key)
    }

    /// Whether the host has a controller of the subsystem already, and may not have another.
    ///
    /// A host is known by its NQN when it comes to access, and by its identifier when it comes to
    /// what is held in its name; the specification ties neither to the other. So one NQN with two
    /// identifiers, and one identifier with two NQNs, may both connect, and count as one here.
    fn is_one_too_many(&self, queue: QueueKey, request: &Request) -> bool {
        let port_of = |queue: QueueKey| self.queues.get(&queue).map(|state| state.info.port);
        let per_port = match self.subsystems[&request.subsystem].duplicates {
            DuplicateHosts::Allow => return false,
            DuplicateHosts::OnePerPort => true,
            DuplicateHosts::Refuse => false,
        };
        self.controllers.values().any(|other| {
            let same_name = *other.hostnqn == *request.hostnqn.as_str();
            let same_id = request.hostid != [0; 16] && other.hostid == request.hostid;
            other.key.subsystem == request.subsystem
                && (same_name || same_id)
                && (!per_port || port_of(other.admin) == port_of(queue))
        })
    }

    /// An I/O queue joins a controller of the same host.
    fn connect_io(&mut self, queue: QueueKey, request: &Request) -> Result<ControllerKey, Fail> {
        let admitted_for = self.queues[&queue].info.admission.cntlid;
        let key = ControllerKey { subsystem: request.subsystem, cntlid: request.cntlid };
        let controller = match self.controllers.get_mut(&key) {
            Some(controller) if [CNTLID_DYNAMIC, key.cntlid].contains(&admitted_for) => controller,
            _ => return Err(Fail::connect(ConnectLocation::CNTLID)),
        };
        if *controller.hostnqn != *request.hostnqn.as_str() {
            return Err(Fail::dnr(StatusCode::CONNECT_INVALID_HOST));
        }
        if controller.hostid != request.hostid {
            return Err(Fail::connect(ConnectLocation::HOSTID));
        }
        let qid = request.connect.qid;
        if qid > controller.features.io_queues {
            return Err(Fail::connect(ConnectLocation::QID));
        }
        let in_use = controller.io_queues.contains_key(&qid);
        if !controller.is_ready() || controller.is_shut_down() || in_use {
            return Err(
                Fail::dnr(StatusCode::COMMAND_SEQUENCE_ERROR).at(ConnectLocation::QID.offset)
            );
        }
        controller.io_queues.insert(qid, queue);
        self.on_queue_managed(key);
        Ok(key)
    }

    /// From now on the queue belongs to that controller.
    fn bind(&mut self, queue: QueueKey, key: ControllerKey, request: &Request) -> TargetAction {
        let Connect { qid, sqsize, cattr, .. } = request.connect;
        // Checked against the admission, which counts in the same width.
        let sq_entries = sqsize.raw() + 1;
        let state = self.queues.get_mut(&queue);
        let bound = state.map(|state| {
            state.bound = Some(Bound { controller: key, qid, sq_entries });
            state.info.activity.clone()
        });
        let controller = &self.controllers[&key];
        let view = self.subsystems[&key.subsystem].view.clone();
        let binding = Binding {
            qid,
            cntlid: key.cntlid,
            subsystem: key.subsystem,
            subnqn: controller.subnqn.clone(),
            hostnqn: controller.hostnqn.clone(),
            sq_entries,
            flow_control: !cattr.contains(ConnectAttributes::DISABLE_SQ_FLOW_CONTROL),
            settings: controller.features.settings.clone(),
            activity: bound.unwrap_or_default(),
            view: (qid != 0).then_some(view),
        };
        TargetAction::Bind { queue, binding }
    }
}

#[cfg(test)]
mod tests;
