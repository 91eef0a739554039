//! Mail between threads, which wakes a sleeping receiver and costs a polling one nothing.
//!
//! The channel has no bound of its own. What is in it is bounded by what is open: a few messages
//! per queue, one per command that was handed on, and the operator's changes.

use crossbeam_channel::{Receiver, Sender};
use rustix::event::{EventfdFlags, eventfd};
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
    Ok((Postbox { sender, bell: bell.clone() }, Inbox { receiver, bell }))
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
            // It only fails when the counter is full, and then the receiver wakes anyway.
            let _ = rustix::io::write(&self.bell.event, &1u64.to_ne_bytes());
        }
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

    /// After sleeping, or instead: senders need not ring any more. `rang` says whether the wait
    /// source was readable, so that the bell is silenced.
    pub fn awake(&self, rang: bool) {
        self.bell.asleep.store(false, Ordering::Relaxed);
        if rang {
            let mut count = [0u8; 8];
            let _ = rustix::io::read(&self.bell.event, &mut count);
        }
    }

    /// What becomes readable when the bell rings.
    pub fn wait_source(&self) -> BorrowedFd<'_> {
        self.bell.event.as_fd()
    }
}
