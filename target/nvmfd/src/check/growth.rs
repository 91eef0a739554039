//! Disks whose size is not what somebody may think: files that serving would make or extend and their
//! file system may not hold, files with a tail that fills no block, more memory than there is.
//!
//! A file is extended without taking space, so what is free is no bound for its size: it is what
//! may be missing later, when hosts write. What a file system cannot hold in one file at all is
//! found out with a file that has no name and is gone at once.

use crate::config::{self, Config, Namespace};
use backing::{Medium, OpenError};
use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Whether the file system of that file can hold one of `wanted` bytes.
pub(super) fn fits(path: &Path, wanted: u64) -> Result<(), OpenError> {
    let Some(folder) = path.parent() else { return Ok(()) };
    let file = OpenOptions::new().write(true).custom_flags(libc::O_TMPFILE).open(folder);
    match file.and_then(|file| file.set_len(wanted)) {
        Ok(()) => Ok(()),
        Err(source) if cannot_hold(&source) => {
            Err(OpenError::Extend { path: path.to_owned(), wanted, source })
        }
        // No nameless files here, or no right to make one: serving finds out.
        Err(_) => Ok(()),
    }
}

fn cannot_hold(error: &io::Error) -> bool {
    let code = error.raw_os_error();
    [libc::EFBIG, libc::EINVAL, libc::EOVERFLOW, libc::ENOSPC, libc::EDQUOT]
        .iter()
        .any(|known| code == Some(*known))
        // More than an offset can say.
        || error.kind() == io::ErrorKind::InvalidInput
}

/// By how much a file may still grow and how much its file system has free, in bytes, where that is
/// less.
pub(crate) fn shortage(namespace: &Namespace) -> Option<(u64, u64)> {
    let Medium::Path { path, size: Some(wanted), .. } = &namespace.spec.medium else { return None };
    let taken = std::fs::metadata(path).map_or(0, |meta| meta.blocks() * 512);
    let space = rustix::fs::statvfs(path.parent()?).ok()?;
    let free = space.f_bavail.saturating_mul(space.f_frsize);
    let missing = wanted.saturating_sub(taken);
    (missing > free).then_some((missing, free))
}

/// What to say about a file whose size is more than there is space for.
pub(super) fn note(config: &Path, namespace: &Namespace) -> Option<String> {
    let Medium::Path { path, .. } = &namespace.spec.medium else { return None };
    let (missing, free) = shortage(namespace)?;
    Some(format!(
        "{}:{}: note: {} may grow by {}, and {} are free there: writes fail once that is used up",
        config.display(),
        namespace.line,
        path.display(),
        config::in_words(missing),
        config::in_words(free)
    ))
}

/// What to say about a file that is longer than the disk of whole blocks it is served as, which has
/// `capacity` bytes.
pub(super) fn tail(config: &Path, namespace: &Namespace, capacity: u64) -> Option<String> {
    let Medium::Path { path, size: None, .. } = &namespace.spec.medium else { return None };
    let meta = std::fs::metadata(path).ok().filter(|meta| meta.is_file())?;
    let behind = meta.len().checked_sub(capacity).filter(|behind| *behind > 0)?;
    Some(format!(
        "{}:{}: note: the last {behind} bytes of {} fill no block, and hosts do not see them: make it \
         {} bytes long (truncate -s) to have them served",
        config.display(),
        namespace.line,
        path.display(),
        // As many as any block size divides.
        meta.len().next_multiple_of(4096)
    ))
}

/// What to say about disks in memory that have more of it together than the machine has.
pub(super) fn memory(config: &Config) -> Option<String> {
    let namespaces = config.subsystems.iter().flat_map(|subsystem| &subsystem.namespaces);
    let sizes = namespaces.map(|namespace| match namespace.spec.medium {
        Medium::Ram { size } => size,
        Medium::Path { .. } | Medium::Null { .. } => 0,
    });
    let wanted = sizes.fold(0, u64::saturating_add);
    let there = memory_of_machine()?;
    (wanted > there).then(|| {
        format!(
            "note: the disks in memory have {} together, and this machine has {}: the system ends the \
             daemon when hosts fill them",
            config::in_words(wanted),
            config::in_words(there)
        )
    })
}

/// In bytes (proc(5)).
fn memory_of_machine() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;
    use backing::BackingSpec;

    #[test]
    fn a_file_that_no_file_system_can_hold_is_refused_and_leaves_nothing() {
        let path = std::env::temp_dir().join(format!("nvmfd-too-large-{}", std::process::id()));
        assert!(fits(&path, 1 << 20).is_ok());
        let error = fits(&path, u64::MAX).expect_err("too large");
        assert!(error.to_string().contains("cannot extend the file"), "{error}");
        assert!(!path.exists());
    }

    fn parsed(namespace: &str) -> Config {
        let text = format!(
            "[[listener]]\naddress = \"127.0.0.1\"\n[[subsystem]]\nnqn = \"nqn.2026-11.io.nvmfd:a\"\n\
             allow_any_host = true\nnamespace = [{namespace}]\n"
        );
        config::parse(Path::new("nvmfd.toml"), &text).unwrap()
    }

    #[test]
    fn what_fills_no_block_of_a_file_is_noted() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let config = parsed(&format!("{{ path = {:?} }}", file.path()));
        let note = |len: u64| {
            file.as_file().set_len(len).unwrap();
            tail(Path::new("nvmfd.toml"), &config.subsystems[0].namespaces[0], len / 512 * 512)
        };
        assert_eq!(note(1 << 20), None);
        let said = note((1 << 20) + 100).expect("noted");
        assert!(
            said.contains("the last 100 bytes of ") && said.contains("1052672 bytes"),
            "{said}"
        );
    }

    #[test]
    fn disks_in_more_memory_than_there_is_are_noted() {
        assert_eq!(memory(&parsed("{ ram = \"1MiB\" }, { null = \"1TiB\" }")), None);
        let said = memory(&parsed("{ ram = \"8TiB\" }, { ram = \"8TiB\" }")).expect("noted");
        assert!(said.starts_with("note: the disks in memory have 16 TiB together"), "{said}");
    }

    #[test]
    fn a_file_that_may_outgrow_the_free_space_is_noted() {
        let path = std::env::temp_dir().join("nvmfd-no-such-file");
        let note_for = |size| {
            let medium = Medium::Path { path: path.clone(), size: Some(size), buffered: false };
            let spec = BackingSpec { medium, block_size: None, read_only: false, iopoll: false };
            let (uuid, nguid, eui64) = ([1; 16], [0; 16], [0; 8]);
            let namespace = Namespace { line: 7, nsid: 1, spec, uuid, nguid, eui64, inject: None };
            note(Path::new("nvmfd.toml"), &namespace)
        };
        assert_eq!(note_for(4096), None);
        let said = note_for(1 << 60).expect("noted");
        assert!(said.starts_with("nvmfd.toml:7: note: "), "{said}");
        assert!(said.contains("may grow by 1048576 TiB"), "{said}");
    }
}
