use super::*;
use proptest::prelude::*;

#[test]
fn a_keyed_descriptor_packs_24_bits_of_length_before_the_key() {
    let bytes = [
        0x00, 0x10, 0x20, 0x30, 0x40, 0x50, 0x60, 0x70, 0x00, 0x04, 0x00, 0xdd, 0xcc, 0xbb, 0xaa,
        0x4f,
    ];
    let sgl = SglDescriptor::from_bytes(&bytes);
    assert_eq!(
        sgl,
        SglDescriptor::Keyed {
            addr: 0x7060_5040_3020_1000,
            len: 1024,
            key: 0xaabb_ccdd,
            invalidate: true
        }
    );
    assert_eq!(sgl.to_bytes(), bytes);
    assert_eq!((sgl.descriptor_type(), sgl.subtype()), (4, 0xf));
}

#[test]
fn an_in_capsule_descriptor_has_type_0_subtype_1() {
    let mut bytes = [0; 16];
    bytes[9] = 0x10;
    bytes[15] = 0x01;
    assert_eq!(
        SglDescriptor::from_bytes(&bytes),
        SglDescriptor::InCapsule { offset: 0, len: 4096 }
    );
}

#[test]
fn a_length_over_24_bits_never_reaches_the_key() {
    let sgl = SglDescriptor::Keyed { addr: 0, len: u32::MAX, key: 0, invalidate: false };
    assert_eq!(sgl.to_bytes()[8..15], [0xff, 0xff, 0xff, 0, 0, 0, 0]);
}

proptest! {
    #[test]
    fn what_is_read_is_written_back(bytes: [u8; 16], kind in prop::sample::select(&[0u8, 1, 0x21, 0x31, 0x40, 0x4f, 0x5a][..])) {
        for b15 in [bytes[15], kind] {
            let mut bytes = bytes;
            bytes[15] = b15;
            let sgl = SglDescriptor::from_bytes(&bytes);
            prop_assert_eq!(sgl.descriptor_type(), b15 >> 4);
            prop_assert_eq!(sgl.subtype(), b15 & 0xf);
            prop_assert_eq!(SglDescriptor::from_bytes(&sgl.to_bytes()), sgl);
            if sgl.descriptor_type() == 4 {
                prop_assert_eq!(sgl.to_bytes(), bytes);
            }
        }
    }
}
