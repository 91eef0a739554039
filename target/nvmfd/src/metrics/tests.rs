use super::*;
use crate::status::{Io, Listener, Namespace, Subsystem};
use backing::BackingId;
use nvme_spec_types::status::StatusCode;
use reactor::control::ControlStats;
use reactor::core::{DiskStats, Latency};
use std::time::Duration;

const INVALID: StatusCode = StatusCode::INVALID_FIELD;

fn picture() -> Picture {
    let namespace = Namespace {
        subsystem: "nqn.a:\"b\"\\".into(),
        nsid: 1,
        medium: "/srv/b".into(),
        block_size: 512,
        size: 1 << 20,
        read_only: false,
        uuid: String::new(),
        limit: None,
        trouble: Some("was cut".into()),
        disk: 0,
        io: Io { reads: 3, writes: 4, read_bytes: 12288, write_bytes: 16384, errors: 1 },
    };
    let subsystem = Subsystem {
        nqn: namespace.subsystem.clone(),
        serial: String::new(),
        model: String::new(),
        allow_any_host: true,
        allowed_hosts: Vec::new(),
        namespaces: vec![namespace],
    };
    let listener = Listener {
        address: "[::]:4420".into(),
        port: 1,
        state: "up".into(),
        detail: "soft".into(),
    };
    Picture {
        taken: None,
        uptime: Duration::from_millis(1500),
        subsystems: vec![subsystem],
        connections: Vec::new(),
        listeners: vec![listener],
        removed: Io::default(),
        queues: 2,
        control: ControlStats { keep_alive_expiries: 2, ..ControlStats::default() },
        control_core: Shown::default(),
    }
}

#[test]
fn counters_are_total_and_units_are_in_the_names() {
    let mut shown = Shown::default();
    shown.core.capsules = 7;
    shown.failures.push((StatusCode::INVALID_FIELD, 3));
    let disk = DiskStats { id: BackingId(0), in_flight: 5, latency: Latency::default() };
    shown.disks.push(disk);
    let text = text(picture().into(), vec![shown]).unwrap();
    let name = r#"{subsystem="nqn.a:\"b\"\\",nsid="1""#;
    for line in [
        format!("nvmfd_namespace_commands_total{name},direction=\"read\"}} 3"),
        format!("nvmfd_namespace_data_bytes_total{name},direction=\"write\"}} 16384"),
        format!("nvmfd_namespace_size_bytes{name}}} 1048576.0"),
        format!("nvmfd_namespace_disk_well{name}}} 0.0"),
        "nvmfd_core_capsules_total{core=\"1\"} 7".to_owned(),
        "nvmfd_uptime_seconds 1.5".to_owned(),
        "nvmfd_listener_up{address=\"[::]:4420\"} 1.0".to_owned(),
        "nvmfd_keep_alive_expiries_total 2".to_owned(),
        format!("nvmfd_core_failed_responses_total{{core=\"1\",status=\"{INVALID}\"}} 3"),
        format!("nvmfd_disk_operations_in_flight{name}}} 5.0"),
        format!("nvmfd_disk_latency_seconds_bucket{{le=\"+Inf\",{}}} 0", &name[1..]),
        "# TYPE nvmfd_disk_latency_seconds histogram".to_owned(),
        "nvmfd_command_stage_latency_seconds_count{core=\"1\",stage=\"data_in\"} 0".to_owned(),
        "# TYPE nvmfd_namespace_data_bytes counter".to_owned(),
    ] {
        assert!(text.lines().any(|other| other == line), "{line} is not in\n{text}");
    }
    assert!(text.ends_with("# EOF\n"));
}

#[test]
fn a_family_is_told_once_and_not_at_all_without_values() {
    let text = text(picture().into(), Vec::new()).unwrap();
    let types: Vec<&str> = text.lines().filter(|line| line.starts_with("# TYPE")).collect();
    let unique: std::collections::BTreeSet<&&str> = types.iter().collect();
    assert_eq!(types.len(), unique.len(), "{text}");
    assert!(!text.contains("host_controllers"), "{text}");
}

/// Names of the form `nvmfd_…` in a text.
fn names(text: &str) -> std::collections::BTreeSet<&str> {
    text.split(|c: char| !c.is_ascii_lowercase() && c != '_')
        .filter(|word| word.starts_with("nvmfd_"))
        .collect()
}

#[test]
fn dashboard_and_alerts_ask_for_metrics_that_there_are() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../config/monitoring");
    let mut shown = Shown::default();
    shown.failures.push((INVALID, 1));
    shown.disks.push(DiskStats { id: BackingId(0), in_flight: 0, latency: Latency::default() });
    let mut picture = picture();
    picture.connections.push(crate::status::Connection {
        subsystem: "nqn.a".into(),
        cntlid: 1,
        host: "nqn.h".into(),
        hostid: String::new(),
        peer: String::new(),
        port: 1,
        discovery: false,
        ready: true,
        kato_ms: 0,
        silent_ms: 0,
        admin_errors: 0,
        io_queues: 1,
        io_commands: 1,
        io: Io::default(),
        admin_commands: 1,
    });
    let text = text(picture.into(), vec![shown]).unwrap();
    let there = names(&text);
    for file in ["grafana.json", "alerts.yml"] {
        let asked = std::fs::read_to_string(folder.join(file)).unwrap();
        assert!(names(&asked).len() > 5);
        for name in names(&asked) {
            assert!(there.contains(name), "{file} asks for {name}");
        }
    }
}
