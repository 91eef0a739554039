//! Opening the character device of an NVMe namespace.

use super::identify::{QueueLimits, Unfit, facts};
use super::{NvmeStore, ioctl};
use crate::open::{self, Claim, Purpose};
use crate::probe;
use crate::{BackingSpec, Geometry, OpenError};
use nvme_spec_types::identify::Csi;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Whether a character device with the number `rdev` is a namespace of NVMe.
pub(crate) fn is_generic(rdev: u64) -> bool {
    let (major, minor) = (rustix::fs::major(rdev), rustix::fs::minor(rdev));
    std::fs::read_link(format!("/sys/dev/char/{major}:{minor}/subsystem"))
        .is_ok_and(|class| class.file_name().is_some_and(|name| name == "nvme-generic"))
}

/// Opens it, to be used by this process alone.
///
/// # Errors
/// [`OpenError`]: it is in use, may not be used, or cannot be exported.
pub(crate) fn open(
    spec: &BackingSpec,
    path: &Path,
    purpose: Purpose,
) -> Result<(NvmeStore, Geometry), OpenError> {
    let file = OpenOptions::new()
        .read(true)
        .write(!spec.read_only)
        .open(path)
        .map_err(|source| open::refused(path, spec.read_only, source))?;
    let meta = file.metadata().map_err(|e| system(path, "look at it", e))?;
    let beside = block_device(meta.rdev());
    let (block, claim) = match purpose {
        Purpose::Look => (None, Claim::none()),
        Purpose::Use => {
            let block = beside.as_deref().map(|name| claim(path, name)).transpose()?.flatten();
            open::lock(&file, path, spec.read_only)?;
            (block, Claim::on(meta.dev(), meta.ino()))
        }
    };

    let identify = |e: io::Error| match e.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => OpenError::Commands { path: path.to_owned() },
        _ => system(path, "identify it", e),
    };
    let nsid = ioctl::nsid(&file).map_err(|e| system(path, "ask for its number", e))?;
    let controller = ioctl::identify_controller(&file).map_err(identify)?;
    let command_set = ioctl::command_set(&file, nsid);
    if command_set != Csi::NVM {
        return Err(OpenError::CommandSet { path: path.to_owned(), command_set });
    }
    let nvm = ioctl::identify_controller_nvm(&file);
    let namespace = ioctl::identify_namespace(&file, nsid).map_err(identify)?;
    if spec.iopoll {
        open::may_poll(path, beside.as_deref())?;
    }
    let queue = beside.as_deref().map_or_else(QueueLimits::default, queue_limits);
    let (geometry, limits) =
        facts(&controller, nvm.as_ref(), &namespace, queue).map_err(|unfit| match unfit {
            Unfit::Metadata(bytes) => OpenError::Metadata { path: path.to_owned(), bytes },
            Unfit::Blocks(needed) => OpenError::BlocksTooLarge { path: path.to_owned(), needed },
        })?;
    tracing::debug!(path = %path.display(), nsid, ?limits, "NVMe commands go to the device as they are");
    let store = NvmeStore { file, nsid, limits, polled: spec.iopoll, _block: block, _claim: claim };
    Ok((store, geometry))
}

/// The name of the block device of the same namespace: `nvme0n1` beside `ng0n1`.
fn block_device(rdev: u64) -> Option<String> {
    let (major, minor) = (rustix::fs::major(rdev), rustix::fs::minor(rdev));
    let known = std::fs::read_to_string(format!("/sys/dev/char/{major}:{minor}/uevent")).ok()?;
    let own = known.lines().find_map(|line| line.strip_prefix("DEVNAME="))?;
    let name = format!("nvme{}", own.strip_prefix("ng")?);
    Path::new("/sys/class/block").join(&name).exists().then_some(name)
}

/// Takes the block device, so that it cannot be mounted; nothing where this process may not.
fn claim(path: &Path, name: &str) -> Result<Option<File>, OpenError> {
    let node = Path::new("/dev").join(name);
    let exclusive = || OpenOptions::new().read(true).custom_flags(libc::O_EXCL).open(&node);
    match open::patiently(exclusive, |e| e.raw_os_error() == Some(libc::EBUSY)) {
        Ok(file) => Ok(Some(file)),
        Err(e) if e.raw_os_error() == Some(libc::EBUSY) => {
            Err(OpenError::DeviceBusy { path: path.to_owned() })
        }
        Err(error) => {
            tracing::warn!(device = %node.display(), %error, "cannot claim the block device of the same namespace: make sure that nothing uses it");
            Ok(None)
        }
    }
}

fn queue_limits(name: &str) -> QueueLimits {
    let number = |key: &str| probe::queue_text(name, key)?.trim().parse::<u64>().ok();
    QueueLimits {
        bytes: number("max_hw_sectors_kb").unwrap_or(0) << 10,
        segments: number("max_segments").unwrap_or(0),
    }
}

fn system(path: &Path, doing: &'static str, source: io::Error) -> OpenError {
    OpenError::System { path: path.to_owned(), doing, source }
}
