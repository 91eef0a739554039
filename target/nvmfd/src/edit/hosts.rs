//! Who may use a subsystem: any host, or those of a list. The two keys exclude each other, so a change
//! of one takes the other out.

use super::{Fields, push};
use crate::operator::Refusal;
use serde_json::Value as Json;
use toml_edit::{Array, Item, TableLike, Value};

const ANY: &str = "allow_any_host";
const LIST: &str = "allowed_hosts";

/// Takes the key out that a change leaves nothing of.
///
/// # Errors
/// When any host is to be allowed no more, and no list says who is.
pub(super) fn choose(
    subsystem: &mut dyn TableLike,
    nqn: &str,
    fields: &Fields,
) -> Result<(), Refusal> {
    let given = |key: &str| fields.get(key).filter(|value| !value.is_null());
    match (given(ANY), given(LIST)) {
        (Some(Json::Bool(true)), None) => {
            subsystem.remove(LIST);
        }
        (None, Some(_)) => {
            subsystem.remove(ANY);
        }
        (Some(Json::Bool(false)), None) if subsystem.get(LIST).is_none() => {
            return Err(Refusal::Invalid(format!(
                "{nqn} would not say which hosts may connect: name them instead, as with \
                 nvmfd set subsystem {nqn} '{LIST}=[\"HOST\"]' ([] for none)"
            )));
        }
        _ => {}
    }
    Ok(())
}

pub(super) fn allow(subsystem: &mut dyn TableLike, nqn: &str, host: &str) -> Result<(), Refusal> {
    let hosts = list(subsystem, nqn, host)?;
    if hosts.iter().any(|other| other.as_str() == Some(host)) {
        return Err(Refusal::Exists(format!("host {host} of {nqn}")));
    }
    push(hosts, host.into());
    Ok(())
}

pub(super) fn deny(subsystem: &mut dyn TableLike, nqn: &str, host: &str) -> Result<(), Refusal> {
    let hosts = list(subsystem, nqn, "HOST")?;
    let before = hosts.len();
    hosts.retain(|other| other.as_str() != Some(host));
    match hosts.len() == before {
        true => Err(Refusal::NotThere(format!("host {host} of {nqn}"))),
        false => Ok(()),
    }
}

/// The list; `host` is for the advice where there is none.
fn list<'a>(
    subsystem: &'a mut dyn TableLike,
    nqn: &str,
    host: &str,
) -> Result<&'a mut Array, Refusal> {
    if subsystem.get(ANY).and_then(Item::as_bool) == Some(true) {
        return Err(Refusal::Invalid(format!(
            "any host may use {nqn} already; for some only: nvmfd set subsystem {nqn} \
             '{LIST}=[\"{host}\"]', which ends the connections of all others"
        )));
    }
    subsystem
        .entry(LIST)
        .or_insert(Item::Value(Value::Array(Array::new())))
        .as_array_mut()
        .ok_or_else(|| Refusal::Invalid(format!("{LIST} is not a list")))
}
