//! Discovery log page (NVMe Base 2.1, 5.1.12.3.1): how to reach subsystems.

use crate::fixed_str::FixedStr;
use crate::layout::Field;
use crate::{Nqn, NqnError};

codes! {
    /// Transport type (TRTYPE).
    pub struct TransportType(u8) {
        RDMA = 1, "rdma";
        FIBRE_CHANNEL = 2, "fc";
        TCP = 3, "tcp";
        INTRA_HOST = 254, "loop";
    }
}

codes! {
    /// Address family (ADRFAM).
    pub struct AddressFamily(u8) {
        IPV4 = 1, "ipv4";
        IPV6 = 2, "ipv6";
        INFINIBAND = 3, "ib";
        FIBRE_CHANNEL = 4, "fc";
        INTRA_HOST = 254, "loop";
    }
}

codes! {
    /// Subsystem type (SUBTYPE).
    pub struct SubsystemType(u8) {
        REFERRAL = 1, "discovery subsystem referral";
        NVM = 2, "nvme subsystem";
        CURRENT_DISCOVERY = 3, "current discovery subsystem";
    }
}

/// Transport requirements (TREQ).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TransportRequirements(pub u8);

impl TransportRequirements {
    /// Nothing is said about a secure channel.
    pub const NOT_SPECIFIED: Self = Self(0);
    /// A secure channel is not required.
    pub const SECURE_NOT_REQUIRED: Self = Self(2);
    /// A secure channel is required.
    pub const SECURE_REQUIRED: Self = Self(1);

    /// Secure channel: 0 not said, 1 required, 2 not required.
    pub const fn secure_channel(self) -> u8 {
        self.0 & 3
    }

    /// Submission queue flow control can be turned off.
    pub const fn sq_flow_control_disable(self) -> bool {
        self.0 & 4 != 0
    }

    /// With the flow control bit set.
    #[must_use]
    pub const fn with_sq_flow_control_disable(self) -> Self {
        Self(self.0 | 4)
    }
}

impl Field for TransportRequirements {
    const SIZE: usize = 1;
    fn get(bytes: &[u8]) -> Self {
        Self(Field::get(bytes))
    }
    fn put(&self, out: &mut [u8]) {
        self.0.put(out);
    }
}

flags! {
    /// Entry flags (EFLAGS).
    pub struct DiscoveryEntryFlags(u16) {
        /// This entry's controller returns the same information
        /// (DUPRETINFO); of discovery subsystems.
        DUPLICATE = 0;
        /// Explicit persistent connections are supported (EPCSD); of
        /// discovery subsystems.
        PERSISTENT_CONNECTION = 1;
        /// No central discovery controller (NCC).
        NO_CDC = 2;
    }
}

codes! {
    /// RDMA queue pair type (RDMA Transport 1.1, TSAS).
    pub struct RdmaQpType(u8) {
        CONNECTED = 1, "connected";
        DATAGRAM = 2, "datagram";
    }
}

codes! {
    /// RDMA provider type (RDMA Transport 1.1, TSAS).
    pub struct RdmaProvider(u8) {
        NOT_SPECIFIED = 1, "not specified";
        INFINIBAND = 2, "InfiniBand";
        ROCE = 3, "RoCE";
        ROCE_V2 = 4, "RoCEv2";
        IWARP = 5, "iWARP";
    }
}

codes! {
    /// RDMA connection management service (RDMA Transport 1.1, TSAS).
    pub struct RdmaCms(u8) {
        RDMA_CM = 1, "RDMA_CM";
    }
}

layout! {
    /// Transport specific address subtype (TSAS) of RDMA
    /// (RDMA Transport 1.1, TSAS).
    pub struct RdmaTsas[256] {
        /// Queue pair type.
        0 => pub qptype: RdmaQpType,
        /// Provider.
        1 => pub prtype: RdmaProvider,
        /// Connection management service.
        2 => pub cms: RdmaCms,
        /// Partition key, of datagram queue pairs.
        8 => pub pkey: u16,
    }
}

layout! {
    /// What the page starts with; `numrec` entries of 1024 bytes follow.
    pub struct DiscoveryHeader[1024] {
        /// Generation counter: changes when the page does. A host that reads
        /// in parts compares it at the end.
        0 => pub genctr: u64,
        /// Entries.
        8 => pub numrec: u64,
        /// Record format, 0.
        16 => pub recfmt: u16,
    }
}

layout! {
    /// One way to reach one subsystem.
    pub struct DiscoveryEntry[1024] {
        /// Transport.
        0 => pub trtype: TransportType,
        /// Address family.
        1 => pub adrfam: AddressFamily,
        /// What the subsystem is.
        2 => pub subtype: SubsystemType,
        /// Transport requirements.
        3 => pub treq: TransportRequirements,
        /// Port of the subsystem.
        4 => pub portid: u16,
        /// Controller id; FFFFh with the dynamic model.
        6 => pub cntlid: u16,
        /// Most entries of the admin submission queue (ASQSZ), a count, 32 or
        /// more.
        8 => pub asqsz: u16,
        /// Flags.
        10 => pub eflags: DiscoveryEntryFlags,
        /// Transport service id (TRSVCID): the port number in decimal.
        32 => pub trsvcid: FixedStr<32>,
        /// Subsystem NQN (SUBNQN) with its NUL; see
        /// [`DiscoveryEntry::subnqn`].
        256 => pub subnqn_field: [u8; 256],
        /// Transport address (TRADDR).
        512 => pub traddr: FixedStr<256>,
        /// Transport specific address subtype; see [`RdmaTsas`].
        768 => pub tsas: [u8; 256],
    }
}

impl DiscoveryEntry {
    /// The subsystem's name.
    ///
    /// # Errors
    /// Why the field is not a name.
    pub fn subnqn(&self) -> Result<Nqn, NqnError> {
        Nqn::from_field(&self.subnqn_field)
    }

    /// Sets the subsystem's name.
    pub fn set_subnqn(&mut self, name: &Nqn) {
        self.subnqn_field = name.to_field();
    }

    /// The address subtype of an entry whose transport is RDMA.
    pub fn rdma_tsas(&self) -> Option<RdmaTsas> {
        (self.trtype == TransportType::RDMA).then(|| Field::get(&self.tsas))
    }

    /// Sets the address subtype.
    pub fn set_rdma_tsas(&mut self, tsas: &RdmaTsas) {
        self.tsas = tsas.to_bytes();
    }
}
