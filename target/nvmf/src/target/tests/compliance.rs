//! `docs/compliance.md` says what a target answers: every row is asked for, and what has no row.

use super::*;
use crate::queue::{Action, Queue, QueueConfig, RecvToken};
use nvme_spec_types::identify::{Cns, Identify, IdentifyController};
use nvme_spec_types::log::GetLogPage;
use nvme_spec_types::{FabricsType, FeatureId, FeatureSelect, IoOpcode, LogId};
use nvme_spec_types::{feature::GetFeatures, status::StatusCode};

const PAGE: &str = include_str!("../../../../../docs/compliance.md");

/// The cells of the rows of a table.
fn table(heading: &str) -> Vec<Vec<&'static str>> {
    let mut sections = PAGE.split("\n## ");
    let section = sections.find(|s| s.lines().next() == Some(heading));
    let section = section.unwrap_or_else(|| panic!("no section {heading:?}"));
    let rows = section.lines().filter(|line| line.starts_with('|')).skip(2);
    rows.map(|line| line.trim_matches('|').split('|').map(str::trim).collect()).collect()
}

/// Asserts that a table offers exactly what a target does not refuse, and has a row for each number
/// with a name. `refused` asks a controller of that kind.
fn assert_in_step(
    heading: &str,
    named: impl Fn(u8) -> bool,
    mut refused: impl FnMut(Kind, u8) -> bool,
) {
    let rows = table(heading);
    for number in 0..=255 {
        let key = format!("{number:02X}h");
        let mut found = rows.iter().filter(|row| row[0] == key);
        let who = found.next().map(|row| row[2]);
        assert_eq!(found.next(), None, "{heading}: {key} has two rows");
        assert!(who.is_some() || !named(number), "{heading}: {key} has no row");
        let (io, discovery) = match who {
            Some("all") => (true, true),
            Some("I/O") => (true, false),
            Some("discovery") => (false, true),
            Some("refused") | None => (false, false),
            Some(other) => panic!("{heading}: {key} is for {other:?}"),
        };
        assert_eq!(!refused(Kind::Io, number), io, "{heading}: {key} of an I/O controller");
        let offered = !refused(Kind::Discovery, number);
        assert_eq!(offered, discovery, "{heading}: {key} of a discovery controller");
    }
}

/// A controller of each kind that answers one command after another.
struct Asked {
    bench: Bench,
    io: QueueKey,
    discovery: QueueKey,
}

impl Asked {
    fn new() -> Asked {
        let mut bench = Bench::new();
        let (io, _) = bench.ready();
        let (discovery, _) = bench.ready_discovery(0);
        Asked { bench, io, discovery }
    }

    fn queue(&self, kind: Kind) -> QueueKey {
        match kind {
            Kind::Io => self.io,
            Kind::Discovery => self.discovery,
        }
    }

    /// The status of a command; of one that is held, success.
    fn code(&mut self, kind: Kind, command: &Command) -> StatusCode {
        let queue = self.queue(kind);
        let slot = self.bench.feed(queue, command, &[]);
        self.bench.answer(queue, slot).map_or(StatusCode::SUCCESS, |outcome| outcome.status.code)
    }
}

#[test]
fn the_table_of_admin_commands_is_in_step() {
    assert_in_step(
        "Admin commands",
        |opcode| AdminOpcode(opcode).name().is_some() && opcode != AdminOpcode::FABRICS.0,
        |kind, opcode| {
            let opcode = AdminOpcode(opcode);
            let command = admin_command(opcode, 1);
            // Fabrics commands have a table of their own.
            opcode == AdminOpcode::FABRICS
                || Asked::new().code(kind, &command) == StatusCode::INVALID_OPCODE
        },
    );
}

#[test]
fn the_table_of_fabrics_commands_is_in_step() {
    assert_in_step(
        "Fabrics commands",
        |fctype| FabricsType(fctype).name().is_some(),
        |kind, fctype| {
            // Disconnect is for I/O queues, which a discovery controller does not have.
            if (kind, fctype) == (Kind::Discovery, FabricsType::DISCONNECT.0) {
                return true;
            }
            let command = Command::fabrics(FabricsType(fctype), 1, SglDescriptor::NO_DATA);
            Asked::new().code(kind, &command) == StatusCode::INVALID_OPCODE
        },
    );
}

#[test]
fn the_table_of_io_commands_is_in_step() {
    let mut bench = Bench::new();
    let (_, cntlid) = bench.ready();
    let queue = bench.open_with(1, 128, cntlid);
    bench.connect(queue, &io_connect(1), &connect_data(SUBNQN, cntlid)).unwrap();
    let bound = bench.out.drain(..).find_map(|action| match action {
        TargetAction::Bind { binding, .. } => Some(binding),
        _ => None,
    });
    let binding = bound.expect("a binding");
    assert_in_step(
        "I/O commands",
        |opcode| IoOpcode(opcode).name().is_some() && opcode != IoOpcode::FABRICS.0,
        |kind, opcode| {
            // A discovery controller has no I/O queues.
            if kind == Kind::Discovery || opcode == IoOpcode::FABRICS.0 {
                return true;
            }
            let mut io = Queue::new(QueueConfig {
                qid: 1,
                sq_entries: 4,
                in_capsule: 4096,
                max_transfer: 1 << 20,
                core: 0,
            });
            io.on_bind(binding.clone());
            let command = Command::io(IoOpcode(opcode), 1, 1, SglDescriptor::NO_DATA);
            let mut out = Vec::new();
            let _ = io.on_capsule(command.as_bytes(), 64, RecvToken(0), &mut out);
            out.iter().any(|action| match action {
                Action::Respond { completion, .. } => {
                    completion.status.code == StatusCode::INVALID_OPCODE
                }
                _ => false,
            })
        },
    );
}

#[test]
fn the_table_of_identify_structures_is_in_step() {
    let mut asked = Asked::new();
    assert_in_step(
        "Identify structures",
        |cns| Cns(cns).name().is_some(),
        |kind, cns| {
            // Namespace 1 and controller 1 are there.
            let identify = Identify { cns: Cns(cns), nsid: 1, cntid: 1, ..Identify::default() };
            let command = identify.to_command(1, SglDescriptor::NO_DATA);
            asked.code(kind, &command) == StatusCode::INVALID_FIELD
        },
    );
}

#[test]
fn the_table_of_log_pages_is_in_step() {
    let mut asked = Asked::new();
    assert_in_step(
        "Log pages",
        |lid| LogId(lid).name().is_some(),
        |kind, lid| {
            let get = GetLogPage { lid: LogId(lid), ..GetLogPage::default() };
            let command = get.to_command(1, SglDescriptor::NO_DATA);
            asked.code(kind, &command) == StatusCode::INVALID_LOG_PAGE
        },
    );
}

#[test]
fn the_table_of_features_is_in_step() {
    let mut asked = Asked::new();
    assert_in_step(
        "Features",
        |fid| FeatureId(fid).name().is_some(),
        |kind, fid| {
            let (fid, sel) = (FeatureId(fid), FeatureSelect::CAPABILITIES);
            let get = GetFeatures { nsid: 0, fid, sel, cdw11: 0, uuid_index: 0 };
            let command = get.to_command(1, SglDescriptor::NO_DATA);
            asked.code(kind, &command) == StatusCode::INVALID_FIELD
        },
    );
}

#[test]
fn the_table_of_events_is_in_step() {
    let mut asked = Asked::new();
    assert_in_step(
        "Asynchronous events",
        |bit| (8..=19).contains(&bit) || [27, 31].contains(&bit),
        |kind, bit| {
            let identify = Identify { cns: Cns::CONTROLLER, ..Identify::default() };
            let command = identify.to_command(1, SglDescriptor::NO_DATA);
            let queue = asked.queue(kind);
            let data = asked.bench.run(queue, &command, &[]).data;
            let oaes = IdentifyController::parse(&data).unwrap().oaes.bits();
            oaes.checked_shr(bit.into()).unwrap_or(0) & 1 == 0
        },
    );
}

/// Asserts that every byte of a structure that is not zero belongs to the row before it: the last
/// one that does not start behind it.
fn assert_fields(heading: &str, structures: &[Vec<u8>]) {
    let rows = table(heading);
    let starts: Vec<usize> = rows.iter().map(|row| row[0].parse().expect("a byte")).collect();
    assert!(starts.is_sorted(), "{heading}: rows are in the order of their bytes");
    for data in structures {
        for (at, _) in data.iter().enumerate().filter(|(_, byte)| **byte != 0) {
            let before = starts.iter().rposition(|&start| start <= at);
            let row = before.unwrap_or_else(|| panic!("{heading}: byte {at} has no row"));
            assert!(!rows[row][2].starts_with("zero"), "{heading}: byte {at} is not zero");
            let reach = at - starts[row];
            assert!(reach < 256, "{heading}: byte {at} is far behind the row {:?}", rows[row][1]);
        }
    }
    for (row, &start) in rows.iter().zip(&starts).filter(|(row, _)| !row[2].starts_with("zero")) {
        let end = starts.iter().find(|&&next| next > start).map_or(4096, |&next| next);
        let said = structures.iter().any(|data| data[start..end].iter().any(|&byte| byte != 0));
        assert!(said, "{heading}: {:?} is zero", row[1]);
    }
}

#[test]
fn the_tables_of_identify_fields_are_in_step() {
    let mut asked = Asked::new();
    let config = NamespaceConfig {
        read_only: true,
        nguid: [3; 16],
        eui64: [4; 8],
        atomic_blocks: 8,
        optimal_blocks: 8,
        ..namespace_config(2)
    };
    asked.bench.target.add_namespace(asked.bench.subsystem, config, &mut asked.bench.out).unwrap();
    let mut data = |kind, cns, nsid| {
        let identify = Identify { cns, nsid, ..Identify::default() };
        let queue = asked.queue(kind);
        asked.bench.run(queue, &identify.to_command(1, SglDescriptor::NO_DATA), &[]).data
    };
    let controllers =
        [data(Kind::Io, Cns::CONTROLLER, 0), data(Kind::Discovery, Cns::CONTROLLER, 0)];
    assert_fields("Fields of Identify Controller", &controllers);
    let namespaces = [data(Kind::Io, Cns::NAMESPACE, 1), data(Kind::Io, Cns::NAMESPACE, 2)];
    assert_fields("Fields of Identify Namespace", &namespaces);
}
