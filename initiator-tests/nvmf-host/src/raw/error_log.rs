//! What the error log says of a command that was just refused.

use super::{OWN_CID, Wire};
use crate::output::say;
use crate::provider::Provider;
use anyhow::{Context, Result};
use initiator::{BareQueue, commands};
use nvme_spec_types::SglDescriptor;
use nvme_spec_types::log::ErrorEntry;
use rdma::Access;

/// Error Information, and the size of one entry.
const ERROR_INFORMATION: u8 = 0x01;
const ENTRY_LEN: u32 = 64;
/// How often to look: what another core refused may be entered after its answer.
const LOOKS: u32 = 50;

impl<P: Provider> Wire<'_, P> {
    /// Prints the newest entry of the error log when it is of this command, or that there is none.
    pub(super) fn show_error_log(&mut self, qid: u16, cid: u16) -> Result<()> {
        let admin = BareQueue(0);
        let span = self.bare.arena().alloc(ENTRY_LEN).context("no memory")?;
        let remote = self.bare.lend(admin, span, Access::RemoteWrite);
        let remote = remote.context("cannot open memory")?;
        let (addr, key) = (remote.addr, remote.rkey);
        let mut command = commands::get_log_page(ERROR_INFORMATION, u32::MAX, 0, ENTRY_LEN, true);
        command.set_cid(OWN_CID);
        command.set_sgl1(SglDescriptor::Keyed { addr, len: ENTRY_LEN, key, invalidate: false });
        for _ in 0..LOOKS {
            self.ask("Get Log Page", admin, command.as_bytes())?;
            let mut bytes = [0; ENTRY_LEN as usize];
            self.bare.region().read(span, &mut bytes);
            let entry = ErrorEntry::parse(&bytes).context("an entry of the error log")?;
            if (entry.sqid, entry.cid) == (qid, cid) {
                let place = match entry.location.get() {
                    Some((byte, bit)) => format!("byte {byte}, bit {bit}"),
                    None => "no field".to_owned(),
                };
                say!("error log: {}; {place}; opcode {:#04x}", entry.status, entry.opcode);
                return Ok(());
            }
        }
        say!("error log: nothing of it");
        Ok(())
    }
}
