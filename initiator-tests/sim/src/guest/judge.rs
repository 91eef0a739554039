//! Whether what a guest was told can be true.

use super::{Guest, Kind, Op, PASSING_NSID, Shared};
use crate::checker::Ending;
use crate::pattern;
use initiator::NamespaceInfo;
use nvme_spec_types::{Completion, StatusCode};

impl Guest {
    pub(super) fn check_namespaces(&mut self, shared: &mut Shared) {
        let want: Vec<NamespaceInfo> = shared
            .volumes
            .iter()
            .map(|v| NamespaceInfo { nsid: v.nsid, blocks: v.blocks, lba_shift: v.lba_shift })
            .collect();
        let mut seen = self.host.namespaces().to_vec();
        seen.retain(|ns| ns.nsid != PASSING_NSID);
        if seen != want {
            shared.violation(format!("{}: sees {seen:?} instead of {want:?}", self.name));
        }
    }

    pub(super) fn check(
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
                    return if must {
                        Err("differs from what must be there".into())
                    } else {
                        Ok(())
                    };
                }
            }
            Kind::Passing => return Ok(()),
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
