//! Objects of a JSON file, of which every field is either taken or told of in the end.

use super::notes::Notes;
use serde_json::{Map, Value};

/// An object and its place in the file.
#[derive(Debug)]
pub(super) struct Object {
    place: String,
    fields: Map<String, Value>,
}

impl Object {
    /// # Errors
    /// When the value is no object.
    pub(super) fn new(place: impl Into<String>, value: Value) -> Result<Object, String> {
        let place = place.into();
        match value {
            Value::Object(fields) => Ok(Object { place, fields }),
            other if place.is_empty() => {
                Err(format!("must be an object with the target's parts, and is {}", short(&other)))
            }
            other => Err(format!("{place}: must be an object, and is {}", short(&other))),
        }
    }

    /// Where it stands, as `ports[0].addr`.
    pub(super) fn place(&self) -> &str {
        &self.place
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.fields.contains_key(key)
    }

    /// Takes a text, or a number written as one. None if it is not there or says nothing.
    ///
    /// # Errors
    /// When it is something else.
    pub(super) fn text(&mut self, key: &str) -> Result<Option<String>, String> {
        match self.fields.remove(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) if text.trim().is_empty() => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.trim().to_owned())),
            Some(Value::Number(number)) => Ok(Some(number.to_string())),
            Some(other) => self.wrong(key, "a text", &other),
        }
    }

    /// Takes a text that has to be there.
    ///
    /// # Errors
    /// When it is not.
    pub(super) fn needed(&mut self, key: &str) -> Result<String, String> {
        self.text(key)?.ok_or_else(|| format!("{}: is missing", self.at(key)))
    }

    /// Takes a whole number, also one that is written as a text. Negative ones mean none.
    ///
    /// # Errors
    /// When it is something else.
    pub(super) fn number(&mut self, key: &str) -> Result<Option<u64>, String> {
        let Some(value) = self.fields.remove(key) else { return Ok(None) };
        let number = match &value {
            Value::Null => return Ok(None),
            Value::String(text) => text.trim().parse::<i64>().ok(),
            Value::Number(number) => number.as_i64(),
            _ => None,
        };
        match number {
            Some(number) => Ok(u64::try_from(number).ok()),
            None => self.wrong(key, "a whole number", &value),
        }
    }

    /// Takes a yes or no: true, 1 or "1". What is not there is a no.
    ///
    /// # Errors
    /// When it is something else.
    pub(super) fn flag(&mut self, key: &str) -> Result<bool, String> {
        match self.fields.remove(key) {
            None | Some(Value::Null) => Ok(false),
            Some(Value::Bool(flag)) => Ok(flag),
            Some(Value::Number(number)) if number.as_u64().is_some_and(|n| n < 2) => {
                Ok(number.as_u64() == Some(1))
            }
            Some(Value::String(text)) if ["0", "1"].contains(&text.trim()) => {
                Ok(text.trim() == "1")
            }
            Some(other) => self.wrong(key, "0 or 1", &other),
        }
    }

    /// Takes an object; an empty one if it is not there.
    ///
    /// # Errors
    /// When it is something else.
    pub(super) fn object(&mut self, key: &str) -> Result<Object, String> {
        let value = self.fields.remove(key).unwrap_or_else(|| Value::Object(Map::new()));
        Object::new(self.at(key), value)
    }

    /// Takes a list; an empty one if it is not there.
    ///
    /// # Errors
    /// When it is something else.
    pub(super) fn list(&mut self, key: &str) -> Result<Vec<(String, Value)>, String> {
        let place = self.at(key);
        match self.fields.remove(key) {
            None | Some(Value::Null) => Ok(Vec::new()),
            Some(Value::Array(items)) => Ok(items
                .into_iter()
                .enumerate()
                .map(|(n, item)| (format!("{place}[{n}]"), item))
                .collect()),
            Some(other) => self.wrong(key, "a list", &other),
        }
    }

    /// Takes a list of objects.
    ///
    /// # Errors
    /// When it is something else.
    pub(super) fn objects(&mut self, key: &str) -> Result<Vec<Object>, String> {
        self.list(key)?.into_iter().map(|(place, item)| Object::new(place, item)).collect()
    }

    /// Takes a list of texts.
    ///
    /// # Errors
    /// When it is something else.
    pub(super) fn texts(&mut self, key: &str) -> Result<Vec<String>, String> {
        let text = |(place, item)| match item {
            Value::String(text) => Ok(text),
            other => Err(format!("{place}: must be a text, and is {}", short(&other))),
        };
        self.list(key)?.into_iter().map(text).collect()
    }

    /// Takes fields that are of no use here and that nobody misses.
    pub(super) fn ignore(&mut self, keys: &[&str]) {
        keys.iter().for_each(|key| drop(self.fields.remove(*key)));
    }

    /// Takes all that is left: whoever reads it has said why.
    pub(super) fn ignore_all(&mut self) {
        self.fields.clear();
    }

    /// Tells of every field that was not taken and says something.
    pub(super) fn finish(self, notes: &mut Notes) {
        for (key, value) in self.fields {
            tell(&within(&self.place, &key), &value, notes);
        }
    }

    /// The place of a field.
    fn at(&self, key: &str) -> String {
        within(&self.place, key)
    }

    fn wrong<T>(&self, key: &str, what: &str, value: &Value) -> Result<T, String> {
        Err(format!("{}: must be {what}, and is {}", self.at(key), short(value)))
    }
}

/// The place of a field of what stands at `place`, which is empty for the whole file.
fn within(place: &str, key: &str) -> String {
    if place.is_empty() { key.to_owned() } else { format!("{place}.{key}") }
}

fn tell(place: &str, value: &Value, notes: &mut Notes) {
    match value {
        Value::Object(fields) => {
            fields.iter().for_each(|(key, value)| tell(&within(place, key), value, notes));
        }
        Value::Array(items) => {
            let place = |n| format!("{place}[{n}]");
            items.iter().enumerate().for_each(|(n, item)| tell(&place(n), item, notes));
        }
        nothing if says_nothing(nothing) => {}
        // What is said here ends up in logs and files that others read.
        _ if ["key", "psk", "secret"].iter().any(|word| place.contains(word)) => {
            notes.add(place, "has no counterpart");
        }
        other => notes.add(place, format!("{} has no counterpart", short(other))),
    }
}

/// Whether the value is what tools write for a setting that is not set.
fn says_nothing(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => {
            matches!(text.trim(), "" | "none" | "not specified")
                || text.bytes().all(|byte| matches!(byte, b'0' | b'-'))
        }
        _ => false,
    }
}

/// The value in few letters.
fn short(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(40) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}
