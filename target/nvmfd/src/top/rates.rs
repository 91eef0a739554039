//! From two answers of the daemon to what happened between them.

use crate::http::{Core, Status};
use crate::status::{Connection, Namespace};
use std::time::Instant;

/// What the daemon was asked for.
#[derive(Debug, Clone)]
pub(super) struct Answers {
    pub(super) status: Status,
    pub(super) namespaces: Vec<Namespace>,
    pub(super) connections: Vec<Connection>,
    pub(super) cores: Vec<Core>,
}

/// The answers, and those before.
#[derive(Debug)]
pub(super) struct Sample {
    now: Answers,
    at: Instant,
    before: Option<(Answers, Instant)>,
}

/// A cell: as it is shown, and as it is compared.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Cell {
    pub(super) shown: String,
    pub(super) value: f64,
}

impl Cell {
    /// Words, which are compared as such.
    fn words(text: impl Into<String>) -> Cell {
        Cell { shown: text.into(), value: 0.0 }
    }

    fn count(value: f64) -> Cell {
        Cell { shown: scaled(value, 1000.0, &["", "k", "M", "G"]), value }
    }

    fn bytes(value: f64) -> Cell {
        Cell { shown: scaled(value, 1024.0, &[" B", " KiB", " MiB", " GiB", " TiB"]), value }
    }

    fn micros(value: f64) -> Cell {
        Cell { shown: scaled(value, 1000.0, &[" µs", " ms", " s"]), value }
    }
}

/// A number with as many digits as are of use.
fn scaled(mut value: f64, step: f64, units: &[&str]) -> String {
    let mut at = 0;
    while value >= step && at + 1 < units.len() {
        value /= step;
        at += 1;
    }
    let digits = usize::from(at > 0 && value < 100.0);
    format!("{value:.digits$}{}", units[at])
}

pub(super) const NAMESPACES: [&str; 8] =
    ["SUBSYSTEM", "NSID", "SIZE", "READS/s", "READ/s", "WRITES/s", "WRITTEN/s", "ERRORS"];
pub(super) const HOSTS: [&str; 6] = ["HOST", "SUBSYSTEM", "PEER", "QUEUES", "COMMANDS/s", "SILENT"];
pub(super) const CORES: [&str; 9] = [
    "CORE",
    "QUEUES",
    "COMMANDS/s",
    "DISK OPS/s",
    "LATENCY",
    "OF DISK",
    "BUFFERS",
    "WAITS/s",
    "RESENT/s",
];

impl Sample {
    /// Without anything before: no rates yet.
    pub(super) fn first(now: Answers, at: Instant) -> Sample {
        Sample { now, at, before: None }
    }

    /// The next one.
    pub(super) fn next(self, now: Answers, at: Instant) -> Sample {
        Sample { now, at, before: Some((self.now, self.at)) }
    }

    pub(super) fn at(&self) -> Instant {
        self.at
    }

    pub(super) fn status(&self) -> &Status {
        &self.now.status
    }

    /// What was added to a count, a second. Counts that began anew tell nothing.
    fn rate(&self, now: u64, before: impl Fn(&Answers) -> Option<u64>) -> f64 {
        let Some((answers, at)) = &self.before else { return 0.0 };
        let seconds = self.at.saturating_duration_since(*at).as_secs_f64().max(1e-3);
        before(answers).map_or(0.0, |before| now.saturating_sub(before) as f64 / seconds)
    }

    /// Bytes read and written, and commands, a second, of all namespaces.
    pub(super) fn totals(&self) -> [String; 3] {
        let io = self.now.status.io;
        let read = self.rate(io.read_bytes, |a| Some(a.status.io.read_bytes));
        let written = self.rate(io.write_bytes, |a| Some(a.status.io.write_bytes));
        let commands = self.rate(io.reads + io.writes, |answers| {
            Some(answers.status.io.reads + answers.status.io.writes)
        });
        [Cell::bytes(read), Cell::bytes(written), Cell::count(commands)].map(|cell| cell.shown)
    }

    pub(super) fn namespaces(&self) -> Vec<Vec<Cell>> {
        let row = |ns: &Namespace| {
            let before = |answers: &Answers| {
                let same =
                    |other: &&Namespace| (&other.subsystem, other.nsid) == (&ns.subsystem, ns.nsid);
                answers.namespaces.iter().find(same).map(|found| found.io)
            };
            vec![
                Cell::words(&ns.subsystem),
                Cell { shown: ns.nsid.to_string(), value: ns.nsid.into() },
                Cell::bytes(ns.size as f64),
                Cell::count(self.rate(ns.io.reads, |a| Some(before(a)?.reads))),
                Cell::bytes(self.rate(ns.io.read_bytes, |a| Some(before(a)?.read_bytes))),
                Cell::count(self.rate(ns.io.writes, |a| Some(before(a)?.writes))),
                Cell::bytes(self.rate(ns.io.write_bytes, |a| Some(before(a)?.write_bytes))),
                Cell::count(ns.io.errors as f64),
            ]
        };
        self.now.namespaces.iter().map(row).collect()
    }

    pub(super) fn hosts(&self) -> Vec<Vec<Cell>> {
        let row = |host: &Connection| {
            let before = |answers: &Answers| {
                let same = |other: &&Connection| {
                    (&other.subsystem, other.cntlid) == (&host.subsystem, host.cntlid)
                };
                answers.connections.iter().find(same).map(|found| found.io_commands)
            };
            vec![
                Cell::words(&host.host),
                Cell::words(&host.subsystem),
                Cell::words(&host.peer),
                Cell::count(host.io_queues as f64),
                Cell::count(self.rate(host.io_commands, before)),
                Cell::micros(host.silent_ms as f64 * 1e3),
            ]
        };
        self.now.connections.iter().map(row).collect()
    }

    pub(super) fn cores(&self) -> Vec<Vec<Cell>> {
        let row = |core: &Core| {
            let before = |answers: &Answers| {
                answers.cores.iter().find(|other| other.core == core.core).copied()
            };
            let rate = |of: fn(&Core) -> u64| {
                Cell::count(self.rate(of(core), |answers| Some(of(&before(answers)?))))
            };
            let mean = |ns: fn(&Core) -> u64, times: fn(&Core) -> u64| {
                let counted = self.rate(times(core), |a| Some(times(&before(a)?)));
                let took = self.rate(ns(core), |a| Some(ns(&before(a)?)));
                match took / counted / 1e3 {
                    none if none.is_nan() => Cell::words("-"),
                    // Shorter than one turn of the core.
                    short if short < 1.0 => Cell { shown: "< 1 µs".to_owned(), value: short },
                    mean => Cell::micros(mean),
                }
            };
            let name = if core.core == 0 { "0 control".to_owned() } else { core.core.to_string() };
            vec![
                Cell { shown: name, value: core.core as f64 },
                Cell::count(core.queues as f64),
                rate(|core| core.capsules),
                rate(|core| core.disk_operations),
                mean(|core| core.command_ns, |core| core.command_times),
                mean(|core| core.disk_ns, |core| core.disk_times),
                Cell::bytes(core.transfer_bytes as f64),
                rate(|core| core.buffer_waits),
                rate(|core| core.packets_resent),
            ]
        };
        self.now.cores.iter().map(row).collect()
    }
}
