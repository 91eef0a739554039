//! What a file or device can do, asked from the system once, at opening.

use crate::OpenError;
use rustix::fs::{AtFlags, FallocateFlags, StatxFlags};
use rustix::io::Errno;
use rustix::ioctl::{Getter, opcode};
use std::fs::File;
use std::io;
use std::path::Path;

/// Facts about an opened file or device, in bytes where not said otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Facts {
    /// Size now.
    pub(crate) bytes: u64,
    /// Smallest unit of offset and length.
    pub(crate) offset_align: u32,
    /// What buffer addresses must be a multiple of.
    pub(crate) memory_align: u32,
    /// Preferred unit (0: unknown).
    pub(crate) optimal_io: u32,
    /// A write may sit in a cache that a power cut empties.
    pub(crate) volatile_cache: bool,
    /// Space can be given back.
    pub(crate) discard: bool,
    /// Space given back reads as zeroes for certain.
    pub(crate) discard_zeroes: bool,
    /// The device refuses writes.
    pub(crate) read_only: bool,
}

/// Largest buffer alignment that our regions promise.
const PAGE: u32 = region::PAGE_SIZE as u32;

/// Asks about a regular file. `direct`: it was opened for direct I/O.
pub(crate) fn file(file: &File, path: &Path, direct: bool) -> Result<Facts, OpenError> {
    let system = |doing| move |source: Errno| system_error(path, doing, source.into());
    let stat = rustix::fs::statx(
        file,
        c"",
        AtFlags::EMPTY_PATH,
        StatxFlags::BASIC_STATS | StatxFlags::DIOALIGN,
    )
    .map_err(system("ask for its size"))?;
    let told = StatxFlags::from_bits_retain(stat.stx_mask).contains(StatxFlags::DIOALIGN)
        && stat.stx_dio_offset_align > 0;
    // A kernel that does not tell (before 6.1): 4096 is safe on every disk we know.
    let (offset_align, memory_align) = match (direct, told) {
        (false, _) => (1, 1),
        (true, true) => (stat.stx_dio_offset_align, stat.stx_dio_mem_align.max(1)),
        (true, false) => (PAGE, PAGE),
    };
    // Punching beyond the end changes nothing, but is refused where holes cannot be made.
    let beyond = stat.stx_size.next_multiple_of(PAGE.into());
    let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    let discard = rustix::fs::fallocate(file, punch, beyond, PAGE.into()).is_ok();
    Ok(Facts {
        bytes: stat.stx_size,
        offset_align,
        memory_align,
        optimal_io: stat.stx_blksize,
        volatile_cache: true,
        discard,
        discard_zeroes: discard,
        read_only: false,
    })
}

/// Asks about a block device with the number `rdev`.
pub(crate) fn device(
    file: &File,
    path: &Path,
    rdev: u64,
    direct: bool,
) -> Result<Facts, OpenError> {
    let system = |doing| move |source: Errno| system_error(path, doing, source.into());
    let logical = rustix::fs::ioctl_blksszget(file).map_err(system("ask for its block size"))?;
    let physical = rustix::fs::ioctl_blkpbszget(file).unwrap_or(logical);
    let queue = Queue::of(rdev);
    let cached = queue.text("write_cache").is_none_or(|mode| mode.trim() != "write through");
    let zeroes = queue.number("write_zeroes_max_bytes") > 0;
    let discard = queue.number("discard_max_bytes") > 0;
    Ok(Facts {
        bytes: device_bytes(file).map_err(|e| system_error(path, "ask for its size", e))?,
        offset_align: if direct { logical } else { 1 },
        memory_align: if direct {
            (queue.number("dma_alignment") as u32).saturating_add(1).next_power_of_two().min(PAGE)
        } else {
            1
        },
        optimal_io: optimal_io(file).max(physical),
        volatile_cache: cached || !direct,
        discard,
        discard_zeroes: discard && zeroes,
        read_only: is_read_only(file),
    })
}

/// Size now, in bytes, of a file or a device.
pub(crate) fn bytes_now(file: &File, is_device: bool) -> io::Result<u64> {
    if is_device { device_bytes(file) } else { Ok(file.metadata()?.len()) }
}

fn device_bytes(file: &File) -> io::Result<u64> {
    // BLKGETSIZE64; defined with the size of a pointer, filled with 64 bits.
    const OPCODE: u32 = opcode::read::<usize>(0x12, 114);
    // SAFETY: this request writes one u64 and takes nothing.
    let bytes: u64 = unsafe { rustix::ioctl::ioctl(file, Getter::<OPCODE, u64>::new()) }?;
    Ok(bytes)
}

/// BLKIOOPT, 0 where unknown.
fn optimal_io(file: &File) -> u32 {
    const OPCODE: u32 = opcode::none(0x12, 121);
    // SAFETY: this request writes one unsigned int and takes nothing.
    unsafe { rustix::ioctl::ioctl(file, Getter::<OPCODE, u32>::new()) }.unwrap_or(0)
}

/// BLKROGET.
fn is_read_only(file: &File) -> bool {
    const OPCODE: u32 = opcode::none(0x12, 94);
    // SAFETY: this request writes one int and takes nothing.
    unsafe { rustix::ioctl::ioctl(file, Getter::<OPCODE, i32>::new()) }.is_ok_and(|ro| ro != 0)
}

fn system_error(path: &Path, doing: &'static str, source: io::Error) -> OpenError {
    OpenError::System { path: path.to_owned(), doing, source }
}

/// The name of a block device, for [`queue_text`]; of a partition its disk's.
pub(crate) fn device_name(rdev: u64) -> Option<String> {
    let (major, minor) = (rustix::fs::major(rdev), rustix::fs::minor(rdev));
    let own = std::fs::canonicalize(format!("/sys/dev/block/{major}:{minor}")).ok()?;
    let disk = if own.join("queue").exists() { own.as_path() } else { own.parent()? };
    Some(disk.file_name()?.to_str()?.to_owned())
}

/// What sysfs says of a block device's request queue.
pub(crate) fn queue_text(device: &str, key: &str) -> Option<String> {
    std::fs::read_to_string(format!("/sys/class/block/{device}/queue/{key}")).ok()
}

/// A device's request queue as sysfs shows it; a partition's is its disk's.
struct Queue(String);

impl Queue {
    fn of(rdev: u64) -> Queue {
        let (major, minor) = (rustix::fs::major(rdev), rustix::fs::minor(rdev));
        let own = format!("/sys/dev/block/{major}:{minor}/queue");
        if Path::new(&own).exists() {
            return Queue(own);
        }
        Queue(format!("/sys/dev/block/{major}:{minor}/../queue"))
    }

    fn text(&self, name: &str) -> Option<String> {
        std::fs::read_to_string(format!("{}/{name}", self.0)).ok()
    }

    /// 0 where the kernel does not tell.
    fn number(&self, name: &str) -> u64 {
        self.text(name).and_then(|text| text.trim().parse().ok()).unwrap_or(0)
    }
}
