//! Tests of the documentation: whatever is to be typed is what programs understand, and the
//! reference of the configuration has the keys that there are.

#[path = "../tests/daemon/pages.rs"]
mod pages;

use crate::cli::Args;
use clap::{CommandFactory, Parser};
use pages::{pages, root};
use std::collections::BTreeSet;

/// Programs of the system that pages mention.
const OF_THE_SYSTEM: &[&str] = &[
    "apt",
    "curl",
    "docker",
    "install",
    "mdbook",
    "modprobe",
    "nvmetcli",
    "podman",
    "promtool",
    "rpc.py",
    "systemctl",
    "systemd-run",
];

/// Words of a line, with what `sudo` is put before.
fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().skip_while(|word| *word == "sudo").collect()
}

/// Verbs of nvme-cli that the cases with the Linux host use.
fn verbs_in_use() -> BTreeSet<String> {
    let mut verbs = BTreeSet::new();
    for folder in ["cases", "guest", "scripts"] {
        let folder = root().join("initiator-tests/linux").join(folder);
        for entry in std::fs::read_dir(folder).unwrap() {
            let text = std::fs::read_to_string(entry.unwrap().path()).unwrap_or_default();
            let words: Vec<&str> = text.split_whitespace().collect();
            let pairs = words.windows(2).filter(|pair| pair[0].ends_with("nvme"));
            let bare = |word: &str| word.trim_matches(['"', '\'', ')']).to_owned();
            verbs.extend(pairs.map(|pair| bare(pair[1])));
        }
    }
    verbs
}

#[test]
fn every_line_to_be_typed_is_understood() {
    let verbs = verbs_in_use();
    let mut count = 0;
    for page in pages() {
        let name = &page.name;
        for line in page.commands() {
            let words = words(&line);
            let program = words[0].rsplit('/').next().unwrap();
            count += 1;
            match program {
                "nvmfd" => {
                    let parsed = Args::try_parse_from(&words);
                    assert!(parsed.is_ok(), "{name}: {line}: {}", parsed.unwrap_err());
                }
                "nvme" => assert!(
                    verbs.contains(words[1]),
                    "{name}: no case with the Linux host runs {line}"
                ),
                // Their own tests read the pages too.
                "cargo" | "nvmf-host" => {}
                script if script.ends_with(".sh") => {
                    let path = words[0].trim_start_matches("./");
                    let there = [root(), root().join("kernel-setup")].map(|at| at.join(path));
                    let there = there.iter().find(|path| path.exists());
                    let there = there.unwrap_or_else(|| panic!("{name}: no script for {line}"));
                    let text = std::fs::read_to_string(there).unwrap()
                        + &std::fs::read_to_string(root().join("kernel-setup/common.sh")).unwrap();
                    for option in words.iter().filter(|word| word.starts_with("--")) {
                        assert!(text.contains(option), "{name}: {line}: no {option}");
                    }
                }
                other => assert!(OF_THE_SYSTEM.contains(&other), "{name}: what is {line}?"),
            }
        }
    }
    assert!(count >= 40, "only {count} lines were found");
}

#[test]
fn commands_that_pages_name_in_passing_are_there() {
    let args = Args::command();
    let known: BTreeSet<&str> = args.get_subcommands().map(clap::Command::get_name).collect();
    for page in pages() {
        // Every second piece between backquotes is code.
        for code in page.text.split('`').skip(1).step_by(2) {
            let Some(rest) = code.strip_prefix("nvmfd ") else { continue };
            let verb = rest.split_whitespace().next().unwrap_or_default();
            let fine = known.contains(verb) || verb.starts_with('-');
            assert!(fine, "{}: there is no nvmfd {verb}", page.name);
        }
    }
}

#[test]
fn what_is_to_be_typed_is_fenced_and_marked() {
    for page in pages() {
        for block in &page.blocks {
            let known = ["sh", "toml", "text", "json"].contains(&block.language.as_str());
            assert!(known, "{}: a block is marked \"{}\"", page.name, block.language);
        }
        let mut fenced = false;
        let mut before = "";
        for line in page.text.lines() {
            fenced ^= line.trim_start().starts_with("```");
            let indented = line.starts_with("    ") && before.is_empty();
            assert!(fenced || !indented, "{}: fence this: {line}", page.name);
            before = line;
        }
    }
}

/// The names under which headings of a page are linked to, as mdbook makes them.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = text.lines().filter(|line| line.starts_with('#'));
    let name = |heading: &str| {
        let letters = heading.trim_start_matches('#').trim().chars();
        letters
            .filter(|c| c.is_alphanumeric() || " _-".contains(*c))
            .map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() })
            .collect()
    };
    headings.map(name).collect()
}

#[test]
fn every_link_leads_somewhere_and_those_of_the_book_stay_in_it() {
    let mut count = 0;
    for page in pages() {
        let folder = root().join(&page.name).parent().unwrap().to_owned();
        for link in page.text.split("](").skip(1) {
            let link = link.split(')').next().unwrap();
            if link.contains("://") {
                continue;
            }
            count += 1;
            let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
            let there = if path.is_empty() { root().join(&page.name) } else { folder.join(path) };
            assert!(there.exists(), "{}: {link} leads nowhere", page.name);
            let within = !page.name.starts_with("docs/") || !path.starts_with("..");
            assert!(within, "{}: {link} leads out of the book", page.name);
            if !anchor.is_empty() {
                let known = anchors(&std::fs::read_to_string(there).unwrap());
                assert!(known.contains(anchor), "{}: {link}: there is {known:?}", page.name);
            }
        }
    }
    assert!(count >= 20, "only {count} links were found");
}

#[test]
fn every_page_is_in_the_table_of_contents() {
    let contents = std::fs::read_to_string(root().join("docs/SUMMARY.md")).unwrap();
    for page in pages() {
        let Some(name) = page.name.strip_prefix("docs/") else { continue };
        let there = name == "SUMMARY.md" || contents.contains(&format!("]({name})"));
        assert!(there, "docs/SUMMARY.md does not have {name}");
    }
    for link in contents.split("](").skip(1) {
        let name = link.split(')').next().unwrap();
        assert!(root().join("docs").join(name).exists(), "{name}");
    }
}
