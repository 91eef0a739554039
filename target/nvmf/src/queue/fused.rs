//! Compare and Write, the one fused operation (NVM 1.1, 3.2.1; NVMe Base 2.1, 3.4.2).
//!
//! # One pair, one way
//! The Compare waits for the next capsule of its queue. When that is its Write, the Write's slot
//! does the work of both with one buffer, so that no pair holds one while it waits for another:
//!
//! ```text
//! buffer: | data to write | data to compare | blocks as they are |
//! gather both ─▶ claim the blocks ─▶ read ─▶ compare ─▶ write ─▶ let go ─▶ complete both
//! ```
//!
//! # Atomic to whom
//! To every command of every host: while a pair has its blocks claimed, the reactor begins no other
//! operation on any of them, and grants the claim only after those under way have ended, on every
//! core. Commands of one block or many are therefore seen to come before the pair or after it.
//! Nothing is asked of other commands while nobody claims anything, and a claim waits for nothing but
//! operations on disks: all that depends on the host or on memory is gathered before.
//!
//! Blocks are those of a backing. A disk that is open twice at a time is two backings, and a pair on one
//! excludes nothing on the other: whoever configures the target opens each disk once.
//!
//! # When a pair comes apart
//! - A first command without a second next to it, or a second without a first, ends as missing the
//!   other.
//! - When one is refused, or the comparison fails, the other ends as failed by it, and nothing is
//!   written. A Write that fails on the medium leaves its Compare successful.
//! - Commands on different blocks are both invalid; more blocks than ACWU exceed the atomic unit.

use super::Queue;
use super::action::{Action, Io, IoKind, Place};
use super::io::ALIGNMENT;
use super::slot::{DataAt, Entry, Progress, State, Step};
use crate::Slot;
use crate::view::IoCounters;
use nvme_spec_types::nvm::{BlockCommand, BlockFlags};
use nvme_spec_types::{Fuse, IoOpcode, Status, StatusCode};

/// What a capsule leaves for the one after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Fused {
    /// It was no first command.
    #[default]
    Nothing,
    /// The first command in this slot waits.
    First(Slot),
    /// A first command was refused; whether that would be so again.
    Refused {
        /// Do Not Retry.
        dnr: bool,
    },
}

/// Most bytes of a fused pair (ACWU) where transfers have `max_transfer`: three times as much must fit
/// into a buffer. 0 where fused commands are not offered.
pub fn fused_limit(max_transfer: u32) -> u32 {
    if max_transfer < 2 * ALIGNMENT { 0 } else { max_transfer / 2 }
}

/// How the other command of a pair ends.
fn failed_by(status: Status) -> Status {
    Status { dnr: status.dnr, ..StatusCode::ABORTED_FAILED_FUSED.retryable() }
}

impl Queue {
    /// Whether the slot's command may be what its FUSE says.
    #[inline]
    pub(super) fn can_be_fused_so(&self, slot: Slot) -> bool {
        self.entry(slot).command.fuse() == Fuse::Normal || self.is_half_of_pair(slot)
    }

    /// Whether the slot's command may be one of a fused pair, with its place in it.
    fn is_half_of_pair(&self, slot: Slot) -> bool {
        let entry = self.entry(slot);
        let offered = fused_limit(self.max_transfer()) > 0 && entry.control.is_none();
        match (entry.command.fuse(), entry.command.io_opcode()) {
            (Fuse::First, IoOpcode::COMPARE) | (Fuse::Second, IoOpcode::WRITE) => offered,
            _ => false,
        }
    }

    /// Relates a command that has just come to the one before it. A first command that waited for
    /// another ends.
    ///
    /// # Errors
    /// Why it cannot be the second command that it says it is.
    #[inline]
    pub(super) fn pair_up(&mut self, slot: Slot, out: &mut Vec<Action>) -> Result<(), Status> {
        match (self.entry(slot).command.fuse(), self.fused) {
            (Fuse::Normal, Fused::Nothing) => Ok(()),
            (fuse, _) => self.relate(slot, fuse, out),
        }
    }

    /// [`Queue::pair_up`] where one of the two is fused.
    fn relate(&mut self, slot: Slot, fuse: Fuse, out: &mut Vec<Action>) -> Result<(), Status> {
        let second = fuse == Fuse::Second && self.can_be_fused_so(slot);
        let before = std::mem::take(&mut self.fused);
        if fuse == Fuse::First {
            self.fused = Fused::First(slot);
        }
        let missing = StatusCode::ABORTED_MISSING_FUSED.with_dnr();
        match before {
            Fused::First(first) if second => {
                self.entry_mut(slot).first = Some(first);
                self.entry_mut(first).state = State::AwaitPartner;
                Ok(())
            }
            Fused::First(first) => {
                self.fail(first, missing, out);
                Ok(())
            }
            Fused::Refused { dnr } if second => {
                Err(failed_by(Status { dnr, ..StatusCode::SUCCESS.retryable() }))
            }
            Fused::Nothing if second => Err(missing),
            Fused::Nothing | Fused::Refused { .. } => Ok(()),
        }
    }

    /// Ends a command that cannot be carried out, and its other half.
    pub(super) fn refuse(&mut self, slot: Slot, status: Status, out: &mut Vec<Action>) {
        if self.fused == Fused::First(slot) {
            self.fused = Fused::Refused { dnr: status.dnr };
        }
        match self.entry(slot).first {
            Some(_) => self.end_pair(slot, failed_by(status), status, out),
            None => self.fail(slot, status, out),
        }
    }

    /// Aborts the first command of a pair whose second waits for a buffer; returns whether it does.
    pub(super) fn stop_second_of(&mut self, first: Slot, out: &mut Vec<Action>) -> bool {
        let is_second = |entry: &Entry| {
            matches!(entry.state, State::AwaitTurn | State::AwaitBuffer)
                && entry.first == Some(first)
        };
        let Some(at) = self.entries.iter().position(is_second) else { return false };
        let (second, status) = (Slot(at as u16), StatusCode::ABORT_REQUESTED.retryable());
        out.push(Action::Withdraw(second));
        self.end_pair(second, status, failed_by(status), out);
        true
    }

    /// A fused command is located: the first waits, the second goes on for both.
    pub(super) fn proceed_fused(&mut self, slot: Slot, out: &mut Vec<Action>) {
        let entry = self.entry(slot);
        let len = entry.len;
        let Some(first) = entry.first else {
            if len > fused_limit(self.max_transfer()) {
                self.refuse(slot, StatusCode::ATOMIC_WRITE_UNIT_EXCEEDED.with_dnr(), out);
                return;
            }
            if !matches!(entry.data, DataAt::Capsule(_)) {
                self.release_recv(slot, out);
            }
            self.entry_mut(slot).state = State::AwaitSecond;
            return;
        };
        let (compare, write) = (&self.entry(first).command, &entry.command);
        let (a, b) = (BlockCommand::from_command(compare), BlockCommand::from_command(write));
        if (compare.nsid(), a.slba, a.nlb) != (write.nsid(), b.slba, b.nlb) {
            let invalid = StatusCode::INVALID_FIELD.with_dnr();
            self.end_pair(slot, invalid, invalid, out);
            return;
        }
        if !self.awaits_turn(slot, out) {
            self.begin_io(slot, out);
        }
    }

    /// The buffer of a pair: asked for when it has its turn.
    pub(super) fn await_pair_buffer(&mut self, slot: Slot, out: &mut Vec<Action>) {
        let len = self.as_it_is_at(slot) + self.entry(slot).len;
        self.await_buffer(slot, len, out);
    }

    /// Brings the data of both commands into the buffer, and then claims their blocks.
    pub(super) fn gather(&mut self, slot: Slot, out: &mut Vec<Action>) {
        let Some(first) = self.entry(slot).first else { return };
        let len = self.entry(slot).len;
        for (of, to) in [(slot, 0), (first, len)] {
            match std::mem::replace(&mut self.entry_mut(of).data, DataAt::Nowhere) {
                DataAt::Capsule(from) => {
                    out.push(Action::Lift { slot, of, from, len, to });
                    self.release_recv(of, out);
                }
                DataAt::Host => {
                    if of != slot {
                        let [mine, other] = self
                            .entries
                            .get_disjoint_mut([usize::from(slot.0), usize::from(of.0)])
                            .expect("the slots of a pair are two");
                        mine.copy_segments(other.segments());
                    }
                    self.entry_mut(slot).pull_to = to;
                    self.pull(slot, out);
                    return;
                }
                DataAt::Nowhere | DataAt::Moved | DataAt::List { .. } => {}
            }
        }
        self.claim(slot, out);
    }

    fn claim(&mut self, slot: Slot, out: &mut Vec<Action>) {
        // The namespace may have changed while the pair waited.
        let extent = match self.extent(slot) {
            Ok(extent) => extent,
            Err(status) => {
                self.refuse(slot, status, out);
                return;
            }
        };
        let entry = self.entry_mut(slot);
        entry.progress.source = extent.backing;
        entry.progress.offset = extent.offset;
        entry.progress.len = extent.len;
        entry.state = State::AwaitClaim;
        entry.claims = true;
        let (backing, offset, len) = (extent.backing, extent.offset, extent.len);
        out.push(Action::Claim { slot, backing, offset, len });
    }

    /// The slot has its blocks for itself.
    pub fn on_claimed(&mut self, slot: Slot, out: &mut Vec<Action>) {
        let entry = self.entry(slot);
        let (State::AwaitClaim, Some(first)) = (entry.state, entry.first) else {
            self.unexpected("a claim", entry.state);
            return;
        };
        let claimed = entry.progress.source;
        match self.extent(slot) {
            Ok(extent) if extent.backing == claimed => {}
            // Another disk has taken the place of the one that was claimed.
            Ok(_) => {
                self.unclaim(slot, out);
                self.claim(slot, out);
                return;
            }
            Err(status) => {
                self.refuse(slot, status, out);
                return;
            }
        }
        let durable = BlockCommand::from_command(&self.entry(first).command).flags;
        if durable.contains(BlockFlags::FORCE_UNIT_ACCESS) {
            self.ask_pair_io(slot, Step::FlushBeforeRead, IoKind::Flush, 0, out);
        } else {
            self.read_claimed(slot, out);
        }
    }

    /// An operation of a pair before its write has succeeded.
    pub(super) fn pair_goes_on(&mut self, slot: Slot, step: Step, out: &mut Vec<Action>) {
        if step == Step::FlushBeforeRead {
            self.read_claimed(slot, out);
            return;
        }
        let len = self.entry(slot).len;
        let (a, b) = (Place::Buffer(len), Place::Buffer(self.as_it_is_at(slot)));
        self.entry_mut(slot).state = State::AwaitCompare;
        out.push(Action::Compare { slot, a, b, len });
    }

    /// The comparison of a pair is made.
    pub(super) fn pair_compared(
        &mut self,
        slot: Slot,
        difference: Option<u32>,
        out: &mut Vec<Action>,
    ) {
        if difference.is_some() {
            let status = StatusCode::COMPARE_FAILURE.with_dnr();
            self.end_pair(slot, status, failed_by(status), out);
            return;
        }
        let flags = BlockCommand::from_command(&self.entry(slot).command).flags;
        let fua = flags.contains(BlockFlags::FORCE_UNIT_ACCESS) || self.writes_through();
        self.ask_pair_io(slot, Step::PairWrite, IoKind::Write { fua }, 0, out);
    }

    /// The write of a pair has succeeded.
    pub(super) fn pair_written(&mut self, slot: Slot, out: &mut Vec<Action>) {
        let len = u64::from(self.entry(slot).len);
        self.count(slot, |counters: &IoCounters| {
            counters.count_read(len);
            counters.count_write(len);
        });
        self.end_pair(slot, Status::SUCCESS, Status::SUCCESS, out);
    }

    /// An operation of a pair has failed.
    pub(super) fn pair_failed(
        &mut self,
        slot: Slot,
        step: Step,
        status: Status,
        out: &mut Vec<Action>,
    ) {
        match step {
            Step::PairWrite => self.end_pair(slot, Status::SUCCESS, status, out),
            _ => self.end_pair(slot, status, failed_by(status), out),
        }
    }

    /// Lets go of a claim, if there is one.
    pub(super) fn unclaim(&mut self, slot: Slot, out: &mut Vec<Action>) {
        if std::mem::take(&mut self.entry_mut(slot).claims) {
            out.push(Action::Unclaim(slot));
        }
    }

    /// Completes both commands of a pair, the first one first.
    fn end_pair(&mut self, second: Slot, first: Status, status: Status, out: &mut Vec<Action>) {
        self.unclaim(second, out);
        let first = self.entry_mut(second).first.take().map(|slot| (slot, first));
        for (slot, status) in first.into_iter().chain([(second, status)]) {
            match status.is_success() {
                true => self.respond(slot, status, 0, 0, out),
                false => self.fail(slot, status, out),
            }
        }
    }

    fn read_claimed(&mut self, slot: Slot, out: &mut Vec<Action>) {
        let place = self.as_it_is_at(slot);
        self.ask_pair_io(slot, Step::Main, IoKind::Read, place, out);
    }

    /// Asks for an operation on the claimed blocks, or ends the pair when they are not what it is for
    /// any more: the namespace may have changed since the claim, or since the last operation.
    fn ask_pair_io(
        &mut self,
        slot: Slot,
        step: Step,
        kind: IoKind,
        place: u32,
        out: &mut Vec<Action>,
    ) {
        let Progress { source, offset, len, .. } = self.entry(slot).progress;
        let status = match self.extent(slot) {
            Ok(extent) if (extent.backing, extent.offset, extent.len) == (source, offset, len) => {
                let (offset, len) = if kind == IoKind::Flush { (0, 0) } else { (offset, len) };
                let io = Io { offset, len, ..extent.io(kind, Place::Buffer(place)) };
                self.ask_io(slot, step, io, out);
                return;
            }
            // Another namespace has its id now.
            Ok(_) => StatusCode::INVALID_NAMESPACE_OR_FORMAT.with_dnr(),
            Err(status) => status,
        };
        match step {
            Step::PairWrite => self.end_pair(slot, Status::SUCCESS, status, out),
            _ => self.refuse(slot, status, out),
        }
    }

    /// Where in a pair's buffer the blocks are read to.
    fn as_it_is_at(&self, slot: Slot) -> u32 {
        (2 * self.entry(slot).len).next_multiple_of(ALIGNMENT)
    }
}
