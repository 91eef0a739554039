//! A host that breaks rules on purpose, on a subsystem of its own: bad descriptors, bad opcodes,
//! messages that are no capsules, too many commands, connections dropped half way.
//!
//! Nothing that it is told is checked but one thing: the target must survive it, and its neighbours
//! must not notice.

use crate::net::{SimCm, SimDevice};
use crate::rng::Rng;
use initiator::{Goodbye, Host, HostState, Payload, Request, commands};
use nvme_spec_types::{Command, SglDescriptor};
use rdma::{Access, Now};

/// See the [module](self).
pub struct Hostile {
    /// The host.
    pub host: Host<SimCm, SimDevice>,
    rng: Rng,
    budget: u32,
    token: u64,
    /// No more mischief.
    pub quiet: bool,
}

impl Hostile {
    /// One with `budget` bad deeds in mind.
    pub fn new(host: Host<SimCm, SimDevice>, rng: Rng, budget: u32) -> Hostile {
        Hostile { host, rng, budget, token: 0, quiet: false }
    }

    /// Whether it has had enough.
    pub fn is_done(&self) -> bool {
        self.quiet || self.budget == 0
    }

    /// One turn.
    pub fn turn(&mut self, now: Now) -> bool {
        let mut worked = self.host.turn(now);
        while self.host.poll_event().is_some() {
            worked = true;
        }
        if self.is_done() {
            return worked;
        }
        match self.host.state() {
            HostState::Off(None) => {
                self.host.connect(now);
                true
            }
            HostState::Live => {
                for _ in 0..self.rng.range(1, 4) {
                    self.budget = self.budget.saturating_sub(1);
                    self.deed(now);
                }
                true
            }
            // Now and then it goes away in the middle of connecting.
            HostState::Connecting(_) if self.rng.chance(20) => {
                self.host.leave(now, Goodbye::Abrupt);
                true
            }
            _ => worked,
        }
    }

    fn deed(&mut self, now: Now) {
        self.token += 1;
        let token = self.token;
        let qid = self.rng.below(u64::from(self.host.io_queues()) + 1) as u16;
        match self.rng.below(16) {
            0 => {
                let len = self.rng.below(64) as usize;
                let _ = self.host.send_raw(qid, &vec![0x5a; len]);
            }
            1 => {
                // The same identifier again and again.
                let mut command = commands::flush(1);
                command.set_cid(7);
                for _ in 0..self.rng.range(1, 40) {
                    let _ = self.host.send_raw(qid, command.as_bytes());
                }
            }
            2 => self.host.leave(now, Goodbye::Abrupt),
            3 => {
                // Fabrics commands out of season.
                let mut bytes = self.any_command();
                bytes[0] = 0x7f;
                bytes[4] = *self.rng.pick(&[0, 1, 4, 5, 6, 8, 0x55]);
                self.submit(qid, bytes, Payload::AsIs(Vec::new()), token);
            }
            4..=6 => {
                // A good command with memory that is too short, or of the wrong kind.
                let access = *self.rng.pick(&[Access::RemoteRead, Access::RemoteWrite]);
                let len = self.rng.range(1, 9000) as u32;
                let Some(span) = self.host.arena().alloc(len) else { return };
                let invalidate = self.rng.chance(5_000);
                let data = Payload::Keyed { spans: vec![span], access, invalidate };
                let bytes = *commands::write(1, 0, self.rng.range(1, 20) as u32, false).as_bytes();
                self.submit(qid, bytes, data, token);
                // Freed at once, though the target may still use it.
                self.host.arena().free(span);
            }
            7..=9 => {
                let mut bytes = *commands::write(1, 0, 1, false).as_bytes();
                bytes[0] = *self.rng.pick(&[0, 1, 2, 5, 8, 9, 0x0c]);
                bytes[24..40].copy_from_slice(&any_descriptor(&mut self.rng).to_bytes());
                let tail = self.any_tail();
                self.submit(qid, bytes, Payload::AsIs(tail), token);
            }
            10 => {
                // An admin command with any field.
                let mut bytes = self.any_command();
                bytes[0] = *self.rng.pick(&[0x02, 0x06, 0x08, 0x09, 0x0a, 0x0c, 0x18, 0x0d]);
                self.submit(0, bytes, Payload::AsIs(Vec::new()), token);
            }
            _ => {
                let bytes = self.any_command();
                let tail = self.any_tail();
                self.submit(qid, bytes, Payload::AsIs(tail), token);
            }
        }
    }

    fn submit(&mut self, qid: u16, bytes: [u8; 64], data: Payload, token: u64) {
        let command = Command::from_bytes(bytes);
        // Refused when its queue is full or gone: as good as sent, for our purpose.
        let _ = self.host.submit(qid, Request { command, data, token });
    }

    fn any_command(&mut self) -> [u8; 64] {
        let mut bytes = [0; 64];
        for byte in &mut bytes {
            *byte = self.rng.next() as u8;
        }
        if self.rng.chance(7_000) {
            bytes[1] = 0x40;
            bytes[4..8].copy_from_slice(&[1, 0, 0, 0]);
        }
        bytes[24..40].copy_from_slice(&any_descriptor(&mut self.rng).to_bytes());
        bytes
    }

    fn any_tail(&mut self) -> Vec<u8> {
        let most = if self.rng.chance(5_000) { 64 } else { self.host.info().in_capsule };
        let len = self.rng.below(u64::from(most) / 16 + 1) as usize * 16;
        let mut tail = Vec::with_capacity(len);
        while tail.len() < len {
            tail.extend_from_slice(&any_descriptor(&mut self.rng).to_bytes());
        }
        tail
    }
}

/// A data descriptor with lengths and keys of chance.
fn any_descriptor(rng: &mut Rng) -> SglDescriptor {
    let mut bytes = [0; 16];
    for byte in &mut bytes {
        *byte = rng.next() as u8;
    }
    bytes[15] = *rng.pick(&[0x40, 0x4f, 0x01, 0x00, 0x21, 0x31, 0x40, 0x55, bytes[15]]);
    if rng.chance(5_000) {
        // A small length, so that some get past the first check.
        bytes[9] = 0;
        bytes[10] = 0;
        bytes[11] = 0;
        if bytes[15] & 0xf0 != 0x40 {
            bytes[..8].fill(0);
        }
    }
    SglDescriptor::from_bytes(&bytes)
}
