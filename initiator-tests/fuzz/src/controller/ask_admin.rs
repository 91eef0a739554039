//! Commands that a host sends on its admin queue, and Fabrics commands on any.

use super::op::Op;
use super::sent::{Sent, describe};
use nvme_spec_types::fabrics::{
    CNTLID_DYNAMIC, Connect, ConnectAttributes, ConnectData, PropertyGet, PropertySet, PropertySize,
};
use nvme_spec_types::feature::{GetFeatures, SetFeatures};
use nvme_spec_types::identify::{Cns, Csi, Identify};
use nvme_spec_types::log::GetLogPage;
use nvme_spec_types::property::{
    CAP_OFFSET, CC_OFFSET, CRTO_OFFSET, CSTS_OFFSET, NSSR_OFFSET, NSSR_RESET, VS_OFFSET,
};
use nvme_spec_types::{
    AdminOpcode, Command, FabricsType, FeatureId, FeatureSelect, LogId, Nqn, SglDescriptor,
    ZeroBased,
};

/// CC with EN, IOSQES 6 and IOCQES 4.
pub(super) const ENABLE: u32 = 0x0046_0001;
/// CC.SHN: normal.
const SHUT_DOWN: u32 = 1 << 14;
const IDENTIFY_SIZE: u64 = 4096;

/// What a host knows when it asks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Around<'a> {
    /// Names of subsystems, the discovery subsystem's among them.
    pub(super) subsystems: &'a [String],
    /// Ids of controllers that there are.
    pub(super) cntlids: &'a [u16],
    /// The queue's own id and size.
    pub(super) qid: u16,
    pub(super) entries: u16,
}

/// Who a host says it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Who {
    pub(super) host: u8,
    pub(super) id: u8,
}

/// The names that hosts have.
pub(super) fn hostnqn(host: u8) -> String {
    format!("nqn.2026-01.io.example:host{}", host % 3)
}

/// An admin command.
pub(super) fn admin(op: &mut Op, cid: u16) -> Sent {
    let nsid = [0, 0, 0, u32::MAX, u32::MAX, 1, 2, 3, 7, 0xffff_fffe][op.pick(4, 10)];
    let empty = SglDescriptor::NO_DATA;
    let (command, want, payload) = match op.byte(2) % 24 {
        0..=4 => {
            let identify = Identify {
                nsid,
                cns: Cns(if op.once_in(8) { op.roll() as u8 } else { op.below(0x21) as u8 }),
                cntid: [0, 1, 2, u16::MAX][op.below(4) as usize],
                cnssid: if op.once_in(8) { op.roll() as u16 } else { 0 },
                csi: Csi(if op.once_in(8) { op.roll() as u8 } else { 0 }),
                uuid_index: if op.once_in(8) { op.roll() as u8 & 0x7f } else { 0 },
            };
            (identify.to_command(cid, empty), IDENTIFY_SIZE, Vec::new())
        }
        5..=9 => {
            let logs = [0, 1, 2, 3, 4, 5, 0x12, 0x13, 0x70, 4, 0x70, 1];
            let lid = if op.once_in(8) { op.roll() as u8 } else { logs[op.below(12) as usize] };
            let len = [4, 16, 64, 512, 1024, 4096, 16384, 16388][op.below(8) as usize];
            let get = GetLogPage {
                nsid: if op.once_in(2) { u32::MAX } else { nsid },
                lid: LogId(lid),
                lsp: if op.once_in(4) { op.roll() as u8 & 0x7f } else { 0 },
                rae: op.once_in(2),
                numd: GetLogPage::numd_for(if op.once_in(9) { op.roll() >> 30 } else { len }),
                lsi: if op.once_in(9) { op.roll() as u16 } else { 0 },
                offset: match op.below(6) {
                    0..=2 => 0,
                    3 => op.below(64) * 64,
                    4 => op.below(1 << 14),
                    _ => op.roll(),
                },
                offset_is_index: op.once_in(12),
                uuid_index: if op.once_in(9) { op.roll() as u8 & 0x7f } else { 0 },
                csi: Csi(if op.once_in(9) { op.roll() as u8 } else { 0 }),
            };
            (get.to_command(cid, empty), get.data_len(), Vec::new())
        }
        10..=12 => {
            let get = GetFeatures {
                nsid,
                fid: feature(op),
                sel: FeatureSelect(op.below(5) as u8),
                cdw11: value(op),
                uuid_index: 0,
            };
            (get.to_command(cid, empty), if op.once_in(4) { 4096 } else { 512 }, Vec::new())
        }
        13..=16 => {
            let set = SetFeatures {
                nsid,
                fid: feature(op),
                save: op.once_in(8),
                cdw11: value(op),
                cdw12: if op.once_in(4) { op.roll() as u32 } else { 0 },
                uuid_index: 0,
            };
            let payload: Vec<u8> = (0..512).map(|_| op.below(3) as u8).collect();
            let want = [0, 8, 512][op.below(3) as usize];
            (set.to_command(cid, empty), want, payload)
        }
        17..=19 => {
            let any = (op.below(4) as u16, op.below(28) as u16);
            (abort(cid, any), 0, Vec::new())
        }
        20 | 21 => (wait(cid).command, 0, Vec::new()),
        22 => (Command::admin(AdminOpcode::KEEP_ALIVE, cid, 0, empty), 0, Vec::new()),
        _ => {
            let mut command = Command::admin(AdminOpcode(op.roll() as u8), cid, nsid, empty);
            command.set_cdw10(op.roll() as u32);
            (command, op.below(5000), Vec::new())
        }
    };
    if want == 0 && op.byte(5) % 20 < 14 {
        return Sent::new(command, Vec::new(), payload);
    }
    // An admin queue takes no data in capsules, so a list does not fit; mostly it is one block.
    describe(op, command, payload, want)
}

/// Set Features of what changes how a host is served, mostly right.
pub(super) fn set_up(op: &mut Op, cid: u16) -> Sent {
    let (fid, cdw11, data) = match op.byte(2) % 8 {
        1 | 2 => (FeatureId::VOLATILE_WRITE_CACHE, u32::from(op.byte(4) & 1), Vec::new()),
        3 => (FeatureId::ASYNC_EVENT, op.long(4), Vec::new()),
        4 => (FeatureId::NUMBER_OF_QUEUES, u32::from(op.byte(4) % 8) * 0x1_0001, Vec::new()),
        5 => (FeatureId::KEEP_ALIVE_TIMER, u32::from(op.byte(4)) * 10, Vec::new()),
        _ => {
            // Bytes 4 and 5 enable the formats of Copy.
            let mut behavior = vec![0; 512];
            behavior[4] = op.byte(4) & 0b1_1110;
            (FeatureId::HOST_BEHAVIOR, 0, behavior)
        }
    };
    let set = SetFeatures { nsid: 0, fid, save: false, cdw11, cdw12: 0, uuid_index: 0 };
    let len = data.len() as u32;
    let sgl = SglDescriptor::Keyed { addr: 0x5000_0000, len, key: 0x55, invalidate: false };
    Sent::new(set.to_command(cid, sgl), Vec::new(), data)
}

/// Set Features, Host Behavior Support: the host knows every format of Copy.
pub(super) fn enable_copy_formats(cid: u16) -> Sent {
    let mut behavior = vec![0; 512];
    behavior[4] = 1 << 2;
    let (nsid, fid) = (0, FeatureId::HOST_BEHAVIOR);
    let set = SetFeatures { nsid, fid, save: false, cdw11: 0, cdw12: 0, uuid_index: 0 };
    let sgl = SglDescriptor::Keyed { addr: 0x5000_0000, len: 512, key: 0x55, invalidate: false };
    Sent::new(set.to_command(cid, sgl), Vec::new(), behavior)
}

/// Asynchronous Event Request.
pub(super) fn wait(cid: u16) -> Sent {
    let wait = Command::admin(AdminOpcode::ASYNC_EVENT_REQUEST, cid, 0, SglDescriptor::NO_DATA);
    Sent::new(wait, Vec::new(), Vec::new())
}

/// Abort of a command on a queue.
pub(super) fn abort(cid: u16, (sqid, aborted): (u16, u16)) -> Command {
    let mut command = Command::admin(AdminOpcode::ABORT, cid, 0, SglDescriptor::NO_DATA);
    command.set_cdw10(u32::from(sqid) | u32::from(aborted) << 16);
    command
}

fn feature(op: &mut Op) -> FeatureId {
    let known = [1, 2, 4, 5, 6, 7, 8, 0xa, 0xb, 0xe, 0xf, 0x16, 0x19, 0x81, 0x84, 6, 7, 0xb];
    match op.below(20) {
        19 => FeatureId(op.roll() as u8),
        at => FeatureId(known.get(at as usize).copied().unwrap_or(0)),
    }
}

fn value(op: &mut Op) -> u32 {
    match op.below(6) {
        0 => 0,
        1 => 1,
        2 => 0x0003_0003,
        3 => op.below(3000) as u32,
        4 => 1 << op.below(32),
        _ => op.roll() as u32,
    }
}

/// A Fabrics command.
pub(super) fn fabrics(op: &mut Op, cid: u16, around: Around<'_>) -> Sent {
    match op.byte(2) % 16 {
        0..=2 => {
            let offsets = [CAP_OFFSET, VS_OFFSET, CC_OFFSET, CSTS_OFFSET, NSSR_OFFSET, CRTO_OFFSET];
            let at = op.below(8) as usize;
            let offset = offsets.get(at).copied().unwrap_or(op.roll() as u32 & 0x1fff);
            let size = match (op.once_in(6), offset) {
                (true, _) => PropertySize::Reserved(op.roll() as u8 & 7),
                (false, CAP_OFFSET) => PropertySize::Eight,
                (false, _) => PropertySize::Four,
            };
            let get = PropertyGet { cid, size, offset };
            Sent::new(get.to_command(), Vec::new(), Vec::new())
        }
        3..=8 => {
            let values = [ENABLE, ENABLE, 0, ENABLE | SHUT_DOWN, ENABLE | 2 << 14, 1, SHUT_DOWN];
            let at = op.below(8) as usize;
            let value = values.get(at).copied().unwrap_or(op.roll() as u32);
            let (offset, value) = match op.below(16) {
                0 => (NSSR_OFFSET, NSSR_RESET),
                1 => (op.roll() as u32 & 0xff, value),
                _ => (CC_OFFSET, value),
            };
            let size = if op.once_in(16) { PropertySize::Eight } else { PropertySize::Four };
            let set = PropertySet { cid, size, offset, value: value.into() };
            Sent::new(set.to_command(), Vec::new(), Vec::new())
        }
        9..=13 => {
            let kato_ms = [0, 100, 1500, u32::MAX][op.below(4) as usize];
            let who = Who { host: op.below(4) as u8, id: op.below(4) as u8 };
            let subnqn = op.below(around.subsystems.len() as u64) as usize;
            let cntlid = match op.below(4) {
                0 => around.cntlids.get(op.below(4) as usize).copied().unwrap_or(CNTLID_DYNAMIC),
                1 => op.roll() as u16,
                _ => CNTLID_DYNAMIC,
            };
            let mut sent = connect(cid, around, &around.subsystems[subnqn], cntlid, who, kato_ms);
            if op.once_in(3) {
                let payload = sent.data(ConnectData::SIZE as u64);
                sent = describe(op, sent.command, payload, ConnectData::SIZE as u64);
            }
            if op.once_in(4) {
                let mut bytes = *sent.command.as_bytes();
                bytes[40 + op.below(12) as usize] = op.roll() as u8;
                let payload = sent.data(ConnectData::SIZE as u64);
                sent = Sent::new(Command::from_bytes(bytes), sent.capsule, payload);
            }
            sent
        }
        14 => {
            let mut command =
                Command::fabrics(FabricsType::DISCONNECT, cid, SglDescriptor::NO_DATA);
            command.set_cdw10(u32::from(op.once_in(4)));
            Sent::new(command, Vec::new(), Vec::new())
        }
        _ => {
            let fctype = FabricsType([5, 6, 0x20, 0x41, 0x82, 0xff][op.below(6) as usize]);
            let command = Command::fabrics(fctype, cid, SglDescriptor::NO_DATA);
            describe(op, command, vec![3; 64], 64)
        }
    }
}

/// A Connect that is right for its queue. I/O queues have the data in the capsule.
pub(super) fn connect(
    cid: u16,
    around: Around<'_>,
    subnqn: &str,
    cntlid: u16,
    who: Who,
    kato_ms: u32,
) -> Sent {
    let hostid = [who.id % 3; 16];
    let (subnqn, hostnqn) = (Nqn::new(subnqn), Nqn::new(&hostnqn(who.host)));
    let data = ConnectData::new(
        hostid,
        cntlid,
        &subnqn.expect("a name of ours"),
        &hostnqn.expect("a name of ours"),
    )
    .to_bytes()
    .to_vec();
    let len = data.len() as u32;
    let inside = around.qid != 0;
    let sgl1 = match inside {
        true => SglDescriptor::InCapsule { offset: 0, len },
        false => SglDescriptor::Keyed { addr: 0x7000_0000, len, key: 0x77, invalidate: false },
    };
    let connect = Connect {
        cid,
        sgl1,
        recfmt: 0,
        qid: around.qid,
        sqsize: ZeroBased::<u16>::from_raw(around.entries - 1),
        cattr: match cid % 5 {
            4 => ConnectAttributes::DISABLE_SQ_FLOW_CONTROL,
            _ => ConnectAttributes::empty(),
        },
        kato_ms: if around.qid == 0 { kato_ms } else { 0 },
    };
    let capsule = if inside { data.clone() } else { Vec::new() };
    Sent::new(connect.to_command(), capsule, data)
}

/// Property Set of CC.
pub(super) fn set_cc(cid: u16, value: u32) -> Sent {
    let set = PropertySet { cid, size: PropertySize::Four, offset: CC_OFFSET, value: value.into() };
    Sent::new(set.to_command(), Vec::new(), Vec::new())
}
