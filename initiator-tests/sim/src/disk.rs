//! Disks made of chance: operations take time, end out of order, fail, hang; what was not made
//! durable may be gone after a power cut.

use crate::rng::Rng;
use backing::{BackingId, BlockIo, Geometry, IoDone, IoError, IoOp, IoRequest};
use region::{Region, Span};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// How disks behave. Chances are per 10,000.
#[derive(Debug, Clone)]
pub struct DiskConfig {
    /// Time of an operation in nanoseconds: least and most.
    pub latency: (u64, u64),
    /// Chance that an operation takes a thousand times as long.
    pub slow: u32,
    /// Chance that it hangs for ten seconds.
    pub stuck: u32,
    /// Chance that the medium fails.
    pub fault: u32,
    /// Chance that it is refused as busy.
    pub busy: u32,
}

impl DiskConfig {
    /// Faults off; latencies stay.
    pub fn calm(&mut self) {
        self.slow = 0;
        self.stuck = 0;
        self.fault = 0;
        self.busy = 0;
    }
}

#[derive(Debug)]
struct Disk {
    geometry: Geometry,
    content: Vec<u8>,
    /// What each changed block held when it was last durable; empty for disks without a cache.
    durable: BTreeMap<u64, Vec<u8>>,
}

#[derive(Debug)]
struct State {
    config: DiskConfig,
    rng: Rng,
    disks: Vec<Disk>,
    violations: Vec<String>,
    in_flight: usize,
}

/// All disks of a world, which every core reaches through its [`SimIo`].
#[derive(Debug, Clone)]
pub struct Disks(Rc<RefCell<State>>);

/// What is handed to the cores: the number of a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskId(pub usize);

impl Disks {
    /// No disks yet.
    pub fn new(config: DiskConfig, rng: Rng) -> Disks {
        let state = State { config, rng, disks: Vec::new(), violations: Vec::new(), in_flight: 0 };
        Disks(Rc::new(RefCell::new(state)))
    }

    /// Adds a disk of zeroes.
    pub fn add(&self, geometry: Geometry) -> DiskId {
        let mut state = self.0.borrow_mut();
        let content = vec![0; geometry.capacity as usize];
        state.disks.push(Disk { geometry, content, durable: BTreeMap::new() });
        DiskId(state.disks.len() - 1)
    }

    /// What a disk offers.
    pub fn geometry(&self, disk: DiskId) -> Geometry {
        self.0.borrow().disks[disk.0].geometry
    }

    /// Operations that have not ended, on all cores.
    pub fn in_flight(&self) -> usize {
        self.0.borrow().in_flight
    }

    /// Turns faults off.
    pub fn calm(&self) {
        self.0.borrow_mut().config.calm();
    }

    /// The first violation, if there was one.
    pub fn violation(&self) -> Option<String> {
        self.0.borrow().violations.first().cloned()
    }

    /// Looks at a block of a disk.
    pub fn block(&self, disk: DiskId, lba: u64, block_size: u32) -> Vec<u8> {
        let size = u64::from(block_size);
        let at = (lba * size) as usize;
        self.0.borrow().disks[disk.0].content[at..at + block_size as usize].to_vec()
    }

    /// Power is cut: each block that changed since it was last durable keeps what it holds or
    /// falls back to that.
    pub fn cut_power(&self) {
        let state = &mut *self.0.borrow_mut();
        for disk in &mut state.disks {
            let size = disk.geometry.block_size as usize;
            for (block, old) in std::mem::take(&mut disk.durable) {
                if state.rng.chance(5_000) {
                    let at = block as usize * size;
                    disk.content[at..at + size].copy_from_slice(&old);
                }
            }
        }
    }
}

impl Disk {
    /// Blocks of a byte range.
    fn blocks(&self, offset: u64, len: u64) -> std::ops::Range<u64> {
        let size = u64::from(self.geometry.block_size);
        offset / size..(offset + len) / size
    }

    /// Remembers what blocks held before they change.
    fn remember(&mut self, offset: u64, len: u64) {
        if !self.geometry.volatile_cache {
            return;
        }
        let size = self.geometry.block_size as usize;
        for block in self.blocks(offset, len) {
            let at = block as usize * size;
            let content = &self.content;
            self.durable.entry(block).or_insert_with(|| content[at..at + size].to_vec());
        }
    }

    fn make_durable(&mut self, offset: u64, len: u64) {
        for block in self.blocks(offset, len) {
            self.durable.remove(&block);
        }
    }
}

#[derive(Debug)]
struct Pending {
    at: u64,
    order: u64,
    request: IoRequest,
    result: Result<(), IoError>,
}

/// One core's way to the disks.
#[derive(Debug)]
pub struct SimIo {
    disks: Disks,
    region: Arc<Region>,
    known: BTreeMap<BackingId, DiskId>,
    staged: Vec<IoRequest>,
    pending: Vec<Pending>,
    order: u64,
}

impl SimIo {
    /// A way to `disks` with buffers in `region`.
    pub fn new(disks: Disks, region: Arc<Region>) -> SimIo {
        SimIo {
            disks,
            region,
            known: BTreeMap::new(),
            staged: Vec::new(),
            pending: Vec::new(),
            order: 0,
        }
    }

    fn violation(&self, what: String) {
        self.disks.0.borrow_mut().violations.push(what);
    }

    /// Checks what the seam asks of its callers.
    fn check(&self, request: &IoRequest) -> Result<DiskId, IoError> {
        let Some(&disk) = self.known.get(&request.backing) else {
            self.violation(format!("I/O on a backing that was not added: {request:?}"));
            return Err(IoError::Gone);
        };
        let geometry = self.disks.geometry(disk);
        let size = u64::from(geometry.block_size);
        let buffered = matches!(request.op, IoOp::Read | IoOp::Write { .. });
        let ranged = request.op != IoOp::Flush;
        let aligned = request.offset.is_multiple_of(size) && request.len.is_multiple_of(size);
        let fits = !buffered
            || u64::from(request.buffer.len()) == request.len
                && request.buffer.offset().is_multiple_of(4096)
                && request.buffer.end() <= self.region.len() as u64;
        if ranged && !aligned || !fits {
            self.violation(format!("misaligned I/O: {request:?}"));
            return Err(IoError::Unsupported);
        }
        let end = request.offset.checked_add(request.len);
        if ranged && end.is_none_or(|end| end > geometry.capacity) {
            self.violation(format!("I/O past the end of {}: {request:?}", geometry.capacity));
            return Err(IoError::OutOfRange);
        }
        if geometry.read_only && !matches!(request.op, IoOp::Read | IoOp::Flush) {
            self.violation(format!("a change of a read-only disk: {request:?}"));
            return Err(IoError::ReadOnly);
        }
        Ok(disk)
    }

    /// Carries out an operation, wholly or (when it fails) perhaps in part.
    fn carry_out(&self, pending: &Pending) {
        let request = &pending.request;
        let Some(&disk) = self.known.get(&request.backing) else { return };
        let state = &mut *self.disks.0.borrow_mut();
        let disk = &mut state.disks[disk.0];
        let size = u64::from(disk.geometry.block_size);
        let mut len = request.len;
        if pending.result.is_err() {
            // A failed write may have changed some of its blocks.
            let changes = !matches!(request.op, IoOp::Read | IoOp::Flush);
            if !changes || pending.result == Err(IoError::Busy) {
                return;
            }
            len = state.rng.below(len / size + 1) * size;
        }
        let range = request.offset as usize..(request.offset + len) as usize;
        let buffer = Span::new(request.buffer.offset(), len.min(u64::from(u32::MAX)) as u32);
        match request.op {
            IoOp::Read => self.region.write(buffer, &disk.content[range]),
            IoOp::Write { fua } => {
                disk.remember(request.offset, len);
                self.region.read(buffer, &mut disk.content[range]);
                if fua && pending.result.is_ok() {
                    disk.make_durable(request.offset, len);
                }
            }
            IoOp::Flush => disk.durable.clear(),
            IoOp::WriteZeroes { fua, .. } => {
                disk.remember(request.offset, len);
                disk.content[range].fill(0);
                if fua && pending.result.is_ok() {
                    disk.make_durable(request.offset, len);
                }
            }
            IoOp::Deallocate => {
                if disk.geometry.discard_zeroes || state.rng.chance(5_000) {
                    disk.remember(request.offset, len);
                    disk.content[range].fill(0);
                }
            }
        }
    }
}

impl BlockIo for SimIo {
    type Backing = DiskId;

    fn add(&mut self, id: BackingId, backing: DiskId) {
        self.known.insert(id, backing);
    }

    fn remove(&mut self, id: BackingId) {
        if self.pending.iter().any(|p| p.request.backing == id) {
            self.violation(format!("{id:?} removed with operations in flight"));
        }
        if self.known.remove(&id).is_none() {
            self.violation(format!("{id:?} removed and not there"));
        }
    }

    fn submit(&mut self, _now: Duration, request: IoRequest) {
        self.staged.push(request);
    }

    fn flush(&mut self, now: Duration) {
        let now = now.as_nanos() as u64;
        for request in std::mem::take(&mut self.staged) {
            let checked = self.check(&request);
            let state = &mut *self.disks.0.borrow_mut();
            state.in_flight += 1;
            let (low, high) = state.config.latency;
            let mut after = state.rng.range(low, high);
            if state.rng.chance(state.config.slow) {
                after *= 1_000;
            }
            if state.rng.chance(state.config.stuck) {
                after += 10_000_000_000;
            }
            let mut result = checked.map(drop);
            if result.is_ok() && state.rng.chance(state.config.busy) {
                result = Err(IoError::Busy);
            }
            if result.is_ok() && state.rng.chance(state.config.fault) {
                result = Err(match request.op {
                    IoOp::Read => IoError::ReadFault,
                    _ => *state.rng.pick(&[IoError::WriteFault, IoError::NoSpace]),
                });
            }
            if request.op == IoOp::Read && result.is_ok() {
                // Until the read ends the buffer is worth nothing.
                self.region.fill(request.buffer, 0xdd);
            }
            self.order += 1;
            self.pending.push(Pending { at: now + after, order: self.order, request, result });
        }
    }

    fn poll(&mut self, now: Duration, out: &mut Vec<IoDone>) -> usize {
        let now = now.as_nanos() as u64;
        if self.pending.iter().all(|p| p.at > now) {
            return 0;
        }
        let (mut due, rest): (Vec<Pending>, Vec<Pending>) =
            std::mem::take(&mut self.pending).into_iter().partition(|p| p.at <= now);
        self.pending = rest;
        due.sort_by_key(|p| (p.at, p.order));
        self.disks.0.borrow_mut().in_flight -= due.len();
        for pending in &due {
            self.carry_out(pending);
            out.push(IoDone { tag: pending.request.tag, result: pending.result });
        }
        due.len()
    }

    fn in_flight(&self) -> usize {
        self.staged.len() + self.pending.len()
    }

    fn wait_source(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn timeout(&self) -> Option<Duration> {
        self.pending.iter().map(|p| p.at).min().map(Duration::from_nanos)
    }
}

impl Drop for SimIo {
    fn drop(&mut self) {
        // A core that goes away takes its operations with it.
        self.disks.0.borrow_mut().in_flight -= self.pending.len();
    }
}

#[cfg(test)]
mod tests;
