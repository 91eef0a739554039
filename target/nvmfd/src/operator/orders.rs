//! What the operator asks of the control thread, and the desk where it is taken in.

use crate::change::{Doors, Step, carry_out};
use crate::status::{self, Picture};
use backing::{Backing, BackingId, BlockIo};
use rdma::{ConnectionManager, Device, Now};
use reactor::control::Control;
use reactor::run::{Inbox, Postbox, mailbox};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use tokio::sync::oneshot;

/// Something to do on the control thread. Each is short and answered at once.
#[derive(Debug)]
pub(crate) enum Order {
    /// Make one step of a change; the answer names the disk that is let go of.
    Step(Step, oneshot::Sender<Result<Option<BackingId>, String>>),
    /// Say what there is now.
    Look(oneshot::Sender<Picture>),
    /// End the connections of a controller, by subsystem and cntlid. Says whether there was one.
    Drop { nqn: String, cntlid: u16, done: oneshot::Sender<bool> },
}

/// The control thread's end.
#[derive(Debug)]
pub(crate) struct Desk {
    orders: Inbox<Order>,
    doors: Doors,
}

/// Makes a desk, and the way to it.
///
/// # Errors
/// When the system gives no event descriptor.
pub(crate) fn desk(doors: Doors) -> std::io::Result<(Postbox<Order>, Desk)> {
    let (post, orders) = mailbox()?;
    // Orders are rare: each rings the bell, whether the thread sleeps or not.
    orders.prepare_sleep();
    Ok((post, Desk { orders, doors }))
}

impl Desk {
    /// Carries out the orders that have come.
    pub(crate) fn serve<C, D, B>(&mut self, now: Now, control: &mut Control<C, D, B>)
    where
        C: ConnectionManager,
        D: Device<Endpoint = C::Endpoint>,
        B: BlockIo<Backing = Arc<Backing>>,
    {
        if self.orders.is_quiet() {
            return;
        }
        self.orders.awake();
        self.orders.prepare_sleep();
        while let Some(order) = self.orders.try_recv() {
            // Whoever asked may have gone meanwhile.
            match order {
                Order::Step(step, done) => {
                    let _ = done.send(carry_out(control, &mut self.doors, now, step));
                }
                Order::Look(seen) => {
                    let _ = seen.send(status::look(now, control));
                }
                Order::Drop { nqn, cntlid, done } => {
                    let _ = done.send(control.drop_controller(now, &nqn, cntlid));
                }
            }
        }
    }

    /// Becomes readable when an order comes.
    pub(crate) fn wait_source(&self) -> BorrowedFd<'_> {
        self.orders.wait_source()
    }
}
