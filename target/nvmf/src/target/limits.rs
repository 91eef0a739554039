//! Limits of namespaces and hosts, changed at any time.
//!
//! A limit that stays as it was keeps what of it is used up, so that setting the same again is no way
//! around it. Hosts are not told: nothing that they could ask for is different.

use super::{DISCOVERY_SUBSYSTEM, Target, TargetAction};
use crate::SubsystemRef;
use crate::limit::{Limit, LimitConfig};
use crate::target::ConfigError;
use std::collections::BTreeMap;
use std::sync::Arc;

impl Target {
    /// Sets how much a namespace is served over all hosts; `None` for as much as can be. A namespace
    /// that is added or replaced has no limit.
    ///
    /// # Errors
    /// [`ConfigError`]: no such subsystem or namespace.
    pub fn set_namespace_limit(
        &mut self,
        id: SubsystemRef,
        nsid: u32,
        limit: Option<LimitConfig>,
        out: &mut Vec<TargetAction>,
    ) -> Result<(), ConfigError> {
        let subsystem = self.known_subsystem(id)?;
        let namespace =
            subsystem.namespaces.get_mut(&nsid).ok_or(ConfigError::UnknownNamespace(nsid))?;
        if namespace.view.limit.as_deref().map(Limit::config) != limit {
            *namespace = namespace.limited(limit);
            out.push(TargetAction::Publish(subsystem.renew_view()));
        }
        Ok(())
    }

    /// Sets how much each of these hosts, by NQN, is served over all subsystems; others have no
    /// limit.
    pub fn set_host_limits(
        &mut self,
        limits: BTreeMap<String, LimitConfig>,
        out: &mut Vec<TargetAction>,
    ) {
        let now = self.host_limits.iter().map(|(nqn, limit)| (nqn, limit.config()));
        if now.eq(limits.iter().map(|(nqn, config)| (nqn, *config))) {
            return;
        }
        let limits = limits.into_iter().map(|(nqn, config)| {
            let kept = self.host_limits.get(&nqn).filter(|limit| limit.config() == config);
            let limit = kept.cloned().unwrap_or_else(|| Arc::new(Limit::new(config)));
            (nqn, limit)
        });
        self.host_limits = Arc::new(limits.collect());
        let serving = |(id, _): &(&SubsystemRef, _)| **id != DISCOVERY_SUBSYSTEM;
        for (_, subsystem) in self.subsystems.iter_mut().filter(serving) {
            out.push(TargetAction::Publish(subsystem.limit_hosts(&self.host_limits)));
        }
    }
}

#[cfg(test)]
mod tests;
