//! What is made from the command line's own description: completions for shells, manual pages.

use crate::cli::Args;
use crate::{RUN_ERROR, output};
use clap::CommandFactory;
use clap_complete::Shell;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

/// Prints the script that completes commands in that shell.
pub(crate) fn completions(shell: Shell) -> ExitCode {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Args::command(), "nvmfd", &mut script);
    output::end(script, ExitCode::SUCCESS)
}

/// Writes `nvmfd.1` and a page for each subcommand.
pub(crate) fn pages(folder: &Path) -> ExitCode {
    let written = std::fs::create_dir_all(folder)
        .and_then(|()| clap_mangen::generate_to(Args::command(), folder));
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let folder = folder.display();
            let _ = writeln!(std::io::stderr(), "cannot write manual pages to {folder}: {error}");
            ExitCode::from(RUN_ERROR)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Args::command().debug_assert();
    }

    fn undescribed(command: &clap::Command, found: &mut Vec<String>) {
        let path = command.get_bin_name().unwrap_or_else(|| command.get_name());
        let silent = command.get_arguments().filter(|argument| argument.get_help().is_none());
        found.extend(silent.map(|argument| format!("{path} {}", argument.get_id())));
        if command.get_about().is_none() {
            found.push(path.to_owned());
        }
        command.get_subcommands().for_each(|below| undescribed(below, found));
    }

    #[test]
    fn every_command_and_every_argument_says_what_it_is() {
        let mut command = Args::command();
        command.build();
        let mut found = Vec::new();
        undescribed(&command, &mut found);
        assert_eq!(found, [""; 0]);
    }

    #[test]
    fn every_command_has_a_page() {
        let folder = tempfile::tempdir().unwrap();
        pages(folder.path());
        for command in Args::command().get_subcommands() {
            let page = folder.path().join(format!("nvmfd-{}.1", command.get_name()));
            assert!(page.exists(), "{}", page.display());
        }
        assert!(folder.path().join("nvmfd.1").exists());
    }
}
