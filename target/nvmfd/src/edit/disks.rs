//! Namespaces in the text: which of them has which number.
//!
//! A namespace without a number has the lowest that is free, in order. A change must not give one of
//! the others another number: where it would, that one's number is written down, and only there.

use super::{insert, tables};
use crate::config;
use crate::operator::Refusal;
use toml_edit::{Item, TableLike};

/// The numbers of all namespaces, in the order of the text.
pub(super) fn numbers(subsystem: &mut dyn TableLike) -> Vec<u32> {
    config::number_namespaces(&written(subsystem))
}

/// Those that are written down.
fn written(subsystem: &mut dyn TableLike) -> Vec<Option<u32>> {
    let nsid = |table: &&mut dyn TableLike| table.get("nsid").and_then(Item::as_integer);
    let all = tables(subsystem, "namespace");
    all.iter().map(nsid).map(|nsid| nsid.and_then(|nsid| nsid.try_into().ok())).collect()
}

/// Has the first namespaces keep these numbers; any that follow are new.
pub(super) fn keep_numbers(subsystem: &mut dyn TableLike, numbers: &[u32]) {
    // Writing one down may move another.
    for _ in 0..=numbers.len() {
        let now = self::numbers(subsystem);
        let Some(moved) = now.iter().zip(numbers).position(|(now, before)| now != before) else {
            return;
        };
        if let Some(table) = tables(subsystem, "namespace").into_iter().nth(moved) {
            insert(table, "nsid", i64::from(numbers[moved]).into());
        }
    }
}

/// The place of the namespace of that number.
pub(super) fn find_namespace(
    subsystem: &mut dyn TableLike,
    nqn: &str,
    nsid: u32,
) -> Result<usize, Refusal> {
    let place = numbers(subsystem).iter().position(|number| *number == nsid);
    place.ok_or_else(|| Refusal::NotThere(format!("namespace {nsid} of {nqn}")))
}
