//! Local addresses: which there are, and the sockets at each.

use crate::config::Config;
use crate::socket::{Socket, bind_group, try_bind};
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as UnixAddr, UnixListener};
use std::sync::Arc;

/// The sockets of one local address.
#[derive(Debug)]
pub(crate) struct Site {
    /// The connection manager's.
    pub(crate) control: Socket,
    /// One for each core.
    pub(crate) cores: Vec<Arc<Socket>>,
    /// Keeps other programs of our kind from the address while the site is open.
    _claim: UnixListener,
}

/// All sites, by address.
#[derive(Debug)]
pub(crate) struct Sites {
    config: Config,
    open: BTreeMap<IpAddr, Site>,
}

/// Bytes of headers around a payload: IPv6, UDP, BTH, RETH, ICRC, with some reserve.
const HEADERS: u32 = 96;

impl Sites {
    pub(crate) fn new(config: Config) -> Sites {
        Sites { config, open: BTreeMap::new() }
    }

    pub(crate) fn get(&self, local: IpAddr) -> Option<&Site> {
        self.open.get(&local)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&IpAddr, &Site)> {
        self.open.iter()
    }

    /// Opens the sockets of an address unless they are open.
    pub(crate) fn ensure(&mut self, local: IpAddr) -> io::Result<()> {
        if self.open.contains_key(&local) {
            return Ok(());
        }
        let Config { cores, traffic_class, socket_buffer, .. } = self.config;
        let claim = claim(local)?;
        // The ECT(0) mark lets routers tell us of congestion instead of dropping.
        let mut group = bind_group(local, cores, traffic_class & 0xfc | 2, socket_buffer)?;
        let granted = group[0].granted();
        if granted < socket_buffer / 4 {
            tracing::warn!(
                address = %local, granted, wanted = socket_buffer,
                "the kernel caps socket buffers: packets may be lost under load; raise it with \
                 sysctl -w net.core.rmem_max={socket_buffer} net.core.wmem_max={socket_buffer}"
            );
        }
        // See docs/ARCHITECTURE.md for why there is no other.
        let check = match local {
            IpAddr::V4(_) => "identification solved, 16 of 32 bits left",
            IpAddr::V6(_) => "all 32 bits",
        };
        tracing::info!(address = %local, check, "soft-RoCE is ready; integrity check of packets");
        let control = group.remove(0);
        let cores = group.into_iter().map(Arc::new).collect();
        self.open.insert(local, Site { control, cores, _claim: claim });
        Ok(())
    }

    /// Closes the sites that `keep` does not name.
    pub(crate) fn retain(&mut self, mut keep: impl FnMut(IpAddr) -> bool) {
        self.open.retain(|local, _| keep(*local));
    }
}

/// Claims an address within this network namespace. Sockets that share a port do so with any
/// program of the same user, and looking for others before binding leaves a moment in which two
/// that start at once both see nobody. A name that only one can have closes it.
fn claim(local: IpAddr) -> io::Result<UnixListener> {
    let name = format!("nvmfd soft-roce {local}");
    UnixListener::bind_addr(&UnixAddr::from_abstract_name(name)?)
}

/// Whether an address could be opened now. It is open for this moment, and then free again.
pub(crate) fn try_out(local: IpAddr) -> io::Result<()> {
    let _claim = claim(local)?;
    try_bind(local)
}

/// The addresses of this machine's interfaces, of the family of `like` (with its scope left out).
pub(crate) fn local_addresses(like: SocketAddr) -> Vec<IpAddr> {
    let Ok(all) = nix::ifaddrs::getifaddrs() else { return Vec::new() };
    let mut found: Vec<IpAddr> = all
        .filter_map(|entry| {
            let address = entry.address?;
            if like.is_ipv4() {
                address.as_sockaddr_in().map(|v4| IpAddr::V4(v4.ip()))
            } else {
                address.as_sockaddr_in6().map(|v6| IpAddr::V6(v6.ip()))
            }
        })
        .collect();
    found.sort();
    found.dedup();
    found
}

/// Code of the largest path MTU that packets from `local` to `peer` may have: by the route, which
/// knows of smaller links on the way when the kernel does.
pub(crate) fn mtu_code_to(local: IpAddr, peer: SocketAddr) -> u8 {
    /// What every IPv4 and IPv6 network carries as good as always.
    const USUAL: u32 = 1500;
    let probe = || -> io::Result<u32> {
        let probe = UdpSocket::bind(SocketAddr::new(local, 0))?;
        probe.connect(peer)?;
        let mtu = if local.is_ipv4() {
            nix::sys::socket::getsockopt(&probe, nix::sys::socket::sockopt::IpMtu)? as u32
        } else {
            rustix::net::sockopt::ipv6_mtu(&probe)?
        };
        Ok(mtu)
    };
    crate::wire::cm::mtu_code(probe().unwrap_or(USUAL).saturating_sub(HEADERS))
}

/// The local address that packets to `peer` leave from.
///
/// A peer on this machine's loopback needs another address than its own, as both ends use the same
/// port: the first of 127.0.0.2 to 127.0.7.250 that is free.
pub(crate) fn route_to(peer: SocketAddr) -> io::Result<Vec<IpAddr>> {
    if peer.ip().is_loopback() && peer.is_ipv4() {
        let net = |third| (2..=250).map(move |last| IpAddr::from([127, 0, third, last]));
        let candidates = (0..=7).flat_map(net);
        return Ok(candidates.filter(|local| *local != peer.ip()).collect());
    }
    let any: IpAddr = if peer.is_ipv4() { [0; 4].into() } else { [0u16; 8].into() };
    let probe = UdpSocket::bind(SocketAddr::new(any, 0))?;
    probe.connect(peer)?;
    Ok(vec![probe.local_addr()?.ip()])
}
