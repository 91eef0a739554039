//! Who carries RDMA: verbs or soft-roce.

use anyhow::Result;
use clap::ValueEnum;
use rdma::{ConnectionManager, Connector, CoreIndex, HostDevice};
use region::Region;
use std::net::SocketAddr;
use std::sync::Arc;

/// What the user asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Choice {
    /// Verbs where an RDMA device of this machine reaches the target, soft otherwise
    Auto,
    /// RoCEv2 in user space over UDP port 4791
    Soft,
    /// RDMA devices through libibverbs
    Verbs,
}

/// Packets that a device counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Packets {
    /// Sent and received.
    pub(crate) all: u64,
    /// Sent again.
    pub(crate) repeated: u64,
}

impl std::ops::Sub for Packets {
    type Output = Packets;

    fn sub(self, before: Packets) -> Packets {
        Packets { all: self.all - before.all, repeated: self.repeated - before.repeated }
    }
}

/// What this program needs of an RDMA provider.
pub(crate) trait Provider: Sized {
    type Manager: Connector<Endpoint = Self::Endpoint> + Send + 'static;
    type Device: HostDevice<Endpoint = Self::Endpoint> + Send + 'static;
    type Endpoint: Send;

    /// A connection manager for hosts on `cores` threads.
    ///
    /// # Errors
    /// When the machine has none of its devices.
    fn open(cores: u16) -> Result<Self::Manager>;

    /// The device of one thread, whose memory is `region`.
    fn device(manager: &mut Self::Manager, core: CoreIndex, region: Arc<Region>) -> Self::Device;

    /// What the device counted, where the provider is made of packets of our own.
    fn packets(device: &Self::Device) -> Option<Packets>;
}

/// RoCEv2 in user space.
#[derive(Debug)]
pub(crate) struct Soft;

impl Provider for Soft {
    type Manager = soft_roce::Manager;
    type Device = soft_roce::SoftDevice;
    type Endpoint = <soft_roce::Manager as ConnectionManager>::Endpoint;

    fn open(cores: u16) -> Result<Self::Manager> {
        let config = soft_roce::Config { cores, shared_recv_depth: 0, ..Default::default() };
        Ok(soft_roce::Manager::new(config))
    }

    fn device(manager: &mut Self::Manager, _core: CoreIndex, region: Arc<Region>) -> Self::Device {
        manager.open_device(region)
    }

    fn packets(device: &Self::Device) -> Option<Packets> {
        let counters = device.counters();
        let all = counters.sent + counters.received;
        Some(Packets { all, repeated: counters.retransmitted })
    }
}

/// RDMA devices.
#[cfg(feature = "verbs")]
#[derive(Debug)]
pub(crate) struct Verbs;

#[cfg(feature = "verbs")]
impl Provider for Verbs {
    type Manager = rdma_verbs::Verbs;
    type Device = rdma_verbs::VerbsDevice;
    type Endpoint = rdma_verbs::Endpoint;

    fn open(_cores: u16) -> Result<Self::Manager> {
        let config = rdma_verbs::VerbsConfig { shared_recv_depth: 0, ..Default::default() };
        Ok(rdma_verbs::Verbs::new(config)?)
    }

    fn device(manager: &mut Self::Manager, core: CoreIndex, region: Arc<Region>) -> Self::Device {
        manager.open_device(core, region)
    }

    fn packets(_device: &Self::Device) -> Option<Packets> {
        None
    }
}

/// Whether to use verbs for this target.
///
/// # Errors
/// When they are asked for but not built in.
pub(crate) fn use_verbs(choice: Choice, target: SocketAddr) -> Result<bool> {
    match choice {
        Choice::Soft => Ok(false),
        Choice::Verbs if cfg!(feature = "verbs") => Ok(true),
        Choice::Verbs => anyhow::bail!(
            "verbs are not built in: build with the feature `verbs`, or use --provider soft"
        ),
        Choice::Auto => Ok(reachable_by_verbs(target)),
    }
}

/// Whether an RDMA device has the address that packets to the target leave from.
#[cfg(feature = "verbs")]
fn reachable_by_verbs(target: SocketAddr) -> bool {
    let any: SocketAddr =
        if target.is_ipv4() { ([0, 0, 0, 0], 0).into() } else { ([0u16; 8], 0).into() };
    let local = std::net::UdpSocket::bind(any).and_then(|probe| {
        probe.connect(target)?;
        probe.local_addr()
    });
    local.is_ok_and(|local| rdma_verbs::device_at(local).is_some())
}

#[cfg(not(feature = "verbs"))]
fn reachable_by_verbs(_target: SocketAddr) -> bool {
    false
}
