//! Commands that wait for their turn, by the limits of their namespaces and hosts.
//!
//! # Contract
//! A command whose limits admit it goes on at once. Else it joins a line, of those with the same
//! limits on this core, and holds nothing but its slot, and its receive where its data came with it.
//! The data of a Write moves to a buffer when a shared receive queue runs low and one is free, so that
//! hosts over their limits do not keep the capsules of others out.
//! Lines are independent: one that is over its limit stands still, and every other goes on. Within a
//! line nobody overtakes. Lines with a limit in common, as those of one host on several namespaces,
//! take turns. What a limit admits is shared by the lines of all cores and goes to whom
//! comes first when there is something again.
//!
//! # Bounds and cost
//! A line is there while somebody waits in it, so there are no more lines than slots. A core on which
//! nobody waits looks at an empty list once a turn.

use super::Core;
use super::conn::{Phase, here};
use crate::mail::ToControl;
use backing::BlockIo;
use nvmf::Slot;
use nvmf::limit::Limit;
use rdma::{Device, Now};
use std::collections::VecDeque;
use std::sync::Arc;

/// The limits of a host and of a namespace.
type Both = [Option<Arc<Limit>>; 2];

/// A command in line.
#[derive(Debug, Clone, Copy)]
struct Waiting {
    conn: u16,
    slot: Slot,
    commands: u8,
    bytes: u64,
}

#[derive(Debug)]
struct Line {
    limits: Both,
    /// Never empty between events; at most the slots of the core.
    waiting: VecDeque<Waiting>,
    /// When the first may have its turn.
    due: Now,
}

/// All lines of a core.
#[derive(Debug, Default)]
pub(super) struct Lines {
    lines: Vec<Line>,
}

impl Lines {
    /// Whether anybody waits.
    #[inline]
    pub(super) fn any(&self) -> bool {
        !self.lines.is_empty()
    }

    /// When the next command may have its turn.
    pub(super) fn timeout(&self) -> Option<Now> {
        self.lines.iter().map(|line| line.due).min()
    }

    /// Takes an aborted command out of its line.
    pub(super) fn withdraw(&mut self, c: u16, slot: Slot) {
        self.retain(|waiting| waiting.conn != c || waiting.slot != slot);
    }

    /// Takes the commands of a connection that closes out of their lines.
    pub(super) fn forget(&mut self, c: u16) {
        self.retain(|waiting| waiting.conn != c);
    }

    fn retain(&mut self, keep: impl Fn(&Waiting) -> bool) {
        for line in &mut self.lines {
            line.waiting.retain(&keep);
        }
        self.lines.retain(|line| !line.waiting.is_empty());
    }

    /// Commands in line.
    pub(super) fn waiting(&self) -> impl Iterator<Item = (u16, Slot)> + '_ {
        self.lines.iter().flat_map(|line| line.waiting.iter().map(|w| (w.conn, w.slot)))
    }
}

impl<D: Device, B: BlockIo> Core<D, B> {
    /// Gives a command its turn, or a place in line.
    pub(super) fn ask_turn(&mut self, now: Now, c: u16, slot: Slot, commands: u8, bytes: u64) {
        let (conn, actions) = (
            self.conns[usize::from(c)].as_mut().expect("a connection that is here"),
            &mut self.actions,
        );
        let limits = conn.queue.limits(slot);
        let same = |line: &&mut Line| {
            limits.iter().zip(&line.limits).all(|(wanted, here)| match (wanted, here) {
                (Some(wanted), Some(here)) => Arc::ptr_eq(wanted, here),
                (None, None) => true,
                _ => false,
            })
        };
        let waiting = Waiting { conn: c, slot, commands, bytes };
        if let Some(line) = self.lines.lines.iter_mut().find(same) {
            line.waiting.push_back(waiting);
            self.joined(c, slot);
            return;
        }
        match not_before(now, limits) {
            None => {
                charge(now, limits, &waiting);
                conn.queue.on_turn(slot, actions);
            }
            Some(due) => {
                let limits = limits.map(|limit| limit.cloned());
                self.lines.lines.push(Line { limits, waiting: VecDeque::from([waiting]), due });
                self.joined(c, slot);
            }
        }
    }

    /// A command has joined a line: its receive need not wait, if it is wanted.
    fn joined(&mut self, c: u16, slot: Slot) {
        self.stats.turn_waits += 1;
        let now_ns = self.now_ns;
        here(&mut self.conns, c).slot(slot).marked |= self.probe.begins(now_ns);
        let queue = &self.conn(c).queue;
        if let Some((from, len)) = queue.waits_with_data(slot)
            && self.vacate_recv(c, slot, from, len)
        {
            self.conn(c).queue.on_moved(slot);
        }
    }

    /// Has everybody in line ask again: limits may be others now.
    pub(super) fn renew_lines(&mut self, now: Now, out: &mut Vec<ToControl<D::Endpoint>>) {
        for line in std::mem::take(&mut self.lines.lines) {
            for Waiting { conn: c, slot, commands, bytes } in line.waiting {
                let conn = self.conns[usize::from(c)].as_deref();
                if conn.is_some_and(|conn| conn.phase == Phase::Open) {
                    self.ask_turn(now, c, slot, commands, bytes);
                    self.carry_out(now, c, out);
                }
            }
        }
    }

    /// Gives turns to those in line that may have them. Returns whether any was given.
    #[inline(never)]
    pub(super) fn give_turns(&mut self, now: Now, out: &mut Vec<ToControl<D::Endpoint>>) -> bool {
        let mut given = false;
        let mut at = 0;
        while let Some(line) = self.lines.lines.get_mut(at) {
            if line.due > now {
                at += 1;
                continue;
            }
            let limits = line.limits.each_ref().map(Option::as_ref);
            if let Some(due) = not_before(now, limits) {
                line.due = due;
                at += 1;
                continue;
            }
            let Some(first) = line.waiting.pop_front() else { break };
            charge(now, limits, &first);
            // Behind the others, which may share a limit with it.
            let line = self.lines.lines.remove(at);
            if !line.waiting.is_empty() {
                self.lines.lines.push(line);
            }
            given = true;
            let (conn, actions) = self.conn_and_actions(first.conn);
            conn.queue.on_turn(first.slot, actions);
            self.carry_out(now, first.conn, out);
        }
        given
    }
}

/// When limits admit a command that comes now; `None` for at once.
fn not_before(now: Now, limits: [Option<&Arc<Limit>>; 2]) -> Option<Now> {
    limits.into_iter().flatten().filter_map(|limit| limit.not_before(now)).max()
}

fn charge(now: Now, limits: [Option<&Arc<Limit>>; 2], command: &Waiting) {
    for limit in limits.into_iter().flatten() {
        limit.charge(now, command.commands.into(), command.bytes);
    }
}
