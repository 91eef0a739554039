//! Any sequence of events keeps the target's books in order.

use super::*;
use nvme_spec_types::FeatureId;
use nvme_spec_types::feature::SetFeatures;
use nvme_spec_types::nqn::DISCOVERY_NQN;

/// Something that happens. Numbers pick one of what there is, by remainder.
#[derive(Debug, Clone)]
enum Event {
    ConnectAdmin { discovery: bool, kato_ms: u32 },
    ConnectIo { controller: usize, qid: u16 },
    SetCc { controller: usize, value: u32 },
    Hold { controller: usize, cid: u16 },
    Abort { controller: usize, qid: u16, cid: u16 },
    AbortDone { abort: usize, stopped: bool },
    CacheOff { controller: usize, on: bool },
    Flushed { flush: usize, durable: bool },
    Disconnect { queue: usize },
    SetKato { controller: usize, kato_ms: u32 },
    CloseQueue { queue: usize },
    AddNamespace { nsid: u32 },
    RemoveNamespace { nsid: u32 },
    SetHosts { any: bool },
    ReplaceSubsystem,
    ReplacePort,
    Traffic { queue: usize },
    Pass { ms: u64 },
}

fn event() -> impl Strategy<Value = Event> {
    let n = 0usize..100;
    let cc = prop_oneof![
        3 => Just(ENABLE),
        1 => Just(0),
        1 => Just(ENABLE | 1 << 14),
        1 => Just(1),
    ];
    prop_oneof![
        4 => (any::<bool>(), prop_oneof![Just(0), 0..2000u32])
            .prop_map(|(discovery, kato_ms)| Event::ConnectAdmin { discovery, kato_ms }),
        6 => (n.clone(), 0..6u16)
            .prop_map(|(controller, qid)| Event::ConnectIo { controller, qid }),
        6 => (n.clone(), cc).prop_map(|(controller, value)| Event::SetCc { controller, value }),
        4 => (n.clone(), 0..4u16).prop_map(|(controller, cid)| Event::Hold { controller, cid }),
        4 => (n.clone(), 0..5u16, 0..4u16)
            .prop_map(|(controller, qid, cid)| Event::Abort { controller, qid, cid }),
        2 => (n.clone(), any::<bool>())
            .prop_map(|(abort, stopped)| Event::AbortDone { abort, stopped }),
        2 => (n.clone(), any::<bool>())
            .prop_map(|(controller, on)| Event::CacheOff { controller, on }),
        3 => (n.clone(), any::<bool>())
            .prop_map(|(flush, durable)| Event::Flushed { flush, durable }),
        1 => n.clone().prop_map(|queue| Event::Disconnect { queue }),
        1 => (n.clone(), 0..2000u32)
            .prop_map(|(controller, kato_ms)| Event::SetKato { controller, kato_ms }),
        2 => n.clone().prop_map(|queue| Event::CloseQueue { queue }),
        1 => (1..4u32).prop_map(|nsid| Event::AddNamespace { nsid }),
        1 => (1..4u32).prop_map(|nsid| Event::RemoveNamespace { nsid }),
        1 => any::<bool>().prop_map(|any| Event::SetHosts { any }),
        1 => Just(Event::ReplaceSubsystem),
        1 => Just(Event::ReplacePort),
        2 => n.prop_map(|queue| Event::Traffic { queue }),
        3 => (0..1500u64).prop_map(|ms| Event::Pass { ms }),
    ]
}

/// The target and what a control thread knows of it.
struct World {
    bench: Bench,
    /// Commands without an answer, on queues that are open.
    owed: BTreeSet<(QueueKey, Slot)>,
    aborts: Vec<AbortToken>,
    flushes: Vec<(QueueKey, Slot)>,
}

impl World {
    fn queue(&self, n: usize) -> Option<QueueKey> {
        let queues = &self.bench.target.queues;
        queues.keys().nth(n % queues.len().max(1)).copied()
    }

    fn controller(&self, n: usize) -> Option<(QueueKey, u16)> {
        let controllers = &self.bench.target.controllers;
        let found = controllers.values().nth(n % controllers.len().max(1))?;
        Some((found.admin, found.key.cntlid))
    }

    fn feed(&mut self, queue: QueueKey, command: &Command, data: &[u8]) {
        let slot = self.bench.feed(queue, command, data);
        self.owed.insert((queue, slot));
    }

    fn happen(&mut self, event: Event) {
        let subsystem = self.bench.subsystem;
        match event {
            Event::ConnectAdmin { discovery, kato_ms } => {
                let queue = self.bench.open(0, 32);
                let connect = Connect { kato_ms, ..admin_connect() };
                let subnqn = if discovery { DISCOVERY_NQN } else { SUBNQN };
                let data = connect_data(subnqn, CNTLID_DYNAMIC);
                self.feed(queue, &connect.to_command(), &data.to_bytes());
            }
            Event::ConnectIo { controller, qid } => {
                let Some((_, cntlid)) = self.controller(controller) else { return };
                let queue = self.bench.open_with(qid, 128, cntlid);
                let data = connect_data(SUBNQN, cntlid);
                self.feed(queue, &io_connect(qid).to_command(), &data.to_bytes());
            }
            Event::SetCc { controller, value } => {
                let Some((admin, _)) = self.controller(controller) else { return };
                self.feed(admin, &property_set(CC_OFFSET, value), &[]);
            }
            Event::Hold { controller, cid } => {
                let Some((admin, _)) = self.controller(controller) else { return };
                self.feed(admin, &admin_command(AdminOpcode::ASYNC_EVENT_REQUEST, cid), &[]);
            }
            Event::Abort { controller, qid, cid } => {
                let Some((admin, _)) = self.controller(controller) else { return };
                let mut command = admin_command(AdminOpcode::ABORT, 9);
                command.set_cdw10(u32::from(qid) | u32::from(cid) << 16);
                self.feed(admin, &command, &[]);
            }
            Event::AbortDone { abort, stopped } => {
                if self.aborts.is_empty() {
                    return;
                }
                let token = self.aborts.swap_remove(abort % self.aborts.len());
                let now = self.bench.now;
                self.bench.target.on_abort_done(now, token, stopped, &mut self.bench.out);
            }
            Event::Disconnect { queue } => {
                let Some(queue) = self.queue(queue) else { return };
                let command = Command::fabrics(
                    nvme_spec_types::FabricsType::DISCONNECT,
                    1,
                    SglDescriptor::NO_DATA,
                );
                self.feed(queue, &command, &[]);
            }
            Event::SetKato { controller, kato_ms } => {
                self.set_feature(controller, FeatureId::KEEP_ALIVE_TIMER, kato_ms);
            }
            Event::CacheOff { controller, on } => {
                self.set_feature(controller, FeatureId::VOLATILE_WRITE_CACHE, on.into());
            }
            Event::Flushed { flush, durable } => {
                if self.flushes.is_empty() {
                    return;
                }
                let (queue, slot) = self.flushes.swap_remove(flush % self.flushes.len());
                let result = if durable { Ok(()) } else { Err(StatusCode::WRITE_FAULT.with_dnr()) };
                self.bench.target.on_flushed(queue, slot, result, &mut self.bench.out);
            }
            Event::CloseQueue { queue } => {
                let Some(queue) = self.queue(queue) else { return };
                let now = self.bench.now;
                self.bench.target.on_queue_closed(now, queue, &mut self.bench.out);
                self.owed.retain(|&(q, _)| q != queue);
            }
            Event::AddNamespace { nsid } => {
                let config = namespace_config(nsid);
                let _ = self.bench.target.add_namespace(subsystem, config, &mut self.bench.out);
            }
            Event::RemoveNamespace { nsid } => {
                let _ = self.bench.target.remove_namespace(subsystem, nsid, &mut self.bench.out);
            }
            Event::SetHosts { any } => {
                let hosts = if any { AllowedHosts::Any } else { AllowedHosts::Only(Vec::new()) };
                self.bench.target.set_hosts(subsystem, hosts, &mut self.bench.out).unwrap();
            }
            Event::ReplaceSubsystem => {
                let (target, out) = (&mut self.bench.target, &mut self.bench.out);
                target.remove_subsystem(subsystem, out).unwrap();
                self.bench.subsystem = target.add_subsystem(subsystem_config(), out).unwrap();
            }
            Event::ReplacePort => {
                let (target, out) = (&mut self.bench.target, &mut self.bench.out);
                target.remove_port(1, out).unwrap();
                let port = PortConfig { id: 1, address: "192.0.2.1:4420".parse().unwrap() };
                target.add_port(port, out).unwrap();
            }
            Event::Traffic { queue } => {
                let Some(queue) = self.queue(queue) else { return };
                self.bench.activity[&queue].mark(self.bench.now);
            }
            Event::Pass { ms } => {
                self.bench.now += Duration::from_millis(ms);
                self.bench.target.on_time(self.bench.now, &mut self.bench.out);
            }
        }
    }

    fn set_feature(&mut self, controller: usize, fid: FeatureId, cdw11: u32) {
        let Some((admin, _)) = self.controller(controller) else { return };
        let set = SetFeatures { nsid: 0, fid, save: false, cdw11, cdw12: 0, uuid_index: 0 };
        self.feed(admin, &set.to_command(1, SglDescriptor::NO_DATA), &[]);
    }

    /// Looks at the actions: each answer is owed, and each queue is closed once.
    fn settle(&mut self, closed: &mut BTreeSet<QueueKey>) {
        for action in std::mem::take(&mut self.bench.out) {
            match action {
                TargetAction::Complete { queue, slot, .. } => {
                    let owed = self.owed.remove(&(queue, slot));
                    assert!(owed, "{queue:?} {slot:?} was not owed an answer");
                }
                TargetAction::Abort { token, .. } => self.aborts.push(token),
                TargetAction::Flush { queue, slot, .. } => self.flushes.push((queue, slot)),
                TargetAction::Close { queue, .. } => {
                    assert!(closed.insert(queue), "{queue:?} closed twice");
                    // What was held on it has no answer.
                    self.owed.retain(|&(q, _)| q != queue);
                }
                TargetAction::Bind { .. } | TargetAction::Publish(_) => {}
            }
        }
    }

    fn check(&self) {
        self.bench.target.audit().unwrap();
        assert_eq!(self.owed, self.bench.target.unanswered(), "answers owed and held");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]
    #[test]
    fn any_sequence_of_events_keeps_the_books(events in prop::collection::vec(event(), 1..80)) {
        let mut bench = Bench::new();
        let (_, cntlid) = bench.ready();
        for qid in 1..=3 {
            bench.io_queue(cntlid, qid).unwrap();
        }
        let mut world = World { bench, owed: BTreeSet::new(), aborts: Vec::new(), flushes: Vec::new() };
        let mut closed = BTreeSet::new();
        for event in events {
            world.happen(event);
            world.settle(&mut closed);
            world.check();
        }
    }
}
