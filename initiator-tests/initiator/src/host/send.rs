//! How a command becomes a capsule: its data is described, its memory exposed.

use super::Host;
use crate::controller::{ControlData, Purpose};
use crate::link::{LinkState, Owner, Tag};
use crate::queue::HostQueue;
use crate::request::{Payload, SubmitError};
use nvme_spec_types::{Command, SglDescriptor};
use rdma::{Access, Connector, HostDevice};
use region::Span;

impl<C: Connector, D: HostDevice<Endpoint = C::Endpoint>> Host<C, D> {
    /// Builds and sends a capsule. `scratch` is memory of ours that the command owns.
    pub(super) fn send(
        &mut self,
        qid: u16,
        mut command: Command,
        data: Payload,
        owner: Owner,
        scratch: Option<(Span, bool)>,
    ) -> Result<u16, SubmitError> {
        let link = self.links.get_mut(usize::from(qid)).and_then(Option::as_mut);
        let Some(link) = link.filter(|link| link.state == LinkState::Up) else {
            return Err(SubmitError::NotConnected);
        };
        if !link.queue.has_room() {
            return Err(SubmitError::Full);
        }
        let room = link.queue.shape().in_capsule;
        let mut tail = Vec::new();
        let mut in_capsule = None;
        let (mut keys, mut may_invalidate) = (Vec::new(), Vec::new());
        match data {
            Payload::None => command.set_sgl1(SglDescriptor::NO_DATA),
            Payload::AsIs(bytes) => tail = bytes,
            Payload::InCapsule(span) => {
                in_capsule = Some(span);
                command.set_sgl1(SglDescriptor::InCapsule { offset: 0, len: span.len() });
            }
            Payload::Keyed { spans, access, invalidate } => {
                if spans.len() > 1 && spans.len() * 16 > room as usize {
                    return Err(SubmitError::Data);
                }
                let list = spans.len() > 1;
                for span in spans {
                    let Some(remote) = self.device.expose(link.qp, span, access) else {
                        for rkey in keys {
                            self.device.unexpose(link.qp, rkey);
                        }
                        return Err(SubmitError::Data);
                    };
                    keys.push(remote.rkey);
                    if invalidate {
                        may_invalidate.push(remote.rkey);
                    }
                    let (addr, key) = (remote.addr, remote.rkey);
                    let keyed = SglDescriptor::Keyed { addr, len: span.len(), key, invalidate };
                    if list {
                        tail.extend_from_slice(&keyed.to_bytes());
                    } else {
                        command.set_sgl1(keyed);
                    }
                }
                if list {
                    let len = tail.len() as u32;
                    command.set_sgl1(SglDescriptor::LastSegment { offset: 0, len });
                }
            }
        }
        let tail_len = in_capsule.map_or(tail.len() as u32, Span::len);
        if tail_len > room {
            return Err(SubmitError::Data);
        }
        let cid = link
            .queue
            .begin(Tag { owner, keys, scratch }, may_invalidate)
            .expect("room was checked");
        command.set_cid(cid);
        let slot = HostQueue::<Tag>::slot_of(cid);
        let capsule = link.capsule(slot);
        self.region.write(capsule, command.as_bytes());
        let rest = capsule.slice(64, capsule.len() - 64);
        match in_capsule {
            Some(span) => self.region.copy_to(span, &self.region, rest),
            None => self.region.write(rest, &tail),
        }
        link.send_capsule(slot, 64 + tail_len, &mut self.device);
        self.stats.commands += 1;
        Ok(cid)
    }

    pub(super) fn send_control(
        &mut self,
        qid: u16,
        purpose: Purpose,
        command: Command,
        data: ControlData,
    ) -> Result<(), SubmitError> {
        let (len, access) = match &data {
            ControlData::None => (0, Access::RemoteRead),
            ControlData::ToController(bytes) => (bytes.len() as u32, Access::RemoteRead),
            ControlData::FromController(len) => (*len, Access::RemoteWrite),
        };
        if len == 0 {
            let owner = Owner::Controller(purpose);
            return self.send(qid, command, Payload::None, owner, None).map(drop);
        }
        let span = self.arena.alloc(len).ok_or(SubmitError::Data)?;
        let mut in_capsule = false;
        if let ControlData::ToController(bytes) = &data {
            self.region.write(span, bytes);
            let room = self.link(qid).map_or(0, |link| link.queue.shape().in_capsule);
            in_capsule = self.config.connect_in_capsule && len <= room;
        }
        let payload = if in_capsule {
            Payload::InCapsule(span)
        } else {
            Payload::Keyed { spans: vec![span], access, invalidate: self.config.invalidate }
        };
        let scratch = Some((span, access == Access::RemoteWrite));
        let sent = self.send(qid, command, payload, Owner::Controller(purpose), scratch);
        if sent.is_err() {
            self.arena.free(span);
        }
        sent.map(drop)
    }
}
