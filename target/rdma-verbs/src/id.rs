//! Owners of connection manager objects: the event channel, an id, a queue pair on an id.
//!
//! Order of destruction: queue pair, then what it used, then the id, then the channel. Events are
//! copied and acknowledged as soon as they are read, so destroying an id never waits for one.

use crate::context::{CoreNic, CqShare};
use crate::sys::{self, CAddr, cm_result, from_c_addr, not_null};
use rdma_sys::{ibv_context, ibv_qp, ibv_qp_init_attr, rdma_cm_id, rdma_event_channel};
use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::ptr::{NonNull, null_mut};
use std::sync::{Arc, OnceLock};

/// The channel that all events come through, non-blocking.
#[derive(Debug)]
pub(crate) struct EventChannel(NonNull<rdma_event_channel>);

// SAFETY: librdmacm locks for itself; the object has no thread affinity.
unsafe impl Send for EventChannel {}
// SAFETY: as above.
unsafe impl Sync for EventChannel {}

impl EventChannel {
    /// Opens one.
    pub(crate) fn open() -> io::Result<Arc<EventChannel>> {
        // SAFETY: no arguments; null on failure.
        let channel = EventChannel(not_null(unsafe { rdma_sys::rdma_create_event_channel() })?);
        sys::set_nonblocking(channel.raw_fd())?;
        Ok(Arc::new(channel))
    }

    fn raw_fd(&self) -> i32 {
        // SAFETY: the channel exists while self does.
        unsafe { (*self.0.as_ptr()).fd }
    }

    /// What to sleep on.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the channel keeps it open.
        unsafe { sys::borrow_fd(self, self.raw_fd()) }
    }

    /// For librdmacm calls.
    pub(crate) fn as_ptr(&self) -> *mut rdma_event_channel {
        self.0.as_ptr()
    }
}

impl Drop for EventChannel {
    fn drop(&mut self) {
        // SAFETY: every id on it holds the Arc, so none is left.
        unsafe { rdma_sys::rdma_destroy_event_channel(self.0.as_ptr()) };
    }
}

/// A queue pair and what must outlive it.
#[derive(Debug)]
struct QueuePair {
    qp: *mut ibv_qp,
    // Both are freed after the queue pair: see Drop of CmId.
    _share: CqShare,
    _nic: Arc<CoreNic>,
}

/// One id of the connection manager: a listener, a connection, or a keeper of a device.
#[derive(Debug)]
pub(crate) struct CmId {
    id: NonNull<rdma_cm_id>,
    qp: OnceLock<QueuePair>,
    _channel: Arc<EventChannel>,
}

// SAFETY: librdmacm and libibverbs lock for themselves; the objects have no thread affinity.
unsafe impl Send for CmId {}
// SAFETY: as above; the queue pair is set once.
unsafe impl Sync for CmId {}

impl CmId {
    /// Makes an id whose events carry `key`.
    pub(crate) fn create(channel: &Arc<EventChannel>, key: u64) -> io::Result<CmId> {
        let mut id = null_mut();
        // SAFETY: the channel exists; the context is a number that nobody follows.
        cm_result(unsafe {
            rdma_sys::rdma_create_id(
                channel.as_ptr(),
                &raw mut id,
                key as *mut std::ffi::c_void,
                rdma_sys::rdma_port_space::RDMA_PS_TCP,
            )
        })?;
        Ok(CmId { id: not_null(id)?, qp: OnceLock::new(), _channel: channel.clone() })
    }

    /// Owns an id that came with a connection request.
    ///
    /// # Safety
    /// `id` exists on `channel` and has no other owner.
    pub(crate) unsafe fn adopt(
        channel: &Arc<EventChannel>,
        id: NonNull<rdma_cm_id>,
        key: u64,
    ) -> CmId {
        // SAFETY: it exists; nobody else looks at the field.
        unsafe { (*id.as_ptr()).context = key as *mut std::ffi::c_void };
        CmId { id, qp: OnceLock::new(), _channel: channel.clone() }
    }

    /// Finds the device and the way to `to`, each within `timeout_ms`; blocks meanwhile.
    pub(crate) fn resolve(
        channel: &Arc<EventChannel>,
        key: u64,
        to: SocketAddr,
        timeout_ms: i32,
    ) -> io::Result<CmId> {
        let mut id = null_mut();
        // SAFETY: no channel makes an id whose calls block; the context is only a number.
        cm_result(unsafe {
            rdma_sys::rdma_create_id(
                null_mut(),
                &raw mut id,
                key as *mut std::ffi::c_void,
                rdma_sys::rdma_port_space::RDMA_PS_TCP,
            )
        })?;
        let id = CmId { id: not_null(id)?, qp: OnceLock::new(), _channel: channel.clone() };
        let mut addr = CAddr::new(to);
        // SAFETY: both exist during the call; the source is left to the system.
        cm_result(unsafe {
            rdma_sys::rdma_resolve_addr(id.as_ptr(), null_mut(), addr.as_ptr(), timeout_ms)
        })?;
        // SAFETY: the id has its address.
        cm_result(unsafe { rdma_sys::rdma_resolve_route(id.as_ptr(), timeout_ms) })?;
        // SAFETY: the id and the channel exist; its own channel is freed by the library.
        cm_result(unsafe { rdma_sys::rdma_migrate_id(id.as_ptr(), channel.as_ptr()) })?;
        Ok(id)
    }

    /// For librdmacm calls.
    pub(crate) fn as_ptr(&self) -> *mut rdma_cm_id {
        self.id.as_ptr()
    }

    /// The device's context; null while the id is not bound to a device.
    pub(crate) fn verbs(&self) -> *mut ibv_context {
        // SAFETY: the id exists while self does.
        unsafe { (*self.id.as_ptr()).verbs }
    }

    /// Our address, as the connection manager resolved it.
    pub(crate) fn local(&self) -> SocketAddr {
        // SAFETY: the id exists; any bytes are a valid storage.
        from_c_addr(unsafe { &(*self.id.as_ptr()).route.addr.src_addr_union.src_storage })
    }

    /// The peer's address.
    pub(crate) fn peer(&self) -> SocketAddr {
        // SAFETY: as above.
        from_c_addr(unsafe { &(*self.id.as_ptr()).route.addr.dst_addr_union.dst_storage })
    }

    /// Binds to an address.
    pub(crate) fn bind(&self, addr: SocketAddr) -> io::Result<()> {
        let mut addr = CAddr::new(addr);
        // SAFETY: both exist during the call.
        cm_result(unsafe { rdma_sys::rdma_bind_addr(self.as_ptr(), addr.as_ptr()) })
    }

    /// Makes the queue pair, which holds its share of completion queue entries from now on.
    pub(crate) fn create_qp(
        &self,
        attr: &mut ibv_qp_init_attr,
        nic: &Arc<CoreNic>,
        share: CqShare,
    ) -> io::Result<*mut ibv_qp> {
        assert!(self.qp.get().is_none(), "a connection has one queue pair");
        // SAFETY: the protection domain and the queues in `attr` belong to `nic` and the share.
        cm_result(unsafe {
            rdma_sys::rdma_create_qp(self.as_ptr(), nic.nic().pd(), &raw mut *attr)
        })?;
        // SAFETY: set by the successful call.
        let qp = unsafe { (*self.id.as_ptr()).qp };
        let _ = self.qp.set(QueuePair { qp, _share: share, _nic: nic.clone() });
        Ok(qp)
    }

    /// The queue pair, null when there is none.
    pub(crate) fn qp(&self) -> *mut ibv_qp {
        self.qp.get().map_or(null_mut(), |q| q.qp)
    }

    /// Ends the connection; an error only says that there was none.
    pub(crate) fn disconnect(&self) {
        if !self.qp().is_null() {
            // SAFETY: the id exists and has a queue pair, which the library moves to error.
            let _ = cm_result(unsafe { rdma_sys::rdma_disconnect(self.as_ptr()) });
        }
    }

    /// Refuses the connection; an error only says that it is gone.
    pub(crate) fn reject(&self, data: &[u8]) {
        let len = u8::try_from(data.len()).expect("reject data fits 148 bytes");
        let pointer = if data.is_empty() { std::ptr::null() } else { data.as_ptr().cast() };
        // SAFETY: the data lives during the call.
        let _ = cm_result(unsafe { rdma_sys::rdma_reject(self.as_ptr(), pointer, len) });
    }
}

impl Drop for CmId {
    fn drop(&mut self) {
        if let Some(queue_pair) = self.qp.take() {
            // SAFETY: made by create_qp, destroyed once; endpoints hold the Arc of this id, so
            // nobody posts to it any more.
            unsafe { rdma_sys::rdma_destroy_qp(self.as_ptr()) };
            drop(queue_pair);
        }
        // SAFETY: owned; all events that were read are acknowledged.
        unsafe { rdma_sys::rdma_destroy_id(self.as_ptr()) };
    }
}
