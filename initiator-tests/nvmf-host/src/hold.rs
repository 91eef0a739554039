//! `hold`: many hosts that connect and then do nothing but stay, until standard input ends.
//!
//! All are in one thread, which sleeps until a packet or a timer is due for one of them, so that they
//! take hardly any time from what is measured beside them.

use crate::args::HoldArgs;
use crate::output::say;
use crate::provider::Provider;
use crate::session::{INTERRUPTED, Peer, Session, Shape, host_config};
use anyhow::{Result, bail};
use initiator::{HostEvent, HostState};
use nvme_spec_types::Nqn;
use rdma::{Connector, CoreIndex, HostDevice, Now};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Resource, getrlimit, setrlimit};
use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How often to look whether to go on.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Hosts that connect at a time.
const AT_A_TIME: usize = 16;

/// Connects all, says so on standard output, and holds them.
///
/// # Errors
/// When a controller cannot be had, or is lost.
pub(crate) fn run<P: Provider>(peer: &Peer, args: &HoldArgs) -> Result<()> {
    raise_open_files();
    let shape = Shape { queues: args.queues, depth: args.depth, data: 0 };
    let mut sessions = Vec::new();
    for index in 0..args.hosts {
        let region = shape.map()?;
        let mut manager = P::open(1)?;
        let core = CoreIndex(0);
        let device = P::device(&mut manager, core, region.clone());
        let config = host_config(&named(peer, index)?, &shape, core);
        let mut session = Session::new(config, region, manager, device);
        session.begin();
        sessions.push(session);
        while sessions.iter().filter(|s| s.host.state() != HostState::Live).count() >= AT_A_TIME {
            serve(&mut sessions, LOOK_EVERY)?;
        }
    }
    while sessions.iter().any(|session| session.host.state() != HostState::Live) {
        serve(&mut sessions, LOOK_EVERY)?;
    }
    say!("holding {} hosts with {} I/O queues each", args.hosts, args.queues);
    let ended = standard_input_ended();
    while !ended.load(Ordering::Relaxed) {
        serve(&mut sessions, LOOK_EVERY)?;
    }
    sessions.iter_mut().for_each(Session::leave);
    Ok(())
}

/// The user, as one of many hosts.
fn named(peer: &Peer, index: u32) -> Result<Peer> {
    let mut hostid = peer.hostid;
    hostid[..4].copy_from_slice(&(index + 1).to_be_bytes());
    let hostnqn = Nqn::new(&format!("nqn.2026-11.io.nvmfd:held-{index}"))?;
    Ok(Peer { hostnqn, hostid, ..peer.clone() })
}

/// Waits until something is due, at most so long, and gives turns to those it is due for.
fn serve<C: Connector, D: HostDevice<Endpoint = C::Endpoint>>(
    sessions: &mut [Session<C, D>],
    longest: Duration,
) -> Result<()> {
    if INTERRUPTED.load(Ordering::Relaxed) {
        bail!("interrupted");
    }
    let until = |session: &Session<C, D>| {
        session.host.timeout().map_or(longest, |at| at.saturating_sub(session.now()))
    };
    let left = sessions.iter().map(until).min().unwrap_or(longest).min(longest);
    let mut due: Vec<bool> = sessions.iter().map(|session| until(session).is_zero()).collect();
    let mut sources = Vec::new();
    let mut owners = Vec::new();
    for (at, session) in sessions.iter_mut().enumerate() {
        let (cm, device) = session.host.provider();
        device.arm();
        cm.wait_sources(&mut sources);
        device.wait_sources(&mut sources);
        owners.resize(sources.len(), at);
    }
    let mut fds: Vec<PollFd<'_>> =
        sources.iter().map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN)).collect();
    let timeout = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
    // Interrupted or not: the next round looks.
    let _ = poll(&mut fds, Some(&timeout));
    for (fd, at) in fds.iter().zip(owners) {
        due[at] |= !fd.revents().is_empty();
    }
    for (session, due) in sessions.iter_mut().zip(due) {
        let late = session.host.timeout().is_some_and(|at: Now| at <= session.now());
        if due || late {
            turn(session)?;
        }
    }
    Ok(())
}

fn turn<C: Connector, D: HostDevice<Endpoint = C::Endpoint>>(
    session: &mut Session<C, D>,
) -> Result<()> {
    let now = session.now();
    while session.host.turn(now) {}
    while let Some(event) = session.host.poll_event() {
        match event {
            HostEvent::Down(why) => bail!("a host lost its controller: {why}"),
            HostEvent::Violation(qid, violation) => bail!("queue {qid}: {violation}"),
            _ => {}
        }
    }
    Ok(())
}

/// Each host has sockets of its own: as many open files as this process may have.
fn raise_open_files() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // With fewer it gets as far as it can.
    let _ = setrlimit(Resource::Nofile, limit);
}

/// Tells when nobody writes to standard input any more.
fn standard_input_ended() -> Arc<AtomicBool> {
    let ended = Arc::new(AtomicBool::new(false));
    let tell = ended.clone();
    std::thread::spawn(move || {
        let mut input = std::io::stdin().lock();
        while input.read(&mut [0; 64]).is_ok_and(|n| n > 0) {}
        tell.store(true, Ordering::Relaxed);
    });
    ended
}
