//! What a command costs a core: `cost CASE DEPTH COMMANDS` runs so many commands through a
//! production core, `DEPTH` at a time, and prints nothing. `cargo xtask bench cost` counts the
//! instructions.
//!
//! The device and the disk do the least that can be done: a work request completes at the next
//! poll, an operation too. What they cost is no cost of the core: with `seams` for a fourth word
//! the same calls of the two seams are made without a core, and what that takes is subtracted.

use backing::{BackingId, BlockIo, IoDone, IoOp, IoRequest};
use nvme_spec_types::nvm::BlockCommand;
use nvme_spec_types::{Command, IoOpcode, SglDescriptor, ZeroBased};
use nvmf::target::Binding;
use nvmf::view::{HostSettings, IoCounters, NamespaceView, QueueActivity, SubsystemView};
use nvmf::{BackingRef, QueueKey, SubsystemRef};
use rdma::{
    Attached, CoreIndex, Device, Now, PollSource, QpId, QpLimits, RecvQueue, RecvQueueId, RecvWr,
    RemoteAddr, SendOp, SendWr, Wc, WcOp, WcStatus, WrId,
};
use reactor::core::{Core, CoreConfig};
use reactor::mail::{QueueParams, ToCore};
use region::{Pages, Region, Span};
use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

const QP: QpId = QpId(0);
const KEY: QueueKey = QueueKey(1);
const BACKING: BackingId = BackingId(0);
const ENTRIES: u16 = 128;
const IN_CAPSULE: u32 = 4096;
const MAX_TRANSFER: u32 = 1 << 20;

/// A queue pair whose peer takes everything at once.
struct Wire {
    recvs: VecDeque<RecvWr>,
    wcs: Vec<Wc>,
    region: Arc<Region>,
}

impl Wire {
    fn new(region: Arc<Region>) -> Wire {
        Wire { recvs: VecDeque::new(), wcs: Vec::with_capacity(1024), region }
    }

    fn deliver(&mut self, capsule: &[u8], data: u32) {
        let recv = self.recvs.pop_front().expect("a posted receive");
        self.region.write(recv.head, capsule);
        let op = WcOp::Recv { byte_len: 64 + data, invalidated: None };
        self.wcs.push(Wc { wr_id: recv.wr_id, qp: QP, op, status: WcStatus::Success });
    }
}

impl Device for Wire {
    type Endpoint = ();

    fn attach(&mut self, (): ()) -> Attached {
        let recv_queue = RecvQueue { id: RecvQueueId(0), shared: false, depth: u32::from(ENTRIES) };
        let limits = QpLimits { max_send_wr: 512, max_reads: 128, max_inline: 0 };
        Attached { qp: QP, recv_queue, limits }
    }

    fn detach(&mut self, _qp: QpId) {}

    fn fail(&mut self, _qp: QpId) {}

    fn post_recv(&mut self, _queue: RecvQueueId, wr: RecvWr) {
        self.recvs.push_back(wr);
    }

    fn post_send(&mut self, _qp: QpId, wr: SendWr) {
        if wr.signaled {
            let status = WcStatus::Success;
            self.wcs.push(Wc { wr_id: wr.wr_id, qp: QP, op: WcOp::Send, status });
        }
    }

    fn flush(&mut self, _now: Now) {}

    fn poll_cq(&mut self, _now: Now, max: usize, out: &mut Vec<Wc>) -> usize {
        let count = max.min(self.wcs.len());
        out.extend(self.wcs.drain(..count));
        count
    }

    fn arm(&mut self) {}

    fn wait_sources<'a>(&'a self, _out: &mut Vec<PollSource<'a>>) {}

    fn timeout(&self) -> Option<Now> {
        None
    }
}

/// A disk that is done at once.
#[derive(Default)]
struct Disk {
    done: Vec<IoDone>,
}

impl BlockIo for Disk {
    type Backing = ();

    fn add(&mut self, _id: BackingId, (): ()) {}

    fn remove(&mut self, _id: BackingId) {}

    fn submit(&mut self, _now: Now, request: IoRequest) {
        self.done.push(IoDone { tag: request.tag, result: Ok(()) });
    }

    fn flush(&mut self, _now: Now) {}

    fn poll(&mut self, _now: Now, out: &mut Vec<IoDone>) -> usize {
        let count = self.done.len();
        out.append(&mut self.done);
        count
    }

    fn in_flight(&self) -> usize {
        self.done.len()
    }

    fn wait_source(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

/// The opcode, the bytes, and how many of them are in the capsule.
fn case(name: &str) -> Option<(IoOpcode, u32, u32)> {
    Some(match name {
        "read-4k" => (IoOpcode::READ, 4 << 10, 0),
        "read-128k" => (IoOpcode::READ, 128 << 10, 0),
        "write-4k" => (IoOpcode::WRITE, 4 << 10, 4 << 10),
        "write-128k" => (IoOpcode::WRITE, 128 << 10, 0),
        _ => return None,
    })
}

fn serving() -> Core<Wire, Disk> {
    let region = Arc::new(Region::map(64 << 20, Pages::Normal).expect("memory"));
    let config = CoreConfig::halves(CoreIndex(1), MAX_TRANSFER, IN_CAPSULE, region.len());
    let wire = Wire::new(Arc::clone(&region));
    let mut core = Core::new(config, region, wire, Disk::default()).expect("a core");
    let params = QueueParams {
        qid: 1,
        sq_entries: ENTRIES,
        host_receives: ENTRIES,
        in_capsule: IN_CAPSULE,
        activity: QueueActivity::default(),
    };
    let namespace = NamespaceView {
        nsid: 1,
        backing: BackingRef(BACKING.0),
        lba_shift: 9,
        block_count: 1 << 30,
        read_only: false,
        limit: None,
        counters: IoCounters::for_cores(2),
    };
    let binding = Binding {
        qid: 1,
        cntlid: 1,
        subsystem: SubsystemRef(1),
        subnqn: "nqn.2014-08.org.example:s".into(),
        hostnqn: "nqn.2014-08.org.example:h".into(),
        sq_entries: ENTRIES,
        flow_control: true,
        settings: HostSettings::default(),
        activity: QueueActivity::default(),
        view: Some(Arc::new(SubsystemView {
            subsystem: SubsystemRef(1),
            generation: 1,
            max_transfer: MAX_TRANSFER,
            namespaces: vec![Arc::new(namespace)],
            host_limits: nvmf::view::HostLimits::default(),
        })),
    };
    let mut out = Vec::new();
    for message in [
        ToCore::AddBacking(BACKING, ()),
        ToCore::Attach { key: KEY, endpoint: (), params },
        ToCore::Established(KEY),
        ToCore::Bind { key: KEY, binding },
    ] {
        core.handle(Now::ZERO, message, &mut out);
    }
    core
}

/// The calls of the seams that a command takes, without a core between them.
struct Seams {
    wire: Wire,
    disk: Disk,
    wcs: Vec<Wc>,
    dones: Vec<IoDone>,
    opcode: IoOpcode,
    bytes: u32,
    in_capsule: u32,
}

impl Seams {
    /// Work requests by what they are.
    const RECV: WrId = WrId(0);
    const READ: WrId = WrId(1);
    const WRITE: WrId = WrId(2);
    const RESPONSE: WrId = WrId(3);

    fn new(opcode: IoOpcode, bytes: u32, in_capsule: u32) -> Seams {
        let region = Arc::new(Region::map(64 << 20, Pages::Normal).expect("memory"));
        let (wire, disk) = (Wire::new(region), Disk::default());
        let (wcs, dones) = (Vec::with_capacity(64), Vec::with_capacity(64));
        let mut seams = Seams { wire, disk, wcs, dones, opcode, bytes, in_capsule };
        for _ in 0..ENTRIES {
            seams.post_recv();
        }
        seams
    }

    /// What a core's turn asks of the seams; whether there was anything to do.
    fn turn(&mut self, now: Now) -> bool {
        let polled = self.wire.poll_cq(now, 64, &mut self.wcs);
        for at in 0..polled {
            match self.wcs[at].wr_id {
                Self::RECV if self.in_capsule > 0 => self.submit(now),
                Self::RECV => {
                    self.post_recv();
                    match self.opcode {
                        IoOpcode::WRITE => self.post_send(Self::READ, true),
                        _ => self.submit(now),
                    }
                }
                Self::READ => self.submit(now),
                _ => {}
            }
        }
        self.wcs.clear();
        let done = self.disk.poll(now, &mut self.dones);
        for _ in 0..done {
            if self.in_capsule > 0 {
                self.post_recv();
            }
            if self.opcode == IoOpcode::READ {
                self.post_send(Self::WRITE, false);
            }
            self.post_send(Self::RESPONSE, true);
        }
        self.dones.clear();
        self.wire.flush(now);
        self.disk.flush(now);
        polled + done > 0
    }

    fn post_recv(&mut self) {
        let (head, tail) = (Span::new(0, 64), Span::new(4096, IN_CAPSULE));
        self.wire.post_recv(RecvQueueId(0), RecvWr { wr_id: Self::RECV, head, tail });
    }

    fn post_send(&mut self, wr_id: WrId, signaled: bool) {
        let remote = RemoteAddr { addr: 0x1000, rkey: 7 };
        let (op, len) = match wr_id {
            Self::READ => (SendOp::Read { remote }, self.bytes),
            Self::WRITE => (SendOp::Write { remote }, self.bytes),
            _ => (SendOp::Send, 16),
        };
        self.wire.post_send(QP, SendWr { wr_id, op, local: Span::new(0, len), signaled });
    }

    fn submit(&mut self, now: Now) {
        let op = match self.opcode {
            IoOpcode::WRITE => IoOp::Write { fua: false },
            _ => IoOp::Read,
        };
        let (buffer, len) = (Span::new(0, self.bytes), u64::from(self.bytes));
        self.disk.submit(now, IoRequest { backing: BACKING, op, offset: 0, len, buffer, tag: 0 });
    }
}

/// Delivers the capsules over and over, `rounds` times, and has them served.
fn serve<T>(
    served: &mut T,
    wire: fn(&mut T) -> &mut Wire,
    mut turn: impl FnMut(&mut T, Now) -> bool,
    (capsules, in_capsule, rounds): (&[Command], u32, u64),
) {
    let mut now = Now::ZERO;
    for _ in 0..rounds {
        for capsule in capsules {
            wire(served).deliver(capsule.as_bytes(), in_capsule);
        }
        loop {
            now += Now::from_micros(1);
            if !turn(served, now) {
                break;
            }
        }
    }
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (words, with_core) = match &words[..] {
        [words @ .., last] if last == "seams" => (words, false),
        words => (words, true),
    };
    let parsed = match words {
        [name, depth, commands] => {
            case(name).zip(depth.parse::<u16>().ok()).zip(commands.parse::<u64>().ok())
        }
        _ => None,
    };
    let Some((((opcode, bytes, in_capsule), depth), commands)) = parsed else {
        eprintln!("usage: cost read-4k|read-128k|write-4k|write-128k DEPTH COMMANDS [seams]");
        return;
    };
    let sgl = match in_capsule {
        0 => SglDescriptor::Keyed { addr: 0x1000, len: bytes, key: 7, invalidate: false },
        len => SglDescriptor::InCapsule { offset: 0, len },
    };
    let blocks = ZeroBased::<u16>::from_raw((bytes / 512 - 1) as u16);
    let capsules: Vec<Command> = (0..depth)
        .map(|cid| BlockCommand::new(u64::from(cid) * 256, blocks).to_command(opcode, cid, 1, sgl))
        .collect();
    let rounds = commands / u64::from(depth);
    let load = (&capsules[..], in_capsule, rounds);
    if !with_core {
        let mut seams = Seams::new(opcode, bytes, in_capsule);
        serve(&mut seams, |seams| &mut seams.wire, Seams::turn, load);
        return;
    }
    let (mut core, mut out) = (serving(), Vec::new());
    serve(&mut core, Core::device_mut, |core, now| core.turn(now, &mut out), load);
    let served = core.stats().responses;
    assert_eq!(served, rounds * u64::from(depth), "every command is served");
    assert!(out.is_empty(), "nothing goes to the control thread");
}
