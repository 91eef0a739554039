//! Copy, within a namespace and from others.

use super::ask::Extent;
use super::{Guest, Kind, Op, Shared, Source};
use crate::checker::Run;
use initiator::{Payload, Request, commands};
use rdma::Access;

/// Feature identifier of Host Behavior Support, and the size of its data.
const HOST_BEHAVIOR: (u8, u32) = (0x16, 512);

/// A run of blocks that a command needs.
pub(super) struct Part {
    pub(super) volume: usize,
    /// The block behind the last one.
    pub(super) end: u64,
    pub(super) writes: bool,
}

impl Op {
    /// The blocks that it is about; of a Copy also its sources.
    pub(super) fn parts(&self) -> impl Iterator<Item = Part> + '_ {
        let own = (self.volume, self.lba + self.blocks, self.kind.writes());
        let sources = self.sources().iter().map(|s| (s.volume, s.lba + s.blocks, false));
        [own].into_iter().chain(sources).map(|(volume, end, writes)| Part { volume, end, writes })
    }

    /// Whether it is a Copy onto blocks that it reads.
    pub(super) fn overlaps(&self) -> bool {
        self.sources().iter().any(|source| {
            let apart =
                source.lba >= self.lba + self.blocks || source.lba + source.blocks <= self.lba;
            source.volume == self.volume && !apart
        })
    }

    fn sources(&self) -> &[Source] {
        match &self.kind {
            Kind::Copy(sources) => sources,
            _ => &[],
        }
    }
}

impl Guest {
    /// A Copy of about `blocks` blocks to `lba`.
    pub(super) fn copy(
        &mut self,
        shared: &mut Shared,
        volume: usize,
        lba: u64,
        blocks: u64,
    ) -> bool {
        if !self.formats_enabled && self.rng.chance(2_000) {
            return self.enable_formats(shared);
        }
        let vol = shared.volumes[volume];
        let far = self.formats_enabled && self.rng.chance(5_000);
        let mut sources = Vec::new();
        let mut bytes = Vec::new();
        let mut left = blocks;
        for _ in 0..self.rng.range(1, 5) {
            let from =
                if far { self.rng.below(shared.volumes.len() as u64) as usize } else { volume };
            if left == 0 || shared.volumes[from].lba_shift != vol.lba_shift {
                continue;
            }
            let within = shared.offers[from].now().blocks;
            let blocks = self.rng.range(1, left.min(within));
            let source = Source { volume: from, lba: self.rng.below(within - blocks + 1), blocks };
            left -= blocks;
            let nsid = far.then_some(shared.volumes[from].nsid);
            bytes.extend(commands::copy_ranges(nsid, &[(source.lba, blocks as u32)]));
            sources.push(source);
        }
        if sources.is_empty() {
            return false;
        }
        let Some(spans) = self.memory(bytes.len() as u32, 1) else { return false };
        self.put(&spans, &bytes);
        let (fua, inline) = (self.rng.chance(2_000), self.rng.chance(5_000));
        let (count, format) = (sources.len() as u32, if far { 2 } else { 0 });
        let command = commands::copy(vol.nsid, lba, count, format, fua);
        let data = if inline && bytes.len() <= self.host.info().in_capsule as usize {
            Payload::InCapsule(spans[0])
        } else {
            let (access, invalidate) = (Access::RemoteRead, self.config.invalidate);
            Payload::Keyed { spans: spans.clone(), access, invalidate }
        };
        let token = shared.token();
        let run = |source: &Source| Run {
            disk: shared.volumes[source.volume].disk,
            first: source.lba,
            count: source.blocks,
        };
        let runs: Vec<Run> = sources.iter().map(run).collect();
        let durable = fua || self.features.write_through;
        shared.checker.copy(token, vol.disk, lba, &runs, durable);
        let blocks = blocks - left;
        self.submit(
            shared,
            Request { command, data, token },
            Kind::Copy(sources),
            Extent { volume, lba, blocks },
            spans,
        )
    }

    /// Enables the format that names namespaces.
    fn enable_formats(&mut self, shared: &mut Shared) -> bool {
        let (feature, len) = HOST_BEHAVIOR;
        let Some(spans) = self.memory(len, 1) else { return false };
        let mut behavior = vec![0; len as usize];
        behavior[4] = 1 << 2;
        self.put(&spans, &behavior);
        let (access, invalidate) = (Access::RemoteRead, self.config.invalidate);
        let data = Payload::Keyed { spans: spans.clone(), access, invalidate };
        let (token, command) = (shared.token(), commands::set_features(feature, 0));
        self.submit(
            shared,
            Request { command, data, token },
            Kind::EnableFormats,
            Extent::NONE,
            spans,
        )
    }
}
