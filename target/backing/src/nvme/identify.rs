//! What the device's identify data means for an export of it.

use super::Limits;
use crate::Geometry;
use nvme_spec_types::identify::{
    DeallocateFeatures, IdentifyController, IdentifyControllerNvm, IdentifyNamespace,
    NamespaceAttributes, NamespaceFeatures, OptionalNvmCommands, VolatileWriteCache,
};

/// The smallest page of a controller, in bytes, which its limits are counted in. It is in a register
/// that only the driver sees; every one known has this.
const CONTROLLER_PAGE: u64 = 4096;

/// Bytes that a command may move where nobody says more.
const CAUTIOUS_TRANSFER: u64 = 128 << 10;

/// What the kernel lets one command be, from the block device of the same namespace; 0 for unknown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct QueueLimits {
    /// Bytes that a command may move.
    pub(super) bytes: u64,
    /// Separate pieces of memory that its data may have.
    pub(super) segments: u64,
}

/// Why a namespace cannot be exported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unfit {
    /// Its blocks carry so many bytes of metadata.
    Metadata(u16),
    /// Its blocks are not 512 to 4096 bytes.
    Blocks(u32),
}

/// What can be offered of a namespace. Its block size is the device's, its size in whole blocks.
pub(super) fn facts(
    controller: &IdentifyController,
    nvm: Option<&IdentifyControllerNvm>,
    namespace: &IdentifyNamespace,
    queue: QueueLimits,
) -> Result<(Geometry, Limits), Unfit> {
    let format = namespace.format();
    if format.ms > 0 {
        return Err(Unfit::Metadata(format.ms));
    }
    let block = match format.block_size() {
        Some(block @ 512..=4096) => block,
        other => return Err(Unfit::Blocks(other.unwrap_or(0))),
    };
    let bytes = |blocks: u64| blocks.saturating_mul(block.into());
    let transfer = transfer_limit(controller, queue).min(bytes(1 << 16)).max(block.into());
    let limits = Limits {
        block_shift: format.lbads,
        transfer: (transfer / u64::from(block) * u64::from(block)) as u32,
        zeroes: if controller.oncs.contains(OptionalNvmCommands::WRITE_ZEROES) {
            let own = nvm.and_then(|nvm| pages(nvm.wzsl)).or_else(|| pages(controller.mdts));
            own.unwrap_or(u64::MAX).min(bytes(1 << 16))
        } else {
            0
        },
        zeroes_deallocate: namespace.dlfeat.contains(DeallocateFeatures::WRITE_ZEROES),
        discard: if controller.oncs.contains(OptionalNvmCommands::DATASET_MANAGEMENT) {
            match nvm.map_or(0, |nvm| nvm.dmrsl) {
                0 => bytes(u32::MAX.into()),
                most => bytes(most.into()),
            }
        } else {
            0
        },
    };
    let optimal = if namespace.nsfeat.contains(NamespaceFeatures::OPTIMAL_WRITE) {
        namespace.nows.count().max(namespace.npwg.count())
    } else {
        1
    };
    let geometry = Geometry {
        capacity: bytes(namespace.nsze),
        block_size: block,
        optimal_io: bytes(optimal.into()).min(transfer.max(block.into())) as u32,
        atomic_write: atomic_write(controller, namespace, block).min(limits.transfer),
        volatile_cache: controller.vwc.contains(VolatileWriteCache::PRESENT),
        discard: limits.discard > 0,
        discard_zeroes: limits.discard > 0
            && namespace.dlfeat.contains(DeallocateFeatures::READS_ZEROES)
            && !namespace.dlfeat.contains(DeallocateFeatures::READS_ONES),
        read_only: namespace.nsattr.contains(NamespaceAttributes::WRITE_PROTECTED),
    };
    Ok((geometry, limits))
}

/// A limit that is a power of two of pages; `None` for the 0 that means no limit.
fn pages(power: u8) -> Option<u64> {
    (power > 0).then(|| CONTROLLER_PAGE << power.min(32))
}

/// Bytes that a command may move. Buffers may be scattered page by page, so the kernel's limit of
/// pieces counts as one of pages; a power of two of them splits large transfers evenly.
fn transfer_limit(controller: &IdentifyController, queue: QueueLimits) -> u64 {
    let device = pages(controller.mdts);
    if queue.bytes == 0 {
        return device.unwrap_or(CAUTIOUS_TRANSFER).min(CAUTIOUS_TRANSFER);
    }
    let scattered = match queue.segments {
        0 => CAUTIOUS_TRANSFER,
        n => (1 << n.ilog2()) * region::PAGE_SIZE as u64,
    };
    device.unwrap_or(u64::MAX).min(queue.bytes).min(scattered)
}

/// Bytes of a write that a power cut leaves whole or undone, wherever it starts.
fn atomic_write(controller: &IdentifyController, namespace: &IdentifyNamespace, block: u32) -> u32 {
    if !namespace.nsfeat.contains(NamespaceFeatures::ATOMIC_UNITS) {
        return controller.awupf.count().saturating_mul(block);
    }
    // With a boundary the unit holds only within it, and hosts are told of none.
    if namespace.nabspf.raw() != 0 {
        return block;
    }
    namespace.nawupf.count().saturating_mul(block)
}
