//! Which provider carries RDMA for a listener, and why.

use crate::config::{Listener, Provider};
use std::fmt;
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex, PoisonError};

/// A decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Choice {
    /// The RDMA device of that name owns the address, where it is known.
    Verbs(Option<String>),
    /// The endpoint of this program, for this reason.
    Soft(&'static str),
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Choice::Verbs(Some(device)) => write!(f, "verbs, RDMA device {device}"),
            Choice::Verbs(None) => f.write_str("verbs, on whichever RDMA device gets the address"),
            Choice::Soft(why) => write!(f, "soft-roce on UDP port 4791, {why}"),
        }
    }
}

/// The providers that run, and which of them carries which listener. Shared by whoever adds
/// listeners and the connection manager that is asked to listen.
#[derive(Debug, Clone)]
pub(crate) struct Carriers {
    verbs: bool,
    soft: bool,
    by_address: Arc<Mutex<Vec<(SocketAddr, Choice)>>>,
}

impl Carriers {
    /// Those that the listeners of the start need.
    pub(crate) fn new(choices: Vec<(SocketAddr, Choice)>) -> Carriers {
        let soft = choices.iter().any(|(_, choice)| matches!(choice, Choice::Soft(_)));
        let verbs = choices.iter().any(|(_, choice)| matches!(choice, Choice::Verbs(_)));
        // Without any listener there is still the endpoint that needs nothing of the machine.
        Carriers { verbs, soft: soft || !verbs, by_address: Arc::new(Mutex::new(choices)) }
    }

    /// Whether RDMA devices are in use.
    pub(crate) fn verbs(&self) -> bool {
        self.verbs
    }

    /// Whether the endpoint of this program is in use.
    pub(crate) fn soft(&self) -> bool {
        self.soft
    }

    /// Whether the provider that the listener needs is running.
    pub(crate) fn carry(&self, listener: &Listener) -> bool {
        match choose(listener) {
            Choice::Verbs(_) => self.verbs,
            Choice::Soft(_) => self.soft,
        }
    }

    /// Decides which of them carries a listener that is about to be added.
    pub(crate) fn route(&self, listener: &Listener) {
        let choice = choose(listener);
        tracing::info!(address = %listener.address, "RDMA by {choice}");
        let mut table = self.by_address.lock().unwrap_or_else(PoisonError::into_inner);
        table.retain(|(address, _)| *address != listener.address);
        table.push((listener.address, choice));
    }

    /// Whether the listener at that address is carried by the endpoint of this program.
    #[cfg(feature = "verbs")]
    pub(crate) fn is_soft(&self, address: SocketAddr) -> bool {
        let table = self.by_address.lock().unwrap_or_else(PoisonError::into_inner);
        table.iter().any(|(of, choice)| *of == address && matches!(choice, Choice::Soft(_)))
    }
}

/// Decides for a listener, by the configuration and by what the machine has now.
pub(crate) fn choose(listener: &Listener) -> Choice {
    match listener.provider {
        Provider::Soft => Choice::Soft("as configured"),
        Provider::Verbs => Choice::Verbs(device_at(listener)),
        Provider::Auto => match device_at(listener) {
            Some(device) => Choice::Verbs(Some(device)),
            // Where there are RDMA devices, an address that is still to come is likely one's.
            None if has_devices() && is_absent(listener.address.ip()) => Choice::Verbs(None),
            None if cfg!(feature = "verbs") => Choice::Soft("as no RDMA device has the address"),
            None => Choice::Soft("as verbs is not built in"),
        },
    }
}

#[cfg(feature = "verbs")]
fn device_at(listener: &Listener) -> Option<String> {
    rdma_verbs::device_at(listener.address)
}

#[cfg(not(feature = "verbs"))]
fn device_at(_listener: &Listener) -> Option<String> {
    None
}

#[cfg(feature = "verbs")]
fn has_devices() -> bool {
    rdma_verbs::devices().is_ok()
}

#[cfg(not(feature = "verbs"))]
fn has_devices() -> bool {
    false
}

/// Whether no interface of this machine has the address now.
fn is_absent(ip: IpAddr) -> bool {
    let bound = UdpSocket::bind((ip, 0));
    bound.is_err_and(|error| error.kind() == ErrorKind::AddrNotAvailable)
}
