//! The data half: what a core polls.
//!
//! It owns the attached endpoints and, per network card, a table from queue pair numbers to ids
//! (for shared receives). The card's completions come back with a [`Tag`], so most need no
//! look-up. What the card will not complete itself (work refused or posted after a failure)
//! completes from the `stash`, in order (`device/failing.rs`).
//!
//! # A shared receive that completes for a queue pair that is gone
//! It is posted again inside, with the same spans: the caller sees the receive as still posted and
//! loses none. [`Device::detach`] takes what lies in the completion queue first.

use crate::completion::{POLL_BATCH, Raw, WcBatch, status_of};
use crate::context::{CoreNic, Cq};
use crate::endpoint::Endpoint;
use crate::recv_table::RecvTable;
use crate::tag::{MAX_SLOTS, Tag, next_generation};
use rdma::{
    Access, Attached, CoreIndex, Device, HostDevice, Now, PollSource, QpId, RecvQueue, RecvQueueId,
    RecvWr, RemoteAddr, SendWr, Wc, WcOp, WcStatus, WrId,
};
use region::{Region, Span};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

mod failing;
mod posting;

pub use failing::DRAIN_GRACE;

/// A core's device: see [`Device`].
#[derive(Debug)]
pub struct VerbsDevice {
    core: CoreIndex,
    region: Arc<Region>,
    qps: Vec<QpSlot>,
    free_qps: Vec<u16>,
    rqs: Vec<RqSlot>,
    free_rqs: Vec<u16>,
    cqs: Vec<CqSlot>,
    nics: Vec<NicSlot>,
    dirty_qps: Vec<u16>,
    dirty_rqs: Vec<u16>,
    failing: Vec<u16>,
    stash: VecDeque<Stashed>,
    wcs: WcBatch,
    /// Where the next poll starts, so that no completion queue starves.
    turn: usize,
}

#[derive(Debug)]
struct QpSlot {
    generation: u16,
    dirty: bool,
    failure: Failure,
    rq: u16,
    nic: usize,
    endpoint: Option<Endpoint>,
}

/// How far a queue pair's end has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Failure {
    /// It works.
    No,
    /// It failed; the time is not known yet.
    Noticed,
    /// It failed by this time; the card may still flush.
    Since(Now),
    /// The card flushes nothing more.
    Drained,
}

/// Whose receives a queue holds.
#[derive(Debug)]
enum RqOwner {
    Free,
    /// Was the shared queue of a card that is gone. Its id is not used again, and what is still
    /// posted to it (a receive that was in use when the card went) is dropped.
    Retired,
    Own {
        qp: u16,
    },
    Shared {
        nic: usize,
        table: RecvTable,
    },
}

#[derive(Debug)]
struct RqSlot {
    generation: u16,
    dirty: bool,
    owner: RqOwner,
}

#[derive(Debug)]
struct CqSlot {
    cq: Arc<Cq>,
    nic: usize,
    attached: usize,
    invalidated_flags: u32,
}

#[derive(Debug)]
struct NicSlot {
    /// `None` once the card is gone.
    core: Option<Arc<CoreNic>>,
    shared_rq: Option<u16>,
    by_number: HashMap<u32, u16>,
}

/// A completion that waits to be polled, with the shared receive it is of.
#[derive(Debug)]
struct Stashed {
    wc: Wc,
    shared: Option<(u16, RecvWr)>,
}

fn flushed_recv(wr_id: WrId, qp: QpId) -> Wc {
    let op = WcOp::Recv { byte_len: 0, invalidated: None };
    Wc { wr_id, qp, op, status: WcStatus::Flushed }
}

impl VerbsDevice {
    /// A device with no queue pair yet.
    pub(crate) fn new(core: CoreIndex, region: Arc<Region>) -> VerbsDevice {
        VerbsDevice {
            core,
            region,
            qps: Vec::new(),
            free_qps: Vec::new(),
            rqs: Vec::new(),
            free_rqs: Vec::new(),
            cqs: Vec::new(),
            nics: Vec::new(),
            dirty_qps: Vec::new(),
            dirty_rqs: Vec::new(),
            failing: Vec::new(),
            stash: VecDeque::new(),
            wcs: WcBatch::new(),
            turn: 0,
        }
    }

    /// The core that it was opened for.
    pub fn core(&self) -> CoreIndex {
        self.core
    }

    fn take_rq(&mut self, owner: RqOwner) -> u16 {
        if let Some(rq) = self.free_rqs.pop() {
            self.rqs[usize::from(rq)].owner = owner;
            return rq;
        }
        assert!(self.rqs.len() < MAX_SLOTS, "more receive queues than a device holds");
        self.rqs.push(RqSlot { generation: 0, dirty: false, owner });
        (self.rqs.len() - 1) as u16
    }

    fn free_rq(&mut self, rq: u16) {
        let slot = &mut self.rqs[usize::from(rq)];
        slot.owner = RqOwner::Free;
        slot.generation = next_generation(slot.generation);
        if std::mem::take(&mut slot.dirty) {
            self.dirty_rqs.retain(|&d| d != rq);
        }
        self.free_rqs.push(rq);
    }

    fn nic_index(&mut self, core: &Arc<CoreNic>) -> usize {
        let known = |n: &NicSlot| n.core.as_ref().is_some_and(|c| Arc::ptr_eq(c, core));
        if let Some(at) = self.nics.iter().position(known) {
            return at;
        }
        let slot = NicSlot { core: Some(core.clone()), shared_rq: None, by_number: HashMap::new() };
        match self.nics.iter().position(|n| n.core.is_none()) {
            Some(at) => {
                self.nics[at] = slot;
                at
            }
            None => {
                self.nics.push(slot);
                self.nics.len() - 1
            }
        }
    }

    /// Lets go of a removed card that has no queue pair here any more.
    fn forget_dead_nic(&mut self, at: usize) {
        let Some(core) = &self.nics[at].core else { return };
        if !core.nic().is_dead() || self.cqs.iter().any(|c| c.nic == at && c.attached > 0) {
            return;
        }
        self.nics[at].core = None;
        self.cqs.retain(|c| c.nic != at);
        if let Some(rq) = self.nics[at].shared_rq.take() {
            self.rqs[usize::from(rq)].owner = RqOwner::Retired;
        }
    }

    fn slot(&self, qp: QpId) -> &QpSlot {
        &self.qps[qp.0 as usize]
    }

    /// Turns one completion of the card into the caller's, `None` when it is not to be told.
    fn on_completion(&mut self, raw: Raw, nic: usize) -> Option<Stashed> {
        let status = status_of(raw.status);
        let ok = status == WcStatus::Success;
        if !raw.tag.recv {
            let slot = self.qps.get_mut(usize::from(raw.tag.slot))?;
            let endpoint =
                slot.endpoint.as_mut().filter(|_| slot.generation == raw.tag.generation)?;
            let qp = QpId(u32::from(raw.tag.slot));
            let told = |(wr_id, status)| {
                let wc = Wc { wr_id, qp, op: WcOp::Send, status };
                Stashed { wc, shared: None }
            };
            endpoint.sends.complete(raw.tag.index, status);
            let mut first = endpoint.sends.next_done().map(told);
            // Where one releases several, or some wait already, the order is kept by the stash.
            let mut next = endpoint.sends.next_done();
            if next.is_some() || !self.stash.is_empty() {
                self.stash.extend(first.take());
            }
            while let Some(done) = next {
                self.stash.push_back(told(done));
                next = endpoint.sends.next_done();
            }
            if !ok {
                self.mark_failed(raw.tag.slot);
            }
            return first;
        }
        let slot = self.rqs.get_mut(usize::from(raw.tag.slot))?;
        if slot.generation != raw.tag.generation {
            return None;
        }
        let (qp, wr, shared) = match &mut slot.owner {
            RqOwner::Free | RqOwner::Retired => return None,
            RqOwner::Own { qp } => {
                let qp = *qp;
                let endpoint = self.qps[usize::from(qp)].endpoint.as_mut()?;
                (qp, endpoint.recvs.as_mut()?.complete(raw.tag.index)?, None)
            }
            RqOwner::Shared { table, .. } => {
                let wr = table.complete(raw.tag.index)?;
                let Some(&qp) = self.nics[nic].by_number.get(&raw.qp_num) else {
                    self.post_recv(RecvQueueId(u32::from(raw.tag.slot)), wr);
                    return None;
                };
                (qp, wr, Some((raw.tag.slot, wr)))
            }
        };
        if !ok {
            self.mark_failed(qp);
        }
        let byte_len = if ok { raw.byte_len } else { 0 };
        let invalidated = raw.invalidated.filter(|_| ok);
        if let (Some(rkey), Some(endpoint)) = (invalidated, &mut self.qps[usize::from(qp)].endpoint)
        {
            endpoint.exposed.on_invalidated(rkey);
        }
        let op = WcOp::Recv { byte_len, invalidated };
        Some(Stashed { wc: Wc { wr_id: wr.wr_id, qp: QpId(u32::from(qp)), op, status }, shared })
    }

    /// Takes up to `max` completions off one completion queue; returns how many the card gave.
    fn poll_one(&mut self, at: usize, max: usize, mut told: impl FnMut(Stashed)) -> usize {
        let slot = &self.cqs[at];
        let (cq, nic, flags) = (slot.cq.as_ptr(), slot.nic, slot.invalidated_flags);
        let want = max.min(POLL_BATCH);
        // SAFETY: the slot keeps the queue.
        let got = unsafe { self.wcs.poll(cq, want) };
        let Some(got) = got else {
            self.on_broken_cq(at);
            return 0;
        };
        for i in 0..got {
            let raw = self.wcs.get(i, flags);
            if let Some(done) = self.on_completion(raw, nic) {
                told(done);
            }
        }
        got
    }

    fn on_broken_cq(&mut self, at: usize) {
        for qp in 0..self.qps.len() {
            let on_it = |e: &Endpoint| Arc::ptr_eq(&e.cq, &self.cqs[at].cq);
            let slot = &self.qps[qp];
            if slot.failure == Failure::No && slot.endpoint.as_ref().is_some_and(on_it) {
                tracing::error!(qp, "the completion queue broke");
                self.mark_failed(qp as u16);
            }
        }
    }
}

impl Device for VerbsDevice {
    type Endpoint = Endpoint;

    fn attach(&mut self, mut endpoint: Endpoint) -> Attached {
        let nic = self.nic_index(&endpoint.nic().clone());
        let cq_known = self.cqs.iter_mut().find(|c| Arc::ptr_eq(&c.cq, &endpoint.cq));
        match cq_known {
            Some(slot) => slot.attached += 1,
            None => {
                let invalidated_flags = endpoint.nic().nic().invalidated_flags();
                let cq = endpoint.cq.clone();
                self.cqs.push(CqSlot { cq, nic, attached: 1, invalidated_flags });
            }
        }
        let qp = match self.free_qps.pop() {
            Some(qp) => qp,
            None => {
                assert!(self.qps.len() < MAX_SLOTS, "more queue pairs than a device holds");
                self.qps.push(QpSlot {
                    generation: 0,
                    dirty: false,
                    failure: Failure::No,
                    rq: 0,
                    nic: 0,
                    endpoint: None,
                });
                (self.qps.len() - 1) as u16
            }
        };
        let (rq, recv_queue) = match &mut endpoint.recvs {
            Some(table) => {
                let depth = table.depth();
                let rq = self.take_rq(RqOwner::Own { qp });
                (rq, RecvQueue { id: RecvQueueId(u32::from(rq)), shared: false, depth })
            }
            None => {
                let depth = endpoint.nic().srq_depth();
                let rq = match self.nics[nic].shared_rq {
                    Some(rq) => rq,
                    None => {
                        let table = RecvTable::new(depth);
                        self.take_rq(RqOwner::Shared { nic, table })
                    }
                };
                self.nics[nic].shared_rq = Some(rq);
                (rq, RecvQueue { id: RecvQueueId(u32::from(rq)), shared: true, depth })
            }
        };
        self.nics[nic].by_number.insert(endpoint.qp_num(), qp);
        let limits = endpoint.limits;
        let slot = &mut self.qps[usize::from(qp)];
        slot.failure = Failure::No;
        slot.rq = rq;
        slot.nic = nic;
        slot.endpoint = Some(endpoint);
        Attached { qp: QpId(u32::from(qp)), recv_queue, limits }
    }

    fn detach(&mut self, qp: QpId) -> Endpoint {
        let index = qp.0 as u16;
        let slot = &mut self.qps[qp.0 as usize];
        let endpoint = slot.endpoint.take().expect("detached once");
        slot.generation = next_generation(slot.generation);
        slot.failure = Failure::No;
        let (nic, rq) = (slot.nic, slot.rq);
        if std::mem::take(&mut slot.dirty) {
            self.dirty_qps.retain(|&d| d != index);
        }
        self.failing.retain(|&f| f != index);
        self.nics[nic].by_number.remove(&endpoint.qp_num());
        let at = self.cqs.iter().position(|c| Arc::ptr_eq(&c.cq, &endpoint.cq));
        let at = at.expect("an attached queue pair's completion queue is known");
        if endpoint.recvs.is_some() {
            self.free_rq(rq);
        } else {
            // Shared receives that were given to this queue pair go back to the queue before the
            // queue pair is destroyed, which may take their completions away.
            let mut more = Vec::new();
            while self.poll_one(at, POLL_BATCH, |s| more.push(s)) == POLL_BATCH {}
            self.stash.extend(more);
        }
        let mut kept = VecDeque::with_capacity(self.stash.len());
        for stashed in std::mem::take(&mut self.stash) {
            match stashed.shared {
                _ if stashed.wc.qp != qp => kept.push_back(stashed),
                Some((rq, wr)) => self.post_recv(RecvQueueId(u32::from(rq)), wr),
                None => {}
            }
        }
        self.stash = kept;
        self.cqs[at].attached -= 1;
        self.free_qps.push(index);
        self.forget_dead_nic(nic);
        endpoint
    }

    fn fail(&mut self, qp: QpId) {
        self.mark_failed(qp.0 as u16);
    }

    fn post_recv(&mut self, queue: RecvQueueId, wr: RecvWr) {
        let slot = &mut self.rqs[queue.0 as usize];
        let table = match &mut slot.owner {
            RqOwner::Shared { table, .. } => Some(table),
            RqOwner::Own { qp } => {
                self.qps[usize::from(*qp)].endpoint.as_mut().and_then(|e| e.recvs.as_mut())
            }
            RqOwner::Retired => return,
            RqOwner::Free => None,
        };
        table.expect("the receive queue exists").stage(wr);
        if !std::mem::replace(&mut slot.dirty, true) {
            self.dirty_rqs.push(queue.0 as u16);
        }
    }

    fn post_send(&mut self, qp: QpId, wr: SendWr) {
        let index = qp.0 as u16;
        let slot = &mut self.qps[qp.0 as usize];
        let generation = slot.generation;
        let endpoint = slot.endpoint.as_mut().expect("the queue pair is attached");
        let core = endpoint.cq.core();
        let can_invalidate = core.nic().can_invalidate();
        let ask_all = core.nic().lends_unsignaled();
        endpoint.sends.stage(&wr, &self.region, core.lkey(), can_invalidate, ask_all, |seq| {
            Tag { recv: false, generation, slot: index, index: seq }.encode()
        });
        if !std::mem::replace(&mut slot.dirty, true) {
            self.dirty_qps.push(index);
        }
    }

    fn flush(&mut self, _now: Now) {
        // Receives first: the answer to what we send may come at once.
        let mut kept = 0;
        for i in 0..self.dirty_rqs.len() {
            let rq = self.dirty_rqs[i];
            if !self.flush_recvs(rq) {
                self.dirty_rqs[kept] = rq;
                kept += 1;
            }
        }
        self.dirty_rqs.truncate(kept);
        for i in 0..self.dirty_qps.len() {
            self.flush_sends(self.dirty_qps[i]);
        }
        self.dirty_qps.clear();
    }

    fn poll_cq(&mut self, now: Now, max: usize, out: &mut Vec<Wc>) -> usize {
        let before = out.len();
        if !self.failing.is_empty() {
            self.advance_failing(now);
        }
        while out.len() - before < max {
            let Some(stashed) = self.stash.pop_front() else { break };
            out.push(stashed.wc);
        }
        let queues = self.cqs.len();
        for i in 0..queues {
            let at = (self.turn + i) % queues;
            loop {
                let room = max - (out.len() - before);
                if room == 0 {
                    break;
                }
                let got = self.poll_one(at, room, |s| out.push(s.wc));
                if got < room.min(POLL_BATCH) {
                    break;
                }
            }
        }
        self.turn = self.turn.wrapping_add(1);
        out.len() - before
    }

    fn arm(&mut self) {
        for nic in 0..self.nics.len() {
            self.forget_dead_nic(nic);
        }
        for slot in &self.cqs {
            if !slot.cq.core().nic().is_dead() {
                slot.cq.arm();
            }
        }
    }

    fn wait_sources<'a>(&'a self, out: &mut Vec<PollSource<'a>>) {
        let alive = |c: &&CqSlot| !c.cq.core().nic().is_dead();
        out.extend(self.cqs.iter().filter(alive).map(|c| c.cq.fd()));
        let cores = self.nics.iter().filter_map(|n| n.core.as_ref());
        out.extend(cores.filter(|c| !c.nic().is_dead()).map(|c| c.removed()));
    }

    fn timeout(&self) -> Option<Now> {
        if !self.stash.is_empty() {
            return Some(Duration::ZERO);
        }
        let deadline = |&qp: &u16| match self.qps[usize::from(qp)].failure {
            Failure::Since(since) => Some(since + DRAIN_GRACE),
            Failure::Noticed => Some(Duration::ZERO),
            Failure::No | Failure::Drained => None,
        };
        self.failing.iter().filter_map(deadline).min()
    }
}

impl HostDevice for VerbsDevice {
    fn expose(&mut self, qp: QpId, span: Span, access: Access) -> Option<RemoteAddr> {
        let index = qp.0 as u16;
        if self.slot(qp).failure != Failure::No {
            return None;
        }
        let slot = &mut self.qps[qp.0 as usize];
        let generation = slot.generation;
        let endpoint = slot.endpoint.as_mut().expect("the queue pair is attached");
        let remote = endpoint.exposed.expose(span, access, &mut endpoint.sends, |seq| {
            Tag { recv: false, generation, slot: index, index: seq }.encode()
        });
        if !std::mem::replace(&mut slot.dirty, true) {
            self.dirty_qps.push(index);
        }
        remote
    }

    fn unexpose(&mut self, qp: QpId, rkey: u32) {
        let index = qp.0 as u16;
        let slot = &mut self.qps[qp.0 as usize];
        let (generation, failed) = (slot.generation, slot.failure != Failure::No);
        let endpoint = slot.endpoint.as_mut().expect("the queue pair is attached");
        endpoint.exposed.unexpose(rkey, failed, &mut endpoint.sends, |seq| {
            Tag { recv: false, generation, slot: index, index: seq }.encode()
        });
        if !std::mem::replace(&mut slot.dirty, true) {
            self.dirty_qps.push(index);
        }
    }
}
