//! The discovery log: how to reach the subsystems that the asking host may use.
//!
//! The page can be long and is read in parts, so only the entries inside the part that is asked
//! for are made. The discovery subsystem itself is the first entry, referrals follow, then the
//! subsystems port by port.
//!
//! Nothing is kept between the parts: the generation counter grows with every change of the
//! configuration, so a host that reads the header again after the last part knows whether the parts
//! belong together (NVMe Base 2.1, 5.1.12.3.1).

use super::controller::Controller;
use super::fail::{Fail, at};
use super::logs::Window;
use super::subsystem::Subsystem;
use super::{ADMIN_QUEUE_ENTRIES, DISCOVERY_SUBSYSTEM, Target, TellPorts};
use nvme_spec_types::Nqn;
use nvme_spec_types::fabrics::CNTLID_DYNAMIC;
use nvme_spec_types::fixed_str::FixedStr;
use nvme_spec_types::log::{
    AddressFamily, DiscoveryEntry, DiscoveryEntryFlags, DiscoveryHeader, RdmaCms, RdmaProvider,
    RdmaQpType, RdmaTsas, SubsystemType, TransportRequirements, TransportType,
};
use nvme_spec_types::nqn::DISCOVERY_NQN;
use std::net::{IpAddr, SocketAddr};

/// Bytes of the header and of each entry.
const RECORD: usize = DiscoveryHeader::SIZE;
const _: () = assert!(RECORD == DiscoveryEntry::SIZE);

/// Port of an entry that is about no port of ours.
const NO_PORT: u16 = 0;

/// One entry before it is written.
struct Found<'a> {
    port: u16,
    address: SocketAddr,
    nqn: &'a str,
    subtype: SubsystemType,
}

impl Target {
    /// A part of the discovery log (NVMe Base 2.1, 5.1.12.3.1) as this controller's host sees it.
    pub(super) fn discovery_log(
        &self,
        controller: &Controller,
        port_local: bool,
        window: Window,
    ) -> Result<Vec<u8>, Fail> {
        let found = self.discover(controller, port_local);
        let header = DiscoveryHeader {
            genctr: self.discovery_generation,
            numrec: found.len() as u64,
            ..DiscoveryHeader::default()
        };
        let size = (found.len() + 1) * RECORD;
        let start = usize::try_from(window.offset).unwrap_or(usize::MAX);
        if start > size {
            return Err(Fail::field(at::CDW12));
        }
        let end = size.min(start + window.len);
        let mut part = Vec::with_capacity(window.len + RECORD);
        let first = start / RECORD;
        for record in first..end.div_ceil(RECORD) {
            match record.checked_sub(1) {
                None => part.extend(header.to_bytes()),
                Some(entry) => part.extend(found[entry].entry().to_bytes()),
            }
        }
        part.drain(..(start - first * RECORD).min(part.len()));
        part.resize(window.len, 0);
        Ok(part)
    }

    fn discover(&self, controller: &Controller, port_local: bool) -> Vec<Found<'_>> {
        let Some(asked) = self.queues.get(&controller.admin).map(|queue| &queue.info) else {
            return Vec::new();
        };
        let tell = if port_local { TellPorts::Asked } else { self.discovery.tell };
        let mut ports = Vec::new();
        let mut found = Vec::new();
        for port in self.ports.values() {
            let own = port.id == asked.port;
            let here = SocketAddr::new(canonical(asked.local), port.address.port());
            let listens_at = canonical(port.address);
            let wildcard = listens_at.is_unspecified();
            let address = match wildcard {
                _ if own => here,
                true if listens_at.is_ipv4() == here.is_ipv4() => here,
                // Nobody knows an address to tell.
                true => continue,
                false => SocketAddr::new(listens_at, port.address.port()),
            };
            let told = match tell {
                TellPorts::Asked => own,
                TellPorts::Reachable => {
                    own || wildcard || scope(port.address) == scope(asked.local)
                }
                TellPorts::All => true,
            };
            if told {
                ports.push((port, address));
            }
            if own {
                let nqn = &*self.subsystems[&DISCOVERY_SUBSYSTEM].nqn;
                let subtype = SubsystemType::CURRENT_DISCOVERY;
                found.push(Found { port: port.id, address, nqn, subtype });
            }
        }
        found.extend(self.discovery.referrals.iter().map(|referral| Found {
            port: NO_PORT,
            address: SocketAddr::new(canonical(referral.address), referral.address.port()),
            nqn: referral.nqn.as_deref().unwrap_or(DISCOVERY_NQN),
            subtype: SubsystemType::REFERRAL,
        }));
        let subsystems: Vec<&Subsystem> = self
            .subsystems
            .iter()
            .filter(|&(&id, found)| id != DISCOVERY_SUBSYSTEM && found.allows(&controller.hostnqn))
            .map(|(_, found)| found)
            .collect();
        for (port, address) in ports {
            found.extend(subsystems.iter().map(|subsystem| Found {
                port: port.id,
                address,
                nqn: &subsystem.nqn,
                subtype: SubsystemType::NVM,
            }));
        }
        found
    }
}

/// How far an address reaches: addresses of one scope are likely reached from the same places.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scope {
    /// Within its machine.
    Loopback { v4: bool },
    /// Within the network of the interface of that number; 0 for IPv4, which does not say.
    Link { v4: bool, interface: u32 },
    /// Further, as far as anyone can tell.
    Wide { v4: bool },
}

fn scope(address: SocketAddr) -> Scope {
    let v4 = canonical(address).is_ipv4();
    match (canonical(address), address) {
        (ip, _) if ip.is_loopback() => Scope::Loopback { v4 },
        (IpAddr::V4(ip), _) if ip.is_link_local() => Scope::Link { v4, interface: 0 },
        (IpAddr::V6(ip), SocketAddr::V6(place)) if ip.is_unicast_link_local() => {
            Scope::Link { v4, interface: place.scope_id() }
        }
        _ => Scope::Wide { v4 },
    }
}

/// An IPv4 address that came through an IPv6 socket is an IPv4 address.
fn canonical(address: SocketAddr) -> IpAddr {
    address.ip().to_canonical()
}

impl Found<'_> {
    fn entry(&self) -> DiscoveryEntry {
        let ip = self.address.ip();
        let mut entry = DiscoveryEntry {
            trtype: TransportType::RDMA,
            adrfam: if ip.is_ipv4() { AddressFamily::IPV4 } else { AddressFamily::IPV6 },
            subtype: self.subtype,
            treq: TransportRequirements::NOT_SPECIFIED.with_sq_flow_control_disable(),
            portid: self.port,
            cntlid: CNTLID_DYNAMIC,
            asqsz: ADMIN_QUEUE_ENTRIES,
            trsvcid: FixedStr::new(&self.address.port().to_string()).unwrap_or_default(),
            traddr: FixedStr::new(&ip.to_string()).unwrap_or_default(),
            ..DiscoveryEntry::default()
        };
        if self.subtype == SubsystemType::CURRENT_DISCOVERY {
            entry.eflags = DiscoveryEntryFlags::PERSISTENT_CONNECTION;
        }
        if let Ok(name) = Nqn::new(self.nqn) {
            entry.set_subnqn(&name);
        }
        entry.set_rdma_tsas(&RdmaTsas {
            qptype: RdmaQpType::CONNECTED,
            prtype: RdmaProvider::NOT_SPECIFIED,
            cms: RdmaCms::RDMA_CM,
            ..RdmaTsas::default()
        });
        entry
    }
}

#[cfg(test)]
mod tests;
