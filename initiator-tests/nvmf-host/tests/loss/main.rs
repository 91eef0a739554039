//! `verify` through a wire that loses, repeats and reorders 2 % of the packets each, both ways.

mod wire;

use conformance::{Daemon, own_address};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::process::Command;
use std::sync::atomic::Ordering;
use wire::Wire;

fn v4(address: SocketAddr) -> Ipv4Addr {
    let IpAddr::V4(ip) = address.ip() else { panic!("an IPv4 address") };
    ip
}

#[test]
fn verify_is_clean_through_loss_repetition_and_reordering() {
    // LOSS_MIB=1024 for a long run; it wants an optimised build.
    let mib: u32 = std::env::var("LOSS_MIB").map_or(16, |text| text.parse().expect("a number"));
    let daemon = Daemon::with_ram(mib);
    let target = v4(daemon.address());
    let (near, far) = (v4(own_address()), v4(own_address()));
    let wire = Wire::new(near, far, target);
    let out = Command::new(env!("CARGO_BIN_EXE_nvmf-host"))
        .args(["--provider", "soft", "--address", &near.to_string()])
        .args(["--nqn", daemon.subnqn().as_str(), "verify", "--queues", "4"])
        .args(["--kill-and-reconnect", "2"])
        .output()
        .expect("nvmf-host starts");
    let (said, wrong) =
        (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    assert!(out.status.success(), "{said}{wrong}");
    eprintln!("{said}{:?}", wire.counts);
    assert!(said.contains("verified"), "{said}");
    let count = |what: &std::sync::atomic::AtomicU64| what.load(Ordering::Relaxed);
    let all = count(&wire.counts.passed);
    for what in [&wire.counts.lost, &wire.counts.twice, &wire.counts.held] {
        assert!(count(what) > all / 100, "the wire was too good: {:?}", wire.counts);
    }
    assert_eq!(count(&wire.counts.damaged), 0, "packets with a wrong integrity check");
}
