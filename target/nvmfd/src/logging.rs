//! The log: lines on standard error, as a service manager expects them.

use crate::config::Log;
use std::io::IsTerminal;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, fmt};

/// Starts logging. The filter was checked when the configuration was read.
pub(crate) fn start(log: &Log) {
    let filter: Targets =
        log.filter.parse().unwrap_or_else(|_| Targets::new().with_default(LevelFilter::INFO));
    // The journal writes the time itself.
    let journal = std::env::var_os("JOURNAL_STREAM").is_some();
    let colours = std::io::stderr().is_terminal();
    let lines = fmt::layer().with_writer(std::io::stderr).with_ansi(colours);
    let registry = tracing_subscriber::registry();
    match (log.json, journal) {
        (true, _) => registry.with(lines.json().with_filter(filter)).init(),
        (false, true) => registry.with(lines.without_time().with_filter(filter)).init(),
        (false, false) => registry.with(lines.with_filter(filter)).init(),
    }
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        tracing::error!("{panic}");
        before(panic);
    }));
}
