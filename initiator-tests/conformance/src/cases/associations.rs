//! Which hosts belong to which controllers, and how they come back.

use super::{Case, cases};
use crate::offer::MAX_IO_QUEUES;
use crate::{
    Client, Heard, Place, Session, assert_code, connect, connect_data, send_connect, set_property,
};
use initiator::{BareQueue, commands};
use nvme_spec_types::fabrics::{CNTLID_DYNAMIC, ConnectResponse};
use nvme_spec_types::property::{CC_OFFSET, Cc};
use nvme_spec_types::rdma_cm::{CmRejectStatus, CmRequest};
use nvme_spec_types::{Nqn, StatusCode, ZeroBased};

pub(super) const CASES: &[Case] = cases![
    a_host_may_have_several_controllers,
    a_name_and_an_identifier_are_not_tied_to_each_other,
    controller_ids_are_not_used_again_soon,
    a_queue_that_was_lost_can_be_made_again,
    a_host_that_vanished_comes_back_at_once,
    a_reset_controller_takes_the_same_queues_again,
    a_reset_under_load_ends_what_is_outstanding,
    a_shutdown_under_load_answers_what_is_outstanding,
    as_many_io_queues_as_granted_and_no_more,
    four_controllers_with_all_their_queues_serve_at_a_time,
];

/// Reads outstanding when something happens to them.
const LOAD: usize = 16;

fn enabled() -> Cc {
    Cc::default().with_en(true).with_iosqes(6).with_iocqes(4)
}

fn a_host_may_have_several_controllers(place: &dyn Place) {
    let target = place.target();
    let mut one = Session::new(&target);
    let mut two = Session::new(&target);
    assert_ne!(one.cntlid, two.cntlid);
    one.fill_blocks(0, 1, 0xa1);
    assert!(two.read_blocks(0, 1).iter().all(|&byte| byte == 0xa1));
    one.client.close(one.admin);
    two.assert_alive();
}

fn a_name_and_an_identifier_are_not_tied_to_each_other(place: &dyn Place) {
    let target = place.target();
    let mut client = Client::new(&target);
    let good = connect_data(target.subnqn(), CNTLID_DYNAMIC);
    let other = Nqn::new("nqn.2014-08.org.example:other-name").expect("a name");
    let (mut other_name, mut other_id) = (good.clone(), good.clone());
    other_name[512..768].copy_from_slice(&other.to_field());
    other_id[0] ^= 1;
    for data in [good, other_name, other_id] {
        let queue = client.open(0, 32, 0).expect("a connection");
        let completion = send_connect(&mut client, queue, connect(0), &data);
        assert!(completion.status.is_success(), "{completion:?}");
    }
}

fn controller_ids_are_not_used_again_soon(place: &dyn Place) {
    let target = place.target();
    let mut client = Client::new(&target);
    let mut seen = Vec::new();
    for _ in 0..8 {
        let (admin, cntlid) = Session::controller(&mut client, &target, 0);
        assert!(!seen.contains(&cntlid), "{cntlid} again, after {seen:?}");
        seen.push(cntlid);
        client.close(admin);
    }
}

fn a_queue_that_was_lost_can_be_made_again(place: &dyn Place) {
    let target = place.target();
    let mut s = Session::new(&target);
    for _ in 0..3 {
        s.client.close(s.io);
        s.io = joined(&mut s, 1);
        s.assert_alive();
    }
}

/// Makes queue `qid`, which the target may not have seen end yet.
fn joined(s: &mut Session, qid: u16) -> BareQueue {
    for _ in 0..100 {
        match s.join(qid) {
            Ok(queue) => return queue,
            Err(completion) => assert_code(&completion, StatusCode::COMMAND_SEQUENCE_ERROR),
        }
    }
    panic!("queue {qid} is never free again");
}

fn a_host_that_vanished_comes_back_at_once(place: &dyn Place) {
    let target = place.target();
    let mut first = Session::new(&target);
    load(&mut first);
    // Its old controller is there still, with all its queues.
    let mut second = Session::new(&target);
    second.assert_alive();
    assert_ne!(first.cntlid, second.cntlid);
    drop(first);
    second.assert_alive();
}

fn a_reset_controller_takes_the_same_queues_again(place: &dyn Place) {
    let target = place.target();
    let mut s = Session::new(&target);
    for _ in 0..3 {
        set_property(&mut s.client, s.admin, CC_OFFSET, 0);
        assert!(s.client.ends(s.io));
        Session::enable(&mut s.client, s.admin);
        s.io = s.join(1).expect("queue 1 is free");
        s.assert_alive();
    }
}

/// Asks for many reads and waits for none.
fn load(s: &mut Session) {
    for _ in 0..LOAD {
        let buffer = s.buffer(16 * s.block_len, 0);
        let mut command = commands::read(1, 0, 16, false);
        command.set_sgl1(buffer.sgl());
        let cid = s.client.cid();
        command.set_cid(cid);
        s.client.send(s.io, command.as_bytes());
    }
}

/// What came on the I/O queue until it ended: completions.
fn completions_until_end(s: &mut Session) -> usize {
    let mut count = 0;
    loop {
        match s.client.hear(s.io) {
            Heard::Completion(..) => count += 1,
            Heard::Gone => return count,
        }
    }
}

fn a_reset_under_load_ends_what_is_outstanding(place: &dyn Place) {
    let target = place.target();
    let mut other = Session::new(&target);
    let mut s = Session::new(&target);
    for _ in 0..4 {
        load(&mut s);
        set_property(&mut s.client, s.admin, CC_OFFSET, 0);
        assert!(completions_until_end(&mut s) <= LOAD);
        Session::enable(&mut s.client, s.admin);
        s.io = s.join(1).expect("queue 1 is free");
        s.assert_alive();
        other.assert_alive();
    }
}

fn a_shutdown_under_load_answers_what_is_outstanding(place: &dyn Place) {
    let target = place.target();
    let mut other = Session::new(&target);
    for abrupt in [1, 2] {
        let mut s = Session::new(&target);
        load(&mut s);
        set_property(&mut s.client, s.admin, CC_OFFSET, enabled().with_shn(abrupt).0);
        for _ in 0..LOAD {
            s.client.completion(s.io);
        }
        // Nothing is lost if the host then just goes.
        s.client.close(s.admin);
        assert!(s.client.ends(s.io));
        other.assert_alive();
    }
}

fn as_many_io_queues_as_granted_and_no_more(place: &dyn Place) {
    let target = place.target();
    if !target.is_own() {
        return;
    }
    let mut s = Session::new(&target);
    // Queue 1 is there; the feature cannot be set after that, and grants what was asked before.
    for qid in 2..=MAX_IO_QUEUES {
        let queue = s.join(qid).expect("a queue that was granted");
        assert!(s.client.call(queue, commands::flush(1)).status.is_success());
    }
    let hsqsize = ZeroBased::<u16>::saturating(32);
    let qid = MAX_IO_QUEUES + 1;
    let request = CmRequest { recfmt: 0, qid, hrqsize: 32, hsqsize, cntlid: s.cntlid };
    let answer = s.client.open_with(&request.to_bytes());
    assert_eq!(answer, Err(Some(CmRejectStatus::INVALID_QID)));
    s.assert_alive();
}

fn four_controllers_with_all_their_queues_serve_at_a_time(place: &dyn Place) {
    let target = place.target();
    if !target.is_own() {
        return;
    }
    let mut sessions: Vec<Session> = (0..4).map(|_| Session::new(&target)).collect();
    for s in &mut sessions {
        for qid in 2..=MAX_IO_QUEUES {
            s.join(qid).expect("a queue");
        }
    }
    let mut ids: Vec<u16> = sessions.iter().map(|s| s.cntlid).collect();
    ids.dedup();
    assert_eq!(ids.len(), 4);
    for s in &mut sessions {
        s.assert_alive();
    }
    let data = connect_data(target.subnqn(), CNTLID_DYNAMIC);
    let mut client = Client::new(&target);
    let queue = client.open(0, 32, 0).expect("a connection");
    let fifth = send_connect(&mut client, queue, connect(0), &data);
    assert!(!ids.contains(&ConnectResponse::from_dw0(fifth.dw0).cntlid));
}
