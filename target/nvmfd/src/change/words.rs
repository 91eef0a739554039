//! Changes in the words of an operator.

use super::{Change, Plan};
use crate::config::{Limits, limit_in_words};
use backing::Medium;
use nvmf::limit::LimitConfig;
use nvmf::target::{ALL_CNTLIDS, AllowedHosts, DuplicateHosts};
use std::fmt;

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Change::RemoveListener(address) => {
                write!(f, "- listener {address} (its connections end)")
            }
            Change::AddListener(listener) => write!(f, "+ listener {}", listener.address),
            Change::RemoveNamespace { nqn, nsid } => write!(f, "- namespace {nqn} {nsid}"),
            Change::AddNamespace { nqn, namespace } => {
                let place = place(&namespace.spec.medium);
                write!(f, "+ namespace {nqn} {}: {place}", namespace.nsid)
            }
            Change::Grow { nqn, to } => {
                write!(f, "~ namespace {nqn} {}: size", to.nsid)?;
                match to.spec.medium {
                    Medium::Path { size: Some(size), .. } => {
                        write!(f, " {}", crate::config::in_words(size))
                    }
                    _ => f.write_str(" as it is"),
                }
            }
            Change::Protect { nqn, to } => write!(f, "~ namespace {nqn} {}: read-only", to.nsid),
            Change::Unprotect { nqn, to } => {
                write!(f, "~ namespace {nqn} {}: read-write", to.nsid)
            }
            Change::RemoveSubsystem { nqn } => {
                write!(f, "- subsystem {nqn} (its connections end)")
            }
            Change::AddSubsystem(subsystem) => write!(f, "+ subsystem {}", subsystem.nqn),
            Change::SetSubsystem(to) => {
                write!(f, "~ subsystem {}: ", to.nqn)?;
                match &to.hosts {
                    AllowedHosts::Any => f.write_str("any host may connect")?,
                    AllowedHosts::Only(hosts) if hosts.is_empty() => {
                        f.write_str("no host may connect")?;
                    }
                    AllowedHosts::Only(hosts) => {
                        write!(f, "hosts {} may connect", hosts.join(", "))?;
                    }
                }
                match to.duplicates {
                    DuplicateHosts::Allow => {}
                    DuplicateHosts::OnePerPort => f.write_str(", once through each listener")?,
                    DuplicateHosts::Refuse => f.write_str(", once each")?,
                }
                match &to.cntlids {
                    all if *all == ALL_CNTLIDS => Ok(()),
                    some => write!(f, ", controller ids {} to {}", some.start(), some.end()),
                }
            }
            Change::SetLimits(to) => write!(f, "~ limits: {}", limits(to)),
            Change::SetDiscovery(_) => f.write_str("~ discovery"),
            Change::SetLogFilter(filter) => write!(f, "~ log level {filter}"),
        }
    }
}

/// All limits that are in force then.
fn limits(to: &Limits) -> String {
    let words = |limit: &LimitConfig| limit_in_words(limit.iops, limit.bandwidth);
    let namespaces = to.namespaces.iter();
    let namespaces =
        namespaces.map(|((nqn, nsid), limit)| format!("namespace {nqn} {nsid} {}", words(limit)));
    let hosts = to.hosts.iter().map(|(nqn, limit)| format!("host {nqn} {}", words(limit)));
    let all: Vec<String> = namespaces.chain(hosts).collect();
    if all.is_empty() { "none".to_owned() } else { all.join("; ") }
}

fn place(medium: &Medium) -> String {
    match medium {
        Medium::Path { path, .. } => path.display().to_string(),
        Medium::Ram { size } => format!("{} of memory", crate::config::in_words(*size)),
        Medium::Null { size } => format!("{} of nothing", crate::config::in_words(*size)),
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.changes.is_empty() && self.restart.is_empty() {
            return f.write_str("nothing is different\n");
        }
        for change in &self.changes {
            writeln!(f, "{change}")?;
        }
        for setting in &self.restart {
            writeln!(f, "! {setting}: stays as it is until a restart")?;
        }
        Ok(())
    }
}
