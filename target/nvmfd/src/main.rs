//! The nvmfd daemon: serves files, block devices and memory as NVMe namespaces over RDMA.
//!
//! This is the only place where everything meets: the command line, the configuration, the RDMA
//! provider, the disks and the reactor's threads. The parts know nothing of one another.

#[cfg(test)]
mod book;
mod change;
mod check;
mod cli;
mod client;
mod config;
mod disks;
mod doctor;
mod edit;
mod events;
mod http;
mod import;
mod logging;
mod machine;
mod manual;
mod metrics;
mod notify;
mod operator;
mod output;
mod provider;
mod serve;
mod signals;
mod socket;
mod status;
mod top;

use clap::Parser;
use cli::{Change, Command};
use client::Client;
use std::process::ExitCode;
use std::time::Duration;

/// Exit status when the configuration cannot be used.
const CONFIG_ERROR: u8 = 2;
/// Exit status when the daemon could not start, or could not go on.
const RUN_ERROR: u8 = 1;

fn main() -> ExitCode {
    let args = cli::Args::parse();
    match args.command {
        Command::Check { config, diff: true, against: Some(other), .. } => {
            check::diff_files(&other, &config)
        }
        Command::Check { config, diff: true, against: None, at } => {
            let place = at.socket().or_else(|| check::socket_of(&config));
            client::finish(Client::new(place).and_then(|client| check::diff(&client, &config)))
        }
        Command::Check { config, .. } => check::run(&config),
        Command::Serve { config } => serve::run(&config),
        Command::Doctor { serve: Some(place), provider, .. } => {
            doctor::peer::serve(place, provider)
        }
        Command::Doctor { peer: Some(place), provider, seconds, output, .. } => {
            let time = Duration::from_secs(u64::from(seconds));
            doctor::peer::ask(place, provider, time, output.json)
        }
        Command::Doctor { config, output, .. } => doctor::run(config.as_deref(), output.json),
        Command::Reload { output, at } => {
            with_daemon(at, |client| client::reload(client, output.json))
        }
        Command::Status { output, at } => {
            with_daemon(at, |client| client::status(client, output.json))
        }
        Command::List { what, output, at } => {
            with_daemon(at, |client| client::list(client, what, output.json))
        }
        Command::Show { what, output, at } => {
            with_daemon(at, |client| client::show(client, &what, output.json))
        }
        Command::Add { what, change: Change { save, output, at } } => {
            with_daemon(at, |client| client::add(client, &what, save, output.json))
        }
        Command::Set { what, change: Change { save, output, at } } => {
            with_daemon(at, |client| client::set(client, &what, save, output.json))
        }
        Command::Remove { what, change: Change { save, output, at } } => {
            with_daemon(at, |client| client::remove(client, &what, save, output.json))
        }
        Command::Trace { output, at } => {
            with_daemon(at, |client| client::trace(client, output.json).map(|()| String::new()))
        }
        Command::Top { at } => with_daemon(at, top::top),
        Command::Import { origin, file, output, force } => {
            import::run(origin, &file, output.as_deref(), force)
        }
        Command::Completions { shell } => manual::completions(shell),
        Command::Man { folder } => manual::pages(&folder),
    }
}

/// Does something with the running daemon and prints what comes of it.
fn with_daemon(
    at: cli::At,
    run: impl FnOnce(&Client) -> Result<String, client::CallError>,
) -> ExitCode {
    client::finish(Client::new(at.socket()).and_then(|client| run(&client)))
}
