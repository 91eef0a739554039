//! What one network card gives: protection domain, memory registrations, queues.
//!
//! A [`Nic`] is shared by all cores. A [`CoreNic`] adds what one core has on it: the registration
//! of its region and its shared receive queue. A [`Cq`] is one of the core's completion queues
//! there. All are made by the control thread and reach the core inside an endpoint; the last
//! owner frees them, in the order in which verbs wants it.

use crate::config::VerbsConfig;
use crate::id::{CmId, EventChannel};
use crate::sys::{self, not_null};
use rdma::cm::DeviceCaps;
use rdma::{CmError, CoreIndex};
use rdma_sys::{
    ibv_access_flags, ibv_comp_channel, ibv_context, ibv_cq, ibv_device_attr, ibv_device_cap_flags,
    ibv_mr, ibv_pd, ibv_srq, ibv_srq_init_attr,
};
use region::Region;
use rustix::event::{EventfdFlags, eventfd};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

const LOCK_HINT: &str = "too little memory may be locked: set LimitMEMLOCK=infinity in the \
                         service unit, or ulimit -l unlimited";
const FILES_HINT: &str =
    "too few files may be open: set LimitNOFILE in the service unit, or ulimit -n";
const QUEUE_HINT: &str = "the card has no queue left: lower the connection limit or queue depth";

/// ENOMEM is a resource that ran out; the rest is passed on.
pub(crate) fn cm_error(what: &'static str, source: io::Error, hint: &'static str) -> CmError {
    match source.raw_os_error() {
        Some(libc::ENOMEM | libc::ENOSPC | libc::EAGAIN) => {
            CmError::Resources { what, source, hint }
        }
        _ => CmError::System { what, source },
    }
}

/// A network card that connections use.
pub(crate) struct Nic {
    context: *mut ibv_context,
    pd: NonNull<ibv_pd>,
    caps: DeviceCaps,
    attr: ibv_device_attr,
    iwarp: bool,
    dead: AtomicBool,
    // An id bound to the device: it keeps librdmacm from closing the context under the protection
    // domain, and it hears of the device's removal. Dropped after the domain (see Drop).
    _keeper: CmId,
}

impl std::fmt::Debug for Nic {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Nic")
            .field("caps", &self.caps)
            .field("iwarp", &self.iwarp)
            .field("dead", &self.dead)
            .finish_non_exhaustive()
    }
}

// SAFETY: libibverbs locks for itself; the objects have no thread affinity.
unsafe impl Send for Nic {}
// SAFETY: as above; the flag is atomic, all else is constant.
unsafe impl Sync for Nic {}

impl Nic {
    /// Opens the card of `context`, which serves `local`; events of its removal carry `key`.
    pub(crate) fn open(
        channel: &Arc<EventChannel>,
        key: u64,
        local: SocketAddr,
        context: *mut ibv_context,
    ) -> Result<Nic, CmError> {
        let keep = |source| CmError::System { what: "binding to the card", source };
        let keeper = bind_keeper(channel, key, local, context).map_err(keep)?;
        // SAFETY: all-zero bytes are a valid value of this plain C struct.
        let mut attr: ibv_device_attr = unsafe { std::mem::zeroed() };
        // SAFETY: the keeper holds the context open.
        sys::verbs_result(unsafe { rdma_sys::ibv_query_device(context, &raw mut attr) })
            .map_err(|source| CmError::System { what: "asking the card what it can do", source })?;
        // SAFETY: an open context has a device.
        let (device, async_fd) = unsafe { ((*context).device, (*context).async_fd) };
        sys::set_nonblocking(async_fd).map_err(keep)?;
        // SAFETY: the device exists.
        let (name, transport) = unsafe { (sys::device_name(device), (*device).transport_type) };
        // SAFETY: the context is open.
        let pd = not_null(unsafe { rdma_sys::ibv_alloc_pd(context) })
            .map_err(|source| cm_error("making a protection domain", source, QUEUE_HINT))?;
        let caps = DeviceCaps {
            name,
            max_qp_wr: u32::try_from(attr.max_qp_wr).unwrap_or(0).max(1),
            max_qp_reads: u8::try_from(attr.max_qp_init_rd_atom.clamp(1, 255)).unwrap_or(1),
        };
        let iwarp = transport == rdma_sys::ibv_transport_type::IBV_TRANSPORT_IWARP;
        Ok(Nic { context, pd, caps, attr, iwarp, dead: AtomicBool::new(false), _keeper: keeper })
    }

    /// The context, to recognise the card of another id.
    pub(crate) fn context(&self) -> *mut ibv_context {
        self.context
    }

    /// The protection domain.
    pub(crate) fn pd(&self) -> *mut ibv_pd {
        self.pd.as_ptr()
    }

    /// What it can do.
    pub(crate) fn caps(&self) -> &DeviceCaps {
        &self.caps
    }

    /// READs of peers that one queue pair can answer at a time.
    pub(crate) fn max_reads_answered(&self) -> u8 {
        u8::try_from(self.attr.max_qp_rd_atom.clamp(0, 255)).unwrap_or(0)
    }

    /// Receives that a shared receive queue can hold, 0 when the card has none.
    pub(crate) fn max_shared_recv(&self) -> u32 {
        let two_segments = self.attr.max_srq > 0 && self.attr.max_srq_sge >= 2;
        if two_segments { u32::try_from(self.attr.max_srq_wr).unwrap_or(0) } else { 0 }
    }

    /// Entries that a completion queue can have.
    pub(crate) fn max_cq_entries(&self) -> u32 {
        u32::try_from(self.attr.max_cqe).unwrap_or(1).max(1)
    }

    fn has(&self, flag: ibv_device_cap_flags) -> bool {
        self.attr.device_cap_flags & flag.0 != 0
    }

    /// Whether SEND with Invalidate goes out as such.
    pub(crate) fn can_invalidate(&self) -> bool {
        self.has(ibv_device_cap_flags::IBV_DEVICE_MEM_MGT_EXTENSIONS)
    }

    /// Whether a peer that finds no receive is asked to wait (iWARP knows no such thing).
    pub(crate) fn has_rnr(&self) -> bool {
        !self.iwarp
    }

    /// Whether SENDs of both kinds can carry their bytes in the work request: soft iWARP refuses
    /// that for SEND with Invalidate.
    pub(crate) fn can_inline(&self) -> bool {
        !self.iwarp
    }

    /// Whether unsignaled work is still sent from the caller's memory after later work completed.
    /// Soft iWARP hands the pages of large unsignaled work to TCP without a copy, and completes
    /// what follows as soon as TCP has it; signaled work it copies.
    pub(crate) fn lends_unsignaled(&self) -> bool {
        self.iwarp && self.attr.vendor_id == sys::SIW_VENDOR_ID
    }

    /// Flags of a receive's completion that each mean: a key was invalidated.
    pub(crate) fn invalidated_flags(&self) -> u32 {
        sys::invalidated_flags(!self.iwarp && self.attr.vendor_id == sys::RXE_VENDOR_ID)
    }

    /// Whether memory windows that a peer may invalidate exist.
    pub(crate) fn has_windows(&self) -> bool {
        self.has(ibv_device_cap_flags::IBV_DEVICE_MEM_WINDOW_TYPE_2B)
            || self.has(ibv_device_cap_flags::IBV_DEVICE_MEM_WINDOW_TYPE_2A)
    }

    /// Whether it was removed from the machine.
    pub(crate) fn is_dead(&self) -> bool {
        self.dead.load(Ordering::Acquire)
    }

    /// Marks it removed: cores let go of it when their last queue pair on it is gone.
    pub(crate) fn mark_dead(&self) {
        self.dead.store(true, Ordering::Release);
    }

    /// What to sleep on for asynchronous events.
    pub(crate) fn async_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the keeper holds the context, and so the descriptor, open.
        unsafe { sys::borrow_fd(self, (*self.context).async_fd) }
    }

    /// The next asynchronous event.
    pub(crate) fn next_async_event(&self) -> Option<sys::AsyncEvent> {
        // SAFETY: the keeper holds the context open.
        unsafe { sys::next_async_event(self.context) }
    }
}

impl Drop for Nic {
    fn drop(&mut self) {
        // SAFETY: everything made from it holds the Arc of this Nic and so is gone.
        unsafe { rdma_sys::ibv_dealloc_pd(self.pd.as_ptr()) };
    }
}

/// An id bound to the card of `context`, by an address of it.
fn bind_keeper(
    channel: &Arc<EventChannel>,
    key: u64,
    mut local: SocketAddr,
    context: *mut ibv_context,
) -> io::Result<CmId> {
    local.set_port(0);
    let mut result = bind_to(channel, key, local, context);
    if let SocketAddr::V6(v6) = &mut local
        && v6.ip().is_unicast_link_local()
        && v6.scope_id() == 0
    {
        // The connection manager does not tell the scope of a link-local address: try them all.
        for scope in interface_indexes()? {
            if result.is_ok() {
                break;
            }
            v6.set_scope_id(scope);
            result = bind_to(channel, key, SocketAddr::V6(*v6), context);
        }
    }
    result
}

fn bind_to(
    channel: &Arc<EventChannel>,
    key: u64,
    addr: SocketAddr,
    context: *mut ibv_context,
) -> io::Result<CmId> {
    let id = CmId::create(channel, key)?;
    id.bind(addr)?;
    if id.verbs() != context || context.is_null() {
        return Err(io::Error::from_raw_os_error(libc::ENODEV));
    }
    Ok(id)
}

/// Indexes of the machine's network interfaces.
fn interface_indexes() -> io::Result<Vec<u32>> {
    let index = |entry: io::Result<std::fs::DirEntry>| -> Option<u32> {
        std::fs::read_to_string(entry.ok()?.path().join("ifindex")).ok()?.trim().parse().ok()
    };
    Ok(std::fs::read_dir("/sys/class/net")?.filter_map(index).collect())
}

/// What one core has on one card.
#[derive(Debug)]
pub(crate) struct CoreNic {
    nic: Arc<Nic>,
    /// Readable once the card was removed, so that a sleeping core lets go of it: until then the
    /// kernel's removal of a soft device may wait.
    removed: OwnedFd,
    region: Arc<Region>,
    mr: NonNull<ibv_mr>,
    srq: OnceLock<NonNull<ibv_srq>>,
    srq_depth: u32,
}

// SAFETY: libibverbs locks for itself; the objects have no thread affinity.
unsafe impl Send for CoreNic {}
// SAFETY: as above; all but the once-set queue is constant.
unsafe impl Sync for CoreNic {}

impl CoreNic {
    /// Registers the core's region with the card.
    pub(crate) fn new(
        nic: &Arc<Nic>,
        region: &Arc<Region>,
        config: &VerbsConfig,
    ) -> Result<CoreNic, CmError> {
        let flags = EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC;
        let removed = eventfd(0, flags)
            .map_err(|e| cm_error("making a core's place on the card", e.into(), FILES_HINT))?;
        let mut access = ibv_access_flags::IBV_ACCESS_LOCAL_WRITE.0;
        if nic.iwarp {
            // On iWARP the sink of an RDMA READ is written by the peer (RFC 5040, 5.2.1).
            access |= ibv_access_flags::IBV_ACCESS_REMOTE_WRITE.0;
        }
        if nic.has_windows() {
            access |= ibv_access_flags::IBV_ACCESS_MW_BIND.0;
        }
        // SAFETY: the region outlives the registration: this object holds both.
        let mr = not_null(unsafe {
            rdma_sys::ibv_reg_mr(
                nic.pd(),
                region.base().as_ptr().cast(),
                region.len(),
                access as i32,
            )
        })
        .map_err(|source| cm_error("registering memory with the card", source, LOCK_HINT))?;
        let srq_depth = config.shared_recv_depth.min(nic.max_shared_recv());
        Ok(CoreNic {
            nic: nic.clone(),
            removed,
            region: region.clone(),
            mr,
            srq: OnceLock::new(),
            srq_depth,
        })
    }

    /// The card.
    pub(crate) fn nic(&self) -> &Arc<Nic> {
        &self.nic
    }

    /// What a core sleeps on to hear of the card's removal.
    pub(crate) fn removed(&self) -> BorrowedFd<'_> {
        self.removed.as_fd()
    }

    /// Wakes the core, once the card is marked as removed.
    pub(crate) fn tell_removed(&self) {
        // It fails only when it was rung 2^64 - 1 times.
        let _ = rustix::io::write(&self.removed, &1u64.to_ne_bytes());
    }

    /// The core's memory.
    pub(crate) fn region(&self) -> &Region {
        &self.region
    }

    /// The registration.
    pub(crate) fn mr(&self) -> *mut ibv_mr {
        self.mr.as_ptr()
    }

    /// Local key of the registration.
    pub(crate) fn lkey(&self) -> u32 {
        // SAFETY: the registration exists while self does.
        unsafe { (*self.mr.as_ptr()).lkey }
    }

    /// Receives of the shared receive queue, 0 when there will be none.
    pub(crate) fn srq_depth(&self) -> u32 {
        self.srq_depth
    }

    /// The shared receive queue, if one was made.
    pub(crate) fn srq(&self) -> Option<*mut ibv_srq> {
        self.srq.get().map(|s| s.as_ptr())
    }

    /// The shared receive queue, made when first asked for (by the control thread only).
    pub(crate) fn make_srq(&self) -> Result<*mut ibv_srq, CmError> {
        if let Some(srq) = self.srq() {
            return Ok(srq);
        }
        // SAFETY: all-zero bytes are a valid value of this plain C struct.
        let mut attr: ibv_srq_init_attr = unsafe { std::mem::zeroed() };
        attr.attr.max_wr = self.srq_depth;
        attr.attr.max_sge = 2;
        // SAFETY: the protection domain exists.
        let srq = not_null(unsafe { rdma_sys::ibv_create_srq(self.nic.pd(), &raw mut attr) })
            .map_err(|source| cm_error("making a shared receive queue", source, QUEUE_HINT))?;
        Ok(self.srq.get_or_init(|| srq).as_ptr())
    }
}

impl Drop for CoreNic {
    fn drop(&mut self) {
        if let Some(srq) = self.srq.take() {
            // SAFETY: queue pairs that use it hold the Arc of this object and so are gone.
            unsafe { rdma_sys::ibv_destroy_srq(srq.as_ptr()) };
        }
        // SAFETY: owned; nothing uses the registration any more.
        unsafe { rdma_sys::ibv_dereg_mr(self.mr.as_ptr()) };
    }
}

/// A completion queue with its channel.
#[derive(Debug)]
pub(crate) struct Cq {
    cq: NonNull<ibv_cq>,
    channel: NonNull<ibv_comp_channel>,
    entries: u32,
    used: AtomicU32,
    unacked: AtomicU32,
    // Dropped after the queue: see Drop.
    core: Arc<CoreNic>,
}

// SAFETY: libibverbs locks for itself; the objects have no thread affinity.
unsafe impl Send for Cq {}
// SAFETY: as above; the counters are atomic, all else is constant.
unsafe impl Sync for Cq {}

/// Wake-ups taken before they are acknowledged together: that takes a lock in the library.
const ACK_BATCH: u32 = 64;

impl Cq {
    /// Makes one with room for `need` completions beside those of the shared receive queue, all
    /// of which may land in it. `before` is how many the core has on the card already: each is
    /// twice as large as the last, so that there are few to poll.
    pub(crate) fn new(
        core: &Arc<CoreNic>,
        index: CoreIndex,
        need: u32,
        before: usize,
        config: &VerbsConfig,
    ) -> Result<Arc<Cq>, CmError> {
        let nic = core.nic();
        let least = core.srq_depth().saturating_add(need);
        if least > nic.max_cq_entries() {
            let source = io::Error::from_raw_os_error(libc::ENOSPC);
            let hint = "the card's completion queues are too short: lower the queue depth";
            return Err(CmError::Resources { what: "sizing a completion queue", source, hint });
        }
        let doubled = config.cq_entries.saturating_mul(1 << before.min(8));
        let wanted = doubled.max(least).min(nic.max_cq_entries());
        // SAFETY: the context is open.
        let channel = not_null(unsafe { rdma_sys::ibv_create_comp_channel(nic.context()) })
            .map_err(|source| cm_error("making a completion channel", source, QUEUE_HINT))?;
        // SAFETY: the context is open and has at least one vector.
        let vectors = unsafe { (*nic.context()).num_comp_vectors }.max(1);
        let vector = i32::from(index.0) % vectors;
        // SAFETY: context and channel exist; no context pointer is attached.
        let cq = not_null(unsafe {
            rdma_sys::ibv_create_cq(
                nic.context(),
                i32::try_from(wanted).unwrap_or(i32::MAX),
                null_mut(),
                channel.as_ptr(),
                vector,
            )
        });
        let cq = match cq {
            Ok(cq) => cq,
            Err(source) => {
                // SAFETY: owned, and no queue uses it.
                unsafe { rdma_sys::ibv_destroy_comp_channel(channel.as_ptr()) };
                return Err(cm_error("making a completion queue", source, LOCK_HINT));
            }
        };
        let cq = Cq {
            cq,
            channel,
            entries: wanted,
            used: AtomicU32::new(core.srq_depth()),
            unacked: AtomicU32::new(0),
            core: core.clone(),
        };
        sys::set_nonblocking(cq.raw_fd())
            .map_err(|source| CmError::System { what: "making a completion channel", source })?;
        Ok(Arc::new(cq))
    }

    /// For verbs calls.
    pub(crate) fn as_ptr(&self) -> *mut ibv_cq {
        self.cq.as_ptr()
    }

    /// What the core has on the card.
    pub(crate) fn core(&self) -> &Arc<CoreNic> {
        &self.core
    }

    fn raw_fd(&self) -> i32 {
        // SAFETY: the channel exists while self does.
        unsafe { (*self.channel.as_ptr()).fd }
    }

    /// What to sleep on.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the channel keeps it open.
        unsafe { sys::borrow_fd(self, self.raw_fd()) }
    }

    /// Sets entries aside, `None` when the queue might overrun.
    pub(crate) fn reserve(self: &Arc<Cq>, entries: u32) -> Option<CqShare> {
        let used = self.used.load(Ordering::Acquire);
        if used.checked_add(entries)? > self.entries {
            return None;
        }
        // Only the control thread reserves; a release in between just leaves more room.
        self.used.fetch_add(entries, Ordering::AcqRel);
        Some(CqShare { cq: self.clone(), entries })
    }

    /// Takes the wake-up that has come, if one has, and asks for the next. Each asking brings one, so
    /// one is all there is; a second, of the moment between the two, wakes once for nothing and is
    /// taken then.
    pub(crate) fn arm(&self) {
        let mut cq = null_mut();
        let mut context = null_mut();
        // SAFETY: the channel exists; both are plain outputs.
        let ret = unsafe {
            rdma_sys::ibv_get_cq_event(self.channel.as_ptr(), &raw mut cq, &raw mut context)
        };
        if ret == 0 && self.unacked.fetch_add(1, Ordering::AcqRel) + 1 >= ACK_BATCH {
            self.ack();
        }
        // SAFETY: the queue exists; an error means a dead card, whose wake-ups do not matter.
        let _ = unsafe { rdma_sys::ibv_req_notify_cq(self.cq.as_ptr(), 0) };
    }

    fn ack(&self) {
        let count = self.unacked.swap(0, Ordering::AcqRel);
        if count > 0 {
            // SAFETY: as many as were taken; the queue exists.
            unsafe { rdma_sys::ibv_ack_cq_events(self.cq.as_ptr(), count) };
        }
    }
}

impl Drop for Cq {
    fn drop(&mut self) {
        // Destroying waits for every wake-up that was taken to be acknowledged.
        self.ack();
        // SAFETY: queue pairs that use it hold a share and so are gone.
        unsafe { rdma_sys::ibv_destroy_cq(self.cq.as_ptr()) };
        // SAFETY: its only queue is gone.
        unsafe { rdma_sys::ibv_destroy_comp_channel(self.channel.as_ptr()) };
    }
}

/// Entries of a completion queue set aside for one queue pair.
#[derive(Debug)]
pub(crate) struct CqShare {
    cq: Arc<Cq>,
    entries: u32,
}

impl CqShare {
    /// The queue.
    pub(crate) fn cq(&self) -> &Arc<Cq> {
        &self.cq
    }
}

impl Drop for CqShare {
    fn drop(&mut self) {
        self.cq.used.fetch_sub(self.entries, Ordering::AcqRel);
    }
}
