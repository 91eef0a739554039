//! What happens, for whoever listens: the log's lines of the daemon as JSON, as they come.
//!
//! It is a layer of the log. Nobody listening costs one look at a flag for each line; a listener that
//! does not keep up misses lines and is told how many.

use hyper::body::Bytes;
use serde_json::{Map, Value, json};
use std::fmt::Debug;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};
use tokio::sync::mpsc::{Receiver, Sender, channel, error::TrySendError};
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

/// Lines that a listener may be behind.
const BEHIND: usize = 1024;

/// Listeners at a time.
const LISTENERS: usize = 16;

/// The listeners.
#[derive(Debug, Clone, Default)]
pub(crate) struct Events(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    /// How many there are, to be looked at without the lock.
    count: AtomicUsize,
    listeners: Mutex<Vec<Listener>>,
}

#[derive(Debug)]
struct Listener {
    lines: Sender<Bytes>,
    missed: u64,
}

impl Events {
    /// Lines from now on, until the receiver is dropped. None when there are too many listeners.
    pub(crate) fn subscribe(&self) -> Option<Receiver<Bytes>> {
        let (lines, receiver) = channel(BEHIND);
        let mut room = false;
        self.change(|listeners| {
            listeners.retain(|listener| !listener.lines.is_closed());
            room = listeners.len() < LISTENERS;
            if room {
                listeners.push(Listener { lines, missed: 0 });
            }
        });
        room.then_some(receiver)
    }

    fn change(&self, change: impl FnOnce(&mut Vec<Listener>)) {
        let mut listeners = self.0.listeners.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut listeners);
        self.0.count.store(listeners.len(), Ordering::Relaxed);
    }

    fn tell(&self, event: &Value) {
        let line = line(event);
        self.change(|listeners| listeners.retain_mut(|listener| listener.tell(&line)));
    }
}

impl Listener {
    /// Says whether the listener is still there.
    fn tell(&mut self, line: &Bytes) -> bool {
        if self.missed > 0 {
            let gap = json!({ "level": "WARN", "message": "lines missed", "lines": self.missed });
            match self.lines.try_send(self::line(&gap)) {
                Ok(()) => self.missed = 0,
                Err(error) => return self.missed_one(&error),
            }
        }
        match self.lines.try_send(line.clone()) {
            Ok(()) => true,
            Err(error) => self.missed_one(&error),
        }
    }

    fn missed_one(&mut self, error: &TrySendError<Bytes>) -> bool {
        self.missed += 1;
        matches!(error, TrySendError::Full(_))
    }
}

fn line(event: &Value) -> Bytes {
    Bytes::from(format!("{event}\n"))
}

impl<S: Subscriber> Layer<S> for Events {
    fn on_event(&self, event: &Event<'_>, _context: Context<'_, S>) {
        if self.0.count.load(Ordering::Relaxed) == 0 {
            return;
        }
        let meta = event.metadata();
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut fields = Fields(Map::new());
        fields.0.insert("time".to_owned(), since.as_secs_f64().into());
        fields.0.insert("level".to_owned(), meta.level().as_str().into());
        fields.0.insert("target".to_owned(), meta.target().into());
        event.record(&mut fields);
        self.tell(&Value::Object(fields.0));
    }
}

/// The fields of a line.
struct Fields(Map<String, Value>);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name().to_owned(), format!("{value:?}").into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name().to_owned(), value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.0.insert(field.name().to_owned(), value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.0.insert(field.name().to_owned(), value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.0.insert(field.name().to_owned(), value.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tracing_subscriber::layer::SubscriberExt;

    fn next(lines: &mut Receiver<Bytes>) -> Value {
        serde_json::from_slice(&lines.try_recv().unwrap()).unwrap()
    }

    #[test]
    fn fields_keep_their_types() {
        let events = Events::default();
        let mut lines = events.subscribe().unwrap();
        tracing::subscriber::with_default(tracing_subscriber::registry().with(events), || {
            tracing::warn!(peer = %"10.0.0.1", qid = 3u16, up = true, "connected");
        });
        let event = next(&mut lines);
        assert_eq!(event["message"], "connected");
        assert_eq!(
            (&event["peer"], &event["qid"], &event["up"]),
            (&json!("10.0.0.1"), &json!(3), &json!(true))
        );
        assert_eq!(event["level"], "WARN");
    }

    #[test]
    fn who_is_too_slow_is_told_how_much_was_missed_and_who_left_is_forgotten() {
        let events = Events::default();
        let mut lines = events.subscribe().unwrap();
        drop(events.subscribe());
        for n in 0..BEHIND + 10 {
            events.tell(&json!({ "n": n }));
        }
        assert_eq!(events.0.count.load(Ordering::Relaxed), 1);
        for n in 0..BEHIND {
            assert_eq!(next(&mut lines)["n"], n);
        }
        events.tell(&json!({ "n": "after" }));
        assert_eq!(next(&mut lines)["lines"], 10);
        assert_eq!(next(&mut lines)["n"], "after");
    }

    #[test]
    fn one_listener_too_many_is_refused_until_another_leaves() {
        let events = Events::default();
        let mut all: Vec<_> = (0..LISTENERS).map(|_| events.subscribe().unwrap()).collect();
        assert!(events.subscribe().is_none());
        all.pop();
        assert!(events.subscribe().is_some());
    }
}
