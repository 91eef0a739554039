//! The connection manager, without sockets: messages and time in, messages and events out.
//!
//! # Contract
//! Owns every connection from its first message to the end of its time-wait. The passive side:
//! a request becomes [`Event::Request`], answered by [`Machine::accept`] or [`Machine::reject`];
//! the reply is repeated until the peer is ready to use the connection. The active side:
//! [`Machine::connect`] repeats its request until it is answered. Either end may disconnect.
//!
//! Nothing a peer sends makes it hold more than a bounded number of connections: requests beyond
//! [`MAX_HALF_OPEN`], or beyond [`MAX_HALF_OPEN_OF_PEER`] from one address, are rejected, and at
//! most [`MAX_REMEMBERED`] are remembered after their end. Whatever waits has a timer. A message counts only if it comes from the address of the
//! connection's peer and names both communication ids, which are random.

mod connection;
mod machine;
mod table;
#[cfg(test)]
mod tests;

pub(crate) use machine::{ActiveOpen, Datagram, Event, Machine, Reply};

/// Requests that may be neither established nor refused at a time.
pub(crate) const MAX_HALF_OPEN: usize = 4096;
/// Of these, how many may come from one address: a host that floods leaves room for others.
pub(crate) const MAX_HALF_OPEN_OF_PEER: usize = 1024;
/// Ended connections that are remembered at a time; beyond, the oldest is forgotten early.
pub(crate) const MAX_REMEMBERED: usize = 8192;
