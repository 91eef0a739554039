//! The bounds and choices of the control side.

use std::time::Duration;

/// How [`Control`](super::Control) admits and ends connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ControlConfig {
    /// Data cores, which have the indexes 1 to this. With none, the control thread serves I/O
    /// queues too.
    pub data_cores: u16,
    /// In-capsule data of I/O queues in bytes, as the target tells it.
    pub in_capsule: u32,
    /// Whether queue pairs take from shared receive queues where the device has them.
    pub shared_recv: bool,
    /// Most RDMA READs outstanding on a queue pair, 1 to 255.
    pub max_reads: u8,
    /// Most queues at a time, from the connect request until the queue has drained.
    pub max_queues: usize,
    /// Most queues at a time on which Connect has not succeeded yet.
    pub max_pending: usize,
    /// Most of those from one address.
    pub max_pending_per_peer: usize,
    /// How long a connection may take from its request to a successful Connect.
    pub connect_timeout: Duration,
    /// How long [`Control::begin_stop`](super::Control::begin_stop) gives queues to drain before
    /// they count as stuck.
    pub drain_timeout: Duration,
}

impl Default for ControlConfig {
    fn default() -> Self {
        ControlConfig {
            data_cores: 1,
            in_capsule: 4096,
            shared_recv: true,
            max_reads: 16,
            max_queues: 4096,
            // A host with 128 CPUs opens that many I/O queues one after the other, so few are
            // pending at a time; many hosts may come at once after a power cut.
            max_pending: 1024,
            max_pending_per_peer: 256,
            connect_timeout: Duration::from_secs(10),
            drain_timeout: Duration::from_secs(7),
        }
    }
}
