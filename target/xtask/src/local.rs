//! `bench local`: daemon and userspace host on this machine over the loopback interface.
//!
//! One processor for the daemon's data core and one for the host's thread, both polling. Each case
//! is measured in several rounds that go through all cases, and the median round by IOPS counts.
//! System calls are counted in a round of their own, by `perf` or, slower, `strace`. Where fio is
//! installed, it reads the same file without a network in the same rounds.

mod fio;
mod poll;

use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use clap::Args;
use linux_host::{capture, run_quiet};
use serde_json::{Value, json};

use crate::hosts::{self, Hosts, Running};
use crate::native::{Folder, Programs, Serving, check_free, warn_if_busy};

#[derive(Args)]
pub(crate) struct LocalArgs {
    /// Write the figures to this file as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Rounds; the median of each case counts.
    #[arg(long, default_value_t = 3)]
    rounds: u32,
    /// Seconds of each measurement.
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    /// Address to serve at.
    #[arg(long, default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    address: IpAddr,
    /// Processors: of the daemon's data core, and of the host.
    #[arg(long, value_delimiter = ',', num_args = 2, default_values_t = [0, 1])]
    cpus: Vec<usize>,
    /// Folder of the file that is served: on the file system to measure.
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,
    /// What the daemon's core does when idle; several are compared: adaptive,always,interrupt.
    #[arg(long, value_delimiter = ',', default_value = "always",
        value_parser = ["adaptive", "always", "interrupt"])]
    poll: Vec<String>,
    /// A folder with nvmfd and nvmf-host, built already.
    #[arg(long, value_name = "FOLDER")]
    programs: Option<PathBuf>,
    /// Only namespaces on the null device.
    #[arg(long, conflicts_with = "file_only")]
    null_only: bool,
    /// Only the namespace on a file.
    #[arg(long)]
    file_only: bool,
}

impl LocalArgs {
    /// The namespaces to measure.
    fn nsids(&self) -> RangeInclusive<usize> {
        match (self.null_only, self.file_only) {
            (true, _) => 1..=1,
            (_, true) => FILE..=FILE,
            _ => 1..=MEDIA.len(),
        }
    }
}

/// What is under the namespaces 1, 2 and 3.
const MEDIA: [&str; 3] = ["null", "ram", "file"];
/// The namespace on the file.
const FILE: usize = 3;
/// Size of each: small enough for memory, large enough that places differ.
const SIZE: &str = "512MiB";

/// Mode, bytes, depth.
const CASES: [(&str, u32, u32); 5] = [
    ("randread", 4096, 1),
    ("randread", 4096, 32),
    ("randwrite", 4096, 32),
    ("read", 131_072, 8),
    ("write", 131_072, 8),
];

struct Case {
    nsid: usize,
    mode: &'static str,
    bytes: u32,
    depth: u32,
    /// One for each round.
    rounds: Vec<Value>,
    /// The same by fio, of random reads from the file.
    alone: Vec<fio::Alone>,
    /// System calls per command: of the daemon, and of the host.
    calls: Option<(f64, f64)>,
}

/// `cargo xtask bench local`
pub(crate) fn run(args: &LocalArgs) -> Result<bool> {
    if args.rounds == 0 || args.cpus.len() != 2 {
        bail!("at least one round and two processors are needed");
    }
    check_free(args.address)?;
    warn_if_busy();
    let programs = Programs::given_or_built(args.programs.as_deref())?;
    let folder = Folder::new("bench")?;
    if args.poll.len() > 1 {
        return write(args, &poll::compare(args, &programs, folder.path())?);
    }
    let file_folder = match &args.folder {
        Some(folder) => fs::canonicalize(folder).with_context(|| folder.display().to_string())?,
        None => folder.path().to_owned(),
    };
    let file = file_folder.join(format!("nvmfd-bench-{}.img", std::process::id()));
    let kind = run_quiet(Command::new("stat").args(["-f", "-c", "%T"]).arg(&file_folder))?;
    let kind = kind.trim().to_owned();
    let result = measure_all(args, &programs, folder.path(), &file);
    // There was perhaps no daemon to make it.
    let _ = fs::remove_file(&file);
    let (cases, counter) = result?;
    print_table(args, &cases, counter, &kind);
    write(args, &to_json(args, &cases, counter, &kind))
}

/// Writes the figures where they are wanted.
fn write(args: &LocalArgs, figures: &Value) -> Result<bool> {
    if let Some(path) = &args.json {
        fs::write(path, serde_json::to_string_pretty(figures)? + "\n")
            .with_context(|| path.display().to_string())?;
    }
    Ok(true)
}

fn measure_all(
    args: &LocalArgs,
    programs: &Programs,
    folder: &Path,
    file: &Path,
) -> Result<(Vec<Case>, Option<Counter>)> {
    let config = config(args, file)?;
    let serving = Serving::start(&programs.daemon, folder, &config)?;
    fill(args, host(args, programs, folder))?;
    let counter = Counter::find();
    let with_fio = fio::is_here();
    let mut cases: Vec<Case> = args
        .nsids()
        .flat_map(|nsid| CASES.map(|(mode, bytes, depth)| (nsid, mode, bytes, depth)))
        .map(|(nsid, mode, bytes, depth)| Case {
            nsid,
            mode,
            bytes,
            depth,
            rounds: Vec::new(),
            alone: Vec::new(),
            calls: None,
        })
        .collect();
    for round in 1..=args.rounds {
        println!("round {round} of {}", args.rounds);
        for case in &mut cases {
            case.rounds.push(host(args, programs, folder).measure(&bench_words(args, case, 0.2))?);
            if with_fio && case.nsid == FILE && case.mode == "randread" {
                let load = (case.bytes, case.depth);
                case.alone.push(fio::random_reads(file, load, args.seconds, args.cpus[0])?);
            }
        }
    }
    if let Some(counter) = counter {
        println!("counting system calls with {}", counter.name());
        for case in &mut cases {
            case.calls = counter.calls(args, programs, folder, &serving, case)?;
        }
    }
    Ok((cases, counter))
}

fn config(args: &LocalArgs, file: &Path) -> Result<String> {
    let file = file.to_str().context("the folder's path is not UTF-8")?;
    let media = [
        format!("null = \"{SIZE}\"\nblock_size = 4096"),
        format!("ram = \"{SIZE}\"\nblock_size = 4096"),
        format!("path = {file:?}\nsize = \"{SIZE}\"\nblock_size = 4096"),
    ];
    Ok(hosts::config(args.address, &media, &tuning(args, &args.poll[0])))
}

fn tuning(args: &LocalArgs, poll: &str) -> String {
    format!("data_cores = 1\ncpus = [{}]\npoll = \"{poll}\"", args.cpus[0])
}

fn host<'a>(args: &LocalArgs, programs: &'a Programs, folder: &'a Path) -> Hosts<'a> {
    Hosts { program: &programs.host, address: args.address, folder }
}

/// Writes every block once, so that reads find blocks and not holes.
fn fill(args: &LocalArgs, host: Hosts<'_>) -> Result<()> {
    for nsid in args.nsids().filter(|&nsid| nsid > 1) {
        let nsid = nsid.to_string();
        run_quiet(host.command().args(["write", "--byte", "165", "--nsid", &nsid]))?;
    }
    Ok(())
}

fn bench_words(args: &LocalArgs, case: &Case, ramp: f64) -> String {
    format!(
        "bench --nsid {} --mode {} --block-size {} --depth {} --cpus {} --time {} --ramp {ramp}",
        case.nsid, case.mode, case.bytes, case.depth, args.cpus[1], args.seconds
    )
}

/// What counts system calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Counter {
    Perf,
    Strace,
}

const PERF_EVENT: &str = "raw_syscalls:sys_enter";

impl Counter {
    /// The better one of those that work here.
    fn find() -> Option<Counter> {
        let works = |words: &[&str]| {
            let out = capture(Command::new(words[0]).args(&words[1..]));
            out.is_ok_and(|out| out.success && !out.stderr.contains("not supported"))
        };
        if works(&["perf", "stat", "-x,", "-e", PERF_EVENT, "true"]) {
            Some(Counter::Perf)
        } else if works(&["strace", "-c", "-f", "-o", "/dev/null", "true"]) {
            Some(Counter::Strace)
        } else {
            None
        }
    }

    fn name(self) -> &'static str {
        match self {
            Counter::Perf => "perf",
            Counter::Strace => "strace, which slows what it counts",
        }
    }

    /// Calls per command of both programs in one run, connecting included.
    fn calls(
        self,
        args: &LocalArgs,
        programs: &Programs,
        folder: &Path,
        serving: &Serving,
        case: &Case,
    ) -> Result<Option<(f64, f64)>> {
        let (theirs, ours) = (folder.join("calls.daemon"), folder.join("calls.host"));
        let pid = serving.pid().to_string();
        let words = |out: &Path, on: &[&str]| -> Vec<String> {
            let out = out.display().to_string();
            let mut words: Vec<&str> = match self {
                Counter::Perf => vec!["perf", "stat", "-x,", "-e", PERF_EVENT, "-o", &out],
                Counter::Strace => vec!["strace", "-c", "-f", "-o", &out],
            };
            words.extend(on);
            words.into_iter().map(str::to_owned).collect()
        };
        let daemon = words(&theirs, &["-p", &pid]);
        let mut beside = Command::new(&daemon[0])
            .args(&daemon[1..])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        std::thread::sleep(std::time::Duration::from_millis(200));
        let wrapper = words(&ours, &[]);
        let wrapper: Vec<&str> = wrapper.iter().map(String::as_str).collect();
        let bench = bench_words(args, case, 0.0);
        let run = host(args, programs, folder).start("calls", &wrapper, &bench);
        let figures = run.and_then(Running::figures);
        run_quiet(Command::new("kill").args(["-INT", &beside.id().to_string()]))?;
        beside.wait()?;
        let figures = figures?;
        let commands = figures["commands"].as_f64().unwrap_or_default().max(1.0);
        let count = |path: &Path| Some(self.count(&fs::read_to_string(path).ok()?)? / commands);
        Ok(count(&theirs).zip(count(&ours)))
    }

    /// The count in what the program wrote.
    fn count(self, text: &str) -> Option<f64> {
        match self {
            Counter::Perf => {
                let line = text.lines().find(|line| line.contains(PERF_EVENT))?;
                line.split(',').next()?.parse().ok()
            }
            Counter::Strace => {
                let line = text.lines().find(|line| line.trim_end().ends_with("total"))?;
                line.split_whitespace().nth(3)?.parse().ok()
            }
        }
    }
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_default()
}

impl Case {
    /// The round with the median IOPS.
    fn median(&self) -> &Value {
        let mut order: Vec<&Value> = self.rounds.iter().collect();
        order.sort_by(|a, b| number(&a["iops"]).total_cmp(&number(&b["iops"])));
        order[order.len() / 2]
    }

    fn latency(&self) -> &Value {
        let median = self.median();
        let direction = if median["read"].is_object() { "read" } else { "write" };
        &median[direction]["latency_us"]
    }
}

fn print_table(args: &LocalArgs, cases: &[Case], counter: Option<Counter>, file_system: &str) {
    println!(
        "\nmedians of {} rounds of {} s; CPU {} for the target, {} for the host; file on {file_system}",
        args.rounds, args.seconds, args.cpus[0], args.cpus[1]
    );
    println!(
        "{:<30} {:>9} {:>8} {:>8} {:>8} {:>9} {:>16}",
        "", "IOPS", "MB/s", "p50 us", "p99 us", "packets", "calls (target, host)"
    );
    for case in cases {
        let median = case.median();
        let name = format!(
            "{:<4} {} {} depth {}",
            MEDIA[case.nsid - 1],
            case.mode,
            case.bytes,
            case.depth
        );
        let calls = match case.calls {
            Some((target, host)) => format!("{target:.2}, {host:.2}"),
            None => "-".to_owned(),
        };
        println!(
            "{name:<30} {:>9.0} {:>8.0} {:>8.1} {:>8.1} {:>9.2} {calls:>16}",
            number(&median["iops"]),
            number(&median["mb_per_s"]),
            number(&case.latency()["p50"]),
            number(&case.latency()["p99"]),
            number(&median["packets_per_io"]),
        );
    }
    for case in cases {
        let Some(alone) = fio::median(&case.alone) else { continue };
        println!(
            "fio alone, {} {} depth {}: {:.0} IOPS, p50 {:.1} us; nvmfd has {:.2} of the IOPS and \
             {:+.1} us",
            case.mode,
            case.bytes,
            case.depth,
            alone.iops,
            alone.p50_us,
            number(&case.median()["iops"]) / alone.iops,
            number(&case.latency()["p50"]) - alone.p50_us,
        );
    }
    match counter {
        Some(counter) => println!(
            "system calls for each command, by {}; polls that found nothing are among them",
            counter.name()
        ),
        None => println!("no system calls: neither perf nor strace can count them here"),
    }
}

fn to_json(args: &LocalArgs, cases: &[Case], counter: Option<Counter>, file_system: &str) -> Value {
    let cases: Vec<Value> = cases
        .iter()
        .map(|case| {
            let median = case.median();
            json!({
                "medium": MEDIA[case.nsid - 1],
                "mode": case.mode,
                "block_size": case.bytes,
                "depth": case.depth,
                "iops": median["iops"],
                "mb_per_s": median["mb_per_s"],
                "latency_us": case.latency(),
                "packets_per_io": median["packets_per_io"],
                "packets_repeated": median["packets_repeated"],
                "fio_iops": fio::median(&case.alone).map(|alone| alone.iops),
                "fio_p50_us": fio::median(&case.alone).map(|alone| alone.p50_us),
                "target_calls_per_io": case.calls.map(|calls| calls.0),
                "host_calls_per_io": case.calls.map(|calls| calls.1),
                "iops_of_rounds": case.rounds.iter().map(|r| r["iops"].clone()).collect::<Vec<_>>(),
            })
        })
        .collect();
    json!({
        "rounds": args.rounds,
        "seconds": args.seconds,
        "cpus": args.cpus,
        "file_system": file_system,
        "calls_counted_by": counter.map(|counter| format!("{counter:?}").to_lowercase()),
        "cases": cases,
    })
}

#[cfg(test)]
mod tests {
    use super::{Case, Counter};
    use serde_json::json;

    #[test]
    fn counts_are_found_in_what_the_programs_write() {
        let perf = "# started on x\n\n259392,,raw_syscalls:sys_enter,547667895,100.00,,\n";
        assert_eq!(Counter::Perf.count(perf), Some(259_392.0));
        let strace = "% time     seconds  usecs/call     calls    errors syscall\n\
                      ------ ----------- ----------- --------- --------- ----------------\n\
                      100.00    0.001234           5      2345        12 total\n";
        assert_eq!(Counter::Strace.count(strace), Some(2345.0));
        assert_eq!(Counter::Perf.count("<not counted>,,raw_syscalls:sys_enter,0"), None);
    }

    #[test]
    fn the_median_round_is_the_one_in_the_middle_by_iops() {
        let rounds = [3.0, 1.0, 2.0].map(|iops| json!({"iops": iops})).to_vec();
        let (alone, calls) = (Vec::new(), None);
        let case = Case { nsid: 1, mode: "randread", bytes: 4096, depth: 1, rounds, alone, calls };
        assert_eq!(case.median()["iops"], 2.0);
    }
}
