//! Changed Attached Namespace List: what has changed since the host last looked.

use nvme_spec_types::identify::NamespaceList;
use std::collections::BTreeSet;

/// In place of the list: more changed than it holds (NVMe Base 2.1, 5.1.12.1.5).
const TOO_MANY: u32 = 0xffff_ffff;

/// The namespaces that changed, for one controller.
#[derive(Debug, Default)]
pub(in super::super) struct ChangedNamespaces {
    /// At most [`NamespaceList::CAPACITY`].
    nsids: BTreeSet<u32>,
    overflown: bool,
}

impl ChangedNamespaces {
    /// This namespace came, went or changed.
    pub(in super::super) fn add(&mut self, nsid: u32) {
        if self.nsids.len() >= NamespaceList::CAPACITY && !self.nsids.contains(&nsid) {
            self.overflown = true;
        } else {
            self.nsids.insert(nsid);
        }
    }

    /// Namespaces kept.
    pub(in super::super) fn kept(&self) -> usize {
        self.nsids.len()
    }

    /// The log page.
    pub(super) fn page(&self) -> NamespaceList {
        if self.overflown {
            return NamespaceList::from_ascending([TOO_MANY]);
        }
        NamespaceList::from_ascending(self.nsids.iter().copied())
    }

    /// The host has read it.
    pub(super) fn clear(&mut self) {
        *self = ChangedNamespaces::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_namespaces_are_listed_once_and_rising() {
        let mut changed = ChangedNamespaces::default();
        for nsid in [7, 2, 7] {
            changed.add(nsid);
        }
        assert_eq!(changed.page().iter().collect::<Vec<_>>(), [2, 7]);
        changed.clear();
        assert_eq!(changed.page().iter().count(), 0);
    }

    #[test]
    fn more_than_1024_changes_are_told_as_too_many() {
        let mut changed = ChangedNamespaces::default();
        (1..=1024).for_each(|nsid| changed.add(nsid));
        changed.add(1024);
        assert_eq!(changed.page().entries[1023], 1024);
        changed.add(1025);
        assert_eq!(changed.page().iter().collect::<Vec<_>>(), [TOO_MANY]);
    }
}
