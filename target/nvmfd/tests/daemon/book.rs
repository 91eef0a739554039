//! What the documentation tells operators to type does what it says: each page's commands are run,
//! in order, with a daemon of the page's own configuration.

use crate::common::{Daemon, host, program};
use crate::pages::{Page, pages};
use std::path::Path;
use std::process::{Command, Output};

/// The address that the documentation uses for the machine that serves, and its disk's name.
const ADDRESS: &str = "192.168.1.10";
const DISK: &str = "nqn.2026-11.io.nvmfd:disk1";
/// Commands that end by themselves and need nothing but a daemon.
const RUN: [&str; 11] = [
    "check",
    "completions",
    "doctor",
    "list",
    "man",
    "reload",
    "set",
    "show",
    "status",
    "add",
    "remove",
];

/// The page's configuration, else that of the README: what is behind the listeners.
fn configuration(page: &Page, all: &[Page]) -> String {
    let readme = all.iter().find(|page| page.name == "README.md");
    let blocks = page.blocks.iter().chain(readme.into_iter().flat_map(|page| &page.blocks));
    let mut named = blocks.filter(|block| {
        block.language == "toml" && block.lines.first().is_some_and(|line| line == "# nvmfd.toml")
    });
    let block = named.next().expect("the README has one");
    let rest = block.lines.iter().filter(|line| !line.starts_with("listener = "));
    rest.fold(String::new(), |text, line| text + line + "\n")
}

/// Places of the documentation, as they are here.
fn here(text: &str, folder: &Path, address: &str) -> String {
    let folder = folder.display();
    text.replace("/run/nvmfd/control.sock", &format!("{folder}/a.sock"))
        .replace("/etc/nvmfd/", &format!("{folder}/"))
        .replace("/srv/", &format!("{folder}/"))
        .replace(ADDRESS, address)
}

/// Runs a line if it is one to be run.
fn run(line: &str, daemon: &Daemon) -> Option<Output> {
    let folder = daemon.folder.path();
    let ip = daemon.address.split(':').next().unwrap();
    let line = here(line, folder, ip);
    let mut words = line.split_whitespace();
    let name = words.next()?.rsplit('/').next()?;
    let words: Vec<&str> = words.collect();
    let mut command = match name {
        "nvmfd" if RUN.contains(words.first()?) && !words.contains(&"--serve") => program(),
        "curl" => Command::new("curl"),
        _ => return None,
    };
    let command = command.args(words).current_dir(folder);
    // Without curl its line is not run.
    command.env("NVMFD_SOCKET", daemon.path("a.sock")).output().ok()
}

/// Runs what a page tells to type, at a daemon of its own, and returns how many lines that were.
fn try_page(page: &Page, all: &[Page]) -> usize {
    let folder = tempfile::tempdir().unwrap();
    let text = here(&configuration(page, all), folder.path(), ADDRESS);
    let daemon = Daemon::start(&text);
    let _host = host(&daemon.address, DISK);
    let mut count = 0;
    for line in page.commands() {
        let Some(output) = run(&line, &daemon) else { continue };
        let said = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        // The doctor may find something on the machine of the test.
        let fine = output.status.success()
            || (line.contains(" doctor --config ") && output.status.code() == Some(1));
        assert!(fine && !said.is_empty(), "{}: {line}: {said}{errors}", page.name);
        count += 1;
    }
    count
}

#[test]
fn what_the_pages_tell_operators_to_type_works() {
    let all = pages();
    let count: usize = std::thread::scope(|scope| {
        let with_commands = all.iter().filter(|page| page.text.contains("nvmfd "));
        let tried: Vec<_> =
            with_commands.map(|page| scope.spawn(|| try_page(page, &all))).collect();
        tried.into_iter().map(|page| page.join().expect("its lines work")).sum()
    });
    assert!(count >= 15, "only {count} lines were run");
}
