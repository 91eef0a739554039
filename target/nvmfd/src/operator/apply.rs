//! Making a plan true: disks first, then step by step.

use super::review::{file_of, files_let_go};
use super::{Operator, Order, Origin, Refusal, Standing, apart};
use crate::change::{self, Change, Plan, Step};
use crate::config::{Config, Namespace};
use crate::disks;
use backing::{Backing, BackingId, Medium, OpenError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tracing::{info, warn};

/// How long a disk that is let go of may take to end what is in flight on it.
const DISK_LEAVES_WITHIN: Duration = Duration::from_secs(5);

/// What came of a change.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Outcome {
    /// What was changed, a line each.
    pub(crate) changed: Vec<String>,
    /// What is different in the configuration and waits for a restart.
    pub(crate) restart: Vec<String>,
    /// What could not be changed, with the reason.
    pub(crate) failed: Vec<String>,
    /// Whether the configuration file was written.
    pub(crate) saved: bool,
}

/// Disks that were opened for a plan.
#[derive(Debug, Default)]
struct Opened {
    ready: BTreeMap<(String, u32), Arc<Backing>>,
    /// Those on a file that another namespace of this daemon is to let go of first.
    later: BTreeSet<(String, u32)>,
}

impl Operator {
    /// Makes a configuration's text the one in force, as far as that is possible while running.
    pub(super) async fn adopt(
        &self,
        standing: &mut Standing,
        text: String,
        origin: Origin,
    ) -> Result<Outcome, Refusal> {
        let new = self.parse(text.clone(), origin).await?;
        let mut plan = self.difference(standing, &new);
        if origin == Origin::Change {
            plan.leave_out(&standing.refused);
        }
        self.review(standing, &plan, origin).await?;
        let opened = self.open(standing, &plan, origin).await?;
        let before = standing.config.clone();
        let (mut outcome, refused) = self.make(standing, plan, opened).await?;
        match origin {
            Origin::Change if !refused.is_empty() => {
                self.take_back(standing, &before, &mut outcome).await?;
            }
            Origin::Change => standing.text = text,
            Origin::File => {
                standing.text = text;
                standing.refused = refused;
            }
        }
        self.shelf.stock(standing);
        self.looks.changed();
        Ok(outcome)
    }

    /// What there is to do to come to `new`.
    pub(super) fn difference(&self, standing: &Standing, new: &Config) -> Plan {
        change::diff(&standing.config, new, |listener| self.carriers.carry(listener))
    }

    /// Goes back to what was in force `before`, of a change that could not be made as a whole.
    async fn take_back(
        &self,
        standing: &mut Standing,
        before: &Config,
        outcome: &mut Outcome,
    ) -> Result<(), Refusal> {
        let plan = self.difference(standing, before);
        let failed = match self.open(standing, &plan, Origin::Change).await {
            Ok(opened) => self.make(standing, plan, opened).await?.0.failed,
            Err(refusal) => vec![refusal.to_string()],
        };
        outcome.restart.clear();
        if failed.is_empty() {
            outcome.changed.clear();
        }
        outcome.failed.extend(failed.iter().map(|line| format!("to take it back: {line}")));
        Ok(())
    }

    /// Opens the disks of a plan that can be opened now.
    async fn open(
        &self,
        standing: &Standing,
        plan: &Plan,
        origin: Origin,
    ) -> Result<Opened, Refusal> {
        let leaving = files_let_go(&standing.config, plan);
        let mut opened = Opened::default();
        let mut problems = Vec::new();
        for change in &plan.changes {
            let Change::AddNamespace { nqn, namespace } = change else { continue };
            let key = (nqn.clone(), namespace.nsid);
            if file_of(namespace).is_some_and(|file| leaving.contains(&file)) {
                opened.later.insert(key);
                continue;
            }
            match open(namespace).await {
                Ok(backing) => {
                    opened.ready.insert(key, backing);
                }
                Err(error) => problems.push(self.complaint(origin, nqn, namespace, &error)),
            }
        }
        if problems.is_empty() { Ok(opened) } else { Err(Refusal::Machine(problems)) }
    }

    /// Makes the changes. One that fails does not stop the others; those are told without lines.
    async fn make(
        &self,
        standing: &mut Standing,
        plan: Plan,
        mut opened: Opened,
    ) -> Result<(Outcome, Vec<Change>), Refusal> {
        let before = standing.config.clone();
        let mut refused = Vec::new();
        let mut outcome = Outcome { restart: plan.restart, ..Outcome::default() };
        let mut leaving = Vec::new();
        for change in plan.changes {
            let made = match &change {
                Change::AddNamespace { nqn, namespace } => {
                    let key = (nqn.clone(), namespace.nsid);
                    if opened.later.contains(&key) {
                        self.wait_for(&mut leaving).await;
                        self.move_in(standing, &before, nqn, namespace).await
                    } else {
                        let backing = opened.ready.remove(&key);
                        match backing {
                            Some(backing) => {
                                self.add(standing, nqn, namespace, backing, &leaving).await
                            }
                            None => Err("its disk was not opened".to_owned()),
                        }
                    }
                }
                Change::Unprotect { nqn, to } if self.is_read_only(standing, nqn, to) => {
                    // Its disk was opened for reading only, and has to be opened anew.
                    match self.let_go(standing, nqn, to.nsid, &mut leaving).await {
                        Ok(()) => {
                            self.wait_for(&mut leaving).await;
                            self.move_in(standing, &before, nqn, to).await
                        }
                        Err(why) => Err(why),
                    }
                }
                Change::RemoveNamespace { nqn, nsid } => {
                    self.let_go(standing, nqn, *nsid, &mut leaving).await
                }
                change => self.simple(standing, change).await,
            };
            match made {
                Ok(()) => {
                    info!("changed: {change}");
                    change.record(&mut standing.config);
                    outcome.changed.push(change.to_string());
                }
                Err(why) => {
                    warn!("not changed: {change}: {why}");
                    outcome.failed.push(format!("{change}: {why}"));
                    refused.push(change.without_line());
                }
            }
        }
        for setting in &outcome.restart {
            warn!("{setting}: stays as it is until a restart");
        }
        // Who takes a disk away may bring it back with the next command.
        self.wait_for(&mut leaving).await;
        Ok((outcome, refused))
    }

    /// Takes a namespace away; its disk is left when no core uses it any more.
    async fn let_go(
        &self,
        standing: &mut Standing,
        nqn: &str,
        nsid: u32,
        leaving: &mut Vec<BackingId>,
    ) -> Result<(), String> {
        let disk = self.step(Step::RemoveNamespace(nqn.to_owned(), nsid)).await?;
        leaving.extend(disk);
        let subsystem = standing.config.subsystems.iter().find(|subsystem| subsystem.nqn == nqn);
        let gone = subsystem.and_then(|all| all.namespaces.iter().find(|ns| ns.nsid == nsid));
        if let Some(gone) = gone {
            standing.absences.begin(Instant::now(), nqn, gone);
        }
        standing.disks.remove(&(nqn.to_owned(), nsid));
        Ok(())
    }

    /// Whether a namespace's disk is open for reading only.
    pub(super) fn is_read_only(
        &self,
        standing: &Standing,
        nqn: &str,
        namespace: &Namespace,
    ) -> bool {
        let disk = standing.disks.get(&(nqn.to_owned(), namespace.nsid));
        disk.is_some_and(|(_, backing)| backing.geometry().read_only)
    }

    /// A change that neither opens nor closes a disk.
    async fn simple(&self, standing: &Standing, change: &Change) -> Result<(), String> {
        let step = match change {
            Change::RemoveListener(address) => Step::Unlisten(*address),
            Change::AddListener(listener) => {
                self.carriers.route(listener);
                Step::Listen(listener.address)
            }
            Change::RemoveSubsystem { nqn } => Step::RemoveSubsystem(nqn.clone()),
            Change::AddSubsystem(subsystem) => {
                Step::AddSubsystem(disks::subsystem_config(subsystem))
            }
            Change::SetSubsystem(to) => Step::SetSubsystem(disks::subsystem_config(to)),
            Change::SetLimits(to) => Step::SetLimits(to.clone()),
            Change::SetDiscovery(to) => Step::SetDiscovery(to.clone()),
            Change::Grow { nqn, to }
            | Change::Protect { nqn, to }
            | Change::Unprotect { nqn, to } => {
                let key = (nqn.clone(), to.nsid);
                let Some((id, backing)) = standing.disks.get(&key) else {
                    return Err("its disk is not open".to_owned());
                };
                if let (Change::Grow { .. }, Medium::Path { size: Some(size), .. }) =
                    (change, &to.spec.medium)
                {
                    let (backing, size) = (backing.clone(), *size);
                    let grown = apart(move || backing.grow(size)).await;
                    grown.map_err(|error| format!("cannot make the file larger: {error}"))?;
                }
                Step::UpdateNamespace(nqn.clone(), disks::namespace_config(to, *id, backing))
            }
            Change::SetLogFilter(filter) => return self.log.set(filter),
            Change::AddNamespace { .. } | Change::RemoveNamespace { .. } => {
                unreachable!("these have disks to open and close")
            }
        };
        self.step(step).await.map(drop)
    }

    /// Serves an open disk, by another number than those that are `leaving`; once hosts can have noticed
    /// that another went, where one did.
    async fn add(
        &self,
        standing: &mut Standing,
        nqn: &str,
        namespace: &Namespace,
        backing: Arc<Backing>,
        leaving: &[BackingId],
    ) -> Result<(), String> {
        let empty_for = standing.absences.left(Instant::now(), nqn, namespace);
        if !empty_for.is_zero() && self.is_used(nqn).await {
            info!(nqn, nsid = namespace.nsid, ?empty_for, "letting hosts notice that a disk went");
            tokio::time::sleep(empty_for).await;
        }
        let id = self.ids.take(leaving).ok_or("there are too many disks")?;
        let config = disks::namespace_config(namespace, id, &backing);
        self.step(Step::AddNamespace(nqn.to_owned(), config, backing.clone())).await?;
        standing.disks.insert((nqn.to_owned(), namespace.nsid), (id, backing));
        Ok(())
    }

    /// Opens and serves a disk whose file another namespace has let go of. When that fails, what
    /// was there under its number comes back.
    async fn move_in(
        &self,
        standing: &mut Standing,
        before: &Config,
        nqn: &str,
        namespace: &Namespace,
    ) -> Result<(), String> {
        let why = match open(namespace).await {
            Ok(backing) => return self.add(standing, nqn, namespace, backing, &[]).await,
            Err(error) => error.to_string(),
        };
        let subsystem = before.subsystems.iter().find(|subsystem| subsystem.nqn == nqn);
        let former = subsystem
            .and_then(|subsystem| subsystem.namespaces.iter().find(|ns| ns.nsid == namespace.nsid));
        let Some(former) = former else { return Err(why) };
        let Ok(backing) = open(former).await else { return Err(why) };
        self.add(standing, nqn, former, backing, &[]).await?;
        let change = Change::AddNamespace { nqn: nqn.to_owned(), namespace: former.clone() };
        change.record(&mut standing.config);
        Err(format!("{why}; it is served as before"))
    }

    /// Whether hosts are connected to a subsystem, as far as can be told.
    async fn is_used(&self, nqn: &str) -> bool {
        match self.look().await {
            Ok(picture) => picture.connections.iter().any(|host| host.subsystem == nqn),
            Err(_) => true,
        }
    }

    async fn step(&self, step: Step) -> Result<Option<BackingId>, String> {
        let answer = self.order(|done| Order::Step(step, done)).await;
        answer.map_err(|refusal| refusal.to_string())?
    }

    /// Waits until no core uses the disks any more.
    async fn wait_for(&self, leaving: &mut Vec<BackingId>) {
        for id in leaving.drain(..) {
            if !self.ids.wait_free(id, DISK_LEAVES_WITHIN).await {
                warn!(disk = id.0, "operations on a removed disk do not end");
            }
        }
    }
}

async fn open(namespace: &Namespace) -> Result<Arc<Backing>, OpenError> {
    let spec = namespace.spec.clone();
    apart(move || Backing::open(&spec)).await
}
