//! nvme-cli of a newer release than the system has: fetched with the libraries it needs into the
//! cache folder, and started with those, so that nothing of the system is replaced.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::apt::Archive;
use crate::cache;
use crate::command::run_quiet;

/// A program named `nvme`: the newest nvme-cli that any suite of the archive has.
///
/// # Errors
/// On a distribution that is not Debian, or when it cannot be fetched or unpacked.
pub fn newest() -> Result<PathBuf> {
    let archive = Archive::newer()?;
    let version = archive.candidate("nvme-cli")?;
    let home = cache::subfolder("nvme-cli")?.join(&version);
    let program = home.join("nvme");
    if program.exists() {
        return Ok(program);
    }
    let work = home.with_extension(format!("new-{}", std::process::id()));
    fs::create_dir_all(&work)?;
    for package in archive.download_with_depends("nvme-cli", &work)? {
        run_quiet(Command::new("dpkg-deb").arg("-x").arg(&package).arg(&work))?;
        fs::remove_file(&package)?;
    }
    let starter = starter(&work, &home)?;
    fs::write(work.join("nvme"), starter)?;
    fs::set_permissions(work.join("nvme"), fs::Permissions::from_mode(0o755))?;
    // Another run may have put the same version there meanwhile: as good as ours.
    if fs::rename(&work, &home).is_err() && !program.exists() {
        bail!("cannot move nvme-cli into {}", home.display());
    }
    Ok(program)
}

/// A script that starts what was unpacked in `work`, once that is at `home`, with the dynamic
/// loader and the libraries that came with it.
fn starter(work: &Path, home: &Path) -> Result<String> {
    let libraries = entries(&work.join("usr/lib"))?
        .into_iter()
        .find(|path| path.to_string_lossy().ends_with("-linux-gnu"))
        .context("nvme-cli's packages hold no folder of libraries")?;
    let loader = entries(&libraries)?
        .into_iter()
        .find(|path| path.file_name().is_some_and(is_loader))
        .context("nvme-cli's packages hold no dynamic loader")?;
    let moved = |path: &Path| -> Result<String> {
        Ok(home.join(path.strip_prefix(work)?).display().to_string())
    };
    let (loader, libraries) = (moved(&loader)?, moved(&libraries)?);
    let program = home.join("usr/sbin/nvme").display().to_string();
    Ok(format!(
        "#!/bin/sh\nexec {loader} --library-path {libraries}:{libraries}/systemd {program} \"$@\"\n"
    ))
}

fn is_loader(name: &OsStr) -> bool {
    name.to_string_lossy().starts_with("ld-linux-")
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let read = fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let mut paths: Vec<PathBuf> = read.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    Ok(paths)
}
