//! Ports, and what discovery tells of them and of other discovery services.

use super::{ConfigError, check_nqn};
use crate::target::controller::Kind;
use crate::target::{DISCOVERY_SUBSYSTEM, DiscoveryConfig, PortConfig, Target, TargetAction};
use nvme_spec_types::AsyncEvent;
use nvme_spec_types::feature::AsyncEventConfig;
use nvme_spec_types::nqn::DISCOVERY_NQN;
use std::collections::btree_map::Entry;
use std::sync::Arc;

/// Most other discovery services that hosts are referred to.
pub const MAX_REFERRALS: usize = 64;

impl Target {
    /// Adds an address that discovery tells.
    ///
    /// # Errors
    /// [`ConfigError::PortExists`].
    pub fn add_port(
        &mut self,
        port: PortConfig,
        out: &mut Vec<TargetAction>,
    ) -> Result<(), ConfigError> {
        match self.ports.entry(port.id) {
            Entry::Occupied(_) => return Err(ConfigError::PortExists(port.id)),
            Entry::Vacant(entry) => entry.insert(port),
        };
        self.discovery_changed(|_| true, out);
        Ok(())
    }

    /// Removes an address: controllers that were connected through it end.
    ///
    /// # Errors
    /// [`ConfigError::UnknownPort`].
    pub fn remove_port(&mut self, id: u16, out: &mut Vec<TargetAction>) -> Result<(), ConfigError> {
        if self.ports.remove(&id).is_none() {
            return Err(ConfigError::UnknownPort(id));
        }
        const REASON: &str = "the port was removed";
        self.end_controllers(
            |target, key| {
                let admin = target.controllers[&key].admin;
                (target.queues[&admin].info.port == id).then_some(REASON)
            },
            out,
        );
        let rest: Vec<_> =
            self.queues.iter().filter(|(_, q)| q.info.port == id).map(|(&key, _)| key).collect();
        for queue in rest {
            self.unbind_io_queue(queue);
            self.close_queue(queue, REASON, out);
        }
        self.discovery_changed(|_| true, out);
        Ok(())
    }

    /// Says what discovery tells beside the subsystems; hosts that keep a connection to it are
    /// told. Discovery controllers that are there keep the name that they were connected by.
    ///
    /// # Errors
    /// [`ConfigError`]: a name that is not valid or belongs to a subsystem, or a referral that
    /// leads nowhere.
    pub fn set_discovery(
        &mut self,
        config: DiscoveryConfig,
        out: &mut Vec<TargetAction>,
    ) -> Result<(), ConfigError> {
        let nqn = config.nqn.as_deref().unwrap_or(DISCOVERY_NQN);
        check_nqn(nqn)?;
        if self.names.get(nqn).is_some_and(|&id| id != DISCOVERY_SUBSYSTEM) {
            return Err(ConfigError::SubsystemExists(nqn.to_owned()));
        }
        for (place, referral) in config.referrals.iter().enumerate() {
            let twice = config.referrals[..place].contains(referral);
            if twice || place >= MAX_REFERRALS || referral.address.ip().is_unspecified() {
                return Err(ConfigError::InvalidReferral(referral.address));
            }
            referral.nqn.as_deref().map_or(Ok(()), check_nqn)?;
        }
        if config == self.discovery {
            return Ok(());
        }
        self.names.retain(|name, id| *id != DISCOVERY_SUBSYSTEM || **name == *DISCOVERY_NQN);
        let nqn: Arc<str> = nqn.into();
        self.names.insert(nqn.clone(), DISCOVERY_SUBSYSTEM);
        if let Some(subsystem) = self.subsystems.get_mut(&DISCOVERY_SUBSYSTEM) {
            subsystem.nqn = nqn;
        }
        self.discovery = config;
        self.discovery_changed(|_| true, out);
        Ok(())
    }

    /// The discovery log is another one now for these hosts. Told to persistent connections only,
    /// those that keep themselves alive (NVMe Base 2.1, 3.1.3.3.2).
    pub(super) fn discovery_changed(
        &mut self,
        concerns: impl Fn(&str) -> bool,
        out: &mut Vec<TargetAction>,
    ) {
        self.discovery_generation += 1;
        for controller in self.controllers.values_mut() {
            let persistent = controller.keep_alive.kato_ms != 0;
            if controller.kind == Kind::Discovery && persistent && concerns(&controller.hostnqn) {
                controller.notify(
                    AsyncEvent::DISCOVERY_LOG_CHANGED,
                    AsyncEventConfig::DISCOVERY_LOG,
                    out,
                );
            }
        }
    }
}

#[cfg(test)]
mod tests;
