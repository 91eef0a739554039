//! One thread's engine: queues, their memory, their work requests, their I/O.
//!
//! # Contract
//! A [`Core`] owns a device (RDMA), a storage engine and the use of one region. Messages of the
//! control thread go in by [`Core::handle`]; [`Core::turn`] polls both seams, feeds what they
//! report to the queues, carries out what the queues ask for, and flushes once. It never blocks,
//! reads no clock, and in the steady state allocates nothing.
//!
//! # Resources
//! They are taken in one order: slot, turn (where there is a limit, `core/limits.rs`), buffer, RDMA
//! READ credit, send credit. Nothing is held by a command that waits for an earlier one. Buffers are
//! granted first in, first out over all queues; READ and send credits first in, first out within a
//! queue pair.
//!
//! - A *send credit* is a place in the queue pair's send queue. A response takes one for its SEND
//!   and one for each RDMA WRITE before it; all come back with the SEND's completion, the only one
//!   asked for. A READ takes one, and a READ credit, until its own completion. So much of what hosts
//!   write is asked for ahead, and no more, by all connections of a core (`core/pulls.rs`).
//! - A *response credit* is a receive that the host has posted: no more responses are under way than
//!   the host said it is ready for.
//!
//! - A fused pair has its blocks for itself (`core/claims.rs`). Operations of others on them wait
//!   with all that they hold, for a pair that waits for nothing but disks.
//!
//! # Ends
//! A queue that fails, breaks a rule or is told to close is *closing*: its queue pair is failed and
//! drains. When every send-side work request has completed (and every receive of a receive queue of
//! its own), the endpoint goes back, also while operations on a disk are still out: their buffers
//! stay taken, as an orphan of the connection, until the disk answers.

mod act;
mod audit;
mod claims;
mod close;
mod complete;
mod conn;
mod latency;
mod limits;
#[cfg(feature = "plant")]
mod plant;
mod pulls;
mod receive;
mod send;
mod stages;
#[cfg(test)]
mod tests;

use crate::mail::{QueueParams, ToControl, ToCore};
use crate::pool::{Buddy, Standing};
use backing::{BackingId, BlockIo, IoDone};
use claims::Claims;
use conn::{Conn, here};
pub use latency::{BUCKETS, Latency};
use limits::Lines;
use nvme_spec_types::status::StatusCode;
use nvmf::queue::{Action, CloseReason};
use nvmf::{QueueKey, Slot};
#[cfg(feature = "plant")]
pub use plant::Plant;
use pulls::Pulls;
use rdma::{CoreIndex, Device, Now, PollSource, Wc, WireCounters};
use receive::Ring;
use region::{PAGE_SIZE, Region, Span};
use stages::Probe;
pub use stages::{Stage, StageLatency};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// Completions taken from the device in one turn at most.
const COMPLETIONS_PER_TURN: usize = 64;
/// No connection, no backing.
const NONE: u16 = u16::MAX;
/// Connections of one core at most: what a work request's id can name.
const MAX_CONNS: usize = NONE as usize;

/// How a core is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CoreConfig {
    /// Which core.
    pub index: CoreIndex,
    /// Largest data transfer of one command in bytes, a power of two of at least 4096.
    pub max_transfer: u32,
    /// In-capsule data that receives of a shared receive queue have room for, in bytes.
    pub in_capsule: u32,
    /// Bytes of the region for receives and completion entries; the rest is for transfers.
    pub standing: u32,
    /// Commands that take longer are told to the control thread; none to tell of none.
    pub slow: Option<Duration>,
}

impl CoreConfig {
    /// Half of a region of `region_len` bytes for receives, half for transfers.
    pub fn halves(index: CoreIndex, max_transfer: u32, in_capsule: u32, region_len: usize) -> Self {
        let pages = region_len / PAGE_SIZE / 2;
        let standing = u32::try_from(pages * PAGE_SIZE).unwrap_or(!(PAGE_SIZE as u32 - 1));
        CoreConfig { index, max_transfer, in_capsule, standing, slow: None }
    }
}

/// Why a core cannot be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CoreError {
    /// The region has no room for the largest command beside the receives.
    #[error(
        "a core's memory of {have} bytes is too little: {need} bytes are needed; raise the memory \
         setting or lower the largest transfer"
    )]
    TooLittleMemory {
        /// Bytes of the region.
        have: usize,
        /// Bytes needed at least.
        need: u64,
    },
    /// The largest transfer is no power of two, or below one page or over 1 GiB.
    #[error("a largest transfer of {0} bytes: it must be a power of two from 4096 to 1 GiB")]
    MaxTransfer(u32),
}

/// What a core has done and waited for since its start. Plain counts, but where said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CoreStats {
    /// Calls of [`Core::turn`].
    pub turns: u64,
    /// Those that found something to do.
    pub busy_turns: u64,
    /// Capsules received.
    pub capsules: u64,
    /// Responses posted.
    pub responses: u64,
    /// RDMA READs posted.
    pub reads: u64,
    /// RDMA WRITEs posted.
    pub writes: u64,
    /// Operations handed to storage.
    pub ios: u64,
    /// Operations that storage failed.
    pub io_errors: u64,
    /// Commands handed to the control thread.
    pub executes: u64,
    /// Commands that had to wait for their turn, by a limit.
    pub turn_waits: u64,
    /// Operations that had to wait for the end of a fused pair on the same blocks.
    pub claim_waits: u64,
    /// Commands that had to wait for a buffer.
    pub buffer_waits: u64,
    /// Times that a command had to wait for an RDMA READ credit.
    pub read_waits: u64,
    /// Turns in which READs had to wait, since enough was asked for ahead.
    pub window_waits: u64,
    /// Times that a response had to wait for a send or response credit.
    pub send_waits: u64,
    /// Writes whose data was moved out of a receive, since a shared receive queue ran low.
    pub vacated: u64,
    /// Queues taken in.
    pub attached: u64,
    /// Queues refused for lack of memory.
    pub refused: u64,
    /// Queues that ended by a fault or a broken rule.
    pub faults: u64,
    /// Completions that belonged to nobody any more.
    pub strays: u64,
    /// From the capsule to the response, for commands that this core answered.
    pub command_latency: Latency,
    /// Of that, the time that data from the host took to come by RDMA READ.
    pub pull_latency: Latency,
    /// Of that, the time that operations took on disks.
    pub disk_latency: Latency,
    /// Where a sample of the commands spent their time.
    pub stages: StageLatency,
    /// What the device counted of its packets; zeroes where it does not tell.
    pub wire: WireCounters,
    /// Queues here now, orphans included (a level, not a count).
    pub queues: u64,
    /// Bytes of transfer memory in use now (a level).
    pub transfer_bytes: u64,
    /// Bytes of standing memory in use now (a level).
    pub standing_bytes: u64,
}

/// What a core did on a backing since that was added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskStats {
    /// Which.
    pub id: BackingId,
    /// Operations under way now.
    pub in_flight: u32,
    /// How long operations took.
    pub latency: Latency,
}

/// A command that waits for a buffer.
#[derive(Debug, Clone, Copy)]
struct BufferWait {
    conn: u16,
    slot: Slot,
    len: u32,
}

/// A backing of this core.
#[derive(Debug, Clone, Copy)]
struct BackingUse {
    id: BackingId,
    in_flight: u32,
    removing: bool,
    latency: Latency,
}

/// One thread's engine. See the module for its contract.
#[derive(Debug)]
pub struct Core<D: Device, B: BlockIo> {
    config: CoreConfig,
    region: Arc<Region>,
    device: D,
    io: B,
    buddy: Buddy,
    standing: Standing,
    /// Connections by the number that work request ids carry; reused, told apart by generation.
    conns: Vec<Option<Box<Conn>>>,
    free_conns: Vec<u16>,
    generation: u16,
    by_key: BTreeMap<QueueKey, u16>,
    /// Connection of each queue pair, by its small id.
    by_qp: Vec<u16>,
    rings: Vec<Option<Ring>>,
    backings: Vec<Option<BackingUse>>,
    /// Place in `backings` of each backing, by its id.
    backing_at: Vec<u16>,
    /// Commands that wait for a buffer, first in, first out. Bounded by the slots of all queues.
    buffer_waits: VecDeque<BufferWait>,
    claims: Claims,
    lines: Lines,
    pulls: Pulls,
    probe: Probe,
    /// Connections with something staged for `serve`, each once.
    dirty: Vec<u16>,
    /// What the queue at hand asks for; empty between events.
    actions: Vec<Action>,
    /// Why the queue at hand is to close, once its actions are carried out.
    to_close: Option<CloseReason>,
    wcs: Vec<Wc>,
    dones: Vec<IoDone>,
    scratch: Box<[u8; PAGE_SIZE]>,
    /// But for levels, stages, and the disk latency of backings that are here: those count their own.
    stats: CoreStats,
    /// The time of the turn or message at hand, in nanoseconds.
    now_ns: u64,
    /// [`CoreConfig::slow`] in nanoseconds.
    slow_ns: u64,
    /// Whether a slow command was told in this turn: one is.
    told_slow: bool,
    /// Slow commands since the last one that was told.
    untold_slow: u64,
    /// Responses that were no success, by their status: at most as many as statuses are used.
    failures: BTreeMap<StatusCode, u64>,
    #[cfg(feature = "plant")]
    plant: Option<Plant>,
}

impl<D: Device, B: BlockIo> Core<D, B> {
    /// A core without queues. The device was opened with `region`, and `io` uses it.
    ///
    /// # Errors
    /// [`CoreError`] when the region is too small for the settings.
    pub fn new(
        config: CoreConfig,
        region: Arc<Region>,
        device: D,
        io: B,
    ) -> Result<Core<D, B>, CoreError> {
        let transfer = config.max_transfer;
        if !transfer.is_power_of_two() || !(4096..=1 << 30).contains(&transfer) {
            return Err(CoreError::MaxTransfer(transfer));
        }
        // The largest request for a buffer is a Compare's: twice the largest transfer.
        let block = 2 * transfer;
        let page = PAGE_SIZE as u32;
        let standing = config.standing.next_multiple_of(page);
        let have = region.len();
        let need = u64::from(standing) + u64::from(block);
        if (have as u64) < need {
            return Err(CoreError::TooLittleMemory { have, need });
        }
        let whole = have.min(u32::MAX as usize & !(PAGE_SIZE - 1)) as u32;
        let transfers = Span::new(standing, whole - standing);
        Ok(Core {
            config,
            region,
            device,
            io,
            buddy: Buddy::new(transfers, block),
            standing: Standing::new(Span::new(0, standing)),
            conns: Vec::new(),
            free_conns: Vec::new(),
            generation: 0,
            by_key: BTreeMap::new(),
            by_qp: Vec::new(),
            rings: Vec::new(),
            backings: Vec::new(),
            backing_at: Vec::new(),
            buffer_waits: VecDeque::new(),
            claims: Claims::default(),
            lines: Lines::default(),
            pulls: Pulls::default(),
            probe: Probe::default(),
            dirty: Vec::new(),
            actions: Vec::with_capacity(512),
            to_close: None,
            wcs: Vec::with_capacity(COMPLETIONS_PER_TURN),
            dones: Vec::with_capacity(256),
            scratch: Box::new([0; PAGE_SIZE]),
            stats: CoreStats::default(),
            now_ns: 0,
            slow_ns: config.slow.map_or(u64::MAX, |slow| slow.as_nanos() as u64),
            told_slow: false,
            untold_slow: 0,
            failures: BTreeMap::new(),
            #[cfg(feature = "plant")]
            plant: None,
        })
    }

    /// Carries out a message of the control thread; answers go to `out`. [`ToCore::Stop`] is the
    /// loop's own business and does nothing here.
    pub fn handle(
        &mut self,
        now: Now,
        message: ToCore<D::Endpoint, B::Backing>,
        out: &mut Vec<ToControl<D::Endpoint>>,
    ) {
        self.now_ns = now.as_nanos() as u64;
        match message {
            ToCore::Attach { key, endpoint, params } => {
                self.attach(now, key, endpoint, params, out);
            }
            ToCore::Established(key) => {
                if let Some(c) = self.find(key) {
                    self.conn(c).established = true;
                    self.mark_dirty(c);
                }
            }
            ToCore::Bind { key, binding } => {
                if let Some(c) = self.find(key) {
                    self.conn(c).queue.on_bind(binding);
                }
            }
            ToCore::Complete { key, slot, outcome } => {
                if let Some(c) = self.find(key) {
                    let (conn, actions) = self.conn_and_actions(c);
                    conn.queue.on_executed(slot, outcome, actions);
                    self.carry_out(now, c, out);
                }
            }
            ToCore::Flush { key, slot, backings } => {
                if let Some(c) = self.find(key) {
                    let (conn, actions) = self.conn_and_actions(c);
                    conn.queue.on_flush(slot, &backings, actions);
                    self.carry_out(now, c, out);
                }
            }
            ToCore::Reported(key) => {
                if let Some(c) = self.find(key) {
                    self.conn(c).queue.on_reported();
                }
            }
            ToCore::Abort { key, cid, token } => match self.find(key) {
                Some(c) => {
                    let (conn, actions) = self.conn_and_actions(c);
                    conn.queue.on_abort(cid, token, actions);
                    self.carry_out(now, c, out);
                }
                None => out.push(ToControl::Aborted { token, stopped: false }),
            },
            ToCore::Close(key) => {
                if let Some(c) = self.find(key) {
                    self.close(now, c, None, out);
                }
            }
            ToCore::Claim(id, range) => self.on_claim(id, range, out),
            ToCore::Granted(id) => self.on_granted(now, id, out),
            ToCore::Unclaim(id) => self.on_unclaim(now, id, out),
            ToCore::Publish(view) => {
                for conn in self.conns.iter_mut().flatten() {
                    conn.queue.on_publish(&view);
                }
                self.renew_lines(now, out);
            }
            ToCore::AddBacking(id, backing) => self.add_backing(id, backing),
            ToCore::RemoveBacking(id) => self.remove_backing(id, out),
            ToCore::Call(call) => out.push(ToControl::Here(self.config.index, call)),
            ToCore::Stop => {}
        }
    }

    /// Does everything that can be done now, and returns whether anything was. Messages for the
    /// control thread go to `out`.
    pub fn turn(&mut self, now: Now, out: &mut Vec<ToControl<D::Endpoint>>) -> bool {
        self.stats.turns += 1;
        self.told_slow = false;
        self.now_ns = now.as_nanos() as u64;
        let told = out.len();
        let mut worked = !self.dirty.is_empty();

        if self.device.poll_cq(now, COMPLETIONS_PER_TURN, &mut self.wcs) > 0 {
            worked = true;
            for at in 0..self.wcs.len() {
                let wc = self.wcs[at];
                self.on_wc(now, &wc, out);
            }
            self.wcs.clear();
        }
        if self.io.poll(now, &mut self.dones) > 0 {
            worked = true;
            for at in 0..self.dones.len() {
                self.on_io(now, self.dones[at], out);
            }
            self.dones.clear();
        }

        if self.lines.any() {
            worked |= self.give_turns(now, out);
        }
        if !self.buffer_waits.is_empty() {
            self.grant_buffers(now, out);
        }
        self.serve_dirty();
        if self.pulls.any() {
            self.pull();
        }
        self.device.flush(now);
        self.io.flush(now);
        worked |= out.len() != told;
        self.stats.busy_turns += u64::from(worked);
        worked
    }

    /// Asks both seams to wake the thread at the next completion. Call, then turn once more, then
    /// sleep.
    pub fn arm(&mut self) {
        self.device.arm();
        self.io.arm();
    }

    /// What to sleep on.
    pub fn wait_sources<'a>(&'a self, out: &mut Vec<PollSource<'a>>) {
        self.device.wait_sources(out);
        out.extend(self.io.wait_source());
    }

    /// When [`Core::turn`] must be called next even if no source is readable.
    pub fn timeout(&self) -> Option<Now> {
        let own = [self.lines.timeout(), self.pulls.timeout()];
        [self.device.timeout(), self.io.timeout()].into_iter().chain(own).flatten().min()
    }

    /// Whether nothing is here that anybody waits for: no queue, no operation on a disk.
    pub fn is_idle(&self) -> bool {
        self.conns.len() == self.free_conns.len() && self.io.in_flight() == 0
    }

    /// Whether a disk has something to answer.
    pub fn awaits_disks(&self) -> bool {
        self.io.in_flight() > 0
    }

    /// Which core this is.
    pub fn index(&self) -> CoreIndex {
        self.config.index
    }

    /// Counts since the start, and levels now.
    pub fn stats(&self) -> CoreStats {
        let mut disk_latency = self.stats.disk_latency;
        for backing in self.backings.iter().flatten() {
            disk_latency += backing.latency;
        }
        CoreStats {
            queues: (self.conns.len() - self.free_conns.len()) as u64,
            transfer_bytes: self.buddy.used().1,
            standing_bytes: self.standing.used(),
            wire: self.device.counters(),
            disk_latency,
            stages: self.probe.latency(),
            ..self.stats
        }
    }

    /// Responses that were no success, by their status.
    pub fn failures(&self) -> impl Iterator<Item = (StatusCode, u64)> + '_ {
        self.failures.iter().map(|(status, count)| (*status, *count))
    }

    /// How long operations took on each backing, and how many are under way now.
    pub fn disks(&self) -> impl Iterator<Item = DiskStats> + '_ {
        let used = self.backings.iter().flatten();
        used.map(|&BackingUse { id, in_flight, latency, .. }| DiskStats { id, in_flight, latency })
    }

    /// The device, for what its provider offers beyond the seam.
    pub fn device(&self) -> &D {
        &self.device
    }

    /// The device, for what its provider offers beyond the seam.
    pub fn device_mut(&mut self) -> &mut D {
        &mut self.device
    }

    /// The storage engine.
    pub fn io(&self) -> &B {
        &self.io
    }

    /// The storage engine.
    pub fn io_mut(&mut self) -> &mut B {
        &mut self.io
    }

    fn attach(
        &mut self,
        now: Now,
        key: QueueKey,
        endpoint: D::Endpoint,
        params: QueueParams,
        out: &mut Vec<ToControl<D::Endpoint>>,
    ) {
        let attached = self.device.attach(endpoint);
        let Some((ring, cqes)) = self.memory_for(&attached, &params) else {
            let endpoint = self.device.detach(attached.qp);
            self.stats.refused += 1;
            out.push(ToControl::Refused { key, endpoint });
            return;
        };
        let c = match self.free_conns.pop() {
            Some(c) => c,
            None => {
                self.conns.push(None);
                (self.conns.len() - 1) as u16
            }
        };
        self.generation = self.generation.wrapping_add(1);
        let conn = Conn::new(key, self.generation, &attached, ring, cqes, params, &self.config);
        // Room for every command of every queue to wait, so that waiting never allocates.
        self.buffer_waits.reserve(conn.queue.slots());
        self.conns[usize::from(c)] = Some(Box::new(conn));
        let qp = attached.qp.0 as usize;
        if self.by_qp.len() <= qp {
            self.by_qp.resize(qp + 1, NONE);
        }
        self.by_qp[qp] = c;
        self.by_key.insert(key, c);
        // The accept may follow at once: the receives must be posted by then.
        self.device.flush(now);
        self.stats.attached += 1;
        out.push(ToControl::Attached(key));
    }

    /// Receives and completion entries of a new queue; `None` when memory or numbers run out.
    fn memory_for(
        &mut self,
        attached: &rdma::Attached,
        params: &QueueParams,
    ) -> Option<(u16, Span)> {
        if self.free_conns.is_empty() && self.conns.len() == MAX_CONNS {
            return None;
        }
        let cqes = self.standing.allocate(conn::cqe_bytes(params.sq_entries))?;
        match self.ring_for(&attached.recv_queue, params) {
            Some(ring) => Some((ring, cqes)),
            None => {
                self.standing.free(cqes);
                None
            }
        }
    }

    fn add_backing(&mut self, id: BackingId, backing: B::Backing) {
        self.io.add(id, backing);
        if self.backing(id.0).is_some() {
            return; // opened anew under the same id
        }
        let at = match self.backings.iter().position(Option::is_none) {
            Some(at) => at,
            None => {
                self.backings.push(None);
                self.backings.len() - 1
            }
        };
        assert!(at < usize::from(NONE), "more than 65534 backings");
        self.backings[at] =
            Some(BackingUse { id, in_flight: 0, removing: false, latency: Latency::default() });
        let id = id.0 as usize;
        if self.backing_at.len() <= id {
            self.backing_at.resize(id + 1, NONE);
        }
        self.backing_at[id] = at as u16;
    }

    fn remove_backing(&mut self, id: BackingId, out: &mut Vec<ToControl<D::Endpoint>>) {
        match self.backing(id.0) {
            None => out.push(ToControl::BackingRemoved(id)),
            Some(at) => {
                if let Some(backing) = &mut self.backings[usize::from(at)] {
                    backing.removing = true;
                }
                self.finish_removal(at, out);
            }
        }
    }

    /// Forgets a backing that is to be removed, once nothing is in flight on it.
    fn finish_removal(&mut self, at: u16, out: &mut Vec<ToControl<D::Endpoint>>) {
        let entry = &mut self.backings[usize::from(at)];
        if let Some(BackingUse { id, in_flight: 0, removing: true, latency }) = *entry
            && !self.claims.uses(id.0)
        {
            *entry = None;
            self.stats.disk_latency += latency;
            self.backing_at[id.0 as usize] = NONE;
            self.io.remove(id);
            out.push(ToControl::BackingRemoved(id));
        }
    }

    /// Place of a backing.
    fn backing(&self, id: u32) -> Option<u16> {
        self.backing_at.get(id as usize).copied().filter(|&at| at != NONE)
    }

    fn find(&self, key: QueueKey) -> Option<u16> {
        self.by_key.get(&key).copied()
    }

    /// A connection that is known to be here.
    fn conn(&mut self, c: u16) -> &mut Conn {
        here(&mut self.conns, c)
    }

    /// A connection that is known to be here, and where its queue puts what it asks for.
    fn conn_and_actions(&mut self, c: u16) -> (&mut Conn, &mut Vec<Action>) {
        (here(&mut self.conns, c), &mut self.actions)
    }

    /// Has `serve` look at a connection at the end of the turn.
    fn mark_dirty(&mut self, c: u16) {
        here(&mut self.conns, c).mark_dirty(c, &mut self.dirty);
    }
}
