//! UDP sockets: one for the connection manager and one for each core at every local address.
//!
//! All sockets of an address share port 4791. A small filter in the kernel steers each packet to
//! the socket of the core that its destination queue pair number names, so that a core never sees
//! another's packets.

use crate::batch::Batch;
use crate::wire::ROCE_PORT;
use nix::sys::socket::{setsockopt, sockopt};
use quinn_udp::{RecvMeta, Transmit, UdpSocketState};
use rustix::net::sockopt::{Ipv4PathMtuDiscovery, Ipv6PathMtuDiscovery};
use socket2::{Domain, Protocol, Type};
use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};

/// Most messages that one system call receives.
pub(crate) const RECV_BATCH: usize = 32;
/// Room for one message, coalesced from several packets by the kernel or not.
const RECV_LEN: usize = 1 << 16;

/// One socket, used by one thread.
#[derive(Debug)]
pub(crate) struct Socket {
    socket: socket2::Socket,
    state: UdpSocketState,
    local: IpAddr,
    /// What the kernel granted of the receive buffer asked for, in bytes.
    granted: usize,
}

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
    fn bind(local: IpAddr, shared: bool, traffic_class: u8, buffer: usize) -> io::Result<Socket> {
        let addr = SocketAddr::new(local, ROCE_PORT);
        let socket = socket2::Socket::new(
            Domain::for_address(addr),
            Type::DGRAM.nonblocking().cloexec(),
            Some(Protocol::UDP),
        )?;
        if shared {
            socket.set_reuse_port(true)?;
        }
        if local.is_ipv6() {
            socket.set_only_v6(true)?;
        }
        socket.bind(&addr.into())?;
        let state = UdpSocketState::new((&socket).into())?;
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
        Ok(Socket { socket, state, local, granted })
    }

    /// The address that it is bound to.
    pub(crate) fn local(&self) -> IpAddr {
        self.local
    }

    /// What the kernel granted of the receive buffer, in bytes.
    pub(crate) fn granted(&self) -> usize {
        self.granted
    }

    /// Whether the kernel takes runs of packets.
    pub(crate) fn segments(&self) -> bool {
        self.state.max_gso_segments() > 1
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Receives what is there, one system call's worth, and hands over each datagram with its
    /// source, its place in a run that the kernel coalesced, and whether the network marked it as
    /// having met congestion. Returns how many messages there were.
    pub(crate) fn receive(
        &self,
        buffers: &mut Buffers,
        mut take: impl FnMut(SocketAddr, u16, bool, &[u8]),
    ) -> usize {
        let Buffers { bytes, meta } = buffers;
        let mut chunks = bytes.chunks_mut(RECV_LEN);
        let mut slices: [IoSliceMut<'_>; RECV_BATCH] =
            std::array::from_fn(|_| IoSliceMut::new(chunks.next().expect("one for each")));
        let Ok(count) = self.state.recv((&self.socket).into(), &mut slices, meta) else {
            return 0; // nothing there; a real error of the socket shows when sending
        };
        for (meta, message) in meta[..count].iter().zip(&slices) {
            let marked = meta.ecn == Some(quinn_udp::EcnCodepoint::Ce);
            let stride = meta.stride.max(1);
            for (index, datagram) in message[..meta.len].chunks(stride).enumerate() {
                take(meta.addr, index as u16, marked, datagram);
            }
        }
        count
    }

    /// Sends the runs of a batch that leave from this socket's address. What the kernel has no
    /// room for is lost, as it might be further on: returns how many runs were.
    pub(crate) fn send(&self, batch: &Batch) -> u64 {
        let mut lost = 0;
        for run in batch.runs() {
            if run.prefix.source != self.local {
                continue;
            }
            let transmit = Transmit {
                destination: SocketAddr::new(run.prefix.dest, run.prefix.dest_port),
                ecn: None,
                contents: batch.bytes(run),
                segment_size: (run.count > 1).then_some(run.segment),
                src_ip: None,
            };
            if self.state.try_send((&self.socket).into(), &transmit).is_err() {
                lost += 1;
            }
        }
        lost
    }
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
    drop(Socket::bind(local, false, traffic_class, 1 << 16)?);
    let mut group = Vec::with_capacity(usize::from(cores) + 1);
    for _ in 0..=cores {
        group.push(Socket::bind(local, true, traffic_class, buffer)?);
    }
    steer(&group[0])?;
    Ok(group)
}

/// Which socket of the group takes a packet for this queue pair: the connection manager's for
/// queue pair 1, else what the low eight bits say.
pub(crate) fn qpn_of(sequence: u16, core: u16) -> u32 {
    u32::from(sequence) << 8 | u32::from(core + 1)
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
