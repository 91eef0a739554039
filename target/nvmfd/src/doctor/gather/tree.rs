//! Files of a machine, below a folder.

use crate::doctor::facts::Node;
use rustix::fs::{Access, access};
use std::path::PathBuf;
use std::str::FromStr;

/// The root of what is read: `/`, or what a test laid out.
#[derive(Debug)]
pub(super) struct Tree(PathBuf);

impl Tree {
    pub(super) fn new(root: impl Into<PathBuf>) -> Tree {
        Tree(root.into())
    }

    pub(super) fn path(&self, path: &str) -> PathBuf {
        self.0.join(path)
    }

    pub(super) fn exists(&self, path: &str) -> bool {
        self.path(path).exists()
    }

    /// A file's text without blanks around it.
    pub(super) fn text(&self, path: &str) -> Option<String> {
        std::fs::read_to_string(self.path(path)).ok().map(|text| text.trim().to_owned())
    }

    pub(super) fn number<T: FromStr>(&self, path: &str) -> Option<T> {
        self.text(path)?.parse().ok()
    }

    /// The names in a folder, in order; none if there is no such folder.
    pub(super) fn list(&self, path: &str) -> Vec<String> {
        let entries = std::fs::read_dir(self.path(path)).into_iter().flatten().flatten();
        let mut names: Vec<String> =
            entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    /// Whether a device node is there, and for this user.
    pub(super) fn node(&self, path: &str) -> Node {
        let path = self.path(path);
        if !path.exists() {
            return Node::Absent;
        }
        match access(&path, Access::READ_OK | Access::WRITE_OK) {
            Ok(()) => Node::Open,
            Err(_) => Node::Closed(path),
        }
    }
}

/// A machine made of these files, which is there as long as the folder is held.
#[cfg(test)]
pub(super) fn laid_out(files: &[(&str, &str)]) -> (tempfile::TempDir, Tree) {
    let folder = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = folder.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let tree = Tree::new(folder.path());
    (folder, tree)
}
