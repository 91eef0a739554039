use super::*;
use crate::testing::hex;
use proptest::prelude::*;

#[test]
fn commands_pack_their_fields_into_dword_10() {
    let register = ReservationRegister {
        action: RegisterAction::REPLACE,
        ignore_existing_key: true,
        cptpl: ChangePtpl::PERSIST,
    };
    let cmd = register.to_command(1, 2, SglDescriptor::NO_DATA);
    assert_eq!((cmd.cdw10(), cmd.io_opcode()), (0xc000_000a, IoOpcode::RESERVATION_REGISTER));
    assert_eq!(ReservationRegister::from_command(&cmd), register);
    let acquire = ReservationAcquire {
        action: AcquireAction::PREEMPT_AND_ABORT,
        ignore_existing_key: false,
        rtype: ReservationType::EXCLUSIVE_ACCESS_ALL,
    };
    let cmd = acquire.to_command(1, 2, SglDescriptor::NO_DATA);
    assert_eq!(cmd.cdw10(), 0x602);
    assert_eq!(ReservationAcquire::from_command(&cmd), acquire);
    let release = ReservationRelease {
        action: ReleaseAction::CLEAR,
        ignore_existing_key: true,
        rtype: ReservationType::WRITE_EXCLUSIVE,
    };
    let cmd = release.to_command(1, 2, SglDescriptor::NO_DATA);
    assert_eq!(cmd.cdw10(), 0x109);
    assert_eq!(ReservationRelease::from_command(&cmd), release);
    let report = ReservationReport { numd: ZeroBased::<u32>::from_raw(15), extended: true };
    let cmd = report.to_command(1, 2, SglDescriptor::NO_DATA);
    assert_eq!((cmd.cdw10(), cmd.cdw11(), report.data_len()), (15, 1, 64));
    assert_eq!(ReservationReport::from_command(&cmd), report);
}

#[test]
fn keys_lie_one_after_the_other() {
    let data = RegisterData { crkey: 1, nrkey: 2 };
    assert_eq!(data.to_bytes(), [1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(AcquireData::SIZE + ReleaseData::SIZE, 24);
}

#[test]
fn the_two_forms_of_the_report_swap_key_and_host() {
    let status = ReservationStatus {
        generation: 7,
        rtype: ReservationType::EXCLUSIVE_ACCESS,
        regctl: 0x0201,
        ptpls: 1,
    };
    let mut out = [0xee; 64];
    assert_eq!(status.encode(false, &mut out), Some(24));
    assert_eq!(out[..12], hex("07000000 02 0102 0000 01 0000")[..]);
    assert_eq!(out[24], 0xee);
    assert_eq!(ReservationStatus::parse(&out), Ok(status));

    let hostid: [u8; 16] = hex("000102030405060708090a0b0c0d0e0f").try_into().unwrap();
    let registrant = Registrant { cntlid: 3, holder: true, hostid, rkey: 0xaa };
    assert_eq!(registrant.encode(true, &mut out), Some(64));
    assert_eq!(out[..16], hex("0300 01 0000000000 aa00000000000000")[..]);
    assert_eq!(out[16..32], hostid);
    assert_eq!(Registrant::parse(true, &out), Ok(registrant));
    assert_eq!(registrant.encode(false, &mut out), Some(24));
    assert_eq!(out[..24], hex("0300 01 0000000000 0001020304050607 aa00000000000000")[..]);
    assert_eq!(registrant.encode(true, &mut out[..63]), None);
}

proptest! {
    #[test]
    fn any_bytes_read_the_same_twice(bytes in prop::collection::vec(any::<u8>(), 0..80), extended: bool) {
        let mut out = [0; 64];
        if let Ok(status) = ReservationStatus::parse(&bytes) {
            status.encode(extended, &mut out).unwrap();
            prop_assert_eq!(ReservationStatus::parse(&out), Ok(status));
        }
        match Registrant::parse(extended, &bytes) {
            Ok(registrant) => {
                registrant.encode(extended, &mut out).unwrap();
                prop_assert_eq!(Registrant::parse(extended, &out), Ok(registrant));
            }
            Err(_) => prop_assert!(bytes.len() < Registrant::size(extended)),
        }
        if let Ok(cmd) = Command::parse(&bytes) {
            let none = SglDescriptor::NO_DATA;
            let register = ReservationRegister::from_command(&cmd);
            prop_assert_eq!(ReservationRegister::from_command(&register.to_command(0, 0, none)), register);
            let acquire = ReservationAcquire::from_command(&cmd);
            prop_assert_eq!(ReservationAcquire::from_command(&acquire.to_command(0, 0, none)), acquire);
            let release = ReservationRelease::from_command(&cmd);
            prop_assert_eq!(ReservationRelease::from_command(&release.to_command(0, 0, none)), release);
        }
    }
}
