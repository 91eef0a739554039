//! The target's side: control core, data cores, and the mail between them.

use super::changes::{Passing, Settling, namespace, planned};
use super::plan::{HOSTILE_NQN, NQN, Plan, VolumePlan, target_address};
use crate::disk::{DiskId, Disks, SimIo};
use crate::guest::{Offers, Shared, Volume};
use crate::net::{Fabric, NetFault, SimCm, SimDevice};
use crate::rng::Rng;
use backing::{BackingId, Geometry};
use nvmf::SubsystemRef;
use nvmf::target::{
    ALL_CNTLIDS, AllowedHosts, DuplicateHosts, PortConfig, SubsystemConfig, Target, TargetConfig,
};
use rdma::{ConnectionManager, CoreIndex, Now};
use reactor::control::{Control, ControlConfig, ControlEvent};
use reactor::core::{Core, CoreConfig};
use reactor::mail::{ToControl, ToCore};
use region::{Pages, Region};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

type Endpoint = <SimCm as ConnectionManager>::Endpoint;
type CoreMail = ToCore<Endpoint, DiskId>;
type ControlMail = ToControl<Endpoint>;

/// A fault planted on purpose, to show that the world notices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// A response's SEND never completes.
    LostCompletion,
    /// Responses are read from memory that holds something else by then.
    StaleResponse,
    /// A change of namespaces does not reach one of the cores.
    ChangeLost,
    /// A host that may not use the subsystem any more is left alone.
    BanIgnored,
    /// A buffer goes back to its pool twice.
    #[cfg(feature = "plant")]
    BufferFreedTwice,
    /// The credit of an RDMA READ never comes back.
    #[cfg(feature = "plant")]
    ReadCreditLeaked,
    /// Writes slip in between a fused pair's read and its write.
    #[cfg(feature = "plant")]
    ClaimsIgnored,
}

impl Fault {
    /// All of them, by name.
    pub const ALL: &'static [(&'static str, Fault)] = &[
        ("lost-completion", Fault::LostCompletion),
        ("stale-response", Fault::StaleResponse),
        ("change-lost", Fault::ChangeLost),
        ("ban-ignored", Fault::BanIgnored),
        #[cfg(feature = "plant")]
        ("buffer-freed-twice", Fault::BufferFreedTwice),
        #[cfg(feature = "plant")]
        ("read-credit-leaked", Fault::ReadCreditLeaked),
        #[cfg(feature = "plant")]
        ("claims-ignored", Fault::ClaimsIgnored),
    ];
}

struct DataCore {
    core: Core<SimDevice, SimIo>,
    /// For the core, with when it arrives.
    inbox: VecDeque<(Now, CoreMail)>,
    /// For the control thread, with when it arrives.
    outbox: VecDeque<(Now, ControlMail)>,
    /// Messages for the core so far, and how many of them it has taken.
    posted: u64,
    taken: u64,
}

/// See the [module](self).
pub(super) struct Stage {
    pub(super) control: Option<Control<SimCm, SimDevice, SimIo>>,
    cores: Vec<DataCore>,
    pub(super) volumes: Vec<(DiskId, VolumePlan)>,
    mail_delay: u64,
    pub(super) subsystem: Option<SubsystemRef>,
    pub(super) passing: Passing,
    pub(super) settling: Vec<Settling>,
    /// Where each volume is now.
    pub(super) backings: Vec<BackingId>,
    /// What each is known by, where that is not as planned.
    pub(super) uuids: Vec<Option<[u8; 16]>>,
    /// For the next backing; they are not used twice.
    pub(super) next_backing: u32,
    /// How many well-behaved hosts there are.
    pub(super) guests: usize,
    pub(super) fault: Option<Fault>,
    /// Whether what was offered at the start was told to every core.
    offered: bool,
}

impl Stage {
    pub(super) fn new(
        plan: &Plan,
        fabric: &Fabric,
        disks: &Disks,
        shared: &mut Shared,
        fault: Option<Fault>,
    ) -> Stage {
        let mut volumes = Vec::new();
        for (at, &volume) in plan.volumes.iter().enumerate() {
            let disk = disks.add(geometry(&volume));
            volumes.push((disk, volume));
            shared.volumes.push(Volume {
                nsid: at as u32 + 1,
                disk: shared.checker.add_disk(volume.blocks, volume.volatile),
                blocks: volume.blocks,
                lba_shift: volume.lba_shift,
            });
            shared.offers.push(Offers::new(planned(&volume)));
        }
        // The last one belongs to hostile hosts and is not in the model.
        let spare = VolumePlan {
            blocks: 256,
            lba_shift: 9,
            volatile: false,
            read_only: false,
            discard_zeroes: false,
        };
        volumes.push((disks.add(geometry(&spare)), spare));
        let mut stage = Stage {
            control: None,
            cores: Vec::new(),
            volumes,
            mail_delay: plan.mail_delay,
            subsystem: None,
            passing: Passing::Absent,
            settling: Vec::new(),
            backings: Vec::new(),
            uuids: Vec::new(),
            next_backing: 0,
            guests: plan.guests.len(),
            fault,
            offered: false,
        };
        stage.build(plan, fabric, disks);
        stage
    }

    fn build(&mut self, plan: &Plan, fabric: &Fabric, disks: &Disks) {
        let cm = fabric.add_node(target_address(), false);
        match self.fault {
            Some(Fault::LostCompletion) => fabric.plant(NetFault::LoseSendCompletion),
            Some(Fault::StaleResponse) => fabric.plant(NetFault::StaleSend),
            _ => {}
        }
        let fault = self.fault;
        let mut cores = (0..=plan.data_cores).map(|index| {
            let memory = plan.core_memory as usize;
            let region = Arc::new(Region::map(memory, Pages::Normal).expect("memory for a core"));
            let device = fabric.open_device(&cm, CoreIndex(index), region.clone());
            let io = SimIo::new(disks.clone(), region.clone());
            let (transfer, capsule) = (plan.max_transfer, plan.in_capsule);
            let config = CoreConfig {
                standing: plan.standing,
                ..CoreConfig::halves(CoreIndex(index), transfer, capsule, region.len())
            };
            let core = Core::new(config, region, device, io).expect("a core with memory enough");
            planted(core, fault)
        });
        let own = cores.next().expect("core 0");
        self.cores = cores
            .map(|core| DataCore {
                core,
                inbox: VecDeque::new(),
                outbox: VecDeque::new(),
                posted: 0,
                taken: 0,
            })
            .collect();
        let target = Target::new(TargetConfig {
            max_transfer: plan.max_transfer,
            in_capsule: plan.in_capsule,
            max_queue_entries: 128,
            max_io_queues: 8,
            cores: usize::from(plan.data_cores) + 1,
        });
        let config = ControlConfig {
            data_cores: plan.data_cores,
            in_capsule: plan.in_capsule,
            shared_recv: plan.shared_recv,
            max_reads: plan.max_reads,
            ..ControlConfig::default()
        };
        self.control = Some(Control::new(config, cm, target, own));
    }

    fn control(&mut self) -> &mut Control<SimCm, SimDevice, SimIo> {
        self.control.as_mut().expect("power is on")
    }

    /// Configures the target and listens.
    pub(super) fn start(&mut self, now: Now, shared: &mut Shared) -> Result<(), String> {
        let say = |error: &dyn std::fmt::Display| format!("configuration refused: {error}");
        let volumes = self.volumes.clone();
        self.forget_changes(shared);
        let control = self.control.as_mut().expect("power is on");
        for (at, &(disk, _)) in volumes.iter().enumerate() {
            control.add_backing(now, BackingId(at as u32), disk);
        }
        let last = volumes.len() - 1;
        for (nqn, range) in [(NQN, 0..last), (HOSTILE_NQN, last..last + 1)] {
            let config = SubsystemConfig {
                nqn: nqn.into(),
                serial: "SIM".into(),
                model: "simulated".into(),
                hosts: AllowedHosts::Any,
                duplicates: DuplicateHosts::Allow,
                cntlids: ALL_CNTLIDS,
            };
            let subsystem = control.add_subsystem(now, config).map_err(|e| say(&e))?;
            if nqn == NQN {
                self.subsystem = Some(subsystem);
            }
            let first = range.start;
            for at in range {
                let volume = volumes[at].1;
                let config = namespace((at - first) as u32 + 1, at as u32, &volume);
                control.add_namespace(now, subsystem, config).map_err(|e| say(&e))?;
            }
        }
        let port = PortConfig { id: 1, address: target_address() };
        control.listen(now, port).map_err(|e| say(&e))?;
        Ok(())
    }

    /// Cores, the control core included.
    pub(super) fn cores(&self) -> usize {
        self.cores.len() + 1
    }

    /// One turn of a core: 0 the control core.
    pub(super) fn turn(
        &mut self,
        now: Now,
        core: usize,
        rng: &mut Rng,
        shared: &mut Shared,
    ) -> Result<bool, String> {
        let Some(control) = self.control.as_mut() else { return Ok(false) };
        let delay = self.mail_delay;
        if core == 0 {
            let mut mail = Vec::new();
            for data in &mut self.cores {
                while data.outbox.front().is_some_and(|(at, _)| *at <= now) {
                    mail.extend(data.outbox.pop_front().map(|(_, message)| message));
                }
            }
            let mut out = Vec::new();
            let worked = control.turn(now, &mut mail, &mut out);
            for (index, message) in out {
                let data = &mut self.cores[usize::from(index.0) - 1];
                let after = data.inbox.back().map_or(now, |(at, _)| *at);
                let at = (now + Duration::from_nanos(rng.below(delay + 1))).max(after);
                data.posted += 1;
                let lost = self.fault == Some(Fault::ChangeLost) && self.offered && index.0 == 1;
                if lost && matches!(message, ToCore::Publish(_)) {
                    data.taken += 1;
                    continue;
                }
                data.inbox.push_back((at, message));
            }
            self.offered = true;
            let posted = || self.cores.iter().map(|data| data.posted).collect();
            Settling::mail_was_posted(&mut self.settling, posted);
            while let Some(event) = control.next_event() {
                if let ControlEvent::BackingRemoved(id) = event
                    && self.passing == Passing::Leaving(id)
                {
                    self.passing = Passing::Absent;
                }
            }
            self.settle(shared);
            let audit = self.control.as_ref().map(|control| control.core().audit());
            audit.transpose().map_err(|what| format!("core 0: {what}"))?;
            return Ok(worked);
        }
        let data = &mut self.cores[core - 1];
        let mut out = Vec::new();
        let mut worked = false;
        while data.inbox.front().is_some_and(|(at, _)| *at <= now) {
            let Some((_, message)) = data.inbox.pop_front() else { break };
            data.core.handle(now, message, &mut out);
            data.taken += 1;
            worked = true;
        }
        worked |= data.core.turn(now, &mut out);
        for message in out {
            let after = data.outbox.back().map_or(now, |(at, _)| *at);
            let at = (now + Duration::from_nanos(rng.below(delay + 1))).max(after);
            data.outbox.push_back((at, message));
        }
        data.core.audit().map_err(|what| format!("core {core}: {what}"))?;
        self.settle(shared);
        Ok(worked)
    }

    /// Tells the model which changes are in force.
    fn settle(&mut self, shared: &mut Shared) {
        if !self.settling.is_empty() {
            let taken: Vec<u64> = self.cores.iter().map(|data| data.taken).collect();
            Settling::settle(&mut self.settling, &taken, shared);
        }
    }

    /// When a core must have a turn.
    pub(super) fn timeout(&self) -> Option<Now> {
        let control = self.control.as_ref()?.timeout();
        let mail = self.cores.iter().flat_map(|data| {
            let inbox = data.inbox.front().map(|(at, _)| *at);
            let outbox = data.outbox.front().map(|(at, _)| *at);
            [inbox, outbox, data.core.timeout()]
        });
        mail.chain([control]).flatten().min()
    }

    /// All that the target holds in memory is gone.
    pub(super) fn power_off(&mut self, fabric: &Fabric) {
        self.control = None;
        self.cores.clear();
        fabric.power_off(target_address());
    }

    /// A new target on the same disks.
    pub(super) fn power_on(
        &mut self,
        plan: &Plan,
        fabric: &Fabric,
        disks: &Disks,
        _shared: &Shared,
    ) -> Result<(), String> {
        self.build(plan, fabric, disks);
        Ok(())
    }

    /// Asks the target to stop.
    pub(super) fn stop(&mut self, now: Now) {
        self.control().begin_stop(now);
    }

    /// Whether no queue and no message is left.
    pub(super) fn is_empty(&self) -> bool {
        let control = self
            .control
            .as_ref()
            .is_none_or(|control| control.queue_count() == 0 && control.core().is_idle());
        let idle = |data: &DataCore| {
            data.inbox.is_empty() && data.outbox.is_empty() && data.core.is_idle()
        };
        control && self.cores.iter().all(idle)
    }

    /// What must be free is free.
    pub(super) fn nothing_is_left(&self) -> Result<(), String> {
        let own = self.control.iter().map(Control::core);
        for core in own.chain(self.cores.iter().map(|data| &data.core)) {
            let stats = core.stats();
            if stats.transfer_bytes != 0 || stats.queues != 0 {
                return Err(format!("core {}: left at the end: {stats:?}", core.index().0));
            }
        }
        Ok(())
    }
}

/// The core with a fault of its own planted, if it is one of those.
#[cfg(feature = "plant")]
fn planted(mut core: Core<SimDevice, SimIo>, fault: Option<Fault>) -> Core<SimDevice, SimIo> {
    match fault {
        Some(Fault::BufferFreedTwice) => core.plant(reactor::core::Plant::BufferFreedTwice),
        Some(Fault::ReadCreditLeaked) => core.plant(reactor::core::Plant::ReadCreditLeaked),
        Some(Fault::ClaimsIgnored) => core.plant(reactor::core::Plant::ClaimsIgnored),
        _ => {}
    }
    core
}

#[cfg(not(feature = "plant"))]
fn planted(core: Core<SimDevice, SimIo>, _: Option<Fault>) -> Core<SimDevice, SimIo> {
    core
}

fn geometry(volume: &VolumePlan) -> Geometry {
    Geometry {
        capacity: volume.blocks << volume.lba_shift,
        block_size: 1 << volume.lba_shift,
        optimal_io: 4096,
        atomic_write: 0,
        volatile_cache: volume.volatile,
        discard: true,
        discard_zeroes: volume.discard_zeroes,
        // Whether writes are refused is up to the namespace, and changes.
        read_only: false,
    }
}
