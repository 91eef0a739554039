//! `nvmfd reload`, `add`, `set` and `remove`.

use super::{CallError, Client};
use crate::cli::{Added, NamespaceFields, Removed, Set};
use crate::edit::Fields;
use crate::http::encode;
use crate::operator::Outcome;
use hyper::Method;
use serde::Serialize;
use serde_json::{Value, json};

/// What `nvmfd reload` prints.
pub(crate) fn reload(client: &Client, json: bool) -> Result<String, CallError> {
    told(client.call(Method::POST, "/v1/reload", Vec::new())?, true, json)
}

/// What `nvmfd add` prints.
pub(crate) fn add(
    client: &Client,
    what: &Added,
    save: bool,
    json: bool,
) -> Result<String, CallError> {
    let (method, path, body) = match what {
        Added::Subsystem { nqn, hosts, serial, model } => {
            let mut fields = Fields::new();
            fields.insert("nqn".to_owned(), nqn.clone().into());
            if hosts.allow_any_host {
                fields.insert("allow_any_host".to_owned(), true.into());
            } else {
                fields.insert("allowed_hosts".to_owned(), hosts.host.clone().into());
            }
            put(&mut fields, "serial", serial.clone());
            put(&mut fields, "model", model.clone());
            (Method::POST, "/v1/subsystems".to_owned(), fields)
        }
        Added::Namespace { nqn, fields } => {
            (Method::POST, format!("/v1/subsystems/{}/namespaces", encode(nqn)), disk(fields))
        }
        Added::Host { nqn, host } => (Method::PUT, host_path(nqn, host), Fields::new()),
        Added::Listener { address, provider } => {
            let mut fields = Fields::new();
            fields.insert("address".to_owned(), address.clone().into());
            put(&mut fields, "provider", provider.clone());
            (Method::POST, "/v1/listeners".to_owned(), fields)
        }
    };
    change(client, method, &path, save, json, &body)
}

/// What `nvmfd set` prints.
pub(crate) fn set(
    client: &Client,
    what: &Set,
    save: bool,
    json: bool,
) -> Result<String, CallError> {
    let (path, fields) = match what {
        Set::Subsystem { nqn, settings } => (subsystem_path(nqn), pairs(settings)?),
        Set::Namespace { nqn, nsid, settings } => {
            (format!("{}/namespaces/{nsid}", subsystem_path(nqn)), pairs(settings)?)
        }
        Set::Limits { settings } => ("/v1/limits".to_owned(), pairs(settings)?),
    };
    change(client, Method::PATCH, &path, save, json, &fields)
}

/// What `nvmfd remove` prints.
pub(crate) fn remove(
    client: &Client,
    what: &Removed,
    save: bool,
    json: bool,
) -> Result<String, CallError> {
    let path = match what {
        Removed::Subsystem { nqn } => subsystem_path(nqn),
        Removed::Namespace { nqn, nsid } => format!("{}/namespaces/{nsid}", subsystem_path(nqn)),
        Removed::Host { nqn, host } => host_path(nqn, host),
        Removed::Listener { address } => format!("/v1/listeners/{}", encode(address)),
        Removed::Connection { nqn, cntlid } if save => {
            let what = format!("connection {cntlid} of {nqn} is not in the configuration to save");
            return Err(CallError::Invalid(what));
        }
        Removed::Connection { nqn, cntlid } => {
            format!("{}/connections/{cntlid}", subsystem_path(nqn))
        }
    };
    change(client, Method::DELETE, &path, save, json, &Fields::new())
}

fn subsystem_path(nqn: &str) -> String {
    format!("/v1/subsystems/{}", encode(nqn))
}

fn host_path(nqn: &str, host: &str) -> String {
    format!("{}/hosts/{}", subsystem_path(nqn), encode(host))
}

fn put(fields: &mut Fields, key: &str, value: Option<impl Into<Value>>) {
    fields.extend(value.map(|value| (key.to_owned(), value.into())));
}

fn disk(given: &NamespaceFields) -> Fields {
    let mut fields = Fields::new();
    put(&mut fields, "path", given.path.as_ref().map(|path| path.display().to_string()));
    put(&mut fields, "ram", given.ram.clone());
    put(&mut fields, "null", given.null.clone());
    put(&mut fields, "size", given.size.clone());
    put(&mut fields, "nsid", given.nsid);
    put(&mut fields, "block_size", given.block_size);
    put(&mut fields, "uuid", given.uuid.clone());
    put(&mut fields, "buffered", given.buffered.then_some(true));
    put(&mut fields, "iopoll", given.iopoll.then_some(true));
    put(&mut fields, "read_only", given.read_only.then_some(true));
    fields
}

/// Settings given as KEY=VALUE. A value that reads as TOML is taken as that, any other as text; an
/// empty one takes the key out.
fn pairs(settings: &[String]) -> Result<Fields, CallError> {
    settings.iter().map(|setting| pair(setting)).collect()
}

fn pair(setting: &str) -> Result<(String, Value), CallError> {
    let Some((key, text)) = setting.split_once('=') else {
        let what = format!("\"{setting}\" is not of the form KEY=VALUE");
        return Err(CallError::Invalid(what));
    };
    let key = key.trim();
    let text = text.trim();
    if text.is_empty() {
        return Ok((key.to_owned(), Value::Null));
    }
    let parsed = toml::from_str::<toml::Table>(&format!("v = {text}"));
    let value = match parsed.ok().and_then(|mut table| table.remove("v")) {
        Some(value) => serde_json::to_value(value).unwrap_or_else(|_| json!(text)),
        None => json!(text),
    };
    Ok((key.to_owned(), value))
}

fn change(
    client: &Client,
    method: Method,
    path: &str,
    save: bool,
    json: bool,
    fields: &Fields,
) -> Result<String, CallError> {
    let body = serde_json::to_vec(fields).map_err(|e| CallError::Invalid(e.to_string()))?;
    let path = if save { format!("{path}?save=true") } else { path.to_owned() };
    told(client.call(method, &path, body)?, save, json)
}

/// An outcome in words, where `in_file` says whether the file asks for it. What failed in part is an
/// error of the command.
fn told(outcome: Outcome, in_file: bool, json: bool) -> Result<String, CallError> {
    if json && !outcome.failed.is_empty() {
        return Err(CallError::Incomplete(pretty(&outcome)));
    }
    if json {
        return Ok(pretty(&outcome));
    }
    let Outcome { changed, restart, failed, saved } = outcome;
    let mut text = String::new();
    for line in &changed {
        text.push_str(&format!("{line}\n"));
    }
    for setting in &restart {
        let until = match in_file {
            true => "stays as it is until a restart",
            false => "takes a restart, once the file has it: --save writes it there",
        };
        text.push_str(&format!("! {setting}: {until}\n"));
    }
    if saved {
        text.push_str("written to the configuration file\n");
    }
    if failed.is_empty() {
        if text.is_empty() {
            text.push_str("nothing is different\n");
        }
        return Ok(text);
    }
    Err(CallError::Refused(format!("{text}not done:\n  {}", failed.join("\n  "))))
}

fn pretty(value: &impl Serialize) -> String {
    serde_json::to_string_pretty(value).map_or_else(|e| e.to_string(), |text| text + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read_as_toml_and_else_as_text() {
        let read = |setting| pair(setting).unwrap().1;
        assert_eq!(read("size=20GiB"), json!("20GiB"));
        assert_eq!(read("read_only = true"), json!(true));
        assert_eq!(read("queue_depth=64"), json!(64));
        assert_eq!(read("cpus=[1, 2]"), json!([1, 2]));
        assert_eq!(read("allowed_hosts=[\"nqn.a\"]"), json!(["nqn.a"]));
        assert_eq!(read("serial="), Value::Null);
        assert!(pair("size").unwrap_err().to_string().contains("KEY=VALUE"));
    }

    #[test]
    fn what_failed_makes_the_command_fail_and_tells_what_was_done() {
        let outcome = Outcome {
            changed: vec!["+ a".into()],
            failed: vec!["+ b: no".into()],
            ..Outcome::default()
        };
        let said = told(outcome, true, false).unwrap_err().to_string();
        assert_eq!(said, "+ a\nnot done:\n  + b: no");
        assert_eq!(told(Outcome::default(), true, false).unwrap(), "nothing is different\n");
    }
}
