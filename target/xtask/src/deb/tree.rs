//! What is in the package, and where.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use linux_host::run_quiet;

use crate::native::Programs;
use crate::{build, sbom};

/// Files as they are in the repository.
const FILES: [(&str, &str); 9] = [
    ("config/nvmfd.service", "usr/lib/systemd/system/nvmfd.service"),
    ("config/package/sysusers.conf", "usr/lib/sysusers.d/nvmfd.conf"),
    ("config/package/tmpfiles.conf", "usr/lib/tmpfiles.d/nvmfd.conf"),
    ("README.md", "usr/share/doc/nvmfd/README.md"),
    ("config/Containerfile", "usr/share/doc/nvmfd/config/Containerfile"),
    ("config/nvmfd.toml", "usr/share/doc/nvmfd/config/nvmfd.toml"),
    ("config/monitoring/alerts.yml", "usr/share/doc/nvmfd/config/monitoring/alerts.yml"),
    ("config/monitoring/grafana.json", "usr/share/doc/nvmfd/config/monitoring/grafana.json"),
    ("kernel-setup/README.md", "usr/lib/nvmfd/kernel-setup/README.md"),
];

/// Folders of files with these endings.
const FOLDERS: [(&str, &str, &[&str]); 3] = [
    ("docs", "usr/share/doc/nvmfd/docs", &["md", "json", "png", "svg"]),
    ("config/examples", "usr/share/doc/nvmfd/config/examples", &["toml", "md"]),
    ("kernel-setup", "usr/lib/nvmfd/kernel-setup", &["sh"]),
];

/// Where shells look for what completes commands.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "usr/share/bash-completion/completions/nvmfd"),
    ("zsh", "usr/share/zsh/vendor-completions/_nvmfd"),
    ("fish", "usr/share/fish/vendor_completions.d/nvmfd.fish"),
];

/// Makes the folder `tree` with all files of the package.
pub(super) fn lay_out(programs: &Programs, tree: &Path) -> Result<()> {
    let root = build::root()?;
    for (program, name) in [(&programs.daemon, "nvmfd"), (&programs.host, "nvmf-host")] {
        let there = tree.join("usr/bin").join(name);
        put(program, &there, 0o755)?;
        run_quiet(Command::new("strip").arg("--strip-unneeded").arg(&there))?;
    }
    for (from, to) in FILES {
        put(&root.join(from), &tree.join(to), 0o644)?;
    }
    for (from, to, endings) in FOLDERS {
        put_folder(&root.join(from), &tree.join(to), endings)?;
    }
    let mit = fs::read_to_string(root.join("LICENSE-MIT"))?;
    let mit: Vec<&str> = mit.lines().skip_while(|line| !line.starts_with("Permission")).collect();
    let mit =
        mit.iter().map(|line| if line.is_empty() { " .".to_owned() } else { format!(" {line}") });
    let copyright = fs::read_to_string(root.join("config/package/copyright"))?
        .replace("@mit@", &mit.collect::<Vec<_>>().join("\n"));
    write(&tree.join("usr/share/doc/nvmfd/copyright"), copyright.as_bytes())?;
    write(&tree.join("usr/share/doc/nvmfd/nvmfd.cdx.json"), sbom::text()?.as_bytes())?;
    made_by_the_programs(programs, tree)
}

/// Manual pages and completions, which the programs' own command lines are the source of.
fn made_by_the_programs(programs: &Programs, tree: &Path) -> Result<()> {
    let daemon = &programs.daemon;
    let pages = tree.join("usr/share/man/man1");
    fs::create_dir_all(&pages)?;
    for program in [daemon, &programs.host] {
        run_quiet(Command::new(program).arg("man").arg(&pages))?;
    }
    let pages: Vec<_> =
        fs::read_dir(&pages)?.map(|page| Ok(page?.path())).collect::<Result<_>>()?;
    run_quiet(Command::new("gzip").args(["-9", "-n"]).args(&pages))?;
    for (shell, path) in COMPLETIONS {
        let script = run_quiet(Command::new(daemon).args(["completions", shell]))?;
        write(&tree.join(path), script.as_bytes())?;
    }
    Ok(())
}

fn put_folder(from: &Path, to: &Path, endings: &[&str]) -> Result<()> {
    let entries = fs::read_dir(from).with_context(|| format!("cannot list {}", from.display()))?;
    for entry in entries {
        let path = entry?.path();
        let to = to.join(path.file_name().context("a file's name")?);
        let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
        if path.is_dir() {
            put_folder(&path, &to, endings)?;
        } else if endings.contains(&ending) {
            put(&path, &to, if ending == "sh" { 0o755 } else { 0o644 })?;
        }
    }
    Ok(())
}

/// Copies a file, with its folders and these permissions.
pub(super) fn put(from: &Path, to: &Path, mode: u32) -> Result<()> {
    let bytes = fs::read(from).with_context(|| format!("cannot read {}", from.display()))?;
    write(to, &bytes)?;
    fs::set_permissions(to, Permissions::from_mode(mode))?;
    Ok(())
}

fn write(to: &Path, bytes: &[u8]) -> Result<()> {
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(to, bytes).with_context(|| format!("cannot write {}", to.display()))?;
    fs::set_permissions(to, Permissions::from_mode(0o644))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_package_holds_is_in_the_repository() {
        let root = build::root().unwrap();
        for (from, _) in FILES {
            assert!(root.join(from).is_file(), "{from}");
        }
        let folder = std::env::temp_dir().join(format!("nvmfd-package-{}", std::process::id()));
        for (from, to, endings) in FOLDERS {
            put_folder(&root.join(from), &folder.join(to), endings).unwrap();
            assert!(fs::read_dir(folder.join(to)).unwrap().count() > 1, "{from}");
        }
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn the_unit_starts_the_program_where_the_package_puts_it() {
        let unit = fs::read_to_string(build::root().unwrap().join("config/nvmfd.service")).unwrap();
        let started = unit.lines().filter_map(|line| line.strip_prefix("Exec")?.split_once('='));
        let programs: Vec<&str> =
            started.map(|(_, line)| line.split(' ').next().unwrap()).collect();
        assert_eq!(programs, ["/usr/bin/nvmfd"; 3]);
    }
}
