use super::super::tests::*;
use super::*;
use crate::target::{AllowedHosts, SubsystemConfig};
use nvme_spec_types::nqn::DISCOVERY_NQN;
use nvme_spec_types::{AdminOpcode, FabricsType, SglDescriptor, ZeroBased};

fn invalid(location: ConnectLocation) -> Outcome {
    Outcome {
        status: StatusCode::CONNECT_INVALID_PARAMETERS.with_dnr(),
        result: location.to_dw0().into(),
        data: Vec::new(),
    }
}

/// What becomes of an admin Connect that differs from a good one.
fn admin(change: impl FnOnce(&mut Connect, &mut ConnectData)) -> Result<u16, Outcome> {
    let mut bench = Bench::new();
    let queue = bench.open(0, 32);
    let (mut connect, mut data) = (admin_connect(), connect_data(SUBNQN, CNTLID_DYNAMIC));
    change(&mut connect, &mut data);
    bench.connect(queue, &connect, &data)
}

/// What becomes of an I/O Connect that differs from a good one.
fn io(change: impl FnOnce(&mut Connect, &mut ConnectData)) -> Result<u16, Outcome> {
    let mut bench = Bench::new();
    let (_, cntlid) = bench.ready();
    let (mut connect, mut data) = (io_connect(1), connect_data(SUBNQN, cntlid));
    change(&mut connect, &mut data);
    let queue = bench.open(connect.qid, 128);
    bench.connect(queue, &connect, &data)
}

#[test]
fn an_admin_connect_binds_and_then_completes_with_the_controller_id() {
    let mut bench = Bench::new();
    let queue = bench.open(0, 32);
    let connect = Connect { cattr: ConnectAttributes::DISABLE_SQ_FLOW_CONTROL, ..admin_connect() };
    let data = connect_data(SUBNQN, CNTLID_DYNAMIC);
    bench.feed(queue, &connect.to_command(), &data.to_bytes());
    let [TargetAction::Bind { queue: bound, binding }, TargetAction::Complete { outcome, .. }] =
        &bench.out[..]
    else {
        panic!("{:?}", bench.out);
    };
    assert_eq!(*bound, queue);
    assert_eq!((binding.qid, binding.cntlid, binding.sq_entries), (0, 1, 32));
    assert_eq!((&*binding.subnqn, &*binding.hostnqn), (SUBNQN, HOSTNQN));
    assert_eq!(binding.subsystem, bench.subsystem);
    assert!(!binding.flow_control);
    assert!(binding.view.is_none());
    assert_eq!(*outcome, Outcome::result(1));
}

#[test]
fn an_io_connect_binds_with_the_namespaces() {
    let mut bench = Bench::new();
    let (_, cntlid) = bench.ready();
    let queue = bench.open(2, 128);
    assert_eq!(bench.connect(queue, &io_connect(2), &connect_data(SUBNQN, cntlid)), Ok(cntlid));
    let [TargetAction::Bind { binding, .. }] = &bench.out[..] else { panic!("{:?}", bench.out) };
    assert_eq!((binding.qid, binding.sq_entries, binding.flow_control), (2, 128, true));
    let view = binding.view.as_ref().unwrap();
    assert_eq!(view.namespaces.iter().map(|ns| ns.nsid).collect::<Vec<_>>(), [1]);
}

#[test]
fn anything_before_connect_is_out_of_sequence() {
    let mut bench = Bench::new();
    let queue = bench.open(0, 32);
    let get = Command::fabrics(FabricsType::PROPERTY_GET, 1, SglDescriptor::NO_DATA);
    for command in [get, admin_command(AdminOpcode::IDENTIFY, 1)] {
        let outcome = bench.run(queue, &command, &[]);
        assert_eq!(outcome, refused(StatusCode::COMMAND_SEQUENCE_ERROR));
    }
}

#[test]
fn a_second_connect_on_a_queue_is_out_of_sequence() {
    let mut bench = Bench::new();
    let (admin, cntlid) = bench.ready();
    let io = bench.io_queue(cntlid, 1).unwrap();
    for queue in [admin, io] {
        let command = admin_connect().to_command();
        let data = connect_data(SUBNQN, CNTLID_DYNAMIC).to_bytes();
        let outcome = bench.run(queue, &command, &data);
        assert_eq!(outcome, logged(StatusCode::COMMAND_SEQUENCE_ERROR));
    }
}

#[test]
fn connect_data_of_another_length_is_refused() {
    let mut bench = Bench::new();
    let queue = bench.open(0, 32);
    let data = connect_data(SUBNQN, CNTLID_DYNAMIC).to_bytes();
    for data in [&data[..1023], &[], &[&data[..], &[0]].concat()] {
        let outcome = bench.run(queue, &admin_connect().to_command(), data);
        assert_eq!(outcome, refused(StatusCode::DATA_SGL_LENGTH_INVALID));
    }
}

#[test]
fn an_unknown_record_format_is_incompatible() {
    let outcome = admin(|connect, _| connect.recfmt = 1);
    assert_eq!(outcome, Err(refused(StatusCode::CONNECT_INCOMPATIBLE_FORMAT)));
}

#[test]
fn a_queue_id_other_than_the_rdma_request_had_is_refused() {
    assert_eq!(admin(|connect, _| connect.qid = 1), Err(invalid(ConnectLocation::QID)));
}

#[test]
fn the_queue_size_is_at_least_two_and_at_most_what_the_rdma_request_had() {
    let size = |raw| admin(|connect, _| connect.sqsize = ZeroBased::<u16>::from_raw(raw));
    assert_eq!(size(0), Err(invalid(ConnectLocation::SQSIZE)));
    assert_eq!(size(1), Ok(1));
    assert_eq!(size(31), Ok(1));
    assert_eq!(size(32), Err(invalid(ConnectLocation::SQSIZE)));
    assert_eq!(size(u16::MAX), Err(invalid(ConnectLocation::SQSIZE)));
}

#[test]
fn names_that_are_none_are_refused_with_their_place() {
    let outcome = admin(|_, data| data.hostnqn_field = [b'x'; 256]);
    assert_eq!(outcome, Err(invalid(ConnectLocation::HOSTNQN)));
    let outcome = admin(|_, data| data.subnqn_field = [0; 256]);
    assert_eq!(outcome, Err(invalid(ConnectLocation::SUBNQN)));
}

#[test]
fn an_unknown_subsystem_is_an_invalid_parameter() {
    let outcome = admin(|_, data| data.subnqn_field[5] = b'X');
    assert_eq!(outcome, Err(invalid(ConnectLocation::SUBNQN)));
}

#[test]
fn a_host_that_may_not_use_the_subsystem_is_an_invalid_host() {
    let mut bench = Bench::new();
    let other = "nqn.2026-01.io.example:other".to_owned();
    let hosts = AllowedHosts::Only(vec![other]);
    bench.target.set_hosts(bench.subsystem, hosts, &mut bench.out).unwrap();
    let queue = bench.open(0, 32);
    let outcome = bench.connect(queue, &admin_connect(), &connect_data(SUBNQN, CNTLID_DYNAMIC));
    assert_eq!(outcome, Err(refused(StatusCode::CONNECT_INVALID_HOST)));
}

#[test]
fn only_the_dynamic_controller_id_makes_a_controller() {
    for cntlid in [0, 1, 0xffef, 0xfffe] {
        let outcome = admin(|_, data| data.cntlid = cntlid);
        assert_eq!(outcome, Err(invalid(ConnectLocation::CNTLID)), "{cntlid:#x}");
    }
}

#[test]
fn a_refused_queue_can_connect_again() {
    let mut bench = Bench::new();
    let queue = bench.open(0, 32);
    let (good, data) = (admin_connect(), connect_data(SUBNQN, CNTLID_DYNAMIC));
    bench.connect(queue, &Connect { recfmt: 9, ..good }, &data).unwrap_err();
    assert_eq!(bench.connect(queue, &good, &data), Ok(1));
}

#[test]
fn controller_ids_are_unique_in_a_subsystem_and_come_back_late() {
    let mut bench = Bench::new();
    let (first, id) = bench.admin_to(SUBNQN, 0);
    assert_eq!(id, 1);
    assert_eq!(bench.admin_to(SUBNQN, 0).1, 2);
    bench.target.on_queue_closed(bench.now, first, &mut bench.out);
    assert_eq!(bench.admin_to(SUBNQN, 0).1, 3);
    assert_eq!(bench.admin_to(DISCOVERY_NQN, 0).1, 1);
}

#[test]
fn without_a_free_controller_id_the_subsystem_is_busy() {
    let mut bench = Bench::new();
    let subsystem = bench.target.subsystems.get_mut(&bench.subsystem).unwrap();
    assert_eq!(subsystem.allocate_cntlid(|_| true), None);
    assert_eq!(subsystem.allocate_cntlid(|id| id != 0xffef), Some(0xffef));
    assert_eq!(subsystem.allocate_cntlid(|_| false), Some(1));
}

#[test]
fn an_io_queue_of_a_controller_that_is_not_there_is_refused() {
    let outcome = io(|_, data| data.cntlid = 77);
    assert_eq!(outcome, Err(invalid(ConnectLocation::CNTLID)));
    let outcome = io(|_, data| data.cntlid = CNTLID_DYNAMIC);
    assert_eq!(outcome, Err(invalid(ConnectLocation::CNTLID)));
}

#[test]
fn an_io_queue_admitted_for_another_controller_is_refused() {
    let mut bench = Bench::new();
    let (_, one) = bench.ready();
    let (_, two) = bench.ready();
    let queue = bench.open_with(1, 128, one);
    let outcome = bench.connect(queue, &io_connect(1), &connect_data(SUBNQN, two));
    assert_eq!(outcome, Err(invalid(ConnectLocation::CNTLID)));
}

#[test]
fn an_io_queue_of_another_host_is_refused() {
    let other = Nqn::new("nqn.2026-01.io.example:other").unwrap();
    let outcome = io(|_, data| data.hostnqn_field = other.to_field());
    assert_eq!(outcome, Err(refused(StatusCode::CONNECT_INVALID_HOST)));
    let outcome = io(|_, data| data.hostid[0] ^= 1);
    assert_eq!(outcome, Err(invalid(ConnectLocation::HOSTID)));
}

#[test]
fn an_io_queue_of_another_subsystem_is_refused() {
    let mut bench = Bench::new();
    let nqn = "nqn.2026-01.io.example:more";
    let config = SubsystemConfig { nqn: nqn.to_owned(), ..subsystem_config() };
    bench.target.add_subsystem(config, &mut bench.out).unwrap();
    let (_, cntlid) = bench.ready();
    let queue = bench.open(1, 128);
    let outcome = bench.connect(queue, &io_connect(1), &connect_data(nqn, cntlid));
    assert_eq!(outcome, Err(invalid(ConnectLocation::CNTLID)));
}

#[test]
fn a_queue_id_beyond_those_granted_is_refused() {
    assert_eq!(io(|connect, _| connect.qid = 4), Ok(1));
    assert_eq!(io(|connect, _| connect.qid = 5), Err(invalid(ConnectLocation::QID)));
}

#[test]
fn a_discovery_controller_has_no_io_queues() {
    let mut bench = Bench::new();
    let (_, cntlid) = bench.ready_discovery(0);
    let queue = bench.open(1, 128);
    let outcome = bench.connect(queue, &io_connect(1), &connect_data(DISCOVERY_NQN, cntlid));
    assert_eq!(outcome, Err(invalid(ConnectLocation::QID)));
}

#[test]
fn an_io_queue_before_enabling_or_after_shutdown_is_out_of_sequence() {
    let mut bench = Bench::new();
    let (admin, cntlid) = bench.admin_to(SUBNQN, 0);
    let out_of_sequence = refused(StatusCode::COMMAND_SEQUENCE_ERROR);
    assert_eq!(bench.io_queue(cntlid, 1), Err(out_of_sequence.clone()));
    bench.set_cc(admin, ENABLE);
    assert!(bench.io_queue(cntlid, 1).is_ok());
    bench.set_cc(admin, ENABLE | 1 << 14);
    assert_eq!(bench.io_queue(cntlid, 2), Err(out_of_sequence));
}

#[test]
fn a_queue_id_in_use_is_out_of_sequence_until_its_connection_closes() {
    let mut bench = Bench::new();
    let (admin, cntlid) = bench.ready();
    let old = bench.io_queue(cntlid, 1).unwrap();
    let outcome = bench.io_queue(cntlid, 1);
    assert_eq!(outcome, Err(refused(StatusCode::COMMAND_SEQUENCE_ERROR)));
    // A reset closes the queue: its id is free before the connection is gone.
    bench.set_cc(admin, 0);
    bench.set_cc(admin, ENABLE);
    let new = bench.io_queue(cntlid, 1).unwrap();
    bench.target.on_queue_closed(bench.now, old, &mut bench.out);
    let controller = bench.target.controllers().next().unwrap();
    assert_eq!(controller.queues.iter().map(|q| q.queue).collect::<Vec<_>>(), [admin, new]);
}

/// Whether the host may connect a second time, with what is changed, over the same port or another.
fn second(
    duplicates: DuplicateHosts,
    port: u16,
    change: impl FnOnce(&mut ConnectData),
) -> Result<u16, Outcome> {
    let mut bench = Bench::new();
    let config = SubsystemConfig { duplicates, ..subsystem_config() };
    bench.target.update_subsystem(bench.subsystem, config, &mut bench.out).unwrap();
    bench.ready();
    let queue = bench.open(0, 32);
    bench.target.queues.get_mut(&queue).unwrap().info.port = port;
    let mut data = connect_data(SUBNQN, CNTLID_DYNAMIC);
    change(&mut data);
    bench.connect(queue, &admin_connect(), &data)
}

fn other_name(data: &mut ConnectData) {
    data.hostnqn_field = Nqn::new("nqn.2026-01.io.example:other").unwrap().to_field();
}

#[test]
fn a_host_that_comes_twice_is_allowed_refused_or_allowed_over_another_port() {
    let busy = Err(Outcome::error(StatusCode::CONNECT_CONTROLLER_BUSY.into()));
    let again = |duplicates, port| second(duplicates, port, |_| {});
    assert_eq!(again(DuplicateHosts::Allow, 1), Ok(2));
    assert_eq!(again(DuplicateHosts::OnePerPort, 1), busy);
    assert_eq!(again(DuplicateHosts::OnePerPort, 2), Ok(2));
    assert_eq!(again(DuplicateHosts::Refuse, 2), busy);
}

#[test]
fn a_host_is_the_same_by_its_name_or_its_identifier() {
    let busy = Err(Outcome::error(StatusCode::CONNECT_CONTROLLER_BUSY.into()));
    let refuse = DuplicateHosts::Refuse;
    assert_eq!(second(refuse, 1, other_name), busy);
    assert_eq!(second(refuse, 1, |data| data.hostid[0] ^= 1), busy);
    let stranger = |data: &mut ConnectData| {
        other_name(data);
        data.hostid[0] ^= 1;
    };
    assert_eq!(second(refuse, 1, stranger), Ok(2));
    // Nothing ties a name to an identifier where hosts may come as often as they want.
    assert_eq!(second(DuplicateHosts::Allow, 1, other_name), Ok(2));
    assert_eq!(second(DuplicateHosts::Allow, 1, |data| data.hostid[0] ^= 1), Ok(2));
}

#[test]
fn identifiers_of_zero_name_nobody() {
    let mut bench = Bench::new();
    let config = SubsystemConfig { duplicates: DuplicateHosts::Refuse, ..subsystem_config() };
    bench.target.update_subsystem(bench.subsystem, config, &mut bench.out).unwrap();
    let mut data = connect_data(SUBNQN, CNTLID_DYNAMIC);
    data.hostid = [0; 16];
    for controllers in 1..=2 {
        let queue = bench.open(0, 32);
        assert_eq!(bench.connect(queue, &admin_connect(), &data), Ok(controllers));
        other_name(&mut data);
    }
}

#[test]
fn a_refused_host_comes_back_once_its_connection_from_before_is_gone() {
    let mut bench = Bench::new();
    let config = SubsystemConfig { duplicates: DuplicateHosts::Refuse, ..subsystem_config() };
    bench.target.update_subsystem(bench.subsystem, config, &mut bench.out).unwrap();
    let (admin, _) = bench.ready();
    let queue = bench.open(0, 32);
    let data = connect_data(SUBNQN, CNTLID_DYNAMIC);
    bench.connect(queue, &admin_connect(), &data).unwrap_err();
    bench.target.on_queue_closed(bench.now, admin, &mut bench.out);
    assert_eq!(bench.connect(queue, &admin_connect(), &data), Ok(2));
}

#[test]
fn controller_ids_stay_in_the_range_of_the_subsystem_also_when_it_changes() {
    let mut bench = Bench::new();
    let set = |bench: &mut Bench, cntlids| {
        let config = SubsystemConfig { cntlids, ..subsystem_config() };
        bench.target.update_subsystem(bench.subsystem, config, &mut bench.out).unwrap();
    };
    set(&mut bench, 10..=12);
    let (first, id) = bench.admin_to(SUBNQN, 0);
    assert_eq!((id, bench.admin_to(SUBNQN, 0).1, bench.admin_to(SUBNQN, 0).1), (10, 11, 12));
    let queue = bench.open(0, 32);
    let data = connect_data(SUBNQN, CNTLID_DYNAMIC);
    let busy = Err(Outcome::error(StatusCode::CONNECT_CONTROLLER_BUSY.into()));
    assert_eq!(bench.connect(queue, &admin_connect(), &data), busy);
    bench.target.on_queue_closed(bench.now, first, &mut bench.out);
    assert_eq!(bench.admin_to(SUBNQN, 0).1, 10);
    set(&mut bench, 12..=20);
    assert_eq!(bench.admin_to(SUBNQN, 0).1, 13, "12 is in use");
    set(&mut bench, 0xffef..=0xffef);
    assert_eq!(bench.admin_to(SUBNQN, 0).1, 0xffef);
}
