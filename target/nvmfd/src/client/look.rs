//! `nvmfd status`, `list` and `show`.

use super::{CallError, Client, table};
use crate::cli::{Listed, Shown};
use crate::config::{about, in_words, limit_in_words, some};
use crate::http::{Core, Host, Status, encode};
use crate::status::{Connection, Io, Limit, Listener, Namespace, Subsystem};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::time::Duration;

/// What `nvmfd status` prints.
pub(crate) fn status(client: &Client, json: bool) -> Result<String, CallError> {
    let status: Status = client.get("/v1/status")?;
    if json {
        return Ok(pretty(&status));
    }
    let Status { version, commit, pid, config, uptime, io, .. } = &status;
    let up = Duration::from_secs(*uptime as u64);
    let listeners = match status.listeners_down {
        0 => format!("{} up", status.listeners_up),
        down => format!("{} up, {down} DOWN: see nvmfd list listeners", status.listeners_up),
    };
    let mut notes = String::new();
    for trouble in &status.troubles {
        notes.push_str(&format!("TROUBLE        {trouble}\n"));
    }
    if status.age > 1.0 {
        let age = span(Duration::from_secs(status.age as u64));
        notes.push_str(&format!(
            "TROUBLE        the control thread is held up: this is from {age} ago\n"
        ));
    }
    let serving = format!(
        "{}, {} on {}",
        some(status.subsystems, "subsystem"),
        some(status.namespaces, "namespace"),
        some(status.data_cores, "data core")
    );
    let connected =
        format!("{}, {}", some(status.connections, "controller"), some(status.queues, "queue"));
    Ok(format!(
        "nvmfd {version} (commit {commit}), process {pid}, up {}\n\
         configuration  {config}\n\
         listeners      {listeners}\n\
         serving        {serving}\n\
         connected      {connected}\n\
         done           {}\n{notes}",
        span(up),
        done(io),
    ))
}

fn done(io: &Io) -> String {
    let Io { reads, writes, read_bytes, write_bytes, errors } = *io;
    let (read, written) = (about(read_bytes), about(write_bytes));
    let [reads, writes, errors] = [(reads, "read"), (writes, "write"), (errors, "error")]
        .map(|(count, name)| some(count as usize, name));
    format!("{reads} ({read}), {writes} ({written}), {errors}")
}

/// A time in its two largest units.
fn span(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        3600..86400 => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
        _ => format!("{} d {} h", seconds / 86400, seconds / 3600 % 24),
    }
}

/// What `nvmfd list` prints.
pub(crate) fn list(client: &Client, what: Listed, json: bool) -> Result<String, CallError> {
    match what {
        Listed::Subsystems => rows(client, "/v1/subsystems", json, SUBSYSTEM, subsystem),
        Listed::Namespaces => rows(client, "/v1/namespaces", json, NAMESPACE, namespace),
        Listed::Hosts => rows(client, "/v1/hosts", json, ["HOST", "ALLOWED", "CONNECTED"], host),
        Listed::Listeners => {
            let header = ["ADDRESS", "PORT", "STATE", "DEVICE OR REASON"];
            rows(client, "/v1/listeners", json, header, listener)
        }
        Listed::Connections => rows(client, "/v1/connections", json, CONNECTION, connection),
        Listed::Cores => rows(client, "/v1/cores", json, CORE, core),
    }
}

fn rows<T, const N: usize>(
    client: &Client,
    path: &str,
    json: bool,
    header: [&str; N],
    row: fn(&T) -> [String; N],
) -> Result<String, CallError>
where
    T: DeserializeOwned + Serialize,
{
    let all: Vec<T> = client.get(path)?;
    Ok(if json { pretty(&all) } else { table(header, &all.iter().map(row).collect::<Vec<_>>()) })
}

fn pretty(value: &impl Serialize) -> String {
    let text = serde_json::to_string_pretty(value);
    text.map_or_else(|error| error.to_string(), |text| text + "\n")
}

const SUBSYSTEM: [&str; 4] = ["SUBSYSTEM", "NAMESPACES", "SIZE", "HOSTS"];

fn subsystem(found: &Subsystem) -> [String; 4] {
    let size = found.namespaces.iter().map(|namespace| namespace.size).sum();
    let hosts = match &found.allowed_hosts[..] {
        _ if found.allow_any_host => "any".to_owned(),
        [] => "none".to_owned(),
        hosts => hosts.join(", "),
    };
    [found.nqn.clone(), found.namespaces.len().to_string(), in_words(size), hosts]
}

const NAMESPACE: [&str; 11] = [
    "SUBSYSTEM",
    "NSID",
    "DISK",
    "SIZE",
    "BLOCK",
    "ACCESS",
    "LIMIT",
    "READS",
    "WRITES",
    "ERRORS",
    "HEALTH",
];

fn namespace(found: &Namespace) -> [String; 11] {
    [
        found.subsystem.clone(),
        found.nsid.to_string(),
        found.medium.clone(),
        in_words(found.size),
        found.block_size.to_string(),
        if found.read_only { "read-only" } else { "read-write" }.to_owned(),
        found.limit.as_ref().map_or_else(|| "none".to_owned(), limit),
        found.io.reads.to_string(),
        found.io.writes.to_string(),
        found.io.errors.to_string(),
        if found.trouble.is_none() { "well" } else { "TROUBLE: see nvmfd status" }.to_owned(),
    ]
}

fn limit(limit: &Limit) -> String {
    limit_in_words(limit.iops, limit.bandwidth)
}

fn host(found: &Host) -> [String; 3] {
    [found.nqn.clone(), found.allowed.join(", "), found.connected.join(", ")]
}

fn listener(found: &Listener) -> [String; 4] {
    let Listener { address, port, state, detail } = found;
    [address.clone(), port.to_string(), state.clone(), detail.clone()]
}

const CONNECTION: [&str; 7] =
    ["SUBSYSTEM", "CNTLID", "HOST", "PEER", "IO QUEUES", "KEEP ALIVE", "SILENT"];

fn connection(found: &Connection) -> [String; 7] {
    [
        found.subsystem.clone(),
        found.cntlid.to_string(),
        found.host.clone(),
        found.peer.clone(),
        found.io_queues.to_string(),
        if found.kato_ms == 0 { "none".to_owned() } else { format!("{} ms", found.kato_ms) },
        format!("{} ms", found.silent_ms),
    ]
}

const CORE: [&str; 8] =
    ["CORE", "QUEUES", "COMMANDS", "DISK OPS", "DISK ERRORS", "BUFFER WAITS", "BUFFERS", "BUSY"];

fn core(found: &Core) -> [String; 8] {
    let busy = 100.0 * found.busy_turns as f64 / found.turns.max(1) as f64;
    [
        if found.core == 0 { "0 (control)".to_owned() } else { found.core.to_string() },
        found.queues.to_string(),
        found.capsules.to_string(),
        found.disk_operations.to_string(),
        found.disk_errors.to_string(),
        found.buffer_waits.to_string(),
        in_words(found.transfer_bytes),
        format!("{busy:.0} % of turns"),
    ]
}

/// What `nvmfd show` prints.
pub(crate) fn show(client: &Client, what: &Shown, json: bool) -> Result<String, CallError> {
    let path = match what {
        Shown::Subsystem { nqn } => format!("/v1/subsystems/{}", encode(nqn)),
        Shown::Namespace { nqn, nsid } => {
            format!("/v1/subsystems/{}/namespaces/{nsid}", encode(nqn))
        }
        Shown::Connection { nqn, cntlid } => {
            format!("/v1/subsystems/{}/connections/{cntlid}", encode(nqn))
        }
        Shown::Limits => "/v1/limits".to_owned(),
    };
    let value: Value = client.get(&path)?;
    let mut text = String::new();
    if json {
        return Ok(pretty(&value));
    }
    lines(&mut text, 0, &value);
    Ok(text)
}

/// A value as lines of "key  value", with what is inside it further in.
fn lines(text: &mut String, depth: usize, value: &Value) {
    let Value::Object(fields) = value else { return };
    let widest = fields.keys().map(String::len).max().unwrap_or(0);
    for (key, value) in fields {
        let margin = "  ".repeat(depth);
        match value {
            Value::Object(_) => {
                text.push_str(&format!("{margin}{key}\n"));
                lines(text, depth + 1, value);
            }
            Value::Array(items) if items.iter().any(Value::is_object) => {
                for item in items {
                    text.push_str(&format!("{margin}{key}\n"));
                    lines(text, depth + 1, item);
                }
            }
            _ => {
                let words = value.as_u64().filter(|_| is_bytes(key)).filter(|n| *n >= 1 << 10);
                let words = words.map_or_else(String::new, |n| format!(" ({})", in_words(n)));
                text.push_str(&format!("{margin}{key:<widest$}  {}{words}\n", plain(value)));
            }
        }
    }
}

/// Whether the number under that name is one of bytes.
fn is_bytes(key: &str) -> bool {
    let sizes = ["size", "bandwidth", "memory", "control_memory", "max_transfer", "in_capsule"];
    key.ends_with("_bytes") || sizes.contains(&key)
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) if text.is_empty() => "-".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(items) if items.is_empty() => "none".to_owned(),
        Value::Array(items) => items.iter().map(plain).collect::<Vec<_>>().join(", "),
        Value::Null => "none".to_owned(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_told_in_two_units() {
        let said = |seconds| span(Duration::from_secs(seconds));
        assert_eq!(
            [said(5), said(65), said(3660), said(90_000)],
            ["5 s", "1 min 5 s", "1 h 1 min", "1 d 1 h"]
        );
    }

    #[test]
    fn what_is_inside_stands_further_in() {
        let mut text = String::new();
        let value = serde_json::json!({ "a": [], "io": { "reads": 3 }, "long": "x" });
        lines(&mut text, 0, &value);
        assert_eq!(text, "a     none\nio\n  reads  3\nlong  x\n");
        text.clear();
        lines(&mut text, 0, &serde_json::json!({ "size": 3 << 20, "limit": null }));
        assert_eq!(text, "limit  none\nsize   3145728 (3 MiB)\n");
    }
}
