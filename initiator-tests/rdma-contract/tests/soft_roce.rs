//! The contract on soft-roce, over real sockets on the loopback interface.

use libtest_mimic::Arguments;
use rdma::{CoreIndex, Now};
use rdma_contract::{Provider, Role, SHARED_RECV_DEPTH};
use region::Region;
use soft_roce::{Config, Manager, SoftDevice};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Instant;

struct SoftProvider {
    address: SocketAddr,
    start: Instant,
}

impl SoftProvider {
    /// On a loopback address that is likely nobody else's.
    fn new() -> SoftProvider {
        static NEXT: AtomicU8 = AtomicU8::new(1);
        let process = (std::process::id() as u16).to_be_bytes();
        let last = NEXT.fetch_add(1, Ordering::Relaxed);
        let address = SocketAddr::from(([127, process[0] | 0x80, process[1], last], 4420));
        SoftProvider { address, start: Instant::now() }
    }
}

impl Provider for SoftProvider {
    type Manager = Manager;
    type Device = SoftDevice;

    const SLEEPS: bool = true;
    const CHECKS_BOUNDS: bool = true;

    fn address(&self) -> SocketAddr {
        self.address
    }

    fn manager(&self, role: Role) -> Manager {
        let shared_recv_depth = if role == Role::Target { SHARED_RECV_DEPTH } else { 0 };
        Manager::new(Config { shared_recv_depth, ..Config::default() })
    }

    fn device(&self, manager: &mut Manager, _core: CoreIndex, region: Arc<Region>) -> SoftDevice {
        manager.open_device(region)
    }

    fn now(&self) -> Now {
        self.start.elapsed()
    }
}

fn main() {
    let mut arguments = Arguments::from_args();
    // Checks count the descriptors of the process: one at a time in each.
    arguments.test_threads = Some(1);
    libtest_mimic::run(&arguments, rdma_contract::trials(SoftProvider::new)).exit();
}
