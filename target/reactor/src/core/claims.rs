//! Ranges that fused pairs have to themselves, on one core.
//!
//! # Contract
//! A slot that wants a range asks the control thread, which has every data core claim it here. From
//! then on no operation that touches it is begun but the owner's, and when the last of those that
//! were under way has ended, the core says that it is quiet. When all cores are, the owner's slot
//! gets its grant, and keeps the range until it lets go.
//!
//! What others ask for meanwhile is held back, in order, with its buffer, and submitted when the
//! claim is over. That ends: a granted pair waits for nothing but its own operations on the disk, and
//! one that is not granted yet for operations that are under way there already.
//!
//! # Cost
//! While nobody claims anything, an operation costs one look at an empty list and the note of the
//! bytes that it touches. Nothing is shared between cores.

use super::Core;
use super::conn::Phase;
use crate::mail::{ClaimId, Range, ToControl};
use crate::status::exec_status;
use backing::{BlockIo, IoError};
use nvmf::Slot;
use nvmf::queue::Io;
use rdma::{CoreIndex, Device, Now};
use std::collections::VecDeque;

/// A slot of a connection.
type Place = (u16, Slot);

/// A range that is claimed, by whomever.
#[derive(Debug)]
struct Claim {
    id: ClaimId,
    range: Range,
    /// Slots with operations there that began before the claim; at most all slots of the core.
    under_way: Vec<Place>,
}

/// An operation that waits for the end of claims.
#[derive(Debug, Clone, Copy)]
struct HeldBack {
    at: Place,
    io: Io,
}

/// What a core knows of claims.
#[derive(Debug, Default)]
pub(super) struct Claims {
    /// Claims in force; at most one for each fused pair of all cores.
    active: Vec<Claim>,
    /// Claims of this core's own slots, granted or not; at most one a slot.
    own: Vec<(ClaimId, Place)>,
    /// At most what the slots of the core ask for.
    held_back: VecDeque<HeldBack>,
    last_number: u64,
}

impl Claims {
    /// Whether any claim is in force.
    #[inline]
    pub(super) fn any(&self) -> bool {
        !self.active.is_empty()
    }

    /// A slot wants a range: the question for the control thread.
    pub(super) fn ask<E>(
        &mut self,
        core: CoreIndex,
        c: u16,
        slot: Slot,
        range: Range,
    ) -> ToControl<E> {
        self.last_number += 1;
        let id = ClaimId { core, number: self.last_number };
        self.own.push((id, (c, slot)));
        ToControl::Claim(id, range)
    }

    /// A slot lets go of its claim, granted or not: what the control thread is told.
    pub(super) fn let_go<E>(&mut self, c: u16, slot: Slot) -> Option<ToControl<E>> {
        let at = self.own.iter().position(|&(_, place)| place == (c, slot))?;
        Some(ToControl::Unclaim(self.own.swap_remove(at).0))
    }

    /// Keeps an operation for later if it touches what another slot has claimed.
    pub(super) fn holds_back(&mut self, c: u16, slot: Slot, io: &Io, touches: &Range) -> bool {
        let at = (c, slot);
        let mine = |id: ClaimId| self.own.iter().any(|&(own, place)| own == id && place == at);
        let claimed =
            self.active.iter().any(|claim| claim.range.overlaps(touches) && !mine(claim.id));
        if claimed {
            self.held_back.push_back(HeldBack { at, io: *io });
        }
        claimed
    }

    /// The last operation of a slot has ended: tells of the claims that waited for it alone.
    pub(super) fn ended<E>(&mut self, c: u16, slot: Slot, out: &mut Vec<ToControl<E>>) {
        for claim in &mut self.active {
            let Some(at) = claim.under_way.iter().position(|&place| place == (c, slot)) else {
                continue;
            };
            claim.under_way.swap_remove(at);
            if claim.under_way.is_empty() {
                out.push(ToControl::Quiet(claim.id));
            }
        }
    }

    /// Whether a backing has claimed ranges, or operations that wait for the end of claims: it stays
    /// as long.
    pub(super) fn uses(&self, id: u32) -> bool {
        let claimed = self.active.iter().any(|claim| claim.range.backing.0 == id);
        claimed || self.held_back.iter().any(|held| held.io.backing.0 == id)
    }

    /// Operations held back.
    pub(super) fn held_back(&self) -> usize {
        self.held_back.len()
    }
}

impl<D: Device, B: BlockIo> Core<D, B> {
    /// A range is claimed: says at once, or when what is under way there has ended, that it is quiet.
    pub(super) fn on_claim(
        &mut self,
        id: ClaimId,
        range: Range,
        out: &mut Vec<ToControl<D::Endpoint>>,
    ) {
        let mut under_way = Vec::new();
        for (c, conn) in self.conns.iter().enumerate() {
            let Some(conn) = conn.as_deref().filter(|conn| conn.ios > 0) else { continue };
            let touching = conn
                .slots
                .iter()
                .enumerate()
                .filter(|(_, state)| state.ios > 0 && state.touches.overlaps(&range));
            under_way.extend(touching.map(|(slot, _)| (c as u16, Slot(slot as u16))));
        }
        if under_way.is_empty() {
            out.push(ToControl::Quiet(id));
        }
        self.claims.active.push(Claim { id, range, under_way });
    }

    /// A claim of one of this core's slots is granted, unless it was let go of meanwhile.
    pub(super) fn on_granted(
        &mut self,
        now: Now,
        id: ClaimId,
        out: &mut Vec<ToControl<D::Endpoint>>,
    ) {
        let Some(&(_, (c, slot))) = self.claims.own.iter().find(|(own, _)| *own == id) else {
            return;
        };
        let (conn, actions) = self.conn_and_actions(c);
        conn.queue.on_claimed(slot, actions);
        self.carry_out(now, c, out);
    }

    /// A claim is over: begins what it held back.
    pub(super) fn on_unclaim(
        &mut self,
        now: Now,
        id: ClaimId,
        out: &mut Vec<ToControl<D::Endpoint>>,
    ) {
        self.claims.active.retain(|claim| claim.id != id);
        // Each is tried once; one that another claim covers goes to the end of the line again.
        for _ in 0..self.claims.held_back.len() {
            let Some(HeldBack { at: (c, slot), io }) = self.claims.held_back.pop_front() else {
                break;
            };
            self.submit(now, c, slot, io, true);
            self.carry_out(now, c, out);
        }
        self.finish_removals(out);
    }

    /// Forgets the backings that are to be removed and that claims kept.
    fn finish_removals(&mut self, out: &mut Vec<ToControl<D::Endpoint>>) {
        for at in 0..self.backings.len() as u16 {
            self.finish_removal(at, out);
        }
    }

    /// A connection closes: what it had held back is never begun.
    pub(super) fn drop_held_back(
        &mut self,
        now: Now,
        c: u16,
        out: &mut Vec<ToControl<D::Endpoint>>,
    ) {
        debug_assert!(self.conn(c).phase != Phase::Open);
        let dropped: Vec<Slot> = self
            .claims
            .held_back
            .iter()
            .filter(|held| held.at.0 == c)
            .map(|held| held.at.1)
            .collect();
        self.claims.held_back.retain(|held| held.at.0 != c);
        for slot in dropped {
            let (conn, actions) = self.conn_and_actions(c);
            conn.queue.on_io_done(slot, exec_status(Err(IoError::Gone)), actions);
            self.carry_out(now, c, out);
        }
        self.finish_removals(out);
    }
}
