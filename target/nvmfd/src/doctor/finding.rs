//! What the doctor says.

use serde::Serialize;

/// How bad it is, by rising weight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Level {
    /// As it should be.
    Ok,
    /// Works, and good to know.
    Note,
    /// Works, worse than it could.
    Warning,
    /// Something that is configured will not work.
    Fault,
}

impl Level {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Level::Ok => "ok",
            Level::Note => "note",
            Level::Warning => "warning",
            Level::Fault => "fault",
        }
    }
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Finding {
    pub(crate) level: Level,
    /// What it is about, in a word.
    pub(crate) about: &'static str,
    /// What was found, and what that means.
    pub(crate) says: String,
    /// The command that mends it, ready to be typed; else what to do, where no command can.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) mend: Option<String>,
}

impl Finding {
    pub(crate) fn new(level: Level, about: &'static str, says: impl Into<String>) -> Finding {
        Finding { level, about, says: says.into(), mend: None }
    }

    pub(crate) fn ok(about: &'static str, says: impl Into<String>) -> Finding {
        Finding::new(Level::Ok, about, says)
    }

    pub(crate) fn note(about: &'static str, says: impl Into<String>) -> Finding {
        Finding::new(Level::Note, about, says)
    }

    pub(crate) fn warning(about: &'static str, says: impl Into<String>) -> Finding {
        Finding::new(Level::Warning, about, says)
    }

    pub(crate) fn fault(about: &'static str, says: impl Into<String>) -> Finding {
        Finding::new(Level::Fault, about, says)
    }

    pub(crate) fn mend(mut self, how: impl Into<String>) -> Finding {
        self.mend = Some(how.into());
        self
    }
}
