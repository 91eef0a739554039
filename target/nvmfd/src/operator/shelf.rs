//! The open disks, as the operator looks after them: what they are called, and whether they are still
//! what they were opened as.
//!
//! Hosts get errors when a file is cut under the daemon, and nothing on the data path could say why.
//! So the disks are looked at from here, off every thread that serves: now and then, and at once when
//! the cores count a failed operation. What has become of one is logged when it is found and when it is
//! over, and told with the namespace for as long as it lasts. That a disk was cut lasts until an operator
//! says that it is known: a host that writes behind the cut makes the file long again, and what was
//! there is lost all the same.

use super::Standing;
use crate::disks;
use crate::status::{Limit, Picture};
use backing::{Backing, Medium, Trouble};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError, Weak};
use tracing::{error, info};

/// A namespace, by subsystem and nsid.
pub(super) type Key = (String, u32);

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Shelf(Mutex<BTreeMap<Key, Disk>>);

/// What is known of one disk.
#[derive(Debug)]
struct Disk {
    /// What it is called in the configuration.
    name: String,
    path: Option<PathBuf>,
    limit: Option<Limit>,
    /// Not to keep it open.
    backing: Weak<Backing>,
    trouble: Option<String>,
    /// To how many bytes it was cut at most, until that is acknowledged.
    cut: Option<u64>,
}

impl Disk {
    /// What is wrong with it, where `found` is what is to be seen now.
    fn judge(&mut self, backing: &Backing, found: Option<Trouble>) -> Option<String> {
        match (found, self.cut) {
            (Some(Trouble::Cut { actual, served }), before) => {
                let actual = before.map_or(actual, |before| before.min(actual));
                self.cut = Some(actual);
                Some(Trouble::Cut { actual, served }.to_string())
            }
            (Some(trouble), _) => Some(trouble.to_string()),
            (None, Some(cut)) => {
                let all = backing.capacity();
                Some(format!(
                    "was cut to {cut} of {all} bytes, and is as long again: what was behind is lost, \
                     and reads give zeroes where nobody has written since. Restore it from a backup, \
                     then have it forgotten (nvmfd reload)"
                ))
            }
            (None, None) => None,
        }
    }
}

impl Shelf {
    /// Takes in what is open now.
    pub(super) fn stock(&self, standing: &Standing) {
        let mut disks = self.lock();
        let mut before = std::mem::take(&mut *disks);
        for subsystem in &standing.config.subsystems {
            for namespace in &subsystem.namespaces {
                let key = (subsystem.nqn.clone(), namespace.nsid);
                let Some((_, backing)) = standing.disks.get(&key) else { continue };
                let backing = std::sync::Arc::downgrade(backing);
                let path = match &namespace.spec.medium {
                    Medium::Path { path, .. } => Some(path.clone()),
                    Medium::Ram { .. } | Medium::Null { .. } => None,
                };
                let same = before.remove(&key).filter(|disk| disk.backing.ptr_eq(&backing));
                let (trouble, cut) = same.map_or((None, None), |disk| (disk.trouble, disk.cut));
                let limit = standing.config.limits.namespaces.get(&key).map(Limit::of);
                let name = disks::name(&namespace.spec.medium);
                disks.insert(key, Disk { name, path, limit, backing, trouble, cut });
            }
        }
    }

    /// An operator knows what was found, of one namespace or of all: what is over is forgotten when the
    /// disks are looked at next.
    pub(super) fn acknowledge(&self, only: Option<&Key>) {
        let mut disks = self.lock();
        for (_, disk) in disks.iter_mut().filter(|(key, _)| only.is_none_or(|only| only == *key)) {
            disk.cut = None;
        }
    }

    /// Adds to a picture what is known of the disks.
    pub(super) fn describe(&self, picture: &mut Picture) {
        let disks = self.lock();
        for namespace in picture.subsystems.iter_mut().flat_map(|found| &mut found.namespaces) {
            let key = (namespace.subsystem.clone(), namespace.nsid);
            let Some(disk) = disks.get(&key) else { continue };
            namespace.medium = disk.name.clone();
            namespace.limit = disk.limit;
            namespace.trouble = disk.trouble.clone();
        }
    }

    /// Looks at every disk, and says in the log what has become of one since. Returns whether anything
    /// has. May block for as long as a file system does not answer.
    pub(super) fn inspect(&self) -> bool {
        let mut news = false;
        let all: Vec<_> = self
            .lock()
            .iter()
            .filter_map(|(key, disk)| Some((key.clone(), disk.path.clone()?, disk.backing.clone())))
            .collect();
        for ((nqn, nsid), path, weak) in all {
            let Some(backing) = weak.upgrade() else { continue };
            let found = backing.inspect(&path);
            let mut disks = self.lock();
            let disk = disks.get_mut(&(nqn.clone(), nsid));
            let Some(disk) = disk.filter(|disk| disk.backing.ptr_eq(&weak)) else { continue };
            let found = disk.judge(&backing, found);
            let found = found.map(|trouble| format!("{}: {trouble}", path.display()));
            match (&disk.trouble, &found) {
                (_, Some(trouble)) if disk.trouble != found => {
                    error!(subnqn = %nqn, nsid, "a disk is in trouble: {trouble}");
                }
                (Some(_), None) => {
                    info!(subnqn = %nqn, nsid, "{}: is again as it was opened", path.display());
                }
                _ => {}
            }
            news |= disk.trouble != found;
            disk.trouble = found;
        }
        news
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Key, Disk>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
