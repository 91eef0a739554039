//! Checks: from facts and a configuration to findings, without a look at anything else.

mod addresses;
mod disks;
mod kernel;
mod limits;
mod placement;
mod rdma;
mod taken;

use super::facts::{Facts, Interface, RdmaDevice};
use super::finding::Finding;
use crate::config::Config;
use crate::provider::Choice;
use std::net::SocketAddr;

/// All findings, in the order in which a reader can use them: what is missing below makes what is
/// above it fail.
pub(super) fn all(facts: &Facts, config: &Config) -> Vec<Finding> {
    let checks: [fn(&Facts, &Config) -> Vec<Finding>; 7] = [
        kernel::check,
        rdma::check,
        addresses::check,
        taken::check,
        limits::check,
        placement::check,
        disks::check,
    ];
    checks.iter().flat_map(|check| check(facts, config)).collect()
}

impl Facts {
    /// The listeners that RDMA devices carry.
    fn by_verbs(&self) -> impl Iterator<Item = (SocketAddr, Option<&str>)> {
        self.listeners.iter().filter_map(|listener| match &listener.by {
            Choice::Verbs(device) => Some((listener.address, device.as_deref())),
            Choice::Soft(_) => None,
        })
    }

    /// The listeners that the endpoint of this program carries.
    fn by_soft(&self) -> impl Iterator<Item = SocketAddr> {
        self.listeners.iter().filter_map(|listener| {
            matches!(listener.by, Choice::Soft(_)).then_some(listener.address)
        })
    }

    /// The interfaces that an address stands for.
    fn at(&self, address: SocketAddr) -> impl Iterator<Item = &Interface> {
        let ip = address.ip();
        self.interfaces.iter().filter(move |interface| {
            if ip.is_unspecified() {
                !interface.loopback && !interface.addresses.is_empty()
            } else {
                // All of 127.0.0.0/8 is the loopback interface's.
                interface.addresses.contains(&ip) || (interface.loopback && ip.is_loopback())
            }
        })
    }

    /// Whether a listener needs that device.
    fn needs(&self, device: &RdmaDevice) -> bool {
        self.by_verbs().any(|(_, name)| name.is_none_or(|name| name == device.name))
    }

    /// An interface to give as an example: one that is up, or a name to be replaced.
    fn some_interface(&self) -> &str {
        let usable = self.interfaces.iter().filter(|interface| !interface.loopback);
        usable.min_by_key(|interface| !interface.up).map_or("INTERFACE", |at| at.name.as_str())
    }
}
