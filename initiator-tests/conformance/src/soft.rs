//! On soft-roce: a daemon on a loopback address that nobody else uses, or one that runs already.

use crate::address::own_address;
use crate::daemon::Daemon;
use crate::offer::Namespace;
use crate::place::{BareHost, HOST_MEMORY, Place, Running, Target};
use initiator::Bare;
use nvme_spec_types::Nqn;
use rdma::{CoreIndex, Now};
use region::{Pages, Region};
use soft_roce::{Config, Manager};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Starts daemons; with `CONFORMANCE_ADDRESS=IP:PORT` and `CONFORMANCE_NQN=NAME` cases meet that
/// target instead, whose namespace 1 they overwrite.
#[derive(Debug)]
pub struct SoftPlace;

#[derive(Debug)]
struct SoftTarget {
    address: SocketAddr,
    subnqn: Nqn,
    /// Kept until the end, where it is our own.
    daemon: Option<Daemon>,
    start: Instant,
}

impl Place for SoftPlace {
    fn start(&self, namespaces: &[Namespace]) -> Target {
        if let Ok(address) = std::env::var("CONFORMANCE_ADDRESS") {
            let address = address.parse().expect("CONFORMANCE_ADDRESS is IP:PORT");
            let nqn = std::env::var("CONFORMANCE_NQN").expect("CONFORMANCE_NQN is the subsystem");
            let subnqn = Nqn::new(&nqn).expect("a name");
            return soft_target(address, subnqn);
        }
        let daemon = Daemon::start(own_address(), "soft", namespaces);
        let (address, subnqn) = (daemon.address(), daemon.subnqn());
        Target::new(SoftTarget { address, subnqn, daemon: Some(daemon), start: Instant::now() })
    }
}

/// A target that runs already, and whoever started it ends it.
pub fn soft_target(address: SocketAddr, subnqn: Nqn) -> Target {
    Target::new(SoftTarget { address, subnqn, daemon: None, start: Instant::now() })
}

impl Running for SoftTarget {
    fn address(&self) -> SocketAddr {
        self.address
    }

    fn subnqn(&self) -> Nqn {
        self.subnqn
    }

    fn is_own(&self) -> bool {
        self.daemon.is_some()
    }

    fn host(&self) -> Box<dyn BareHost> {
        let region = Arc::new(Region::map(HOST_MEMORY, Pages::Normal).expect("memory"));
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
