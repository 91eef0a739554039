//! The nvmfd daemon: serves files, block devices and memory as NVMe namespaces over RDMA.
//!
//! This is the only place where everything meets: the command line, the configuration, the RDMA
//! provider, the disks and the reactor's threads. The parts know nothing of one another.

mod check;
mod cli;
mod config;
mod disks;
mod logging;
mod machine;
mod notify;
mod provider;
mod serve;
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
