//! Posting responses and RDMA READs, as far as credits go.

use super::Core;
use super::conn::{Conn, Doing, Kind, Phase, wr_id};
use backing::BlockIo;
use nvmf::Slot;
use nvmf::queue::RemoteSegment;
use rdma::{Device, RemoteAddr, SendOp, SendWr};

impl<D: Device, B: BlockIo> Core<D, B> {
    /// Serves the connections that have something to post.
    pub(super) fn serve_dirty(&mut self) {
        while let Some(c) = self.dirty.pop() {
            let Some(conn) = self.conns[usize::from(c)].as_deref_mut() else { continue };
            conn.dirty = false;
            if conn.phase != Phase::Open || !conn.established {
                continue;
            }
            // Responses first: they free what others wait for. While one waits for send credits no
            // READ may take them, or a response of many parts would wait for ever.
            if self.serve_responses(c) {
                self.serve_reads(c);
            }
        }
    }

    /// Posts responses. Returns whether READs may use the send credits that are left.
    ///
    /// The RDMA WRITEs of several small responses go before all their SENDs: packets of one kind
    /// follow each other, which a provider that makes packets sends together.
    fn serve_responses(&mut self, c: u16) -> bool {
        let Core { conns, device, stats, .. } = self;
        let Some(conn) = conns[usize::from(c)].as_deref_mut() else { return false };
        let mut group = Group { slots: [Slot(0); Group::MAX], len: 0, bytes: 0 };
        let mut reads_may_follow = true;
        while let Some(&slot) = conn.send_waits.front() {
            if conn.responses >= conn.host_receives {
                stats.send_waits += 1;
                break;
            }
            let left = writes_left(conn, slot);
            let free = conn.limits.max_send_wr - conn.sends;
            if left >= free {
                // A response that fits the empty send queue waits for room; a larger one is posted
                // in parts, each of them the whole of the queue.
                if left >= conn.limits.max_send_wr && free == conn.limits.max_send_wr {
                    stats.writes += u64::from(free);
                    post_writes(device, conn, c, slot, free, true);
                }
                stats.send_waits += 1;
                reads_may_follow = false;
                break;
            }
            stats.writes += u64::from(left);
            post_writes(device, conn, c, slot, left, false);
            let state = conn.slot(slot);
            state.credits += 1;
            state.signaled += 1;
            state.sent = true;
            let pushed = state.push;
            conn.sends += 1;
            conn.signaled += 1;
            conn.responses += 1;
            stats.responses += 1;
            conn.send_waits.pop_front();
            if group.add(slot, pushed) {
                group.post(device, conn, c);
            }
        }
        group.post(device, conn, c);
        reads_may_follow
    }

    /// Posts READs.
    fn serve_reads(&mut self, c: u16) {
        let Core { conns, device, stats, .. } = self;
        let Some(conn) = conns[usize::from(c)].as_deref_mut() else { return };
        while let Some(&slot) = conn.read_waits.front() {
            let at = conn.slot(slot).segment;
            let Some(&segment) = conn.queue.segments(slot).get(usize::from(at)) else {
                conn.read_waits.pop_front();
                continue;
            };
            if conn.reads >= conn.limits.max_reads || conn.sends >= conn.limits.max_send_wr {
                stats.read_waits += 1;
                return;
            }
            let id = wr_id(Kind::Read, c, conn.generation, slot.0);
            let state = conn.slot(slot);
            let local = state.buffer.slice(state.moved, segment.len);
            state.moved += segment.len;
            state.segment += 1;
            state.credits += 1;
            state.signaled += 1;
            conn.sends += 1;
            conn.reads += 1;
            conn.signaled += 1;
            stats.reads += 1;
            let op = SendOp::Read { remote: remote(&segment) };
            device.post_send(conn.qp, SendWr { wr_id: id, op, local, signaled: true });
        }
    }
}

/// Responses whose RDMA WRITEs are posted and whose SENDs are to follow.
struct Group {
    slots: [Slot; Group::MAX],
    len: usize,
    /// Bytes that their WRITEs carry.
    bytes: u32,
}

impl Group {
    const MAX: usize = 32;
    /// Bytes after which the SENDs go out: so long a first response may wait for the last one.
    const MAX_BYTES: u32 = 64 << 10;

    /// Adds a response; returns whether the group is full.
    fn add(&mut self, slot: Slot, pushed: u32) -> bool {
        self.slots[self.len] = slot;
        self.len += 1;
        self.bytes += pushed;
        self.len == Group::MAX || self.bytes >= Group::MAX_BYTES
    }

    /// Posts the SENDs, and is empty again.
    fn post<D: Device>(&mut self, device: &mut D, conn: &mut Conn, c: u16) {
        for &slot in &self.slots[..self.len] {
            let wr_id = wr_id(Kind::Send, c, conn.generation, slot.0);
            let op = match conn.slot(slot).invalidate {
                Some(rkey) => SendOp::SendWithInvalidate { rkey },
                None => SendOp::Send,
            };
            let local = conn.cqe(slot);
            device.post_send(conn.qp, SendWr { wr_id, op, local, signaled: true });
        }
        (self.len, self.bytes) = (0, 0);
    }
}

/// RDMA WRITEs that a response still has to post.
fn writes_left(conn: &Conn, slot: Slot) -> u32 {
    let state = &conn.slots[usize::from(slot.0)];
    debug_assert_eq!(state.doing, Doing::Responding);
    let mut bytes = state.push - state.moved;
    let mut count = 0;
    for segment in &conn.queue.segments(slot)[usize::from(state.segment)..] {
        if bytes == 0 {
            break;
        }
        bytes -= segment.len.min(bytes);
        count += 1;
    }
    count
}

/// Posts the next `count` RDMA WRITEs of a response; the last asks for a completion if `signal`.
fn post_writes<D: Device>(
    device: &mut D,
    conn: &mut Conn,
    c: u16,
    slot: Slot,
    count: u32,
    signal: bool,
) {
    let Conn { queue, slots, qp, generation, sends, signaled, .. } = conn;
    let state = &mut slots[usize::from(slot.0)];
    let at = usize::from(state.segment);
    let segments = &queue.segments(slot)[at..at + count as usize];
    for (n, segment) in segments.iter().enumerate() {
        let signal = signal && n + 1 == segments.len();
        let kind = if signal { Kind::LastWrite } else { Kind::Write };
        let wr_id = wr_id(kind, c, *generation, slot.0);
        let bytes = segment.len.min(state.push - state.moved);
        let local = state.buffer.slice(state.moved, bytes);
        state.moved += bytes;
        let op = SendOp::Write { remote: remote(segment) };
        device.post_send(*qp, SendWr { wr_id, op, local, signaled: signal });
    }
    // At most as many as a command has segments.
    state.segment += count as u8;
    state.credits += count as u16;
    *sends += count;
    if signal && count > 0 {
        state.signaled += 1;
        *signaled += 1;
    }
}

fn remote(segment: &RemoteSegment) -> RemoteAddr {
    RemoteAddr { addr: segment.addr, rkey: segment.rkey }
}
