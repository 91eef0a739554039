//! What goes into the target and what comes out.

use crate::view::{HostSettings, QueueActivity, SubsystemView};
use crate::{BackingRef, Outcome, QueueKey, Slot, SubsystemRef};
use nvme_spec_types::fabrics::CNTLID_MAX;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::sync::Arc;

/// Limits that hold for the whole target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TargetConfig {
    /// Largest data transfer of one command in bytes: 4096 × a power of two (MDTS).
    pub max_transfer: u32,
    /// In-capsule data of I/O queues in bytes, a multiple of 16 (IOCCSZ).
    pub in_capsule: u32,
    /// Most entries of an I/O queue, 16 to 4096 (MQES + 1).
    pub max_queue_entries: u16,
    /// Most I/O queues of one controller.
    pub max_io_queues: u16,
    /// Cores of the reactor, the control thread included: how many counters a namespace has.
    pub cores: usize,
}

/// A subsystem of the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubsystemConfig {
    /// Its NVMe Qualified Name, valid.
    pub nqn: String,
    /// Serial number, at most 20 printable ASCII characters.
    pub serial: String,
    /// Model number, at most 40 printable ASCII characters.
    pub model: String,
    /// Who may connect.
    pub hosts: AllowedHosts,
    /// What becomes of a host that comes a second time.
    pub duplicates: DuplicateHosts,
    /// The controller ids that are given to hosts, within [`ALL_CNTLIDS`]: a subsystem that is
    /// served by two targets has its halves there.
    pub cntlids: RangeInclusive<u16>,
}

/// Every controller id that a controller can have (NVMe Base 2.1, 6.3): FFF0h and above are
/// reserved or mean something else.
pub const ALL_CNTLIDS: RangeInclusive<u16> = 1..=CNTLID_MAX;

/// Whether a host may have several controllers of a subsystem at a time. Hosts are the same when
/// their NQNs are, or their host identifiers, but for an identifier of zero, which names nobody
/// (NVMe Base 2.1, 5.1.25.1.28).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DuplicateHosts {
    /// As many as it wants, over one port or several.
    #[default]
    Allow,
    /// One through each port: several paths, each of them once.
    OnePerPort,
    /// One.
    Refuse,
}

/// Which hosts may use a subsystem.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AllowedHosts {
    /// Every host.
    Any,
    /// Those with these NQNs.
    Only(Vec<String>),
}

/// A namespace of the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamespaceConfig {
    /// 1 to FFFFFFFEh.
    pub nsid: u32,
    /// Where its blocks are.
    pub backing: BackingRef,
    /// log2 of the logical block size in bytes: 9 or 12.
    pub lba_shift: u8,
    /// Size in logical blocks, at least 1.
    pub block_count: u64,
    /// Whether writes are refused.
    pub read_only: bool,
    /// RFC 9562 identifier.
    pub uuid: [u8; 16],
    /// NGUID; all zero for none.
    pub nguid: [u8; 16],
    /// EUI-64; all zero for none.
    pub eui64: [u8; 8],
    /// Whether an acknowledged write may be lost in a power cut until flushed.
    pub volatile_cache: bool,
    /// Whether Deallocate gives space back.
    pub discard: bool,
    /// Whether deallocated blocks read back as zeroes.
    pub discard_zeroes: bool,
    /// Largest write that a power cut leaves whole or undone, in logical blocks (0: none promised).
    pub atomic_blocks: u32,
    /// Preferred transfer granularity in logical blocks (0: not stated).
    pub optimal_blocks: u32,
}

/// An address that hosts reach us at, as discovery tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortConfig {
    /// Port identifier (PORTID), unique.
    pub id: u16,
    /// The listening address; a wildcard is told as the address that the asking host reached.
    pub address: SocketAddr,
}

/// What discovery tells beside the subsystems.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DiscoveryConfig {
    /// A name of its own for the discovery subsystem, which answers to the well-known one all the
    /// same.
    pub nqn: Option<String>,
    /// Which ports a host is told.
    pub tell: TellPorts,
    /// Other discovery services, at most [`super::MAX_REFERRALS`].
    pub referrals: Vec<Referral>,
}

/// Which ports a host is told of each subsystem.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TellPorts {
    /// Those that a host at the other end of the address that it asked at is likely to reach: of
    /// that address's family, and of its scope (loopback, link-local on the same interface, or
    /// neither).
    #[default]
    Reachable,
    /// The one that it asked at.
    Asked,
    /// Every one, whether the host can reach it or not.
    All,
}

/// Another discovery service to ask.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Referral {
    /// Where it listens; not a wildcard.
    pub address: SocketAddr,
    /// Its own name; without one it is told by the well-known name.
    pub nqn: Option<String>,
}

/// What an RDMA connect request asks for, found good.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Admission {
    /// 0 for an admin queue.
    pub qid: u16,
    /// Entries of the submission queue: receives to keep posted (HSQSIZE + 1).
    pub sq_entries: u16,
    /// Responses that the host is ready to receive (HRQSIZE).
    pub host_receives: u16,
    /// The controller that an I/O queue says it belongs to; FFFFh when it does not say.
    pub cntlid: u16,
}

/// A queue whose connection was admitted.
#[derive(Debug, Clone)]
pub struct QueueInfo {
    /// What it was admitted with.
    pub admission: Admission,
    /// The port it came to.
    pub port: u16,
    /// The address of ours that it reached.
    pub local: SocketAddr,
    /// The host's address.
    pub peer: SocketAddr,
    /// When its core last heard from it.
    pub activity: QueueActivity,
}

/// What a successful Connect makes of a queue. The reactor gives it to the queue before the
/// Connect command is completed.
#[derive(Debug, Clone)]
pub struct Binding {
    /// 0 for an admin queue.
    pub qid: u16,
    /// The controller.
    pub cntlid: u16,
    /// The subsystem.
    pub subsystem: SubsystemRef,
    /// Its name, for logs.
    pub subnqn: Arc<str>,
    /// The host's name, for logs.
    pub hostnqn: Arc<str>,
    /// Entries of the submission queue that the host asked for (SQSIZE + 1).
    pub sq_entries: u16,
    /// Whether completions carry the submission queue head (else flow control is off).
    pub flow_control: bool,
    /// What the host sets on the controller.
    pub settings: HostSettings,
    /// Where the queue counts what its host does on namespaces.
    pub activity: QueueActivity,
    /// The namespaces, for I/O queues; later ones come by [`TargetAction::Publish`].
    pub view: Option<Arc<SubsystemView>>,
}

/// Names an Abort that a core was asked to carry out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AbortToken(pub u64);

/// What the target asks of the control thread.
#[derive(Debug, Clone)]
pub enum TargetAction {
    /// A Connect succeeded: the queue belongs to a controller now.
    Bind {
        /// Which queue.
        queue: QueueKey,
        /// To what.
        binding: Binding,
    },
    /// A command is done.
    Complete {
        /// On which queue.
        queue: QueueKey,
        /// Which.
        slot: Slot,
        /// How.
        outcome: Outcome,
    },
    /// Stop the command with this id on that queue if it can still be stopped: answer with
    /// [`super::Target::on_abort_done`].
    Abort {
        /// On which queue.
        queue: QueueKey,
        /// Which command.
        cid: u16,
        /// To answer with.
        token: AbortToken,
    },
    /// Write out what is in the caches of these backings, for a command of an admin queue that
    /// waits for it: answer with [`super::Target::on_flushed`].
    Flush {
        /// On which queue.
        queue: QueueKey,
        /// Which command.
        slot: Slot,
        /// What to flush, at least one.
        backings: Vec<BackingRef>,
    },
    /// End a connection.
    Close {
        /// Which queue's.
        queue: QueueKey,
        /// Why, in words for the log.
        reason: String,
    },
    /// A subsystem's namespaces changed: tell every core.
    Publish(Arc<SubsystemView>),
}
