//! UDP sockets: one for the connection manager and one for each core at every local address.
//!
//! All sockets of an address share port 4791. A small filter in the kernel steers each packet to
//! the socket of the core that its destination queue pair number names. Packets that the kernel
//! has joined go to one socket together, and are sorted there (`intake`).

use crate::batch::{Batch, Run};
use crate::exchange::{Seat, seats};
use crate::wire::ROCE_PORT;
use nix::sys::socket::{ControlMessage, MsgFlags, SockaddrStorage, sendmsg, setsockopt, sockopt};
use nix::{setsockopt_impl, sockopt_impl};
use quinn_udp::{RecvMeta, UdpSocketState};
use rustix::net::sockopt::{Ipv4PathMtuDiscovery, Ipv6PathMtuDiscovery};
use rustix::net::{MMsgHdr, SendAncillaryBuffer, SendFlags, SocketAddrAny, sendmmsg};
use socket2::{Domain, Protocol, Type};
use std::io::{self, IoSlice, IoSliceMut};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Most messages that one system call receives. What they bring is read twice right after, by the
/// integrity check and to be put where it belongs: so few that it is still in the processor's cache.
pub(crate) const RECV_BATCH: usize = 8;
/// Most runs that one system call sends.
const SEND_BATCH: usize = 16;
/// Room for one message, coalesced from several packets by the kernel or not.
const RECV_LEN: usize = 1 << 16;

/// One socket, used by one thread.
#[derive(Debug)]
pub(crate) struct Socket {
    socket: socket2::Socket,
    state: UdpSocketState,
    local: IpAddr,
    /// Its place among those that share the port at its address.
    seat: Option<Seat>,
    /// What the kernel granted of the receive buffer asked for, in bytes.
    granted: usize,
    /// Bytes at which the kernel cuts what is sent into packets; 0 when it does not.
    segment: AtomicUsize,
    /// Whether the kernel takes runs of packets, as far as is known.
    segments: AtomicBool,
}

sockopt_impl!(
    /// Takes UDP datagrams without a checksum over IPv6 too: RoCE has a check of its own, and
    /// Linux sends none.
    UdpNoCheck6Rx,
    SetOnly,
    libc::SOL_UDP,
    libc::UDP_NO_CHECK6_RX,
    bool
);

/// Memory to receive into; one per thread.
pub(crate) struct Buffers {
    bytes: Vec<u8>,
    meta: [RecvMeta; RECV_BATCH],
}

impl Buffers {
    pub(crate) fn new() -> Buffers {
        Buffers { bytes: vec![0; RECV_BATCH * RECV_LEN], meta: [RecvMeta::default(); RECV_BATCH] }
    }
}

impl std::fmt::Debug for Buffers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Buffers({} bytes)", self.bytes.len())
    }
}

impl Socket {
    /// A socket that has the port for itself, or shares it with those that it has a seat among.
    fn bind(
        local: IpAddr,
        seat: Option<Seat>,
        traffic_class: u8,
        buffer: usize,
    ) -> io::Result<Socket> {
        let addr = SocketAddr::new(local, ROCE_PORT);
        let socket = socket2::Socket::new(
            Domain::for_address(addr),
            Type::DGRAM.nonblocking().cloexec(),
            Some(Protocol::UDP),
        )?;
        if seat.is_some() {
            socket.set_reuse_port(true)?;
        }
        if local.is_ipv6() {
            socket.set_only_v6(true)?;
        }
        socket.bind(&addr.into())?;
        let state = UdpSocketState::new((&socket).into())?;
        // It asks for more than is used here: each costs something with every message.
        let _ = setsockopt(&socket, sockopt::ReceiveTimestampns, &false);
        if local.is_ipv4() {
            let _ = setsockopt(&socket, sockopt::Ipv4PacketInfo, &false);
        } else {
            let _ = setsockopt(&socket, sockopt::Ipv6RecvPacketInfo, &false);
            setsockopt(&socket, UdpNoCheck6Rx, &true)?;
        }
        // Don't Fragment, and an identification of zero: the ICRC covers both.
        if local.is_ipv4() {
            rustix::net::sockopt::set_ip_mtu_discover(&socket, Ipv4PathMtuDiscovery::DO)?;
            socket.set_tos_v4(u32::from(traffic_class))?;
        } else {
            rustix::net::sockopt::set_ipv6_mtu_discover(&socket, Ipv6PathMtuDiscovery::DO)?;
            socket.set_tclass_v6(u32::from(traffic_class))?;
        }
        // The forced form needs a privilege; without it the kernel caps what it grants.
        if setsockopt(&socket, sockopt::RcvBufForce, &buffer).is_err() {
            socket.set_recv_buffer_size(buffer)?;
        }
        if setsockopt(&socket, sockopt::SndBufForce, &buffer).is_err() {
            socket.set_send_buffer_size(buffer)?;
        }
        // The kernel reports twice what it counts as payload.
        let granted = socket.recv_buffer_size()? / 2;
        let segments = AtomicBool::new(state.max_gso_segments() > 1);
        let segment = AtomicUsize::new(0);
        Ok(Socket { socket, state, local, seat, granted, segment, segments })
    }

    /// The address that it is bound to.
    pub(crate) fn local(&self) -> IpAddr {
        self.local
    }

    /// Its place among those that share the port, if it does.
    pub(crate) fn seat(&self) -> Option<&Seat> {
        self.seat.as_ref()
    }

    /// What the kernel granted of the receive buffer, in bytes.
    pub(crate) fn granted(&self) -> usize {
        self.granted
    }

    /// Whether the kernel takes runs of packets: until it has refused one.
    pub(crate) fn segments(&self) -> bool {
        self.segments.load(Ordering::Relaxed)
    }

    /// What becomes readable when there is something for this socket's thread.
    pub(crate) fn wait_sources(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        std::iter::once(self.socket.as_fd()).chain(self.seat.as_ref().map(Seat::bell))
    }

    /// Receives what is there, one system call's worth, and hands over each datagram with its
    /// source, its place in a run that the kernel coalesced, and whether the network marked it as
    /// having met congestion. Returns how many messages there were.
    pub(crate) fn receive(
        &self,
        buffers: &mut Buffers,
        mut take: impl FnMut(SocketAddr, u16, bool, &mut [u8]),
    ) -> usize {
        let Buffers { bytes, meta } = buffers;
        let mut chunks = bytes.chunks_mut(RECV_LEN);
        let mut slices: [IoSliceMut<'_>; RECV_BATCH] =
            std::array::from_fn(|_| IoSliceMut::new(chunks.next().expect("one for each")));
        let Ok(count) = self.state.recv((&self.socket).into(), &mut slices, meta) else {
            return 0; // nothing there; a real error of the socket shows when sending
        };
        for (meta, message) in meta[..count].iter().zip(&mut slices) {
            let marked = meta.ecn == Some(quinn_udp::EcnCodepoint::Ce);
            let stride = meta.stride.max(1);
            for (index, datagram) in message[..meta.len].chunks_mut(stride).enumerate() {
                take(meta.addr, index as u16, marked, datagram);
            }
        }
        count
    }

    /// Sends the first runs of a batch, which leave from this socket's address, with one system
    /// call. Returns how many the kernel took.
    ///
    /// # Errors
    /// That of the first run, when the kernel took none.
    pub(crate) fn send(&self, batch: &Batch) -> io::Result<usize> {
        // The kernel cuts all messages of a call at the same length, and leaves alone what is not
        // longer.
        let (mut count, mut longest, mut segment) = (0, 0, None);
        for run in batch.runs().iter().take(SEND_BATCH) {
            let fits = match (run.count, segment) {
                (1, Some(segment)) => run.segment <= segment,
                (1, None) => true,
                (_, Some(segment)) => run.segment == segment,
                (_, None) => longest <= run.segment,
            };
            if run.prefix.source != self.local || !fits {
                break;
            }
            if run.count > 1 {
                segment = Some(run.segment);
            }
            longest = longest.max(run.segment);
            count += 1;
        }
        if count <= 1 {
            return self.note(segment, self.send_one(batch, &batch.runs()[0]));
        }
        self.cut_at(segment, longest)?;
        let runs = &batch.runs()[..count];
        let at = |index: usize| runs.get(index).unwrap_or(&runs[0]);
        let iovs: [_; SEND_BATCH] =
            std::array::from_fn(|index| [IoSlice::new(batch.bytes(at(index)))]);
        let dests: [_; SEND_BATCH] = std::array::from_fn(|index| {
            let prefix = &at(index).prefix;
            SocketAddrAny::from(SocketAddr::new(prefix.dest, prefix.dest_port))
        });
        let mut controls: [_; SEND_BATCH] = std::array::from_fn(|_| SendAncillaryBuffer::default());
        let mut parts = dests.iter().zip(&iovs).zip(&mut controls);
        let mut messages: [_; SEND_BATCH] = std::array::from_fn(|_| {
            let ((dest, iov), control) = parts.next().expect("one for each");
            MMsgHdr::new_with_addr(dest, iov, control)
        });
        let sent = sendmmsg(&self.socket, &mut messages[..count], SendFlags::empty());
        self.note(segment, sent.map_err(io::Error::from))
    }

    /// Sends a run that goes along with no other: what it is cut at travels with it.
    fn send_one(&self, batch: &Batch, run: &Run) -> io::Result<usize> {
        let dest = SockaddrStorage::from(SocketAddr::new(run.prefix.dest, run.prefix.dest_port));
        let segment = run.segment as u16;
        let cut = [ControlMessage::UdpGsoSegments(&segment)];
        let now = self.segment.load(Ordering::Relaxed);
        let as_is = run.count == 1 && (now == 0 || run.segment <= now);
        let cut = if as_is { &cut[..0] } else { &cut[..] };
        let iov = [IoSlice::new(batch.bytes(run))];
        sendmsg(self.socket.as_raw_fd(), &iov, cut, MsgFlags::empty(), Some(&dest))?;
        Ok(1)
    }

    /// Looks whether a card, or the kernel, cannot cut.
    fn note(&self, segment: Option<usize>, sent: io::Result<usize>) -> io::Result<usize> {
        if let Err(error) = &sent
            && segment.is_some()
            && [libc::EIO, libc::EINVAL].map(Some).contains(&error.raw_os_error())
        {
            self.segments.store(false, Ordering::Relaxed);
        }
        sent
    }

    /// Has the kernel cut what is sent into packets of `segment` bytes; if it is to cut nothing,
    /// of more than `longest`.
    fn cut_at(&self, segment: Option<usize>, longest: usize) -> io::Result<()> {
        let now = self.segment.load(Ordering::Relaxed);
        let wanted = match segment {
            Some(segment) => segment,
            None if longest <= now => return Ok(()),
            None => 0,
        };
        if wanted != now {
            setsockopt(&self.socket, sockopt::UdpGsoSegment, &(wanted as i32))?;
            self.segment.store(wanted, Ordering::Relaxed);
        }
        Ok(())
    }
}

/// Whether nobody else has the port at that address.
pub(crate) fn try_bind(local: IpAddr) -> io::Result<()> {
    Socket::bind(local, None, 0, 1 << 16).map(drop)
}

/// Sockets of one local address: the connection manager's, then one for each core.
pub(crate) fn bind_group(
    local: IpAddr,
    cores: u16,
    traffic_class: u8,
    buffer: usize,
) -> io::Result<Vec<Socket>> {
    // Sockets that share a port do so with any program of this user: make sure that nobody else
    // has it before sharing it among ourselves.
    try_bind(local)?;
    let mut group = Vec::with_capacity(usize::from(cores) + 1);
    for seat in seats(cores as u8 + 1)? {
        group.push(Socket::bind(local, Some(seat), traffic_class, buffer)?);
    }
    steer(&group[0])?;
    Ok(group)
}

/// The number of a queue pair of this core. Its low eight bits say which socket of the group takes
/// its packets; those for queue pair 1 go to the first, the connection manager's.
pub(crate) fn qpn_of(sequence: u16, core: u16) -> u32 {
    u32::from(sequence) << 8 | u32::from(core + 1)
}

/// Which socket of a group takes a packet for this queue pair.
pub(crate) fn steered_to(qpn: u32) -> u8 {
    if qpn == 1 { 0 } else { qpn as u8 }
}

/// Which socket of a group takes this datagram, if it says so.
pub(crate) fn addressee(datagram: &[u8]) -> Option<u8> {
    let qpn = datagram.get(5..8)?; // behind the BTH's congestion bits
    Some(steered_to(u32::from_be_bytes([0, qpn[0], qpn[1], qpn[2]])))
}

fn steer(socket: &Socket) -> io::Result<()> {
    use libc::{BPF_A, BPF_ABS, BPF_B, BPF_JEQ, BPF_JMP, BPF_K, BPF_LD, BPF_RET, BPF_W};
    let op = |code: u32, jt: u8, jf: u8, k: u32| libc::sock_filter { code: code as u16, jt, jf, k };
    // The packet begins at the BTH here: bytes 4 to 7 hold the congestion bits and the number.
    const AND: u32 = 0x50; // BPF_AND
    let mut program = [
        op(BPF_LD | BPF_W | BPF_ABS, 0, 0, 4),
        op(0x04 | AND | BPF_K, 0, 0, 0x00ff_ff00),
        op(BPF_JMP | BPF_JEQ | BPF_K, 2, 0, 0),
        op(BPF_LD | BPF_B | BPF_ABS, 0, 0, 7),
        op(BPF_RET | BPF_A, 0, 0, 0),
        op(BPF_RET | BPF_K, 0, 0, 0),
    ];
    let program = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    setsockopt(&socket.socket, sockopt::AttachReusePortCbpf, &program)?;
    Ok(())
}

#[cfg(test)]
mod tests;
