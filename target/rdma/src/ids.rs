/// A connection as its connection manager knows it, from the request to its destruction.
/// Not reused while the process runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnId(pub u64);

/// A listening address of a connection manager.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ListenerId(pub u32);

/// A core of the reactor, and so the device opened for it: 0 is the control thread, data cores
/// count from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CoreIndex(pub u16);

/// A queue pair within one device. Ids are small and reused after [`crate::Device::detach`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct QpId(pub u32);

/// A receive queue within one device: a queue pair's own, or one shared by several.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RecvQueueId(pub u32);

/// The caller's name for a work request, given back in its completion, never looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WrId(pub u64);
