//! The table of what is offered names files and tests: are they there?
//!
//! In: the page, and every file of the tree. Out: [`Offence`]s. Whether the table says the truth is
//! for the tests of the controller.

use std::collections::BTreeSet;

use super::Offence;

/// The page.
pub(super) const PAGE: &str = "docs/compliance.md";

/// What its paths start at, unless they start at the root.
const SOURCES: &str = "target/nvmf/src/";

/// Where cases with a Linux host are.
const CASES: &str = "initiator-tests/linux/cases/";

/// What the page may name.
#[derive(Debug, Default)]
pub(super) struct Known {
    paths: BTreeSet<String>,
    tests: BTreeSet<String>,
}

impl Known {
    /// Takes in a file: its path, and the functions and cases that may be tests.
    pub(super) fn note(&mut self, path: &str, text: &str) {
        self.paths.insert(path.to_owned());
        if let Some(case) = path.strip_prefix(CASES).and_then(|name| name.strip_suffix(".sh")) {
            self.tests.insert(case.to_owned());
        }
        if path.ends_with(".rs") {
            for after in text.split("fn ").skip(1) {
                let end = after.find(|c: char| !c.is_alphanumeric() && c != '_');
                self.tests.insert(after[..end.unwrap_or(after.len())].to_owned());
            }
        }
    }

    fn has(&self, name: &str) -> bool {
        if name.ends_with(".rs") {
            self.paths.contains(name) || self.paths.contains(&format!("{SOURCES}{name}"))
        } else {
            self.tests.contains(name)
        }
    }
}

/// Finds what the page names between backquotes and is not there: paths end with .rs, anything else
/// without a slash is a test. What holds a space (a command line) or is a folder is left alone.
pub(super) fn check(page: &str, known: &Known) -> Vec<Offence> {
    let mut offences = Vec::new();
    for (number, line) in page.lines().enumerate() {
        for name in line.split('`').skip(1).step_by(2) {
            let is_name = !name.contains(' ') && (!name.contains('/') || name.ends_with(".rs"));
            if is_name && !known.has(name) {
                offences.push(Offence {
                    place: format!("{PAGE}:{}", number + 1),
                    what: format!("{name} is not there"),
                    instead: "name the file (below target/nvmf/src) or the test as it is called now",
                });
            }
        }
    }
    offences
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_and_tests_that_are_not_there_are_found() {
        let mut known = Known::default();
        known.note("target/nvmf/src/queue/io.rs", "#[test]\nfn a_read_is_read() {}\n");
        known.note("target/nvmf/src/nsid.rs", "");
        known.note("initiator-tests/linux/cases/ext4.sh", "");
        let good = "| `nsid.rs`, `queue/io.rs` | `a_read_is_read`, `ext4` |\n`cargo xtask tidy`\n";
        assert_eq!(check(good, &known), []);
        let bad = "\n| `queue/oi.rs` | `a_read_is_lost` |\n";
        let found: Vec<String> = check(bad, &known).iter().map(Offence::to_string).collect();
        assert!(
            found[0].starts_with("docs/compliance.md:2: queue/oi.rs is not there"),
            "{found:?}"
        );
        assert!(found[1].starts_with("docs/compliance.md:2: a_read_is_lost"), "{found:?}");
    }
}
