//! One NVMe queue pair: capsules in, actions out.
//!
//! # Contract
//! The reactor owns memory, RDMA and I/O; a queue owns what they are for. For each command the
//! queue walks these states, skipping those that the command does not need, and every arrow is an
//! event from the reactor:
//!
//! ```text
//! capsule ─▶ AwaitBuffer ─▶ AwaitPull ─▶ AwaitPayload / AwaitIo / AwaitControl ─▶ AwaitSent ─▶ free
//! ```
//!
//! - A slot has at most one buffer. [`Action::Allocate`] asks for it, [`Queue::on_buffer`] grants
//!   it, and it is the reactor's to take back when the slot ends ([`Queue::on_sent`]).
//! - The receive that brought a capsule is held until [`Action::ReleaseRecv`]: at once for most,
//!   after the I/O for a write whose data came in the capsule.
//! - Every slot ends with exactly one [`Action::Respond`] and one [`Queue::on_sent`], unless the
//!   queue closes: then no more responses are made, and each slot ends when nothing of the reactor
//!   is outstanding for it any more.
//! - A violation that cannot be answered yields [`Action::Close`].
