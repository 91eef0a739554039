//! `bench scale`: what more hosts, queues and namespaces cost a daemon on this machine.
//!
//! Each count has a daemon of its own, on the null device and soft-RoCE over loopback. Hosts that only
//! stay connected are one process (`nvmf-host hold`); one more host measures beside them: its IOPS of
//! 4 KiB random reads, the daemon's processor time for each, and the daemon's resident memory before.

mod idle;
mod plot;

use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use serde_json::{Value, json};

use crate::hosts::{self, Held, Hosts};
use crate::native::{Folder, Programs, Serving, check_free};

#[derive(Args)]
pub(crate) struct ScaleArgs {
    /// Write the figures to this file as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Draw the figures into this file.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Idle hosts beside the one that measures.
    #[arg(long, value_delimiter = ',', default_values_t = [0, 1, 10, 100, 1000])]
    hosts: Vec<u32>,
    /// I/O queues of one host.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2, 4, 8, 16, 32, 64])]
    queues: Vec<u32>,
    /// Namespaces.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 10, 100, 1000])]
    namespaces: Vec<u32>,
    /// Only compare a host beside so many idle ones with one alone, at two daemons by turns.
    #[arg(long, value_name = "HOSTS")]
    idle: Option<u32>,
    /// Measurements of each count; the median counts.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Seconds of each measurement.
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    /// Address to serve at.
    #[arg(long, default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    address: IpAddr,
    /// A folder with nvmfd and nvmf-host, built already.
    #[arg(long, value_name = "FOLDER")]
    programs: Option<PathBuf>,
}

/// What there is more and more of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Hosts,
    Queues,
    Namespaces,
}

impl What {
    fn name(self) -> &'static str {
        match self {
            What::Hosts => "hosts",
            What::Queues => "queues",
            What::Namespaces => "namespaces",
        }
    }
}

/// What was seen with so many of something.
#[derive(Clone, Debug, PartialEq)]
struct Point {
    count: u32,
    iops: f64,
    /// The daemon's processor time for each command, in microseconds.
    cpu_us: f64,
    /// The daemon's resident memory before the measurement, in bytes.
    memory: u64,
}

/// All that was seen of one thing.
struct Series {
    what: What,
    /// The daemon's memory with one of it: the first brings what is there once for all.
    first: u64,
    points: Vec<Point>,
}

impl Series {
    /// Bytes that each after the first takes.
    fn each(&self, point: &Point) -> Option<u64> {
        let more = u64::from(point.count.saturating_sub(1));
        (more > 0).then(|| point.memory.saturating_sub(self.first) / more)
    }
}

/// `cargo xtask bench scale`
pub(crate) fn run(args: &ScaleArgs) -> Result<bool> {
    if args.rounds == 0 {
        bail!("at least one round is needed");
    }
    check_free(args.address)?;
    let programs = Programs::given_or_built(args.programs.as_deref())?;
    let folder = Folder::new("scale")?;
    if let Some(count) = args.idle {
        return write(args, &idle::compare(args, &programs, folder.path(), count)?);
    }
    let mut all = Vec::new();
    for (what, counts) in [
        (What::Hosts, &args.hosts),
        (What::Queues, &args.queues),
        (What::Namespaces, &args.namespaces),
    ] {
        if counts.is_empty() {
            continue;
        }
        let (address, folder) = (args.address, folder.path());
        let place = Place { args, programs: &programs, folder, address };
        let first = {
            let (serving, _held) = place.serve(what, 1)?;
            memory_of(serving.pid())?
        };
        let mut series = Series { what, first, points: Vec::new() };
        println!(
            "\n{:>10} {:>10} {:>14} {:>12} {:>12}",
            what.name(),
            "IOPS",
            "CPU us a read",
            "memory KiB",
            "KiB for each"
        );
        for &count in counts {
            let point = place.measure(what, count)?;
            let each = series.each(&point).map_or("-".to_owned(), |each| kib(each).to_string());
            println!(
                "{count:>10} {:>10.0} {:>14.2} {:>12} {each:>12}",
                point.iops,
                point.cpu_us,
                kib(point.memory)
            );
            series.points.push(point);
        }
        all.push(series);
    }
    if let Some(path) = &args.svg {
        plot::draw(&all, path)?;
    }
    write(args, &to_json(args, &all))
}

/// Writes the figures where they are wanted.
fn write(args: &ScaleArgs, figures: &Value) -> Result<bool> {
    if let Some(path) = &args.json {
        let text = serde_json::to_string_pretty(figures)? + "\n";
        fs::write(path, text).with_context(|| path.display().to_string())?;
    }
    Ok(true)
}

struct Place<'a> {
    args: &'a ScaleArgs,
    programs: &'a Programs,
    folder: &'a Path,
    address: IpAddr,
}

impl Place<'_> {
    /// A daemon with so many, and the hosts that stay connected to it.
    fn serve(&self, what: What, count: u32) -> Result<(Serving, Option<Held>)> {
        let serving = self.daemon(if what == What::Namespaces { count } else { 1 })?;
        let held = match what {
            What::Hosts if count > 0 => Some(self.hosts().hold(count, 1)?),
            What::Queues => Some(self.hosts().hold(1, count)?),
            What::Hosts | What::Namespaces => None,
        };
        Ok((serving, held))
    }

    /// A daemon with so many namespaces.
    fn daemon(&self, namespaces: u32) -> Result<Serving> {
        let namespace = "null = \"1GiB\"\nblock_size = 4096".to_owned();
        let namespaces = vec![namespace; namespaces as usize];
        let tuning = "data_cores = 1\nmax_io_queues = 64";
        let config = hosts::config(self.address, &namespaces, tuning);
        Serving::start(&self.programs.daemon, self.folder, &config)
    }

    fn hosts(&self) -> Hosts<'_> {
        Hosts { program: &self.programs.host, address: self.address, folder: self.folder }
    }

    fn measure(&self, what: What, count: u32) -> Result<Point> {
        let (serving, held) = self.serve(what, count)?;
        let memory = memory_of(serving.pid())?;
        let nsid = if what == What::Namespaces { count } else { 1 };
        // As many commands outstanding in all, however many queues there are.
        let (queues, depth) = match what {
            What::Queues => (count, (64 / count).max(1)),
            What::Hosts | What::Namespaces => (1, 32),
        };
        let load = Load { nsid, queues, depth };
        // Connecting costs time too, which the shortest measurement has.
        let connect = self.load(&serving, &load, 0.1)?;
        let mut rounds = Vec::new();
        for _ in 0..self.args.rounds {
            let seen = self.load(&serving, &load, self.args.seconds)?;
            let more = (seen.commands - connect.commands).max(1.0);
            let cpu_ns = seen.cpu_ns.saturating_sub(connect.cpu_ns);
            rounds.push((seen.iops, cpu_ns as f64 / 1e3 / more));
        }
        if let Some(held) = held {
            held.end()?;
        }
        rounds.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (iops, cpu_us) = rounds[rounds.len() / 2];
        Ok(Point { count, iops, cpu_us, memory })
    }

    /// One host that measures for so many seconds.
    fn load(&self, serving: &Serving, load: &Load, seconds: f64) -> Result<Seen> {
        let Load { nsid, queues, depth } = load;
        let words = format!(
            "bench --mode randread --block-size 4096 --ramp 0 --time {seconds} --nsid {nsid} \
             --queues {queues} --depth {depth}"
        );
        let before = processor_time(serving.pid())?;
        let figures = self.hosts().measure(&words)?;
        let cpu_ns = processor_time(serving.pid())? - before;
        let number = |key: &str| figures[key].as_f64().unwrap_or_default();
        Ok(Seen { iops: number("iops"), commands: number("commands"), cpu_ns })
    }
}

/// What a host that measures does.
struct Load {
    nsid: u32,
    queues: u32,
    depth: u32,
}

/// What came of it.
struct Seen {
    iops: f64,
    commands: f64,
    /// Of the daemon, connecting included.
    cpu_ns: u64,
}

/// Resident memory of a process, in bytes.
fn memory_of(pid: u32) -> Result<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("VmRSS")?;
    let kib: u64 = line.trim().trim_end_matches(" kB").parse()?;
    Ok(kib << 10)
}

/// Processor time of all threads of a process, in nanoseconds.
fn processor_time(pid: u32) -> Result<u64> {
    let mut sum = 0;
    for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
        let text = fs::read_to_string(thread?.path().join("schedstat"))?;
        sum += text.split(' ').next().context("schedstat")?.parse::<u64>()?;
    }
    Ok(sum)
}

fn kib(bytes: u64) -> u64 {
    bytes >> 10
}

fn to_json(args: &ScaleArgs, all: &[Series]) -> Value {
    let series = all.iter().map(|series| {
        let points = series.points.iter().map(|point| {
            json!({
                "count": point.count,
                "iops": point.iops,
                "cpu_us_per_read": point.cpu_us,
                "memory_bytes": point.memory,
                "bytes_for_each": series.each(point),
            })
        });
        (series.what.name().to_owned(), points.collect::<Value>())
    });
    let series: serde_json::Map<String, Value> = series.collect();
    json!({ "rounds": args.rounds, "seconds": args.seconds, "series": series })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(what: What) -> Series {
        let point = |count, iops, memory| Point { count, iops, cpu_us: 2.0, memory };
        let points = vec![point(1, 5e5, 1000 << 10), point(101, 4.9e5, 5000 << 10)];
        Series { what, first: 1000 << 10, points }
    }

    #[test]
    fn memory_for_each_counts_from_what_is_there_anyway() {
        let namespaces = series(What::Namespaces);
        assert_eq!(namespaces.each(&namespaces.points[0]), None);
        assert_eq!(namespaces.each(&namespaces.points[1]), Some(40 << 10));
    }

    #[test]
    fn a_drawing_has_a_chart_of_each_kind() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("scale.svg");
        plot::draw(&[series(What::Hosts), series(What::Queues)], &path).unwrap();
        let text = fs::read_to_string(path).unwrap();
        assert!(text.starts_with("<svg") && text.trim_end().ends_with("</svg>"));
        for words in ["IOPS by hosts", "memory by hosts", "IOPS by queues", "memory by queues"] {
            assert!(text.contains(words), "{words}");
        }
    }

    #[test]
    fn this_process_has_memory_and_time() {
        let pid = std::process::id();
        assert!(memory_of(pid).unwrap() > 100 << 10);
        assert!(processor_time(pid).unwrap() > 0);
    }
}
