//! Where a command says its data is.

use super::*;

fn read(sgl: SglDescriptor) -> Command {
    blocks(IoOpcode::READ, 0, 8, sgl)
}

fn write(sgl: SglDescriptor) -> Command {
    blocks(IoOpcode::WRITE, 0, 8, sgl)
}

#[test]
fn a_key_to_invalidate_goes_with_the_response_also_when_the_command_fails() {
    let sgl = SglDescriptor::Keyed { addr: 4, len: 4096, key: 77, invalidate: true };
    let mut rig = Rig::io();
    rig.capsule(&read(sgl), 0);
    rig.buffer(S0);
    let respond = |status, push| Action::Respond {
        slot: S0,
        completion: completion(9, status, 1),
        push,
        invalidate: Some(77),
    };
    assert_eq!(rig.io_done(S0), [respond(OK, 4096)]);
    let mut rig = Rig::io();
    rig.capsule(&read(sgl), 0);
    rig.buffer(S0);
    let status = StatusCode::UNRECOVERED_READ_ERROR.with_dnr();
    let actions = rig.event(|queue, out| queue.on_io_done(S0, ExecStatus::Failed(status), out));
    assert_eq!(actions, [respond(status, 0)]);
}

#[test]
fn an_sgl_that_is_too_short_is_refused_and_a_longer_one_is_used_in_part() {
    let mut rig = Rig::io();
    let short = StatusCode::DATA_SGL_LENGTH_INVALID.with_dnr();
    assert_eq!(rig.refused(&read(keyed(4095)), 0), short);
    assert_eq!(rig.refused(&write(keyed(0)), 0), short);
    assert_eq!(rig.refused(&write(in_capsule(0, 4095)), 4096), short);
    assert_eq!(rig.refused(&read(SglDescriptor::DataBlock { addr: 0, len: 0 }), 0), short);
    rig.capsule(&read(keyed(9999)), 0);
    assert_eq!(rig.queue.data_len(S0), 4096);
}

#[test]
fn data_in_the_capsule_must_have_arrived() {
    let mut rig = Rig::io();
    let offset = StatusCode::SGL_OFFSET_INVALID.with_dnr();
    assert_eq!(rig.refused(&write(in_capsule(0, 4096)), 4095), offset);
    assert_eq!(rig.refused(&write(in_capsule(1, 4096)), 4096), offset);
    assert_eq!(rig.refused(&write(in_capsule(u64::MAX, 4096)), 4096), offset);
    assert_eq!(rig.refused(&write(in_capsule(u64::MAX - 4095, 4096)), 4096), offset);
    // More than the queue allows, whatever was received.
    let far = in_capsule(u64::from(IN_CAPSULE) - 4095, 4096);
    assert_eq!(rig.refused(&write(far), IN_CAPSULE + 4096), offset);
    assert_ne!(rig.capsule(&write(in_capsule(0, 4096)), 4096), []);
}

#[test]
fn data_for_the_host_cannot_be_in_the_capsule() {
    let mut rig = Rig::io();
    let status = rig.refused(&read(in_capsule(0, 4096)), 4096);
    assert_eq!(status, StatusCode::INVALID_FIELD.with_dnr());
}

#[test]
fn descriptors_that_this_transport_has_not_are_refused() {
    let mut rig = Rig::io();
    let mut unknown = [0; 16];
    unknown[15] = 0x5f;
    for sgl in [
        SglDescriptor::DataBlock { addr: 0x1000, len: 4096 },
        SglDescriptor::Segment { offset: 0, len: 32 },
        SglDescriptor::Unknown { bytes: unknown },
    ] {
        let status = StatusCode::SGL_DESCRIPTOR_TYPE_INVALID.with_dnr();
        assert_eq!(rig.refused(&read(sgl), 64), status);
    }
}

fn list(count: u32) -> SglDescriptor {
    SglDescriptor::LastSegment { offset: 0, len: count * 16 }
}

fn payload(descriptors: &[SglDescriptor]) -> Vec<u8> {
    descriptors.iter().flat_map(SglDescriptor::to_bytes).collect()
}

#[test]
fn sixteen_descriptors_become_sixteen_segments() {
    let mut rig = Rig::io();
    let place = Place::Capsule(0);
    assert_eq!(rig.capsule(&read(list(16)), 256), [Action::Peek { slot: S0, place, len: 256 }]);
    let descriptors: Vec<SglDescriptor> = (0..16)
        .map(|n| SglDescriptor::Keyed { addr: n * 512, len: 256, key: n as u32, invalidate: false })
        .collect();
    let bytes = payload(&descriptors);
    let actions = rig.event(|queue, out| queue.on_payload(S0, &bytes, out));
    assert_eq!(actions, [release(1), Action::Allocate { slot: S0, len: 4096 }]);
    assert_eq!(rig.queue.segments(S0).len(), 16);
    assert_eq!(rig.queue.segments(S0)[15], RemoteSegment { addr: 15 * 512, len: 256, rkey: 15 });
}

#[test]
fn a_list_is_cut_to_what_the_command_needs() {
    let mut rig = Rig::io();
    rig.capsule(&write(list(4)), 64);
    let keyed = |len, key, invalidate| SglDescriptor::Keyed { addr: 0, len, key, invalidate };
    let bytes = payload(&[
        keyed(4000, 1, false),
        keyed(0, 2, true),
        keyed(400, 3, true),
        keyed(400, 4, true),
    ]);
    rig.event(|queue, out| queue.on_payload(S0, &bytes, out));
    let segment = |len, rkey| RemoteSegment { addr: 0, len, rkey };
    assert_eq!(rig.queue.segments(S0), [segment(4000, 1), segment(96, 3)]);
    rig.buffer(S0);
    rig.pulled(S0);
    let actions = rig.io_done(S0);
    assert!(matches!(actions[..], [Action::Respond { invalidate: Some(3), .. }]));
}

#[test]
fn bad_lists_are_refused_before_they_are_read() {
    let mut rig = Rig::io();
    let too_many = StatusCode::INVALID_NUMBER_OF_SGL_DESCRIPTORS.with_dnr();
    assert_eq!(rig.refused(&read(list(17)), 8192), too_many);
    assert_eq!(rig.refused(&read(list(0x0fff_ffff)), 8192), too_many);
    let bad = StatusCode::INVALID_SGL_SEGMENT_DESCRIPTOR.with_dnr();
    for len in [0, 8, 17, u32::MAX] {
        assert_eq!(rig.refused(&read(SglDescriptor::LastSegment { offset: 0, len }), 512), bad);
    }
    let offset = StatusCode::SGL_OFFSET_INVALID.with_dnr();
    assert_eq!(rig.refused(&read(list(2)), 31), offset);
    let far = SglDescriptor::LastSegment { offset: u64::MAX, len: 16 };
    assert_eq!(rig.refused(&read(far), 512), offset);
}

#[test]
fn a_list_with_other_descriptors_or_too_little_room_is_refused() {
    for (descriptors, status) in [
        ([keyed(4096), in_capsule(0, 16)], StatusCode::SGL_DESCRIPTOR_TYPE_INVALID),
        ([keyed(4096), list(1)], StatusCode::SGL_DESCRIPTOR_TYPE_INVALID),
        ([keyed(4000), keyed(95)], StatusCode::DATA_SGL_LENGTH_INVALID),
    ] {
        let mut rig = Rig::io();
        rig.capsule(&write(list(2)), 32);
        let bytes = payload(&descriptors);
        let actions = rig.event(|queue, out| queue.on_payload(S0, &bytes, out));
        let refused = completion(9, status.with_dnr(), 1);
        assert_eq!(actions, [release(1), respond(S0, refused, 0)]);
        rig.sent(S0);
        assert!(rig.queue.is_drained());
    }
}
