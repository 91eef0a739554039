//! A core between a device and a disk that the test plays.

mod claims;
mod credits;
mod ends;
mod fake;
mod flow;
mod limits;
mod memory;
mod pulls;
mod soak;
mod times;

use super::*;
use crate::mail::QueueParams;
use fake::{FakeDevice, FakeEndpoint, FakeIo};
use nvme_spec_types::nvm::BlockCommand;
use nvme_spec_types::{Command, Completion, IoOpcode, SglDescriptor, StatusCode, ZeroBased};
use nvmf::target::Binding;
use nvmf::view::{HostSettings, IoCounters, NamespaceView, QueueActivity, SubsystemView};
use nvmf::{BackingRef, SubsystemRef};
use rdma::{QpId, QpLimits, RecvQueue, RecvQueueId, SendOp, SendWr};
use region::Pages;

type Out = Vec<ToControl<FakeEndpoint>>;

const MAX_TRANSFER: u32 = 64 * 1024;
const IN_CAPSULE: u32 = 4096;
const ENTRIES: u16 = 8;
const KEY: QueueKey = QueueKey(1);
const QP: QpId = QpId(1);
const BACKING: BackingId = BackingId(3);
const LIMITS: QpLimits = QpLimits { max_send_wr: 64, max_reads: 4, max_inline: 0 };

/// A core and the two worlds beside it.
struct Rig {
    core: Core<FakeDevice, FakeIo>,
    out: Out,
    now: Now,
}

impl Rig {
    /// A core with so many bytes for transfers, and a backing.
    fn new(transfer: u32) -> Rig {
        let standing = 1 << 20;
        let region = Region::map((standing + transfer) as usize, Pages::Normal).unwrap();
        let region = Arc::new(region);
        let config = CoreConfig {
            index: CoreIndex(1),
            max_transfer: MAX_TRANSFER,
            in_capsule: IN_CAPSULE,
            standing,
            slow: None,
        };
        let (device, io) = (FakeDevice::new(&region), FakeIo::new(&region));
        let mut core = Core::new(config, region, device, io).unwrap();
        core.handle(Now::ZERO, ToCore::AddBacking(BACKING, ()), &mut Vec::new());
        Rig { core, out: Vec::new(), now: Now::ZERO }
    }

    /// A core that serves one connected I/O queue ([`KEY`] on [`QP`]).
    fn serving(limits: QpLimits) -> Rig {
        let mut rig = Rig::new(1 << 20);
        rig.open(KEY, endpoint(QP, limits), params());
        rig
    }

    fn open(&mut self, key: QueueKey, endpoint: FakeEndpoint, params: QueueParams) {
        self.tell(ToCore::Attach { key, endpoint, params });
        assert!(matches!(self.out[..], [ToControl::Attached(k)] if k == key));
        self.out.clear();
        self.tell(ToCore::Established(key));
        self.tell(ToCore::Bind { key, binding: binding() });
    }

    fn tell(&mut self, message: ToCore<FakeEndpoint, ()>) {
        self.core.handle(self.now, message, &mut self.out);
        self.core.audit().unwrap();
    }

    /// One turn; returns what was posted to queue pairs in it.
    fn turn(&mut self) -> Vec<(QpId, SendWr)> {
        self.now += Now::from_micros(1);
        self.core.turn(self.now, &mut self.out);
        self.core.audit().unwrap();
        std::mem::take(&mut self.core.device_mut().posted_now)
    }

    /// Delivers a capsule on a queue pair.
    fn deliver(&mut self, qp: QpId, command: &Command, data: &[u8]) {
        self.core.device_mut().deliver(qp, command.as_bytes(), data);
    }

    /// Delivers a capsule and turns.
    fn capsule(&mut self, command: &Command, data: &[u8]) -> Vec<(QpId, SendWr)> {
        self.deliver(QP, command, data);
        self.turn()
    }

    /// Ends the oldest operation on the disk and turns.
    fn io_done(&mut self) -> Vec<(QpId, SendWr)> {
        self.core.io_mut().finish(Ok(()));
        self.turn()
    }

    /// Completes everything posted and turns.
    fn sends_done(&mut self) -> Vec<(QpId, SendWr)> {
        self.core.device_mut().complete_all();
        self.turn()
    }

    fn told(&mut self) -> Out {
        std::mem::take(&mut self.out)
    }

    fn bytes(&self, span: Span) -> Vec<u8> {
        let mut bytes = vec![0; span.len() as usize];
        self.core.region.read(span, &mut bytes);
        bytes
    }

    fn completion(&self, wr: &SendWr) -> Completion {
        Completion::parse(&self.bytes(wr.local)).unwrap()
    }
}

fn endpoint(qp: QpId, limits: QpLimits) -> FakeEndpoint {
    let recv_queue = RecvQueue { id: RecvQueueId(100 + qp.0), shared: false, depth: 64 };
    FakeEndpoint { qp, recv_queue, limits }
}

fn shared_endpoint(qp: QpId, depth: u32) -> FakeEndpoint {
    let recv_queue = RecvQueue { id: RecvQueueId(1), shared: true, depth };
    FakeEndpoint { qp, recv_queue, limits: LIMITS }
}

fn params() -> QueueParams {
    QueueParams {
        qid: 1,
        sq_entries: ENTRIES,
        host_receives: ENTRIES,
        in_capsule: IN_CAPSULE,
        activity: QueueActivity::default(),
    }
}

fn binding() -> Binding {
    let namespace = NamespaceView {
        nsid: 1,
        backing: BackingRef(BACKING.0),
        lba_shift: 9,
        block_count: 1 << 20,
        read_only: false,
        limit: None,
        counters: IoCounters::for_cores(2),
    };
    Binding {
        settings: HostSettings::default(),
        activity: QueueActivity::default(),
        qid: 1,
        cntlid: 1,
        subsystem: SubsystemRef(1),
        subnqn: "nqn.2014-08.org.example:s".into(),
        hostnqn: "nqn.2014-08.org.example:h".into(),
        sq_entries: ENTRIES,
        flow_control: true,
        view: Some(Arc::new(SubsystemView {
            subsystem: SubsystemRef(1),
            generation: 1,
            max_transfer: MAX_TRANSFER,
            namespaces: vec![Arc::new(namespace)],
            host_limits: nvmf::view::HostLimits::default(),
        })),
    }
}

fn blocks(opcode: IoOpcode, cid: u16, count: u32, sgl: SglDescriptor) -> Command {
    BlockCommand::new(16, ZeroBased::<u16>::from_raw((count - 1) as u16))
        .to_command(opcode, cid, 1, sgl)
}

fn keyed(addr: u64, len: u32) -> SglDescriptor {
    SglDescriptor::Keyed { addr, len, key: 0x77, invalidate: false }
}

fn read(cid: u16, bytes: u32) -> Command {
    blocks(IoOpcode::READ, cid, bytes / 512, keyed(0x1000, bytes))
}

fn write(cid: u16, bytes: u32) -> Command {
    blocks(IoOpcode::WRITE, cid, bytes / 512, keyed(0x1000, bytes))
}

/// A command whose data is in `count` pieces of 512 bytes, and the list behind its capsule.
fn scattered(opcode: IoOpcode, cid: u16, count: u32) -> (Command, Vec<u8>) {
    let list = SglDescriptor::LastSegment { offset: 0, len: count * 16 };
    let descriptors =
        (0..count).flat_map(|n| keyed(0x10_0000 + u64::from(n) * 0x1000, 512).to_bytes()).collect();
    (blocks(opcode, cid, count, list), descriptors)
}

fn is_read(wr: &SendWr) -> bool {
    matches!(wr.op, SendOp::Read { .. })
}

fn is_write(wr: &SendWr) -> bool {
    matches!(wr.op, SendOp::Write { .. })
}

fn is_send(wr: &SendWr) -> bool {
    matches!(wr.op, SendOp::Send | SendOp::SendWithInvalidate { .. })
}
