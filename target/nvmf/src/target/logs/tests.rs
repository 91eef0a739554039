use super::super::tests::*;
use super::*;
use crate::QueueKey;
use nvme_spec_types::log::{ChangedNamespaceList, ErrorEntry, ParameterLocation};
use nvme_spec_types::nvm::BlockCommand;
use nvme_spec_types::{AdminOpcode, FeatureId, SglDescriptor, ZeroBased};

fn log(lid: LogId, len: u32) -> GetLogPage {
    let numd = ZeroBased::<u32>::from_raw(len / 4 - 1);
    GetLogPage { lid, numd, ..GetLogPage::default() }
}

fn read(bench: &mut Bench, queue: QueueKey, get: GetLogPage) -> Outcome {
    bench.run(queue, &get.to_command(1, SglDescriptor::NO_DATA), &[])
}

fn page(bench: &mut Bench, queue: QueueKey, get: GetLogPage) -> Vec<u8> {
    let outcome = read(bench, queue, get);
    assert!(outcome.status.is_success(), "{outcome:?}");
    assert_eq!(outcome.data.len() as u64, get.data_len());
    outcome.data
}

#[test]
fn supported_pages_are_those_that_can_be_read() {
    let mut bench = Bench::new();
    let (io, _) = bench.ready();
    let (discovery, _) = bench.ready_discovery(0);
    for queue in [io, discovery] {
        let list = page(&mut bench, queue, log(LogId::SUPPORTED, 1024));
        let list = SupportedLogs::parse(&list).unwrap();
        for lid in 0..=255 {
            let outcome = read(&mut bench, queue, log(LogId(lid), 64));
            assert_eq!(outcome.status.is_success(), list.logs[usize::from(lid)].supported);
            if !outcome.status.is_success() {
                assert_eq!(outcome, logged(StatusCode::INVALID_LOG_PAGE));
            }
        }
    }
    let list = page(&mut bench, discovery, log(LogId::SUPPORTED, 1024));
    let list = SupportedLogs::parse(&list).unwrap();
    assert_eq!(list.logs[usize::from(LogId::DISCOVERY.0)].specific, 0b10);
}

#[test]
fn failed_commands_are_in_the_error_log_newest_first() {
    let mut bench = Bench::new();
    let (queue, _) = bench.ready();
    bench.run(queue, &admin_command(AdminOpcode(0xc1), 5), &[]);
    let mut abort = admin_command(AdminOpcode::IDENTIFY, 6);
    abort.set_cdw10(0xff);
    abort.set_nsid(9);
    let status = bench.run(queue, &abort, &[]).status;
    let entries = page(&mut bench, queue, log(LogId::ERROR, 4096));
    let newest = ErrorEntry::parse(&entries).unwrap();
    assert_eq!((newest.error_count, newest.sqid, newest.cid, newest.nsid), (2, 0, 6, 9));
    assert_eq!((newest.status, newest.opcode), (status, AdminOpcode::IDENTIFY.0));
    assert_eq!(newest.location, ParameterLocation::new(40, 0));
    let before = ErrorEntry::parse(&entries[64..]).unwrap();
    assert_eq!((before.error_count, before.cid, before.opcode), (1, 5, 0xc1));
    assert_eq!(before.location, ParameterLocation::new(0, 0));
    assert_eq!(entries[128..], [0; 4096 - 128]);
}

#[test]
fn failures_of_every_queue_are_in_the_error_log_of_their_controller() {
    let mut bench = Bench::new();
    let (admin, cntlid) = bench.ready();
    let (other, _) = bench.ready();
    let io = bench.io_queue(cntlid, 2).unwrap();
    let block = BlockCommand::new(0x1_0000_0004, ZeroBased::<u16>::from_raw(0));
    let command = block.to_command(IoOpcode::READ, 0x77, 1, SglDescriptor::NO_DATA);
    let fail = |bench: &mut Bench, code: StatusCode, missed| {
        let (status, place) = (code.with_dnr(), ParameterLocation::new(40, 0));
        bench.target.on_command_failed(io, command.as_bytes(), status, place, missed);
    };
    fail(&mut bench, StatusCode::INVALID_FIELD, 0);
    fail(&mut bench, StatusCode::UNRECOVERED_READ_ERROR, 5);
    let entries = page(&mut bench, admin, log(LogId::ERROR, 128));
    let newest = ErrorEntry::parse(&entries).unwrap();
    assert_eq!((newest.error_count, newest.sqid, newest.cid, newest.nsid), (7, 2, 0x77, 1));
    assert_eq!((newest.lba, newest.opcode), (0x1_0000_0004, IoOpcode::READ.0));
    assert_eq!(newest.location, ParameterLocation::new(40, 0));
    let before = ErrorEntry::parse(&entries[64..]).unwrap();
    assert_eq!((before.error_count, before.lba), (1, 0));
    assert_eq!(page(&mut bench, other, log(LogId::ERROR, 64)), [0; 64]);
    let status = bench.target.controllers().find(|found| found.cntlid == cntlid).unwrap();
    assert_eq!((status.errors, status.admin_errors), (7, 0));
}

#[test]
fn the_error_log_keeps_the_last_64_failures() {
    let mut bench = Bench::new();
    let (queue, _) = bench.ready();
    for cid in 0..70 {
        bench.run(queue, &admin_command(AdminOpcode(0xc1), cid), &[]);
    }
    let entries = page(&mut bench, queue, log(LogId::ERROR, 4096));
    assert_eq!(ErrorEntry::parse(&entries).unwrap().error_count, 70);
    assert_eq!(ErrorEntry::parse(&entries[63 * 64..]).unwrap().error_count, 7);
    let smart = page(&mut bench, queue, log(LogId::SMART, 512));
    assert_eq!(SmartLog::parse(&smart).unwrap().error_log_entries, 70);
}

#[test]
fn smart_counts_what_the_cores_did() {
    let mut bench = Bench::new();
    let subsystem = bench.subsystem;
    bench.target.add_namespace(subsystem, namespace_config(2), &mut bench.out).unwrap();
    let (queue, _) = bench.ready(); // at 1000 ms
    let counters = |nsid: u32| {
        bench.target.subsystems[&subsystem].view.namespace(nsid).unwrap().counters.clone()
    };
    let (one, two) = (counters(1), counters(2));
    one[0].count_read(512_000);
    one[1].count_read(1);
    one[1].count_write(4096);
    two[0].count_write(511_999 + 512_000);
    two[1].count_error();
    bench.now = ms(1000 + 3 * 3_600_000 - 1);
    let smart = |bench: &mut Bench, nsid| {
        let data = page(bench, queue, GetLogPage { nsid, ..log(LogId::SMART, 512) });
        SmartLog::parse(&data).unwrap()
    };
    for nsid in [0, NSID_ALL] {
        let all = smart(&mut bench, nsid);
        assert_eq!((all.data_units_read, all.data_units_written), (2, 3));
        assert_eq!((all.host_reads, all.host_writes, all.media_errors), (2, 2, 1));
        assert_eq!((all.power_on_hours, all.temperature_k, all.avail_spare), (2, 0, 100));
    }
    let of_one = smart(&mut bench, 1);
    assert_eq!((of_one.host_reads, of_one.host_writes, of_one.media_errors), (2, 1, 0));
    let none = read(&mut bench, queue, GetLogPage { nsid: 3, ..log(LogId::SMART, 512) });
    assert_eq!(none, logged(StatusCode::INVALID_FIELD));
}

#[test]
fn changed_namespaces_are_cleared_by_a_read_that_does_not_retain_the_event() {
    let mut bench = Bench::new();
    let (queue, _) = bench.ready();
    for nsid in [3, 2] {
        let config = namespace_config(nsid);
        bench.target.add_namespace(bench.subsystem, config, &mut bench.out).unwrap();
    }
    let read = |bench: &mut Bench, rae| {
        let get = GetLogPage { rae, ..log(LogId::CHANGED_NAMESPACES, 4096) };
        let data = page(bench, queue, get);
        ChangedNamespaceList::parse(&data).unwrap().iter().collect::<Vec<_>>()
    };
    assert_eq!(read(&mut bench, true), [2, 3]);
    assert_eq!(read(&mut bench, false), [2, 3]);
    assert_eq!(read(&mut bench, false), []);
}

#[test]
fn command_effects_are_of_the_commands_that_there_are() {
    let mut bench = Bench::new();
    let (io, _) = bench.ready();
    let (discovery, _) = bench.ready_discovery(0);
    let effects = |bench: &mut Bench, queue| {
        let data = page(bench, queue, log(LogId::COMMAND_EFFECTS, 4096));
        CommandEffectsLog::parse(&data).unwrap()
    };
    let mut log_page = effects(&mut bench, io);
    assert_eq!(log_page.admin_mut(AdminOpcode::IDENTIFY).bits(), 1);
    assert_eq!(log_page.io_mut(IoOpcode::READ).bits(), 1);
    assert_eq!(log_page.io_mut(IoOpcode::WRITE).bits(), 3);
    assert_eq!(log_page.io.iter().filter(|e| !e.is_empty()).count(), 8);
    assert!(effects(&mut bench, discovery).io.iter().all(|e| e.is_empty()));
    let zoned = GetLogPage { csi: Csi::ZONED, ..log(LogId::COMMAND_EFFECTS, 4096) };
    let mut zoned = CommandEffectsLog::parse(&page(&mut bench, io, zoned)).unwrap();
    assert_eq!(zoned.admin_mut(AdminOpcode::IDENTIFY).bits(), 1);
    assert!(zoned.io.iter().all(|e| e.is_empty()), "a command set that is not offered");
}

#[test]
fn feature_effects_and_the_firmware_slot_can_be_read() {
    let mut bench = Bench::new();
    let (queue, _) = bench.ready();
    let data = page(&mut bench, queue, log(LogId::FEATURE_EFFECTS, 1024));
    let mut effects = FeatureEffectsLog::parse(&data).unwrap();
    assert_eq!(effects.feature_mut(FeatureId::ERROR_RECOVERY).bits(), 1 | 1 << 20);
    assert_eq!(effects.feature_mut(FeatureId::ARBITRATION).bits(), 1 | 1 << 21);
    assert_eq!(effects.feature_mut(FeatureId::HOST_MEMORY_BUFFER).bits(), 0);
    let data = page(&mut bench, queue, log(LogId::FIRMWARE_SLOT, 512));
    let slot = FirmwareSlotLog::parse(&data).unwrap();
    assert_eq!((slot.afi, slot.frs[0].as_str()), (1, Some(env!("CARGO_PKG_VERSION"))));
    assert_eq!(data[16..], [0; 496]);
}

#[test]
fn a_page_can_be_read_from_any_dword_and_is_zero_beyond_its_end() {
    let mut bench = Bench::new();
    let (queue, _) = bench.ready();
    let whole = page(&mut bench, queue, log(LogId::FIRMWARE_SLOT, 512));
    let at = |offset, len| GetLogPage { offset, ..log(LogId::FIRMWARE_SLOT, len) };
    assert_eq!(page(&mut bench, queue, at(8, 12)), whole[8..20]);
    let mut tail = whole[8..].to_vec();
    tail.resize(1024, 0);
    assert_eq!(page(&mut bench, queue, at(8, 1024)), tail);
    assert_eq!(page(&mut bench, queue, at(512, 4)), [0; 4]);
    let invalid = logged(StatusCode::INVALID_FIELD);
    for offset in [6, 516, u64::MAX - 3] {
        assert_eq!(read(&mut bench, queue, at(offset, 4)), invalid, "{offset}");
    }
    let by_index = GetLogPage { offset_is_index: true, ..at(0, 4) };
    assert_eq!(read(&mut bench, queue, by_index), invalid);
}

#[test]
fn no_more_than_the_largest_transfer_can_be_read() {
    let mut bench = Bench::new();
    let (queue, _) = bench.ready();
    page(&mut bench, queue, log(LogId::ERROR, 1 << 20));
    let outcome = read(&mut bench, queue, log(LogId::ERROR, (1 << 20) + 4));
    assert_eq!(outcome, logged(StatusCode::INVALID_FIELD));
}

#[test]
fn pages_of_the_controller_take_no_namespace() {
    let mut bench = Bench::new();
    let (queue, _) = bench.ready();
    let with = |nsid| GetLogPage { nsid, ..log(LogId::ERROR, 64) };
    page(&mut bench, queue, with(NSID_ALL));
    let outcome = read(&mut bench, queue, with(1));
    assert_eq!(outcome, logged(StatusCode::INVALID_FIELD));
}
