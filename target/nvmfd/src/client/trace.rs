//! `nvmfd trace`: what happens, as it happens.

use super::{CallError, Client};
use crate::output;
use serde_json::{Map, Value};
use std::io::Write;

/// Prints events until the daemon ends or nobody reads any more.
pub(crate) fn trace(client: &Client, json: bool) -> Result<(), CallError> {
    let mut out = std::io::stdout().lock();
    let mut end = Ok(());
    client.lines("/v1/events", |line| {
        let written = match serde_json::from_slice::<Map<String, Value>>(line) {
            Ok(event) if !json => writeln!(out, "{}", in_words(event)),
            _ => out.write_all(line),
        };
        let written = written.and_then(|()| out.flush());
        let goes_on = written.is_ok();
        end = output::judge(written);
        goes_on
    })?;
    end.map_err(CallError::Invalid)
}

/// An event in one line: when, how bad, what, and the rest.
fn in_words(mut event: Map<String, Value>) -> String {
    let time = event.remove("time").and_then(|time| time.as_f64()).unwrap_or_default();
    let mut text = |key: &str| match event.remove(key) {
        Some(Value::String(text)) => text,
        other => other.map(|value| value.to_string()).unwrap_or_default(),
    };
    let (level, message, _) = (text("level"), text("message"), text("target"));
    let day = time.rem_euclid(86400.0);
    let (hours, minutes, seconds) = ((day / 3600.0) as u32, (day / 60.0) as u32 % 60, day % 60.0);
    let mut line = format!("{hours:02}:{minutes:02}:{seconds:06.3}Z {level:<5} {message}");
    for (key, value) in event {
        // Nothing was left out of the log, mostly.
        if key == "dropped" && value == 0 {
            continue;
        }
        match value {
            Value::String(text) => line.push_str(&format!(" {key}={text}")),
            other => line.push_str(&format!(" {key}={other}")),
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_one_line() {
        let event = serde_json::json!({ "time": 3661.5, "level": "INFO", "target": "reactor",
            "message": "connected", "peer": "10.0.0.1:1", "qid": 0, "dropped": 0 });
        assert_eq!(
            in_words(event.as_object().unwrap().clone()),
            "01:01:01.500Z INFO  connected peer=10.0.0.1:1 qid=0"
        );
    }
}
