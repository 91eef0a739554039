//! Any sequence of capsules and answers: no panic, one completion a command, nothing left behind.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeSet;

#[derive(Debug, Clone)]
enum Op {
    /// A capsule with so many bytes behind it.
    Capsule { bytes: Box<[u8; 64]>, data: u32 },
    /// The two commands of a fused pair, of one range or of two.
    Pair { halves: Box<[[u8; 64]; 2]>, data: u32 },
    /// Answer the n-th of what is outstanding.
    Answer(usize),
    /// Abort a command by id.
    Abort(u16),
    /// Namespaces change: other block counts, or a limit.
    Publish { blocks: u64, limited: bool },
    /// Begin to close.
    Close,
}

fn sgl() -> impl Strategy<Value = SglDescriptor> {
    let len = prop_oneof![Just(0u32), Just(512), Just(4096), 0..70_000u32];
    prop_oneof![
        4 => (len.clone(), any::<bool>()).prop_map(|(len, invalidate)| SglDescriptor::Keyed {
            addr: 0x1000,
            len,
            key: 5,
            invalidate
        }),
        3 => (0..40u64, len.clone()).prop_map(|(offset, len)| in_capsule(offset * 8, len)),
        1 => (0..3u64, 0..20u32)
            .prop_map(|(offset, n)| SglDescriptor::LastSegment { offset, len: n * 16 }),
        1 => any::<[u8; 16]>().prop_map(|bytes| SglDescriptor::from_bytes(&bytes)),
    ]
}

fn command() -> impl Strategy<Value = [u8; 64]> {
    let opcode = prop_oneof![
        8 => prop::sample::select(vec![0x00u8, 0x01, 0x02, 0x05, 0x08, 0x09, 0x0c, 0x19, 0x7f]),
        1 => any::<u8>(),
    ];
    let nsid = prop::sample::select(vec![0, 1, 1, 1, 5, u32::MAX]);
    (opcode, nsid, sgl(), 0..8u16, 0..1010u64, 1..140u32, any::<u32>()).prop_map(
        |(opcode, nsid, sgl, cid, slba, count, flags)| {
            let mut command = blocks_on(nsid, IoOpcode(opcode), slba, count, sgl);
            command.set_cid(cid);
            if opcode == 0x09 {
                command.set_cdw10(count % 4);
                command.set_cdw11(flags & 7);
            } else if opcode == 0x19 {
                command.set_cdw12((count % 4) | ((flags & 3) << 8));
            } else {
                command.set_cdw12(command.cdw12() | flags & 0xffff_0000);
            }
            if opcode == 0x7f {
                // Connect, Disconnect and others.
                command.set_nsid(prop_types(flags));
            }
            *command.as_bytes()
        },
    )
}

/// A Read or Write that is as it should be, or nearly; or the first half of a pair alone.
fn ordinary() -> impl Strategy<Value = Op> {
    let opcode = prop::sample::select(vec![IoOpcode::READ, IoOpcode::WRITE]);
    let flags = prop::sample::select(vec![0u16, 0, BlockFlags::FORCE_UNIT_ACCESS.bits()]);
    let place = prop::sample::select(vec![None, None, None, Some(0u64), Some(4096), Some(512)]);
    let fuse = prop_oneof![9 => Just(Fuse::Normal), 1 => Just(Fuse::First)];
    (opcode, 0..8u16, 0..990u64, 1..9u32, flags, place, fuse).prop_map(
        |(opcode, cid, slba, count, flags, place, fuse)| {
            let opcode = if fuse == Fuse::First { IoOpcode::COMPARE } else { opcode };
            let len = count * 512;
            let sgl = place.map_or_else(|| keyed(len), |offset| in_capsule(offset, len));
            let mut command = blocks_on(1, opcode, slba, count, sgl);
            command.set_cid(cid);
            command.set_fuse(fuse);
            command.set_cdw12(command.cdw12() | u32::from(flags) << 16);
            Op::Capsule { bytes: Box::new(*command.as_bytes()), data: IN_CAPSULE }
        },
    )
}

fn prop_types(random: u32) -> u32 {
    [0x00, 0x01, 0x04, 0x05, 0x06, 0x08][random as usize % 6]
}

fn pair() -> impl Strategy<Value = Box<[[u8; 64]; 2]>> {
    let nsid = prop::sample::select(vec![1, 1, 1, 5]);
    let other = prop::sample::select(vec![0, 0, 0, 0, 1]);
    (nsid, [sgl(), sgl()], 0..7u16, 0..1000u64, 1..80u32, other).prop_map(
        |(nsid, [a, b], cid, slba, count, other)| {
            let mut first = blocks_on(nsid, IoOpcode::COMPARE, slba, count, a);
            let mut second = blocks_on(nsid, IoOpcode::WRITE, slba + other, count, b);
            first.set_cid(cid);
            first.set_fuse(Fuse::First);
            second.set_cid(cid + 1);
            second.set_fuse(Fuse::Second);
            Box::new([*first.as_bytes(), *second.as_bytes()])
        },
    )
}

fn op() -> impl Strategy<Value = Op> {
    let data = prop_oneof![Just(0u32), Just(512), Just(4096), 0..9000u32];
    prop_oneof![
        10 => (command(), data)
            .prop_map(|(bytes, data)| Op::Capsule { bytes: Box::new(bytes), data }),
        1 => any::<[u8; 64]>()
            .prop_map(|bytes| Op::Capsule { bytes: Box::new(bytes), data: 64 }),
        10 => ordinary(),
        3 => (pair(), 0..9000u32).prop_map(|(halves, data)| Op::Pair { halves, data }),
        40 => any::<usize>().prop_map(Op::Answer),
        1 => (0..8u16).prop_map(Op::Abort),
        1 => (1..=BLOCKS, prop::bool::weighted(0.2))
            .prop_map(|(blocks, limited)| Op::Publish { blocks, limited }),
        1 => Just(Op::Close),
    ]
}

/// Source ranges of format 0 from block 400 on: many of them can be copied to elsewhere.
fn copy_ranges(len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    for (at, range) in bytes.chunks_mut(32).enumerate().filter(|(_, range)| range.len() == 32) {
        range[8..16].copy_from_slice(&(400 + at as u64 * 100).to_le_bytes());
        range[16] = 99;
    }
    bytes
}

/// What the reactor owes an answer for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owed {
    Turn(Slot),
    Buffer(Slot),
    Pull(Slot),
    Io(Slot),
    Claim(Slot),
    Execute(Slot),
    Send(Slot),
    Reported,
}

/// The reactor, as far as a queue can tell.
struct Reactor {
    queue: Queue,
    owed: Vec<Owed>,
    recvs: BTreeSet<u32>,
    claims: BTreeSet<Slot>,
    next_recv: u32,
    taken: usize,
    aborts: u64,
    aborted: BTreeSet<u64>,
    responded: usize,
    closed: bool,
    random: u64,
    /// All that was asked for.
    log: Vec<Action>,
}

impl Reactor {
    fn chance(&mut self) -> u64 {
        self.random = self.random.wrapping_mul(6364136223846793005).wrapping_add(1);
        self.random >> 33
    }

    /// Whether the receive that brought the slot's command was not given back yet.
    fn holds(&self, slot: Slot) -> bool {
        self.recvs.contains(&self.queue.recv(slot).0)
    }

    /// Carries out what the queue asks for, answering at once what a core answers at once. As a
    /// core does, it closes the connection when all else is done.
    fn carry_out(&mut self, mut actions: Vec<Action>) {
        let mut at = 0;
        let mut close = false;
        while at < actions.len() {
            let action = actions[at];
            self.log.push(action);
            at += 1;
            let mut next = Vec::new();
            match action {
                Action::ReleaseRecv(RecvToken(recv)) => assert!(self.recvs.remove(&recv)),
                Action::Allocate { slot, len } => {
                    assert!(len > 0 && len <= 2 * MAX_TRANSFER && !self.closed);
                    self.owed.push(Owed::Buffer(slot));
                }
                Action::AskTurn { slot, commands, .. } => {
                    assert!(!self.closed && (1..=2).contains(&commands));
                    self.owed.push(Owed::Turn(slot));
                }
                Action::Charge { bytes, .. } => assert!(bytes > 0),
                Action::Withdraw(slot) => {
                    self.owed.retain(|owed| ![Owed::Turn(slot), Owed::Buffer(slot)].contains(owed))
                }
                Action::Lift { of, .. } => assert!(self.holds(of)),
                Action::Pull(slot) => {
                    assert!(self.queue.data_len(slot) > 0);
                    self.owed.push(Owed::Pull(slot));
                }
                Action::Peek { slot, place, len } => {
                    if let Place::Capsule(_) = place {
                        assert!(self.holds(slot));
                    }
                    let bytes: Vec<u8> = match self.chance() % 3 {
                        0 => copy_ranges(len as usize),
                        1 => (0..len).map(|_| self.chance() as u8).collect(),
                        _ => {
                            keyed(4096).to_bytes().into_iter().cycle().take(len as usize).collect()
                        }
                    };
                    self.queue.on_payload(slot, &bytes, &mut next);
                }
                Action::Io { slot, io } => {
                    assert!(!self.closed);
                    if let Place::Capsule(at) = io.place {
                        assert!(self.holds(slot) && at % 4096 == 0);
                    }
                    self.owed.push(Owed::Io(slot));
                }
                Action::Compare { slot, .. } => {
                    let difference = self.chance().is_multiple_of(2).then_some(1);
                    self.queue.on_compared(slot, difference, &mut next);
                }
                Action::Claim { slot, len, .. } => {
                    assert!(len > 0 && !self.closed && self.claims.insert(slot));
                    self.owed.push(Owed::Claim(slot));
                }
                Action::Unclaim(slot) => {
                    assert!(self.claims.remove(&slot));
                    self.owed.retain(|owed| *owed != Owed::Claim(slot));
                }
                Action::Execute { slot, data } => {
                    if let Some((Place::Capsule(_), _)) = data {
                        assert!(self.holds(slot));
                    }
                    self.owed.push(Owed::Execute(slot));
                }
                Action::Aborted { token, .. } => assert!(self.aborted.insert(token.0)),
                Action::Flushed { slot, .. } => self.owed.push(Owed::Execute(slot)),
                Action::Report { .. } => self.owed.push(Owed::Reported),
                Action::Fill(slot) => assert!(!self.queue.take_fill(slot).is_empty()),
                Action::Respond { slot, push, .. } => {
                    assert!(!self.closed);
                    assert!(push <= self.queue.data_len(slot));
                    assert!(!self.holds(slot));
                    self.responded += 1;
                    self.owed.push(Owed::Send(slot));
                }
                Action::Close(_) => close = true,
            }
            actions.append(&mut next);
            if at == actions.len() && std::mem::take(&mut close) {
                self.close(&mut actions);
            }
        }
        self.queue.audit().unwrap();
    }

    fn close(&mut self, next: &mut Vec<Action>) {
        self.closed = true;
        self.queue.begin_close(next);
        self.owed.retain(|owed| matches!(owed, Owed::Pull(_) | Owed::Io(_) | Owed::Send(_)));
    }

    fn capsule(&mut self, bytes: &[u8; 64], data: u32) {
        let recv = self.next_recv;
        self.next_recv += 1;
        self.recvs.insert(recv);
        self.taken += 1;
        let mut out = Vec::new();
        let receive = self.queue.on_capsule(bytes, 64 + data, RecvToken(recv), &mut out);
        out.splice(..0, receive.actions(RecvToken(recv)));
        self.carry_out(out);
    }

    fn answer(&mut self, at: usize) {
        if self.owed.is_empty() {
            return;
        }
        let owed = self.owed.remove(at % self.owed.len());
        let mut out = Vec::new();
        match owed {
            Owed::Turn(slot) => self.queue.on_turn(slot, &mut out),
            Owed::Buffer(slot) => self.queue.on_buffer(slot, &mut out),
            Owed::Pull(slot) => self.queue.on_pulled(slot, &mut out),
            Owed::Io(slot) => {
                let status = match self.chance() % 4 {
                    0 => ExecStatus::Failed(StatusCode::WRITE_FAULT.with_dnr()),
                    _ => ExecStatus::Ok,
                };
                self.queue.on_io_done(slot, status, &mut out);
            }
            Owed::Execute(slot) if self.chance().is_multiple_of(4) => {
                self.queue.on_flush(slot, &[BackingRef(10), BackingRef(50)], &mut out);
            }
            Owed::Claim(slot) => self.queue.on_claimed(slot, &mut out),
            Owed::Execute(slot) => {
                let outcome = match self.chance() % 3 {
                    0 => Outcome::error(StatusCode::INVALID_FIELD.with_dnr()),
                    1 => Outcome::data(vec![7; 512]),
                    _ => Outcome::ok(),
                };
                self.queue.on_executed(slot, outcome, &mut out);
            }
            Owed::Send(slot) => self.queue.on_sent(slot, &mut out),
            Owed::Reported => self.queue.on_reported(),
        }
        self.carry_out(out);
    }
}

/// Carries all out, and returns what the queue asked for.
fn run(qid: u16, bind: bool, seed: u64, ops: &[Op], general_only: bool) -> Vec<Action> {
    let mut rig = Rig::unbound(qid);
    if bind {
        rig = Rig::bound(qid);
        if seed.is_multiple_of(4) {
            rig.queue.on_publish(&limited_view(2));
        }
    }
    rig.queue.general_only = general_only;
    let mut generation = 2;
    let mut reactor = Reactor {
        queue: rig.queue,
        owed: Vec::new(),
        recvs: BTreeSet::new(),
        claims: BTreeSet::new(),
        next_recv: 0,
        taken: 0,
        aborts: 0,
        aborted: BTreeSet::new(),
        responded: 0,
        closed: false,
        random: seed,
        log: Vec::new(),
    };
    for op in ops {
        match op {
            Op::Capsule { bytes, data } => reactor.capsule(bytes, *data),
            Op::Pair { halves, data } => {
                for half in halves.iter() {
                    reactor.capsule(half, *data);
                }
            }
            Op::Answer(at) => reactor.answer(*at),
            Op::Abort(cid) => {
                let mut out = Vec::new();
                reactor.aborts += 1;
                reactor.queue.on_abort(*cid, AbortToken(reactor.aborts), &mut out);
                reactor.carry_out(out);
            }
            Op::Publish { blocks, limited } => {
                generation += 1;
                let mut new = (*view(generation, MAX_TRANSFER)).clone();
                if *limited {
                    new = (*limited_view(generation)).clone();
                }
                new.namespaces[0] = resized(&new.namespaces[0], *blocks);
                reactor.queue.on_publish(&Arc::new(new));
            }
            Op::Close => {
                let mut out = Vec::new();
                reactor.close(&mut out);
                reactor.carry_out(out);
            }
        }
    }
    while !reactor.owed.is_empty() {
        reactor.answer(0);
    }
    if !reactor.closed && !reactor.queue.is_drained() {
        // A first command waits for its second until another capsule comes.
        let flush = Command::io(IoOpcode::FLUSH, 99, 1, SglDescriptor::NO_DATA);
        reactor.capsule(flush.as_bytes(), 0);
        while !reactor.owed.is_empty() {
            reactor.answer(0);
        }
    }
    assert!(reactor.queue.is_drained());
    assert_eq!(reactor.recvs, BTreeSet::new());
    assert_eq!(reactor.claims, BTreeSet::new());
    if reactor.closed {
        assert!(reactor.responded <= reactor.taken);
    } else {
        assert_eq!(reactor.responded, reactor.taken);
        assert_eq!(reactor.aborted.len() as u64, reactor.aborts);
    }
    reactor.log
}

fn resized(namespace: &NamespaceView, block_count: u64) -> Arc<NamespaceView> {
    Arc::new(NamespaceView {
        nsid: namespace.nsid,
        backing: namespace.backing,
        lba_shift: namespace.lba_shift,
        block_count,
        read_only: block_count.is_multiple_of(7),
        limit: namespace.limit.clone(),
        counters: namespace.counters.clone(),
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn an_io_queue_answers_everything_once(seed: u64, ops in prop::collection::vec(op(), 1..120)) {
        run(1, true, seed, &ops, false);
    }

    #[test]
    fn the_straight_way_asks_for_what_the_general_one_does(seed: u64, ops in prop::collection::vec(op(), 1..120)) {
        prop_assert_eq!(run(1, true, seed, &ops, false), run(1, true, seed, &ops, true));
    }

    #[test]
    fn an_admin_queue_answers_everything_once(seed: u64, ops in prop::collection::vec(op(), 1..60)) {
        run(0, true, seed, &ops, false);
    }

    #[test]
    fn an_unbound_queue_answers_everything_once(qid in 0..2u16, seed: u64, ops in prop::collection::vec(op(), 1..60)) {
        run(qid, false, seed, &ops, false);
    }
}
