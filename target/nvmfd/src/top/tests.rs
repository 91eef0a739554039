use super::*;
use crate::http::{Core, Stages, Status};
use crate::status::{Connection, Io, Namespace};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use serde_json::json;

fn namespace(nsid: u32, reads: u64) -> Namespace {
    let io = Io { reads, read_bytes: reads * 4096, ..Io::default() };
    serde_json::from_value(json!({ "subsystem": "nqn.a", "nsid": nsid, "medium": "ram", "block_size": 512,
        "size": 1 << 30, "read_only": false, "uuid": "", "limit": null, "trouble": null, "io": io }))
    .unwrap()
}

fn answers(first: u64, second: u64) -> Answers {
    let namespaces = vec![namespace(1, first), namespace(2, second)];
    let io = Io { reads: first + second, ..Io::default() };
    let status: Status = serde_json::from_value(json!({ "version": "9.9", "commit": "", "pid": 1,
        "config": "", "uptime": 12.5, "age": 0.0, "troubles": [], "subsystems": 1, "namespaces": 2, "connections": 1,
        "queues": 3, "listeners_up": 1, "listeners_down": 1, "data_cores": 1, "io": io }))
    .unwrap();
    let host: Connection = serde_json::from_value(json!({ "subsystem": "nqn.a", "cntlid": 1,
        "host": "nqn.host", "hostid": "", "peer": "10.0.0.2:1", "port": 1, "discovery": false,
        "ready": true, "kato_ms": 5000, "silent_ms": 20, "admin_errors": 0, "io_queues": 2,
        "io_commands": first, "io": io, "admin_commands": 9 }))
    .unwrap();
    let mut core = json!({ "core": 0, "queues": 1, "transfer_bytes": 4096 });
    for count in [
        "turns",
        "busy_turns",
        "capsules",
        "responses",
        "rdma_reads",
        "rdma_writes",
        "disk_operations",
        "disk_errors",
        "buffer_waits",
        "read_waits",
        "send_waits",
        "faults",
        "refused",
        "disk_times",
        "disk_ns",
        "packets_resent",
        "receive_bytes",
    ] {
        core[count] = 0.into();
    }
    core["command_us"] = 0.0.into();
    core["disk_us"] = 0.0.into();
    core["stages"] = serde_json::to_value(Stages::default()).unwrap();
    core["capsules"] = first.into();
    core["command_times"] = first.into();
    core["command_ns"] = (first * 30_000).into();
    let core: Core = serde_json::from_value(core).unwrap();
    Answers { status, namespaces, connections: vec![host], cores: vec![core] }
}

fn screen(view: &View, sample: &Sample) -> Vec<String> {
    screen_of(120, view, sample)
}

fn screen_of(columns: u16, view: &View, sample: &Sample) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(columns, 24)).unwrap();
    terminal.draw(|frame| view.draw(frame, sample)).unwrap();
    let buffer = terminal.backend().buffer().clone();
    let rows = buffer.content.chunks(columns.into());
    rows.map(|row| row.iter().map(|cell| cell.symbol()).collect()).collect()
}

fn two_seconds_later() -> Sample {
    let start = Instant::now();
    let first = Sample::first(answers(1000, 10), start);
    first.next(answers(5000, 10), start + Duration::from_secs(2))
}

/// The line with these words, whatever is between them.
fn place(screen: &[String], text: &str) -> usize {
    let words = |line: &String| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let found = screen.iter().position(|line| words(line).contains(text));
    found.unwrap_or_else(|| panic!("no {text} in\n{}", screen.join("\n")))
}

#[test]
fn rates_are_told_for_a_second() {
    let screen = screen(&View::default(), &two_seconds_later());
    assert!(screen[0].contains("listeners DOWN: 1  2.0k commands/s"), "{}", screen[0]);
    let row = &screen[place(&screen, "nqn.a 1")];
    assert!(row.contains("2.0k") && row.contains("7.8 MiB"), "{row}");
    let row = &screen[place(&screen, "nqn.host")];
    assert!(row.contains("2.0k") && row.contains("20.0 ms"), "{row}");
    let row = &screen[place(&screen, "0 control")];
    assert!(row.contains("30 µs"), "{row}");
}

#[test]
fn the_first_screen_has_no_rates() {
    let screen = screen(&View::default(), &Sample::first(answers(1000, 10), Instant::now()));
    assert!(screen[0].contains("0 commands/s"), "{}", screen[0]);
}

#[test]
fn tables_are_sorted_by_the_chosen_column_and_reversed() {
    let mut view = View::default();
    let sample = two_seconds_later();
    let first_is = |view: &View, nsid: &str, other: &str| {
        let screen = screen(view, &sample);
        place(&screen, &format!("nqn.a {nsid}")) < place(&screen, &format!("nqn.a {other}"))
    };
    for _ in 0..3 {
        view.next_order();
    }
    assert!(first_is(&view, "1", "2"), "by reads");
    view.reverse();
    assert!(first_is(&view, "2", "1"));
    view.next_table();
    view.reverse();
    assert!(first_is(&view, "2", "1"), "the keys are for another table now");
}

#[test]
fn a_small_terminal_is_no_fault() {
    let mut terminal = Terminal::new(TestBackend::new(8, 3)).unwrap();
    let sample = two_seconds_later();
    terminal.draw(|frame| View::default().draw(frame, &sample)).unwrap();
}

#[test]
fn names_are_whole_where_there_is_room_and_keep_their_ends_where_there_is_not() {
    let nqn = "nqn.2026-11.io.nvmfd:databases";
    let host = "nqn.2014-08.org.nvmexpress:uuid:0bd8bd7c-30c9-44a4-8b0f-0c7d3e3f9a11";
    let mut answers = answers(1000, 10);
    answers.namespaces.iter_mut().for_each(|ns| ns.subsystem = nqn.to_owned());
    answers.connections[0].host = host.to_owned();
    answers.connections[0].subsystem = nqn.to_owned();
    let sample = Sample::first(answers, Instant::now());
    let narrow = screen_of(100, &View::default(), &sample);
    place(&narrow, &format!("{nqn} 1 "));
    place(&narrow, "WRITTEN/s ERRORS");
    // Numbers are whole, and of the name its ends.
    let row = &narrow[place(&narrow, "10.0.0.2:1")];
    assert!(
        row.contains("3f9a11  ") && row.contains("│nqn.2014") && row.contains("20.0 ms"),
        "{row}"
    );
    let wide = screen_of(160, &View::default(), &sample);
    place(&wide, host);
}
