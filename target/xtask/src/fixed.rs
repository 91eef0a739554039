//! `static`: nvmfd without any library, for whatever Linux there is.
//!
//! It speaks RoCE by its own endpoint only: libibverbs finds its drivers as libraries, so it cannot be
//! part of such a program.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};
use linux_host::run_quiet;

use crate::build;

/// `cargo xtask static`
pub(crate) fn run() -> Result<bool> {
    let program = make()?;
    let dynamic = run_quiet(Command::new("readelf").arg("--dynamic").arg(&program))?;
    if dynamic.contains("(NEEDED)") {
        bail!("{} needs libraries all the same:\n{dynamic}", program.display());
    }
    let version = run_quiet(Command::new(&program).arg("--version"))?;
    println!("{}: {}", program.display(), version.trim());
    Ok(true)
}

fn make() -> Result<PathBuf> {
    let host = run_quiet(Command::new("rustc").arg("-vV"))?;
    let host = host.lines().find_map(|line| line.strip_prefix("host: ")).context("rustc's host")?;
    let flags = format!("target.{host}.rustflags=[\"-Ctarget-feature=+crt-static\"]");
    // With a target of its own, what only builds (macros, build scripts) stays as it is.
    let status = build::cargo()?
        .args(["build", "--quiet", "--release", "-p", "nvmfd", "--no-default-features"])
        .args(["--target", host, "--config", &flags])
        .status()?;
    if !status.success() {
        bail!("nvmfd does not build without libraries; libc6-dev has what that needs");
    }
    Ok(build::output()?.join(host).join("release/nvmfd"))
}
