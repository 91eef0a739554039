//! Where a target is met: what differs between providers, and nothing else.
//!
//! A [`Place`] starts targets; a [`Target`] makes hosts that reach it, and owns the time. On real
//! devices time passes by itself and a host that waits sleeps; in the simulator nothing happens but
//! in [`Running::pass`].

use crate::offer::{CLOSED_SUBNQN, Namespace, USUAL};
use initiator::{Arena, Bare, BareEvent, BareQueue};
use nvme_spec_types::Nqn;
use rdma::{Access, CmError, Connector, HostDevice, Now, RemoteAddr};
use region::{Region, Span};
use std::net::SocketAddr;
use std::ops::Deref;
use std::rc::Rc;

/// Bytes of memory of a host.
pub const HOST_MEMORY: usize = 16 << 20;

/// Starts targets on one provider.
pub trait Place {
    /// A target with the subsystems of [`offer`](crate::offer), with these namespaces in the first.
    fn start(&self, namespaces: &[Namespace]) -> Target;

    /// A target with the [usual](USUAL) namespaces.
    fn target(&self) -> Target {
        self.start(USUAL)
    }
}

/// A target that runs. It ends with its last handle.
#[derive(Clone)]
pub struct Target(Rc<dyn Running>);

/// What a place knows of a target that it started.
pub trait Running {
    /// Where it listens.
    fn address(&self) -> SocketAddr;

    /// The subsystem with the namespaces.
    fn subnqn(&self) -> Nqn;

    /// Whether it is configured as [`Place::start`] says, and not somebody else's.
    fn is_own(&self) -> bool;

    /// Whether its hosts are told of keys that the target invalidated.
    fn tells_invalidated(&self) -> bool {
        true
    }

    /// A host without connections, with [`HOST_MEMORY`].
    fn host(&self) -> Box<dyn BareHost>;

    /// The time by which hosts have their turns.
    fn now(&self) -> Now;

    /// Lets things happen while a host waits: for a moment, and not beyond `until`.
    fn pass(&self, until: Now);
}

impl Target {
    /// A handle to it.
    pub fn new(running: impl Running + 'static) -> Target {
        Target(Rc::new(running))
    }

    /// A subsystem that only another host may use, where it is known to be there.
    pub fn closed_subnqn(&self) -> Option<Nqn> {
        self.is_own().then(|| Nqn::new(CLOSED_SUBNQN).expect("a name"))
    }
}

impl Deref for Target {
    type Target = dyn Running;

    fn deref(&self) -> &(dyn Running + 'static) {
        &*self.0
    }
}

/// A [`Bare`] host over whatever provider. The methods are as there.
pub trait BareHost {
    /// See [`Bare::open`].
    fn open(
        &mut self,
        now: Now,
        private_data: &[u8],
        recvs: u16,
        reads: u8,
    ) -> Result<BareQueue, CmError>;
    /// See [`Bare::send`].
    fn send(&mut self, queue: BareQueue, message: &[u8]) -> bool;
    /// See [`Bare::lend`].
    fn lend(&mut self, queue: BareQueue, span: Span, access: Access) -> Option<RemoteAddr>;
    /// See [`Bare::take_back`].
    fn take_back(&mut self, queue: BareQueue, rkey: u32);
    /// See [`Bare::close`].
    fn close(&mut self, now: Now, queue: BareQueue);
    /// See [`Bare::poll_event`].
    fn poll_event(&mut self) -> Option<BareEvent>;
    /// See [`Bare::turn`].
    fn turn(&mut self, now: Now) -> bool;
    /// See [`Bare::region`].
    fn region(&self) -> &Region;
    /// See [`Bare::arena`].
    fn arena(&mut self) -> &mut Arena;
}

impl<C: Connector, D: HostDevice<Endpoint = C::Endpoint>> BareHost for Bare<C, D> {
    fn open(
        &mut self,
        now: Now,
        private_data: &[u8],
        recvs: u16,
        reads: u8,
    ) -> Result<BareQueue, CmError> {
        Bare::open(self, now, private_data, recvs, reads)
    }
    fn send(&mut self, queue: BareQueue, message: &[u8]) -> bool {
        Bare::send(self, queue, message)
    }
    fn lend(&mut self, queue: BareQueue, span: Span, access: Access) -> Option<RemoteAddr> {
        Bare::lend(self, queue, span, access)
    }
    fn take_back(&mut self, queue: BareQueue, rkey: u32) {
        Bare::take_back(self, queue, rkey);
    }
    fn close(&mut self, now: Now, queue: BareQueue) {
        Bare::close(self, now, queue);
    }
    fn poll_event(&mut self) -> Option<BareEvent> {
        Bare::poll_event(self)
    }
    fn turn(&mut self, now: Now) -> bool {
        Bare::turn(self, now)
    }
    fn region(&self) -> &Region {
        Bare::region(self)
    }
    fn arena(&mut self) -> &mut Arena {
        Bare::arena(self)
    }
}
