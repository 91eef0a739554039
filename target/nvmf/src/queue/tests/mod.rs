//! One event, then the exact actions.

mod closing;
mod connect;
mod control;
mod fused;
mod io;
mod portions;
mod random;
mod report;
mod sgl;
mod slots;
mod turn;

use super::*;
use crate::limit::{Limit, LimitConfig};
use crate::target::AbortToken;
use crate::view::{HostSettings, IoCounters, NamespaceView, QueueActivity};
use crate::{BackingRef, ExecStatus, SubsystemRef};
use nvme_spec_types::fabrics::{Connect, ConnectAttributes};
use nvme_spec_types::nvm::{BlockCommand, BlockFlags};
use nvme_spec_types::{Fuse, IoOpcode, SglDescriptor, ZeroBased};

const ENTRIES: u16 = 4;
const IN_CAPSULE: u32 = 8192;
const MAX_TRANSFER: u32 = 65536;
const BLOCKS: u64 = 1000;

/// A queue and what it asked for last.
struct Rig {
    queue: Queue,
    out: Vec<Action>,
    /// What was reported, in order; not among the actions that are returned.
    reports: Vec<Action>,
    recvs: u32,
}

impl Rig {
    /// A queue that waits for Connect.
    fn unbound(qid: u16) -> Rig {
        let queue = Queue::new(QueueConfig {
            qid,
            sq_entries: ENTRIES,
            in_capsule: if qid == 0 { 0 } else { IN_CAPSULE },
            max_transfer: MAX_TRANSFER,
            core: 0,
        });
        Rig { queue, out: Vec::new(), reports: Vec::new(), recvs: 0 }
    }

    /// A connected queue; I/O queues see [`view`].
    fn bound(qid: u16) -> Rig {
        let mut rig = Rig::unbound(qid);
        rig.queue.on_bind(binding(qid, Some(view(1, MAX_TRANSFER))));
        rig
    }

    fn io() -> Rig {
        Rig::bound(1)
    }

    /// Delivers a command with `data` bytes behind it; returns what the queue asks for.
    fn capsule(&mut self, command: &Command, data: u32) -> Vec<Action> {
        self.recvs += 1;
        let recv = RecvToken(self.recvs);
        self.receive(command.as_bytes(), 64 + data, recv);
        self.taken()
    }

    /// Delivers a message; that its receive is free is told as an action, the first.
    fn receive(&mut self, capsule: &[u8; 64], received: u32, recv: RecvToken) {
        let at = self.out.len();
        let receive = self.queue.on_capsule(capsule, received, recv, &mut self.out);
        self.out.splice(at..at, receive.actions(recv));
    }

    fn event(&mut self, event: impl FnOnce(&mut Queue, &mut Vec<Action>)) -> Vec<Action> {
        event(&mut self.queue, &mut self.out);
        self.taken()
    }

    fn buffer(&mut self, slot: Slot) -> Vec<Action> {
        self.event(|queue, out| queue.on_buffer(slot, out))
    }

    fn pulled(&mut self, slot: Slot) -> Vec<Action> {
        self.event(|queue, out| queue.on_pulled(slot, out))
    }

    fn io_done(&mut self, slot: Slot) -> Vec<Action> {
        self.event(|queue, out| queue.on_io_done(slot, ExecStatus::Ok, out))
    }

    fn sent(&mut self, slot: Slot) -> Vec<Action> {
        self.event(|queue, out| queue.on_sent(slot, out))
    }

    fn executed(&mut self, slot: Slot, outcome: Outcome) -> Vec<Action> {
        self.event(|queue, out| queue.on_executed(slot, outcome, out))
    }

    fn taken(&mut self) -> Vec<Action> {
        self.queue.audit().unwrap();
        let mut actions = Vec::new();
        let mut reported = None;
        for mut action in self.out.drain(..) {
            match &mut action {
                Action::Report { slot, .. } => {
                    reported = Some(*slot);
                    self.reports.push(action);
                    continue;
                }
                // A report and the status that says so go together.
                Action::Respond { slot, completion, .. } => {
                    let more = std::mem::take(&mut completion.status.more);
                    assert_eq!(more, reported == Some(*slot));
                }
                _ => {}
            }
            actions.push(action);
        }
        actions
    }

    /// Delivers a command that must be refused before it takes anything.
    fn refused(&mut self, command: &Command, data: u32) -> Status {
        let actions = self.capsule(command, data);
        let (slot, completion) = match actions[..] {
            [Action::ReleaseRecv(_), Action::Respond { slot, completion, push: 0, .. }] => {
                (slot, completion)
            }
            ref other => panic!("not a refusal: {other:?}"),
        };
        assert_eq!(completion.cid, command.cid());
        self.sent(slot);
        assert!(self.queue.is_drained());
        completion.status
    }
}

fn view(generation: u64, max_transfer: u32) -> Arc<SubsystemView> {
    let namespace = |nsid, backing, lba_shift, read_only| {
        Arc::new(NamespaceView {
            nsid,
            backing: BackingRef(backing),
            lba_shift,
            block_count: BLOCKS,
            read_only,
            limit: None,
            counters: IoCounters::for_cores(1),
        })
    };
    Arc::new(SubsystemView {
        subsystem: SubsystemRef(7),
        generation,
        max_transfer,
        namespaces: vec![namespace(1, 10, 9, false), namespace(5, 50, 12, true)],
        host_limits: crate::view::HostLimits::default(),
    })
}

/// The namespaces of [`view`], the first with a limit.
fn limited_view(generation: u64) -> Arc<SubsystemView> {
    let mut limited = (*view(generation, MAX_TRANSFER)).clone();
    let burst = std::time::Duration::ZERO;
    let limit = Arc::new(Limit::new(LimitConfig { iops: 10, bandwidth: 0, burst }));
    let first = &limited.namespaces[0];
    limited.namespaces[0] = Arc::new(NamespaceView {
        nsid: first.nsid,
        backing: first.backing,
        lba_shift: first.lba_shift,
        block_count: first.block_count,
        read_only: first.read_only,
        limit: Some(limit),
        counters: first.counters.clone(),
    });
    Arc::new(limited)
}

/// A binding of a host that uses every format of Copy.
fn binding(qid: u16, view: Option<Arc<SubsystemView>>) -> Binding {
    let settings = HostSettings::default();
    settings.enable_copy_formats(u16::MAX);
    Binding {
        qid,
        cntlid: 1,
        subsystem: SubsystemRef(7),
        subnqn: "nqn.2014-08.org.example:s".into(),
        hostnqn: "nqn.2014-08.org.example:h".into(),
        sq_entries: ENTRIES,
        flow_control: true,
        settings,
        activity: QueueActivity::default(),
        view,
    }
}

fn keyed(len: u32) -> SglDescriptor {
    SglDescriptor::Keyed { addr: 0x10_0000, len, key: 0xabcd, invalidate: false }
}

fn in_capsule(offset: u64, len: u32) -> SglDescriptor {
    SglDescriptor::InCapsule { offset, len }
}

/// A block command on namespace 1 (512-byte blocks) with id 9.
fn blocks(opcode: IoOpcode, slba: u64, count: u32, sgl: SglDescriptor) -> Command {
    blocks_on(1, opcode, slba, count, sgl)
}

fn blocks_on(nsid: u32, opcode: IoOpcode, slba: u64, count: u32, sgl: SglDescriptor) -> Command {
    BlockCommand::new(slba, ZeroBased::<u16>::from_raw((count - 1) as u16))
        .to_command(opcode, 9, nsid, sgl)
}

fn with_flags(command: &Command, flags: BlockFlags) -> Command {
    let mut block = BlockCommand::from_command(command);
    block.flags = flags;
    block.to_command(command.io_opcode(), command.cid(), command.nsid(), command.sgl1())
}

fn connect(sgl: SglDescriptor) -> Command {
    Connect {
        cid: 1,
        sgl1: sgl,
        recfmt: 0,
        qid: 1,
        sqsize: ZeroBased::<u16>::from_raw(ENTRIES - 1),
        cattr: ConnectAttributes::empty(),
        kato_ms: 0,
    }
    .to_command()
}

fn completion(cid: u16, status: Status, sqhd: u16) -> Completion {
    Completion { sqhd, ..Completion::new(cid, status) }
}

fn respond(slot: Slot, completion: Completion, push: u32) -> Action {
    Action::Respond { slot, completion, push, invalidate: None }
}

fn release(n: u32) -> Action {
    Action::ReleaseRecv(RecvToken(n))
}

fn io(slot: Slot, kind: IoKind, offset: u64, len: u64, place: Place) -> Action {
    Action::Io { slot, io: Io { backing: BackingRef(10), kind, offset, len, place } }
}

const S0: Slot = Slot(0);
const OK: Status = Status::SUCCESS;
