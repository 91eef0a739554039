//! How an operation on an NVMe namespace is done: one command after the other until its range is
//! covered, each as large as the device takes.
//!
//! The device's status of a command ends the operation, for the host as it is; only what the kernel
//! says of its own shortages is tried again.

use super::setup::ZEROES_LEN;
use super::slot::{Slot, Step};
use super::steps::{again, learn};
use super::{Entry, RingStats, Sources};
use crate::backing::Backing;
use crate::error::{Direction, io_error};
use crate::nvme::{Data, NvmeStore, Piece, URING_CMD_IO, piece};
use crate::{IoError, IoOp};
use io_uring::opcode;
use io_uring::squeue::{Entry128, Flags};
use region::Span;

/// What to do first; `None` if there is nothing to do.
pub(super) fn first(store: &NvmeStore, op: IoOp) -> Option<Step> {
    (op != IoOp::Deallocate || store.limits.discard > 0).then_some(Step::Command)
}

/// The command for what is left of a slot's operation.
fn current(slot: &Slot, store: &NvmeStore) -> Piece {
    let request = &slot.request;
    let (offset, left) = (request.offset + slot.done, request.len - slot.done);
    piece(store, request.op, offset, left, ZEROES_LEN as u64)
        .expect("an operation was begun only where there is a command for it")
}

/// What a command's result leads to: `None` if another is to be submitted, else the operation's
/// outcome. `result` is the device's status, or a negated error number.
pub(super) fn advance(
    slot: &mut Slot,
    backing: &Backing,
    store: &NvmeStore,
    result: i32,
    stats: &mut RingStats,
) -> Option<Result<(), IoError>> {
    match -result {
        0 => {
            slot.done += current(slot, store).covers;
            slot.tries = 0;
            if slot.done >= slot.request.len {
                return Some(Ok(()));
            }
            stats.continued += 1;
            None
        }
        ..0 => Some(Err(IoError::Device(result as u16))),
        libc::EINTR | libc::EAGAIN => again(slot, stats, IoError::Busy),
        // From a kernel that has commands but takes no registered buffer with them. Others that are
        // under way will find the same.
        libc::EINVAL
            if !slot.plain && matches!(slot.request.op, IoOp::Read | IoOp::Write { .. }) =>
        {
            slot.plain = true;
            learn(
                &backing.learned.no_fixed_command,
                "NVMe commands without registered buffers: Linux 6.12 takes them",
            );
            None
        }
        errno => {
            let reads = slot.request.op == IoOp::Read;
            let direction = if reads { Direction::Read } else { Direction::Write };
            Some(Err(io_error(errno, direction)))
        }
    }
}

/// The submission for the next command of the slot `index`.
///
/// # Panics
/// If the buffer reaches past the region: our own bug.
pub(super) fn submission(
    slot: &Slot,
    index: u32,
    entry: &Entry,
    store: &NvmeStore,
    sources: &Sources<'_>,
) -> Entry128 {
    let piece = current(slot, store);
    let (address, len, fixed) = match piece.data {
        Data::Nothing => (0, 0, None),
        Data::Buffer => {
            let span = slot.request.buffer.slice(slot.done as u32, piece.covers as u32);
            let fixed = sources.mode.fixed_buffer(span).filter(|_| !slot.plain);
            (sources.region.addr(span).as_ptr() as u64, span.len(), fixed)
        }
        Data::Zeroes => {
            let span = Span::new(0, piece.covers as u32);
            (sources.zeroes.addr(span).as_ptr() as u64, span.len(), None)
        }
        Data::Range(range) => {
            let len = range.len() as u32;
            let span = Span::new(index * len, len);
            sources.ranges.write(span, &range);
            (sources.ranges.addr(span).as_ptr() as u64, len, None)
        }
    };
    let submission = opcode::UringCmd80::new(entry.fd, URING_CMD_IO)
        .cmd(piece.passed(address, len))
        .buf_index(fixed)
        .build();
    if entry.fixed { submission.flags(Flags::FIXED_FILE) } else { submission }
}
