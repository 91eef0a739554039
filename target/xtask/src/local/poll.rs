//! What an idle core's way of waiting does to latency: `bench local --poll adaptive,always,interrupt`.

use std::path::Path;

use anyhow::Result;
use serde_json::{Value, json};

use super::{LocalArgs, SIZE, host};
use crate::hosts::{config, median};
use crate::native::{Programs, Serving};

/// Outstanding 4 KiB reads.
const DEPTHS: [u32; 2] = [1, 32];

/// All rounds of one way of waiting, at one depth.
struct Series {
    poll: String,
    depth: u32,
    rounds: Vec<Value>,
}

impl Series {
    fn iops(&self) -> f64 {
        median(self.rounds.iter().filter_map(|round| round["iops"].as_f64()))
    }

    fn latency(&self, key: &str) -> f64 {
        median(self.rounds.iter().filter_map(|round| round["read"]["latency_us"][key].as_f64()))
    }
}

/// Measures the ways by turns, each with a daemon of its own, and prints a table. Returns the figures.
pub(super) fn compare(args: &LocalArgs, programs: &Programs, folder: &Path) -> Result<Value> {
    let mut all: Vec<Series> = args
        .poll
        .iter()
        .flat_map(|poll| DEPTHS.map(|depth| (poll.clone(), depth)))
        .map(|(poll, depth)| Series { poll, depth, rounds: Vec::new() })
        .collect();
    for round in 1..=args.rounds {
        println!("round {round} of {}", args.rounds);
        for of_poll in all.chunks_mut(DEPTHS.len()) {
            let tuning = super::tuning(args, &of_poll[0].poll);
            let null = [format!("null = \"{SIZE}\"\nblock_size = 4096")];
            let config = config(args.address, &null, &tuning);
            let _serving = Serving::start(&programs.daemon, folder, &config)?;
            for series in of_poll {
                let words = format!(
                    "bench --mode randread --block-size 4096 --depth {} --cpus {} --time {} --ramp 0.2",
                    series.depth, args.cpus[1], args.seconds
                );
                series.rounds.push(host(args, programs, folder).measure(&words)?);
            }
        }
    }
    println!("\nmedians of {} rounds of {} s, 4 KiB random reads, null", args.rounds, args.seconds);
    println!(
        "{:<24} {:>9} {:>8} {:>8} {:>20}",
        "", "IOPS", "p50 us", "p99 us", "p50, always being 1"
    );
    let mut figures = Vec::new();
    for series in &all {
        let (p50, p99) = (series.latency("p50"), series.latency("p99"));
        let same = |other: &&Series| other.poll == "always" && other.depth == series.depth;
        let ratio = all.iter().find(same).map(|always| p50 / always.latency("p50"));
        let name = format!("{} depth {}", series.poll, series.depth);
        let shown = ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}"));
        println!("{name:<24} {:>9.0} {p50:>8.1} {p99:>8.1} {shown:>20}", series.iops());
        figures.push(json!({
            "poll": series.poll,
            "depth": series.depth,
            "iops": series.iops(),
            "p50_us": p50,
            "p99_us": p99,
            "p50_to_always": ratio,
            "rounds": series.rounds,
        }));
    }
    Ok(json!({ "rounds": args.rounds, "seconds": args.seconds, "polls": figures }))
}
