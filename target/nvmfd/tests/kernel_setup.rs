//! The scripts of kernel-setup/, on a folder in place of this machine.

use std::path::{Path, PathBuf};
use std::process::Command;

/// A script that is run on one folder.
struct Script {
    path: PathBuf,
    root: tempfile::TempDir,
}

impl Script {
    fn new(name: &str) -> Script {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../kernel-setup").join(name);
        Script { path, root: tempfile::tempdir().unwrap() }
    }

    /// Whether it succeeded, and what it said.
    fn run(&self, arguments: &[&str]) -> (bool, String) {
        let (status, said) = self.status(arguments);
        (status == Some(0), said)
    }

    /// Its exit status, and what it said.
    fn status(&self, arguments: &[&str]) -> (Option<i32>, String) {
        let output = Command::new(&self.path)
            .arg("--root")
            .arg(self.root.path())
            .args(arguments)
            .output()
            .unwrap();
        let said = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(said).unwrap())
    }

    fn text(&self, path: &str) -> Option<String> {
        std::fs::read_to_string(self.root.path().join(path)).ok()
    }

    /// Every file and link below the folder.
    fn everything(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        let mut folders = vec![self.root.path().to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
                match entry.file_type().unwrap().is_dir() {
                    true => folders.push(entry.path()),
                    false => found.push(entry.path()),
                }
            }
        }
        found
    }

    /// Undoes nothing when there is nothing; makes what it makes, finds it, is content the second
    /// time, and takes it back. `undo` is what --undo is told.
    fn comes_and_goes(&self, arguments: &[&str], undo: &[&str], files: &[&str]) {
        let check = [&["--check"], arguments].concat();
        let undo = [&["--undo"], undo].concat();
        assert_eq!(self.status(&undo), (Some(0), "undone\n".to_owned()));
        let (status, said) = self.status(&check);
        assert_eq!(status, Some(1), "--check found what was not made: {said}");
        assert_eq!(self.everything(), [""; 0].map(PathBuf::from));
        let texts = || files.iter().map(|file| self.text(file)).collect::<Vec<_>>();
        assert!(texts().iter().all(Option::is_none), "--check made something");
        let (made, said) = self.run(arguments);
        assert!(made, "{said}");
        let first = texts();
        assert!(first.iter().all(Option::is_some), "{files:?}: {first:?}, {said}");
        assert!(self.run(arguments).0 && texts() == first, "the second time changed something");
        assert!(self.run(&check).0);
        std::fs::write(self.root.path().join(files[0]), "something else\n").unwrap();
        let (content, said) = self.run(&check);
        assert!(!content && said.contains(&format!("missing  /{}", files[0])), "{said}");
        for _ in 0..2 {
            let (undone, said) = self.run(&undo);
            assert!(undone, "{said}");
            assert_eq!(self.everything(), [""; 0].map(PathBuf::from), "--undo left something");
        }
    }

    /// What it is told makes no sense, which is another status than that something is missing.
    fn refuses(&self, arguments: &[&str], why: &str) {
        let before = self.everything();
        let (status, said) = self.status(arguments);
        assert!(status == Some(2) && said.contains(why), "{arguments:?}: {status:?} {said}");
        assert_eq!(self.everything(), before, "{arguments:?} made something");
    }
}

#[test]
fn limits_come_and_go_for_the_service_and_for_logins() {
    let script = Script::new("memlock.sh");
    let dropin = "etc/systemd/system/nvmfd.service.d/nvmfd-limits.conf";
    script.comes_and_goes(&[], &[], &[dropin, "etc/security/limits.d/nvmfd.conf"]);
    assert!(script.run(&["other"]).0);
    let other = script.text("etc/systemd/system/other.service.d/nvmfd-limits.conf").unwrap();
    assert!(other.contains("[Service]\nLimitMEMLOCK=infinity\n"), "{other}");
    script.refuses(&["../other"], "has a name like nvmfd.service");
    script.refuses(&["--what"], "no option --what");
}

#[test]
fn modules_are_loaded_at_boot_until_undone() {
    let script = Script::new("modules.sh");
    script.comes_and_goes(&["siw"], &[], &["etc/modules-load.d/nvmfd.conf"]);
    assert!(script.run(&["siw"]).0);
    let text = script.text("etc/modules-load.d/nvmfd.conf");
    assert_eq!(text.as_deref(), Some("ib_uverbs\nrdma_ucm\nsiw\n"));
    script.refuses(&["a module"], "no module is called");
}

#[test]
fn huge_pages_are_reserved_by_count_and_know_how_many_there_were() {
    let script = Script::new("hugepages.sh");
    let file = "etc/sysctl.d/90-nvmfd-hugepages.conf";
    script.comes_and_goes(&["72"], &[], &[file]);
    assert!(script.run(&["72"]).0);
    let before = script.text(file).unwrap().replace("Before: 0", "Before: 5");
    std::fs::write(script.root.path().join(file), before).unwrap();
    assert!(script.run(&["80"]).0);
    let text = script.text(file);
    assert_eq!(text.as_deref(), Some("# Before: 5\nvm.nr_hugepages = 80\n"));
    script.refuses(&["-1"], "no option");
    script.refuses(&["many"], "COUNT is a number of pages");
    script.refuses(&[], "hugepages.sh [--check");
}

#[test]
fn software_devices_come_back_after_a_reboot_each_on_its_interface() {
    for (name, label, kind) in [("soft-roce.sh", "soft-roce", "rxe"), ("siw.sh", "siw", "siw")] {
        let script = Script::new(name);
        let unit = format!("etc/systemd/system/nvmfd-{label}@.service");
        let wanted = |netdev| {
            format!("etc/systemd/system/multi-user.target.wants/nvmfd-{label}@{netdev}.service")
        };
        let modules = format!("etc/modules-load.d/nvmfd-{label}.conf");
        let limits = format!("etc/security/limits.d/nvmfd-{label}.conf");
        script.comes_and_goes(&["eth0"], &["eth0"], &[&unit, &modules, &limits]);
        // What two interfaces share stays with the last of them.
        assert!(script.run(&["eth0"]).0 && script.run(&["eth1"]).0);
        let added = format!("rdma link add {kind}_%i type {kind} netdev %i");
        assert!(script.text(&unit).unwrap().contains(&added));
        assert!(script.run(&["--undo", "eth0"]).0);
        let link = |netdev| script.root.path().join(wanted(netdev)).is_symlink();
        assert!(!link("eth0") && link("eth1") && script.text(&unit).is_some());
        assert!(script.run(&["--check", "eth1"]).0);
        assert_eq!(script.status(&["--check", "eth0"]).0, Some(1));
        assert!(script.run(&["--undo", "eth1"]).0);
        script.refuses(&["lo"], "the loopback interface");
        script.refuses(&["a name"], "no network interface is called");
        script.refuses(&[], name);
    }
}

#[test]
fn the_type_of_service_is_a_byte_and_set_at_each_boot() {
    let script = Script::new("roce.sh");
    let unit = "etc/systemd/system/nvmfd-roce-mlx5_0.service";
    script.comes_and_goes(&["mlx5_0", "96"], &["mlx5_0"], &[unit]);
    for (arguments, why) in
        [(["mlx5_0", "256"], "0 to 255"), (["mlx5_0", "x"], "0 to 255"), (["../a", "1"], "no RDMA")]
    {
        script.refuses(&arguments, why);
    }
    assert!(script.run(&["mlx5_0"]).0);
    let text = script.text(unit).unwrap();
    assert!(text.contains("echo 106 >$$port/default_roce_tos"), "{text}");
}

#[test]
fn pauses_are_for_one_priority_and_the_packets_in_it() {
    let script = Script::new("lossless.sh");
    let unit = "etc/systemd/system/nvmfd-lossless-eth0.service";
    script.comes_and_goes(&["eth0", "4", "32"], &["eth0"], &[unit]);
    script.refuses(&["eth0", "8"], "PRIORITY is a number from 0 to 7");
    script.refuses(&["eth0", "3", "64"], "DSCP is a number from 0 to 63");
    assert!(script.run(&["eth0"]).0);
    let text = script.text(unit).unwrap();
    assert!(text.contains("dcb pfc set dev eth0 prio-pfc all:off 3:on\n"), "{text}");
    assert!(text.contains("dcb app replace dev eth0 dscp-prio 26:3 48:6\n"), "{text}");
}

#[test]
fn cpus_are_kept_free_but_for_the_systems_first() {
    let script = Script::new("isolate-cpus.sh");
    let file = "etc/default/grub.d/nvmfd-isolate-cpus.cfg";
    script.comes_and_goes(&["2-5,8"], &[], &[file]);
    for cpus in ["0", "0-3", "1,0", "1,0-2"] {
        script.refuses(&[cpus], "CPU 0 is the system's");
    }
    script.refuses(&["2-"], "CPUS is a list");
    assert!(script.run(&["10,20"]).0);
    let text = script.text(file).unwrap();
    assert!(text.contains("isolcpus=managed_irq,domain,10,20 nohz_full=10,20"), "{text}");
}

#[test]
fn a_host_connects_at_each_boot_to_every_address() {
    let script = Script::new("initiator.sh");
    let unit = "etc/systemd/system/nvmfd-connect.service";
    let modprobe = "etc/modprobe.d/nvmfd-initiator.conf";
    let udev = "etc/udev/rules.d/71-nvmfd-initiator.rules";
    script.comes_and_goes(&["10.8.0.1"], &[], &[unit, modprobe, udev]);
    script.refuses(&["a b"], "is no address like");
    script.refuses(&["10.8.0.1:x"], "is no address like");
    assert!(script.run(&["10.8.0.1:4421", "[fd00::1]:8009", "fd00::2"]).0);
    let text = script.text(unit).unwrap();
    for (address, port) in [("10.8.0.1", 4421), ("fd00::1", 8009), ("fd00::2", 4420)] {
        let said = format!("--traddr={address} --trsvcid={port} ");
        assert!(text.contains(&said), "{said}: {text}");
    }
}

/// Every script, but what they share.
fn scripts() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../kernel-setup");
    let all = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    all.filter(|path| path.extension().is_some_and(|end| end == "sh")).collect()
}

#[test]
fn every_script_says_what_it_does() {
    let shared = ["common.sh", "software-link.sh"];
    let readme = include_str!("../../../kernel-setup/README.md");
    for path in scripts() {
        let name = path.file_name().unwrap().to_str().unwrap();
        if shared.contains(&name) {
            continue;
        }
        let output = Command::new(&path).arg("--help").output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        let said = String::from_utf8(output.stdout).unwrap();
        assert!(said.starts_with(&format!("{name} [--check | --undo] [--root DIR]")), "{said}");
        assert!(said.contains("--check") && said.contains("--undo "), "{said}");
        assert!(readme.contains(&format!("`{name}")), "{name} is not in the README");
    }
}

#[test]
fn every_script_is_well_formed() {
    for path in scripts() {
        let output = Command::new("bash").arg("-n").arg(&path).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    // Where it is installed: more than bash itself finds.
    if Command::new("shellcheck").arg("--version").output().is_ok() {
        let output = Command::new("shellcheck")
            .args(["-x", "-P", "SCRIPTDIR"])
            .args(scripts())
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    }
}
