//! The package in a fresh Debian 12: installed, used, upgraded, removed and purged, in a container
//! with systemd and without a network.
//!
//! `inside.sh` is what happens there, line by line. The system that it begins with is fetched once
//! and kept in the cache; every run works on a copy.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use linux_host::{capture, run_quiet};

use crate::debian::{self, SUITE};
use crate::{build, setup};

/// How long the container may take, in seconds.
const WITHIN: &str = "240";
/// What is run there, and the unit that runs it when the system is up.
const SCRIPT: &str = include_str!("inside.sh");
const UNIT: &str = include_str!("inside.service");

/// What came of it.
pub(super) enum Verdict {
    /// Everything was as it should be, or not; what was done is printed.
    Tried(bool),
    /// This machine cannot have such a system, and why.
    CannotTry(String),
}

/// Tries the package out.
pub(super) fn run(package: &Path) -> Result<Verdict> {
    if !setup::is_root()? {
        let why = "only root can install a package in a system of its own";
        return Ok(Verdict::CannotTry(why.to_owned()));
    }
    setup::containers()?;
    let root = match debian::fresh() {
        Ok(base) => copy(&with_depends(base, package)?)?,
        Err(why) => return Ok(Verdict::CannotTry(format!("{why:#}"))),
    };
    let verdict = boot(package, &root);
    fs::remove_dir_all(&root)?;
    verdict
}

fn boot(package: &Path, root: &Path) -> Result<Verdict> {
    let home = root.join("root");
    fs::copy(package, home.join("nvmfd.deb"))?;
    fs::write(home.join("inside.sh"), SCRIPT)?;
    let units = root.join("etc/systemd/system");
    fs::write(units.join("inside.service"), UNIT)?;
    let wants = units.join("multi-user.target.wants");
    fs::create_dir_all(&wants)?;
    std::os::unix::fs::symlink("/etc/systemd/system/inside.service", wants.join("inside.service"))?;
    // Its own name, so that two runs do not meet.
    let name = format!("nvmfd-deb-{}", std::process::id());
    let container = capture(
        Command::new("timeout")
            .args(["--kill-after=20", WITHIN, "systemd-nspawn", "--quiet", "--boot"])
            .args(["--register=no", "--keep-unit", "--private-network", "--console=pipe"])
            .arg("--system-call-filter=io_uring_setup io_uring_enter io_uring_register")
            .arg(format!("--machine={name}"))
            .arg("--directory")
            .arg(root)
            .stdin(Stdio::null()),
    )?;
    let log = fs::read_to_string(home.join("log")).unwrap_or_default();
    print!("{log}");
    if log.is_empty() {
        let why = format!("systemd-nspawn started no container here: {}", container.stderr.trim());
        return Ok(Verdict::CannotTry(why));
    }
    Ok(Verdict::Tried(log.trim_end().ends_with("all as it should be")))
}

/// The fresh system with the libraries that the package needs: so what the package leaves behind is
/// only its own.
fn with_depends(base: PathBuf, package: &Path) -> Result<PathBuf> {
    let depends = run_quiet(Command::new("dpkg-deb").arg("--field").arg(package).arg("Depends"))?;
    // Nothing to do when they are there.
    let satisfy = ["apt-get", "-q", "-y", "--no-install-recommends", "satisfy"];
    let inside = |words: &[&str]| {
        capture(
            Command::new("chroot").arg(&base).args(words).env("DEBIAN_FRONTEND", "noninteractive"),
        )
    };
    let satisfied = inside(&[&satisfy[..], &[depends.trim()]].concat())?;
    if !satisfied.success {
        bail!(
            "Debian {SUITE} cannot have what the package needs ({}):\n{}",
            depends.trim(),
            satisfied.stderr
        );
    }
    inside(&["apt-get", "clean"])?;
    Ok(base)
}

fn copy(base: &Path) -> Result<PathBuf> {
    let root = build::output()?.join(format!("package/system-{}", std::process::id()));
    run_quiet(Command::new("cp").args(["-a", "--reflink=auto"]).arg(base).arg(&root))
        .context("cannot copy the fresh system")?;
    Ok(root)
}
