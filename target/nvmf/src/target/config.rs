//! Changes of the configuration, at any time: subsystems, namespaces, hosts, ports.
//!
//! Each call checks first and then changes everything or nothing. Hosts learn of it by
//! asynchronous events, data cores by new views, and those that lost their right by the end of
//! their connections. Ports and discovery are in `ports`.

mod ports;

pub use ports::MAX_REFERRALS;

use super::controller::ControllerKey;
use super::subsystem::{Namespace, Subsystem};
use super::{ALL_CNTLIDS, AllowedHosts, DISCOVERY_SUBSYSTEM, MAX_NAMESPACES};
use super::{NamespaceConfig, SubsystemConfig, Target, TargetAction};
use crate::SubsystemRef;
use nvme_spec_types::feature::AsyncEventConfig;
use nvme_spec_types::{AsyncEvent, Nqn, NqnError};
use std::collections::btree_map::Entry;
use std::net::SocketAddr;
use std::ops::RangeInclusive;

/// Why the configuration cannot be changed that way. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// Give the subsystem or host a name of the form nqn.YYYY-MM.reverse.domain:name.
    #[error("{nqn:?} is not an NVMe qualified name: {reason}")]
    InvalidNqn {
        /// The name.
        nqn: String,
        /// What is wrong with it.
        reason: NqnError,
    },
    /// Another subsystem has the name.
    #[error("there is a subsystem {0} already")]
    SubsystemExists(String),
    /// What hosts know a subsystem by stays: remove it and add another.
    #[error("NQN, serial and model number of subsystem {0} cannot be changed")]
    SubsystemIdentityChanged(String),
    /// Controller ids are 1 to FFEFh.
    #[error("{first} to {last} is not a range of controller ids: 1 to 65519 are", first = .0.start(), last = .0.end())]
    InvalidCntlids(RangeInclusive<u16>),
    /// No subsystem has that number (any more).
    #[error("there is no such subsystem")]
    UnknownSubsystem,
    /// Serial and model numbers are printable ASCII of limited length.
    #[error("{what} {text:?} is not 1 to {limit} printable ASCII characters")]
    InvalidText {
        /// "serial number" or "model number".
        what: &'static str,
        /// What was given.
        text: String,
        /// Most characters.
        limit: usize,
    },
    /// Namespace ids are 1 to FFFFFFFEh.
    #[error("{0:#x} is not a namespace id: 1 to 0xfffffffe are")]
    InvalidNsid(u32),
    /// The subsystem has a namespace of that id.
    #[error("there is a namespace {0} already")]
    NamespaceExists(u32),
    /// The subsystem has no namespace of that id.
    #[error("there is no namespace {0}")]
    UnknownNamespace(u32),
    /// Take another subsystem for more.
    #[error("a subsystem has at most {MAX_NAMESPACES} namespaces")]
    TooManyNamespaces,
    /// Another namespace of the subsystem has the same UUID, NGUID or EUI-64.
    #[error("namespace {0} has the same identifier")]
    IdentifierTaken(u32),
    /// A namespace needs at least one identifier, or hosts cannot know it again.
    #[error("namespace {0} has neither UUID nor NGUID nor EUI-64")]
    NoIdentifier(u32),
    /// Blocks are of 512 or 4096 bytes.
    #[error("logical blocks of 2^{0} bytes are not supported: 9 (512) and 12 (4096) are")]
    InvalidBlockSize(u8),
    /// At least one block, and no more bytes than 2^63.
    #[error("{0} logical blocks are none or too many")]
    InvalidBlockCount(u64),
    /// What hosts know a namespace by stays: remove the namespace and add another.
    #[error("identifiers and block size of namespace {0} cannot be changed")]
    IdentityChanged(u32),
    /// Another port has the number.
    #[error("there is a port {0} already")]
    PortExists(u16),
    /// No port has that number.
    #[error("there is no port {0}")]
    UnknownPort(u16),
    /// A referral names one place; list each once, and not too many.
    #[error(
        "a referral to {0} is a wildcard or listed twice, or there are more than {MAX_REFERRALS}"
    )]
    InvalidReferral(SocketAddr),
}

impl Target {
    /// Adds a subsystem without namespaces.
    ///
    /// # Errors
    /// [`ConfigError`]: a name or number that is not valid, or a name that is taken.
    pub fn add_subsystem(
        &mut self,
        config: SubsystemConfig,
        out: &mut Vec<TargetAction>,
    ) -> Result<SubsystemRef, ConfigError> {
        check_nqn(&config.nqn)?;
        check_text("serial number", &config.serial, 20)?;
        check_text("model number", &config.model, 40)?;
        check_hosts(&config.hosts)?;
        check_cntlids(&config.cntlids)?;
        if self.names.contains_key(config.nqn.as_str()) {
            return Err(ConfigError::SubsystemExists(config.nqn));
        }
        let id = SubsystemRef(self.next_subsystem);
        self.next_subsystem += 1;
        let limits = self.host_limits.clone();
        let subsystem = Subsystem::new(id, config, self.config.max_transfer, limits);
        let hosts = subsystem.hosts.clone();
        self.names.insert(subsystem.nqn.clone(), id);
        out.push(TargetAction::Publish(subsystem.view.clone()));
        self.subsystems.insert(id, subsystem);
        self.discovery_changed(|hostnqn| hosts.contains(hostnqn), out);
        Ok(id)
    }

    /// Changes a subsystem: who may use it and how often, and the controller ids of those who come
    /// from now on. Connections of hosts that may no longer use it end; a host that has more
    /// controllers than it still may keeps them.
    ///
    /// # Errors
    /// [`ConfigError`]: no such subsystem, a setting that is not valid, or another identity (NQN,
    /// serial or model number) than before.
    pub fn update_subsystem(
        &mut self,
        id: SubsystemRef,
        config: SubsystemConfig,
        out: &mut Vec<TargetAction>,
    ) -> Result<(), ConfigError> {
        check_hosts(&config.hosts)?;
        check_cntlids(&config.cntlids)?;
        let subsystem = self.known_subsystem(id)?;
        let SubsystemConfig { nqn, serial, model, hosts, duplicates, cntlids } = config;
        if (&*subsystem.nqn, &subsystem.serial, &subsystem.model) != (&*nqn, &serial, &model) {
            return Err(ConfigError::SubsystemIdentityChanged(subsystem.nqn.to_string()));
        }
        subsystem.duplicates = duplicates;
        subsystem.cntlids = cntlids;
        if subsystem.hosts == hosts { Ok(()) } else { self.set_hosts(id, hosts, out) }
    }

    /// Removes a subsystem: its connections end, its view is empty from now on.
    ///
    /// # Errors
    /// [`ConfigError::UnknownSubsystem`].
    pub fn remove_subsystem(
        &mut self,
        id: SubsystemRef,
        out: &mut Vec<TargetAction>,
    ) -> Result<(), ConfigError> {
        self.known_subsystem(id)?;
        let Some(mut subsystem) = self.subsystems.remove(&id) else {
            return Err(ConfigError::UnknownSubsystem);
        };
        self.names.remove(&subsystem.nqn);
        const REASON: &str = "the subsystem was removed";
        self.end_controllers(|_, key| (key.subsystem == id).then_some(REASON), out);
        for (_, namespace) in std::mem::take(&mut subsystem.namespaces) {
            self.removed += namespace.totals();
        }
        out.push(TargetAction::Publish(subsystem.renew_view()));
        self.discovery_changed(|hostnqn| subsystem.allows(hostnqn), out);
        Ok(())
    }

    /// Adds a namespace; connected hosts are told.
    ///
    /// # Errors
    /// [`ConfigError`]: no such subsystem, an id or identifier that is invalid or taken, a size
    /// that is not supported.
    pub fn add_namespace(
        &mut self,
        id: SubsystemRef,
        config: NamespaceConfig,
        out: &mut Vec<TargetAction>,
    ) -> Result<(), ConfigError> {
        let target = self.config;
        let subsystem = self.known_subsystem(id)?;
        check_namespace(subsystem, &config)?;
        let nsid = config.nsid;
        let full = subsystem.namespaces.len() >= MAX_NAMESPACES;
        match subsystem.namespaces.entry(nsid) {
            Entry::Occupied(_) => return Err(ConfigError::NamespaceExists(nsid)),
            Entry::Vacant(_) if full => return Err(ConfigError::TooManyNamespaces),
            Entry::Vacant(entry) => entry.insert(Namespace::new(config, &target)),
        };
        self.namespace_changed(id, nsid, out);
        Ok(())
    }

    /// Changes a namespace: size, write protection, backing, hints. Connected hosts are told.
    /// Returns what it was.
    ///
    /// # Errors
    /// [`ConfigError`]: no such subsystem or namespace, a size that is not supported, or another
    /// identity (identifiers, block size) than before.
    pub fn update_namespace(
        &mut self,
        id: SubsystemRef,
        config: NamespaceConfig,
        out: &mut Vec<TargetAction>,
    ) -> Result<NamespaceConfig, ConfigError> {
        let subsystem = self.known_subsystem(id)?;
        let nsid = config.nsid;
        let Some(old) = subsystem.namespaces.get(&nsid) else {
            return Err(ConfigError::UnknownNamespace(nsid));
        };
        let identity = |ns: &NamespaceConfig| (ns.uuid, ns.nguid, ns.eui64, ns.lba_shift);
        if identity(&old.config) != identity(&config) {
            return Err(ConfigError::IdentityChanged(nsid));
        }
        check_namespace(subsystem, &config)?;
        let before = old.config.clone();
        if before != config {
            let changed = old.changed(config);
            subsystem.namespaces.insert(nsid, changed);
            self.namespace_changed(id, nsid, out);
        }
        Ok(before)
    }

    /// Puts another namespace in the place of one, under its id: with a removal and an addition in
    /// one step, no host finds the id empty in between. Returns what was there.
    ///
    /// # Errors
    /// [`ConfigError`]: no such subsystem or namespace, or what [`Target::add_namespace`] refuses.
    pub fn replace_namespace(
        &mut self,
        id: SubsystemRef,
        config: NamespaceConfig,
        out: &mut Vec<TargetAction>,
    ) -> Result<NamespaceConfig, ConfigError> {
        let target = self.config;
        let subsystem = self.known_subsystem(id)?;
        let nsid = config.nsid;
        check_namespace(subsystem, &config)?;
        let Some(place) = subsystem.namespaces.get_mut(&nsid) else {
            return Err(ConfigError::UnknownNamespace(nsid));
        };
        let before = std::mem::replace(place, Namespace::new(config, &target));
        self.removed += before.totals();
        for controller in self.controllers.values_mut().filter(|c| c.key.subsystem == id) {
            controller.features.forget_namespace(nsid);
        }
        self.namespace_changed(id, nsid, out);
        Ok(before.config)
    }

    /// Removes a namespace and returns what it was; connected hosts are told.
    ///
    /// # Errors
    /// [`ConfigError`]: no such subsystem or namespace.
    pub fn remove_namespace(
        &mut self,
        id: SubsystemRef,
        nsid: u32,
        out: &mut Vec<TargetAction>,
    ) -> Result<NamespaceConfig, ConfigError> {
        let subsystem = self.known_subsystem(id)?;
        let Some(removed) = subsystem.namespaces.remove(&nsid) else {
            return Err(ConfigError::UnknownNamespace(nsid));
        };
        self.removed += removed.totals();
        self.namespace_changed(id, nsid, out);
        Ok(removed.config)
    }

    /// Says who may use a subsystem; connections of hosts that may no longer end.
    ///
    /// # Errors
    /// [`ConfigError`]: no such subsystem, or a host name that is not valid.
    pub fn set_hosts(
        &mut self,
        id: SubsystemRef,
        hosts: AllowedHosts,
        out: &mut Vec<TargetAction>,
    ) -> Result<(), ConfigError> {
        check_hosts(&hosts)?;
        let subsystem = self.known_subsystem(id)?;
        let before = std::mem::replace(&mut subsystem.hosts, hosts.clone());
        self.end_controllers(
            |target, key| {
                let gone =
                    key.subsystem == id && !hosts.contains(&target.controllers[&key].hostnqn);
                gone.then_some("the host may no longer use the subsystem")
            },
            out,
        );
        self.discovery_changed(|host| before.contains(host) != hosts.contains(host), out);
        Ok(())
    }

    /// The number of the subsystem with that name.
    pub fn find_subsystem(&self, nqn: &str) -> Option<SubsystemRef> {
        self.names.get(nqn).copied()
    }

    pub(super) fn known_subsystem(
        &mut self,
        id: SubsystemRef,
    ) -> Result<&mut Subsystem, ConfigError> {
        match self.subsystems.get_mut(&id) {
            Some(subsystem) if id != DISCOVERY_SUBSYSTEM => Ok(subsystem),
            _ => Err(ConfigError::UnknownSubsystem),
        }
    }

    /// Ends the controllers for which there is a reason.
    fn end_controllers(
        &mut self,
        reason: impl Fn(&Target, ControllerKey) -> Option<&'static str>,
        out: &mut Vec<TargetAction>,
    ) {
        let keys: Vec<_> = self.controllers.keys().copied().collect();
        for key in keys {
            if let Some(reason) = reason(self, key) {
                self.end_controller(key, reason, out);
            }
        }
    }

    /// A namespace came, went or changed: tell the cores, then the hosts.
    fn namespace_changed(&mut self, id: SubsystemRef, nsid: u32, out: &mut Vec<TargetAction>) {
        let Some(subsystem) = self.subsystems.get_mut(&id) else { return };
        out.push(TargetAction::Publish(subsystem.renew_view()));
        let gone = !subsystem.namespaces.contains_key(&nsid);
        for controller in self.controllers.values_mut().filter(|c| c.key.subsystem == id) {
            if gone {
                controller.features.forget_namespace(nsid);
            }
            controller.changed.add(nsid);
            controller.notify(
                AsyncEvent::NAMESPACE_ATTRIBUTE_CHANGED,
                AsyncEventConfig::NAMESPACE_ATTRIBUTE,
                out,
            );
        }
    }
}

fn check_nqn(nqn: &str) -> Result<(), ConfigError> {
    let checked = Nqn::new(nqn).and_then(|name| name.check_form());
    checked.map_err(|reason| ConfigError::InvalidNqn { nqn: nqn.to_owned(), reason })
}

fn check_hosts(hosts: &AllowedHosts) -> Result<(), ConfigError> {
    match hosts {
        AllowedHosts::Any => Ok(()),
        AllowedHosts::Only(names) => names.iter().try_for_each(|name| check_nqn(name)),
    }
}

fn check_cntlids(cntlids: &RangeInclusive<u16>) -> Result<(), ConfigError> {
    let within = |id| ALL_CNTLIDS.contains(id);
    match within(cntlids.start()) && within(cntlids.end()) && !cntlids.is_empty() {
        true => Ok(()),
        false => Err(ConfigError::InvalidCntlids(cntlids.clone())),
    }
}

fn check_text(what: &'static str, text: &str, limit: usize) -> Result<(), ConfigError> {
    let printable = text.bytes().all(|b| b.is_ascii_graphic() || b == b' ');
    if text.is_empty() || text.len() > limit || !printable {
        return Err(ConfigError::InvalidText { what, text: text.to_owned(), limit });
    }
    Ok(())
}

fn check_namespace(subsystem: &Subsystem, config: &NamespaceConfig) -> Result<(), ConfigError> {
    if matches!(config.nsid, 0 | u32::MAX) {
        return Err(ConfigError::InvalidNsid(config.nsid));
    }
    if !matches!(config.lba_shift, 9 | 12) {
        return Err(ConfigError::InvalidBlockSize(config.lba_shift));
    }
    if config.block_count == 0 || config.block_count > (1 << 63) >> config.lba_shift {
        return Err(ConfigError::InvalidBlockCount(config.block_count));
    }
    let ids = (config.uuid, config.nguid, config.eui64);
    if ids == ([0; 16], [0; 16], [0; 8]) {
        return Err(ConfigError::NoIdentifier(config.nsid));
    }
    for (&nsid, other) in &subsystem.namespaces {
        let same = |a: &[u8], b: &[u8]| a == b && a.iter().any(|&byte| byte != 0);
        let taken = same(&config.uuid, &other.config.uuid)
            || same(&config.nguid, &other.config.nguid)
            || same(&config.eui64, &other.config.eui64);
        if nsid != config.nsid && taken {
            return Err(ConfigError::IdentifierTaken(nsid));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
