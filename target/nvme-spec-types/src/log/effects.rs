//! What is supported and what it does: commands, features, log pages.

use crate::layout::Field;
use crate::{AdminOpcode, FeatureId, IoOpcode, LogId};

flags! {
    /// What a command's or a feature's effects reach: CSP and FSP, 12 bits.
    pub struct EffectScope(u16) {
        /// Namespace.
        NAMESPACE = 0;
        /// Controller.
        CONTROLLER = 1;
        /// NVM set.
        NVM_SET = 2;
        /// Endurance group.
        ENDURANCE_GROUP = 3;
        /// Domain.
        DOMAIN = 4;
        /// NVM subsystem.
        SUBSYSTEM = 5;
    }
}

macro_rules! effects {
    ($(#[$($meta:tt)*])* pub struct $name:ident { $( $(#[$($bmeta:tt)*])* $konst:ident = $bit:literal; )* }) => {
        flags! {
            $(#[$($meta)*])*
            pub struct $name(u32) {
                $( $(#[$($bmeta)*])* $konst = $bit; )*
                /// A UUID index is taken.
                UUID_SELECTION = 19;
            }
        }
        impl $name {
            /// Scope, bits 31:20; empty for not reported.
            pub const fn scope(self) -> EffectScope {
                EffectScope::from_bits_retain((self.bits() >> 20) as u16)
            }
            /// With the scope replaced; 12 bits of it count.
            #[must_use]
            pub const fn with_scope(self, scope: EffectScope) -> Self {
                Self::from_bits_retain(self.bits() & 0xf_ffff | (scope.bits() as u32) << 20)
            }
        }
    };
}

effects! {
    /// What a command does. Bits 18:16, submission and execution, are
    /// [`CommandEffects::exclusive_execution`].
    pub struct CommandEffects {
        /// Supported (CSUPP).
        SUPPORTED = 0;
        /// Can change logical blocks' content (LBCC).
        BLOCK_CONTENT = 1;
        /// Can change a namespace's capabilities (NCC).
        NAMESPACE_CAPABILITY = 2;
        /// Can change how many namespaces there are (NIC).
        NAMESPACE_INVENTORY = 3;
        /// Can change the controller's capabilities (CCC).
        CONTROLLER_CAPABILITY = 4;
    }
}

impl CommandEffects {
    /// Submission and execution (CSE): 0 no restriction, 1 one at a time for
    /// the namespace, 2 for the controller.
    pub const fn exclusive_execution(self) -> u8 {
        (self.bits() >> 16) as u8 & 7
    }
}

effects! {
    /// What setting a feature does.
    pub struct FeatureEffects {
        /// Supported (FSUPP).
        SUPPORTED = 0;
        /// Can change user data (UDCC).
        BLOCK_CONTENT = 1;
        /// Can change a namespace's capabilities (NCC).
        NAMESPACE_CAPABILITY = 2;
        /// Can change how many namespaces there are (NIC).
        NAMESPACE_INVENTORY = 3;
        /// Can change the controller's capabilities (CCC).
        CONTROLLER_CAPABILITY = 4;
    }
}

layout! {
    /// Commands Supported and Effects, log page 05h
    /// (NVMe Base 2.1, 5.1.12.1.6).
    pub struct CommandEffectsLog[4096] {
        /// Of admin commands, by opcode.
        0 => pub admin: [CommandEffects; 256],
        /// Of I/O commands of the command set asked for, by opcode.
        1024 => pub io: [CommandEffects; 256],
    }
}

impl CommandEffectsLog {
    /// The entry of an admin command.
    pub fn admin_mut(&mut self, opcode: AdminOpcode) -> &mut CommandEffects {
        &mut self.admin[usize::from(opcode.0)]
    }

    /// The entry of an I/O command.
    pub fn io_mut(&mut self, opcode: IoOpcode) -> &mut CommandEffects {
        &mut self.io[usize::from(opcode.0)]
    }
}

layout! {
    /// Feature Identifiers Supported and Effects, log page 12h
    /// (NVMe Base 2.1, 5.1.12.1.18).
    pub struct FeatureEffectsLog[1024] {
        /// By feature.
        0 => pub features: [FeatureEffects; 256],
    }
}

impl FeatureEffectsLog {
    /// The entry of a feature.
    pub fn feature_mut(&mut self, fid: FeatureId) -> &mut FeatureEffects {
        &mut self.features[usize::from(fid.0)]
    }
}

/// What a log page supports: its entry in [`SupportedLogs`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogSupport {
    /// The page is supported (LSUPP).
    pub supported: bool,
    /// Its offset may be an index (IOS).
    pub index_offset: bool,
    /// Log specific (LIDSP): of the discovery page bit 0 extended entries,
    /// bit 1 port local entries only, bit 2 all subsystem entries.
    pub specific: u16,
}

impl Field for LogSupport {
    const SIZE: usize = 4;
    fn get(bytes: &[u8]) -> Self {
        Self {
            supported: bytes[0] & 1 != 0,
            index_offset: bytes[0] & 2 != 0,
            specific: u16::get(&bytes[2..4]),
        }
    }
    fn put(&self, out: &mut [u8]) {
        out[0] = u8::from(self.supported) | u8::from(self.index_offset) << 1;
        out[1] = 0;
        self.specific.put(&mut out[2..4]);
    }
}

layout! {
    /// Supported Log Pages, log page 00h (NVMe Base 2.1, 5.1.12.1.1).
    pub struct SupportedLogs[1024] {
        /// By log page.
        0 => pub logs: [LogSupport; 256],
    }
}

impl SupportedLogs {
    /// The entry of a log page.
    pub fn log_mut(&mut self, lid: LogId) -> &mut LogSupport {
        &mut self.logs[usize::from(lid.0)]
    }
}
