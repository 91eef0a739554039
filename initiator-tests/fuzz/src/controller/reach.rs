//! What an input reached, as numbers, and what they say in words.

use nvme_spec_types::feature::{GetFeatures, SetFeatures};
use nvme_spec_types::identify::Identify;
use nvme_spec_types::log::GetLogPage;
use nvme_spec_types::{AdminOpcode, Command, FabricsType, IoOpcode, StatusCode};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// Kinds of number, in the highest four bits.
const ANSWER: u32 = 1;
const DETAIL: u32 = 2;
const EVENT: u32 = 3;
const CHANGE: u32 = 4;
const END: u32 = 5;
const REFUSAL: u32 = 6;
const DEPTH: u32 = 7;

/// The numbers that one input reached.
#[derive(Debug, Default)]
pub(super) struct Reached(BTreeSet<u32>);

/// Which command it is: 0 to 255 on an admin queue, 256 to 511 on an I/O queue, then Fabrics.
fn which(on_io_queue: bool, command: &Command) -> u32 {
    match command.fabrics_type() {
        Some(fctype) => 512 + u32::from(fctype.0),
        None => u32::from(on_io_queue) << 8 | u32::from(command.opcode()),
    }
}

impl Reached {
    fn note(&mut self, kind: u32, what: u32) {
        self.0.insert(kind << 28 | what & 0x0fff_ffff);
    }

    /// A command was answered so.
    pub(super) fn answer(&mut self, on_io_queue: bool, command: &Command, status: StatusCode) {
        let which = which(on_io_queue, command);
        self.note(ANSWER, which << 12 | u32::from(status.raw()));
        if on_io_queue || command.fabrics_type().is_some() {
            return;
        }
        let (kind, part) = match command.admin_opcode() {
            AdminOpcode::IDENTIFY => (0, Identify::from_command(command).cns.0),
            AdminOpcode::GET_LOG_PAGE => (1, GetLogPage::from_command(command).lid.0),
            AdminOpcode::GET_FEATURES => {
                let get = GetFeatures::from_command(command);
                (3 + u32::from(get.sel.0), get.fid.0)
            }
            AdminOpcode::SET_FEATURES => (2, SetFeatures::from_command(command).fid.0),
            _ => return,
        };
        self.note(DETAIL, kind << 20 | u32::from(part) << 12 | u32::from(status.raw()));
    }

    /// A queue was told or asked this about a command.
    pub(super) fn event(&mut self, event: u32, on_io_queue: bool, command: &Command) {
        self.note(EVENT, event << 12 | which(on_io_queue, command));
    }

    /// The configuration was changed in this way, or was not.
    pub(super) fn change(&mut self, change: u32, done: bool) {
        self.note(CHANGE, change << 1 | u32::from(done));
    }

    /// A queue ended for this reason.
    pub(super) fn end(&mut self, reason: &str) {
        let digits = |c: char| c.is_ascii_digit();
        let sum = reason
            .chars()
            .filter(|c| !digits(*c))
            .fold(0, |sum: u32, c| sum.wrapping_mul(31).wrapping_add(c.into()));
        self.note(END, sum);
    }

    /// A connect request was refused so.
    pub(super) fn refusal(&mut self, status: u16) {
        self.note(REFUSAL, status.into());
    }

    /// So many of something are there at a time.
    pub(super) fn depth(&mut self, of: u32, count: usize) {
        self.note(DEPTH, of << 8 | count.checked_ilog2().map_or(0, |log| log + 1));
    }

    pub(super) fn into_numbers(self) -> Vec<u32> {
        self.0.into_iter().collect()
    }
}

/// Which commands were answered how, a line for each.
pub(super) fn summary(numbers: &[u32]) -> String {
    let mut answers: BTreeMap<u32, Vec<String>> = BTreeMap::new();
    let mut kinds: BTreeMap<u32, usize> = BTreeMap::new();
    for &number in numbers {
        *kinds.entry(number >> 28).or_default() += 1;
        if number >> 28 == ANSWER {
            let (which, status) = (number >> 12 & 0xffff, number & 0x7ff);
            let code = StatusCode::new((status >> 8) as u8, status as u8);
            answers.entry(which).or_default().push(code.to_string());
        }
    }
    let mut text = String::new();
    let total: usize = answers.values().map(Vec::len).sum();
    let _ = writeln!(text, "{} commands answered in {total} ways:", answers.len());
    let mut unknown = (0, BTreeSet::new());
    for (which, statuses) in answers {
        let code = which as u8;
        let (queue, name) = match which >> 8 {
            0 => ("admin", AdminOpcode(code).name()),
            1 => ("I/O", IoOpcode(code).name()),
            _ => ("Fabrics", FabricsType(code).name()),
        };
        match name {
            Some(name) => {
                let _ = writeln!(text, "  {queue} {name}: {}", statuses.join(", "));
            }
            None => {
                unknown.0 += 1;
                unknown.1.extend(statuses);
            }
        }
    }
    let statuses: Vec<_> = unknown.1.into_iter().collect();
    let _ = writeln!(text, "  {} without a name: {}", unknown.0, statuses.join(", "));
    let names = [
        (DETAIL, "Identify structures, log pages and features by status"),
        (EVENT, "events and actions by command"),
        (CHANGE, "changes of the configuration by outcome"),
        (END, "reasons of ended connections"),
        (REFUSAL, "reasons of refused connections"),
    ];
    for (kind, name) in names {
        let _ = writeln!(text, "{} {name}", kinds.get(&kind).copied().unwrap_or(0));
    }
    text
}
