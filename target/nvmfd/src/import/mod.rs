//! `nvmfd import`: a configuration from that of another target.
//!
//! In comes a file as the other target's own tool writes it, out goes our TOML and, line by line, what
//! could not be taken over or is not as it was. Every field of the file is either understood or told
//! of; nothing is guessed about disks but whether a path is a file, which decides its block size.

mod draft;
mod json;
mod notes;
mod nvmetcli;
mod spdk;
#[cfg(test)]
mod tests;

use crate::cli::Origin;
use crate::{CONFIG_ERROR, RUN_ERROR, config, output};
use draft::Draft;
use json::Object;
use serde_json::Value;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

/// Most bytes of a file to import: many times what either tool writes for the most that we serve.
const MAX_FILE: u64 = 64 << 20;

/// Runs the command.
pub(crate) fn run(origin: Origin, file: &Path, output: Option<&Path>, force: bool) -> ExitCode {
    match import(origin, file, output, force) {
        Ok(told) => {
            let _ = writeln!(io::stderr(), "{told}");
            ExitCode::SUCCESS
        }
        Err(Failure::Incomplete(told)) => {
            let _ = writeln!(io::stderr(), "{told}");
            ExitCode::from(CONFIG_ERROR)
        }
        Err(Failure::Nothing(why)) => {
            let _ = writeln!(io::stderr(), "error: {why}");
            ExitCode::from(RUN_ERROR)
        }
    }
}

/// Why the result cannot be served.
enum Failure {
    /// It was written, and something has to be added.
    Incomplete(String),
    /// Nothing was written.
    Nothing(String),
}

fn import(
    origin: Origin,
    file: &Path,
    output: Option<&Path>,
    force: bool,
) -> Result<String, Failure> {
    let draft = read(origin, file).map_err(Failure::Nothing)?;
    let text = draft.text(&file.display().to_string());
    let shown = output.unwrap_or(Path::new("the configuration above"));
    match output {
        Some(path) => write(path, &text, force).map_err(Failure::Nothing)?,
        None => output::write(&text).map_err(Failure::Nothing)?,
    }
    let mut told = match draft.notes.lines() {
        [] => "everything was taken over".to_owned(),
        notes => format!("not taken over, or not as it was:\n  {}", notes.join("\n  ")),
    };
    if let Err(errors) = config::parse(shown, &text) {
        told.push_str(&format!("\nbefore it can be served:\n{errors}"));
        return Err(Failure::Incomplete(told));
    }
    if let Some(path) = output {
        told.push_str(&format!("\nnext: nvmfd check --config {}", path.display()));
    }
    Ok(told)
}

fn read(origin: Origin, file: &Path) -> Result<Draft, String> {
    let name = file.display();
    let size = fs::metadata(file).map_err(|error| format!("cannot read {name}: {error}"))?.len();
    if size > MAX_FILE {
        return Err(format!("{name} is longer than {}", config::in_words(MAX_FILE)));
    }
    let text = fs::read(file).map_err(|error| format!("cannot read {name}: {error}"))?;
    draft(origin, &text).map_err(|why| format!("{name}: {why}"))
}

/// # Errors
/// When the text is not what the tool writes.
fn draft(origin: Origin, text: &[u8]) -> Result<Draft, String> {
    let json: Value = serde_json::from_slice(text).map_err(|error| format!("not JSON: {error}"))?;
    let is_of_spdk = json["subsystems"][0].get("subsystem").is_some();
    let root = Object::new("", json)?;
    match origin {
        Origin::Nvmetcli if is_of_spdk => {
            Err("is a configuration of SPDK: use nvmfd import spdk".to_owned())
        }
        Origin::Nvmetcli => nvmetcli::read(root),
        Origin::Spdk if root.has("ports") => {
            Err("is a configuration of nvmetcli: use nvmfd import nvmetcli".to_owned())
        }
        Origin::Spdk => spdk::read(root),
    }
}

/// Writes the result, never over a file that is there unless that is wanted.
fn write(path: &Path, text: &str, force: bool) -> Result<(), String> {
    let name = path.display();
    let mut options = OpenOptions::new();
    options.write(true).create_new(!force).create(true).truncate(true);
    let mut file = options.open(path).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => format!("{name} is there already: --force replaces it"),
        _ => format!("cannot write {name}: {error}"),
    })?;
    file.write_all(text.as_bytes()).map_err(|error| format!("cannot write {name}: {error}"))
}

/// An address of the two fields in which both tools write it.
fn address(traddr: &str, trsvcid: Option<String>) -> String {
    let port = trsvcid.as_deref().unwrap_or("4420");
    if traddr.contains(':') { format!("[{traddr}]:{port}") } else { format!("{traddr}:{port}") }
}

/// Whether a path is a file and no device; by its name, where this machine does not have it.
fn is_file(path: &str) -> bool {
    fs::metadata(path).map_or(!path.starts_with("/dev/"), |meta| meta.is_file())
}
