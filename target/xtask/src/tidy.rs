//! Rules of this repository that a program can check. Each offence names the
//! better way.
//!
//! In: the root folder and what `cargo metadata` says. Out: [`Offence`]s. It
//! changes nothing.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::Value;

mod compliance;
mod map;
#[cfg(test)]
mod tests;

/// A broken rule: where, what, and what to do instead.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Offence {
    place: String,
    what: String,
    instead: &'static str,
}

impl fmt::Display for Offence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.place, self.what, self.instead)
    }
}

/// Who may import whom, of our own crates. The protocol knows no I/O, providers
/// know no NVMe, and the initiator does not know the controller, so that a
/// mistake in one is not mirrored in the other. Imports of tests are free.
const IMPORTS: &[(&str, &[&str])] = &[
    ("nvme-spec-types", &[]),
    ("region", &[]),
    ("nvmf", &["nvme-spec-types"]),
    ("rdma", &["region"]),
    ("backing", &["nvme-spec-types", "region"]),
    ("rdma-verbs", &["rdma", "region"]),
    ("soft-roce", &["rdma", "region"]),
    ("reactor", &["backing", "nvme-spec-types", "nvmf", "rdma", "region"]),
    (
        "nvmfd",
        &[
            "backing",
            "nvme-spec-types",
            "nvmf",
            "rdma",
            "rdma-verbs",
            "reactor",
            "region",
            "soft-roce",
        ],
    ),
    ("initiator", &["nvme-spec-types", "rdma", "region"]),
    ("sim", &["backing", "initiator", "nvme-spec-types", "nvmf", "rdma", "reactor", "region"]),
    ("conformance", &["initiator", "nvme-spec-types", "rdma", "rdma-verbs", "region", "soft-roce"]),
    ("rdma-contract", &["rdma", "rdma-verbs", "region"]),
    ("nvmf-host", &["initiator", "nvme-spec-types", "rdma", "rdma-verbs", "region", "soft-roce"]),
    ("fuzz", &["nvme-spec-types", "nvmf", "soft-roce"]),
    ("linux-host", &[]),
    ("xtask", &["linux-host"]),
];

/// Crates that may hold unsafe code.
const UNSAFE_CRATES: [&str; 3] = ["target/region", "target/rdma-verbs", "target/backing"];

/// Source files may be this long.
const MAX_LINES: usize = 1000;
/// Longer files, each with its reason.
const LONG_FILES: &[(&str, &str)] = &[];

/// What cargo leaves in its output folder; in `target/` it would mean that
/// cargo was called from outside this repository.
const CARGO_LEAVINGS: [&str; 4] =
    ["target/debug", "target/release", "target/CACHEDIR.TAG", "target/.rustc_info.json"];

/// Words that mean unfinished work, spelled so that this file does not hold them.
const UNFINISHED: [&str; 5] = [
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("to", "do!("),
    concat!("unimple", "mented!("),
    concat!("db", "g!("),
];

/// Checks every rule over the tree at `root`; `metadata` is the answer of
/// `cargo metadata --no-deps --format-version 1`.
///
/// # Errors
/// When the tree cannot be read or `metadata` is not what cargo gives.
pub(crate) fn check(root: &Path, metadata: &str) -> Result<Vec<Offence>> {
    let mut offences = imports(metadata)?;
    offences.extend(layout(root)?);
    let mut known = compliance::Known::default();
    let (mut table, mut map) = (None, None);
    let mut all = Vec::new();
    for path in files(root)? {
        let name = path.to_string_lossy();
        all.push(name.clone().into_owned());
        // Binary files have no lines to check.
        if let Ok(text) = fs::read_to_string(root.join(&path)) {
            offences.extend(text_rules(&name, &text));
            known.note(&name, &text);
            if name == compliance::PAGE {
                table = Some(text);
            } else if name == map::PAGE {
                map = Some(text);
            }
        }
    }
    offences.extend(table.iter().flat_map(|table| compliance::check(table, &known)));
    if let Some(map) = map {
        offences.extend(map::check(&map, &all));
    }
    Ok(offences)
}

fn imports(metadata: &str) -> Result<Vec<Offence>> {
    let metadata: Value = serde_json::from_str(metadata)?;
    let packages = metadata["packages"].as_array().context("no packages")?;
    let name = |value: &Value| value["name"].as_str().unwrap_or_default().to_owned();
    let ours: Vec<String> = packages.iter().map(name).collect();
    let mut offences = Vec::new();
    for package in packages {
        let importer = name(package);
        let Some((_, allowed)) = IMPORTS.iter().find(|(n, _)| *n == importer) else {
            offences.push(Offence {
                place: importer,
                what: "a crate with no import rule".to_owned(),
                instead: "say in IMPORTS of xtask's tidy.rs whom it may import, and why",
            });
            continue;
        };
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            let imported = name(dependency);
            let for_tests = dependency["kind"].as_str() == Some("dev");
            if ours.contains(&imported) && !for_tests && !allowed.contains(&imported.as_str()) {
                offences.push(Offence {
                    place: importer.clone(),
                    what: format!("imports {imported}"),
                    instead: "pass what it needs through a trait or value of a crate that both may import",
                });
            }
        }
    }
    Ok(offences)
}

fn layout(root: &Path) -> Result<Vec<Offence>> {
    let mut offences = Vec::new();
    for path in CARGO_LEAVINGS {
        if root.join(path).exists() {
            offences.push(Offence {
                place: path.to_owned(),
                what: "cargo built into the source folder".to_owned(),
                instead: "remove it; call cargo from inside the repository, without --manifest-path",
            });
        }
    }
    let manifest = fs::read_to_string(root.join("Cargo.toml"))?;
    if manifest.lines().any(|line| line.trim() == "[package]") {
        offences.push(Offence {
            place: "Cargo.toml".to_owned(),
            what: "the root manifest holds a package".to_owned(),
            instead: "keep it virtual and put the package below target/ or initiator-tests/",
        });
    }
    Ok(offences)
}

fn text_rules(path: &str, text: &str) -> Vec<Offence> {
    let mut offences = Vec::new();
    let rust = path.ends_with(".rs");
    let lines = text.lines().count();
    if rust && lines > MAX_LINES && !LONG_FILES.iter().any(|(file, _)| *file == path) {
        offences.push(Offence {
            place: path.to_owned(),
            what: format!("{lines} lines"),
            instead: "find the second idea in it and give that a file, or tests a sibling file",
        });
    }
    let may_be_unsafe = UNSAFE_CRATES.iter().any(|dir| path.starts_with(dir));
    for (number, line) in text.lines().enumerate() {
        let mut offend = |what: &str, instead| {
            offences.push(Offence {
                place: format!("{path}:{}", number + 1),
                what: what.to_owned(),
                instead,
            });
        };
        if rust && !may_be_unsafe && is_unsafe(line) {
            offend(
                "unsafe code",
                "use a safe interface of region, rdma-verbs or backing, or add one there",
            );
        }
        if rust || path.ends_with(".sh") || path.ends_with(".toml") {
            for word in UNFINISHED {
                if line.contains(word) {
                    offend(word, "finish it, or write down as a limitation what is missing");
                }
            }
        }
    }
    offences
}

/// Whether a line of Rust begins unsafe code or lets it in; words in comments
/// and in the names of lints that forbid it do not count.
fn is_unsafe(line: &str) -> bool {
    let code = line.split("//").next().unwrap_or_default();
    let opens = ["{", "fn ", "impl ", "extern ", "trait "];
    let keyword = concat!("un", "safe ");
    let begins = code.match_indices(keyword).any(|(at, _)| {
        let before = code[..at].chars().next_back();
        let alone = before.is_none_or(|c| !c.is_alphanumeric() && c != '_' && c != '"');
        alone && opens.iter().any(|o| code[at + keyword.len()..].starts_with(o))
    });
    begins || code.contains(concat!("allow(un", "safe_code"))
}

/// All files below `root`, relative to it, without version control and build output.
fn files(root: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root.join(&folder))? {
            let entry = entry?;
            let path = folder.join(entry.file_name());
            let kind = entry.file_type()?;
            if kind.is_dir() {
                let hidden = entry.file_name().to_string_lossy().starts_with('.');
                if !hidden || path == Path::new(".ci") || path == Path::new(".cargo") {
                    folders.push(path);
                }
            } else if kind.is_file() {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}
