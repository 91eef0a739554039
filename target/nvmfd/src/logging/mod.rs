//! The log: lines on standard error, as a service manager expects them.

mod lines;

pub(crate) use lines::flush;

use crate::config::Log;
use crate::events::Events;
use std::io::IsTerminal;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry, fmt, reload};

/// The filter of the running log, to be set to another.
#[derive(Debug, Clone)]
pub(crate) struct LogFilter(reload::Handle<Targets, Registry>);

impl LogFilter {
    /// Logs by another filter from now on.
    ///
    /// # Errors
    /// When the text is no filter.
    pub(crate) fn set(&self, filter: &str) -> Result<(), String> {
        let filter: Targets = filter.parse().map_err(|error| format!("no log level: {error}"))?;
        self.0.reload(filter).map_err(|error| error.to_string())
    }
}

/// What listeners of events are told.
const INFO: LevelFilter = LevelFilter::INFO;

/// Starts logging. The filter was checked when the configuration was read.
pub(crate) fn start(log: &Log, events: Events) -> LogFilter {
    let filter: Targets =
        log.filter.parse().unwrap_or_else(|_| Targets::new().with_default(LevelFilter::INFO));
    let (filter, handle) = reload::Layer::new(filter);
    // The journal writes the time itself.
    let journal = std::env::var_os("JOURNAL_STREAM").is_some();
    let colours = std::io::stderr().is_terminal();
    let lines = fmt::layer().with_writer(lines::to_stderr()).with_ansi(colours);
    let registry = tracing_subscriber::registry();
    match (log.json, journal) {
        (true, _) => {
            registry.with(lines.json().with_filter(filter)).with(events.with_filter(INFO)).init()
        }
        (false, true) => registry
            .with(lines.without_time().with_filter(filter))
            .with(events.with_filter(INFO))
            .init(),
        (false, false) => {
            registry.with(lines.with_filter(filter)).with(events.with_filter(INFO)).init()
        }
    }
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        tracing::error!("{panic}");
        flush();
        before(panic);
    }));
    LogFilter(handle)
}
