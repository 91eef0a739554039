use super::super::tests::*;
use super::*;
use crate::QueueKey;
use nvme_spec_types::SglDescriptor;
use nvme_spec_types::feature::Timestamp;
use nvme_spec_types::status::StatusCode;

fn get(bench: &mut Bench, queue: QueueKey, get: GetFeatures) -> Outcome {
    bench.run(queue, &get.to_command(1, SglDescriptor::NO_DATA), &[])
}

fn set(bench: &mut Bench, queue: QueueKey, set: SetFeatures) -> Outcome {
    bench.run(queue, &set.to_command(1, SglDescriptor::NO_DATA), &[])
}

fn getting(fid: FeatureId, sel: FeatureSelect, cdw11: u32) -> GetFeatures {
    GetFeatures { nsid: 0, fid, sel, cdw11, uuid_index: 0 }
}

fn setting(fid: FeatureId, cdw11: u32) -> SetFeatures {
    SetFeatures { nsid: 0, fid, save: false, cdw11, cdw12: 0, uuid_index: 0 }
}

/// Sets a value; returns what is then current and default.
fn after_setting(fid: FeatureId, value: u32, which: u32) -> (u64, u64) {
    let mut bench = Bench::new();
    let (queue, _) = bench.ready();
    assert_eq!(set(&mut bench, queue, setting(fid, value)), Outcome::ok());
    let current = get(&mut bench, queue, getting(fid, FeatureSelect::CURRENT, which));
    let default = get(&mut bench, queue, getting(fid, FeatureSelect::DEFAULT, which));
    let saved = get(&mut bench, queue, getting(fid, FeatureSelect::SAVED, which));
    assert_eq!(saved, default);
    (current.result, default.result)
}

fn refusal(fid: FeatureId, value: u32) -> StatusCode {
    let mut bench = Bench::new();
    let (queue, _) = bench.ready();
    let outcome = set(&mut bench, queue, setting(fid, value));
    assert!(outcome.status.dnr && outcome.status.more);
    outcome.status.code
}

#[test]
fn values_are_kept_beside_their_defaults() {
    assert_eq!(after_setting(FeatureId::ARBITRATION, 0x0102_0303, 0), (0x0102_0303, 7));
    assert_eq!(after_setting(FeatureId::WRITE_ATOMICITY, 1, 0), (1, 0));
    assert_eq!(after_setting(FeatureId::ASYNC_EVENT, 0, 0), (0, 1 << 8));
    assert_eq!(after_setting(FeatureId::POWER_MANAGEMENT, 0x40, 0), (0x40, 0));
    assert_eq!(after_setting(FeatureId::VOLATILE_WRITE_CACHE, 1, 0), (1, 1));
    assert_eq!(after_setting(FeatureId::IO_COMMAND_SET_PROFILE, 0, 0), (0, 0));
}

#[test]
fn temperature_thresholds_are_kept_over_and_under() {
    let under = 1 << 20;
    assert_eq!(after_setting(FeatureId::TEMPERATURE_THRESHOLD, 343, 0), (343, 0xffff));
    assert_eq!(after_setting(FeatureId::TEMPERATURE_THRESHOLD, under | 273, under), (273, 0));
    assert_eq!(after_setting(FeatureId::TEMPERATURE_THRESHOLD, 0xf << 16 | 9, 0), (9, 0xffff));
    assert_eq!(refusal(FeatureId::TEMPERATURE_THRESHOLD, 1 << 16), StatusCode::INVALID_FIELD);
    assert_eq!(refusal(FeatureId::TEMPERATURE_THRESHOLD, 2 << 20), StatusCode::INVALID_FIELD);
}

#[test]
fn a_reset_brings_the_defaults_back() {
    let mut bench = Bench::new();
    let (queue, _) = bench.ready();
    set(&mut bench, queue, setting(FeatureId::ARBITRATION, 0));
    set(&mut bench, queue, setting(FeatureId::NUMBER_OF_QUEUES, 0));
    bench.set_cc(queue, 0);
    bench.set_cc(queue, ENABLE);
    let current = |fid| getting(fid, FeatureSelect::CURRENT, 0);
    let outcome = get(&mut bench, queue, current(FeatureId::ARBITRATION));
    assert_eq!(outcome, Outcome::result(7));
    let outcome = get(&mut bench, queue, current(FeatureId::NUMBER_OF_QUEUES));
    assert_eq!(outcome, Outcome::result(0x0003_0003));
}

#[test]
fn as_many_queues_are_granted_as_asked_for_up_to_the_most() {
    for (asked, granted) in [
        (0, 0),
        (0x0001_0001, 0x0001_0001),
        (0x0005_0002, 0x0002_0002),
        (0x0001_0002, 0x0001_0001),
        (0x00ff_00ff, 0x0003_0003),
    ] {
        let mut bench = Bench::new();
        let (queue, _) = bench.ready();
        let outcome = set(&mut bench, queue, setting(FeatureId::NUMBER_OF_QUEUES, asked));
        assert_eq!(outcome, Outcome::result(granted), "{asked:#x}");
        let current = getting(FeatureId::NUMBER_OF_QUEUES, FeatureSelect::CURRENT, 0);
        assert_eq!(get(&mut bench, queue, current), Outcome::result(granted));
    }
    let invalid = StatusCode::INVALID_FIELD;
    assert_eq!(refusal(FeatureId::NUMBER_OF_QUEUES, 0x0000_ffff), invalid);
    assert_eq!(refusal(FeatureId::NUMBER_OF_QUEUES, 0xffff_0000), invalid);
}

#[test]
fn the_number_of_queues_is_fixed_while_there_are_some() {
    let mut bench = Bench::new();
    let (queue, cntlid) = bench.ready();
    set(&mut bench, queue, setting(FeatureId::NUMBER_OF_QUEUES, 0x0001_0001));
    assert!(bench.io_queue(cntlid, 3).is_err());
    bench.io_queue(cntlid, 2).unwrap();
    let outcome = set(&mut bench, queue, setting(FeatureId::NUMBER_OF_QUEUES, 0));
    assert_eq!(outcome, logged(StatusCode::COMMAND_SEQUENCE_ERROR));
}

#[test]
fn error_recovery_is_of_a_namespace() {
    let mut bench = Bench::new();
    let (queue, _) = bench.ready();
    bench.target.add_namespace(bench.subsystem, namespace_config(2), &mut bench.out).unwrap();
    let fid = FeatureId::ERROR_RECOVERY;
    let with = |nsid, value| SetFeatures { nsid, ..setting(fid, value) };
    let of = |nsid| GetFeatures { nsid, ..getting(fid, FeatureSelect::CURRENT, 0) };
    assert_eq!(set(&mut bench, queue, with(2, 50)), Outcome::ok());
    assert_eq!(get(&mut bench, queue, of(2)), Outcome::result(50));
    assert_eq!(get(&mut bench, queue, of(1)), Outcome::result(0));
    assert_eq!(set(&mut bench, queue, with(NSID_ALL, 60)), Outcome::ok());
    assert_eq!(get(&mut bench, queue, of(1)), Outcome::result(60));
    let none = logged(StatusCode::INVALID_NAMESPACE_OR_FORMAT);
    assert_eq!(set(&mut bench, queue, with(0, 1)), none);
    let inactive = logged(StatusCode::INVALID_FIELD);
    assert_eq!(set(&mut bench, queue, with(3, 1)), inactive);
    assert_eq!(get(&mut bench, queue, of(NSID_ALL)), none);
    // DULBE is not offered.
    assert_eq!(set(&mut bench, queue, with(2, 1 << 16)), logged(StatusCode::INVALID_FIELD));
    bench.target.remove_namespace(bench.subsystem, 2, &mut bench.out).unwrap();
    bench.target.add_namespace(bench.subsystem, namespace_config(2), &mut bench.out).unwrap();
    assert_eq!(get(&mut bench, queue, of(2)), Outcome::result(0));
}

#[test]
fn the_host_identifier_can_be_read_with_128_bits_but_not_set() {
    let mut bench = Bench::new();
    let (queue, _) = bench.ready();
    let fid = FeatureId::HOST_IDENTIFIER;
    let outcome = get(&mut bench, queue, getting(fid, FeatureSelect::CURRENT, 1));
    assert_eq!(outcome, Outcome::data(HOSTID.to_vec()));
    let outcome = get(&mut bench, queue, getting(fid, FeatureSelect::CURRENT, 0));
    assert_eq!(outcome, logged(StatusCode::INVALID_FIELD));
    let outcome = set(&mut bench, queue, setting(fid, 1));
    assert_eq!(outcome, logged(StatusCode::COMMAND_SEQUENCE_ERROR));
}

#[test]
fn values_that_there_are_not_are_refused() {
    assert_eq!(refusal(FeatureId::POWER_MANAGEMENT, 1), StatusCode::INVALID_FIELD);
    let code = StatusCode::IO_COMMAND_SET_COMBINATION_REJECTED;
    assert_eq!(refusal(FeatureId::IO_COMMAND_SET_PROFILE, 1), code);
}

#[test]
fn features_that_there_are_not_are_invalid_fields() {
    let mut bench = Bench::new();
    let (queue, _) = bench.ready();
    let (discovery, _) = bench.ready_discovery(0);
    let invalid = logged(StatusCode::INVALID_FIELD);
    for fid in [0x00, 0x03, 0x08, 0x09, 0x0c, 0x0d, 0x10, 0x80, 0x82, 0x84, 0xc0] {
        let fid = FeatureId(fid);
        let current = getting(fid, FeatureSelect::CURRENT, 0);
        assert_eq!(get(&mut bench, queue, current), invalid, "{fid}");
        assert_eq!(set(&mut bench, queue, setting(fid, 0)), invalid, "{fid}");
    }
    let queues = getting(FeatureId::NUMBER_OF_QUEUES, FeatureSelect::CURRENT, 0);
    assert_eq!(get(&mut bench, discovery, queues), invalid);
    let reserved = getting(FeatureId::ARBITRATION, FeatureSelect(4), 0);
    assert_eq!(get(&mut bench, queue, reserved), invalid);
}

#[test]
fn capabilities_say_what_can_be_changed_and_nothing_can_be_saved() {
    let mut bench = Bench::new();
    let (queue, _) = bench.ready();
    for (fid, value) in [
        (FeatureId::ARBITRATION, 0b100),
        (FeatureId::ERROR_RECOVERY, 0b110),
        (FeatureId::VOLATILE_WRITE_CACHE, 0b100),
        (FeatureId::HOST_IDENTIFIER, 0),
    ] {
        let command = getting(fid, FeatureSelect::CAPABILITIES, 0);
        assert_eq!(get(&mut bench, queue, command), Outcome::result(value), "{fid}");
    }
    let save = SetFeatures { save: true, ..setting(FeatureId::ARBITRATION, 0) };
    assert_eq!(set(&mut bench, queue, save), logged(StatusCode::FEATURE_NOT_SAVEABLE));
}

#[test]
fn a_namespace_given_for_a_feature_of_the_controller_is_refused() {
    let mut bench = Bench::new();
    let (queue, _) = bench.ready();
    let with = |nsid| SetFeatures { nsid, ..setting(FeatureId::ARBITRATION, 0) };
    let outcome = set(&mut bench, queue, with(1));
    assert_eq!(outcome, logged(StatusCode::FEATURE_NOT_NAMESPACE_SPECIFIC));
    assert_eq!(set(&mut bench, queue, with(NSID_ALL)), Outcome::ok());
}

fn with_data(bench: &mut Bench, queue: QueueKey, fid: FeatureId, data: &[u8]) -> Outcome {
    bench.run(queue, &setting(fid, 0).to_command(1, SglDescriptor::NO_DATA), data)
}

#[test]
fn the_clock_runs_on_from_what_the_host_set_or_from_the_reset() {
    let mut bench = Bench::new();
    let (queue, _) = bench.ready();
    let fid = FeatureId::TIMESTAMP;
    let read = |bench: &mut Bench, sel| {
        let data = get(bench, queue, getting(fid, sel, 0)).data;
        let time = Timestamp::from_bytes(&data.try_into().unwrap());
        assert!(!time.may_have_stopped);
        (time.milliseconds, time.origin)
    };
    bench.now += Duration::from_millis(70);
    assert_eq!(read(&mut bench, FeatureSelect::CURRENT), (70, 0));
    let time = Timestamp { milliseconds: 1_700_000_000_000, ..Timestamp::default() };
    assert_eq!(with_data(&mut bench, queue, fid, &time.to_bytes()), Outcome::ok());
    bench.now += Duration::from_millis(5);
    assert_eq!(read(&mut bench, FeatureSelect::CURRENT), (1_700_000_000_005, 1));
    assert_eq!(read(&mut bench, FeatureSelect::DEFAULT), (0, 0));
    bench.set_cc(queue, 0);
    bench.set_cc(queue, ENABLE);
    bench.now += Duration::from_millis(9);
    assert_eq!(read(&mut bench, FeatureSelect::CURRENT), (9, 0));
    let short = with_data(&mut bench, queue, fid, &[0; 7]);
    assert_eq!(short, logged(StatusCode::DATA_SGL_LENGTH_INVALID));
}

#[test]
fn host_behavior_is_kept_and_enables_copy_formats() {
    let mut bench = Bench::new();
    let (queue, cntlid) = bench.ready();
    let fid = FeatureId::HOST_BEHAVIOR;
    let none = HostBehavior::default().to_bytes();
    let current = getting(fid, FeatureSelect::CURRENT, 0);
    assert_eq!(get(&mut bench, queue, current).data, none);
    let io = bench.open_with(1, 128, cntlid);
    bench.connect(io, &io_connect(1), &connect_data(SUBNQN, cntlid)).unwrap();
    let [TargetAction::Bind { ref binding, .. }] = bench.out[..] else { panic!() };
    let settings = binding.settings.clone();
    assert_eq!(settings.copy_formats(), 0b11);
    let behavior = HostBehavior { acre: 1, cdfe: 1 << 2, ..HostBehavior::default() }.to_bytes();
    assert_eq!(with_data(&mut bench, queue, fid, &behavior), Outcome::ok());
    assert_eq!(settings.copy_formats(), 0b111);
    assert_eq!(get(&mut bench, queue, current).data, behavior);
    let default = getting(fid, FeatureSelect::DEFAULT, 0);
    assert_eq!(get(&mut bench, queue, default).data, none);
}

#[test]
fn host_behavior_for_what_is_not_offered_is_refused() {
    let mut bench = Bench::new();
    let (queue, _) = bench.ready();
    let fid = FeatureId::HOST_BEHAVIOR;
    let none = HostBehavior::default();
    for behavior in [
        HostBehavior { acre: 2, ..none },
        HostBehavior { etdas: 1, ..none },
        HostBehavior { lbafee: 1, ..none },
        HostBehavior { hdisns: 1, ..none },
        HostBehavior { cdfe: 1 << 3, ..none },
    ] {
        let outcome = with_data(&mut bench, queue, fid, &behavior.to_bytes());
        assert_eq!(outcome, logged(StatusCode::INVALID_FIELD), "{behavior:?}");
    }
    let short = with_data(&mut bench, queue, fid, &[0; 511]);
    assert_eq!(short, logged(StatusCode::DATA_SGL_LENGTH_INVALID));
}
