//! A bad wire: forwards RoCEv2 packets between a host and a target, and loses, repeats and
//! reorders some of them, both ways.
//!
//! It needs no privilege, as it is a pair of UDP sockets on loopback addresses of its own: the host
//! takes it for the target, the target takes it for the host. The integrity check covers addresses
//! and the connection request names them, so both are put right on the way; a packet whose check is
//! wrong on arrival is not forwarded.

use rustix::net::sockopt::{
    Ipv4PathMtuDiscovery, set_ip_mtu_discover, set_socket_recv_buffer_size,
};
use std::collections::VecDeque;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

const ROCE_PORT: u16 = 4791;
/// How many packets of a hundred are lost, sent twice, and held back.
const LOST: u64 = 2;
const TWICE: u64 = 2;
const HELD: u64 = 2;
/// Packets that overtake one that is held back.
const OVERTAKEN_BY: usize = 3;

/// What the wire did.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) passed: AtomicU64,
    pub(crate) lost: AtomicU64,
    pub(crate) twice: AtomicU64,
    pub(crate) held: AtomicU64,
    pub(crate) damaged: AtomicU64,
}

/// The wire; it is cut when dropped.
#[derive(Debug)]
pub(crate) struct Wire {
    pub(crate) counts: Arc<Counts>,
    cut: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

/// One direction.
struct Lane {
    from: Arc<UdpSocket>,
    /// Our address that packets arrive at, and the one they leave from.
    at: Ipv4Addr,
    by: Arc<UdpSocket>,
    leave: Ipv4Addr,
    /// Whom they go to: known, or whoever sent last the other way.
    to: Arc<Mutex<Option<Ipv4Addr>>>,
    /// Whom they came from, for the other direction.
    peer: Arc<Mutex<Option<Ipv4Addr>>>,
    random: u64,
}

impl Wire {
    /// A wire whose near end is `near`, which a host connects to, and whose far end is `far`,
    /// which a target at `target` sees.
    pub(crate) fn new(near: Ipv4Addr, far: Ipv4Addr, target: Ipv4Addr) -> Wire {
        let (near_socket, far_socket) = (socket(near), socket(far));
        let host = Arc::new(Mutex::new(None));
        let target = Arc::new(Mutex::new(Some(target)));
        let counts = Arc::new(Counts::default());
        let cut = Arc::new(AtomicBool::new(false));
        let there = Lane {
            from: near_socket.clone(),
            at: near,
            by: far_socket.clone(),
            leave: far,
            to: target.clone(),
            peer: host.clone(),
            random: 1,
        };
        let back = Lane {
            from: far_socket,
            at: far,
            by: near_socket,
            leave: near,
            to: host,
            peer: target,
            random: 2,
        };
        let threads = [there, back].map(|lane| {
            let (counts, cut) = (counts.clone(), cut.clone());
            std::thread::spawn(move || lane.run(&counts, &cut))
        });
        Wire { counts, cut, threads: threads.into() }
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.cut.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // A panic there shows as packets that do not arrive.
            let _ = thread.join();
        }
    }
}

fn socket(address: Ipv4Addr) -> Arc<UdpSocket> {
    let socket = UdpSocket::bind((address, ROCE_PORT)).expect("an address of our own");
    // Don't Fragment makes the kernel send identification 0, which the check covers.
    set_ip_mtu_discover(&socket, Ipv4PathMtuDiscovery::DO).expect("Don't Fragment");
    set_socket_recv_buffer_size(&socket, 4 << 20).expect("a buffer");
    socket.set_read_timeout(Some(Duration::from_millis(1))).expect("a timeout");
    Arc::new(socket)
}

impl Lane {
    fn run(mut self, counts: &Counts, cut: &AtomicBool) {
        let mut held: VecDeque<(usize, Vec<u8>)> = VecDeque::new();
        let mut buffer = vec![0; 9000];
        while !cut.load(Ordering::Relaxed) {
            match self.from.recv_from(&mut buffer) {
                Ok((len, from)) => {
                    let std::net::SocketAddr::V4(from) = from else { continue };
                    self.on_packet(from, &mut buffer[..len], &mut held, counts);
                }
                Err(error)
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) =>
                {
                    // Nobody comes to overtake those that are held.
                    for (_, packet) in held.drain(..) {
                        self.forward(&packet);
                    }
                }
                // The other end's socket is closed.
                Err(_) => {}
            }
        }
    }

    fn on_packet(
        &mut self,
        from: SocketAddrV4,
        packet: &mut [u8],
        held: &mut VecDeque<(usize, Vec<u8>)>,
        counts: &Counts,
    ) {
        *self.peer.lock().expect("not poisoned") = Some(*from.ip());
        let Some(to) = *self.to.lock().expect("not poisoned") else { return };
        // Packets of a run that the kernel split are numbered from 0; for a look at the check a
        // few numbers are enough.
        let right = (0..64).any(|ident| icrc(from, self.at, ident, packet) == stored(packet));
        if !right {
            counts.damaged.fetch_add(1, Ordering::Relaxed);
            return;
        }
        self.put_right(*from.ip(), to, packet);
        for (left, _) in held.iter_mut() {
            *left = left.saturating_sub(1);
        }
        let chance = self.chance();
        if chance < LOST {
            counts.lost.fetch_add(1, Ordering::Relaxed);
        } else if chance < LOST + TWICE {
            counts.twice.fetch_add(1, Ordering::Relaxed);
            self.forward(packet);
            self.forward(packet);
        } else if chance < LOST + TWICE + HELD {
            counts.held.fetch_add(1, Ordering::Relaxed);
            held.push_back((OVERTAKEN_BY, packet.to_vec()));
        } else {
            counts.passed.fetch_add(1, Ordering::Relaxed);
            self.forward(packet);
        }
        while held.front().is_some_and(|(left, _)| *left == 0) {
            if let Some((_, packet)) = held.pop_front() {
                self.forward(&packet);
            }
        }
    }

    /// A number below 100.
    fn chance(&mut self) -> u64 {
        self.random =
            self.random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (self.random >> 33) % 100
    }

    fn forward(&self, packet: &[u8]) {
        if let Some(to) = *self.to.lock().expect("not poisoned") {
            // What the kernel has no room for is lost, as on any wire.
            let _ = self.by.send_to(packet, (to, ROCE_PORT));
        }
    }

    /// Puts the addresses of this wire where those of the ends are, and seals the packet anew.
    fn put_right(&self, from: Ipv4Addr, to: Ipv4Addr, packet: &mut [u8]) {
        const DATAGRAM: u8 = 0x64;
        const MAD: usize = 12 + 8;
        const CM_REQ: [u8; 2] = [0, 0x10];
        const MESSAGE: usize = MAD + 24;
        // In a connect request: both GIDs, and both addresses of the IP header in private data.
        const ADDRESSES: [usize; 4] = [56 + 12, 72 + 12, 140 + 16, 140 + 32];
        if packet.len() > MAD + 256 && packet[0] == DATAGRAM && packet[MAD + 16..MAD + 18] == CM_REQ
        {
            for at in ADDRESSES.map(|at| MESSAGE + at) {
                let address = &mut packet[at..at + 4];
                if *address == from.octets() {
                    address.copy_from_slice(&self.leave.octets());
                } else if *address == self.at.octets() {
                    address.copy_from_slice(&to.octets());
                }
            }
        }
        let seal = icrc(SocketAddrV4::new(self.leave, ROCE_PORT), to, 0, packet);
        let end = packet.len() - 4;
        packet[end..].copy_from_slice(&seal.to_le_bytes());
    }
}

fn stored(packet: &[u8]) -> u32 {
    packet.last_chunk::<4>().map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

/// The invariant CRC (RoCEv2 annex A17.3.3) of a packet with Don't Fragment set.
fn icrc(from: SocketAddrV4, to: Ipv4Addr, ident: u16, packet: &[u8]) -> u32 {
    let body = &packet[..packet.len().saturating_sub(4)];
    let udp_len = 8 + packet.len() as u16;
    let mut head = vec![0xff; 8];
    head.extend([0x45, 0xff]);
    head.extend((20 + udp_len).to_be_bytes());
    head.extend(ident.to_be_bytes());
    head.extend([0x40, 0, 0xff, 17, 0xff, 0xff]);
    head.extend(from.ip().octets());
    head.extend(to.octets());
    head.extend(from.port().to_be_bytes());
    head.extend(ROCE_PORT.to_be_bytes());
    head.extend(udp_len.to_be_bytes());
    head.extend([0xff, 0xff]);
    let mut crc = crc32fast::Hasher::new();
    crc.update(&head);
    crc.update(&body[..4]);
    crc.update(&[0xff]); // the byte that routers mark congestion in
    crc.update(&body[5..]);
    crc.finalize()
}
