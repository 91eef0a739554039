//! Disks that cannot be served, as an operator is told of them: by `nvmfd check` and by a start.

use crate::common::{Daemon, program};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A folder with a configuration in it.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Place {
        Place(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Writes a configuration of one subsystem with these disks, which begin on line 5.
    fn configure(&self, name: &str, disks: &str) -> PathBuf {
        let text = format!(
            "listener = [{{ address = \"127.0.0.1\", provider = \"soft\" }}]\n\
             control = {{ socket = \"{}\" }}\n\
             tuning = {{ data_cores = 1, memory = \"8MiB\", control_memory = \"8MiB\" }}\n\
             subsystem = [{{ nqn = \"nqn.2026-11.io.nvmfd:a\", allow_any_host = true, namespace = [\n\
             {disks}] }}]\n",
            self.path("a.sock").display()
        );
        let path = self.path(name);
        fs::write(&path, text).unwrap();
        path
    }

    /// What a command of the daemon with this file says, which must be that the file is at fault.
    fn refused(&self, command: &str, disks: &str) -> String {
        let config = self.configure("nvmfd.toml", disks);
        let Output { status, stderr, .. } = nvmfd(command, &config).output().unwrap();
        let said = String::from_utf8(stderr).unwrap();
        assert_ne!(status.code(), Some(0), "{command}: {disks} was taken");
        said
    }
}

fn nvmfd(command: &str, config: &Path) -> Command {
    let mut program = program();
    program.args([command, "--config"]).arg(config).stdin(Stdio::null());
    program
}

#[test]
fn a_disk_that_cannot_be_served_is_told_with_its_line_its_path_and_the_remedy() {
    let place = Place::new();
    let small = place.path("small");
    fs::write(&small, [0; 100]).unwrap();
    let large = place.path("large");
    fs::write(&large, [0; 8192]).unwrap();
    let missing = place.path("missing");
    let nowhere = place.path("no/where");
    let entry = |path: &Path, more: &str| format!("{{ path = \"{}\"{more} }}", path.display());
    for (disk, path, why) in [
        (entry(&missing, ""), &missing, "no such file or device; give a size"),
        (entry(&missing, ", size = 4096, read_only = true"), &missing, "no such file or device"),
        (entry(&nowhere, ", size = 4096"), &nowhere, "its folder must exist and be writable"),
        (entry(place.0.path(), ""), &place.0.path().to_owned(), "is a folder, neither a regular"),
        (entry(Path::new("/dev/null"), ""), &"/dev/null".into(), "is a character device, neither"),
        (entry(&small, ""), &small, "100 bytes are less than one block"),
        (entry(&large, ", size = 4096"), &large, "files are never cut: raise the size"),
        (
            format!("{},\n{}", entry(&missing, ", size = 4096"), entry(&small, "")),
            &small,
            "100 bytes are less than one block",
        ),
    ] {
        for command in ["check", "serve"] {
            let said = place.refused(command, &disk);
            let line = 5 + disk.matches('\n').count();
            let place = format!("nvmfd.toml:{line}: nqn.2026-11.io.nvmfd:a namespace ");
            assert!(said.contains(&place), "{command} {disk}: {said}");
            assert!(said.contains(&format!("{}: ", path.display())), "{command} {disk}: {said}");
            assert!(said.contains(why), "{command} {disk}: {said}");
        }
        // The first of two disks may be made before the second is found wrong.
        let _ = fs::remove_file(&missing);
    }
}

#[test]
fn a_second_daemon_on_the_same_disk_is_refused_unless_both_only_read() {
    let place = Place::new();
    let disk = place.path("disk");
    fs::write(&disk, [0; 4096]).unwrap();
    let namespace = |more: &str| {
        format!(
            "[[subsystem]]\nnqn = \"nqn.2026-11.io.nvmfd:b\"\nallow_any_host = true\n\
             namespace = [{{ path = \"{}\"{more} }}]\n",
            disk.display()
        )
    };
    let entry = |more: &str| format!("{{ path = \"{}\"{more} }}", disk.display());
    let first = Daemon::start(&namespace(""));
    let said = place.refused("serve", &entry(""));
    assert!(said.contains("already exported by another process"), "{said}");
    assert!(said.contains("nvmfd.toml:5: "), "{said}");
    let said = place.refused("serve", &entry(", read_only = true"));
    assert!(said.contains("already exported by another process"), "{said}");
    drop(first);
    let reading = Daemon::start(&namespace(", read_only = true"));
    let config = place.configure("nvmfd.toml", &entry(", read_only = true"));
    let output = nvmfd("check", &config).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    drop(reading);
}
