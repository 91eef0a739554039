//! What is known of a machine: plain values, so that a check can be tried on any machine made up.

use crate::check::Found;
use crate::provider::Choice;
use backing::{OpenError, RingMode};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

/// Everything that the checks look at.
#[derive(Debug)]
pub(crate) struct Facts {
    /// Where the scripts of kernel-setup are: as the package puts them, or as in the repository.
    pub(crate) scripts: &'static str,
    pub(crate) kernel: Kernel,
    pub(crate) process: Process,
    pub(crate) memory: Memory,
    /// Kernel modules that may matter, by name.
    pub(crate) modules: BTreeMap<&'static str, Module>,
    pub(crate) devices: Vec<RdmaDevice>,
    /// `/dev/infiniband/rdma_cm`.
    pub(crate) cm_node: Node,
    pub(crate) interfaces: Vec<Interface>,
    /// UDP sockets at port 4791.
    pub(crate) udp: Vec<Taken>,
    /// TCP sockets that listen.
    pub(crate) tcp: Vec<Taken>,
    /// RDMA ports of the kernel's own NVMe target.
    pub(crate) kernel_target: Vec<KernelPort>,
    /// Most bytes that a socket's receive buffer is granted (`net.core.rmem_max`).
    pub(crate) receive_cap: Option<u64>,
    pub(crate) firewall: Firewall,
    /// NUMA nodes with CPUs.
    pub(crate) numa_nodes: usize,
    /// What is wrong with `tuning.cpus`.
    pub(crate) cpu_problems: Vec<String>,
    /// What carries each listener of the configuration.
    pub(crate) listeners: Vec<Carried>,
    /// The files and block devices of the configuration.
    pub(crate) disks: Vec<Disk>,
}

#[derive(Debug)]
pub(crate) struct Kernel {
    /// As `uname -r` says.
    pub(crate) release: String,
    /// `kernel.io_uring_disabled`: 0 for everyone, 1 for a group, 2 for nobody.
    pub(crate) io_uring_disabled: Option<u32>,
    /// A ring as a core makes it, or why there is none.
    pub(crate) ring: Result<RingMode, String>,
}

/// This process, which a daemon started in the same way would be like.
#[derive(Debug)]
pub(crate) struct Process {
    /// Bytes that may be locked; `None` for any.
    pub(crate) memlock: Option<u64>,
    /// Descriptors that may be open; `None` for any.
    pub(crate) nofile: Option<u64>,
    /// CAP_IPC_LOCK: the limit of locked memory does not count.
    pub(crate) may_lock: bool,
    /// CAP_NET_ADMIN: the caps of socket buffers do not count.
    pub(crate) may_force_buffers: bool,
}

#[derive(Debug)]
pub(crate) struct Memory {
    /// Bytes that could be had without swapping.
    pub(crate) available: u64,
    /// Reserved huge pages that are free.
    pub(crate) huge_free: u64,
    /// Bytes of one.
    pub(crate) huge_size: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Module {
    /// Loaded, or built in.
    Loaded,
    /// The kernel has it and has not loaded it.
    Available,
    /// The kernel was built without it, or its package is not installed.
    Absent,
}

/// A device node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Node {
    Absent,
    /// There, and not for this user.
    Closed(PathBuf),
    Open,
}

#[derive(Debug)]
pub(crate) struct RdmaDevice {
    pub(crate) name: String,
    /// iWARP runs over TCP and has no RoCE addresses.
    pub(crate) iwarp: bool,
    /// The kernel's software RoCE (rdma_rxe), which owns UDP port 4791 of the whole machine.
    pub(crate) rxe: bool,
    /// Its `/dev/infiniband/uverbs` node.
    pub(crate) node: Node,
    pub(crate) ports: Vec<RdmaPort>,
    pub(crate) place: Place,
}

#[derive(Debug)]
pub(crate) struct RdmaPort {
    pub(crate) number: u32,
    /// As sysfs says, without its number: `ACTIVE`, `DOWN`, `INIT`, `ARMED`.
    pub(crate) state: String,
    /// `Ethernet` or `InfiniBand`.
    pub(crate) link_layer: String,
    pub(crate) rate: String,
    /// The network interface of its addresses.
    pub(crate) interface: Option<String>,
    /// How many RoCE v2 addresses it has.
    pub(crate) roce_v2_gids: usize,
    /// What connections from here use by default, where the kernel was asked to tell.
    pub(crate) default_roce_mode: Option<String>,
}

/// Where in the machine a card sits.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Place {
    /// Its NUMA node, where it has one.
    pub(crate) node: Option<u32>,
    /// The CPUs near it.
    pub(crate) cpus: Vec<usize>,
    /// Its interrupts, with the CPUs that take them.
    pub(crate) irqs: Vec<(u32, Vec<usize>)>,
}

#[derive(Debug)]
pub(crate) struct Interface {
    pub(crate) name: String,
    pub(crate) loopback: bool,
    /// An administrator turned it on.
    pub(crate) up: bool,
    /// The link is there.
    pub(crate) running: bool,
    /// `None` where it is not told: in a container, sysfs may show another network.
    pub(crate) mtu: Option<u32>,
    pub(crate) addresses: Vec<IpAddr>,
    pub(crate) place: Place,
}

/// A socket that someone has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Taken {
    pub(crate) at: SocketAddr,
    /// Process number and name; `None` for the kernel, and for what may not be looked at.
    pub(crate) owner: Option<(u32, String)>,
}

impl Taken {
    /// Whether a socket at `other` would be in its way, or all addresses that `other` stands for.
    pub(crate) fn overlaps(&self, other: SocketAddr) -> bool {
        let any = self.at.ip().is_unspecified() || other.ip().is_unspecified();
        // A wildcard of IPv6 may take IPv4 with it.
        let same = self.at.is_ipv4() == other.is_ipv4()
            || (self.at.is_ipv6() && self.at.ip().is_unspecified());
        self.at.port() == other.port() && same && (any || self.at.ip() == other.ip())
    }
}

/// A port of the kernel's NVMe target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KernelPort {
    /// Its folder in `/sys/kernel/config/nvmet/ports`.
    pub(crate) id: String,
    pub(crate) address: String,
    pub(crate) service: String,
}

/// Rules for packets that come in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Firewall {
    /// The kernel filters nothing.
    None,
    /// It may filter, and the rules could not be read.
    Unreadable,
    /// What `nft list ruleset` says.
    Nft(String),
    /// What `iptables-save` says.
    Iptables(String),
}

/// A listener, and what carries it.
#[derive(Debug)]
pub(crate) struct Carried {
    pub(crate) address: SocketAddr,
    pub(crate) by: Choice,
    /// Why our own endpoint could not have RoCE's port there now, as serving would say.
    pub(crate) refused: Option<String>,
}

/// A file or block device of the configuration.
#[derive(Debug)]
pub(crate) struct Disk {
    pub(crate) nqn: String,
    pub(crate) nsid: u32,
    pub(crate) path: PathBuf,
    pub(crate) is_device: bool,
    /// Page cache by configuration.
    pub(crate) buffered: bool,
    pub(crate) found: Result<Found, OpenError>,
    /// Type of its file system, and where that is mounted; for files.
    pub(crate) file_system: Option<(String, PathBuf)>,
    /// Direct I/O of a file: its smallest unit in bytes, 0 for impossible, `None` where the kernel
    /// does not tell.
    pub(crate) direct: Option<u32>,
    /// What it may come to lack of space.
    pub(crate) space: Option<String>,
    /// The write cache of the device beneath: `write back` or `write through`.
    pub(crate) write_cache: Option<String>,
    /// The kernel name of the device beneath.
    pub(crate) device: Option<String>,
}
