//! The pages of the documentation, and what is to be typed in them.

use std::path::{Path, PathBuf};

/// A page.
pub(crate) struct Page {
    /// From the root of the repository.
    pub(crate) name: String,
    pub(crate) text: String,
    pub(crate) blocks: Vec<Block>,
}

/// A fenced block.
pub(crate) struct Block {
    pub(crate) language: String,
    pub(crate) lines: Vec<String>,
}

/// The root of the repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The README files and all of `docs`.
pub(crate) fn pages() -> Vec<Page> {
    let mut names = vec!["README.md".to_owned(), "kernel-setup/README.md".to_owned()];
    for entry in std::fs::read_dir(root().join("docs")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if name.ends_with(".md") {
            names.push(format!("docs/{name}"));
        }
    }
    names.sort();
    names.into_iter().map(page).collect()
}

fn page(name: String) -> Page {
    let text = std::fs::read_to_string(root().join(&name)).unwrap();
    let mut blocks: Vec<Block> = Vec::new();
    let mut inside = false;
    for line in text.lines() {
        match (line.trim_start().strip_prefix("```"), inside) {
            (Some(language), false) => {
                blocks.push(Block { language: language.to_owned(), lines: Vec::new() });
                inside = true;
            }
            (Some(_), true) => inside = false,
            (None, true) => blocks.last_mut().unwrap().lines.push(line.to_owned()),
            (None, false) => {}
        }
    }
    assert!(!inside, "{name}: a block does not end");
    Page { name, text, blocks }
}

impl Page {
    /// Command lines, without comments.
    pub(crate) fn commands(&self) -> impl Iterator<Item = String> + '_ {
        let shell = self.blocks.iter().filter(|block| block.language == "sh");
        let lines = shell.flat_map(|block| &block.lines);
        let without = |line: &String| {
            let end = line.find(" #").unwrap_or(line.len());
            line[..end].trim().to_owned()
        };
        lines.map(without).filter(|line| !line.is_empty() && !line.starts_with('#'))
    }
}
