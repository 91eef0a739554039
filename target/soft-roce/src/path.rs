//! The way to a peer.

use crate::wire::icrc::Prefix;

/// Addresses and sizes of a connection's packets; fixed when it is set up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Path {
    /// IP addresses and UDP ports, from us to the peer.
    pub(crate) prefix: Prefix,
    /// IP traffic class (type of service) of our packets.
    pub(crate) traffic_class: u8,
    /// Path MTU in bytes: the payload of every packet but the last of a message.
    pub(crate) mtu: u32,
    /// The peer's queue pair number.
    pub(crate) dest_qpn: u32,
}

impl Path {
    /// Packets that a message of `len` bytes takes: at least one.
    pub(crate) fn packets(&self, len: u32) -> u32 {
        len.div_ceil(self.mtu).max(1)
    }
}
