//! Limits of namespaces and of hosts on a live daemon: what is limited gets what it may and no more,
//! and what is not limited with it gets its own all the same.

use conformance::{Daemon, own_address};
use std::process::Command;
use std::thread;

const SUBNQN: &str = "nqn.2026-11.io.nvmfd:limits";
/// A host with a limit over all namespaces.
const LIMITED: &str = "nqn.2014-08.org.example:limited";
/// Limits as the daemon is given them: commands a second of two namespaces, MB a second of another,
/// and commands a second of the host.
const SLOW_IOPS: f64 = 200.0;
const FAST_IOPS: f64 = 400.0;
const MB: f64 = 4.0;
const HOST_IOPS: f64 = 300.0;
/// How far figures may be off.
const WITHIN: f64 = 0.10;

fn daemon() -> Daemon {
    let address = own_address();
    let namespace = |limit: &str| {
        format!("[[subsystem.namespace]]\nram = \"16MiB\"\nlimit = {{ {limit}, burst_ms = 10 }}\n")
    };
    let config = format!(
        "[[listener]]\naddress = \"{address}\"\nprovider = \"soft\"\n\
         [[subsystem]]\nnqn = \"{SUBNQN}\"\nallow_any_host = true\n{}{}{}\
         [[subsystem.namespace]]\nram = \"16MiB\"\n\
         [[host]]\nnqn = \"{LIMITED}\"\nlimit = {{ iops = {HOST_IOPS}, burst_ms = 10 }}\n\
         [tuning]\ndata_cores = 1\nmemory = \"64MiB\"\n",
        namespace(&format!("iops = {SLOW_IOPS}")),
        namespace(&format!("iops = {FAST_IOPS}")),
        namespace(&format!("bandwidth = \"{MB}MB/s\"")),
    );
    Daemon::serve(address, &config)
}

/// Commands and MB a second that a host gets of a namespace when it asks for more.
fn served(daemon: &Daemon, hostnqn: &str, nsid: u32, block_size: &str) -> (f64, f64) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("figures.json");
    let out = Command::new(env!("CARGO_BIN_EXE_nvmf-host"))
        .args(["--provider", "soft", "--address", &daemon.address().to_string()])
        .args(["--nqn", SUBNQN, "--hostnqn", hostnqn, "bench", "--nsid", &nsid.to_string()])
        .args(["--block-size", block_size, "--depth", "16", "--time", "2.5", "--ramp", "0.5"])
        .arg("--json")
        .arg(&file)
        .output()
        .expect("nvmf-host starts");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let text = std::fs::read_to_string(&file).expect("the figures");
    let figures: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let number = |name: &str| figures[name].as_f64().expect("a number");
    (number("iops"), number("mb_per_s"))
}

/// Measures until each figure is near what is wanted, a few times: on a machine that does something
/// else as well a host may get less than its due, but nobody ever gets more.
///
/// # Panics
/// When a figure is above, or below every time.
#[track_caller]
fn assert_near(wanted: &[(&str, f64)], measure: impl Fn() -> Vec<f64>) {
    const TRIES: usize = 4;
    for left in (0..TRIES).rev() {
        let mut short = false;
        for (&(what, wanted), seen) in wanted.iter().zip(measure()) {
            assert!(seen <= wanted * (1.0 + WITHIN), "{what}: {seen:.0} instead of {wanted:.0}");
            short |= seen < wanted * (1.0 - WITHIN);
            assert!(left > 0 || !short, "{what}: {seen:.0} instead of {wanted:.0}, {TRIES} times");
        }
        if !short {
            return;
        }
    }
}

#[test]
fn a_namespace_gets_what_it_may_and_its_neighbour_too() {
    let daemon = daemon();
    let wanted = [("commands of the slow one", SLOW_IOPS), ("commands of the other", FAST_IOPS)];
    assert_near(&wanted, || {
        thread::scope(|scope| {
            let slow = scope.spawn(|| served(&daemon, "nqn.2014-08.org.example:a", 1, "4KiB"));
            let fast = scope.spawn(|| served(&daemon, "nqn.2014-08.org.example:b", 2, "4KiB"));
            vec![slow.join().expect("figures").0, fast.join().expect("figures").0]
        })
    });
}

#[test]
fn a_namespace_gets_as_many_bytes_as_it_may() {
    let daemon = daemon();
    assert_near(&[("MB a second", MB)], || {
        vec![served(&daemon, "nqn.2014-08.org.example:a", 3, "32KiB").1]
    });
}

#[test]
fn a_host_gets_what_it_may_of_all_namespaces_and_another_host_its_own() {
    let daemon = daemon();
    let wanted =
        [("commands of the limited host", HOST_IOPS), ("commands of the other host", SLOW_IOPS)];
    assert_near(&wanted, || {
        thread::scope(|scope| {
            // Of a namespace with a limit, and of one without.
            let first = scope.spawn(|| served(&daemon, LIMITED, 2, "4KiB"));
            let second = scope.spawn(|| served(&daemon, LIMITED, 4, "4KiB"));
            let other = scope.spawn(|| served(&daemon, "nqn.2014-08.org.example:b", 1, "4KiB"));
            let iops =
                |thread: thread::ScopedJoinHandle<'_, (f64, f64)>| thread.join().expect("some").0;
            vec![iops(first) + iops(second), iops(other)]
        })
    });
}
