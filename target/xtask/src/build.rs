//! Calling cargo: where the workspace is, where output goes, and the libclang
//! that the bindings generator of `rdma-sys` can live with.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use linux_host::{cache, run_quiet};

/// Versions of libclang that bindgen 0.59, which `rdma-sys` brings, works with:
/// from 16 on it panics on the types of current headers.
const LIBCLANG_FIT: [u32; 2] = [15, 14];
/// The Python wheel that carries such a libclang for distributions that no
/// longer package one.
const LIBCLANG_WHEEL: &str = "libclang==14.0.6";
/// Where the library lies in that wheel.
const LIBCLANG_IN_WHEEL: &str = "libclang-14.0.6.data/platlib/clang/native";

/// The root of the workspace: cargo sets this for `cargo xtask`.
pub(crate) fn root() -> Result<PathBuf> {
    let package = env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    package.ancestors().nth(2).map(Path::to_owned).context("xtask lies two folders below the root")
}

/// The build folder: `$CARGO_TARGET_DIR`, else what `.cargo/config.toml` says.
pub(crate) fn output() -> Result<PathBuf> {
    let dir = match env::var_os("CARGO_TARGET_DIR").filter(|v| !v.is_empty()) {
        Some(dir) => root()?.join(dir),
        None => root()?.join(".build"),
    };
    fs::create_dir_all(&dir)?;
    Ok(dir)
}

/// Cargo, in the root folder and with a libclang that fits, if one was found.
/// Never with `--manifest-path`: outside of this repository its settings do not
/// hold, and cargo would take the source folder `target/` for its output.
pub(crate) fn cargo() -> Result<Command> {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root()?).env("CARGO_TARGET_DIR", output()?);
    // Set by the outer `cargo run`; an inner cargo must find its own.
    command.env_remove("CARGO_MANIFEST_DIR");
    if env::var_os("LIBCLANG_PATH").is_none()
        && let Some(dir) = libclang()?
    {
        command.env("LIBCLANG_PATH", dir);
        // libclang alone has no headers of its own such as stddef.h.
        if env::var_os("BINDGEN_EXTRA_CLANG_ARGS").is_none() {
            let include = run_quiet(Command::new("gcc").arg("-print-file-name=include"))?;
            command.env("BINDGEN_EXTRA_CLANG_ARGS", format!("-I{}", include.trim()));
        }
    }
    Ok(command)
}

/// The folder of a libclang that fits, if there is one.
pub(crate) fn libclang() -> Result<Option<PathBuf>> {
    for version in LIBCLANG_FIT {
        let dir = PathBuf::from(format!("/usr/lib/llvm-{version}/lib"));
        if has_libclang(&dir) {
            return Ok(Some(dir));
        }
    }
    let dir = wheel_folder()?.join(LIBCLANG_IN_WHEEL);
    Ok(has_libclang(&dir).then_some(dir))
}

fn has_libclang(dir: &Path) -> bool {
    fs::read_dir(dir).is_ok_and(|entries| {
        entries.flatten().any(|entry| {
            entry.file_name().to_string_lossy().starts_with("libclang.so")
                || entry.file_name().to_string_lossy().starts_with("libclang-1")
        })
    })
}

fn wheel_folder() -> Result<PathBuf> {
    Ok(cache::folder()?.join("libclang-14.0.6"))
}

/// Fetches the Python wheel with libclang 14 into the cache.
pub(crate) fn fetch_libclang() -> Result<()> {
    let dir = wheel_folder()?;
    let work = dir.with_extension(format!("new-{}", std::process::id()));
    fetch_wheel(LIBCLANG_WHEEL, &work)?;
    if fs::rename(&work, &dir).is_err() {
        fs::remove_dir_all(&work)?;
    }
    if !has_libclang(&dir.join(LIBCLANG_IN_WHEEL)) {
        bail!("the wheel {LIBCLANG_WHEEL} holds no libclang.so");
    }
    Ok(())
}

/// Fetches a Python wheel and unpacks it into the folder `to`.
pub(crate) fn fetch_wheel(wheel: &str, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    run_quiet(
        Command::new("python3")
            .args(["-m", "pip", "download", "-q", "--no-deps", "-d"])
            .arg(to)
            .arg(wheel),
    )?;
    let file = fs::read_dir(to)?
        .flatten()
        .map(|entry| entry.path())
        .find(|path| path.extension().is_some_and(|e| e == "whl"))
        .context("pip brought no wheel")?;
    run_quiet(Command::new("python3").args(["-m", "zipfile", "-e"]).arg(&file).arg(to))?;
    fs::remove_file(&file)?;
    Ok(())
}

/// Packages with test programs that are called in a machine, and the programs.
const TEST_PROGRAMS: [(&str, &str); 2] =
    [("conformance", "conformance"), ("rdma-contract", "verbs-selftest")];

/// Builds test programs by name and returns where they are.
pub(crate) fn test_programs(names: &BTreeSet<String>) -> Result<Vec<PathBuf>> {
    let mut programs = Vec::new();
    for name in names {
        let known = TEST_PROGRAMS.iter().find(|(_, program)| program == name);
        let (package, _) = known.with_context(|| format!("no test program is named {name}"))?;
        println!("building {name}");
        let build = ["build", "--quiet", "--profile", "sim", "-p", package, "--bin", name];
        if !cargo()?.args(build).status()?.success() {
            bail!("{name} does not build; `cargo xtask setup` installs what that needs");
        }
        programs.push(output()?.join("sim").join(name));
    }
    Ok(programs)
}

/// Builds the daemon and returns its program.
pub(crate) fn daemon() -> Result<PathBuf> {
    println!("building nvmfd");
    let status = cargo()?.args(["build", "--quiet", "--release", "-p", "nvmfd"]).status()?;
    if !status.success() {
        bail!("nvmfd does not build; `cargo xtask setup` installs what that needs");
    }
    Ok(output()?.join("release/nvmfd"))
}
