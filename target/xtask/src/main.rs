//! Developer commands. `cargo xtask help` lists them.
//!
//! What comes out on standard output is for a person at a terminal; the last
//! line of `cargo xtask test` is for a program too: `N passed, N failed`.
#![allow(clippy::print_stdout, reason = "a command-line tool: its results go to standard output")]

mod beside;
mod build;
mod checks;
mod container;
mod cost;
mod deb;
mod debian;
mod demo;
mod deny;
mod fixed;
mod hosts;
mod linux;
mod local;
mod mixed;
mod native;
mod sbom;
mod scale;
mod setup;
mod smoke;
mod storm;
mod tidy;
mod units;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Developer commands of nvmfd")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Serve disks on this machine without RDMA or privilege, and show that it works.
    Demo(demo::DemoArgs),
    /// Everything: checks, unit tests, simulator, Linux cases. Installs what is missing.
    Test,
    /// Run cases with the real Linux host in a virtual machine.
    Linux(linux::LinuxArgs),
    /// Build the User-Mode Linux kernel into the cache folder.
    UmlKernel,
    /// What to run before a push: format, lints, tidy, unit tests; under two minutes.
    Prepush,
    /// Rules of this repository that a program can check.
    Tidy,
    /// Run the simulator over many seeds.
    Sim(checks::SimArgs),
    /// Run soft-RoCE's engine over many seeds of a network that loses a tenth of the packets.
    Loss(checks::LossArgs),
    /// Measure the daemon: beside the kernel's own target, or natively.
    #[command(subcommand)]
    Bench(BenchCommand),
    /// Make the Debian package; with --check try it out in a fresh Debian 12.
    Deb(deb::DebArgs),
    /// Make the container image of programs that are built, and try it out.
    Container(container::ContainerArgs),
    /// Build nvmfd without any library, for whatever Linux there is.
    Static,
    /// Check licenses, sources and known faults of what we depend on.
    Deny,
    /// Say what the programs are made of, as CycloneDX.
    Sbom(sbom::SbomArgs),
    /// Install the packages that building and testing need.
    Setup,
}

#[derive(Subcommand)]
enum BenchCommand {
    /// Both targets by turns in one virtual machine.
    Linux(linux::BenchArgs),
    /// The daemon and the userspace host on this machine, one core each.
    Local(local::LocalArgs),
    /// What more hosts, queues and namespaces cost, in time and memory.
    Scale(scale::ScaleArgs),
    /// Small reads of one host beside large writes of others.
    Mixed(mixed::MixedArgs),
    /// Small reads of one host while others connect and leave.
    Storm(storm::StormArgs),
    /// Instructions that a command costs a core: repeatable, and held against what was recorded.
    Cost(cost::CostArgs),
}

fn main() -> ExitCode {
    match run(Cli::parse().command) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Whether everything that was run passed.
fn run(command: Command) -> Result<bool> {
    match command {
        Command::Demo(args) => demo::run(args),
        Command::Test => checks::test(),
        Command::Linux(args) => linux::linux(&args),
        Command::UmlKernel => linux::uml_kernel(),
        Command::Prepush => checks::prepush(),
        Command::Tidy => checks::tidy(),
        Command::Sim(args) => checks::sim(&args),
        Command::Loss(args) => checks::loss(&args),
        Command::Bench(BenchCommand::Linux(args)) => linux::bench(&args),
        Command::Bench(BenchCommand::Local(args)) => local::run(&args),
        Command::Bench(BenchCommand::Cost(args)) => cost::run(&args),
        Command::Bench(BenchCommand::Scale(args)) => scale::run(&args),
        Command::Bench(BenchCommand::Mixed(args)) => mixed::run(&args),
        Command::Bench(BenchCommand::Storm(args)) => storm::run(&args),
        Command::Deb(args) => deb::run(&args),
        Command::Container(args) => container::run(&args),
        Command::Static => fixed::run(),
        Command::Deny => deny::run(),
        Command::Sbom(args) => sbom::run(&args),
        Command::Setup => setup::run().map(|()| true),
    }
}

#[cfg(test)]
mod tests {
    use super::Cli;
    use clap::Parser;
    use std::fs;

    #[test]
    fn pages_tell_developers_to_type_what_is_understood() {
        let root = crate::build::root().unwrap();
        let docs = fs::read_dir(root.join("docs")).unwrap();
        let pages = docs.map(|entry| entry.unwrap().path()).chain([root.join("README.md")]);
        let mut count = 0;
        for page in pages.filter(|path| path.extension().is_some_and(|kind| kind == "md")) {
            let text = fs::read_to_string(&page).unwrap();
            for line in text.lines().filter_map(|line| line.strip_prefix("cargo xtask ")) {
                let words = line.split_whitespace().take_while(|word| *word != "#");
                let parsed = Cli::try_parse_from(["xtask"].into_iter().chain(words));
                assert!(parsed.is_ok(), "{}: cargo xtask {line}", page.display());
                count += 1;
            }
        }
        assert!(count >= 5, "only {count} lines were found");
    }
}
