//! Findings of tests that ended in one way or another.

use super::ask::{Connected, Direction, Listening, Measured, Outcome, Trouble, Try};
use super::times::Spread;
use super::way::{Heard, Way};
use super::{Place, judge};
use crate::doctor::finding::{Finding, Level};
use crate::provider::Choice;
use nvme_spec_types::rdma_cm::CmRejectStatus;
use std::net::SocketAddr;
use std::time::Duration;

fn outcome(result: Result<Connected, Trouble>, heard: Heard) -> Outcome {
    let at: SocketAddr = "10.0.0.2:4420".parse().unwrap();
    let way = Way { from: [10, 0, 0, 1].into(), by: Choice::Soft("as configured") };
    Outcome { peer: at.ip(), way: Ok(way), tries: vec![Try { at, result }], heard, measured: None }
}

/// The finding about the connection.
fn connection(result: Result<Connected, Trouble>, heard: Heard) -> Finding {
    judge::findings(&outcome(result, heard)).remove(1)
}

fn refused(busy: bool, target: Option<CmRejectStatus>) -> Trouble {
    Trouble::Refused { reason: "rejected by the peer".into(), busy, target }
}

#[test]
fn a_no_of_somebody_is_told_from_a_no_of_nobody() {
    let nobody = connection(Err(refused(false, None)), Heard::Nothing);
    assert_eq!(nobody.level, Level::Fault);
    assert!(nobody.says.contains("nobody listens at port 4420"), "{nobody:?}");
    assert!(nobody.mend.unwrap().starts_with("nvmfd doctor --serve 10.0.0.2 "));
    let status = CmRejectStatus::NO_RESOURCES;
    for alive in [refused(true, None), refused(false, Some(status))] {
        let finding = connection(Err(alive), Heard::Nothing);
        assert_eq!(finding.level, Level::Warning);
        assert!(finding.says.starts_with("RDMA is alive: "), "{finding:?}");
    }
}

#[test]
fn silence_is_told_by_what_the_network_says_besides() {
    for (heard, words) in [
        (Heard::NobodyAtPort, "is there and has no RoCE"),
        (Heard::NoMachine, "cannot be reached at all"),
        (Heard::Nothing, "a filter on the way drops UDP port 4791"),
    ] {
        let finding = connection(Err(Trouble::Silence), heard);
        assert_eq!(finding.level, Level::Fault);
        assert!(finding.says.contains(words), "{finding:?}");
        assert!(finding.mend.is_some());
    }
}

#[test]
fn a_target_shows_that_rdma_is_alive() {
    let connected =
        Connected { to: Listening::Target { entries: 32 }, time: Duration::from_micros(350) };
    let finding = connection(Ok(connected), Heard::Nothing);
    assert_eq!(finding.level, Level::Note);
    assert!(finding.says.contains("accepts at 10.0.0.2:4420, after 350 µs"), "{finding:?}");
}

#[test]
fn packets_that_are_sent_again_are_worth_a_warning() {
    let times = Spread { p50_ns: 2_000, p90_ns: 3_000, p99_ns: 4_000, max_ns: 5_000 };
    let direction = Direction { small: 9, latency: times, large: 9, bytes_per_s: 1_250_000_000 };
    let measured = |packets_resent| {
        let mut outcome =
            outcome(Ok(Connected { to: Listening::Doctor, time: Duration::ZERO }), Heard::Nothing);
        let (read, write) = (direction, direction);
        let measured = Measured { send: times, read, write, packets_sent: 10_000, packets_resent };
        outcome.measured = Some(Ok(measured));
        judge::findings(&outcome)
    };
    let findings = measured(10);
    assert!(findings.iter().all(|finding| finding.level == Level::Ok), "{findings:?}");
    assert_eq!(
        findings[3].says,
        "READ of 8 B: half within 2.00 µs, 90 % 3.00 µs, 99 % 4.00 µs, all 5.00 µs; of 128 KiB, 16 \
         at a time: 1.25 GB/s (10.00 Gbit/s), every byte right"
    );
    let last = measured(11).pop().unwrap();
    assert_eq!((last.level, last.about), (Level::Warning, "packets"));
}

#[test]
fn bytes_that_arrive_otherwise_are_a_fault() {
    let mut outcome =
        outcome(Ok(Connected { to: Listening::Doctor, time: Duration::ZERO }), Heard::Nothing);
    outcome.measured = Some(Err(Trouble::WrongData("READ")));
    let last = judge::findings(&outcome).pop().unwrap();
    assert_eq!((last.level, last.about), (Level::Fault, "data"));
}

#[test]
fn without_a_route_nothing_else_is_said() {
    let mut outcome = outcome(Err(Trouble::Silence), Heard::Nothing);
    outcome.way = Err("Network is unreachable".into());
    let findings = judge::findings(&outcome);
    assert_eq!(findings.len(), 1);
    assert_eq!(findings[0].mend.as_deref(), Some("ip route get 10.0.0.2"));
}

#[test]
fn places_are_addresses_with_or_without_a_port() {
    for (text, at) in [
        ("10.0.0.2", "10.0.0.2:7"),
        ("10.0.0.2:4420", "10.0.0.2:7"),
        ("fd00::2", "[fd00::2]:7"),
        ("[fd00::2]", "[fd00::2]:7"),
    ] {
        assert_eq!(Place::parse(text).unwrap().at(7).to_string(), at);
    }
    assert_eq!(Place::parse("10.0.0.2").unwrap().port(), None);
    assert_eq!(Place::parse("[fd00::2]:4420").unwrap().port(), Some(4420));
    for wrong in ["", "host", "10.0.0.2:", "10.0.0.2:65536", "0.0.0.0", "[::]:1"] {
        assert!(Place::parse(wrong).is_err(), "{wrong}");
    }
}
