//! `bench storm`: one host's small reads while others connect and leave all the time.
//!
//! Each connect is a whole one: admin queue, enabling the controller, what a host asks it, and one I/O
//! queue; then the host leaves in good order.

use std::path::Path;

use anyhow::Result;
use clap::Args;
use serde_json::Value;

use crate::beside::{BesideArgs, Load, Reads, State, number};

#[derive(Args)]
pub(crate) struct StormArgs {
    #[command(flatten)]
    beside: BesideArgs,
    /// Connects a second, each followed by leaving.
    #[arg(long, default_value_t = 100.0)]
    rate: f64,
    /// Programs that connect, one host each at a time.
    #[arg(long, default_value_t = 4)]
    hosts: u32,
}

/// `cargo xtask bench storm`
pub(crate) fn run(args: &StormArgs) -> Result<bool> {
    crate::beside::run(&args.beside, args)
}

impl Load for StormArgs {
    fn name(&self) -> &'static str {
        "connects"
    }

    fn namespace(&self, _folder: &Path) -> Result<String> {
        Ok("null = \"512MiB\"\nblock_size = 4096".to_owned())
    }

    fn depths(&self) -> &'static [u32] {
        &[1, 8]
    }

    fn hosts(&self, seconds: f64) -> Vec<String> {
        let rate = self.rate / f64::from(self.hosts.max(1));
        let count = (rate * seconds).ceil().max(1.0);
        let host = |index| {
            format!(
                "--hostnqn nqn.2026-11.io.nvmfd:storm-{index} connect-test --queues 1 --depth 31 \
                 --spin 0 --rate {rate} --count {count}"
            )
        };
        (0..self.hosts.max(1)).map(host).collect()
    }

    fn show(&self, figures: &[Value]) -> String {
        let per_s: f64 = figures.iter().map(|host| number(&host["per_s"])).sum();
        let longest = figures.iter().map(|host| number(&host["connect_ms"]["max"]));
        let longest = longest.fold(0.0, f64::max);
        format!("{per_s:.0} connects a second, {longest:.1} ms at most")
    }

    fn verdict(&self, reads: &Reads<'_>) -> String {
        let more = |to| (reads.ratio("p99_9", to) - 1.0) * 100.0;
        format!(
            "p99.9 of the reads beside the connects is that alone {:+.0} % (to move by less than 20), \
             and that with the connects elsewhere {:+.0} %",
            more(State::Alone),
            more(State::Elsewhere),
        )
    }
}
