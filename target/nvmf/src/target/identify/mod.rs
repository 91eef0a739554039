//! Identify: what controllers and namespaces say of themselves (NVMe Base 2.1, 5.1.13).

mod controller;
mod namespace;

use super::Target;
use super::controller::{Controller, Kind};
use super::fail::{Answer, Fail, at};
use super::subsystem::{Namespace, Subsystem};
use crate::Outcome;
use nvme_spec_types::Command;
use nvme_spec_types::fabrics::CNTLID_DYNAMIC;
use nvme_spec_types::identify::{
    Cns, ControllerList, Csi, Identify, IdentifyNamespace, IdentifyNamespaceIndependent,
    IdentifyNamespaceNvm, IoCommandSetList, IoCommandSets, NamespaceList,
};
use nvme_spec_types::status::StatusCode;

pub(super) use controller::firmware_revision;

/// The last namespace id that a list can be asked to start after (NVMe Base 2.1, 5.1.13.2.2).
const LAST_LIST_START: u32 = 0xffff_fffd;

impl Target {
    /// Identify. Every structure is 4096 bytes.
    pub(super) fn identify(&self, controller: &Controller, command: &Command) -> Answer {
        let identify = Identify::from_command(command);
        if controller.kind == Kind::Discovery && identify.cns != Cns::CONTROLLER {
            return Err(Fail::field(at::CDW10));
        }
        let subsystem = &self.subsystems[&controller.key.subsystem];
        // The one command set there is; its own structures are refused for any other.
        let of_command_set = matches!(
            identify.cns,
            Cns::NAMESPACE_CSI
                | Cns::CONTROLLER_CSI
                | Cns::ACTIVE_NAMESPACES_CSI
                | Cns::ALLOCATED_NAMESPACES_CSI
                | Cns::ALLOCATED_NAMESPACE_CSI
        );
        if of_command_set && identify.csi != Csi::NVM {
            return Err(Fail::field(at::CDW11 + 3));
        }
        // Every namespace is attached to every controller: the allocated ones are the active ones.
        let active = || active_namespace(subsystem, identify.nsid);
        let data: Vec<u8> = match identify.cns {
            Cns::NAMESPACE | Cns::ALLOCATED_NAMESPACE => match active()? {
                Some(namespace) => namespace.identify(self.config.max_transfer).to_bytes().into(),
                None => IdentifyNamespace::default().to_bytes().into(),
            },
            Cns::CONTROLLER => self.identify_controller(controller).to_bytes().into(),
            Cns::ACTIVE_NAMESPACES
            | Cns::ACTIVE_NAMESPACES_CSI
            | Cns::ALLOCATED_NAMESPACES
            | Cns::ALLOCATED_NAMESPACES_CSI => {
                namespace_list(subsystem, identify.nsid)?.to_bytes().into()
            }
            Cns::NAMESPACE_IDENTIFIERS => match active()? {
                Some(namespace) => namespace.identifiers().into(),
                None => return Err(subsystem.absent(identify.nsid)),
            },
            Cns::NAMESPACE_CSI | Cns::ALLOCATED_NAMESPACE_CSI => match active()? {
                Some(namespace) => namespace.identify_nvm().to_bytes().into(),
                None => IdentifyNamespaceNvm::default().to_bytes().into(),
            },
            Cns::CONTROLLER_CSI => controller::identify_nvm().to_bytes().into(),
            Cns::NAMESPACE_INDEPENDENT | Cns::ALLOCATED_NAMESPACE_INDEPENDENT => match active()? {
                Some(namespace) => namespace.identify_independent().to_bytes().into(),
                None => IdentifyNamespaceIndependent::default().to_bytes().into(),
            },
            Cns::NAMESPACE_CONTROLLERS => {
                // Every controller has every namespace; none has one that is not there.
                let there = active()?.is_some();
                let ids = self.controllers_of(controller).filter(|_| there);
                controller_list(ids, identify.cntid)
            }
            Cns::CONTROLLERS => controller_list(self.controllers_of(controller), identify.cntid),
            Cns::IO_COMMAND_SETS => {
                let known = self.controllers_of(controller).any(|id| id == identify.cntid);
                if identify.cntid != CNTLID_DYNAMIC && !known {
                    return Err(Fail::field(at::CDW10 + 2));
                }
                let mut list = IoCommandSetList::default();
                list.entries[0] = IoCommandSets::NVM;
                list.to_bytes().into()
            }
            _ => return Err(Fail::field(at::CDW10)),
        };
        Ok(Outcome::data(data).into())
    }

    /// The ids of the controllers of the same subsystem, rising.
    fn controllers_of(&self, controller: &Controller) -> impl Iterator<Item = u16> {
        let subsystem = controller.key.subsystem;
        let keys = self.controllers.keys();
        keys.filter(move |key| key.subsystem == subsystem).map(|key| key.cntlid)
    }
}

/// The namespace of that id, or none for an id that is valid and inactive.
///
/// # Errors
/// Invalid Namespace or Format for the ids that no namespace has. The broadcast id stands for what
/// is common to namespaces that could be made; none can (no Namespace Management).
fn active_namespace(subsystem: &Subsystem, nsid: u32) -> Result<Option<&Namespace>, Fail> {
    match subsystem.namespaces.get(&nsid) {
        None if !(1..=subsystem.highest_nsid()).contains(&nsid) => Err(subsystem.absent(nsid)),
        found => Ok(found),
    }
}

fn no_namespace() -> Fail {
    Fail::dnr(StatusCode::INVALID_NAMESPACE_OR_FORMAT).at(at::NSID)
}

/// The ids of namespaces after `after`.
fn namespace_list(subsystem: &Subsystem, after: u32) -> Result<NamespaceList, Fail> {
    if after > LAST_LIST_START {
        return Err(no_namespace());
    }
    let ids = subsystem.namespaces.range(after + 1..).map(|(&nsid, _)| nsid);
    Ok(NamespaceList::from_ascending(ids))
}

/// The ids from `from` on.
fn controller_list(ids: impl Iterator<Item = u16>, from: u16) -> Vec<u8> {
    ControllerList::from_ascending(ids.filter(|&id| id >= from)).to_bytes().into()
}

#[cfg(test)]
mod tests;
