//! The daemon beside the kernel's target, by turns in one machine.
//!
//! In: a [`Plan`]. Out: a [`Table`] of medians over the rounds. Both targets
//! serve the same kind of disk (a null device: reads cost nothing) to the same
//! host over the same RDMA device; which of them begins changes with the round.
//! Figures of an emulated machine are good for comparing the two, not for more.

use std::collections::BTreeMap;
use std::fmt;

use anyhow::{Context, Result, bail};

use crate::case::{MachineKind, Setup};
use crate::runner::{Options, run_script};
use crate::subject::TargetKind;

/// What to measure.
#[derive(Clone, Debug)]
pub struct Plan {
    /// How often each target is measured.
    pub rounds: u32,
    /// Seconds of one measurement.
    pub seconds: u32,
    /// `loop`, `veth` or (User-Mode Linux) `siw`.
    pub topology: String,
    /// Targets, each once a round.
    pub targets: Vec<TargetKind>,
}

/// One measurement.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Sample {
    iops: f64,
    /// Mean and percentiles of latency.
    mean_us: f64,
    p50_us: f64,
    p99_us: f64,
}

/// Medians by workload and target.
#[derive(Debug, Default)]
pub struct Table {
    samples: BTreeMap<(String, String), Vec<Sample>>,
}

/// Boots a machine, measures, and returns the figures.
///
/// # Errors
/// When the machine or a target fails, or fio's answer cannot be read.
pub fn run(mut options: Options, plan: &Plan) -> Result<Table> {
    let targets: Vec<&str> = plan.targets.iter().map(|t| t.name()).collect();
    options.variables = vec![
        ("BENCH_ROUNDS".to_owned(), plan.rounds.to_string()),
        ("BENCH_SECONDS".to_owned(), plan.seconds.to_string()),
        ("BENCH_TARGETS".to_owned(), targets.join(",")),
    ];
    let uml = options.boot.kind() == MachineKind::Uml;
    let setup = Setup {
        topology: plan.topology.clone(),
        cpus: if uml { 1 } else { 2 },
        ..Setup::default()
    };
    let script = options.package.join("scripts/bench.sh");
    Table::parse(&run_script(&options, &setup, &script)?)
}

impl Table {
    /// Reads lines `RESULT target workload <fio's terse line, version 3>`.
    fn parse(text: &str) -> Result<Self> {
        let mut table = Self::default();
        for line in text.lines().filter_map(|l| l.strip_prefix("RESULT ")) {
            let mut words = line.splitn(3, ' ');
            let (Some(target), Some(workload), Some(terse)) =
                (words.next(), words.next(), words.next())
            else {
                bail!("a line of results is cut short: {line}");
            };
            let sample = Sample::parse(terse).with_context(|| format!("in: {line}"))?;
            table.samples.entry((workload.to_owned(), target.to_owned())).or_default().push(sample);
        }
        if table.samples.is_empty() {
            bail!("the machine gave no results:\n{text}");
        }
        Ok(table)
    }

    fn median(&self, workload: &str, target: &str, of: fn(&Sample) -> f64) -> Option<f64> {
        let samples = self.samples.get(&(workload.to_owned(), target.to_owned()))?;
        let mut values: Vec<f64> = samples.iter().map(of).collect();
        values.sort_by(f64::total_cmp);
        Some(values[values.len() / 2])
    }

    fn workloads(&self) -> Vec<String> {
        let mut names: Vec<String> = self.samples.keys().map(|(w, _)| w.clone()).collect();
        names.dedup();
        names
    }

    /// The figures as a JSON object: workload, target, medians and all IOPS.
    pub fn to_json(&self) -> String {
        let mut all = serde_json::Map::new();
        for (workload, target) in self.samples.keys() {
            let median = |of| self.median(workload, target, of);
            let each: Vec<f64> =
                self.samples[&(workload.clone(), target.clone())].iter().map(|s| s.iops).collect();
            let entry = all.entry(workload.clone()).or_insert_with(|| serde_json::json!({}));
            entry[target] = serde_json::json!({
                "iops": median(|s| s.iops),
                "mean_us": median(|s| s.mean_us),
                "p50_us": median(|s| s.p50_us),
                "p99_us": median(|s| s.p99_us),
                "iops_each": each,
            });
        }
        format!("{:#}\n", serde_json::Value::Object(all))
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<18} {:<7} {:>9} {:>9} {:>9} {:>9}",
            "workload", "target", "IOPS", "mean us", "p50 us", "p99 us"
        )?;
        for workload in self.workloads() {
            for target in ["nvmfd", "nvmet"] {
                let median = |of| self.median(&workload, target, of);
                if let (Some(iops), Some(mean), Some(p50), Some(p99)) = (
                    median(|s| s.iops),
                    median(|s| s.mean_us),
                    median(|s| s.p50_us),
                    median(|s| s.p99_us),
                ) {
                    writeln!(
                        f,
                        "{workload:<18} {target:<7} {iops:>9.0} {mean:>9.1} {p50:>9.1} {p99:>9.1}"
                    )?;
                }
            }
            if let (Some(ours), Some(theirs)) = (
                self.median(&workload, "nvmfd", |s| s.iops),
                self.median(&workload, "nvmet", |s| s.iops),
            ) {
                writeln!(f, "{workload:<18} nvmfd / nvmet: {:.2}", ours / theirs)?;
            }
        }
        Ok(())
    }
}

impl Sample {
    /// Reads fio's terse line (fio's manual, "Terse output", version 3): from
    /// field 6 on the reads, from field 47 on the writes, in each half IOPS at
    /// +2, twenty completion latency percentiles from +12, and the mean total
    /// latency at +34, all latencies in microseconds. A workload does one of both.
    fn parse(terse: &str) -> Result<Self> {
        let fields: Vec<&str> = terse.split(';').collect();
        let number = |n: usize| -> Result<f64> {
            let field = fields.get(n - 1).context("too few fields")?;
            Ok(field.parse()?)
        };
        let half = if number(8)? > 0.0 { 6 } else { 47 };
        let percentile = |p: &str| -> Result<f64> {
            let value = fields
                .iter()
                .skip(half + 11)
                .take(20)
                .find_map(|field| field.strip_prefix(p))
                .context("no such percentile")?;
            Ok(value.parse()?)
        };
        Ok(Self {
            iops: number(half + 2)?,
            mean_us: number(half + 34)?,
            p50_us: percentile("50.000000%=")?,
            p99_us: percentile("99.000000%=")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Table;

    /// A terse line with the given IOPS and otherwise fixed figures.
    fn terse(iops: u32) -> String {
        let mut fields = vec!["0".to_owned(); 60];
        fields[7] = iops.to_string();
        fields[22] = "50.000000%=20".to_owned();
        fields[28] = "99.000000%=90".to_owned();
        fields[39] = "25.5".to_owned();
        fields.join(";")
    }

    #[test]
    fn medians_and_ratio_come_from_all_rounds() {
        let mut text = String::new();
        for (ours, theirs) in [(100, 50), (300, 150), (200, 100)] {
            text += &format!("RESULT nvmfd 4k {}\n", terse(ours));
            text += &format!("noise\nRESULT nvmet 4k {}\n", terse(theirs));
        }
        let table = Table::parse(&text).unwrap();
        let shown = table.to_string();
        assert!(shown.contains("nvmfd / nvmet: 2.00"), "{shown}");
        let json: serde_json::Value = serde_json::from_str(&table.to_json()).unwrap();
        assert_eq!(json["4k"]["nvmfd"]["iops"], 200.0);
        assert_eq!(json["4k"]["nvmet"]["p99_us"], 90.0);
    }

    #[test]
    fn output_without_results_is_an_error() {
        assert!(Table::parse("nothing here").is_err());
        assert!(Table::parse("RESULT nvmfd 4k 3;fio").is_err());
    }
}
