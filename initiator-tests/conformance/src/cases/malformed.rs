//! Admin commands that are wrong in form or come at the wrong time: each is answered, is in the
//! error log with the field at fault, and harms nobody.

use super::{Case, cases, with_session};
use crate::{Place, Session, assert_code, get_property, set_property};
use initiator::commands;
use nvme_spec_types::fabrics::PropertySize;
use nvme_spec_types::property::{CC_OFFSET, CSTS_OFFSET, Cc, Csts};
use nvme_spec_types::{Command, Completion, SglDescriptor, StatusCode};

pub(super) const CASES: &[Case] = cases![
    admin_commands_in_a_wrong_form_are_refused_with_their_place,
    io_commands_mean_nothing_on_the_admin_queue,
    failures_of_io_commands_are_in_the_error_log,
    a_flood_of_failures_leaves_the_controller_at_work,
    before_it_is_enabled_a_controller_takes_properties_only,
    after_a_shutdown_a_controller_takes_properties_only,
];

/// The newest entry of the error log: queue, command id, status code, and byte and bit at fault.
fn newest(s: &mut Session) -> (u16, u16, u16, u16) {
    let (completion, log) = s.admin_in(commands::get_log_page(1, 0, 0, 64, false), 64);
    assert!(completion.status.is_success(), "{completion:?}");
    let le16 = |at: usize| u16::from_le_bytes([log[at], log[at + 1]]);
    (le16(8), le16(10), le16(12) >> 1 & 0x7ff, le16(14))
}

#[track_caller]
pub(super) fn assert_logged(s: &mut Session, qid: u16, completion: &Completion, place: u16) {
    let code = completion.status.code.raw();
    // The report of a data core may arrive after its completion.
    let mut found = newest(s);
    for _ in 0..100 {
        if found.1 == completion.cid {
            break;
        }
        s.identify(1, 0);
        found = newest(s);
    }
    assert_eq!(found, (qid, completion.cid, code, place));
}

fn identify_with(s: &mut Session, flags: u8, sgl: SglDescriptor) -> Completion {
    let mut command = commands::identify(1, 0);
    command.set_sgl1(sgl);
    let mut bytes = *command.as_bytes();
    bytes[1] = flags;
    s.client.call(s.admin, Command::from_bytes(bytes))
}

fn admin_commands_in_a_wrong_form_are_refused_with_their_place(place: &dyn Place) {
    with_session(place, |s| {
        let buffer = s.client.buffer(s.admin, 4096, 0);
        let good = buffer.sgl();
        const SGL: u8 = 0x40;
        for (flags, sgl, code, at) in [
            (0x00, good, StatusCode::INVALID_FIELD, 1 | 6 << 8),
            (0xc0, good, StatusCode::INVALID_FIELD, 1 | 6 << 8),
            (SGL | 1, good, StatusCode::INVALID_FIELD, 1),
            (SGL | 2, good, StatusCode::INVALID_FIELD, 1),
            (
                SGL,
                SglDescriptor::Segment { offset: 0, len: 16 },
                StatusCode::SGL_DESCRIPTOR_TYPE_INVALID,
                39,
            ),
            (SGL, buffer.part(0, 4092), StatusCode::DATA_SGL_LENGTH_INVALID, 24),
            (SGL, SglDescriptor::InCapsule { offset: 0, len: 4096 }, StatusCode::INVALID_FIELD, 39),
        ] {
            let completion = identify_with(s, flags, sgl);
            assert_code(&completion, code);
            assert!(completion.status.dnr && completion.status.more, "{completion:?}");
            assert_logged(s, 0, &completion, at);
        }
        assert_eq!(s.client.read(buffer), vec![0; 4096], "nothing was written");
        assert!(identify_with(s, SGL, good).status.is_success());
        s.assert_alive();
    });
}

fn io_commands_mean_nothing_on_the_admin_queue(place: &dyn Place) {
    with_session(place, |s| {
        s.fill_blocks(0, 8, 0x66);
        // Write, Write Zeroes and Dataset Management have admin opcodes that mean something else,
        // or none: whatever is answered, no block changes.
        for command in [
            commands::write(1, 0, 1, false),
            commands::compare(1, 0, 1),
            commands::write_zeroes(1, 0, 8, true, false),
            commands::deallocate(1, 1),
        ] {
            let buffer = s.client.buffer(s.admin, 4096, 0);
            let mut command = command;
            command.set_sgl1(buffer.sgl());
            s.client.call(s.admin, command);
        }
        assert_eq!(s.read_blocks(0, 8), vec![0x66; 8 * s.block_len as usize]);
        s.assert_alive();
    });
}

fn failures_of_io_commands_are_in_the_error_log(place: &dyn Place) {
    with_session(place, |s| {
        let beyond = s.blocks;
        let buffer = s.buffer(s.block_len, 0);
        let completion = s.io(commands::read(1, beyond, 1, false), buffer);
        assert_code(&completion, StatusCode::LBA_OUT_OF_RANGE);
        assert!(completion.status.more, "there is more in the log: {completion:?}");
        assert_logged(s, 1, &completion, 40);
        let completion = s.io(commands::read(0x77, 0, 1, false), buffer);
        assert_logged(s, 1, &completion, 4);
        // A difference is an answer and no failure.
        s.fill_blocks(0, 1, 0x12);
        let completion = s.io(commands::compare(1, 0, 1), buffer);
        assert_code(&completion, StatusCode::COMPARE_FAILURE);
        assert!(!completion.status.more);
    });
}

fn a_flood_of_failures_leaves_the_controller_at_work(place: &dyn Place) {
    let target = place.target();
    let mut other = Session::new(&target);
    let mut s = Session::new(&target);
    let mut bytes = *commands::read(1, 0, 1, false).as_bytes();
    bytes[0] = 0xc7;
    for _ in 0..40 {
        for _ in 0..16 {
            let mut command = Command::from_bytes(bytes);
            command.set_cid(s.client.cid());
            s.client.send(s.io, command.as_bytes());
        }
        for _ in 0..16 {
            assert_code(&s.client.completion(s.io), StatusCode::INVALID_OPCODE);
        }
    }
    other.assert_alive();
    s.assert_alive();
    let (_, log) = s.admin_in(commands::get_log_page(1, 0, 0, 4096, false), 4096);
    let count = u64::from_le_bytes(log[..8].try_into().expect("eight bytes"));
    assert!((1..=640).contains(&count), "{count} errors");
}

/// Commands that need an enabled controller.
fn assert_out_of_sequence(s: &mut Session) {
    for command in [
        commands::identify(1, 0),
        commands::get_features(0x07),
        commands::set_features(0x0b, 0),
        commands::get_log_page(1, 0, 0, 64, false),
        commands::async_event(),
        commands::abort(1, 1),
    ] {
        let (completion, _) = s.admin_in(command, 4096);
        assert_code(&completion, StatusCode::COMMAND_SEQUENCE_ERROR);
        assert!(completion.status.dnr);
    }
}

fn before_it_is_enabled_a_controller_takes_properties_only(place: &dyn Place) {
    with_session(place, |s| {
        set_property(&mut s.client, s.admin, CC_OFFSET, 0);
        assert!(s.client.ends(s.io), "a reset ends I/O queues");
        assert_out_of_sequence(s);
        assert!(s.admin(commands::keep_alive()).status.is_success());
        Session::enable(&mut s.client, s.admin);
        s.identify(1, 0);
    });
}

fn after_a_shutdown_a_controller_takes_properties_only(place: &dyn Place) {
    let target = place.target();
    let mut other = Session::new(&target);
    let mut s = Session::new(&target);
    s.fill_blocks(0, 8, 0x7a);
    let enabled = Cc::default().with_en(true).with_iosqes(6).with_iocqes(4);
    let set = set_property(&mut s.client, s.admin, CC_OFFSET, enabled.with_shn(1).0);
    assert!(set.status.is_success(), "{set:?}");
    let csts = get_property(&mut s.client, s.admin, CSTS_OFFSET, PropertySize::Four);
    assert_eq!(Csts(csts.dw0).shst(), 2, "shutdown complete");
    assert_out_of_sequence(&mut s);
    assert_eq!(other.read_blocks(0, 8), vec![0x7a; 8 * other.block_len as usize]);
    set_property(&mut s.client, s.admin, CC_OFFSET, 0);
    Session::enable(&mut s.client, s.admin);
    s.identify(1, 0);
}
