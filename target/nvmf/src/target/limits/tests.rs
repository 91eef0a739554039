//! What cores are told of limits.

use super::super::SubsystemConfig;
use super::super::tests::*;
use super::*;
use crate::view::SubsystemView;
use core::time::Duration;

const HOST: &str = "nqn.2014-08.org.example:h";

fn limit(iops: u64) -> LimitConfig {
    LimitConfig { iops, bandwidth: 0, burst: Duration::from_millis(100) }
}

/// The view that was published last.
fn last(bench: &mut Bench) -> Option<Arc<SubsystemView>> {
    let view = |action| match action {
        TargetAction::Publish(view) => Some(view),
        _ => None,
    };
    bench.out.drain(..).filter_map(view).next_back()
}

#[test]
fn a_namespace_limit_reaches_the_cores_and_stays_through_other_changes() {
    let mut bench = Bench::new();
    let id = bench.subsystem;
    bench.target.set_namespace_limit(id, 1, Some(limit(5)), &mut bench.out).unwrap();
    let set = last(&mut bench).unwrap().namespaces[0].limit.clone().unwrap();
    assert_eq!(set.config(), limit(5));
    let larger = super::super::NamespaceConfig { block_count: 2000, ..namespace_config(1) };
    bench.target.update_namespace(id, larger, &mut bench.out).unwrap();
    let kept = last(&mut bench).unwrap().namespaces[0].limit.clone().unwrap();
    assert!(Arc::ptr_eq(&set, &kept), "what is used up stays used up");
    bench.target.set_namespace_limit(id, 1, None, &mut bench.out).unwrap();
    assert!(last(&mut bench).unwrap().namespaces[0].limit.is_none());
}

#[test]
fn a_limit_that_is_set_again_is_no_change() {
    let mut bench = Bench::new();
    let id = bench.subsystem;
    bench.target.set_namespace_limit(id, 1, Some(limit(5)), &mut bench.out).unwrap();
    last(&mut bench);
    bench.target.set_namespace_limit(id, 1, Some(limit(5)), &mut bench.out).unwrap();
    assert!(last(&mut bench).is_none());
}

#[test]
fn hosts_are_not_told_of_limits() {
    let mut bench = Bench::new();
    let id = bench.subsystem;
    bench.ready();
    bench.out.clear();
    bench.target.set_namespace_limit(id, 1, Some(limit(5)), &mut bench.out).unwrap();
    assert!(matches!(bench.out[..], [TargetAction::Publish(_)]));
}

#[test]
fn a_limit_of_nothing_is_refused() {
    let mut bench = Bench::new();
    let id = bench.subsystem;
    let none = bench.target.set_namespace_limit(id, 9, Some(limit(5)), &mut bench.out);
    assert_eq!(none, Err(ConfigError::UnknownNamespace(9)));
    let discovery = DISCOVERY_SUBSYSTEM;
    let none = bench.target.set_namespace_limit(discovery, 1, None, &mut bench.out);
    assert_eq!(none, Err(ConfigError::UnknownSubsystem));
}

#[test]
fn host_limits_are_one_over_all_subsystems_old_and_new() {
    let mut bench = Bench::new();
    let limits = BTreeMap::from([(HOST.to_owned(), limit(7))]);
    bench.target.set_host_limits(limits.clone(), &mut bench.out);
    let first = last(&mut bench).unwrap().host_limits[HOST].clone();
    bench.target.set_host_limits(limits.clone(), &mut bench.out);
    assert!(last(&mut bench).is_none());
    let more = limits.into_iter().chain([("nqn.2014-08.org.example:i".to_owned(), limit(9))]);
    bench.target.set_host_limits(more.collect(), &mut bench.out);
    assert!(Arc::ptr_eq(&first, &last(&mut bench).unwrap().host_limits[HOST]));
    let other = SubsystemConfig { nqn: "nqn.2014-08.org.example:t".into(), ..subsystem_config() };
    bench.target.add_subsystem(other, &mut bench.out).unwrap();
    assert!(Arc::ptr_eq(&first, &last(&mut bench).unwrap().host_limits[HOST]));
    bench.target.set_host_limits(BTreeMap::new(), &mut bench.out);
    assert!(last(&mut bench).unwrap().host_limits.is_empty());
}
