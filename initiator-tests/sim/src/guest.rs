//! A well-behaved host and what it asks for. Everything it is told is checked.

use crate::checker::{Checker, Ending};
use crate::net::{SimCm, SimDevice};
use crate::pattern;
use crate::rng::Rng;
use initiator::{
    Goodbye, Host, HostEvent, HostState, Lost, NamespaceInfo, Payload, Request, SubmitError,
    commands,
};
use nvme_spec_types::{Command, Completion, SglDescriptor, StatusCode};
use rdma::{Access, Now};
use region::Span;
use std::collections::BTreeMap;
use std::time::Duration;

/// A namespace as the model knows it.
#[derive(Debug, Clone, Copy)]
pub struct Volume {
    /// Its id.
    pub nsid: u32,
    /// The checker's number.
    pub disk: usize,
    /// Size in blocks.
    pub blocks: u64,
    /// log2 of the block size.
    pub lba_shift: u8,
    /// Whether writes must be refused.
    pub read_only: bool,
}

/// What guests share.
#[derive(Debug)]
pub struct Shared {
    /// The model.
    pub checker: Checker,
    /// Namespaces of the subsystem, by rising nsid.
    pub volumes: Vec<Volume>,
    /// Names requests, from 1; also stamps writes.
    pub next_token: u64,
    /// Whether disks may fail now or could when requests still outstanding were made.
    pub disk_faults: bool,
    /// Requests that ended, by success and failure, and those lost.
    pub ended: [u64; 3],
    /// What went wrong.
    pub violations: Vec<String>,
}

impl Shared {
    fn violation(&mut self, what: String) {
        self.violations.push(what);
    }

    fn token(&mut self) -> u64 {
        self.next_token += 1;
        self.next_token
    }
}

#[derive(Debug, Clone)]
enum Kind {
    Write,
    Read,
    /// With the stamp that it compares to.
    Compare(u64),
    WriteZeroes,
    Deallocate,
    Flush(Vec<usize>),
    /// Must end with this status.
    Wrong(StatusCode),
    /// Of the command with this token.
    Abort(u64),
    Admin,
}

#[derive(Debug)]
struct Op {
    kind: Kind,
    volume: usize,
    lba: u64,
    blocks: u64,
    spans: Vec<Span>,
    cid: u16,
    qid: u16,
    /// An abort of it was asked for.
    abort_asked: bool,
    /// The target said that it was aborted.
    abort_claimed: bool,
}

/// How a guest behaves.
#[derive(Debug, Clone)]
pub struct GuestConfig {
    /// Requests to make in all.
    pub budget: u32,
    /// Most requests outstanding.
    pub depth: usize,
    /// Largest data transfer in blocks.
    pub max_blocks: u64,
    /// Chances per 10,000 turns: leave the controller, fall silent.
    pub leave: u32,
    /// See `leave`.
    pub silence: u32,
    /// Whether keys are to be invalidated by the target.
    pub invalidate: bool,
}

/// See the [module](self).
pub struct Guest {
    /// The host.
    pub host: Host<SimCm, SimDevice>,
    /// Its name in traces.
    pub name: String,
    config: GuestConfig,
    rng: Rng,
    ops: BTreeMap<u64, Op>,
    /// Commands that the target said it aborted and whose end was not seen.
    silent_until: Option<Now>,
    /// No new requests.
    pub quiet: bool,
    /// What is still to be read at the end: volume and block.
    sweep: Option<(usize, u64)>,
}

impl Guest {
    /// A guest that is not connected.
    pub fn new(name: String, host: Host<SimCm, SimDevice>, config: GuestConfig, rng: Rng) -> Guest {
        Guest {
            host,
            name,
            config,
            rng,
            ops: BTreeMap::new(),
            silent_until: None,
            quiet: false,
            sweep: None,
        }
    }

    /// Whether it has nothing left to ask for and nothing outstanding.
    pub fn is_done(&self) -> bool {
        self.ops.is_empty()
            && self.sweep.is_none()
            && (self.config.budget == 0 || self.quiet)
            && self.silent_until.is_none()
    }

    /// Requests outstanding.
    pub fn outstanding(&self) -> usize {
        self.ops.len()
    }

    /// Whether blocks are left to be read.
    pub fn is_sweeping(&self) -> bool {
        self.sweep.is_some()
    }

    /// Begins to read every block.
    pub fn begin_sweep(&mut self) {
        self.sweep = Some((0, 0));
    }

    /// Ends misbehaviour of its own.
    pub fn calm(&mut self) {
        self.config.leave = 0;
        self.config.silence = 0;
        self.silent_until = None;
    }

    /// When it wants a turn.
    pub fn timeout(&self) -> Option<Now> {
        match self.silent_until {
            Some(until) => Some(until),
            None => self.host.timeout(),
        }
    }

    /// One turn.
    pub fn turn(&mut self, now: Now, shared: &mut Shared) -> bool {
        if let Some(until) = self.silent_until {
            if now < until {
                return false;
            }
            self.silent_until = None;
        }
        let mut worked = self.host.turn(now);
        while let Some(event) = self.host.poll_event() {
            worked = true;
            self.on_event(event, shared);
        }
        match self.host.state() {
            HostState::Off(None) if !self.quiet => {
                self.host.connect(now);
                worked = true;
            }
            HostState::Live => worked |= self.ask(now, shared),
            _ => {}
        }
        worked
    }

    fn ask(&mut self, now: Now, shared: &mut Shared) -> bool {
        if let Some((volume, lba)) = self.sweep {
            return self.sweep_on(volume, lba, shared);
        }
        if self.quiet || self.config.budget == 0 {
            return false;
        }
        if self.rng.chance(self.config.leave) {
            let goodbye = [Goodbye::Shutdown, Goodbye::Disable, Goodbye::Abrupt];
            let goodbye = *self.rng.pick(&goodbye);
            self.host.leave(now, goodbye);
            return true;
        }
        if self.rng.chance(self.config.silence) {
            self.silent_until = Some(now + Duration::from_millis(self.rng.range(1, 30_000)));
            return true;
        }
        let mut worked = false;
        while self.ops.len() < self.config.depth && self.config.budget > 0 {
            if !self.request(shared) {
                break;
            }
            self.config.budget -= 1;
            worked = true;
            if self.rng.chance(3_000) {
                break;
            }
        }
        worked
    }

    /// Reads on from a block, as many at a time as it likes.
    fn sweep_on(&mut self, volume: usize, lba: u64, shared: &mut Shared) -> bool {
        let Some(&vol) = shared.volumes.get(volume) else {
            if self.ops.is_empty() {
                self.sweep = None;
            }
            return false;
        };
        if self.ops.len() >= 4 {
            return false;
        }
        let most = self.host.info().max_transfer.unwrap_or(1 << 16) >> vol.lba_shift;
        let blocks = (vol.blocks - lba).min(u64::from(most)).min(128);
        if !self.transfer(shared, Kind::Read, volume, lba, blocks) {
            return false;
        }
        let next = lba + blocks;
        self.sweep = Some(if next == vol.blocks { (volume + 1, 0) } else { (volume, next) });
        true
    }

    /// Makes one request; false when there was no room for it.
    fn request(&mut self, shared: &mut Shared) -> bool {
        if self.host.namespaces().is_empty() || self.rng.chance(500) {
            return self.admin(shared);
        }
        let volume = self.rng.below(shared.volumes.len() as u64) as usize;
        let vol = shared.volumes[volume];
        let most = self.config.max_blocks.min(vol.blocks);
        let blocks = match self.rng.below(10) {
            0 => self.rng.range(1, most),
            1..=3 => self.rng.range(1, most.min(64)),
            _ => self.rng.range(1, most.min(8)),
        };
        let lba = self.rng.below(vol.blocks - blocks + 1);
        let kind = match self.rng.below(100) {
            0..=39 => Kind::Write,
            40..=74 => Kind::Read,
            75..=79 => Kind::Compare(0),
            80..=84 => Kind::WriteZeroes,
            85..=88 => Kind::Deallocate,
            89..=93 => return self.flush(shared, volume),
            94..=96 => return self.wrong(shared, volume),
            _ => return self.abort(shared),
        };
        match kind {
            Kind::WriteZeroes | Kind::Deallocate => self.zero(shared, kind, volume, lba, blocks),
            _ => self.transfer(shared, kind, volume, lba, blocks),
        }
    }

    /// Cuts a length into ranges of memory, not always at block borders.
    fn memory(&mut self, len: u32, most: usize) -> Option<Vec<Span>> {
        let parts = if self.rng.chance(7_000) { 1 } else { self.rng.range(1, most as u64) as u32 };
        let mut spans = Vec::new();
        let mut left = len;
        for part in (1..=parts).rev() {
            let size = match part {
                1 => left,
                _ => (self.rng.range(1, u64::from(left / part).max(1)) as u32).min(left),
            };
            if size == 0 {
                continue;
            }
            match self.host.arena().alloc(size) {
                Some(span) => spans.push(span),
                None => {
                    self.free(spans);
                    return None;
                }
            }
            left -= size;
        }
        Some(spans)
    }

    fn free(&mut self, spans: Vec<Span>) {
        for span in spans {
            self.host.arena().free(span);
        }
    }

    fn put(&mut self, spans: &[Span], bytes: &[u8]) {
        let mut at = 0;
        for &span in spans {
            let end = at + span.len() as usize;
            self.host.region().write(span, &bytes[at..end]);
            at = end;
        }
    }

    fn take(&mut self, spans: &[Span]) -> Vec<u8> {
        let mut bytes = vec![0; spans.iter().map(|s| s.len() as usize).sum()];
        let mut at = 0;
        for &span in spans {
            let end = at + span.len() as usize;
            self.host.region().read(span, &mut bytes[at..end]);
            at = end;
        }
        bytes
    }

    /// A command that moves data: Write, Read or Compare.
    fn transfer(
        &mut self,
        shared: &mut Shared,
        mut kind: Kind,
        volume: usize,
        lba: u64,
        blocks: u64,
    ) -> bool {
        let vol = shared.volumes[volume];
        let size = 1usize << vol.lba_shift;
        let len = (blocks as usize * size) as u32;
        if self.host.info().max_transfer.is_some_and(|most| len > most) {
            return false;
        }
        let room = self.host.info().in_capsule;
        let writes = matches!(kind, Kind::Write | Kind::Compare(_));
        let inline = writes && len <= room && self.rng.chance(5_000);
        let most = usize::from(self.host.info().msdbd.max(1)).min(room as usize / 16).max(1);
        let Some(spans) = self.memory(len, if inline { 1 } else { most }) else { return false };
        let token = shared.token();
        let fua = self.rng.chance(1_000);
        let mut stamp = token;
        if let Kind::Compare(expected) = &mut kind {
            // Mostly what is there, to succeed at times.
            let there = (0..shared.next_token.min(1 << 20))
                .rev()
                .take(64)
                .find(|&s| shared.checker.may_read(0, vol.disk, lba, s));
            stamp = there.unwrap_or(0);
            *expected = stamp;
        }
        if writes {
            let mut bytes = vec![0; len as usize];
            for (index, block) in bytes.chunks_exact_mut(size).enumerate() {
                pattern::fill(block, stamp, lba + index as u64);
            }
            self.put(&spans, &bytes);
        } else {
            for &span in &spans {
                self.host.region().fill(span, 0xcc);
            }
        }
        let command = match kind {
            Kind::Write => commands::write(vol.nsid, lba, blocks as u32, fua),
            Kind::Compare(_) => commands::compare(vol.nsid, lba, blocks as u32),
            _ => commands::read(vol.nsid, lba, blocks as u32, fua),
        };
        let data = if inline {
            Payload::InCapsule(spans[0])
        } else {
            let access = if writes { Access::RemoteRead } else { Access::RemoteWrite };
            Payload::Keyed { spans: spans.clone(), access, invalidate: self.config.invalidate }
        };
        let refused = matches!(kind, Kind::Write) && vol.read_only;
        if refused {
            kind = Kind::Wrong(StatusCode::NAMESPACE_WRITE_PROTECTED);
        }
        match kind {
            Kind::Write => {
                shared.checker.write(token, vol.disk, &[(lba, blocks)], token, fua, false);
            }
            Kind::Read | Kind::Compare(_) => shared.checker.begin(token),
            _ => {}
        }
        self.submit(shared, token, command, data, kind, volume, lba, blocks, spans)
    }

    fn zero(
        &mut self,
        shared: &mut Shared,
        mut kind: Kind,
        volume: usize,
        lba: u64,
        blocks: u64,
    ) -> bool {
        let vol = shared.volumes[volume];
        let token = shared.token();
        let fua = self.rng.chance(1_000);
        let mut spans = Vec::new();
        let (command, data, ranges) = if let Kind::WriteZeroes = kind {
            let deallocate = self.rng.chance(5_000);
            let command =
                commands::write_zeroes(vol.nsid, lba, blocks as u32, deallocate, fua);
            (command, Payload::None, vec![(lba, blocks)])
        } else {
            let mut ranges = vec![(lba, blocks)];
            for _ in 0..self.rng.below(4) {
                ranges.push((self.rng.below(vol.blocks), 1));
            }
            let pairs: Vec<(u64, u32)> = ranges.iter().map(|&(l, b)| (l, b as u32)).collect();
            let bytes = commands::dataset_ranges(&pairs);
            let Some(memory) = self.memory(bytes.len() as u32, 1) else { return false };
            self.put(&memory, &bytes);
            spans = memory;
            let command = commands::deallocate(vol.nsid, ranges.len() as u32);
            let inline = bytes.len() <= self.host.info().in_capsule as usize;
            let data = if inline && self.rng.chance(5_000) {
                Payload::InCapsule(spans[0])
            } else {
                let (access, invalidate) = (Access::RemoteRead, self.config.invalidate);
                Payload::Keyed { spans: spans.clone(), access, invalidate }
            };
            // Overlapping ranges would put two values of one write into a block.
            ranges.sort_unstable();
            let mut apart: Vec<(u64, u64)> = Vec::new();
            for (first, count) in ranges {
                let from = apart.last().map_or(first, |&(f, c)| first.max(f + c));
                if from < first + count {
                    apart.push((from, first + count - from));
                }
            }
            (command, data, apart)
        };
        if vol.read_only {
            kind = Kind::Wrong(StatusCode::NAMESPACE_WRITE_PROTECTED);
        } else {
            let maybe = matches!(kind, Kind::Deallocate);
            shared.checker.write(token, vol.disk, &ranges, 0, fua && !maybe, maybe);
        }
        self.submit(shared, token, command, data, kind, volume, lba, blocks, spans)
    }

    fn flush(&mut self, shared: &mut Shared, volume: usize) -> bool {
        let vol = shared.volumes[volume];
        let token = shared.token();
        let all = self.rng.chance(2_000);
        let disks = if all {
            shared.volumes.iter().map(|v| v.disk).collect()
        } else {
            vec![vol.disk]
        };
        shared.checker.begin(token);
        let command = commands::flush(if all { u32::MAX } else { vol.nsid });
        self.submit(shared, token, command, Payload::None, Kind::Flush(disks), volume, 0, 0, vec![])
    }

    /// A command that must be refused.
    fn wrong(&mut self, shared: &mut Shared, volume: usize) -> bool {
        let vol = shared.volumes[volume];
        let size = 1u32 << vol.lba_shift;
        let Some(spans) = self.memory(size, 1) else { return false };
        let token = shared.token();
        let keyed = Payload::Keyed {
            spans: spans.clone(),
            access: Access::RemoteWrite,
            invalidate: self.config.invalidate,
        };
        let (command, data, status) = match self.rng.below(5) {
            0 => {
                let command = commands::read(vol.nsid, vol.blocks, 1, false);
                (command, keyed, StatusCode::LBA_OUT_OF_RANGE)
            }
            1 => {
                let command = commands::read(vol.nsid, u64::MAX, 1, false);
                (command, keyed, StatusCode::LBA_OUT_OF_RANGE)
            }
            2 => {
                let command = commands::read(0x1234_5678, 0, 1, false);
                (command, keyed, StatusCode::INVALID_NAMESPACE_OR_FORMAT)
            }
            3 if vol.blocks > 1 => {
                // More blocks than the descriptor has room for.
                let command = commands::read(vol.nsid, 0, 2, false);
                (command, keyed, StatusCode::DATA_SGL_LENGTH_INVALID)
            }
            _ => {
                let mut bytes = *commands::read(vol.nsid, 0, 1, false).as_bytes();
                bytes[0] = 0x7d;
                (Command::from_bytes(bytes), keyed, StatusCode::INVALID_OPCODE)
            }
        };
        self.submit(shared, token, command, data, Kind::Wrong(status), volume, 0, 0, spans)
    }

    fn abort(&mut self, shared: &mut Shared) -> bool {
        let nth = self.rng.below(self.ops.len().max(1) as u64) as usize;
        let io = |op: &&Op| op.qid > 0 && !op.abort_asked;
        let found = self.ops.iter().filter(|(_, op)| io(op)).nth(nth);
        let Some((&target, op)) = found else { return self.admin(shared) };
        let command = commands::abort(op.qid, op.cid);
        let token = shared.token();
        let kind = Kind::Abort(target);
        if let Some(op) = self.ops.get_mut(&target) {
            op.abort_asked = true;
        }
        self.submit(shared, token, command, Payload::None, kind, 0, 0, 0, vec![])
    }

    fn admin(&mut self, shared: &mut Shared) -> bool {
        let (command, len) = match self.rng.below(6) {
            0 => (commands::identify(0x01, 0), 4096),
            1 => (commands::get_log_page(0x02, u32::MAX, 0, 512, true), 512),
            2 => (commands::get_log_page(0x01, u32::MAX, 0, 64, true), 64),
            3 => (commands::get_features(0x07), 0),
            4 => (commands::keep_alive(), 0),
            _ => (commands::identify(0x02, 0), 4096),
        };
        let mut spans = Vec::new();
        let mut data = Payload::None;
        if len != 0 {
            let Some(memory) = self.memory(len, 1) else { return false };
            let (access, invalidate) = (Access::RemoteWrite, self.config.invalidate);
            data = Payload::Keyed { spans: memory.clone(), access, invalidate };
            spans = memory;
        }
        let token = shared.token();
        let kind = Kind::Admin;
        self.submit(shared, token, command, data, kind, 0, 0, 0, spans)
    }

    #[allow(clippy::too_many_arguments)] // the parts of one record
    fn submit(
        &mut self,
        shared: &mut Shared,
        token: u64,
        command: Command,
        data: Payload,
        kind: Kind,
        volume: usize,
        lba: u64,
        blocks: u64,
        spans: Vec<Span>,
    ) -> bool {
        let admin = matches!(kind, Kind::Abort(_) | Kind::Admin);
        let queues = u64::from(self.host.io_queues()).max(1);
        let qid = if admin { 0 } else { self.rng.range(1, queues) as u16 };
        match self.host.submit(qid, Request { command, data, token }) {
            Ok(cid) => {
                let (abort_asked, abort_claimed) = (false, false);
                let op = Op {
                    kind,
                    volume,
                    lba,
                    blocks,
                    spans,
                    cid,
                    qid,
                    abort_asked,
                    abort_claimed,
                };
                self.ops.insert(token, op);
                true
            }
            Err(error) => {
                // It was never issued.
                shared.checker.write_ended(token, Ending::Failure);
                shared.checker.end(token);
                if let Kind::Abort(target) = kind
                    && let Some(op) = self.ops.get_mut(&target)
                {
                    op.abort_asked = false;
                }
                self.free(spans);
                if error == SubmitError::Data {
                    shared.violation(format!("{}: the host could not describe data", self.name));
                }
                false
            }
        }
    }

    fn on_event(&mut self, event: HostEvent, shared: &mut Shared) {
        match event {
            HostEvent::Done { token, result, .. } => self.on_done(token, result, shared),
            HostEvent::Violation(qid, violation) => {
                shared.violation(format!("{} queue {qid}: {violation}", self.name));
            }
            HostEvent::Live => self.check_namespaces(shared),
            HostEvent::Down(reason) => {
                // A command of the host's own may not be refused.
                let lost_its_way = reason.contains("Purpose") || reason.contains("does not fit");
                if lost_its_way {
                    shared.violation(format!("{}: {reason}", self.name));
                }
            }
            HostEvent::Async(_) | HostEvent::Off => {}
        }
    }

    fn check_namespaces(&mut self, shared: &mut Shared) {
        let want: Vec<NamespaceInfo> = shared
            .volumes
            .iter()
            .map(|v| NamespaceInfo { nsid: v.nsid, blocks: v.blocks, lba_shift: v.lba_shift })
            .collect();
        if self.host.namespaces() != want {
            let seen = self.host.namespaces();
            shared.violation(format!("{}: sees {seen:?} instead of {want:?}", self.name));
        }
    }

    fn on_done(&mut self, token: u64, result: Result<Completion, Lost>, shared: &mut Shared) {
        let Some(op) = self.ops.remove(&token) else {
            return shared.violation(format!("{}: request {token} ended twice", self.name));
        };
        match result {
            Err(Lost) => {
                shared.ended[2] += 1;
                shared.checker.write_ended(token, Ending::Unknown);
                shared.checker.end(token);
            }
            Ok(completion) => {
                let code = completion.status.code;
                shared.ended[usize::from(!code.is_success())] += 1;
                if let Err(what) = self.check(token, &op, &completion, shared) {
                    let (lba, blocks, kind) = (op.lba, op.blocks, &op.kind);
                    shared.violation(format!(
                        "{}: {kind:?} {token} of {blocks} blocks at {lba} on queue {}: {what}",
                        self.name, op.qid
                    ));
                }
            }
        }
        self.free(op.spans);
    }

    fn check(
        &mut self,
        token: u64,
        op: &Op,
        completion: &Completion,
        shared: &mut Shared,
    ) -> Result<(), String> {
        let code = completion.status.code;
        let good = code.is_success();
        let disk = shared.volumes.get(op.volume).map_or(0, |v| v.disk);
        match &op.kind {
            Kind::Write | Kind::WriteZeroes | Kind::Deallocate => {
                let ending = if good { Ending::Success } else { Ending::Failure };
                shared.checker.write_ended(token, ending);
            }
            Kind::Flush(disks) if good => shared.checker.flushed(token, disks),
            Kind::Read if good => {
                let verdict = self.check_read(token, op, disk, shared);
                shared.checker.end(token);
                return verdict;
            }
            Kind::Compare(stamp) => {
                let lbas = op.lba..op.lba + op.blocks;
                let may = lbas.clone().all(|l| shared.checker.may_read(token, disk, l, *stamp));
                let must = lbas.clone().all(|l| shared.checker.must_read(token, disk, l, *stamp));
                shared.checker.end(token);
                if good && !may {
                    return Err("compared equal to what cannot be there".into());
                }
                if code == StatusCode::COMPARE_FAILURE {
                    return if must { Err("differs from what must be there".into()) } else { Ok(()) };
                }
            }
            Kind::Wrong(status) => {
                let aborted = op.abort_asked && code == StatusCode::ABORT_REQUESTED;
                if code != *status && !aborted {
                    return Err(format!("ended with {code:?} instead of {status:?}"));
                }
                return Ok(());
            }
            Kind::Abort(target) => {
                let aborted = good && completion.dw0 & 1 == 0;
                if let Some(op) = self.ops.get_mut(target)
                    && aborted
                {
                    op.abort_claimed = true;
                }
                let limit = code == StatusCode::ABORT_COMMAND_LIMIT_EXCEEDED;
                return if good || limit { Ok(()) } else { Err(format!("ended with {code:?}")) };
            }
            _ => shared.checker.end(token),
        }
        if good {
            return match op.abort_claimed {
                true => Err("succeeded though it was aborted".into()),
                false => Ok(()),
            };
        }
        let by_abort = op.abort_asked && code == StatusCode::ABORT_REQUESTED;
        let by_disk = shared.disk_faults
            && [
                StatusCode::WRITE_FAULT,
                StatusCode::UNRECOVERED_READ_ERROR,
                StatusCode::CAPACITY_EXCEEDED,
                StatusCode::NAMESPACE_NOT_READY,
                StatusCode::COMMAND_INTERRUPTED,
                StatusCode::INTERNAL_ERROR,
            ]
            .contains(&code);
        if by_abort || by_disk && op.qid > 0 {
            return Ok(());
        }
        Err(format!("failed with {code:?} for no reason"))
    }

    fn check_read(
        &mut self,
        token: u64,
        op: &Op,
        disk: usize,
        shared: &mut Shared,
    ) -> Result<(), String> {
        let size = 1usize << shared.volumes[op.volume].lba_shift;
        let bytes = self.take(&op.spans);
        for (index, block) in bytes.chunks_exact(size).enumerate() {
            let lba = op.lba + index as u64;
            let Some(stamp) = pattern::stamp_of(block, lba) else {
                let head = &block[..16];
                return Err(format!("block {lba} holds what nobody wrote: {head:02x?}"));
            };
            if !shared.checker.may_read(token, disk, lba, stamp) {
                let may = shared.checker.describe(disk, lba);
                return Err(format!("block {lba} holds {stamp}, which is not of {may}"));
            }
        }
        Ok(())
    }
}

/// A data descriptor with lengths and keys of chance.
pub(crate) fn any_descriptor(rng: &mut Rng) -> SglDescriptor {
    let mut bytes = [0; 16];
    for byte in &mut bytes {
        *byte = rng.next() as u8;
    }
    bytes[15] = *rng.pick(&[0x40, 0x4f, 0x01, 0x00, 0x21, 0x31, 0x40, 0x55, bytes[15]]);
    if rng.chance(5_000) {
        // A small length, so that some get past the first check.
        bytes[9] = 0;
        bytes[10] = 0;
        bytes[11] = 0;
        if bytes[15] & 0xf0 != 0x40 {
            bytes[..8].fill(0);
        }
    }
    SglDescriptor::from_bytes(&bytes)
}
