//! What has to be installed: Debian packages, and a libclang.
//!
//! As root on a Debian-like system everything missing is installed, each
//! package named before. Otherwise the command to run is printed and the
//! answer is an error: nothing is done halfway.

use std::path::Path;
use std::process::Command;

use anyhow::{Result, bail};
use linux_host::{capture, run_quiet};

use crate::build;

/// What building the daemon needs.
const BUILD: &[&str] = &["gcc", "libc6-dev", "pkg-config", "libibverbs-dev", "librdmacm-dev"];

/// What the machines need, on the outside and, since a guest sees this
/// machine's root, on the inside.
const MACHINES: &[&str] = &[
    "apt",
    "bash",
    "busybox-static",
    "dmsetup",
    "e2fsprogs",
    "fio",
    "ibverbs-providers",
    "iproute2",
    "iputils-ping",
    "kmod",
    "mount",
    "nvme-cli",
    "procps",
    "python3",
    "qemu-system-x86",
    "rdma-core",
    "tcpdump",
    "tshark",
    "util-linux",
    "xfsprogs",
    "xz-utils",
    "zstd",
];

/// What building the User-Mode Linux kernel needs.
const UML: &[&str] = &[
    "bc",
    "binutils",
    "bison",
    "flex",
    "gcc",
    "libc6-dev",
    "libelf-dev",
    "libssl-dev",
    "make",
    "perl",
    "xz-utils",
];

/// Installs what building and testing need.
pub(crate) fn run() -> Result<()> {
    packages(&[BUILD, MACHINES].concat())?;
    if build::libclang()?.is_none() {
        libclang()?;
    }
    Ok(())
}

/// Installs what building with the verbs feature needs.
pub(crate) fn building() -> Result<()> {
    packages(BUILD)?;
    if build::libclang()?.is_none() {
        libclang()?;
    }
    Ok(())
}

/// Installs what counting instructions needs.
pub(crate) fn counting() -> Result<()> {
    packages(&["valgrind"])
}

/// Installs what putting the Debian package together needs.
pub(crate) fn packaging() -> Result<()> {
    packages(&["binutils", "dpkg-dev", "gzip"])
}

/// Installs what trying the Debian package out needs.
pub(crate) fn containers() -> Result<()> {
    packages(&["debootstrap", "systemd-container"])
}

/// Installs what making and running a container image needs.
pub(crate) fn images() -> Result<()> {
    packages(&["binutils", "buildah", "debootstrap"])
}

/// Installs what building the User-Mode Linux kernel needs.
pub(crate) fn uml() -> Result<()> {
    packages(UML)
}

/// Installs what fetching a Python wheel needs.
pub(crate) fn python() -> Result<()> {
    packages(&["python3", "python3-pip"])
}

/// A libclang that the bindings generator can live with: a package where the
/// distribution has one, else a Python wheel in the cache.
fn libclang() -> Result<()> {
    for package in ["libclang-14-dev", "libclang-15-dev"] {
        if installable(package)? {
            return packages(&[package]);
        }
    }
    python()?;
    println!("fetching libclang 14 as a Python wheel into the cache");
    build::fetch_libclang()
}

/// Installs those of `wanted` that are missing.
fn packages(wanted: &[&str]) -> Result<()> {
    if !Path::new("/usr/bin/apt-get").exists() {
        bail!(
            "this is no Debian-like system: install what these Debian packages hold: {}",
            wanted.join(" ")
        );
    }
    let mut missing = Vec::new();
    for package in wanted {
        if !installed(package)? {
            missing.push(*package);
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    if !is_root()? {
        bail!(
            "packages are missing; run: sudo apt-get install --no-install-recommends {}",
            missing.join(" ")
        );
    }
    println!("installing {}", missing.join(" "));
    run_quiet(Command::new("apt-get").args(["-q", "update"]))?;
    run_quiet(
        Command::new("apt-get")
            .env("DEBIAN_FRONTEND", "noninteractive")
            .args(["-q", "-y", "-o", "DPkg::Lock::Timeout=600", "install"])
            .arg("--no-install-recommends")
            .args(&missing),
    )?;
    Ok(())
}

/// Whether a package is installed, also by another that provides it.
fn installed(package: &str) -> Result<bool> {
    let state = capture(Command::new("dpkg-query").args(["-W", "-f=${Status}\n", package]))?;
    Ok(state.stdout.contains("install ok installed"))
}

/// Whether apt has a version of a package to offer.
fn installable(package: &str) -> Result<bool> {
    let policy = capture(Command::new("apt-cache").args(["policy", package]))?;
    Ok(policy
        .stdout
        .lines()
        .any(|line| line.trim().starts_with("Candidate:") && !line.contains("(none)")))
}

/// Whether this process may install packages.
pub(crate) fn is_root() -> Result<bool> {
    Ok(run_quiet(Command::new("id").arg("-u"))?.trim() == "0")
}
