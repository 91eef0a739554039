//! fio beside the daemon: what the file gives without a network between.
//!
//! fio reads the same file with io_uring and direct I/O, from the processor that the daemon's data core
//! has otherwise, in every round right after the daemon was measured.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use linux_host::{capture, run_quiet};
use serde_json::Value;

/// One measurement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Alone {
    pub(super) iops: f64,
    /// Latency from the submission to the completion.
    pub(super) p50_us: f64,
}

/// Whether fio is installed.
pub(super) fn is_here() -> bool {
    capture(Command::new("fio").arg("--version")).is_ok_and(|out| out.success)
}

/// Random reads of `bytes` bytes, `depth` at a time, by processor `cpu`.
pub(super) fn random_reads(
    file: &Path,
    (bytes, depth): (u32, u32),
    seconds: f64,
    cpu: usize,
) -> Result<Alone> {
    let words = format!(
        "--name=alone --ioengine=io_uring --direct=1 --rw=randread --bs={bytes} --iodepth={depth} \
         --time_based --runtime={seconds} --ramp_time=0.2 --cpus_allowed={cpu} --lat_percentiles=1 \
         --output-format=json"
    );
    let out = run_quiet(
        Command::new("fio").args(words.split(' ')).arg(format!("--filename={}", file.display())),
    )?;
    parse(&out).context("fio gave no figures")
}

/// The figures in what fio says as JSON; warnings may come before.
fn parse(out: &str) -> Option<Alone> {
    let report: Value = serde_json::from_str(&out[out.find('{')?..]).ok()?;
    let read = &report["jobs"][0]["read"];
    let p50_ns = read["lat_ns"]["percentile"]["50.000000"].as_f64()?;
    Some(Alone { iops: read["iops"].as_f64()?, p50_us: p50_ns / 1000.0 })
}

/// The round with the median IOPS; `None` for no rounds.
pub(super) fn median(rounds: &[Alone]) -> Option<Alone> {
    let mut order = rounds.to_vec();
    order.sort_by(|a, b| a.iops.total_cmp(&b.iops));
    order.get(order.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::{Alone, median, parse};

    #[test]
    fn the_figures_are_found_behind_warnings() {
        let out = "fio: a warning\n{\"jobs\": [{\"read\": {\"iops\": 1234.5, \"lat_ns\": \
                   {\"percentile\": {\"50.000000\": 71000}}}}]}\n";
        assert_eq!(parse(out), Some(Alone { iops: 1234.5, p50_us: 71.0 }));
        assert_eq!(parse("fio: no such file\n"), None);
    }

    #[test]
    fn the_median_is_the_one_in_the_middle_by_iops() {
        let rounds = [3.0, 1.0, 2.0].map(|iops| Alone { iops, p50_us: iops });
        assert_eq!(median(&rounds), Some(Alone { iops: 2.0, p50_us: 2.0 }));
        assert_eq!(median(&[]), None);
    }
}
