//! What is stored.

use nvmf::BackingRef;
use std::collections::BTreeMap;

/// The contents of all backings; what was never written is zero.
#[derive(Debug, Default)]
pub(super) struct Disks(BTreeMap<BackingRef, Vec<u8>>);

impl Disks {
    pub(super) fn read(&self, backing: BackingRef, offset: u64, len: u64) -> Vec<u8> {
        let mut bytes = vec![0; len as usize];
        if let Some(content) = self.0.get(&backing)
            && let Some(there) = content.get(offset as usize..)
        {
            let len = there.len().min(bytes.len());
            bytes[..len].copy_from_slice(&there[..len]);
        }
        bytes
    }

    pub(super) fn write(&mut self, backing: BackingRef, offset: u64, bytes: &[u8]) {
        let content = self.0.entry(backing).or_default();
        let end = offset as usize + bytes.len();
        if content.len() < end {
            content.resize(end, 0);
        }
        content[offset as usize..end].copy_from_slice(bytes);
    }

    pub(super) fn zero(&mut self, backing: BackingRef, offset: u64, len: u64) {
        if let Some(content) = self.0.get_mut(&backing) {
            let there = content.len() as u64;
            let (from, to) = (offset.min(there), (offset + len).min(there));
            content[from as usize..to as usize].fill(0);
        }
    }
}
