//! The invariant CRC (RoCEv2 annex A17.3.3, InfiniBand Architecture vol. 1, 7.8.1).
//!
//! CRC-32 over eight bytes of ones, the IP and UDP headers with the fields that routers change set
//! to ones, the BTH with its congestion byte set to ones, and the rest of the packet. It is stored
//! least significant byte first.
//!
//! The IPv4 identification is covered, and an ordinary UDP socket does not show it on receiving.
//! The CRC is linear in it over GF(2), so [`Prefix::solve`] recovers the one identification that
//! makes a packet right; what is left of the check then is 16 of its 32 bits.

use super::headers::{BTH_LEN, ICRC_LEN};
use crc32fast::Hasher;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const UDP_LEN: usize = 8;
const DONT_FRAGMENT: u16 = 0x4000;
/// The byte of the BTH that routers may change.
const CONGESTION_AT: usize = 4;

/// The addresses that a packet's CRC covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Prefix {
    pub(crate) source: IpAddr,
    pub(crate) dest: IpAddr,
    pub(crate) source_port: u16,
    pub(crate) dest_port: u16,
}

/// What became of solving for an unknown identification.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Solved {
    /// This identification makes the CRC right.
    Identification(u16),
    /// None does: the packet is damaged.
    Damaged,
}

impl Prefix {
    /// The CRC of `packet` (BTH to padding, ICRC excluded) when it travels with the IPv4
    /// identification `ident` and Don't Fragment set. IPv6 has no identification. The packet's
    /// congestion byte is masked for as long as this takes.
    fn icrc(&self, heads: &mut Heads, ident: u16, packet: &mut [u8]) -> u32 {
        continued(heads.of(self, ident, udp_len(packet)), packet)
    }

    /// The CRC of what comes before the BTH.
    fn head(&self, ident: u16, fragment: u16, udp_len: u16) -> u32 {
        let mut head = [0xffu8; 8 + 40 + UDP_LEN];
        let udp = match (self.source, self.dest) {
            (IpAddr::V4(source), IpAddr::V4(dest)) => {
                ipv4_header(&mut head[8..28], source, dest, ident, fragment, udp_len);
                28
            }
            (source, dest) => {
                ipv6_header(&mut head[8..48], to_v6(source), to_v6(dest), udp_len);
                48
            }
        };
        head[udp..udp + 2].copy_from_slice(&self.source_port.to_be_bytes());
        head[udp + 2..udp + 4].copy_from_slice(&self.dest_port.to_be_bytes());
        head[udp + 4..udp + 6].copy_from_slice(&udp_len.to_be_bytes());
        // The UDP checksum stays all ones.
        crc32fast::hash(&head[..udp + UDP_LEN])
    }

    /// Writes the CRC into the last four bytes of `datagram`.
    pub(crate) fn seal(&self, heads: &mut Heads, ident: u16, datagram: &mut [u8]) {
        let at = datagram.len() - ICRC_LEN;
        let crc = self.icrc(heads, ident, &mut datagram[..at]);
        datagram[at..].copy_from_slice(&crc.to_le_bytes());
    }

    #[cfg(test)]
    /// Whether the CRC at the end of `datagram` is right for a known identification and fragment
    /// field (flags and offset, as in the IPv4 header).
    pub(crate) fn verify(&self, ident: u16, fragment: u16, datagram: &[u8]) -> bool {
        let mut datagram = datagram.to_vec();
        let Some((packet, stored)) = datagram.split_last_chunk_mut::<ICRC_LEN>() else {
            return false;
        };
        let head = self.head(ident, fragment, udp_len(packet));
        packet.len() >= BTH_LEN && continued(head, packet) == u32::from_le_bytes(*stored)
    }

    /// Finds the identification that makes the CRC of `datagram` right, for a sender that sets
    /// Don't Fragment. For IPv6 it only checks, and answers with the guess. The datagram is
    /// changed on the way and back.
    pub(crate) fn solve(&self, columns: &mut Columns, guess: u16, datagram: &mut [u8]) -> Solved {
        let Some((packet, stored)) = datagram.split_last_chunk_mut::<ICRC_LEN>() else {
            return Solved::Damaged;
        };
        if packet.len() < BTH_LEN {
            return Solved::Damaged;
        }
        let wanted = u32::from_le_bytes(*stored);
        let difference = self.icrc(&mut columns.heads, guess, packet) ^ wanted;
        if difference == 0 {
            return Solved::Identification(guess);
        }
        if self.source.is_ipv6() {
            return Solved::Damaged;
        }
        // Bytes of the covered sequence behind the identification: the rest of the IP header,
        // the UDP header and the packet.
        match columns.for_tail(14 + UDP_LEN + packet.len()).solve(difference) {
            Some(flips) => Solved::Identification(guess ^ flips),
            None => Solved::Damaged,
        }
    }
}

/// What the length field of the UDP header says for `packet`, the ICRC excluded from it.
fn udp_len(packet: &[u8]) -> u16 {
    (UDP_LEN + packet.len() + ICRC_LEN) as u16
}

/// The CRC of a packet behind a head whose CRC is `head`.
fn continued(head: u32, packet: &mut [u8]) -> u32 {
    let congestion = std::mem::replace(&mut packet[CONGESTION_AT], 0xff);
    let mut hasher = Hasher::new_with_initial(head);
    hasher.update(packet);
    packet[CONGESTION_AT] = congestion;
    hasher.finalize()
}

/// CRCs of heads, remembered: a connection's packets have few lengths, and the CRC is linear in
/// the identification.
#[derive(Debug)]
pub(crate) struct Heads {
    /// Addresses, UDP length, and the CRC of that head with identification 0. A place is found by
    /// the length.
    known: [Option<(Prefix, u16, u32)>; Heads::MAX],
    /// How the identifications of a run's packets move the CRC.
    moves: [u32; Heads::MOVES],
}

impl Default for Heads {
    fn default() -> Heads {
        let moves = std::array::from_fn(|ident| ident_moves(ident as u16));
        Heads { known: [None; Heads::MAX], moves }
    }
}

impl Heads {
    const MAX: usize = 16;
    /// Packets of one run at most.
    const MOVES: usize = 64;

    fn of(&mut self, prefix: &Prefix, ident: u16, udp_len: u16) -> u32 {
        let place = &mut self.known[usize::from(udp_len >> 2) % Heads::MAX];
        let head = match place {
            Some((known, len, head)) if *len == udp_len && known == prefix => *head,
            _ => {
                let head = prefix.head(0, DONT_FRAGMENT, udp_len);
                *place = Some((*prefix, udp_len, head));
                head
            }
        };
        if ident == 0 || prefix.source.is_ipv6() {
            return head;
        }
        let known = self.moves.get(usize::from(ident)).copied();
        head ^ known.unwrap_or_else(|| ident_moves(ident))
    }
}

/// How an IPv4 identification moves the CRC of a head: the CRC of it and the bytes behind it, less
/// the CRC of as many zeroes.
fn ident_moves(ident: u16) -> u32 {
    const TAIL: usize = 14 + UDP_LEN;
    let mut bytes = [0; 2 + TAIL];
    let zeroes = crc32fast::hash(&bytes);
    bytes[..2].copy_from_slice(&ident.to_be_bytes());
    crc32fast::hash(&bytes) ^ zeroes
}

fn ipv4_header(
    out: &mut [u8],
    source: Ipv4Addr,
    dest: Ipv4Addr,
    ident: u16,
    fragment: u16,
    udp_len: u16,
) {
    out[0] = 0x45;
    // Type of service (1), time to live (8) and header checksum (10, 11) stay all ones.
    out[2..4].copy_from_slice(&(20 + udp_len).to_be_bytes());
    out[4..6].copy_from_slice(&ident.to_be_bytes());
    out[6..8].copy_from_slice(&fragment.to_be_bytes());
    out[9] = 17;
    out[12..16].copy_from_slice(&source.octets());
    out[16..20].copy_from_slice(&dest.octets());
}

fn ipv6_header(out: &mut [u8], source: Ipv6Addr, dest: Ipv6Addr, udp_len: u16) {
    // Version 6; traffic class and flow label all ones, as is the hop limit (7).
    out[0] = 0x6f;
    out[4..6].copy_from_slice(&udp_len.to_be_bytes());
    out[6] = 17;
    out[8..24].copy_from_slice(&source.octets());
    out[24..40].copy_from_slice(&dest.octets());
}

fn to_v6(addr: IpAddr) -> Ipv6Addr {
    match addr {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    }
}

/// How each bit of the identification moves the CRC, for the packet lengths seen lately.
#[derive(Debug, Default)]
pub(crate) struct Columns {
    /// At most [`Columns::MAX`] lengths; the oldest goes first.
    known: Vec<Basis>,
    next: usize,
    heads: Heads,
}

/// The 16 CRC differences of one length, in reduced form.
#[derive(Debug, Clone)]
struct Basis {
    tail: usize,
    /// Pairs of a CRC difference with a leading bit of its own, and the flips that cause it.
    rows: [(u32, u16); 16],
}

impl Columns {
    /// Lengths remembered: an endpoint sees few.
    const MAX: usize = 32;

    fn for_tail(&mut self, tail: usize) -> &Basis {
        if let Some(at) = self.known.iter().position(|basis| basis.tail == tail) {
            return &self.known[at];
        }
        let basis = Basis::new(tail);
        if self.known.len() < Self::MAX {
            self.known.push(basis);
            return self.known.last().expect("just pushed");
        }
        self.next = (self.next + 1) % Self::MAX;
        self.known[self.next] = basis;
        &self.known[self.next]
    }
}

impl Basis {
    fn new(tail: usize) -> Basis {
        // A difference of two bytes followed by `tail` equal bytes: the CRC of that message less
        // the CRC of the same length of zeroes.
        let zeroes = vec![0u8; tail];
        let crc_of = |ident: u16| {
            let mut hasher = Hasher::new();
            hasher.update(&ident.to_be_bytes());
            hasher.update(&zeroes);
            hasher.finalize()
        };
        let zero = crc_of(0);
        let mut rows = [(0u32, 0u16); 16];
        for filled in 0..16 {
            let mut row = (crc_of(1 << filled) ^ zero, 1u16 << filled);
            for &(crc, flips) in &rows[..filled] {
                if row.0 & leading(crc) != 0 {
                    row = (row.0 ^ crc, row.1 ^ flips);
                }
            }
            assert!(row.0 != 0, "CRC-32 tells any two 16-bit differences apart");
            for other in &mut rows[..filled] {
                if other.0 & leading(row.0) != 0 {
                    *other = (other.0 ^ row.0, other.1 ^ row.1);
                }
            }
            rows[filled] = row;
        }
        Basis { tail, rows }
    }

    /// The flips of identification bits that cause this CRC difference, if any do.
    fn solve(&self, difference: u32) -> Option<u16> {
        let (mut left, mut flips) = (difference, 0);
        for &(crc, bits) in &self.rows {
            if left & leading(crc) != 0 {
                left ^= crc;
                flips ^= bits;
            }
        }
        (left == 0).then_some(flips)
    }
}

fn leading(value: u32) -> u32 {
    1 << (31 - value.leading_zeros())
}
