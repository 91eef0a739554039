//! What making a plan would find wrong, found without touching anything: so that nothing is changed
//! for the sake of what cannot be, and whoever asks beforehand hears what a reload would say.

use super::{Operator, Origin, Refusal, Standing, apart};
use crate::change::{Change, Plan};
use crate::check::{Found, look, look_at_own};
use crate::config::{Config, Listener, Namespace};
use crate::provider::{Choice, choose};
use backing::{Medium, OpenError};
use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;

impl Operator {
    /// # Errors
    /// [`Refusal::Machine`], as making the plan would end.
    pub(super) async fn review(
        &self,
        standing: &Standing,
        plan: &Plan,
        origin: Origin,
    ) -> Result<(), Refusal> {
        let leaving = files_let_go(&standing.config, plan);
        let mut problems = Vec::new();
        for change in &plan.changes {
            let (nqn, namespace, is_own) = match change {
                Change::AddNamespace { nqn, namespace } => {
                    let is_own = file_of(namespace).is_some_and(|file| leaving.contains(&file));
                    (nqn, namespace, is_own)
                }
                Change::Grow { nqn, to } => (nqn, to, true),
                // Else it is open for writing all along.
                Change::Unprotect { nqn, to } if self.is_read_only(standing, nqn, to) => {
                    (nqn, to, true)
                }
                Change::AddListener(listener) => {
                    problems.extend(cannot_listen(&standing.config, *listener).await);
                    continue;
                }
                _ => continue,
            };
            if let Err(error) = can_be_opened(namespace, is_own).await {
                problems.push(self.complaint(origin, nqn, namespace, &error));
            }
        }
        if problems.is_empty() { Ok(()) } else { Err(Refusal::Machine(problems)) }
    }
}

/// Whether serving a disk would succeed, as far as can be seen. One of our `own` is open now.
async fn can_be_opened(namespace: &Namespace, is_own: bool) -> Result<(), OpenError> {
    let spec = namespace.spec.clone();
    let found = apart(move || {
        // One without a name would be lost for a new one.
        if let (true, Medium::Path { path, .. }) = (is_own, &spec.medium)
            && !path.exists()
        {
            let (path, source) = (path.clone(), io::ErrorKind::NotFound.into());
            return Err(OpenError::System { path, doing: "look at it", source });
        }
        if is_own { look_at_own(&spec) } else { look(&spec) }
    });
    match found.await {
        Ok(Found::InUse(error)) | Err(error) => Err(error),
        Ok(_) => Ok(()),
    }
}

/// What is in the way of a listener. Of addresses that a listener of ours is at, nothing.
async fn cannot_listen(config: &Config, listener: Listener) -> Option<String> {
    let ip = listener.address.ip();
    let ours = config.listeners.iter().map(|listener| listener.address.ip()).any(|other| {
        let wildcard = other.is_unspecified() || ip.is_unspecified();
        other == ip || (wildcard && other.is_ipv4() == ip.is_ipv4())
    });
    if ours {
        return None;
    }
    apart(move || {
        let soft = matches!(choose(&listener), Choice::Soft(_));
        // An address that is not there yet is waited for.
        let absence = soft_roce::may_listen(ip).err().filter(|absence| soft && !absence.absent)?;
        Some(format!("listener {}: {}", listener.address, absence.reason))
    })
    .await
}

/// The file or device of a namespace, by its own name.
pub(super) fn file_of(namespace: &Namespace) -> Option<PathBuf> {
    match &namespace.spec.medium {
        Medium::Path { path, .. } => Some(path.canonicalize().unwrap_or_else(|_| path.clone())),
        Medium::Ram { .. } | Medium::Null { .. } => None,
    }
}

/// The files of namespaces that the plan removes.
pub(super) fn files_let_go(config: &Config, plan: &Plan) -> BTreeSet<PathBuf> {
    let mut files = BTreeSet::new();
    for subsystem in &config.subsystems {
        for namespace in &subsystem.namespaces {
            let (nqn, nsid) = (subsystem.nqn.clone(), namespace.nsid);
            if plan.changes.contains(&Change::RemoveNamespace { nqn, nsid }) {
                files.extend(file_of(namespace));
            }
        }
    }
    files
}
