//! Running other programs, with errors that say which one and what it said.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// What a program wrote and whether it succeeded.
#[derive(Debug)]
pub struct Output {
    /// Exit status zero.
    pub success: bool,
    /// Standard output, as text.
    pub stdout: String,
    /// Standard error, as text.
    pub stderr: String,
}

/// Runs `command` to its end and returns what it wrote, whatever its status.
///
/// # Errors
/// Only when the program cannot be started.
pub fn capture(command: &mut Command) -> Result<Output> {
    let out = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot start {}", command.get_program().to_string_lossy()))?;
    Ok(Output {
        success: out.status.success(),
        stdout: String::from_utf8_lossy(&out.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&out.stderr).into_owned(),
    })
}

/// Runs `command` and returns its standard output.
///
/// # Errors
/// When it cannot be started or fails; the message ends with the last lines of
/// what it wrote to standard error.
pub fn run_quiet(command: &mut Command) -> Result<String> {
    let out = capture(command)?;
    if !out.success {
        let tail: Vec<&str> = out.stderr.lines().rev().take(8).collect();
        let tail: Vec<&str> = tail.into_iter().rev().collect();
        bail!("{command:?} failed:\n{}", tail.join("\n"));
    }
    Ok(out.stdout)
}
