//! How work requests are carried out.

use super::{Cqe, Event, Nanos, Net, NetFault, QpState};
use rdma::{RemoteAddr, SendOp, Wc, WcOp, WcStatus};
use region::Span;

/// Bytes of a response: what a planted stale SEND damages.
const POISON: u8 = 0xee;

impl Net {
    /// Staged entries of a queue pair go out.
    pub(super) fn send_staged(&mut self, qp: usize) {
        let staged = std::mem::take(&mut self.qps[qp].staged);
        if staged.is_empty() {
            return;
        }
        for mut entry in staged {
            let latency = self.latency();
            let now = self.now;
            let pair = &mut self.qps[qp];
            entry.arrive_at = (now + latency).max(pair.last_arrival + 1);
            pair.last_arrival = entry.arrive_at;
            let at = entry.arrive_at;
            pair.sq.push_back(entry);
            if pair.state == QpState::Error {
                continue;
            }
            self.schedule(at, Event::Arrive(qp));
        }
        if self.qps[qp].state == QpState::Error {
            self.flush_sends(qp);
        }
    }

    /// Carries out what has arrived, in order.
    pub(super) fn on_arrive(&mut self, qp: usize) {
        loop {
            let pair = &self.qps[qp];
            let index = pair.executed;
            if pair.state == QpState::Error || pair.state == QpState::Destroyed {
                return;
            }
            let Some(entry) = pair.sq.get(index) else { return };
            if entry.arrive_at > self.now {
                return;
            }
            if pair.rnr_until > self.now {
                let until = pair.rnr_until;
                return self.schedule(until, Event::Arrive(qp));
            }
            let Some(peer) = pair
                .peer
                .filter(|&peer| matches!(self.qps[peer].state, QpState::Init | QpState::Ready))
            else {
                return self.finish(qp, index, WcStatus::RetryExceeded);
            };
            let wr = entry.wr;
            let status = match wr.op {
                SendOp::Send => self.arrive_send(qp, index, peer, None),
                SendOp::SendWithInvalidate { rkey } => {
                    self.arrive_send(qp, index, peer, Some(rkey))
                }
                SendOp::Write { remote } => self.arrive_write(qp, peer, remote, wr.local),
                SendOp::Read { remote } => self.arrive_read(qp, index, peer, remote, wr.local),
            };
            match status {
                None => return,
                Some(status) => self.finish(qp, index, status),
            }
        }
    }

    /// The fate of entry `index` is known at the far end; the near end learns it later.
    fn finish(&mut self, qp: usize, index: usize, status: WcStatus) {
        let mut delay = self.latency();
        if status == WcStatus::RetryExceeded {
            delay += self.rng.range(100_000, 5_000_000);
        }
        let now = self.now;
        let pair = &mut self.qps[qp];
        let done_at = (now + delay).max(pair.last_done);
        pair.last_done = done_at;
        let entry = &mut pair.sq[index];
        entry.executed = true;
        entry.status = status;
        entry.done_at = Some(done_at);
        pair.executed = index + 1;
        if status == WcStatus::Success {
            return self.schedule(done_at, Event::Complete(qp));
        }
        // Nothing after it is carried out.
        let peer = pair.peer;
        self.fail_sends_from(qp, index + 1, done_at);
        self.schedule(done_at, Event::Complete(qp));
        if let Some(peer) = peer
            && status != WcStatus::RetryExceeded
        {
            let at = self.now + self.rng.below(50_000);
            self.schedule(at, Event::Fail(peer));
        }
        if status != WcStatus::RetryExceeded && self.peer_is_trusted(qp) {
            let wr = self.qps[qp].sq[index].wr;
            self.violation(format!("a well-behaved peer refused {:?}: {status:?}", wr.op));
        }
    }

    /// Marks a queue pair failed from entry `index` on, known at `at`.
    fn fail_sends_from(&mut self, qp: usize, index: usize, at: Nanos) {
        let pair = &mut self.qps[qp];
        if pair.state != QpState::Destroyed {
            pair.state = QpState::Error;
        }
        for entry in pair.sq.iter_mut().skip(index) {
            entry.executed = true;
            entry.status = WcStatus::Flushed;
            entry.done_at = Some(at);
        }
        pair.last_done = pair.last_done.max(at);
        pair.executed = pair.sq.len();
        pair.reads_out = 0;
        self.schedule(at, Event::Complete(qp));
        self.schedule(at, Event::FlushRecvs(qp));
    }

    /// Flushes what is left in the send queue of a failed queue pair.
    fn flush_sends(&mut self, qp: usize) {
        let now = self.now;
        let pair = &self.qps[qp];
        // Those already known at the far end and due now succeed; the rest is flushed.
        let keep = pair.sq.iter().take_while(|e| e.done_at.is_some_and(|at| at <= now)).count();
        let settled = pair.sq.iter().take_while(|e| e.done_at.is_some() && e.executed).count();
        let from = if pair.state == QpState::Error { settled } else { keep };
        let at = (now + self.rng.below(20_000)).max(self.qps[qp].last_done);
        self.fail_sends_from(qp, from, at);
    }

    /// The queue pair goes to the error state.
    pub(super) fn fail(&mut self, qp: usize) {
        if matches!(self.qps[qp].state, QpState::Error | QpState::Destroyed) {
            return;
        }
        self.flush_sends(qp);
    }

    /// Completes the receives of a failed queue pair's own queue.
    pub(super) fn flush_recvs(&mut self, qp: usize, rq: usize) {
        if self.rqs[rq].shared {
            return;
        }
        if self.qps[qp].state == QpState::Destroyed {
            return self.rqs[rq].posted.clear();
        }
        let device = self.qps[qp].device;
        let local = self.qps[qp].local.unwrap_or(u32::MAX);
        while let Some(wr) = self.rqs[rq].posted.pop_front() {
            let wc = Wc {
                wr_id: wr.wr_id,
                qp: rdma::QpId(local),
                op: WcOp::Recv { byte_len: 0, invalidated: None },
                status: WcStatus::Flushed,
            };
            self.devices[device].cq.push_back(Cqe { qp, wc, retires: 0, recv: None });
        }
    }

    /// Hands out completions of entries whose time has come, in order.
    pub(super) fn on_complete(&mut self, qp: usize) {
        while let Some(entry) = self.qps[qp].sq.front() {
            let Some(done_at) = entry.done_at.filter(|_| entry.executed) else { return };
            if done_at > self.now {
                return self.schedule(done_at, Event::Complete(qp));
            }
            let Some(entry) = self.qps[qp].sq.pop_front() else { return };
            self.qps[qp].executed = self.qps[qp].executed.saturating_sub(1);
            if let SendOp::Read { .. } = entry.wr.op {
                self.qps[qp].reads_out = self.qps[qp].reads_out.saturating_sub(1);
                if entry.status == WcStatus::Success {
                    let region = &self.devices[self.qps[qp].device].region;
                    region.write(entry.wr.local, &entry.answer);
                }
            }
            let ok = entry.status == WcStatus::Success;
            // A provider may leave out the flushed completion of an unsignaled entry that a
            // signaled one of its chain follows; this one does so by chance.
            let followed = self.qps[qp].sq.iter().any(|e| e.wr.signaled);
            let read = matches!(entry.wr.op, SendOp::Read { .. });
            let silent = !entry.wr.signaled && !read && (ok || followed && self.rng.chance(5_000));
            let lost = ok
                && self.plant == Some(NetFault::LoseSendCompletion)
                && !self.nodes[self.devices[self.qps[qp].device].node].trusted
                && matches!(entry.wr.op, SendOp::Send | SendOp::SendWithInvalidate { .. })
                && self.rng.chance(200);
            let pair = &mut self.qps[qp];
            pair.unsignaled_done += 1;
            if silent || lost {
                continue;
            }
            let retires = std::mem::take(&mut pair.unsignaled_done);
            let device = pair.device;
            let local = rdma::QpId(pair.local.unwrap_or(u32::MAX));
            let wc = Wc { wr_id: entry.wr.wr_id, qp: local, op: WcOp::Send, status: entry.status };
            self.devices[device].cq.push_back(Cqe { qp, wc, retires, recv: None });
        }
    }

    /// A SEND arrives. `None`: the receiver is not ready, and it arrives again later.
    fn arrive_send(
        &mut self,
        qp: usize,
        index: usize,
        peer: usize,
        invalidate: Option<u32>,
    ) -> Option<WcStatus> {
        let rq = self.qps[peer].rq;
        let device = self.qps[peer].device;
        let Some(&recv) = self.rqs[rq].posted.front() else {
            if self.peer_is_trusted(qp) {
                self.violation("a SEND to a host that has no receive posted".into());
            }
            self.qps[qp].rnr_until = self.now + self.rng.range(5_000, 200_000);
            let until = self.qps[qp].rnr_until;
            self.schedule(until, Event::Arrive(qp));
            return None;
        };
        let entry = &self.qps[qp].sq[index];
        let (local, inline) = (entry.wr.local, entry.inline);
        let len = local.len();
        if let Some(rkey) = invalidate
            && !self.invalidate(device, peer, rkey)
        {
            return Some(WcStatus::RemoteAccess);
        }
        self.rqs[rq].posted.pop_front();
        let source = self.devices[self.qps[qp].device].region.clone();
        let sink = self.devices[device].region.clone();
        let fits = len <= recv.head.len() + recv.tail.len();
        if fits {
            let first = len.min(recv.head.len());
            match inline {
                Some(bytes) => {
                    let bytes = &bytes[..len as usize];
                    sink.write(recv.head, &bytes[..first as usize]);
                    sink.write(recv.tail, &bytes[first as usize..]);
                }
                None => {
                    if self.plant == Some(NetFault::StaleSend) && self.rng.chance(100) {
                        source.fill(local, POISON);
                    }
                    source.copy_to(local.slice(0, first), &sink, recv.head);
                    source.copy_to(local.slice(first, len - first), &sink, recv.tail);
                }
            }
        }
        let wc = Wc {
            wr_id: recv.wr_id,
            qp: rdma::QpId(self.qps[peer].local.unwrap_or(u32::MAX)),
            op: WcOp::Recv {
                byte_len: if fits { len } else { 0 },
                invalidated: invalidate.filter(|_| fits),
            },
            status: if fits { WcStatus::Success } else { WcStatus::LocalError },
        };
        let recv = Some((rq, recv));
        self.devices[device].cq.push_back(Cqe { qp: peer, wc, retires: 0, recv });
        if !fits {
            self.fail(peer);
            return Some(WcStatus::RemoteInvalidRequest);
        }
        Some(WcStatus::Success)
    }

    fn arrive_write(
        &mut self,
        qp: usize,
        peer: usize,
        remote: RemoteAddr,
        local: Span,
    ) -> Option<WcStatus> {
        let Some(target) = self.remote_span(peer, remote, local.len(), true) else {
            return Some(WcStatus::RemoteAccess);
        };
        let source = self.devices[self.qps[qp].device].region.clone();
        let sink = self.devices[self.qps[peer].device].region.clone();
        source.copy_to(local, &sink, target);
        Some(WcStatus::Success)
    }

    fn arrive_read(
        &mut self,
        qp: usize,
        index: usize,
        peer: usize,
        remote: RemoteAddr,
        local: Span,
    ) -> Option<WcStatus> {
        let Some(source) = self.remote_span(peer, remote, local.len(), false) else {
            return Some(WcStatus::RemoteAccess);
        };
        let mut answer = vec![0; local.len() as usize];
        self.devices[self.qps[peer].device].region.read(source, &mut answer);
        self.qps[qp].sq[index].answer = answer;
        // Until the answer comes the destination is worth nothing.
        self.devices[self.qps[qp].device].region.fill(local, POISON);
        Some(WcStatus::Success)
    }

    /// The place in the region of `peer`'s device that a remote address names, if it is open.
    fn remote_span(&self, peer: usize, remote: RemoteAddr, len: u32, write: bool) -> Option<Span> {
        if len == 0 {
            return Some(Span::new(0, 0));
        }
        let dev = &self.devices[self.qps[peer].device];
        let key = dev.keys.get((remote.rkey >> 8) as usize)?;
        let offset = u32::try_from(remote.addr.checked_sub(dev.base)?).ok()?;
        let span = Span::new(offset, len);
        let good = key.valid
            && key.generation == remote.rkey as u8
            && key.qp == peer
            && (key.writable || !write)
            && offset >= key.span.offset()
            && span.end() <= key.span.end();
        good.then_some(span)
    }

    /// Closes a key on behalf of the peer; false when there is no such key open.
    fn invalidate(&mut self, device: usize, qp: usize, rkey: u32) -> bool {
        match self.devices[device].keys.get_mut((rkey >> 8) as usize) {
            Some(key) if key.valid && key.generation == rkey as u8 && key.qp == qp => {
                key.valid = false;
                true
            }
            _ => false,
        }
    }
}
