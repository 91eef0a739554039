//! Posting responses, as far as credits go.

use super::conn::{Conn, Kind, Phase, wr_id};
use super::stages::{Probe, Stage};
use super::{Core, CoreStats};
use backing::BlockIo;
use nvmf::Slot;
use nvmf::queue::RemoteSegment;
use rdma::{Device, RemoteAddr, SendOp, SendWr};
use std::ops::Range;

impl<D: Device, B: BlockIo> Core<D, B> {
    /// Serves the connections that have something to post.
    #[inline]
    pub(super) fn serve_dirty(&mut self) {
        while let Some(c) = self.dirty.pop() {
            self.serve(c);
        }
    }

    fn serve(&mut self, c: u16) {
        let Core { conns, device, stats, probe, pulls, now_ns, .. } = self;
        let Some(conn) = conns[usize::from(c)].as_deref_mut() else { return };
        conn.dirty = false;
        if conn.phase != Phase::Open || !conn.established {
            return;
        }
        // Responses first: they free what others wait for. While one waits for send credits no READ
        // may take them, or a response of many parts would wait for ever.
        conn.responses_first = !serve_responses(device, stats, conn, c, (probe, *now_ns));
        pulls.join(conn, c);
    }
}

/// Responses whose RDMA WRITEs go before all their SENDs, at most.
const GROUP: usize = 32;
/// Bytes of RDMA WRITEs after which the SENDs go out: so long a first response may wait for the last.
const GROUP_BYTES: u32 = 64 << 10;

/// Posts responses. Returns whether READs may use the send credits that are left.
///
/// The RDMA WRITEs of several small responses go before all their SENDs: packets of one kind follow
/// each other, which a provider that makes packets sends together.
fn serve_responses<D: Device>(
    device: &mut D,
    stats: &mut CoreStats,
    conn: &mut Conn,
    c: u16,
    (probe, now_ns): (&mut Probe, u64),
) -> bool {
    // Responses whose SENDs are posted, those whose WRITEs are too, and the bytes of the difference.
    let (mut sent, mut written, mut bytes) = (0, 0, 0);
    let mut reads_may_follow = true;
    while let Some(&slot) = conn.send_waits.get(written) {
        if conn.responses >= conn.host_receives {
            stats.send_waits += 1;
            break;
        }
        let state = &mut conn.slots[usize::from(slot.0)];
        let left = u32::from(state.writes);
        let free = conn.limits.max_send_wr - conn.sends;
        if left >= free {
            // A response that fits the empty send queue waits for room; a larger one is posted in
            // parts, each of them the whole of the queue.
            if left >= conn.limits.max_send_wr && free == conn.limits.max_send_wr {
                stats.writes += u64::from(free);
                post_writes(device, conn, c, slot, free, true);
            }
            stats.send_waits += 1;
            reads_may_follow = false;
            break;
        }
        state.enter(Stage::Sent, now_ns, probe);
        state.credits += 1;
        state.signaled += 1;
        state.sent = true;
        bytes += state.push;
        conn.sends += 1;
        conn.signaled += 1;
        conn.responses += 1;
        if left > 0 {
            stats.writes += u64::from(left);
            post_writes(device, conn, c, slot, left, false);
        }
        written += 1;
        if written - sent == GROUP || bytes >= GROUP_BYTES {
            post_sends(device, conn, c, sent..written);
            (sent, bytes) = (written, 0);
        }
    }
    post_sends(device, conn, c, sent..written);
    stats.responses += written as u64;
    if written == conn.send_waits.len() {
        conn.send_waits.clear();
    } else {
        conn.send_waits.drain(..written);
    }
    reads_may_follow
}

/// Posts the SENDs of those responses in line.
fn post_sends<D: Device>(device: &mut D, conn: &Conn, c: u16, which: Range<usize>) {
    for &slot in &conn.send_waits[which] {
        let wr_id = wr_id(Kind::Send, c, conn.generation, slot.0);
        let op = match conn.slots[usize::from(slot.0)].invalidate {
            Some(rkey) => SendOp::SendWithInvalidate { rkey },
            None => SendOp::Send,
        };
        let local = conn.cqe(slot);
        device.post_send(conn.qp, SendWr { wr_id, op, local, signaled: true });
    }
}

/// How many RDMA WRITEs it takes to push so many bytes over segments: at most as many as there are.
#[inline]
pub(super) fn writes(segments: &[RemoteSegment], push: u32) -> u8 {
    if let [only] = segments {
        return u8::from(push.min(only.len) > 0);
    }
    let (mut left, mut count) = (push, 0);
    for segment in segments {
        if left == 0 {
            break;
        }
        left -= segment.len.min(left);
        count += 1;
    }
    count
}

/// Posts the next `count` RDMA WRITEs of a response; the last asks for a completion if `signal`.
#[inline(always)] // whether it asks is known at each place
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
    let segments = queue.segments(slot).iter().skip(at).take(count as usize);
    for (n, segment) in segments.enumerate() {
        let signal = signal && n + 1 == count as usize;
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
    state.writes -= count as u8;
    state.credits += count as u16;
    *sends += count;
    if signal && count > 0 {
        state.signaled += 1;
        *signaled += 1;
    }
}

pub(super) fn remote(segment: &RemoteSegment) -> RemoteAddr {
    RemoteAddr { addr: segment.addr, rkey: segment.rkey }
}
