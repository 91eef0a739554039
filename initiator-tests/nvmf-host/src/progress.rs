//! A bar on standard error, when that is a terminal.

use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::time::Duration;

/// A bar over bytes.
pub(crate) fn bytes(what: &'static str, total: u64) -> ProgressBar {
    styled(
        what,
        total,
        "{msg} [{bar:40}] {bytes}/{total_bytes} {bytes_per_sec} {eta}",
        Duration::ZERO,
    )
}

/// A bar over milliseconds of a measurement.
pub(crate) fn time(what: &'static str, total: Duration) -> ProgressBar {
    styled(what, total.as_millis() as u64, "{msg} [{bar:40}] {elapsed}", Duration::from_secs(1))
}

/// Hidden where nobody looks, or when it would be gone at once.
fn styled(what: &'static str, total: u64, template: &str, worth: Duration) -> ProgressBar {
    if !std::io::stderr().is_terminal() || (total as u128) < worth.as_millis() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template(template).expect("a fixed template");
    ProgressBar::new(total).with_style(style.progress_chars("=> ")).with_message(what)
}
