//! `nvmfd serve`: puts the parts together, runs them, and takes them apart in order.

mod build;
mod daemon;
#[cfg(feature = "verbs")]
mod either;
mod with;

use crate::events::Events;
use crate::operator::{Outlets, Start};
use crate::{CONFIG_ERROR, RUN_ERROR, config, disks, logging, machine, socket};
use anyhow::Context;
use std::io::Write;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::ExitCode;
use tracing::error;

pub(crate) fn run(path: &Path) -> ExitCode {
    let status = serve(path);
    logging::flush();
    status
}

fn serve(path: &Path) -> ExitCode {
    let read = config::read(path).and_then(|text| Ok((config::parse(path, &text)?, text)));
    let (config, text) = match read {
        Ok(read) => read,
        Err(errors) => {
            let _ = writeln!(std::io::stderr(), "{errors}");
            return ExitCode::from(CONFIG_ERROR);
        }
    };
    let events = Events::default();
    let log = logging::start(&config.log, events.clone());
    let problems = machine::problems(path, &config);
    if !problems.is_empty() {
        for problem in problems {
            error!("{problem}");
        }
        return ExitCode::from(CONFIG_ERROR);
    }
    // Before the disks: two daemons with one configuration hear of each other by their socket.
    let outlets = match outlets(&config) {
        Ok(outlets) => outlets,
        Err(error) => {
            error!("{}", in_one_line(&error));
            return ExitCode::from(RUN_ERROR);
        }
    };
    let disks = match disks::open_all(path, &config) {
        Ok(disks) => disks,
        Err(problems) => {
            for problem in problems.lines {
                error!("{problem}");
            }
            // A service manager tries again after a passing failure, and not after a wrong
            // configuration.
            let status = if problems.passing { RUN_ERROR } else { CONFIG_ERROR };
            return ExitCode::from(status);
        }
    };
    let carriers = with::carriers(&config);
    // A reload reads the same file, wherever the daemon's folder is then.
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let start = Start { path, text, config, carriers, log, events, outlets };
    match with::serve(start, disks) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            error!("{}", in_one_line(&error));
            ExitCode::from(RUN_ERROR)
        }
    }
}

/// Opens what operators and monitoring reach the daemon by.
fn outlets(config: &config::Config) -> anyhow::Result<Outlets> {
    let metrics = config.metrics.map(|address| {
        let listener = listen_for_metrics(address)?;
        listener.set_nonblocking(true)?;
        tracing::info!(%address, "metrics");
        anyhow::Ok(listener)
    });
    Ok(Outlets { control: socket::open(&config.control)?, metrics: metrics.transpose()? })
}

/// Opens the place where metrics are served.
///
/// # Errors
/// Who has the address, most often.
pub(crate) fn listen_for_metrics(address: SocketAddr) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address).with_context(|| {
        let port = address.port();
        format!(
            "cannot serve metrics at {address}: give another address in [metrics], or look who has \
             this one with ss -tlpn 'sport = {port}'"
        )
    })
}

/// An error and its causes in one line, and what to do about a limit that was reached; a cause that
/// an error already named is not said again.
pub(crate) fn in_one_line(error: &anyhow::Error) -> String {
    let mut line = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if line.is_empty() {
            line = cause;
        } else if !line.contains(&cause) {
            line = format!("{line}: {cause}");
        }
    }
    match machine::limit_hint(error.as_ref()) {
        Some(hint) if !line.contains("LimitNOFILE") => format!("{line}; {hint}"),
        _ => line,
    }
}

#[cfg(test)]
mod tests {
    use super::in_one_line;

    #[test]
    fn a_cause_is_said_once() {
        let full = || std::io::Error::from_raw_os_error(24);
        let ring = backing::RingError::Resources { source: full() };
        let line = in_one_line(&anyhow::Error::new(ring).context("cannot start data core 1"));
        assert_eq!(line.matches("Too many open files").count(), 1, "{line}");
        assert_eq!(line.matches("LimitNOFILE").count(), 1, "{line}");
        let line = in_one_line(&anyhow::Error::new(full()).context("cannot catch signals"));
        let (what, hint) = line.split_once("; ").unwrap();
        assert_eq!(what, "cannot catch signals: Too many open files (os error 24)");
        assert!(hint.contains("LimitNOFILE"), "{hint}");
    }
}
