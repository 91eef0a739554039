//! Whether the benchmarks work, not how fast anything is: each with counts so small that all take half a
//! minute.

use anyhow::{Context, Result, bail};
use clap::Parser;

use crate::{Cli, build};

/// Away from the addresses that anybody else serves at.
const ADDRESS: &str = "127.0.0.98";
/// What is run.
const BENCHES: [&str; 4] = [
    "mixed --rounds 1 --seconds 0.2 --writers 2 --write-depth 4",
    "storm --rounds 1 --seconds 0.2 --rate 20 --hosts 2",
    "scale --rounds 1 --seconds 0.2 --idle 20",
    "local --rounds 1 --seconds 0.2 --poll adaptive,always,interrupt",
];

/// Runs each with the programs that the unit tests were run with, and returns what failed.
pub(crate) fn run() -> Result<Vec<String>> {
    let folder = build::output()?.join("debug");
    for program in ["nvmfd", "nvmf-host"] {
        if !folder.join(program).exists() {
            bail!("{program} is not in {}: the unit tests build it", folder.display());
        }
    }
    let folder = folder.to_str().context("the build folder's path is not UTF-8")?;
    let mut failures = Vec::new();
    for bench in BENCHES {
        let line = format!("xtask bench {bench} --address {ADDRESS} --programs");
        let command = Cli::try_parse_from(line.split(' ').chain([folder]))?.command;
        println!("\nbench {bench}");
        if let Err(error) = crate::run(command) {
            failures.push(format!("bench {bench}: {error:#}"));
        }
    }
    Ok(failures)
}

/// How many there are.
pub(crate) const COUNT: u64 = BENCHES.len() as u64;
