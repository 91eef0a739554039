//! The life of the connections, one for each queue: opened, lost, drained and taken away.

use super::{Host, HostEvent, HostState};
use crate::link::{Link, LinkState, Owner, RAW_SENDS};
use crate::queue::{Pace, QueueShape};
use crate::request::Lost;
use nvme_spec_types::ZeroBased;
use nvme_spec_types::rdma_cm::{CmReject, CmRequest};
use rdma::cm::QpParams;
use rdma::{CmEvent, ConnId, ConnectParams, Connector, HostDevice, Now};

impl<C: Connector, D: HostDevice<Endpoint = C::Endpoint>> Host<C, D> {
    pub(super) fn on_cm_event(&mut self, now: Now, event: CmEvent) {
        match event {
            CmEvent::Connected { conn, .. } => {
                let Some(qid) = self.qid_of_conn(conn) else { return };
                let link = self.links[qid].as_mut().expect("found above");
                if link.state == LinkState::Connecting {
                    link.state = LinkState::Up;
                    self.controller.on_link_up(qid as u16, &mut self.steps);
                    self.carry_out(now);
                }
            }
            CmEvent::Refused { conn, reason, private_data } => {
                let Some(qid) = self.qid_of_conn(conn) else { return };
                let reason = match CmReject::parse(&private_data) {
                    Ok(reject) => format!("queue {qid} refused: {reason}: {}", reject.sts),
                    Err(_) => format!("queue {qid} refused: {reason}"),
                };
                self.tear_down(now, &reason);
            }
            CmEvent::Disconnected { conn, reason } => {
                if let Some(qid) = self.qid_of_conn(conn)
                    && !self.loses_queue(now, qid)
                {
                    self.tear_down(now, &format!("queue {qid} disconnected: {reason}"));
                }
            }
            CmEvent::Request(request) => self.cm.reject(now, request.conn, &[]),
            CmEvent::Established(_) | CmEvent::ListenerDown { .. } | CmEvent::ListenerUp { .. } => {
            }
        }
    }

    pub(super) fn open(
        &mut self,
        now: Now,
        qid: u16,
        entries: u16,
        cntlid: u16,
        in_capsule: u32,
    ) -> Result<(), String> {
        let pace = if qid == 0 { Pace::Head } else { self.config.pace };
        let shape = QueueShape { qid, entries, in_capsule, pace };
        let params = QpParams {
            send_depth: u32::from(entries) + RAW_SENDS,
            recv_depth: u32::from(entries),
            max_reads: 1,
            shared_recv: false,
        };
        let memory = Link::memory(&shape, &mut self.arena).ok_or("no memory for a queue")?;
        let opened = self.cm.open(now, self.config.target, self.config.core, &params);
        let (conn, endpoint) = opened.map_err(|error| {
            self.arena.free(memory);
            error.to_string()
        })?;
        let attached = self.device.attach(endpoint);
        let mut link = Link::new(shape, conn, attached, memory, &mut self.device);
        if !self.config.controller.flow_control {
            // Asked for with Connect, whose own response already comes without a head.
            link.queue.disable_flow_control();
        }
        self.device.flush(now);
        if self.links.len() <= usize::from(qid) {
            self.links.resize_with(usize::from(qid) + 1, || None);
        }
        self.links[usize::from(qid)] = Some(link);
        let private = CmRequest {
            recfmt: 0,
            qid,
            hrqsize: entries,
            hsqsize: ZeroBased::<u16>::saturating(u32::from(entries)),
            cntlid,
        };
        let params = ConnectParams {
            private_data: private.to_bytes().to_vec(),
            initiator_depth: 0,
            responder_resources: self.config.responder_resources,
        };
        self.cm.connect(now, conn, &params).map_err(|error| error.to_string())
    }

    pub(super) fn tear_down(&mut self, now: Now, reason: &str) {
        if let HostState::Off(_) | HostState::TearingDown = self.state {
            return;
        }
        self.state = HostState::TearingDown;
        self.controller.stop();
        for qid in 0..self.links.len() {
            self.drain(now, qid);
        }
        self.events.push_back(HostEvent::Down(reason.to_owned()));
    }

    /// An I/O queue ends because its controller is being reset; returns whether that is why.
    pub(super) fn loses_queue(&mut self, now: Now, qid: usize) -> bool {
        let reset = matches!(self.state, HostState::Resetting(_)) && qid > 0;
        if reset {
            self.drain(now, qid);
        }
        reset
    }

    /// Begins to take the connection of a queue down, if it has one.
    pub(super) fn drain(&mut self, now: Now, qid: usize) {
        if let Some(link) = self.links[qid].as_mut().filter(|l| l.state != LinkState::Draining) {
            self.cm.disconnect(now, link.conn);
            self.device.fail(link.qp);
            link.state = LinkState::Draining;
        }
    }

    /// Takes drained connections away; when none is left the host is off, or goes on with the
    /// controller that it reset.
    pub(super) fn reap(&mut self, now: Now) -> bool {
        if !matches!(self.state, HostState::TearingDown | HostState::Resetting(_)) {
            return false;
        }
        let mut worked = false;
        for qid in 0..self.links.len() {
            let drained = |link: &Link| link.state == LinkState::Draining && link.is_drained();
            let Some(mut link) = self.links[qid].take_if(|link| drained(link)) else { continue };
            worked = true;
            for tag in link.queue.drain() {
                for &rkey in &tag.keys {
                    self.device.unexpose(link.qp, rkey);
                }
                if let Some((span, _)) = tag.scratch {
                    self.arena.free(span);
                }
                if let Owner::User(token) = tag.owner {
                    let qid = qid as u16;
                    self.events.push_back(HostEvent::Done { qid, token, result: Err(Lost) });
                }
            }
            for &rkey in &link.lent {
                self.device.unexpose(link.qp, rkey);
            }
            let endpoint = self.device.detach(link.qp);
            self.cm.destroy(link.conn, endpoint);
            self.arena.free(link.into_memory());
        }
        if let HostState::Resetting(until) = self.state {
            if self.controller.is_disabled() && self.links.iter().skip(1).all(Option::is_none) {
                self.state = HostState::Connecting(until);
                self.controller.enable_again(&mut self.steps);
                self.carry_out(now);
                worked = true;
            }
        } else if self.links.iter().all(Option::is_none) {
            self.links.clear();
            self.events.push_back(HostEvent::Off);
            let delay = self.config.reconnect_delay.filter(|_| self.wanted);
            self.state = HostState::Off(delay.map(|delay| now + delay));
            worked = true;
        }
        worked
    }

    pub(super) fn qid_of_conn(&self, conn: ConnId) -> Option<usize> {
        self.links.iter().position(|link| link.as_ref().is_some_and(|link| link.conn == conn))
    }
}
