//! How an operation on a file or block device is done: its first step, what a step's result leads to, and the submission
//! for each step. Decisions only; the ring moves the bytes.
//!
//! - A read or write is one transfer, continued while it comes back short.
//! - A durable write carries RWF_DSYNC, or is followed by a sync where that is refused.
//! - Zeroing asks the file system or device to do it, and falls back to writing zeroes.
//! - Deallocating punches a hole; where that is refused it does nothing, unless the backing has
//!   promised zeroes, which are then made otherwise.

use super::commands;
use super::slot::{Allocation, Slot, Step};
use super::{Entry, RingStats, Sources};
use crate::backing::{Backing, Flag, Store};
use crate::error::{Direction, io_error};
use crate::{IoError, IoOp, IoRequest};
use io_uring::squeue::{self, Flags};
use io_uring::{opcode, types};
use region::Span;

/// Times a step without progress is tried again.
const MAX_TRIES: u8 = 16;

/// FALLOC_FL_NO_HIDE_STALE: on a device, content after a discard may be anything.
const NO_HIDE_STALE: i32 = 0x04;

/// Refuses a request that cannot be done as asked.
pub(super) fn check(backing: &Backing, request: &IoRequest) -> Result<(), IoError> {
    let geometry = &backing.geometry;
    let writes = !matches!(request.op, IoOp::Read | IoOp::Flush);
    if writes && geometry.read_only {
        return Err(IoError::ReadOnly);
    }
    if request.op == IoOp::Flush {
        return Ok(());
    }
    let block = u64::from(geometry.block_size);
    if !request.offset.is_multiple_of(block) || !request.len.is_multiple_of(block) {
        return Err(IoError::Other(libc::EINVAL));
    }
    let end = request.offset.checked_add(request.len).ok_or(IoError::OutOfRange)?;
    if end > backing.capacity() {
        return Err(IoError::OutOfRange);
    }
    if matches!(request.op, IoOp::Read | IoOp::Write { .. }) {
        let align = match &backing.store {
            Store::File(store) => store.memory_align,
            // Commands name memory in units of four bytes.
            Store::Nvme(_) => 4,
            Store::Ram(_) | Store::Null => 1,
        };
        let buffer = request.buffer;
        if u64::from(buffer.len()) != request.len || !buffer.offset().is_multiple_of(align) {
            return Err(IoError::Other(libc::EINVAL));
        }
    }
    Ok(())
}

/// What to do first for an operation on a file or device; `None` if there is nothing to do.
pub(super) fn first(backing: &Backing, op: IoOp) -> Option<Step> {
    if let Store::Nvme(store) = &backing.store {
        return commands::first(store, op);
    }
    let learned = &backing.learned;
    let step = match op {
        IoOp::Read => Step::Transfer { dsync: false },
        IoOp::Write { fua } => Step::Transfer { dsync: fua && !learned.no_dsync.is_set() },
        IoOp::Flush => Step::Sync,
        IoOp::WriteZeroes { deallocate: true, .. } if !learned.no_punch.is_set() => {
            Step::Allocate(Allocation::PunchHole)
        }
        IoOp::WriteZeroes { .. } if !learned.no_zero_range.is_set() => {
            Step::Allocate(Allocation::ZeroRange)
        }
        IoOp::WriteZeroes { .. } => Step::WriteZeroes,
        IoOp::Deallocate if !learned.no_punch.is_set() => Step::Allocate(Allocation::PunchHole),
        IoOp::Deallocate => return without_holes(backing, op),
    };
    Some(step)
}

/// What to do where holes are refused; `None` if the operation may do nothing.
fn without_holes(backing: &Backing, op: IoOp) -> Option<Step> {
    let learned = &backing.learned;
    let is_device = matches!(&backing.store, Store::File(store) if store.is_device);
    let wants_zeroes = op != IoOp::Deallocate || backing.geometry.discard_zeroes;
    if wants_zeroes && !learned.no_zero_range.is_set() {
        Some(Step::Allocate(Allocation::ZeroRange))
    } else if wants_zeroes {
        Some(Step::WriteZeroes)
    } else if is_device && !learned.no_discard.is_set() {
        Some(Step::Allocate(Allocation::Discard))
    } else {
        None
    }
}

/// What a step's result leads to: `None` if the slot holds another step to be submitted, else
/// the operation's outcome. `result` is a byte count or a negated error number.
pub(super) fn advance(
    slot: &mut Slot,
    backing: &Backing,
    result: i32,
    stats: &mut RingStats,
) -> Option<Result<(), IoError>> {
    if matches!(-result, libc::EINTR | libc::EAGAIN) {
        return again(slot, stats, IoError::Busy);
    }
    match slot.step {
        Step::Transfer { dsync: true } if -result == libc::EOPNOTSUPP => {
            learn(&backing.learned.no_dsync, "RWF_DSYNC refused: durable writes are synced");
            next(slot, Step::Transfer { dsync: false })
        }
        Step::Transfer { dsync } => {
            let (direction, fua) = match slot.request.op {
                IoOp::Write { fua } => (Direction::Write, fua),
                _ => (Direction::Read, false),
            };
            match moved(slot, backing, result, direction, stats) {
                Some(Ok(())) if fua && !dsync => next(slot, Step::Sync),
                other => other,
            }
        }
        Step::WriteZeroes => match moved(slot, backing, result, Direction::Write, stats) {
            Some(Ok(())) => after_zeroing(slot),
            other => other,
        },
        Step::Sync if result < 0 => Some(Err(io_error(-result, Direction::Write))),
        Step::Sync => Some(Ok(())),
        Step::Allocate(_) if result == 0 => after_zeroing(slot),
        Step::Allocate(how) if is_refusal(-result) => instead(slot, backing, how),
        Step::Allocate(_) => Some(Err(io_error(-result, Direction::Write))),
        Step::Command => unreachable!("files and block devices are sent no commands"),
    }
}

/// Counts what a transfer moved; the outcome once all of the range is, or cannot be.
fn moved(
    slot: &mut Slot,
    backing: &Backing,
    result: i32,
    direction: Direction,
    stats: &mut RingStats,
) -> Option<Result<(), IoError>> {
    if result < 0 {
        return Some(Err(io_error(-result, direction)));
    }
    let Store::File(store) = &backing.store else { unreachable!("only files have steps") };
    let left = slot.request.len - slot.done;
    if result as u64 >= left {
        slot.done = slot.request.len;
        return Some(Ok(()));
    }
    // A chunk of zeroes is short by design; else continue at the last whole unit.
    let unit = u64::from(store.progress_unit);
    let progress = result as u64 / unit * unit;
    if progress == 0 {
        return match direction {
            // The end of the file lies in or before this block: it was cut behind our back, and the
            // blocks that a host was promised are lost.
            Direction::Read => Some(Err(IoError::ReadFault)),
            Direction::Write => again(slot, stats, IoError::WriteFault),
        };
    }
    slot.done += progress;
    slot.tries = 0;
    if slot.step != Step::WriteZeroes {
        stats.continued += 1;
    }
    None
}

/// The same step once more, unless it was tried often enough.
pub(super) fn again(
    slot: &mut Slot,
    stats: &mut RingStats,
    error: IoError,
) -> Option<Result<(), IoError>> {
    if slot.tries == MAX_TRIES {
        return Some(Err(error));
    }
    slot.tries += 1;
    stats.retried += 1;
    None
}

fn next(slot: &mut Slot, step: Step) -> Option<Result<(), IoError>> {
    slot.step = step;
    slot.tries = 0;
    None
}

fn after_zeroing(slot: &mut Slot) -> Option<Result<(), IoError>> {
    match slot.request.op {
        IoOp::WriteZeroes { fua: true, .. } => next(slot, Step::Sync),
        _ => Some(Ok(())),
    }
}

/// Whether an error number says "this cannot be done here" rather than "it failed".
fn is_refusal(errno: i32) -> bool {
    matches!(errno, libc::EOPNOTSUPP | libc::ENOSYS | libc::EINVAL | libc::ENODEV)
}

/// What to do in place of a change of allocation that is refused.
fn instead(slot: &mut Slot, backing: &Backing, how: Allocation) -> Option<Result<(), IoError>> {
    let learned = &backing.learned;
    match how {
        Allocation::PunchHole => learn(&learned.no_punch, "holes cannot be punched here"),
        Allocation::ZeroRange => learn(&learned.no_zero_range, "zeroes have to be written here"),
        Allocation::Discard => learn(&learned.no_discard, "blocks cannot be discarded here"),
    }
    match without_holes(backing, slot.request.op) {
        Some(step) => next(slot, step),
        None => Some(Ok(())),
    }
}

pub(super) fn learn(flag: &Flag, what: &'static str) {
    if !flag.is_set() {
        flag.set();
        tracing::info!("{what}");
    }
}

/// The submission for a slot's current step.
///
/// # Panics
/// If the buffer reaches past the region: our own bug.
pub(super) fn submission(slot: &Slot, entry: &Entry, sources: &Sources<'_>) -> squeue::Entry {
    let Sources { region, zeroes, mode, .. } = sources;
    let request = &slot.request;
    let offset = request.offset + slot.done;
    let left = request.len - slot.done;
    let fd = entry.fd;
    let submission = match slot.step {
        Step::Transfer { dsync } => {
            let span = request.buffer.slice(slot.done as u32, left as u32);
            let address = region.addr(span).as_ptr();
            let fixed = mode.fixed_buffer(span);
            let flags = if dsync { libc::RWF_DSYNC } else { 0 };
            match (request.op, fixed) {
                (IoOp::Read, Some(buffer)) => {
                    opcode::ReadFixed::new(fd, address, span.len(), buffer).offset(offset).build()
                }
                (IoOp::Read, None) => {
                    opcode::Read::new(fd, address, span.len()).offset(offset).build()
                }
                (_, Some(buffer)) => opcode::WriteFixed::new(fd, address, span.len(), buffer)
                    .offset(offset)
                    .rw_flags(flags)
                    .build(),
                (_, None) => opcode::Write::new(fd, address, span.len())
                    .offset(offset)
                    .rw_flags(flags)
                    .build(),
            }
        }
        Step::WriteZeroes => {
            let n = left.min(zeroes.len() as u64) as u32;
            let address = zeroes.addr(Span::new(0, n)).as_ptr();
            opcode::Write::new(fd, address, n).offset(offset).build()
        }
        Step::Sync => opcode::Fsync::new(fd).flags(types::FsyncFlags::DATASYNC).build(),
        Step::Allocate(how) => {
            let mode = match how {
                Allocation::ZeroRange => libc::FALLOC_FL_ZERO_RANGE,
                Allocation::PunchHole => libc::FALLOC_FL_PUNCH_HOLE,
                Allocation::Discard => libc::FALLOC_FL_PUNCH_HOLE | NO_HIDE_STALE,
            };
            opcode::Fallocate::new(fd, left)
                .offset(offset)
                .mode(mode | libc::FALLOC_FL_KEEP_SIZE)
                .build()
        }
        Step::Command => unreachable!("files and block devices are sent no commands"),
    };
    if entry.fixed { submission.flags(Flags::FIXED_FILE) } else { submission }
}
