//! What cores and the control thread tell each other.

use nvme_spec_types::Status;
use nvme_spec_types::log::ParameterLocation;
use nvmf::target::{AbortToken, Binding};
use nvmf::view::SubsystemView;
use nvmf::{BackingRef, Outcome, QueueKey, Slot};
use std::sync::Arc;

/// A command for the control thread.
#[derive(Debug)]
pub(super) struct Execute {
    pub(super) key: QueueKey,
    pub(super) slot: Slot,
    pub(super) command: [u8; 64],
    pub(super) data: Vec<u8>,
}

/// From a core.
#[derive(Debug)]
pub(super) enum ToControl {
    Execute(Execute),
    Flushed {
        key: QueueKey,
        slot: Slot,
        failed: Option<Status>,
    },
    Failed {
        key: QueueKey,
        command: [u8; 64],
        status: Status,
        location: ParameterLocation,
        missed: u32,
    },
    Aborted {
        token: AbortToken,
        stopped: bool,
    },
    Closing {
        key: QueueKey,
        reason: String,
    },
}

/// To a core.
#[derive(Debug)]
pub(super) enum ToCore {
    Bind { key: QueueKey, binding: Binding },
    Complete { key: QueueKey, slot: Slot, outcome: Outcome },
    Flush { key: QueueKey, slot: Slot, backings: Vec<BackingRef> },
    Reported(QueueKey),
    Abort { key: QueueKey, cid: u16, token: AbortToken },
    Close(QueueKey),
    Publish(Arc<SubsystemView>),
}
