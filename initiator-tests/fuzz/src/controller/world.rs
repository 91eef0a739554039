//! The control thread and everything that there is.

use super::conn::Conn;
use super::core::{Claim, Owed};
use super::disks::Disks;
use super::mail::{Execute, ToControl, ToCore};
use super::op::Op;
use super::reach::Reached;
use super::sent::{IN_CAPSULE, MAX_TRANSFER};
use nvme_spec_types::ZeroBased;
use nvme_spec_types::rdma_cm::CmRequest;
use nvmf::queue::Io;
use nvmf::target::{AbortToken, NamespaceConfig, QueueInfo, Target, TargetAction, TargetConfig};
use nvmf::view::{QueueActivity, SubsystemView};
use nvmf::{BackingRef, QueueKey, Slot, SubsystemRef};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

/// The control thread's core, which serves admin queues, and two for data.
pub(super) const CORES: usize = 3;
/// Queues at a time.
const MAX_QUEUES: usize = 24;

/// A subsystem as it was configured.
#[derive(Debug, Default)]
pub(super) struct Configured {
    pub(super) namespaces: BTreeMap<u32, NamespaceConfig>,
    /// Generation of the last view.
    generation: u64,
}

/// A controller, its queues, their cores, and hosts.
pub(super) struct World {
    pub(super) now: Duration,
    pub(super) target: Target,
    pub(super) subsystems: BTreeMap<SubsystemRef, Configured>,
    pub(super) conns: BTreeMap<QueueKey, Conn>,
    pub(super) owed: Vec<Owed>,
    pub(super) buffer_lines: [VecDeque<(QueueKey, Slot, u32)>; CORES],
    /// Commands that wait for their limits.
    pub(super) turns: VecDeque<(QueueKey, Slot)>,
    pub(super) claims: Vec<Claim>,
    pub(super) claims_ended: bool,
    pub(super) held_back: VecDeque<(QueueKey, Slot, Io)>,
    pub(super) disks: Disks,
    pub(super) gone: BTreeSet<BackingRef>,
    pub(super) to_control: [VecDeque<ToControl>; CORES],
    pub(super) to_core: [VecDeque<ToCore>; CORES],
    actions: VecDeque<TargetAction>,
    /// Commands that the target has and did not answer.
    asked: BTreeSet<(QueueKey, Slot)>,
    aborts: BTreeSet<AbortToken>,
    next_key: u64,
    pub(super) next_token: u32,
    pub(super) next_backing: u32,
    pub(super) reached: Reached,
}

impl World {
    /// A target with nothing but its discovery subsystem.
    pub(super) fn new() -> World {
        World {
            now: Duration::from_secs(1),
            target: Target::new(TargetConfig {
                max_transfer: MAX_TRANSFER,
                in_capsule: IN_CAPSULE,
                max_queue_entries: 16,
                max_io_queues: 4,
                cores: CORES,
            }),
            subsystems: BTreeMap::new(),
            conns: BTreeMap::new(),
            owed: Vec::new(),
            buffer_lines: Default::default(),
            turns: VecDeque::new(),
            claims: Vec::new(),
            claims_ended: false,
            held_back: VecDeque::new(),
            disks: Disks::default(),
            gone: BTreeSet::new(),
            to_control: Default::default(),
            to_core: Default::default(),
            actions: VecDeque::new(),
            asked: BTreeSet::new(),
            aborts: BTreeSet::new(),
            next_key: 0,
            next_token: 0,
            next_backing: 1,
            reached: Reached::default(),
        }
    }

    /// One of the queues.
    pub(super) fn pick(&self, which: u8) -> Option<QueueKey> {
        self.conns.keys().nth(usize::from(which) % self.conns.len().max(1)).copied()
    }

    /// A host asks for a connection. Its queue, if it gets one.
    pub(super) fn connect(&mut self, request: &CmRequest, port: u16) -> Option<QueueKey> {
        if self.conns.len() >= MAX_QUEUES {
            return None;
        }
        let admission = match self.target.admit(&request.to_bytes()) {
            Ok(admission) => admission,
            Err(reason) => {
                self.reached.refusal(reason.status().0);
                return None;
            }
        };
        assert_eq!(admission.qid, request.qid, "another queue was admitted");
        let _ = self.target.accept_private_data(&admission);
        self.next_key += 1;
        let key = QueueKey(self.next_key);
        let core = match admission.qid {
            0 => 0,
            qid => 1 + usize::from(qid) % (CORES - 1),
        };
        let conn = Conn::new(key, &admission, core);
        let activity: QueueActivity = conn.activity.clone();
        activity.mark(self.now);
        let info = QueueInfo {
            admission,
            port,
            local: ([192, 0, 2, 1], 4420).into(),
            peer: ([192, 0, 2, 9], 50000).into(),
            activity,
        };
        self.target.on_queue_opened(self.now, key, info);
        self.conns.insert(key, conn);
        Some(key)
    }

    /// The same of a host that asks for what it should.
    pub(super) fn connect_well(&mut self, qid: u16, entries: u16, cntlid: u16) -> Option<QueueKey> {
        let request = CmRequest {
            recfmt: 0,
            qid,
            hrqsize: entries,
            hsqsize: ZeroBased::<u16>::from_raw(entries - 1),
            cntlid,
        };
        self.connect(&request, 1)
    }

    /// The core that serves a queue, unless its end has begun.
    fn core_of(&self, key: QueueKey) -> Option<usize> {
        self.conns.get(&key).filter(|conn| !conn.ending).map(|conn| conn.core)
    }

    fn tell(&mut self, op: &mut Op, core: usize, message: ToCore) {
        // The control thread's own core hears at once.
        match core {
            0 => self.on_core_mail(op, core, message),
            _ => self.to_core[core].push_back(message),
        }
    }

    /// A message reaches a core.
    pub(super) fn on_core_mail(&mut self, op: &mut Op, core: usize, message: ToCore) {
        match message {
            ToCore::Bind { key, binding } => {
                if let Some(conn) = self.conns.get_mut(&key) {
                    conn.queue.on_bind(binding);
                    conn.head = None;
                }
            }
            ToCore::Complete { key, slot, outcome } => {
                if let Some(model) = self.conns.get_mut(&key).map(|c| c.slot(slot)) {
                    model.executing = false;
                }
                self.tell_queue(op, key, |queue, out| queue.on_executed(slot, outcome, out));
            }
            ToCore::Flush { key, slot, backings } => {
                if let Some(conn) = self.conns.get_mut(&key) {
                    conn.slot(slot).progress.asked_to_flush.clone_from(&backings);
                }
                self.tell_queue(op, key, |queue, out| queue.on_flush(slot, &backings, out));
            }
            ToCore::Reported(key) => {
                if let Some(conn) = self.conns.get_mut(&key) {
                    conn.reports -= 1;
                    conn.queue.on_reported();
                }
            }
            ToCore::Abort { key, cid, token } => match self.conns.get_mut(&key) {
                Some(conn) => {
                    conn.aborted.insert(cid);
                    self.tell_queue(op, key, |queue, out| queue.on_abort(cid, token, out));
                }
                None => {
                    self.to_control[core].push_back(ToControl::Aborted { token, stopped: false });
                }
            },
            ToCore::Close(key) => self.end_on_core(op, key, None),
            ToCore::Publish(view) => {
                for conn in self.conns.values_mut().filter(|conn| conn.core == core) {
                    conn.queue.on_publish(&view);
                }
            }
        }
    }

    /// A message reaches the control thread.
    pub(super) fn on_control_mail(&mut self, op: &mut Op, message: ToControl) {
        match message {
            ToControl::Execute(Execute { key, slot, command, data }) => {
                if self.core_of(key).is_some() {
                    assert!(self.asked.insert((key, slot)), "{slot:?} asks twice");
                    let now = self.now;
                    self.ask(op, |target, out| {
                        target.on_command(now, key, slot, &command, &data, out);
                    });
                }
            }
            ToControl::Flushed { key, slot, failed } => {
                if self.core_of(key).is_some() {
                    let result = failed.map_or(Ok(()), Err);
                    self.ask(op, |target, out| target.on_flushed(key, slot, result, out));
                }
            }
            ToControl::Failed { key, command, status, location, missed } => {
                if let Some(core) = self.core_of(key) {
                    self.target.on_command_failed(key, &command, status, location, missed);
                    self.tell(op, core, ToCore::Reported(key));
                }
            }
            ToControl::Aborted { token, stopped } => {
                assert!(self.aborts.remove(&token), "{token:?} is answered twice");
                let now = self.now;
                self.ask(op, |target, out| target.on_abort_done(now, token, stopped, out));
            }
            ToControl::Closing { key, reason } => self.end(op, key, &reason),
        }
        self.check_target();
    }

    /// Something happens to the target; what it asks for is done.
    pub(super) fn ask<T>(
        &mut self,
        op: &mut Op,
        ask: impl FnOnce(&mut Target, &mut Vec<TargetAction>) -> T,
    ) -> T {
        let mut out = Vec::new();
        let answer = ask(&mut self.target, &mut out);
        self.actions.extend(out);
        self.carry_out_all(op);
        answer
    }

    fn carry_out_all(&mut self, op: &mut Op) {
        while let Some(action) = self.actions.pop_front() {
            self.carry_out_for_target(op, action);
        }
    }

    fn carry_out_for_target(&mut self, op: &mut Op, action: TargetAction) {
        match action {
            TargetAction::Bind { queue, binding } => {
                let Some(core) = self.core_of(queue) else { return };
                let conn = &self.conns[&queue];
                assert_eq!(binding.qid, conn.qid, "bound as another queue");
                assert!(binding.sq_entries <= conn.entries, "more entries than receives");
                self.tell(op, core, ToCore::Bind { key: queue, binding });
            }
            TargetAction::Complete { queue, slot, outcome } => {
                let owed = self.asked.remove(&(queue, slot));
                let Some(core) = self.core_of(queue) else { return };
                assert!(owed, "{queue:?} {slot:?} is owed no answer");
                self.tell(op, core, ToCore::Complete { key: queue, slot, outcome });
            }
            TargetAction::Abort { queue, cid, token } => {
                assert!(self.aborts.insert(token), "{token:?} is used twice");
                match self.core_of(queue) {
                    Some(core) => self.tell(op, core, ToCore::Abort { key: queue, cid, token }),
                    None => {
                        self.to_control[0].push_back(ToControl::Aborted { token, stopped: false });
                    }
                }
            }
            TargetAction::Flush { queue, slot, backings } => {
                assert!(!backings.is_empty() && self.asked.contains(&(queue, slot)));
                if let Some(core) = self.core_of(queue) {
                    self.tell(op, core, ToCore::Flush { key: queue, slot, backings });
                }
            }
            TargetAction::Close { queue, reason } => self.begin_end(op, queue, &reason),
            TargetAction::Publish(view) => {
                self.judge_view(&view);
                for core in 0..CORES {
                    self.tell(op, core, ToCore::Publish(view.clone()));
                }
            }
        }
    }

    /// A view says what was configured, and is newer than the one before.
    fn judge_view(&mut self, view: &SubsystemView) {
        let configured = self.subsystems.entry(view.subsystem).or_default();
        assert!(view.generation > configured.generation, "a view that is not newer");
        configured.generation = view.generation;
        assert!(view.max_transfer <= MAX_TRANSFER, "transfers of {}", view.max_transfer);
        assert!(view.namespaces.is_sorted_by_key(|ns| ns.nsid));
    }

    /// What the last view of a subsystem must have shown.
    pub(super) fn judge_namespaces(&self) {
        for status in self.target.subsystems() {
            let configured = &self.subsystems[&status.subsystem].namespaces;
            let there: BTreeMap<u32, NamespaceConfig> =
                status.namespaces.into_iter().map(|ns| (ns.config.nsid, ns.config)).collect();
            assert!(there == *configured, "other namespaces than were configured");
        }
    }

    /// The control thread ends a connection.
    pub(super) fn end(&mut self, op: &mut Op, key: QueueKey, reason: &str) {
        self.begin_end(op, key, reason);
        self.carry_out_all(op);
    }

    fn begin_end(&mut self, op: &mut Op, key: QueueKey, reason: &str) {
        let Some(conn) = self.conns.get_mut(&key) else { return };
        if std::mem::replace(&mut conn.ending, true) {
            return;
        }
        let core = conn.core;
        self.reached.end(reason);
        self.tell(op, core, ToCore::Close(key));
        let (now, mut out) = (self.now, Vec::new());
        self.target.on_queue_closed(now, key, &mut out);
        self.asked.retain(|&(queue, _)| queue != key);
        self.actions.extend(out);
        self.forget_if_drained(key);
    }

    /// Time passes.
    pub(super) fn pass(&mut self, op: &mut Op, time: Duration) {
        self.now += time;
        let now = self.now;
        if self.target.timeout().is_some_and(|at| at <= now) {
            self.ask(op, |target, out| target.on_time(now, out));
        }
        assert!(self.target.timeout().is_none_or(|at| at > now), "a timer that has run out");
    }

    /// Checks what holds of the target between any two events.
    pub(super) fn check_target(&mut self) {
        self.target.audit().unwrap_or_else(|wrong| panic!("{wrong}"));
        let unanswered = self.target.unanswered();
        assert_eq!(unanswered, self.asked, "commands that the target has, and that it should have");
        for controller in self.target.controllers() {
            for queue in &controller.queues {
                let conn = self.conns.get(&queue.queue);
                assert!(conn.is_some_and(|conn| !conn.ending), "a queue that is gone");
            }
        }
    }
}
