//! Entrances for initiator-tests/fuzz: each takes any bytes, drives a part with them and panics
//! when that part breaks one of its promises.
//!
//! What comes back are *features*: numbers that name what was reached (a state, an answer, a
//! pairing of both). An input with a feature that none before had is worth keeping.

mod cm;
mod engine;

pub use cm::connections;
pub use engine::queue_pairs;

use crate::wire::cm::Mad;
use crate::wire::icrc::{Columns, Heads, Prefix, Solved};
use crate::wire::packet::{Packet, packet_len};
use std::net::IpAddr;

/// Bytes of one operation of [`queue_pairs`] and [`connections`]: inputs are best changed in
/// pieces of this size.
pub const OP_LEN: usize = 12;

/// Takes `data` apart as a datagram, as a MAD and as one to be sealed and checked.
///
/// # Panics
/// When parsing, building and checking contradict each other.
pub fn packets(data: &[u8]) -> Vec<u32> {
    let mut seen = Vec::new();
    match Packet::parse(data) {
        Ok(packet) => {
            assert_eq!(packet.opcode.to_byte(), packet.bth.opcode);
            assert!(packet_len(packet.opcode, packet.payload.len()) <= data.len());
            seen.push(u32::from(packet.bth.opcode) << 8 | u32::from(packet.bth.pad));
            if let Some(aeth) = packet.aeth {
                assert_eq!(crate::wire::headers::Aeth::parse(&aeth.to_bytes()).msn, aeth.msn);
                seen.push(1 << 16 | u32::from(aeth.to_bytes()[0] >> 5));
            }
            seen.push(2 << 16 | packet.payload.len().ilog2_or_zero());
        }
        Err(error) => seen.push(3 << 16 | error_number(&error)),
    }
    match Mad::parse(data) {
        Ok(mad) => {
            assert_eq!(Mad::parse(&mad.to_bytes()), Ok(mad));
            seen.push(4 << 16 | u32::from(data[16]) << 8 | u32::from(data[17]));
        }
        Err(error) => {
            let text = error.to_string();
            seen.push(5 << 16 | text.bytes().fold(0, |sum: u32, b| sum.wrapping_add(b.into())));
        }
    }
    if data.len() >= 22 {
        let ident = u16::from_be_bytes([data[0], data[1]]);
        let guess = u16::from_be_bytes([data[2], data[3]]);
        let v6 = data[4] & 1 == 1;
        let addr = |last| match v6 {
            true => IpAddr::from([0xfe80, 0, 0, 0, 0, 0, 0, last]),
            false => IpAddr::from([10, 0, 0, last as u8]),
        };
        let prefix = Prefix { source: addr(1), dest: addr(2), source_port: 49152, dest_port: 4791 };
        let mut datagram = data[5..].to_vec();
        prefix.seal(&mut Heads::default(), ident, &mut datagram);
        let found = prefix.solve(&mut Columns::default(), guess, &mut datagram);
        let expected = if v6 { guess } else { ident };
        assert_eq!(found, Solved::Identification(expected));
    }
    seen
}

fn error_number(error: &crate::wire::packet::PacketError) -> u32 {
    use crate::wire::packet::PacketError;
    match error {
        PacketError::Short(_) => 0,
        PacketError::Version => 1,
        PacketError::Opcode(_) => 2,
        PacketError::Padding => 3,
    }
}

trait Log2 {
    fn ilog2_or_zero(self) -> u32;
}

impl Log2 for usize {
    fn ilog2_or_zero(self) -> u32 {
        self.checked_ilog2().unwrap_or(0)
    }
}

/// Numbers out of the bytes of one operation.
struct Op<'a>(&'a [u8]);

impl Op<'_> {
    fn byte(&self, at: usize) -> u8 {
        self.0.get(at).copied().unwrap_or(0)
    }

    fn word(&self, at: usize) -> u16 {
        u16::from_be_bytes([self.byte(at), self.byte(at + 1)])
    }

    fn long(&self, at: usize) -> u32 {
        u32::from(self.word(at)) << 16 | u32::from(self.word(at + 2))
    }
}
