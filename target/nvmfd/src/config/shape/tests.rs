use super::super::{parse, raw};
use super::*;
use std::path::Path;

/// A file of one line in which this key has this value.
fn file(key: &str, value: &str) -> String {
    match key.rsplit_once('.') {
        None if key == "namespace" => file("subsystem", &format!("[{{ namespace = {value} }}]")),
        None => format!("{key} = {value}\n"),
        Some((parent, name)) => {
            let table = format!("{{ {name} = {value} }}");
            match kind(parent) {
                Some(Tables(_)) => file(parent, &format!("[{table}]")),
                _ => file(parent, &table),
            }
        }
    }
}

fn said(text: &str) -> String {
    parse(Path::new("nvmfd.toml"), text).expect_err("must be refused").to_string()
}

/// Whether a value suits the kind as far as is looked at here.
fn suits(kind: Kind, value: &str) -> bool {
    match kind {
        Text(_) | Size => value.starts_with('"'),
        Flag => value == "true",
        Table(_) => value.starts_with('{'),
        _ => false,
    }
}

#[test]
fn every_value_of_the_wrong_kind_is_told_with_its_place_its_key_and_what_is_allowed() {
    let values = ["-1", "1.5", "\"x y\"", "true", "[true]", "[[1]]", "{ a = 1 }", "1979-05-27"];
    for (key, kind) in KEYS {
        for value in values.iter().filter(|value| !suits(kind, value)) {
            let text = file(key, value);
            let said = said(&text);
            let first = said.lines().next().unwrap();
            assert!(first.starts_with("nvmfd.toml:1:"), "{text}{said}");
            assert!(first.contains(&format!(": {key}: ")), "{text}{said}");
            let allowed = match kind {
                Whole(least, most) if *value == "-1" => format!(": {least} to {most}"),
                kind => format!("hint: {}", kind.in_words()),
            };
            assert!(said.contains(&allowed), "{text}{said}");
        }
    }
}

#[test]
fn a_number_may_be_at_both_ends_of_its_range_and_not_beyond() {
    for (key, kind) in KEYS {
        let Whole(least, most) = kind else { continue };
        for number in [least, most] {
            assert_eq!(problems(&file(key, &number.to_string())), [], "{key} = {number}");
        }
        let beyond = [i128::from(least) - 1, i128::from(most) + 1];
        for number in beyond.iter().filter(|number| **number <= i128::from(i64::MAX)) {
            let text = file(key, &number.to_string());
            let what = format!("{key}: {number} is out of range: {least} to {most}");
            assert!(said(&text).contains(&what), "{text}{}", said(&text));
        }
    }
}

#[test]
fn everything_of_a_wrong_kind_is_told_at_once() {
    let text = "listener = [{ address = 1 }]\n[tuning]\ncpus = 7\npoll = \"adaptve\"\n";
    assert_eq!(
        said(text),
        "nvmfd.toml:1:25: listener.address: 1 is no text\n  \
         hint: write a text in quotes, as \"10.8.0.1:4420\"\n\
         nvmfd.toml:3:8: tuning.cpus: 7 is no list\n  \
         hint: write a list of whole numbers, as [2, 3]\n\
         nvmfd.toml:4:8: tuning.poll: \"adaptve\" is not possible\n  \
         hint: did you mean \"adaptive\"?"
    );
}

#[test]
fn a_table_is_no_list_of_its_values() {
    for text in [file("namespace.inject", "[1, 2]"), file("host.limit", "[1, 2, 3]")] {
        assert!(said(&text).contains("is no table\n  hint: write a table: {"), "{}", said(&text));
    }
    assert!(said("listener = [[\"10.8.0.1\"]]").contains("[\"10.8.0.1\"] is no table"));
}

#[test]
fn a_long_value_is_not_repeated_whole() {
    let text = file("tuning.shared_receive_queue", &format!("\"{}\"", "x".repeat(999)));
    assert!(said(&text).lines().next().unwrap().len() < 120, "{}", said(&text));
}

#[test]
fn every_key_that_is_read_has_a_kind() {
    let tables = KEYS.iter().filter(|(_, kind)| matches!(kind, Table(_) | Tables(_)));
    for (table, _) in tables {
        let text = file(&format!("{table}.frob"), "1");
        let message = match toml::from_str::<raw::RawConfig>(&text) {
            Ok(_) => panic!("{table} takes any key"),
            Err(error) => error.message().to_owned(),
        };
        // Tables without their required keys are told of before keys that are not known.
        assert!(message.contains("unknown field `frob`"), "{text}{message}");
        for key in message.split('`').skip(3).step_by(2) {
            let below = match (*table, key) {
                ("subsystem", "namespace") => "namespace".to_owned(),
                (table, key) => format!("{table}.{key}"),
            };
            assert!(kind(&below).is_some(), "{below} is read, and shape.rs has no kind for it");
        }
    }
}
