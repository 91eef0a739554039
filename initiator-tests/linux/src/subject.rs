//! What is under test: which target, and how it reaches RDMA.

/// Whom the host talks to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetKind {
    /// The daemon under test.
    Nvmfd,
    /// The kernel's own target, the reference.
    Nvmet,
}

impl TargetKind {
    /// The name used on the command line and in case headers.
    pub fn name(self) -> &'static str {
        match self {
            Self::Nvmfd => "nvmfd",
            Self::Nvmet => "nvmet",
        }
    }
}

/// How the daemon reaches RDMA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Provider {
    /// RDMA devices through libibverbs; the daemon runs in the machine.
    Verbs,
    /// Its own RoCEv2 endpoint; the daemon runs outside of the machine.
    Soft,
}

impl Provider {
    /// The name used on the command line, in case headers, and in the daemon's
    /// configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::Verbs => "verbs",
            Self::Soft => "soft",
        }
    }
}
