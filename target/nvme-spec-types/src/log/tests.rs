use super::*;
use crate::testing::{hex, sparse};
use crate::{FeatureId, FixedStr, IoOpcode, Nqn, ParseError, Status, StatusCode};
use proptest::prelude::*;
use std::string::ToString;
use std::vec::Vec;

fn get_log(digits: &str) -> (GetLogPage, Command) {
    let cmd = Command::parse(&hex(digits)).unwrap();
    (GetLogPage::from_command(&cmd), cmd)
}

// Captured from Linux 6.1.
#[test]
fn get_log_page_of_linux_is_decoded_and_rebuilt() {
    let (effects, cmd) = get_log(
        "02400b000000000000000000000000000000000000000000003022be8088ffff
         001000380300004f0500ff030000000000000000000000000000000000000000",
    );
    assert_eq!(effects.to_command(0xb, cmd.sgl1()), cmd);
    assert_eq!((effects.lid, effects.data_len()), (LogId::COMMAND_EFFECTS, 4096));
    assert_eq!((effects.offset, effects.rae, effects.csi), (0, false, Csi::NVM));
    let (ana, cmd) = get_log(
        "02400c00ffffffff00000000000000000000000000000000008011bd8088ffff
         102000390300004f0c0003080000000000000000000000000000000000000000",
    );
    assert_eq!((ana.lid, ana.nsid, ana.data_len()), (LogId::ANA, 0xffff_ffff, 8208));
    assert_eq!(ana.to_command(0xc, cmd.sgl1()), cmd);
}

#[test]
fn every_field_of_get_log_page_has_its_place() {
    let get = GetLogPage {
        nsid: 1,
        lid: LogId::DISCOVERY,
        lsp: 0x7f,
        rae: true,
        numd: ZeroBased::<u32>::from_raw(0xaabb_ccdd),
        lsi: 0x1122,
        offset: 0x1_0000_0400,
        offset_is_index: true,
        uuid_index: 5,
        csi: Csi::ZONED,
    };
    let cmd = get.to_command(3, SglDescriptor::NO_DATA);
    assert_eq!((cmd.cdw10(), cmd.cdw11()), (0xccdd_ff70, 0x1122_aabb));
    assert_eq!((cmd.cdw12(), cmd.cdw13(), cmd.cdw14()), (0x400, 1, 0x0280_0005));
    assert_eq!(GetLogPage::from_command(&cmd), get);
    let retained = GetLogPage { rae: false, ..get };
    let cmd = retained.to_command(3, SglDescriptor::NO_DATA);
    assert_eq!(GetLogPage::from_command(&cmd), retained);
}

#[test]
fn lengths_are_whole_dwords_and_never_overflow() {
    assert_eq!(GetLogPage::numd_for(0).count(), 1);
    assert_eq!(GetLogPage::numd_for(4097).count(), 1025);
    let most = GetLogPage { numd: ZeroBased::<u32>::from_raw(u32::MAX), ..Default::default() };
    assert_eq!(most.data_len(), 1 << 34);
}

// Captured from the Linux 6.1 target: one group with one namespace.
#[test]
fn the_ana_log_of_the_linux_target_is_decoded_and_rebuilt() {
    let bytes: [u8; 52] = sparse(&[
        (0, "00000000000000000100000000000000"),
        (16, "01000000010000000000000000000000"),
        (32, "01000000000000000000000000000000"),
        (48, "01000000"),
    ]);
    let header = AnaLogHeader::parse(&bytes).unwrap();
    assert_eq!((header.chgcnt, header.ngrps), (0, 1));
    let (group, nsids, rest) =
        AnaGroupDescriptor::parse_with_namespaces(&bytes[AnaLogHeader::SIZE..]).unwrap();
    assert_eq!((group.agid, group.state), (1, AnaState::OPTIMIZED));
    assert_eq!(nsids.collect::<Vec<_>>(), [1]);
    assert_eq!((rest.len(), group.total_len()), (0, 36));
    let mut out = [0xee; 52];
    header.encode(&mut out);
    assert_eq!(group.encode_with_namespaces([1], &mut out[16..]), Some(36));
    assert_eq!(out, bytes);
    assert_eq!(group.encode_with_namespaces([1], &mut out[17..]), None);
}

#[test]
fn a_group_that_claims_more_namespaces_than_there_are_is_refused() {
    let mut bytes = [0; 40];
    bytes[4..8].copy_from_slice(&u32::MAX.to_le_bytes());
    let error = AnaGroupDescriptor::parse_with_namespaces(&bytes).err().unwrap();
    assert_eq!(error, ParseError { needed: 32 + 4 * 0xffff_ffff, got: 40 });
}

// Captured from the Linux 6.1 target, which supports the commands named here.
#[test]
fn the_effects_log_of_the_linux_target_is_decoded() {
    let bytes: [u8; 4096] = sparse(&[
        (0, "00000000000000000100000000000000"),
        (16, "00000000000000000100000000000000"),
        (32, "01000000010000000100000000000000"),
        (48, "01000000000000000000000000000000"),
        (96, "01000000000000000000000000000000"),
        (1024, "01000000010000000100000000000000"),
        (1056, "01000000010000000000000000000000"),
    ]);
    let mut log = CommandEffectsLog::parse(&bytes).unwrap();
    for opcode in [
        AdminOpcode::GET_LOG_PAGE,
        AdminOpcode::IDENTIFY,
        AdminOpcode::ABORT,
        AdminOpcode::SET_FEATURES,
        AdminOpcode::GET_FEATURES,
        AdminOpcode::ASYNC_EVENT_REQUEST,
        AdminOpcode::KEEP_ALIVE,
    ] {
        assert_eq!(*log.admin_mut(opcode), CommandEffects::SUPPORTED, "{opcode}");
    }
    assert_eq!(*log.io_mut(IoOpcode::WRITE_ZEROES), CommandEffects::SUPPORTED);
    assert_eq!(*log.io_mut(IoOpcode::DATASET_MANAGEMENT), CommandEffects::SUPPORTED);
    assert!(log.io_mut(IoOpcode::COMPARE).is_empty());
    assert_eq!(log.to_bytes(), bytes);
}

#[test]
fn effects_carry_their_scope_in_the_top_twelve_bits() {
    let effects = (CommandEffects::SUPPORTED | CommandEffects::BLOCK_CONTENT)
        .with_scope(EffectScope::SUBSYSTEM);
    assert_eq!(effects.bits(), 1 << 25 | 3);
    assert_eq!(effects.scope(), EffectScope::SUBSYSTEM);
    assert_eq!(CommandEffects::from_bits_retain(2 << 16).exclusive_execution(), 2);
    let mut log = FeatureEffectsLog::default();
    *log.feature_mut(FeatureId::HOST_IDENTIFIER) =
        FeatureEffects::SUPPORTED.with_scope(EffectScope::CONTROLLER);
    assert_eq!(log.to_bytes()[0x81 * 4..][..4], [1, 0, 0x20, 0]);
    let mut logs = SupportedLogs::default();
    *logs.log_mut(LogId::DISCOVERY) =
        LogSupport { supported: true, index_offset: true, specific: 0x7 };
    assert_eq!(logs.to_bytes()[0x70 * 4..][..4], [3, 0, 7, 0]);
    assert_eq!(SupportedLogs::parse(&logs.to_bytes()), Ok(logs));
}

#[test]
fn health_pages_lie_where_the_tables_put_them() {
    let entry = ErrorEntry {
        error_count: 1,
        sqid: 2,
        cid: 3,
        status: StatusCode::INVALID_FIELD.with_dnr(),
        location: ParameterLocation::new(44, 3),
        nsid: 4,
        trtype: TransportType::RDMA,
        opcode: 6,
        version: 1,
        ..Default::default()
    };
    let bytes = entry.to_bytes();
    assert_eq!(bytes[8..16], [2, 0, 3, 0, 0x04, 0x80, 44, 3]);
    assert_eq!((bytes[24], bytes[29], bytes[31], bytes[63]), (4, 1, 6, 1));
    assert_eq!(entry.location.get(), Some((44, 3)));
    assert_eq!(ParameterLocation::NONE.get(), None);
    assert_eq!(ErrorEntry::default().status, Status::SUCCESS);

    // Counters as the Linux 6.12 target gave them after some I/O.
    let smart: [u8; 512] = sparse(&[
        (32, "01000000000000000000000000000000"),
        (64, "03000000000000000000000000000000"),
    ]);
    let log = SmartLog::parse(&smart).unwrap();
    assert_eq!((log.data_units_read, log.host_reads), (1, 3));
    let log = SmartLog { temperature_k: 0x0131, error_log_entries: 5, ..Default::default() };
    assert_eq!((log.to_bytes()[1..3].to_vec(), log.to_bytes()[176]), (hex("3101"), 5));
    assert_eq!((SmartLog::data_units(1), SmartLog::data_units(512_001)), (1, 2));

    let mut slots = FirmwareSlotLog { afi: 1, ..Default::default() };
    slots.frs[0] = FixedStr::new("0.1").unwrap();
    assert_eq!(slots.to_bytes()[8..16], *b"0.1     ");
    let mut test = SelfTestLog::default();
    test.results[19].vs = 0xaabb;
    assert_eq!(test.to_bytes()[562..], [0xbb, 0xaa]);
    let note = ReservationNotification {
        count: 1,
        kind: ReservationNotificationKind::RESERVATION_PREEMPTED,
        available: 2,
        nsid: 9,
    };
    assert_eq!(note.to_bytes()[..13], [1, 0, 0, 0, 0, 0, 0, 0, 3, 2, 0, 0, 9]);
}

#[test]
fn a_discovery_entry_of_rdma_lies_where_the_tables_put_it() {
    let mut entry = DiscoveryEntry {
        trtype: TransportType::RDMA,
        adrfam: AddressFamily::IPV4,
        subtype: SubsystemType::NVM,
        treq: TransportRequirements::SECURE_NOT_REQUIRED.with_sq_flow_control_disable(),
        portid: 1,
        cntlid: 0xffff,
        asqsz: 32,
        eflags: DiscoveryEntryFlags::PERSISTENT_CONNECTION,
        trsvcid: FixedStr::new("4420").unwrap(),
        traddr: FixedStr::new("10.9.0.2").unwrap(),
        ..Default::default()
    };
    entry.set_subnqn(&Nqn::new("nqn.2026-11.test:sub1").unwrap());
    entry.set_rdma_tsas(&RdmaTsas {
        qptype: RdmaQpType::CONNECTED,
        prtype: RdmaProvider::ROCE_V2,
        cms: RdmaCms::RDMA_CM,
        pkey: 0xffff,
    });
    let bytes = entry.to_bytes();
    assert_eq!(bytes[..12], hex("01010206 0100 ffff 2000 0200")[..]);
    assert_eq!(
        (&bytes[32..37], &bytes[256..260], &bytes[512..515]),
        (&b"4420 "[..], &b"nqn."[..], &b"10."[..])
    );
    assert_eq!(bytes[277], 0);
    assert_eq!(bytes[768..778], hex("010401 0000000000 ffff")[..]);
    let again = DiscoveryEntry::parse(&bytes).unwrap();
    assert_eq!(again.subnqn().unwrap().as_str(), "nqn.2026-11.test:sub1");
    assert_eq!(again.rdma_tsas().unwrap().prtype.to_string(), "RoCEv2");
    assert_eq!((again.treq.secure_channel(), again.treq.sq_flow_control_disable()), (2, true));
    assert_eq!(DiscoveryEntry::default().rdma_tsas(), None);
    let header = DiscoveryHeader { genctr: 3, numrec: 2, recfmt: 0 };
    assert_eq!(header.to_bytes()[..18], hex("0300000000000000 0200000000000000 0000")[..]);
}

#[test]
fn changed_namespaces_are_a_namespace_list() {
    let list = ChangedNamespaceList::from_ascending([CHANGED_NAMESPACES_OVERFLOW]);
    assert_eq!(list.to_bytes()[..8], hex("ffffffff 00000000")[..]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn any_bytes_read_the_same_twice(bytes in prop::collection::vec(any::<u8>(), 0..1100)) {
        macro_rules! twice {
            ($($t:ty),*) => {$(
                match <$t>::parse(&bytes) {
                    Ok(log) => prop_assert_eq!(<$t>::parse(&log.to_bytes()), Ok(log)),
                    Err(e) => prop_assert_eq!(e, ParseError { needed: <$t>::SIZE, got: bytes.len() }),
                }
            )*};
        }
        twice!(AnaLogHeader, AnaGroupDescriptor, DiscoveryHeader, DiscoveryEntry, RdmaTsas,
               CommandEffectsLog, FeatureEffectsLog, SupportedLogs, ErrorEntry, SmartLog,
               FirmwareSlotLog, SelfTestLog, ReservationNotification);
        if let Ok(cmd) = Command::parse(&bytes) {
            let get = GetLogPage::from_command(&cmd);
            let again = get.to_command(0, SglDescriptor::NO_DATA);
            prop_assert_eq!(GetLogPage::from_command(&again), get);
        }
        if let Ok((group, nsids, rest)) = AnaGroupDescriptor::parse_with_namespaces(&bytes) {
            prop_assert_eq!(nsids.count() as u64, u64::from(group.nnsids));
            prop_assert_eq!(rest.len() as u64 + group.total_len(), bytes.len() as u64);
        }
    }

    #[test]
    fn any_group_with_namespaces_comes_back(nsids: Vec<u32>, agid: u32) {
        let group = AnaGroupDescriptor { agid, ..Default::default() };
        let mut out = std::vec![0; 32 + 4 * nsids.len() + 3];
        let n = group.encode_with_namespaces(nsids.iter().copied(), &mut out).unwrap();
        let (again, ids, rest) = AnaGroupDescriptor::parse_with_namespaces(&out).unwrap();
        prop_assert_eq!((again.agid, n, rest.len()), (agid, out.len() - 3, 3));
        prop_assert_eq!(ids.collect::<Vec<_>>(), nsids);
    }
}
