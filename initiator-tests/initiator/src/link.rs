//! The connection of one queue: its queue pair, its receives, its capsules.

use crate::queue::{HostQueue, QueueShape};
use crate::{Arena, controller::Purpose};
use rdma::{ConnId, Device, QpId, RecvQueueId, RecvWr, SendOp, SendWr, WrId};
use region::{Region, Span};

/// Bytes of a receive: more than a response, so that one too long is seen and not refused below.
pub(crate) const RECV_LEN: u32 = 64;
/// Raw messages that may be on the way besides the queue's commands.
pub(crate) const RAW_SENDS: u32 = 64;

const KIND_RECV: u64 = 1 << 56;
const KIND_CAPSULE: u64 = 2 << 56;
const KIND_RAW: u64 = 3 << 56;

/// What a completion is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    /// A receive.
    Recv(u16),
    /// The capsule of the command in this slot.
    Capsule(u16),
    /// A raw message from this span.
    Raw(Span),
}

impl Work {
    pub(crate) fn id(self) -> WrId {
        WrId(match self {
            Work::Recv(index) => KIND_RECV | u64::from(index),
            Work::Capsule(slot) => KIND_CAPSULE | u64::from(slot),
            Work::Raw(span) => KIND_RAW | u64::from(span.len()) << 32 | u64::from(span.offset()),
        })
    }

    pub(crate) fn of(id: WrId) -> Work {
        let low = id.0 & 0x00ff_ffff_ffff_ffff;
        match id.0 & !0x00ff_ffff_ffff_ffff {
            KIND_RECV => Work::Recv(low as u16),
            KIND_CAPSULE => Work::Capsule(low as u16),
            _ => Work::Raw(Span::new(low as u32, (low >> 32) as u32)),
        }
    }
}

/// What a command on a queue is for.
#[derive(Debug)]
pub(crate) enum Owner {
    /// A user's, with its token.
    User(u64),
    /// The controller's own.
    Controller(Purpose),
}

/// What is to be undone when a command ends.
#[derive(Debug)]
pub(crate) struct Tag {
    pub(crate) owner: Owner,
    /// Keys to close.
    pub(crate) keys: Vec<u32>,
    /// Memory of ours to free, with whether data from the controller is in it.
    pub(crate) scratch: Option<(Span, bool)>,
}

/// Where a connection is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LinkState {
    /// Asked for.
    Connecting,
    /// Up.
    Up,
    /// Failed or ended: its work requests are coming back.
    Draining,
}

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) conn: ConnId,
    pub(crate) qp: QpId,
    pub(crate) state: LinkState,
    pub(crate) queue: HostQueue<Tag>,
    recv_queue: RecvQueueId,
    /// Keys of memory that is open for longer than one command.
    pub(crate) lent: Vec<u32>,
    memory: Span,
    capsule_len: u32,
    recvs_posted: u32,
    sends_out: u32,
    raw_out: u32,
}

impl Link {
    /// Bytes of a region that a queue of this shape needs.
    fn memory_len(shape: &QueueShape) -> u32 {
        u32::from(shape.entries) * (RECV_LEN + Self::capsule_len(shape))
    }

    fn capsule_len(shape: &QueueShape) -> u32 {
        64 + shape.in_capsule
    }

    /// Takes memory for a queue, or `None` when there is too little.
    pub(crate) fn memory(shape: &QueueShape, arena: &mut Arena) -> Option<Span> {
        arena.alloc(Self::memory_len(shape))
    }

    /// A link whose receives are posted.
    pub(crate) fn new<D: Device>(
        shape: QueueShape,
        conn: ConnId,
        attached: rdma::Attached,
        memory: Span,
        device: &mut D,
    ) -> Link {
        let mut link = Link {
            conn,
            qp: attached.qp,
            state: LinkState::Connecting,
            queue: HostQueue::new(shape),
            recv_queue: attached.recv_queue.id,
            lent: Vec::new(),
            memory,
            capsule_len: Self::capsule_len(&shape),
            recvs_posted: 0,
            sends_out: 0,
            raw_out: 0,
        };
        for index in 0..shape.entries {
            link.post_recv(index, device);
        }
        link
    }

    fn recv_span(&self, index: u16) -> Span {
        self.memory.slice(u32::from(index) * RECV_LEN, RECV_LEN)
    }

    /// The capsule area of a slot: command and in-capsule data.
    pub(crate) fn capsule(&self, slot: u16) -> Span {
        let recvs = u32::from(self.queue.shape().entries) * RECV_LEN;
        self.memory.slice(recvs + u32::from(slot) * self.capsule_len, self.capsule_len)
    }

    pub(crate) fn post_recv<D: Device>(&mut self, index: u16, device: &mut D) {
        let head = self.recv_span(index);
        let wr = RecvWr { wr_id: Work::Recv(index).id(), head, tail: Span::new(head.offset(), 0) };
        device.post_recv(self.recv_queue, wr);
        self.recvs_posted += 1;
    }

    /// Sends the first `len` bytes of a slot's capsule.
    pub(crate) fn send_capsule<D: Device>(&mut self, slot: u16, len: u32, device: &mut D) {
        let local = self.capsule(slot).slice(0, len);
        self.send(Work::Capsule(slot), local, device);
    }

    /// Whether another raw message may be on the way.
    pub(crate) fn takes_raw(&self) -> bool {
        self.raw_out < RAW_SENDS
    }

    /// Sends a message that is no command of the queue.
    pub(crate) fn send_raw<D: Device>(&mut self, span: Span, device: &mut D) {
        self.raw_out += 1;
        self.send(Work::Raw(span), span, device);
    }

    fn send<D: Device>(&mut self, work: Work, local: Span, device: &mut D) {
        self.sends_out += 1;
        let wr = SendWr { wr_id: work.id(), op: SendOp::Send, local, signaled: true };
        device.post_send(self.qp, wr);
    }

    /// A message of `len` bytes that came into receive `index`; what is behind it is zero.
    pub(crate) fn message(&self, index: u16, len: u32, region: &Region) -> [u8; RECV_LEN as usize] {
        let mut bytes = [0; RECV_LEN as usize];
        let len = len.min(RECV_LEN);
        region.read(self.recv_span(index).slice(0, len), &mut bytes[..len as usize]);
        bytes
    }

    /// One of the work requests has completed, successfully or not.
    pub(crate) fn retire(&mut self, work: Work) {
        match work {
            Work::Recv(_) => self.recvs_posted -= 1,
            Work::Capsule(_) => self.sends_out -= 1,
            Work::Raw(_) => {
                self.sends_out -= 1;
                self.raw_out -= 1;
            }
        }
    }

    /// Whether everything posted has completed.
    pub(crate) fn is_drained(&self) -> bool {
        self.recvs_posted == 0 && self.sends_out == 0
    }

    /// Its memory, to be freed when it is gone.
    pub(crate) fn into_memory(self) -> Span {
        self.memory
    }
}
