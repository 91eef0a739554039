//! Admin commands on an enabled controller.

use super::{Case, cases, with_session};
use crate::{Client, Heard, Place, Session, assert_code};
use initiator::commands;
use nvme_spec_types::{Command, StatusCode};
use std::time::Duration;

pub(super) const CASES: &[Case] = cases![
    identify_tells_what_a_fabrics_host_needs,
    the_namespace_list_is_in_order_and_can_be_entered_anywhere,
    identify_of_what_is_not_there_is_zero_or_refused,
    namespaces_have_a_lasting_name,
    unknown_admin_commands_are_refused,
    features_keep_what_was_set,
    log_pages_are_read_in_parts_and_not_beyond_their_end,
    the_error_log_remembers_what_was_refused,
    event_requests_are_held_up_to_the_limit_and_aborted,
    a_silent_host_loses_its_controller_and_a_talking_one_does_not,
    hosts_do_not_see_each_others_controllers,
];

fn le32(data: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(data[at..at + 4].try_into().unwrap())
}

fn identify_tells_what_a_fabrics_host_needs(place: &dyn Place) {
    with_session(place, |s| {
        let data = s.identify(1, 0);
        assert_eq!(u16::from_le_bytes([data[78], data[79]]), s.cntlid);
        assert_eq!(data[512], 0x66, "submission entries of 64 bytes");
        assert_eq!(data[513], 0x44, "completion entries of 16 bytes");
        assert!(le32(&data, 1792) >= 4, "IOCCSZ");
        assert_eq!(le32(&data, 1796), 1, "IORCSZ");
        assert_eq!(le32(&data, 536) & 4, 4, "keyed descriptors");
        assert!(u16::from_le_bytes([data[320], data[321]]) > 0, "keep alive is offered");
    });
}

fn the_namespace_list_is_in_order_and_can_be_entered_anywhere(place: &dyn Place) {
    with_session(place, |s| {
        let all = s.identify(2, 0);
        let ids: Vec<u32> = all.chunks(4).map(|id| le32(id, 0)).take_while(|&id| id != 0).collect();
        assert!(ids.is_sorted() && ids.contains(&1), "{ids:?}");
        let after = s.identify(2, 1);
        assert_eq!(le32(&after, 0), ids.get(1).copied().unwrap_or(0));
        let (completion, _) = s.admin_in(commands::identify(2, u32::MAX), 4096);
        assert_code(&completion, StatusCode::INVALID_NAMESPACE_OR_FORMAT);
    });
}

fn identify_of_what_is_not_there_is_zero_or_refused(place: &dyn Place) {
    with_session(place, |s| {
        let (completion, data) = s.admin_in(commands::identify(0, 77), 4096);
        assert!(completion.status.is_success() && data.iter().all(|&byte| byte == 0));
        let (completion, _) = s.admin_in(commands::identify(0, 0x1234_5678), 4096);
        assert_code(&completion, StatusCode::INVALID_NAMESPACE_OR_FORMAT);
        let (completion, _) = s.admin_in(commands::identify(0xfe, 0), 4096);
        assert_code(&completion, StatusCode::INVALID_FIELD);
        let (completion, _) = s.admin_in(commands::identify(1, 0), 4095);
        assert_code(&completion, StatusCode::DATA_SGL_LENGTH_INVALID);
        s.assert_alive();
    });
}

fn namespaces_have_a_lasting_name(place: &dyn Place) {
    with_session(place, |s| {
        let first = s.identify(3, 1);
        assert_ne!(first[1], 0, "at least one descriptor");
        assert_eq!(s.identify(3, 1), first);
    });
}

fn unknown_admin_commands_are_refused(place: &dyn Place) {
    with_session(place, |s| {
        for opcode in [0x00, 0x01, 0x04, 0x05, 0x7d, 0xc0, 0xff] {
            let mut bytes = [0u8; 64];
            (bytes[0], bytes[1], bytes[39]) = (opcode, 0x40, 0x40);
            let completion = s.admin(Command::from_bytes(bytes));
            assert_code(&completion, StatusCode::INVALID_OPCODE);
        }
        for fctype in [0x03, 0x07, 0xff] {
            let mut bytes = [0u8; 64];
            (bytes[0], bytes[1], bytes[4], bytes[39]) = (0x7f, 0x40, fctype, 0x40);
            let completion = s.admin(Command::from_bytes(bytes));
            assert_code(&completion, StatusCode::INVALID_OPCODE);
        }
        s.assert_alive();
    });
}

fn features_keep_what_was_set(place: &dyn Place) {
    with_session(place, |s| {
        const KEEP_ALIVE: u8 = 0x0f;
        const QUEUES: u8 = 0x07;
        assert!(s.admin(commands::set_features(KEEP_ALIVE, 12_000)).status.is_success());
        assert_eq!(s.admin(commands::get_features(KEEP_ALIVE)).dw0, 12_000);
        let count = s.admin(commands::get_features(QUEUES)).dw0;
        assert!(count & 0xffff == count >> 16, "as many completion as submission queues");
        let unknown = s.admin(commands::get_features(0xee));
        assert_code(&unknown, StatusCode::INVALID_FIELD);
        let unknown = s.admin(commands::set_features(0xee, 1));
        assert_code(&unknown, StatusCode::INVALID_FIELD);
        let mut save = commands::set_features(KEEP_ALIVE, 12_000);
        save.set_cdw10(u32::from(KEEP_ALIVE) | 1 << 31);
        assert_code(&s.admin(save), StatusCode::FEATURE_NOT_SAVEABLE);
    });
}

fn log_pages_are_read_in_parts_and_not_beyond_their_end(place: &dyn Place) {
    with_session(place, |s| {
        const SMART: u8 = 2;
        let (completion, whole) =
            s.admin_in(commands::get_log_page(SMART, u32::MAX, 0, 512, false), 512);
        assert!(completion.status.is_success(), "{completion:?}");
        let (_, part) = s.admin_in(commands::get_log_page(SMART, u32::MAX, 4, 8, false), 8);
        assert_eq!(part, whole[4..12]);
        let beyond = commands::get_log_page(SMART, u32::MAX, 1 << 20, 512, false);
        assert_code(&s.admin_in(beyond, 512).0, StatusCode::INVALID_FIELD);
        let unknown = commands::get_log_page(0xdd, 0, 0, 512, false);
        assert_code(&s.admin_in(unknown, 512).0, StatusCode::INVALID_LOG_PAGE);
    });
}

fn the_error_log_remembers_what_was_refused(place: &dyn Place) {
    with_session(place, |s| {
        let refused = s.admin(commands::get_features(0xee));
        let (_, log) = s.admin_in(commands::get_log_page(1, 0, 0, 64, false), 64);
        assert_ne!(le32(&log, 0), 0, "an error count");
        assert_eq!(u16::from_le_bytes([log[8], log[9]]), 0, "of the admin queue");
        assert_eq!(u16::from_le_bytes([log[10], log[11]]), refused.cid);
        let status = u16::from_le_bytes([log[12], log[13]]);
        assert_eq!(status >> 1 & 0x7ff, refused.status.code.raw());
    });
}

fn event_requests_are_held_up_to_the_limit_and_aborted(place: &dyn Place) {
    with_session(place, |s| {
        let limit = u16::from(s.identify(1, 0)[259]) + 1;
        for cid in 0..limit {
            let mut command = commands::async_event();
            command.set_cid(0x900 + cid);
            s.client.send(s.admin, command.as_bytes());
        }
        let over = s.admin(commands::async_event());
        assert_code(&over, StatusCode::AER_LIMIT_EXCEEDED);
        let mut abort = commands::abort(0, 0x900);
        abort.set_cid(0x700);
        s.client.send(s.admin, abort.as_bytes());
        let mut codes = vec![s.client.completion(s.admin), s.client.completion(s.admin)];
        codes.sort_by_key(|completion| completion.cid);
        assert_eq!(codes[0].cid, 0x700);
        assert!(codes[0].status.is_success() && codes[0].dw0 & 1 == 0, "{codes:?}");
        assert_eq!(codes[1].cid, 0x900);
        assert_code(&codes[1], StatusCode::ABORT_REQUESTED);
        let none = s.admin(commands::abort(0, 0x666));
        assert!(none.status.is_success() && none.dw0 & 1 == 1, "nothing to abort: {none:?}");
        let none = s.admin(commands::abort(9, 0x666));
        assert!(none.status.is_success() && none.dw0 & 1 == 1, "no such queue: {none:?}");
    });
}

fn a_silent_host_loses_its_controller_and_a_talking_one_does_not(place: &dyn Place) {
    let target = place.target();
    let mut other = Session::new(&target);
    let mut client = Client::new(&target);
    // Long enough for a host that an emulated processor keeps from talking for a while.
    let patience = Duration::from_secs(2);
    let (admin, _) = Session::controller(&mut client, &target, 2000);
    Session::enable(&mut client, admin);
    let began = client.now();
    let mut heard = began;
    while client.now() - began < patience * 2 {
        heard = client.now();
        assert!(client.call(admin, commands::keep_alive()).status.is_success());
        client.wait(Duration::from_millis(150));
    }
    assert_eq!(client.hear(admin), Heard::Gone);
    let after = client.now() - heard;
    assert!(after >= patience, "given up too early: {after:?}");
    assert!(after < patience * 5, "given up too late: {after:?}");
    other.assert_alive();
}

fn hosts_do_not_see_each_others_controllers(place: &dyn Place) {
    let target = place.target();
    let mut one = Session::new(&target);
    let mut two = Session::new(&target);
    assert_ne!(one.cntlid, two.cntlid);
    const KEEP_ALIVE: u8 = 0x0f;
    assert!(one.admin(commands::set_features(KEEP_ALIVE, 5_000)).status.is_success());
    assert_ne!(two.admin(commands::get_features(KEEP_ALIVE)).dw0, 5_000);
    one.fill_blocks(0, 1, 0x31);
    assert_eq!(two.read_blocks(0, 1), vec![0x31; two.block_len as usize]);
    drop(one);
    two.assert_alive();
}
