//! The connection manager, without sockets: messages and time in, messages and events out.
//!
//! # Contract
//! Owns every connection from its first message to the end of its time-wait. The passive side:
//! a request becomes [`Event::Request`], answered by [`Machine::accept`] or [`Machine::reject`];
//! the reply is repeated until the peer is ready to use the connection. The active side:
//! [`Machine::connect`] repeats its request until it is answered. Either end may disconnect.
//!
//! Nothing a peer sends makes it hold more than a bounded number of connections: requests beyond
//! [`MAX_HALF_OPEN`] are rejected. A message counts only if it comes from the address of the
//! connection's peer and names both communication ids, which are random.

mod connection;
mod machine;
#[cfg(test)]
mod tests;

pub(crate) use machine::{ActiveOpen, Datagram, Event, Machine, Reply};

/// Connections that may be neither established nor refused at a time.
pub(crate) const MAX_HALF_OPEN: usize = 4096;
