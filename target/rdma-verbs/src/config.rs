//! What an operator may set, and why the provider may be unavailable.

/// Bytes of a SEND that are copied when posted, at most: a command capsule fits.
pub(crate) const MAX_INLINE: u32 = 64;

/// Settings of the provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerbsConfig {
    /// Receives of the shared receive queue that each core has on each network card; lowered to
    /// what the card can do. 0 means no shared receive queues at all.
    pub shared_recv_depth: u32,
    /// Entries of a core's first completion queue on a card; lowered to what the card can do,
    /// raised to what one queue pair needs. A core that needs more gets a further one, twice as
    /// large.
    pub cq_entries: u32,
    /// Connection requests of one listener that may wait for an answer.
    pub backlog: u16,
    /// Traffic class asked for when connecting (DSCP in the upper six bits); `None` leaves the
    /// system's. An accepted connection keeps to the class that its peer asked for.
    pub traffic_class: Option<u8>,
    /// Whether short SENDs are copied when posted, where the card can.
    pub inline_sends: bool,
}

impl Default for VerbsConfig {
    fn default() -> VerbsConfig {
        VerbsConfig {
            shared_recv_depth: 4096,
            cq_entries: 8192,
            backlog: 128,
            traffic_class: None,
            inline_sends: true,
        }
    }
}

/// Why the provider cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The machine has no RDMA device, or the modules for it are not loaded.
    #[error(
        "no RDMA device ({source}): load the network card's RDMA driver and rdma_ucm, or make a \
         soft one: modprobe rdma_rxe && rdma link add rxe0 type rxe netdev DEV"
    )]
    NoDevices {
        /// The system's answer.
        source: std::io::Error,
    },
    /// There are devices, but this user may not open them.
    #[error(
        "RDMA devices may not be opened ({source}): give this user access to /dev/infiniband/*"
    )]
    Permission {
        /// The system's answer.
        source: std::io::Error,
    },
    /// Anything else.
    #[error("the RDMA connection manager cannot be opened: {source}")]
    System {
        /// The system's answer.
        source: std::io::Error,
    },
}
