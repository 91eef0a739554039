//! The files and block devices of a configuration.

use super::tree::Tree;
use crate::check::{look, shortage};
use crate::config::{self, Config, Namespace};
use crate::doctor::facts::Disk;
use backing::Medium;
use rustix::fs::{AtFlags, CWD, StatxFlags, major, minor};
use std::fs::FileType;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

pub(super) fn disks(tree: &Tree, config: &Config) -> Vec<Disk> {
    let all = config.subsystems.iter();
    all.flat_map(|subsystem| {
        subsystem.namespaces.iter().filter_map(|ns| disk(tree, &subsystem.nqn, ns))
    })
    .collect()
}

fn disk(tree: &Tree, nqn: &str, namespace: &Namespace) -> Option<Disk> {
    let Medium::Path { path, buffered, .. } = &namespace.spec.medium else { return None };
    // A file that is still to be made is judged by its folder.
    let there = existing(path);
    let meta = there.as_ref().and_then(|there| std::fs::metadata(there).ok());
    let is = |kind: fn(&FileType) -> bool| meta.as_ref().is_some_and(|m| kind(&m.file_type()));
    let (is_block, is_char) = (is(FileType::is_block_device), is(FileType::is_char_device));
    let is_device = is_block || is_char;
    // A character device has no number among the block devices, and no queue of its own.
    let number = meta.filter(|_| !is_char);
    let number = number.map(|meta| if is_block { meta.rdev() } else { meta.dev() });
    let number = number.map(|number| format!("{}:{}", major(number), minor(number)));
    let beneath = number.as_ref().map(|number| queue_of(tree, number));
    let mounts = tree.text("proc/self/mountinfo").unwrap_or_default();
    Some(Disk {
        nqn: nqn.to_owned(),
        nsid: namespace.nsid,
        path: path.clone(),
        is_device,
        buffered: *buffered,
        found: look(&namespace.spec),
        file_system: there.filter(|_| !is_device).and_then(|there| mount_of(&mounts, &there)),
        direct: if is_device { None } else { direct(path) },
        space: shortage(namespace).map(|(missing, free)| {
            let [missing, free] = [missing, free].map(config::in_words);
            format!("it may grow by {missing}, and {free} are free")
        }),
        write_cache: beneath.as_ref().and_then(|at| tree.text(&format!("{at}/write_cache"))),
        device: number.and_then(|number| device_name(tree, &number)),
    })
}

/// The path itself, or its folder where there is nothing yet; without symbolic links.
fn existing(path: &Path) -> Option<PathBuf> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    path.canonicalize().or_else(|_| folder.unwrap_or(Path::new(".")).canonicalize()).ok()
}

/// The folder of a device's request queue; that of a partition is its disk's.
fn queue_of(tree: &Tree, number: &str) -> String {
    let own = format!("sys/dev/block/{number}/queue");
    if tree.exists(&own) { own } else { format!("sys/dev/block/{number}/../queue") }
}

fn device_name(tree: &Tree, number: &str) -> Option<String> {
    let link = std::fs::read_link(tree.path(&format!("sys/dev/block/{number}"))).ok()?;
    Some(link.file_name()?.to_string_lossy().into_owned())
}

/// Type and place of the mount that holds a path: the last of those with the longest place.
fn mount_of(mountinfo: &str, path: &Path) -> Option<(String, PathBuf)> {
    let mut best: Option<(String, PathBuf)> = None;
    for line in mountinfo.lines() {
        // "36 35 98:0 /root /place options ... - type source options"
        let Some((place, kind)) = line.split_once(" - ").and_then(|(left, right)| {
            Some((PathBuf::from(plain(left.split(' ').nth(4)?)), right.split(' ').next()?))
        }) else {
            continue;
        };
        let longer =
            |(_, known): &(String, PathBuf)| place.as_os_str().len() >= known.as_os_str().len();
        if path.starts_with(&place) && best.as_ref().is_none_or(longer) {
            best = Some((kind.to_owned(), place));
        }
    }
    best
}

/// A path with the blanks that the table writes in octal.
fn plain(text: &str) -> String {
    text.replace("\\040", " ").replace("\\011", "\t").replace("\\134", "\\")
}

/// The smallest unit of direct I/O on a file, 0 for impossible; Linux 6.1 tells.
fn direct(path: &Path) -> Option<u32> {
    let stat = rustix::fs::statx(CWD, path, AtFlags::empty(), StatxFlags::DIOALIGN).ok()?;
    let told = StatxFlags::from_bits_retain(stat.stx_mask).contains(StatxFlags::DIOALIGN);
    told.then_some(stat.stx_dio_offset_align)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_belongs_to_the_innermost_mount() {
        let table = "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n\
             2 1 0:9 / /srv rw shared:1 - tmpfs none rw\n\
             3 1 8:2 / /srv/my\\040disks rw - xfs /dev/sdb rw\n\
             not a mount\n";
        let of = |path: &str| mount_of(table, Path::new(path)).unwrap();
        assert_eq!(of("/srvother/a"), ("ext4".to_owned(), "/".into()));
        assert_eq!(of("/srv/a"), ("tmpfs".to_owned(), "/srv".into()));
        assert_eq!(of("/srv/my disks/a"), ("xfs".to_owned(), "/srv/my disks".into()));
    }
}
