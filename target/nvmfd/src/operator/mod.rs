//! The operator's side of a running daemon: what is in force, and how it is changed.
//!
//! # Contract
//! An [`Operator`] lives on a thread of its own. It owns the configuration in force, as text and as
//! values, and the disks that are open for it. Every change comes as a whole new configuration
//! text: it is checked as the file is at the start, compared with what is in force, its disks and
//! addresses are looked at, its disks opened, and only then is anything changed, step by step, by
//! [`Order`]s to the control thread. So whatever is wrong is found before the first step. Where a
//! step fails all the same, an operator's change is taken back and forgotten; of a file the rest is
//! made, and what failed is tried again with the next reload, not before. Changes are made one after
//! the other.
//!
//! It never touches the reactor but by orders, and the control thread never waits for it.

mod absence;
mod apply;
mod ids;
mod looks;
mod orders;
mod refusal;
mod review;
mod save;
mod shelf;
mod thread;

pub(crate) use apply::Outcome;
pub(crate) use ids::Ids;
pub(crate) use orders::{Desk, Order, desk};
pub(crate) use refusal::Refusal;
pub(crate) use thread::{Outlets, operate};

use crate::change::{Change, Plan};
use crate::config::{self, Config, Namespace};
use crate::disks::{self, Disk};
use crate::edit::Edit;
use crate::events::Events;
use crate::logging::LogFilter;
use crate::provider::Carriers;
use crate::status::Picture;
use absence::Absences;
use backing::{Backing, BackingId, OpenError};
use looks::{Looks, Patience};
use reactor::run::{Meter, Postbox, Shown};
use shelf::Shelf;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Mutex, oneshot};

/// How soon a failed operation has its disk looked at.
const TICK: Duration = Duration::from_secs(1);
/// How seldom disks are looked at that fail nothing.
const TICKS_BETWEEN_INSPECTIONS: u64 = 10;

/// See the module.
#[derive(Debug)]
pub(crate) struct Operator {
    /// The configuration file.
    path: PathBuf,
    orders: Postbox<Order>,
    ids: Arc<Ids>,
    carriers: Carriers,
    log: LogFilter,
    /// Of the data cores, by index less one.
    meters: Vec<Arc<Meter>>,
    standing: Mutex<Standing>,
    looks: Looks,
    shelf: Arc<Shelf>,
}

/// Where a configuration's text comes from, which decides whether its lines mean something to the
/// user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// The file.
    File,
    /// A change of the text in force, which nobody has seen.
    Change,
}

/// What is in force.
#[derive(Debug)]
struct Standing {
    /// What was last asked for. It may name settings that wait for a restart.
    text: String,
    config: Config,
    /// What of the file could not be made, without lines.
    refused: Vec<Change>,
    disks: Disks,
    absences: Absences,
}

/// The open disks, by subsystem and nsid.
type Disks = BTreeMap<(String, u32), (BackingId, Arc<Backing>)>;

/// What a daemon starts with.
#[derive(Debug)]
pub(crate) struct Start {
    pub(crate) path: PathBuf,
    pub(crate) text: String,
    pub(crate) config: Config,
    pub(crate) carriers: Carriers,
    pub(crate) log: LogFilter,
    pub(crate) events: Events,
    pub(crate) outlets: Outlets,
}

impl Operator {
    /// The operator of a daemon that serves `disks`.
    pub(crate) fn new(
        start: Start,
        disks: Vec<Disk>,
        orders: Postbox<Order>,
        meters: Vec<Arc<Meter>>,
    ) -> Operator {
        let Start { path, text, config, carriers, log, .. } = start;
        let ids = Arc::new(Ids::taken(disks.iter().map(|disk| disk.id)));
        let place = |disk: Disk| {
            let nqn = config.subsystems[disk.subsystem].nqn.clone();
            ((nqn, disk.namespace.nsid), (disk.id, disk.backing))
        };
        let disks = disks.into_iter().map(place).collect();
        let standing =
            Standing { text, config, refused: Vec::new(), disks, absences: Absences::default() };
        let (looks, shelf) = (Looks::default(), Arc::new(Shelf::default()));
        shelf.stock(&standing);
        let standing = Mutex::new(standing);
        Operator { path, orders, ids, carriers, log, meters, standing, looks, shelf }
    }

    /// The numbers of disks, for the control thread to tell which have come free.
    pub(crate) fn ids(&self) -> Arc<Ids> {
        self.ids.clone()
    }

    /// The configuration file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the configuration file again and makes what is different.
    ///
    /// # Errors
    /// [`Refusal`]: nothing was changed.
    pub(crate) async fn reload(&self) -> Result<Outcome, Refusal> {
        let mut standing = self.standing.lock().await;
        let path = self.path.clone();
        let text = apart(move || config::read(&path)).await?;
        let outcome = self.adopt(&mut standing, text, Origin::File).await?;
        self.acknowledge(None).await;
        Ok(outcome)
    }

    /// What [`reload`](Self::reload) would do if the file had that text.
    ///
    /// # Errors
    /// As for [`reload`](Self::reload).
    pub(crate) async fn plan(&self, text: &str) -> Result<Plan, Refusal> {
        let new = self.parse(text.to_owned(), Origin::File).await?;
        let standing = self.standing.lock().await;
        let plan = self.difference(&standing, &new);
        self.review(&standing, &plan, Origin::File).await?;
        Ok(plan)
    }

    /// Changes the configuration in force, and the file too if asked to.
    ///
    /// # Errors
    /// [`Refusal`]: nothing was changed, neither here nor there.
    pub(crate) async fn edit(&self, edit: &Edit, save: bool) -> Result<Outcome, Refusal> {
        let mut standing = self.standing.lock().await;
        let (given, before, path) = (edit.clone(), standing.text.clone(), self.path.clone());
        let (text, file) = apart(move || {
            let text = given.apply(&before)?;
            // The file may have been edited meanwhile: the change goes into what it says now.
            let file = if save { Some(save::prepare(&path, &given)?) } else { None };
            Ok::<_, Refusal>((text, file))
        })
        .await?;
        let mut outcome = self.adopt(&mut standing, text, Origin::Change).await?;
        if let Edit::SetNamespace(nqn, nsid, _) = edit {
            self.acknowledge(Some((nqn.clone(), *nsid))).await;
        }
        if let Some(text) = file.filter(|_| outcome.failed.is_empty()) {
            let path = self.path.clone();
            match apart(move || save::replace(&path, &text)).await {
                Ok(()) => outcome.saved = true,
                Err(error) => outcome.failed.push(format!("the file was not written: {error}")),
            }
        }
        Ok(outcome)
    }

    /// What there is now; what there was a moment ago, where the control thread is held up.
    ///
    /// # Errors
    /// When the daemon is ending.
    pub(crate) async fn look(&self) -> Result<Arc<Picture>, Refusal> {
        self.look_with(Patience::Much).await
    }

    /// As [`look`](Self::look), for who does not wait.
    ///
    /// # Errors
    /// When the daemon is ending.
    pub(crate) async fn glance(&self) -> Result<Arc<Picture>, Refusal> {
        self.look_with(Patience::Little).await
    }

    async fn look_with(&self, patience: Patience) -> Result<Arc<Picture>, Refusal> {
        let shelf = self.shelf.clone();
        self.looks.look(&self.orders, patience, move |picture| shelf.describe(picture)).await
    }

    /// Looks after the disks, for as long as the process lives.
    pub(crate) async fn tend_disks(&self) {
        let failed = || self.read_meters().iter().map(|shown| shown.core.io_errors).sum::<u64>();
        let mut before = failed();
        for tick in 1u64.. {
            tokio::time::sleep(TICK).await;
            let now = failed();
            if now != before || tick.is_multiple_of(TICKS_BETWEEN_INSPECTIONS) {
                let shelf = self.shelf.clone();
                if apart(move || shelf.inspect()).await {
                    self.looks.changed();
                }
            }
            before = now;
        }
    }

    /// What was found of disks is known, of that one or of all.
    async fn acknowledge(&self, only: Option<shelf::Key>) {
        self.shelf.acknowledge(only.as_ref());
        let shelf = self.shelf.clone();
        // A disk that does not answer holds nobody up.
        let news = tokio::time::timeout(TICK, apart(move || shelf.inspect())).await;
        if news != Ok(false) {
            self.looks.changed();
        }
    }

    /// How many data cores there are.
    pub(crate) fn data_cores(&self) -> usize {
        self.meters.len()
    }

    /// What the data cores have counted.
    pub(crate) fn read_meters(&self) -> Vec<Shown> {
        self.meters.iter().map(|meter| meter.read()).collect()
    }

    /// Ends the connections of a controller; its host may come again.
    ///
    /// # Errors
    /// When there is none, or the daemon is ending.
    pub(crate) async fn drop_connection(&self, nqn: &str, cntlid: u16) -> Result<Outcome, Refusal> {
        let name = nqn.to_owned();
        match self.order(|done| Order::Drop { nqn: name, cntlid, done }).await? {
            true => {
                self.looks.changed();
                let changed = vec![format!("- connection {nqn} {cntlid}")];
                Ok(Outcome { changed, ..Outcome::default() })
            }
            false => Err(Refusal::NotThere(format!("controller {cntlid} of {nqn}"))),
        }
    }

    /// The text in force: the file's, with the changes that were not saved.
    pub(crate) async fn text(&self) -> String {
        self.standing.lock().await.text.clone()
    }

    /// The configuration in force.
    pub(crate) async fn config(&self) -> Config {
        self.standing.lock().await.config.clone()
    }

    /// A configuration from its text.
    async fn parse(&self, text: String, origin: Origin) -> Result<Config, Refusal> {
        let path = self.path.clone();
        let parsed = apart(move || config::parse(&path, &text)).await;
        Ok(parsed.map_err(|errors| match origin {
            Origin::File => errors,
            Origin::Change => errors.without_places(),
        })?)
    }

    /// What is wrong with a namespace's disk.
    fn complaint(
        &self,
        origin: Origin,
        nqn: &str,
        namespace: &Namespace,
        error: &OpenError,
    ) -> String {
        match origin {
            Origin::File => disks::in_words(&self.path, nqn, namespace, error),
            Origin::Change => disks::without_place(nqn, namespace, error),
        }
    }

    /// Gives an order and waits for the answer.
    ///
    /// # Errors
    /// [`Refusal::Ending`] when the control thread does not answer any more.
    async fn order<T>(
        &self,
        order: impl FnOnce(oneshot::Sender<T>) -> Order,
    ) -> Result<T, Refusal> {
        let (reply, answer) = oneshot::channel();
        self.orders.send(order(reply));
        answer.await.map_err(|_| Refusal::Ending)
    }
}

/// Does on a thread of its own what takes time or waits for a disk: the operator's thread answers
/// meanwhile.
async fn apart<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(panic) => std::panic::resume_unwind(panic.into_panic()),
    }
}
