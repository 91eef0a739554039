//! What may be written where: every key of the file, with the kind of its value and the range of its
//! number.
//!
//! The file is held against this before anything is read out of it, so that all values of a wrong kind
//! are told at once, in words of the file and not of its parser. What hangs on several values, on names
//! or on the machine is found later, in [`resolve`](super::resolve).

#[cfg(test)]
mod tests;

use super::problem::{Problem, nearest};
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// What a value may be.
#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    /// A text, as this one.
    Text(&'static str),
    /// One of these texts.
    Word(&'static [&'static str]),
    /// A whole number from the one to the other.
    Whole(u64, u64),
    /// One of these whole numbers.
    OneOf(&'static [u64]),
    /// True or false.
    Flag,
    /// A number of bytes, or a text like "256MiB".
    Size,
    /// A list of texts, as this one.
    Texts(&'static str),
    /// A list of whole numbers, of this length if one is said, as this one.
    Wholes(u64, u64, Option<usize>, &'static str),
    /// A table in one line or of its own, as this one.
    Table(&'static str),
    /// A list of tables, as this one.
    Tables(&'static str),
}

use Kind::{Flag, OneOf, Size, Table, Tables, Text, Texts, Whole, Wholes, Word};

const NQN: Kind = Text("\"nqn.2026-11.org.example:disk1\"");
const LIMIT: Kind = Table("{ iops = 5000, bandwidth = \"200MB/s\" }");
const ANY: u64 = u32::MAX as u64;
/// The largest integer of TOML.
const MOST: u64 = i64::MAX as u64;

/// Every key, by the names that messages use.
pub(super) const KEYS: [(&str, Kind); 69] = [
    ("listener", Tables("[[listener]]")),
    ("listener.address", Text("\"10.8.0.1:4420\"")),
    ("listener.provider", Word(&["auto", "verbs", "soft"])),
    ("subsystem", Tables("[[subsystem]]")),
    ("subsystem.nqn", NQN),
    ("subsystem.allow_any_host", Flag),
    ("subsystem.allowed_hosts", Texts("[\"nqn.2014-08.org.nvmexpress:uuid:...\"]")),
    ("subsystem.serial", Text("\"S1\"")),
    ("subsystem.model", Text("\"nvmfd\"")),
    ("subsystem.duplicate_hosts", Word(&["allow", "one_per_listener", "refuse"])),
    ("subsystem.cntlids", Wholes(0, 65535, Some(2), "[1, 1000]")),
    ("namespace", Tables("[[subsystem.namespace]]")),
    ("namespace.path", Text("\"/srv/disk.img\"")),
    ("namespace.ram", Size),
    ("namespace.null", Size),
    ("namespace.size", Size),
    ("namespace.nsid", Whole(1, ANY - 1)),
    ("namespace.block_size", OneOf(&[512, 4096])),
    ("namespace.buffered", Flag),
    ("namespace.iopoll", Flag),
    ("namespace.read_only", Flag),
    ("namespace.uuid", Text("\"6f1b2d0c-93f4-4a55-8d0e-5a7cf0de4421\"")),
    ("namespace.nguid", Text("\"00112233445566778899aabbccddeeff\"")),
    ("namespace.eui64", Text("\"0011223344556677\"")),
    ("namespace.limit", LIMIT),
    ("namespace.limit.iops", Whole(0, MOST)),
    ("namespace.limit.bandwidth", Size),
    ("namespace.limit.burst_ms", Whole(0, 60_000)),
    ("namespace.inject", Table("{ delay_ms = 5, error_every = 1000 }")),
    ("namespace.inject.delay_ms", Whole(0, ANY)),
    ("namespace.inject.error_every", Whole(0, ANY)),
    ("host", Tables("[[host]]")),
    ("host.nqn", NQN),
    ("host.limit", LIMIT),
    ("host.limit.iops", Whole(0, MOST)),
    ("host.limit.bandwidth", Size),
    ("host.limit.burst_ms", Whole(0, 60_000)),
    ("discovery", Table("[discovery]")),
    ("discovery.nqn", NQN),
    ("discovery.listeners", Word(&["reachable", "asked", "all"])),
    ("discovery.referral", Tables("[[discovery.referral]]")),
    ("discovery.referral.address", Text("\"10.8.0.2:4420\"")),
    ("discovery.referral.nqn", NQN),
    ("log", Table("[log]")),
    ("log.level", Text("\"info\"")),
    ("log.format", Word(&["text", "json"])),
    ("log.slow_ms", Whole(0, ANY)),
    ("tuning", Table("[tuning]")),
    ("tuning.data_cores", Whole(0, 64)),
    ("tuning.cpus", Wholes(0, 1023, None, "[2, 3]")),
    ("tuning.poll", Word(&["adaptive", "interrupt", "always"])),
    ("tuning.spin_us", Whole(0, 1_000_000)),
    ("tuning.memory", Size),
    ("tuning.control_memory", Size),
    ("tuning.hugepages", Word(&["auto", "always", "never"])),
    ("tuning.max_transfer", Size),
    ("tuning.in_capsule", Size),
    ("tuning.queue_depth", Whole(16, 4096)),
    ("tuning.max_io_queues", Whole(1, 1024)),
    ("tuning.max_queues", Whole(2, 65536)),
    ("tuning.max_reads", Whole(1, 255)),
    ("tuning.shared_receive_queue", Flag),
    ("tuning.traffic_class", Whole(0, 255)),
    ("control", Table("[control]")),
    ("control.socket", Text("\"/run/nvmfd/control.sock\"")),
    ("control.mode", Text("\"0660\"")),
    ("control.users", Texts("[\"operator\"]")),
    ("metrics", Table("[metrics]")),
    ("metrics.address", Text("\"127.0.0.1:9420\"")),
];

/// Everything in the file that is no key, of the wrong kind or out of its range. A file that is no TOML
/// has none: whoever reads the file says so.
pub(super) fn problems(text: &str) -> Vec<Problem> {
    let mut found = Vec::new();
    if let Ok(file) = DeTable::parse(text) {
        Walk { text, found: &mut found }.table("", file.get_ref());
    }
    found
}

/// The name that messages use of a key in a table: they name a namespace without its subsystem, whose
/// table it is part of.
fn below(table: &str, key: &str) -> String {
    match (table, key) {
        ("", "namespace") => ".namespace".to_owned(),
        ("", _) | ("subsystem", "namespace") => key.to_owned(),
        _ => format!("{table}.{key}"),
    }
}

/// The keys that a table may have.
fn keys_of(table: &str) -> Vec<&'static str> {
    let last = |name: &'static str| name.rsplit('.').next().unwrap_or(name);
    let keys = KEYS.iter().map(|(name, _)| *name);
    keys.filter(|name| below(table, last(name)) == *name).map(last).collect()
}

/// The kind of a key by the name that messages use.
pub(super) fn kind(key: &str) -> Option<Kind> {
    KEYS.iter().find(|(known, _)| *known == key).map(|(_, kind)| *kind)
}

impl Kind {
    /// What to write, for people.
    pub(super) fn in_words(self) -> String {
        let words = |words: &[String]| match words {
            [rest @ .., last] if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
            words => words.concat(),
        };
        match self {
            Text(like) => format!("write a text in quotes, as {like}"),
            Word(all) => words(&all.iter().map(|word| format!("\"{word}\"")).collect::<Vec<_>>()),
            Whole(least, most) => format!("write a whole number from {least} to {most}"),
            OneOf(all) => words(&all.iter().map(u64::to_string).collect::<Vec<_>>()),
            Flag => "write true or false".to_owned(),
            Size => "write a whole number of bytes, or a text like \"256MiB\"".to_owned(),
            Texts(like) => format!("write a list of texts, as {like}"),
            Wholes(.., like) => format!("write a list of whole numbers, as {like}"),
            Table(like) => format!("write a table: {like}"),
            Tables(like) => format!("write tables, each under {like}"),
        }
    }
}

/// A walk through the file.
struct Walk<'a> {
    text: &'a str,
    found: &'a mut Vec<Problem>,
}

impl Walk<'_> {
    /// Looks at the value of a key, and of those below it.
    fn value(&mut self, key: &str, value: &Spanned<DeValue<'_>>) {
        let Some(kind) = kind(key) else { return };
        let at = value.span();
        match (kind, value.get_ref()) {
            (Table(_), DeValue::Table(table)) => self.table(key, table),
            (Tables(_), DeValue::Array(tables)) => {
                for item in tables.iter() {
                    match item.get_ref() {
                        DeValue::Table(table) => self.table(key, table),
                        _ => self.wrong(key, kind, item.span(), "is no table"),
                    }
                }
            }
            (Texts(_), DeValue::Array(items)) => {
                for item in items.iter().filter(|item| !item.get_ref().is_str()) {
                    self.wrong(key, kind, item.span(), "is no text");
                }
            }
            (Wholes(least, most, length, _), DeValue::Array(items)) => {
                let mut sound = true;
                for item in items.iter() {
                    sound &= self.whole(key, kind, (least, most), item);
                }
                if sound && length.is_some_and(|length| length != items.iter().count()) {
                    self.wrong(key, kind, at, "is not as many numbers as there have to be");
                }
            }
            (Whole(least, most), _) => {
                self.whole(key, kind, (least, most), value);
            }
            (OneOf(all), number) => {
                let given = whole(number).and_then(|number| u64::try_from(number).ok());
                if !given.is_some_and(|given| all.contains(&given)) {
                    self.wrong(key, kind, at, "is not possible");
                }
            }
            (Word(all), DeValue::String(word)) if !all.contains(&word.as_ref()) => {
                let guess = nearest(word, all);
                self.wrong(key, kind, at, "is not possible");
                if let (Some(meant), Some(problem)) = (guess, self.found.last_mut()) {
                    problem.hint = Some(format!("did you mean \"{meant}\"?"));
                }
            }
            (Size, DeValue::Integer(_)) if whole(value.get_ref()).is_some_and(|n| n >= 0) => {}
            (Text(_) | Word(_) | Size, DeValue::String(_)) | (Flag, DeValue::Boolean(_)) => {}
            (Word(_), _) => self.wrong(key, kind, at, "is not possible"),
            (Text(_), _) => self.wrong(key, kind, at, "is no text"),
            (Flag, _) => self.wrong(key, kind, at, "is neither true nor false"),
            (Size, _) => self.wrong(key, kind, at, "is no size"),
            (Texts(_) | Wholes(..), _) => self.wrong(key, kind, at, "is no list"),
            (Table(_), _) => self.wrong(key, kind, at, "is no table"),
            (Tables(_), _) => self.wrong(key, kind, at, "is no list of tables"),
        }
    }

    fn table(&mut self, key: &str, table: &DeTable<'_>) {
        for (name, value) in table.iter() {
            match below(key, name.get_ref()) {
                known if kind(&known).is_some() => self.value(&known, value),
                _ => self.unknown(key, name),
            }
        }
    }

    fn unknown(&mut self, table: &str, name: &Spanned<impl AsRef<str>>) {
        let known = keys_of(table);
        let wrong = name.get_ref().as_ref();
        let hint = match nearest(wrong, &known) {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => format!("allowed here: {}", known.join(", ")),
        };
        self.found.push(Problem::at(name.span(), format!("unknown field `{wrong}`")).hint(hint));
    }

    /// Says whether it is a whole number in the range.
    fn whole(
        &mut self,
        key: &str,
        kind: Kind,
        (least, most): (u64, u64),
        value: &Spanned<DeValue<'_>>,
    ) -> bool {
        let range = i128::from(least)..=i128::from(most);
        match whole(value.get_ref()) {
            Some(number) if range.contains(&number) => return true,
            Some(_) => {
                let what = format!("is out of range: {least} to {most}");
                let given = self.given(value.span());
                self.found.push(Problem::at(value.span(), format!("{key}: {given} {what}")));
            }
            None => self.wrong(key, kind, value.span(), "is no whole number"),
        }
        false
    }

    fn wrong(&mut self, key: &str, kind: Kind, at: Range<usize>, what: &str) {
        let what = format!("{key}: {} {what}", self.given(at.clone()));
        self.found.push(Problem::at(at, what).hint(kind.in_words()));
    }

    /// What stands in the file there, in few letters.
    fn given(&self, at: Range<usize>) -> String {
        let given = self.text[at].lines().next().unwrap_or_default();
        match given.char_indices().nth(40) {
            Some((end, _)) => format!("{}...", &given[..end]),
            None => given.to_owned(),
        }
    }
}

/// A whole number of any size that TOML can write.
fn whole(value: &DeValue<'_>) -> Option<i128> {
    let number = value.as_integer()?;
    i128::from_str_radix(number.as_str(), number.radix()).ok()
}
