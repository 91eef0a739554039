//! What is wrong with a configuration file, told so that it can be put right.

use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    /// Bytes of the file that it is about, if it is about a place.
    pub(crate) at: Option<Range<usize>>,
    /// What is wrong, with the key first.
    pub(crate) what: String,
    /// What to do about it.
    pub(crate) hint: Option<String>,
}

/// Why a configuration cannot be used: everything that was found, in the order of the file.
#[derive(Debug)]
pub(crate) struct ConfigErrors {
    /// None where the text is no file's.
    path: Option<PathBuf>,
    text: String,
    problems: Vec<Problem>,
}

impl Problem {
    pub(crate) fn at(at: Range<usize>, what: impl Into<String>) -> Problem {
        Problem { at: Some(at), what: what.into(), hint: None }
    }

    pub(crate) fn nowhere(what: impl Into<String>) -> Problem {
        Problem { at: None, what: what.into(), hint: None }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Problem {
        self.hint = Some(hint.into());
        self
    }
}

impl ConfigErrors {
    pub(crate) fn new(path: &Path, text: &str, mut problems: Vec<Problem>) -> ConfigErrors {
        problems.sort_by_key(|problem| problem.at.as_ref().map_or(usize::MAX, |at| at.start));
        ConfigErrors { path: Some(path.to_owned()), text: text.to_owned(), problems }
    }

    /// Without places: for a text that nobody has seen, as the file with a change made.
    pub(crate) fn without_places(self) -> ConfigErrors {
        ConfigErrors { path: None, ..self }
    }
}

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, problem) in self.problems.iter().enumerate() {
            if n > 0 {
                writeln!(f)?;
            }
            if let Some(path) = &self.path {
                write!(f, "{}", path.display())?;
                if let Some(at) = &problem.at {
                    let (line, column) = line_column(&self.text, at.start);
                    write!(f, ":{line}:{column}")?;
                }
                f.write_str(": ")?;
            }
            f.write_str(&problem.what)?;
            if let Some(hint) = &problem.hint {
                write!(f, "\n  hint: {hint}")?;
            }
        }
        Ok(())
    }
}

impl std::error::Error for ConfigErrors {}

/// Line and column, both from 1, the column in characters.
pub(crate) fn line_column(text: &str, at: usize) -> (usize, usize) {
    let before = &text.as_bytes()[..at.min(text.len())];
    let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
    let start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |newline| newline + 1);
    let column = String::from_utf8_lossy(&before[start..]).chars().count() + 1;
    (line, column)
}

/// Turns what the parser says into a problem.
pub(crate) fn from_parser(error: &toml::de::Error) -> Problem {
    let message = error.message().lines().collect::<Vec<_>>().join("; ");
    Problem { at: error.span(), what: message, hint: None }
}

/// The known word that is at most a third of its letters away.
pub(super) fn nearest<'a>(wrong: &str, known: &[&'a str]) -> Option<&'a str> {
    known
        .iter()
        .map(|word| (distance(wrong, word), *word))
        .filter(|(distance, word)| *distance <= word.len().max(wrong.len()).div_ceil(3))
        .min()
        .map(|(_, word)| word)
}

/// Edits (insert, delete, replace) between two words.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(row[j + 1] + 1);
        }
    }
    row[b.len()]
}
