//! Standard output, which may be a pipe whose reader has left.

use anyhow::{Result, bail};
use std::fmt::Arguments;
use std::io::{Error, ErrorKind, Write};
use std::sync::Mutex;
use std::sync::PoisonError;

/// The first thing that went wrong with it.
static WRONG: Mutex<Option<Error>> = Mutex::new(None);

/// Writes text. That nobody reads it any more is no reason not to finish the job; whatever else is
/// wrong, [`finish`] says.
pub(crate) fn write(text: Arguments<'_>) {
    note(std::io::stdout().write_fmt(text));
}

/// The same for bytes.
pub(crate) fn write_bytes(bytes: &[u8]) {
    note(std::io::stdout().write_all(bytes));
}

fn note(written: std::io::Result<()>) {
    if let Err(error) = written
        && error.kind() != ErrorKind::BrokenPipe
    {
        WRONG.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
    }
}

/// Writes what is still to be written.
///
/// # Errors
/// When any of it was lost.
pub(crate) fn finish() -> Result<()> {
    note(std::io::stdout().flush());
    match WRONG.lock().unwrap_or_else(PoisonError::into_inner).take() {
        Some(error) => bail!("cannot write to standard output: {error}"),
        None => Ok(()),
    }
}

/// As `println!`, but does not panic.
macro_rules! say {
    ($($arg:tt)*) => {{
        $crate::output::write(format_args!($($arg)*));
        $crate::output::write(format_args!("\n"));
    }};
}
pub(crate) use say;

/// As `print!`, but does not panic.
macro_rules! put {
    ($($arg:tt)*) => { $crate::output::write(format_args!($($arg)*)) };
}
pub(crate) use put;
