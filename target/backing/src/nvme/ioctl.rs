//! Identify, by the ioctl of the character device: at opening, on a thread that may block.

use super::command::{self, PASSED_LEN};
use nvme_spec_types::identify::{
    Cns, Csi, IDENTIFY_SIZE, Identify, IdentifyController, IdentifyControllerNvm,
    IdentifyNamespace, NamespaceIdentifier, NamespaceIdentifiers,
};
use nvme_spec_types::{ParseError, Status};
use rustix::ioctl::opcode;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// `NVME_IOCTL_ID`: the number of the namespace.
const IOCTL_ID: u32 = opcode::none(b'N', 0x40);

/// `NVME_IOCTL_ADMIN_CMD`: an admin command, waited for.
const IOCTL_ADMIN: u32 = opcode::read_write::<[u8; PASSED_LEN]>(b'N', 0x41);

/// The namespace that a character device stands for.
pub(super) fn nsid(file: &File) -> io::Result<u32> {
    // SAFETY: this request takes no argument and writes nothing.
    match unsafe { libc::ioctl(file.as_raw_fd(), IOCTL_ID as libc::Ioctl, 0) } {
        nsid @ 1.. => Ok(nsid as u32),
        0 => Err(io::Error::other("it says that it is namespace 0")),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Identify Namespace of the NVM command set.
pub(super) fn identify_namespace(file: &File, nsid: u32) -> io::Result<IdentifyNamespace> {
    let data = identify(file, Identify { nsid, cns: Cns::NAMESPACE, ..Identify::default() })?;
    IdentifyNamespace::parse(&data).map_err(short)
}

/// Identify Controller.
pub(super) fn identify_controller(file: &File) -> io::Result<IdentifyController> {
    let data = identify(file, Identify { cns: Cns::CONTROLLER, ..Identify::default() })?;
    IdentifyController::parse(&data).map_err(short)
}

/// Identify Controller of the NVM command set, which older devices do not have.
pub(super) fn identify_controller_nvm(file: &File) -> Option<IdentifyControllerNvm> {
    let ask = Identify { cns: Cns::CONTROLLER_CSI, csi: Csi::NVM, ..Identify::default() };
    IdentifyControllerNvm::parse(&identify(file, ask).ok()?).ok()
}

/// The command set of a namespace: NVM where the device does not say.
pub(super) fn command_set(file: &File, nsid: u32) -> Csi {
    let ask = Identify { nsid, cns: Cns::NAMESPACE_IDENTIFIERS, ..Identify::default() };
    let Ok(data) = identify(file, ask) else { return Csi::NVM };
    NamespaceIdentifiers::new(&data)
        .find_map(|id| match id {
            NamespaceIdentifier::Csi(csi) => Some(csi),
            _ => None,
        })
        .unwrap_or(Csi::NVM)
}

fn identify(file: &File, ask: Identify) -> io::Result<Vec<u8>> {
    let mut data = vec![0; IDENTIFY_SIZE];
    let mut passed = command::identify(ask, data.as_mut_ptr() as u64, IDENTIFY_SIZE as u32);
    // SAFETY: the request reads and writes the 72 bytes of the command, and the device writes no
    // more than the length in it to the address in it, both those of `data`.
    match unsafe { libc::ioctl(file.as_raw_fd(), IOCTL_ADMIN as libc::Ioctl, passed.as_mut_ptr()) }
    {
        0 => Ok(data),
        status @ 1.. => {
            let status = Status::from_wire((status as u16) << 1);
            Err(io::Error::other(format!("the device answers \"{status}\"")))
        }
        _ => Err(io::Error::last_os_error()),
    }
}

fn short(error: ParseError) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}
