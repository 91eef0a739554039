//! What making a plan would find wrong with its disks, found without touching them: so that whoever
//! asks beforehand hears what a reload would say.

use super::{Operator, Refusal, Standing, apart};
use crate::change::{Change, Plan};
use crate::check::{Found, look};
use crate::config::{Config, Namespace};
use crate::disks;
use backing::{Medium, OpenError};
use std::collections::BTreeSet;
use std::path::PathBuf;

impl Operator {
    /// # Errors
    /// [`Refusal::Disks`], as making the plan would end.
    pub(super) async fn review(&self, standing: &Standing, plan: &Plan) -> Result<(), Refusal> {
        let leaving = files_let_go(&standing.config, plan);
        let mut problems = Vec::new();
        for change in &plan.changes {
            let (nqn, namespace, found) = match change {
                Change::AddNamespace { nqn, namespace } => {
                    // Its file is known to be one that can be served.
                    if file_of(namespace).is_some_and(|file| leaving.contains(&file)) {
                        continue;
                    }
                    (nqn, namespace, can_be_opened(namespace).await)
                }
                Change::Grow { nqn, to } => {
                    let grown = to.clone();
                    (nqn, to, apart(move || may_grow(&grown)).await)
                }
                Change::Unprotect { nqn, to } if self.is_read_only(standing, nqn, to) => {
                    (nqn, to, can_be_opened(to).await)
                }
                _ => continue,
            };
            if let Err(error) = found {
                problems.push(disks::in_words(&self.path, nqn, namespace, &error));
            }
        }
        if problems.is_empty() { Ok(()) } else { Err(Refusal::Disks(problems)) }
    }
}

/// Whether serving a disk would succeed, as far as can be seen.
pub(super) async fn can_be_opened(namespace: &Namespace) -> Result<(), OpenError> {
    let spec = namespace.spec.clone();
    match apart(move || look(&spec)).await {
        Ok(Found::InUse(error)) | Err(error) => Err(error),
        Ok(_) => Ok(()),
    }
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

/// Whether a disk can be made as large as it shall be.
pub(super) fn may_grow(to: &Namespace) -> Result<(), OpenError> {
    let Medium::Path { path, size: Some(wanted), .. } = &to.spec.medium else { return Ok(()) };
    let meta = std::fs::metadata(path).map_err(|source| OpenError::System {
        path: path.clone(),
        doing: "look at it",
        source,
    })?;
    if !meta.is_file() {
        return Err(OpenError::SizeOfDevice { path: path.clone() });
    }
    if meta.len() > *wanted {
        let (path, wanted) = (path.clone(), *wanted);
        return Err(OpenError::WouldShrink { path, actual: meta.len(), wanted });
    }
    Ok(())
}
