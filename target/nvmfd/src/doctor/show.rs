//! Findings for people and for programs.

use super::finding::{Finding, Level};
use crate::config::some;
use serde::Serialize;
use std::io::IsTerminal;

/// What `--json` prints.
#[derive(Debug, Serialize)]
struct Findings<'a, T> {
    worst: Level,
    findings: &'a [Finding],
    #[serde(skip_serializing_if = "Option::is_none")]
    measured: Option<T>,
}

/// The worst of them.
pub(crate) fn worst(findings: &[Finding]) -> Level {
    findings.iter().map(|finding| finding.level).max().unwrap_or(Level::Ok)
}

pub(crate) fn json(findings: &[Finding]) -> String {
    json_of(&Findings { worst: worst(findings), findings, measured: None::<()> })
}

/// With figures beside, where there are any.
pub(crate) fn json_with(findings: &[Finding], measured: Option<&impl Serialize>) -> String {
    json_of(&Findings { worst: worst(findings), findings, measured })
}

fn json_of(all: &impl Serialize) -> String {
    let text = serde_json::to_string_pretty(all).expect("findings are plain values");
    format!("{text}\n")
}

/// Whether standard output is for eyes that like colours.
pub(crate) fn wants_colour() -> bool {
    std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none()
}

/// One line for each, and one below it for what mends it; `colour` for terminals that have it.
pub(crate) fn text(findings: &[Finding], colour: bool) -> String {
    let width = findings.iter().map(|finding| finding.about.len()).max().unwrap_or(0);
    let mut text = String::new();
    for Finding { level, about, says, mend } in findings {
        let word = format!("{:<7}", level.word());
        let word = if colour { painted(*level, &word) } else { word };
        text.push_str(&format!("{word}  {about:<width$}  {says}\n"));
        if let Some(mend) = mend {
            let indent = " ".repeat(7 + 2 + width + 2);
            text.push_str(&format!("{indent}-> {mend}\n"));
        }
    }
    let count = |level| findings.iter().filter(|finding| finding.level == level).count();
    let counts = [(Level::Fault, "fault"), (Level::Warning, "warning"), (Level::Note, "note")]
        .map(|(level, name)| some(count(level), name));
    text.push_str(&format!("{}\n", counts.join(", ")));
    text
}

fn painted(level: Level, word: &str) -> String {
    let code = match level {
        Level::Ok => 32,
        Level::Note => 36,
        Level::Warning => 33,
        Level::Fault => 31,
    };
    format!("\x1b[{code}m{word}\x1b[0m")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two() -> [Finding; 2] {
        [
            Finding::ok("kernel", "Linux 6.12"),
            Finding::fault("link", "eth0 is down").mend("ip link set eth0 up"),
        ]
    }

    #[test]
    fn what_mends_stands_below_what_it_mends() {
        let expected = "ok       kernel  Linux 6.12\n\
                        fault    link    eth0 is down\n\
                        \x20                -> ip link set eth0 up\n\
                        1 fault, 0 warnings, 0 notes\n";
        assert_eq!(text(&two(), false), expected);
        assert!(text(&two(), true).starts_with("\x1b[32mok     \x1b[0m  kernel"));
    }

    #[test]
    fn programs_are_told_the_worst_first() {
        let said: serde_json::Value = serde_json::from_str(&json(&two())).unwrap();
        assert_eq!(said["worst"], "fault");
        assert_eq!(said["findings"][0].get("mend"), None);
        assert_eq!(said["findings"][1]["mend"], "ip link set eth0 up");
    }
}
