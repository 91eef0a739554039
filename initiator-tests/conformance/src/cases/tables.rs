//! What the tables of `docs/compliance.md` say is offered and refused, asked of the target row by row.
//! What a row does is another case's business: here it is there, or it is refused as the table says.

use super::{Case, cases, with_session};
use crate::{Place, Session};
use initiator::commands;
use nvme_spec_types::{Command, Completion, StatusCode};

pub(super) const CASES: &[Case] = cases![
    admin_commands_are_offered_and_refused_as_the_table_says,
    io_commands_are_offered_and_refused_as_the_table_says,
    identify_structures_are_offered_and_refused_as_the_table_says,
    log_pages_are_offered_and_refused_as_the_table_says,
    features_are_offered_and_refused_as_the_table_says,
];

const TABLES: &str = include_str!("../../../../docs/compliance.md");
/// Asynchronous Event Request: its answer is an event, and may never come.
const ASYNC_EVENT_REQUEST: u8 = 0x0c;

/// The Identify structure that is of a controller by its id.
const IO_COMMAND_SETS: u8 = 0x1c;

/// The numbers of a table's rows, and whether a controller for I/O offers them.
fn rows(title: &str) -> Vec<(u8, bool)> {
    let heading = format!("\n## {title}\n");
    let (_, after) = TABLES.split_once(&heading).expect("a table of that title");
    let table = after.split("\n## ").next().unwrap_or_default();
    let table = table.split("\n### ").next().unwrap_or_default();
    let row = |line: &str| {
        let mut cells = line.strip_prefix("| ")?.split('|').map(str::trim);
        let number = u8::from_str_radix(cells.next()?.strip_suffix('h')?, 16).ok()?;
        let who = cells.nth(1)?;
        Some((number, who == "all" || who.contains("I/O")))
    };
    let rows: Vec<(u8, bool)> = table.lines().filter_map(row).collect();
    assert!(rows.iter().any(|row| row.1) && rows.iter().any(|row| !row.1), "{title}: {rows:?}");
    rows
}

/// Asks for each row: those that are offered do not end as those that are refused do.
fn check(title: &str, refused: StatusCode, mut ask: impl FnMut(u8) -> Completion) {
    for (number, offered) in rows(title) {
        let status = ask(number).status;
        let good =
            if offered { status.code != refused } else { status.code == refused && status.dnr };
        assert!(good, "{title}, {number:02x}h, offered {offered}: {status}");
    }
}

/// A command of this opcode for namespace 1, and nothing else in it.
fn bare(opcode: u8) -> Command {
    let mut bytes = *commands::read(1, 0, 1, false).as_bytes();
    bytes[0] = opcode;
    bytes[40..].fill(0);
    Command::from_bytes(bytes)
}

fn admin_commands_are_offered_and_refused_as_the_table_says(place: &dyn Place) {
    with_session(place, |s| {
        check("Admin commands", StatusCode::INVALID_OPCODE, |opcode| match opcode {
            ASYNC_EVENT_REQUEST => Completion::default(),
            _ => s.admin_in(bare(opcode), 4096).0,
        });
        s.assert_alive();
    });
}

fn io_commands_are_offered_and_refused_as_the_table_says(place: &dyn Place) {
    with_session(place, |s| {
        check("I/O commands", StatusCode::INVALID_OPCODE, |opcode| {
            let buffer = s.buffer(4096, 0);
            s.io(bare(opcode), buffer)
        });
        s.assert_alive();
    });
}

/// That each row which is offered succeeds, too.
fn succeeds(title: &str, mut ask: impl FnMut(u8) -> Completion) {
    for (number, _) in rows(title).into_iter().filter(|row| row.1) {
        let completion = ask(number);
        assert!(completion.status.is_success(), "{title}, {number:02x}h: {}", completion.status);
    }
}

fn identify_structures_are_offered_and_refused_as_the_table_says(place: &dyn Place) {
    with_session(place, |s| {
        // Lists begin behind the id that is given, and some structures are of no namespace.
        let nsid =
            |cns| u32::from(!matches!(cns, 0x01 | 0x02 | 0x06 | 0x07 | 0x10 | 0x13 | 0x1a | 0x1c));
        let ask = |s: &mut Session, cns| {
            let mut command = commands::identify(cns, nsid(cns));
            if cns == IO_COMMAND_SETS {
                command.set_cdw10(u32::from(cns) | u32::from(s.cntlid) << 16);
            }
            s.admin_in(command, 4096).0
        };
        check("Identify structures", StatusCode::INVALID_FIELD, |cns| ask(s, cns));
        succeeds("Identify structures", |cns| ask(s, cns));
    });
}

fn log_pages_are_offered_and_refused_as_the_table_says(place: &dyn Place) {
    with_session(place, |s| {
        let ask = |s: &mut Session, lid| {
            s.admin_in(commands::get_log_page(lid, u32::MAX, 0, 64, true), 64).0
        };
        check("Log pages", StatusCode::INVALID_LOG_PAGE, |lid| ask(s, lid));
        succeeds("Log pages", |lid| ask(s, lid));
    });
}

fn features_are_offered_and_refused_as_the_table_says(place: &dyn Place) {
    const ERROR_RECOVERY: u8 = 0x05;
    const HOST_IDENTIFIER: u8 = 0x81;
    with_session(place, |s| {
        let ask = |s: &mut Session, fid| {
            let mut command = commands::get_features(fid);
            command.set_nsid(u32::from(fid == ERROR_RECOVERY));
            command.set_cdw11(u32::from(fid == HOST_IDENTIFIER)); // of 128 bits
            s.admin_in(command, 4096).0
        };
        check("Features", StatusCode::INVALID_FIELD, |fid| ask(s, fid));
        succeeds("Features", |fid| ask(s, fid));
    });
}
