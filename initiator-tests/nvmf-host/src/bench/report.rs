//! The figures of a measurement, as a table and as JSON.

use super::Figures;
use crate::args::BenchArgs;
use crate::provider::Packets;
use anyhow::{Result, bail};
use hdrhistogram::Histogram;
use serde::Serialize;
use std::fmt;
use std::time::Duration;

/// Latencies in microseconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct Latency {
    mean: f64,
    min: f64,
    p50: f64,
    p90: f64,
    p99: f64,
    p99_9: f64,
    p99_99: f64,
    max: f64,
}

/// One direction.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct Direction {
    commands: u64,
    iops: f64,
    mb_per_s: f64,
    latency_us: Latency,
}

/// All of a measurement.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Report {
    provider: String,
    mode: String,
    block_size: u64,
    depth: u16,
    queues: u16,
    cores: u16,
    seconds: f64,
    iops: f64,
    mb_per_s: f64,
    /// Commands that ended, those of the ramp left out.
    commands: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    read: Option<Direction>,
    #[serde(skip_serializing_if = "Option::is_none")]
    write: Option<Direction>,
    /// Packets that the host sent and received for each command; soft-roce only.
    #[serde(skip_serializing_if = "Option::is_none")]
    packets_per_io: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    packets_repeated: Option<u64>,
}

impl Report {
    /// The sum over all threads.
    ///
    /// # Errors
    /// When no command ended in time.
    pub(crate) fn new(
        args: &BenchArgs,
        provider: &str,
        time: Duration,
        figures: Vec<Figures>,
    ) -> Result<Report> {
        let seconds = time.as_secs_f64();
        let mut all = figures.into_iter();
        let Some(mut sum) = all.next() else { bail!("no thread measured") };
        for other in all {
            sum.reads.add(&other.reads)?;
            sum.writes.add(&other.writes)?;
            sum.counted += other.counted;
            if let (Some(ours), Some(theirs)) = (&mut sum.packets, other.packets) {
                ours.all += theirs.all;
                ours.repeated += theirs.repeated;
            }
        }
        let commands = sum.reads.len() + sum.writes.len();
        if commands == 0 {
            bail!("no command ended within {seconds} s");
        }
        let mb_per_s = |count: u64| count as f64 * args.block_size as f64 / 1e6 / seconds;
        let direction = |histogram: &Histogram<u64>| {
            (!histogram.is_empty()).then(|| Direction {
                commands: histogram.len(),
                iops: histogram.len() as f64 / seconds,
                mb_per_s: mb_per_s(histogram.len()),
                latency_us: latency(histogram),
            })
        };
        let Packets { all, repeated } = sum.packets.unwrap_or_default();
        let soft = sum.packets.is_some();
        Ok(Report {
            provider: provider.to_owned(),
            mode: format!("{:?}", args.mode).to_lowercase(),
            block_size: args.block_size,
            depth: args.depth,
            queues: args.queues,
            cores: args.cores,
            seconds,
            iops: commands as f64 / seconds,
            mb_per_s: mb_per_s(commands),
            commands,
            read: direction(&sum.reads),
            write: direction(&sum.writes),
            packets_per_io: soft.then(|| all as f64 / sum.counted.max(1) as f64),
            packets_repeated: soft.then_some(repeated),
        })
    }
}

fn latency(histogram: &Histogram<u64>) -> Latency {
    let us = |ns: u64| ns as f64 / 1000.0;
    let at = |quantile: f64| us(histogram.value_at_quantile(quantile));
    Latency {
        mean: histogram.mean() / 1000.0,
        min: us(histogram.min()),
        p50: at(0.5),
        p90: at(0.9),
        p99: at(0.99),
        p99_9: at(0.999),
        p99_99: at(0.9999),
        max: us(histogram.max()),
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} of {} bytes, depth {}, {} queues on {} cores, {:.1} s, {}",
            self.mode,
            self.block_size,
            self.depth,
            self.queues * self.cores,
            self.cores,
            self.seconds,
            self.provider,
        )?;
        writeln!(
            f,
            "       {:>10} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}",
            "IOPS", "MB/s", "mean us", "p50", "p90", "p99", "p99.9", "max"
        )?;
        for (name, direction) in [("read", &self.read), ("write", &self.write)] {
            let Some(Direction { iops, mb_per_s, latency_us, .. }) = direction else { continue };
            let Latency { mean, p50, p90, p99, p99_9, max, .. } = latency_us;
            writeln!(
                f,
                "{name:<6} {iops:>10.0} {mb_per_s:>9.1} {mean:>9.1} {p50:>9.1} {p90:>9.1} \
                 {p99:>9.1} {p99_9:>9.1} {max:>9.1}"
            )?;
        }
        if let (Some(packets), Some(repeated)) = (self.packets_per_io, self.packets_repeated) {
            writeln!(f, "{packets:.2} packets per command, {repeated} sent again")?;
        }
        Ok(())
    }
}
