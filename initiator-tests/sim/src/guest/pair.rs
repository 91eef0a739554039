//! Fused Compare and Write, and Verify.
//!
//! A write happens once, so what it put into a block can be taken away by one pair only: when two
//! pairs have compared equal to one content and written another, the second compared with what was
//! not there any more, and pairs were not atomic. Zeroes bring old content back, and copies do, once
//! each. While the namespace moves to another backing of the same disk, pairs promise nothing.

use super::ask::Extent;
use super::{Guest, Kind, Op, Shared};
use crate::pattern::Content;
use initiator::{Payload, Request, commands};
use nvme_spec_types::{Completion, StatusCode};
use rdma::Access;

/// Most blocks of a pair.
const MOST: u64 = 4;

impl Guest {
    /// A pair on few blocks, which guests fight for.
    pub(super) fn pair(&mut self, shared: &mut Shared, volume: usize) -> bool {
        let vol = shared.volumes[volume];
        let within = shared.offers[volume].now().blocks;
        let lba = self.rng.below(within.min(3));
        let blocks = self.rng.range(1, MOST.min(within - lba));
        let len = (blocks << vol.lba_shift) as u32;
        let queues = u64::from(self.host.io_queues()).max(1);
        let qid = self.rng.range(1, queues) as u16;
        let fits = self.host.info().max_transfer.is_none_or(|most| 2 * len <= most);
        if self.host.room(qid) < 2 || !fits {
            return false;
        }
        let (Some(old), Some(new)) = (self.memory(len, 1), self.memory(len, 1)) else {
            return false;
        };
        let (first, second) = (shared.token(), shared.token());
        let inline = len <= self.host.info().in_capsule && self.rng.chance(5_000);
        let size = 1usize << vol.lba_shift;
        let lbas = lba..lba + blocks;
        let there = lbas.clone().map(|lba| shared.checker.guess(vol.disk, lba));
        let expected: Vec<Content> = there.collect();
        self.put_blocks(&old, size, expected.clone());
        self.put_blocks(&new, size, lbas.map(|lba| Content::new(second, vol.disk, lba)));
        shared.checker.begin(first);
        let durable = self.features.write_through;
        shared.checker.write(second, vol.disk, &[(lba, blocks)], second, durable, false);
        let (compared, takes) = (None, Vec::new());
        let kinds = [Kind::First { expected, second }, Kind::Second { compared, takes }];
        let halves = commands::compare_and_write(vol.nsid, lba, blocks as u32);
        let invalidate = self.config.invalidate;
        let mut sent = true;
        for (((token, kind), command), spans) in
            [first, second].into_iter().zip(kinds).zip(halves).zip([old, new])
        {
            let data = match inline {
                true => Payload::InCapsule(spans[0]),
                false => {
                    Payload::Keyed { spans: spans.clone(), access: Access::RemoteRead, invalidate }
                }
            };
            sent &= self.submit_on(
                qid,
                shared,
                Request { command, data, token },
                kind,
                Extent { volume, lba, blocks },
                spans,
            );
            // An Abort of one half would end the other too.
            if let Some(op) = self.ops.get_mut(&token) {
                op.abort_asked = true;
            }
        }
        sent
    }

    /// A Verify, which tells nothing but that it could read.
    pub(super) fn verify(
        &mut self,
        shared: &mut Shared,
        volume: usize,
        lba: u64,
        blocks: u64,
    ) -> bool {
        let command = commands::verify(shared.volumes[volume].nsid, lba, blocks as u32, false);
        let token = shared.token();
        let (data, kind) = (Payload::None, Kind::Verify);
        self.submit(
            shared,
            Request { command, data, token },
            kind,
            Extent { volume, lba, blocks },
            vec![],
        )
    }

    /// The first half has ended: notes it for the second.
    pub(super) fn note_first(
        &mut self,
        token: u64,
        op: &Op,
        completion: &Completion,
        shared: &mut Shared,
    ) {
        let Kind::First { expected, second } = &op.kind else { return };
        let equal = completion.status.code.is_success();
        let disk = shared.volumes[op.volume].disk;
        let sure = equal && shared.checker.stayed_since(token, disk);
        if let Some(op) = self.ops.get_mut(second) {
            let takes = if sure { expected.clone() } else { Vec::new() };
            op.kind = Kind::Second { compared: Some(equal), takes };
        }
        if sure {
            for (lba, &content) in (op.lba..).zip(expected) {
                shared.checker.compared(token, *second, disk, lba, content);
            }
        }
    }

    /// The second half has replaced this content: was it still there to be replaced?
    pub(super) fn check_taken(
        op: &Op,
        takes: &[Content],
        shared: &mut Shared,
    ) -> Result<(), String> {
        let disk = shared.volumes[op.volume].disk;
        for (lba, &content) in (op.lba..).zip(takes) {
            let most = 1 + shared.checker.copies_to(disk, lba);
            let times = shared.taken.entry((disk, lba, content)).or_default();
            *times += 1;
            if content != Content::ZERO && *times > most {
                return Err(format!("pairs took {content:?} from block {lba} {times} times"));
            }
        }
        Ok(())
    }

    /// The second half has ended: does that go with how the first one did?
    pub(super) fn check_second(compared: Option<bool>, code: StatusCode) -> Result<(), String> {
        match (compared, code) {
            (Some(true), StatusCode::ABORTED_FAILED_FUSED) => {
                Err("not written though it compared equal".into())
            }
            (Some(false) | None, StatusCode::SUCCESS) => {
                Err("written without having compared equal".into())
            }
            _ => Ok(()),
        }
    }
}
