//! The User-Mode Linux kernel: built once from the distribution's kernel
//! sources with `uml.config`, and kept in the cache.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::apt::Archive;
use crate::cache;
use crate::command::run_quiet;

/// The kernel to use, if there is one: `$UML_KERNEL`, else the one in the cache.
///
/// # Errors
/// When `$UML_KERNEL` names no file, or there is no cache folder.
pub fn find() -> Result<Option<PathBuf>> {
    if let Some(path) = env::var_os("UML_KERNEL").filter(|v| !v.is_empty()) {
        let path = PathBuf::from(path);
        if !path.is_file() {
            bail!("UML_KERNEL={} is no file", path.display());
        }
        return Ok(Some(path.canonicalize()?));
    }
    let path = cache::folder()?.join("uml/linux");
    Ok(path.is_file().then_some(path))
}

/// Builds the kernel into the cache with `config` (a fragment over the
/// architecture's default) and returns its path. Takes about seven
/// processor-minutes and 2.5 GB while it runs.
///
/// # Errors
/// When sources cannot be fetched, or the build fails; its log is then beside
/// the sources in the cache.
pub fn build(config: &Path) -> Result<PathBuf> {
    let dir = cache::subfolder("uml")?;
    let work = dir.join("build");
    fs::create_dir_all(&work)?;
    let source = work.join("source");
    if !source.join("Makefile").exists() {
        unpack(&work, &source)?;
    }
    let make = |targets: &[&str]| {
        let mut command = Command::new("make");
        command
            .arg("-s")
            .arg("-C")
            .arg(&source)
            .args(["ARCH=um", &format!("O={}", work.join("output").display())])
            .args(targets);
        command
    };
    run_quiet(&mut make(&["defconfig"]))?;
    let output = work.join("output");
    run_quiet(
        Command::new(source.join("scripts/kconfig/merge_config.sh"))
            .args(["-m", "-O"])
            .arg(&output)
            .arg(output.join(".config"))
            .arg(config),
    )?;
    run_quiet(&mut make(&["olddefconfig"]))?;
    check(config, &output.join(".config"))?;
    let jobs = format!("-j{}", std::thread::available_parallelism()?);
    run_quiet(&mut make(&[&jobs, "linux"]))?;
    let built = dir.join("linux.new");
    run_quiet(Command::new("strip").arg("-o").arg(&built).arg(output.join("linux")))?;
    let kernel = dir.join("linux");
    fs::rename(&built, &kernel)?;
    fs::remove_dir_all(&work)?;
    Ok(kernel)
}

/// Fetches the newest kernel sources that can be had and unpacks them.
fn unpack(work: &Path, source: &Path) -> Result<()> {
    let archive = Archive::newer().unwrap_or(Archive::System);
    let package = archive
        .names("^linux-source-[0-9.]+$")?
        .into_iter()
        .max_by_key(|name| {
            name.trim_start_matches("linux-source-")
                .split('.')
                .map(|part| part.parse::<u32>().unwrap_or(0))
                .collect::<Vec<_>>()
        })
        .context("no package with kernel sources is known to apt")?;
    archive.download(&[package], work)?;
    let deb = fs::read_dir(work)?
        .flatten()
        .map(|entry| entry.path())
        .find(|path| path.extension() == Some(OsStr::new("deb")))
        .context("the package with kernel sources did not come")?;
    let root = work.join("package");
    run_quiet(Command::new("dpkg-deb").arg("-x").arg(&deb).arg(&root))?;
    let tar = fs::read_dir(root.join("usr/src"))?
        .flatten()
        .map(|entry| entry.path())
        .find(|path| path.to_string_lossy().contains(".tar"))
        .context("the package holds no sources")?;
    fs::create_dir_all(source)?;
    run_quiet(
        Command::new("tar").arg("xf").arg(&tar).args(["--strip-components=1", "-C"]).arg(source),
    )?;
    fs::remove_dir_all(&root)?;
    fs::remove_file(&deb)?;
    Ok(())
}

/// Every option asked for must have survived: one that a dependency switched
/// off would show only as a case that fails much later.
fn check(config: &Path, result: &Path) -> Result<()> {
    let result = fs::read_to_string(result)?;
    let lost: Vec<String> = fs::read_to_string(config)?
        .lines()
        .filter(|line| line.starts_with("CONFIG_") && !line.ends_with("=n"))
        .filter(|line| !result.lines().any(|have| have == *line))
        .map(str::to_owned)
        .collect();
    if !lost.is_empty() {
        bail!("these options did not survive: {}", lost.join(" "));
    }
    Ok(())
}
