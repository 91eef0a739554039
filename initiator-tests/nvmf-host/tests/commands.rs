//! The program against a daemon: every command once, and what it says when things are wrong.

use conformance::Daemon;
use std::path::Path;
use std::process::{Command, Output};

struct Fixture {
    daemon: Daemon,
    folder: tempfile::TempDir,
}

impl Fixture {
    fn new() -> Fixture {
        Fixture { daemon: Daemon::with_ram(16), folder: tempfile::tempdir().expect("a folder") }
    }

    fn file(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().expect("UTF-8").to_owned()
    }

    fn run(&self, words: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_nvmf-host"))
            .args(["--provider", "soft", "--address", &self.daemon.address().to_string()])
            .args(words)
            .output()
            .expect("nvmf-host starts")
    }

    /// What a command says that succeeds.
    #[track_caller]
    fn good(&self, words: &[&str]) -> String {
        let nqn = self.daemon.subnqn();
        let out = self.run(&[&["--nqn", nqn.as_str()], words].concat());
        let wrong = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.success(), "{words:?}: {wrong}");
        String::from_utf8(out.stdout).expect("text")
    }

    /// What a command says that fails.
    #[track_caller]
    fn bad(&self, words: &[&str]) -> String {
        let nqn = self.daemon.subnqn();
        let out = self.run(&[&["--nqn", nqn.as_str()], words].concat());
        assert!(!out.status.success(), "{words:?} succeeded");
        String::from_utf8(out.stderr).expect("text")
    }
}

#[test]
fn a_file_comes_back_as_it_was_written() {
    let f = Fixture::new();
    let bytes: Vec<u8> = (0..300_032u32).map(|at| (at * 31 % 251) as u8).collect();
    let (input, output) = (f.file("in"), f.file("out"));
    std::fs::write(&input, &bytes).expect("a file");
    f.good(&["write", "--slba", "5", "--file", &input, "--block-size", "4096"]);
    f.good(&["compare", "--slba", "5", "--file", &input]);
    f.good(&["flush"]);
    f.good(&["read", "--slba", "5", "--size", "300032", "--file", &output, "--queues", "2"]);
    let back = std::fs::read(&output).expect("the output");
    assert_eq!(back, bytes);
    // More than there is in the input is not made up.
    let wrong = f.bad(&["write", "--file", &input, "--blocks", "587"]);
    assert!(wrong.contains("fewer than the 300544 asked for"), "{wrong}");
    f.good(&["compare", "--slba", "5", "--file", &input, "--blocks", "3"]);
    std::fs::write(&input, &bytes[..700]).expect("a file");
    let wrong = f.bad(&["write", "--file", &input]);
    assert!(wrong.contains("not whole blocks of 512"), "{wrong}");
    assert!(f.bad(&["read", "--byte", "7"]).contains("--byte is for write and compare"));
    std::fs::write(&input, &bytes).expect("a file");
    let piped = f.good(&["read", "--slba", "5", "--blocks", "1"]);
    assert!(piped.starts_with("0000000a00  00 1f 3e"), "{piped}");
    let wrong = f.bad(&["compare", "--slba", "6", "--file", &input]);
    assert!(wrong.contains("difference"), "{wrong}");
}

#[test]
fn verify_finds_one_wrong_block() {
    let f = Fixture::new();
    f.good(&["verify", "--size", "4MiB", "--queues", "2", "--block-size", "8192"]);
    f.good(&["verify", "--size", "4MiB", "--read-only"]);
    f.good(&["write", "--byte", "7", "--slba", "4321", "--blocks", "1"]);
    let wrong = f.bad(&["verify", "--size", "4MiB", "--read-only"]);
    assert!(wrong.contains("block 4321 is wrong"), "{wrong}");
    let wrong = f.bad(&["verify", "--size", "1MiB", "--read-only", "--generation", "2"]);
    assert!(wrong.contains("in generation 1"), "{wrong}");
}

#[test]
fn verify_survives_connections_that_are_cut() {
    let f = Fixture::new();
    let said = f.good(&["verify", "--queues", "3", "--passes", "2", "--kill-and-reconnect", "4"]);
    assert_eq!(said.matches("connections cut 4 times").count(), 4, "{said}");
}

#[test]
fn what_there_is_can_be_listed() {
    let f = Fixture::new();
    assert!(f.good(&["discover"]).contains(f.daemon.subnqn().as_str()));
    assert!(f.good(&["list-ns"]).contains("32768"));
    let list: serde_json::Value = serde_json::from_str(&f.good(&["list-ns", "--json"])).unwrap();
    assert_eq!(list[0]["nsid"], 1);
    let identity = f.good(&["identify", "--json"]);
    let identity: serde_json::Value = serde_json::from_str(&identity).unwrap();
    assert_eq!(identity["subnqn"], f.daemon.subnqn().as_str());
    assert!(f.good(&["connect-test", "--count", "3"]).contains("connected 3 times"));
}

#[test]
fn connecting_keeps_to_the_rate_that_was_asked_for() {
    let f = Fixture::new();
    let json = f.file("connects.json");
    f.good(&["connect-test", "--count", "5", "--rate", "20", "--spin", "0", "--json", &json]);
    let text = std::fs::read_to_string(&json).expect("the figures");
    let figures: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(figures["connects"], 5);
    // The fifth begins after 200 ms.
    assert!(figures["per_s"].as_f64().unwrap() <= 25.0, "{text}");
}

#[test]
fn a_measurement_is_a_table_and_json() {
    let f = Fixture::new();
    let json = f.file("figures.json");
    let words = ["bench", "--mode", "randrw", "--time", "0.3", "--ramp", "0.1", "--cores", "2"];
    let said = f.good(&[&words[..], &["--queues", "2", "--json", &json]].concat());
    assert!(said.contains("read ") && said.contains("write "), "{said}");
    let text = std::fs::read_to_string(Path::new(&json)).expect("the figures");
    let figures: serde_json::Value = serde_json::from_str(&text).unwrap();
    let number = |value: &serde_json::Value| value.as_f64().unwrap();
    let reads = number(&figures["read"]["commands"]);
    let all = number(&figures["commands"]);
    assert!((0.5..0.9).contains(&(reads / all)), "70 % reads: {figures}");
    assert!(number(&figures["read"]["latency_us"]["p50"]) > 1.0, "{figures}");
}

#[test]
fn raw_capsules_are_answered() {
    let f = Fixture::new();
    let said = f.good(&["raw", "--json", r#"{"opcode":6,"cdw10":1}"#, "--read", "4096"]);
    assert!(said.contains("success") && said.contains("nvmfd"), "{said}");
    let said =
        f.good(&["raw", "--queue", "1", "--json", r#"{"opcode":2,"nsid":9}"#, "--read", "512"]);
    assert!(said.contains("sc 0x02"), "{said}");
    let said = f.good(&["raw", "--hex", "00:01 02"]);
    assert!(said.contains("the connection ended"), "{said}");
}

#[test]
fn output_that_cannot_be_written_is_told() {
    let f = Fixture::new();
    for words in [&["discover"][..], &["read"], &["read", "--blocks", "1", "--file", "-"]] {
        let out = Command::new(env!("CARGO_BIN_EXE_nvmf-host"))
            .args(["--provider", "soft", "--address", &f.daemon.address().to_string()])
            .args(["--nqn", f.daemon.subnqn().as_str()])
            .args(words)
            .stdout(std::fs::File::create("/dev/full").expect("/dev/full"))
            .output()
            .expect("nvmf-host starts");
        assert_eq!(out.status.code(), Some(1), "{words:?}");
        let wrong = String::from_utf8_lossy(&out.stderr);
        assert!(wrong.starts_with("error: cannot write to standard output: "), "{wrong}");
        assert_eq!(wrong.lines().count(), 1, "{wrong}");
    }
}

#[test]
fn mistakes_are_named() {
    let f = Fixture::new();
    let out = f.run(&["--nqn", "nqn.2026-11.io.nvmfd:nobody", "flush"]);
    let wrong = String::from_utf8_lossy(&out.stderr);
    assert!(wrong.contains("there is no such subsystem"), "{wrong}");
    assert!(f.bad(&["verify", "--nsid", "7"]).contains("there is 1"));
    assert!(f.bad(&["write", "--slba", "1"]).contains("--file"));
    assert!(f.bad(&["bench", "--depth", "1000"]).contains("queues take"));
    assert!(f.bad(&["read", "--block-size", "2MiB"]).contains("at most"));
}
