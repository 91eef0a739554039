//! The RDMA providers that are built in.

use crate::config::Config;
use crate::disks::Disk;

/// Serves with the provider that the machine has.
///
/// # Errors
/// When there is none, or when the daemon could not start with it.
#[cfg(feature = "verbs")]
pub(super) fn serve(config: &Config, disks: Vec<Disk>) -> anyhow::Result<()> {
    let tuning = &config.tuning;
    // A quarter of a core's memory for receives that its queues share; the rest is for data.
    let receive = 64 + tuning.in_capsule.next_multiple_of(4096);
    let depth = (tuning.memory as u64 / 4 / u64::from(receive)).clamp(128, 4096) as u32;
    let verbs = rdma_verbs::Verbs::new(rdma_verbs::VerbsConfig {
        shared_recv_depth: if tuning.shared_receive_queue { depth } else { 0 },
        ..Default::default()
    })?;
    super::build::serve(config, disks, verbs)
}

#[cfg(feature = "verbs")]
impl super::build::Provider for rdma_verbs::Verbs {
    type Device = rdma_verbs::VerbsDevice;

    fn open_device(
        &mut self,
        core: rdma::CoreIndex,
        region: std::sync::Arc<region::Region>,
    ) -> rdma_verbs::VerbsDevice {
        rdma_verbs::Verbs::open_device(self, core, region)
    }
}

/// Serves with the provider that the machine has.
///
/// # Errors
/// Always: this program was built without one.
#[cfg(not(feature = "verbs"))]
pub(super) fn serve(_config: &Config, _disks: Vec<Disk>) -> anyhow::Result<()> {
    anyhow::bail!("no RDMA provider is built in: build with the feature `verbs`")
}
