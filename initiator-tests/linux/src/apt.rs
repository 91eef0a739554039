//! Two views of the package archive: the system's own, and one of newer suites
//! with sources, lists and downloads in the cache folder, so that looking for a
//! newer kernel or nvme-cli never changes what the system would install.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, bail};

use crate::cache;
use crate::command::{capture, run_quiet};

/// Suites of the second view, by role so that they need no care at a release.
const SUITES: [&str; 5] = ["oldstable", "stable", "stable-updates", "stable-backports", "unstable"];

/// Lists older than this are fetched again before "newest" is answered.
const LISTS_FRESH: Duration = Duration::from_secs(7 * 24 * 3600);

/// Which view of the archive to ask.
#[derive(Clone, Debug)]
pub enum Archive {
    /// The system's configured sources.
    System,
    /// Debian's other suites; the path is the root of its own state.
    Newer(PathBuf),
}

impl Archive {
    /// The view of newer suites, its lists fetched when missing or older than a week.
    ///
    /// # Errors
    /// On a distribution that is not Debian, where no mirror can be found in
    /// the system's sources, or when the lists cannot be fetched.
    pub fn newer() -> Result<Self> {
        if os_release("ID")?.as_deref() != Some("debian") {
            bail!(
                "packages of other suites are known for Debian only; use those of the distribution"
            );
        }
        let root = cache::subfolder("apt")?;
        for dir in ["etc", "lists/partial", "archives/partial"] {
            fs::create_dir_all(root.join(dir))?;
        }
        let mirror = mirror()?;
        let sources: String = SUITES
            .iter()
            .map(|suite| {
                format!(
                    "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] {mirror} {suite} main\n"
                )
            })
            .collect();
        fs::write(root.join("etc/sources.list"), sources)?;
        let archive = Self::Newer(root.clone());
        let stamp = root.join("updated");
        let fresh = fs::metadata(&stamp)
            .and_then(|m| m.modified())
            .is_ok_and(|t| SystemTime::now().duration_since(t).unwrap_or_default() < LISTS_FRESH);
        if !fresh {
            run_quiet(archive.command("apt-get").args(["-q", "update"]))
                .context("cannot fetch the lists of newer suites")?;
            fs::write(&stamp, "")?;
        }
        Ok(archive)
    }

    /// An apt program (`apt-get` or `apt-cache`) set up for this view.
    pub fn command(&self, tool: &str) -> Command {
        match self {
            Self::System => Command::new(tool),
            Self::Newer(root) => {
                // One at a time: apt fails at once when its lists are locked.
                let mut command = Command::new("flock");
                command.arg(root.join("lock")).arg(tool);
                let option = |name: &str, value: &Path| format!("{name}={}", value.display());
                for setting in [
                    option("Dir::Etc::sourcelist", &root.join("etc/sources.list")),
                    option("Dir::Etc::sourceparts", Path::new("/dev/null")),
                    option("Dir::Etc::preferencesparts", Path::new("/dev/null")),
                    option("Dir::State::lists", &root.join("lists")),
                    option("Dir::State::status", Path::new("/dev/null")),
                    option("Dir::Cache", root),
                    option("Dir::Cache::archives", &root.join("archives")),
                    "APT::Sandbox::User=root".to_owned(),
                ] {
                    command.arg("-o").arg(setting);
                }
                command
            }
        }
    }

    /// Names of packages matching `pattern` (apt's regular expressions).
    ///
    /// # Errors
    /// When apt-cache fails.
    pub fn names(&self, pattern: &str) -> Result<Vec<String>> {
        let found = run_quiet(self.command("apt-cache").args(["search", "--names-only", pattern]))?;
        Ok(found
            .lines()
            .filter_map(|line| line.split_whitespace().next())
            .map(str::to_owned)
            .collect())
    }

    /// Names of the packages that `package` depends on directly.
    ///
    /// # Errors
    /// When apt-cache knows no such package.
    pub fn depends(&self, package: &str) -> Result<Vec<String>> {
        let found = run_quiet(self.command("apt-cache").args(["depends", package]))?;
        Ok(found
            .lines()
            .filter_map(|line| line.trim().strip_prefix("Depends: "))
            .map(str::to_owned)
            .collect())
    }

    /// The version of `package` that would be installed.
    ///
    /// # Errors
    /// When there is none.
    pub fn candidate(&self, package: &str) -> Result<String> {
        let told = run_quiet(self.command("apt-cache").args(["policy", package]))?;
        told.lines()
            .filter_map(|line| line.trim().strip_prefix("Candidate: "))
            .find(|version| *version != "(none)")
            .map(str::to_owned)
            .with_context(|| format!("no suite has the package {package}"))
    }

    /// Downloads `package` and all that it depends on, as if nothing were installed, into the empty
    /// folder `dir`; returns the files. For [`Archive::Newer`].
    ///
    /// # Errors
    /// When it cannot be fetched.
    pub fn download_with_depends(&self, package: &str, dir: &Path) -> Result<Vec<PathBuf>> {
        let archives = dir.join("archives");
        fs::create_dir_all(archives.join("partial"))?;
        run_quiet(
            self.command("apt-get")
                .arg("-o")
                .arg(format!("Dir::Cache::archives={}", archives.display()))
                .args(["-q", "-y", "--no-install-recommends", "--download-only", "install"])
                .arg(package),
        )?;
        let files = fs::read_dir(&archives)?.flatten().map(|entry| entry.path());
        Ok(files.filter(|path| path.extension().is_some_and(|e| e == "deb")).collect())
    }

    /// Downloads those of `packages` that exist into `dir`; returns how many came.
    ///
    /// # Errors
    /// When a package exists but cannot be fetched.
    pub fn download(&self, packages: &[String], dir: &Path) -> Result<usize> {
        let mut count = 0;
        for package in packages {
            let known = capture(self.command("apt-cache").args(["show", package]))?;
            if !known.success || known.stdout.trim().is_empty() {
                continue;
            }
            run_quiet(self.command("apt-get").args(["-q", "download", package]).current_dir(dir))?;
            count += 1;
        }
        Ok(count)
    }
}

/// The value of `key` in /etc/os-release.
///
/// # Errors
/// When the file cannot be read.
pub fn os_release(key: &str) -> Result<Option<String>> {
    let text = fs::read_to_string("/etc/os-release").context("cannot read /etc/os-release")?;
    Ok(text.lines().find_map(|line| {
        let (name, value) = line.split_once('=')?;
        (name == key).then(|| value.trim_matches('"').to_owned())
    }))
}

/// The Debian mirror that the system's own sources name.
fn mirror() -> Result<String> {
    let mut files = vec![PathBuf::from("/etc/apt/sources.list")];
    if let Ok(dir) = fs::read_dir("/etc/apt/sources.list.d") {
        let mut more: Vec<PathBuf> = dir.flatten().map(|entry| entry.path()).collect();
        more.sort();
        files.extend(more);
    }
    files
        .iter()
        .filter_map(|file| fs::read_to_string(file).ok())
        .find_map(|text| mirror_in(&text))
        .context("found no Debian mirror in /etc/apt/sources.list or sources.list.d")
}

/// The first address in one source file whose path ends in `/debian`: other
/// archives (security, third parties) have no newer suites.
fn mirror_in(text: &str) -> Option<String> {
    text.lines()
        .filter(|line| line.starts_with("URIs:") || line.starts_with("deb "))
        .flat_map(str::split_whitespace)
        .find(|word| word.contains("://") && word.trim_end_matches('/').ends_with("/debian"))
        .map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::mirror_in;

    #[test]
    fn mirror_is_found_in_both_source_formats() {
        let deb822 = "Types: deb\nURIs: http://m.example/debian/\nSuites: a\n";
        assert_eq!(mirror_in(deb822).as_deref(), Some("http://m.example/debian/"));
        let oneline = "# x\ndeb [arch=amd64] http://m.example/debian a main\n";
        assert_eq!(mirror_in(oneline).as_deref(), Some("http://m.example/debian"));
    }

    #[test]
    fn security_and_third_party_archives_are_no_mirror() {
        let text = "deb http://m.example/debian-security a main\ndeb http://o.example/apt a main\n";
        assert_eq!(mirror_in(text), None);
    }
}
