//! `bench`: how many commands a second, and how long they take.
//!
//! A thread's loop takes no lock and allocates nothing per command; it reads the clock once a turn.
//! A command's latency counts from the turn in which it was sent to the one that saw it end.

mod report;

pub(crate) use report::Report;

use crate::args::{BenchArgs, command_blocks};
use crate::output::put;
use crate::pattern::mix;
use crate::progress;
use crate::provider::{Packets, Provider};
use crate::session::{INTERRUPTED, Peer, Session, Shape, host_config};
use crate::shared::{Handle, share};
use anyhow::{Context, Result, anyhow, bail};
use hdrhistogram::Histogram;
use initiator::{HostEvent, Lost, NamespaceInfo, Payload, Request, commands};
use nvme_spec_types::SglDescriptor;
use rdma::{Access, Connector, CoreIndex, HostDevice, Now, RemoteAddr};
use region::Span;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How often connections are looked after meanwhile.
const CM_INTERVAL: Duration = Duration::from_millis(5);
/// How long outstanding commands may take at the end.
const DRAIN_WITHIN: Duration = Duration::from_secs(10);
/// Longest latency that is told from longer ones, in nanoseconds.
const LONGEST_NS: u64 = 60_000_000_000;

/// What one thread measured.
#[derive(Debug)]
pub(crate) struct Figures {
    /// Latencies in nanoseconds.
    pub(crate) reads: Histogram<u64>,
    pub(crate) writes: Histogram<u64>,
    pub(crate) packets: Option<Packets>,
    /// Commands that ended between the two looks at the packets.
    pub(crate) counted: u64,
}

#[derive(Debug)]
struct Slot {
    qid: u16,
    span: Span,
    remote: RemoteAddr,
    sent: Now,
    is_read: bool,
}

/// What one thread does.
#[derive(Debug, Clone)]
struct Load {
    ns: NamespaceInfo,
    blocks: u32,
    in_capsule: bool,
    random: bool,
    reads: u8,
    /// The first block of the range, and how many commands fit it.
    slba: u64,
    places: u64,
    ramp: Duration,
    time: Duration,
    cpu: Option<usize>,
    seed: u64,
}

impl Load {
    fn place(&self, random: &mut u64, next: &mut u64) -> u64 {
        let index = if self.random {
            *random = random.wrapping_add(0x9e37_79b9_7f4a_7c15);
            // The upper half of a product spreads evenly without a division.
            ((u128::from(mix(*random)) * u128::from(self.places)) >> 64) as u64
        } else {
            let at = *next;
            *next = if at + 1 == self.places { 0 } else { at + 1 };
            at
        };
        self.slba + index * u64::from(self.blocks)
    }
}

/// Measures and prints.
///
/// # Errors
/// When a controller cannot be had, a command fails, or the arguments do not fit the namespace.
pub(crate) fn run<P: Provider>(peer: &Peer, args: &BenchArgs, provider: &str) -> Result<()> {
    if !args.cpus.is_empty() && args.cpus.len() != usize::from(args.cores) {
        bail!("--cpus names {} CPUs for {} cores", args.cpus.len(), args.cores);
    }
    let seconds = |value: f64| Duration::try_from_secs_f64(value).context("--time or --ramp");
    let (time, ramp) = (seconds(args.time)?, seconds(args.ramp)?);
    let per_slot = args.block_size.next_multiple_of(4096);
    let slots = u64::from(args.queues) * u64::from(args.depth);
    let shape = Shape { queues: args.queues, depth: args.depth, data: slots * per_slot };
    let mut manager = P::open(args.cores)?;
    let mut parts = Vec::new();
    for core in (0..args.cores).map(CoreIndex) {
        let region = shape.map()?;
        let device = P::device(&mut manager, core, region.clone());
        parts.push((core, region, device));
    }
    let mut sessions = Vec::new();
    for (handle, (core, region, device)) in
        share(manager, usize::from(args.cores)).into_iter().zip(parts)
    {
        let config = host_config(peer, &shape, core);
        let mut session = Session::new(config, region, handle, device);
        session.set_spin(args.spin.time());
        session.connect()?;
        sessions.push(session);
    }
    let load = load(&sessions[0], args, ramp, time)?;
    let bar = progress::time("measure", ramp + time);
    let results: Vec<Result<Figures>> = std::thread::scope(|scope| {
        let threads: Vec<_> = sessions
            .into_iter()
            .enumerate()
            .map(|(index, session)| {
                let load = Load {
                    cpu: args.cpus.get(index).copied(),
                    seed: mix(index as u64 + 1),
                    ..load.clone()
                };
                scope.spawn(move || one_thread::<P>(session, args.depth, &load))
            })
            .collect();
        let began = std::time::Instant::now();
        while !threads.iter().all(std::thread::ScopedJoinHandle::is_finished) {
            bar.set_position(began.elapsed().as_millis() as u64);
            std::thread::sleep(Duration::from_millis(20));
        }
        let joined = threads.into_iter().map(std::thread::ScopedJoinHandle::join);
        joined.map(|result| result.unwrap_or_else(|_| Err(anyhow!("a thread panicked")))).collect()
    });
    bar.finish_and_clear();
    let figures = results.into_iter().collect::<Result<Vec<_>>>()?;
    let report = Report::new(args, provider, time, figures)?;
    put!("{report}");
    if let Some(path) = &args.json {
        let text = serde_json::to_string_pretty(&report)?;
        std::fs::write(path, text + "\n").with_context(|| path.display().to_string())?;
    }
    Ok(())
}

fn load<C: Connector, D: HostDevice<Endpoint = C::Endpoint>>(
    session: &Session<C, D>,
    args: &BenchArgs,
    ramp: Duration,
    time: Duration,
) -> Result<Load> {
    let ns = session.namespace(args.range.nsid)?;
    let info = session.host.info();
    let limit = u64::from(info.max_transfer.unwrap_or(1 << 24));
    let blocks = command_blocks(args.block_size, limit, &ns)?;
    let range = args.range.resolve(&ns)?;
    let places = range.blocks / u64::from(blocks);
    if places == 0 {
        bail!("the range of {} blocks is shorter than a command", range.blocks);
    }
    if session.host.io_queues() < args.queues {
        bail!("the target grants {} I/O queues, not {}", session.host.io_queues(), args.queues);
    }
    let entries = session.host.entries(1);
    if entries <= args.depth {
        bail!("the target's queues take {} commands, not {}", entries - 1, args.depth);
    }
    Ok(Load {
        ns,
        blocks,
        in_capsule: !args.no_in_capsule && args.block_size <= u64::from(info.in_capsule),
        random: args.mode.is_random(),
        reads: args.mode.reads(args.mix),
        slba: range.slba,
        places,
        ramp,
        time,
        cpu: None,
        seed: 0,
    })
}

fn one_thread<P: Provider>(
    mut session: Session<Handle<P::Manager>, P::Device>,
    depth: u16,
    load: &Load,
) -> Result<Figures> {
    if let Some(cpu) = load.cpu {
        let mut set = rustix::thread::CpuSet::new();
        set.set(cpu);
        rustix::thread::sched_setaffinity(None, &set)
            .with_context(|| format!("cannot run on CPU {cpu}"))?;
    }
    let result = measure::<P>(&mut session, depth, load);
    session.host.set_cm_interval(Duration::ZERO);
    session.leave();
    result
}

fn make_slots<P: Provider>(
    session: &mut Session<Handle<P::Manager>, P::Device>,
    depth: u16,
    load: &Load,
) -> Result<Vec<Slot>> {
    let len = load.blocks << load.ns.lba_shift;
    let mut state = load.seed;
    let junk: Vec<u8> = (0..len / 8)
        .flat_map(|_| {
            state = state.wrapping_add(1);
            mix(state).to_le_bytes()
        })
        .collect();
    let mut slots = Vec::new();
    for _ in 0..depth {
        for qid in 1..=session.host.io_queues() {
            let span = session.host.arena().alloc(len).context("no memory for data")?;
            session.host.region().write(span, &junk);
            let remote = session.host.lend(qid, span, Access::RemoteWrite)?;
            slots.push(Slot { qid, span, remote, sent: Now::ZERO, is_read: false });
        }
    }
    Ok(slots)
}

fn measure<P: Provider>(
    session: &mut Session<Handle<P::Manager>, P::Device>,
    depth: u16,
    load: &Load,
) -> Result<Figures> {
    let histogram = || Histogram::<u64>::new_with_bounds(1, LONGEST_NS, 3);
    let mut figures =
        Figures { reads: histogram()?, writes: histogram()?, packets: None, counted: 0 };
    let mut slots = make_slots::<P>(session, depth, load)?;
    session.host.set_cm_interval(CM_INTERVAL);
    let len = load.blocks << load.ns.lba_shift;
    let (mut random, mut next) = (load.seed, load.seed % load.places);
    let begin = session.now() + load.ramp;
    let end = begin + load.time;
    let mut packets_before = None;
    let mut outstanding = 0usize;
    let mut idle: Vec<usize> = (0..slots.len()).rev().collect();
    let mut now = session.now();
    while outstanding > 0 || now < end {
        if now < end {
            outstanding += idle.len();
            for token in idle.drain(..) {
                let slot = &mut slots[token];
                random = random.wrapping_add(0x9e37_79b9_7f4a_7c15);
                slot.is_read = load.reads == 100
                    || (load.reads > 0 && (mix(random) % 100) < u64::from(load.reads));
                slot.sent = now;
                let slba = load.place(&mut random, &mut next);
                let request = request(load, slot, slba, len, token);
                session.host.submit(slot.qid, request)?;
            }
            session.host.flush(now);
        } else if now > end + DRAIN_WITHIN {
            bail!("{outstanding} commands were not answered within {} s", DRAIN_WITHIN.as_secs());
        }
        session.turn_at(now, Some(end.max(now)));
        now = session.now();
        let counts = now >= begin && now < end;
        if counts && packets_before.is_none() {
            packets_before = Some(P::packets(session.host.provider().1));
        }
        while let Some(event) = session.host.poll_event() {
            match event {
                HostEvent::Done { token, result: Ok(completion), .. } => {
                    let slot = &slots[token as usize];
                    if !completion.status.is_success() {
                        bail!("a {} failed: {}", word(slot.is_read), completion.status);
                    }
                    outstanding -= 1;
                    idle.push(token as usize);
                    if counts {
                        let of =
                            if slot.is_read { &mut figures.reads } else { &mut figures.writes };
                        of.saturating_record((now - slot.sent).as_nanos() as u64);
                    }
                    if packets_before.is_some() {
                        figures.counted += 1;
                    }
                }
                HostEvent::Done { result: Err(Lost), .. } | HostEvent::Off => {
                    bail!("the connection was lost")
                }
                HostEvent::Down(reason) => bail!("the controller is lost: {reason}"),
                HostEvent::Violation(qid, violation) => bail!("queue {qid}: {violation}"),
                HostEvent::Async(_) | HostEvent::Live => {}
            }
        }
        if INTERRUPTED.load(Ordering::Relaxed) {
            bail!("interrupted");
        }
    }
    if let Some(Some(before)) = packets_before {
        figures.packets = P::packets(session.host.provider().1).map(|after| after - before);
    }
    Ok(figures)
}

fn word(is_read: bool) -> &'static str {
    if is_read { "read" } else { "write" }
}

fn request(load: &Load, slot: &Slot, slba: u64, len: u32, token: usize) -> Request {
    let token = token as u64;
    let nsid = load.ns.nsid;
    let mut command = if slot.is_read {
        commands::read(nsid, slba, load.blocks, false)
    } else {
        commands::write(nsid, slba, load.blocks, false)
    };
    if !slot.is_read && load.in_capsule {
        return Request { command, data: Payload::InCapsule(slot.span), token };
    }
    let RemoteAddr { addr, rkey: key } = slot.remote;
    command.set_sgl1(SglDescriptor::Keyed { addr, len, key, invalidate: false });
    Request { command, data: Payload::AsIs(Vec::new()), token }
}
