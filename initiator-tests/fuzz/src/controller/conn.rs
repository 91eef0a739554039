//! A queue, and what its core and its host know of it.

use super::sent::{IN_CAPSULE, MAX_TRANSFER, Sent};
use nvme_spec_types::{Fuse, StatusCode};
use nvmf::queue::{CloseReason, Place, Queue, QueueConfig};
use nvmf::target::Admission;
use nvmf::view::{QueueActivity, SubsystemView};
use nvmf::{BackingRef, QueueKey, Slot, SubsystemRef};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What has become of the command in a slot so far.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// Bytes read, written, zeroed and deallocated by operations that succeeded.
    pub(super) read: u64,
    pub(super) written: u64,
    pub(super) zeroed: u64,
    pub(super) deallocated: u64,
    pub(super) flushed: BTreeSet<BackingRef>,
    /// Its limits let it pass.
    pub(super) admitted: bool,
    /// How operations failed.
    pub(super) failed: BTreeSet<StatusCode>,
    /// What was read last, as it is on the disk.
    pub(super) seen: Vec<u8>,
    /// Whether that was what the host has.
    pub(super) equal: Option<bool>,
    /// The control thread asked for flushes of these.
    pub(super) asked_to_flush: Vec<BackingRef>,
}

/// A slot as its core sees it.
#[derive(Debug, Default)]
pub(super) struct SlotModel {
    /// The receive that brought its command, which names the command.
    token: Option<u32>,
    pub(super) buffer: Option<Vec<u8>>,
    /// Whether it stands in line for its turn or for a buffer.
    pub(super) waits: bool,
    /// Whether READs or a response are under way.
    pub(super) busy: bool,
    pub(super) ios: u32,
    /// Whether the control thread has the command.
    pub(super) executing: bool,
    pub(super) progress: Progress,
}

/// One queue and its connection.
#[derive(Debug)]
pub(super) struct Conn {
    pub(super) key: QueueKey,
    pub(super) qid: u16,
    pub(super) entries: u16,
    pub(super) core: usize,
    pub(super) queue: Queue,
    /// Whether its core serves it still.
    pub(super) open: bool,
    /// Whether the control thread has begun to end it.
    pub(super) ending: bool,
    /// Commands of which the last has not been heard, by the receive that brought them.
    pub(super) sent: BTreeMap<u32, Sent>,
    /// First commands of fused pairs, by second.
    pub(super) firsts: BTreeMap<u32, u32>,
    last: Option<(u32, Fuse)>,
    /// Receives that the queue has.
    pub(super) held: BTreeSet<u32>,
    pub(super) slots: Vec<SlotModel>,
    pub(super) activity: QueueActivity,
    /// Failures on their way to the error log.
    pub(super) reports: u32,
    /// Command ids that an Abort named at any time.
    pub(super) aborted: BTreeSet<u16>,
    pub(super) to_close: Option<CloseReason>,
    /// Submission queue head of the last completion.
    pub(super) head: Option<u16>,
}

impl Conn {
    pub(super) fn new(key: QueueKey, admission: &Admission, core: usize) -> Conn {
        let queue = Queue::new(QueueConfig {
            qid: admission.qid,
            sq_entries: admission.sq_entries,
            in_capsule: if admission.qid == 0 { 0 } else { IN_CAPSULE },
            max_transfer: MAX_TRANSFER,
            core,
        });
        let slots = (0..queue.slots()).map(|_| SlotModel::default()).collect();
        Conn {
            key,
            qid: admission.qid,
            entries: admission.sq_entries,
            core,
            queue,
            open: true,
            ending: false,
            sent: BTreeMap::new(),
            firsts: BTreeMap::new(),
            last: None,
            held: BTreeSet::new(),
            slots,
            activity: QueueActivity::default(),
            reports: 0,
            aborted: BTreeSet::new(),
            to_close: None,
            head: None,
        }
    }

    pub(super) fn on_io_queue(&self) -> bool {
        self.qid != 0
    }

    pub(super) fn is_bound(&self) -> bool {
        self.queue.binding().is_some()
    }

    /// The controller that it belongs to.
    pub(super) fn controller(&self) -> Option<(SubsystemRef, u16)> {
        self.queue.binding().map(|binding| (binding.subsystem, binding.cntlid))
    }

    pub(super) fn view(&self) -> Option<Arc<SubsystemView>> {
        self.queue.binding().and_then(|binding| binding.view.clone())
    }

    /// A command is on its way in.
    pub(super) fn take(&mut self, token: u32, sent: Sent) {
        let fuse = sent.command.fuse();
        if let Some((first, Fuse::First)) = self.last
            && fuse == Fuse::Second
        {
            self.firsts.insert(token, first);
        }
        self.last = Some((token, fuse));
        self.held.insert(token);
        self.sent.insert(token, sent);
    }

    /// Commands without an answer.
    pub(super) fn unanswered(&self) -> impl Iterator<Item = &Sent> + '_ {
        self.sent.values().filter(|sent| !sent.answered)
    }

    /// The receive that brought the slot's command.
    pub(super) fn token(&self, slot: Slot) -> u32 {
        self.queue.recv(slot).0
    }

    /// The command in a slot, as its host knows it.
    pub(super) fn command(&self, slot: Slot) -> &Sent {
        let sent = self.sent.get(&self.token(slot));
        sent.unwrap_or_else(|| panic!("{slot:?} has a command that ended before"))
    }

    /// The first command of the pair whose second is in the slot.
    pub(super) fn first_of(&self, slot: Slot) -> Option<&Sent> {
        self.sent.get(self.firsts.get(&self.token(slot))?)
    }

    /// The slot, made ready for a command that is new in it.
    pub(super) fn slot(&mut self, slot: Slot) -> &mut SlotModel {
        let token = self.token(slot);
        let model = &mut self.slots[usize::from(slot.0)];
        if model.token != Some(token) {
            assert!(model.buffer.is_none() && !model.waits, "{slot:?} ended with a buffer");
            assert!(model.ios == 0 && !model.busy, "{slot:?} ended with something under way");
            *model = SlotModel { token: Some(token), ..SlotModel::default() };
        }
        model
    }

    /// The bytes at a place of a slot.
    pub(super) fn bytes(&self, slot: Slot, place: Place, len: u32) -> Vec<u8> {
        let (from, all) = match place {
            Place::Buffer(at) => {
                let buffer = self.slots[usize::from(slot.0)].buffer.as_ref();
                (at, buffer.unwrap_or_else(|| panic!("{slot:?} has no buffer")))
            }
            Place::Capsule(at) => {
                let token = self.token(slot);
                assert!(self.held.contains(&token), "{slot:?} has given its receive back");
                (at, &self.command(slot).capsule)
            }
        };
        let end = from as usize + len as usize;
        assert!(end <= all.len(), "{place:?} and {len} bytes are outside of {}", all.len());
        if let Place::Capsule(_) = place {
            assert!(end <= IN_CAPSULE as usize, "{place:?} is outside of the receive");
        }
        all[from as usize..end].to_vec()
    }

    /// Puts bytes into a slot's buffer.
    pub(super) fn fill(&mut self, slot: Slot, at: u32, bytes: &[u8]) {
        let buffer = self.slots[usize::from(slot.0)].buffer.as_mut();
        let buffer = buffer.unwrap_or_else(|| panic!("{slot:?} has no buffer"));
        let place = at as usize..at as usize + bytes.len();
        let there = buffer.len();
        let part = buffer.get_mut(place.clone());
        let part = part.unwrap_or_else(|| panic!("{place:?} is outside of a buffer of {there}"));
        part.copy_from_slice(bytes);
    }

    /// Checks what holds between any two events.
    pub(super) fn check(&self) {
        self.queue.audit().unwrap_or_else(|wrong| panic!("{wrong}"));
        let held: BTreeSet<u32> = self.queue.held_recvs().map(|recv| recv.0).collect();
        assert_eq!(held, self.held, "receives that the queue has, and that it should have");
        for token in &self.held {
            let waits = self.sent.get(token).is_some_and(|sent| !sent.answered);
            assert!(waits, "a receive is kept beyond its command");
        }
        if self.open && self.to_close.is_none() {
            let count = self.unanswered().count();
            assert!(count <= self.entries.into(), "{count} commands of {}", self.entries);
        }
    }

    /// Checks that nothing is left of it.
    pub(super) fn check_drained(&self) {
        assert!(self.queue.is_drained(), "commands are left in a queue that has ended");
        assert!(self.held.is_empty(), "receives are left in a queue that has ended");
        for slot in &self.slots {
            assert!(slot.buffer.is_none() && !slot.waits && slot.ios == 0 && !slot.busy);
        }
    }
}
