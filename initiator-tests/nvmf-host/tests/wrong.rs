//! Capsules with something wrong in them, of every kind: each is answered as its case says, is in the
//! error log of its controller with the field at fault, and leaves another host undisturbed.
//!
//! The cases are in `cases/`, a file for each kind. The capsule is what `nvmf-host raw` takes.

use conformance::Daemon;
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

/// One case of a file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    /// What is wrong.
    wrong: String,
    /// The queue it is sent on.
    #[serde(default)]
    queue: u16,
    /// More options of `nvmf-host raw`, such as memory for the data.
    #[serde(default)]
    with: Vec<String>,
    capsule: serde_json::Value,
    /// Status Code Type and Status Code.
    status: [u8; 2],
    /// Whether Do Not Retry is set; it is nearly always.
    #[serde(default = "yes")]
    dnr: bool,
    /// Byte and bit of the field at fault.
    at: Option<[u8; 2]>,
    /// Whether it is in the error log.
    #[serde(default = "yes")]
    logged: bool,
}

fn yes() -> bool {
    true
}

fn cases_of(kind: &str) -> Vec<Case> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("cases").join(kind);
    let text = std::fs::read_to_string(&file).expect("a file of cases");
    serde_json::from_str(&text).unwrap_or_else(|wrong| panic!("{}: {wrong}", file.display()))
}

/// The program, for the daemon's subsystem.
fn nvmf_host(daemon: &Daemon) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nvmf-host"));
    let (address, nqn) = (daemon.address().to_string(), daemon.subnqn());
    command.args(["--provider", "soft", "--address", &address, "--nqn", nqn.as_str()]);
    command
}

/// Sends the capsule of a case.
fn send(daemon: &Daemon, case: &Case) -> Output {
    let capsule = case.capsule.to_string();
    let mut command = nvmf_host(daemon);
    command.args(["raw", "--json", &capsule]).args(&case.with);
    if case.queue != 0 {
        command.args(["--queue", &case.queue.to_string()]);
    }
    if case.logged {
        command.arg("--error-log");
    }
    command.output().expect("nvmf-host starts")
}

/// What is wrong with how a case was answered.
fn check(case: &Case, out: &Output) -> Result<(), String> {
    let said = String::from_utf8_lossy(&out.stdout);
    if !out.status.success() {
        return Err(String::from_utf8_lossy(&out.stderr).into_owned());
    }
    let [sct, sc] = case.status;
    let answer = said.lines().find(|line| line.starts_with("cid")).unwrap_or_default();
    let place = match case.at {
        Some([byte, bit]) => format!("byte {byte}, bit {bit};"),
        None => "no field;".to_owned(),
    };
    let good = answer.contains(&format!("(sct {sct:#x}, sc {sc:#04x})"))
        && answer.contains("do not retry") == case.dnr
        && (!case.logged || said.contains(&place));
    if good { Ok(()) } else { Err(said.into_owned()) }
}

/// A host that writes and reads back, over and over, until the cases are through.
struct Neighbour(Child);

impl Neighbour {
    fn start(daemon: &Daemon) -> Neighbour {
        let mut command = nvmf_host(daemon);
        let words = ["verify", "--queues", "2", "--passes", "16", "--size", "4MiB"];
        command.args(["--hostnqn", "nqn.2014-08.org.example:neighbour"]).args(words);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        Neighbour(child.expect("nvmf-host starts"))
    }

    fn must_be_well(self) {
        let out = self.0.wait_with_output().expect("its end");
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    }
}

/// Sends all cases of a kind.
fn all_are_refused(kind: &str) {
    let daemon = Daemon::with_ram(16);
    let neighbour = Neighbour::start(&daemon);
    let mut wrong = Vec::new();
    for case in cases_of(kind) {
        if let Err(said) = check(&case, &send(&daemon, &case)) {
            wrong.push(format!("{}: {said}", case.wrong));
        }
    }
    neighbour.must_be_well();
    assert!(wrong.is_empty(), "{kind}:\n{}", wrong.join("\n"));
}

#[test]
fn commands_for_namespaces_that_are_not_there_are_refused() {
    all_are_refused("namespace.json");
}

#[test]
fn bits_and_values_that_mean_nothing_are_refused() {
    all_are_refused("reserved.json");
}

#[test]
fn values_out_of_range_are_refused() {
    all_are_refused("range.json");
}

#[test]
fn data_that_is_described_wrongly_is_refused() {
    all_are_refused("sgl.json");
}

#[test]
fn commands_at_the_wrong_time_are_refused() {
    all_are_refused("state.json");
}

#[test]
fn every_file_of_cases_is_sent() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("cases");
    let files = std::fs::read_dir(folder).expect("the folder of cases");
    let names: Vec<PathBuf> = files.map(|file| file.expect("a file").path()).collect();
    let source = include_str!("wrong.rs");
    for name in &names {
        let name = name.file_name().and_then(|name| name.to_str()).expect("a name");
        assert!(source.contains(&format!("\"{name}\"")), "nobody sends {name}");
    }
    assert!(names.len() >= 5);
}
