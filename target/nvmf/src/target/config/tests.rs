use super::super::tests::*;
use super::*;
use crate::target::DuplicateHosts;
use crate::view::SubsystemView;
use nvme_spec_types::nqn::DISCOVERY_NQN;
use std::sync::Arc;

/// The views that were published; forgets the other actions.
fn published(bench: &mut Bench) -> Vec<Arc<SubsystemView>> {
    let view = |action| match action {
        TargetAction::Publish(view) => Some(view),
        _ => None,
    };
    bench.out.drain(..).filter_map(view).collect()
}

fn add(bench: &mut Bench, config: NamespaceConfig) -> Result<(), ConfigError> {
    bench.target.add_namespace(bench.subsystem, config, &mut bench.out)
}

#[test]
fn a_new_namespace_is_published_in_order_of_ids() {
    let mut bench = Bench::new();
    let nsids = |view: &SubsystemView| view.namespaces.iter().map(|n| n.nsid).collect::<Vec<_>>();
    add(&mut bench, namespace_config(9)).unwrap();
    add(&mut bench, namespace_config(4)).unwrap();
    let views = published(&mut bench);
    assert_eq!(
        views.iter().map(|view| nsids(view)).collect::<Vec<_>>(),
        [vec![1, 9], vec![1, 4, 9]]
    );
    assert_eq!(views[1].generation, views[0].generation + 1);
    let ns = views[1].namespace(4).unwrap();
    assert_eq!(
        (ns.block_count, ns.lba_shift, ns.read_only, ns.counters.len()),
        (1000, 9, false, 2)
    );
}

#[test]
fn namespaces_that_cannot_be_are_refused() {
    let mut bench = Bench::new();
    let good = namespace_config(2);
    let cases = [
        (NamespaceConfig { nsid: 0, ..good.clone() }, ConfigError::InvalidNsid(0)),
        (NamespaceConfig { nsid: u32::MAX, ..good.clone() }, ConfigError::InvalidNsid(u32::MAX)),
        (NamespaceConfig { lba_shift: 10, ..good.clone() }, ConfigError::InvalidBlockSize(10)),
        (NamespaceConfig { block_count: 0, ..good.clone() }, ConfigError::InvalidBlockCount(0)),
        (
            NamespaceConfig { block_count: 1 << 55, ..good.clone() },
            ConfigError::InvalidBlockCount(1 << 55),
        ),
        (NamespaceConfig { uuid: [0; 16], ..good.clone() }, ConfigError::NoIdentifier(2)),
        (
            NamespaceConfig { uuid: namespace_config(1).uuid, ..good.clone() },
            ConfigError::IdentifierTaken(1),
        ),
        (
            NamespaceConfig { nsid: 1, uuid: good.uuid, ..good.clone() },
            ConfigError::NamespaceExists(1),
        ),
    ];
    for (config, error) in cases {
        assert_eq!(add(&mut bench, config), Err(error));
    }
    assert!(bench.out.is_empty());
    let largest = NamespaceConfig { block_count: 1 << 54, ..good };
    assert_eq!(add(&mut bench, largest), Ok(()));
}

#[test]
fn each_kind_of_identifier_is_of_one_namespace_only() {
    let mut bench = Bench::new();
    let with = |nsid, nguid, eui64| NamespaceConfig { nguid, eui64, ..namespace_config(nsid) };
    add(&mut bench, with(2, [2; 16], [2; 8])).unwrap();
    let taken = Err(ConfigError::IdentifierTaken(2));
    assert_eq!(add(&mut bench, with(3, [2; 16], [3; 8])), taken);
    assert_eq!(add(&mut bench, with(3, [3; 16], [2; 8])), taken);
    assert_eq!(add(&mut bench, with(3, [3; 16], [3; 8])), Ok(()));
}

#[test]
fn a_subsystem_holds_1024_namespaces() {
    let mut bench = Bench::new();
    for nsid in 2..=1024 {
        add(&mut bench, namespace_config(nsid)).unwrap();
    }
    let error = add(&mut bench, namespace_config(1025));
    assert_eq!(error, Err(ConfigError::TooManyNamespaces));
}

#[test]
fn a_namespace_can_grow_and_keeps_its_counters() {
    let mut bench = Bench::new();
    add(&mut bench, namespace_config(2)).unwrap();
    let before = published(&mut bench)[0].namespace(2).unwrap().counters.clone();
    let bigger = NamespaceConfig { block_count: 2000, read_only: true, ..namespace_config(2) };
    bench.target.update_namespace(bench.subsystem, bigger.clone(), &mut bench.out).unwrap();
    let view = published(&mut bench).pop().unwrap();
    let ns = view.namespace(2).unwrap();
    assert_eq!((ns.block_count, ns.read_only), (2000, true));
    assert!(Arc::ptr_eq(&ns.counters, &before));
    // The same again is no change.
    bench.target.update_namespace(bench.subsystem, bigger, &mut bench.out).unwrap();
    assert!(bench.out.is_empty());
}

#[test]
fn the_identity_of_a_namespace_stays() {
    let mut bench = Bench::new();
    let same = namespace_config(1);
    for changed in [
        NamespaceConfig { uuid: [1; 16], ..same.clone() },
        NamespaceConfig { nguid: [1; 16], ..same.clone() },
        NamespaceConfig { eui64: [1; 8], ..same.clone() },
        NamespaceConfig { lba_shift: 12, ..same.clone() },
    ] {
        let error = bench.target.update_namespace(bench.subsystem, changed, &mut bench.out);
        assert_eq!(error, Err(ConfigError::IdentityChanged(1)));
    }
    let unknown = NamespaceConfig { nsid: 3, ..same };
    let error = bench.target.update_namespace(bench.subsystem, unknown, &mut bench.out);
    assert_eq!(error, Err(ConfigError::UnknownNamespace(3)));
}

#[test]
fn a_removed_namespace_is_returned_and_gone_from_the_view() {
    let mut bench = Bench::new();
    let removed = bench.target.remove_namespace(bench.subsystem, 1, &mut bench.out).unwrap();
    assert_eq!(removed, namespace_config(1));
    assert!(published(&mut bench)[0].namespaces.is_empty());
    let error = bench.target.remove_namespace(bench.subsystem, 1, &mut bench.out);
    assert_eq!(error, Err(ConfigError::UnknownNamespace(1)));
}

#[test]
fn what_was_counted_on_namespaces_outlasts_them() {
    let mut bench = Bench::new();
    let id = bench.subsystem;
    add(&mut bench, namespace_config(2)).unwrap();
    add(&mut bench, namespace_config(3)).unwrap();
    let count = |bench: &mut Bench| {
        let view = published(bench).pop().unwrap();
        view.namespaces.iter().for_each(|ns| ns.counters[0].count_error());
    };
    let errors = |bench: &Bench| bench.target.removed_totals().errors;
    count(&mut bench);
    bench.target.remove_namespace(id, 2, &mut bench.out).unwrap();
    assert_eq!(errors(&bench), 1);
    let other = NamespaceConfig { uuid: [9; 16], ..namespace_config(3) };
    bench.target.replace_namespace(id, other, &mut bench.out).unwrap();
    assert_eq!(errors(&bench), 2);
    count(&mut bench);
    bench.target.remove_subsystem(id, &mut bench.out).unwrap();
    assert_eq!(errors(&bench), 5, "two of the first and one of its successor");
}

#[test]
fn subsystems_that_cannot_be_are_refused() {
    let mut bench = Bench::new();
    let mut add = |change: fn(&mut SubsystemConfig)| {
        let nqn = "nqn.2026-01.io.example:other".to_owned();
        let mut config = SubsystemConfig { nqn, ..subsystem_config() };
        change(&mut config);
        bench.target.add_subsystem(config, &mut bench.out)
    };
    let nqn = |nqn: &str, reason| Err(ConfigError::InvalidNqn { nqn: nqn.to_owned(), reason });
    assert_eq!(add(|c| c.nqn = "disks".to_owned()), nqn("disks", NqnError::BadForm));
    assert_eq!(add(|c| c.nqn = String::new()), nqn("", NqnError::Empty));
    let error = add(|c| c.hosts = AllowedHosts::Only(vec!["me".to_owned()]));
    assert_eq!(error, nqn("me", NqnError::BadForm));
    assert!(matches!(add(|c| c.serial = "x".repeat(21)), Err(ConfigError::InvalidText { .. })));
    assert!(matches!(add(|c| c.model = "ü".to_owned()), Err(ConfigError::InvalidText { .. })));
    assert!(matches!(add(|c| c.model.clear()), Err(ConfigError::InvalidText { .. })));
    let taken = ConfigError::SubsystemExists(SUBNQN.to_owned());
    assert_eq!(add(|c| c.nqn = SUBNQN.to_owned()), Err(taken));
    let taken = ConfigError::SubsystemExists(DISCOVERY_NQN.to_owned());
    assert_eq!(add(|c| c.nqn = DISCOVERY_NQN.to_owned()), Err(taken));
    assert!(add(|_| {}).is_ok());
}

#[test]
fn a_removed_subsystem_closes_its_connections_and_frees_its_name() {
    let mut bench = Bench::new();
    let (admin, cntlid) = bench.ready();
    let io = bench.io_queue(cntlid, 1).unwrap();
    let id = bench.subsystem;
    bench.target.remove_subsystem(id, &mut bench.out).unwrap();
    assert!(
        bench.out.iter().any(
            |action| matches!(action, TargetAction::Publish(view) if view.namespaces.is_empty())
        )
    );
    let closed: Vec<_> = bench.closed().into_iter().map(|(queue, _)| queue).collect();
    assert_eq!(closed, [io, admin]);
    assert_eq!(bench.target.find_subsystem(SUBNQN), None);
    let error = bench.target.remove_subsystem(id, &mut bench.out);
    assert_eq!(error, Err(ConfigError::UnknownSubsystem));
    let new = bench.target.add_subsystem(subsystem_config(), &mut bench.out).unwrap();
    assert_ne!(new, id);
    assert_eq!(bench.target.find_subsystem(SUBNQN), Some(new));
}

#[test]
fn the_discovery_subsystem_cannot_be_configured() {
    let mut bench = Bench::new();
    let unknown = Err(ConfigError::UnknownSubsystem);
    let out = &mut bench.out;
    assert_eq!(bench.target.remove_subsystem(DISCOVERY_SUBSYSTEM, out), unknown);
    assert_eq!(bench.target.add_namespace(DISCOVERY_SUBSYSTEM, namespace_config(1), out), unknown);
    assert_eq!(bench.target.set_hosts(DISCOVERY_SUBSYSTEM, AllowedHosts::Any, out), unknown);
}

#[test]
fn hosts_that_lose_their_right_are_closed_and_the_others_stay() {
    let mut bench = Bench::new();
    let (admin, _) = bench.ready();
    let only = |name: &str| AllowedHosts::Only(vec![name.to_owned()]);
    bench.target.set_hosts(bench.subsystem, only(HOSTNQN), &mut bench.out).unwrap();
    assert_eq!(bench.closed(), []);
    let other = only("nqn.2026-01.io.example:other");
    bench.target.set_hosts(bench.subsystem, other, &mut bench.out).unwrap();
    let reason = "the host may no longer use the subsystem".to_owned();
    assert_eq!(bench.closed(), [(admin, reason)]);
}

#[test]
fn status_tells_what_is_configured_and_connected() {
    let mut bench = Bench::new();
    let (admin, cntlid) = bench.ready();
    let io = bench.io_queue(cntlid, 3).unwrap();
    let subsystem = bench.target.subsystems().next().unwrap();
    assert_eq!((&*subsystem.nqn, subsystem.namespaces.len()), (SUBNQN, 1));
    assert_eq!(bench.target.subsystems().count(), 1);
    let controller = bench.target.controllers().next().unwrap();
    assert_eq!((controller.cntlid, &*controller.hostnqn, controller.ready), (1, HOSTNQN, true));
    let queues: Vec<_> = controller.queues.iter().map(|q| (q.queue, q.qid, q.sq_entries)).collect();
    assert_eq!(queues, [(admin, 0, 32), (io, 3, 128)]);
}

#[test]
fn a_subsystem_changes_in_what_it_allows_and_not_in_what_it_is() {
    let mut bench = Bench::new();
    bench.ready();
    let id = bench.subsystem;
    let mut update = |change: fn(&mut SubsystemConfig)| {
        let mut config = subsystem_config();
        change(&mut config);
        let result = bench.target.update_subsystem(id, config, &mut bench.out);
        result.map(|()| bench.closed().len())
    };
    assert_eq!(update(|c| c.cntlids = 100..=200), Ok(0));
    assert_eq!(update(|c| c.cntlids = 0..=5), Err(ConfigError::InvalidCntlids(0..=5)));
    assert_eq!(update(|c| c.cntlids = 9..=0xfff0), Err(ConfigError::InvalidCntlids(9..=0xfff0)));
    let identity = Err(ConfigError::SubsystemIdentityChanged(SUBNQN.to_owned()));
    assert_eq!(update(|c| c.serial = "SN2".to_owned()), identity);
    assert_eq!(update(|c| c.model = "another".to_owned()), identity);
    assert_eq!(update(|c| c.duplicates = DuplicateHosts::Refuse), Ok(0));
    assert_eq!(update(|c| c.hosts = AllowedHosts::Only(Vec::new())), Ok(1));
}

#[test]
fn a_replaced_namespace_is_another_under_the_same_id() {
    let mut bench = Bench::new();
    let mut other = namespace_config(1);
    (other.backing, other.uuid, other.lba_shift) = (crate::BackingRef(77), [3; 16], 12);
    let id = bench.subsystem;
    let before = bench.target.replace_namespace(id, other.clone(), &mut bench.out).unwrap();
    assert_eq!(before, namespace_config(1));
    let views = published(&mut bench);
    assert_eq!(views.len(), 1, "no view without the namespace");
    let ns = views[0].namespace(1).unwrap();
    assert_eq!((ns.backing, ns.lba_shift), (other.backing, 12));
    let unknown = NamespaceConfig { nsid: 2, ..namespace_config(2) };
    let error = bench.target.replace_namespace(id, unknown, &mut bench.out);
    assert_eq!(error, Err(ConfigError::UnknownNamespace(2)));
}

#[test]
fn hundreds_of_namespaces_with_gaps_are_found_by_their_ids() {
    let mut bench = Bench::new();
    let nsids: Vec<u32> = (2..=700).map(|n| n * n).collect();
    for &nsid in &nsids {
        add(&mut bench, namespace_config(nsid)).unwrap();
    }
    let view = published(&mut bench).pop().unwrap();
    for nsid in 1..=700 * 700 + 1 {
        let there = nsid == 1 || nsids.binary_search(&nsid).is_ok();
        assert_eq!(view.namespace(nsid).map(|ns| ns.nsid), there.then_some(nsid));
    }
}
