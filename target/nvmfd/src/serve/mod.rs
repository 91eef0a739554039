//! `nvmfd serve`: puts the parts together, runs them, and takes them apart in order.

mod build;
mod daemon;
#[cfg(feature = "verbs")]
mod either;
mod with;

use crate::{CONFIG_ERROR, RUN_ERROR, config, disks, logging};
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use tracing::error;

pub(crate) fn run(path: &Path) -> ExitCode {
    let config = match config::load(path) {
        Ok(config) => config,
        Err(errors) => {
            let _ = writeln!(std::io::stderr(), "{errors}");
            return ExitCode::from(CONFIG_ERROR);
        }
    };
    logging::start(&config.log);
    let disks = match disks::open_all(&config) {
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
    match with::serve(&config, disks) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // The whole chain in one line: each cause says what it concerns.
            error!("{error:#}");
            ExitCode::from(RUN_ERROR)
        }
    }
}
