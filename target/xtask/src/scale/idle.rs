//! `bench scale --idle N`: what one active host loses when so many others are connected and idle.
//!
//! Two daemons run at a time, one with the idle hosts and one without, and the active host is at each
//! by turns: what else the machine does meets both alike. The one that is not measured sleeps.

use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;

use anyhow::Result;
use serde_json::{Value, json};

use super::{Load, Place, ScaleArgs, Seen, What, kib, memory_of};
use crate::hosts::median;
use crate::native::{Programs, check_free};

/// Where the daemon without idle hosts serves.
const ALONE: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 99));
/// Outstanding 4 KiB reads of the active host.
const DEPTHS: [u32; 2] = [1, 32];

/// All rounds at one depth: alone, and beside the idle hosts.
struct Series {
    depth: u32,
    alone: Vec<Seen>,
    beside: Vec<Seen>,
}

/// Measures by turns and prints a table. Returns the figures.
pub(super) fn compare(
    args: &ScaleArgs,
    programs: &Programs,
    folder: &Path,
    count: u32,
) -> Result<Value> {
    check_free(ALONE)?;
    let folder_alone = folder.join("alone");
    std::fs::create_dir_all(&folder_alone)?;
    let place = Place { args, programs, folder, address: args.address };
    let place_alone = Place { args, programs, folder: &folder_alone, address: ALONE };
    let (alone, _) = place_alone.serve(What::Hosts, 0)?;
    let (beside, held) = place.serve(What::Hosts, count)?;
    let memory = (memory_of(alone.pid())?, memory_of(beside.pid())?);
    let mut all = DEPTHS.map(|depth| Series { depth, alone: Vec::new(), beside: Vec::new() });
    for round in 1..=args.rounds {
        println!("round {round} of {}", args.rounds);
        for series in &mut all {
            let load = Load { nsid: 1, queues: 1, depth: series.depth };
            series.alone.push(place_alone.load(&alone, &load, args.seconds)?);
            series.beside.push(place.load(&beside, &load, args.seconds)?);
        }
    }
    if let Some(held) = held {
        held.end()?;
    }
    let each = memory.1.saturating_sub(memory.0) / u64::from(count.max(1));
    println!("\nmedians of {} rounds of {} s, 4 KiB random reads, null", args.rounds, args.seconds);
    println!(
        "{:<10} {:>12} {:>16} {:>8} {:>16} {:>16}",
        "", "IOPS alone", "beside them", "ratio", "CPU us a read", "beside them"
    );
    let mut figures = Vec::new();
    for Series { depth, alone, beside } in &all {
        let iops = [alone, beside].map(|rounds| median(rounds.iter().map(|seen| seen.iops)));
        let cpu_us = [alone, beside].map(|rounds| {
            median(rounds.iter().map(|seen| seen.cpu_ns as f64 / 1e3 / seen.commands.max(1.0)))
        });
        let ratio = iops[1] / iops[0];
        println!(
            "depth {depth:<4} {:>12.0} {:>16.0} {ratio:>8.3} {:>16.2} {:>16.2}",
            iops[0], iops[1], cpu_us[0], cpu_us[1]
        );
        figures.push(json!({
            "depth": depth,
            "iops_alone": iops[0],
            "iops_beside": iops[1],
            "ratio": ratio,
            "cpu_us_per_read_alone": cpu_us[0],
            "cpu_us_per_read_beside": cpu_us[1],
        }));
    }
    println!("{count} idle hosts take {} KiB of the daemon's memory each", kib(each));
    Ok(json!({
        "rounds": args.rounds,
        "seconds": args.seconds,
        "idle_hosts": count,
        "bytes_for_each": each,
        "depths": figures,
    }))
}
