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

/// What both commands say, and that their exit status is that one.
fn both_refuse(config: &Path, status: i32) -> String {
    let [check, serve] = ["check", "serve"].map(|command| {
        let Output { status: ended, stderr, .. } = nvmfd(command, config).output().unwrap();
        let said = String::from_utf8(stderr).unwrap();
        assert_eq!(ended.code(), Some(status), "{command}: {said}");
        said
    });
    let first = check.lines().next().unwrap();
    assert!(serve.contains(first), "check: {check}serve: {serve}");
    check
}

#[test]
fn what_serving_would_find_taken_is_found_by_checking_in_the_same_words() {
    let place = Place::new();
    let ram = "{ ram = \"1MiB\" }";
    let socket = place.path("a.sock");
    let with = |more: &str| {
        let config = place.configure("nvmfd.toml", ram);
        let text = fs::read_to_string(&config).unwrap();
        let own = crate::common::own_address();
        fs::write(&config, text.replace("127.0.0.1", own.trim_end_matches(":4420")) + more)
            .unwrap();
        config
    };
    fs::create_dir(&socket).unwrap();
    let said = both_refuse(&with(""), 1);
    assert!(said.contains("something that is no socket is there"), "{said}");
    assert!(said.contains("is right, and cannot be served on this machine now"), "{said}");
    fs::remove_dir(&socket).unwrap();
    fs::write(&socket, "data").unwrap();
    both_refuse(&with(""), 1);
    fs::remove_file(&socket).unwrap();
    // Somebody else's port.
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let said = both_refuse(&with(&format!("metrics = {{ address = \"{address}\" }}\n")), 1);
    assert!(said.contains(&format!("cannot serve metrics at {address}")), "{said}");
    // A CPU that is not there is the file's fault.
    let config = with("");
    let text = fs::read_to_string(&config).unwrap();
    fs::write(&config, text.replace("data_cores = 1", "cpus = [1023]")).unwrap();
    let said = both_refuse(&config, 2);
    assert!(said.contains("nvmfd.toml:3:19: tuning.cpus: there is no CPU 1023 here"), "{said}");
}

#[test]
fn what_another_daemon_has_is_taken_and_what_the_own_one_has_is_not() {
    let place = Place::new();
    let disk = place.path("disk");
    fs::write(&disk, [0; 4096]).unwrap();
    let metrics = crate::common::own_address().replace("4420", "9420");
    let running = Daemon::start(&format!(
        "[metrics]\naddress = \"{metrics}\"\n[[subsystem]]\nnqn = \"nqn.2026-11.io.nvmfd:b\"\n\
         allow_any_host = true\nnamespace = [{{ path = \"{}\" }}]\n",
        disk.display()
    ));
    let said = running.run(&["check", "--config", running.path("nvmfd.toml").to_str().unwrap()]);
    assert!(said.contains("serves by this file now"), "{said}");
    // A copy of the file is another daemon's.
    let copy = place.path("copy.toml");
    fs::write(&copy, running.configuration()).unwrap();
    let said = both_refuse(&copy, 1);
    for what in [
        "another nvmfd has the control socket",
        "already exported by another process",
        "cannot serve metrics at",
        "UDP port 4791",
    ] {
        assert!(said.contains(what), "{what}: {said}");
    }
}

#[test]
fn a_diff_is_refused_as_the_reload_would_be() {
    let place = Place::new();
    let disk = place.path("disk");
    let namespace = |size: &str| {
        format!(
            "[[subsystem]]\nnqn = \"nqn.2026-11.io.nvmfd:b\"\nallow_any_host = true\n\
             namespace = [{{ path = \"{}\", size = \"{size}\" }}]\n",
            disk.display()
        )
    };
    let daemon = Daemon::start(&namespace("1MiB"));
    daemon.run(&["set", "namespace", "nqn.2026-11.io.nvmfd:b", "1", "size=2MiB"]);
    let config = daemon.path("nvmfd.toml");
    let diff = ["check", "--config", config.to_str().unwrap(), "--diff"];
    // The larger size was not saved.
    assert_eq!(daemon.refuse(&diff), daemon.refuse(&["reload"]));
    daemon.configure(&namespace("2MiB").replace("disk\"", "no/disk\""));
    let said = daemon.refuse(&diff);
    assert_eq!(said, daemon.refuse(&["reload"]));
    assert!(said.contains("its folder must exist"), "{said}");
    daemon.configure(&namespace("2MiB"));
    assert_eq!(daemon.run(&diff), "nothing is different\n");
    // The file names the socket, for whoever does not.
    let output = program().args(diff).env_remove("NVMFD_SOCKET").output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "nothing is different\n", "{output:?}");
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
