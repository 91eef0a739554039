//! Serving with the RDMA providers that the listeners need.

use super::build;
use crate::config::{Config, Tuning};
use crate::disks::Disk;
use crate::operator::Start;
use crate::provider::{Carriers, choose};
use rdma::CoreIndex;
use region::Region;
use soft_roce::{Manager, SoftDevice};
use std::sync::Arc;
use tracing::info;

/// Serves until asked to stop.
///
/// # Errors
/// When a provider is asked for that this machine or this program does not have, or when the daemon
/// could not start with it.
pub(super) fn serve(start: Start, disks: Vec<Disk>) -> anyhow::Result<()> {
    let tuning = start.config.tuning.clone();
    match (start.carriers.verbs(), start.carriers.soft()) {
        (false, _) => build::serve(start, disks, soft_roce(&tuning)),
        #[cfg(feature = "verbs")]
        (true, false) => build::serve(start, disks, verbs::open(&tuning)?),
        #[cfg(feature = "verbs")]
        (true, true) => {
            let carriers = start.carriers.clone();
            build::serve(start, disks, verbs::beside_soft(&tuning, carriers)?)
        }
        #[cfg(not(feature = "verbs"))]
        (true, _) => anyhow::bail!(
            "a listener asks for provider = \"verbs\", which is not built in: build with the \
             feature `verbs`, or use provider = \"soft\""
        ),
    }
}

/// The providers that the listeners need.
pub(super) fn carriers(config: &Config) -> Carriers {
    let choices = config.listeners.iter().map(|listener| {
        let choice = choose(listener);
        info!(address = %listener.address, "RDMA by {choice}");
        (listener.address, choice)
    });
    Carriers::new(choices.collect())
}

/// Receives that the queues of a core share; 0 for none. A quarter of the core's memory is for
/// them, the rest for data.
fn shared_recv_depth(tuning: &Tuning) -> u32 {
    let receive = 64 + tuning.in_capsule.next_multiple_of(4096);
    let depth = (tuning.memory as u64 / 4 / u64::from(receive)).clamp(128, 4096) as u32;
    if tuning.shared_receive_queue { depth } else { 0 }
}

fn soft_roce(tuning: &Tuning) -> Manager {
    Manager::new(soft_roce::Config {
        cores: tuning.data_cores + 1,
        shared_recv_depth: shared_recv_depth(tuning),
        traffic_class: tuning.traffic_class,
        ..Default::default()
    })
}

impl build::Provider for Manager {
    type Device = SoftDevice;

    fn open_device(&mut self, _core: CoreIndex, region: Arc<Region>) -> SoftDevice {
        Manager::open_device(self, region)
    }
}

#[cfg(feature = "verbs")]
mod verbs {
    use super::super::build::Provider;
    use super::super::either::{EitherDevice, EitherManager, Which};
    use super::{shared_recv_depth, soft_roce};
    use crate::config::Tuning;
    use crate::provider::Carriers;
    use rdma::CoreIndex;
    use rdma_verbs::{Verbs, VerbsConfig, VerbsDevice};
    use region::Region;
    use soft_roce::{Manager, SoftDevice};
    use std::net::SocketAddr;
    use std::sync::Arc;

    pub(super) fn open(tuning: &Tuning) -> anyhow::Result<Verbs> {
        let shared_recv_depth = shared_recv_depth(tuning);
        Ok(Verbs::new(VerbsConfig { shared_recv_depth, ..Default::default() })?)
    }

    type Chooser = Box<dyn FnMut(SocketAddr) -> Which + Send>;

    pub(super) fn beside_soft(
        tuning: &Tuning,
        carriers: Carriers,
    ) -> anyhow::Result<EitherManager<Verbs, Manager, Chooser>> {
        let choose = move |address| {
            if carriers.is_soft(address) { Which::Second } else { Which::First }
        };
        Ok(EitherManager::new(open(tuning)?, soft_roce(tuning), Box::new(choose)))
    }

    impl Provider for Verbs {
        type Device = VerbsDevice;

        fn open_device(&mut self, core: CoreIndex, region: Arc<Region>) -> VerbsDevice {
            Verbs::open_device(self, core, region)
        }
    }

    impl Provider for EitherManager<Verbs, Manager, Chooser> {
        type Device = EitherDevice<VerbsDevice, SoftDevice>;

        fn open_device(&mut self, core: CoreIndex, region: Arc<Region>) -> Self::Device {
            let (verbs, soft) = self.parts();
            EitherDevice::new(verbs.open_device(core, region.clone()), soft.open_device(region))
        }
    }
}
