use super::super::tests::*;
use super::*;
use crate::target::NamespaceConfig;
use nvme_spec_types::fabrics::PropertySize;
use nvme_spec_types::feature::{GetFeatures, SetFeatures};
use nvme_spec_types::property::{CC_OFFSET, CSTS_OFFSET, Csts};
use nvme_spec_types::status::StatusCode;
use nvme_spec_types::{FeatureId, FeatureSelect, SglDescriptor};

const NORMAL: u32 = ENABLE | 1 << 14;
const ABRUPT: u32 = ENABLE | 2 << 14;

fn csts(bench: &mut Bench, queue: QueueKey) -> Csts {
    Csts(bench.property(queue, CSTS_OFFSET, PropertySize::Four).result as u32)
}

/// The flushes that were asked for; forgets the other actions.
fn asked(bench: &mut Bench) -> Vec<(QueueKey, Slot, Vec<BackingRef>)> {
    let asked = |action| match action {
        TargetAction::Flush { queue, slot, backings } => Some((queue, slot, backings)),
        _ => None,
    };
    bench.out.drain(..).filter_map(asked).collect()
}

/// Begins a normal shutdown; returns the slot of the Property Set.
fn shut_down(bench: &mut Bench, queue: QueueKey) -> Slot {
    let slot = bench.feed(queue, &property_set(CC_OFFSET, NORMAL), &[]);
    assert_eq!(bench.answer(queue, slot), None);
    slot
}

fn done(bench: &mut Bench, queue: QueueKey, slot: Slot, result: Result<(), Status>) {
    bench.target.on_flushed(queue, slot, result, &mut bench.out);
}

#[test]
fn a_normal_shutdown_is_complete_when_all_caches_are_written_out() {
    let mut bench = Bench::new();
    for (nsid, volatile_cache) in [(2, false), (3, true)] {
        let config = NamespaceConfig { volatile_cache, ..namespace_config(nsid) };
        bench.target.add_namespace(bench.subsystem, config, &mut bench.out).unwrap();
    }
    let (queue, _) = bench.ready();
    let slot = shut_down(&mut bench, queue);
    assert_eq!(asked(&mut bench), [(queue, slot, vec![BackingRef(1), BackingRef(3)])]);
    assert_eq!(csts(&mut bench, queue).shst(), SHST_OCCURRING);
    done(&mut bench, queue, slot, Ok(()));
    assert_eq!(bench.answer(queue, slot), Some(Outcome::ok()));
    assert_eq!(csts(&mut bench, queue), Csts(1).with_shst(SHST_COMPLETE));
    done(&mut bench, queue, slot, Ok(()));
    assert!(bench.out.is_empty());
}

#[test]
fn an_abrupt_shutdown_and_one_without_caches_are_complete_at_once() {
    let mut bench = Bench::new();
    let (queue, _) = bench.ready();
    bench.set_cc(queue, ABRUPT);
    assert_eq!(csts(&mut bench, queue).shst(), SHST_COMPLETE);
    bench.set_cc(queue, 0);
    let durable = NamespaceConfig { volatile_cache: false, ..namespace_config(1) };
    bench.target.update_namespace(bench.subsystem, durable, &mut bench.out).unwrap();
    bench.set_cc(queue, ENABLE);
    bench.set_cc(queue, NORMAL);
    assert_eq!(csts(&mut bench, queue).shst(), SHST_COMPLETE);
    let (discovery, _) = bench.ready_discovery(0);
    bench.set_cc(discovery, NORMAL);
    assert_eq!(csts(&mut bench, discovery).shst(), SHST_COMPLETE);
}

#[test]
fn a_shutdown_whose_flush_fails_is_a_fatal_error_and_logged() {
    let mut bench = Bench::new();
    let (queue, _) = bench.ready();
    let slot = shut_down(&mut bench, queue);
    done(&mut bench, queue, slot, Err(StatusCode::WRITE_FAULT.with_dnr()));
    assert_eq!(bench.answer(queue, slot), Some(logged(StatusCode::WRITE_FAULT)));
    assert_eq!(csts(&mut bench, queue), Csts(1).with_shst(SHST_COMPLETE).with_cfs(true));
    assert_eq!(bench.target.controllers().next().unwrap().errors, 1);
}

#[test]
fn a_reset_during_a_shutdown_does_not_lose_the_answer() {
    let mut bench = Bench::new();
    let (queue, _) = bench.ready();
    let slot = shut_down(&mut bench, queue);
    bench.set_cc(queue, 0);
    done(&mut bench, queue, slot, Ok(()));
    assert_eq!(bench.answer(queue, slot), Some(Outcome::ok()));
    assert_eq!(csts(&mut bench, queue), Csts(0));
}

#[test]
fn a_flush_of_a_queue_that_closes_is_forgotten() {
    let mut bench = Bench::new();
    let (queue, _) = bench.ready();
    let slot = shut_down(&mut bench, queue);
    bench.target.on_queue_closed(bench.now, queue, &mut bench.out);
    bench.out.clear();
    done(&mut bench, queue, slot, Ok(()));
    assert!(bench.out.is_empty() && bench.target.flushes.is_empty());
}

#[test]
fn turning_the_write_cache_off_makes_writes_durable_and_flushes_what_was_written() {
    let mut bench = Bench::new();
    let (queue, cntlid) = bench.ready();
    let io = bench.open_with(1, 128, cntlid);
    bench.connect(io, &io_connect(1), &connect_data(SUBNQN, cntlid)).unwrap();
    let [TargetAction::Bind { ref binding, .. }] = bench.out[..] else { panic!() };
    let settings = binding.settings.clone();
    let fid = FeatureId::VOLATILE_WRITE_CACHE;
    let set = |value| {
        let set = SetFeatures { nsid: 0, fid, save: false, cdw11: value, cdw12: 0, uuid_index: 0 };
        set.to_command(1, SglDescriptor::NO_DATA)
    };
    let get = GetFeatures { nsid: 0, fid, sel: FeatureSelect::CURRENT, cdw11: 0, uuid_index: 0 };
    let get = get.to_command(1, SglDescriptor::NO_DATA);
    assert_eq!(bench.run(queue, &get, &[]), Outcome::result(1));
    let slot = bench.feed(queue, &set(0), &[]);
    // What is written from now on must not slip by the flush.
    assert!(settings.write_through());
    assert_eq!(asked(&mut bench), [(queue, slot, vec![BackingRef(1)])]);
    done(&mut bench, queue, slot, Ok(()));
    assert_eq!(bench.answer(queue, slot), Some(Outcome::ok()));
    assert_eq!(bench.run(queue, &get, &[]), Outcome::result(0));
    assert_eq!(bench.run(queue, &set(1), &[]), Outcome::ok());
    assert!(!settings.write_through());
    let slot = bench.feed(queue, &set(0), &[]);
    done(&mut bench, queue, slot, Err(StatusCode::WRITE_FAULT.with_dnr()));
    assert_eq!(bench.answer(queue, slot), Some(logged(StatusCode::WRITE_FAULT)));
    assert!(!settings.write_through());
}

#[test]
fn a_write_cache_that_is_off_stays_off_when_turning_it_off_again_fails() {
    let fid = FeatureId::VOLATILE_WRITE_CACHE;
    let set = SetFeatures { nsid: 0, fid, save: false, cdw11: 0, cdw12: 0, uuid_index: 0 };
    let off = set.to_command(1, SglDescriptor::NO_DATA);
    let get = GetFeatures { nsid: 0, fid, sel: FeatureSelect::CURRENT, cdw11: 0, uuid_index: 0 };
    let get = get.to_command(1, SglDescriptor::NO_DATA);
    let failed = Err(StatusCode::WRITE_FAULT.with_dnr());
    for (ends, cache) in
        [([Ok(()), failed], 0), ([failed, Ok(())], 0), ([failed, failed], 1), ([Ok(()), Ok(())], 0)]
    {
        let mut bench = Bench::new();
        let (queue, _) = bench.ready();
        let slots = [(); 2].map(|()| bench.feed(queue, &off, &[]));
        for (slot, end) in slots.into_iter().zip(ends) {
            done(&mut bench, queue, slot, end);
        }
        assert_eq!(bench.run(queue, &get, &[]), Outcome::result(cache), "{ends:?}");
    }
}

#[test]
fn a_write_cache_that_is_turned_on_again_before_it_was_emptied_stays_on() {
    let mut bench = Bench::new();
    let (queue, _) = bench.ready();
    let fid = FeatureId::VOLATILE_WRITE_CACHE;
    let set = |value| {
        let set = SetFeatures { nsid: 0, fid, save: false, cdw11: value, cdw12: 0, uuid_index: 0 };
        set.to_command(1, SglDescriptor::NO_DATA)
    };
    let first = bench.feed(queue, &set(0), &[]);
    // Off is only told once everything is durable, however often it is asked for.
    let second = bench.feed(queue, &set(0), &[]);
    assert_eq!(asked(&mut bench).len(), 2);
    assert_eq!(bench.run(queue, &set(1), &[]), Outcome::ok());
    for slot in [first, second] {
        done(&mut bench, queue, slot, Ok(()));
        assert_eq!(bench.answer(queue, slot), Some(Outcome::ok()));
    }
    let get = GetFeatures { nsid: 0, fid, sel: FeatureSelect::CURRENT, cdw11: 0, uuid_index: 0 };
    let get = get.to_command(1, SglDescriptor::NO_DATA);
    assert_eq!(bench.run(queue, &get, &[]), Outcome::result(1));
}
