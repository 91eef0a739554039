use super::*;
use crate::testing::hex;
use proptest::prelude::*;
use std::vec;

#[test]
fn negotiate_lists_hashes_and_groups_thirty_apart() {
    let message = Negotiate { t_id: 0x0102, sc_c: 0, hashes: &[1, 2, 3], groups: &[0, 1] };
    let bytes = message.to_bytes();
    assert_eq!(bytes[..15], hex("0000 0000 0201 00 01 01 00 03 02 010203")[..]);
    assert_eq!(bytes[42..44], [0, 1]);
    assert_eq!(bytes.len(), 72);
    assert_eq!(Negotiate::parse(&bytes), Ok(message));
}

#[test]
fn negotiate_finds_dh_hmac_chap_behind_another_protocol() {
    let message = Negotiate { t_id: 1, sc_c: 0, hashes: &[1], groups: &[0] };
    let mut bytes = message.to_bytes().to_vec();
    let own = bytes[8..].to_vec();
    bytes[7] = 2;
    bytes[8] = 0x77;
    bytes.extend(&own);
    assert_eq!(Negotiate::parse(&bytes), Ok(message));
    bytes[72] = 0x77;
    assert_eq!(Negotiate::parse(&bytes), Err(AuthError::Malformed));
    bytes.truncate(135);
    assert_eq!(Negotiate::parse(&bytes), Err(AuthError::Truncated { needed: 136, got: 135 }));
}

#[test]
fn a_list_of_more_than_thirty_is_malformed() {
    let mut bytes = Negotiate { t_id: 1, sc_c: 0, hashes: &[1], groups: &[0] }.to_bytes();
    bytes[10] = 31;
    assert_eq!(Negotiate::parse(&bytes), Err(AuthError::Malformed));
}

#[test]
fn a_challenge_lies_where_the_table_puts_it() {
    let message = Challenge {
        t_id: 9,
        hash: HashId::SHA_384,
        group: DhGroupId::FFDHE_2048,
        seqnum: 0x0403_0201,
        cval: &[0xc1; 48],
        dhv: &[0xd1; 256],
    };
    let mut out = [0; 400];
    let len = message.encode(&mut out).unwrap();
    assert_eq!(len, 16 + 48 + 256);
    assert_eq!(out[..18], hex("0101 0000 0900 30 00 02 01 0001 01020304 c1c1")[..]);
    assert_eq!(Challenge::parse(&out[..len]), Ok(message));
    assert_eq!(
        Challenge::parse(&out[..len - 1]),
        Err(AuthError::Truncated { needed: len, got: len - 1 })
    );
    assert_eq!(HashId::SHA_384.digest_len(), Some(48));
}

#[test]
fn a_reply_has_room_for_a_challenge_it_does_not_make() {
    let one_way = Reply { t_id: 9, seqnum: 0, rval: &[0xa1; 32], cval: None, dhv: &[] };
    let mut out = [0xee; 100];
    assert_eq!(one_way.encode(&mut out), Some(80));
    assert_eq!(out[..16], hex("0102 0000 0900 20 00 00 00 0000 00000000")[..]);
    assert_eq!(out[48..80], [0; 32]);
    assert_eq!(Reply::parse(&out[..80]), Ok(one_way));
    let both = Reply { seqnum: 5, cval: Some(&[0xc2; 32]), ..one_way };
    assert_eq!(both.encode(&mut out), Some(80));
    assert_eq!((out[8], out[48]), (1, 0xc2));
    assert_eq!(Reply { cval: Some(&[0; 31]), ..one_way }.encode(&mut out), None);
}

#[test]
fn success_and_failure_lie_where_the_tables_put_them() {
    let success = Success1 { t_id: 3, hl: 32, rval: Some(&[7; 32]) };
    let mut out = [0; 48];
    assert_eq!(success.encode(&mut out), Some(48));
    assert_eq!(out[..17], hex("0103 0000 0300 20 00 01 00000000000000 07")[..]);
    assert_eq!(Success1::parse(&out), Ok(success));
    assert_eq!(success2(3)[..6], hex("0104 0000 0300")[..]);
    let failure = Failure {
        from_host: false,
        t_id: 3,
        reason: AUTH_FAILURE_REASON,
        explanation: AuthFailure::HASH_NOT_USABLE,
    };
    assert_eq!(failure.to_bytes(), hex("00f1 0000 0300 01 04")[..]);
    assert_eq!(Failure::parse(&failure.to_bytes()), Ok(failure));
    assert_eq!(Failure::parse(&success2(3)), Err(AuthError::Unexpected(AuthMessageId::SUCCESS2)));
}

proptest! {
    #[test]
    fn any_bytes_are_read_without_panic(
        mut bytes in prop::collection::vec(any::<u8>(), 0..700),
        id in prop::sample::select(&[0x0000u16, 0x00f0, 0x0101, 0x0102, 0x0103][..]),
    ) {
        if bytes.len() > 12 {
            bytes[..2].copy_from_slice(&id.to_be_bytes());
            bytes[7] %= 4;
            bytes[8] &= 1;
            bytes[11] &= 1;
        }
        let mut out = vec![0; bytes.len()];
        if let Ok(m) = Challenge::parse(&bytes) {
            let len = m.encode(&mut out).unwrap();
            prop_assert_eq!(Challenge::parse(&out[..len]), Ok(m));
        }
        if let Ok(m) = Reply::parse(&bytes) {
            let len = m.encode(&mut out).unwrap();
            prop_assert_eq!(Reply::parse(&out[..len]), Ok(m));
        }
        if let Ok(m) = Success1::parse(&bytes) {
            let mut out = vec![0; 16 + 255];
            let len = m.encode(&mut out).unwrap();
            prop_assert_eq!(Success1::parse(&out[..len]), Ok(m));
        }
        if let Ok(m) = Negotiate::parse(&bytes) {
            let again = m.to_bytes();
            prop_assert_eq!(Negotiate::parse(&again), Ok(m));
        }
        if let Ok(m) = Failure::parse(&bytes) {
            prop_assert_eq!(Failure::parse(&m.to_bytes()), Ok(m));
        }
        let _ = (message_id(&bytes), transaction_id(&bytes));
    }
}
