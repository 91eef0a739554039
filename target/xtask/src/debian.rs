//! A fresh Debian 12 in the cache, which packages and images are tried out on: copies of it.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::Result;
use linux_host::{cache, run_quiet};

/// The Debian that packages and images are for.
pub(crate) const SUITE: &str = "bookworm";

/// The folder with the system, which is fetched once.
///
/// # Errors
/// When it cannot be fetched: without a network, or without root.
pub(crate) fn fresh() -> Result<PathBuf> {
    let base = cache::folder()?.join(format!("debian-{SUITE}"));
    if !base.exists() {
        println!("fetching Debian 12 ({SUITE}) into the cache");
        let new = base.with_extension(format!("new-{}", std::process::id()));
        run_quiet(
            Command::new("debootstrap")
                .args(["--variant=minbase", "--include=systemd,iproute2,procps", SUITE])
                .arg(&new),
        )?;
        fs::rename(&new, &base)?;
    }
    Ok(base)
}
