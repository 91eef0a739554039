//! A configuration in the making, and its text.

use super::notes::Notes;
use crate::config::in_words;
use std::fmt::Write;

/// What was understood of another target's configuration.
#[derive(Debug, Default)]
pub(super) struct Draft {
    /// Addresses as they are written in the file.
    pub(super) listeners: Vec<String>,
    pub(super) subsystems: Vec<Subsystem>,
    /// `discovery.listeners`, where it is not the default.
    pub(super) tell: Option<&'static str>,
    /// Addresses of other discovery services, and the names of their own.
    pub(super) referrals: Vec<(String, Option<String>)>,
    /// Lines of `[tuning]`.
    pub(super) tuning: Vec<String>,
    pub(super) notes: Notes,
}

#[derive(Debug, Default)]
pub(super) struct Subsystem {
    pub(super) nqn: String,
    pub(super) any_host: bool,
    pub(super) hosts: Vec<String>,
    pub(super) serial: Option<String>,
    pub(super) model: Option<String>,
    pub(super) cntlids: Option<[u64; 2]>,
    pub(super) namespaces: Vec<Namespace>,
    /// Addresses at which it was offered; nvmfd offers every subsystem at every listener.
    pub(super) offered_at: Vec<String>,
}

#[derive(Debug)]
pub(super) struct Namespace {
    pub(super) disk: Disk,
    pub(super) nsid: Option<u64>,
    pub(super) ids: Ids,
    pub(super) limit: Option<Limit>,
}

/// Where the data is.
#[derive(Debug, Clone)]
pub(super) struct Disk {
    pub(super) medium: Medium,
    /// As hosts saw it, where that has to be said: another one hides the partitions.
    pub(super) block_size: Option<u64>,
    pub(super) read_only: bool,
}

#[derive(Debug, Clone)]
pub(super) enum Medium {
    Path(String),
    /// Bytes.
    Ram(u64),
    /// Bytes.
    Null(u64),
}

/// What hosts know a namespace by.
#[derive(Debug, Clone, Default)]
pub(super) struct Ids {
    pub(super) uuid: Option<String>,
    pub(super) nguid: Option<String>,
    pub(super) eui64: Option<String>,
}

/// How much is served.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Limit {
    /// Commands a second; 0 for no limit.
    pub(super) iops: u64,
    /// MiB a second; 0 for no limit.
    pub(super) mib: u64,
}

impl Draft {
    pub(super) fn listen(&mut self, address: String) {
        if !self.listeners.contains(&address) {
            self.listeners.push(address);
        }
    }

    /// Tells of subsystems that will be found at addresses where they were not.
    pub(super) fn tell_of_wider_offers(&mut self) {
        for Subsystem { nqn, offered_at, .. } in &self.subsystems {
            let others: Vec<&str> = self
                .listeners
                .iter()
                .filter(|address| !offered_at.contains(address))
                .map(String::as_str)
                .collect();
            if !others.is_empty() {
                let what = format!(
                    "was not offered at {}: here every listener offers every subsystem, and \
                     allowed_hosts decides",
                    others.join(", ")
                );
                self.notes.add(nqn, what);
            }
        }
    }

    /// The configuration's text; `origin` says what it was made from.
    pub(super) fn text(&self, origin: &str) -> String {
        let mut text = format!("# Made from {} by nvmfd import.\n", one_line(origin));
        for address in &self.listeners {
            let _ = write!(text, "\n[[listener]]\naddress = {}\n", quoted(address));
        }
        for subsystem in &self.subsystems {
            subsystem.write(&mut text);
        }
        if let Some(tell) = self.tell {
            let _ = write!(text, "\n[discovery]\nlisteners = \"{tell}\"\n");
        }
        for (address, nqn) in &self.referrals {
            let _ = write!(text, "\n[[discovery.referral]]\naddress = {}\n", quoted(address));
            write_texts(&mut text, [("nqn", nqn)]);
        }
        if !self.tuning.is_empty() {
            let _ = write!(text, "\n[tuning]\n{}\n", self.tuning.join("\n"));
        }
        if !self.notes.lines().is_empty() {
            text.push_str("\n# Not taken over, or not as it was:\n");
        }
        for note in self.notes.lines() {
            let _ = writeln!(text, "#   {}", one_line(note));
        }
        text
    }
}

impl Subsystem {
    fn write(&self, text: &mut String) {
        let _ = write!(text, "\n[[subsystem]]\nnqn = {}\n", quoted(&self.nqn));
        if self.any_host {
            text.push_str("allow_any_host = true\n");
        } else {
            // Listed once, however often the other target's file has one.
            let first = |(at, host): &(usize, &String)| !self.hosts[..*at].contains(host);
            let hosts = self.hosts.iter().enumerate().filter(first);
            let hosts: Vec<String> = hosts.map(|(_, host)| quoted(host)).collect();
            let _ = writeln!(text, "allowed_hosts = [{}]", hosts.join(", "));
        }
        write_texts(text, [("serial", &self.serial), ("model", &self.model)]);
        if let Some([first, last]) = self.cntlids {
            let _ = writeln!(text, "cntlids = [{first}, {last}]");
        }
        self.namespaces.iter().for_each(|namespace| namespace.write(text));
    }
}

impl Namespace {
    fn write(&self, text: &mut String) {
        text.push_str("\n[[subsystem.namespace]]\n");
        let _ = match &self.disk.medium {
            Medium::Path(path) => writeln!(text, "path = {}", quoted(path)),
            Medium::Ram(bytes) => writeln!(text, "ram = {}", size(*bytes)),
            Medium::Null(bytes) => writeln!(text, "null = {}", size(*bytes)),
        };
        if let Some(nsid) = self.nsid {
            let _ = writeln!(text, "nsid = {nsid}");
        }
        if let Some(bytes) = self.disk.block_size {
            let _ = writeln!(text, "block_size = {bytes}");
        }
        if self.disk.read_only {
            text.push_str("read_only = true\n");
        }
        let Ids { uuid, nguid, eui64 } = &self.ids;
        write_texts(text, [("uuid", uuid), ("nguid", nguid), ("eui64", eui64)]);
        if let Some(Limit { iops, mib }) = self.limit {
            let iops = (iops > 0).then(|| format!("iops = {iops}"));
            let bandwidth = (mib > 0).then(|| format!("bandwidth = \"{mib}MiB/s\""));
            let both: Vec<String> = iops.into_iter().chain(bandwidth).collect();
            let _ = writeln!(text, "limit = {{ {} }}", both.join(", "));
        }
    }
}

fn write_texts<const N: usize>(text: &mut String, fields: [(&str, &Option<String>); N]) {
    for (key, value) in fields {
        if let Some(value) = value {
            let _ = writeln!(text, "{key} = {}", quoted(value));
        }
    }
}

/// A text as TOML writes it.
fn quoted(text: &str) -> String {
    toml_edit::Value::from(text).to_string()
}

/// A size that is read back as the same number of bytes.
pub(super) fn size(bytes: u64) -> String {
    let words = in_words(bytes);
    if words.contains('.') { bytes.to_string() } else { format!("\"{}\"", words.replace(' ', "")) }
}

/// For comments: what comes from a file must not end them.
fn one_line(text: &str) -> String {
    text.replace(|c: char| c.is_control(), " ")
}
