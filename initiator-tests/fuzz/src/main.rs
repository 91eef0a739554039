//! `cargo run --profile sim -p fuzz -- TARGET --seconds N`: looks for an input that breaks a promise.
#![allow(clippy::print_stdout)]

use anyhow::{Context, Result, bail};
use clap::Parser;
use std::process::ExitCode;
use std::time::Duration;

/// Fuzzes the controller, or a part of soft-RoCE.
#[derive(Debug, Parser)]
struct Args {
    /// capsules (the controller), packets, queue-pairs or connections (soft-RoCE).
    target: String,
    /// How long to look for, in seconds.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// The same seed and corpus give the same inputs.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Tries just this input, in hexadecimal digits.
    #[arg(long, conflicts_with_all = ["seconds", "seed"])]
    input: Option<String>,
}

fn main() -> Result<ExitCode> {
    let args = Args::parse();
    let Some(target) = fuzz::target(&args.target) else {
        let names = fuzz::TARGETS.map(|target| target.name).join(", ");
        bail!("there is no target {:?}; there are {names}", args.target);
    };
    if let Some(input) = args.input {
        let input = fuzz::corpus::from_hex(&input).context("reading --input")?;
        let features = (target.try_input)(&input);
        println!("no promise broken; {} things reached", features.len());
        if let Some(summary) = target.summary {
            println!("{}", summary(&features));
        }
        return Ok(ExitCode::SUCCESS);
    }
    let report = fuzz::run::fuzz(target, Duration::from_secs(args.seconds), args.seed)?;
    println!(
        "{}: {} inputs tried, {} things reached, {} inputs kept",
        target.name,
        report.tried,
        report.features.len(),
        report.kept
    );
    if let Some(summary) = target.summary {
        println!("{}", summary(&report.features));
    }
    if let Some(input) = report.broken {
        println!("a promise is broken; see above, and try again with");
        let hex = fuzz::corpus::to_hex(&input);
        println!("cargo run --profile sim -p fuzz -- {} --input {hex}", target.name);
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}
