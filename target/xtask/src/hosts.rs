//! Userspace hosts that load a daemon: how they are called, waited for, and what they measured.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};
use linux_host::run_quiet;
use serde_json::Value;

use crate::native::SUBNQN;

/// How to call a host.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Hosts<'a> {
    /// `nvmf-host`.
    pub(crate) program: &'a Path,
    /// Where the daemon serves.
    pub(crate) address: IpAddr,
    /// For files with figures.
    pub(crate) folder: &'a Path,
}

impl Hosts<'_> {
    /// The command line up to its command.
    pub(crate) fn command(&self) -> Command {
        self.by(&[])
    }

    /// The same, by way of another program and its arguments.
    fn by(&self, wrapper: &[&str]) -> Command {
        let mut command = match wrapper.split_first() {
            Some((program, arguments)) => {
                let mut command = Command::new(program);
                command.args(arguments).arg(self.program);
                command
            }
            None => Command::new(self.program),
        };
        command.args(["--provider", "soft", "--nqn", SUBNQN]);
        command.args(["--address", &self.address.to_string()]);
        command
    }

    /// Runs a command that writes figures, and returns them.
    pub(crate) fn measure(&self, words: &str) -> Result<Value> {
        let json = self.folder.join("bench.json");
        run_quiet(self.command().args(words.split(' ')).arg("--json").arg(&json))?;
        read_json(&json)
    }

    /// Starts a command that writes figures. `name` tells it from others that run meanwhile.
    pub(crate) fn start(&self, name: &str, wrapper: &[&str], words: &str) -> Result<Running> {
        let json = self.folder.join(format!("{name}.json"));
        // The figures of an earlier round are none of this.
        let _ = fs::remove_file(&json);
        let log = self.folder.join(format!("{name}.log"));
        let child = self
            .by(wrapper)
            .args(words.split(' '))
            .arg("--json")
            .arg(&json)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(fs::File::create(&log)?)
            .spawn()
            .with_context(|| format!("cannot start {}", self.program.display()))?;
        Ok(Running { child, json, log })
    }

    /// Has `count` hosts with `queues` I/O queues each connect, and stay.
    pub(crate) fn hold(&self, count: u32, queues: u32) -> Result<Held> {
        let mut command = self.command();
        command.args(["hold", "--hosts", &count.to_string(), "--queues", &queues.to_string()]);
        let mut held = Held(command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?);
        let mut line = String::new();
        let output = held.0.stdout.take().context("its output")?;
        BufReader::new(output).read_line(&mut line)?;
        if !line.starts_with("holding") {
            bail!("the hosts did not connect");
        }
        Ok(held)
    }
}

/// A host at work; killed when this is dropped.
#[derive(Debug)]
pub(crate) struct Running {
    child: Child,
    json: PathBuf,
    log: PathBuf,
}

impl Running {
    /// Waits for its end, and returns its figures.
    pub(crate) fn figures(mut self) -> Result<Value> {
        if !self.child.wait()?.success() {
            bail!("a host failed: {}", fs::read_to_string(&self.log)?.trim());
        }
        read_json(&self.json)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Ended already, but after a failure.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Hosts that stay connected.
#[derive(Debug)]
pub(crate) struct Held(Child);

impl Held {
    /// Lets them leave in good order.
    pub(crate) fn end(mut self) -> Result<()> {
        drop(self.0.stdin.take());
        if !self.0.wait()?.success() {
            bail!("a host lost its connection");
        }
        Ok(())
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // Ended already, but after a failure.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn read_json(path: &Path) -> Result<Value> {
    let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    Ok(serde_json::from_str(&text)?)
}

/// A configuration that offers these namespaces, each a table's lines, at an address to everybody.
/// What is tuned comes last, so that more settings of it can follow.
pub(crate) fn config(address: IpAddr, namespaces: &[String], tuning: &str) -> String {
    let address = match address {
        IpAddr::V4(v4) => v4.to_string(),
        IpAddr::V6(v6) => format!("[{v6}]"),
    };
    let namespaces: String =
        namespaces.iter().map(|lines| format!("[[subsystem.namespace]]\n{lines}\n")).collect();
    format!(
        "[[listener]]\naddress = \"{address}\"\nprovider = \"soft\"\n\
         [[subsystem]]\nnqn = \"{SUBNQN}\"\nallow_any_host = true\n{namespaces}\
         [control]\nsocket = \"none\"\n[tuning]\n{tuning}\n"
    )
}

/// The value in the middle.
pub(crate) fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_value_in_the_middle() {
        assert_eq!(median([3.0, 1.0, 2.0]), 2.0);
        assert!(median([]).is_nan());
    }

    #[test]
    fn addresses_of_both_kinds_stand_in_a_configuration() {
        let null = ["null = \"1GiB\"".to_owned()];
        assert!(config("127.0.0.1".parse().unwrap(), &null, "").contains("\"127.0.0.1\""));
        let text = config("::1".parse().unwrap(), &null, "data_cores = 1");
        assert!(text.contains("address = \"[::1]\"") && text.ends_with("data_cores = 1\n"));
    }
}
