//! Connections, Connect and properties.

use super::{Case, cases};
use crate::{
    Client, Place, Session, Target, assert_code, connect, connect_data, get_property, send_connect,
    set_property,
};
use initiator::{BareQueue, commands};
use nvme_spec_types::fabrics::{
    CNTLID_DYNAMIC, Connect, ConnectLocation, Disconnect, PropertySet, PropertySize,
};
use nvme_spec_types::property::{CAP_OFFSET, CC_OFFSET, CSTS_OFFSET, Cap, Cc, Csts, VS_OFFSET};
use nvme_spec_types::rdma_cm::{CmRejectStatus, CmRequest};
use nvme_spec_types::{Completion, Nqn, StatusCode, ZeroBased};

pub(super) const CASES: &[Case] = cases![
    connection_requests_are_rejected_with_their_reason,
    an_admin_queue_needs_its_connect_first,
    connect_names_the_parameter_that_is_wrong,
    connect_of_another_format_or_length_is_refused,
    a_host_that_is_not_allowed_stays_outside,
    io_queues_join_their_own_controller_once,
    io_queues_wait_until_the_controller_is_enabled,
    properties_tell_what_the_controller_can_do,
    a_controller_that_cannot_be_enabled_that_way_says_so,
    shutdown_completes_and_reset_ends_the_io_queues,
    disconnect_ends_an_io_queue_and_no_other,
    a_capsule_too_short_ends_just_its_connection,
    an_admin_queue_that_ends_takes_its_io_queues_along,
];

/// A request that a target takes.
fn request() -> CmRequest {
    let hsqsize = ZeroBased::<u16>::saturating(32);
    CmRequest { recfmt: 0, qid: 0, hrqsize: 32, hsqsize, cntlid: 0 }
}

fn assert_parameter(completion: &Completion, location: ConnectLocation) {
    assert_code(completion, StatusCode::CONNECT_INVALID_PARAMETERS);
    assert_eq!(ConnectLocation::from_dw0(completion.dw0), location);
}

/// Connect of an admin queue with other data, on a connection of its own.
fn refused(
    client: &mut Client,
    target: &Target,
    change: impl FnOnce(&mut Connect, &mut Vec<u8>),
) -> Completion {
    let queue = client.open(0, 32, 0).expect("a connection");
    let (mut command, mut data) = (connect(0), connect_data(target.subnqn(), CNTLID_DYNAMIC));
    change(&mut command, &mut data);
    send_connect(client, queue, command, &data)
}

fn connection_requests_are_rejected_with_their_reason(place: &dyn Place) {
    let target = place.target();
    let mut client = Client::new(&target);
    let size = |count| ZeroBased::<u16>::from_raw(count);
    for (change, status) in [
        (CmRequest { recfmt: 1, ..request() }, CmRejectStatus::INVALID_RECFMT),
        (CmRequest { qid: 0xffff, ..request() }, CmRejectStatus::INVALID_QID),
        (CmRequest { hsqsize: size(0), ..request() }, CmRejectStatus::INVALID_HSQSIZE),
        (CmRequest { hsqsize: size(32), ..request() }, CmRejectStatus::INVALID_HSQSIZE),
        (CmRequest { hrqsize: 0, ..request() }, CmRejectStatus::INVALID_HRQSIZE),
        (CmRequest { qid: 1, cntlid: 0x7777, ..request() }, CmRejectStatus::INVALID_CNTLID),
    ] {
        let answer = client.open_with(&change.to_bytes());
        assert_eq!(answer, Err(Some(status)), "{change:?}");
    }
    assert!(client.open_with(&request().to_bytes()).is_ok());
}

fn an_admin_queue_needs_its_connect_first(place: &dyn Place) {
    let target = place.target();
    let mut client = Client::new(&target);
    let queue = client.open(0, 32, 0).expect("a connection");
    let early = client.call(queue, commands::keep_alive());
    assert_code(&early, StatusCode::COMMAND_SEQUENCE_ERROR);
    let early = get_property(&mut client, queue, CAP_OFFSET, PropertySize::Eight);
    assert_code(&early, StatusCode::COMMAND_SEQUENCE_ERROR);
    let data = connect_data(target.subnqn(), CNTLID_DYNAMIC);
    assert!(send_connect(&mut client, queue, connect(0), &data).status.is_success());
    let second = send_connect(&mut client, queue, connect(0), &data);
    assert_code(&second, StatusCode::COMMAND_SEQUENCE_ERROR);
    Session::enable(&mut client, queue);
}

fn connect_names_the_parameter_that_is_wrong(place: &dyn Place) {
    let target = place.target();
    let mut client = Client::new(&target);
    let other = Nqn::new("nqn.2026-11.io.nvmfd:nobody-has-this").unwrap();
    let other = connect_data(other, CNTLID_DYNAMIC);
    let wrong = refused(&mut client, &target, |_, data| *data = other);
    assert_parameter(&wrong, ConnectLocation::SUBNQN);
    let wrong = refused(&mut client, &target, |_, data| data[256..512].fill(b'x'));
    assert_parameter(&wrong, ConnectLocation::SUBNQN);
    let wrong = refused(&mut client, &target, |_, data| data[512..768].fill(0));
    assert_parameter(&wrong, ConnectLocation::HOSTNQN);
    let wrong = refused(&mut client, &target, |_, data| data[16..18].fill(3));
    assert_parameter(&wrong, ConnectLocation::CNTLID);
    let wrong = refused(&mut client, &target, |connect, _| connect.qid = 1);
    assert_parameter(&wrong, ConnectLocation::QID);
    let zero = ZeroBased::<u16>::from_raw(0);
    let wrong = refused(&mut client, &target, |connect, _| connect.sqsize = zero);
    assert_parameter(&wrong, ConnectLocation::SQSIZE);
    let wrong = refused(&mut client, &target, |connect, _| {
        connect.sqsize = ZeroBased::<u16>::saturating(33);
    });
    assert_parameter(&wrong, ConnectLocation::SQSIZE);
}

fn connect_of_another_format_or_length_is_refused(place: &dyn Place) {
    let target = place.target();
    let mut client = Client::new(&target);
    let wrong = refused(&mut client, &target, |connect, _| connect.recfmt = 1);
    assert_code(&wrong, StatusCode::CONNECT_INCOMPATIBLE_FORMAT);
    let wrong = refused(&mut client, &target, |_, data| data.truncate(1023));
    assert_code(&wrong, StatusCode::DATA_SGL_LENGTH_INVALID);
}

fn a_host_that_is_not_allowed_stays_outside(place: &dyn Place) {
    let target = place.target();
    let Some(closed) = target.closed_subnqn() else { return };
    let mut client = Client::new(&target);
    let data = connect_data(closed, CNTLID_DYNAMIC);
    let wrong = refused(&mut client, &target, |_, good| *good = data);
    assert_code(&wrong, StatusCode::CONNECT_INVALID_HOST);
}

fn io_queues_join_their_own_controller_once(place: &dyn Place) {
    let target = place.target();
    let mut s = Session::new(&target);
    let again = s.join(1).expect_err("queue 1 is there already");
    assert_code(&again, StatusCode::COMMAND_SEQUENCE_ERROR);
    let queue = s.join(2).expect("queue 2 is free");
    assert!(s.client.call(queue, commands::flush(1)).status.is_success());
    s.assert_alive();
    let twice = s.client.open(3, 32, s.cntlid).expect("a connection");
    let stranger = connect_data(target.subnqn(), s.cntlid ^ 0x4000);
    let wrong = send_connect(&mut s.client, twice, connect(3), &stranger);
    assert_parameter(&wrong, ConnectLocation::CNTLID);
    let mut stranger = connect_data(target.subnqn(), s.cntlid);
    stranger[0] ^= 1; // another host identifier
    let wrong = send_connect(&mut s.client, twice, connect(3), &stranger);
    assert_parameter(&wrong, ConnectLocation::HOSTID);
}

fn io_queues_wait_until_the_controller_is_enabled(place: &dyn Place) {
    let target = place.target();
    let mut client = Client::new(&target);
    let (admin, cntlid) = Session::controller(&mut client, &target, 0);
    let queue = client.open(1, 32, cntlid).expect("a connection");
    let data = connect_data(target.subnqn(), cntlid);
    let early = send_connect(&mut client, queue, connect(1), &data);
    assert_code(&early, StatusCode::COMMAND_SEQUENCE_ERROR);
    let early = client.call(admin, commands::identify(1, 0));
    assert_code(&early, StatusCode::COMMAND_SEQUENCE_ERROR);
    Session::enable(&mut client, admin);
    assert!(send_connect(&mut client, queue, connect(1), &data).status.is_success());
}

fn properties_tell_what_the_controller_can_do(place: &dyn Place) {
    let target = place.target();
    let mut client = Client::new(&target);
    let (admin, _) = Session::controller(&mut client, &target, 0);
    let cap = Cap(get_property(&mut client, admin, CAP_OFFSET, PropertySize::Eight).result64());
    assert!(cap.max_queue_entries() >= 2, "{cap:?}");
    let version = get_property(&mut client, admin, VS_OFFSET, PropertySize::Four);
    assert!(version.dw0 >= 0x0001_0300, "older than NVMe 1.3: {version:?}");
    let csts = get_property(&mut client, admin, CSTS_OFFSET, PropertySize::Four);
    assert_eq!(csts.dw0, 0, "not ready and not failed");
    // Wrong sizes and places.
    for (offset, size) in [
        (CAP_OFFSET, PropertySize::Four),
        (VS_OFFSET, PropertySize::Eight),
        (2, PropertySize::Four),
        (0x10000, PropertySize::Four),
    ] {
        let wrong = get_property(&mut client, admin, offset, size);
        assert_code(&wrong, StatusCode::INVALID_FIELD);
    }
    assert_code(&set_property(&mut client, admin, CAP_OFFSET, 0), StatusCode::INVALID_FIELD);
    let eight = PropertySet { cid: 0, size: PropertySize::Eight, offset: CC_OFFSET, value: 0 };
    assert_code(&client.call(admin, eight.to_command()), StatusCode::INVALID_FIELD);
    Session::enable(&mut client, admin);
}

fn a_controller_that_cannot_be_enabled_that_way_says_so(place: &dyn Place) {
    let target = place.target();
    let mut client = Client::new(&target);
    let (admin, _) = Session::controller(&mut client, &target, 0);
    let cc = Cc::default().with_en(true).with_iosqes(5).with_iocqes(4);
    set_property(&mut client, admin, CC_OFFSET, cc.0);
    let csts = Csts(get_property(&mut client, admin, CSTS_OFFSET, PropertySize::Four).dw0);
    assert!(csts.cfs() && !csts.rdy(), "{csts:?}");
    set_property(&mut client, admin, CC_OFFSET, 0);
    Session::enable(&mut client, admin);
}

fn shutdown_completes_and_reset_ends_the_io_queues(place: &dyn Place) {
    let target = place.target();
    let mut other = Session::new(&target);
    let mut s = Session::new(&target);
    let enabled = Cc::default().with_en(true).with_iosqes(6).with_iocqes(4);
    set_property(&mut s.client, s.admin, CC_OFFSET, enabled.with_shn(1).0);
    let csts = get_property(&mut s.client, s.admin, CSTS_OFFSET, PropertySize::Four);
    assert_eq!(Csts(csts.dw0).shst(), 2, "shutdown complete");
    set_property(&mut s.client, s.admin, CC_OFFSET, 0);
    assert!(s.client.ends(s.io), "a reset ends I/O queues");
    let csts = get_property(&mut s.client, s.admin, CSTS_OFFSET, PropertySize::Four);
    assert!(!Csts(csts.dw0).rdy());
    other.assert_alive();
}

fn disconnect_ends_an_io_queue_and_no_other(place: &dyn Place) {
    let target = place.target();
    let mut s = Session::new(&target);
    let second = s.join(2).expect("queue 2");
    let disconnect = Disconnect { cid: 0, recfmt: 0 }.to_command();
    let refused = s.admin(disconnect);
    assert_code(&refused, StatusCode::INVALID_QUEUE_TYPE);
    assert!(s.client.call(second, disconnect).status.is_success());
    assert!(s.client.ends(second));
    s.assert_alive();
    s.join(2).expect("queue 2 is free again");
}

fn a_capsule_too_short_ends_just_its_connection(place: &dyn Place) {
    let target = place.target();
    let mut other = Session::new(&target);
    for len in [1usize, 16, 63] {
        let mut s = Session::new(&target);
        s.client.send(s.io, &vec![0; len]);
        assert!(s.client.ends(s.io), "{len} bytes");
    }
    other.assert_alive();
}

fn an_admin_queue_that_ends_takes_its_io_queues_along(place: &dyn Place) {
    let target = place.target();
    let mut other = Session::new(&target);
    let mut s = Session::new(&target);
    let BareQueue(_) = s.io;
    s.client.close(s.admin);
    assert!(s.client.ends(s.io));
    other.assert_alive();
}
