//! The RDMA seam, at the height of reliable-connection verbs.
//!
//! A provider implements two halves:
//!
//! - a [`ConnectionManager`]: listens, accepts, rejects, disconnects, creates and destroys queue
//!   pairs. It may block for milliseconds and is used by the control thread only.
//! - a [`Device`] per core: posts work, polls completions, arms its wake-up. It never blocks,
//!   allocates nothing per operation and belongs to one thread.
//!
//! Between them travels an *endpoint*: [`ConnectionManager::prepare`] makes one for a core, the
//! core [attaches](Device::attach) it to its device, and gives it back when the queue pair has
//! drained, for [`ConnectionManager::destroy`]. Everything else is named by ids, not references.
//!
//! # Rules every provider keeps
//! - `post_*` only stages; [`Device::flush`] hands the staged work of all queue pairs to the
//!   hardware, with one doorbell a queue pair.
//! - A signaled or failed work request yields exactly one completion; an unsignaled one that
//!   succeeds yields none. After a queue pair failed, every posted work request of it completes,
//!   with [`WcStatus::Flushed`] for those that were not carried out, signaled or not (a provider
//!   may leave out unsignaled ones that precede a signaled one in the same chain).
//! - What "carried out" means is the transport's: on RoCE and InfiniBand the peer has acknowledged
//!   it; on iWARP a SEND or WRITE is on its way, and may succeed although the peer refuses it or an
//!   earlier READ fails. Either way the connection then ends.
//! - Completions of one queue pair's send side come in posting order, as do those of its own
//!   receive queue.
//! - Work requests are carried out in posting order; a SEND posted after a WRITE arrives after it.
//! - All local memory lies in the one [`Region`](region::Region) that the device was opened with.
//! - Time is an argument: a [`Duration`] since a start that the caller chose.

pub mod cm;
pub mod device;
pub mod host;
mod ids;
pub mod work;

pub use cm::{AcceptParams, CmError, CmEvent, ConnectRequest, ConnectionManager, ListenError};
pub use device::{Attached, Device, PollSource, QpLimits, RecvQueue, WireCounters};
pub use host::{Access, ConnectParams, Connector, HostDevice};
pub use ids::{ConnId, CoreIndex, ListenerId, QpId, RecvQueueId, WrId};
pub use work::{RecvWr, RemoteAddr, SendOp, SendWr, Wc, WcOp, WcStatus};

use std::time::Duration;

/// Time since a start that the caller chose; the only clock protocol code knows.
pub type Now = Duration;
