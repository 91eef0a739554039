//! Standard output, which may be a pipe whose reader has left.

use std::fmt::Arguments;
use std::io::{ErrorKind, Write};

/// Writes text. That nobody reads it any more is no reason not to finish the job.
pub(crate) fn write(text: Arguments<'_>) {
    match std::io::stdout().write_fmt(text) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            eprintln!("cannot write to standard output: {error}");
        }
        _ => {}
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
