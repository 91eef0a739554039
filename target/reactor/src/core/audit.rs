//! The conservation check: every resource is with somebody, and with one only.

use super::Core;
use super::conn::{Conn, Doing};
use super::receive::{RecvState, of_token};
use backing::BlockIo;
use nvmf::Slot;
use rdma::Device;

/// Fails with words when `held` and `counted` differ.
fn same(what: &str, held: u64, counted: u64) -> Result<(), String> {
    if held == counted {
        return Ok(());
    }
    Err(format!("{what}: {held} held, {counted} counted"))
}

impl<D: Device, B: BlockIo> Core<D, B> {
    /// Counts slots, buffers, READ, send and response credits, receives and operations from those
    /// who hold them, and compares with the totals. Meant for tests: it walks every slot.
    ///
    /// # Errors
    /// What does not add up.
    pub fn audit(&self) -> Result<(), String> {
        let (mut buffers, mut buffer_bytes, mut pulled) = (0, 0, 0);
        let mut ios = 0;
        let mut held = vec![0u64; self.rings.len()];
        for conn in self.conns.iter().flatten() {
            let name = format!("queue {}", conn.key.0);
            conn.queue.audit().map_err(|error| format!("{name}: {error}"))?;
            let (mut sends, mut signaled, mut reads, mut responses, mut own_ios) = (0, 0, 0, 0, 0);
            for (at, state) in conn.slots.iter().enumerate() {
                sends += u64::from(state.credits);
                signaled += u64::from(state.signaled);
                responses += u64::from(state.sent);
                own_ios += u64::from(state.ios);
                if state.doing == Doing::Pulling {
                    reads += u64::from(state.signaled);
                    let last = usize::from(state.segment);
                    let segments = conn.queue.segments(Slot(at as u16));
                    let under_way = &segments[last - usize::from(state.signaled)..last];
                    pulled += under_way.iter().map(|segment| u64::from(segment.len)).sum::<u64>();
                }
                if !state.buffer.is_empty() {
                    buffers += 1;
                    buffer_bytes += self
                        .buddy
                        .block_len(state.buffer)
                        .ok_or_else(|| format!("{name}: slot {at} has a buffer of nobody"))?;
                }
            }
            same(&format!("{name}: send credits"), sends, conn.sends.into())?;
            same(&format!("{name}: work requests"), signaled, conn.signaled.into())?;
            same(&format!("{name}: READ credits"), reads, conn.reads.into())?;
            same(&format!("{name}: response credits"), responses, conn.responses.into())?;
            same(&format!("{name}: operations"), own_ios, conn.ios.into())?;
            if conn.sends > conn.limits.max_send_wr
                || conn.reads > conn.limits.max_reads
                || conn.responses > conn.host_receives
            {
                return Err(format!("{name}: more credits taken than there are"));
            }
            for &slot in &conn.read_waits {
                let state = &conn.slots[usize::from(slot.0)];
                let left = conn.queue.segments(slot).len() > usize::from(state.segment);
                if state.doing != Doing::Pulling || !left {
                    return Err(format!("{name}: slot {} is in line with nothing to read", slot.0));
                }
            }
            ios += own_ios;
            for token in conn.queue.held_recvs() {
                let (ring, at) = of_token(token);
                let state = self
                    .rings
                    .get(usize::from(ring))
                    .and_then(Option::as_ref)
                    .and_then(|ring| ring.states.get(usize::from(at)));
                if state != Some(&RecvState::Held) {
                    return Err(format!("{name}: holds receive {at} of ring {ring}: {state:?}"));
                }
                held[usize::from(ring)] += 1;
            }
        }
        let silent: u64 = self.conns.iter().flatten().map(|conn| conn.silent_bytes).sum();
        same("bytes that are pulled", pulled, self.pulls.bytes + silent)?;
        let counted = self.conns.iter().flatten().map(|conn| conn.read_bytes).sum();
        let fresh = self.conns.iter().flatten().filter(|conn| conn.in_line && conn.reads == 0);
        same("those in line without a READ", fresh.count() as u64, self.pulls.fresh as u64)?;
        same("bytes that count in the window", counted, self.pulls.bytes)?;
        same("buffers", buffers, self.buddy.used().0.into())?;
        same("bytes of buffers", buffer_bytes, self.buddy.used().1)?;
        for (ring, held) in self.rings.iter().zip(held) {
            let Some(ring) = ring else { continue };
            let count = |wanted| ring.states.iter().filter(|state| **state == wanted).count();
            same("posted receives", count(RecvState::Posted) as u64, ring.posted.into())?;
            same("held receives", held, count(RecvState::Held) as u64)?;
        }
        let in_flight = self.backings.iter().flatten().map(|backing| u64::from(backing.in_flight));
        same("operations on backings", ios, in_flight.sum())?;
        for wait in &self.buffer_waits {
            let conn = self.conns.get(usize::from(wait.conn)).and_then(Option::as_ref);
            if conn.is_none_or(|conn| !conn.slots[usize::from(wait.slot.0)].buffer.is_empty()) {
                return Err(format!("slot {} waits for a buffer in vain", wait.slot.0));
            }
        }
        for (c, slot) in self.lines.waiting() {
            let conn = self.conns.get(usize::from(c)).and_then(Option::as_ref);
            let has_buffer = |conn: &Conn| !conn.slots[usize::from(slot.0)].buffer.is_empty();
            if conn.is_none_or(|conn| has_buffer(conn) != conn.queue.was_moved(slot)) {
                return Err(format!(
                    "slot {} waits for its turn with a buffer for nothing, or is gone",
                    slot.0
                ));
            }
        }
        if self.claims.held_back() > 0 && !self.claims.any() {
            let held = self.claims.held_back();
            return Err(format!("{held} operations wait for the end of no claim"));
        }
        Ok(())
    }
}
