//! Standard output of the commands whose work it is.

use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;

/// Writes text. That its reader has left is no error: then nobody misses it.
///
/// # Errors
/// When it could not be written.
pub(crate) fn write(text: impl AsRef<[u8]>) -> Result<(), String> {
    let mut out = io::stdout().lock();
    judge(out.write_all(text.as_ref()).and_then(|()| out.flush()))
}

/// As [`write`] takes what came of writing.
///
/// # Errors
/// What to say where something was lost.
pub(crate) fn judge(written: io::Result<()>) -> Result<(), String> {
    match written {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(format!("cannot write to standard output: {error}"))
        }
        _ => Ok(()),
    }
}

/// Writes text, and ends with that status unless something was lost.
pub(crate) fn end(text: impl AsRef<[u8]>, status: ExitCode) -> ExitCode {
    match write(text) {
        Ok(()) => status,
        Err(error) => {
            let _ = writeln!(io::stderr(), "{error}");
            ExitCode::from(crate::RUN_ERROR)
        }
    }
}
