//! `deb`: the Debian package, and the proof that it comes and goes cleanly.
//!
//! The package is laid out here and put together by `dpkg-deb`; what it consists of is listed in
//! [`tree`], the texts are in `config/package`. [`check`] installs it in a fresh Debian 12.

mod check;
mod tree;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use clap::Args;
use linux_host::run_quiet;

use self::check::Verdict;
use crate::native::Programs;
use crate::{build, setup};

#[derive(Args)]
pub(crate) struct DebArgs {
    /// Install the package in a fresh Debian 12, use it, remove it and purge it. For root.
    #[arg(long)]
    check: bool,
    /// A folder with nvmfd and nvmf-host that are built already.
    #[arg(long, value_name = "FOLDER")]
    programs: Option<PathBuf>,
}

/// `cargo xtask deb`
pub(crate) fn run(args: &DebArgs) -> Result<bool> {
    let package = package(args.programs.as_deref())?;
    if !args.check {
        return Ok(true);
    }
    match check::run(&package)? {
        Verdict::Tried(good) => Ok(good),
        Verdict::CannotTry(why) => bail!("{why}"),
    }
}

/// For `cargo xtask test`: makes the package and tries it out, where that can be done.
pub(crate) fn test() -> Result<Option<bool>> {
    if !setup::is_root()? {
        println!("not root: the Debian package is NOT made and tried out");
        return Ok(None);
    }
    match check::run(&package(None)?)? {
        Verdict::Tried(good) => Ok(Some(good)),
        Verdict::CannotTry(why) => {
            println!("the Debian package was made, and NOT tried out: {why}");
            Ok(None)
        }
    }
}

/// Makes the package of programs that are built already, or of new ones, and says where it is.
fn package(programs: Option<&Path>) -> Result<PathBuf> {
    let programs = match programs {
        Some(folder) => {
            let folder = fs::canonicalize(folder)
                .with_context(|| format!("there is no folder {}", folder.display()))?;
            Programs { daemon: folder.join("nvmfd"), host: folder.join("nvmf-host") }
        }
        None => Programs::build()?,
    };
    let package = make(&programs)?;
    println!("{}", package.display());
    Ok(package)
}

/// Puts the package together and says where it is.
fn make(programs: &Programs) -> Result<PathBuf> {
    setup::packaging()?;
    let folder = build::output()?.join("package");
    let tree = folder.join("tree");
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    tree::lay_out(programs, &tree)?;
    let dpkg = run_quiet(Command::new("dpkg").arg("--print-architecture"))?;
    let architecture = dpkg.trim();
    let version = format!("{}-1", env!("CARGO_PKG_VERSION"));
    control(&tree, architecture, &version)?;
    let package = folder.join(format!("nvmfd_{version}_{architecture}.deb"));
    // The same files give the same package, whenever it is made.
    run_quiet(
        Command::new("dpkg-deb")
            .args(["--root-owner-group", "--build", "-Zxz"])
            .args([&tree, &package])
            .env("SOURCE_DATE_EPOCH", commit_time()?),
    )?;
    Ok(package)
}

/// Seconds since 1970 of the commit that is checked out.
fn commit_time() -> Result<String> {
    let git = Command::new("git")
        .args(["log", "-1", "--format=%ct"])
        .current_dir(build::root()?)
        .output();
    let said = git.ok().filter(|output| output.status.success());
    Ok(said.map_or_else(
        || "0".to_owned(),
        |out| String::from_utf8_lossy(&out.stdout).trim().to_owned(),
    ))
}

/// The part of the package that is for dpkg.
fn control(tree: &Path, architecture: &str, version: &str) -> Result<()> {
    let texts = build::root()?.join("config/package");
    let folder = tree.join("DEBIAN");
    fs::create_dir_all(&folder)?;
    let size = run_quiet(Command::new("du").args(["-sk", "--exclude=DEBIAN"]).arg(tree))?;
    let size = size.split_whitespace().next().unwrap_or("0").to_owned();
    let text = fs::read_to_string(texts.join("control"))?
        .replace("@version@", version)
        .replace("@architecture@", architecture)
        .replace("@size@", &size)
        .replace("@depends@", &libraries(tree)?);
    fs::write(folder.join("control"), text)?;
    for script in ["postinst", "prerm", "postrm"] {
        tree::put(&texts.join(script), &folder.join(script), 0o755)?;
    }
    Ok(())
}

/// The packages with the libraries that the programs are linked with.
fn libraries(tree: &Path) -> Result<String> {
    // dpkg-shlibdeps looks for the source package that it is part of.
    let work = tree.with_file_name("shlibdeps");
    fs::create_dir_all(work.join("debian"))?;
    fs::write(work.join("debian/control"), "Source: nvmfd\n\nPackage: nvmfd\nArchitecture: any\n")?;
    let said = run_quiet(
        Command::new("dpkg-shlibdeps")
            .args(["-O", "--warnings=0"])
            .args(
                ["nvmfd", "nvmf-host"]
                    .map(|name| format!("-e{}", tree.join("usr/bin").join(name).display())),
            )
            .current_dir(&work),
    )?;
    let depends = said.trim().strip_prefix("shlibs:Depends=").unwrap_or_default();
    Ok(depends.to_owned())
}
