use super::super::tests::*;
use super::*;
use crate::QueueKey;
use crate::target::NamespaceConfig;
use nvme_spec_types::SglDescriptor;
use nvme_spec_types::identify::{
    Cmic, ControllerType, IdentifyController, NamespaceFeatures, NamespaceIdentifier,
    NamespaceIdentifiers,
};
use nvme_spec_types::nqn::DISCOVERY_NQN;
use nvme_spec_types::nvm::NSID_ALL;

fn identify(bench: &mut Bench, queue: QueueKey, identify: Identify) -> Outcome {
    bench.run(queue, &identify.to_command(1, SglDescriptor::NO_DATA), &[])
}

/// 4096 bytes of an Identify of a target with these namespaces besides 1.
fn data(cns: Cns, nsid: u32) -> Vec<u8> {
    let mut bench = Bench::new();
    for nsid in [3, 0xffff_fffe] {
        let config = namespace_config(nsid);
        bench.target.add_namespace(bench.subsystem, config, &mut bench.out).unwrap();
    }
    let (queue, _) = bench.ready();
    let outcome = identify(&mut bench, queue, Identify { cns, nsid, ..Identify::default() });
    assert!(outcome.status.is_success(), "{outcome:?}");
    assert_eq!(outcome.data.len(), 4096);
    outcome.data
}

fn failure(change: impl FnOnce(&mut Identify)) -> Outcome {
    let mut bench = Bench::new();
    let (queue, _) = bench.ready();
    let mut command = Identify { nsid: 1, ..Identify::default() };
    change(&mut command);
    identify(&mut bench, queue, command)
}

fn namespace(config: NamespaceConfig) -> Namespace {
    Namespace::new(config, &CONFIG)
}

#[test]
fn the_controller_says_what_linux_needs_for_rdma() {
    let id = IdentifyController::parse(&data(Cns::CONTROLLER, 0)).unwrap();
    assert_eq!(id.cntrltype, ControllerType::IO);
    assert_eq!((id.cntlid, id.mdts, id.kas_100ms, id.maxcmd), (1, 8, 1, 128));
    assert_eq!((id.ioccsz, id.iorcsz, id.icdoff, id.msdbd), (260, 1, 0, 16));
    assert_eq!(id.sgls.bits(), 1 | 1 << 2 | 1 << 18 | 1 << 20);
    assert_eq!(id.sgls.bits().to_le_bytes(), data(Cns::CONTROLLER, 0)[536..540]);
    assert_eq!(id.ctratt.bits(), 1 | 1 << 6);
    assert_eq!(id.cmic, Cmic::MULTI_PORT | Cmic::MULTI_CONTROLLER);
    assert_eq!((id.acl.count(), id.aerl.count(), id.elpe.count()), (4, 4, 64));
    assert_eq!(id.oaes.bits(), 1 << 8);
    assert_eq!((id.nn, id.mnan), (0xffff_fffe, 1024));
    assert_eq!((id.tnvmcap, id.unvmcap), (3 * 512_000, 0));
    assert_eq!(id.oncs.bits(), 1 | 1 << 2 | 1 << 3 | 1 << 4 | 1 << 6 | 1 << 7 | 1 << 8);
    assert_eq!(id.cdfs, 0b101);
    assert_eq!((id.fuses.bits(), id.acwu.count()), (1, 128));
    assert_eq!(id.vwc.bits(), 0b111);
    assert_eq!(id.sn.as_str(), Some("SN1"));
    assert_eq!(id.mn.as_str(), Some("a model"));
    assert_eq!(id.fr.as_str(), Some(env!("CARGO_PKG_VERSION")));
    assert_eq!(id.subnqn().unwrap().as_str(), SUBNQN);
    assert_eq!((id.ver, id.lpa.bits()), (super::super::property::VERSION, 0b10_0111));
}

#[test]
fn with_small_capsules_there_are_fewer_descriptors() {
    for (in_capsule, descriptors) in [(0, 1), (16, 1), (64, 4), (256, 16), (8192, 16)] {
        let mut bench = Bench::with(crate::target::TargetConfig { in_capsule, ..CONFIG });
        let (queue, _) = bench.ready();
        let command = Identify { cns: Cns::CONTROLLER, ..Identify::default() };
        let outcome = identify(&mut bench, queue, command);
        let id = IdentifyController::parse(&outcome.data).unwrap();
        assert_eq!((id.msdbd, id.in_capsule_data_len()), (descriptors, in_capsule.into()));
    }
}

#[test]
fn a_discovery_controller_says_so_and_knows_no_other_structure() {
    let mut bench = Bench::new();
    let (queue, _) = bench.ready_discovery(0);
    let command = Identify { cns: Cns::CONTROLLER, ..Identify::default() };
    let id = identify(&mut bench, queue, command).data;
    let id = IdentifyController::parse(&id).unwrap();
    assert_eq!((id.cntrltype, id.dctype), (ControllerType::DISCOVERY, 1));
    assert_eq!(id.subnqn().unwrap().as_str(), DISCOVERY_NQN);
    assert_eq!((id.oaes.bits(), id.ioccsz, id.nn, id.maxcmd), (1 << 31, 4, 0, 32));
    for cns in [Cns::NAMESPACE, Cns::ACTIVE_NAMESPACES, Cns::CONTROLLERS] {
        let outcome = identify(&mut bench, queue, Identify { cns, nsid: 1, ..command });
        assert_eq!(outcome, logged(StatusCode::INVALID_FIELD));
    }
}

#[test]
fn a_namespace_says_its_size_and_format() {
    let id = IdentifyNamespace::parse(&data(Cns::NAMESPACE, 3)).unwrap();
    assert_eq!((id.nsze, id.ncap, id.nuse), (1000, 1000, 1000));
    assert_eq!(id.nvmcap, 512_000);
    assert_eq!((id.nlbaf.count(), id.format().block_size()), (1, Some(512)));
    assert_eq!((id.nmic.bits(), id.nsattr.bits(), id.dlfeat.bits()), (1, 0, 0b1001));
    assert_eq!((id.nsfeat.bits(), id.anagrpid), (0, 0));
    let large = NamespaceConfig { lba_shift: 12, ..namespace_config(1) };
    assert_eq!(namespace(large).identify(1 << 20).format().block_size(), Some(4096));
}

#[test]
fn what_the_backing_gives_is_in_the_namespace_structures() {
    let config = NamespaceConfig {
        read_only: true,
        nguid: [3; 16],
        eui64: [4; 8],
        discard_zeroes: false,
        volatile_cache: false,
        atomic_blocks: 8,
        optimal_blocks: 100_000,
        ..namespace_config(1)
    };
    let ns = namespace(config);
    let id = ns.identify(1 << 20);
    assert_eq!(id.nsfeat, NamespaceFeatures::ATOMIC_UNITS | NamespaceFeatures::OPTIMAL_WRITE);
    assert_eq!((id.nawun.count(), id.nawupf.count(), id.npwg.count()), (8, 8, 65536));
    assert_eq!(id.nacwu.count(), 1 << 10, "half of the largest transfer");
    assert_eq!((id.nsattr.bits(), id.dlfeat.bits()), (1, 0));
    assert_eq!((id.nguid, id.eui64), ([3; 16], [4; 8]));
    let independent = ns.identify_independent();
    assert_eq!((independent.nsfeat.bits(), independent.nsattr.bits()), (1 << 5, 1));
    let cached = namespace(namespace_config(1)).identify_independent();
    assert_eq!((cached.nsfeat.bits(), cached.nstat.bits(), cached.nmic.bits()), (0, 1, 1));
}

#[test]
fn identifiers_that_are_there_are_listed_with_the_command_set() {
    let list = data(Cns::NAMESPACE_IDENTIFIERS, 3);
    let ids: Vec<_> = NamespaceIdentifiers::new(&list).collect();
    let uuid = namespace_config(3).uuid;
    assert_eq!(ids, [NamespaceIdentifier::Uuid(uuid), NamespaceIdentifier::Csi(Csi::NVM)]);
    let all = NamespaceConfig { nguid: [3; 16], eui64: [4; 8], ..namespace_config(1) };
    let list = namespace(all).identifiers();
    assert_eq!(NamespaceIdentifiers::new(&list).count(), 4);
}

#[test]
fn an_id_without_a_namespace_is_all_zero_but_has_no_identifiers() {
    for cns in [
        Cns::NAMESPACE,
        Cns::NAMESPACE_CSI,
        Cns::NAMESPACE_INDEPENDENT,
        Cns::ALLOCATED_NAMESPACE,
        Cns::ALLOCATED_NAMESPACE_CSI,
        Cns::ALLOCATED_NAMESPACE_INDEPENDENT,
        Cns::NAMESPACE_CONTROLLERS,
    ] {
        assert_eq!(data(cns, 2), [0; 4096], "{cns}");
    }
    let outcome = failure(|id| (id.cns, id.nsid) = (Cns::NAMESPACE_IDENTIFIERS, 2));
    assert_eq!(outcome, logged(StatusCode::INVALID_FIELD));
}

#[test]
fn no_namespace_and_all_namespaces_are_invalid_where_one_is_asked_for() {
    for cns in [
        Cns::NAMESPACE,
        Cns::NAMESPACE_IDENTIFIERS,
        Cns::NAMESPACE_CSI,
        Cns::NAMESPACE_INDEPENDENT,
        Cns::ALLOCATED_NAMESPACE,
        Cns::ALLOCATED_NAMESPACE_CSI,
        Cns::ALLOCATED_NAMESPACE_INDEPENDENT,
        Cns::NAMESPACE_CONTROLLERS,
    ] {
        for nsid in [0, 1025, NSID_ALL] {
            let outcome = failure(|id| (id.cns, id.nsid) = (cns, nsid));
            assert_eq!(outcome, logged(StatusCode::INVALID_NAMESPACE_OR_FORMAT), "{cns} {nsid}");
        }
    }
}

#[test]
fn namespace_lists_start_after_the_id_given() {
    let list =
        |cns, nsid| NamespaceList::parse(&data(cns, nsid)).unwrap().iter().collect::<Vec<_>>();
    for cns in [
        Cns::ACTIVE_NAMESPACES,
        Cns::ACTIVE_NAMESPACES_CSI,
        Cns::ALLOCATED_NAMESPACES,
        Cns::ALLOCATED_NAMESPACES_CSI,
    ] {
        assert_eq!(list(cns, 0), [1, 3, 0xffff_fffe]);
        assert_eq!(list(cns, 1), [3, 0xffff_fffe]);
        assert_eq!(list(cns, 0xffff_fffd), [0xffff_fffe]);
        for nsid in [0xffff_fffe, NSID_ALL] {
            let outcome = failure(|id| (id.cns, id.nsid) = (cns, nsid));
            assert_eq!(outcome, logged(StatusCode::INVALID_NAMESPACE_OR_FORMAT));
        }
    }
}

#[test]
fn controller_lists_have_the_controllers_of_the_subsystem_from_the_id_given() {
    let mut bench = Bench::new();
    bench.ready_discovery(0);
    let (queue, _) = bench.ready();
    bench.ready();
    bench.ready();
    for (cns, nsid) in [(Cns::CONTROLLERS, 0), (Cns::NAMESPACE_CONTROLLERS, 1)] {
        for (cntid, ids) in [(0, &[1, 2, 3][..]), (2, &[2, 3]), (4, &[])] {
            let command = Identify { cns, nsid, cntid, ..Identify::default() };
            let data = identify(&mut bench, queue, command).data;
            assert_eq!(ControllerList::parse(&data).unwrap().as_slice(), ids);
        }
    }
}

#[test]
fn the_nvm_command_set_is_the_only_one() {
    let mut bench = Bench::new();
    let (queue, cntlid) = bench.ready();
    let (_, other) = bench.ready();
    for cntid in [CNTLID_DYNAMIC, cntlid, other] {
        let command = Identify { cns: Cns::IO_COMMAND_SETS, cntid, ..Identify::default() };
        let list = identify(&mut bench, queue, command).data;
        assert_eq!((list.len(), list[0]), (4096, 1));
        assert!(list[1..].iter().all(|&byte| byte == 0));
    }
}

#[test]
fn structures_of_other_command_sets_and_unknown_ones_are_invalid_fields() {
    for cns in [0x05, 0x06, 0x07, 0x1a, 0x1b].map(Cns) {
        let outcome = failure(|id| (id.cns, id.csi) = (cns, Csi::ZONED));
        assert_eq!(outcome, logged(StatusCode::INVALID_FIELD));
    }
    let outcome = failure(|id| (id.cns, id.cntid) = (Cns::IO_COMMAND_SETS, 9));
    assert_eq!(outcome, logged(StatusCode::INVALID_FIELD));
    for cns in [0x04, 0x09, 0x14, 0x15, 0x17, 0x1d, 0x20, 0xff] {
        let outcome = failure(|id| id.cns = Cns(cns));
        assert_eq!(outcome, logged(StatusCode::INVALID_FIELD), "{cns:#x}");
    }
}
