//! Commands over a limit: who waits, who does not, and for how long.

use super::*;
use nvmf::limit::{Limit, LimitConfig};

/// One command each millisecond.
const SLOW: LimitConfig = LimitConfig { iops: 1000, bandwidth: 0, burst: Now::ZERO };

/// A view with namespace 1 as [`binding`] has it, with that limit.
fn limited(generation: u64, limit: Option<LimitConfig>) -> Arc<SubsystemView> {
    let old = binding().view.unwrap();
    let ns = &old.namespaces[0];
    let ns = NamespaceView {
        nsid: ns.nsid,
        backing: ns.backing,
        lba_shift: ns.lba_shift,
        block_count: ns.block_count,
        read_only: ns.read_only,
        limit: limit.map(|limit| Arc::new(Limit::new(limit))),
        counters: ns.counters.clone(),
    };
    Arc::new(SubsystemView { generation, namespaces: vec![Arc::new(ns)], ..(*old).clone() })
}

impl Rig {
    fn limited() -> Rig {
        let mut rig = Rig::serving(LIMITS);
        rig.now = Now::from_secs(1);
        rig.tell(ToCore::Publish(limited(2, Some(SLOW))));
        rig
    }

    /// Turns at the time the core asks for, as its thread would.
    fn wait(&mut self) {
        self.now = self.core.timeout().expect("a time to wait for");
        self.turn();
    }

    fn asked_of_disk(&self) -> usize {
        self.core.io().requests.len()
    }
}

#[test]
fn commands_over_the_limit_wait_in_order_without_a_buffer() {
    let mut rig = Rig::limited();
    for cid in 1..=4 {
        rig.deliver(QP, &read(cid, 4096), &[]);
    }
    rig.turn();
    assert_eq!((rig.asked_of_disk(), rig.core.stats().turn_waits), (1, 3));
    assert_eq!(rig.core.stats().transfer_bytes, 4096);
    let began = rig.now;
    for count in 2..=4 {
        rig.wait();
        assert_eq!(rig.asked_of_disk(), count);
    }
    let took = rig.now - began;
    assert!((2990..=3010).contains(&took.as_micros()), "{took:?}");
    assert_eq!(rig.core.timeout(), None);
    for cid in 1..=4 {
        let posted = rig.io_done();
        assert_eq!(rig.completion(&posted.last().unwrap().1).cid, cid);
    }
}

#[test]
fn a_turn_that_comes_too_early_gives_nothing() {
    let mut rig = Rig::limited();
    rig.deliver(QP, &read(1, 512), &[]);
    rig.deliver(QP, &read(2, 512), &[]);
    rig.turn();
    rig.turn();
    assert_eq!(rig.asked_of_disk(), 1);
}

#[test]
fn another_host_without_a_limit_is_not_delayed() {
    let mut rig = Rig::limited();
    let (key, qp) = (QueueKey(2), QpId(2));
    rig.open(key, endpoint(qp, LIMITS), params());
    // The second queue keeps the view of its binding, which has no limit.
    for cid in 1..=4 {
        rig.deliver(QP, &read(cid, 512), &[]);
    }
    rig.turn();
    for cid in 1..=4 {
        rig.deliver(qp, &read(cid, 512), &[]);
    }
    rig.turn();
    assert_eq!(rig.asked_of_disk(), 5);
}

#[test]
fn namespaces_of_a_host_with_a_limit_take_turns() {
    let mut rig = Rig::serving(LIMITS);
    rig.now = Now::from_secs(1);
    let mut view = (*limited(2, None)).clone();
    let first = &view.namespaces[0];
    let wide = LimitConfig { iops: 1_000_000, bandwidth: 0, burst: Now::ZERO };
    let limit = Some(Arc::new(Limit::new(wide)));
    let second = NamespaceView { nsid: 2, limit, counters: first.counters.clone(), ..**first };
    view.namespaces.push(Arc::new(second));
    let host = binding().hostnqn.to_string();
    view.host_limits = Arc::new([(host, Arc::new(Limit::new(SLOW)))].into());
    rig.tell(ToCore::Publish(Arc::new(view)));
    for cid in 1..=4 {
        rig.deliver(QP, &read(cid, 512), &[]);
    }
    for cid in 5..=8 {
        let mut other = read(cid, 1024);
        other.set_nsid(2);
        rig.deliver(QP, &other, &[]);
    }
    rig.turn();
    for _ in 0..4 {
        rig.wait();
    }
    let lens: Vec<u64> = rig.core.io().requests.iter().map(|request| request.len).collect();
    assert_eq!(lens.len(), 5);
    assert_eq!(lens.iter().filter(|len| **len == 1024).count(), 2, "{lens:?}");
}

#[test]
fn a_limit_that_is_lifted_lets_everybody_go_at_once() {
    let mut rig = Rig::limited();
    for cid in 1..=4 {
        rig.deliver(QP, &read(cid, 512), &[]);
    }
    rig.turn();
    rig.tell(ToCore::Publish(limited(3, None)));
    assert_eq!(rig.asked_of_disk(), 4);
    assert_eq!(rig.core.timeout(), None);
}

#[test]
fn a_queue_that_closes_leaves_no_gap_in_the_line() {
    let mut rig = Rig::limited();
    for cid in 1..=4 {
        rig.deliver(QP, &read(cid, 512), &[]);
    }
    rig.turn();
    rig.io_done();
    rig.sends_done();
    rig.told();
    rig.tell(ToCore::Close(KEY));
    rig.turn();
    assert!(matches!(rig.told()[..], [ToControl::Detached { .. }]));
    assert!(rig.core.is_idle());
    assert_eq!(rig.core.timeout(), None);
}

#[test]
fn writes_that_wait_for_their_turn_do_not_keep_the_receives_of_a_shared_queue() {
    let mut rig = Rig::new(1 << 20);
    rig.open(KEY, shared_endpoint(QP, 8), params());
    rig.now = Now::from_secs(1);
    rig.tell(ToCore::Publish(limited(2, Some(SLOW))));
    let sgl = SglDescriptor::InCapsule { offset: 0, len: 512 };
    for cid in 0..8 {
        rig.capsule(&blocks(IoOpcode::WRITE, cid, 1, sgl), &[cid as u8; 512]);
        assert!(rig.core.device().posted_recvs(RecvQueueId(1)) > 0, "{cid} keeps the last one");
        assert_eq!(rig.core.audit(), Ok(()));
    }
    assert!(rig.core.stats().vacated > 0);
    while rig.asked_of_disk() < 8 {
        rig.wait();
    }
    let bytes: Vec<u8> =
        rig.core.io().requests.iter().map(|request| rig.bytes(request.buffer)[0]).collect();
    assert_eq!(bytes, (0..8).collect::<Vec<u8>>());
    (0..8).for_each(|_| rig.core.io_mut().finish(Ok(())));
    assert_eq!(rig.turn().iter().filter(|(_, wr)| is_send(wr)).count(), 8);
    assert_eq!(rig.core.device().posted_recvs(RecvQueueId(1)), 8);
    assert_eq!(rig.core.stats().transfer_bytes, 0);
}

#[test]
fn moved_data_of_commands_in_line_goes_with_their_queue() {
    let mut rig = Rig::new(1 << 20);
    rig.open(KEY, shared_endpoint(QP, 8), params());
    rig.now = Now::from_secs(1);
    rig.tell(ToCore::Publish(limited(2, Some(SLOW))));
    let sgl = SglDescriptor::InCapsule { offset: 0, len: 512 };
    for cid in 0..8 {
        rig.capsule(&blocks(IoOpcode::WRITE, cid, 1, sgl), &[cid as u8; 512]);
    }
    assert!(rig.core.stats().transfer_bytes > 0);
    rig.core.io_mut().finish(Ok(()));
    rig.tell(ToCore::Close(KEY));
    assert_eq!(rig.core.stats().transfer_bytes, 0);
    assert_eq!(rig.core.audit(), Ok(()));
}
