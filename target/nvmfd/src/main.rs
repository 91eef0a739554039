//! The nvmfd daemon: serves files, block devices and memory as NVMe namespaces over RDMA.
//!
//! This is the only place where everything meets: the command line, the configuration, the RDMA
//! provider, the disks and the reactor's threads. The parts know nothing of one another.

// Without a provider there is nothing to build a daemon from; checking a configuration remains.
#![cfg_attr(not(feature = "verbs"), allow(dead_code))]

mod check;
mod cli;
mod config;
mod disks;
mod logging;
#[cfg(feature = "verbs")]
mod notify;
mod serve;
#[cfg(feature = "verbs")]
mod signals;

use clap::Parser;
use std::process::ExitCode;

/// Exit status when the configuration cannot be used.
const CONFIG_ERROR: u8 = 2;
/// Exit status when the daemon could not start, or could not go on.
const RUN_ERROR: u8 = 1;

fn main() -> ExitCode {
    let args = cli::Args::parse();
    match args.command {
        cli::Command::Check { config } => check::run(&config),
        cli::Command::Serve { config } => serve::run(&config),
    }
}
