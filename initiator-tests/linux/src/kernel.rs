//! Stock distribution kernels, fetched as packages and unpacked into the cache
//! folder: an ELF kernel, and its modules uncompressed so that an emulated
//! guest need not decompress them.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, bail};

use crate::apt::Archive;
use crate::cache;
use crate::command::run_quiet;

/// How long an answer to "newest" is kept.
const NEWEST_FRESH: Duration = Duration::from_secs(7 * 24 * 3600);

/// An unpacked kernel.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// As `uname -r` gives it.
    pub release: String,
    /// Folder with `vmlinux` and `lib/modules/<release>`.
    pub dir: PathBuf,
}

impl Kernel {
    /// The kernel for a choice as given on the command line: `distro` (what the
    /// distribution's own kernel package depends on), `newest` (the newest that
    /// any suite of the archive has) or the beginning of a version (`6.1`).
    /// A version that is already in the cache is used without asking apt.
    ///
    /// # Errors
    /// When no package matches, or it cannot be fetched or unpacked.
    pub fn get(choice: &str) -> Result<Self> {
        let store = cache::subfolder("kernels")?;
        if let Some(release) = cached(&store, choice)? {
            return Ok(Self::at(&store, release));
        }
        let (archive, release) = match choice {
            "distro" => (Archive::System, distro_release()?),
            "newest" => newest_release("")?,
            version => match best(releases(&Archive::System)?, version) {
                Some(release) => (Archive::System, release),
                None => newest_release(version)?,
            },
        };
        if !store.join(&release).exists() {
            fetch(&archive, &release, &store)?;
        }
        if matches!(choice, "distro" | "newest") {
            fs::write(store.join(format!(".{choice}")), &release)?;
        }
        Ok(Self::at(&store, release))
    }

    fn at(store: &Path, release: String) -> Self {
        let dir = store.join(&release);
        Self { release, dir }
    }

    /// Files that must be inserted, in this order, to load `modules`; those
    /// built into the kernel need none.
    ///
    /// # Errors
    /// When a module is neither a file nor built in.
    pub fn load_order(&self, modules: &[&str]) -> Result<Vec<PathBuf>> {
        let mut files: Vec<PathBuf> = Vec::new();
        for module in modules {
            let out = run_quiet(
                Command::new("modprobe")
                    .arg("-d")
                    .arg(&self.dir)
                    .args(["-S", &self.release, "--ignore-install", "--show-depends"])
                    .arg(module),
            )
            .with_context(|| format!("kernel {} has no module {module}", self.release))?;
            for line in out.lines() {
                if let Some(path) = line.strip_prefix("insmod ") {
                    let path = PathBuf::from(path.trim());
                    if !files.contains(&path) {
                        files.push(path);
                    }
                }
            }
        }
        Ok(files)
    }
}

/// A release in the cache that answers `choice` without asking apt.
fn cached(store: &Path, choice: &str) -> Result<Option<String>> {
    if matches!(choice, "distro" | "newest") {
        let note = store.join(format!(".{choice}"));
        let fresh = fs::metadata(&note)
            .and_then(|m| m.modified())
            .is_ok_and(|t| SystemTime::now().duration_since(t).unwrap_or_default() < NEWEST_FRESH);
        let release = fs::read_to_string(&note).unwrap_or_default();
        return Ok(
            (fresh && !release.is_empty() && store.join(&release).exists()).then_some(release)
        );
    }
    let names = fs::read_dir(store)?
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| !name.starts_with('.'))
        .collect();
    Ok(best(names, choice))
}

/// The release that the distribution's kernel metapackage points to.
fn distro_release() -> Result<String> {
    for package in ["linux-image-amd64", "linux-image-generic"] {
        let depends = Archive::System.depends(package).unwrap_or_default();
        if let Some(release) = depends.iter().find_map(|name| name.strip_prefix("linux-image-")) {
            return Ok(release.to_owned());
        }
    }
    bail!("apt knows no kernel package of this distribution: run `apt-get update` first")
}

/// The newest release beginning with `version` that other suites have.
fn newest_release(version: &str) -> Result<(Archive, String)> {
    let archive = Archive::newer()?;
    let release = best(releases(&archive)?, version)
        .with_context(|| format!("no suite has a kernel {version}"))?;
    Ok((archive, release))
}

/// All stock kernel releases of an archive for this architecture.
fn releases(archive: &Archive) -> Result<Vec<String>> {
    let names = archive.names("^linux-(image|binary)-[0-9][^ ]*-(amd64|generic)$")?;
    Ok(names
        .iter()
        .filter_map(|name| {
            name.strip_prefix("linux-image-").or_else(|| name.strip_prefix("linux-binary-"))
        })
        .filter(|release| {
            !["rt-", "cloud-", "rc", "unsigned"].iter().any(|word| release.contains(word))
        })
        .map(str::to_owned)
        .collect())
}

/// The highest of `releases` whose version begins with `version`, at a boundary
/// between numbers: "6.1" does not mean 6.12.
fn best(releases: Vec<String>, version: &str) -> Option<String> {
    releases
        .into_iter()
        .filter(|release| {
            release.strip_prefix(version).is_some_and(|rest| {
                version.is_empty() || !rest.starts_with(|c: char| c.is_ascii_digit())
            })
        })
        .max_by_key(|release| numbers(release))
}

/// The numbers in a release, for comparing: "6.12.9+deb13-amd64" is [6, 12, 9, 13, 64].
fn numbers(release: &str) -> Vec<u64> {
    release.split(|c: char| !c.is_ascii_digit()).filter_map(|part| part.parse().ok()).collect()
}

/// Downloads the packages of one release and unpacks them into `store/release`.
fn fetch(archive: &Archive, release: &str, store: &Path) -> Result<()> {
    let work = store.join(format!(".new-{}", std::process::id()));
    let root = work.join("root");
    fs::create_dir_all(&root)?;
    let packages: Vec<String> = ["image", "binary", "base", "modules", "modules-extra"]
        .iter()
        .map(|part| format!("linux-{part}-{release}"))
        .collect();
    if archive.download(&packages, &work)? == 0 {
        bail!("no package of kernel {release} could be downloaded");
    }
    for entry in fs::read_dir(&work)?.flatten() {
        if entry.path().extension() == Some(OsStr::new("deb")) {
            run_quiet(Command::new("dpkg-deb").arg("-x").arg(entry.path()).arg(&root))?;
        }
    }
    let done = work.join("done");
    fs::create_dir_all(done.join("lib/modules"))?;
    let modules = ["lib/modules", "usr/lib/modules"]
        .map(|dir| root.join(dir).join(release))
        .into_iter()
        .find(|dir| dir.join("kernel").exists())
        .with_context(|| format!("the packages of {release} hold no modules"))?;
    fs::rename(&modules, done.join("lib/modules").join(release))?;
    decompress_modules(&done.join("lib/modules").join(release))?;
    run_quiet(Command::new("depmod").arg("-b").arg(&done).arg(release))?;
    // Newer packages keep the image beside the modules.
    let image = [
        root.join("boot").join(format!("vmlinuz-{release}")),
        done.join("lib/modules").join(release).join("vmlinuz"),
    ]
    .iter()
    .find_map(|path| fs::read(path).ok())
    .with_context(|| format!("the packages of {release} hold no kernel image"))?;
    fs::write(done.join("vmlinux"), elf_of(&image, &work)?)?;
    // Another run may have put the same release there meanwhile: as good as ours.
    if fs::rename(&done, store.join(release)).is_err() && !store.join(release).exists() {
        bail!("cannot move the kernel into {}", store.display());
    }
    fs::remove_dir_all(&work)?;
    Ok(())
}

fn decompress_modules(dir: &Path) -> Result<()> {
    for (pattern, tool, flags) in
        [("*.ko.xz", "xz", &["-d"][..]), ("*.ko.zst", "zstd", &["-q", "-d", "--rm"][..])]
    {
        run_quiet(
            Command::new("find")
                .arg(dir)
                .args(["-name", pattern, "-exec", tool])
                .args(flags)
                .args(["{}", "+"]),
        )?;
    }
    Ok(())
}

/// The ELF kernel inside a bzImage. QEMU starts it directly, which spares an
/// emulated guest the decompression. Offsets are those of the x86 boot protocol
/// (Documentation/arch/x86/boot.rst of Linux: setup_sects, payload_offset,
/// payload_length); the payload ends with four bytes that hold its plain size.
fn elf_of(image: &[u8], work: &Path) -> Result<Vec<u8>> {
    let word = |at: usize| -> Result<usize> {
        let bytes = image.get(at..at + 4).context("the kernel image is too short")?;
        Ok(u32::from_le_bytes(bytes.try_into()?) as usize)
    };
    let setup_sectors = match image.get(0x1f1) {
        Some(0) => 4,
        Some(n) => usize::from(*n),
        None => bail!("the kernel image is too short"),
    };
    let start = (setup_sectors + 1) * 512 + word(0x248)?;
    let payload = image
        .get(start..(start + word(0x24c)?).saturating_sub(4))
        .context("the kernel image's payload lies outside of it")?;
    let tool = match payload {
        [0xfd, b'7', b'z', b'X', b'Z', ..] => "xz",
        [0x28, 0xb5, 0x2f, 0xfd, ..] => "zstd",
        [0x1f, 0x8b, ..] => "gzip",
        _ => bail!("the kernel image is compressed in a way not known here"),
    };
    let packed = work.join("payload");
    fs::write(&packed, payload)?;
    let out = Command::new(tool)
        .arg("-dc")
        .stdin(fs::File::open(&packed)?)
        .stderr(Stdio::null())
        .output()
        .with_context(|| format!("cannot start {tool}"))?;
    if !out.stdout.starts_with(b"\x7fELF") {
        bail!("{tool} gave no ELF kernel");
    }
    Ok(out.stdout)
}

#[cfg(test)]
mod tests {
    use super::{best, numbers};

    fn list(names: &[&str]) -> Vec<String> {
        names.iter().map(|&n| n.to_owned()).collect()
    }

    #[test]
    fn versions_compare_by_number_not_by_letter() {
        let all = list(&["6.9.1-amd64", "6.12.9+deb13-amd64", "6.12.10+deb13-amd64"]);
        assert_eq!(best(all, "").as_deref(), Some("6.12.10+deb13-amd64"));
        assert_eq!(numbers("6.12.9+deb13-amd64"), [6, 12, 9, 13, 64]);
    }

    #[test]
    fn a_version_prefix_ends_at_a_number_boundary() {
        let all = list(&["6.12.9-amd64", "6.1.0-57-amd64"]);
        assert_eq!(best(all.clone(), "6.1").as_deref(), Some("6.1.0-57-amd64"));
        assert_eq!(best(all, "5"), None);
    }
}
