//! What the control side counted.

/// What became of connections since the start. Plain counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ControlStats {
    /// Connect requests of the connection manager.
    pub requests: u64,
    /// Requests that were refused, for whatever reason.
    pub refused: u64,
    /// Queues whose Connect command succeeded.
    pub connected: u64,
    /// Queues whose Connect command failed at least once.
    pub connects_failed: u64,
    /// Queues that ended after their Connect.
    pub ended: u64,
    /// Queues that ended before it.
    pub ended_early: u64,
    /// Controllers that ended since their hosts were not heard in time.
    pub keep_alive_expiries: u64,
}
