use super::*;
use crate::feature::AsyncEventConfig;
use crate::fixed_str::FixedStr;
use crate::property::Version;
use crate::testing::{hex, sparse};
use crate::{Command, SglDescriptor};
use proptest::prelude::*;
use std::string::ToString;
use std::vec::Vec;

/// Identify Controller of the Linux 6.1 target, from a capture.
fn linux_controller() -> [u8; 4096] {
    sparse(&[
        (0, "00000000323161353536306432656632"),
        (16, "30333065643037354c696e7578202020"),
        (32, "20202020202020202020202020202020"),
        (48, "20202020202020202020202020202020"),
        (64, "362e312e302d3537060000000b080100"),
        (80, "00030100000000000000000000090000"),
        (96, "41000000000000000000000000000001"),
        (256, "0000030303077f000000000000000000"),
        (320, "0a000000000000000000000000000000"),
        (336, "0000000000000a1f8000000080000000"),
        (512, "66440004000400000c00000000010000"),
        (528, "00000001000000000500100000040000"),
        (768, "6e716e2e323032362d31312e74657374"),
        (784, "3a737562310000000000000000000000"),
        (1792, "04010000010000000000000100000000"),
        (2048, "c4090000100000000400000000000000"),
    ])
}

#[test]
fn the_identify_command_of_linux_is_decoded_and_rebuilt() {
    let cmd =
        Command::parse(&hex("06400a20010000000000000000000000 0000000000000000 1022be8088ffff00
         1000 003d0300004f 03000000 00000000 0000000000000000 0000000000000000"))
        .unwrap();
    let identify = Identify::from_command(&cmd);
    assert_eq!((identify.cns, identify.nsid), (Cns::NAMESPACE_IDENTIFIERS, 1));
    assert_eq!(identify.to_command(0x200a, cmd.sgl1()), cmd);
    let identify = Identify {
        nsid: 1,
        cns: Cns::NAMESPACE_CONTROLLERS,
        cntid: 0x1234,
        cnssid: 0x55,
        csi: Csi::ZONED,
        uuid_index: 9,
    };
    let cmd = identify.to_command(1, SglDescriptor::NO_DATA);
    assert_eq!((cmd.cdw10(), cmd.cdw11(), cmd.cdw14()), (0x1234_0012, 0x0200_0055, 9));
    assert_eq!(Identify::from_command(&cmd), identify);
}

#[test]
fn identify_controller_of_the_linux_target_is_decoded() {
    let id = IdentifyController::parse(&linux_controller()).unwrap();
    assert_eq!(id.sn.to_string(), "21a5560d2ef2030ed075");
    assert_eq!((id.mn.to_string(), id.fr.to_string()), ("Linux".into(), "6.1.0-57".into()));
    assert_eq!((id.rab, id.mdts, id.cntlid, id.ver), (6, 8, 1, Version::V1_3));
    assert_eq!(id.cmic, Cmic::MULTI_PORT | Cmic::MULTI_CONTROLLER | Cmic::ANA);
    assert_eq!(id.oaes, AsyncEventConfig::NAMESPACE_ATTRIBUTE | AsyncEventConfig::ANA_CHANGE);
    assert_eq!(
        id.ctratt,
        ControllerAttributes::HOST_ID_128 | ControllerAttributes::TRAFFIC_KEEP_ALIVE
    );
    assert_eq!(id.cntrltype, ControllerType::IO);
    assert_eq!((id.acl.count(), id.aerl.count(), id.elpe.count()), (4, 4, 128));
    assert_eq!(id.kas_100ms, 10);
    assert_eq!((id.anatt_s, id.anagrpmax, id.nanagrpid), (10, 128, 128));
    assert_eq!(id.anacap.bits(), 0x1f);
    assert_eq!((id.sqes, id.cqes), (EntrySizes::SUBMISSION, EntrySizes::COMPLETION));
    assert_eq!((id.maxcmd, id.nn, id.mnan), (1024, 1024, 1024));
    assert_eq!(
        id.oncs,
        OptionalNvmCommands::DATASET_MANAGEMENT | OptionalNvmCommands::WRITE_ZEROES
    );
    assert_eq!(id.vwc, VolatileWriteCache::PRESENT);
    assert_eq!(id.sgls, SglSupport::SUPPORTED | SglSupport::KEYED | SglSupport::OFFSET);
    assert_eq!((id.ioccsz, id.iorcsz, id.icdoff, id.msdbd), (260, 1, 0, 1));
    assert_eq!(id.in_capsule_data_len(), 4096);
    assert_eq!(id.psd[0].mp, 2500);
    assert_eq!((id.psd[0].enlat_us, id.psd[0].exlat_us), (16, 4));
    assert_eq!(id.subnqn().unwrap().as_str(), "nqn.2026-11.test:sub1");
    assert_eq!(id.to_bytes(), linux_controller());
}

#[test]
fn an_icdoff_past_the_capsule_leaves_no_data() {
    let id = IdentifyController { ioccsz: 4, icdoff: 9, ..Default::default() };
    assert_eq!(id.in_capsule_data_len(), 0);
}

#[test]
fn identify_namespace_of_the_linux_target_is_decoded() {
    let bytes: [u8; 4096] = sparse(&[
        (0, "00000200000000000000020000000000"),
        (16, "00000200000000001200000000000100"),
        (32, "00000700070007000000000000000000"),
        (64, "07000700000000000000000000000000"),
        (80, "00000000000000000000000001000000"),
        (128, "00000900000000000000000000000000"),
    ]);
    let id = IdentifyNamespace::parse(&bytes).unwrap();
    assert_eq!((id.nsze, id.ncap, id.nuse), (131_072, 131_072, 131_072));
    assert_eq!(id.nsfeat, NamespaceFeatures::ATOMIC_UNITS | NamespaceFeatures::OPTIMAL_WRITE);
    assert_eq!(id.nmic, NamespaceSharing::SHARED);
    assert_eq!((id.nawun.count(), id.nawupf.count(), id.nacwu.count()), (8, 8, 8));
    assert_eq!((id.npwg.count(), id.npwa.count(), id.npdg.count()), (8, 8, 1));
    assert_eq!((id.nlbaf.count(), id.anagrpid), (1, 1));
    assert_eq!(id.format().block_size(), Some(512));
    assert_eq!(id.to_bytes(), bytes);
}

#[test]
fn the_format_index_is_split_around_the_metadata_bit() {
    let flbas = FormattedLba::new(0b11_0101, true);
    assert_eq!((flbas.index(), flbas.metadata_in_block()), (0b11_0101, true));
    let mut id = IdentifyNamespace { flbas, ..Default::default() };
    id.lbaf[0b11_0101] = LbaFormat { ms: 8, lbads: 12, rp: 1 };
    let bytes = id.to_bytes();
    assert_eq!(bytes[26], 0b0111_0101);
    assert_eq!(bytes[128 + 53 * 4..][..4], [8, 0, 12, 1]);
    assert_eq!(id.format().block_size(), Some(4096));
    assert_eq!(LbaFormat { lbads: 64, ..Default::default() }.block_size(), None);
    assert_eq!(LbaFormat::default().block_size(), None);
}

// Captured from the Linux 6.1 target.
#[test]
fn the_identifiers_of_a_linux_namespace_are_a_uuid_and_its_command_set() {
    let bytes: [u8; 4096] = sparse(&[
        (0, "03100000625e0bca6291466486462b80"),
        (16, "bad0c5e6040100000000000000000000"),
    ]);
    let ids: Vec<_> = NamespaceIdentifiers::new(&bytes).collect();
    let uuid = hex("625e0bca6291466486462b80bad0c5e6").try_into().unwrap();
    assert_eq!(ids, [NamespaceIdentifier::Uuid(uuid), NamespaceIdentifier::Csi(Csi::NVM)]);
    let mut out = [0xee; 4096];
    assert_eq!(encode_namespace_identifiers(ids, &mut out), 2);
    assert_eq!(out, bytes);
}

#[test]
fn identifiers_of_an_odd_length_are_kept_and_a_cut_one_ends_the_list() {
    let ids: Vec<_> = NamespaceIdentifiers::new(&[1, 2, 0, 0, 7, 8, 3, 16, 0, 0, 1]).collect();
    assert_eq!(ids, [NamespaceIdentifier::Unknown { kind: IdentifierKind::EUI64, nid: &[7, 8] }]);
}

#[test]
fn identifiers_past_4096_bytes_are_left_out() {
    let mut out = [0; 4096];
    let many = (0..300).map(|_| NamespaceIdentifier::Nguid([1; 16]));
    assert_eq!(encode_namespace_identifiers(many, &mut out), 204);
    assert_eq!(NamespaceIdentifiers::new(&out).count(), 204);
}

#[test]
fn a_namespace_list_is_ended_by_zero_or_by_its_size() {
    let list = NamespaceList::from_ascending([1, 5]);
    assert_eq!(list.to_bytes()[..12], [1, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(list.iter().collect::<Vec<_>>(), [1, 5]);
    assert_eq!(NamespaceList::from_ascending(1..5000).iter().last(), Some(1024));
}

#[test]
fn a_controller_list_starts_with_its_count() {
    let list = ControllerList::from_ascending([1, 0x203]);
    assert_eq!(list.to_bytes()[..8], [2, 0, 1, 0, 3, 2, 0, 0]);
    assert_eq!(ControllerList::parse(&list.to_bytes()), Ok(list));
    let mut bytes = [0; 4096];
    bytes[..2].copy_from_slice(&[0xff, 0xff]);
    assert_eq!(ControllerList::parse(&bytes).unwrap().as_slice().len(), 2047);
}

#[test]
fn other_structures_lie_where_the_tables_put_them() {
    let independent = IdentifyNamespaceIndependent {
        anagrpid: 7,
        nstat: NamespaceStatus::READY,
        rgrpid: 3,
        ..Default::default()
    };
    let bytes = independent.to_bytes();
    assert_eq!((bytes[4], bytes[14], bytes[20]), (7, 1, 3));
    let nvm = IdentifyControllerNvm { wzsl: 4, dmrl: 1, dmrsl: 2, dmsl: 3, ..Default::default() };
    assert_eq!(nvm.to_bytes()[..9], [0, 4, 0, 1, 2, 0, 0, 0, 3]);
    let mut sets = IoCommandSetList::default();
    sets.entries[0] = IoCommandSets::NVM | IoCommandSets::ZONED;
    assert_eq!(sets.to_bytes()[0], 5);
    let mut uuids = UuidList::default();
    uuids.entries[1] = UuidListEntry { association: UuidAssociation::VENDOR, uuid: [9; 16] };
    assert_eq!((uuids.to_bytes()[64], uuids.to_bytes()[80]), (1, 9));
    let space = NamespaceFeatures::MULTIPLE_ATOMICITY;
    assert_eq!(space.bits(), 0x40);
    assert_eq!(IdentifyController::default().sn, FixedStr::from_bytes([0; 20]));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn any_bytes_read_the_same_twice(bytes in prop::collection::vec(any::<u8>(), 4000..4200)) {
        macro_rules! twice {
            ($($t:ty),*) => {$(
                match <$t>::parse(&bytes) {
                    Ok(id) => prop_assert_eq!(<$t>::parse(&id.to_bytes()), Ok(id)),
                    Err(e) => prop_assert_eq!((e.needed, e.got), (4096, bytes.len())),
                }
            )*};
        }
        twice!(IdentifyController, IdentifyControllerNvm, IdentifyNamespace, IdentifyNamespaceNvm,
               IdentifyNamespaceIndependent, NamespaceList, ControllerList, IoCommandSetList, UuidList);
        if let Ok(id) = IdentifyNamespace::parse(&bytes) {
            let _ = (id.format().block_size(), std::format!("{id:?}"));
        }
        if let Ok(id) = IdentifyController::parse(&bytes) {
            let _ = (id.subnqn(), id.in_capsule_data_len(), std::format!("{id:?}"));
        }
        let mut out = [0; 4096];
        let ids: Vec<_> = NamespaceIdentifiers::new(&bytes).collect();
        let n = encode_namespace_identifiers(ids.iter().copied(), &mut out);
        prop_assert_eq!(NamespaceIdentifiers::new(&out).collect::<Vec<_>>(), &ids[..n]);
    }
}
