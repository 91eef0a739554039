//! RDMA READs, as far as credits and the window go.
//!
//! # Contract
//! All that hosts write to a core comes through one pair of ends: its part of the card, or its socket.
//! What was asked for ahead stands in line there, and a small command that comes after it waits. So no
//! more than a window of bytes is asked for at a time, by all connections of the core together (a
//! single READ may be larger): enough to keep the way busy, and little enough to wait for. How much
//! that is, the device says ([`Device::read_window`]).
//!
//! Connections with something to read stand in line, and each has one READ when it comes to the front:
//! first those that have none under way, so that hosts which answer slowly hold no more than they need
//! to, and the others go at their own pace.
//! One without credits leaves the line: it is served again when a work request of its own ends.
//!
//! A host that does not answer must not keep others from writing. When nothing that was asked for has
//! come for [`SILENCE`] while somebody waits, it stands in no line in front of anybody, and does not
//! count any more.

use super::Core;
use super::conn::{Conn, Kind, here, wr_id};
use super::send::remote;
use backing::BlockIo;
use nvmf::Slot;
use rdma::{Device, Now, SendOp, SendWr};
use std::collections::VecDeque;
use std::time::Duration;

/// How long nothing comes when whoever was asked does not answer: longer than a slow link takes for a
/// READ, and short for whoever waits.
pub(super) const SILENCE: Duration = Duration::from_millis(5);

/// What is asked for, and who waits to ask.
#[derive(Debug, Default)]
pub(super) struct Pulls {
    /// Bytes of the READs that are under way and count.
    pub(super) bytes: u64,
    /// When the last READ ended, or the first of those that count was posted, in nanoseconds.
    moved_ns: u64,
    /// Connections in line, each once.
    line: VecDeque<u16>,
    /// How many of those have no READ under way.
    pub(super) fresh: usize,
}

impl Pulls {
    /// Whether anybody is in line.
    #[inline]
    pub(super) fn any(&self) -> bool {
        !self.line.is_empty()
    }

    /// Takes a connection that closes out of the line.
    pub(super) fn forget(&mut self, conn: &mut Conn, c: u16) {
        if std::mem::take(&mut conn.in_line) {
            self.fresh -= usize::from(conn.reads == 0);
            self.line.retain(|&other| other != c);
        }
    }

    /// Puts a connection in line, unless it is there or has nothing to read.
    #[inline]
    pub(super) fn join(&mut self, conn: &mut Conn, c: u16) {
        if !conn.in_line && !conn.read_waits.is_empty() {
            conn.in_line = true;
            self.fresh += usize::from(conn.reads == 0);
            self.line.push_back(c);
        }
    }

    /// A READ of a slot has ended: the first of those that are under way for it, which its slot still
    /// counts.
    // A call from where it is used would cost those commands too that read nothing.
    #[inline(always)]
    pub(super) fn ended(&mut self, conn: &mut Conn, slot: Slot, now_ns: u64) {
        let state = &conn.slots[usize::from(slot.0)];
        let first = usize::from(state.segment) - usize::from(state.signaled);
        let bytes = u64::from(conn.queue.segments(slot)[first].len);
        // They end in the order in which they were posted: those that do not count come first.
        let silent = bytes.min(conn.silent_bytes);
        conn.silent_bytes -= silent;
        conn.read_bytes -= bytes - silent;
        self.bytes -= bytes - silent;
        self.moved_ns = now_ns;
        self.fresh += usize::from(conn.in_line && conn.reads == 1);
    }

    /// When those in line need not wait any longer for what was asked for.
    pub(super) fn timeout(&self) -> Option<Now> {
        self.any().then(|| Duration::from_nanos(self.moved_ns) + SILENCE)
    }
}

/// What came of a connection's turn.
enum Next {
    /// A READ was posted, and there are more to come.
    Posted,
    /// There is nothing to read any more.
    NothingLeft,
    NoCredit,
    NoWindow,
}

impl<D: Device, B: BlockIo> Core<D, B> {
    /// Gives READs to those in line.
    #[inline(never)]
    pub(super) fn pull(&mut self) {
        while let Some(&c) = self.pulls.line.front() {
            if self.pulls.fresh > 0 && self.conn(c).reads > 0 {
                self.pulls.line.rotate_left(1);
                continue;
            }
            match self.next_read(c) {
                Next::Posted => self.pulls.line.rotate_left(1),
                Next::NoWindow => {
                    if self.now_ns.saturating_sub(self.pulls.moved_ns) < SILENCE.as_nanos() as u64 {
                        self.stats.window_waits += 1;
                        return;
                    }
                    self.discount();
                }
                Next::NoCredit => {
                    self.stats.read_waits += 1;
                    self.leave_line(c);
                }
                Next::NothingLeft => self.leave_line(c),
            }
        }
    }

    /// What is under way does not count any more.
    #[cold]
    fn discount(&mut self) {
        for conn in self.conns.iter_mut().flatten() {
            conn.silent_bytes += std::mem::take(&mut conn.read_bytes);
        }
        self.pulls.bytes = 0;
    }

    fn leave_line(&mut self, c: u16) {
        let Core { conns, pulls, .. } = self;
        let conn = here(conns, c);
        pulls.line.pop_front();
        pulls.fresh -= usize::from(conn.reads == 0);
        conn.in_line = false;
    }

    /// Posts the next READ of a connection. A slot leaves with its last: what ends there may be
    /// another command's before the connection's next turn.
    fn next_read(&mut self, c: u16) -> Next {
        let Core { conns, device, stats, pulls, now_ns, .. } = self;
        let conn = here(conns, c);
        let (slot, segment, last) = loop {
            let Some(&slot) = conn.read_waits.front() else { return Next::NothingLeft };
            let at = usize::from(conn.slot(slot).segment);
            let segments = conn.queue.segments(slot);
            match segments.get(at) {
                Some(&segment) => break (slot, segment, at + 1 == segments.len()),
                None => conn.read_waits.pop_front(),
            };
        };
        if conn.reads >= conn.limits.max_reads
            || conn.sends >= conn.limits.max_send_wr
            || conn.responses_first
        {
            return Next::NoCredit;
        }
        let bytes = u64::from(segment.len);
        if pulls.bytes > 0 && pulls.bytes + bytes > u64::from(device.read_window(conn.qp)) {
            return Next::NoWindow;
        }
        if pulls.bytes == 0 {
            pulls.moved_ns = *now_ns;
        }
        pulls.bytes += bytes;
        conn.read_bytes += bytes;
        let id = wr_id(Kind::Read, c, conn.generation, slot.0);
        let state = conn.slot(slot);
        let local = state.buffer.slice(state.moved, segment.len);
        state.moved += segment.len;
        state.segment += 1;
        state.credits += 1;
        state.signaled += 1;
        conn.sends += 1;
        pulls.fresh -= usize::from(conn.reads == 0);
        conn.reads += 1;
        conn.signaled += 1;
        stats.reads += 1;
        let op = SendOp::Read { remote: remote(&segment) };
        device.post_send(conn.qp, SendWr { wr_id: id, op, local, signaled: true });
        if last {
            conn.read_waits.pop_front();
            if conn.read_waits.is_empty() {
                return Next::NothingLeft;
            }
        }
        Next::Posted
    }
}
