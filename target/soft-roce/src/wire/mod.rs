//! RoCEv2 packets: headers, ICRC and connection management messages.
//!
//! Everything is big endian but the ICRC. Parsing checks a packet once and cannot panic on any
//! input; building writes into a buffer of the right size.

pub(crate) mod cm;
pub(crate) mod headers;
pub(crate) mod icrc;
pub(crate) mod packet;
#[cfg(test)]
mod tests;

/// UDP destination port of RoCEv2 (IANA "roce").
pub(crate) const ROCE_PORT: u16 = 4791;
