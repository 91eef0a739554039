//! Connection manager events, copied out and acknowledged at once.

use crate::id::EventChannel;
use rdma_sys::{rdma_cm_event, rdma_cm_event_type, rdma_cm_id};
use std::ffi::CStr;
use std::ptr::{NonNull, null_mut};

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EventKind {
    /// A peer asks, with a new id.
    Request,
    /// The connection is up.
    Established,
    /// Refused by the peer.
    Rejected,
    /// It did not come up.
    Failed,
    /// It ended.
    Disconnected,
    /// The peer cannot use the id's queue pair number any more.
    TimewaitExit,
    /// The card is gone.
    DeviceRemoved,
    /// The address moved to another card.
    AddressChanged,
    /// Of no interest.
    Other,
}

/// An event.
#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) kind: EventKind,
    /// Of the id it is about; for a request that of the listener.
    pub(crate) key: u64,
    /// The new id of a request, without an owner yet.
    pub(crate) new_id: Option<NonNull<rdma_cm_id>>,
    /// The library's name of the event and the status, for a log line.
    pub(crate) words: String,
    pub(crate) private_data: Vec<u8>,
    /// READs that the peer wants to have outstanding.
    pub(crate) peer_reads: u8,
    /// READs that the peer is ready to answer.
    pub(crate) peer_answers: u8,
}

/// The next event, if one is there.
pub(crate) fn next_event(channel: &EventChannel) -> Option<Event> {
    let mut event: *mut rdma_cm_event = null_mut();
    // SAFETY: the channel exists and is non-blocking.
    if unsafe { rdma_sys::rdma_get_cm_event(channel.as_ptr(), &raw mut event) } != 0 {
        return None;
    }
    let event = NonNull::new(event)?;
    // SAFETY: valid until acknowledged, which copy_out does not do.
    let copy = unsafe { copy_out(event.as_ref()) };
    // SAFETY: acknowledged once, and not looked at any more.
    unsafe { rdma_sys::rdma_ack_cm_event(event.as_ptr()) };
    Some(copy)
}

/// # Safety
/// `event` was just given by the library: its ids and private data are valid.
unsafe fn copy_out(event: &rdma_cm_event) -> Event {
    use rdma_cm_event_type as t;
    let kind = match event.event {
        t::RDMA_CM_EVENT_CONNECT_REQUEST => EventKind::Request,
        t::RDMA_CM_EVENT_ESTABLISHED => EventKind::Established,
        t::RDMA_CM_EVENT_REJECTED => EventKind::Rejected,
        t::RDMA_CM_EVENT_UNREACHABLE | t::RDMA_CM_EVENT_CONNECT_ERROR => EventKind::Failed,
        t::RDMA_CM_EVENT_DISCONNECTED => EventKind::Disconnected,
        t::RDMA_CM_EVENT_TIMEWAIT_EXIT => EventKind::TimewaitExit,
        t::RDMA_CM_EVENT_DEVICE_REMOVAL => EventKind::DeviceRemoved,
        t::RDMA_CM_EVENT_ADDR_CHANGE => EventKind::AddressChanged,
        _ => EventKind::Other,
    };
    let about = if kind == EventKind::Request { event.listen_id } else { event.id };
    // SAFETY: the id is valid; its context is a number of ours.
    let key = unsafe { (*about).context } as u64;
    // SAFETY: gives a constant string for every value.
    let name = unsafe { CStr::from_ptr(rdma_sys::rdma_event_str(event.event)) }.to_string_lossy();
    let words = match event.status {
        0 => name.into_owned(),
        status if kind == EventKind::Rejected => format!("{name}, reason {status}"),
        status => {
            format!("{name}, {}", std::io::Error::from_raw_os_error(status.saturating_abs()))
        }
    };
    // SAFETY: ids of a TCP-like port space use this arm of the union; it is zero otherwise.
    let conn = unsafe { event.param.conn };
    let carries = matches!(kind, EventKind::Request | EventKind::Established | EventKind::Rejected);
    let private_data = if carries && !conn.private_data.is_null() && conn.private_data_len > 0 {
        let len = usize::from(conn.private_data_len);
        // SAFETY: the library says where and how long the data is.
        unsafe { std::slice::from_raw_parts(conn.private_data.cast::<u8>(), len) }.to_vec()
    } else {
        Vec::new()
    };
    Event {
        kind,
        key,
        new_id: NonNull::new(event.id).filter(|_| kind == EventKind::Request),
        words,
        private_data,
        // The library names them from the receiver's point of view.
        peer_reads: conn.responder_resources,
        peer_answers: conn.initiator_depth,
    }
}
