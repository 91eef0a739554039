//! Tests of RDMA between two doctors, and between a doctor and others, over the loopback interface.

use crate::common::{Daemon, own_address, program};
use std::io::{BufRead, BufReader};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::process::{Child, ChildStdout, Command, Output, Stdio};

/// An address of our own, without a port.
fn own_ip() -> IpAddr {
    own_address().parse::<SocketAddr>().unwrap().ip()
}

fn ask(peer: &str, more: &[&str]) -> Output {
    let mut command = program();
    command.args(["doctor", "--peer", peer, "--provider", "soft"]).args(more);
    command.output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// A doctor who answers, until dropped.
struct Answering {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Answering {
    fn at(ip: IpAddr) -> Answering {
        let mut child = program()
            .args(["doctor", "--provider", "soft", "--serve"])
            .arg(ip.to_string())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        let mut answering = Answering { child, lines };
        let line = answering.line();
        assert!(line.starts_with(&format!("answering at {ip}:4429, by soft-roce")), "{line}");
        answering
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        line
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn two_doctors_measure_both_directions_again_and_again() {
    let ip = own_ip();
    let mut answering = Answering::at(ip);
    for _ in 0..2 {
        let output = ask(&ip.to_string(), &["--json"]);
        let text = said(&output);
        assert_eq!(output.status.code(), Some(0), "{text}");
        let said: serde_json::Value = serde_json::from_str(&text).unwrap();
        for direction in ["read", "write"] {
            let measured = &said["measured"][direction];
            assert!(measured["bytes_per_s"].as_u64().unwrap() > 1_000_000, "{text}");
            let latency = &measured["latency"];
            let [p50, p99] = ["p50_ns", "p99_ns"].map(|name| latency[name].as_u64().unwrap());
            assert!(0 < p50 && p50 <= p99, "{text}");
            assert!(measured["small"].as_u64().unwrap() > 50, "{text}");
            assert!(measured["large"].as_u64().unwrap() > 16, "{text}");
        }
        assert!(said["measured"]["packets_sent"].as_u64().unwrap() > 1000, "{text}");
        let line = answering.line();
        assert!(line.contains("questions answered; the connection ended"), "{line}");
    }
}

#[test]
fn a_running_daemon_shows_that_rdma_is_alive_and_serves_on() {
    let daemon = Daemon::start(
        "[[subsystem]]\nnqn = \"nqn.2026-11.io.nvmfd:a\"\nallow_any_host = true\n\
         namespace = [{ ram = \"1MiB\" }]\n",
    );
    let ip = daemon.address.parse::<SocketAddr>().unwrap().ip().to_string();
    // The usual ports: no doctor answers at the one, the daemon does at the other.
    for _ in 0..3 {
        let output = ask(&ip, &[]);
        let text = said(&output);
        assert_eq!(output.status.code(), Some(0), "{text}");
        assert!(text.contains(&format!("an NVMe target accepts at {}", daemon.address)), "{text}");
        assert!(text.contains(&format!("-> nvmfd doctor --serve {ip}")), "{text}");
    }
    let output = ask(&format!("{ip}:4421"), &[]);
    let text = said(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("and nobody listens at port 4421"), "{text}");
    // Its port is its own.
    let mut second = Command::new(env!("CARGO_BIN_EXE_nvmfd"));
    let second = second.args(["doctor", "--provider", "soft", "--serve", &ip]).output().unwrap();
    assert_eq!(second.status.code(), Some(1));
    let why = String::from_utf8_lossy(&second.stderr);
    assert!(why.contains(&format!("cannot answer at {ip}:4429: ")), "{why}");
    daemon.run(&["status"]);
}

#[test]
fn a_machine_without_rdma_is_told_from_one_that_is_silent() {
    let (without, silent) = (own_ip(), own_ip());
    let _socket = UdpSocket::bind((silent, 4791)).unwrap();
    let asked = std::thread::spawn(move || ask(&without.to_string(), &[]));
    let of_silent = ask(&silent.to_string(), &["--json"]);
    let of_without = asked.join().unwrap();
    assert_eq!(of_without.status.code(), Some(1));
    let text = said(&of_without);
    assert!(text.contains(&format!("{without} is there and has no RoCE")), "{text}");
    assert_eq!(of_silent.status.code(), Some(1));
    let text = said(&of_silent);
    assert!(text.contains("a filter on the way drops UDP port 4791"), "{text}");
    assert!(text.contains("\"worst\": \"fault\""), "{text}");
}

#[test]
fn a_test_that_makes_no_sense_is_refused() {
    for args in [
        &["doctor", "--peer", "host"][..],
        &["doctor", "--peer", "0.0.0.0"],
        &["doctor", "--peer", "10.0.0.2", "--serve", "10.0.0.1"],
        &["doctor", "--peer", "10.0.0.2", "--config", "a.toml"],
        &["doctor", "--peer", "10.0.0.2", "--seconds", "0"],
        &["doctor", "--seconds", "3"],
    ] {
        let output = program().args(args).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}");
    }
}
