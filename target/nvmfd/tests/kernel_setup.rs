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
        let output = Command::new(&self.path)
            .arg("--root")
            .arg(self.root.path())
            .args(arguments)
            .output()
            .unwrap();
        let said = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8(said).unwrap())
    }

    fn text(&self, path: &str) -> Option<String> {
        std::fs::read_to_string(self.root.path().join(path)).ok()
    }

    /// Makes what it makes, finds it, is content the second time, and takes it back.
    fn comes_and_goes(&self, arguments: &[&str], files: &[&str]) {
        let check = [&["--check"], arguments].concat();
        let (content, said) = self.run(&check);
        assert!(!content, "--check found what was not made: {said}");
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
            let (undone, said) = self.run(&["--undo"]);
            assert!(undone, "{said}");
            assert!(texts().iter().all(Option::is_none), "--undo left something");
        }
    }

    fn refuses(&self, arguments: &[&str], why: &str) {
        let (done, said) = self.run(arguments);
        assert!(!done && said.contains(why), "{arguments:?}: {said}");
    }
}

#[test]
fn limits_come_and_go_for_the_service_and_for_logins() {
    let script = Script::new("memlock.sh");
    let dropin = "etc/systemd/system/nvmfd.service.d/nvmfd-limits.conf";
    script.comes_and_goes(&[], &[dropin, "etc/security/limits.d/nvmfd.conf"]);
    assert!(script.run(&["other"]).0);
    let other = script.text("etc/systemd/system/other.service.d/nvmfd-limits.conf").unwrap();
    assert!(other.contains("[Service]\nLimitMEMLOCK=infinity\n"), "{other}");
    script.refuses(&["../other"], "has a name like nvmfd.service");
    script.refuses(&["--what"], "no option --what");
}

#[test]
fn modules_are_loaded_at_boot_until_undone() {
    let script = Script::new("modules.sh");
    script.comes_and_goes(&["siw"], &["etc/modules-load.d/nvmfd.conf"]);
    assert!(script.run(&["siw"]).0);
    let text = script.text("etc/modules-load.d/nvmfd.conf");
    assert_eq!(text.as_deref(), Some("ib_uverbs\nrdma_ucm\nsiw\n"));
    script.refuses(&["a module"], "no module is called");
}

#[test]
fn huge_pages_are_reserved_by_count_and_know_how_many_there_were() {
    let script = Script::new("hugepages.sh");
    let file = "etc/sysctl.d/90-nvmfd-hugepages.conf";
    script.comes_and_goes(&["72"], &[file]);
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
fn every_script_says_what_it_does() {
    for name in ["memlock.sh", "modules.sh", "hugepages.sh", "soft-roce.sh"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../kernel-setup").join(name);
        let output = Command::new(path).arg("--help").output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        assert!(said.starts_with(&format!("{name} [--check | --undo]")), "{said}");
        assert!(said.contains("--undo "), "{said}");
    }
}
