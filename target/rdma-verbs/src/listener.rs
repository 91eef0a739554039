//! A listening address that keeps trying.

use crate::config::VerbsConfig;
use crate::id::{CmId, EventChannel};
use crate::sys;
use rdma::{ListenError, Now};
use rdma_sys::ibv_context;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

const FIRST_RETRY: Duration = Duration::from_millis(250);
const LAST_RETRY: Duration = Duration::from_secs(8);

/// See the module.
#[derive(Debug)]
pub(crate) struct Listener {
    addr: SocketAddr,
    key: u64,
    state: State,
}

#[derive(Debug)]
enum State {
    Up { id: CmId },
    Down { retry_at: Now, wait: Duration, told: Option<String> },
}

/// What a try changed, to be told.
#[derive(Debug)]
pub(crate) enum Change {
    /// It hears, on this device.
    Up(String),
    /// It does not hear, for this reason; `absent` says that its address or card is not there.
    Down { reason: String, absent: bool },
}

impl Listener {
    /// Tries for the first time.
    ///
    /// # Errors
    /// When trying again is of no use.
    pub(crate) fn new(
        channel: &Arc<EventChannel>,
        key: u64,
        addr: SocketAddr,
        now: Now,
        config: &VerbsConfig,
    ) -> Result<(Listener, Option<Change>), ListenError> {
        let state = State::Down { retry_at: now, wait: FIRST_RETRY, told: None };
        let mut listener = Listener { addr, key, state };
        match open(channel, key, addr, config) {
            Err(e) if matches!(e.raw_os_error(), Some(libc::EINVAL | libc::EAFNOSUPPORT)) => {
                let reason = format!("the system does not take this address: {e}");
                Err(ListenError::Invalid { addr, reason })
            }
            Err(e) if matches!(e.raw_os_error(), Some(libc::EACCES | libc::EPERM)) => {
                let reason = format!("{e}; ports below 1024 need CAP_NET_BIND_SERVICE");
                Err(ListenError::Invalid { addr, reason })
            }
            result => {
                let change = listener.take(result, now);
                Ok((listener, change))
            }
        }
    }

    /// Tries again when it is time.
    pub(crate) fn poll(
        &mut self,
        channel: &Arc<EventChannel>,
        now: Now,
        config: &VerbsConfig,
    ) -> Option<Change> {
        if self.timeout().is_none_or(|at| at > now) {
            return None;
        }
        let result = open(channel, self.key, self.addr, config);
        self.take(result, now)
    }

    /// Stops hearing: its card or address went away.
    pub(crate) fn lose(&mut self, now: Now, reason: String) -> Option<Change> {
        let State::Up { .. } = self.state else { return None };
        let told = Some(reason.clone());
        self.state = State::Down { retry_at: now + FIRST_RETRY, wait: FIRST_RETRY, told };
        Some(Change::Down { reason, absent: true })
    }

    /// The card that it hears on; none for the wildcard address, or while it does not hear.
    pub(crate) fn context(&self) -> Option<*mut ibv_context> {
        let State::Up { id } = &self.state else { return None };
        let context = id.verbs();
        (!context.is_null()).then_some(context)
    }

    /// When it is tried next.
    pub(crate) fn timeout(&self) -> Option<Now> {
        match self.state {
            State::Up { .. } => None,
            State::Down { retry_at, .. } => Some(retry_at),
        }
    }

    /// Told once per change, not per try.
    fn take(&mut self, result: io::Result<CmId>, now: Now) -> Option<Change> {
        match result {
            Ok(id) => {
                let device = device_of(&id);
                self.state = State::Up { id };
                Some(Change::Up(device))
            }
            Err(e) => {
                let reason = reason_of(&e, self.addr);
                let absent = matches!(e.raw_os_error(), Some(libc::ENODEV | libc::EADDRNOTAVAIL));
                let State::Down { retry_at, wait, told } = &mut self.state else { return None };
                *retry_at = now + *wait;
                *wait = (*wait * 2).min(LAST_RETRY);
                if told.as_ref() == Some(&reason) {
                    return None;
                }
                *told = Some(reason.clone());
                Some(Change::Down { reason, absent })
            }
        }
    }
}

fn open(
    channel: &Arc<EventChannel>,
    key: u64,
    addr: SocketAddr,
    config: &VerbsConfig,
) -> io::Result<CmId> {
    let id = CmId::create(channel, key)?;
    if addr.is_ipv6() {
        // SAFETY: the id exists.
        unsafe { sys::set_one_family(id.as_ptr()) }?;
    }
    id.bind(addr)?;
    // SAFETY: the id exists and is bound.
    sys::cm_result(unsafe { rdma_sys::rdma_listen(id.as_ptr(), i32::from(config.backlog)) })?;
    Ok(id)
}

fn device_of(id: &CmId) -> String {
    let context = id.verbs();
    if context.is_null() {
        // The wildcard address: every device there is.
        return sys::device_names().map(|n| n.join(",")).unwrap_or_default();
    }
    // SAFETY: the id is bound, so its context is open and has a device.
    unsafe { sys::device_name((*context).device) }
}

fn reason_of(e: &io::Error, addr: SocketAddr) -> String {
    let ip = addr.ip();
    match e.raw_os_error() {
        Some(libc::ENODEV) => format!("no RDMA device has the address {ip} (waiting for one)"),
        Some(libc::EADDRNOTAVAIL) => format!("no interface has the address {ip} (waiting for one)"),
        Some(libc::EADDRINUSE) => {
            format!("{addr} is in use by another listener (waiting for it to go)")
        }
        Some(libc::EMFILE) => {
            format!("{e}; raise the limit of open files (ulimit -n, LimitNOFILE of a service)")
        }
        _ => format!("{e} (trying again)"),
    }
}
