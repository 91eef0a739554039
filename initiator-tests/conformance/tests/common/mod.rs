//! Hosts by the dozen, each with a soft-roce endpoint of its own.

use initiator::controller::ControllerConfig;
use initiator::{Host, HostConfig, Pace};
use nvme_spec_types::Nqn;
use rdma::CoreIndex;
use region::{Pages, Region};
use soft_roce::{Config, Manager, SoftDevice};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

pub(crate) type SoftHost = Host<Manager, SoftDevice>;

/// What the hosts of a test have in common.
pub(crate) struct Kind {
    pub(crate) target: SocketAddr,
    pub(crate) subnqn: &'static str,
    pub(crate) io_queues: usize,
    pub(crate) io_entries: u16,
    /// 0 for no keep-alive.
    pub(crate) kato_ms: u32,
    /// Bytes of a host.
    pub(crate) memory: usize,
    pub(crate) transport: Config,
}

impl Kind {
    /// The host of this number, which is not connected yet. One that comes before there is a place
    /// for it tries again.
    pub(crate) fn host(&self, index: usize) -> SoftHost {
        let mut hostid = [1; 16];
        hostid[..8].copy_from_slice(&(index as u64).to_le_bytes());
        let controller = ControllerConfig {
            subnqn: Nqn::new(self.subnqn).expect("a name"),
            hostnqn: Nqn::new(&format!("nqn.2014-08.org.example:host{index}")).expect("a name"),
            hostid,
            admin_entries: 32,
            io_queues: self.io_queues as u16,
            io_entries: self.io_entries,
            kato_ms: self.kato_ms,
            flow_control: true,
            async_events: 1,
        };
        let config = HostConfig {
            target: self.target,
            core: CoreIndex(0),
            controller,
            pace: Pace::Head,
            responder_resources: 4,
            invalidate: true,
            connect_in_capsule: false,
            attempt_timeout: Duration::from_secs(10),
            reconnect_delay: Some(Duration::from_millis(20)),
            lenient: false,
        };
        let region = Arc::new(Region::map(self.memory, Pages::Normal).expect("memory"));
        let mut manager = Manager::new(self.transport);
        let device = manager.open_device(region.clone());
        Host::new(config, region, manager, device)
    }
}

/// A number from the environment, else the usual one.
pub(crate) fn scale(name: &str, usual: usize) -> usize {
    std::env::var(name).map_or(usual, |text| text.parse().expect("a number"))
}
