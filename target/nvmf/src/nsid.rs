//! Which namespace ids are valid (NVMe Base 2.1, 3.2.1.5).
//!
//! Every id from 1 to NN is: without a namespace it is inactive, and a field at fault where a command
//! needs one. Any other is no namespace's.

use nvme_spec_types::StatusCode;

/// Most namespaces of a subsystem (MNAN).
pub const MAX_NAMESPACES: usize = 1024;

/// The highest valid id (NN) where `last` is the highest with a namespace, 0 for none: ids may have
/// gaps, and go beyond the number of namespaces.
pub(crate) fn highest(last: u32) -> u32 {
    last.max(MAX_NAMESPACES as u32)
}

/// What a command ends as that names `nsid`, where there is no namespace.
pub(crate) fn absent(last: u32, nsid: u32) -> StatusCode {
    if (1..=highest(last)).contains(&nsid) {
        StatusCode::INVALID_FIELD
    } else {
        StatusCode::INVALID_NAMESPACE_OR_FORMAT
    }
}
