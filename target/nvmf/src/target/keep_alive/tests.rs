use super::super::tests::*;
use super::*;
use crate::Outcome;
use nvme_spec_types::feature::{GetFeatures, SetFeatures};
use nvme_spec_types::property::CC_OFFSET;
use nvme_spec_types::{AdminOpcode, Command, FabricsType, SglDescriptor};
use nvme_spec_types::{FeatureId, FeatureSelect};

/// Asks the target at `at`: which queues does it close?
fn closed_at(bench: &mut Bench, at: u64) -> Vec<crate::QueueKey> {
    bench.target.on_time(ms(at), &mut bench.out);
    bench.closed().into_iter().map(|(queue, _)| queue).collect()
}

fn set_kato(bench: &mut Bench, queue: crate::QueueKey, kato: u32) {
    let set = SetFeatures {
        nsid: 0,
        fid: FeatureId::KEEP_ALIVE_TIMER,
        save: false,
        cdw11: kato,
        cdw12: 0,
        uuid_index: 0,
    };
    let outcome = bench.run(queue, &set.to_command(1, SglDescriptor::NO_DATA), &[]);
    assert_eq!(outcome, Outcome::ok());
}

fn kato(bench: &mut Bench, queue: crate::QueueKey) -> u64 {
    let get = GetFeatures {
        nsid: 0,
        fid: FeatureId::KEEP_ALIVE_TIMER,
        sel: FeatureSelect::CURRENT,
        cdw11: 0,
        uuid_index: 0,
    };
    bench.run(queue, &get.to_command(1, SglDescriptor::NO_DATA), &[]).result
}

#[test]
fn a_silent_host_loses_all_its_queues_when_the_timeout_is_over() {
    let mut bench = Bench::new(); // connects at 1000 ms
    let (admin, cntlid) = bench.admin_to(SUBNQN, 5000);
    bench.set_cc(admin, ENABLE);
    let io = bench.io_queue(cntlid, 1).unwrap();
    assert_eq!(bench.target.timeout(), Some(ms(6000)));
    assert_eq!(closed_at(&mut bench, 5999), []);
    bench.target.on_time(ms(6000), &mut bench.out);
    let reason = "keep alive: nothing heard from the host for 5000 ms".to_owned();
    assert_eq!(bench.closed(), [(io, reason.clone()), (admin, reason)]);
    assert_eq!(bench.target.timeout(), None);
}

#[test]
fn a_host_that_waits_for_a_shutdown_is_not_silent() {
    let mut bench = Bench::new();
    let (admin, _) = bench.admin_to(SUBNQN, 5000);
    bench.set_cc(admin, ENABLE);
    let slot = bench.feed(admin, &property_set(CC_OFFSET, ENABLE | 1 << 14), &[]);
    for at in [6000, 11_000, 16_000] {
        assert_eq!(closed_at(&mut bench, at), []);
    }
    bench.target.on_flushed(admin, slot, Ok(()), &mut bench.out);
    assert_eq!(bench.answer(admin, slot), Some(Outcome::ok()));
    assert_eq!(closed_at(&mut bench, 20_999), []);
    assert_eq!(closed_at(&mut bench, 21_000), [admin]);
}

#[test]
fn a_keep_alive_command_restarts_the_timer() {
    let mut bench = Bench::new();
    let (admin, _) = bench.admin_to(SUBNQN, 5000);
    bench.now = ms(4000);
    let outcome = bench.run(admin, &admin_command(AdminOpcode::KEEP_ALIVE, 1), &[]);
    assert_eq!(outcome, Outcome::ok());
    assert_eq!(closed_at(&mut bench, 8999), []);
    assert_eq!(closed_at(&mut bench, 9000), [admin]);
}

#[test]
fn traffic_on_any_queue_restarts_the_timer() {
    let mut bench = Bench::new();
    let (admin, cntlid) = bench.admin_to(SUBNQN, 5000);
    bench.set_cc(admin, ENABLE);
    let io = bench.io_queue(cntlid, 1).unwrap();
    bench.activity[&io].mark(ms(5500));
    assert_eq!(closed_at(&mut bench, 6000), []);
    assert_eq!(bench.target.timeout(), Some(ms(10_500)));
    bench.activity[&admin].mark(ms(7000));
    assert_eq!(closed_at(&mut bench, 10_500), []);
    assert_eq!(closed_at(&mut bench, 12_000), [io, admin]);
}

#[test]
fn what_was_heard_on_a_queue_counts_after_its_end() {
    for reset in [false, true] {
        let mut bench = Bench::new();
        let (admin, cntlid) = bench.admin_to(SUBNQN, 5000);
        bench.set_cc(admin, ENABLE);
        let io = bench.io_queue(cntlid, 1).unwrap();
        bench.activity[&io].mark(ms(5500));
        match reset {
            true => bench.set_cc(admin, 0),
            false => bench.target.on_queue_closed(ms(5600), io, &mut bench.out),
        }
        bench.out.clear();
        assert_eq!(closed_at(&mut bench, 6000), []);
        assert_eq!(closed_at(&mut bench, 10_500), [admin]);
    }
}

#[test]
fn without_a_timeout_there_is_no_timer() {
    let mut bench = Bench::new();
    bench.ready();
    assert_eq!(bench.target.timeout(), None);
    assert_eq!(closed_at(&mut bench, u64::MAX / 1_000_000), []);
}

#[test]
fn discovery_controllers_have_timers_too() {
    let mut bench = Bench::new();
    let (admin, _) = bench.ready_discovery(100);
    assert_eq!(closed_at(&mut bench, 1100), [admin]);
}

#[test]
fn timeouts_are_rounded_up_to_100_ms() {
    for (asked, kept) in [(0, 0), (1, 100), (100, 100), (101, 200), (15_000, 15_000)] {
        assert_eq!(rounded(asked), kept);
    }
    assert_eq!(rounded(u32::MAX), u32::MAX);
    let mut bench = Bench::new();
    let (admin, _) = bench.admin_to(SUBNQN, 4901);
    bench.set_cc(admin, ENABLE);
    assert_eq!(kato(&mut bench, admin), 5000);
}

#[test]
fn the_timeout_can_be_changed_and_turned_off() {
    let mut bench = Bench::new();
    let (admin, _) = bench.admin_to(SUBNQN, 5000);
    bench.set_cc(admin, ENABLE);
    bench.now = ms(2000);
    set_kato(&mut bench, admin, 1000);
    assert_eq!(bench.target.timeout(), Some(ms(3000)));
    assert_eq!(kato(&mut bench, admin), 1000);
    set_kato(&mut bench, admin, 0);
    assert_eq!(bench.target.timeout(), None);
    set_kato(&mut bench, admin, 300);
    assert_eq!(closed_at(&mut bench, 2300), [admin]);
}

#[test]
fn each_controller_has_its_own_timer() {
    let mut bench = Bench::new();
    let (slow, _) = bench.admin_to(SUBNQN, 9000);
    let (fast, _) = bench.admin_to(SUBNQN, 2000);
    assert_eq!(closed_at(&mut bench, 3000), [fast]);
    assert_eq!(bench.target.timeout(), Some(ms(10_000)));
    bench.target.on_queue_closed(ms(3000), slow, &mut bench.out);
    assert_eq!(bench.target.timeout(), None);
}

#[test]
fn a_keep_alive_works_before_the_controller_is_enabled() {
    let mut bench = Bench::new();
    let (admin, _) = bench.admin_to(SUBNQN, 5000);
    let outcome = bench.run(admin, &admin_command(AdminOpcode::KEEP_ALIVE, 1), &[]);
    assert_eq!(outcome, Outcome::ok());
}

#[test]
fn a_host_without_a_timer_that_lost_its_last_io_queue_is_given_up() {
    let mut bench = Bench::new();
    let (admin, cntlid) = bench.admin_to(SUBNQN, 0);
    bench.set_cc(admin, ENABLE);
    let one = bench.io_queue(cntlid, 1).unwrap();
    let two = bench.io_queue(cntlid, 2).unwrap();
    bench.target.on_queue_closed(ms(5_000), one, &mut bench.out);
    assert_eq!(closed_at(&mut bench, 500_000), [], "it still has a queue");
    bench.target.on_queue_closed(ms(500_000), two, &mut bench.out);
    // It connects one again in time.
    let again = bench.io_queue(cntlid, 1).unwrap();
    assert_eq!(closed_at(&mut bench, 900_000), []);
    bench.target.on_queue_closed(ms(900_000), again, &mut bench.out);
    assert_eq!(closed_at(&mut bench, 929_999), []);
    assert_eq!(closed_at(&mut bench, 930_000), [admin]);
    assert_eq!(bench.target.timeout(), None);
}

#[test]
fn a_queue_given_back_after_a_loss_shows_that_the_host_is_there() {
    let mut bench = Bench::new();
    let (admin, cntlid) = bench.admin_to(SUBNQN, 0);
    bench.set_cc(admin, ENABLE);
    let one = bench.io_queue(cntlid, 1).unwrap();
    let two = bench.io_queue(cntlid, 2).unwrap();
    bench.target.on_queue_closed(ms(5_000), one, &mut bench.out);
    let disconnect = Command::fabrics(FabricsType::DISCONNECT, 1, SglDescriptor::NO_DATA);
    bench.now = ms(6_000);
    assert_eq!(bench.run(two, &disconnect, &[]), Outcome::ok());
    bench.target.on_queue_closed(ms(6_001), two, &mut bench.out);
    // Whatever looks at the timer later finds no loss.
    set_kato(&mut bench, admin, 1000);
    set_kato(&mut bench, admin, 0);
    assert_eq!(bench.target.timeout(), None);
}

#[test]
fn a_loss_that_was_made_good_is_forgotten() {
    let mut bench = Bench::new();
    let (admin, cntlid) = bench.admin_to(SUBNQN, 0);
    bench.set_cc(admin, ENABLE);
    let one = bench.io_queue(cntlid, 1).unwrap();
    bench.target.on_queue_closed(ms(5_000), one, &mut bench.out);
    assert_eq!(bench.target.timeout(), Some(ms(35_000)));
    // A reset shows it as well as a new queue does.
    bench.set_cc(admin, 0);
    assert_eq!(bench.target.timeout(), None);
    bench.set_cc(admin, ENABLE);
    let again = bench.io_queue(cntlid, 1).unwrap();
    bench.target.on_queue_closed(ms(6_000), again, &mut bench.out);
    bench.io_queue(cntlid, 1).unwrap();
    assert_eq!(bench.target.timeout(), None);
}

#[test]
fn a_host_that_asks_discovery_nothing_for_two_minutes_is_let_go() {
    let mut bench = Bench::new();
    let (admin, _) = bench.ready_discovery(0);
    assert_eq!(closed_at(&mut bench, 120_999), []);
    bench.activity[&admin].mark(ms(100_000));
    assert_eq!(closed_at(&mut bench, 121_000), [], "it asked something meanwhile");
    assert_eq!(bench.target.timeout(), Some(ms(220_000)));
    assert_eq!(closed_at(&mut bench, 220_000), [admin]);
}
