//! The discovery log: how to reach the subsystems that the asking host may use.
//!
//! The page can be long and is read in parts, so only the entries inside the part that is asked
//! for are made. Ports come before subsystems in the order, and the discovery subsystem itself is
//! the first entry.

use super::controller::Controller;
use super::fail::{Fail, at};
use super::logs::Window;
use super::subsystem::Subsystem;
use super::{ADMIN_QUEUE_ENTRIES, DISCOVERY_SUBSYSTEM, PortConfig, Target};
use nvme_spec_types::Nqn;
use nvme_spec_types::fabrics::CNTLID_DYNAMIC;
use nvme_spec_types::fixed_str::FixedStr;
use nvme_spec_types::log::{
    AddressFamily, DiscoveryEntry, DiscoveryEntryFlags, DiscoveryHeader, RdmaCms, RdmaProvider,
    RdmaQpType, RdmaTsas, SubsystemType, TransportRequirements, TransportType,
};
use std::net::{IpAddr, SocketAddr};

/// Bytes of the header and of each entry.
const RECORD: usize = DiscoveryHeader::SIZE;
const _: () = assert!(RECORD == DiscoveryEntry::SIZE);

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
        let reached = canonical(asked.local.ip());
        let subsystems: Vec<&Subsystem> = self
            .subsystems
            .iter()
            .filter(|&(&id, found)| id != DISCOVERY_SUBSYSTEM && found.allows(&controller.hostnqn))
            .map(|(_, found)| found)
            .collect();
        let mut found = Vec::new();
        let here = self.ports.get(&asked.port);
        if let Some((port, address)) = here.and_then(|port| told(port, reached)) {
            let nqn = &*self.subsystems[&DISCOVERY_SUBSYSTEM].nqn;
            found.push(Found { port, address, nqn, subtype: SubsystemType::CURRENT_DISCOVERY });
        }
        let ports = self.ports.values().filter(|port| !port_local || port.id == asked.port);
        for (port, address) in ports.filter_map(|port| told(port, reached)) {
            found.extend(subsystems.iter().map(|subsystem| Found {
                port,
                address,
                nqn: &subsystem.nqn,
                subtype: SubsystemType::NVM,
            }));
        }
        found
    }
}

/// A port's id and address as told to a host that reached us at `reached`. A wildcard stands for
/// that very address; there is nothing to tell when it is of the other family.
fn told(port: &PortConfig, reached: IpAddr) -> Option<(u16, SocketAddr)> {
    let ip = match canonical(port.address.ip()) {
        ip if !ip.is_unspecified() => ip,
        IpAddr::V4(_) if !reached.is_ipv4() => return None,
        _ => reached,
    };
    Some((port.id, SocketAddr::new(ip, port.address.port())))
}

/// An IPv4 address that came through an IPv6 socket is an IPv4 address.
fn canonical(ip: IpAddr) -> IpAddr {
    ip.to_canonical()
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
