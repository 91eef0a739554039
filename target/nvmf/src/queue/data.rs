//! Where a command's data is: the checks of its SGL.
//!
//! Sources: NVMe Base 2.1, 4.3.2 (descriptors, and which error belongs to which fault); RDMA
//! Transport 1.1, "SGL descriptors" (which forms this transport has).

use super::action::{MAX_SEGMENTS, RemoteSegment};
use super::slot::{DataAt, Entry};
use nvme_spec_types::sgl::SGL_DESCRIPTOR_SIZE;
use nvme_spec_types::{DataDirection, SglDescriptor, Status, StatusCode};

/// How much data a command moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Need {
    /// So many bytes, by the command; an SGL may describe more.
    Exactly(u32),
    /// As many as the SGL says, at most so many.
    UpTo(u32),
}

/// Checks the entry's SGL and notes where its data is. With a descriptor list in the capsule the
/// answer is [`DataAt::List`], and [`read_list`] comes next.
#[inline(always)]
pub(super) fn locate(entry: &mut Entry, need: Need, in_capsule: u32) -> Result<(), Status> {
    let available = entry.capsule_data().min(in_capsule);
    match entry.command.sgl1() {
        SglDescriptor::Keyed { addr, len, key, invalidate } => {
            let bytes = bytes_of(need, len)?;
            entry.len = bytes;
            if invalidate && len > 0 {
                entry.invalidate = Some(key);
            }
            if bytes == 0 {
                entry.data = DataAt::Nowhere;
            } else {
                entry.push_segment(RemoteSegment { addr, len: bytes, rkey: key });
                entry.data = DataAt::Host;
            }
        }
        SglDescriptor::InCapsule { offset, len } => {
            if entry.direction() != DataDirection::HostToController {
                return Err(StatusCode::INVALID_FIELD.with_dnr());
            }
            let offset = within(offset, len, available)?;
            let bytes = bytes_of(need, len)?;
            entry.len = bytes;
            entry.data = if bytes == 0 { DataAt::Nowhere } else { DataAt::Capsule(offset) };
        }
        SglDescriptor::LastSegment { offset, len } => {
            let size = SGL_DESCRIPTOR_SIZE as u32;
            if len == 0 || len % size != 0 {
                return Err(StatusCode::INVALID_SGL_SEGMENT_DESCRIPTOR.with_dnr());
            }
            let count = len / size;
            if count > MAX_SEGMENTS as u32 {
                return Err(StatusCode::INVALID_NUMBER_OF_SGL_DESCRIPTORS.with_dnr());
            }
            let offset = within(offset, len, available)?;
            entry.data = DataAt::List { offset, count };
        }
        // A data block by address without length is how some hosts write "no data".
        SglDescriptor::DataBlock { len: 0, .. } => {
            entry.len = bytes_of(need, 0)?;
            entry.data = DataAt::Nowhere;
        }
        SglDescriptor::DataBlock { .. }
        | SglDescriptor::Segment { .. }
        | SglDescriptor::Unknown { .. } => {
            return Err(StatusCode::SGL_DESCRIPTOR_TYPE_INVALID.with_dnr());
        }
    }
    Ok(())
}

/// Takes the descriptor list of a capsule in: `bytes` are the descriptors that [`locate`] counted.
/// Only keyed data blocks may be in it. Segments are noted up to the bytes needed, those without
/// length are left out, and of the keys to invalidate the first is kept, since a SEND invalidates
/// one.
pub(super) fn read_list(entry: &mut Entry, need: Need, bytes: &[u8]) -> Result<(), Status> {
    let mut total: u64 = 0;
    let (descriptors, _) = bytes.as_chunks::<SGL_DESCRIPTOR_SIZE>();
    for descriptor in descriptors.iter().take(MAX_SEGMENTS) {
        match SglDescriptor::from_bytes(descriptor) {
            SglDescriptor::Keyed { len, .. } => total += u64::from(len),
            _ => return Err(StatusCode::SGL_DESCRIPTOR_TYPE_INVALID.with_dnr()),
        }
    }
    let total = u32::try_from(total).map_err(|_| StatusCode::INVALID_FIELD.with_dnr())?;
    let bytes = bytes_of(need, total)?;
    let mut left = bytes;
    for descriptor in descriptors.iter().take(MAX_SEGMENTS) {
        let SglDescriptor::Keyed { addr, len, key, invalidate } =
            SglDescriptor::from_bytes(descriptor)
        else {
            continue; // refused above
        };
        if invalidate && len > 0 {
            entry.invalidate.get_or_insert(key);
        }
        let take = len.min(left);
        if take > 0 {
            entry.push_segment(RemoteSegment { addr, len: take, rkey: key });
            left -= take;
        }
    }
    entry.len = bytes;
    entry.data = if bytes == 0 { DataAt::Nowhere } else { DataAt::Host };
    Ok(())
}

/// Bytes to move when the SGL describes `described`.
fn bytes_of(need: Need, described: u32) -> Result<u32, Status> {
    match need {
        Need::Exactly(bytes) if described < bytes => {
            Err(StatusCode::DATA_SGL_LENGTH_INVALID.with_dnr())
        }
        Need::Exactly(bytes) => Ok(bytes),
        Need::UpTo(limit) if described > limit => Err(StatusCode::INVALID_FIELD.with_dnr()),
        Need::UpTo(_) => Ok(described),
    }
}

/// Checks a range of the capsule's data area against what is there.
fn within(offset: u64, len: u32, available: u32) -> Result<u32, Status> {
    match offset.checked_add(u64::from(len)) {
        Some(end) if end <= u64::from(available) => Ok(offset as u32),
        _ => Err(StatusCode::SGL_OFFSET_INVALID.with_dnr()),
    }
}
