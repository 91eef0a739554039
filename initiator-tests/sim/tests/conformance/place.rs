//! A target in the simulator: a control core and one data core, without faults. Nothing happens
//! but in a turn, and time jumps to the next event when nobody has anything to do.

use backing::{BackingId, Geometry};
use conformance::offer::{self, ALLOWED_HOSTNQN, CLOSED_SUBNQN, Namespace, SUBNQN};
use conformance::{BareHost, HOST_MEMORY, Place, Running, Target};
use initiator::Bare;
use nvme_spec_types::Nqn;
use nvmf::BackingRef;
use nvmf::target::{
    ALL_CNTLIDS, AllowedHosts, DuplicateHosts, NamespaceConfig, PortConfig, SubsystemConfig,
    TargetConfig,
};
use rdma::{ConnectionManager, CoreIndex, Now};
use reactor::control::{Control, ControlConfig};
use reactor::core::{Core, CoreConfig};
use reactor::mail::ToControl;
use region::{Pages, Region};
use sim::disk::{DiskConfig, DiskId, Disks, SimIo};
use sim::net::{Fabric, NetConfig, SimCm, SimDevice};
use sim::rng::Rng;
use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// Fixed: a case shows one behaviour, and schedules are what the simulator's own worlds vary.
const SEED: u64 = 1;
/// Where the target listens.
const ADDRESS: ([u8; 4], u16) = ([10, 0, 0, 1], 4420);
/// What a turn takes.
const TURN: Duration = Duration::from_micros(1);

/// Makes a world for each target.
pub(crate) struct SimPlace;

struct SimTarget {
    fabric: Fabric,
    disks: Disks,
    reactor: RefCell<Reactor>,
    now: Cell<Now>,
    hosts: Cell<u8>,
}

/// The target's threads.
struct Reactor {
    control: Control<SimCm, SimDevice, SimIo>,
    core: Core<SimDevice, SimIo>,
    /// From the data core.
    mail: Vec<ToControl<<SimCm as ConnectionManager>::Endpoint>>,
}

impl Place for SimPlace {
    fn start(&self, namespaces: &[Namespace]) -> Target {
        let mut rng = Rng::new(SEED);
        let net = NetConfig {
            latency: (500, 5_000),
            slow: 0,
            refuse: 0,
            lose_connect: 0,
            short_poll: 0,
            max_inline: 64,
            device_reads: 16,
            max_qp_wr: 16_384,
            shared_recv: Some(512),
        };
        let fabric = Fabric::new(net, rng.fork());
        let disk = DiskConfig { latency: (5_000, 50_000), slow: 0, stuck: 0, fault: 0, busy: 0 };
        let disks = Disks::new(disk, rng.fork());
        let now = Duration::from_secs(1);
        let mut reactor = Reactor::new(&fabric, &disks);
        reactor.offer(now, &disks, namespaces);
        let (reactor, now) = (RefCell::new(reactor), Cell::new(now));
        Target::new(SimTarget { fabric, disks, reactor, now, hosts: Cell::new(0) })
    }
}

impl Reactor {
    fn new(fabric: &Fabric, disks: &Disks) -> Reactor {
        let cm = fabric.add_node(ADDRESS.into(), false);
        let [own, data] = [(0, offer::MEMORY[1], 0), (1, offer::MEMORY[0], offer::IN_CAPSULE)].map(
            |(index, memory, capsule)| {
                let index = CoreIndex(index);
                let region = Region::map(memory as usize, Pages::Normal).expect("memory");
                let region = Arc::new(region);
                let device = fabric.open_device(&cm, index, region.clone());
                let io = SimIo::new(disks.clone(), region.clone());
                let config = CoreConfig::halves(index, offer::MAX_TRANSFER, capsule, region.len());
                Core::new(config, region, device, io).expect("a core with memory enough")
            },
        );
        let target = nvmf::target::Target::new(TargetConfig {
            max_transfer: offer::MAX_TRANSFER,
            in_capsule: offer::IN_CAPSULE,
            max_queue_entries: offer::QUEUE_DEPTH,
            max_io_queues: offer::MAX_IO_QUEUES,
            cores: 2,
        });
        let config = ControlConfig { in_capsule: offer::IN_CAPSULE, ..ControlConfig::default() };
        let control = Control::new(config, cm, target, own);
        Reactor { control, core: data, mail: Vec::new() }
    }

    fn offer(&mut self, now: Now, disks: &Disks, namespaces: &[Namespace]) {
        let somebody = AllowedHosts::Only(vec![ALLOWED_HOSTNQN.into()]);
        let closed = [Namespace::ram(1, 512)];
        let subsystems =
            [(SUBNQN, AllowedHosts::Any, namespaces), (CLOSED_SUBNQN, somebody, &closed)];
        let mut next = 0;
        for (nqn, hosts, namespaces) in subsystems {
            let config = SubsystemConfig {
                nqn: nqn.into(),
                serial: "SIM".into(),
                model: "simulated".into(),
                hosts,
                duplicates: DuplicateHosts::Allow,
                cntlids: ALL_CNTLIDS,
            };
            let subsystem = self.control.add_subsystem(now, config).expect("a subsystem");
            for (nsid, namespace) in (1..).zip(namespaces) {
                let disk: DiskId = disks.add(geometry(namespace));
                self.control.add_backing(now, BackingId(next), disk);
                let config = namespace_config(nsid, BackingRef(next), namespace);
                self.control.add_namespace(now, subsystem, config).expect("a namespace");
                next += 1;
            }
        }
        let port = PortConfig { id: 1, address: ADDRESS.into() };
        self.control.listen(now, port).expect("a listener");
    }

    /// One turn of each thread.
    fn turn(&mut self, now: Now) -> bool {
        let mut to_cores = Vec::new();
        let mut worked = self.control.turn(now, &mut self.mail, &mut to_cores);
        worked |= !to_cores.is_empty();
        while self.control.next_event().is_some() {
            worked = true;
        }
        for (_, message) in to_cores {
            self.core.handle(now, message, &mut self.mail);
        }
        worked |= self.core.turn(now, &mut self.mail) || !self.mail.is_empty();
        self.control.core().audit().expect("the books of the control core");
        self.core.audit().expect("the books of the data core");
        worked
    }

    fn timeout(&self) -> Option<Now> {
        [self.control.timeout(), self.core.timeout()].into_iter().flatten().min()
    }
}

impl Running for SimTarget {
    fn address(&self) -> SocketAddr {
        ADDRESS.into()
    }

    fn subnqn(&self) -> Nqn {
        Nqn::new(SUBNQN).expect("a name")
    }

    fn is_own(&self) -> bool {
        true
    }

    fn host(&self) -> Box<dyn BareHost> {
        self.hosts.set(self.hosts.get() + 1);
        let address = ([10, 0, 1, self.hosts.get()], 4420);
        let cm = self.fabric.add_node(address.into(), false);
        let region = Arc::new(Region::map(HOST_MEMORY, Pages::Normal).expect("memory"));
        let device = self.fabric.open_device(&cm, CoreIndex(0), region.clone());
        Box::new(Bare::new(ADDRESS.into(), CoreIndex(0), region, cm, device))
    }

    fn now(&self) -> Now {
        self.now.get()
    }

    fn pass(&self, until: Now) {
        let now = self.now.get();
        let mut reactor = self.reactor.borrow_mut();
        let worked = self.fabric.advance(now) | reactor.turn(now);
        let next = [self.fabric.next_event(), reactor.timeout()].into_iter().flatten().min();
        let soon = now + TURN;
        let then = if worked { soon } else { next.unwrap_or(until).clamp(soon, until.max(soon)) };
        self.now.set(then);
    }
}

impl Drop for SimTarget {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            assert_eq!(self.fabric.violation(), None, "the target broke a rule of the RDMA seam");
            assert_eq!(self.disks.violation(), None, "the target broke a rule of the disks");
        }
    }
}

fn geometry(namespace: &Namespace) -> Geometry {
    Geometry {
        capacity: u64::from(namespace.mib) << 20,
        block_size: namespace.block_size,
        optimal_io: 4096,
        atomic_write: 0,
        volatile_cache: true,
        discard: true,
        discard_zeroes: true,
        read_only: namespace.read_only,
    }
}

fn namespace_config(nsid: u32, backing: BackingRef, namespace: &Namespace) -> NamespaceConfig {
    let lba_shift = namespace.block_size.trailing_zeros() as u8;
    NamespaceConfig {
        nsid,
        backing,
        lba_shift,
        block_count: (u64::from(namespace.mib) << 20) >> lba_shift,
        read_only: namespace.read_only,
        uuid: [nsid as u8; 16],
        nguid: [0; 16],
        eui64: [0; 8],
        volatile_cache: true,
        discard: true,
        discard_zeroes: true,
        atomic_blocks: 0,
        optimal_blocks: 4096 >> lba_shift,
    }
}
