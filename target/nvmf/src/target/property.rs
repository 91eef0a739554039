//! Properties: the registers that a host reads and writes by command (NVMe Base 2.1, 3.1.4).

use super::controller::{Controller, ControllerKey, Kind};
use super::fail::{Answer, Fail};
use super::features::Features;
use super::flush::After;
use super::{Target, TargetAction};
use crate::{Outcome, Slot};
use core::time::Duration;
use nvme_spec_types::Command;
use nvme_spec_types::fabrics::{
    PROPERTY_ATTRIB_OFFSET, PROPERTY_OFST_OFFSET, PropertyGet, PropertySet, PropertySize,
};
use nvme_spec_types::property::{
    CAP_OFFSET, CC_OFFSET, CRTO_OFFSET, CSTS_OFFSET, Cap, Cc, Crto, Csts, NSSR_OFFSET,
    SHST_COMPLETE, SHST_NORMAL, SHST_OCCURRING, VS_OFFSET, Version,
};

/// The revision of the specification that we follow.
pub(super) const VERSION: Version = Version::V2_1;

/// How long a host waits for a controller to become ready or be reset, in units of 500 ms. We
/// answer when it is done; this is for hosts that lose their connection meanwhile.
const READY_TIMEOUT_500MS: u8 = 15;

/// CC.CSS: the NVM command set.
const CSS_NVM: u8 = 0;
/// CC.CSS: all supported I/O command sets, of which there is one.
const CSS_ALL: u8 = 6;
/// CAP.CSS: both of these may be selected.
const CAP_CSS: u8 = 1 << CSS_NVM | 1 << CSS_ALL;
/// CAP.CRMS: ready once the media are.
const READY_WITH_MEDIA: u8 = 1;
/// CC.IOSQES: entries of 64 bytes.
const IOSQES: u8 = 6;
/// CC.IOCQES: entries of 16 bytes.
const IOCQES: u8 = 4;

/// CC.SHN: a normal shutdown.
const SHN_NORMAL: u8 = 1;

/// One past the last byte of the properties that the specification defines or reserves.
const PROPERTIES_END: u32 = 0x1300;

impl Target {
    fn cap(&self) -> Cap {
        Cap::default()
            .with_max_queue_entries(self.config.max_queue_entries.into())
            .with_cqr(true)
            .with_timeout_500ms(READY_TIMEOUT_500MS)
            .with_css(CAP_CSS)
            .with_crms(READY_WITH_MEDIA)
    }

    /// Property Get (NVMe Base 2.1, 6.4).
    pub(super) fn property_get(&self, controller: &Controller, command: &Command) -> Answer {
        let get = PropertyGet::from_command(command);
        let (size, value) = match get.offset {
            CAP_OFFSET => (PropertySize::Eight, self.cap().0),
            VS_OFFSET => (PropertySize::Four, VERSION.0.into()),
            CC_OFFSET => (PropertySize::Four, controller.cc.0.into()),
            CSTS_OFFSET => (PropertySize::Four, controller.csts.0.into()),
            // Subsystem reset is not offered (CAP.NSSRS): one host would end all others'
            // connections. The property then reads as zero.
            NSSR_OFFSET => (PropertySize::Four, 0),
            CRTO_OFFSET => {
                let crto = Crto::default().with_crwmt(READY_TIMEOUT_500MS.into());
                (PropertySize::Four, crto.0.into())
            }
            // What a fabrics controller does not have reads as zero, in either size: hosts that
            // show all registers walk over them.
            offset if offset < PROPERTIES_END && offset % 4 == 0 => (get.size, 0),
            _ => return Err(Fail::field(PROPERTY_OFST_OFFSET)),
        };
        if get.size != size || matches!(get.size, PropertySize::Reserved(_)) {
            return Err(Fail::field(PROPERTY_ATTRIB_OFFSET));
        }
        Ok(Outcome::result(value).into())
    }

    /// Property Set (NVMe Base 2.1, 6.6). Only Controller Configuration can be written.
    pub(super) fn property_set(
        &mut self,
        now: Duration,
        key: ControllerKey,
        slot: Slot,
        command: &Command,
        out: &mut Vec<TargetAction>,
    ) -> Answer {
        let set = PropertySet::from_command(command);
        if set.offset != CC_OFFSET {
            return Err(Fail::field(PROPERTY_OFST_OFFSET));
        }
        if set.size != PropertySize::Four {
            return Err(Fail::field(PROPERTY_ATTRIB_OFFSET));
        }
        if self.write_cc(now, key, Cc(set.value as u32), out) {
            return self.flush_first(key, slot, command, After::Shutdown, out);
        }
        Ok(Outcome::ok().into())
    }

    /// Returns whether a normal shutdown begins: it is complete when nothing written can be lost
    /// any more (NVMe Base 2.1, 3.6.2).
    fn write_cc(
        &mut self,
        now: Duration,
        key: ControllerKey,
        new: Cc,
        out: &mut Vec<TargetAction>,
    ) -> bool {
        let Some(controller) = self.controllers.get_mut(&key) else { return false };
        let old = controller.cc;
        let shuts_down = old.shn() == 0 && new.shn() == SHN_NORMAL;
        // While enabled, the rest of the configuration stays as it was at enabling.
        controller.cc = if old.en() && new.en() { old.with_shn(new.shn()) } else { new };
        match (old.shn() != 0, new.shn() != 0) {
            (false, true) => {
                let shst = if shuts_down { SHST_OCCURRING } else { SHST_COMPLETE };
                controller.csts = controller.csts.with_shst(shst);
            }
            (true, false) => controller.csts = controller.csts.with_shst(SHST_NORMAL),
            _ => {}
        }
        match (old.en(), new.en()) {
            (false, true) => {
                let works = controller.kind == Kind::Discovery || is_supported(new);
                controller.csts = controller.csts.with_rdy(works).with_cfs(!works);
            }
            (true, false) => self.reset_controller(now, key, out),
            _ => {}
        }
        shuts_down
    }

    /// Controller reset by CC.EN (NVMe Base 2.1, 3.7.2): the I/O queues end, the admin queue and
    /// the keep-alive timeout stay, everything else is as after Connect.
    fn reset_controller(&mut self, now: Duration, key: ControllerKey, out: &mut Vec<TargetAction>) {
        let Some(controller) = self.controllers.get_mut(&key) else { return };
        let shst = controller.csts.shst();
        controller.csts = Csts::default().with_shst(shst);
        controller.features = Features::new(now, controller.kind, &self.config);
        controller.changed = Default::default();
        controller.reset_events(out);
        let queues: Vec<_> = controller.io_queues.values().copied().collect();
        for queue in queues {
            self.unbind_io_queue(queue);
            self.close_queue(queue, "the host reset its controller", out);
        }
        self.on_queue_managed(key);
    }
}

/// Whether a controller for I/O can be enabled that way; else it has a fatal error.
fn is_supported(cc: Cc) -> bool {
    (cc.iosqes(), cc.iocqes(), cc.mps(), cc.ams()) == (IOSQES, IOCQES, 0, 0)
        && matches!(cc.css(), CSS_NVM | CSS_ALL)
        && !cc.crime()
}

#[cfg(test)]
mod tests;
