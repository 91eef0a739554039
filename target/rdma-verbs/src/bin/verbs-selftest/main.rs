//! Runs the contract of the RDMA seam over the verbs provider, both ends in this process.
//!
//! `verbs-selftest ADDR[:PORT]` prints PASS or FAIL per check and ends with status 1 when one
//! failed, 2 when there is no RDMA device. The address belongs to an RDMA device of the machine.
//! A second argument runs only the checks whose names contain it. The argument `removal` runs the
//! one check that needs help: whoever starts it removes the device when it says READY, and brings
//! it back when it says GONE.
#![allow(clippy::print_stdout)] // its report

mod contract;

use contract::bench::{Bench, Provider};
use contract::connections::a_removed_device_comes_back;
use rdma::{CoreIndex, Now};
use rdma_verbs::{Verbs, VerbsConfig, VerbsDevice};
use region::Region;
use std::net::{IpAddr, SocketAddr};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

/// The verbs provider as the contract sees it.
struct VerbsProvider;

impl Provider for VerbsProvider {
    type Manager = Verbs;
    type Device = VerbsDevice;

    fn manager(&self, shared_recv_depth: u32) -> Verbs {
        let config = VerbsConfig { shared_recv_depth, ..VerbsConfig::default() };
        Verbs::new(config).unwrap_or_else(|e| panic!("{e}"))
    }

    fn device(&self, manager: &mut Verbs, core: CoreIndex, region: Arc<Region>) -> VerbsDevice {
        manager.open_device(core, region)
    }
}

fn parse(text: &str) -> Option<SocketAddr> {
    text.parse().ok().or_else(|| Some(SocketAddr::new(text.parse::<IpAddr>().ok()?, 4420)))
}

fn main() -> ExitCode {
    let Some(addr) = std::env::args().nth(1).as_deref().and_then(parse) else {
        println!("usage: verbs-selftest ADDR[:PORT]");
        return ExitCode::from(2);
    };
    match rdma_verbs::devices() {
        Ok(names) => println!("devices: {}", names.join(", ")),
        Err(e) => {
            println!("{e}");
            return ExitCode::from(2);
        }
    }
    let only = std::env::args().nth(2);
    let start = Instant::now();
    let mut failed = 0;
    let mut checks = contract::checks::<VerbsProvider>();
    if only.as_deref() == Some("removal") {
        checks = vec![("removal", a_removed_device_comes_back)];
    }
    for (name, check) in checks {
        if only.as_ref().is_some_and(|o| !name.contains(o.as_str())) {
            continue;
        }
        let before = start.elapsed();
        let run = || {
            let clock = move || -> Now { start.elapsed() };
            check(&mut Bench::new(&VerbsProvider, addr, Box::new(clock)));
        };
        let result = std::panic::catch_unwind(run);
        let took = (start.elapsed() - before).as_millis();
        match result {
            Ok(()) => println!("PASS {name} ({took} ms)"),
            Err(_) => {
                failed += 1;
                println!("FAIL {name} ({took} ms)");
            }
        }
    }
    println!("{failed} failed");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
