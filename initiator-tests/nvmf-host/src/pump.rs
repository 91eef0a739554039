//! Keeps many I/O commands going over all queues of a session.
//!
//! # Contract
//! [`Work`] says what to do next, fills the data of writes and looks at the data of reads; the pump
//! owns buffers, slots and connections. Memory is opened to the target once per slot and connection.
//! When the work asks for it, connections are cut with commands in flight, made anew, and what was
//! in flight is carried out again.

use crate::session::Session;
use anyhow::{Context, Result, bail};
use indicatif::ProgressBar;
use initiator::{Goodbye, NamespaceInfo, Payload, Request, commands};
use nvme_spec_types::{Command, Completion, SglDescriptor};
use rdma::{Access, Connector, HostDevice, RemoteAddr};
use region::Span;

/// What to do with a range of blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Op {
    Read,
    Write,
    Compare,
}

/// One command to carry out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Io {
    pub(crate) op: Op,
    pub(crate) slba: u64,
    /// Logical blocks, at least 1; never more than the pump was told.
    pub(crate) blocks: u32,
}

/// A range in commands of as many blocks as a command may have, from its start to its end.
#[derive(Debug)]
pub(crate) struct Portions {
    op: Op,
    next: u64,
    left: u64,
    most: u32,
}

impl Portions {
    /// `blocks` blocks from `slba`, at most `most` in a command.
    pub(crate) fn new(op: Op, slba: u64, blocks: u64, most: u32) -> Portions {
        Portions { op, next: slba, left: blocks, most }
    }
}

impl Iterator for Portions {
    type Item = Io;

    fn next(&mut self) -> Option<Io> {
        let blocks = self.left.min(u64::from(self.most)) as u32;
        let io = Io { op: self.op, slba: self.next, blocks };
        self.next += u64::from(blocks);
        self.left -= u64::from(blocks);
        (blocks > 0).then_some(io)
    }
}

/// What a pump carries out.
pub(crate) trait Work {
    /// The next command, or `None` when all were given out.
    fn next(&mut self) -> Option<Io>;

    /// Fills in the data of a write or compare. Called in the order of [`next`](Self::next), and
    /// once more for a command that was in flight when connections were cut.
    ///
    /// # Errors
    /// Ends the pump.
    fn fill(&mut self, io: &Io, buffer: &mut [u8]) -> Result<()>;

    /// A command has ended. `data` is what a read brought.
    ///
    /// # Errors
    /// Ends the pump.
    fn done(&mut self, io: &Io, completion: &Completion, data: &[u8]) -> Result<()>;

    /// Whether to cut the connections now.
    fn cut_due(&mut self) -> bool {
        false
    }
}

#[derive(Debug)]
struct Slot {
    qid: u16,
    span: Span,
    remote: Option<RemoteAddr>,
    io: Option<Io>,
}

/// How a pump runs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pace {
    /// Commands outstanding on each queue.
    pub(crate) depth: u16,
    /// Most blocks of a command.
    pub(crate) blocks: u32,
}

/// Carries out all of `work`.
///
/// # Errors
/// When the work says so, a command cannot be sent, or the controller is lost.
pub(crate) fn pump<C: Connector, D: HostDevice<Endpoint = C::Endpoint>>(
    session: &mut Session<C, D>,
    ns: NamespaceInfo,
    pace: Pace,
    work: &mut impl Work,
    bar: &ProgressBar,
) -> Result<()> {
    let len = pace.blocks << ns.lba_shift;
    let mut slots = make_slots(session, pace.depth, len)?;
    let result = run(session, ns, &mut slots, work, bar);
    for slot in &slots {
        if let Some(remote) = slot.remote {
            session.host.take_back(slot.qid, remote.rkey);
        }
        // Memory of a command that is still outstanding stays taken: the target may use it.
        if slot.io.is_none() {
            session.host.arena().free(slot.span);
        }
    }
    result
}

fn make_slots<C: Connector, D: HostDevice<Endpoint = C::Endpoint>>(
    session: &mut Session<C, D>,
    depth: u16,
    len: u32,
) -> Result<Vec<Slot>> {
    let mut slots = Vec::new();
    for _ in 0..depth {
        for qid in 1..=session.host.io_queues() {
            let span = session.host.arena().alloc(len).context("no memory for data")?;
            slots.push(Slot { qid, span, remote: None, io: None });
        }
    }
    if slots.is_empty() {
        bail!("the controller granted no I/O queue");
    }
    lend(session, &mut slots)?;
    Ok(slots)
}

fn lend<C: Connector, D: HostDevice<Endpoint = C::Endpoint>>(
    session: &mut Session<C, D>,
    slots: &mut [Slot],
) -> Result<()> {
    for slot in slots {
        let remote = session.host.lend(slot.qid, slot.span, Access::RemoteWrite);
        slot.remote = Some(remote.context("cannot open memory to the target")?);
    }
    Ok(())
}

fn run<C: Connector, D: HostDevice<Endpoint = C::Endpoint>>(
    session: &mut Session<C, D>,
    ns: NamespaceInfo,
    slots: &mut [Slot],
    work: &mut impl Work,
    bar: &ProgressBar,
) -> Result<()> {
    let mut scratch =
        vec![0u8; slots.iter().map(|slot| slot.span.len()).max().unwrap_or(0) as usize];
    // Slots without a command, and what has to be carried out again.
    let mut free: Vec<usize> = (0..slots.len()).rev().collect();
    let mut again: Vec<Io> = Vec::new();
    loop {
        while let Some(&at) = free.last() {
            let Some(io) = again.pop().or_else(|| work.next()) else { break };
            let slot = &mut slots[at];
            let len = (io.blocks as usize) << ns.lba_shift;
            if io.op != Op::Read {
                work.fill(&io, &mut scratch[..len])?;
                session.host.region().write(slot.span, &scratch[..len]);
            }
            submit(session, ns, slot, &io, at as u64)?;
            slot.io = Some(io);
            free.pop();
        }
        if free.len() == slots.len() {
            return Ok(());
        }
        let now = session.now();
        session.host.flush(now);
        while let Some(ended) = session.next(None)? {
            let slot = &mut slots[ended.token as usize];
            let io = slot.io.take().context("an answer to a command that was not sent")?;
            free.push(ended.token as usize);
            let len = (io.blocks as usize) << ns.lba_shift;
            let data = if io.op == Op::Read && ended.completion.status.is_success() {
                session.host.region().read(slot.span.slice(0, len as u32), &mut scratch[..len]);
                &scratch[..len]
            } else {
                &[]
            };
            work.done(&io, &ended.completion, data)?;
            bar.inc(len as u64);
        }
        if work.cut_due() {
            session.end(Goodbye::Abrupt);
            session.connect().context("after cutting the connections")?;
            again.extend(slots.iter_mut().filter_map(|slot| slot.io.take()));
            free = (0..slots.len()).rev().collect();
            lend(session, slots)?;
        }
    }
}

fn submit<C: Connector, D: HostDevice<Endpoint = C::Endpoint>>(
    session: &mut Session<C, D>,
    ns: NamespaceInfo,
    slot: &Slot,
    io: &Io,
    token: u64,
) -> Result<()> {
    let len = io.blocks << ns.lba_shift;
    let mut command: Command = match io.op {
        Op::Read => commands::read(ns.nsid, io.slba, io.blocks, false),
        Op::Write => commands::write(ns.nsid, io.slba, io.blocks, false),
        Op::Compare => commands::compare(ns.nsid, io.slba, io.blocks),
    };
    let data = if io.op != Op::Read && len <= session.host.info().in_capsule {
        Payload::InCapsule(slot.span.slice(0, len))
    } else {
        let RemoteAddr { addr, rkey: key } = slot.remote.context("memory is not open")?;
        command.set_sgl1(SglDescriptor::Keyed { addr, len, key, invalidate: false });
        Payload::AsIs(Vec::new())
    };
    session.host.submit(slot.qid, Request { command, data, token })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_given_out_once_and_ends_with_what_is_left() {
        let portions = Portions::new(Op::Write, 5, 20, 8);
        let all: Vec<_> = portions.map(|io| (io.slba, io.blocks)).collect();
        assert_eq!(all, [(5, 8), (13, 8), (21, 4)]);
        assert_eq!(Portions::new(Op::Read, 5, 0, 8).next(), None);
    }
}
