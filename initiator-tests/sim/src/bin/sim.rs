//! Runs seeds. A seed that fails prints one line: seed, commit, and the command that replays it.
#![allow(clippy::print_stdout)]

use clap::Parser;
use sim::world::{Fault, Report, STORM_STEPS, World};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::{Command, ExitCode};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

/// Runs the production reactor in a simulated world, one seed at a time.
#[derive(Debug, Parser)]
struct Args {
    /// How many seeds to run.
    #[arg(long, default_value_t = 1000)]
    seeds: u64,
    /// The first of them.
    #[arg(long, default_value_t = 0)]
    start: u64,
    /// Run this one only, whatever the two before say.
    #[arg(long)]
    seed: Option<u64>,
    /// Seeds to run at a time [default: as many as there are CPUs].
    #[arg(long)]
    jobs: Option<usize>,
    /// Turns of each storm at most.
    #[arg(long, default_value_t = STORM_STEPS)]
    steps: u64,
    /// Tell what happens.
    #[arg(long)]
    trace: bool,
    /// Plant a fault, which some seed must find.
    #[arg(long, value_parser = fault_of)]
    fault: Option<Fault>,
}

fn fault_of(name: &str) -> Result<Fault, String> {
    let known = Fault::ALL.iter().find(|(known, _)| *known == name);
    known.map(|(_, fault)| *fault).ok_or_else(|| {
        let names: Vec<&str> = Fault::ALL.iter().map(|(name, _)| *name).collect();
        format!("no such fault; there are: {}", names.join(", "))
    })
}

fn run(seed: u64, args: &Args) -> Result<Report, String> {
    let world = || World::new(seed, args.fault, args.trace).run(args.steps);
    match catch_unwind(AssertUnwindSafe(world)) {
        Ok(result) => result,
        Err(panic) => {
            let words = panic.downcast_ref::<String>().cloned();
            let words = words.or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).to_owned()));
            Err(format!("panic: {}", words.unwrap_or_else(|| "without words".into())))
        }
    }
}

fn commit() -> String {
    let output = Command::new("git").args(["describe", "--always", "--dirty"]).output();
    let text = output.ok().filter(|o| o.status.success()).map(|o| o.stdout);
    let text = text.map(|text| String::from_utf8_lossy(&text).trim().to_owned());
    text.unwrap_or_else(|| "unknown".into())
}

fn main() -> ExitCode {
    let args = Args::parse();
    let (start, count) = match args.seed {
        Some(seed) => (seed, 1),
        None => (args.start, args.seeds),
    };
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let jobs = args.jobs.unwrap_or(cpus).clamp(1, count.clamp(1, 1024) as usize);
    if args.seed.is_none() {
        // The line of a failed seed says it all; a replay shows where.
        std::panic::set_hook(Box::new(|_| {}));
    }
    let began = Instant::now();
    let next = AtomicU64::new(start);
    let failed = AtomicBool::new(false);
    let total: Mutex<(u64, u64, [u64; 3])> = Mutex::new((0, 0, [0; 3]));
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= start.saturating_add(count) {
                        return;
                    }
                    match run(seed, &args) {
                        Ok(report) => {
                            if args.trace {
                                println!("seed {seed}: {report:?}");
                            }
                            if let Ok(mut total) = total.lock() {
                                total.0 += 1;
                                total.1 += report.steps;
                                for (sum, n) in total.2.iter_mut().zip(report.requests) {
                                    *sum += n;
                                }
                            }
                        }
                        Err(what) => {
                            failed.store(true, Ordering::Relaxed);
                            println!("{}", failure(seed, &what, &args));
                        }
                    }
                }
            });
        }
    });
    let (good, steps, [done, refused, lost]) = total.into_inner().unwrap_or_default();
    println!(
        "{good} of {count} seeds passed: {steps} turns, {done} requests succeeded, {refused} \
         failed as they may, {lost} lost with their connection, in {:.1} s",
        began.elapsed().as_secs_f64()
    );
    if failed.load(Ordering::Relaxed) { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// The one line of a seed that failed.
fn failure(seed: u64, what: &str, args: &Args) -> String {
    let mut replay = format!("cargo xtask sim --seed {seed}");
    if args.steps != STORM_STEPS {
        replay += &format!(" --steps {}", args.steps);
    }
    if let Some(fault) = args.fault
        && let Some((name, _)) = Fault::ALL.iter().find(|(_, known)| *known == fault)
    {
        replay += &format!(" --fault {name}");
    }
    format!("FAILED seed {seed} at {}: {what}; replay: {replay}", commit())
}
