//! Packets on their way out: one block of memory, filled once a turn, sent by the edge.
//!
//! Packets of the same length that follow each other to the same peer form a *run*, which the edge
//! hands to the kernel as one segmented send. The kernel numbers the IPv4 identifications of a
//! run's segments 0, 1, 2, …, and the ICRC covers them: so a packet is sealed with its place in
//! its run.
//!
//! Where no wire lies between, a run arrives in one piece, and a peer of our own make takes it by
//! the socket that its first packet is steered to: all of a run is for one core there, which then
//! has nothing to hand over to others.

use crate::path::Path;
use crate::psn::Psn;
use crate::socket::steered_to;
use crate::wire::headers::{BTH_LEN, Bth, DEFAULT_PKEY, ICRC_LEN, OPCODE_CNP, Opcode};
use crate::wire::icrc::{Heads, Prefix};
use crate::wire::packet::{packet_len, pad_len};

/// Most segments in a run: what every kernel since 5.4 takes in one segmented send.
const MAX_SEGMENTS: usize = 64;
/// Most bytes in a run: a UDP datagram before segmentation is bounded by IP's length field.
const MAX_RUN_BYTES: usize = 65_000;

/// Room that any packet fits: headers, 4096 bytes and the ICRC.
pub(crate) const MAX_PACKET: usize = 4200;

/// Reserved bytes of a congestion notification.
const NOTIFICATION_LEN: usize = 16;

/// Packets of one length for one peer, one behind the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) start: usize,
    pub(crate) end: usize,
    /// Bytes of each packet but perhaps a shorter last one.
    pub(crate) segment: usize,
    pub(crate) count: usize,
    pub(crate) prefix: Prefix,
    pub(crate) traffic_class: u8,
    /// How a peer of our own make steers it.
    steered_to: u8,
}

/// Packets to send.
#[derive(Debug)]
pub(crate) struct Batch {
    /// Of fixed length: packets are written over those of earlier turns.
    bytes: Box<[u8]>,
    /// Bytes that hold packets.
    len: usize,
    runs: Vec<Run>,
    /// Runs that the edge is done with.
    gone: usize,
    /// Whether runs of more than one packet may be made.
    segmented: bool,
    heads: Heads,
}

/// Headers and length of a packet to add.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Header<'a> {
    pub(crate) opcode: Opcode,
    pub(crate) psn: Psn,
    pub(crate) ack_req: bool,
    pub(crate) solicited: bool,
    /// Extension headers, already encoded.
    pub(crate) extension: &'a [u8],
}

impl Batch {
    /// An empty batch of `capacity` bytes.
    pub(crate) fn new(capacity: usize, segmented: bool) -> Batch {
        let bytes = vec![0; capacity].into();
        Batch { bytes, len: 0, runs: Vec::new(), gone: 0, segmented, heads: Heads::default() }
    }

    /// Makes no more runs of several packets: the kernel, or a card, does not take them.
    pub(crate) fn stop_segmenting(&mut self) {
        self.segmented = false;
    }

    /// Whether another packet of the largest size fits.
    pub(crate) fn has_room(&self) -> bool {
        self.len + MAX_PACKET <= self.bytes.len()
    }

    /// The runs that are still to be sent.
    pub(crate) fn runs(&self) -> &[Run] {
        &self.runs[self.gone..]
    }

    /// The edge is done with the next `count` runs.
    pub(crate) fn advance(&mut self, count: usize) {
        self.gone += count;
    }

    /// The bytes of a run.
    pub(crate) fn bytes(&self, run: &Run) -> &[u8] {
        &self.bytes[run.start..run.end]
    }

    pub(crate) fn clear(&mut self) {
        self.len = 0;
        self.gone = 0;
        self.runs.clear();
    }

    /// Adds a packet with `payload` bytes, which `fill` writes.
    pub(crate) fn push(
        &mut self,
        path: &Path,
        header: Header<'_>,
        payload: usize,
        fill: impl FnOnce(&mut [u8]),
    ) {
        debug_assert_eq!(header.extension.len(), header.opcode.extension_len());
        let len = packet_len(header.opcode, payload);
        let (start, ident) = self.place(path, len);
        let pad = pad_len(payload);
        let bth = Bth {
            opcode: header.opcode.to_byte(),
            solicited: header.solicited,
            pad: pad as u8,
            pkey: DEFAULT_PKEY,
            becn: false,
            dest_qpn: path.dest_qpn,
            ack_req: header.ack_req,
            psn: header.psn,
        };
        let packet = &mut self.bytes[start..start + len];
        packet[..BTH_LEN].copy_from_slice(&bth.to_bytes());
        let body = BTH_LEN + header.extension.len();
        packet[BTH_LEN..body].copy_from_slice(header.extension);
        fill(&mut packet[body..body + payload]);
        packet[body + payload..body + payload + pad].fill(0);
        path.prefix.seal(&mut self.heads, ident, packet);
    }

    /// Adds a congestion notification (annex A17.9.3): sixteen reserved bytes behind the BTH.
    pub(crate) fn push_notification(&mut self, path: &Path) {
        let len = BTH_LEN + NOTIFICATION_LEN + ICRC_LEN;
        let (start, ident) = self.place(path, len);
        let bth = Bth {
            opcode: OPCODE_CNP,
            solicited: false,
            pad: 0,
            pkey: DEFAULT_PKEY,
            becn: true,
            dest_qpn: path.dest_qpn,
            ack_req: false,
            psn: Psn::new(0),
        };
        let packet = &mut self.bytes[start..start + len];
        packet[..BTH_LEN].copy_from_slice(&bth.to_bytes());
        packet[BTH_LEN..].fill(0);
        path.prefix.seal(&mut self.heads, ident, packet);
    }

    /// Makes room for a packet: where it starts, and its identification.
    fn place(&mut self, path: &Path, len: usize) -> (usize, u16) {
        debug_assert!(len <= MAX_PACKET);
        let start = self.len;
        self.len += len;
        (start, self.extend_run(path, start, len))
    }

    /// Puts the packet at `start` into the last run or a new one, and returns its identification.
    fn extend_run(&mut self, path: &Path, start: usize, len: usize) -> u16 {
        if self.segmented
            && let Some(run) = self.runs.last_mut()
            && run.prefix == path.prefix
            && run.traffic_class == path.traffic_class
            && run.steered_to == steered_to(path.dest_qpn)
            && run.count < MAX_SEGMENTS
            && run.end - run.start + len <= MAX_RUN_BYTES
            && len <= run.segment
            && (run.end - run.start) == run.segment * run.count
        {
            run.end = start + len;
            run.count += 1;
            return (run.count - 1) as u16;
        }
        self.runs.push(Run {
            start,
            end: start + len,
            segment: len,
            count: 1,
            prefix: path.prefix,
            traffic_class: path.traffic_class,
            steered_to: steered_to(path.dest_qpn),
        });
        0
    }
}
