//! Metrics and the page, as monitoring and a browser get them from a daemon with a host at work.

use crate::common::{Daemon, host, own_address};
use crate::pages::root;
use conformance::Session;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::Duration;

const A: &str = "nqn.2026-11.io.nvmfd:a";

/// A daemon, and where its metrics are.
fn start() -> (Daemon, String) {
    let address = own_address().replace("4420", "9420");
    let daemon = Daemon::start(&format!(
        "[metrics]\naddress = \"{address}\"\n[[subsystem]]\nnqn = \"{A}\"\n\
         allow_any_host = true\nnamespace = [{{ ram = \"1MiB\" }}]\n"
    ));
    (daemon, address)
}

/// A host that has written and read ten times.
fn at_work(daemon: &Daemon) -> Session {
    let mut host = host(&daemon.address, A);
    for n in 0..10 {
        host.fill_blocks(n, 8, 1);
        host.read_blocks(n, 8);
    }
    // A core shows its counts when it goes to sleep.
    std::thread::sleep(Duration::from_millis(200));
    host
}

/// What is answered, with its head.
fn get(address: &str, path: &str, accept: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nhost: a\r\naccept: {accept}\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// Head and body.
fn parts(answer: &str) -> (&str, &str) {
    answer.split_once("\r\n\r\n").unwrap()
}

#[test]
fn monitoring_sees_what_a_host_does() {
    let (daemon, address) = start();
    let get = |path: &str| get(&address, path, "*/*");
    let _host = at_work(&daemon);
    let text = get("/metrics");
    let value = |name: &str| {
        let line = text.lines().find(|line| line.starts_with(name));
        let line = line.unwrap_or_else(|| panic!("no {name} in\n{text}"));
        line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()
    };
    let namespace = format!("{{subsystem=\"{A}\",nsid=\"1\"");
    assert_eq!(
        value(&format!("nvmfd_namespace_commands_total{namespace},direction=\"read\"}}")),
        10.0
    );
    let written = format!("nvmfd_namespace_data_bytes_total{namespace},direction=\"write\"}}");
    assert_eq!(value(&written), 40960.0);
    let moved: Vec<&str> =
        text.lines().filter(|line| line.starts_with("nvmfd_host_data_bytes_total{")).collect();
    assert!(moved.len() == 2 && moved.iter().all(|line| line.ends_with(" 40960")), "{moved:?}");
    assert!(value("nvmfd_command_latency_seconds_count{core=\"1\"}") >= 20.0);
    assert!(value(&format!("nvmfd_disk_latency_seconds_count{namespace}}}")) >= 20.0);
    assert!(value("nvmfd_core_packets_sent_total{core=\"1\"}") >= 20.0);
    assert_eq!(value("nvmfd_connection_events_total{event=\"connected\"}"), 2.0);
    let numbers = get("/numbers.json");
    let numbers: serde_json::Value =
        serde_json::from_str(numbers.split("\r\n\r\n").nth(1).unwrap()).unwrap();
    assert_eq!(numbers["connections"][0]["io_commands"], 21, "the Connect too");
    let page = get("/");
    assert!(page.contains("text/html") && page.contains("numbers.json"));
    assert!(!page.contains("//cdn") && !page.contains("src=\"http"), "no outside resources");
    assert!(get("/frob").starts_with("HTTP/1.1 404"));
}

/// A family of samples.
#[derive(Default)]
struct Family {
    kind: String,
    help: bool,
    /// Name with labels → value.
    samples: BTreeMap<String, f64>,
}

/// Reads the text of Prometheus, which has to be in order: a family's words before its samples.
fn families(text: &str) -> BTreeMap<String, Family> {
    let mut families: BTreeMap<String, Family> = BTreeMap::new();
    let mut last = String::new();
    for line in text.lines() {
        if let Some((name, words)) = line.strip_prefix("# HELP ").and_then(|l| l.split_once(' ')) {
            assert!(!families.contains_key(name), "{name} comes twice");
            assert!(!words.is_empty(), "{line}");
            families.entry(name.to_owned()).or_default().help = true;
            last = name.to_owned();
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            assert_eq!(name, last, "{line}");
            families.get_mut(name).unwrap().kind = kind.to_owned();
        } else {
            let (series, value) = line.rsplit_once(' ').unwrap();
            let family = families.get_mut(&last).unwrap();
            let before = family.samples.insert(series.to_owned(), value.parse().unwrap());
            assert!(series.starts_with(&last) && before.is_none(), "{line}");
        }
    }
    families
}

#[test]
fn names_keep_to_the_conventions_of_prometheus() {
    let (daemon, address) = start();
    let _host = at_work(&daemon);
    let answer = get(&address, "/metrics", "*/*");
    let (head, text) = parts(&answer);
    assert!(head.contains("content-type: text/plain; version=0.0.4"), "{head}");
    let families = families(text);
    assert!(families.len() > 40, "{}", families.len());
    for (name, family) in &families {
        let plain = name.chars().all(|c| c.is_ascii_lowercase() || c == '_');
        assert!(plain && name.starts_with("nvmfd_"), "{name}");
        assert!(family.help && !family.samples.is_empty(), "{name}");
        assert_eq!(family.kind == "counter", name.ends_with("_total"), "{name}");
        // Base units: seconds and bytes, never parts of them.
        for unit in ["_ms", "_us", "_ns", "_milliseconds", "_kib", "_mib", "_percent"] {
            assert!(!name.trim_end_matches("_total").ends_with(unit), "{name}");
        }
        if family.kind == "histogram" {
            assert!(name.ends_with("_seconds"), "{name}");
            histogram(name, &family.samples);
        }
    }
}

/// Buckets grow up to the count.
fn histogram(name: &str, samples: &BTreeMap<String, f64>) {
    let mut buckets: BTreeMap<String, Vec<(f64, f64)>> = BTreeMap::new();
    for (series, count) in samples {
        let Some(labels) = series.strip_prefix(&format!("{name}_bucket{{le=\"")) else { continue };
        let (bound, rest) = labels.split_once('"').unwrap();
        let bound = if bound == "+Inf" { f64::INFINITY } else { bound.parse().unwrap() };
        let rest = format!("{name}_count{{{}", rest.trim_start_matches(','));
        buckets.entry(rest).or_default().push((bound, *count));
    }
    assert!(!buckets.is_empty(), "{name}");
    for (count, mut buckets) in buckets {
        buckets.sort_by(|a, b| a.0.total_cmp(&b.0));
        assert!(buckets.windows(2).all(|pair| pair[0].1 <= pair[1].1), "{count}: {buckets:?}");
        let (bound, all) = buckets[buckets.len() - 1];
        assert_eq!((bound, Some(&all)), (f64::INFINITY, samples.get(&count)), "{count}");
    }
}

#[test]
fn who_asks_for_openmetrics_gets_it_with_the_same_numbers() {
    let (_daemon, address) = start();
    let answer = get(&address, "/metrics", "application/openmetrics-text;version=1.0.0,*/*;q=0.1");
    let (head, text) = parts(&answer);
    assert!(head.contains("content-type: application/openmetrics-text; version=1.0.0"), "{head}");
    assert!(text.ends_with("# EOF\n"), "{text}");
    let plain = get(&address, "/metrics", "text/plain");
    // Values move on; series do not.
    let series = |text: &str| -> BTreeSet<String> {
        let samples = text.lines().filter(|line| !line.starts_with('#'));
        samples.map(|line| line.rsplit_once(' ').unwrap().0.to_owned()).collect()
    };
    assert_eq!(series(text), series(parts(&plain).1));
}

/// Runs promtool, where there is one; `None` where there is none.
#[test]
fn the_head_of_an_answer_may_be_asked_for_alone() {
    let (_daemon, address) = start();
    let mut stream = TcpStream::connect(&address).unwrap();
    stream.write_all(b"HEAD /metrics HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(answer.ends_with("\r\n\r\n"), "{answer}");
}

fn promtool(args: &[&str], input: &str) -> Option<String> {
    let mut command = Command::new("promtool");
    command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let Ok(mut child) = command.spawn() else {
        eprintln!("not run: there is no promtool (Debian's package prometheus has it)");
        return None;
    };
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8(said).unwrap();
    assert!(output.status.success(), "{args:?}: {said}");
    Some(said)
}

#[test]
fn promtool_has_nothing_to_object_to() {
    let (daemon, address) = start();
    let _host = at_work(&daemon);
    let answer = get(&address, "/metrics", "*/*");
    if let Some(said) = promtool(&["check", "metrics"], parts(&answer).1) {
        assert_eq!(said, "");
    }
    let rules = root().join("config/monitoring/alerts.yml");
    promtool(&["check", "rules", rules.to_str().unwrap()], "");
}
