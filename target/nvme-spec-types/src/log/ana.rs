//! Asymmetric Namespace Access log page (NVMe Base 2.1, 5.1.12.1.13).

use crate::ParseError;
use crate::layout::{get, put};

/// Log specific parameter that asks for groups without their namespaces (RGO).
pub const LSP_ANA_GROUPS_ONLY: u8 = 1 << 0;

codes! {
    /// State of an ANA group (NVMe Base 2.1, 8.1.1).
    pub struct AnaState(u8) {
        OPTIMIZED = 0x1, "optimized";
        NON_OPTIMIZED = 0x2, "non-optimized";
        INACCESSIBLE = 0x3, "inaccessible";
        PERSISTENT_LOSS = 0x4, "persistent loss";
        CHANGE = 0xf, "change";
    }
}

layout! {
    /// What the page starts with; [`AnaGroupDescriptor`]s follow.
    pub struct AnaLogHeader[16] {
        /// Change count of the whole page.
        0 => pub chgcnt: u64,
        /// Group descriptors that follow.
        8 => pub ngrps: u16,
    }
}

layout! {
    /// A group; `nnsids` namespace ids of 4 bytes follow, ascending.
    pub struct AnaGroupDescriptor[32] {
        /// Group.
        0 => pub agid: u32,
        /// Namespace ids that follow; 0 when only groups were asked for.
        4 => pub nnsids: u32,
        /// Change count of the group.
        8 => pub chgcnt: u64,
        /// State; the high nibble is reserved.
        16 => pub state: AnaState,
    }
}

impl AnaGroupDescriptor {
    /// Bytes the descriptor takes with its namespace ids.
    pub const fn total_len(&self) -> u64 {
        Self::SIZE as u64 + self.nnsids as u64 * 4
    }

    /// Reads a descriptor and its namespace ids, and returns what follows.
    ///
    /// # Errors
    /// [`ParseError`] when there are fewer bytes than the descriptor says.
    pub fn parse_with_namespaces(
        bytes: &[u8],
    ) -> Result<(Self, impl Iterator<Item = u32> + '_, &[u8]), ParseError> {
        let group = Self::parse(bytes)?;
        let needed = usize::try_from(group.total_len()).unwrap_or(usize::MAX);
        ParseError::check(bytes, needed)?;
        let (own, rest) = bytes.split_at(needed);
        let nsids = own[Self::SIZE..].chunks_exact(4).map(|id| get(id, 0));
        Ok((group, nsids, rest))
    }

    /// Writes the descriptor and `nsids`, whose number replaces `nnsids`, to
    /// the front of `out`, and returns the bytes taken; `None` when `out` is
    /// too short, its content then undefined.
    pub fn encode_with_namespaces(
        &self,
        nsids: impl IntoIterator<Item = u32>,
        out: &mut [u8],
    ) -> Option<usize> {
        let mut group = self.clone();
        group.nnsids = 0;
        let mut at = Self::SIZE;
        for nsid in nsids {
            put(out.get_mut(at..at + 4)?, 0, nsid);
            at += 4;
            group.nnsids += 1;
        }
        group.encode(out.get_mut(..Self::SIZE)?);
        Some(at)
    }
}
