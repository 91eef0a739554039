//! The commands that speak to a running daemon, over its control socket.

mod call;
mod change;
mod look;
mod table;
mod trace;

pub(crate) use call::{CallError, Client};
pub(crate) use change::{add, reload, remove, set};
pub(crate) use look::{list, show, status};
pub(crate) use table::table;
pub(crate) use trace::trace;

use std::io::Write;
use std::process::ExitCode;

/// Prints what a command says, or on standard error why it could not be done.
pub(crate) fn finish(said: Result<String, CallError>) -> ExitCode {
    match said {
        Ok(text) => {
            // Nobody may be reading any more; then nobody misses it.
            let _ = std::io::stdout().write_all(text.as_bytes());
            ExitCode::SUCCESS
        }
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "{error}");
            ExitCode::from(crate::RUN_ERROR)
        }
    }
}
