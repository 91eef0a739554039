use super::cm::{self, Answered, Mad, Message};
use super::headers::*;
use super::icrc::{Columns, Heads, Prefix, Solved};
use super::packet::{Packet, PacketError, packet_len, pad_len};
use crate::psn::Psn;
use proptest::prelude::*;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

#[path = "frames.rs"]
mod frames;

/// An IPv4 packet of a capture, split into what the ICRC needs and the datagram.
struct Frame {
    prefix: Prefix,
    ident: u16,
    fragment: u16,
    datagram: Vec<u8>,
}

fn frame(hex: &str) -> Frame {
    let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
    let ip: Vec<u8> = digits
        .chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect();
    let word = |at: usize| u16::from_be_bytes([ip[at], ip[at + 1]]);
    let addr = |at: usize| IpAddr::V4(Ipv4Addr::new(ip[at], ip[at + 1], ip[at + 2], ip[at + 3]));
    Frame {
        prefix: Prefix {
            source: addr(12),
            dest: addr(16),
            source_port: word(20),
            dest_port: word(22),
        },
        ident: word(4),
        fragment: word(6),
        datagram: ip[28..].to_vec(),
    }
}

const ALL: [&str; 11] = [
    frames::REQ,
    frames::REP,
    frames::RTU,
    frames::SEND_ONLY,
    frames::ACK,
    frames::READ_REQUEST,
    frames::SEND_ONLY_INV,
    frames::WRITE_LAST,
    frames::SEND_LAST,
    frames::DREQ,
    frames::DREP,
];

#[test]
fn the_icrc_of_real_packets_is_right() {
    for hex in ALL {
        let f = frame(hex);
        assert!(f.prefix.verify(f.ident, f.fragment, &f.datagram));
        assert!(!f.prefix.verify(f.ident ^ 1, f.fragment, &f.datagram));
        let mut sealed = f.datagram.clone();
        f.prefix.seal(&mut Heads::default(), f.ident, &mut sealed);
        assert_eq!(sealed, f.datagram);
    }
}

#[test]
fn an_unseen_identification_is_solved_and_damage_is_found() {
    let mut columns = Columns::default();
    for hex in ALL {
        let mut f = frame(hex);
        let before = f.datagram.clone();
        let solved = f.prefix.solve(&mut columns, 0, &mut f.datagram);
        assert_eq!(f.datagram, before);
        assert_eq!(solved, Solved::Identification(f.ident));
        for at in [0, 5, 12, f.datagram.len() - 1] {
            let mut damaged = f.datagram.clone();
            damaged[at] ^= 0x10;
            if at == 4 {
                continue; // the congestion byte is not covered
            }
            assert_eq!(f.prefix.solve(&mut columns, 0, &mut damaged), Solved::Damaged, "byte {at}");
        }
    }
}

#[test]
fn ipv6_packets_are_sealed_and_checked() {
    let prefix = Prefix {
        source: IpAddr::V6(Ipv6Addr::LOCALHOST),
        dest: IpAddr::V6(Ipv6Addr::LOCALHOST),
        source_port: 50000,
        dest_port: 4791,
    };
    let mut datagram = frame(frames::ACK).datagram;
    prefix.seal(&mut Heads::default(), 0, &mut datagram);
    let mut columns = Columns::default();
    assert_eq!(prefix.solve(&mut columns, 0, &mut datagram), Solved::Identification(0));
    datagram[9] ^= 1;
    assert_eq!(prefix.solve(&mut columns, 0, &mut datagram), Solved::Damaged);
}

#[test]
fn real_packets_are_taken_apart() {
    let f = frame(frames::SEND_ONLY);
    let p = Packet::parse(&f.datagram).unwrap();
    assert_eq!(p.opcode, Opcode::plain(Kind::Send, Part::Only));
    assert_eq!((p.bth.dest_qpn, p.bth.ack_req), (0x11, true));
    assert_eq!((p.bth.psn, p.payload.len()), (Psn::new(0x54f208), 64));
    assert_eq!(p.bth.to_bytes(), f.datagram[..BTH_LEN]);

    let p = frame(frames::ACK);
    let p = Packet::parse(&p.datagram).unwrap();
    assert_eq!(p.aeth, Some(Aeth { syndrome: Syndrome::Ack, msn: 1 }));

    let p = frame(frames::READ_REQUEST);
    let p = Packet::parse(&p.datagram).unwrap();
    let reth = Reth { addr: 0xffff_8880_bd10_e800, rkey: 0x336, len: 1024 };
    assert_eq!((p.reth, p.payload.len()), (Some(reth), 0));

    let p = frame(frames::SEND_ONLY_INV);
    let p = Packet::parse(&p.datagram).unwrap();
    assert!(p.opcode.invalidate);
    assert_eq!((p.imm, p.payload.len()), (0x336, 16));
}

fn mad(hex: &str) -> (Mad, Vec<u8>) {
    let f = frame(hex);
    let packet = Packet::parse(&f.datagram).unwrap();
    assert_eq!(packet.deth, Some(Deth { qkey: cm::CM_QKEY, src_qpn: cm::CM_QPN }));
    (Mad::parse(packet.payload).unwrap(), packet.payload.to_vec())
}

#[test]
fn a_linux_connect_request_is_read() {
    let (mad, bytes) = mad(frames::REQ);
    let Message::Req(req) = &mad.message else { panic!("{mad:?}") };
    assert_eq!((req.port, req.qpn, req.responder_resources), (4420, 0x11, 128));
    assert_eq!((req.starting_psn, req.mtu_code), (Psn::new(0x987fec), 5));
    assert_eq!((req.retry_count, req.rnr_retry, req.ack_timeout), (7, 7, 19));
    assert_eq!(req.local_gid, IpAddr::V4(Ipv4Addr::new(10, 9, 0, 1)));
    assert_eq!(req.source, "10.9.0.1:58030".parse().unwrap());
    assert_eq!(req.dest, IpAddr::V4(Ipv4Addr::new(10, 9, 0, 2)));
    assert_eq!(req.private_data[4..8], [32, 0, 31, 0]);
    assert_eq!(mad.to_bytes()[HEADER_AND_IDS], bytes[HEADER_AND_IDS]);
}

/// MAD header and communication ids: what every message of ours repeats exactly.
const HEADER_AND_IDS: std::ops::Range<usize> = 0..28;

#[test]
fn the_other_messages_of_a_session_are_read() {
    let (req, _) = mad(frames::REQ);
    let (rep, _) = mad(frames::REP);
    assert_eq!(req.transaction, rep.transaction);
    let Message::Rep(rep) = rep.message else { panic!() };
    assert_eq!((rep.qpn, rep.starting_psn), (0x11, Psn::new(0x54f208)));
    assert_eq!((rep.responder_resources, rep.initiator_depth, rep.rnr_retry), (0, 128, 7));
    assert_eq!(rep.private_data[..4], [0, 0, 32, 0]);
    assert!(matches!(mad(frames::RTU).0.message, Message::Rtu { .. }));
    assert!(matches!(mad(frames::DREQ).0.message, Message::Dreq { qpn: 0x12, .. }));
    assert!(matches!(mad(frames::DREP).0.message, Message::Drep { .. }));
}

#[test]
fn what_is_written_is_read_back_alike() {
    for hex in [frames::REQ, frames::REP, frames::RTU, frames::DREQ, frames::DREP] {
        let (mad, _) = mad(hex);
        assert_eq!(Mad::parse(&mad.to_bytes()), Ok(mad));
    }
    let message =
        Message::Mra { local_comm_id: 1, remote_comm_id: 2, answered: Answered::Rep, timeout: 19 };
    let mad = Mad { transaction: 9, message };
    assert_eq!(Mad::parse(&mad.to_bytes()), Ok(mad));
}

#[test]
fn mtu_codes_and_timers_follow_the_tables() {
    assert_eq!(
        (1..=5).map(|c| cm::mtu_bytes(c).unwrap()).collect::<Vec<_>>(),
        [256, 512, 1024, 2048, 4096]
    );
    assert_eq!((cm::mtu_bytes(0), cm::mtu_bytes(6)), (None, None));
    assert_eq!((cm::mtu_code(4096), cm::mtu_code(1436), cm::mtu_code(300)), (5, 3, 1));
    assert_eq!(cm::timeout_ns(17) / 1_000_000, 536);
    assert_eq!((rnr_delay_us(0), rnr_delay_us(1), rnr_delay_us(31)), (655_360, 10, 491_520));
}

#[test]
fn padding_must_fit() {
    assert_eq!([0, 1, 2, 3, 4, 5].map(pad_len), [0, 3, 2, 1, 0, 3]);
    let opcode = Opcode::plain(Kind::Send, Part::Only);
    assert_eq!(packet_len(opcode, 5), BTH_LEN + 8 + 4);
    let bth = Bth {
        opcode: 4,
        solicited: false,
        pad: 3,
        pkey: 0xffff,
        becn: false,
        dest_qpn: 1,
        ack_req: false,
        psn: Psn::new(0),
    };
    let mut bytes = bth.to_bytes().to_vec();
    bytes.extend([0; 4]);
    assert_eq!(Packet::parse(&bytes), Err(PacketError::Padding));
    bytes.extend([0; 4]);
    assert_eq!(Packet::parse(&bytes).unwrap().payload.len(), 1);
}

proptest! {
    #[test]
    fn no_bytes_make_the_parsers_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        if let Ok(packet) = Packet::parse(&bytes) {
            prop_assert_eq!(packet.opcode.to_byte(), packet.bth.opcode);
            let len = packet_len(packet.opcode, packet.payload.len());
            // Padding may be longer than needed, never shorter.
            prop_assert!(len <= bytes.len());
        }
        let _ = Mad::parse(&bytes);
    }

    #[test]
    fn no_mad_makes_the_parser_panic(kind in 0u16..0x20, body in proptest::collection::vec(any::<u8>(), 232)) {
        let mut bytes = vec![1, 7, 2, 3];
        bytes.resize(24, 0);
        bytes[16..18].copy_from_slice(&kind.to_be_bytes());
        bytes.extend(body);
        if let Ok(mad) = Mad::parse(&bytes) {
            prop_assert_eq!(Mad::parse(&mad.to_bytes()), Ok(mad));
        }
    }

    #[test]
    fn any_identification_is_solved(ident: u16, guess: u16, len in 4usize..300) {
        let mut f = frame(frames::SEND_ONLY);
        f.datagram.resize(12 + len, 0x5a);
        f.prefix.seal(&mut Heads::default(), ident, &mut f.datagram);
        let mut columns = Columns::default();
        prop_assert_eq!(
            f.prefix.solve(&mut columns, guess, &mut f.datagram),
            Solved::Identification(ident)
        );
    }
}
