//! A bare host that waits for what it expects.

use crate::place::{BareHost, Target};
use initiator::{BareEvent, BareQueue};
use nvme_spec_types::rdma_cm::{CmReject, CmRejectStatus, CmRequest};
use nvme_spec_types::{Command, Completion, SglDescriptor, ZeroBased};
use rdma::{Access, Now, RemoteAddr};
use region::Span;
use std::time::Duration;

/// How long an answer may take before a test fails.
const PATIENCE: Duration = Duration::from_secs(20);

/// Memory that is open to the target.
#[derive(Debug, Clone, Copy)]
pub struct Buffer {
    /// Where it is.
    pub span: Span,
    /// What the target knows it by.
    pub remote: RemoteAddr,
}

impl Buffer {
    /// The keyed descriptor of all of it.
    pub fn sgl(&self) -> SglDescriptor {
        self.part(0, self.span.len())
    }

    /// The keyed descriptor of `len` bytes from byte `at` on.
    pub fn part(&self, at: u32, len: u32) -> SglDescriptor {
        let RemoteAddr { addr, rkey: key } = self.remote;
        SglDescriptor::Keyed { addr: addr + u64::from(at), len, key, invalidate: false }
    }

    /// As [`sgl`](Self::sgl), asking for the key to be invalidated.
    pub fn sgl_invalidate(&self) -> SglDescriptor {
        let RemoteAddr { addr, rkey: key } = self.remote;
        SglDescriptor::Keyed { addr, len: self.span.len(), key, invalidate: true }
    }
}

/// What came on a queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Heard {
    /// A completion, and the key that was invalidated with it.
    Completion(Completion, Option<u32>),
    /// The connection ended.
    Gone,
}

/// A host with any number of queues.
pub struct Client {
    target: Target,
    bare: Box<dyn BareHost>,
    next_cid: u16,
    /// What was heard and is not yet asked for.
    heard: Vec<(BareQueue, Heard)>,
}

impl Client {
    /// A host of the target, without queues.
    pub fn new(target: &Target) -> Client {
        let target = target.clone();
        Client { bare: target.host(), target, next_cid: 1, heard: Vec::new() }
    }

    /// The time; in a case there is no other.
    pub fn now(&self) -> Now {
        self.target.now()
    }

    /// Does nothing for that long.
    pub fn wait(&mut self, time: Duration) {
        let end = self.now() + time;
        while self.now() < end {
            self.turn(end);
        }
    }

    /// One turn, and if it was of no use, time passes, not beyond `until`.
    fn turn(&mut self, until: Now) {
        if !self.bare.turn(self.target.now()) {
            self.target.pass(until);
        }
    }

    /// The next event, of those about connections.
    fn connection_event(&mut self) -> BareEvent {
        let deadline = self.now() + PATIENCE;
        loop {
            while let Some(event) = self.bare.poll_event() {
                match event {
                    BareEvent::Connected { .. } | BareEvent::Refused { .. } => return event,
                    other => self.note(other),
                }
            }
            assert!(self.now() < deadline, "no answer to a connect request");
            self.turn(deadline);
        }
    }

    fn note(&mut self, event: BareEvent) {
        match event {
            BareEvent::Message { queue, bytes, invalidated } => {
                assert_eq!(bytes.len(), 16, "a response has 16 bytes");
                let completion = Completion::parse(&bytes).expect("16 bytes");
                self.heard.push((queue, Heard::Completion(completion, invalidated)));
            }
            BareEvent::Gone { queue, .. } => self.heard.push((queue, Heard::Gone)),
            other => panic!("out of turn: {other:?}"),
        }
    }

    /// Asks for a connection with any private data.
    ///
    /// # Errors
    /// The status of the target's reject, `None` when it gave none.
    pub fn open_with(&mut self, private_data: &[u8]) -> Result<BareQueue, Option<CmRejectStatus>> {
        let now = self.now();
        let queue = self.bare.open(now, private_data, 128, 16).expect("a queue pair");
        match self.connection_event() {
            BareEvent::Connected { .. } => Ok(queue),
            BareEvent::Refused { private_data, .. } => {
                Err(CmReject::parse(&private_data).ok().map(|reject| reject.sts))
            }
            other => panic!("instead of an answer to a connect request: {other:?}"),
        }
    }

    /// Asks for a connection as a good host does.
    ///
    /// # Errors
    /// As [`open_with`](Self::open_with).
    pub fn open(
        &mut self,
        qid: u16,
        entries: u16,
        cntlid: u16,
    ) -> Result<BareQueue, Option<CmRejectStatus>> {
        let hsqsize = ZeroBased::<u16>::saturating(u32::from(entries));
        let request = CmRequest { recfmt: 0, qid, hrqsize: entries, hsqsize, cntlid };
        self.open_with(&request.to_bytes())
    }

    /// Opens `len` bytes of memory to the target, readable and writable, and filled with `fill`.
    pub fn buffer(&mut self, queue: BareQueue, len: u32, fill: u8) -> Buffer {
        self.buffer_with(queue, len, fill, Access::RemoteWrite)
    }

    /// As [`buffer`](Self::buffer), with less access.
    pub fn buffer_with(&mut self, queue: BareQueue, len: u32, fill: u8, access: Access) -> Buffer {
        let span = self.bare.arena().alloc(len).expect("memory");
        self.bare.region().fill(span, fill);
        let remote = self.bare.lend(queue, span, access).expect("a key");
        Buffer { span, remote }
    }

    /// Closes a buffer again.
    pub fn take_back(&mut self, queue: BareQueue, buffer: Buffer) {
        self.bare.take_back(queue, buffer.remote.rkey);
        self.bare.arena().free(buffer.span);
    }

    /// Puts bytes to the start of a buffer.
    pub fn write(&self, buffer: Buffer, bytes: &[u8]) {
        self.bare.region().write(buffer.span, bytes);
    }

    /// All bytes of a buffer.
    pub fn read(&self, buffer: Buffer) -> Vec<u8> {
        let mut bytes = vec![0; buffer.span.len() as usize];
        self.bare.region().read(buffer.span, &mut bytes);
        bytes
    }

    /// Sends a message as it is.
    pub fn send(&mut self, queue: BareQueue, message: &[u8]) {
        assert!(self.try_send(queue, message), "the queue takes no message");
    }

    /// Sends a message as it is; `false` when the queue takes none any more, since its connection has
    /// ended.
    pub fn try_send(&mut self, queue: BareQueue, message: &[u8]) -> bool {
        let taken = self.bare.send(queue, message);
        let now = self.now();
        self.bare.turn(now);
        taken
    }

    /// What comes next on a queue.
    ///
    /// # Panics
    /// When nothing comes.
    pub fn hear(&mut self, queue: BareQueue) -> Heard {
        self.hear_within(queue, PATIENCE).expect("nothing comes on the queue")
    }

    /// What comes next on a queue, if it comes within that time.
    pub fn hear_within(&mut self, queue: BareQueue, patience: Duration) -> Option<Heard> {
        let deadline = self.now() + patience;
        loop {
            if let Some(at) = self.heard.iter().position(|(of, _)| *of == queue) {
                return Some(self.heard.remove(at).1);
            }
            if self.now() >= deadline {
                return None;
            }
            self.turn(deadline);
            while let Some(event) = self.bare.poll_event() {
                self.note(event);
            }
        }
    }

    /// The next completion on a queue.
    ///
    /// # Panics
    /// When the connection ends instead.
    pub fn completion(&mut self, queue: BareQueue) -> Completion {
        match self.hear(queue) {
            Heard::Completion(completion, _) => completion,
            Heard::Gone => panic!("the connection ended instead of a completion"),
        }
    }

    /// Whether the target ends the connection, with nothing said before.
    pub fn ends(&mut self, queue: BareQueue) -> bool {
        self.hear_within(queue, PATIENCE) == Some(Heard::Gone)
    }

    /// A command identifier that was not used lately.
    pub fn cid(&mut self) -> u16 {
        self.next_cid = self.next_cid.wrapping_add(1);
        self.next_cid
    }

    /// Sends a command with data behind it in the capsule, and waits for its completion.
    pub fn call_with(&mut self, queue: BareQueue, mut command: Command, tail: &[u8]) -> Completion {
        let cid = self.cid();
        command.set_cid(cid);
        self.send(queue, &[command.as_bytes().as_slice(), tail].concat());
        let completion = self.completion(queue);
        assert_eq!(completion.cid, cid, "the completion of another command");
        completion
    }

    /// Sends a command and waits for its completion.
    pub fn call(&mut self, queue: BareQueue, command: Command) -> Completion {
        self.call_with(queue, command, &[])
    }

    /// Ends a queue from our side.
    pub fn close(&mut self, queue: BareQueue) {
        let now = self.now();
        self.bare.close(now, queue);
        while self.hear(queue) != Heard::Gone {}
    }
}
