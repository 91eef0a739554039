//! Changes to a configuration's text that leave comments and order as they are.
//!
//! An [`Edit`] turns one text into another and knows nothing of what the values mean: whoever uses
//! the result checks it as a whole. Values come as JSON, with the keys of the file.

mod disks;
#[cfg(test)]
mod tests;
mod value;

use crate::operator::Refusal;
use disks::{find_namespace, pin_nsids};
use serde_json::{Map, Value as Json};
use toml_edit::{DocumentMut, Item, Table, TableLike};

/// Keys that people write first: what a table is about.
const LEADING: [&str; 5] = ["nqn", "address", "path", "ram", "null"];

/// Keys and values of a table.
pub(crate) type Fields = Map<String, Json>;

/// One change of the text.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Edit {
    AddSubsystem(Fields),
    /// A value of null takes the key out.
    SetSubsystem(String, Fields),
    RemoveSubsystem(String),
    AddNamespace(String, Fields),
    /// A value of null takes the key out.
    SetNamespace(String, u32, Fields),
    RemoveNamespace(String, u32),
    /// Of a subsystem, a host.
    AllowHost(String, String),
    /// Of a subsystem, a host.
    DenyHost(String, String),
    AddListener(Fields),
    /// As it is written or as it is told: with or without the port.
    RemoveListener(String),
    /// Of the table `[tuning]` or `[log]`. A value of null takes the key out.
    Set(&'static str, Fields),
}

impl Edit {
    /// The text with the change made.
    ///
    /// # Errors
    /// When the text is no TOML, or does not have what is to be changed.
    pub(crate) fn apply(&self, text: &str) -> Result<String, Refusal> {
        let mut document: DocumentMut = text
            .parse()
            .map_err(|error| Refusal::Invalid(format!("the configuration is not TOML: {error}")))?;
        let root = document.as_table_mut();
        match self {
            Edit::AddSubsystem(fields) => add(root, "subsystem", fields)?,
            Edit::SetSubsystem(nqn, fields) => set(subsystem(root, nqn)?, fields)?,
            Edit::RemoveSubsystem(nqn) => {
                remove(root, "subsystem", |table| text_of(table, "nqn") == Some(nqn))
                    .then_some(())
                    .ok_or_else(|| Refusal::NotThere(format!("subsystem {nqn}")))?;
            }
            Edit::AddNamespace(nqn, fields) => add(subsystem(root, nqn)?, "namespace", fields)?,
            Edit::SetNamespace(nqn, nsid, fields) => {
                let subsystem = subsystem(root, nqn)?;
                // Another path must not make another disk of one that was given no number.
                pin_nsids(subsystem);
                set(find_namespace(subsystem, nqn, *nsid)?, fields)?;
            }
            Edit::RemoveNamespace(nqn, nsid) => {
                let subsystem = subsystem(root, nqn)?;
                pin_nsids(subsystem);
                find_namespace(subsystem, nqn, *nsid)?;
                let number = i64::from(*nsid);
                remove(subsystem, "namespace", |table| {
                    table.get("nsid").and_then(Item::as_integer) == Some(number)
                });
            }
            Edit::AllowHost(nqn, host) => allow(subsystem(root, nqn)?, nqn, host)?,
            Edit::DenyHost(nqn, host) => deny(subsystem(root, nqn)?, nqn, host)?,
            Edit::AddListener(fields) => add(root, "listener", fields)?,
            Edit::RemoveListener(address) => {
                let address = crate::config::address(address).map_err(Refusal::Invalid)?;
                let same = |table: &dyn TableLike| {
                    let given = text_of(table, "address");
                    given.and_then(|given| crate::config::address(given).ok()) == Some(address)
                };
                remove(root, "listener", same)
                    .then_some(())
                    .ok_or_else(|| Refusal::NotThere(format!("listener {address}")))?;
            }
            Edit::Set(table, fields) => {
                let item = root.entry(table).or_insert(Item::Table(Table::new()));
                let table = item
                    .as_table_like_mut()
                    .ok_or_else(|| Refusal::Invalid(format!("{table} is not a table")))?;
                set(table, fields)?;
            }
        }
        Ok(document.to_string())
    }
}

fn text_of<'a>(table: &'a dyn TableLike, key: &str) -> Option<&'a str> {
    table.get(key)?.as_str()
}

fn subsystem<'a>(root: &'a mut Table, nqn: &str) -> Result<&'a mut dyn TableLike, Refusal> {
    tables(root, "subsystem")
        .into_iter()
        .find(|table| text_of(*table, "nqn") == Some(nqn))
        .ok_or_else(|| Refusal::NotThere(format!("subsystem {nqn}")))
}

/// The tables under a key, whether they are written as `[[key]]` or in one line.
fn tables<'a>(parent: &'a mut dyn TableLike, key: &str) -> Vec<&'a mut dyn TableLike> {
    match parent.get_mut(key) {
        Some(Item::ArrayOfTables(tables)) => {
            tables.iter_mut().map(|table| table as &mut dyn TableLike).collect()
        }
        Some(Item::Value(toml_edit::Value::Array(values))) => values
            .iter_mut()
            .filter_map(toml_edit::Value::as_inline_table_mut)
            .map(|table| table as &mut dyn TableLike)
            .collect(),
        _ => Vec::new(),
    }
}

/// Adds a table under a key, in the way that the others there are written.
fn add(parent: &mut dyn TableLike, key: &str, fields: &Fields) -> Result<(), Refusal> {
    match parent.entry(key).or_insert(Item::ArrayOfTables(Default::default())) {
        Item::ArrayOfTables(tables) => {
            let mut table = Table::new();
            set(&mut table, fields)?;
            tables.push(table);
        }
        Item::Value(toml_edit::Value::Array(values)) => {
            let mut table = toml_edit::InlineTable::new();
            set(&mut table, fields)?;
            values.push(table);
        }
        _ => return Err(Refusal::Invalid(format!("{key} is not a list of tables"))),
    }
    Ok(())
}

/// Takes the tables under a key out that are meant. Says whether there was one.
fn remove(parent: &mut dyn TableLike, key: &str, meant: impl Fn(&dyn TableLike) -> bool) -> bool {
    let (before, after) = match parent.get_mut(key) {
        Some(Item::ArrayOfTables(tables)) => {
            let before = tables.len();
            tables.retain(|table| !meant(table));
            (before, tables.len())
        }
        Some(Item::Value(toml_edit::Value::Array(values))) => {
            let before = values.len();
            values.retain(|value| value.as_inline_table().is_none_or(|table| !meant(table)));
            (before, values.len())
        }
        _ => (0, 0),
    };
    before != after
}

/// Sets keys; null takes a key out.
fn set(table: &mut dyn TableLike, fields: &Fields) -> Result<(), Refusal> {
    let leads = |key: &str| LEADING.contains(&key);
    let leading = fields.iter().filter(|(key, _)| leads(key));
    for (key, json) in leading.chain(fields.iter().filter(|(key, _)| !leads(key))) {
        if json.is_null() {
            table.remove(key);
            continue;
        }
        // Namespaces of a new subsystem are tables of their own, as people write them.
        if let (Json::Array(items), "namespace") = (json, key.as_str()) {
            for item in items {
                let fields = item.as_object().ok_or_else(|| {
                    Refusal::Invalid("namespace: must be a list of objects".to_owned())
                })?;
                add(table, key, fields)?;
            }
            continue;
        }
        let mut value = value::from_json(key, json)?;
        match table.get_mut(key).and_then(Item::as_value_mut) {
            Some(old) => {
                // What stands around the old value stays: a comment behind it, above all.
                *value.decor_mut() = old.decor().clone();
                *old = value;
            }
            None => {
                table.insert(key, Item::Value(value));
            }
        }
    }
    Ok(())
}

fn hosts<'a>(
    subsystem: &'a mut dyn TableLike,
    nqn: &str,
) -> Result<&'a mut toml_edit::Array, Refusal> {
    if subsystem.get("allow_any_host").and_then(Item::as_bool) == Some(true) {
        let why = format!("any host may use {nqn} already: set allow_any_host to false first");
        return Err(Refusal::Invalid(why));
    }
    subsystem
        .entry("allowed_hosts")
        .or_insert(Item::Value(toml_edit::Value::Array(Default::default())))
        .as_array_mut()
        .ok_or_else(|| Refusal::Invalid("allowed_hosts is not a list".to_owned()))
}

fn allow(subsystem: &mut dyn TableLike, nqn: &str, host: &str) -> Result<(), Refusal> {
    let hosts = hosts(subsystem, nqn)?;
    if hosts.iter().any(|other| other.as_str() == Some(host)) {
        return Err(Refusal::Exists(format!("host {host} of {nqn}")));
    }
    hosts.push(host);
    Ok(())
}

fn deny(subsystem: &mut dyn TableLike, nqn: &str, host: &str) -> Result<(), Refusal> {
    let hosts = hosts(subsystem, nqn)?;
    let before = hosts.len();
    hosts.retain(|other| other.as_str() != Some(host));
    match hosts.len() == before {
        true => Err(Refusal::NotThere(format!("host {host} of {nqn}"))),
        false => Ok(()),
    }
}
