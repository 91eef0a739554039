//! `nvmf-host`: an NVMe over Fabrics RDMA host in user space.
//!
//! It needs no kernel driver and, with soft-roce, no RDMA device and no privilege.

mod args;
mod bench;
mod connect_test;
mod hold;
mod manual;
mod output;
mod pattern;
mod progress;
mod provider;
mod pump;
mod raw;
mod session;
mod shared;
mod show;
mod transfer;
mod verify;

use anyhow::{Context, Result, bail};
use args::{Cli, Command};
use clap::Parser;
use provider::Provider;
use pump::Op;
use session::{Peer, Shape};
use show::Own;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

fn main() -> ExitCode {
    let cli = Cli::parse();
    match catch_signals().and_then(|()| dispatch(&cli)).and_then(|()| output::finish()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// The first signal asks to leave in good order; a second one ends the program at once.
fn catch_signals() -> Result<()> {
    let second = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register_conditional_shutdown(signal, 130, second.clone())?;
        signal_hook::flag::register(signal, second.clone())?;
    }
    std::thread::spawn(move || {
        loop {
            std::thread::sleep(std::time::Duration::from_millis(50));
            if second.load(Ordering::Relaxed) {
                session::INTERRUPTED.store(true, Ordering::Relaxed);
            }
        }
    });
    Ok(())
}

fn dispatch(cli: &Cli) -> Result<()> {
    if provider::use_verbs(cli.whom.provider, cli.whom.address())? {
        #[cfg(feature = "verbs")]
        return run::<provider::Verbs>(cli, "verbs");
    }
    run::<provider::Soft>(cli, "soft-roce")
}

/// The subsystem that the user named, or the only one that the target offers.
fn peer<P: Provider>(cli: &Cli) -> Result<Peer> {
    if let Some(nqn) = cli.whom.nqn() {
        return cli.whom.peer(nqn);
    }
    let mut session = show::connect::<P>(&cli.whom.discovery()?, &Shape::ADMIN)?;
    let entries = show::entries(&mut session);
    session.leave();
    /// SUBTYPE of a subsystem with namespaces.
    const NVME: u8 = 2;
    let mut names: Vec<String> =
        entries?.into_iter().filter(|e| e.subtype == NVME).map(|e| e.subnqn).collect();
    names.sort();
    names.dedup();
    match names.as_slice() {
        [only] => cli.whom.peer(only),
        [] => bail!("the target offers us no subsystem"),
        _ => bail!("the target offers several subsystems, choose with --nqn: {}", names.join(", ")),
    }
}

/// Connects, does the job, and leaves whatever came of it.
fn with_session<P: Provider>(
    cli: &Cli,
    shape: Shape,
    job: impl FnOnce(&mut Own<P>) -> Result<()>,
) -> Result<()> {
    let mut session = show::connect::<P>(&peer::<P>(cli)?, &shape)?;
    let result = job(&mut session);
    session.leave();
    result
}

/// Room for what a [`pump`](pump::pump) holds.
fn pump_shape(pace: &args::PaceArgs) -> Shape {
    let slots = u64::from(pace.queues) * u64::from(pace.depth);
    let data = slots * pace.most_bytes().next_multiple_of(4096);
    Shape { queues: pace.queues, depth: pace.depth, data }
}

fn run<P: Provider>(cli: &Cli, provider: &str) -> Result<()> {
    let one = Shape { queues: 1, depth: 1, data: 0 };
    match &cli.command {
        Command::Discover { json } => show::discover::<P>(&cli.whom.discovery()?, *json),
        Command::ConnectTest(args) => connect_test::run::<P>(&peer::<P>(cli)?, args),
        Command::Identify { nsid, hex, json } => with_session::<P>(cli, Shape::ADMIN, |session| {
            show::identify(session, *nsid, *hex, *json)
        }),
        Command::ListNs { json } => {
            with_session::<P>(cli, one, |session| show::list_namespaces(session, *json))
        }
        Command::Read(args) => io::<P>(cli, Op::Read, args),
        Command::Write(args) => io::<P>(cli, Op::Write, args),
        Command::Compare(args) => io::<P>(cli, Op::Compare, args),
        Command::Flush { nsid } => {
            with_session::<P>(cli, one, |session| transfer::flush(session, *nsid))
        }
        Command::Verify(args) => with_session::<P>(cli, pump_shape(&args.pace), |session| {
            let ns = session.namespace(args.range.nsid)?;
            verify::run(session, args, ns)
        }),
        Command::Man { folder } => manual::pages(folder),
        Command::Raw(args) => raw::run::<P>(&peer::<P>(cli)?, args),
        Command::Hold(args) => hold::run::<P>(&peer::<P>(cli)?, args),
        Command::Bench(args) => bench::run::<P>(&peer::<P>(cli)?, args, provider).context("bench"),
    }
}

fn io<P: Provider>(cli: &Cli, op: Op, args: &args::IoArgs) -> Result<()> {
    with_session::<P>(cli, pump_shape(&args.pace), |session| {
        let ns = session.namespace(args.range.nsid)?;
        transfer::run(session, op, args, ns)
    })
}
