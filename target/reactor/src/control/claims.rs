//! Who may have which range of a backing to itself: the claims of fused pairs on all cores.
//!
//! Claims are granted in the order in which they came, as far as they overlap. One that may go ahead
//! is made known to every core, the control thread's own among them, which serves I/O where there is
//! no other. When all of them are quiet there, it is granted; when its owner lets go, every core is
//! told, and those behind it go on.

use super::Control;
use crate::mail::{ClaimId, Range, ToCore};
use backing::BlockIo;
use rdma::{ConnectionManager, Device, Now};
use std::collections::VecDeque;

/// How far a claim is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Another, older claim covers some of its bytes.
    InLine,
    /// The cores were told; so many are not quiet yet.
    Quieting(u16),
    /// It is its owner's.
    Granted,
}

#[derive(Debug)]
struct Claim {
    id: ClaimId,
    range: Range,
    stage: Stage,
}

/// What the cores are to be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// Every core: the range is claimed.
    Claim(ClaimId, Range),
    /// The owner's core: it has its claim.
    Grant(ClaimId),
    /// Every core: the claim is over.
    End(ClaimId),
}

/// All claims.
#[derive(Debug, Default)]
pub(super) struct Claims {
    cores: u16,
    /// In the order in which they were asked for; at most one for each fused pair under way.
    line: VecDeque<Claim>,
    steps: VecDeque<Step>,
}

impl Claims {
    /// None, for so many cores.
    pub(super) fn new(cores: u16) -> Claims {
        Claims { cores, ..Claims::default() }
    }

    /// A slot wants a range.
    pub(super) fn on_ask(&mut self, id: ClaimId, range: Range) {
        self.line.push_back(Claim { id, range, stage: Stage::InLine });
        self.advance(self.line.len() - 1);
    }

    /// A core is quiet there. Ignored of claims that are over.
    pub(super) fn on_quiet(&mut self, id: ClaimId) {
        let Some(claim) = self.line.iter_mut().find(|claim| claim.id == id) else { return };
        let Stage::Quieting(left) = &mut claim.stage else { return };
        *left -= 1;
        if *left == 0 {
            claim.stage = Stage::Granted;
            self.steps.push_back(Step::Grant(id));
        }
    }

    /// Its owner lets go of a claim, whatever its stage.
    pub(super) fn on_end(&mut self, id: ClaimId) {
        let Some(at) = self.line.iter().position(|claim| claim.id == id) else { return };
        let Some(ended) = self.line.remove(at) else { return };
        // Of one in line nobody was told; those behind it may still have waited for it.
        if ended.stage != Stage::InLine {
            self.steps.push_back(Step::End(id));
        }
        for behind in at..self.line.len() {
            if self.line[behind].range.overlaps(&ended.range) {
                self.advance(behind);
            }
        }
    }

    /// The next thing to tell.
    pub(super) fn next_step(&mut self) -> Option<Step> {
        self.steps.pop_front()
    }

    /// Lets a claim in line go ahead if no older one covers any of its bytes.
    fn advance(&mut self, at: usize) {
        let Claim { id, range, stage } = self.line[at];
        if stage == Stage::InLine && !self.line.range(..at).any(|c| c.range.overlaps(&range)) {
            self.line[at].stage = Stage::Quieting(self.cores);
            self.steps.push_back(Step::Claim(id, range));
        }
    }
}

impl<C, D, B> Control<C, D, B>
where
    C: ConnectionManager,
    D: Device<Endpoint = C::Endpoint>,
    B: BlockIo,
{
    /// Tells the cores what the claims ask for.
    pub(super) fn tell_of_claims(&mut self, now: Now) {
        while let Some(step) = self.claims.next_step() {
            match step {
                Step::Grant(id) => self.tell(now, id.core, ToCore::Granted(id)),
                Step::Claim(id, range) => {
                    for core in self.cores() {
                        self.tell(now, core, ToCore::Claim(id, range));
                    }
                }
                Step::End(id) => {
                    for core in self.cores() {
                        self.tell(now, core, ToCore::Unclaim(id));
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
