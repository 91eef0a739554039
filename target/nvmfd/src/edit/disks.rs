//! Namespaces in the text: which of them has which number.

use super::tables;
use crate::config;
use crate::operator::Refusal;
use toml_edit::{Item, TableLike, value};

/// Writes the numbers down that namespaces were given because they had none: those of the others
/// must not move when one of them goes.
pub(super) fn pin_nsids(subsystem: &mut dyn TableLike) {
    let mut tables = tables(subsystem, "namespace");
    let given: Vec<Option<u32>> = tables
        .iter()
        .map(|table| table.get("nsid").and_then(Item::as_integer))
        .map(|nsid| nsid.and_then(|nsid| nsid.try_into().ok()))
        .collect();
    let all = config::number_namespaces(&given);
    for ((table, given), nsid) in tables.iter_mut().zip(given).zip(all) {
        if given.is_none() {
            table.insert("nsid", value(i64::from(nsid)));
        }
    }
}

/// The namespace of that number, which was written down before.
pub(super) fn find_namespace<'a>(
    subsystem: &'a mut dyn TableLike,
    nqn: &str,
    nsid: u32,
) -> Result<&'a mut dyn TableLike, Refusal> {
    tables(subsystem, "namespace")
        .into_iter()
        .find(|table| table.get("nsid").and_then(Item::as_integer) == Some(nsid.into()))
        .ok_or_else(|| Refusal::NotThere(format!("namespace {nsid} of {nqn}")))
}
