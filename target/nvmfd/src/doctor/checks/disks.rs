//! The files and block devices that are to be served.

use crate::check::Found;
use crate::config::{Config, in_words};
use crate::doctor::facts::{Disk, Facts};
use crate::doctor::finding::Finding;
use backing::OpenError;
use std::io;
use std::path::Path;

const ABOUT: &str = "disk";

/// File systems whose files are in memory or on another machine.
const IN_MEMORY: [&str; 2] = ["tmpfs", "ramfs"];
const REMOTE: [&str; 5] = ["nfs", "nfs4", "cifs", "smb3", "fuse.sshfs"];

pub(super) fn check(facts: &Facts, _: &Config) -> Vec<Finding> {
    let mut findings = Vec::new();
    for disk in &facts.disks {
        match &disk.found {
            Ok(found) => {
                findings.push(served(disk, found));
                findings.extend(manner(disk));
            }
            Err(error) => {
                let Disk { nqn, nsid, .. } = disk;
                let finding = Finding::fault(ABOUT, format!("{nqn} namespace {nsid}: {error}"));
                findings.push(match mend(disk, error) {
                    Some(how) => finding.mend(how),
                    None => finding,
                });
            }
        }
    }
    findings
}

fn served(disk: &Disk, found: &Found) -> Finding {
    let path = disk.path.display();
    let on = match (&disk.file_system, &disk.device) {
        (Some((kind, _)), _) => format!(", on {kind}"),
        (None, Some(device)) if disk.is_device => format!(", block device {device}"),
        _ => String::new(),
    };
    match found {
        Found::Disk(geometry) => Finding::ok(
            ABOUT,
            format!(
                "{path}: {}, blocks of {}{on}",
                in_words(geometry.capacity),
                geometry.block_size
            ),
        ),
        Found::WouldBeCreated(size) => Finding::ok(
            ABOUT,
            format!("{path}: would be made or extended to {}{on}", in_words(*size)),
        ),
        Found::InUse(_) => Finding::note(
            ABOUT,
            format!("{path}: another process has it, perhaps a running nvmfd; a second could not"),
        ),
    }
}

/// How the disk is written and read, where that is other than wished for.
fn manner(disk: &Disk) -> Vec<Finding> {
    let path = disk.path.display();
    let mut findings = Vec::new();
    if let Some(space) = &disk.space {
        findings.push(
            Finding::warning(ABOUT, format!("{path}: {space}: writes fail once that is used up"))
                .mend(format!("df -h {path} # make space, or lower the size")),
        );
    }
    let kind = disk.file_system.as_ref().map_or("", |(kind, _)| kind.as_str());
    if IN_MEMORY.contains(&kind) {
        findings.push(Finding::warning(
            ABOUT,
            format!("{path}: is on {kind}, in memory: its data is gone when this machine ends"),
        ));
    } else if REMOTE.contains(&kind) {
        findings.push(Finding::warning(
            ABOUT,
            format!("{path}: is on {kind}, on another machine: hosts wait for both networks"),
        ));
    } else if disk.direct == Some(0) && !disk.buffered {
        findings.push(Finding::note(
            ABOUT,
            format!("{path}: direct I/O is not possible there; the page cache is used"),
        ));
    }
    if let Some(unit @ 4097..) = disk.direct {
        findings.push(
            Finding::warning(
                ABOUT,
                format!("{path}: direct I/O needs units of {unit} bytes, more than 4096"),
            )
            .mend("set buffered = true"),
        );
    }
    if disk.write_cache.as_deref() == Some("write back") {
        let device = disk.device.as_deref().unwrap_or("its device");
        findings.push(Finding::note(
            ABOUT,
            format!(
                "{path}: {device} has a volatile write cache: hosts are told, and their flushes \
                 empty it"
            ),
        ));
    }
    findings
}

/// The command that makes a disk usable.
fn mend(disk: &Disk, error: &OpenError) -> Option<String> {
    let path = disk.path.display();
    let folder = disk.path.parent().unwrap_or(Path::new("/")).display().to_string();
    let mount = disk.file_system.as_ref().map(|(_, place)| place.display().to_string());
    let remount = |mount: String| format!("mount -o remount,rw {mount}");
    Some(match error {
        OpenError::NotFound { .. } => {
            format!("truncate -s 10G {path} # or add a size to the namespace")
        }
        OpenError::NotCreated { .. } => format!("truncate -s 10G {path} # or correct the path"),
        OpenError::NotExtended { actual, .. } => format!("set size = {actual}, or leave it out"),
        OpenError::MediumReadOnly { .. } if disk.is_device => format!("blockdev --setrw {path}"),
        OpenError::MediumReadOnly { .. } => remount(mount?),
        OpenError::Create { source, .. } => match source.kind() {
            io::ErrorKind::ReadOnlyFilesystem => remount(mount?),
            io::ErrorKind::NotFound => format!("mkdir -p {folder}"),
            io::ErrorKind::PermissionDenied => {
                format!("setfacl -m u:NAME:rwx {folder} # as root, for who runs nvmfd")
            }
            _ => return None,
        },
        OpenError::Permission { .. } => {
            format!("setfacl -m u:NAME:rw {path} # as root, for who runs nvmfd")
        }
        OpenError::DeviceBusy { .. } => format!("lsblk {path} # then umount what is mounted of it"),
        OpenError::BlockSize { needed, .. } => format!("set block_size = {needed}"),
        OpenError::BlocksTooLarge { .. } => "set buffered = true".to_owned(),
        OpenError::WouldShrink { actual, .. } => format!("set size = {actual}, or leave it out"),
        OpenError::SizeOfDevice { .. } => "leave size out".to_owned(),
        _ => return None,
    })
}
