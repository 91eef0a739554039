use super::super::tests::*;
use super::*;
use crate::QueueKey;
use nvme_spec_types::feature::SetFeatures;
use nvme_spec_types::log::GetLogPage;
use nvme_spec_types::{AdminOpcode, FeatureId, SglDescriptor, ZeroBased};

const NAMESPACE_CHANGED: u64 = 0x04_00_02;
const DISCOVERY_CHANGED: u64 = 0x70_f0_02;

fn request(bench: &mut Bench, queue: QueueKey, cid: u16) -> Slot {
    bench.feed(queue, &admin_command(AdminOpcode::ASYNC_EVENT_REQUEST, cid), &[])
}

fn change(bench: &mut Bench, nsid: u32) {
    let subsystem = bench.subsystem;
    bench.target.add_namespace(subsystem, namespace_config(nsid), &mut bench.out).unwrap();
}

fn read(bench: &mut Bench, queue: QueueKey, lid: LogId, rae: bool) {
    let numd = ZeroBased::<u32>::from_raw(255);
    let get = GetLogPage { lid, rae, numd, ..GetLogPage::default() };
    let outcome = bench.run(queue, &get.to_command(1, SglDescriptor::NO_DATA), &[]);
    assert!(outcome.status.is_success());
}

fn configure(bench: &mut Bench, queue: QueueKey, value: u32) -> Outcome {
    let fid = FeatureId::ASYNC_EVENT;
    let set = SetFeatures { nsid: 0, fid, save: false, cdw11: value, cdw12: 0, uuid_index: 0 };
    bench.run(queue, &set.to_command(1, SglDescriptor::NO_DATA), &[])
}

#[test]
fn four_requests_are_held_and_a_fifth_is_over_the_limit() {
    let mut bench = Bench::new();
    let (admin, _) = bench.ready();
    for cid in 0..4 {
        let slot = request(&mut bench, admin, cid);
        assert_eq!(bench.answer(admin, slot), None);
    }
    let slot = request(&mut bench, admin, 4);
    assert_eq!(bench.answer(admin, slot), Some(logged(StatusCode::AER_LIMIT_EXCEEDED)));
}

#[test]
fn a_change_completes_the_oldest_request() {
    let mut bench = Bench::new();
    let (admin, _) = bench.ready();
    let first = request(&mut bench, admin, 1);
    let second = request(&mut bench, admin, 2);
    change(&mut bench, 2);
    assert_eq!(bench.answer(admin, first), Some(Outcome::result(NAMESPACE_CHANGED)));
    assert_eq!(bench.answer(admin, second), None);
}

#[test]
fn a_change_without_a_request_is_told_by_the_next_one() {
    let mut bench = Bench::new();
    let (admin, _) = bench.ready();
    change(&mut bench, 2);
    let slot = request(&mut bench, admin, 1);
    assert_eq!(bench.answer(admin, slot), Some(Outcome::result(NAMESPACE_CHANGED)));
}

#[test]
fn an_event_is_masked_until_its_log_is_read_without_retaining_it() {
    let mut bench = Bench::new();
    let (admin, _) = bench.ready();
    let first = request(&mut bench, admin, 1);
    let second = request(&mut bench, admin, 2);
    change(&mut bench, 2);
    assert!(bench.answer(admin, first).is_some());
    change(&mut bench, 3);
    assert_eq!(bench.answer(admin, second), None);
    read(&mut bench, admin, LogId::CHANGED_NAMESPACES, true);
    read(&mut bench, admin, LogId::ERROR, false);
    change(&mut bench, 4);
    assert_eq!(bench.answer(admin, second), None);
    read(&mut bench, admin, LogId::CHANGED_NAMESPACES, false);
    assert_eq!(bench.answer(admin, second), None);
    change(&mut bench, 5);
    assert_eq!(bench.answer(admin, second), Some(Outcome::result(NAMESPACE_CHANGED)));
}

#[test]
fn an_event_whose_log_was_read_before_a_request_came_is_not_told() {
    let mut bench = Bench::new();
    let (admin, _) = bench.ready();
    change(&mut bench, 2);
    read(&mut bench, admin, LogId::CHANGED_NAMESPACES, false);
    let slot = request(&mut bench, admin, 1);
    assert_eq!(bench.answer(admin, slot), None);
    change(&mut bench, 3);
    assert_eq!(bench.answer(admin, slot), Some(Outcome::result(NAMESPACE_CHANGED)));
}

#[test]
fn an_event_that_the_host_does_not_want_is_not_told() {
    let mut bench = Bench::new();
    let (admin, _) = bench.ready();
    assert_eq!(configure(&mut bench, admin, 0), Outcome::ok());
    let slot = request(&mut bench, admin, 1);
    change(&mut bench, 2);
    assert_eq!(bench.answer(admin, slot), None);
    assert_eq!(configure(&mut bench, admin, 1 << 8), Outcome::ok());
    change(&mut bench, 3);
    assert_eq!(bench.answer(admin, slot), Some(Outcome::result(NAMESPACE_CHANGED)));
}

#[test]
fn an_event_that_waits_is_not_told_once_the_host_no_longer_wants_it() {
    let mut bench = Bench::new();
    let (admin, _) = bench.ready();
    change(&mut bench, 2);
    assert_eq!(configure(&mut bench, admin, 0), Outcome::ok());
    assert_eq!(configure(&mut bench, admin, 1 << 8), Outcome::ok());
    let slot = request(&mut bench, admin, 1);
    assert_eq!(bench.answer(admin, slot), None);
    change(&mut bench, 3);
    assert_eq!(bench.answer(admin, slot), Some(Outcome::result(NAMESPACE_CHANGED)));
}

#[test]
fn events_that_the_controller_does_not_offer_cannot_be_asked_for() {
    let mut bench = Bench::new();
    let (admin, _) = bench.ready();
    assert_eq!(configure(&mut bench, admin, 1 << 31), logged(StatusCode::INVALID_FIELD));
    assert_eq!(configure(&mut bench, admin, 0x11f), Outcome::ok());
    let (discovery, _) = bench.ready_discovery(0);
    assert_eq!(configure(&mut bench, discovery, 1 << 8), logged(StatusCode::INVALID_FIELD));
    assert_eq!(configure(&mut bench, discovery, 1 << 31), Outcome::ok());
}

#[test]
fn every_controller_of_the_subsystem_is_told() {
    let mut bench = Bench::new();
    let (one, _) = bench.ready();
    let (two, _) = bench.ready();
    let slots = [request(&mut bench, one, 1), request(&mut bench, two, 1)];
    change(&mut bench, 2);
    for (queue, slot) in [one, two].into_iter().zip(slots) {
        assert_eq!(bench.answer(queue, slot), Some(Outcome::result(NAMESPACE_CHANGED)));
    }
}

#[test]
fn persistent_discovery_connections_are_told_of_changes_of_the_log() {
    let mut bench = Bench::new();
    let (persistent, _) = bench.ready_discovery(30_000);
    let (passing, _) = bench.ready_discovery(0);
    let told = request(&mut bench, persistent, 1);
    let untold = request(&mut bench, passing, 1);
    // Namespaces are not in the discovery log.
    change(&mut bench, 2);
    assert_eq!(bench.answer(persistent, told), None);
    bench.target.remove_subsystem(bench.subsystem, &mut bench.out).unwrap();
    assert_eq!(bench.answer(persistent, told), Some(Outcome::result(DISCOVERY_CHANGED)));
    assert_eq!(bench.answer(passing, untold), None);
}
