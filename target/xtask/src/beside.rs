//! What one host's small reads lose by a load that its daemon has beside them.
//!
//! # Contract
//! Three states by turns, in several rounds: the reads *alone*; with the load at another daemon
//! (*elsewhere*); with the load at theirs (*here*). Daemon and hosts share few processors here, so a
//! load also takes from the reading host what has nothing to do with its daemon: time of the processor,
//! caches, the kernel. The state *elsewhere* has all of that, since the other daemon runs on the
//! load's processor; what *here* loses beyond it is lost in the daemon.
//!
//! The reading host has its processor whenever it wants it, by a real-time priority where this machine
//! allows one, and hosts sleep when they have nothing to do, instead of looking: so none of them
//! takes a time slice from another for nothing.

use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use linux_host::run_quiet;
use serde_json::{Value, json};

use crate::hosts::{Hosts, Running, config, median};
use crate::native::{Folder, Programs, Serving, check_free, warn_if_busy};

#[derive(Args)]
pub(crate) struct BesideArgs {
    /// Write the figures to this file as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Rounds; medians count.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Seconds of each measurement.
    #[arg(long, default_value_t = 5.0)]
    pub(crate) seconds: f64,
    /// Address to serve at.
    #[arg(long, default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    address: IpAddr,
    /// Address of the other daemon.
    #[arg(long, default_value_t = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 99)))]
    elsewhere: IpAddr,
    /// Data cores of the daemon, on the processors 0, 1 and so on.
    #[arg(long, default_value_t = 1)]
    cores: usize,
    /// Processors of the hosts: of the reading one, and of the others; by default all share the one
    /// after the daemon's.
    #[arg(long, value_delimiter = ',', num_args = 2)]
    host_cpus: Vec<usize>,
    /// A folder with nvmfd and nvmf-host, built already.
    #[arg(long, value_name = "FOLDER")]
    programs: Option<PathBuf>,
}

/// What goes on beside the reads.
pub(crate) trait Load {
    /// What it is, in a few words.
    fn name(&self) -> &'static str;

    /// A namespace's lines of the configuration. Files are to be in this folder.
    fn namespace(&self, folder: &Path) -> Result<String>;

    /// Depths of the reads.
    fn depths(&self) -> &'static [u32];

    /// The command lines of its hosts, each to work for so many seconds.
    fn hosts(&self, seconds: f64) -> Vec<String>;

    /// What to say of the figures of its hosts, those of one round.
    fn show(&self, figures: &[Value]) -> String;

    /// What to say in the end of reads at a depth.
    fn verdict(&self, reads: &Reads<'_>) -> String;
}

/// Where the load is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    Alone,
    Elsewhere,
    Here,
}

impl State {
    const ALL: [State; 3] = [State::Alone, State::Elsewhere, State::Here];

    fn name(self) -> &'static str {
        match self {
            State::Alone => "alone",
            State::Elsewhere => "load elsewhere",
            State::Here => "load here",
        }
    }
}

/// All rounds of one state and depth.
struct Series {
    state: State,
    depth: u32,
    reads: Vec<Value>,
    load: Vec<Vec<Value>>,
}

/// Medians of the reads at a depth.
pub(crate) struct Reads<'a> {
    all: &'a [Series],
    depth: u32,
}

impl Reads<'_> {
    /// A latency in microseconds.
    pub(crate) fn latency(&self, state: State, key: &str) -> f64 {
        let found = self.all.iter().find(|s| s.state == state && s.depth == self.depth);
        found.map_or(f64::NAN, |series| series.latency(key))
    }

    /// How many times as long as in another state it takes with the load here.
    pub(crate) fn ratio(&self, key: &str, to: State) -> f64 {
        self.latency(State::Here, key) / self.latency(to, key)
    }
}

impl Series {
    fn latency(&self, key: &str) -> f64 {
        median(self.reads.iter().map(|round| number(&round["read"]["latency_us"][key])))
    }

    fn iops(&self) -> f64 {
        median(self.reads.iter().map(|round| number(&round["iops"])))
    }
}

pub(crate) fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or(f64::NAN)
}

/// Time that a load gets before the reads begin, and goes on after them.
const AROUND: Duration = Duration::from_millis(800);
/// Real-time priority of the reading host, in the middle of those there are.
const PRIORITY: &str = "50";
/// What is measured of latencies.
const LATENCIES: [&str; 4] = ["p50", "p99", "p99_9", "max"];

/// Measures, prints, and writes the figures.
pub(crate) fn run(args: &BesideArgs, load: &impl Load) -> Result<bool> {
    if args.rounds == 0 || args.cores == 0 {
        bail!("at least one round and one data core are needed");
    }
    check_free(args.address)?;
    check_free(args.elsewhere)?;
    warn_if_busy();
    let programs = Programs::given_or_built(args.programs.as_deref())?;
    let folder = Folder::new("beside")?;
    let place = Place::new(args, &programs, folder.path());
    let all = place.measure(load)?;
    print_table(args, &place, load, &all);
    if let Some(path) = &args.json {
        let text = serde_json::to_string_pretty(&to_json(args, load, &all))? + "\n";
        std::fs::write(path, text).with_context(|| path.display().to_string())?;
    }
    Ok(true)
}

struct Place<'a> {
    args: &'a BesideArgs,
    programs: &'a Programs,
    folder: &'a Path,
    /// Processors of the reading host and of the others.
    cpus: [String; 2],
    /// Whether a real-time priority can be had.
    first: bool,
}

impl<'a> Place<'a> {
    fn new(args: &'a BesideArgs, programs: &'a Programs, folder: &'a Path) -> Place<'a> {
        let cpus = match args.host_cpus[..] {
            [reader, others] => [reader, others],
            _ => [args.cores, args.cores],
        };
        let first = run_quiet(Command::new("chrt").args(["-f", PRIORITY, "true"])).is_ok();
        Place { args, programs, folder, cpus: cpus.map(|cpu| cpu.to_string()), first }
    }

    fn measure(&self, load: &impl Load) -> Result<Vec<Series>> {
        let namespace = [load.namespace(self.folder)?];
        let cpus: Vec<String> = (0..self.args.cores).map(|cpu| cpu.to_string()).collect();
        let cpus = cpus.join(", ");
        let here = {
            let folder = self.sub("here")?;
            let tuning = format!("cpus = [{cpus}]\npoll = \"always\"");
            let config = config(self.args.address, &namespace, &tuning);
            Serving::start(&self.programs.daemon, &folder, &config)?
        };
        let elsewhere = {
            let folder = self.sub("elsewhere")?;
            let tuning = format!("cpus = [{}]\npoll = \"interrupt\"", self.cpus[1]);
            let namespace = ["null = \"512MiB\"\nblock_size = 4096".to_owned()];
            let config = config(self.args.elsewhere, &namespace, &tuning);
            Serving::start(&self.programs.daemon, &folder, &config)?
        };
        let mut all: Vec<Series> = load
            .depths()
            .iter()
            .flat_map(|&depth| State::ALL.map(|state| (state, depth)))
            .map(|(state, depth)| Series { state, depth, reads: Vec::new(), load: Vec::new() })
            .collect();
        for round in 1..=self.args.rounds {
            println!("round {round} of {}", self.args.rounds);
            for series in &mut all {
                let (reads, figures) = self.one(load, series.state, series.depth)?;
                series.reads.push(reads);
                series.load.push(figures);
            }
        }
        drop((here, elsewhere));
        Ok(all)
    }

    /// One measurement: the reads' figures and those of the load.
    fn one(&self, load: &impl Load, state: State, depth: u32) -> Result<(Value, Vec<Value>)> {
        let at = match state {
            State::Alone => None,
            State::Elsewhere => Some(self.args.elsewhere),
            State::Here => Some(self.args.address),
        };
        let mut running: Vec<Running> = Vec::new();
        if let Some(address) = at {
            let wrapper = ["taskset", "-c", &self.cpus[1]];
            let seconds = self.args.seconds + 2.0 * AROUND.as_secs_f64();
            for (index, words) in load.hosts(seconds).iter().enumerate() {
                let name = format!("load-{index}");
                running.push(self.hosts(address).start(&name, &wrapper, words)?);
            }
            std::thread::sleep(AROUND);
        }
        let mut wrapper = vec!["taskset", "-c", &self.cpus[0]];
        if self.first {
            wrapper.extend(["chrt", "-f", PRIORITY]);
        }
        let words = format!(
            "bench --mode randread --block-size 4096 --depth {depth} --spin 0 --ramp 0.2 --time {}",
            self.args.seconds
        );
        let reads = self.hosts(self.args.address).start("reads", &wrapper, &words)?.figures()?;
        let figures = running.into_iter().map(Running::figures).collect::<Result<_>>()?;
        Ok((reads, figures))
    }

    fn hosts(&self, address: IpAddr) -> Hosts<'_> {
        Hosts { program: &self.programs.host, address, folder: self.folder }
    }

    fn sub(&self, name: &str) -> Result<PathBuf> {
        let folder = self.folder.join(name);
        std::fs::create_dir_all(&folder)?;
        Ok(folder)
    }
}

fn print_table(args: &BesideArgs, place: &Place<'_>, load: &impl Load, all: &[Series]) {
    println!(
        "\nmedians of {} rounds of {} s; {} data cores; the reading host on processor {}{}, the load \
         ({}) on {}",
        args.rounds,
        args.seconds,
        args.cores,
        place.cpus[0],
        if place.first {
            " before all others"
        } else {
            " without a priority, as chrt cannot set one"
        },
        load.name(),
        place.cpus[1],
    );
    println!(
        "{:<32} {:>9} {:>9} {:>9} {:>9} {:>9}",
        "4 KiB random reads", "IOPS", "p50 us", "p99 us", "p99.9 us", "max us"
    );
    for series in all {
        let name = format!("depth {}, {}", series.depth, series.state.name());
        let [p50, p99, p99_9, max] = LATENCIES.map(|key| series.latency(key));
        let iops = series.iops();
        println!("{name:<32} {iops:>9.0} {p50:>9.1} {p99:>9.1} {p99_9:>9.1} {max:>9.1}");
    }
    for series in all.iter().filter(|series| series.state == State::Here) {
        for (round, figures) in series.load.iter().enumerate() {
            println!("depth {}, round {}: {}", series.depth, round + 1, load.show(figures));
        }
    }
    for &depth in load.depths() {
        println!("depth {depth}: {}", load.verdict(&Reads { all, depth }));
    }
}

fn to_json(args: &BesideArgs, load: &impl Load, all: &[Series]) -> Value {
    let series: Vec<Value> = all
        .iter()
        .map(|series| {
            let latency = LATENCIES.map(|key| (key.to_owned(), series.latency(key).into()));
            json!({
                "state": series.state.name(),
                "depth": series.depth,
                "iops": series.iops(),
                "latency_us": serde_json::Map::from_iter(latency),
                "rounds": series.reads,
                "load": series.load,
            })
        })
        .collect();
    json!({
        "load": load.name(),
        "rounds": args.rounds,
        "seconds": args.seconds,
        "data_cores": args.cores,
        "series": series,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(state: State, p99: [f64; 3]) -> Series {
        let reads = p99.map(|p99| json!({ "iops": 1.0, "read": { "latency_us": { "p99": p99 } } }));
        Series { state, depth: 1, reads: reads.to_vec(), load: Vec::new() }
    }

    #[test]
    fn ratios_are_those_of_medians_over_the_rounds() {
        let all = [
            series(State::Alone, [10.0, 1000.0, 12.0]),
            series(State::Elsewhere, [20.0, 20.0, 18.0]),
            series(State::Here, [30.0, 1.0, 36.0]),
        ];
        let reads = Reads { all: &all, depth: 1 };
        assert_eq!(reads.ratio("p99", State::Alone), 2.5);
        assert_eq!(reads.ratio("p99", State::Elsewhere), 1.5);
    }
}
