//! One event, then what was asked of the connection manager and of the cores. I/O queues only:
//! their core is played by the test, so every message is seen.

use super::*;
use crate::core::CoreConfig;
use nvme_spec_types::rdma_cm::{CmReject, CmRejectStatus};
use nvmf::target::{ALL_CNTLIDS, Binding, DuplicateHosts, TargetConfig};
use nvmf::view::{HostSettings, QueueActivity};
use rdma::cm::{DeviceCaps, QpParams};
use rdma::{
    AcceptParams, Attached, CmError, CmEvent, ConnId, ConnectRequest, RecvQueueId, RecvWr, SendWr,
    Wc,
};
use region::{Pages, Region};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

const NOW: Duration = Duration::from_secs(100);

/// What the connection manager was asked to do.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Call {
    Prepare(ConnId, CoreIndex, QpParams),
    Accept(ConnId, AcceptParams),
    Reject(ConnId, CmRejectStatus),
    Disconnect(ConnId),
    Destroy(ConnId),
    Unlisten(ListenerId),
}

#[derive(Default)]
struct FakeCm {
    events: VecDeque<CmEvent>,
    calls: Vec<Call>,
    no_memory: bool,
    gone_at_accept: bool,
}

impl ConnectionManager for FakeCm {
    type Endpoint = ConnId;

    fn listen(&mut self, _: Now, _: SocketAddr) -> Result<ListenerId, ListenError> {
        Ok(ListenerId(1))
    }

    fn unlisten(&mut self, listener: ListenerId) {
        self.calls.push(Call::Unlisten(listener));
    }

    fn poll(&mut self, _: Now) -> Option<CmEvent> {
        self.events.pop_front()
    }

    fn prepare(
        &mut self,
        conn: ConnId,
        core: CoreIndex,
        params: &QpParams,
    ) -> Result<ConnId, CmError> {
        self.calls.push(Call::Prepare(conn, core, *params));
        if self.no_memory {
            let source = std::io::Error::from_raw_os_error(12);
            return Err(CmError::Resources { what: "a", source, hint: "b" });
        }
        Ok(conn)
    }

    fn accept(&mut self, _: Now, conn: ConnId, params: &AcceptParams) -> Result<(), CmError> {
        self.calls.push(Call::Accept(conn, params.clone()));
        if self.gone_at_accept { Err(CmError::Gone) } else { Ok(()) }
    }

    fn reject(&mut self, _: Now, conn: ConnId, private_data: &[u8]) {
        let sts = CmReject::parse(private_data).unwrap().sts;
        self.calls.push(Call::Reject(conn, sts));
    }

    fn disconnect(&mut self, _: Now, conn: ConnId) {
        self.calls.push(Call::Disconnect(conn));
    }

    fn destroy(&mut self, conn: ConnId, endpoint: ConnId) {
        assert_eq!(conn, endpoint);
        self.calls.push(Call::Destroy(conn));
    }

    fn wait_sources<'a>(&'a self, _: &mut Vec<PollSource<'a>>) {}

    fn timeout(&self) -> Option<Now> {
        None
    }
}

/// A device that no test here uses.
struct NoDevice;

impl Device for NoDevice {
    type Endpoint = ConnId;

    fn attach(&mut self, _: ConnId) -> Attached {
        unreachable!("no admin queue here")
    }

    fn detach(&mut self, _: rdma::QpId) -> ConnId {
        unreachable!("no admin queue here")
    }

    fn fail(&mut self, _: rdma::QpId) {}

    fn post_recv(&mut self, _: RecvQueueId, _: RecvWr) {}

    fn post_send(&mut self, _: rdma::QpId, _: SendWr) {}

    fn flush(&mut self, _: Now) {}

    fn poll_cq(&mut self, _: Now, _: usize, _: &mut Vec<Wc>) -> usize {
        0
    }

    fn arm(&mut self) {}

    fn wait_sources<'a>(&'a self, _: &mut Vec<PollSource<'a>>) {}

    fn timeout(&self) -> Option<Now> {
        None
    }
}

/// Disks that no test here uses.
struct NoDisks;

impl BlockIo for NoDisks {
    type Backing = ();

    fn add(&mut self, _: BackingId, (): ()) {}

    fn remove(&mut self, _: BackingId) {}

    fn submit(&mut self, _: Duration, _: backing::IoRequest) {}

    fn flush(&mut self, _: Duration) {}

    fn poll(&mut self, _: Duration, _: &mut Vec<backing::IoDone>) -> usize {
        0
    }

    fn in_flight(&self) -> usize {
        0
    }

    fn wait_source(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

struct Bench {
    control: Control<FakeCm, NoDevice, NoDisks>,
    mail: Vec<ToControl<ConnId>>,
    out: Vec<Outgoing<FakeCm, NoDisks>>,
    now: Duration,
}

impl Bench {
    fn new(config: ControlConfig) -> Bench {
        let target = Target::new(TargetConfig {
            max_transfer: 1 << 20,
            in_capsule: 4096,
            max_queue_entries: 128,
            max_io_queues: 16,
            cores: usize::from(config.data_cores) + 1,
        });
        let region = Arc::new(Region::map(8 << 20, Pages::Normal).unwrap());
        let core = Core::new(
            CoreConfig::halves(CONTROL_CORE, 1 << 20, 0, region.len()),
            region,
            NoDevice,
            NoDisks,
        );
        let core = core.unwrap();
        let mut control = Control::new(config, FakeCm::default(), target, core);
        let address = "10.0.0.1:4420".parse().unwrap();
        control.listen(NOW, PortConfig { id: 1, address }).unwrap();
        Bench { control, mail: Vec::new(), out: Vec::new(), now: NOW }
    }

    /// Feeds an event of the connection manager; returns what it was asked to do upon it.
    fn cm(&mut self, event: CmEvent) -> Vec<Call> {
        self.control.cm_mut().events.push_back(event);
        self.turn()
    }

    /// Feeds a core's message.
    fn core(&mut self, message: ToControl<ConnId>) -> Vec<Call> {
        self.mail.push(message);
        self.turn()
    }

    fn turn(&mut self) -> Vec<Call> {
        self.control.turn(self.now, &mut self.mail, &mut self.out);
        std::mem::take(&mut self.control.cm_mut().calls)
    }

    /// The messages for data cores since the last call, in words.
    fn told(&mut self) -> Vec<String> {
        let words = |message: ToCore<ConnId, ()>| match message {
            ToCore::Attach { key, params, .. } => {
                format!("attach {} qid {} entries {}", key.0, params.qid, params.sq_entries)
            }
            ToCore::Established(key) => format!("established {}", key.0),
            ToCore::Close(key) => format!("close {}", key.0),
            ToCore::AddBacking(id, ()) => format!("add {}", id.0),
            ToCore::RemoveBacking(id) => format!("remove {}", id.0),
            ToCore::Publish(view) => format!("publish {}", view.namespaces.len()),
            other => format!("{other:?}"),
        };
        self.out
            .drain(..)
            .map(|(core, message)| format!("{}: {}", core.0, words(message)))
            .collect()
    }

    /// A queue that is up, its messages and calls forgotten.
    fn up(&mut self, conn: u64) -> QueueKey {
        self.cm(request(conn));
        let Some((_, ToCore::Attach { key, .. })) = self.out.pop() else { panic!("no attach") };
        self.core(ToControl::Attached(key));
        self.cm(CmEvent::Established(ConnId(conn)));
        self.told();
        key
    }
}

fn bench() -> Bench {
    Bench::new(ControlConfig { data_cores: 2, ..ControlConfig::default() })
}

/// An I/O queue of 128 entries.
fn private_data() -> Vec<u8> {
    let mut data = vec![0; 32];
    data[2] = 1;
    data[4] = 128;
    data[6] = 127;
    data
}

fn request(conn: u64) -> CmEvent {
    request_with(conn, private_data(), 8)
}

fn request_with(conn: u64, private_data: Vec<u8>, responder_resources: u8) -> CmEvent {
    CmEvent::Request(ConnectRequest {
        conn: ConnId(conn),
        listener: ListenerId(1),
        local: "10.0.0.1:4420".parse().unwrap(),
        peer: "10.0.0.2:50000".parse().unwrap(),
        private_data,
        responder_resources,
        initiator_depth: 0,
        device: DeviceCaps { name: "fake".into(), max_qp_wr: 1024, max_qp_reads: 16 },
    })
}

fn gone(conn: u64) -> CmEvent {
    CmEvent::Disconnected { conn: ConnId(conn), reason: "test".into() }
}

#[test]
fn a_request_is_prepared_attached_accepted_and_established_in_that_order() {
    let mut bench = bench();
    let calls = bench.cm(request(7));
    let qp = QpParams { send_depth: 273, recv_depth: 128, max_reads: 8, shared_recv: true };
    assert_eq!(calls, [Call::Prepare(ConnId(7), CoreIndex(1), qp)]);
    assert_eq!(bench.told(), ["1: attach 1 qid 1 entries 128"]);

    let calls = bench.core(ToControl::Attached(QueueKey(1)));
    let [Call::Accept(conn, params)] = &calls[..] else { panic!("{calls:?}") };
    assert_eq!(*conn, ConnId(7));
    assert_eq!((params.initiator_depth, params.rnr_retry), (8, 7));
    assert_eq!(params.private_data[..4], [0, 0, 128, 0]);
    assert!(bench.told().is_empty());

    assert!(bench.cm(CmEvent::Established(ConnId(7))).is_empty());
    assert_eq!(bench.told(), ["1: established 1"]);
}

#[test]
fn a_host_that_offers_no_reads_is_served_with_one() {
    let mut bench = bench();
    let calls = bench.cm(request_with(1, private_data(), 0));
    let [Call::Prepare(_, _, qp)] = &calls[..] else { panic!("{calls:?}") };
    assert_eq!(qp.max_reads, 1);
}

#[test]
fn queues_go_to_the_core_with_the_fewest() {
    let mut bench = bench();
    for conn in 1..=4 {
        bench.cm(request(conn));
    }
    let cores: Vec<String> = bench.told().iter().map(|told| told[..1].to_owned()).collect();
    assert_eq!(cores, ["1", "2", "1", "2"]);
}

#[test]
fn unreadable_private_data_is_rejected_with_its_reason() {
    let mut bench = bench();
    let calls = bench.cm(request_with(1, vec![0; 31], 8));
    assert_eq!(calls, [Call::Reject(ConnId(1), CmRejectStatus::INVALID_PRIVATE_DATA_LENGTH)]);
    let mut wrong_format = private_data();
    wrong_format[0] = 1;
    let calls = bench.cm(request_with(2, wrong_format, 8));
    assert_eq!(calls, [Call::Reject(ConnId(2), CmRejectStatus::INVALID_RECFMT)]);
    assert!(bench.told().is_empty());
    assert_eq!(bench.control.queue_count(), 0);
}

#[test]
fn a_queue_pair_that_cannot_be_made_is_a_reject() {
    let mut bench = bench();
    bench.control.cm_mut().no_memory = true;
    let calls = bench.cm(request(1));
    assert_eq!(calls[1..], [Call::Reject(ConnId(1), CmRejectStatus::NO_RESOURCES)]);
    assert_eq!(bench.control.queue_count(), 0);
}

#[test]
fn a_core_without_memory_is_a_reject_and_a_destroy() {
    let mut bench = bench();
    bench.cm(request(1));
    let calls = bench.core(ToControl::Refused { key: QueueKey(1), endpoint: ConnId(1) });
    let reject = Call::Reject(ConnId(1), CmRejectStatus::NO_RESOURCES);
    assert_eq!(calls, [reject, Call::Destroy(ConnId(1))]);
    assert_eq!(bench.control.queue_count(), 0);
}

#[test]
fn a_connection_without_connect_ends_after_its_time() {
    let mut bench = bench();
    let key = bench.up(1);
    let limit = ControlConfig::default().connect_timeout;
    assert_eq!(bench.control.timeout(), Some(NOW + limit));
    bench.now = NOW + limit;
    assert_eq!(bench.turn(), [Call::Disconnect(ConnId(1))]);
    assert_eq!(bench.told(), ["1: close 1"]);
    assert_eq!(bench.control.timeout(), None);
    let calls = bench.core(ToControl::Detached { key, endpoint: ConnId(1) });
    assert_eq!(calls, [Call::Destroy(ConnId(1))]);
}

#[test]
fn a_peer_that_leaves_before_it_was_accepted_is_neither_accepted_nor_rejected() {
    let mut bench = bench();
    bench.cm(request(1));
    bench.told();
    assert!(bench.cm(gone(1)).is_empty());
    assert_eq!(bench.told(), ["1: close 1"]);
    assert!(bench.core(ToControl::Attached(QueueKey(1))).is_empty());
    let calls = bench.core(ToControl::Detached { key: QueueKey(1), endpoint: ConnId(1) });
    assert_eq!(calls, [Call::Destroy(ConnId(1))]);
}

#[test]
fn an_accept_that_fails_closes_the_queue() {
    let mut bench = bench();
    bench.cm(request(1));
    bench.told();
    bench.control.cm_mut().gone_at_accept = true;
    let calls = bench.core(ToControl::Attached(QueueKey(1)));
    assert_eq!(calls[1..], [Call::Disconnect(ConnId(1))]);
    assert_eq!(bench.told(), ["1: close 1"]);
}

#[test]
fn both_sides_ending_at_once_still_destroy_once() {
    let mut bench = bench();
    let key = bench.up(1);
    let calls = bench.core(ToControl::Closing { key, reason: "flushed".into() });
    assert_eq!(calls, [Call::Disconnect(ConnId(1))]);
    assert!(bench.cm(gone(1)).is_empty());
    assert_eq!(bench.told(), ["1: close 1"]);
    let calls = bench.core(ToControl::Detached { key, endpoint: ConnId(1) });
    assert_eq!(calls, [Call::Destroy(ConnId(1))]);
    assert!(bench.cm(gone(1)).is_empty(), "a late event of a forgotten connection");
    assert_eq!(bench.control.queue_count(), 0);
}

#[test]
fn a_connect_that_overtakes_the_established_event_is_answered_after_it() {
    let mut bench = bench();
    bench.cm(request(1));
    bench.told();
    let key = QueueKey(1);
    bench.core(ToControl::Attached(key));
    let binding = Binding {
        settings: HostSettings::default(),
        activity: QueueActivity::default(),
        qid: 1,
        cntlid: 1,
        subsystem: SubsystemRef(1),
        subnqn: "s".into(),
        hostnqn: "h".into(),
        sq_entries: 128,
        flow_control: true,
        view: None,
    };
    bench.control.actions.push_back(TargetAction::Bind { queue: key, binding });
    bench.control.carry_out(NOW);
    bench.cm(CmEvent::Established(ConnId(1)));
    let told = bench.told();
    assert!(told[0].starts_with("1: Bind"), "{told:?}");
    assert_eq!(told[1..], ["1: established 1"]);
    assert_eq!(bench.control.timeout(), None, "the Connect came in time");
}

#[test]
fn commands_of_a_closing_queue_are_not_carried_out() {
    let mut bench = bench();
    let key = bench.up(1);
    bench.cm(gone(1));
    bench.told();
    let execute =
        ToControl::Execute { key, slot: nvmf::Slot(0), command: [0; 64], data: Vec::new() };
    bench.core(execute);
    assert!(bench.told().is_empty());
}

#[test]
fn pending_connections_of_one_peer_are_bounded_and_counted_down() {
    let config = ControlConfig { max_pending_per_peer: 2, ..ControlConfig::default() };
    let mut bench = Bench::new(config);
    bench.cm(request(1));
    bench.cm(request(2));
    let no = CmRejectStatus::NO_RESOURCES;
    assert_eq!(bench.cm(request(3)), [Call::Reject(ConnId(3), no)]);
    bench.cm(gone(1));
    assert!(matches!(bench.cm(request(4))[..], [Call::Prepare(..)]));
}

#[test]
fn all_queues_together_are_bounded() {
    let config = ControlConfig { max_queues: 1, ..ControlConfig::default() };
    let mut bench = Bench::new(config);
    bench.cm(request(1));
    let no = CmRejectStatus::NO_RESOURCES;
    assert_eq!(bench.cm(request(2)), [Call::Reject(ConnId(2), no)]);
    // A queue that drains still counts: it holds memory.
    bench.cm(gone(1));
    assert_eq!(bench.cm(request(3)), [Call::Reject(ConnId(3), no)]);
    bench.core(ToControl::Detached { key: QueueKey(1), endpoint: ConnId(1) });
    assert!(matches!(bench.cm(request(4))[..], [Call::Prepare(..)]));
}

#[test]
fn stopping_ends_connections_and_refuses_new_ones_until_all_have_drained() {
    let mut bench = bench();
    let key = bench.up(1);
    bench.control.begin_stop(bench.now);
    let calls = bench.turn();
    assert_eq!(calls, [Call::Unlisten(ListenerId(1)), Call::Disconnect(ConnId(1))]);
    assert_eq!(bench.told(), ["1: close 1"]);
    assert_eq!(bench.control.next_event(), None);
    let no = CmRejectStatus::NO_RESOURCES;
    assert_eq!(bench.cm(request(2)), [Call::Reject(ConnId(2), no)]);
    bench.core(ToControl::Detached { key, endpoint: ConnId(1) });
    assert_eq!(bench.control.next_event(), Some(ControlEvent::Drained));
    bench.turn();
    assert_eq!(bench.control.next_event(), None);
}

#[test]
fn stopping_does_not_wait_for_ever() {
    let mut bench = bench();
    bench.up(1);
    bench.control.begin_stop(bench.now);
    bench.turn();
    let limit = ControlConfig::default().drain_timeout;
    assert_eq!(bench.control.timeout(), Some(NOW + limit));
    bench.now = NOW + limit;
    bench.turn();
    assert_eq!(bench.control.next_event(), Some(ControlEvent::DrainTimedOut(1)));
    assert_eq!(bench.control.timeout(), None);
}

fn namespace(nsid: u32, backing: u32) -> NamespaceConfig {
    NamespaceConfig {
        nsid,
        backing: BackingRef(backing),
        lba_shift: 9,
        block_count: 8,
        read_only: false,
        uuid: [nsid as u8; 16],
        nguid: [0; 16],
        eui64: [0; 8],
        volatile_cache: false,
        discard: false,
        discard_zeroes: false,
        atomic_blocks: 0,
        optimal_blocks: 0,
    }
}

fn add_subsystem(bench: &mut Bench) -> SubsystemRef {
    let config = SubsystemConfig {
        nqn: "nqn.2026-11.io.nvmfd:test".into(),
        serial: "1".into(),
        model: "m".into(),
        hosts: AllowedHosts::Any,
        duplicates: DuplicateHosts::Allow,
        cntlids: ALL_CNTLIDS,
    };
    bench.control.add_subsystem(NOW, config).unwrap()
}

#[test]
fn a_removed_namespace_leaves_every_core_before_its_disk_may_be_closed() {
    let mut bench = bench();
    let subsystem = add_subsystem(&mut bench);
    bench.control.add_backing(NOW, BackingId(5), ());
    bench.control.add_namespace(NOW, subsystem, namespace(1, 5)).unwrap();
    bench.turn();
    assert_eq!(
        bench.told().into_iter().filter(|told| told.starts_with("1:")).collect::<Vec<_>>(),
        ["1: publish 0", "1: add 5", "1: publish 1"]
    );
    assert_eq!(bench.control.remove_namespace(NOW, subsystem, 1).unwrap(), BackingId(5));
    bench.turn();
    let told: Vec<String> = bench.told();
    assert_eq!(told, ["1: publish 0", "2: publish 0", "1: remove 5", "2: remove 5"]);
    bench.core(ToControl::BackingRemoved(BackingId(5)));
    assert_eq!(bench.control.next_event(), None);
    bench.core(ToControl::BackingRemoved(BackingId(5)));
    assert_eq!(bench.control.next_event(), Some(ControlEvent::BackingRemoved(BackingId(5))));
}

#[test]
fn a_namespace_that_goes_to_another_disk_lets_go_of_the_first() {
    let mut bench = bench();
    let subsystem = add_subsystem(&mut bench);
    for id in [5, 6, 7] {
        bench.control.add_backing(NOW, BackingId(id), ());
    }
    bench.control.add_namespace(NOW, subsystem, namespace(1, 5)).unwrap();
    bench.turn();
    bench.told();
    let larger = NamespaceConfig { block_count: 9, read_only: true, ..namespace(1, 5) };
    assert_eq!(bench.control.update_namespace(NOW, subsystem, larger), Ok(None));
    let moved = bench.control.update_namespace(NOW, subsystem, namespace(1, 6));
    assert_eq!(moved, Ok(Some(BackingId(5))));
    let other = NamespaceConfig { uuid: [9; 16], ..namespace(1, 7) };
    let replaced = bench.control.replace_namespace(NOW, subsystem, other);
    assert_eq!(replaced, Ok(Some(BackingId(6))));
    bench.turn();
    let told: Vec<String> = bench.told().into_iter().filter(|t| t.starts_with("1:")).collect();
    let expected = ["1: publish 1", "1: publish 1", "1: remove 5", "1: publish 1", "1: remove 6"];
    assert_eq!(told, expected);
}

#[test]
fn a_data_core_is_silent_until_it_has_answered_the_last_call() {
    let mut bench = bench();
    let silent = |bench: &Bench| bench.control.silent_cores().map(|c| c.0).collect::<Vec<_>>();
    assert_eq!(silent(&bench), [0; 0]);
    bench.control.call_roll(NOW);
    bench.turn();
    assert_eq!(bench.told(), ["1: Call(1)", "2: Call(1)"]);
    assert_eq!(silent(&bench), [1, 2]);
    bench.core(ToControl::Here(CoreIndex(1), 1));
    assert_eq!(silent(&bench), [2]);
    bench.control.call_roll(NOW);
    // Too late: this one was the answer to the call before.
    bench.core(ToControl::Here(CoreIndex(2), 1));
    bench.core(ToControl::Here(CoreIndex(1), 2));
    assert_eq!(silent(&bench), [2]);
}

#[test]
fn a_core_answers_a_call_at_once() {
    let mut bench = bench();
    let mut said = Vec::new();
    bench.control.core.handle(NOW, ToCore::Call(7), &mut said);
    assert!(matches!(said[..], [ToControl::Here(CONTROL_CORE, 7)]), "{said:?}");
}
