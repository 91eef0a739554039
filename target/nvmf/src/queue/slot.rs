//! A command's place: what it is, where its data is, and what it waits for.

use super::action::{Action, MAX_SEGMENTS, RecvToken, RemoteSegment};
use super::io::Extent;
use crate::target::AbortToken;
use crate::{BackingRef, Slot};
use nvme_spec_types::command::COMMAND_SIZE;
use nvme_spec_types::{Command, DataDirection, Status};

/// What a slot waits for. Each variant but `Free` names the one event (or the one kind of event)
/// that moves the slot on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// Nothing: no command is here.
    Free,
    /// The next capsule, of a fused pair's first command.
    AwaitSecond,
    /// The end of the second command of its fused pair, which does the work of both.
    AwaitPartner,
    /// The descriptor list of the capsule ([`super::Queue::on_payload`]).
    AwaitDescriptors,
    /// Its limits ([`super::Queue::on_turn`]).
    AwaitTurn,
    /// A buffer ([`super::Queue::on_buffer`]).
    AwaitBuffer,
    /// The host's data in the buffer ([`super::Queue::on_pulled`]).
    AwaitPull,
    /// A look at the data ([`super::Queue::on_payload`]).
    AwaitPayload,
    /// Its blocks for itself ([`super::Queue::on_claimed`]).
    AwaitClaim,
    /// A look at the next source range of a Copy ([`super::Queue::on_payload`]).
    AwaitSource,
    /// So many operations on backings ([`super::Queue::on_io_done`]).
    AwaitIo {
        /// Operations not answered yet, at least 1.
        left: u32,
        /// The first failure among those answered.
        failed: Option<Status>,
        /// Which part of the command they are.
        step: Step,
    },
    /// The comparison ([`super::Queue::on_compared`]).
    AwaitCompare,
    /// The control thread ([`super::Queue::on_executed`]).
    AwaitControl,
    /// A buffer for the outcome's data ([`super::Queue::on_buffer`]).
    AwaitFill,
    /// The end of the response's SEND ([`super::Queue::on_sent`]).
    AwaitSent {
        /// Whether the connection ends then.
        close: bool,
    },
}

/// Which part of a command its outstanding operations are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// A flush before a read that must come from the medium.
    FlushBeforeRead,
    /// The command's own operations.
    Main,
    /// Flushes that the control thread asked for, on behalf of its command.
    ForControl,
    /// The write of what a Copy has read.
    CopyWrite,
    /// The write of a fused pair.
    PairWrite,
}

/// How far a command is that works through its blocks in portions (Verify, Copy), and which blocks
/// a fused pair has claimed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Progress {
    /// Source range at hand, of a Copy.
    pub(super) range: u8,
    /// Its namespace.
    pub(super) source_nsid: u32,
    /// Where that range, or the claimed one, is.
    pub(super) source: BackingRef,
    /// Its first byte there.
    pub(super) offset: u64,
    /// Its bytes.
    pub(super) len: u64,
    /// Bytes done: of the blocks of a Verify, or of the source range at hand.
    pub(super) done: u64,
    /// Bytes done of all ranges of a Copy.
    pub(super) written: u64,
    /// log2 of the block size that a Copy was measured in.
    pub(super) lba_shift: u8,
}

/// Where the data of a command is, after its SGL was checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DataAt {
    /// There is none.
    Nowhere,
    /// In host memory: the slot's segments.
    Host,
    /// In the capsule, so many bytes into its data area.
    Capsule(u32),
    /// In the front of the slot's buffer, where the reactor has moved it from the capsule.
    Moved,
    /// Not known yet: the capsule holds a descriptor list.
    List {
        /// Bytes into the capsule's data area.
        offset: u32,
        /// Descriptors, 1 to [`MAX_SEGMENTS`].
        count: u32,
    },
}

/// One place for a command. Made when the queue is, then used over and over.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) state: State,
    pub(super) command: Command,
    /// Whether it is a Read or Write that goes the straight way (`plain.rs`).
    pub(super) plain: bool,
    /// Which way the data goes of a command for the control thread; `None` for an I/O command.
    pub(super) control: Option<DataDirection>,
    /// Whether the command's id is marked as in use by this slot.
    pub(super) owns_cid: bool,
    /// Bytes of the message that brought the command, at least 64.
    pub(super) received: u32,
    /// The receive, as long as it is held.
    pub(super) recv: Option<RecvToken>,
    /// The receive that brought the command, held or not: actions already asked for may still
    /// name places in it, and come before the one that gives it back.
    pub(super) brought_by: RecvToken,
    /// Where the data is.
    pub(super) data: DataAt,
    /// Bytes of data, by the command or by its SGL.
    pub(super) len: u32,
    segments: [RemoteSegment; MAX_SEGMENTS],
    segment_count: u8,
    /// Its blocks, if it has one range of them, and the number of the offer that they were checked
    /// against; no offer has number 0.
    pub(super) extent: Extent,
    pub(super) checked_against: u64,
    /// Where the next pull puts its first byte in the buffer.
    pub(super) pull_to: u32,
    /// Of the second command of a fused pair: the first.
    pub(super) first: Option<Slot>,
    /// Whether it has asked for a claim that it did not let go of.
    pub(super) claims: bool,
    /// How far it is, where it works in portions.
    pub(super) progress: Progress,
    /// Remote key that the host wants invalidated by the response.
    pub(super) invalidate: Option<u32>,
    /// The Abort that is answered when the host's data is in the buffer: the command is then
    /// stopped.
    pub(super) abort: Option<AbortToken>,
    /// Outcome data on its way to the host.
    pub(super) fill: Vec<u8>,
    /// Completion dwords 0 and 1 that go with it.
    pub(super) result: u64,
}

impl Entry {
    pub(super) fn new() -> Entry {
        Entry {
            state: State::Free,
            command: Command::ZERO,
            plain: false,
            control: None,
            owns_cid: false,
            received: 0,
            recv: None,
            brought_by: RecvToken(u32::MAX),
            data: DataAt::Nowhere,
            len: 0,
            segments: [RemoteSegment::default(); MAX_SEGMENTS],
            segment_count: 0,
            extent: Extent::default(),
            checked_against: 0,
            pull_to: 0,
            first: None,
            claims: false,
            progress: Progress::default(),
            invalidate: None,
            abort: None,
            fill: Vec::new(),
            result: 0,
        }
    }

    /// Makes the place ready for a new command.
    #[inline]
    pub(super) fn occupy(&mut self, capsule: &[u8; COMMAND_SIZE], received: u32, recv: RecvToken) {
        self.command = Command::from_bytes(*capsule);
        self.plain = false;
        self.received = received;
        self.recv = Some(recv);
        self.brought_by = recv;
        self.data = DataAt::Nowhere;
        self.len = 0;
        self.segment_count = 0;
        self.checked_against = 0;
        self.pull_to = 0;
        self.first = None;
        self.progress = Progress::default();
        self.invalidate = None;
        self.abort = None;
    }

    /// Gives the receive back, if it is still held.
    #[inline]
    pub(super) fn release_recv(&mut self, out: &mut Vec<Action>) {
        if let Some(recv) = self.recv.take() {
            out.push(Action::ReleaseRecv(recv));
        }
    }

    pub(super) fn segments(&self) -> &[RemoteSegment] {
        &self.segments[..usize::from(self.segment_count)]
    }

    /// Which way the command's data goes.
    pub(super) fn direction(&self) -> DataDirection {
        self.control.unwrap_or_else(|| self.command.io_opcode().direction())
    }

    /// Takes over the segments of another command.
    pub(super) fn copy_segments(&mut self, of: &[RemoteSegment]) {
        self.segments[..of.len()].copy_from_slice(of);
        self.segment_count = of.len() as u8;
    }

    /// Adds a segment; at most [`MAX_SEGMENTS`] are ever added.
    pub(super) fn push_segment(&mut self, segment: RemoteSegment) {
        self.segments[usize::from(self.segment_count)] = segment;
        self.segment_count += 1;
    }

    /// Bytes of in-capsule data that really arrived.
    pub(super) fn capsule_data(&self) -> u32 {
        self.received - COMMAND_SIZE as u32
    }
}
