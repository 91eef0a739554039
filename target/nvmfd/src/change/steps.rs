//! Changes as the control thread makes them: with disks open and numbers given.

use crate::config::Limits;
use backing::{Backing, BackingId, BlockIo};
use nvmf::target::{DiscoveryConfig, NamespaceConfig, PortConfig, SubsystemConfig};
use rdma::{ConnectionManager, Device, ListenerId, Now};
use reactor::control::Control;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

/// One step of a change.
#[derive(Debug)]
pub(crate) enum Step {
    AddSubsystem(SubsystemConfig),
    /// Its namespaces were removed before.
    RemoveSubsystem(String),
    SetSubsystem(SubsystemConfig),
    /// Of namespaces and hosts; those without an entry have none.
    SetLimits(Limits),
    SetDiscovery(DiscoveryConfig),
    /// With a disk that no core knows yet.
    AddNamespace(String, NamespaceConfig, Arc<Backing>),
    UpdateNamespace(String, NamespaceConfig),
    /// Its disk may be closed when the reactor says that no core uses it any more.
    RemoveNamespace(String, u32),
    Listen(SocketAddr),
    Unlisten(SocketAddr),
}

/// The listeners by address, with the port identifiers that discovery tells.
#[derive(Debug, Default)]
pub(crate) struct Doors {
    open: BTreeMap<SocketAddr, (ListenerId, u16)>,
}

impl Doors {
    /// The lowest port identifier that no listener has.
    fn free_port(&self) -> u16 {
        let taken = |id: &u16| self.open.values().any(|(_, port)| port == id);
        // There are at most 64 listeners.
        (1..).find(|id| !taken(id)).unwrap_or(u16::MAX)
    }
}

/// Carries one step out. Returns the disk that is being let go of, if any.
///
/// # Errors
/// What the reactor finds wrong with it; nothing was changed then.
pub(crate) fn carry_out<C, D, B>(
    control: &mut Control<C, D, B>,
    doors: &mut Doors,
    now: Now,
    step: Step,
) -> Result<Option<BackingId>, String>
where
    C: ConnectionManager,
    D: Device<Endpoint = C::Endpoint>,
    B: BlockIo<Backing = Arc<Backing>>,
{
    let find = |control: &Control<C, D, B>, nqn: &str| {
        let found = control.target().find_subsystem(nqn);
        found.ok_or_else(|| format!("there is no subsystem {nqn}"))
    };
    let done = match step {
        Step::AddSubsystem(config) => control.add_subsystem(now, config).map(drop),
        Step::RemoveSubsystem(nqn) => {
            let id = find(control, &nqn)?;
            control.remove_subsystem(now, id)
        }
        Step::SetSubsystem(config) => {
            let id = find(control, &config.nqn)?;
            control.update_subsystem(now, id, config)
        }
        Step::SetLimits(limits) => {
            let serving: Vec<_> = control
                .target()
                .subsystems()
                .flat_map(|subsystem| {
                    let (id, nqn) = (subsystem.subsystem, subsystem.nqn.clone());
                    let nsids = subsystem.namespaces.into_iter().map(|ns| ns.config.nsid);
                    nsids.map(move |nsid| (id, (nqn.to_string(), nsid)))
                })
                .collect();
            control.set_host_limits(now, limits.hosts);
            serving.into_iter().try_for_each(|(id, key)| {
                let limit = limits.namespaces.get(&key).copied();
                control.set_namespace_limit(now, id, key.1, limit)
            })
        }
        Step::SetDiscovery(config) => control.set_discovery(now, config),
        Step::AddNamespace(nqn, config, backing) => {
            let id = find(control, &nqn)?;
            let disk = BackingId(config.backing.0);
            control.add_backing(now, disk, backing);
            let added = control.add_namespace(now, id, config);
            if added.is_err() {
                control.remove_backing(now, disk);
            }
            added
        }
        Step::UpdateNamespace(nqn, config) => {
            let id = find(control, &nqn)?;
            control.update_namespace(now, id, config).map(drop)
        }
        Step::RemoveNamespace(nqn, nsid) => {
            let id = find(control, &nqn)?;
            let removed = control.remove_namespace(now, id, nsid);
            return removed.map(Some).map_err(|error| error.to_string());
        }
        Step::Listen(address) => {
            let port = doors.free_port();
            let listener = control
                .listen(now, PortConfig { id: port, address })
                .map_err(|error| error.to_string())?;
            doors.open.insert(address, (listener, port));
            Ok(())
        }
        Step::Unlisten(address) => match doors.open.remove(&address) {
            Some((listener, _)) => control.unlisten(now, listener),
            None => return Err(format!("there is no listener at {address}")),
        },
    };
    done.map(|()| None).map_err(|error| error.to_string())
}
