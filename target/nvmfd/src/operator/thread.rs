//! The operator's thread.

use super::{Operator, Outcome, Refusal};
use crate::events::Events;
use crate::http::{self, App};
use crate::socket::ControlListener;
use anyhow::Context;
use std::net::TcpListener;
use std::sync::Arc;
use tokio::runtime::Builder;
use tokio::sync::Notify;
use tracing::{error, info};

/// Where operators and monitoring come in, bound and listening.
#[derive(Debug, Default)]
pub(crate) struct Outlets {
    pub(crate) control: Option<ControlListener>,
    pub(crate) metrics: Option<TcpListener>,
}

/// Starts the thread. What is returned wakes it to read the configuration again.
///
/// # Errors
/// When the system gives no thread or no descriptors.
pub(crate) fn operate(
    operator: Operator,
    events: Events,
    outlets: Outlets,
) -> anyhow::Result<Arc<Notify>> {
    let runtime = Builder::new_current_thread()
        .enable_all()
        // Changes are made one after the other; beside them disks are looked at, and plans made.
        .max_blocking_threads(4)
        .build()
        .context("cannot start the operator's thread")?;
    let reload = Arc::new(Notify::new());
    let wake = reload.clone();
    let app = Arc::new(App { operator, events });
    std::thread::Builder::new()
        .name("operator".to_owned())
        .spawn(move || {
            runtime.block_on(async {
                if let Err(error) = open(&app, outlets) {
                    error!("operators cannot reach the daemon: {error}");
                }
                let tending = app.clone();
                tokio::spawn(async move { tending.operator.tend_disks().await });
                // From now on there is a picture for whoever cannot have a new one.
                let _ = app.operator.look().await;
                reload_on(&app.operator, &wake).await;
            });
        })
        .context("cannot start the operator's thread")?;
    Ok(reload)
}

/// Begins to serve.
fn open(app: &Arc<App>, outlets: Outlets) -> std::io::Result<()> {
    if let Some(ControlListener { listener, users, .. }) = outlets.control {
        let listener = tokio::net::UnixListener::from_std(listener)?;
        tokio::spawn(http::serve_control(app.clone(), listener, users));
    }
    if let Some(listener) = outlets.metrics {
        let listener = tokio::net::TcpListener::from_std(listener)?;
        tokio::spawn(http::serve_metrics(app.clone(), listener));
    }
    Ok(())
}

/// Reads the configuration again whenever that is asked for, for as long as the process lives.
async fn reload_on(operator: &Operator, asked: &Notify) {
    loop {
        asked.notified().await;
        info!(path = %operator.path().display(), "reading the configuration again");
        match operator.reload().await {
            Ok(Outcome { changed, restart, failed, .. }) => {
                info!(
                    changed = changed.len(),
                    failed = failed.len(),
                    restart = restart.len(),
                    "configuration read again"
                );
            }
            Err(Refusal::Ending) => return,
            Err(refusal) => {
                for line in refusal.to_string().lines() {
                    error!("{line}");
                }
                error!("nothing was changed");
            }
        }
    }
}
