//! Opening the disks of a configuration, and what the target is told about them.

use crate::config::{Config, Namespace, Subsystem};
use crate::machine;
use backing::{Backing, BackingId, Geometry, Medium, OpenError};
use nvmf::BackingRef;
use nvmf::target::{NamespaceConfig, SubsystemConfig};
use std::path::Path;
use std::sync::Arc;

/// A namespace whose disk is open.
#[derive(Debug)]
pub(crate) struct Disk {
    /// Place of its subsystem in the configuration.
    pub(crate) subsystem: usize,
    pub(crate) id: BackingId,
    pub(crate) backing: Arc<Backing>,
    pub(crate) namespace: Namespace,
}

/// Opens every disk of the configuration, which was read from `path`.
///
/// # Errors
/// What was wrong with each that could not be opened.
pub(crate) fn open_all(path: &Path, config: &Config) -> Result<Vec<Disk>, Problems> {
    let mut disks = Vec::new();
    let mut problems = Problems { lines: Vec::new(), passing: true };
    let all = config.subsystems.iter().enumerate();
    for (subsystem, namespace) in
        all.flat_map(|(n, subsystem)| subsystem.namespaces.iter().map(move |ns| (n, ns)))
    {
        match Backing::open(&namespace.spec) {
            Ok(backing) => disks.push(Disk {
                subsystem,
                id: BackingId(disks.len() as u32),
                backing,
                namespace: namespace.clone(),
            }),
            Err(error) => {
                let nqn = &config.subsystems[subsystem].nqn;
                problems.lines.push(in_words(path, nqn, namespace, &error));
                problems.passing &= is_held(&error);
            }
        }
    }
    if problems.lines.is_empty() { Ok(disks) } else { Err(problems) }
}

/// Disks that could not be opened.
#[derive(Debug)]
pub(crate) struct Problems {
    /// What was wrong with each, with its subsystem and nsid.
    pub(crate) lines: Vec<String>,
    /// Whether all of them are held by another process, perhaps one that is just ending: another
    /// start may find them free.
    pub(crate) passing: bool,
}

/// Whether the disk is merely held by someone else now.
pub(crate) fn is_held(error: &OpenError) -> bool {
    matches!(error, OpenError::DeviceBusy { .. } | OpenError::LockedElsewhere { .. })
}

/// What the disk is called: its path, or the kind of memory.
pub(crate) fn name(medium: &Medium) -> String {
    match medium {
        Medium::Path { path, .. } => path.display().to_string(),
        Medium::Ram { .. } => "ram".to_owned(),
        Medium::Null { .. } => "null".to_owned(),
    }
}

/// Says which namespace a disk could not be opened for, and where in the configuration (at `path`)
/// it stands.
pub(crate) fn in_words(path: &Path, nqn: &str, namespace: &Namespace, error: &OpenError) -> String {
    let place = format!("{}:{}", path.display(), namespace.line);
    format!("{place}: {}", without_place(nqn, namespace, error))
}

/// As [`in_words`], for a namespace that stands in no file.
pub(crate) fn without_place(nqn: &str, namespace: &Namespace, error: &OpenError) -> String {
    let mut words = format!("{nqn} namespace {}: {error}", namespace.nsid);
    if let Some(hint) = machine::limit_hint(error) {
        words = format!("{words}; {hint}");
    }
    words
}

/// What the target is told about a namespace whose disk is open.
pub(crate) fn namespace_config(
    namespace: &Namespace,
    id: BackingId,
    backing: &Backing,
) -> NamespaceConfig {
    let Geometry {
        capacity,
        block_size,
        optimal_io,
        atomic_write,
        volatile_cache,
        discard,
        discard_zeroes,
        read_only,
    } = backing.geometry();
    NamespaceConfig {
        nsid: namespace.nsid,
        backing: BackingRef(id.0),
        lba_shift: block_size.trailing_zeros() as u8,
        block_count: capacity / u64::from(block_size),
        // A disk that is open for writing may be protected all the same.
        read_only: read_only || namespace.spec.read_only,
        uuid: namespace.uuid,
        nguid: namespace.nguid,
        eui64: namespace.eui64,
        volatile_cache,
        discard,
        discard_zeroes,
        atomic_blocks: atomic_write / block_size,
        optimal_blocks: optimal_io / block_size,
    }
}

/// What the target is told about a subsystem.
pub(crate) fn subsystem_config(subsystem: &Subsystem) -> SubsystemConfig {
    SubsystemConfig {
        nqn: subsystem.nqn.clone(),
        serial: subsystem.serial.clone(),
        model: subsystem.model.clone(),
        hosts: subsystem.hosts.clone(),
        duplicates: subsystem.duplicates,
        cntlids: subsystem.cntlids.clone(),
    }
}
