//! The contract of the RDMA seam on an RDMA device of this machine, both ends in this process.
//!
//! `verbs-selftest ADDRESS [OPTION…] [FILTER…]`: the address belongs to the device; options
//! are those of a test program. `verbs-selftest ADDRESS removal` runs the check that needs help
//! (see `removal.rs`). It ends with status 2 when there is no RDMA device.
#![allow(clippy::print_stdout)] // what the helper of `removal` waits for

mod removal;

use libtest_mimic::Arguments;
use rdma::{CoreIndex, Now};
use rdma_contract::{Bench, Provider, Role, SHARED_RECV_DEPTH};
use rdma_verbs::{Verbs, VerbsConfig, VerbsDevice};
use region::Region;
use std::net::{IpAddr, SocketAddr};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

/// Where the contract's listening end is found: any port would do.
const PORT: u16 = 4420;

/// The verbs provider as the contract sees it.
struct VerbsProvider {
    address: SocketAddr,
    start: Instant,
}

impl Provider for VerbsProvider {
    type Manager = Verbs;
    type Device = VerbsDevice;

    const SLEEPS: bool = true;
    // The kernel's soft-RoCE looks at the rights of a memory window, and at the bounds of the
    // registration that it lies in.
    const CHECKS_BOUNDS: bool = false;

    fn address(&self) -> SocketAddr {
        self.address
    }

    fn manager(&self, role: Role) -> Verbs {
        let shared_recv_depth = if role == Role::Target { SHARED_RECV_DEPTH } else { 0 };
        let config = VerbsConfig { shared_recv_depth, ..VerbsConfig::default() };
        Verbs::new(config).unwrap_or_else(|e| panic!("{e}"))
    }

    fn device(&self, manager: &mut Verbs, core: CoreIndex, region: Arc<Region>) -> VerbsDevice {
        manager.open_device(core, region)
    }

    fn now(&self) -> Now {
        self.start.elapsed()
    }
}

fn main() -> ExitCode {
    let mut words: Vec<String> = std::env::args().collect();
    let Some(ip) = words.get(1).and_then(|text| text.parse::<IpAddr>().ok()) else {
        eprintln!("usage: verbs-selftest ADDRESS [removal | OPTION… FILTER…]");
        return ExitCode::from(2);
    };
    match rdma_verbs::devices() {
        Ok(names) => eprintln!("devices: {}", names.join(", ")),
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(2);
        }
    }
    let address = SocketAddr::new(ip, PORT);
    let provider = move || VerbsProvider { address, start: Instant::now() };
    if words.get(2).is_some_and(|word| word == "removal") {
        removal::a_removed_device_is_let_go(&mut Bench::new(provider()));
        return ExitCode::SUCCESS;
    }
    words.remove(1);
    let mut arguments = Arguments::from_iter(words);
    // Every check has the address to itself.
    arguments.test_threads = Some(1);
    libtest_mimic::run(&arguments, rdma_contract::trials(provider)).exit_code()
}
