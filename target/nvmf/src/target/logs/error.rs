//! Error Information: the last commands that failed.

use super::super::fail::{Fail, NOWHERE};
use nvme_spec_types::log::{ErrorEntry, ParameterLocation, TransportType};
use nvme_spec_types::{Command, Status};
use std::collections::VecDeque;

/// Entries kept (ELPE + 1).
pub(in super::super) const ENTRIES: usize = 64;

/// Version of the entries' layout: command set and opcode are filled in.
const VERSION: u8 = 1;

/// Failed admin commands of one controller.
#[derive(Debug, Default)]
pub(in super::super) struct ErrorLog {
    /// Newest first; at most [`ENTRIES`].
    entries: VecDeque<ErrorEntry>,
    /// Failures since the controller was made.
    count: u64,
}

impl ErrorLog {
    /// A command failed.
    pub(in super::super) fn add(
        &mut self,
        sqid: u16,
        command: &Command,
        status: Status,
        fail: Fail,
    ) {
        self.count += 1;
        self.entries.truncate(ENTRIES - 1);
        self.entries.push_front(ErrorEntry {
            error_count: self.count,
            sqid,
            cid: command.cid(),
            status,
            location: match fail.location {
                NOWHERE => ParameterLocation::NONE,
                at => ParameterLocation::new(at as u8, (at >> 8) as u8),
            },
            // In a Fabrics command another field is there.
            nsid: if command.fabrics_type().is_some() { 0 } else { command.nsid() },
            trtype: TransportType::RDMA,
            opcode: command.opcode(),
            version: VERSION,
            ..ErrorEntry::default()
        });
    }

    /// Failures so far.
    pub(in super::super) fn count(&self) -> u64 {
        self.count
    }

    /// The log page: [`ENTRIES`] entries, those not used zero.
    pub(super) fn page(&self) -> Vec<u8> {
        let mut page = vec![0; ENTRIES * ErrorEntry::SIZE];
        for (entry, out) in self.entries.iter().zip(page.chunks_exact_mut(ErrorEntry::SIZE)) {
            entry.encode(out);
        }
        page
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nvme_spec_types::StatusCode;

    #[test]
    fn no_more_than_64_failures_are_kept() {
        let mut log = ErrorLog::default();
        let fail = Fail::dnr(StatusCode::INVALID_OPCODE);
        for _ in 0..100 {
            log.add(0, &Command::ZERO, fail.status, fail);
        }
        assert_eq!((log.entries.len(), log.count()), (ENTRIES, 100));
    }
}
