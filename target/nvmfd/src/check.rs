//! `nvmfd check`: says what would be served, without touching anything.
//!
//! It finds what `nvmfd serve` would, in the same words and with the same exit status, and tells a
//! file that is wrong from a machine that cannot serve it at the moment. What the daemon has that
//! runs this very file is in nobody's way.

mod growth;
mod look;
mod own;
mod taken;

pub(crate) use growth::shortage;
pub(crate) use look::{Found, look, look_at_own};

use crate::client::{CallError, Client, table};
use crate::config::{self, Config, Namespace, Subsystem};
use crate::http::{PlanView, Status};
use crate::{CONFIG_ERROR, RUN_ERROR, change, disks, machine, output};
use backing::{BackingSpec, Medium, OpenError};
use hyper::Method;
use nvme_spec_types::nqn::DISCOVERY_NQN;
use nvmf::target::{ALL_CNTLIDS, AllowedHosts, DiscoveryConfig, DuplicateHosts, TellPorts};
use own::Own;
use std::collections::BTreeMap;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use uuid::Uuid;

pub(crate) fn run(path: &Path) -> ExitCode {
    let config = match config::load(path) {
        Ok(config) => config,
        Err(errors) => {
            let _ = writeln!(std::io::stderr(), "{errors}");
            return ExitCode::from(CONFIG_ERROR);
        }
    };
    let own = Own::find(path, &config);
    // In the order in which serving would find it.
    let mut report = Report { problems: machine::problems(path, &config), ..Report::default() };
    taken::outlets(&config, own.as_ref(), &mut report);
    describe(path, &config, own.as_ref(), &mut report);
    taken::listeners(&config, own.as_ref(), &mut report);
    let Report { mut text, problems, passing, notes } = report;
    if let Some(own) = own {
        let pid = own.pid;
        text.push_str(&format!(
            "\nthe nvmfd of process {pid} serves by this file now: what it has is not taken\n"
        ));
    }
    let told = output::write(text);
    for problem in problems.iter().chain(&passing).chain(&notes) {
        let _ = writeln!(std::io::stderr(), "{problem}");
    }
    match (problems.is_empty(), passing.is_empty()) {
        (true, true) => match told {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                let _ = writeln!(std::io::stderr(), "{error}");
                ExitCode::from(RUN_ERROR)
            }
        },
        (true, false) => {
            let _ = writeln!(
                std::io::stderr(),
                "the configuration is right, and cannot be served on this machine now"
            );
            ExitCode::from(RUN_ERROR)
        }
        (false, _) => ExitCode::from(CONFIG_ERROR),
    }
}

/// The control socket that the file names, if it can be read and names one.
pub(crate) fn socket_of(path: &Path) -> Option<PathBuf> {
    config::load(path).ok()?.control.path
}

/// What a reload of the running daemon with the file would do.
///
/// # Errors
/// When there is no daemon, or it finds the file wrong.
pub(crate) fn diff(client: &Client, path: &Path) -> Result<String, CallError> {
    // Here first: the daemon knows the file by another name.
    let text = config::read(path).map_err(|error| CallError::Invalid(error.to_string()))?;
    config::parse(path, &text).map_err(|error| CallError::Invalid(error.to_string()))?;
    // Disks may take their time; whether there is a daemon that answers is known at once.
    let _: Status = client.get("/v1/status")?;
    let PlanView { changes, restart } =
        client.call(Method::POST, "/v1/config/check", text.into_bytes())?;
    let mut text = String::new();
    for change in &changes {
        text.push_str(&format!("{change}\n"));
    }
    for setting in &restart {
        text.push_str(&format!("! {setting}: stays as it is until a restart\n"));
    }
    if text.is_empty() {
        text.push_str("nothing is different\n");
    }
    Ok(text)
}

/// What a reload with `new` would do in a daemon that serves `old`.
pub(crate) fn diff_files(old: &Path, new: &Path) -> ExitCode {
    match (config::load(old), config::load(new)) {
        (Ok(old), Ok(new)) => {
            output::end(change::diff(&old, &new, |_| true).to_string(), ExitCode::SUCCESS)
        }
        (old, new) => {
            for errors in [old.err(), new.err()].into_iter().flatten() {
                let _ = writeln!(std::io::stderr(), "{errors}");
            }
            ExitCode::from(CONFIG_ERROR)
        }
    }
}

/// What is said about a configuration.
#[derive(Debug, Default)]
struct Report {
    /// The table for standard output.
    text: String,
    /// What cannot be served until the file, or what it names, is another.
    problems: Vec<String>,
    /// What cannot be served at the moment, since somebody else has it.
    passing: Vec<String>,
    /// What can, and may yet disappoint.
    notes: Vec<String>,
}

/// What would be served, and what is in the way of its disks.
fn describe(path: &Path, config: &Config, own: Option<&Own>, report: &mut Report) {
    let Report { text, problems, passing, notes } = report;
    let mut files = Files::default();
    notes.extend(growth::memory(config));
    for listener in &config.listeners {
        let choice = crate::provider::choose(listener);
        text.push_str(&format!("listener {}: {choice}\n", listener.address));
    }
    text.push_str(&format!("{}\n", about_discovery(&config.discovery)));
    for subsystem in &config.subsystems {
        text.push_str(&format!("\nsubsystem {}\n  {}\n", subsystem.nqn, about(subsystem)));
        let mut rows = Vec::new();
        for namespace in &subsystem.namespaces {
            match look(&namespace.spec).and_then(|found| files.claim(&namespace.spec, found)) {
                Ok(Found::InUse(error)) if !own.is_some_and(|own| own.has_disk(namespace)) => {
                    passing.push(disks::in_words(path, &subsystem.nqn, namespace, &error));
                    rows.push(row(namespace, &Found::InUse(error)));
                }
                Ok(found) => {
                    notes.extend(growth::note(path, namespace));
                    if let Found::Disk(geometry) = &found {
                        notes.extend(growth::tail(path, namespace, geometry.capacity));
                    }
                    rows.push(row(namespace, &found));
                }
                Err(error) => {
                    problems.push(disks::in_words(path, &subsystem.nqn, namespace, &error));
                }
            }
        }
        if subsystem.namespaces.is_empty() {
            text.push_str("  no namespaces\n");
        } else {
            let table = table(HEADER, &rows);
            table.lines().for_each(|line| text.push_str(&format!("  {line}\n")));
        }
    }
}

fn about(subsystem: &Subsystem) -> String {
    let hosts = match &subsystem.hosts {
        AllowedHosts::Any => "any host".to_owned(),
        AllowedHosts::Only(hosts) if hosts.is_empty() => "no host".to_owned(),
        AllowedHosts::Only(hosts) => format!("hosts {}", hosts.join(", ")),
    };
    let twice = match subsystem.duplicates {
        DuplicateHosts::Allow => "",
        DuplicateHosts::OnePerPort => ", each once through a listener",
        DuplicateHosts::Refuse => ", each once",
    };
    let ids = match &subsystem.cntlids {
        all if *all == ALL_CNTLIDS => String::new(),
        some => format!(", controller ids {} to {}", some.start(), some.end()),
    };
    format!("serial {}, model {}, {hosts}{twice}{ids}", subsystem.serial, subsystem.model)
}

/// What discovery tells beside the subsystems.
fn about_discovery(discovery: &DiscoveryConfig) -> String {
    let name = discovery.nqn.as_deref().unwrap_or(DISCOVERY_NQN);
    let listeners = match discovery.tell {
        TellPorts::Reachable => "the listeners that a host likely reaches",
        TellPorts::Asked => "the listener that a host asks at",
        TellPorts::All => "every listener",
    };
    let others = match discovery.referrals.as_slice() {
        [] => String::new(),
        some => {
            let addresses: Vec<String> = some.iter().map(|r| r.address.to_string()).collect();
            format!(", refers to {}", addresses.join(", "))
        }
    };
    format!("discovery {name}: tells {listeners}{others}")
}

const HEADER: [&str; 8] = ["NSID", "DISK", "SIZE", "BLOCK", "ACCESS", "CACHE", "TRIM", "UUID"];

fn row(namespace: &Namespace, found: &Found) -> [String; 8] {
    let disk = disks::name(&namespace.spec.medium);
    let access = if namespace.spec.read_only { "read-only" } else { "read-write" };
    let [size, block, access, cache, trim] = match found {
        Found::Disk(geometry) => [
            config::in_words(geometry.capacity),
            geometry.block_size.to_string(),
            access.to_owned(),
            if geometry.volatile_cache { "volatile" } else { "none" }.to_owned(),
            if geometry.discard { "yes" } else { "no" }.to_owned(),
        ],
        Found::WouldBeCreated(size) => [
            config::in_words(*size),
            "-".to_owned(),
            "to be created".to_owned(),
            "-".to_owned(),
            "-".to_owned(),
        ],
        Found::InUse(_) => ["-", "-", "in use", "-", "-"].map(str::to_owned),
    };
    let uuid = Uuid::from_bytes(namespace.uuid).to_string();
    [namespace.nsid.to_string(), disk, size, block, access, cache, trim, uuid]
}

/// The files that namespaces have so far, by device and inode: one may have several names. Says of
/// each whether all its namespaces are read-only.
#[derive(Debug, Default)]
struct Files(BTreeMap<(u64, u64), bool>);

impl Files {
    /// Passes what was `found` on, unless an earlier namespace has the file and one of the two
    /// would write to it.
    fn claim(&mut self, spec: &BackingSpec, found: Found) -> Result<Found, OpenError> {
        let Medium::Path { path, .. } = &spec.medium else { return Ok(found) };
        let Ok(meta) = std::fs::metadata(path) else { return Ok(found) };
        if !meta.is_file() {
            return Ok(found);
        }
        match self.0.insert((meta.dev(), meta.ino()), spec.read_only) {
            Some(read_only) if !(read_only && spec.read_only) => {
                Err(OpenError::LockedHere { path: path.clone() })
            }
            _ => Ok(found),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_usual_about_hosts_and_discovery_is_told() {
        let text = "listener = [{ address = \"127.0.0.1\" }]\n[discovery]\nlisteners = \"all\"\n\
             referral = [{ address = \"10.8.0.2\" }]\n[[subsystem]]\n\
             nqn = \"nqn.2026-11.io.nvmfd:a\"\nallow_any_host = true\n\
             duplicate_hosts = \"refuse\"\ncntlids = [5, 9]\n";
        let path = Path::new("nvmfd.toml");
        let config = config::parse(path, text).unwrap_or_else(|error| panic!("{error}"));
        let mut report = Report::default();
        describe(path, &config, None, &mut report);
        let said = report.text;
        assert!(said.contains(": tells every listener, refers to 10.8.0.2:4420\n"), "{said}");
        assert!(said.contains(", any host, each once, controller ids 5 to 9\n"), "{said}");
    }

    fn problems_with(namespace: &str) -> Vec<String> {
        let text = format!(
            "listener = [{{ address = \"127.0.0.1\" }}]\n[[subsystem]]\n\
             nqn = \"nqn.2026-11.io.nvmfd:a\"\nallow_any_host = true\n\
             [[subsystem.namespace]]\n{namespace}\n"
        );
        let path = Path::new("nvmfd.toml");
        let config = config::parse(path, &text).unwrap_or_else(|error| panic!("{error}"));
        let mut report = Report::default();
        describe(path, &config, None, &mut report);
        report.problems
    }

    #[test]
    fn a_disk_that_cannot_be_served_is_told_with_its_line() {
        let start = "nvmfd.toml:5: nqn.2026-11.io.nvmfd:a namespace 1: /dev/null";
        let about = |disk: &str, what: &str| {
            let problems = problems_with(disk);
            assert_eq!(problems.len(), 1, "{disk}: {problems:?}");
            assert!(problems[0].starts_with(start), "{}", problems[0]);
            assert!(problems[0].contains(what), "{}", problems[0]);
        };
        about("path = \"/dev/null\"", "is a character device");
        // No size helps where a folder of the path is none.
        about("path = \"/dev/null/a\"\nsize = 4096", "cannot create the file");
    }

    #[test]
    fn two_names_of_one_file_are_one_disk() {
        let [one, two] = ["one", "two"].map(|name| {
            std::env::temp_dir().join(format!("nvmfd-check-{name}-{}", std::process::id()))
        });
        std::fs::write(&one, [0; 4096]).unwrap();
        std::fs::hard_link(&one, &two).unwrap();
        let both = |more: &str| {
            let disk = |path: &Path| format!("path = \"{}\"\n{more}", path.display());
            problems_with(&format!("{}\n[[subsystem.namespace]]\n{}", disk(&one), disk(&two)))
        };
        let (written, read) = (both(""), both("read_only = true"));
        for file in [one, two] {
            std::fs::remove_file(file).unwrap();
        }
        assert_eq!(written.len(), 1, "{written:?}");
        assert!(written[0].contains("already exported as another namespace"), "{}", written[0]);
        assert_eq!(read, [""; 0]);
    }

    #[test]
    fn a_file_that_is_only_read_is_not_promised_to_be_made() {
        let file = std::env::temp_dir().join("nvmfd-no-such-file");
        let disk = format!("path = \"{}\"\nsize = 4096", file.display());
        assert_eq!(problems_with(&disk), [""; 0]);
        assert_eq!(problems_with(&format!("{disk}\nread_only = true")).len(), 1);
    }
}
