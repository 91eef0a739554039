//! On an RDMA device of this machine, by its address: daemon and hosts are both here.

use crate::daemon::Daemon;
use crate::offer::Namespace;
use crate::place::{BareHost, HOST_MEMORY, Place, Running, Target};
use initiator::Bare;
use nvme_spec_types::Nqn;
use rdma::{CoreIndex, Now};
use rdma_verbs::{Verbs, VerbsConfig};
use region::{Pages, Region};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Starts daemons that listen on this address.
#[derive(Debug)]
pub struct VerbsPlace(pub SocketAddr);

#[derive(Debug)]
struct VerbsTarget(Daemon, Instant);

impl Place for VerbsPlace {
    fn start(&self, namespaces: &[Namespace]) -> Target {
        Target::new(VerbsTarget(Daemon::start(self.0, "verbs", namespaces), Instant::now()))
    }
}

impl Running for VerbsTarget {
    fn address(&self) -> SocketAddr {
        self.0.address()
    }

    fn subnqn(&self) -> Nqn {
        self.0.subnqn()
    }

    fn is_own(&self) -> bool {
        true
    }

    /// The kernel's soft iWARP does not tell.
    fn tells_invalidated(&self) -> bool {
        false
    }

    fn host(&self) -> Box<dyn BareHost> {
        let region = Arc::new(Region::map(HOST_MEMORY, Pages::Normal).expect("memory"));
        let config = VerbsConfig { shared_recv_depth: 0, ..VerbsConfig::default() };
        let mut manager = Verbs::new(config).unwrap_or_else(|error| panic!("{error}"));
        let device = manager.open_device(CoreIndex(0), region.clone());
        Box::new(Bare::new(self.0.address(), CoreIndex(0), region, manager, device))
    }

    fn now(&self) -> Now {
        self.1.elapsed()
    }

    fn pass(&self, _until: Now) {
        std::thread::sleep(Duration::from_micros(50));
    }
}
