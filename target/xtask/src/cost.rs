//! `bench cost`: instructions that a core takes for a command, counted by callgrind.
//!
//! The program `cost` of the reactor runs commands through a production core between a device and
//! a disk that do almost nothing. It is run twice, for N and for 2 N commands, and the difference
//! by N is what a command takes. The same calls of device and disk without a core are counted in the
//! same way, and the rest is the figure: it does not depend on what else the machine does. What the figures were is
//! recorded beside the program; a step in which one has grown by more than [`MAX_GROWTH`] fails.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use clap::Args;
use linux_host::run_quiet;
use serde_json::{Value, json};

use crate::{build, setup};

#[derive(Args, Default)]
pub(crate) struct CostArgs {
    /// Write the figures to this file as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Take today's figures as those to compare with from now on.
    #[arg(long)]
    record: bool,
}

/// What the program serves, and how many at a time.
const CASES: [(&str, u32); 8] = [
    ("read-4k", 1),
    ("read-4k", 32),
    ("write-4k", 1),
    ("write-4k", 32),
    ("read-128k", 1),
    ("read-128k", 32),
    ("write-128k", 1),
    ("write-128k", 32),
];
/// Commands of the shorter run.
const COMMANDS: u64 = 3200;
/// Growth at which a figure counts as worse.
const MAX_GROWTH: f64 = 0.03;
/// Where the figures to compare with are, from the root of the workspace.
const RECORD: &str = "target/reactor/benches/cost.json";

/// `cargo xtask bench cost`: whether no figure has grown too much.
pub(crate) fn run(args: &CostArgs) -> Result<bool> {
    setup::counting()?;
    let program = program()?;
    let compiler = run_quiet(Command::new("rustc").arg("--version"))?.trim().to_owned();
    let record = build::root()?.join(RECORD);
    let known: Value = match fs::read_to_string(&record) {
        Ok(text) => serde_json::from_str(&text).with_context(|| record.display().to_string())?,
        Err(_) => Value::Null,
    };
    let comparable = known["compiler"] == compiler;
    let mut figures = serde_json::Map::new();
    let mut grown = false;
    println!("{:<22} {:>12} {:>12} {:>8}", "instructions", "a command", "recorded", "change");
    for (case, depth) in CASES {
        let served = by_command(&program, case, depth, None)?;
        let figure = served - by_command(&program, case, depth, Some("seams"))?;
        let name = format!("{case} depth {depth}");
        let before = known["instructions"][&name].as_u64();
        let change = before.map(|before| figure as f64 / before as f64 - 1.0);
        let too_much = comparable && change.is_some_and(|change| change > MAX_GROWTH);
        grown |= too_much;
        println!(
            "{name:<22} {figure:>12} {:>12} {:>8}{}",
            before.map_or_else(|| "-".to_owned(), |before| before.to_string()),
            change.map_or_else(|| "-".to_owned(), |change| format!("{:+.1} %", change * 100.0)),
            if too_much { "  too much" } else { "" }
        );
        figures.insert(name, figure.into());
    }
    if !comparable && known != Value::Null {
        println!("recorded with {}: not held against it", known["compiler"]);
    }
    let found = json!({ "compiler": compiler, "instructions": figures });
    for path in args.json.iter().chain(args.record.then_some(&record)) {
        fs::write(path, serde_json::to_string_pretty(&found)? + "\n")
            .with_context(|| path.display().to_string())?;
    }
    if grown && !args.record {
        println!(
            "a command costs more than it did: find out why, or take it with `cargo xtask bench \
             cost --record`"
        );
    }
    Ok(!grown || args.record)
}

/// Builds the program and returns its path.
fn program() -> Result<PathBuf> {
    let out = run_quiet(build::cargo()?.args([
        "build",
        "--quiet",
        "--release",
        "-p",
        "reactor",
        "--bench",
        "cost",
        "--message-format=json",
    ]))?;
    executable(&out).context("cargo named no program")
}

/// The program in what cargo says as JSON, a line each.
fn executable(messages: &str) -> Option<PathBuf> {
    messages
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .find_map(|message| message["executable"].as_str().map(PathBuf::from))
}

/// Instructions that a command takes.
fn by_command(program: &Path, case: &str, depth: u32, how: Option<&str>) -> Result<u64> {
    let long = count(program, case, depth, 2 * COMMANDS, how)?;
    let short = count(program, case, depth, COMMANDS, how)?;
    Ok((long - short).div_ceil(COMMANDS))
}

/// Instructions of one run.
fn count(program: &Path, case: &str, depth: u32, commands: u64, how: Option<&str>) -> Result<u64> {
    let out = linux_host::capture(
        Command::new("valgrind")
            .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
            .arg(program)
            .args([case, &depth.to_string(), &commands.to_string()])
            .args(how),
    )?;
    match collected(&out.stderr) {
        Some(count) if out.success => Ok(count),
        _ => bail!("callgrind could not count {case}: {}", out.stderr.trim()),
    }
}

/// The count in what callgrind says at its end.
fn collected(words: &str) -> Option<u64> {
    let line = words.lines().find(|line| line.contains("Collected :"))?;
    line.rsplit(':').next()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::{collected, executable};
    use std::path::PathBuf;

    #[test]
    fn the_count_is_found_in_what_callgrind_says() {
        let words = "==7== Events    : Ir\n==7== Collected : 60698312\n==7== \n";
        assert_eq!(collected(words), Some(60_698_312));
        assert_eq!(collected("==7== could not run\n"), None);
    }

    #[test]
    fn the_program_is_found_in_what_cargo_says() {
        let words = "{\"reason\":\"compiler-artifact\",\"executable\":null}\n\
                     {\"reason\":\"compiler-artifact\",\"executable\":\"/x/cost-1\"}\n";
        assert_eq!(executable(words), Some(PathBuf::from("/x/cost-1")));
    }
}
