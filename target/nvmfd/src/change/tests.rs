use super::*;
use crate::config::{self, Config};
use std::path::Path;

const OLD: &str = r#"
listener = [{ address = "10.8.0.1" }, { address = "10.8.0.2" }]
[[subsystem]]
nqn = "nqn.2026-11.io.nvmfd:a"
allow_any_host = true
[[subsystem.namespace]]
path = "/srv/one"
size = "1GiB"
[[subsystem.namespace]]
path = "/srv/two"
[[subsystem]]
nqn = "nqn.2026-11.io.nvmfd:b"
allow_any_host = true
[[subsystem.namespace]]
ram = "1MiB"
"#;

fn config(text: &str) -> Config {
    config::parse(Path::new("nvmfd.toml"), text).unwrap_or_else(|error| panic!("{error}"))
}

/// The plan from [`OLD`] to it with one text replaced, in words.
fn plan(from: &str, to: &str) -> Vec<String> {
    assert!(OLD.contains(from), "{from}");
    let (old, new) = (config(OLD), config(&OLD.replacen(from, to, 1)));
    let plan = diff(&old, &new, |_| true);
    plan.to_string().lines().map(str::to_owned).collect()
}

#[test]
fn comments_and_order_are_no_difference() {
    assert_eq!(plan("ram =", "# faster\n\nram ="), ["nothing is different"]);
    let swapped = "{ address = \"10.8.0.2\" }, { address = \"10.8.0.1\" }";
    let both = "{ address = \"10.8.0.1\" }, { address = \"10.8.0.2\" }";
    assert_eq!(plan(both, swapped), ["nothing is different"]);
}

#[test]
fn what_goes_comes_before_what_comes() {
    // The second disk moves to the other subsystem.
    let text = OLD.replace("[[subsystem.namespace]]\npath = \"/srv/two\"\n", "")
        + "[[subsystem.namespace]]\npath = \"/srv/two\"\n";
    let plan = diff(&config(OLD), &config(&text), |_| true);
    let words: Vec<String> = plan.changes.iter().map(ToString::to_string).collect();
    assert_eq!(
        words,
        ["- namespace nqn.2026-11.io.nvmfd:a 2", "+ namespace nqn.2026-11.io.nvmfd:b 2: /srv/two"]
    );
}

#[test]
fn a_subsystem_goes_after_its_disks_and_comes_before_them() {
    assert_eq!(
        plan("nvmfd:b", "nvmfd:c"),
        [
            "- namespace nqn.2026-11.io.nvmfd:b 1",
            "- subsystem nqn.2026-11.io.nvmfd:b (its connections end)",
            "+ subsystem nqn.2026-11.io.nvmfd:c",
            "+ namespace nqn.2026-11.io.nvmfd:c 1: 1 MiB of memory",
        ]
    );
}

#[test]
fn a_larger_file_and_a_write_protection_leave_the_disk_in_place() {
    assert_eq!(plan("\"1GiB\"", "\"2GiB\""), ["~ namespace nqn.2026-11.io.nvmfd:a 1: size 2 GiB"]);
    assert_eq!(
        plan("\"1GiB\"", "\"1GiB\"\nread_only = true"),
        ["~ namespace nqn.2026-11.io.nvmfd:a 1: read-only"]
    );
}

#[test]
fn another_disk_under_a_number_is_removed_and_added() {
    for (from, to) in [
        ("/srv/two\"", "/srv/three\""),
        ("/srv/two\"", "/srv/two\"\nblock_size = 4096"),
        ("/srv/two\"", "/srv/two\"\neui64 = \"0011223344556677\""),
    ] {
        let plan = plan(from, to);
        assert_eq!(plan.len(), 2, "{plan:?}");
        assert_eq!(plan[0], "- namespace nqn.2026-11.io.nvmfd:a 2");
        assert!(plan[1].starts_with("+ namespace nqn.2026-11.io.nvmfd:a 2: /srv/t"), "{plan:?}");
    }
}

#[test]
fn hosts_listeners_and_the_log_change_live() {
    assert_eq!(
        plan(
            "nvmfd:a\"\nallow_any_host = true",
            "nvmfd:a\"\nallowed_hosts = [\"nqn.2014-08.o:h\"]"
        ),
        ["~ subsystem nqn.2026-11.io.nvmfd:a: hosts nqn.2014-08.o:h may connect"]
    );
    assert_eq!(
        plan("10.8.0.2", "10.8.0.3"),
        ["- listener 10.8.0.2:4420 (its connections end)", "+ listener 10.8.0.3:4420"]
    );
    assert_eq!(plan("\"1MiB\"\n", "\"1MiB\"\n[log]\nlevel = \"debug\"\n"), ["~ log level debug"]);
}

#[test]
fn what_only_a_restart_brings_is_named_and_left_alone() {
    assert_eq!(
        plan("\"1MiB\"\n", "\"1MiB\"\n[tuning]\nqueue_depth = 64\nmemory = \"32MiB\"\n"),
        [
            "! tuning.memory: stays as it is until a restart",
            "! tuning.queue_depth: stays as it is until a restart"
        ]
    );
    assert_eq!(
        plan("ram = \"1MiB\"", "ram = \"1MiB\"\ninject = { delay_ms = 1 }"),
        ["! inject of nqn.2026-11.io.nvmfd:b namespace 1: stays as it is until a restart"]
    );
    assert_eq!(
        plan("ram = \"1MiB\"", "ram = \"2MiB\"\ninject = { delay_ms = 1 }"),
        ["! nqn.2026-11.io.nvmfd:b namespace 1 (it has inject): stays as it is until a restart"]
    );
}

#[test]
fn a_listener_without_its_provider_waits_and_the_one_it_replaces_stays() {
    let text = OLD.replacen("10.8.0.2\"", "10.8.0.2\", provider = \"verbs\"", 1);
    let plan = diff(&config(OLD), &config(&text), |_| false);
    assert_eq!(plan.changes, []);
    assert_eq!(plan.restart, ["listener 10.8.0.2:4420 (its RDMA provider is not running)"]);
}

#[test]
fn a_plan_that_was_carried_out_leaves_nothing_different() {
    let text = OLD
        .replace("10.8.0.2", "10.8.0.9")
        .replace("nvmfd:b", "nvmfd:c")
        .replace("1GiB", "2GiB")
        .replace("/srv/two", "/srv/three");
    let (mut config_now, new) = (config(OLD), config(&text));
    let plan = diff(&config_now, &new, |_| true);
    assert!(plan.changes.len() > 6, "{plan}");
    for change in &plan.changes {
        change.record(&mut config_now);
    }
    assert_eq!(diff(&config_now, &new, |_| true), Plan::default());
}

#[test]
fn limits_change_while_running() {
    let limited = "ram = \"1MiB\"\nlimit = { iops = 5 }";
    let expected = ["~ limits: namespace nqn.2026-11.io.nvmfd:b 1 5 commands/s"];
    assert_eq!(plan("ram = \"1MiB\"", limited), expected);
    let host = "[[host]]\nnqn = \"nqn.2014-08.org.example:h\"\nlimit = { iops = 5 }\n[[subsystem]]";
    let expected = ["~ limits: host nqn.2014-08.org.example:h 5 commands/s"];
    assert_eq!(plan("[[subsystem]]", host), expected);
}

#[test]
fn a_disk_that_comes_gets_its_limit_after_it_is_there() {
    let larger = "ram = \"2MiB\"\nlimit = { iops = 5 }";
    let words = plan("ram = \"1MiB\"", larger);
    let last = words.last().unwrap();
    assert!(last.starts_with("~ limits: namespace ") && last.ends_with(" 5 commands/s"), "{last}");
    assert!(words[words.len() - 2].starts_with("+ namespace"), "{words:?}");
}
