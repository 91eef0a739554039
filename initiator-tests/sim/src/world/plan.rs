//! What a seed makes of the world: sizes, chances, hosts.

use crate::disk::DiskConfig;
use crate::guest::{Guest, GuestConfig};
use crate::hostile::Hostile;
use crate::knocker::Knocker;
use crate::net::{Fabric, NetConfig};
use crate::rng::Rng;
use initiator::controller::ControllerConfig;
use initiator::{Host, HostConfig, Pace};
use nvme_spec_types::Nqn;
use rdma::CoreIndex;
use region::{Pages, Region};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// The subsystem that well-behaved hosts use.
pub(super) const NQN: &str = "nqn.2026-11.io.nvmfd:sim";
/// The subsystem left to hostile ones.
pub(super) const HOSTILE_NQN: &str = "nqn.2026-11.io.nvmfd:sim-hostile";

/// A namespace to be.
#[derive(Debug, Clone, Copy)]
pub struct VolumePlan {
    /// Size in blocks.
    pub blocks: u64,
    /// log2 of the block size.
    pub lba_shift: u8,
    /// Whether acknowledged writes may be lost in a power cut.
    pub volatile: bool,
    /// Whether writes are refused.
    pub read_only: bool,
    /// Whether deallocated blocks read as zeroes.
    pub discard_zeroes: bool,
}

/// A host to be.
#[derive(Debug, Clone)]
pub struct GuestPlan {
    /// Behaviour.
    pub behaviour: GuestConfig,
    /// I/O queues to ask for.
    pub io_queues: u16,
    /// Entries of each.
    pub io_entries: u16,
    /// Keep alive timeout in milliseconds, 0 for none.
    pub kato_ms: u32,
    /// Whether heads are sent.
    pub flow_control: bool,
    /// Outstanding commands as Linux keeps them.
    pub all_entries: bool,
    /// RDMA READs answered at a time.
    pub responder_resources: u8,
    /// Connect data inside the capsule.
    pub connect_in_capsule: bool,
}

/// Everything that is drawn before the first turn.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Data cores, 0 to 3.
    pub data_cores: u16,
    /// Bytes of memory of each core.
    pub core_memory: u32,
    /// Bytes of it for receives: enough for every queue of every host twice, since the old one may
    /// not be gone when a host connects anew.
    pub standing: u32,
    /// Largest transfer in bytes.
    pub max_transfer: u32,
    /// In-capsule data in bytes.
    pub in_capsule: u32,
    /// RDMA READs per queue pair that the target asks for.
    pub max_reads: u8,
    /// Whether the target asks for a shared receive queue.
    pub shared_recv: bool,
    /// The network.
    pub net: NetConfig,
    /// The disks.
    pub disk: DiskConfig,
    /// Namespaces.
    pub volumes: Vec<VolumePlan>,
    /// Well-behaved hosts.
    pub guests: Vec<GuestPlan>,
    /// How many hosts are not.
    pub hostiles: usize,
    /// How many times a host knocks that never comes in.
    pub knocks: u32,
    /// Chance per 10,000 turns that a connection is cut.
    pub cut: u32,
    /// Chance per 10,000 turns that a namespace or the right of a host changes.
    pub rebuild: u32,
    /// Whether nothing but that costs a host its connection.
    pub steady: bool,
    /// Whether power is cut after the storm.
    pub power_cut: bool,
    /// Largest delay of mail between threads, in nanoseconds.
    pub mail_delay: u64,
}

impl Plan {
    /// Draws a plan.
    pub fn draw(rng: &mut Rng) -> Plan {
        // Some worlds are without faults, so that "no failure for no reason" is checked in them.
        let rough = rng.chance(7_000);
        let often = |rng: &mut Rng, most: u32| match rough && rng.chance(5_000) {
            true => rng.range(1, u64::from(most)) as u32,
            false => 0,
        };
        let max_transfer = 4096 << rng.range(2, 8);
        let in_capsule: u32 = *rng.pick(&[0, 512, 4096, 4096, 8192]);
        let net = NetConfig {
            latency: (500, 500 + rng.below(40_000)),
            slow: often(rng, 200),
            refuse: often(rng, 500),
            lose_connect: often(rng, 500),
            short_poll: *rng.pick(&[0, 2_000, 8_000]),
            max_inline: *rng.pick(&[0, 16, 64]),
            device_reads: *rng.pick(&[1, 2, 16, 128]),
            max_qp_wr: *rng.pick(&[3, 20, 16_384, 16_384]),
            shared_recv: rng.chance(5_000).then(|| rng.range(64, 512) as u32),
        };
        let disk = DiskConfig {
            latency: (1_000, 1_000 + rng.below(300_000)),
            slow: often(rng, 100),
            stuck: often(rng, 30),
            fault: often(rng, 300),
            busy: often(rng, 300),
        };
        let volumes = (0..rng.range(1, 3))
            .map(|_| VolumePlan {
                blocks: rng.range(64, 1024),
                lba_shift: *rng.pick(&[9, 9, 12]),
                volatile: rng.chance(5_000),
                read_only: rng.chance(1_000),
                discard_zeroes: rng.chance(5_000),
            })
            .collect();
        let guests: Vec<GuestPlan> =
            (0..rng.range(1, 3)).map(|_| Self::draw_guest(rng, rough)).collect();
        let hostiles = usize::from(rng.chance(3_000));
        let queues: u32 = guests.iter().map(|guest| u32::from(guest.io_queues) + 1).sum();
        // Those who knock may ask for large queues, a dozen at a time.
        let knocked = 24 * 200;
        let receives =
            2 * (queues + 3 * hostiles as u32) * 64 + net.shared_recv.unwrap_or(0) + knocked;
        let standing = receives * (in_capsule.next_multiple_of(4096) + 512) + (1 << 20);
        let standing = standing.next_multiple_of(4096);
        Plan {
            data_cores: rng.below(4) as u16,
            // From room for one largest command to room for many.
            core_memory: standing + 2 * max_transfer * rng.range(1, 8) as u32,
            standing,
            max_transfer,
            in_capsule,
            max_reads: *rng.pick(&[1, 4, 16]),
            shared_recv: rng.chance(7_000),
            net,
            disk,
            volumes,
            guests,
            hostiles,
            knocks: often(rng, 60),
            cut: often(rng, 20),
            rebuild: if rng.chance(6_000) { rng.range(1, 60) as u32 } else { 0 },
            steady: !rough,
            power_cut: rng.chance(3_000),
            mail_delay: rng.below(20_000),
        }
    }

    fn draw_guest(rng: &mut Rng, rough: bool) -> GuestPlan {
        let restless = rough && rng.chance(3_000);
        let kato_ms = *rng.pick(&[0, 1_000, 5_000]);
        // Twice the timeout and a second: a target may be generous, but not endlessly.
        let silence = Duration::from_millis(2 * u64::from(kato_ms) + 1_000);
        GuestPlan {
            behaviour: GuestConfig {
                budget: rng.range(20, 250) as u32,
                depth: rng.range(1, 48) as usize,
                max_blocks: *rng.pick(&[8, 64, 512]),
                leave: if restless { 30 } else { 0 },
                silence: if restless { 10 } else { 0 },
                reset: if rng.chance(4_000) { 25 } else { 0 },
                invalidate: rng.chance(7_000),
                silence_limit: (kato_ms != 0).then_some(silence),
            },
            io_queues: rng.range(1, 4) as u16,
            io_entries: rng.range(16, 64) as u16,
            kato_ms,
            flow_control: rng.chance(7_000),
            all_entries: rng.chance(5_000),
            responder_resources: *rng.pick(&[1, 4, 16, 128]),
            connect_in_capsule: rng.chance(3_000),
        }
    }
}

/// The target's address.
pub(super) fn target_address() -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 1], 4420))
}

/// The number of the first well-behaved host among all hosts.
const FIRST_GUEST: u8 = 2;

/// What a well-behaved host is called.
pub(super) fn host_name(at: usize) -> String {
    name_of(FIRST_GUEST + at as u8)
}

fn name_of(number: u8) -> String {
    format!("nqn.2026-11.io.nvmfd:host{number}")
}

/// A well-behaved host on a node of its own.
pub(super) fn guest(plan: &Plan, at: usize, fabric: &Fabric, rng: Rng) -> Guest {
    let own = &plan.guests[at];
    let host = host(own, NQN, FIRST_GUEST + at as u8, true, fabric);
    Guest::new(at, host, own.behaviour.clone(), rng)
}

/// A hostile host on a node of its own.
pub(super) fn hostile(plan: &Plan, at: usize, fabric: &Fabric, mut rng: Rng) -> Hostile {
    let mut own = plan.guests[0].clone();
    own.io_queues = rng.range(1, 2) as u16;
    let host = host(&own, HOSTILE_NQN, at as u8 + 100, false, fabric);
    let budget = rng.range(10, 150) as u32;
    Hostile::new(host, rng, budget)
}

/// A host that only knocks, on a node of its own.
pub(super) fn knocker(plan: &Plan, fabric: &Fabric, rng: Rng) -> Knocker {
    let cm = fabric.add_node(SocketAddr::from(([10, 0, 0, 200], 40_000)), false);
    let region = Arc::new(Region::map(4096, Pages::Normal).expect("memory for a host"));
    let device = fabric.open_device(&cm, CoreIndex(0), region);
    Knocker::new(cm, device, target_address(), rng, plan.knocks)
}

fn host(
    own: &GuestPlan,
    nqn: &str,
    number: u8,
    trusted: bool,
    fabric: &Fabric,
) -> Host<crate::net::SimCm, crate::net::SimDevice> {
    let address = SocketAddr::from(([10, 0, 0, number], 40_000));
    let cm = fabric.add_node(address, trusted);
    let region = Arc::new(Region::map(16 << 20, Pages::Normal).expect("memory for a host"));
    let device = fabric.open_device(&cm, CoreIndex(0), region.clone());
    let name = name_of(number);
    let config = HostConfig {
        target: target_address(),
        core: CoreIndex(0),
        controller: ControllerConfig {
            subnqn: Nqn::new(nqn).expect("a constant name"),
            hostnqn: Nqn::new(&name).expect("a short name"),
            hostid: [number; 16],
            admin_entries: 32,
            io_queues: own.io_queues,
            io_entries: own.io_entries,
            kato_ms: own.kato_ms,
            flow_control: own.flow_control,
            async_events: 2,
        },
        pace: if own.all_entries { Pace::Entries } else { Pace::Head },
        responder_resources: own.responder_resources,
        invalidate: own.behaviour.invalidate,
        connect_in_capsule: own.connect_in_capsule,
        attempt_timeout: Duration::from_secs(15),
        reconnect_delay: Some(Duration::from_millis(5)),
        lenient: !trusted,
    };
    Host::new(config, region, cm, device)
}
