//! JSON values as TOML values.

use crate::operator::Refusal;
use serde_json::Value as Json;
use toml_edit::{Array, InlineTable, Value};

/// Levels of lists and objects in one another that are looked at.
const MAX_DEPTH: usize = 4;

/// `key` is for messages.
///
/// # Errors
/// For what the configuration has no use for: null, fractions, numbers that are too large.
pub(super) fn from_json(key: &str, json: &Json) -> Result<Value, Refusal> {
    convert(key, json, MAX_DEPTH)
}

fn convert(key: &str, json: &Json, depth: usize) -> Result<Value, Refusal> {
    let wrong = |what: &str| Err(Refusal::Invalid(format!("{key}: {what}")));
    match json {
        Json::Bool(flag) => Ok((*flag).into()),
        Json::String(text) => Ok(text.as_str().into()),
        Json::Number(number) => match number.as_i64() {
            Some(number) => Ok(number.into()),
            None => wrong("must be a whole number below 2^63"),
        },
        Json::Null => wrong("null is no value here"),
        Json::Array(_) | Json::Object(_) if depth == 0 => wrong("is nested too deeply"),
        Json::Array(items) => {
            let mut array = Array::new();
            for item in items {
                array.push(convert(key, item, depth - 1)?);
            }
            Ok(array.into())
        }
        Json::Object(fields) => {
            let mut table = InlineTable::new();
            for (name, json) in fields {
                table.insert(name, convert(name, json, depth - 1)?);
            }
            Ok(table.into())
        }
    }
}
