//! Why a change is not made.

use crate::config::ConfigErrors;

/// Why nothing was changed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refusal {
    /// Mend what it names.
    #[error("{0}")]
    Config(#[from] ConfigErrors),
    /// Disks that cannot be opened and addresses that cannot be had, a line each.
    #[error("{}", .0.join("\n"))]
    Machine(Vec<String>),
    /// The change names something that is not there.
    #[error("there is no {0}")]
    NotThere(String),
    /// The change adds what is there already.
    #[error("there is {0} already")]
    Exists(String),
    /// The request itself is wrong.
    #[error("{0}")]
    Invalid(String),
    /// Too many at a time; the words say of what.
    #[error("{0}")]
    Busy(&'static str),
    /// Too late.
    #[error("the daemon is ending")]
    Ending,
}
