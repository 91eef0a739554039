//! What a guest asks for.

use super::{Guest, Kind, Op, PASSING_NSID, Shared};
use crate::checker::Ending;
use crate::pattern::Content;
use initiator::{Payload, Request, SubmitError, commands};
use nvme_spec_types::{Command, StatusCode};
use rdma::Access;
use region::Span;

/// Which blocks a request is about.
#[derive(Debug, Clone, Copy)]
pub(super) struct Extent {
    pub(super) volume: usize,
    pub(super) lba: u64,
    pub(super) blocks: u64,
}

impl Extent {
    /// None at all.
    pub(super) const NONE: Extent = Extent { volume: 0, lba: 0, blocks: 0 };
}

impl Guest {
    /// Makes one request; false when there was no room for it.
    pub(super) fn request(&mut self, shared: &mut Shared) -> bool {
        if self.host.namespaces().is_empty() || self.rng.chance(500) {
            return self.admin(shared);
        }
        if self.rng.chance(500) {
            return self.passing(shared);
        }
        let volume = self.rng.below(shared.volumes.len() as u64) as usize;
        // Where it is not offered, what it was is asked for all the same.
        let offer = shared.offers[volume].now();
        let within = offer.blocks;
        let most = self.config.max_blocks.min(within);
        let blocks = match self.rng.below(10) {
            0 => self.rng.range(1, most),
            1..=3 => self.rng.range(1, most.min(64)),
            _ => self.rng.range(1, most.min(8)),
        };
        let mut lba = self.rng.below(within - blocks + 1);
        if self.rng.chance(2_500) {
            lba = lba.min(self.rng.below(4)); // where pairs are
        }
        let kind = match self.rng.below(100) {
            0..=39 => Kind::Write,
            40..=70 => Kind::Read,
            71..=74 => return self.copy(shared, volume, lba, blocks),
            75..=79 => Kind::Compare(vec![]),
            80..=84 => Kind::WriteZeroes,
            85 => Kind::Deallocate,
            86..=88 => return self.pair(shared, volume),
            89 => return self.verify(shared, volume, lba, blocks),
            90..=93 => return self.flush(shared, volume),
            94..=96 => return self.wrong(shared, volume),
            _ => return self.abort(shared),
        };
        match kind {
            Kind::WriteZeroes | Kind::Deallocate => self.zero(shared, kind, volume, lba, blocks),
            _ => self.transfer(shared, kind, volume, lba, blocks),
        }
    }

    /// Cuts a length into ranges of memory, not always at block borders.
    pub(super) fn memory(&mut self, len: u32, most: usize) -> Option<Vec<Span>> {
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

    pub(super) fn free(&mut self, spans: Vec<Span>) {
        for span in spans {
            self.host.arena().free(span);
        }
    }

    pub(super) fn put(&mut self, spans: &[Span], bytes: &[u8]) {
        let mut at = 0;
        for &span in spans {
            let end = at + span.len() as usize;
            self.host.region().write(span, &bytes[at..end]);
            at = end;
        }
    }

    /// Puts blocks of `size` bytes.
    pub(super) fn put_blocks(
        &mut self,
        spans: &[Span],
        size: usize,
        blocks: impl IntoIterator<Item = Content>,
    ) {
        let mut bytes = vec![0; spans.iter().map(|span| span.len() as usize).sum()];
        for (block, content) in bytes.chunks_exact_mut(size).zip(blocks) {
            content.fill(block);
        }
        self.put(spans, &bytes);
    }

    pub(super) fn take(&mut self, spans: &[Span]) -> Vec<u8> {
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
    pub(super) fn transfer(
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
        let fua = self.rng.chance(2_000);
        let lbas = lba..lba + blocks;
        match &mut kind {
            Kind::Compare(expected) => {
                // Mostly what is there, to succeed at times.
                *expected = lbas.map(|lba| shared.checker.guess(vol.disk, lba)).collect();
                let content = expected.clone();
                self.put_blocks(&spans, size, content);
            }
            Kind::Write => {
                self.put_blocks(&spans, size, lbas.map(|lba| Content::new(token, vol.disk, lba)));
            }
            _ => {
                for &span in &spans {
                    self.host.region().fill(span, 0xcc);
                }
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
        match kind {
            Kind::Write => {
                let durable = fua || self.features.write_through;
                shared.checker.write(token, vol.disk, &[(lba, blocks)], token, durable, false);
            }
            Kind::Read | Kind::Compare(_) => shared.checker.begin(token),
            _ => {}
        }
        self.submit(
            shared,
            Request { command, data, token },
            kind,
            Extent { volume, lba, blocks },
            spans,
        )
    }

    fn zero(
        &mut self,
        shared: &mut Shared,
        kind: Kind,
        volume: usize,
        lba: u64,
        blocks: u64,
    ) -> bool {
        let vol = shared.volumes[volume];
        let within = shared.offers[volume].now().blocks;
        let token = shared.token();
        let fua = self.rng.chance(2_000);
        let mut spans = Vec::new();
        let (command, data, ranges) = if let Kind::WriteZeroes = kind {
            let deallocate = self.rng.chance(5_000);
            let command = commands::write_zeroes(vol.nsid, lba, blocks as u32, deallocate, fua);
            (command, Payload::None, vec![(lba, blocks)])
        } else {
            let mut ranges = vec![(lba, blocks)];
            for _ in 0..self.rng.below(4) {
                ranges.push((self.rng.below(within), 1));
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
        let maybe = matches!(kind, Kind::Deallocate);
        let durable = (fua || self.features.write_through) && !maybe;
        shared.checker.write(token, vol.disk, &ranges, 0, durable, maybe);
        let first = ranges[0].0;
        let end = ranges.iter().map(|(first, count)| first + count).max().unwrap_or(first);
        self.submit(
            shared,
            Request { command, data, token },
            kind,
            Extent { volume, lba: first, blocks: end - first },
            spans,
        )
    }

    fn flush(&mut self, shared: &mut Shared, volume: usize) -> bool {
        let vol = shared.volumes[volume];
        let token = shared.token();
        let all = self.rng.chance(2_000);
        shared.checker.begin(token);
        let command = commands::flush(if all { u32::MAX } else { vol.nsid });
        let kind = if all { Kind::FlushAll } else { Kind::Flush };
        self.submit(
            shared,
            Request { command, data: Payload::None, token },
            kind,
            Extent { volume, lba: 0, blocks: 0 },
            vec![],
        )
    }

    /// A command on the namespace that comes and goes.
    fn passing(&mut self, shared: &mut Shared) -> bool {
        let Some(spans) = self.memory(4096, 1) else { return false };
        let token = shared.token();
        let (command, access) = match self.rng.below(4) {
            0 => (commands::write(PASSING_NSID, 0, 8, false), Access::RemoteRead),
            1 => (commands::compare(PASSING_NSID, 0, 8), Access::RemoteRead),
            _ => (commands::read(PASSING_NSID, 0, 8, false), Access::RemoteWrite),
        };
        let invalidate = self.config.invalidate;
        let data = Payload::Keyed { spans: spans.clone(), access, invalidate };
        self.submit(shared, Request { command, data, token }, Kind::Passing, Extent::NONE, spans)
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
        // As many blocks from the start as any of them asks for that are there at all.
        self.submit(
            shared,
            Request { command, data, token },
            Kind::Wrong(status),
            Extent { volume, lba: 0, blocks: 2 },
            spans,
        )
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
        self.submit(
            shared,
            Request { command, data: Payload::None, token },
            kind,
            Extent::NONE,
            vec![],
        )
    }

    fn admin(&mut self, shared: &mut Shared) -> bool {
        if self.rng.chance(3_000) {
            return self.feature(shared);
        }
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
        self.submit(shared, Request { command, data, token }, kind, Extent::NONE, spans)
    }

    /// Sends it on a queue that suits it; false when there was no room for it.
    pub(super) fn submit(
        &mut self,
        shared: &mut Shared,
        request: Request,
        kind: Kind,
        extent: Extent,
        spans: Vec<Span>,
    ) -> bool {
        let queues = u64::from(self.host.io_queues()).max(1);
        let qid = if kind.is_admin() { 0 } else { self.rng.range(1, queues) as u16 };
        self.submit_on(qid, shared, request, kind, extent, spans)
    }

    /// The same on this queue.
    pub(super) fn submit_on(
        &mut self,
        qid: u16,
        shared: &mut Shared,
        request: Request,
        kind: Kind,
        extent: Extent,
        spans: Vec<Span>,
    ) -> bool {
        let Extent { volume, lba, blocks } = extent;
        let token = request.token;
        match self.host.submit(qid, request) {
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
                    issued: shared.tick(),
                    abort_asked,
                    abort_claimed,
                };
                self.ops.insert(token, op);
                true
            }
            Err(error) => {
                // It was never issued.
                shared.checker.write_ended(token, Ending::Refused);
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
}
