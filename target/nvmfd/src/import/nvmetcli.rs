//! What `nvmetcli save` writes of the kernel's target (nvmet): hosts, ports and subsystems as they
//! stand in its configfs, numbers as texts.

use super::draft::{Disk, Draft, Ids, Medium, Namespace, Subsystem, size};
use super::json::Object;
use super::{address, is_file};

/// The kernel's target gives a file blocks of this size, and a device its own.
const FILE_BLOCK: u64 = 4096;
/// Data in a capsule unless a port says otherwise: also nvmfd's default.
const INLINE: u64 = 4096;
/// The range of controller ids unless a subsystem says otherwise.
const CNTLIDS: [u64; 2] = [1, 65519];

/// # Errors
/// When the file is not what nvmetcli writes.
pub(super) fn read(mut root: Object) -> Result<Draft, String> {
    if !root.has("ports") && !root.has("hosts") {
        return Err("has neither ports nor hosts, so nvmetcli did not write it".to_owned());
    }
    let mut draft = Draft::default();
    for mut host in root.objects("hosts")? {
        // Hosts that may connect are named by the subsystems.
        host.ignore(&["nqn"]);
        let mut keys = host.object("dhchap")?;
        if keys.text("key")?.or(keys.text("ctrl_key")?).is_some() {
            let what = "hosts are not asked to authenticate; allowed_hosts goes by their names";
            draft.notes.add(host.place(), what);
        }
        host.finish(&mut draft.notes);
    }
    for subsystem in root.objects("subsystems")? {
        let subsystem = read_subsystem(subsystem, &mut draft)?;
        draft.subsystems.push(subsystem);
    }
    let mut inline = INLINE;
    for port in root.objects("ports")? {
        inline = inline.max(read_port(port, &mut draft)?.unwrap_or(0));
    }
    if inline != INLINE {
        draft.tuning.push(format!("in_capsule = {}", size(inline)));
    }
    draft.tell_of_wider_offers();
    root.finish(&mut draft.notes);
    Ok(draft)
}

/// Says how much data the port lets a capsule carry, if it does.
fn read_port(mut port: Object, draft: &mut Draft) -> Result<Option<u64>, String> {
    port.ignore(&["portid"]);
    let place = port.place().to_owned();
    let subsystems = port.texts("subsystems")?;
    let mut addr = port.object("addr")?;
    let (kind, traddr) = (addr.text("trtype")?.unwrap_or_default(), addr.text("traddr")?);
    if kind != "rdma" {
        let what = format!("serves {kind}, and nvmfd rdma only: its address is left out");
        draft.notes.add(&place, what);
        return Ok(None);
    }
    let Some(traddr) = traddr else {
        draft.notes.add(&place, "has no address and is left out");
        return Ok(None);
    };
    let listener = address(&traddr, addr.text("trsvcid")?);
    addr.ignore(&["adrfam"]);
    addr.finish(&mut draft.notes);
    for nqn in subsystems {
        match draft.subsystems.iter_mut().find(|subsystem| subsystem.nqn == nqn) {
            Some(subsystem) => subsystem.offered_at.push(listener.clone()),
            None => draft.notes.add(&place, format!("offers {nqn}, which is not in the file")),
        }
    }
    draft.listen(listener);
    for referral in port.objects("referrals")? {
        read_referral(referral, draft)?;
    }
    for mut group in port.objects("ana_groups")? {
        group.ignore(&["grpid"]);
        let state = group.object("ana")?.text("state")?.unwrap_or_default();
        if !matches!(state.as_str(), "" | "optimized") {
            let what = format!("paths are always optimized here, and this one was {state}");
            draft.notes.add(group.place(), what);
        }
        group.finish(&mut draft.notes);
    }
    let mut param = port.object("param")?;
    let inline = param.number("inline_data_size")?;
    param.finish(&mut draft.notes);
    port.ignore(&["enable"]);
    port.finish(&mut draft.notes);
    Ok(inline)
}

fn read_referral(mut referral: Object, draft: &mut Draft) -> Result<(), String> {
    referral.ignore(&["name", "portid", "enable"]);
    let mut addr = referral.object("addr")?;
    addr.ignore(&["adrfam", "portid"]);
    let kind = addr.text("trtype")?.unwrap_or_default();
    let (traddr, trsvcid) = (addr.text("traddr")?, addr.text("trsvcid")?);
    match traddr {
        Some(traddr) if kind == "rdma" => {
            let referral = (address(&traddr, trsvcid), None);
            if !draft.referrals.contains(&referral) {
                draft.referrals.push(referral);
            }
        }
        _ => draft.notes.add(referral.place(), format!("refers to {kind}, and is left out")),
    }
    addr.finish(&mut draft.notes);
    referral.finish(&mut draft.notes);
    Ok(())
}

fn read_subsystem(mut object: Object, draft: &mut Draft) -> Result<Subsystem, String> {
    let mut attr = object.object("attr")?;
    let cntlids = [attr.number("cntlid_min")?, attr.number("cntlid_max")?];
    let cntlids = [cntlids[0].unwrap_or(CNTLIDS[0]), cntlids[1].unwrap_or(CNTLIDS[1])];
    let mut subsystem = Subsystem {
        nqn: object.needed("nqn")?,
        any_host: attr.flag("allow_any_host")?,
        hosts: object.texts("allowed_hosts")?,
        serial: attr.text("serial")?,
        model: attr.text("model")?,
        cntlids: (cntlids != CNTLIDS).then_some(cntlids),
        ..Subsystem::default()
    };
    if let Some(most) = attr.number("qid_max")? {
        let what = format!("{most}: tuning.max_io_queues is one for all subsystems, set it there");
        draft.notes.add(&format!("{}.qid_max", attr.place()), what);
    }
    attr.finish(&mut draft.notes);
    for namespace in object.objects("namespaces")? {
        subsystem.namespaces.extend(read_namespace(namespace, draft)?);
    }
    for mut passthru in object.objects("passthru")? {
        let device = passthru.object("device")?.text("path")?;
        if let Some(device) = device {
            let what = format!(
                "passes the commands of {device} through, which nvmfd does not: export its \
                 namespaces with path = \"{device}n1\""
            );
            draft.notes.add(passthru.place(), what);
        }
    }
    object.finish(&mut draft.notes);
    Ok(subsystem)
}

fn read_namespace(mut object: Object, draft: &mut Draft) -> Result<Option<Namespace>, String> {
    let mut device = object.object("device")?;
    let path = device.text("path")?;
    let nsid = object.number("nsid")?;
    let enabled = !object.has("enable") || object.flag("enable")?;
    let place = object.place().to_owned();
    let Some(path) = path.filter(|_| enabled) else {
        draft.notes.add(&place, "is not enabled and is left out");
        return Ok(None);
    };
    let ids = Ids {
        uuid: device.text("uuid")?.filter(|id| is_given(id)),
        nguid: device.text("nguid")?.filter(|id| is_given(id)),
        eui64: device.text("eui64")?.filter(|id| is_given(id)),
    };
    device.finish(&mut draft.notes);
    let group = [object.number("ana_grpid")?, object.object("ana")?.number("grpid")?];
    if group.iter().flatten().any(|group| *group > 1) {
        draft.notes.add(&place, "there are no ANA groups here: every path is optimized");
    }
    object.finish(&mut draft.notes);
    let block_size = is_file(&path).then_some(FILE_BLOCK);
    let disk = Disk { medium: Medium::Path(path), block_size, read_only: false };
    Ok(Some(Namespace { disk, nsid, ids, limit: None }))
}

/// Whether an identifier is one: all zeroes are written for none.
fn is_given(id: &str) -> bool {
    id.bytes().any(|byte| !matches!(byte, b'0' | b'-'))
}
