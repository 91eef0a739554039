//! Fused Compare and Write, and Verify.
//!
//! A write happens once, so what it put into a block can be taken away by one pair only: when two
//! pairs have compared equal to one stamp and written another, the second compared with what was not
//! there any more, and pairs were not atomic. Zeroes and power cuts bring old content back.

use super::{Guest, Kind, Shared};
use crate::pattern;
use initiator::{Payload, commands};
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
        let there = (0..second).rev().take(64);
        let stamp = there.into_iter().find(|&s| shared.checker.may_read(0, vol.disk, lba, s));
        let stamp = stamp.unwrap_or(0);
        let inline = len <= self.host.info().in_capsule && self.rng.chance(5_000);
        let size = 1usize << vol.lba_shift;
        let content = |stamp| {
            let mut bytes = vec![0; len as usize];
            for (index, block) in bytes.chunks_exact_mut(size).enumerate() {
                pattern::fill(block, stamp, lba + index as u64);
            }
            bytes
        };
        self.put(&old, &content(stamp));
        self.put(&new, &content(second));
        shared.checker.begin(first);
        shared.checker.write(second, vol.disk, &[(lba, blocks)], second, false, false);
        let kinds = [Kind::First { stamp, second }, Kind::Second { compared: None }];
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
            sent &=
                self.submit_on(qid, shared, token, command, data, kind, volume, lba, blocks, spans);
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
        self.submit(shared, token, command, data, kind, volume, lba, blocks, vec![])
    }

    /// The first half has ended: notes it for the second.
    pub(super) fn check_first(
        &mut self,
        completion: &Completion,
        second: u64,
        shared: &mut Shared,
        blocks: (usize, std::ops::Range<u64>, u64),
    ) -> Result<(), String> {
        let equal = completion.status.code.is_success();
        if let Some(op) = self.ops.get_mut(&second) {
            op.kind = Kind::Second { compared: Some(equal) };
        }
        let (disk, lbas, stamp) = blocks;
        if !equal || stamp == 0 {
            return Ok(());
        }
        for lba in lbas {
            if !shared.taken.insert((disk, lba, stamp)) {
                return Err(format!("two pairs took {stamp} from block {lba}"));
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
