//! Whether what a guest was told can be true.

use super::{Ban, Guest, Kind, Offer, Op, PASSING_NSID, Shared};
use crate::checker::Ending;
use crate::pattern::Content;
use initiator::NamespaceInfo;
use nvme_spec_types::{Completion, StatusCode};

impl Guest {
    /// It has a controller: was it let in?
    pub(super) fn check_admission(&mut self, shared: &mut Shared) {
        let out = |ban: &Ban| ban.guest == self.number && ban.until.is_none();
        if shared.bans.iter().any(|ban| out(ban) && ban.since < self.trying_since) {
            shared.violation(format!("{}: came in though it may not", self.name));
        }
    }

    /// Whether a request was made on connections that had been ended by a ban.
    fn was_cut_off(&self, ban: &Ban, op: &Op) -> bool {
        // One before that may have been lifted before the host came.
        let during = ban.guest == self.number && ban.since > self.live_since;
        during && ban.settled.is_some_and(|settled| settled < op.issued)
    }

    /// It lost its controller: may it?
    pub(super) fn check_loss(&mut self, reason: &str, shared: &mut Shared) {
        let since = self.trying_since;
        let meant = |ban: &Ban| ban.until.is_none_or(|until| until > since);
        let banned = shared.bans.iter().any(|ban| ban.guest == self.number && meant(ban));
        if reason.contains("does not fit") || shared.steady && !banned {
            shared.violation(format!("{}: {reason}", self.name));
        }
    }

    /// It has looked which namespaces there are: each is as it was at some moment since it began.
    pub(super) fn check_namespaces(&mut self, shared: &mut Shared) {
        let mut unknown = self.host.namespaces().to_vec();
        unknown.retain(|ns| ns.nsid != PASSING_NSID);
        for (volume, offers) in shared.volumes.iter().zip(&shared.offers) {
            let seen = unknown.extract_if(.., |ns| ns.nsid == volume.nsid).next();
            let same = |offer: Offer| match &seen {
                None => !offer.present,
                Some(ns) => {
                    let NamespaceInfo { blocks, lba_shift, .. } = *ns;
                    offer.present && (blocks, lba_shift) == (offer.blocks, volume.lba_shift)
                }
            };
            if !offers.since(self.trying_since).any(same) {
                let what = format!("{}: sees {seen:?} for {:?}", self.name, offers.now());
                shared.violations.push(what);
            }
        }
        if !unknown.is_empty() {
            shared.violation(format!("{}: sees {unknown:?}, which was never there", self.name));
        }
    }

    /// Whether a command may have been refused for how a namespace of it was offered meanwhile.
    fn was_unfit(op: &Op, code: StatusCode, shared: &Shared) -> bool {
        op.parts().any(|part| {
            let Some(offers) = shared.offers.get(part.volume) else { return false };
            // What takes several steps ends when another disk takes the place of the one it began on.
            let in_steps =
                matches!(op.kind, Kind::Copy(_) | Kind::First { .. } | Kind::Second { .. });
            let replaced = in_steps && offers.since(op.issued).count() > 1;
            offers.since(op.issued).any(|offer| match code {
                StatusCode::INVALID_FIELD => !offer.present,
                StatusCode::INVALID_NAMESPACE_OR_FORMAT => replaced,
                StatusCode::LBA_OUT_OF_RANGE => offer.present && part.end > offer.blocks,
                StatusCode::NAMESPACE_WRITE_PROTECTED => {
                    offer.present && part.writes && offer.read_only
                }
                _ => false,
            })
        })
    }

    /// Whether a command that was carried out could be, by how its namespaces were offered.
    fn was_fit(op: &Op, shared: &Shared) -> bool {
        op.parts().all(|part| {
            let Some(offers) = shared.offers.get(part.volume) else { return true };
            offers.since(op.issued).any(|offer| offer.takes(part.end, part.writes))
        })
    }

    /// A comparison of each block with its content has ended.
    fn check_comparison(
        token: u64,
        op: &Op,
        expected: &[Content],
        code: StatusCode,
        shared: &Shared,
    ) -> Result<(), String> {
        let disk = shared.volumes[op.volume].disk;
        let blocks = || (op.lba..).zip(expected);
        let may = blocks().all(|(lba, &c)| shared.checker.may_read(token, disk, lba, c));
        if code.is_success() && !may {
            return Err("compared equal to what cannot be there".into());
        }
        let must = blocks().all(|(lba, &c)| shared.checker.must_read(token, disk, lba, c));
        if code == StatusCode::COMPARE_FAILURE && must {
            return Err("differs from what must be there".into());
        }
        Ok(())
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
        if good && shared.bans.iter().any(|ban| self.was_cut_off(ban, op)) {
            return Err("was carried out for a host that was cut off".into());
        }
        let on_volume = op.kind.is_on_volume();
        let unfit = on_volume && Guest::was_unfit(op, code, shared);
        if on_volume && good && !Guest::was_fit(op, shared) {
            let offers = &shared.offers[op.volume];
            return Err(format!("was carried out on {:?}", offers.now()));
        }
        match &op.kind {
            Kind::Write | Kind::WriteZeroes | Kind::Deallocate => {
                let ending = match good {
                    true => Ending::Success,
                    // Of several ranges, some may have been deallocated.
                    false if unfit && !matches!(op.kind, Kind::Deallocate) => Ending::Refused,
                    false => Ending::Failure,
                };
                shared.checker.write_ended(token, ending);
            }
            Kind::First { expected, .. } => {
                let verdict = Guest::check_comparison(token, op, expected, code, shared);
                self.note_first(token, op, completion, shared);
                shared.checker.end(token);
                verdict?;
                if code == StatusCode::COMPARE_FAILURE {
                    return Ok(());
                }
                // Its Write was refused.
                let writable = |offer: Offer| offer.takes(op.lba + op.blocks, true);
                let refused = !shared.offers[op.volume].since(op.issued).all(writable);
                if code == StatusCode::ABORTED_FAILED_FUSED && refused {
                    return Ok(());
                }
            }
            Kind::Second { compared, takes } => {
                let ending = match code {
                    StatusCode::SUCCESS => Ending::Success,
                    StatusCode::ABORTED_FAILED_FUSED => Ending::Refused,
                    _ if unfit => Ending::Refused,
                    _ => Ending::Failure,
                };
                shared.checker.write_ended(token, ending);
                Guest::check_second(*compared, code)?;
                if good {
                    Guest::check_taken(op, takes, shared)?;
                }
                if code == StatusCode::ABORTED_FAILED_FUSED {
                    return Ok(());
                }
            }
            Kind::Flush if good => shared.checker.flushed(token, &[disk]),
            Kind::FlushAll if good => {
                let disks = shared.there_since(op.issued);
                shared.checker.flushed(token, &disks);
            }
            Kind::Read if good => {
                let verdict = self.check_read(token, op, disk, shared);
                shared.checker.end(token);
                return verdict;
            }
            Kind::Compare(expected) => {
                let verdict = Guest::check_comparison(token, op, expected, code, shared);
                shared.checker.end(token);
                verdict?;
                if code == StatusCode::COMPARE_FAILURE {
                    return Ok(());
                }
            }
            Kind::Copy(_) if op.overlaps() => {
                shared.checker.write_ended(token, Ending::Refused);
                if good {
                    return Err("was carried out onto its own source".into());
                }
                if code == StatusCode::OVERLAPPING_IO_RANGE {
                    return Ok(());
                }
            }
            Kind::Copy(_) => {
                // A namespace may have changed half way.
                let ending = if good { Ending::Success } else { Ending::Failure };
                shared.checker.write_ended(token, ending);
            }
            &Kind::Feature(feature) => {
                return self.check_feature(token, op, feature, code, shared);
            }
            Kind::EnableFormats => {
                self.formats_enabled |= good;
                // The host said goodbye before it was carried out.
                if code == StatusCode::COMMAND_SEQUENCE_ERROR {
                    return Ok(());
                }
            }
            Kind::Passing => return Ok(()),
            Kind::Changed if good => return self.check_news(op, shared),
            Kind::Wrong(status) => {
                let aborted = op.abort_asked && code == StatusCode::ABORT_REQUESTED;
                if code != *status && !aborted && !unfit {
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
        if unfit || by_abort || by_disk && op.qid > 0 {
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
            let Some(content) = Content::of(block) else {
                let head = &block[..16];
                return Err(format!("block {lba} holds what nobody wrote: {head:02x?}"));
            };
            if !shared.checker.may_read(token, disk, lba, content) {
                let may = shared.checker.describe(disk, lba);
                return Err(format!("block {lba} holds {content:?}, which is not of {may}"));
            }
        }
        Ok(())
    }
}
