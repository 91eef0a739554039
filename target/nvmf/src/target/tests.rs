//! What the tests of the target share: a small target, and a host that asks one thing at a time.

use super::controller::Kind;
use super::*;
use crate::view::QueueActivity;
use crate::{BackingRef, Outcome, Slot};
use nvme_spec_types::fabrics::{
    CNTLID_DYNAMIC, Connect, ConnectAttributes, ConnectData, ConnectResponse, PropertyGet,
    PropertySet, PropertySize,
};
use nvme_spec_types::property::CC_OFFSET;
use nvme_spec_types::status::{Status, StatusCode};
use nvme_spec_types::{AdminOpcode, Command, Nqn, SglDescriptor, ZeroBased};
use proptest::prelude::*;

mod compliance;
mod sequences;

pub(super) const SUBNQN: &str = "nqn.2026-01.io.example:disks";
pub(super) const HOSTNQN: &str = "nqn.2026-01.io.example:host";
pub(super) const HOSTID: [u8; 16] = [7; 16];
/// CC with EN, IOSQES 6 and IOCQES 4, as Linux writes it.
pub(super) const ENABLE: u32 = 0x0046_0001;

pub(super) const CONFIG: TargetConfig = TargetConfig {
    max_transfer: 1 << 20,
    in_capsule: 4096,
    max_queue_entries: 128,
    max_io_queues: 4,
    cores: 2,
};

pub(super) fn subsystem_config() -> SubsystemConfig {
    SubsystemConfig {
        nqn: SUBNQN.to_owned(),
        serial: "SN1".to_owned(),
        model: "a model".to_owned(),
        hosts: AllowedHosts::Any,
        duplicates: DuplicateHosts::Allow,
        cntlids: ALL_CNTLIDS,
    }
}

/// A namespace of 1000 blocks of 512 bytes.
pub(super) fn namespace_config(nsid: u32) -> NamespaceConfig {
    let mut uuid = [0xa5; 16];
    uuid[..4].copy_from_slice(&nsid.to_be_bytes());
    NamespaceConfig {
        nsid,
        backing: BackingRef(nsid),
        lba_shift: 9,
        block_count: 1000,
        read_only: false,
        uuid,
        nguid: [0; 16],
        eui64: [0; 8],
        volatile_cache: true,
        discard: true,
        discard_zeroes: true,
        atomic_blocks: 0,
        optimal_blocks: 0,
    }
}

pub(super) fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// A target with one subsystem, one namespace and one port, and its host.
pub(super) struct Bench {
    pub(super) target: Target,
    pub(super) subsystem: SubsystemRef,
    pub(super) now: Duration,
    /// Actions that nobody has looked at.
    pub(super) out: Vec<TargetAction>,
    pub(super) activity: BTreeMap<QueueKey, QueueActivity>,
    next_queue: u64,
    next_slot: u16,
}

impl Bench {
    pub(super) fn new() -> Bench {
        Bench::with(CONFIG)
    }

    pub(super) fn with(config: TargetConfig) -> Bench {
        let mut target = Target::new(config);
        let mut out = Vec::new();
        let subsystem = target.add_subsystem(subsystem_config(), &mut out).unwrap();
        target.add_namespace(subsystem, namespace_config(1), &mut out).unwrap();
        let port = PortConfig { id: 1, address: "192.0.2.1:4420".parse().unwrap() };
        target.add_port(port, &mut out).unwrap();
        Bench {
            target,
            subsystem,
            now: ms(1000),
            out: Vec::new(),
            activity: BTreeMap::new(),
            next_queue: 1,
            next_slot: 0,
        }
    }

    pub(super) fn open(&mut self, qid: u16, sq_entries: u16) -> QueueKey {
        self.open_with(qid, sq_entries, CNTLID_DYNAMIC)
    }

    pub(super) fn open_with(&mut self, qid: u16, sq_entries: u16, cntlid: u16) -> QueueKey {
        let queue = QueueKey(self.next_queue);
        self.next_queue += 1;
        let activity = QueueActivity::default();
        self.activity.insert(queue, activity.clone());
        let info = QueueInfo {
            admission: Admission { qid, sq_entries, host_receives: sq_entries, cntlid },
            port: 1,
            local: "192.0.2.1:4420".parse().unwrap(),
            peer: "192.0.2.9:50000".parse().unwrap(),
            activity,
        };
        self.target.on_queue_opened(self.now, queue, info);
        queue
    }

    /// Feeds a command and returns the slot it was given.
    pub(super) fn feed(&mut self, queue: QueueKey, command: &Command, data: &[u8]) -> Slot {
        let slot = Slot(self.next_slot);
        self.next_slot += 1;
        let (now, bytes) = (self.now, command.as_bytes());
        self.target.on_command(now, queue, slot, bytes, data, &mut self.out);
        slot
    }

    /// Takes the one completion of that slot out of the actions; none when it is held.
    pub(super) fn answer(&mut self, queue: QueueKey, slot: Slot) -> Option<Outcome> {
        let mut answers = Vec::new();
        self.out.retain(|action| match action {
            TargetAction::Complete { queue: q, slot: s, outcome } if (*q, *s) == (queue, slot) => {
                answers.push(outcome.clone());
                false
            }
            _ => true,
        });
        assert!(answers.len() <= 1, "answered twice: {answers:?}");
        answers.pop()
    }

    /// Feeds a command that is answered at once.
    pub(super) fn run(&mut self, queue: QueueKey, command: &Command, data: &[u8]) -> Outcome {
        let slot = self.feed(queue, command, data);
        self.answer(queue, slot).expect("answered at once")
    }

    /// Connects a queue and returns its controller's id.
    pub(super) fn connect(
        &mut self,
        queue: QueueKey,
        connect: &Connect,
        data: &ConnectData,
    ) -> Result<u16, Outcome> {
        let outcome = self.run(queue, &connect.to_command(), &data.to_bytes());
        match outcome.status.is_success() {
            true => Ok(ConnectResponse::from_dw0(outcome.result as u32).cntlid),
            false => Err(outcome),
        }
    }

    /// An admin queue to that subsystem with a keep-alive timeout.
    pub(super) fn admin_to(&mut self, subnqn: &str, kato_ms: u32) -> (QueueKey, u16) {
        let queue = self.open(0, 32);
        let connect = Connect { kato_ms, ..admin_connect() };
        let data = connect_data(subnqn, CNTLID_DYNAMIC);
        let cntlid = self.connect(queue, &connect, &data).unwrap();
        self.out.clear();
        (queue, cntlid)
    }

    /// An admin queue of an enabled controller without keep alive.
    pub(super) fn ready(&mut self) -> (QueueKey, u16) {
        let (queue, cntlid) = self.admin_to(SUBNQN, 0);
        self.set_cc(queue, ENABLE);
        (queue, cntlid)
    }

    /// An admin queue of an enabled discovery controller.
    pub(super) fn ready_discovery(&mut self, kato_ms: u32) -> (QueueKey, u16) {
        let (queue, cntlid) = self.admin_to(nvme_spec_types::nqn::DISCOVERY_NQN, kato_ms);
        self.set_cc(queue, ENABLE);
        (queue, cntlid)
    }

    /// An I/O queue of that controller.
    pub(super) fn io_queue(&mut self, cntlid: u16, qid: u16) -> Result<QueueKey, Outcome> {
        let queue = self.open_with(qid, 128, cntlid);
        self.connect(queue, &io_connect(qid), &connect_data(SUBNQN, cntlid))?;
        self.out.clear();
        Ok(queue)
    }

    /// Sets CC; the flushes of a shutdown succeed.
    pub(super) fn set_cc(&mut self, queue: QueueKey, value: u32) {
        let slot = self.feed(queue, &property_set(CC_OFFSET, value), &[]);
        let flushes = |action: &TargetAction| matches!(action, TargetAction::Flush { .. });
        if let Some(at) = self.out.iter().position(flushes) {
            self.out.remove(at);
            self.target.on_flushed(queue, slot, Ok(()), &mut self.out);
        }
        assert_eq!(self.answer(queue, slot), Some(Outcome::ok()));
    }

    pub(super) fn property(&mut self, queue: QueueKey, offset: u32, size: PropertySize) -> Outcome {
        self.run(queue, &PropertyGet { cid: 1, size, offset }.to_command(), &[])
    }

    /// The queues that were asked to be closed, with the reason; forgets the other actions.
    pub(super) fn closed(&mut self) -> Vec<(QueueKey, String)> {
        let closed = |action| match action {
            TargetAction::Close { queue, reason } => Some((queue, reason)),
            _ => None,
        };
        self.out.drain(..).filter_map(closed).collect()
    }
}

pub(super) fn admin_connect() -> Connect {
    Connect {
        cid: 1,
        sgl1: SglDescriptor::NO_DATA,
        recfmt: 0,
        qid: 0,
        sqsize: ZeroBased::<u16>::from_raw(31),
        cattr: ConnectAttributes::empty(),
        kato_ms: 0,
    }
}

pub(super) fn io_connect(qid: u16) -> Connect {
    Connect { qid, sqsize: ZeroBased::<u16>::from_raw(127), ..admin_connect() }
}

pub(super) fn connect_data(subnqn: &str, cntlid: u16) -> ConnectData {
    ConnectData::new(HOSTID, cntlid, &Nqn::new(subnqn).unwrap(), &Nqn::new(HOSTNQN).unwrap())
}

pub(super) fn property_set(offset: u32, value: u32) -> Command {
    let set = PropertySet { cid: 1, size: PropertySize::Four, offset, value: value.into() };
    set.to_command()
}

pub(super) fn admin_command(opcode: AdminOpcode, cid: u16) -> Command {
    Command::admin(opcode, cid, 0, SglDescriptor::NO_DATA)
}

/// Failed in that way: no retry, and an entry in the error log.
pub(super) fn logged(code: StatusCode) -> Outcome {
    Outcome::error(Status { more: true, ..code.with_dnr() })
}

/// Failed in that way on a queue without a controller: no retry.
pub(super) fn refused(code: StatusCode) -> Outcome {
    Outcome::error(code.with_dnr())
}

#[test]
fn a_queue_that_is_not_open_gets_no_answer() {
    let mut bench = Bench::new();
    bench.feed(QueueKey(99), &admin_command(AdminOpcode::IDENTIFY, 1), &[]);
    assert!(bench.out.is_empty());
}

#[test]
fn the_end_of_the_admin_queue_ends_the_controller_and_its_io_queues() {
    let mut bench = Bench::new();
    let (admin, cntlid) = bench.ready();
    let io = bench.io_queue(cntlid, 1).unwrap();
    bench.target.on_queue_closed(bench.now, admin, &mut bench.out);
    let reason = "the controller's admin queue is gone".to_owned();
    assert_eq!(bench.closed(), [(io, reason)]);
    assert_eq!(bench.target.controllers().count(), 0);
    bench.target.on_queue_closed(bench.now, io, &mut bench.out);
    assert!(bench.out.is_empty());
}

#[test]
fn the_end_of_an_io_queue_leaves_the_controller_and_frees_the_queue_id() {
    let mut bench = Bench::new();
    let (_, cntlid) = bench.ready();
    let io = bench.io_queue(cntlid, 1).unwrap();
    bench.target.on_queue_closed(bench.now, io, &mut bench.out);
    assert!(bench.out.is_empty());
    bench.io_queue(cntlid, 1).unwrap();
}

#[test]
fn a_command_on_a_queue_that_is_closing_is_answered_as_aborted() {
    let mut bench = Bench::new();
    let (admin, _) = bench.ready();
    bench.target.remove_subsystem(bench.subsystem, &mut bench.out).unwrap();
    bench.out.clear();
    let outcome = bench.run(admin, &admin_command(AdminOpcode::KEEP_ALIVE, 1), &[]);
    assert_eq!(outcome, Outcome::error(StatusCode::ABORTED_SQ_DELETION.into()));
}

/// Bytes of a command, mostly of commands that exist.
fn command_bytes() -> impl Strategy<Value = [u8; 64]> {
    let opcodes = prop_oneof![
        Just(0x02u8),
        Just(0x06),
        Just(0x08),
        Just(0x09),
        Just(0x0a),
        Just(0x0c),
        Just(0x18),
        Just(0x7f),
        any::<u8>()
    ];
    // Small numbers in the fields reach further than noise.
    let dwords = prop::collection::vec(prop_oneof![0u32..0x90, any::<u32>()], 16);
    (opcodes, dwords).prop_map(|(opcode, dwords)| {
        let mut bytes = [0; 64];
        for (chunk, dword) in bytes.chunks_exact_mut(4).zip(dwords) {
            chunk.copy_from_slice(&dword.to_le_bytes());
        }
        bytes[0] = opcode;
        bytes
    })
}

/// On which queue of [`Bench`] a command of the test below goes.
#[derive(Debug, Clone, Copy)]
enum On {
    New,
    Admin,
    Discovery,
    Io,
}

fn on() -> impl Strategy<Value = On> {
    prop_oneof![Just(On::New), Just(On::Admin), Just(On::Admin), Just(On::Discovery), Just(On::Io)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]
    #[test]
    fn any_commands_are_answered_once_or_held(
        commands in prop::collection::vec(
            (on(), command_bytes(), prop::collection::vec(any::<u8>(), 0..64)), 1..40),
    ) {
        let mut bench = Bench::new();
        let (admin, cntlid) = bench.ready();
        let (discovery, _) = bench.ready_discovery(1000);
        let io = bench.io_queue(cntlid, 1).unwrap();
        let fresh = bench.open(0, 32);
        let mut open: BTreeSet<(QueueKey, Slot)> = BTreeSet::new();
        for (on, bytes, data) in commands {
            let queue = match on {
                On::New => fresh,
                On::Admin => admin,
                On::Discovery => discovery,
                On::Io => io,
            };
            let slot = bench.feed(queue, &Command::from_bytes(bytes), &data);
            open.insert((queue, slot));
            for action in std::mem::take(&mut bench.out) {
                match action {
                    TargetAction::Complete { queue, slot, .. } => {
                        prop_assert!(open.remove(&(queue, slot)), "answered twice");
                    }
                    TargetAction::Abort { token, .. } => {
                        bench.target.on_abort_done(bench.now, token, true, &mut bench.out);
                    }
                    _ => {}
                }
            }
            for action in std::mem::take(&mut bench.out) {
                let TargetAction::Complete { queue, slot, .. } = action else { continue };
                prop_assert!(open.remove(&(queue, slot)), "answered twice");
            }
            // What is left waits for an event: at most four on each controller.
            prop_assert!(open.len() <= 8);
        }
    }
}
