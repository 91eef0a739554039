//! The running daemon that was started with the file that is checked.

use crate::client::Client;
use crate::config::{self, Config, Namespace};
use crate::http::Status;
use crate::socket;
use backing::Medium;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// See the module.
#[derive(Debug)]
pub(super) struct Own {
    pub(super) pid: u32,
    /// What it serves by now; the file may say something else meanwhile.
    in_force: Config,
}

impl Own {
    /// Finds it by the control socket that the file names. None also where this user may not ask.
    pub(super) fn find(path: &Path, config: &Config) -> Option<Own> {
        if !config.control.enabled {
            return None;
        }
        let place = config.control.path.clone().or_else(socket::usual_place)?;
        let client = Client::new(Some(place)).ok()?;
        let status: Status = client.get("/v1/status").ok()?;
        let same = path.canonicalize().ok()? == Path::new(&status.config).canonicalize().ok()?;
        let text = client.text("/v1/config").ok().filter(|_| same)?;
        Some(Own { pid: status.pid, in_force: config::parse(path, &text).ok()? })
    }

    /// Whether it has the file or device of a namespace.
    pub(super) fn has_disk(&self, namespace: &Namespace) -> bool {
        let wanted = place(namespace);
        let all = self.in_force.subsystems.iter().flat_map(|subsystem| &subsystem.namespaces);
        wanted.is_some() && all.map(place).any(|place| place == wanted)
    }

    /// Whether it listens there for hosts.
    pub(super) fn listens_at(&self, address: SocketAddr) -> bool {
        self.in_force.listeners.iter().any(|listener| {
            let ip = listener.address.ip();
            ip == address.ip() || (ip.is_unspecified() && ip.is_ipv4() == address.is_ipv4())
        })
    }

    /// Whether it serves metrics there.
    pub(super) fn tells_metrics_at(&self, address: SocketAddr) -> bool {
        self.in_force.metrics == Some(address)
    }
}

/// The file or device of a namespace, by its own name.
fn place(namespace: &Namespace) -> Option<PathBuf> {
    match &namespace.spec.medium {
        Medium::Path { path, .. } => Some(path.canonicalize().unwrap_or_else(|_| path.clone())),
        Medium::Ram { .. } | Medium::Null { .. } => None,
    }
}
