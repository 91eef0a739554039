//! The control thread's loop.

use super::mailbox::{Inbox, Postbox};
use super::sleep::sleep;
use super::{Clock, PollMode};
use crate::control::Control;
use crate::mail::{ToControl, ToCore};
use backing::BlockIo;
use rdma::{ConnectionManager, Device, Now};
use std::os::fd::BorrowedFd;

/// Messages taken before the control side turns.
const MAIL_PER_TURN: usize = 1024;

/// Whether the loop goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    /// It goes on.
    Continue,
    /// It returns.
    Leave,
}

/// What else the control thread looks after: signals, the service manager, a control socket.
pub trait Hooks<C, D, B>
where
    C: ConnectionManager,
    D: Device<Endpoint = C::Endpoint>,
    B: BlockIo,
{
    /// Called after every turn; must not block.
    fn on_turn(&mut self, now: Now, control: &mut Control<C, D, B>) -> Flow;

    /// What should wake the thread.
    fn wait_sources<'a>(&'a self, out: &mut Vec<BorrowedFd<'a>>);

    /// When [`on_turn`](Self::on_turn) must be called next even if nothing is readable.
    fn timeout(&self) -> Option<Now>;
}

/// Runs the control side on this thread until a hook leaves. `cores` are the data cores' mail, by
/// index less one.
pub fn run_control<C, D, B>(
    clock: Clock,
    poll: PollMode,
    control: &mut Control<C, D, B>,
    inbox: &Inbox<ToControl<C::Endpoint>>,
    cores: &[Postbox<ToCore<C::Endpoint, B::Backing>>],
    hooks: &mut impl Hooks<C, D, B>,
) where
    C: ConnectionManager,
    D: Device<Endpoint = C::Endpoint>,
    B: BlockIo,
{
    let mut mail = Vec::new();
    let mut out = Vec::new();
    let mut worked_at = clock.now();
    loop {
        let now = clock.now();
        take_mail(inbox, &mut mail);
        let worked = control.turn(now, &mut mail, &mut out);
        post(&mut out, cores);
        if hooks.on_turn(now, control) == Flow::Leave {
            // What the hook's last words to the cores were still has to reach them.
            control.turn(now, &mut mail, &mut out);
            post(&mut out, cores);
            return;
        }
        if worked {
            worked_at = now;
            continue;
        }
        if !poll.should_sleep(now.saturating_sub(worked_at), false) {
            std::hint::spin_loop();
            continue;
        }
        inbox.prepare_sleep();
        control.arm();
        let before = clock.now();
        let worked = !inbox.is_empty() || control.turn(before, &mut mail, &mut out);
        post(&mut out, cores);
        if worked {
            worked_at = before;
        } else {
            let mut sources = Vec::with_capacity(16);
            sources.push(inbox.wait_source());
            control.wait_sources(&mut sources);
            hooks.wait_sources(&mut sources);
            let until = [control.timeout(), hooks.timeout()].into_iter().flatten().min();
            sleep(&sources, before, until);
        }
        inbox.awake();
    }
}

fn take_mail<E>(inbox: &Inbox<ToControl<E>>, mail: &mut Vec<ToControl<E>>) {
    while mail.len() < MAIL_PER_TURN
        && let Some(message) = inbox.try_recv()
    {
        mail.push(message);
    }
}

fn post<E, B>(out: &mut Vec<(rdma::CoreIndex, ToCore<E, B>)>, cores: &[Postbox<ToCore<E, B>>]) {
    for (core, message) in out.drain(..) {
        cores[usize::from(core.0) - 1].send(message);
    }
}
