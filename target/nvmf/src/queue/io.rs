//! I/O commands of the NVM command set: what they need, what they ask of backings, how they end.
//!
//! Sources: NVM 1.1, 3.3 (the commands), NVMe Base 2.1, 7 (Flush).
//!
//! Write Uncorrectable is not offered and refused as an invalid opcode: files and block devices
//! have no way to mark a block as bad that would outlast a restart.

use super::action::{Action, Io, IoKind, Place};
use super::slot::{DataAt, State, Step};
use super::{Link, Queue};
use crate::target::Binding;
use crate::view::{HostSettings, IoCounters, NamespaceView, SubsystemView};
use crate::{BackingRef, ExecStatus, Slot};
use nvme_spec_types::nvm::{
    BlockCommand, BlockFlags, DatasetManagement, DsmAttributes, DsmRange, NSID_ALL,
};
use nvme_spec_types::{Command, Fuse, IoOpcode, Status, StatusCode};

/// Unit in which places for I/O start, in bytes: what direct I/O asks for.
pub(super) const ALIGNMENT: u32 = 4096;

/// Most bytes of the buffer of a command that works through its blocks in portions.
const PORTION_BUFFER: u32 = 128 << 10;

/// Bit 7 of the flags of Write Zeroes: the whole namespace (NSZ). Not offered.
const NAMESPACE_ZEROES: u16 = 1 << 7;

/// Blocks of a namespace, as bytes of its backing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Extent {
    pub(super) backing: BackingRef,
    pub(super) offset: u64,
    pub(super) len: u64,
    pub(super) flags: BlockFlags,
}

impl Extent {
    pub(super) fn fua(&self) -> bool {
        self.flags.contains(BlockFlags::FORCE_UNIT_ACCESS)
    }

    pub(super) fn io(&self, kind: IoKind, place: Place) -> Io {
        Io { backing: self.backing, kind, offset: self.offset, len: self.len, place }
    }
}

impl Queue {
    /// Checks an I/O command but for its SGL, and says how many bytes of data it moves.
    pub(super) fn io_need(&mut self, slot: Slot) -> Result<Option<u32>, Status> {
        let opcode = self.entry(slot).command.io_opcode();
        if opcode.has_block_range() {
            let extent = self.extent(slot)?;
            // At most the largest transfer: checked in `look_up`.
            return Ok(moves_data(opcode).then_some(extent.len as u32));
        }
        let command = &self.entry(slot).command;
        match opcode {
            IoOpcode::FLUSH => match command.nsid() {
                NSID_ALL => Ok(None),
                nsid => self.namespace(nsid).map(|_| None),
            },
            IoOpcode::DATASET_MANAGEMENT => {
                let dsm = DatasetManagement::from_command(command);
                let namespace = self.namespace(command.nsid())?;
                if !dsm.attributes.contains(DsmAttributes::DEALLOCATE) {
                    return Ok(None); // a hint that changes nothing here
                }
                writable(namespace)?;
                Ok(Some(dsm.data_len() as u32)) // at most 256 ranges of 16 bytes
            }
            IoOpcode::COPY => self.copy_need(command).map(Some),
            _ => Err(StatusCode::INVALID_OPCODE.with_dnr()),
        }
    }

    /// The data of an I/O command is located.
    pub(super) fn proceed_io(&mut self, slot: Slot, out: &mut Vec<Action>) {
        if self.entry(slot).command.fuse() != Fuse::Normal {
            self.proceed_fused(slot, out);
        } else if !self.awaits_turn(slot, out) {
            self.begin_io(slot, out);
        }
    }

    /// An I/O command has its turn.
    pub(super) fn begin_io(&mut self, slot: Slot, out: &mut Vec<Action>) {
        let entry = self.entry(slot);
        let (data, len) = (entry.data, entry.len);
        if entry.first.is_some() {
            self.await_pair_buffer(slot, out);
            return;
        }
        match entry.command.io_opcode() {
            IoOpcode::READ => self.await_buffer(slot, len, out),
            IoOpcode::WRITE => match data {
                DataAt::Capsule(at) if at % ALIGNMENT == 0 => self.with_data(slot, out),
                DataAt::Moved => self.with_data(slot, out),
                _ => self.await_buffer(slot, len, out),
            },
            IoOpcode::COMPARE => {
                // The host's data, if it does not stay in the capsule, and the blocks.
                let first = if data == DataAt::Host { len.next_multiple_of(ALIGNMENT) } else { 0 };
                self.await_buffer(slot, first + len, out);
            }
            IoOpcode::DATASET_MANAGEMENT => match data {
                DataAt::Capsule(at) => self.peek(slot, Place::Capsule(at), len, out),
                DataAt::Host => self.await_buffer(slot, len, out),
                DataAt::Nowhere | DataAt::Moved | DataAt::List { .. } => self.with_data(slot, out),
            },
            IoOpcode::VERIFY | IoOpcode::COPY => {
                self.await_buffer(slot, self.portion_buffer(), out);
            }
            _ => self.with_data(slot, out),
        }
    }

    /// Everything that the command needs from the host is here: asks for its operations.
    pub(super) fn with_data(&mut self, slot: Slot, out: &mut Vec<Action>) {
        let opcode = self.entry(slot).command.io_opcode();
        if !opcode.has_block_range() {
            self.without_block_range(slot, opcode, out);
            return;
        }
        let extent = match self.extent(slot) {
            Ok(extent) => extent,
            Err(status) => {
                self.fail(slot, status, out);
                return;
            }
        };
        let io = match opcode {
            IoOpcode::WRITE => {
                let place = self.write_place(slot, out);
                let fua = extent.fua() || self.writes_through();
                extent.io(IoKind::Write { fua }, place)
            }
            IoOpcode::WRITE_ZEROES => {
                self.release_recv(slot, out);
                let deallocate = extent.flags.contains(BlockFlags::DEALLOCATE);
                let fua = extent.fua() || self.writes_through();
                extent.io(IoKind::WriteZeroes { deallocate, fua }, Place::Buffer(0))
            }
            // Force Unit Access asks for what is on the medium, so what is cached goes there first.
            _ if extent.fua() => {
                let flush = Io { offset: 0, len: 0, ..extent.io(IoKind::Flush, Place::Buffer(0)) };
                self.ask_io(slot, Step::FlushBeforeRead, flush, out);
                return;
            }
            IoOpcode::VERIFY => self.portion_to_verify(slot, &extent),
            _ => extent.io(IoKind::Read, self.read_place(slot)),
        };
        self.ask_io(slot, Step::Main, io, out);
    }

    /// [`Queue::with_data`] of a command that names no range of blocks, or several.
    fn without_block_range(&mut self, slot: Slot, opcode: IoOpcode, out: &mut Vec<Action>) {
        let entry = self.entry(slot);
        match opcode {
            IoOpcode::FLUSH => self.flush(slot, entry.command.nsid(), out),
            IoOpcode::COPY => self.look_at_sources(slot, out),
            IoOpcode::DATASET_MANAGEMENT if entry.data != DataAt::Nowhere => {
                self.peek(slot, Place::Buffer(0), entry.len, out);
            }
            _ => self.respond(slot, Status::SUCCESS, 0, 0, out),
        }
    }

    /// The ranges of a Dataset Management command are here.
    pub(super) fn with_ranges(&mut self, slot: Slot, bytes: &[u8], out: &mut Vec<Action>) {
        self.release_recv(slot, out);
        // The namespace may have changed while the command waited.
        let found = self.namespace(self.entry(slot).command.nsid());
        let namespace = match found.and_then(|found| writable(found).map(|()| found)) {
            Ok(namespace) => namespace,
            Err(status) => {
                self.fail(slot, status, out);
                return;
            }
        };
        let (shift, blocks, backing) =
            (namespace.lba_shift, namespace.block_count, namespace.backing);
        let ranges = || {
            let (ranges, _) = bytes.as_chunks::<{ DsmRange::SIZE }>();
            ranges.iter().filter_map(|range| DsmRange::parse(range).ok()).filter(|r| r.nlb > 0)
        };
        let inside = |range: DsmRange| {
            range.slba.checked_add(u64::from(range.nlb)).is_some_and(|end| end <= blocks)
        };
        if !ranges().all(inside) {
            self.fail(slot, StatusCode::LBA_OUT_OF_RANGE.with_dnr(), out);
            return;
        }
        let mut count = 0;
        for range in ranges() {
            let io = Io {
                backing,
                kind: IoKind::Deallocate,
                offset: range.slba << shift,
                len: u64::from(range.nlb) << shift,
                place: Place::Buffer(0),
            };
            out.push(Action::Io { slot, io });
            count += 1;
        }
        self.await_io_or_succeed(slot, count, out);
    }

    /// One operation of a slot has ended.
    pub fn on_io_done(&mut self, slot: Slot, status: ExecStatus, out: &mut Vec<Action>) {
        let entry = self.entry(slot);
        let State::AwaitIo { left, failed, step } = entry.state else {
            self.unexpected("the end of an operation", entry.state);
            return;
        };
        if entry.plain && status == ExecStatus::Ok && step == Step::Main && !self.closing {
            self.plain_done(slot, out);
        } else {
            self.one_done(slot, (left, failed, step), status, out);
        }
    }

    /// [`Queue::on_io_done`] where the operation may not be the only one, or has failed.
    fn one_done(
        &mut self,
        slot: Slot,
        (left, failed, step): (u32, Option<Status>, Step),
        status: ExecStatus,
        out: &mut Vec<Action>,
    ) {
        let failed = failed.or(match status {
            ExecStatus::Ok => None,
            ExecStatus::Failed(status) => Some(status),
        });
        if left > 1 {
            self.entry_mut(slot).state = State::AwaitIo { left: left - 1, failed, step };
            return;
        }
        if self.closing {
            self.end(slot, out);
            return;
        }
        match (step, failed) {
            (Step::ForControl, _) => {
                self.entry_mut(slot).state = State::AwaitControl;
                out.push(Action::Flushed { slot, failed });
            }
            (_, Some(status)) => self.io_failed(slot, step, status, out),
            (Step::Main, None) => self.io_succeeded(slot, out),
            (Step::FlushBeforeRead, None) => self.flushed_before_read(slot, out),
            (Step::CopyWrite, None) => self.copied(slot, out),
            (Step::PairWrite, None) => self.pair_written(slot, out),
        }
    }

    /// An operation of a command has failed, and none of it is under way any more.
    fn io_failed(&mut self, slot: Slot, step: Step, status: Status, out: &mut Vec<Action>) {
        self.count(slot, IoCounters::count_error);
        match self.entry(slot).first {
            Some(_) => self.pair_failed(slot, step, status, out),
            None => self.fail_midway(slot, status, out),
        }
    }

    /// The command's own operations have succeeded.
    fn io_succeeded(&mut self, slot: Slot, out: &mut Vec<Action>) {
        let entry = self.entry(slot);
        let len = entry.len;
        match entry.command.io_opcode() {
            IoOpcode::READ => {
                self.count(slot, |counters| counters.count_read(u64::from(len)));
                self.respond(slot, Status::SUCCESS, 0, len, out);
            }
            IoOpcode::WRITE if entry.first.is_some() => {
                self.pair_goes_on(slot, Step::Main, out);
            }
            IoOpcode::WRITE => {
                self.count(slot, |counters| counters.count_write(u64::from(len)));
                self.respond(slot, Status::SUCCESS, 0, 0, out);
            }
            IoOpcode::COMPARE => {
                let a = match entry.data {
                    DataAt::Capsule(at) => Place::Capsule(at),
                    _ => Place::Buffer(0),
                };
                let b = self.read_place(slot);
                self.entry_mut(slot).state = State::AwaitCompare;
                out.push(Action::Compare { slot, a, b, len });
            }
            IoOpcode::VERIFY => self.verified(slot, out),
            IoOpcode::COPY => self.write_copied(slot, out),
            _ => self.respond(slot, Status::SUCCESS, 0, 0, out),
        }
    }

    /// What was cached of the blocks of a read with Force Unit Access is on the medium: reads them.
    fn flushed_before_read(&mut self, slot: Slot, out: &mut Vec<Action>) {
        let entry = self.entry(slot);
        if entry.first.is_some() {
            self.pair_goes_on(slot, Step::FlushBeforeRead, out);
            return;
        }
        let opcode = entry.command.io_opcode();
        match self.extent(slot) {
            Ok(extent) if opcode == IoOpcode::VERIFY => {
                let io = self.portion_to_verify(slot, &extent);
                self.ask_io(slot, Step::Main, io, out);
            }
            Ok(extent) => {
                let io = extent.io(IoKind::Read, self.read_place(slot));
                self.ask_io(slot, Step::Main, io, out);
            }
            Err(status) => self.fail(slot, status, out),
        }
    }

    /// The comparison is made; `difference` is where the first byte differs.
    pub fn on_compared(&mut self, slot: Slot, difference: Option<u32>, out: &mut Vec<Action>) {
        if self.entry(slot).state != State::AwaitCompare {
            self.unexpected("a comparison", self.entry(slot).state);
            return;
        }
        match difference {
            _ if self.entry(slot).first.is_some() => self.pair_compared(slot, difference, out),
            None => {
                let len = u64::from(self.entry(slot).len);
                self.count(slot, |counters| counters.count_read(len));
                self.respond(slot, Status::SUCCESS, 0, 0, out);
            }
            Some(_) => self.fail(slot, StatusCode::COMPARE_FAILURE.with_dnr(), out),
        }
    }

    /// The control thread wants these backings flushed before it answers the slot's command:
    /// [`Action::Flushed`] tells it. Dropped for a slot that does not wait for it (its command was
    /// abandoned).
    pub fn on_flush(&mut self, slot: Slot, backings: &[BackingRef], out: &mut Vec<Action>) {
        let known = self.entries.get(usize::from(slot.0));
        if known.is_none_or(|entry| entry.state != State::AwaitControl) {
            return;
        }
        for &backing in backings {
            let io =
                Io { backing, kind: IoKind::Flush, offset: 0, len: 0, place: Place::Buffer(0) };
            out.push(Action::Io { slot, io });
        }
        self.await_io(slot, backings.len() as u32, Step::ForControl);
    }

    /// What the host has set on its controller.
    pub(super) fn settings(&self) -> Option<&HostSettings> {
        self.binding().map(|binding| &binding.settings)
    }

    /// Whether every write must be durable: the host has turned the write cache off.
    pub(super) fn writes_through(&self) -> bool {
        self.settings().is_some_and(HostSettings::write_through)
    }

    /// Asks for a flush of one namespace or of all.
    fn flush(&mut self, slot: Slot, nsid: u32, out: &mut Vec<Action>) {
        self.release_recv(slot, out);
        let ask = |namespace: &NamespaceView, out: &mut Vec<Action>| {
            let (kind, place) = (IoKind::Flush, Place::Buffer(0));
            let io = Io { backing: namespace.backing, kind, offset: 0, len: 0, place };
            out.push(Action::Io { slot, io });
        };
        let mut count = 0;
        if nsid == NSID_ALL {
            for namespace in self.view().map_or(&[][..], |view| &view.namespaces) {
                ask(namespace, out);
                count += 1;
            }
        } else {
            match self.namespace(nsid) {
                Ok(namespace) => ask(namespace, out),
                Err(status) => {
                    self.fail(slot, status, out);
                    return;
                }
            }
            count = 1;
        }
        self.await_io_or_succeed(slot, count, out);
    }

    /// Asks for one operation and waits for it.
    pub(super) fn ask_io(&mut self, slot: Slot, step: Step, io: Io, out: &mut Vec<Action>) {
        self.await_io(slot, 1, step);
        out.push(Action::Io { slot, io });
    }

    fn await_io(&mut self, slot: Slot, left: u32, step: Step) {
        self.entry_mut(slot).state = State::AwaitIo { left, failed: None, step };
    }

    fn await_io_or_succeed(&mut self, slot: Slot, count: u32, out: &mut Vec<Action>) {
        if count == 0 {
            self.respond(slot, Status::SUCCESS, 0, 0, out);
        } else {
            self.await_io(slot, count, Step::Main);
        }
    }

    pub(super) fn peek(&mut self, slot: Slot, place: Place, len: u32, out: &mut Vec<Action>) {
        self.entry_mut(slot).state = State::AwaitPayload;
        out.push(Action::Peek { slot, place, len });
    }

    /// Where the data of a write is, after moving it when it came in the capsule at an odd place.
    fn write_place(&mut self, slot: Slot, out: &mut Vec<Action>) -> Place {
        let entry = self.entry(slot);
        match entry.data {
            DataAt::Capsule(at) if at % ALIGNMENT == 0 => Place::Capsule(at),
            DataAt::Capsule(from) => {
                out.push(Action::Lift { slot, of: slot, from, len: entry.len, to: 0 });
                self.release_recv(slot, out);
                Place::Buffer(0)
            }
            _ => Place::Buffer(0),
        }
    }

    /// Where blocks are read to: the start of the buffer, or after the host's data of a Compare.
    fn read_place(&self, slot: Slot) -> Place {
        let entry = self.entry(slot);
        match (entry.command.io_opcode(), entry.data) {
            (IoOpcode::COMPARE, DataAt::Host) => {
                Place::Buffer(entry.len.next_multiple_of(ALIGNMENT))
            }
            _ => Place::Buffer(0),
        }
    }

    fn view(&self) -> Option<&SubsystemView> {
        match &self.link {
            Link::Bound(Binding { view, .. }) => view.as_deref(),
            Link::Unbound | Link::Connecting(_) => None,
        }
    }

    pub(super) fn namespace(&self, nsid: u32) -> Result<&NamespaceView, Status> {
        let none = StatusCode::INVALID_NAMESPACE_OR_FORMAT;
        find(self.view().ok_or(none.with_dnr())?, nsid)
    }

    /// The bytes that the slot's command, one with a range of blocks, names. They are checked when
    /// they are first asked for, and again only when the namespaces have changed since. In blocks of
    /// another size they are not what the command's buffer and data were measured for.
    #[inline]
    pub(super) fn extent(&mut self, slot: Slot) -> Result<Extent, Status> {
        let entry = self.entry(slot);
        if entry.checked_against == self.offer { Ok(entry.extent) } else { self.check_blocks(slot) }
    }

    /// Checks the range of blocks of the slot's command, and notes it.
    fn check_blocks(&mut self, slot: Slot) -> Result<Extent, Status> {
        let entry = self.entry(slot);
        let view = self.view().ok_or(StatusCode::INVALID_NAMESPACE_OR_FORMAT.with_dnr())?;
        let (extent, offer) = (look_up(view, self.max_transfer(), &entry.command)?, self.offer);
        let measured = entry.checked_against != 0 && moves_data(entry.command.io_opcode());
        if measured && extent.len != entry.extent.len {
            return Err(StatusCode::INVALID_NAMESPACE_OR_FORMAT.with_dnr());
        }
        let entry = self.entry_mut(slot);
        (entry.extent, entry.checked_against) = (extent, offer);
        Ok(extent)
    }

    pub(super) fn max_transfer(&self) -> u32 {
        let limit = self.config.max_transfer;
        self.view().map_or(limit, |view| view.max_transfer.min(limit))
    }

    /// Bytes of the buffer of a command that works in portions: at least 8192.
    pub(super) fn portion_buffer(&self) -> u32 {
        PORTION_BUFFER.min(2 * self.config.max_transfer)
    }

    /// Counts on the command's namespace, while it is there, and on the queue.
    pub(super) fn count(&self, slot: Slot, count: impl Fn(&IoCounters)) {
        self.count_on(self.entry(slot).command.nsid(), count);
    }

    /// The same, on this core's counters of a namespace.
    #[inline]
    pub(super) fn count_on(&self, nsid: u32, count: impl Fn(&IoCounters)) {
        let Link::Bound(Binding { activity, view: Some(view), .. }) = &self.link else { return };
        count(activity.io());
        if let Some(namespace) = view.namespace(nsid)
            && let Some(counters) = namespace.counters.get(self.config.core)
        {
            count(counters);
        }
    }
}

/// Checks the range of blocks that a command names, where transfers have at most `most` bytes.
#[inline(always)] // most of it is gone where the opcode is known
pub(super) fn look_up(
    view: &SubsystemView,
    most: u32,
    command: &Command,
) -> Result<Extent, Status> {
    let (namespace, opcode) = (find(view, command.nsid())?, command.io_opcode());
    if matches!(opcode, IoOpcode::WRITE | IoOpcode::WRITE_ZEROES) {
        writable(namespace)?;
    }
    let blocks = BlockCommand::from_command(command);
    let len = u64::from(blocks.nlb.count()) << namespace.lba_shift;
    let all = opcode == IoOpcode::WRITE_ZEROES && blocks.flags.bits() & NAMESPACE_ZEROES != 0;
    if moves_data(opcode) && len > u64::from(most) || all {
        return Err(StatusCode::INVALID_FIELD.with_dnr());
    }
    match blocks.end() {
        Some(end) if end <= namespace.block_count => {}
        _ => return Err(StatusCode::LBA_OUT_OF_RANGE.with_dnr()),
    }
    let offset = blocks.slba << namespace.lba_shift;
    Ok(Extent { backing: namespace.backing, offset, len, flags: blocks.flags })
}

/// A namespace of a view.
#[inline(always)]
fn find(view: &SubsystemView, nsid: u32) -> Result<&NamespaceView, Status> {
    view.namespace(nsid).map(|found| &**found).ok_or_else(|| view.absent(nsid).with_dnr())
}

/// Whether a command with a range of blocks moves data between host and controller: its transfer
/// size is then limited.
fn moves_data(opcode: IoOpcode) -> bool {
    !matches!(opcode, IoOpcode::WRITE_ZEROES | IoOpcode::VERIFY)
}

pub(super) fn writable(namespace: &NamespaceView) -> Result<(), Status> {
    if namespace.read_only {
        return Err(StatusCode::NAMESPACE_WRITE_PROTECTED.with_dnr());
    }
    Ok(())
}
