//! Copy: source ranges, one after the other, to one run of blocks (NVM 1.1, 3.3.2).
//!
//! The list of ranges is pulled or lifted into the front of the command's buffer, where the host
//! cannot change it any more, and is checked as a whole before anything is read. Then portions
//! are read into the rest of the buffer and written from there, one operation at a time, so that
//! a command of any size holds one buffer of a bounded size. A copy is not atomic: other commands
//! may see it half done, as NVM 1.1 allows.
//!
//! Formats 0 and 2 are offered, the latter to hosts that enable it (Host Behavior Support). The sources of format 2 may be in any namespace of the subsystem
//! with blocks of the same size. A failed Copy tells in dword 0 of its completion which source
//! range was the first that was not copied in full.

use super::Queue;
use super::action::{Action, Io, IoKind, Place};
use super::io::{ALIGNMENT, writable};
use super::report::{NSID, SDLBA};
use super::slot::{DataAt, Progress, State, Step};
use crate::view::{HostSettings, NamespaceView};
use crate::{BackingRef, Slot};
use nvme_spec_types::log::ParameterLocation;
use nvme_spec_types::nvm::{BlockFlags, Copy, CopyRange};
use nvme_spec_types::{Command, Status, StatusCode};

/// Formats of source ranges that are offered, bit n for format n (CDFS).
pub const COPY_FORMATS: u16 = 1 << 0 | 1 << 2;
/// Most source ranges of a command (MSRC): their list takes one page.
pub const MAX_COPY_RANGES: u16 = 128;
/// Most blocks of a source range (MSSRL).
pub const MAX_COPY_RANGE_BLOCKS: u16 = 4096;
/// Most blocks of a command (MCL).
pub const MAX_COPY_BLOCKS: u32 = 32768;

/// Where the portions are in the buffer; the list of ranges is before it.
const PORTIONS_AT: u32 = ALIGNMENT;
/// Bit of the source options of a range: refuse unless the copy is fast.
const FAST_COPY_ONLY: u16 = 1 << 15;

impl Queue {
    /// Checks a Copy but for its ranges, and says how many bytes these take.
    pub(super) fn copy_need(&self, command: &Command) -> Result<u32, Status> {
        let copy = Copy::from_command(command);
        writable(self.namespace(command.nsid())?)?;
        let enabled = self.settings().map_or(0, HostSettings::copy_formats);
        let len = copy.data_len().filter(|_| COPY_FORMATS & enabled & 1 << copy.format != 0);
        let len = len.ok_or(StatusCode::INVALID_FIELD.with_dnr())?;
        if copy.nr.count() > MAX_COPY_RANGES {
            return Err(StatusCode::COMMAND_SIZE_LIMIT_EXCEEDED.with_dnr());
        }
        Ok(len as u32) // at most a page
    }

    /// The list of ranges is in the buffer or in the capsule.
    pub(super) fn look_at_sources(&mut self, slot: Slot, out: &mut Vec<Action>) {
        let (data, len) = (self.entry(slot).data, self.entry(slot).len);
        if let DataAt::Capsule(from) = data {
            out.push(Action::Lift { slot, of: slot, from, len, to: 0 });
            self.release_recv(slot, out);
        }
        self.peek(slot, Place::Buffer(0), len, out);
    }

    /// Here are all source ranges: checks them and begins with the first.
    pub(super) fn with_sources(&mut self, slot: Slot, bytes: &[u8], out: &mut Vec<Action>) {
        match self.check_sources(&self.entry(slot).command, bytes) {
            Ok((len, lba_shift)) => {
                self.entry_mut(slot).progress.lba_shift = lba_shift;
                let command = self.entry(slot).command;
                let size = CopyRange::size(Copy::from_command(&command).format);
                let ranges = bytes.chunks_exact(size.unwrap_or(usize::MAX));
                let read = ranges.filter_map(|range| self.source(&command, range).ok());
                let read = read.map(|source| (source.nsid, source.len));
                self.charge(slot, read.chain([(command.nsid(), len)]), out);
                self.with_source(slot, bytes, out);
            }
            Err(wrong) => {
                let status = self.report_at(slot, wrong.status, wrong.location, out);
                self.respond(slot, status, 0, 0, out);
            }
        }
    }

    /// The front of `bytes` is the source range at hand: reads its first portion.
    pub(super) fn with_source(&mut self, slot: Slot, bytes: &[u8], out: &mut Vec<Action>) {
        let command = self.entry(slot).command;
        let source = self.source(&command, bytes);
        match source.and_then(|source| self.as_measured(slot, source.lba_shift).map(|()| source)) {
            Ok(source) => {
                let progress = &mut self.entry_mut(slot).progress;
                *progress = Progress {
                    source_nsid: source.nsid,
                    source: source.backing,
                    offset: source.offset,
                    len: source.len,
                    done: 0,
                    ..*progress
                };
                self.read_to_copy(slot, out);
            }
            Err(status) => self.fail_midway(slot, status, out),
        }
    }

    /// A portion is read: writes it.
    pub(super) fn write_copied(&mut self, slot: Slot, out: &mut Vec<Action>) {
        let entry = self.entry(slot);
        let copy = Copy::from_command(&entry.command);
        let len = self.copy_portion(slot);
        let Progress { written, .. } = entry.progress;
        // The namespace may have changed since the portion was asked for.
        let target = self.namespace(entry.command.nsid()).and_then(|namespace| {
            writable(namespace)?;
            self.as_measured(slot, namespace.lba_shift)?;
            let end = (copy.sdlba << namespace.lba_shift) + written + len;
            if end > namespace.block_count << namespace.lba_shift {
                return Err(StatusCode::LBA_OUT_OF_RANGE.with_dnr());
            }
            Ok((namespace.backing, end - len))
        });
        match target {
            Ok((backing, offset)) => {
                let asked = copy.flags.contains(BlockFlags::FORCE_UNIT_ACCESS);
                let kind = IoKind::Write { fua: asked || self.writes_through() };
                let io = Io { backing, kind, offset, len, place: Place::Buffer(PORTIONS_AT) };
                self.ask_io(slot, Step::CopyWrite, io, out);
            }
            Err(status) => self.fail_midway(slot, status, out),
        }
    }

    /// A portion is written: goes on with the next, of this range or the one after, or is done.
    pub(super) fn copied(&mut self, slot: Slot, out: &mut Vec<Action>) {
        let len = self.copy_portion(slot);
        self.count(slot, |counters| counters.count_moved(len, len));
        let entry = self.entry_mut(slot);
        entry.progress.done += len;
        entry.progress.written += len;
        if entry.progress.done < entry.progress.len {
            if !self.stopped_midway(slot, out) {
                self.read_to_copy(slot, out);
            }
            return;
        }
        let copy = Copy::from_command(&entry.command);
        let next = u16::from(entry.progress.range) + 1;
        if next == copy.nr.count() {
            self.respond(slot, Status::SUCCESS, 0, 0, out);
            self.too_late_to_abort(slot, out);
            return;
        }
        entry.progress.range = next as u8; // below the count, which is at most 128
        if self.stopped_midway(slot, out) {
            return;
        }
        self.entry_mut(slot).state = State::AwaitSource;
        let size = CopyRange::size(copy.format).unwrap_or_default() as u32;
        out.push(Action::Peek { slot, place: Place::Buffer(u32::from(next) * size), len: size });
    }

    /// Completes a command that failed after it began: a Copy tells how far it came.
    pub(super) fn fail_midway(&mut self, slot: Slot, status: Status, out: &mut Vec<Action>) {
        let first_not_copied = u64::from(self.entry(slot).progress.range);
        self.fail_with(slot, status, first_not_copied, out);
        self.too_late_to_abort(slot, out);
    }

    fn read_to_copy(&mut self, slot: Slot, out: &mut Vec<Action>) {
        let Progress { source_nsid, source, offset, len, done, .. } = self.entry(slot).progress;
        // The source may have changed since its last portion.
        let status = match self.namespace(source_nsid) {
            Ok(found) if found.backing != source => {
                StatusCode::INVALID_NAMESPACE_OR_FORMAT.with_dnr()
            }
            Ok(found) if offset + len > found.block_count << found.lba_shift => {
                StatusCode::LBA_OUT_OF_RANGE.with_dnr()
            }
            Ok(_) => {
                let io = Io {
                    backing: source,
                    kind: IoKind::Read,
                    offset: offset + done,
                    len: self.copy_portion(slot),
                    place: Place::Buffer(PORTIONS_AT),
                };
                self.ask_io(slot, Step::Main, io, out);
                return;
            }
            Err(status) => status,
        };
        self.fail_midway(slot, status, out);
    }

    /// Whether blocks are still of the size that the command was measured in: in others its place
    /// in the destination would be another one.
    fn as_measured(&self, slot: Slot, lba_shift: u8) -> Result<(), Status> {
        match self.entry(slot).progress.lba_shift == lba_shift {
            true => Ok(()),
            false => Err(StatusCode::INVALID_NAMESPACE_OR_FORMAT.with_dnr()),
        }
    }

    /// Bytes of the portion at hand.
    fn copy_portion(&self, slot: Slot) -> u64 {
        let Progress { len, done, .. } = self.entry(slot).progress;
        (len - done).min(u64::from(self.portion_buffer() - PORTIONS_AT))
    }

    /// Checks every range, and where all of them go; returns how many bytes that is, and log2 of the
    /// block size.
    fn check_sources(&self, command: &Command, bytes: &[u8]) -> Result<(u64, u8), Wrong> {
        let copy = Copy::from_command(command);
        let size = CopyRange::size(copy.format).unwrap_or(usize::MAX);
        let target = self.namespace(command.nsid()).map_err(|status| Wrong::at(NSID, status))?;
        let mut blocks = 0;
        for range in bytes.chunks_exact(size) {
            blocks += self.source(command, range)?.len >> target.lba_shift;
        }
        if blocks > u64::from(MAX_COPY_BLOCKS) {
            return Err(StatusCode::COMMAND_SIZE_LIMIT_EXCEEDED.with_dnr().into());
        }
        if copy.sdlba.checked_add(blocks).is_none_or(|end| end > target.block_count) {
            return Err(Wrong::at(SDLBA, StatusCode::LBA_OUT_OF_RANGE.with_dnr()));
        }
        let (first, len) = (copy.sdlba << target.lba_shift, blocks << target.lba_shift);
        for range in bytes.chunks_exact(size) {
            let source = self.source(command, range)?;
            let apart = source.offset >= first + len || source.offset + source.len <= first;
            if source.backing == target.backing && !apart {
                return Err(StatusCode::OVERLAPPING_IO_RANGE.with_dnr().into());
            }
        }
        Ok((len, target.lba_shift))
    }

    /// Where the source range at the front of `bytes` is, checked.
    fn source(&self, command: &Command, bytes: &[u8]) -> Result<Source, Status> {
        let format = Copy::from_command(command).format;
        let range = match CopyRange::parse(format, bytes) {
            Ok(Some(range)) => range,
            _ => return Err(StatusCode::INVALID_FIELD.with_dnr()),
        };
        let target = self.namespace(command.nsid())?;
        let namespace: &NamespaceView = match format {
            0 => target,
            _ => self.namespace(range.snsid)?,
        };
        if range.sopt & FAST_COPY_ONLY != 0 {
            return Err(StatusCode::FAST_COPY_NOT_POSSIBLE.with_dnr());
        }
        if namespace.lba_shift != target.lba_shift {
            return Err(StatusCode::INCOMPATIBLE_NAMESPACE_OR_FORMAT.with_dnr());
        }
        let blocks = u64::from(range.nlb.count());
        if blocks > u64::from(MAX_COPY_RANGE_BLOCKS) {
            return Err(StatusCode::COMMAND_SIZE_LIMIT_EXCEEDED.with_dnr());
        }
        if range.slba.checked_add(blocks).is_none_or(|end| end > namespace.block_count) {
            return Err(StatusCode::LBA_OUT_OF_RANGE.with_dnr());
        }
        let shift = namespace.lba_shift;
        Ok(Source {
            lba_shift: shift,
            nsid: namespace.nsid,
            backing: namespace.backing,
            offset: range.slba << shift,
            len: blocks << shift,
        })
    }
}

/// Why a Copy cannot begin, and which field of the command says so: none where it is one of the list
/// of ranges, since the error log can name no other place than in the command.
struct Wrong {
    status: Status,
    location: ParameterLocation,
}

impl Wrong {
    fn at(byte: u8, status: Status) -> Wrong {
        Wrong { status, location: ParameterLocation::new(byte, 0) }
    }
}

impl From<Status> for Wrong {
    fn from(status: Status) -> Wrong {
        Wrong { status, location: ParameterLocation::NONE }
    }
}

/// A source range, as bytes of a backing.
struct Source {
    lba_shift: u8,
    nsid: u32,
    backing: BackingRef,
    offset: u64,
    len: u64,
}
