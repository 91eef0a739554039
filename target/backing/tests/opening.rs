//! What is refused at opening, with which words, and what a geometry says.

mod common;

use backing::{Backing, BackingSpec, BlockSize, OpenError};
use common::{Loop, Mount, disk_folder, is_root, must};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

fn refusal(spec: &BackingSpec) -> OpenError {
    Backing::open(spec).expect_err("refused")
}

#[test]
fn a_missing_file_is_created_with_holes_only_when_a_size_is_given() {
    use std::os::unix::fs::MetadataExt;
    let folder = disk_folder();
    let path = folder.path().join("disk");
    assert!(matches!(refusal(&BackingSpec::path(&path)), OpenError::NotFound { .. }));
    assert!(!path.exists());
    assert!(matches!(
        refusal(&BackingSpec::sized_file(&path, 4096).read_only()),
        OpenError::NotCreated { .. }
    ));
    let backing = Backing::open(&BackingSpec::sized_file(&path, (1 << 30) + 100)).unwrap();
    assert_eq!(backing.capacity(), 1 << 30, "whole blocks");
    let meta = std::fs::metadata(&path).unwrap();
    assert_eq!(meta.len(), (1 << 30) + 100);
    assert!(meta.blocks() < 100);
    assert_eq!(meta.mode() & 0o777, 0o600);
    let geometry = backing.geometry();
    assert!(geometry.volatile_cache && geometry.discard && geometry.discard_zeroes);
    assert!(geometry.optimal_io.is_multiple_of(geometry.block_size));
    let nowhere = folder.path().join("no/such/folder");
    assert!(matches!(refusal(&BackingSpec::sized_file(nowhere, 4096)), OpenError::Create { .. }));
}

#[test]
fn a_disk_that_is_open_here_can_be_looked_at_beside() {
    let folder = disk_folder();
    let path = folder.path().join("disk");
    let held = Backing::open(&BackingSpec::sized_file(&path, 8192)).unwrap();
    let look = BackingSpec::path(&path).read_only();
    assert!(matches!(refusal(&look), OpenError::LockedHere { .. }));
    assert_eq!(Backing::peek(&look).unwrap().capacity, 8192);
    // It has let go of nothing.
    assert!(matches!(refusal(&look), OpenError::LockedHere { .. }));
    drop(held);
    Backing::open(&look).unwrap();
}

#[test]
fn a_file_is_extended_but_never_cut() {
    let folder = disk_folder();
    let path = folder.path().join("disk");
    std::fs::write(&path, [7; 8192]).unwrap();
    let error = refusal(&BackingSpec::sized_file(&path, 4096));
    assert!(error.to_string().contains("files are never cut"), "{error}");
    let backing = Backing::open(&BackingSpec::sized_file(&path, 16384)).unwrap();
    assert_eq!(backing.capacity(), 16384);
    let content = std::fs::read(&path).unwrap();
    assert!(content[..8192].iter().all(|b| *b == 7) && content[8192..].iter().all(|b| *b == 0));
}

#[test]
fn a_size_that_no_file_can_have_leaves_no_file() {
    let folder = disk_folder();
    let path = folder.path().join("disk");
    let too_large = BackingSpec::sized_file(&path, u64::MAX);
    assert!(matches!(refusal(&too_large), OpenError::Extend { .. }));
    assert!(!path.exists());
    // What was there before stays.
    std::fs::write(&path, b"").unwrap();
    assert!(matches!(refusal(&too_large), OpenError::Extend { .. }));
    assert!(path.exists());
}

#[test]
fn less_than_a_block_is_refused() {
    let folder = disk_folder();
    let path = folder.path().join("disk");
    std::fs::write(&path, [7; 511]).unwrap();
    for spec in [BackingSpec::path(&path), BackingSpec::ram(0), BackingSpec::null(511)] {
        assert!(matches!(refusal(&spec), OpenError::TooSmall { .. }));
    }
}

#[test]
fn what_is_no_disk_is_named() {
    let error = refusal(&BackingSpec::path("/dev/null"));
    assert!(error.to_string().contains("a character device"), "{error}");
    let error = refusal(&BackingSpec::path("/tmp"));
    assert!(error.to_string().contains("a folder"), "{error}");
}

#[test]
fn one_file_has_one_writer_in_this_process() {
    let folder = disk_folder();
    let path = folder.path().join("disk");
    let link = folder.path().join("link");
    let first = Backing::open(&BackingSpec::sized_file(&path, 8192)).unwrap();
    std::os::unix::fs::symlink(&path, &link).unwrap();
    for spec in [BackingSpec::path(&link), BackingSpec::path(&path).read_only()] {
        assert!(matches!(refusal(&spec), OpenError::LockedHere { .. }));
    }
    drop(first);
    let reader = Backing::open(&BackingSpec::path(&path).read_only()).unwrap();
    let another = Backing::open(&BackingSpec::path(&link).read_only()).unwrap();
    assert!(reader.geometry().read_only);
    assert!(matches!(refusal(&BackingSpec::path(&path)), OpenError::LockedHere { .. }));
    drop((reader, another));
    Backing::open(&BackingSpec::path(&path)).unwrap();
}

/// Another process that holds the lock for `seconds`.
fn holder(path: &Path, seconds: &str) -> std::process::Child {
    let child = Command::new("flock")
        .args([path.to_str().unwrap(), "sh", "-c", &format!("echo; exec sleep {seconds}")])
        .stdout(Stdio::piped())
        .spawn();
    let mut child = child.unwrap();
    let mut ready = [0];
    std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut ready).unwrap();
    child
}

#[test]
fn a_lock_of_another_process_is_waited_for_but_not_long() {
    let folder = disk_folder();
    let path = folder.path().join("disk");
    std::fs::write(&path, [7; 8192]).unwrap();
    let mut long = holder(&path, "30");
    let start = Instant::now();
    let error = refusal(&BackingSpec::path(&path));
    assert!(matches!(error, OpenError::LockedElsewhere { .. }), "{error}");
    assert!(start.elapsed() < Duration::from_secs(3));
    // `flock` runs its command as a child, which shares the lock: end both.
    must("pkill", &["-P", &long.id().to_string()]);
    long.wait().unwrap();
    let mut short = holder(&path, "0.3");
    Backing::open(&BackingSpec::path(&path)).unwrap();
    short.wait().unwrap();
}

#[test]
fn blocks_smaller_than_the_device_needs_take_the_page_cache() {
    if !is_root() {
        return;
    }
    let folder = disk_folder();
    let device = Loop::new(&folder.path().join("disk"), 1 << 20, 4096);
    let spec = BackingSpec::path(&device.path).block_size(BlockSize::B512);
    let error = refusal(&spec);
    assert!(error.to_string().contains("set block_size = 4096, or buffered = true"), "{error}");
    let backing = Backing::open(&spec.buffered()).unwrap();
    assert_eq!(backing.geometry().block_size, 512);
    drop(backing);
    let backing = Backing::open(&BackingSpec::path(&device.path)).unwrap();
    assert_eq!(backing.geometry().block_size, 4096, "the smallest possible");
}

#[test]
fn a_device_in_use_is_refused() {
    if !is_root() {
        return;
    }
    let folder = disk_folder();
    let device = Loop::new(&folder.path().join("disk"), 32 << 20, 512);
    let name = device.path.to_str().unwrap();
    let sized = BackingSpec::sized_file(&device.path, 4096);
    assert!(matches!(refusal(&sized), OpenError::SizeOfDevice { .. }));
    let first = Backing::open(&BackingSpec::path(&device.path)).unwrap();
    assert!(matches!(
        refusal(&BackingSpec::path(&device.path).read_only()),
        OpenError::DeviceBusy { .. }
    ));
    drop(first);
    must("mkfs.ext4", &["-q", name]);
    let mount = Mount::device(&device.path, &folder.path().join("mounted"));
    let error = refusal(&BackingSpec::path(&device.path));
    assert!(error.to_string().contains("in use (mounted"), "{error}");
    drop(mount);
    Backing::open(&BackingSpec::path(&device.path)).unwrap();
}

#[test]
fn a_read_only_device_asks_for_the_setting() {
    if !is_root() {
        return;
    }
    let folder = disk_folder();
    let device = Loop::new(&folder.path().join("disk"), 1 << 20, 512);
    must("blockdev", &["--setro", device.path.to_str().unwrap()]);
    let error = refusal(&BackingSpec::path(&device.path));
    assert!(error.to_string().contains("set read_only"), "{error}");
    let backing = Backing::open(&BackingSpec::path(&device.path).read_only()).unwrap();
    assert!(backing.geometry().read_only && !backing.geometry().discard);
}

#[test]
fn a_device_that_grows_is_seen_to() {
    if !is_root() {
        return;
    }
    let folder = disk_folder();
    let file = folder.path().join("disk");
    let device = Loop::new(&file, 1 << 20, 512);
    let backing = Backing::open(&BackingSpec::path(&device.path)).unwrap();
    assert_eq!(backing.capacity(), 1 << 20);
    std::fs::OpenOptions::new().write(true).open(&file).unwrap().set_len(2 << 20).unwrap();
    must("losetup", &["-c", device.path.to_str().unwrap()]);
    assert_eq!(backing.refresh_capacity().unwrap(), 2 << 20);
}

#[test]
fn polling_is_refused_where_there_is_nothing_to_look_at() {
    let folder = disk_folder();
    let file = BackingSpec::sized_file(folder.path().join("disk"), 1 << 20).iopoll();
    assert!(refusal(&file).to_string().contains("not files"), "{}", refusal(&file));
    let memory = BackingSpec::ram(1 << 20).iopoll();
    assert!(refusal(&memory).to_string().contains("a disk in memory: iopoll"));
    if !is_root() {
        return;
    }
    let device = Loop::new(&folder.path().join("image"), 1 << 20, 512);
    let error = refusal(&BackingSpec::path(&device.path).iopoll()).to_string();
    assert!(error.contains("nvme.poll_queues=1"), "{error}");
}
