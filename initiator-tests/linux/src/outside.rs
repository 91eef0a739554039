//! The far end of a machine's wire, when the target is not in the machine but
//! beside it: a network namespace of its own with one tap interface, in which
//! `guest/outside.sh` serves what the guest asks for.
//!
//! The machine is started in the same namespace. Dropping an [`Outside`] ends
//! the namespace and all that runs in it.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::command::run_quiet;

/// The interface in the namespace; its other end is the machine's.
pub(crate) const INTERFACE: &str = "tap0";
/// MTU of the machine's end, and at first of the other.
pub(crate) const LARGEST_MTU: u32 = 9000;

/// A running far end.
#[derive(Debug)]
pub(crate) struct Outside {
    child: Child,
    requests: Option<ChildStdin>,
    /// Without root, the network namespace is inside a user namespace.
    user: bool,
}

impl Outside {
    /// Makes the namespace with its interface, for a machine over `work`.
    ///
    /// # Errors
    /// When this system does not let us make the namespace or the interface.
    pub(crate) fn start(work: &Path) -> Result<Self> {
        let user = run_quiet(Command::new("id").arg("-u"))?.trim() != "0";
        let mut command = Command::new("unshare");
        command.arg("--net");
        if user {
            command.arg("--map-root-user");
        }
        // Tied to us only inside: entering a user namespace would undo it.
        command.args(["--", "setpriv", "--pdeathsig", "KILL", "--", "bash"]);
        command.arg(work.join("guest/outside.sh")).arg(work);
        let errors = work.join("out/outside.err");
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(File::create(&errors)?)
            .spawn()
            .context("cannot start unshare")?;
        let requests = child.stdin.take();
        let output = child.stdout.take().context("the far end's output")?;
        let outside = Self { child, requests, user };
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        if line.trim() != "ready" {
            let said = std::fs::read_to_string(&errors).unwrap_or_default();
            bail!("cannot make a network namespace with a tap interface: {}", said.trim());
        }
        Ok(outside)
    }

    /// Words to put before a program that shall run in the namespace.
    pub(crate) fn enter(&self) -> Vec<String> {
        let mut words =
            vec!["nsenter".to_owned(), format!("--target={}", self.child.id()), "--net".to_owned()];
        if self.user {
            words.extend(["--user".to_owned(), "--preserve-credentials".to_owned()]);
        }
        words.push("--".to_owned());
        words
    }

    /// Passes on a request: the name of a file in `work/ask`. One that is not
    /// heard any more is answered by the absence of an answer.
    pub(crate) fn ask(&mut self, name: &str) {
        if let Some(requests) = &mut self.requests {
            let _ = writeln!(requests, "{name}");
        }
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        // The end of its input lets it end what it started.
        self.requests = None;
        for _ in 0..40 {
            if matches!(self.child.try_wait(), Ok(Some(_))) {
                return;
            }
            thread::sleep(Duration::from_millis(50));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
