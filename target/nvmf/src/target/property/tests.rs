use super::super::tests::*;
use super::*;
use nvme_spec_types::AdminOpcode;
use nvme_spec_types::property::SHST_OCCURRING;
use nvme_spec_types::status::StatusCode;

use PropertySize::{Eight, Four};

fn csts(bench: &mut Bench, queue: crate::QueueKey) -> Csts {
    Csts(bench.property(queue, CSTS_OFFSET, Four).result as u32)
}

#[test]
fn cap_says_queue_size_command_sets_and_ready_mode() {
    let mut bench = Bench::new();
    let (queue, _) = bench.admin_to(SUBNQN, 0);
    let value = bench.property(queue, CAP_OFFSET, Eight).result;
    assert_eq!(value, 1 << 59 | 1 << 43 | 1 << 37 | 15 << 24 | 1 << 16 | 127);
}

#[test]
fn version_and_ready_timeout_can_be_read() {
    let mut bench = Bench::new();
    let (queue, _) = bench.admin_to(SUBNQN, 0);
    assert_eq!(bench.property(queue, VS_OFFSET, Four), Outcome::result(0x0002_0100));
    assert_eq!(bench.property(queue, CRTO_OFFSET, Four), Outcome::result(15));
    assert_eq!(bench.property(queue, NSSR_OFFSET, Four), Outcome::result(0));
}

#[test]
fn reading_with_the_wrong_size_or_place_is_an_invalid_field() {
    let mut bench = Bench::new();
    let (queue, _) = bench.admin_to(SUBNQN, 0);
    for (offset, size) in [
        (CAP_OFFSET, Four),
        (VS_OFFSET, Eight),
        (CC_OFFSET, PropertySize::Reserved(2)),
        (0x0e, Four),
        (0x0c, PropertySize::Reserved(3)),
        (0x1300, Four),
    ] {
        assert_eq!(bench.property(queue, offset, size), logged(StatusCode::INVALID_FIELD));
    }
}

#[test]
fn properties_that_fabrics_controllers_do_not_have_read_as_zero() {
    let mut bench = Bench::new();
    let (queue, _) = bench.admin_to(SUBNQN, 0);
    for (offset, size) in [(0x0c, Four), (0x28, Eight), (0x38, Four), (0x1000, Four)] {
        assert_eq!(bench.property(queue, offset, size), Outcome::result(0), "{offset:#x}");
    }
}

#[test]
fn writing_anything_but_cc_is_an_invalid_field() {
    let mut bench = Bench::new();
    let (queue, _) = bench.admin_to(SUBNQN, 0);
    for offset in [CAP_OFFSET, VS_OFFSET, CSTS_OFFSET, NSSR_OFFSET, 0x1000] {
        let outcome = bench.run(queue, &property_set(offset, 1), &[]);
        assert_eq!(outcome, logged(StatusCode::INVALID_FIELD), "{offset:#x}");
    }
    let set = PropertySet { cid: 1, size: Eight, offset: CC_OFFSET, value: ENABLE.into() };
    let outcome = bench.run(queue, &set.to_command(), &[]);
    assert_eq!(outcome, logged(StatusCode::INVALID_FIELD));
    assert_eq!(csts(&mut bench, queue), Csts(0));
}

#[test]
fn enabling_makes_the_controller_ready() {
    let mut bench = Bench::new();
    let (queue, _) = bench.admin_to(SUBNQN, 0);
    assert_eq!(csts(&mut bench, queue), Csts(0));
    bench.set_cc(queue, ENABLE);
    assert_eq!(csts(&mut bench, queue), Csts(1));
    assert_eq!(bench.property(queue, CC_OFFSET, Four), Outcome::result(ENABLE.into()));
}

#[test]
fn all_command_sets_may_be_selected() {
    let mut bench = Bench::new();
    let (queue, _) = bench.admin_to(SUBNQN, 0);
    bench.set_cc(queue, ENABLE | 6 << 4);
    assert_eq!(csts(&mut bench, queue), Csts(1));
}

#[test]
fn enabling_in_a_way_not_supported_is_fatal_until_a_reset() {
    for bad in
        [1, ENABLE ^ 1 << 16, ENABLE ^ 1 << 20, ENABLE | 1 << 7, ENABLE | 1 << 11, ENABLE | 1 << 4]
    {
        let mut bench = Bench::new();
        let (queue, _) = bench.admin_to(SUBNQN, 0);
        bench.set_cc(queue, bad);
        assert_eq!(csts(&mut bench, queue), Csts::default().with_cfs(true), "{bad:#x}");
        let outcome = bench.run(queue, &admin_command(AdminOpcode::IDENTIFY, 1), &[]);
        assert_eq!(outcome, logged(StatusCode::COMMAND_SEQUENCE_ERROR));
        bench.set_cc(queue, 0);
        bench.set_cc(queue, ENABLE);
        assert_eq!(csts(&mut bench, queue), Csts(1));
    }
}

#[test]
fn a_discovery_controller_is_enabled_with_any_entry_sizes() {
    let mut bench = Bench::new();
    let (queue, _) = bench.admin_to(nvme_spec_types::nqn::DISCOVERY_NQN, 0);
    bench.set_cc(queue, 1);
    assert_eq!(csts(&mut bench, queue), Csts(1));
}

#[test]
fn shutdown_is_complete_and_a_reset_ends_it() {
    let mut bench = Bench::new();
    let (queue, _) = bench.ready();
    for shn in [1, 2] {
        bench.set_cc(queue, ENABLE | shn << 14);
        let status = csts(&mut bench, queue);
        assert_eq!(status.shst(), SHST_COMPLETE);
        assert_ne!(status.shst(), SHST_OCCURRING);
        bench.set_cc(queue, 0);
        assert_eq!(csts(&mut bench, queue), Csts(0));
        bench.set_cc(queue, ENABLE);
        assert_eq!(csts(&mut bench, queue), Csts(1));
    }
}

#[test]
fn while_enabled_only_the_shutdown_field_changes() {
    let mut bench = Bench::new();
    let (queue, _) = bench.ready();
    bench.set_cc(queue, ENABLE | 1 << 7 | 1 << 14);
    let cc = bench.property(queue, CC_OFFSET, Four).result;
    assert_eq!(cc, u64::from(ENABLE | 1 << 14));
}

#[test]
fn a_reset_closes_io_queues_and_ends_held_requests() {
    let mut bench = Bench::new();
    let (admin, cntlid) = bench.ready();
    let io = bench.io_queue(cntlid, 1).unwrap();
    let slot = bench.feed(admin, &admin_command(AdminOpcode::ASYNC_EVENT_REQUEST, 9), &[]);
    assert_eq!(bench.answer(admin, slot), None);
    bench.set_cc(admin, 0);
    let held = bench.answer(admin, slot).unwrap();
    assert_eq!(held, Outcome::error(StatusCode::ABORT_REQUESTED.into()));
    assert_eq!(bench.closed(), [(io, "the host reset its controller".to_owned())]);
    // The admin queue lives on.
    assert_eq!(csts(&mut bench, admin), Csts(0));
}
