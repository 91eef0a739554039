//! Settings of the provider.

/// Settings of a [`crate::Manager`] and its devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// Cores that have a device, the control thread included: 1 to 250.
    pub cores: u16,
    /// Depth of each core's shared receive queue; 0 gives every queue pair one of its own.
    pub shared_recv_depth: u32,
    /// IP traffic class (DSCP in the upper six bits) of all packets.
    pub traffic_class: u8,
    /// Socket buffer to ask for, in bytes, in each direction and for each socket.
    pub socket_buffer: usize,
}

impl Default for Config {
    fn default() -> Config {
        Config { cores: 1, shared_recv_depth: 1024, traffic_class: 0, socket_buffer: 8 << 20 }
    }
}
