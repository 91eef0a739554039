//! A host of the daemon under test.

use conformance::{BareHost, HOST_MEMORY, Running, Session, Target};
use initiator::Bare;
use nvme_spec_types::Nqn;
use rdma::{CoreIndex, Now};
use region::{Pages, Region};
use soft_roce::{Config, Manager};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

struct Served {
    address: SocketAddr,
    subnqn: Nqn,
    start: Instant,
}

/// A host with a controller of that subsystem and one I/O queue.
pub(crate) fn connect(address: &str, subnqn: &str) -> Session {
    let address = address.parse().unwrap();
    let subnqn = Nqn::new(subnqn).unwrap();
    Session::new(&Target::new(Served { address, subnqn, start: Instant::now() }))
}

impl Running for Served {
    fn address(&self) -> SocketAddr {
        self.address
    }

    fn subnqn(&self) -> Nqn {
        self.subnqn
    }

    fn is_own(&self) -> bool {
        false
    }

    fn host(&self) -> Box<dyn BareHost> {
        let region = Arc::new(Region::map(HOST_MEMORY, Pages::Normal).unwrap());
        let mut manager = Manager::new(Config { shared_recv_depth: 0, ..Config::default() });
        let device = manager.open_device(region.clone());
        Box::new(Bare::new(self.address, CoreIndex(0), region, manager, device))
    }

    fn now(&self) -> Now {
        self.start.elapsed()
    }

    fn pass(&self, _until: Now) {
        std::thread::sleep(Duration::from_micros(50));
    }
}
