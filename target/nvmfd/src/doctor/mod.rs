//! `nvmfd doctor`: whether this machine can do what a configuration asks of it.
//!
//! Two parts that do not know each other's means:
//! - [`gather`] looks at the machine, changes nothing, and makes [`facts`] of it: plain values;
//! - [`checks`] are functions of those facts and the configuration that make findings: what was
//!   found, what it means, and the command that mends it.
//!
//! Limits and privileges are those of this process. Run as the user that the daemon runs as, or as
//! its service does, the doctor sees what the daemon would see.

mod checks;
mod facts;
mod finding;
mod gather;
pub(crate) mod peer;
mod show;
#[cfg(test)]
mod tests;

use crate::config::{self, Config, ConfigErrors};
use crate::{CONFIG_ERROR, RUN_ERROR, output};
use finding::{Finding, Level};
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

/// The UDP port of RoCEv2.
const ROCE_PORT: u16 = 4791;

/// What is assumed without a configuration: every address, and the usual sizes.
const PLAIN: &str = "listener = [{ address = \"0.0.0.0\" }]\n[[subsystem]]\n\
    nqn = \"nqn.2026-11.io.nvmfd:plain\"\nallow_any_host = true\nnamespace = [{ null = \"1MiB\" }]\n";

/// Looks at the machine and prints what there is to say. Succeeds if nothing is at fault.
pub(crate) fn run(path: Option<&Path>, json: bool) -> ExitCode {
    let assumed = path.is_none();
    let (path, config) = match configuration(path) {
        Ok(known) => known,
        Err(errors) => {
            let _ = writeln!(std::io::stderr(), "{errors}");
            return ExitCode::from(CONFIG_ERROR);
        }
    };
    let mut findings = checks::all(&gather::facts(path, &config), &config);
    if assumed {
        let says = "without --config: judged as for a listener on every address, and nothing else";
        findings.insert(0, Finding::note("config", says));
    }
    let text =
        if json { show::json(&findings) } else { show::text(&findings, show::wants_colour()) };
    let status = match show::worst(&findings) {
        Level::Fault => ExitCode::from(RUN_ERROR),
        _ => ExitCode::SUCCESS,
    };
    output::end(text, status)
}

/// The configuration to judge by, and where it stands.
fn configuration(path: Option<&Path>) -> Result<(&Path, Config), ConfigErrors> {
    match path {
        Some(path) => config::load(path).map(|config| (path, config)),
        None => {
            let path = Path::new("without a configuration");
            config::parse(path, PLAIN).map(|config| (path, config))
        }
    }
}
