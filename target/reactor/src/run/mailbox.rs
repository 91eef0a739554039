//! Mail between threads, which wakes a sleeping receiver and costs a polling one nothing.
//!
//! Whoever sends to a sleeping receiver takes it upon itself to ring, and rings a moment later: the
//! message may have been read by then, and even more of them. The receiver counts the rings that it
//! is owed, so that none is left over: a bell that nobody silences would wake its thread forever.
//!
//! The channel has no bound of its own. What is in it is bounded by what is open: a few messages
//! per queue, one per command that was handed on, and the operator's changes.

use crossbeam_channel::{Receiver, Sender};
use rustix::event::{EventfdFlags, eventfd};
use std::cell::Cell;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};

/// The sending end; as many as wanted.
#[derive(Debug)]
pub struct Postbox<T> {
    sender: Sender<T>,
    bell: Arc<Bell>,
}

/// The receiving end.
#[derive(Debug)]
pub struct Inbox<T> {
    receiver: Receiver<T>,
    bell: Arc<Bell>,
    /// Rings that senders have taken upon themselves and that were not silenced yet.
    owed: Cell<u64>,
}

#[derive(Debug)]
struct Bell {
    /// Set by the receiver before it sleeps; whoever clears it rings.
    asleep: AtomicBool,
    event: OwnedFd,
}

/// Makes a mailbox.
///
/// # Errors
/// When the system gives no eventfd.
pub fn mailbox<T>() -> std::io::Result<(Postbox<T>, Inbox<T>)> {
    let (sender, receiver) = crossbeam_channel::unbounded();
    let event = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
    let bell = Arc::new(Bell { asleep: AtomicBool::new(false), event });
    Ok((Postbox { sender, bell: bell.clone() }, Inbox { receiver, bell, owed: Cell::new(0) }))
}

impl<T> Clone for Postbox<T> {
    fn clone(&self) -> Self {
        Postbox { sender: self.sender.clone(), bell: self.bell.clone() }
    }
}

impl<T> Postbox<T> {
    /// Sends a message, and wakes the receiver if it sleeps. When the receiver is gone (the
    /// process is ending) the message is dropped.
    pub fn send(&self, message: T) {
        if self.sender.send(message).is_err() {
            return;
        }
        // Pairs with the fence in `prepare_sleep`: either we see `asleep`, or the receiver sees
        // the message when it looks once more before it sleeps.
        fence(Ordering::SeqCst);
        if self.bell.asleep.load(Ordering::Relaxed)
            && self.bell.asleep.swap(false, Ordering::Relaxed)
        {
            self.bell.ring();
        }
    }
}

impl Bell {
    fn ring(&self) {
        // It only fails when the counter is full, and then the receiver wakes anyway.
        let _ = rustix::io::write(&self.event, &1u64.to_ne_bytes());
    }
}

impl<T> Inbox<T> {
    /// The next message, if there is one.
    pub fn try_recv(&self) -> Option<T> {
        self.receiver.try_recv().ok()
    }

    /// Whether a message waits.
    pub fn is_empty(&self) -> bool {
        self.receiver.is_empty()
    }

    /// From now on senders ring the bell. Look at the mail once more before sleeping.
    pub fn prepare_sleep(&self) {
        self.bell.asleep.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// After sleeping, or instead: senders need not ring any more, and the bell is silenced.
    pub fn awake(&self) {
        let taken = !self.bell.asleep.swap(false, Ordering::Relaxed);
        let owed = self.owed.get() + u64::from(taken);
        if owed > 0 {
            let mut count = [0u8; 8];
            let rung = match rustix::io::read(&self.bell.event, &mut count) {
                Ok(_) => u64::from_ne_bytes(count),
                Err(_) => 0, // whoever took it upon itself has not rung yet
            };
            self.owed.set(owed.saturating_sub(rung));
        }
    }

    /// For a receiver that has senders ring whether it sleeps or not: whether there has been neither
    /// a message nor a ring since it [prepared](Self::prepare_sleep) last.
    pub fn is_quiet(&self) -> bool {
        self.is_empty() && self.owed.get() == 0 && self.bell.asleep.load(Ordering::Relaxed)
    }

    /// What becomes readable when the bell rings.
    pub fn wait_source(&self) -> BorrowedFd<'_> {
        self.bell.event.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    /// Whether a thread that sleeps on this would wake.
    fn wakes<T>(inbox: &Inbox<T>) -> bool {
        let mut fds = [PollFd::from_borrowed_fd(inbox.wait_source(), PollFlags::IN)];
        poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap() > 0
    }

    /// What a sender does, up to its ring: whether it takes that upon itself.
    fn send_without_ring(post: &Postbox<u32>, message: u32) -> bool {
        post.sender.send(message).unwrap();
        post.bell.asleep.swap(false, Ordering::Relaxed)
    }

    #[test]
    fn a_ring_that_comes_after_its_message_was_read_is_silenced_too() {
        let (post, inbox) = mailbox().unwrap();
        inbox.prepare_sleep();
        assert!(send_without_ring(&post, 1));
        assert_eq!(inbox.try_recv(), Some(1));
        inbox.awake();
        inbox.prepare_sleep();
        assert!(!inbox.is_quiet() && !wakes(&inbox));
        post.bell.ring();
        assert!(wakes(&inbox) && inbox.is_empty());
        assert!(!inbox.is_quiet(), "it must be silenced although there is no message");
        inbox.awake();
        inbox.prepare_sleep();
        assert!(inbox.is_quiet() && !wakes(&inbox));
    }

    #[test]
    fn a_message_that_is_read_with_the_one_before_it_leaves_no_ring_behind() {
        let (post, inbox) = mailbox().unwrap();
        inbox.prepare_sleep();
        post.send(1);
        inbox.awake();
        inbox.prepare_sleep();
        post.send(2); // it rings, and is read with the first
        assert_eq!((inbox.try_recv(), inbox.try_recv()), (Some(1), Some(2)));
        assert!(wakes(&inbox) && !inbox.is_quiet());
        inbox.awake();
        inbox.prepare_sleep();
        assert!(inbox.is_quiet() && !wakes(&inbox));
    }

    #[test]
    fn rings_of_several_senders_are_counted() {
        let (post, inbox) = mailbox().unwrap();
        inbox.prepare_sleep();
        assert!(send_without_ring(&post, 1));
        inbox.awake();
        inbox.prepare_sleep();
        post.send(2); // rings before the first does
        inbox.awake();
        inbox.prepare_sleep();
        assert_eq!((inbox.try_recv(), inbox.try_recv()), (Some(1), Some(2)));
        assert!(!wakes(&inbox) && !inbox.is_quiet(), "the first still owes its ring");
        post.bell.ring();
        inbox.awake();
        inbox.prepare_sleep();
        assert!(inbox.is_quiet() && !wakes(&inbox));
    }
}
