use super::*;
use proptest::prelude::*;

/// A 4 KiB read of LBA 8, cid 0x21, nsid 1, keyed SGL with invalidate.
const READ: [u8; 64] = {
    let mut b = [0; 64];
    b[0] = 0x02;
    b[1] = 0x40;
    b[2] = 0x21;
    b[4] = 0x01;
    b[24] = 0x00;
    b[25] = 0xa0;
    b[33] = 0x10;
    b[35] = 0x78;
    b[36] = 0x56;
    b[39] = 0x4f;
    b[40] = 0x08;
    b[48] = 0x07;
    b
};

#[test]
fn a_read_command_is_decoded_field_by_field() {
    let cmd = Command::from_bytes(READ);
    assert_eq!(cmd.io_opcode(), IoOpcode::READ);
    assert_eq!((cmd.fuse(), cmd.psdt()), (Fuse::Normal, Psdt::Sgl));
    assert_eq!((cmd.cid(), cmd.nsid()), (0x21, 1));
    assert_eq!(
        cmd.sgl1(),
        SglDescriptor::Keyed { addr: 0xa000, len: 4096, key: 0x5678, invalidate: true }
    );
    assert_eq!((cmd.cdw10(), cmd.cdw11(), cmd.cdw12()), (8, 0, 7));
    assert_eq!(cmd.fabrics_type(), None);
}

#[test]
fn building_the_same_read_gives_the_same_bytes() {
    let sgl = SglDescriptor::Keyed { addr: 0xa000, len: 4096, key: 0x5678, invalidate: true };
    let mut cmd = Command::io(IoOpcode::READ, 0x21, 1, sgl);
    cmd.set_cdw10(8);
    cmd.set_cdw12(7);
    assert_eq!(cmd.as_bytes(), &READ);
}

#[test]
fn a_fabrics_command_has_its_type_where_others_have_the_namespace() {
    let cmd = Command::fabrics(FabricsType::CONNECT, 7, SglDescriptor::NO_DATA);
    assert_eq!(cmd.fabrics_type(), Some(FabricsType::CONNECT));
    assert_eq!(cmd.as_bytes()[..8], [0x7f, 0x40, 7, 0, 1, 0, 0, 0]);
}

#[test]
fn a_capsule_of_63_bytes_is_refused() {
    assert_eq!(Command::parse(&[0; 63]), Err(ParseError { needed: 64, got: 63 }));
}

#[test]
fn fuse_and_psdt_do_not_disturb_each_other() {
    let mut cmd = Command::ZERO;
    cmd.set_psdt(Psdt::SglMetadataSgl);
    cmd.set_fuse(Fuse::Second);
    assert_eq!(cmd.as_bytes()[1], 0x82);
    cmd.set_fuse(Fuse::First);
    cmd.set_psdt(Psdt::Sgl);
    assert_eq!(cmd.as_bytes()[1], 0x41);
}

proptest! {
    #[test]
    fn any_bytes_are_read_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
        match Command::parse(&bytes) {
            Ok(cmd) => {
                let _ = std::format!("{cmd:?}");
                let mut again = cmd;
                again.set_sgl1(cmd.sgl1());
                again.set_fuse(cmd.fuse());
                again.set_psdt(cmd.psdt());
                again.set_cdw15(cmd.cdw15());
                prop_assert_eq!(again.sgl1(), cmd.sgl1());
                prop_assert_eq!(&again.as_bytes()[..24], &bytes[..24]);
                prop_assert_eq!(&again.as_bytes()[40..], &bytes[40..64]);
            }
            Err(e) => prop_assert_eq!(e.got, bytes.len()),
        }
    }
}
