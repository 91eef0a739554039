//! The map names files and rooms: are they there, and is every room on it?
//!
//! In: the page, and the paths of all files. Out: [`Offence`]s. A room is what lies directly below the
//! `src` of a crate. The page has an item for each crate, which begins with the crate's folder and
//! names its rooms between backquotes, as everything else that it names.

use std::collections::BTreeSet;

use super::Offence;

/// The page.
pub(super) const PAGE: &str = "docs/ARCHITECTURE.md";

/// The heading of the rooms.
const ROOMS: &str = "## The rooms\n";

/// Not rooms of a library or program: where its parts are put together, and tests.
const NO_ROOMS: [&str; 4] = ["lib", "main", "bin", "tests"];

/// Finds rooms that the page does not name, and files and rooms that it names and are not there.
pub(super) fn check(page: &str, paths: &[String]) -> Vec<Offence> {
    let mut offences = files(page, paths);
    let rooms = page.split_once(ROOMS).map_or("", |(_, after)| after);
    let rooms = rooms.split("\n## ").next().unwrap_or_default();
    let mut said: Vec<(&str, BTreeSet<&str>)> = Vec::new();
    for item in rooms.split("\n- ").skip(1) {
        let mut names = item.split('`').skip(1).step_by(2);
        said.push((names.next().unwrap_or_default(), names.collect()));
    }
    let there: BTreeSet<(&str, &str)> = paths.iter().filter_map(|path| room(path)).collect();
    for &(folder, room) in &there {
        let named = said.iter().any(|(of, rooms)| *of == folder && rooms.contains(room));
        if !named {
            offences.push(Offence {
                place: PAGE.to_owned(),
                what: format!("{folder}/src/{room} is not on the map"),
                instead: "say in a few words, in its crate's item of \"The rooms\", what it is for",
            });
        }
    }
    for (folder, rooms) in &said {
        for room in rooms.iter().filter(|room| !there.contains(&(*folder, **room))) {
            offences.push(Offence {
                place: PAGE.to_owned(),
                what: format!("{folder} has no {room}"),
                instead: "name the room as it is called now",
            });
        }
    }
    offences
}

/// The crate's folder and the room that a path is in.
fn room(path: &str) -> Option<(&str, &str)> {
    let (folder, below) = path.split_once("/src/")?;
    let room = match below.split_once('/') {
        Some((room, _)) => room,
        None => below.strip_suffix(".rs")?,
    };
    let is_crate = folder.matches('/').count() == 1;
    (is_crate && !NO_ROOMS.contains(&room)).then_some((folder, room))
}

/// Paths of files on the page that no file ends with.
fn files(page: &str, paths: &[String]) -> Vec<Offence> {
    let mut offences = Vec::new();
    for (number, line) in page.lines().enumerate() {
        for name in line.split('`').skip(1).step_by(2).filter(|name| name.ends_with(".rs")) {
            let ending = format!("/{name}");
            if !paths.iter().any(|path| path == name || path.ends_with(&ending)) {
                offences.push(Offence {
                    place: format!("{PAGE}:{}", number + 1),
                    what: format!("{name} is not there"),
                    instead: "name the file as it is called now",
                });
            }
        }
    }
    offences
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(page: &str) -> Vec<String> {
        let paths = ["target/a/src/lib.rs", "target/a/src/ring.rs", "target/a/src/ring/steps.rs"];
        let paths = paths.map(str::to_owned);
        check(page, &paths).iter().map(|offence| offence.what.clone()).collect()
    }

    #[test]
    fn a_room_that_is_not_on_the_map_is_found() {
        let whole = "\n## The rooms\nAll.\n\n- `target/a`: `ring`,\n  which turns.\n\n## More\n";
        assert_eq!(found(whole), [""; 0]);
        let without = whole.replace("`ring`", "the ring");
        assert_eq!(found(&without), ["target/a/src/ring is not on the map"]);
        let elsewhere = without.replace("## More", "## More\n- `target/a`: `ring`");
        assert_eq!(found(&elsewhere), ["target/a/src/ring is not on the map"]);
    }

    #[test]
    fn what_is_on_the_map_and_not_there_is_found() {
        let page = "`ring/steps.rs`, `gnir.rs`\n## The rooms\n\n- `target/a`: `ring`, `gnir`\n";
        assert_eq!(found(page), ["gnir.rs is not there", "target/a has no gnir"]);
    }
}
