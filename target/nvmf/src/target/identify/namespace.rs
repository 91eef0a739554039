//! Identify Namespace.

use super::super::subsystem::Namespace;
use super::controller::fused_blocks;
use crate::queue::{MAX_COPY_BLOCKS, MAX_COPY_RANGE_BLOCKS, MAX_COPY_RANGES};
use nvme_spec_types::ZeroBased;
use nvme_spec_types::identify::{
    CommonNamespaceFeatures, Csi, DeallocateFeatures, FormattedLba, IDENTIFY_SIZE,
    IdentifyNamespace, IdentifyNamespaceIndependent, IdentifyNamespaceNvm, LbaFormat,
    NamespaceAttributes, NamespaceFeatures, NamespaceIdentifier, NamespaceSharing, NamespaceStatus,
    encode_namespace_identifiers,
};

impl Namespace {
    /// Identify Namespace (NVM 1.1, 4.1.5.1). The one format is the current one: there is no
    /// Format NVM. `max_transfer` is that of the controllers, in bytes.
    pub(super) fn identify(&self, max_transfer: u32) -> IdentifyNamespace {
        let ns = &self.config;
        let mut id = IdentifyNamespace {
            nsze: ns.block_count,
            ncap: ns.block_count,
            nuse: ns.block_count,
            flbas: FormattedLba::new(0, false),
            nmic: NamespaceSharing::SHARED,
            nsattr: self.attributes(),
            nvmcap: self.bytes(),
            nguid: ns.nguid,
            eui64: ns.eui64,
            mssrl: MAX_COPY_RANGE_BLOCKS,
            mcl: MAX_COPY_BLOCKS,
            msrc: ZeroBased::<u8>::saturating(MAX_COPY_RANGES),
            ..IdentifyNamespace::default()
        };
        id.lbaf[0] = LbaFormat { ms: 0, lbads: ns.lba_shift, rp: 0 };
        if ns.discard && ns.discard_zeroes {
            id.dlfeat = DeallocateFeatures::READS_ZEROES | DeallocateFeatures::WRITE_ZEROES;
        }
        if ns.atomic_blocks > 0 {
            let unit = blocks(ns.atomic_blocks);
            id.nsfeat |= NamespaceFeatures::ATOMIC_UNITS;
            id.nawun = unit;
            id.nawupf = unit;
            id.nacwu = fused_blocks(max_transfer, ns.lba_shift);
        }
        if ns.optimal_blocks > 0 {
            let unit = blocks(ns.optimal_blocks);
            id.nsfeat |= NamespaceFeatures::OPTIMAL_WRITE;
            id.npwg = unit;
            id.npwa = unit;
            id.npdg = unit;
            id.npda = unit;
            id.nows = unit;
        }
        id
    }

    /// Its size in bytes.
    pub(super) fn bytes(&self) -> u128 {
        u128::from(self.config.block_count) << self.config.lba_shift
    }

    /// Identify Namespace of the NVM command set (NVM 1.1, 4.1.5.3): no protection information.
    pub(super) fn identify_nvm(&self) -> IdentifyNamespaceNvm {
        IdentifyNamespaceNvm::default()
    }

    /// Identify Namespace whatever the command set (NVMe Base 2.1, 5.1.13.2.8).
    pub(super) fn identify_independent(&self) -> IdentifyNamespaceIndependent {
        IdentifyNamespaceIndependent {
            nsfeat: if self.config.volatile_cache {
                CommonNamespaceFeatures::default()
            } else {
                CommonNamespaceFeatures::NO_WRITE_CACHE
            },
            nmic: NamespaceSharing::SHARED,
            nsattr: self.attributes(),
            nstat: NamespaceStatus::READY,
            ..IdentifyNamespaceIndependent::default()
        }
    }

    /// Namespace Identification Descriptor list (NVMe Base 2.1, 5.1.13.2.4).
    pub(super) fn identifiers(&self) -> [u8; IDENTIFY_SIZE] {
        let ns = &self.config;
        let there = |id: &[u8]| id.iter().any(|&byte| byte != 0);
        let ids = [
            there(&ns.uuid).then_some(NamespaceIdentifier::Uuid(ns.uuid)),
            there(&ns.nguid).then_some(NamespaceIdentifier::Nguid(ns.nguid)),
            there(&ns.eui64).then_some(NamespaceIdentifier::Eui64(ns.eui64)),
            Some(NamespaceIdentifier::Csi(Csi::NVM)),
        ];
        let mut list = [0; IDENTIFY_SIZE];
        encode_namespace_identifiers(ids.into_iter().flatten(), &mut list);
        list
    }

    fn attributes(&self) -> NamespaceAttributes {
        if self.config.read_only {
            NamespaceAttributes::WRITE_PROTECTED
        } else {
            NamespaceAttributes::default()
        }
    }
}

/// A count of blocks, cut to what the field can say.
fn blocks(count: u32) -> ZeroBased<u16> {
    ZeroBased::<u16>::saturating(count)
}
