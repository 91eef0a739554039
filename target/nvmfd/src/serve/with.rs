//! Serving with the RDMA providers that the listeners need.

use super::build;
use crate::config::{Config, Tuning};
use crate::disks::Disk;
use crate::provider::{Choice, choose};
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
pub(super) fn serve(config: &Config, disks: Vec<Disk>) -> anyhow::Result<()> {
    let mut choices = Vec::new();
    for listener in &config.listeners {
        let choice = choose(listener);
        info!(address = %listener.address, "RDMA by {choice}");
        choices.push((listener.address, choice));
    }
    let soft = choices.iter().any(|(_, choice)| matches!(choice, Choice::Soft(_)));
    let verbs = choices.iter().any(|(_, choice)| matches!(choice, Choice::Verbs(_)));
    match (verbs, soft) {
        (false, _) => build::serve(config, disks, soft_roce(&config.tuning)),
        #[cfg(feature = "verbs")]
        (true, false) => build::serve(config, disks, verbs::open(&config.tuning)?),
        #[cfg(feature = "verbs")]
        (true, true) => build::serve(config, disks, verbs::beside_soft(&config.tuning, choices)?),
        #[cfg(not(feature = "verbs"))]
        (true, _) => anyhow::bail!(
            "a listener asks for provider = \"verbs\", which is not built in: build with the \
             feature `verbs`, or use provider = \"soft\""
        ),
    }
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
    use crate::provider::Choice;
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
        choices: Vec<(SocketAddr, Choice)>,
    ) -> anyhow::Result<EitherManager<Verbs, Manager, Chooser>> {
        let choose = move |address| {
            let soft = choices
                .iter()
                .any(|(of, choice)| *of == address && matches!(choice, Choice::Soft(_)));
            if soft { Which::Second } else { Which::First }
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
