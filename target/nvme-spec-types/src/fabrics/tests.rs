use super::*;
use crate::property::{CC_OFFSET, Cap, Cc};
use crate::testing::hex;
use crate::{Completion, StatusCode};
use proptest::prelude::*;
use std::string::ToString;

const HOSTNQN: &str = "nqn.2014-08.org.nvmexpress:uuid:11111111-2222-4333-8444-555555555555";

fn command(digits: &str) -> Command {
    Command::parse(&hex(digits)).unwrap()
}

fn linux_data() -> ConnectData {
    ConnectData::new(
        hex("11111111222243338444555555555555").try_into().unwrap(),
        CNTLID_DYNAMIC,
        &Nqn::new("nqn.2026-11.test:sub1").unwrap(),
        &Nqn::new(HOSTNQN).unwrap(),
    )
}

// Captured from Linux 6.1 (nvme connect, keep alive of 5 s).
#[test]
fn the_admin_connect_of_linux_is_decoded_and_rebuilt() {
    let cmd = command(
        "7f400000010000000000000000000000000000000000000000e810bd8088ffff
         000400360300004f000000001f00000088130000000000000000000000000000",
    );
    let connect = Connect::from_command(&cmd);
    assert_eq!(
        connect,
        Connect {
            cid: 0,
            sgl1: SglDescriptor::Keyed {
                addr: 0xffff_8880_bd10_e800,
                len: 1024,
                key: 0x336,
                invalidate: true
            },
            recfmt: 0,
            qid: 0,
            sqsize: ZeroBased::<u16>::from_count(32).unwrap(),
            cattr: ConnectAttributes::empty(),
            kato_ms: 5000,
        }
    );
    assert_eq!(connect.to_command(), cmd);
}

#[test]
fn the_io_connect_of_linux_has_its_data_in_the_capsule() {
    let cmd = command(
        "7f40000001000000000000000000000000000000000000000000000000000000
         000400000000000100000100 1f000000 00000000000000000000000000000000",
    );
    let connect = Connect::from_command(&cmd);
    assert_eq!(connect.sgl1, SglDescriptor::InCapsule { offset: 0, len: 1024 });
    assert_eq!((connect.qid, connect.sqsize.count(), connect.kato_ms), (1, 32, 0));
    assert_eq!(connect.to_command(), cmd);
}

#[test]
fn connect_data_of_linux_is_decoded_and_rebuilt() {
    let mut bytes = [0; 1024];
    bytes[..18].copy_from_slice(&hex("11111111222243338444555555555555ffff"));
    bytes[256..256 + 21].copy_from_slice(b"nqn.2026-11.test:sub1");
    bytes[512..512 + HOSTNQN.len()].copy_from_slice(HOSTNQN.as_bytes());
    let data = ConnectData::parse(&bytes).unwrap();
    assert_eq!(data, linux_data());
    assert_eq!(data.to_bytes(), bytes);
    assert_eq!(data.hostnqn().unwrap().as_str(), HOSTNQN);
    assert_eq!(data.subnqn().unwrap().to_string(), "nqn.2026-11.test:sub1");
}

#[test]
fn a_bad_name_is_answered_with_its_place_in_the_data() {
    let mut data = linux_data();
    data.subnqn_field = [b'x'; 256];
    let error = data.subnqn().unwrap_err();
    assert_eq!(error.reason, NqnError::TooLong);
    assert_eq!(error.location.to_dw0(), 0x0001_0100);
    data.hostnqn_field[0] = 0;
    let error = data.hostnqn().unwrap_err();
    assert_eq!((error.reason, error.location.to_dw0()), (NqnError::Empty, 0x0001_0200));
    assert_eq!(error.to_string(), "Connect data byte 512: the name is empty");
    assert_eq!(ConnectLocation::SQSIZE.to_dw0(), 44);
    assert_eq!(ConnectLocation::CNTLID.to_dw0(), 0x0001_0010);
    assert_eq!(ConnectLocation::from_dw0(0x0001_0200), ConnectLocation::HOSTNQN);
}

#[test]
fn the_connect_response_of_linux_gives_the_controller() {
    let cqe = Completion::parse(&hex("01000000000000000100000000000000")).unwrap();
    assert_eq!((cqe.status.code, cqe.sqhd), (StatusCode::SUCCESS, 1));
    let response = ConnectResponse::from_dw0(cqe.dw0);
    assert_eq!(response, ConnectResponse { cntlid: 1, ..ConnectResponse::default() });
    let strict = ConnectResponse { cntlid: 9, auth_required: true, secure_channel_required: true };
    assert_eq!(strict.to_dw0(), 0x0006_0009);
    assert_eq!(ConnectResponse::from_dw0(0x0006_0009), strict);
}

#[test]
fn property_commands_of_linux_are_decoded_and_rebuilt() {
    let cmd = command(
        "7f40010004000000000000000000000000000000000000000000000000000000
         0000000000000040010000000000000000000000000000000000000000000000",
    );
    let get = PropertyGet::from_command(&cmd);
    assert_eq!(get, PropertyGet { cid: 1, size: PropertySize::Eight, offset: 0 });
    assert_eq!(get.to_command(), cmd);
    let cap = Cap(Completion::parse(&hex("7f00000f200800000200000001000000")).unwrap().result64());
    assert_eq!(cap.max_queue_entries(), 128);
    assert_eq!((cap.timeout_500ms(), cap.css(), cap.cqr()), (15, 0x41, false));

    let cmd = command(
        "7f40012000000000000000000000000000000000000000000000000000000000
         0000000000000040000000001400000061004600000000000000000000000000",
    );
    let set = PropertySet::from_command(&cmd);
    assert_eq!(
        set,
        PropertySet { cid: 0x2001, size: PropertySize::Four, offset: CC_OFFSET, value: 0x46_0061 }
    );
    assert_eq!((Cc(set.value as u32).en(), Cc(set.value as u32).css()), (true, 6));
    assert_eq!(set.to_command(), cmd);
}

#[test]
fn authentication_commands_place_the_protocol_before_the_length() {
    let auth = AuthTransfer {
        cid: 3,
        sgl1: SglDescriptor::InCapsule { offset: 0, len: 16 },
        spsp0: 1,
        spsp1: 1,
        secp: SECP_NVME,
        len: 16,
    };
    let cmd = auth.to_command(FabricsType::AUTH_SEND);
    assert_eq!(cmd.as_bytes()[40..48], [0, 1, 1, 0xe9, 16, 0, 0, 0]);
    assert_eq!(cmd.as_bytes()[4], 5);
    assert_eq!(AuthTransfer::from_command(&cmd), auth);
    let disconnect = Disconnect { cid: 9, recfmt: 0 };
    assert_eq!(disconnect.to_command().as_bytes()[..8], [0x7f, 0x40, 9, 0, 8, 0, 0, 0]);
}

proptest! {
    #[test]
    fn any_command_is_read_as_any_fabrics_command(halves: [[u8; 32]; 2]) {
        let cmd = Command::parse(&halves.concat()).unwrap();
        let connect = Connect::from_command(&cmd);
        prop_assert_eq!(Connect::from_command(&connect.to_command()), connect);
        let get = PropertyGet::from_command(&cmd);
        prop_assert_eq!(PropertyGet::from_command(&get.to_command()), get);
        let set = PropertySet::from_command(&cmd);
        prop_assert_eq!(PropertySet::from_command(&set.to_command()), set);
        let auth = AuthTransfer::from_command(&cmd);
        prop_assert_eq!(AuthTransfer::from_command(&auth.to_command(FabricsType::AUTH_SEND)), auth);
    }

    #[test]
    fn any_connect_data_is_read_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..1100)) {
        if let Ok(data) = ConnectData::parse(&bytes) {
            let _ = (data.subnqn(), data.hostnqn());
            prop_assert_eq!(ConnectData::parse(&data.to_bytes()), Ok(data));
        } else {
            prop_assert!(bytes.len() < 1024);
        }
    }
}
