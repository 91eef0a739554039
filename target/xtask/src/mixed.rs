//! `bench mixed`: one host's small reads beside others' large writes, and whether anybody starves.

use std::path::Path;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use serde_json::Value;

use crate::beside::{BesideArgs, Load, Reads, State, number};

#[derive(Args)]
pub(crate) struct MixedArgs {
    #[command(flatten)]
    beside: BesideArgs,
    /// Hosts that write.
    #[arg(long, default_value_t = 4)]
    writers: u32,
    /// Bytes of a write.
    #[arg(long, default_value_t = 131_072)]
    write_size: u32,
    /// Writes that each has outstanding.
    #[arg(long, default_value_t = 32)]
    write_depth: u32,
    /// What is under the namespace.
    #[arg(long, value_enum, default_value = "null")]
    backing: Backing,
}

/// What is under the namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Backing {
    /// Answers at once.
    Null,
    /// A new file in the build folder.
    File,
}

/// `cargo xtask bench mixed`
pub(crate) fn run(args: &MixedArgs) -> Result<bool> {
    crate::beside::run(&args.beside, args)
}

/// Figures of all writers.
struct Writers {
    mb_per_s: Vec<f64>,
    /// The longest that a write took, in milliseconds.
    longest_ms: f64,
}

impl Writers {
    fn of(figures: &[Value]) -> Writers {
        let longest = figures.iter().map(|host| number(&host["write"]["latency_us"]["max"]));
        Writers {
            mb_per_s: figures.iter().map(|host| number(&host["mb_per_s"])).collect(),
            longest_ms: longest.fold(0.0, f64::max) / 1e3,
        }
    }
}

impl Load for MixedArgs {
    fn name(&self) -> &'static str {
        "writes"
    }

    fn namespace(&self, folder: &Path) -> Result<String> {
        let size = "size = \"512MiB\"\nblock_size = 4096";
        match self.backing {
            Backing::Null => Ok("null = \"512MiB\"\nblock_size = 4096".to_owned()),
            Backing::File => {
                let file = folder.join("disk.img");
                let file = file.to_str().context("the build folder's path is not UTF-8")?;
                Ok(format!("path = {file:?}\n{size}"))
            }
        }
    }

    fn depths(&self) -> &'static [u32] {
        &[1]
    }

    fn hosts(&self, seconds: f64) -> Vec<String> {
        let words = format!(
            "bench --mode write --block-size {} --depth {} --spin 0 --ramp 0 --time {seconds}",
            self.write_size, self.write_depth
        );
        vec![words; self.writers as usize]
    }

    fn show(&self, figures: &[Value]) -> String {
        let Writers { mb_per_s, longest_ms } = Writers::of(figures);
        let each: Vec<String> = mb_per_s.iter().map(|rate| format!("{rate:.0}")).collect();
        let all: f64 = mb_per_s.iter().sum();
        format!("{} MB/s written ({}), {longest_ms:.1} ms at most", all.round(), each.join(", "))
    }

    fn verdict(&self, reads: &Reads<'_>) -> String {
        format!(
            "p99 of the reads beside the writes is {:.1} times that alone (to be at most 3), {:.1} \
             times that with the writes elsewhere; the longest read took {:.1} ms",
            reads.ratio("p99", State::Alone),
            reads.ratio("p99", State::Elsewhere),
            reads.latency(State::Here, "max") / 1e3,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::Writers;
    use serde_json::json;

    #[test]
    fn the_longest_write_of_all_hosts_counts() {
        let host = |mb: f64, max: f64| json!({ "mb_per_s": mb, "write": { "latency_us": { "max": max } } });
        let writers = Writers::of(&[host(500.0, 1500.0), host(20.0, 90_000.0)]);
        assert_eq!(writers.mb_per_s, [500.0, 20.0]);
        assert_eq!(writers.longest_ms, 90.0);
    }
}
