//! What SPDK's `save_config` writes of its target (nvmf_tgt): for each of its parts a list of calls,
//! in the order in which they are to be made.

mod bdev;

use super::address;
use super::draft::{Draft, Ids, Limit, Medium, Namespace, Subsystem, size};
use super::json::Object;
use bdev::Bdevs;

/// Settings of a transport: its name, what SPDK takes unless it is told otherwise, ours.
const TRANSPORT: [(&str, u64, &str); 2] =
    [("max_queue_depth", 128, "queue_depth"), ("max_io_qpairs_per_ctrlr", 127, "max_io_queues")];
/// The same for those that are sizes.
const SIZES: [(&str, u64, &str); 2] =
    [("in_capsule_data_size", 4096, "in_capsule"), ("max_io_size", 131_072, "max_transfer")];
/// What shapes the buffers and pollers of SPDK itself.
const MACHINERY: [&str; 14] = [
    "io_unit_size",
    "max_aq_depth",
    "num_shared_buffers",
    "buf_cache_size",
    "abort_timeout_sec",
    "max_srq_depth",
    "acceptor_backlog",
    "acceptor_poll_rate",
    "no_wr_batching",
    "data_wr_pool_size",
    "num_cqe",
    "cq_size",
    "ack_timeout",
    "zcopy",
];
/// A transfer up to this size fits into the control thread's memory as it is by default.
const SMALL_TRANSFER: u64 = 4 << 20;

/// # Errors
/// When the file is not what SPDK writes.
pub(super) fn read(mut root: Object) -> Result<Draft, String> {
    let mut draft = Draft::default();
    let mut bdevs = Bdevs::default();
    let mut unused = Vec::new();
    let mut calls = Vec::new();
    if !root.has("subsystems") {
        return Err("has no subsystems, so SPDK's save_config did not write it".to_owned());
    }
    for mut part in root.objects("subsystems")? {
        if !part.has("subsystem") {
            return Err(format!("{}: names no part, so SPDK did not write it", part.place()));
        }
        part.ignore(&["subsystem"]);
        for mut call in part.objects("config")? {
            let (method, params) = (call.needed("method")?, call.object("params")?);
            // Disks first: their order in the file is not ours to rely on.
            match method.starts_with("bdev_") {
                true => bdevs.call(&method, params, &mut draft.notes, &mut unused)?,
                false => calls.push((method, params)),
            }
        }
    }
    for (method, params) in calls {
        if !call(&method, params, &bdevs, &mut draft)? {
            unused.push(method);
        }
    }
    unused.sort();
    unused.dedup();
    if !unused.is_empty() {
        draft.notes.add("of no use here", unused.join(", "));
    }
    draft.tell_of_wider_offers();
    Ok(draft)
}

/// Makes one call of the nvmf part on the draft. Says whether it is one that means something here.
fn call(
    method: &str,
    mut params: Object,
    bdevs: &Bdevs,
    draft: &mut Draft,
) -> Result<bool, String> {
    match method {
        "nvmf_create_transport" => transport(&mut params, draft)?,
        "nvmf_create_subsystem" => {
            let subsystem = create(&mut params)?;
            draft.subsystems.push(subsystem);
        }
        "nvmf_subsystem_add_host" => {
            let host = params.needed("host")?;
            if params.has("dhchap_key") || params.has("psk") {
                let what = "hosts are not asked to authenticate; allowed_hosts goes by their names";
                draft.notes.add(&host, what);
            }
            params.ignore(&["dhchap_key", "dhchap_ctrlr_key", "psk"]);
            subsystem(&mut params, draft)?.hosts.push(host);
        }
        "nvmf_subsystem_allow_any_host" => {
            let any = params.flag("allow_any_host")?;
            subsystem(&mut params, draft)?.any_host = any;
        }
        "nvmf_subsystem_add_listener" => add_listener(&mut params, draft)?,
        "nvmf_subsystem_add_ns" => add_namespace(&mut params, bdevs, draft)?,
        "nvmf_discovery_add_referral" => add_referral(&mut params, draft)?,
        "nvmf_set_config" => {
            let filter = params.text("discovery_filter")?.unwrap_or_default();
            draft.tell = match filter.as_str() {
                "" => None,
                some if some.contains("address") => Some("asked"),
                _ => Some("all"),
            };
            params.ignore(&["poll_groups_mask", "conn_sched", "acceptor_poll_rate"]);
        }
        "nvmf_ns_add_host" | "nvmf_subsystem_listener_set_ana_state" | "nvmf_set_crdt" => {}
        // Of another part of SPDK, or only about SPDK itself.
        _ => return Ok(false),
    }
    params.finish(&mut draft.notes);
    Ok(true)
}

fn transport(params: &mut Object, draft: &mut Draft) -> Result<(), String> {
    let kind = params.needed("trtype")?;
    if !kind.eq_ignore_ascii_case("rdma") {
        draft.notes.add(&format!("transport {kind}"), "is left out: nvmfd serves RDMA only");
        params.ignore_all();
        return Ok(());
    }
    for (theirs, usual, ours) in TRANSPORT {
        if let Some(value) = params.number(theirs)?.filter(|value| *value != usual) {
            draft.tuning.push(format!("{ours} = {value}"));
        }
    }
    for (theirs, usual, ours) in SIZES {
        if let Some(bytes) = params.number(theirs)?.filter(|bytes| *bytes != usual) {
            draft.tuning.push(format!("{ours} = {}", size(bytes)));
            if ours == "max_transfer" && bytes > SMALL_TRANSFER {
                draft.tuning.push(format!("control_memory = {}", size(4 * bytes)));
            }
        }
    }
    if params.flag("no_srq")? {
        draft.tuning.push("shared_receive_queue = false".to_owned());
    }
    params.ignore(&MACHINERY);
    // The older name, which counts the admin queue; the newer stands beside it or in its place.
    params.ignore(&["max_qpairs_per_ctrlr"]);
    Ok(())
}

fn create(params: &mut Object) -> Result<Subsystem, String> {
    let cntlids = [params.number("min_cntlid")?, params.number("max_cntlid")?];
    let cntlids = [cntlids[0].unwrap_or(1), cntlids[1].unwrap_or(65519)];
    // How many there may be is no setting here, and how commands are cut is the daemon's affair.
    params.ignore(&["max_namespaces", "max_discard_size_kib", "max_write_zeroes_size_kib"]);
    Ok(Subsystem {
        nqn: params.needed("nqn")?,
        any_host: params.flag("allow_any_host")?,
        serial: params.text("serial_number")?,
        model: params.text("model_number")?,
        cntlids: (cntlids != [1, 65519]).then_some(cntlids),
        ..Subsystem::default()
    })
}

/// The subsystem that a call is about.
fn subsystem<'a>(params: &mut Object, draft: &'a mut Draft) -> Result<&'a mut Subsystem, String> {
    let nqn = params.needed("nqn")?;
    let found = draft.subsystems.iter_mut().find(|subsystem| subsystem.nqn == nqn);
    found.ok_or_else(|| format!("{}: no call before this one makes {nqn}", params.place()))
}

fn add_listener(params: &mut Object, draft: &mut Draft) -> Result<(), String> {
    let mut addr = params.object("listen_address")?;
    let (kind, traddr) = (addr.needed("trtype")?, addr.needed("traddr")?);
    let listener = address(&traddr, addr.text("trsvcid")?);
    let subsystem = subsystem(params, draft)?;
    if kind.eq_ignore_ascii_case("rdma") {
        subsystem.offered_at.push(listener.clone());
        draft.listen(listener);
    } else {
        let what = format!("its listener {kind} {listener} is left out: nvmfd serves RDMA only");
        let nqn = subsystem.nqn.clone();
        draft.notes.add(&nqn, what);
    }
    Ok(())
}

fn add_namespace(params: &mut Object, bdevs: &Bdevs, draft: &mut Draft) -> Result<(), String> {
    let mut given = params.object("namespace")?;
    let name = given.needed("bdev_name")?;
    let (nsid, uuid) = (given.number("nsid")?, given.text("uuid")?);
    let (nguid, eui64) = (given.text("nguid")?, given.text("eui64")?);
    if given.number("anagrpid")?.is_some_and(|group| group > 1) {
        draft.notes.add(&name, "there are no ANA groups here: every path is optimized");
    }
    given.finish(&mut draft.notes);
    let nqn = subsystem(params, draft)?.nqn.clone();
    match bdevs.find(&name) {
        Ok((disk, own_uuid, limit)) => {
            if matches!(disk.medium, Medium::Ram(_)) {
                draft.notes.add(&name, "is memory, and empty after every start");
            }
            let uuid = uuid.or(own_uuid);
            let limit = Some(limit).filter(|limit| *limit != Limit::default());
            let ids = Ids { uuid, nguid, eui64 };
            let namespace = Namespace { disk, nsid, ids, limit };
            if let Some(subsystem) = draft.subsystems.iter_mut().find(|other| other.nqn == nqn) {
                subsystem.namespaces.push(namespace);
            }
        }
        Err(why) => {
            let number = nsid.map_or_else(String::new, |nsid| format!(" {nsid}"));
            draft.notes.add(&nqn, format!("its namespace{number} ({name}) is left out: {why}"));
        }
    }
    Ok(())
}

fn add_referral(params: &mut Object, draft: &mut Draft) -> Result<(), String> {
    let mut addr = params.object("address")?;
    let (kind, traddr) = (addr.needed("trtype")?, addr.needed("traddr")?);
    let referral = (address(&traddr, addr.text("trsvcid")?), params.text("subnqn")?);
    if kind.eq_ignore_ascii_case("rdma") {
        draft.referrals.push(referral);
    } else {
        draft.notes.add(params.place(), format!("refers to {kind}, and is left out"));
    }
    Ok(())
}
