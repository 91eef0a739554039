//! Changes to a configuration's text that leave comments and order as they are.
//!
//! An [`Edit`] turns one text into another and knows nothing of what the values mean: whoever uses
//! the result checks it as a whole. Values come as JSON, with the keys of the file.

mod disks;
mod hosts;
#[cfg(test)]
mod tests;
mod value;

use crate::operator::Refusal;
use disks::{find_namespace, keep_numbers, numbers};
use serde_json::{Map, Value as Json};
use toml_edit::{Decor, DocumentMut, Item, RawString, Table, TableLike};

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
            Edit::SetSubsystem(nqn, fields) => {
                let subsystem = subsystem(root, nqn)?;
                hosts::choose(subsystem, nqn, fields)?;
                set(subsystem, fields)?;
            }
            Edit::RemoveSubsystem(nqn) => {
                remove(root, "subsystem", |table| text_of(table, "nqn") == Some(nqn))
                    .then_some(())
                    .ok_or_else(|| Refusal::NotThere(format!("subsystem {nqn}")))?;
            }
            Edit::AddNamespace(nqn, fields) => {
                let subsystem = subsystem(root, nqn)?;
                let before = numbers(subsystem);
                add(subsystem, "namespace", fields)?;
                keep_numbers(subsystem, &before);
            }
            Edit::SetNamespace(nqn, nsid, fields) => {
                let subsystem = subsystem(root, nqn)?;
                let mut before = numbers(subsystem);
                let place = find_namespace(subsystem, nqn, *nsid)?;
                let mut all = tables(subsystem, "namespace");
                set(&mut *all[place], fields)?;
                if fields.contains_key("nsid") {
                    before[place] = numbers(subsystem)[place];
                }
                keep_numbers(subsystem, &before);
            }
            Edit::RemoveNamespace(nqn, nsid) => {
                let subsystem = subsystem(root, nqn)?;
                let mut before = numbers(subsystem);
                let place = find_namespace(subsystem, nqn, *nsid)?;
                let mut at = 0..;
                remove(subsystem, "namespace", |_| at.next() == Some(place));
                before.remove(place);
                keep_numbers(subsystem, &before);
            }
            Edit::AllowHost(nqn, host) => hosts::allow(subsystem(root, nqn)?, nqn, host)?,
            Edit::DenyHost(nqn, host) => hosts::deny(subsystem(root, nqn)?, nqn, host)?,
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
            push(values, table.into());
        }
        _ => return Err(Refusal::Invalid(format!("{key} is not a list of tables"))),
    }
    Ok(())
}

/// Adds a value to a list, on a line of its own where the others have theirs.
fn push(values: &mut toml_edit::Array, value: toml_edit::Value) {
    let before = values.iter().last().and_then(|last| last.decor().prefix()?.as_str());
    let own_line = before.filter(|before| before.contains('\n')).map(str::to_owned);
    match own_line {
        // A comment before the last one is about that one.
        Some(before) => {
            let break_at = before.rfind('\n').unwrap_or(0);
            values.push_formatted(value.decorated(&before[break_at..], ""));
        }
        None => values.push(value),
    }
}

/// Takes the tables under a key out that are meant. Says whether there was one.
fn remove(
    parent: &mut dyn TableLike,
    key: &str,
    mut meant: impl FnMut(&dyn TableLike) -> bool,
) -> bool {
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
            None => insert(table, key, value),
        }
    }
    Ok(())
}

/// Adds a key at the end. In a table of one line what stood behind the last value, before the closing
/// brace, stands behind the new one then.
fn insert(table: &mut dyn TableLike, key: &str, mut value: toml_edit::Value) {
    let last = table.iter_mut().last().and_then(|(_, item)| item.as_value_mut());
    let last = last.filter(|last| last.decor().suffix().and_then(RawString::as_str) == Some(" "));
    if let Some(last) = last {
        let before = last.decor().prefix().cloned().unwrap_or_default();
        *last.decor_mut() = Decor::new(before, "");
        *value.decor_mut() = Decor::new(" ", " ");
    }
    table.insert(key, Item::Value(value));
}
