//! Manual pages, made from the command line's own description.

use crate::args::Cli;
use anyhow::{Context, Result};
use clap::CommandFactory;
use std::path::Path;

/// Writes `nvmf-host.1` and a page for each subcommand.
pub(crate) fn pages(folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder)
        .and_then(|()| clap_mangen::generate_to(Cli::command(), folder))
        .with_context(|| format!("cannot write manual pages to {}", folder.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_a_page_and_every_argument_a_description() {
        let folder = tempfile::tempdir().unwrap();
        pages(folder.path()).unwrap();
        assert!(folder.path().join("nvmf-host.1").exists());
        for command in Cli::command().get_subcommands() {
            let name = command.get_name();
            assert!(folder.path().join(format!("nvmf-host-{name}.1")).exists(), "{name}");
            for argument in command.get_arguments() {
                assert!(argument.get_help().is_some(), "{name} {}", argument.get_id());
            }
        }
    }
}
