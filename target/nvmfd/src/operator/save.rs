//! Writing a change into the configuration file.

use super::Refusal;
use crate::config;
use crate::edit::Edit;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The file's text with the change made.
///
/// # Errors
/// When the file cannot be read, or would not be a good configuration then.
pub(super) fn prepare(path: &Path, edit: &Edit) -> Result<String, Refusal> {
    let before = config::read(path)?;
    let changed = edit.apply(&before)?;
    if let Err(errors) = config::parse(path, &changed) {
        // Where the file itself is wrong, its lines are those that the user knows.
        config::parse(path, &before)?;
        return Err(errors.without_places().into());
    }
    Ok(changed)
}

/// Puts `text` in the place of the file, so that there is always the one or the other, also after
/// a power cut. Owner and permissions stay as they are where we may set them.
///
/// # Errors
/// The system's.
pub(super) fn replace(path: &Path, text: &str) -> io::Result<()> {
    // The file itself, where the path is a link to it.
    let path = path.canonicalize()?;
    let new = beside(&path);
    let written = write(&path, &new, text);
    if written.is_err() {
        let _ = fs::remove_file(&new);
    }
    written
}

fn write(path: &Path, new: &Path, text: &str) -> io::Result<()> {
    let before = fs::metadata(path)?;
    let mut file = File::create(new)?;
    file.set_permissions(before.permissions())?;
    {
        use std::os::unix::fs::{MetadataExt, fchown};
        // Only root may give a file away; then it is ours from now on.
        let _ = fchown(&file, Some(before.uid()), Some(before.gid()));
    }
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(new, path)?;
    match path.parent() {
        Some(folder) => File::open(folder)?.sync_all(),
        None => Ok(()),
    }
}

fn beside(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    path.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_file_is_replaced_through_its_link_with_its_permissions() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("a.toml"), folder.path().join("b.toml"));
        fs::write(&file, "old").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        replace(&link, "new").unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "new");
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o640);
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }

    #[test]
    fn nothing_is_left_behind_where_nothing_can_be_written() {
        let folder = tempfile::tempdir().unwrap();
        assert!(replace(&folder.path().join("none.toml"), "new").is_err());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
