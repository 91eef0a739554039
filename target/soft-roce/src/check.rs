//! The integrity check of incoming packets.
//!
//! A UDP socket does not show the IPv4 identification that the ICRC covers. It is guessed (peers
//! of our kind number the packets of a run from zero, the kernel's soft-RoCE counts up), and where
//! the guess is wrong the one identification is solved for that makes the packet right. That
//! leaves 16 of the check's 32 bits for such packets; see docs/ARCHITECTURE.md.

use crate::wire::icrc::{Columns, Prefix, Solved};
use std::net::{IpAddr, SocketAddr};

/// The check's memory: one for each receiving thread.
#[derive(Debug, Default)]
pub(crate) struct Check {
    columns: Columns,
    /// What would be the next identification if the last sender sent on.
    next: u16,
    /// Packets whose ICRC was wrong.
    pub(crate) damaged: u64,
}

impl Check {
    /// Whether a datagram that arrived at `local` is undamaged; `index` is its place in a run that
    /// the kernel coalesced.
    pub(crate) fn is_right(
        &mut self,
        from: SocketAddr,
        local: IpAddr,
        index: u16,
        datagram: &mut [u8],
    ) -> bool {
        let prefix = Prefix {
            source: from.ip(),
            dest: local,
            source_port: from.port(),
            dest_port: crate::wire::ROCE_PORT,
        };
        let guess = if index > 0 { index } else { self.next };
        match prefix.solve(&mut self.columns, guess, datagram) {
            Solved::Identification(found) => {
                // A run that starts at zero is of our kind: so will the next one be.
                self.next = if found == index { 0 } else { found.wrapping_add(1) };
                true
            }
            Solved::Damaged => {
                self.damaged += 1;
                false
            }
        }
    }
}
