//! Error Information: the last commands that failed.

use nvme_spec_types::log::{ErrorEntry, ParameterLocation, TransportType};
use nvme_spec_types::nvm::BlockCommand;
use nvme_spec_types::{Command, Status, StatusCode, StatusType};
use std::collections::VecDeque;

/// Entries kept (ELPE + 1).
pub(in super::super) const ENTRIES: usize = 64;

/// Version of the entries' layout: command set and opcode are filled in.
const VERSION: u8 = 1;

/// Failed commands of one controller, of all its queues.
#[derive(Debug, Default)]
pub(in super::super) struct ErrorLog {
    /// Newest first; at most [`ENTRIES`].
    entries: VecDeque<ErrorEntry>,
    /// Failures since the controller was made.
    count: u64,
    /// Those of commands of its admin queue.
    admin: u64,
}

impl ErrorLog {
    /// A command failed.
    pub(in super::super) fn add(
        &mut self,
        sqid: u16,
        command: &Command,
        status: Status,
        location: ParameterLocation,
    ) {
        self.count += 1;
        self.admin += u64::from(sqid == 0);
        self.entries.truncate(ENTRIES - 1);
        self.entries.push_front(ErrorEntry {
            error_count: self.count,
            sqid,
            cid: command.cid(),
            status,
            location,
            lba: if sqid == 0 { 0 } else { first_block(command, status.code) },
            // In a Fabrics command another field is there.
            nsid: if command.fabrics_type().is_some() { 0 } else { command.nsid() },
            trtype: TransportType::RDMA,
            opcode: command.opcode(),
            version: VERSION,
            ..ErrorEntry::default()
        });
    }

    /// So many commands failed of which nothing is known.
    pub(in super::super) fn skip(&mut self, failures: u32) {
        self.count += u64::from(failures);
    }

    /// Failures of admin commands so far, as far as they are known.
    pub(in super::super) fn admin_count(&self) -> u64 {
        self.admin
    }

    /// Failures so far.
    pub(in super::super) fn count(&self) -> u64 {
        self.count
    }

    /// Entries kept.
    pub(in super::super) fn kept(&self) -> usize {
        self.entries.len()
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

/// The first block of a command that failed for its blocks; 0 of any other.
fn first_block(command: &Command, code: StatusCode) -> u64 {
    let of_blocks = code == StatusCode::LBA_OUT_OF_RANGE || code.sct() == StatusType::MEDIA;
    if of_blocks && command.io_opcode().has_block_range() {
        BlockCommand::from_command(command).slba
    } else {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_than_64_failures_are_kept() {
        let mut log = ErrorLog::default();
        let status = StatusCode::INVALID_OPCODE.with_dnr();
        for _ in 0..100 {
            log.add(0, &Command::ZERO, status, ParameterLocation::NONE);
        }
        assert_eq!((log.entries.len(), log.count()), (ENTRIES, 100));
    }
}
