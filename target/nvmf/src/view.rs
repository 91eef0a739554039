//! Immutable snapshots of what a subsystem offers, shared with the data cores.
//!
//! The target makes a new snapshot at every change and the control thread sends it to each core;
//! nothing in a snapshot is ever changed but the counters, each cell of which has one writer, and what
//! of a limit is used up.

use crate::limit::Limit;
use crate::{BackingRef, SubsystemRef, nsid};
use nvme_spec_types::StatusCode;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering};

/// Limits by the NQN of their host.
pub type HostLimits = Arc<BTreeMap<String, Arc<Limit>>>;

/// A subsystem as its I/O queues see it.
#[derive(Debug, Clone)]
pub struct SubsystemView {
    /// Which.
    pub subsystem: SubsystemRef,
    /// Grows by one with each change.
    pub generation: u64,
    /// Largest data transfer of one command, in bytes.
    pub max_transfer: u32,
    /// Namespaces, by rising nsid.
    pub namespaces: Vec<Arc<NamespaceView>>,
    /// Limits of hosts by their names; those of a host hold over all subsystems together.
    pub host_limits: HostLimits,
}

impl SubsystemView {
    /// The namespace of that id, if it is there. Ids are usually 1..=n without gaps, so the direct
    /// place is tried first.
    #[inline(always)] // the direct place is a few instructions, on the way of every command
    pub fn namespace(&self, nsid: u32) -> Option<&Arc<NamespaceView>> {
        match self.namespaces.get(nsid.wrapping_sub(1) as usize) {
            Some(found) if found.nsid == nsid => Some(found),
            _ => self.search(nsid),
        }
    }

    /// [`SubsystemView::namespace`] where ids have gaps.
    #[inline(never)]
    fn search(&self, nsid: u32) -> Option<&Arc<NamespaceView>> {
        let at = self.namespaces.binary_search_by_key(&nsid, |ns| ns.nsid).ok()?;
        Some(&self.namespaces[at])
    }

    /// What a command ends as that names a namespace which is not there.
    pub fn absent(&self, id: u32) -> StatusCode {
        nsid::absent(self.namespaces.last().map_or(0, |last| last.nsid), id)
    }
}

/// A namespace as an I/O command sees it.
#[derive(Debug)]
pub struct NamespaceView {
    /// Its id, 1 to FFFFFFFEh.
    pub nsid: u32,
    /// Where its blocks are.
    pub backing: BackingRef,
    /// log2 of the logical block size in bytes: 9 or 12.
    pub lba_shift: u8,
    /// Size in logical blocks.
    pub block_count: u64,
    /// Whether writes are refused.
    pub read_only: bool,
    /// How much it is served; `None` for as much as can be.
    pub limit: Option<Arc<Limit>>,
    /// One set of counters per core of the reactor, by core index.
    pub counters: Arc<[IoCounters]>,
}

/// Counters of one core on one namespace. Written by that core alone, with plain loads and
/// stores; read by anyone.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct IoCounters {
    read_commands: AtomicU64,
    write_commands: AtomicU64,
    read_bytes: AtomicU64,
    write_bytes: AtomicU64,
    errors: AtomicU64,
}

impl IoCounters {
    /// Zeroed counters for `cores` cores.
    pub fn for_cores(cores: usize) -> Arc<[IoCounters]> {
        (0..cores).map(|_| IoCounters::default()).collect()
    }

    /// A Read (or Compare) command of so many bytes succeeded. Called by the owning core only.
    pub fn count_read(&self, bytes: u64) {
        bump(&self.read_commands, 1);
        bump(&self.read_bytes, bytes);
    }

    /// A Write command of so many bytes succeeded. Called by the owning core only.
    pub fn count_write(&self, bytes: u64) {
        bump(&self.write_commands, 1);
        bump(&self.write_bytes, bytes);
    }

    /// A Copy or Verify command read and wrote so many bytes. They are no read and write commands
    /// to the health log. Called by the owning core only.
    pub fn count_moved(&self, read: u64, written: u64) {
        bump(&self.read_bytes, read);
        bump(&self.write_bytes, written);
    }

    /// A command failed on the medium. Called by the owning core only.
    pub fn count_error(&self) {
        bump(&self.errors, 1);
    }

    /// What was counted so far.
    pub fn totals(&self) -> IoTotals {
        IoTotals {
            read_commands: self.read_commands.load(Ordering::Relaxed),
            write_commands: self.write_commands.load(Ordering::Relaxed),
            read_bytes: self.read_bytes.load(Ordering::Relaxed),
            write_bytes: self.write_bytes.load(Ordering::Relaxed),
            errors: self.errors.load(Ordering::Relaxed),
        }
    }
}

/// The one writer adds without a locked instruction.
fn bump(cell: &AtomicU64, by: u64) {
    cell.store(cell.load(Ordering::Relaxed).wrapping_add(by), Ordering::Relaxed);
}

/// Sums of [`IoCounters`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct IoTotals {
    /// Read and Compare commands that succeeded.
    pub read_commands: u64,
    /// Write commands that succeeded.
    pub write_commands: u64,
    /// Bytes they, Verify and Copy commands read.
    pub read_bytes: u64,
    /// Bytes they and Copy commands wrote.
    pub write_bytes: u64,
    /// Commands that failed on the medium.
    pub errors: u64,
}

impl std::ops::AddAssign for IoTotals {
    fn add_assign(&mut self, other: IoTotals) {
        self.read_commands += other.read_commands;
        self.write_commands += other.write_commands;
        self.read_bytes += other.read_bytes;
        self.write_bytes += other.write_bytes;
        self.errors += other.errors;
    }
}

/// What a host has set on its controller and the controller's I/O queues heed. Written by the target
/// alone, read by the cores of the queues.
#[derive(Debug, Clone, Default)]
pub struct HostSettings(Arc<SettingsCells>);

#[derive(Debug, Default)]
struct SettingsCells {
    write_through: AtomicBool,
    copy_formats: AtomicU16,
}

impl HostSettings {
    /// From now on writes are durable before they are answered, or need not be: the volatile write
    /// cache is off, or on.
    pub fn set_write_through(&self, on: bool) {
        self.0.write_through.store(on, Ordering::Release);
    }

    /// Whether every write must be durable before it is answered.
    pub fn write_through(&self) -> bool {
        self.0.write_through.load(Ordering::Acquire)
    }

    /// From now on the host uses these formats of Copy, bit n for format n, besides 0 and 1.
    pub fn enable_copy_formats(&self, formats: u16) {
        self.0.copy_formats.store(formats, Ordering::Release);
    }

    /// The formats of Copy that the host may use, bit n for format n.
    pub fn copy_formats(&self) -> u16 {
        0b11 | self.0.copy_formats.load(Ordering::Acquire)
    }
}

/// When a queue last heard from its host, and what came of it. Written by the queue's core, read by the
/// target when it decides whether a keep-alive timer has run out, and for status displays.
#[derive(Debug, Clone, Default)]
pub struct QueueActivity(Arc<Activity>);

#[derive(Debug, Default)]
struct Activity {
    last_ns: AtomicU64,
    capsules: AtomicU64,
    io: IoCounters,
}

impl QueueActivity {
    /// A capsule arrived in the turn that began at `now`. Called by the owning core only.
    pub fn mark(&self, now: std::time::Duration) {
        self.0.last_ns.store(now.as_nanos() as u64, Ordering::Relaxed);
    }

    /// Counts a capsule. Called by the owning core only.
    pub fn count_capsule(&self) {
        bump(&self.0.capsules, 1);
    }

    /// What the host did on namespaces through this queue: written by the owning core only.
    pub fn io(&self) -> &IoCounters {
        &self.0.io
    }

    /// Capsules counted so far.
    pub fn capsules(&self) -> u64 {
        self.0.capsules.load(Ordering::Relaxed)
    }

    /// The time last marked; zero when never.
    pub fn last(&self) -> std::time::Duration {
        std::time::Duration::from_nanos(self.0.last_ns.load(Ordering::Relaxed))
    }
}
