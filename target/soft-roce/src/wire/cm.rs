//! Connection management datagrams (InfiniBand Architecture vol. 1, 12.6), and the header that IP
//! connection management puts in front of the private data (annex A11).
//!
//! Every message is one 256-byte MAD sent to queue pair 1.

use super::headers::DETH_LEN;
use crate::psn::Psn;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// Length of a MAD in bytes.
pub(crate) const MAD_LEN: usize = 256;
/// The queue pair that connection management speaks on.
pub(crate) const CM_QPN: u32 = 1;
/// Its queue key.
pub(crate) const CM_QKEY: u32 = 0x8001_0000;
/// Private data that an upper layer may put in a request: 92 bytes less the IP header's 36.
pub(crate) const REQ_PRIVATE: usize = 56;
/// Private data of a reply in bytes.
pub(crate) const REP_PRIVATE: usize = 196;
/// Private data of a reject in bytes.
pub(crate) const REJ_PRIVATE: usize = 148;

const HEADER: usize = 24;
const CLASS_CM: u8 = 0x07;
const SERVICE_TCP: u64 = 0x0000_0000_0106_0000;
const IP_HEADER: usize = 36;
const _: () = assert!(DETH_LEN == 8);

/// What a message is about (table 97).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u16)]
enum Attribute {
    Req = 0x10,
    Mra = 0x11,
    Rej = 0x12,
    Rep = 0x13,
    Rtu = 0x14,
    Dreq = 0x15,
    Drep = 0x16,
}

/// Which message a reject or MRA answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answered {
    Req,
    Rep,
    Other(u8),
}

/// Reasons of a reject (table 99) that we send or tell apart.
pub(crate) mod reason {
    pub(crate) const NO_RESOURCES: u16 = 3;
    pub(crate) const TIMEOUT: u16 = 4;
    pub(crate) const INVALID_SERVICE_ID: u16 = 8;
    pub(crate) const STALE_CONNECTION: u16 = 10;
    pub(crate) const UNSUPPORTED: u16 = 9;
    pub(crate) const INVALID_MTU: u16 = 26;
    pub(crate) const CONSUMER: u16 = 28;
}

/// A connection request, in the form that RDMA CM over IP sends it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Req {
    pub(crate) local_comm_id: u32,
    /// Port that is asked for, in the TCP port space.
    pub(crate) port: u16,
    pub(crate) ca_guid: u64,
    pub(crate) qpn: u32,
    /// READs that the sender answers at a time.
    pub(crate) responder_resources: u8,
    /// READs that the sender wants to have outstanding.
    pub(crate) initiator_depth: u8,
    /// The PSN that the *receiver* of this request starts with.
    pub(crate) starting_psn: Psn,
    /// Path MTU code: 1 to 5 for 256 to 4096 bytes.
    pub(crate) mtu_code: u8,
    pub(crate) retry_count: u8,
    pub(crate) rnr_retry: u8,
    /// 4.096 us × 2^this: time to wait for an acknowledgement.
    pub(crate) ack_timeout: u8,
    /// 4.096 us × 2^this: time that the receiver may take to answer this message.
    pub(crate) cm_timeout: u8,
    pub(crate) max_cm_retries: u8,
    /// GIDs of both ends as IP addresses.
    pub(crate) local_gid: IpAddr,
    pub(crate) remote_gid: IpAddr,
    pub(crate) flow_label: u32,
    pub(crate) traffic_class: u8,
    pub(crate) hop_limit: u8,
    /// Addresses of the IP header in the private data.
    pub(crate) source: SocketAddr,
    pub(crate) dest: IpAddr,
    pub(crate) private_data: [u8; REQ_PRIVATE],
}

/// A reply: the passive side accepts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rep {
    pub(crate) local_comm_id: u32,
    pub(crate) remote_comm_id: u32,
    pub(crate) qpn: u32,
    /// The PSN that the receiver of this reply starts with.
    pub(crate) starting_psn: Psn,
    pub(crate) responder_resources: u8,
    pub(crate) initiator_depth: u8,
    pub(crate) rnr_retry: u8,
    pub(crate) ca_guid: u64,
    pub(crate) private_data: [u8; REP_PRIVATE],
}

/// A reject.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rej {
    pub(crate) local_comm_id: u32,
    pub(crate) remote_comm_id: u32,
    pub(crate) answered: Answered,
    pub(crate) reason: u16,
    pub(crate) private_data: [u8; REJ_PRIVATE],
}

/// Any message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Message {
    Req(Box<Req>),
    Rep(Box<Rep>),
    Rej(Box<Rej>),
    /// The receiver works on it and asks for more time.
    Mra {
        local_comm_id: u32,
        remote_comm_id: u32,
        answered: Answered,
        timeout: u8,
    },
    /// The active side is ready to use the connection.
    Rtu {
        local_comm_id: u32,
        remote_comm_id: u32,
    },
    /// Ends a connection.
    Dreq {
        local_comm_id: u32,
        remote_comm_id: u32,
        qpn: u32,
    },
    /// Answers that.
    Drep {
        local_comm_id: u32,
        remote_comm_id: u32,
    },
}

/// Why a datagram to queue pair 1 is dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum MadError {
    #[error("not a MAD of 256 bytes")]
    Length,
    #[error("not a connection management message")]
    Class,
    #[error("unknown connection management message {0:#06x}")]
    Attribute(u16),
    #[error("a request that is not of RDMA CM over IP: {0}")]
    Request(&'static str),
}

/// A message and the transaction it belongs to; an answer repeats the transaction of its question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mad {
    pub(crate) transaction: u64,
    pub(crate) message: Message,
}

impl Mad {
    /// Reads a MAD. Lengths, class, version and method are checked.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Mad, MadError> {
        let bytes: &[u8; MAD_LEN] = bytes.try_into().map_err(|_| MadError::Length)?;
        if bytes[..4] != [1, CLASS_CM, 2, 3] {
            return Err(MadError::Class);
        }
        let attribute = be16(bytes, 16);
        let b = &bytes[HEADER..];
        let (local_comm_id, remote_comm_id) = (be32(b, 0), be32(b, 4));
        let message = match attribute {
            a if a == Attribute::Req as u16 => Message::Req(Box::new(Req::parse(b)?)),
            a if a == Attribute::Rep as u16 => Message::Rep(Box::new(Rep {
                local_comm_id,
                remote_comm_id,
                qpn: be32(b, 12) >> 8,
                starting_psn: Psn::new(be32(b, 20) >> 8),
                responder_resources: b[24],
                initiator_depth: b[25],
                rnr_retry: b[27] >> 5,
                ca_guid: be64(b, 28),
                private_data: array(b, 36),
            })),
            a if a == Attribute::Rej as u16 => Message::Rej(Box::new(Rej {
                local_comm_id,
                remote_comm_id,
                answered: Answered::from_bits(b[8] >> 6),
                reason: be16(b, 10),
                private_data: array(b, 84),
            })),
            a if a == Attribute::Mra as u16 => Message::Mra {
                local_comm_id,
                remote_comm_id,
                answered: Answered::from_bits(b[8] >> 6),
                timeout: b[9] >> 3,
            },
            a if a == Attribute::Rtu as u16 => Message::Rtu { local_comm_id, remote_comm_id },
            a if a == Attribute::Dreq as u16 => {
                Message::Dreq { local_comm_id, remote_comm_id, qpn: be32(b, 8) >> 8 }
            }
            a if a == Attribute::Drep as u16 => Message::Drep { local_comm_id, remote_comm_id },
            other => return Err(MadError::Attribute(other)),
        };
        Ok(Mad { transaction: be64(bytes, 8), message })
    }

    /// The MAD's bytes.
    pub(crate) fn to_bytes(&self) -> [u8; MAD_LEN] {
        let mut bytes = [0; MAD_LEN];
        bytes[..4].copy_from_slice(&[1, CLASS_CM, 2, 3]);
        bytes[8..16].copy_from_slice(&self.transaction.to_be_bytes());
        let b = &mut bytes[HEADER..];
        let attribute = match &self.message {
            Message::Req(req) => {
                req.write(b);
                Attribute::Req
            }
            Message::Rep(rep) => {
                put_ids(b, rep.local_comm_id, rep.remote_comm_id);
                put(b, 12, &(rep.qpn << 8).to_be_bytes());
                put(b, 20, &(rep.starting_psn.get() << 8).to_be_bytes());
                b[24] = rep.responder_resources;
                b[25] = rep.initiator_depth;
                b[26] = 15 << 3 | 1; // target ACK delay, end-to-end flow control
                b[27] = rep.rnr_retry << 5;
                put(b, 28, &rep.ca_guid.to_be_bytes());
                put(b, 36, &rep.private_data);
                Attribute::Rep
            }
            Message::Rej(rej) => {
                put_ids(b, rej.local_comm_id, rej.remote_comm_id);
                b[8] = rej.answered.to_bits() << 6;
                put(b, 10, &rej.reason.to_be_bytes());
                put(b, 84, &rej.private_data);
                Attribute::Rej
            }
            Message::Mra { local_comm_id, remote_comm_id, answered, timeout } => {
                put_ids(b, *local_comm_id, *remote_comm_id);
                b[8] = answered.to_bits() << 6;
                b[9] = timeout << 3;
                Attribute::Mra
            }
            Message::Rtu { local_comm_id, remote_comm_id } => {
                put_ids(b, *local_comm_id, *remote_comm_id);
                Attribute::Rtu
            }
            Message::Dreq { local_comm_id, remote_comm_id, qpn } => {
                put_ids(b, *local_comm_id, *remote_comm_id);
                put(b, 8, &(qpn << 8).to_be_bytes());
                Attribute::Dreq
            }
            Message::Drep { local_comm_id, remote_comm_id } => {
                put_ids(b, *local_comm_id, *remote_comm_id);
                Attribute::Drep
            }
        };
        bytes[16..18].copy_from_slice(&(attribute as u16).to_be_bytes());
        bytes
    }
}

impl Req {
    fn parse(b: &[u8]) -> Result<Req, MadError> {
        let service = be64(b, 8);
        if service & !0xffff != SERVICE_TCP {
            return Err(MadError::Request("service id outside the TCP port space"));
        }
        if (b[43] >> 1) & 3 != 0 {
            return Err(MadError::Request("not a reliable connection"));
        }
        let ip = &b[140..140 + IP_HEADER];
        if ip[0] != 0 {
            return Err(MadError::Request("unknown version of the IP header"));
        }
        let source_port = be16(ip, 2);
        let (source, dest) = match ip[1] >> 4 {
            4 => (v4(ip, 16), v4(ip, 32)),
            6 => (gid(ip, 4), gid(ip, 20)),
            _ => return Err(MadError::Request("unknown IP version")),
        };
        Ok(Req {
            local_comm_id: be32(b, 0),
            port: service as u16,
            ca_guid: be64(b, 16),
            qpn: be32(b, 32) >> 8,
            responder_resources: b[35],
            initiator_depth: b[39],
            starting_psn: Psn::new(be32(b, 44) >> 8),
            mtu_code: b[50] >> 4,
            retry_count: b[47] & 7,
            rnr_retry: b[50] & 7,
            ack_timeout: b[95] >> 3,
            cm_timeout: b[43] >> 3,
            max_cm_retries: b[51] >> 4,
            local_gid: gid(b, 56),
            remote_gid: gid(b, 72),
            flow_label: be32(b, 88) >> 12,
            traffic_class: b[92],
            hop_limit: b[93],
            source: SocketAddr::new(source, source_port),
            dest,
            private_data: array(b, 140 + IP_HEADER),
        })
    }

    fn write(&self, b: &mut [u8]) {
        put(b, 0, &self.local_comm_id.to_be_bytes());
        put(b, 8, &(SERVICE_TCP | u64::from(self.port)).to_be_bytes());
        put(b, 16, &self.ca_guid.to_be_bytes());
        put(b, 32, &(self.qpn << 8).to_be_bytes());
        b[35] = self.responder_resources;
        b[39] = self.initiator_depth;
        b[43] = self.cm_timeout << 3 | 1; // remote CM timeout, RC, end-to-end flow control
        put(b, 44, &(self.starting_psn.get() << 8).to_be_bytes());
        b[47] = self.cm_timeout << 3 | (self.retry_count & 7);
        put(b, 48, &super::headers::DEFAULT_PKEY.to_be_bytes());
        b[50] = self.mtu_code << 4 | (self.rnr_retry & 7);
        b[51] = self.max_cm_retries << 4;
        put(b, 52, &[0xff; 4]); // no LIDs on Ethernet
        put(b, 56, &to_gid(self.local_gid));
        put(b, 72, &to_gid(self.remote_gid));
        put(b, 88, &(self.flow_label << 12).to_be_bytes());
        b[92] = self.traffic_class;
        b[93] = self.hop_limit;
        b[95] = self.ack_timeout << 3;
        let ip = &mut b[140..140 + IP_HEADER];
        put(ip, 2, &self.source.port().to_be_bytes());
        match (self.source.ip(), self.dest) {
            (IpAddr::V4(source), IpAddr::V4(dest)) => {
                ip[1] = 4 << 4;
                put(ip, 16, &source.octets());
                put(ip, 32, &dest.octets());
            }
            (source, dest) => {
                ip[1] = 6 << 4;
                put(ip, 4, &to_gid(source));
                put(ip, 20, &to_gid(dest));
            }
        }
        put(b, 140 + IP_HEADER, &self.private_data);
    }
}

impl Answered {
    fn from_bits(bits: u8) -> Answered {
        match bits {
            0 => Answered::Req,
            1 => Answered::Rep,
            other => Answered::Other(other),
        }
    }

    fn to_bits(self) -> u8 {
        match self {
            Answered::Req => 0,
            Answered::Rep => 1,
            Answered::Other(bits) => bits & 3,
        }
    }
}

/// Bytes of a path MTU code; `None` for a code that does not exist.
pub(crate) fn mtu_bytes(code: u8) -> Option<u32> {
    (1..=5).contains(&code).then(|| 128 << code)
}

/// Code of the largest path MTU of at most `bytes`, which is at least 256.
pub(crate) fn mtu_code(bytes: u32) -> u8 {
    (1..=5).rev().find(|code| 128 << code <= bytes).unwrap_or(1)
}

/// Time that a 5-bit timeout code of the CM stands for, in nanoseconds.
pub(crate) fn timeout_ns(code: u8) -> u64 {
    4096 << (code & 0x1f)
}

fn put(b: &mut [u8], at: usize, bytes: &[u8]) {
    b[at..at + bytes.len()].copy_from_slice(bytes);
}

fn put_ids(b: &mut [u8], local: u32, remote: u32) {
    put(b, 0, &local.to_be_bytes());
    put(b, 4, &remote.to_be_bytes());
}

fn array<const N: usize>(b: &[u8], at: usize) -> [u8; N] {
    b[at..at + N].try_into().expect("N bytes")
}

fn be16(b: &[u8], at: usize) -> u16 {
    u16::from_be_bytes(array(b, at))
}

fn be32(b: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(array(b, at))
}

fn be64(b: &[u8], at: usize) -> u64 {
    u64::from_be_bytes(array(b, at))
}

fn v4(b: &[u8], at: usize) -> IpAddr {
    IpAddr::from(array::<4>(b, at))
}

/// A GID of RoCEv2 is an IPv6 address; an IPv4 address is mapped into one.
fn gid(b: &[u8], at: usize) -> IpAddr {
    Ipv6Addr::from(array::<16>(b, at)).to_canonical()
}

fn to_gid(addr: IpAddr) -> [u8; 16] {
    match addr {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    }
}
