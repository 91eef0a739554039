//! The reference of the configuration in `docs/configuration.md` and the types of the file are in
//! step: the same tables, the same keys, and the defaults of `config/nvmfd.toml`.

use super::raw::{
    RawConfig, RawControl, RawDiscovery, RawHost, RawInject, RawLimit, RawListener, RawLog,
    RawMetrics, RawNamespace, RawReferral, RawSubsystem, RawTuning,
};
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::path::Path;

/// The keys of a table, as its type tells them when it meets one that it does not have.
fn keys<T: DeserializeOwned>() -> Vec<String> {
    let Err(error) = toml::from_str::<T>("no_such_key = 1") else { panic!("it took any key") };
    let text = error.message().to_owned();
    let mut keys: Vec<String> = text.split('`').skip(3).step_by(2).map(str::to_owned).collect();
    keys.sort();
    keys
}

/// Rows of the page: heading → keys and their defaults.
fn page() -> BTreeMap<String, Vec<(String, String)>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
    let text = std::fs::read_to_string(path).unwrap();
    let mut tables: BTreeMap<String, Vec<(String, String)>> = BTreeMap::new();
    let mut heading = String::new();
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("## ") {
            heading = name.trim_matches('`').to_owned();
        } else if let Some(row) = line.strip_prefix("| `") {
            let (key, rest) = row.split_once("` |").unwrap();
            let default = rest.split(" | ").nth(1).unwrap_or_default().trim().to_owned();
            tables.entry(heading.clone()).or_default().push((key.to_owned(), default));
        }
    }
    tables
}

#[test]
fn the_page_has_the_keys_that_the_file_may_have() {
    let page = page();
    let tables = [
        ("[[listener]]", keys::<RawListener>()),
        ("[[subsystem]]", keys::<RawSubsystem>()),
        ("[[subsystem.namespace]]", keys::<RawNamespace>()),
        ("limit", keys::<RawLimit>()),
        ("inject", keys::<RawInject>()),
        ("[[host]]", keys::<RawHost>()),
        ("[discovery]", keys::<RawDiscovery>()),
        ("[[discovery.referral]]", keys::<RawReferral>()),
        ("[log]", keys::<RawLog>()),
        ("[control]", keys::<RawControl>()),
        ("[metrics]", keys::<RawMetrics>()),
        ("[tuning]", keys::<RawTuning>()),
    ];
    for (name, keys) in &tables {
        let mut told: Vec<&str> = page[*name].iter().map(|(key, _)| key.as_str()).collect();
        told.sort_unstable();
        assert_eq!(told, *keys, "{name}");
    }
    assert_eq!(page.len(), tables.len());
    // And no table is forgotten.
    let all = keys::<RawConfig>();
    let has = |key: &String| page.keys().any(|name| name.trim_matches(['[', ']']) == key);
    assert!(all.len() == 8 && all.iter().all(has), "{all:?}");
}

#[test]
fn defaults_are_those_of_the_annotated_file() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../config/nvmfd.toml");
    let file = std::fs::read_to_string(path).unwrap();
    let mut count = 0;
    for (table, rows) in page() {
        for (key, default) in rows {
            // Others are told in words.
            if !default.starts_with(|c: char| c == '`' || c.is_ascii_digit()) {
                continue;
            }
            if let Some(line) = file.lines().find(|line| line.starts_with(&format!("#{key} = "))) {
                assert_eq!(line, format!("#{key} = {}", default.trim_matches('`')), "{table}");
                count += 1;
            }
        }
    }
    assert!(count >= 20, "only {count}");
}
