//! Which provider leads to a peer, and what the network says without RDMA.

use crate::config::{Listener, Provider};
use crate::doctor::ROCE_PORT;
use crate::provider::{Choice, choose};
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr, UdpSocket};

/// The way to a peer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Way {
    /// The address that packets leave from.
    pub(super) from: IpAddr,
    pub(super) by: Choice,
}

/// Finds the way to an address.
///
/// # Errors
/// When there is no route.
pub(super) fn to(peer: IpAddr, provider: Provider) -> io::Result<Way> {
    let from = socket_to(peer)?.local_addr()?.ip();
    Ok(Way { from, by: at(SocketAddr::new(from, 0), provider) })
}

/// Which provider serves at an own address.
pub(super) fn at(address: SocketAddr, provider: Provider) -> Choice {
    choose(&Listener { address, provider })
}

/// A datagram to RoCE's port that no RoCE endpoint takes for anything: where there is none, the
/// other machine, or one before it, says so.
#[derive(Debug)]
pub(super) struct Knock(Option<UdpSocket>);

/// What came of a knock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Heard {
    /// The machine is there, and nobody has the port.
    NobodyAtPort,
    /// No such machine, or no way there.
    NoMachine,
    /// Nothing: somebody has the port, or a filter drops what comes.
    Nothing,
}

impl Knock {
    pub(super) fn at(peer: IpAddr) -> Knock {
        let socket = socket_to(peer).and_then(|socket| {
            socket.set_nonblocking(true)?;
            socket.send(&[0])?;
            Ok(socket)
        });
        Knock(socket.ok())
    }

    /// What came of it until now.
    pub(super) fn heard(&self) -> Heard {
        let Some(socket) = &self.0 else { return Heard::NoMachine };
        match socket.recv(&mut [0]) {
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => Heard::NobodyAtPort,
            Err(error) if error.kind() != ErrorKind::WouldBlock => Heard::NoMachine,
            _ => Heard::Nothing,
        }
    }
}

fn socket_to(peer: IpAddr) -> io::Result<UdpSocket> {
    let any: IpAddr = if peer.is_ipv4() { [0; 4].into() } else { [0u16; 8].into() };
    let socket = UdpSocket::bind((any, 0))?;
    socket.connect((peer, ROCE_PORT))?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    /// What is heard within a second.
    fn heard(peer: IpAddr) -> Heard {
        let knock = Knock::at(peer);
        let began = Instant::now();
        loop {
            let heard = knock.heard();
            if heard != Heard::Nothing || began.elapsed() > Duration::from_secs(1) {
                return heard;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn a_port_that_nobody_has_is_told_from_one_that_is_silent() {
        let [nobody, somebody] = [1, 2].map(|last| IpAddr::from([127, 93, 1, last]));
        assert_eq!(heard(nobody), Heard::NobodyAtPort);
        let _socket = UdpSocket::bind((somebody, ROCE_PORT)).unwrap();
        assert_eq!(heard(somebody), Heard::Nothing);
    }

    #[test]
    fn packets_to_this_machine_leave_from_it() {
        let way = to([127, 0, 0, 1].into(), Provider::Soft).unwrap();
        assert_eq!(way.from, IpAddr::from([127, 0, 0, 1]));
        assert_eq!(way.by, Choice::Soft("as configured"));
    }
}
