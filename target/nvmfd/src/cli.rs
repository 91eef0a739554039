//! The command line.

use clap::{Parser, Subcommand};
use std::path::PathBuf;

/// What is built in.
#[cfg(feature = "verbs")]
macro_rules! features {
    () => {
        "verbs, soft"
    };
}

/// What is built in.
#[cfg(not(feature = "verbs"))]
macro_rules! features {
    () => {
        "soft"
    };
}

/// What `--version` says: version, commit and features.
const VERSION: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    " (commit ",
    env!("NVMFD_COMMIT"),
    ", features: ",
    features!(),
    ")"
);

/// NVMe over Fabrics RDMA target daemon.
#[derive(Debug, Parser)]
#[command(name = "nvmfd", version = VERSION, propagate_version = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serve what the configuration describes until SIGTERM or SIGINT; a second one ends at once
    Serve {
        /// The configuration file
        #[arg(long, value_name = "FILE")]
        config: PathBuf,
    },
    /// Check the configuration and its disks, print what would be served, and start nothing
    ///
    /// Exit status 0: it can be served. 2: it cannot, and standard error says why.
    Check {
        /// The configuration file
        #[arg(long, value_name = "FILE")]
        config: PathBuf,
    },
}
