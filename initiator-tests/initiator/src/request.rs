//! What a user of the host submits.

use nvme_spec_types::Command;
use rdma::Access;
use region::Span;

/// A command and its data. The host fills in the command identifier and, unless the payload says
/// otherwise, the data descriptor.
#[derive(Debug, Clone)]
pub struct Request {
    /// The command; see [`crate::commands`].
    pub command: Command,
    /// Its data.
    pub data: Payload,
    /// The caller's name for it, given back with the result.
    pub token: u64,
}

/// Where a command's data is.
#[derive(Debug, Clone)]
pub enum Payload {
    /// It has none.
    None,
    /// Sent inside the capsule; must fit the queue's in-capsule area.
    InCapsule(Span),
    /// In memory of the host's region that is opened to the target until the command has ended.
    Keyed {
        /// One or more ranges, in the order of the data.
        spans: Vec<Span>,
        /// What the target may do with them.
        access: Access,
        /// Whether the target shall invalidate a key with its response.
        invalidate: bool,
    },
    /// The descriptor in the command is sent as it stands, followed by these bytes: for tests of
    /// what a target does with bad descriptors.
    AsIs(Vec<u8>),
}

/// Why a request was not taken. The caller still owns its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SubmitError {
    /// There is no such queue, or it is not in use now.
    #[error("the queue is not connected")]
    NotConnected,
    /// As many commands are outstanding as the queue takes.
    #[error("the queue is full")]
    Full,
    /// The data does not fit the capsule, or the device has no key left.
    #[error("the data cannot be described in the capsule")]
    Data,
}

/// The connection ended before the command did: whether it was carried out is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the connection was lost")]
pub struct Lost;
