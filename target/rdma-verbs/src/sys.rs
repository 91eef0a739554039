//! What rdma-sys 0.3.0 leaves out or gets wrong, set right in one place.
//!
//! Its `verbs_get_ctx` never finds the extended operations on 64-bit machines, so this crate uses
//! plain verbs and librdmacm's own C functions only. `RDMA_OPTION_*` are missing (anonymous C
//! enums). `ibv_event_type` is a Rust enum, which a newer library could fill with a value that it
//! does not have: here an event is read as plain numbers and never as that type. Wrappers that
//! return `Option<*mut T>` answer `Some(null)` on failure: see [`not_null`].
//!
//! Three oddities of the soft devices, seen with rdma-core 44 and Linux 7.3: rxe reports an
//! invalidated key to user space under the kernel's flag, which user space knows as "checksum
//! good" ([`invalidated_flags`]); libsiw reports it not at all, and takes the key that a SEND with
//! Invalidate names from the place of an RDMA WRITE's key ([`crate::send_ring`]).

#[cfg(test)]
mod tests;

use rdma_sys::{ibv_async_event, ibv_context, ibv_device, ibv_qp, ibv_qp_attr, rdma_cm_id};
use std::ffi::{CStr, c_int, c_void};
use std::io;
use std::mem::{MaybeUninit, size_of};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::os::fd::{BorrowedFd, RawFd};
use std::ptr::NonNull;

/// Option level of `rdma_set_option` for an id (rdma_cma.h).
const RDMA_OPTION_ID: c_int = 0;
/// Traffic class of the id's packets, one byte.
const RDMA_OPTION_ID_TOS: c_int = 0;
/// A wildcard IPv6 listener takes IPv6 only, an int.
const RDMA_OPTION_ID_AFONLY: c_int = 2;

/// Asynchronous events of verbs.h, as numbers.
pub(crate) mod async_event {
    pub(crate) const QP_FATAL: u32 = 1;
    pub(crate) const QP_REQ_ERR: u32 = 2;
    pub(crate) const QP_ACCESS_ERR: u32 = 3;
    pub(crate) const COMM_EST: u32 = 4;
    pub(crate) const SQ_DRAINED: u32 = 5;
    pub(crate) const DEVICE_FATAL: u32 = 8;
    pub(crate) const LAST_WQE_REACHED: u32 = 16;
}

/// `vendor_id` of soft RoCE.
pub(crate) const RXE_VENDOR_ID: u32 = 0xff_ffff;

/// `vendor_id` of soft iWARP.
pub(crate) const SIW_VENDOR_ID: u32 = 0x62_6d74;

/// The kernel's number for "a key was invalidated", which rxe hands out as it is.
const KERNEL_WITH_INVALIDATE: u32 = 1 << 2;

/// Flags of a receive's completion that each mean: a key was invalidated.
pub(crate) fn invalidated_flags(rxe: bool) -> u32 {
    let regular = rdma_sys::ibv_wc_flags::IBV_WC_WITH_INV.0;
    if rxe { regular | KERNEL_WITH_INVALIDATE } else { regular }
}

/// An asynchronous event, copied out and acknowledged.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AsyncEvent {
    /// One of [`async_event`], or another number.
    pub(crate) kind: u32,
    /// The queue pair it is about, null for other kinds; only to be compared, never followed.
    pub(crate) qp: *mut ibv_qp,
}

/// The answer of a call that gives a pointer: null and `None` both mean that errno says why.
pub(crate) fn not_null<T>(pointer: impl Into<Option<*mut T>>) -> io::Result<NonNull<T>> {
    pointer.into().and_then(NonNull::new).ok_or_else(io::Error::last_os_error)
}

/// The answer of a librdmacm call: -1 and errno.
pub(crate) fn cm_result(ret: c_int) -> io::Result<()> {
    if ret == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The answer of a verbs call: an errno value (some return -1 and set errno).
pub(crate) fn verbs_result(ret: c_int) -> io::Result<()> {
    match ret {
        0 => Ok(()),
        -1 => Err(io::Error::last_os_error()),
        errno => Err(io::Error::from_raw_os_error(errno.abs())),
    }
}

/// Sets a descriptor of a library to non-blocking.
///
/// # Errors
/// The system's answer.
pub(crate) fn set_nonblocking(fd: RawFd) -> io::Result<()> {
    // SAFETY: fcntl on a number; a wrong one is answered with EBADF.
    let flags = unsafe { libc::fcntl(fd, libc::F_GETFL) };
    if flags < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: as above.
    cm_result(unsafe { libc::fcntl(fd, libc::F_SETFL, flags | libc::O_NONBLOCK) })
}

/// Lends out a descriptor that a library owns.
///
/// # Safety
/// The descriptor is open for as long as `owner` is borrowed.
pub(crate) unsafe fn borrow_fd<T>(_owner: &T, fd: RawFd) -> BorrowedFd<'_> {
    // SAFETY: open while the owner is borrowed, says the caller.
    unsafe { BorrowedFd::borrow_raw(fd) }
}

/// Takes the next asynchronous event of a context whose `async_fd` is non-blocking.
///
/// # Safety
/// `context` is an open context.
pub(crate) unsafe fn next_async_event(context: *mut ibv_context) -> Option<AsyncEvent> {
    let mut event = MaybeUninit::<ibv_async_event>::zeroed();
    // SAFETY: the context is open; the event has the C layout (asserted in tests).
    if unsafe { rdma_sys::ibv_get_async_event(context, event.as_mut_ptr()) } != 0 {
        return None;
    }
    // SAFETY: the library filled it; read as a number because the enum type may not have it.
    let kind = unsafe { (&raw const (*event.as_ptr()).event_type).cast::<u32>().read() };
    let about_qp = kind <= 7 || kind == async_event::LAST_WQE_REACHED;
    let qp = if about_qp && kind != 0 {
        // SAFETY: for these kinds the union holds a queue pair; any bits are a valid raw pointer.
        unsafe { (&raw const (*event.as_ptr()).element.qp).read() }
    } else {
        std::ptr::null_mut()
    };
    // SAFETY: acknowledged exactly once; the copies above are not followed.
    unsafe { rdma_sys::ibv_ack_async_event(event.as_mut_ptr()) };
    Some(AsyncEvent { kind, qp })
}

/// Moves a queue pair to the error state, which flushes what is posted to it.
///
/// # Safety
/// `qp` exists.
pub(crate) unsafe fn move_to_error(qp: *mut ibv_qp) -> io::Result<()> {
    // SAFETY: all-zero bytes are a valid value of this plain C struct.
    let mut attr: ibv_qp_attr = unsafe { MaybeUninit::zeroed().assume_init() };
    attr.qp_state = rdma_sys::ibv_qp_state::IBV_QPS_ERR;
    let mask = rdma_sys::ibv_qp_attr_mask::IBV_QP_STATE.0 as c_int;
    // SAFETY: the queue pair exists, the mask names the one field that is set.
    verbs_result(unsafe { rdma_sys::ibv_modify_qp(qp, &raw mut attr, mask) })
}

/// Code of the wait that we ask of a peer that found no receive: 0.64 ms (IBTA vol. 1, 9.7.5.2.8).
const RNR_TIMER: u8 = 12;

/// Sets how long a peer that found no receive waits before it tries again: the kernel's connection
/// manager leaves it at code 0, which is 655 ms. For queue pairs that can send already.
///
/// # Safety
/// `qp` exists.
pub(crate) unsafe fn shorten_rnr_wait(qp: *mut ibv_qp) -> io::Result<()> {
    // SAFETY: all-zero bytes are a valid value of this plain C struct.
    let mut attr: ibv_qp_attr = unsafe { MaybeUninit::zeroed().assume_init() };
    attr.qp_state = rdma_sys::ibv_qp_state::IBV_QPS_RTS;
    attr.min_rnr_timer = RNR_TIMER;
    let mask = rdma_sys::ibv_qp_attr_mask::IBV_QP_STATE.0
        | rdma_sys::ibv_qp_attr_mask::IBV_QP_MIN_RNR_TIMER.0;
    // SAFETY: the queue pair exists, the mask names the fields that are set.
    verbs_result(unsafe { rdma_sys::ibv_modify_qp(qp, &raw mut attr, mask as c_int) })
}

/// Sets the traffic class of an id's packets.
///
/// # Safety
/// `id` exists.
pub(crate) unsafe fn set_traffic_class(id: *mut rdma_cm_id, class: u8) -> io::Result<()> {
    let mut value = class;
    let pointer = (&raw mut value).cast::<c_void>();
    // SAFETY: the option takes one byte.
    cm_result(unsafe {
        rdma_sys::rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, pointer, 1)
    })
}

/// Keeps an IPv6 wildcard listener to IPv6.
///
/// # Safety
/// `id` exists.
pub(crate) unsafe fn set_one_family(id: *mut rdma_cm_id) -> io::Result<()> {
    let mut value: c_int = 1;
    let pointer = (&raw mut value).cast::<c_void>();
    // SAFETY: the option takes an int.
    cm_result(unsafe {
        rdma_sys::rdma_set_option(
            id,
            RDMA_OPTION_ID,
            RDMA_OPTION_ID_AFONLY,
            pointer,
            size_of::<c_int>(),
        )
    })
}

/// Name of a device, as `ibv_devices` shows it.
///
/// # Safety
/// `device` exists.
pub(crate) unsafe fn device_name(device: *mut ibv_device) -> String {
    // SAFETY: the library gives a string that lives as long as the device.
    let name = unsafe { CStr::from_ptr(rdma_sys::ibv_get_device_name(device)) };
    name.to_string_lossy().into_owned()
}

/// Names of all RDMA devices of the machine, in the library's order.
///
/// # Errors
/// ENOSYS where the kernel has no RDMA support loaded.
pub(crate) fn device_names() -> io::Result<Vec<String>> {
    let mut count: c_int = 0;
    // SAFETY: gives a list of `count` devices, freed below, or null.
    let list = not_null(unsafe { rdma_sys::ibv_get_device_list(&raw mut count) })?;
    let names = (0..usize::try_from(count).unwrap_or(0))
        // SAFETY: the index is below the count that came with the list.
        .map(|i| unsafe { device_name(*list.as_ptr().add(i)) })
        .collect();
    // SAFETY: the list came from the library and is not used again.
    unsafe { rdma_sys::ibv_free_device_list(list.as_ptr()) };
    Ok(names)
}

/// An address in C form.
pub(crate) struct CAddr(libc::sockaddr_storage);

impl CAddr {
    /// From an address.
    pub(crate) fn new(addr: SocketAddr) -> CAddr {
        // SAFETY: all-zero bytes are a valid value of this plain C struct.
        let mut storage: libc::sockaddr_storage = unsafe { MaybeUninit::zeroed().assume_init() };
        match addr {
            SocketAddr::V4(v4) => {
                // SAFETY: the storage is large enough and aligned for any address family.
                let sin = unsafe { &mut *(&raw mut storage).cast::<libc::sockaddr_in>() };
                sin.sin_family = libc::AF_INET as libc::sa_family_t;
                sin.sin_port = v4.port().to_be();
                sin.sin_addr.s_addr = u32::from_ne_bytes(v4.ip().octets());
            }
            SocketAddr::V6(v6) => {
                // SAFETY: as above.
                let sin6 = unsafe { &mut *(&raw mut storage).cast::<libc::sockaddr_in6>() };
                sin6.sin6_family = libc::AF_INET6 as libc::sa_family_t;
                sin6.sin6_port = v6.port().to_be();
                sin6.sin6_addr.s6_addr = v6.ip().octets();
                sin6.sin6_scope_id = v6.scope_id();
            }
        }
        CAddr(storage)
    }

    /// For a call that takes an address (none of those used here writes to it).
    pub(crate) fn as_ptr(&mut self) -> *mut libc::sockaddr {
        (&raw mut self.0).cast()
    }
}

/// An address out of C form; the unspecified one for a family other than IPv4 and IPv6.
pub(crate) fn from_c_addr(storage: &libc::sockaddr_storage) -> SocketAddr {
    match c_int::from(storage.ss_family) {
        libc::AF_INET => {
            // SAFETY: the family says which struct the storage holds.
            let sin = unsafe { &*(&raw const *storage).cast::<libc::sockaddr_in>() };
            let ip = IpAddr::from(sin.sin_addr.s_addr.to_ne_bytes());
            SocketAddr::new(ip, u16::from_be(sin.sin_port))
        }
        libc::AF_INET6 => {
            // SAFETY: as above.
            let sin6 = unsafe { &*(&raw const *storage).cast::<libc::sockaddr_in6>() };
            let ip = Ipv6Addr::from(sin6.sin6_addr.s6_addr);
            let port = u16::from_be(sin6.sin6_port);
            SocketAddr::V6(SocketAddrV6::new(ip, port, 0, sin6.sin6_scope_id))
        }
        _ => SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), 0),
    }
}
