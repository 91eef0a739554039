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

use crate::output;
use std::io::Write;
use std::process::ExitCode;

/// Prints what a command says, or on standard error why it could not be done.
pub(crate) fn finish(said: Result<String, CallError>) -> ExitCode {
    match said {
        Ok(text) => output::end(text, ExitCode::SUCCESS),
        Err(CallError::Incomplete(json)) => output::end(json, ExitCode::from(crate::RUN_ERROR)),
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "{error}");
            ExitCode::from(crate::RUN_ERROR)
        }
    }
}
