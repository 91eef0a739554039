//! Lists that Identify returns.

use crate::identify::Csi;
use crate::layout::{Field, get, put};

layout! {
    /// Namespace ID list, CNS 02h, 07h, 10h, 1Ah (NVMe Base 2.1, 4.6.2), and
    /// the Changed Namespace List log page. Ascending, ended by a zero if
    /// there are fewer than 1024.
    pub struct NamespaceList[4096] {
        /// The entries; see [`NamespaceList::iter`].
        0 => pub entries: [u32; 1024],
    }
}

impl NamespaceList {
    /// Most entries of a list.
    pub const CAPACITY: usize = 1024;

    /// A list of the first 1024 of `ids`, which the caller gives in ascending
    /// order.
    pub fn from_ascending(ids: impl IntoIterator<Item = u32>) -> Self {
        let mut list = Self::default();
        for (entry, id) in list.entries.iter_mut().zip(ids) {
            *entry = id;
        }
        list
    }

    /// The entries before the first zero.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.entries.iter().copied().take_while(|&id| id != 0)
    }
}

/// Controller list, CNS 12h and 13h (NVMe Base 2.1, 4.6.1): up to 2047
/// controller ids, ascending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControllerList {
    len: u16,
    entries: [u16; Self::CAPACITY],
}

impl ControllerList {
    /// Most entries of a list.
    pub const CAPACITY: usize = 2047;
    /// Bytes this structure takes on the wire.
    pub const SIZE: usize = 4096;

    /// A list of the first 2047 of `ids`, which the caller gives in ascending
    /// order.
    pub fn from_ascending(ids: impl IntoIterator<Item = u16>) -> Self {
        let mut list = Self { len: 0, entries: [0; Self::CAPACITY] };
        for (entry, id) in list.entries.iter_mut().zip(ids) {
            *entry = id;
            list.len += 1;
        }
        list
    }

    /// Reads a list; a count past 2047 is taken as 2047.
    ///
    /// # Errors
    /// [`ParseError`](crate::ParseError) when there are fewer than 4096 bytes.
    pub fn parse(bytes: &[u8]) -> Result<Self, crate::ParseError> {
        crate::ParseError::check(bytes, Self::SIZE)?;
        let count = usize::from(get::<u16>(bytes, 0)).min(Self::CAPACITY);
        Ok(Self::from_ascending((0..count).map(|i| get(bytes, 2 + 2 * i))))
    }

    /// The list as it goes on the wire.
    pub fn to_bytes(&self) -> [u8; Self::SIZE] {
        let mut out = [0; Self::SIZE];
        put(&mut out, 0, self.len);
        for (i, id) in self.as_slice().iter().enumerate() {
            put(&mut out, 2 + 2 * i, *id);
        }
        out
    }

    /// The entries.
    pub fn as_slice(&self) -> &[u16] {
        &self.entries[..usize::from(self.len)]
    }
}

codes! {
    /// Namespace identifier type (NIDT).
    pub struct IdentifierKind(u8) {
        EUI64 = 1, "EUI-64";
        NGUID = 2, "NGUID";
        UUID = 3, "UUID";
        CSI = 4, "command set";
    }
}

/// One entry of the Namespace Identification Descriptor list, CNS 03h
/// (NVMe Base 2.1, 5.1.13.2.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamespaceIdentifier<'a> {
    /// IEEE extended unique identifier, as printed.
    Eui64([u8; 8]),
    /// Globally unique identifier, as printed.
    Nguid([u8; 16]),
    /// UUID, as printed.
    Uuid([u8; 16]),
    /// Command set of the namespace; always in the list.
    Csi(Csi),
    /// Another type, or one of these with another length.
    Unknown {
        /// Type (NIDT).
        kind: IdentifierKind,
        /// Identifier, at least one byte.
        nid: &'a [u8],
    },
}

const IDENTIFIER_HEADER: usize = 4;

/// Writes `identifiers` as a Namespace Identification Descriptor list, the
/// rest of the 4096 bytes zero, and returns how many of them fitted.
pub fn encode_namespace_identifiers<'a>(
    identifiers: impl IntoIterator<Item = NamespaceIdentifier<'a>>,
    out: &mut [u8; 4096],
) -> usize {
    out.fill(0);
    let mut at = 0;
    let mut written = 0;
    for identifier in identifiers {
        let csi;
        let (kind, nid): (_, &[u8]) = match &identifier {
            NamespaceIdentifier::Eui64(id) => (IdentifierKind::EUI64, id),
            NamespaceIdentifier::Nguid(id) => (IdentifierKind::NGUID, id),
            NamespaceIdentifier::Uuid(id) => (IdentifierKind::UUID, id),
            NamespaceIdentifier::Csi(value) => {
                csi = [value.0];
                (IdentifierKind::CSI, &csi)
            }
            NamespaceIdentifier::Unknown { kind, nid } => (*kind, nid),
        };
        let end = at + IDENTIFIER_HEADER + nid.len();
        let (Ok(nidl), true) = (u8::try_from(nid.len()), end <= out.len()) else { break };
        out[at] = kind.0;
        out[at + 1] = nidl;
        out[at + IDENTIFIER_HEADER..end].copy_from_slice(nid);
        at = end;
        written += 1;
    }
    written
}

/// Reads a Namespace Identification Descriptor list, up to the first
/// descriptor of length zero or one that does not fit.
#[derive(Clone, Debug)]
pub struct NamespaceIdentifiers<'a> {
    rest: &'a [u8],
}

impl<'a> NamespaceIdentifiers<'a> {
    /// Reads from `bytes`, usually 4096.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }
}

impl<'a> Iterator for NamespaceIdentifiers<'a> {
    type Item = NamespaceIdentifier<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        let (&[kind, nidl, _, _], rest) = self.rest.split_first_chunk::<IDENTIFIER_HEADER>()?;
        if nidl == 0 {
            return None;
        }
        let (nid, rest) = rest.split_at_checked(usize::from(nidl))?;
        self.rest = rest;
        let kind = IdentifierKind(kind);
        let unknown = NamespaceIdentifier::Unknown { kind, nid };
        Some(match kind {
            IdentifierKind::EUI64 => nid.try_into().map_or(unknown, NamespaceIdentifier::Eui64),
            IdentifierKind::NGUID => nid.try_into().map_or(unknown, NamespaceIdentifier::Nguid),
            IdentifierKind::UUID => nid.try_into().map_or(unknown, NamespaceIdentifier::Uuid),
            IdentifierKind::CSI => match nid {
                [csi] => NamespaceIdentifier::Csi(Csi(*csi)),
                _ => unknown,
            },
            _ => unknown,
        })
    }
}

flags! {
    /// A combination of I/O command sets that can be used together
    /// (NVMe Base 2.1, 5.1.13.2.19).
    pub struct IoCommandSets(u64) {
        /// NVM.
        NVM = 0;
        /// Key Value.
        KEY_VALUE = 1;
        /// Zoned Namespace.
        ZONED = 2;
        /// Subsystem Local Memory.
        SUBSYSTEM_LOCAL_MEMORY = 3;
        /// Computational Programs.
        COMPUTATIONAL_PROGRAMS = 4;
    }
}

layout! {
    /// I/O Command Set data structure, CNS 1Ch: combinations, ended by an
    /// empty one (NVMe Base 2.1, 5.1.13.2.19).
    pub struct IoCommandSetList[4096] {
        /// The combinations; the first empty one ends them.
        0 => pub entries: [IoCommandSets; 512],
    }
}

codes! {
    /// Whose UUID it is, 2 bits.
    pub struct UuidAssociation(u8) {
        NONE = 0, "none";
        VENDOR = 1, "PCI vendor";
        SUBSYSTEM_VENDOR = 2, "PCI subsystem vendor";
    }
}

layout! {
    /// One entry of the UUID list.
    pub struct UuidListEntry[32] {
        /// Association, bits 1:0.
        0 => pub association: UuidAssociation,
        /// The UUID, as printed; zero ends the list.
        16 => pub uuid: [u8; 16],
    }
}

layout! {
    /// UUID list, CNS 17h: entry n has index n + 1
    /// (NVMe Base 2.1, 5.1.13.2.14).
    pub struct UuidList[4096] {
        /// The entries.
        32 => pub entries: [UuidListEntry; 127],
    }
}

const _: () = assert!(<UuidListEntry as Field>::SIZE == 32);
