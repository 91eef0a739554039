//! From the file's tables to a [`Config`]: defaults, ranges, and what must not be there twice.

use super::problem::Problem;
use super::raw::{
    RawConfig, RawFormat, RawHugePages, RawNamespace, RawPoll, RawSize, RawSubsystem, RawTuning,
};
use super::{Config, Inject, Listener, Log, Namespace, Subsystem, Tuning};
use super::{fabrics, units};
use backing::{BackingSpec, BlockSize, Medium};
use nvme_spec_types::nqn::Nqn;
use nvmf::target::AllowedHosts;
use reactor::run::PollMode;
use region::Pages;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use toml::Spanned;
use tracing_subscriber::filter::{LevelFilter, Targets};
use uuid::Uuid;

/// The space of UUIDs that we derive (RFC 9562, 5.5). Must never change: hosts remember them.
const UUID_SPACE: Uuid = Uuid::from_u128(0x6f1b_2d0c_93f4_4a55_8d0e_5a7c_f0de_4420);

/// Most namespaces of one subsystem.
const MAX_NAMESPACES: usize = 1024;
/// Most subsystems.
const MAX_SUBSYSTEMS: usize = 1024;
/// Most listeners.
const MAX_LISTENERS: usize = 64;
/// Most data cores.
const MAX_DATA_CORES: u16 = 64;
/// I/O queues of a controller for each data core, unless the file says otherwise: enough for every
/// core to have some of each host's, few enough for many hosts.
const QUEUES_PER_CORE: u16 = 4;
/// Data cores that "automatic" gives at most: more seldom pays without tuning.
const AUTOMATIC_CORES: u16 = 8;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const TIB: u64 = 1 << 40;

/// Largest RAM disk: its address space is reserved in one go.
const MAX_RAM: u64 = 16 * TIB;
/// Largest file or null disk, a power of two below what a file offset can say.
const MAX_DISK: u64 = 1 << 62;

pub(super) type Problems = Vec<Problem>;

/// `text` is what `raw` was read from: disks remember their line. `file` is where it is, which is no
/// disk.
pub(super) fn resolve(raw: &RawConfig, file: &Path, text: &str) -> Result<Config, Problems> {
    let mut problems = Problems::new();
    let listeners = listeners(raw, &mut problems);
    let newlines: Vec<usize> = text.match_indices('\n').map(|(at, _)| at).collect();
    let subsystems = subsystems(raw, file, &newlines, &mut problems);
    let limits = super::limits::limits(raw, &mut problems);
    let discovery = fabrics::discovery(raw, &mut problems);
    let log = log(raw, &mut problems);
    let tuning = tuning(&raw.tuning, &mut problems);
    let control = super::outlets::control(&raw.control, &mut problems);
    let metrics = raw.metrics.as_ref().and_then(|raw| super::outlets::metrics(raw, &mut problems));
    if problems.is_empty() {
        Ok(Config { listeners, subsystems, limits, discovery, log, tuning, control, metrics })
    } else {
        Err(problems)
    }
}

fn listeners(raw: &RawConfig, problems: &mut Problems) -> Vec<Listener> {
    if raw.listener.is_empty() {
        problems.push(
            Problem::nowhere("there is no [[listener]], so no host could connect")
                .hint("add: [[listener]] with address = \"0.0.0.0:4420\""),
        );
    }
    let mut seen: Vec<(Listener, Range<usize>)> = Vec::new();
    for listener in &raw.listener {
        let at = listener.address.span();
        match units::address(listener.address.get_ref(), units::interface_index) {
            Ok(address) if seen.iter().any(|(other, _)| other.address == address) => {
                problems
                    .push(Problem::at(at, format!("listener.address: {address} is listed twice")));
            }
            Ok(address) => match seen.iter().find(|(other, _)| covers(other.address, address)) {
                Some((Listener { address: other, .. }, _)) => problems.push(
                    Problem::at(at, format!("listener.address: {address} and {other} overlap"))
                        .hint("a wildcard address listens on every address of its port already"),
                ),
                None => seen.push((Listener { address, provider: listener.provider }, at)),
            },
            Err(what) => problems.push(
                Problem::at(at, format!("listener.address: {what}"))
                    .hint("write it as 10.8.0.1:4420, 0.0.0.0:4420 or [fe80::1%eth0]:4420"),
            ),
        }
    }
    if seen.len() > MAX_LISTENERS {
        let what = format!("there are more than {MAX_LISTENERS} listeners");
        problems.push(Problem::at(seen[MAX_LISTENERS].1.clone(), what));
    }
    seen.into_iter().map(|(listener, _)| listener).collect()
}

/// Whether one of the two is the wildcard of the other's family and port.
fn covers(a: SocketAddr, b: SocketAddr) -> bool {
    a.port() == b.port()
        && a.is_ipv4() == b.is_ipv4()
        && (a.ip().is_unspecified() || b.ip().is_unspecified())
}

/// `newlines` are the places of the line ends, rising: lines are looked up once for every disk.
fn subsystems(
    raw: &RawConfig,
    file: &Path,
    newlines: &[usize],
    problems: &mut Problems,
) -> Vec<Subsystem> {
    if raw.subsystem.is_empty() {
        problems.push(
            Problem::nowhere("there is no [[subsystem]], so there is nothing to serve")
                .hint("add: [[subsystem]] with nqn and allow_any_host or allowed_hosts"),
        );
    }
    if raw.subsystem.len() > MAX_SUBSYSTEMS {
        let at = raw.subsystem[MAX_SUBSYSTEMS].nqn.span();
        problems.push(Problem::at(at, format!("there are more than {MAX_SUBSYSTEMS} subsystems")));
    }
    let mut nqns = BTreeSet::new();
    let mut exported = Exported { configuration: inode(file), ..Exported::default() };
    let mut all = Vec::new();
    for subsystem in &raw.subsystem {
        let nqn = subsystem.nqn.get_ref();
        check_nqn("subsystem.nqn", &subsystem.nqn, problems);
        if !nqns.insert(nqn.clone()) {
            let what = format!("subsystem.nqn: \"{nqn}\" is given to two subsystems");
            problems.push(Problem::at(subsystem.nqn.span(), what));
        }
        let hosts = hosts(subsystem, problems);
        let serial = text_field("serial", subsystem.serial.as_ref(), 20, problems)
            .unwrap_or_else(|| derived_serial(nqn));
        let model = text_field("model", subsystem.model.as_ref(), 40, problems)
            .unwrap_or_else(|| "nvmfd".to_owned());
        let namespaces = namespaces(subsystem, newlines, &mut exported, problems);
        let duplicates = fabrics::duplicates(subsystem.duplicate_hosts);
        let cntlids = fabrics::cntlids(subsystem.cntlids.as_ref(), problems);
        all.push(Subsystem {
            nqn: nqn.clone(),
            serial,
            model,
            hosts,
            duplicates,
            cntlids,
            namespaces,
        });
    }
    all
}

pub(super) fn check_nqn(key: &str, nqn: &Spanned<String>, problems: &mut Problems) {
    let hint = "an NQN looks like nqn.2026-11.org.example:disk1";
    let name = nqn.get_ref();
    match Nqn::new(name).and_then(|nqn| nqn.check_form()) {
        Ok(()) if name == nvme_spec_types::nqn::DISCOVERY_NQN => {
            let what = format!("{key}: \"{name}\" is the name of the discovery service itself");
            problems.push(Problem::at(nqn.span(), what).hint(hint));
        }
        Ok(()) => {}
        Err(error) => {
            let what = format!("{key}: \"{name}\" is not an NQN: {error}");
            problems.push(Problem::at(nqn.span(), what).hint(hint));
        }
    }
}

fn hosts(subsystem: &RawSubsystem, problems: &mut Problems) -> AllowedHosts {
    let any = subsystem.allow_any_host.as_ref().is_some_and(|any| *any.get_ref());
    match (any, &subsystem.allowed_hosts) {
        (true, None) => AllowedHosts::Any,
        (false, Some(list)) => {
            let mut seen = BTreeSet::new();
            for host in list.get_ref() {
                check_nqn("subsystem.allowed_hosts", host, problems);
                if !seen.insert(host.get_ref()) {
                    let nqn = host.get_ref();
                    let what = format!("subsystem.allowed_hosts: \"{nqn}\" is listed twice");
                    problems.push(Problem::at(host.span(), what));
                }
            }
            AllowedHosts::Only(list.get_ref().iter().map(|host| host.get_ref().clone()).collect())
        }
        (true, Some(list)) => {
            problems.push(
                Problem::at(
                    list.span(),
                    "subsystem.allowed_hosts: does nothing beside allow_any_host = true",
                )
                .hint("keep one of the two"),
            );
            AllowedHosts::Any
        }
        (false, None) => {
            let nqn = subsystem.nqn.get_ref();
            problems.push(
                Problem::at(
                    subsystem.nqn.span(),
                    format!("subsystem \"{nqn}\" does not say which hosts may connect"),
                )
                .hint("add allowed_hosts = [\"nqn...\"], or allow_any_host = true"),
            );
            AllowedHosts::Only(Vec::new())
        }
    }
}

fn text_field(
    key: &str,
    value: Option<&Spanned<String>>,
    most: usize,
    problems: &mut Problems,
) -> Option<String> {
    let value = value?;
    let text = value.get_ref();
    let printable = text.bytes().all(|byte| (0x20..0x7f).contains(&byte));
    if text.is_empty() || text.len() > most || !printable {
        let what = format!("subsystem.{key}: must be 1 to {most} printable ASCII characters");
        problems.push(Problem::at(value.span(), what));
    }
    Some(text.clone())
}

/// 20 hexadecimal digits that depend on the name alone.
fn derived_serial(nqn: &str) -> String {
    let id = Uuid::new_v5(&UUID_SPACE, format!("serial\0{nqn}").as_bytes());
    id.simple().to_string()[..20].to_owned()
}

/// The UUID of a namespace that was given none: it depends on the subsystem's name, the nsid and
/// where the data is (the path as written, or the kind of memory), and so survives restarts and
/// changes when another disk takes the place.
fn derived_uuid(nqn: &str, nsid: u32, medium: &Medium) -> [u8; 16] {
    let place = match medium {
        Medium::Path { path, .. } => format!("path:{}", path.display()),
        Medium::Ram { .. } => "ram".to_owned(),
        Medium::Null { .. } => "null".to_owned(),
    };
    let name = format!("namespace\0{nqn}\0{nsid}\0{place}");
    *Uuid::new_v5(&UUID_SPACE, name.as_bytes()).as_bytes()
}

/// What namespaces export so far, over all subsystems.
#[derive(Default)]
struct Exported {
    /// Files and devices, and whether all that export one do so read-only.
    paths: BTreeMap<PathBuf, bool>,
    ids: BTreeMap<Vec<u8>, &'static str>,
    /// The configuration's own device and inode numbers.
    configuration: Option<(u64, u64)>,
}

/// Device and inode numbers of what is there.
fn inode(path: &Path) -> Option<(u64, u64)> {
    path.metadata().ok().map(|it| (it.dev(), it.ino()))
}

fn namespaces(
    subsystem: &RawSubsystem,
    newlines: &[usize],
    exported: &mut Exported,
    problems: &mut Problems,
) -> Vec<Namespace> {
    let mut taken: BTreeSet<u32> = BTreeSet::new();
    for raw in &subsystem.namespace {
        let Some(nsid) = &raw.get_ref().nsid else { continue };
        let id = *nsid.get_ref();
        if !taken.insert(id) {
            let what = format!("namespace.nsid: {id} is given to two namespaces of this subsystem");
            problems.push(Problem::at(nsid.span(), what));
        }
    }
    if let Some(over) = subsystem.namespace.get(MAX_NAMESPACES) {
        let what = format!("a subsystem has at most {MAX_NAMESPACES} namespaces");
        problems.push(Problem::at(over.span(), what));
    }
    let given: Vec<Option<u32>> = subsystem
        .namespace
        .iter()
        .map(|raw| raw.get_ref().nsid.as_ref().map(|nsid| *nsid.get_ref()))
        .collect();
    let mut all = Vec::new();
    for (raw, nsid) in subsystem.namespace.iter().zip(number_namespaces(&given)) {
        let line = newlines.partition_point(|newline| *newline < raw.span().start) + 1;
        all.extend(namespace(subsystem.nqn.get_ref(), nsid, line, raw, exported, problems));
    }
    all.sort_by_key(|namespace| namespace.nsid);
    all
}

/// Numbers for namespaces: those that were given, and the lowest free ones in order for the others.
pub(crate) fn number_namespaces(given: &[Option<u32>]) -> Vec<u32> {
    let taken: BTreeSet<u32> = given.iter().flatten().copied().collect();
    let mut free = (1..).filter(|id| !taken.contains(id));
    given.iter().map(|nsid| nsid.or_else(|| free.next()).unwrap_or(u32::MAX)).collect()
}

fn namespace(
    nqn: &str,
    nsid: u32,
    line: usize,
    raw: &Spanned<RawNamespace>,
    exported: &mut Exported,
    problems: &mut Problems,
) -> Option<Namespace> {
    let at = raw.span();
    let ns = raw.get_ref();
    let medium = medium(ns, at, problems)?;
    if let Medium::Path { path, .. } = &medium {
        if exported.configuration.is_some() && inode(path) == exported.configuration {
            let span = ns.path.as_ref().map_or(0..0, Spanned::span);
            problems.push(
                Problem::at(span, "namespace.path: is this configuration itself")
                    .hint("a host would write over it; name the disk or file to serve"),
            );
        }
        let same = path.canonicalize().unwrap_or_else(|_| path.clone());
        let shared = exported.paths.get(&same).copied();
        if shared.is_some_and(|all_read_only| !(all_read_only && ns.read_only)) {
            let span = ns.path.as_ref().map_or(0..0, Spanned::span);
            problems.push(
                Problem::at(span, format!("namespace.path: {} is exported twice", path.display()))
                    .hint("one file or device belongs to one namespace, unless all are read_only"),
            );
        }
        exported.paths.insert(same, ns.read_only);
    }
    let block_size = ns.block_size.and_then(|size| BlockSize::try_from(size).ok());
    let uuid = id(ns.uuid.as_ref(), "uuid", exported, problems)
        .unwrap_or_else(|| derived_uuid(nqn, nsid, &medium));
    let nguid = id(ns.nguid.as_ref(), "nguid", exported, problems).unwrap_or_default();
    let eui64 = id(ns.eui64.as_ref(), "eui64", exported, problems).unwrap_or_default();
    let inject = ns.inject.as_ref().map(|inject| Inject {
        delay: Duration::from_millis(inject.get_ref().delay_ms.into()),
        error_every: inject.get_ref().error_every,
    });
    let iopoll = ns.iopoll.as_ref().is_some_and(|iopoll| *iopoll.get_ref());
    let spec = BackingSpec { medium, block_size, read_only: ns.read_only, iopoll };
    Some(Namespace { line, nsid, spec, uuid, nguid, eui64, inject })
}

fn medium(ns: &RawNamespace, at: Range<usize>, problems: &mut Problems) -> Option<Medium> {
    let given = [ns.path.is_some(), ns.ram.is_some(), ns.null.is_some()];
    if given.iter().filter(|given| **given).count() != 1 {
        problems.push(
            Problem::at(at, "namespace: needs exactly one of path, ram and null")
                .hint("path = \"/srv/disk.img\", ram = \"256MiB\" or null = \"1GiB\""),
        );
        return None;
    }
    let memory = ns.path.is_none();
    // One block, so that no file is made which then is refused.
    let least = match ns.block_size {
        Some(4096) => 4096,
        _ => 512,
    };
    let mut only_files = |key: &str, at: Option<Range<usize>>| {
        if let Some(at) = at.filter(|_| memory) {
            problems.push(Problem::at(at, format!("namespace.{key}: goes with path only")));
        }
    };
    only_files("size", ns.size.as_ref().map(Spanned::span));
    only_files("buffered", ns.buffered.as_ref().map(Spanned::span));
    only_files("iopoll", ns.iopoll.as_ref().map(Spanned::span));
    if let Some(path) = &ns.path {
        let size = match &ns.size {
            Some(size) => Some(blocks("namespace.size", size, least, MAX_DISK, problems)?),
            None => None,
        };
        let buffered = ns.buffered.as_ref().is_some_and(|buffered| *buffered.get_ref());
        super::outlets::no_zero_byte("namespace.path", path, problems);
        let file = Path::new(path.get_ref());
        if file.as_os_str().is_empty() {
            problems.push(
                Problem::at(path.span(), "namespace.path: is empty")
                    .hint("name a file or block device, as /srv/disk.img"),
            );
        } else if !file.is_absolute() {
            problems.push(
                Problem::at(
                    path.span(),
                    format!("namespace.path: \"{}\" is relative", file.display()),
                )
                .hint("write the path from the root, as /srv/disk.img"),
            );
        }
        return Some(Medium::Path { path: file.to_owned(), size, buffered });
    }
    match (&ns.ram, &ns.null) {
        (Some(ram), _) => {
            Some(Medium::Ram { size: blocks("namespace.ram", ram, least, MAX_RAM, problems)? })
        }
        (_, Some(null)) => {
            Some(Medium::Null { size: blocks("namespace.null", null, least, MAX_DISK, problems)? })
        }
        (None, None) => None,
    }
}

/// An identifier that hosts tell disks apart by: no two may be the same.
fn id<const N: usize>(
    value: Option<&Spanned<String>>,
    key: &'static str,
    exported: &mut Exported,
    problems: &mut Problems,
) -> Option<[u8; N]> {
    let value = value?;
    let what = match units::hex::<N>(value.get_ref()) {
        Ok(bytes) if bytes == [0; N] => "all zeroes mean that there is none".to_owned(),
        Ok(bytes) => match exported.ids.insert(bytes.to_vec(), key) {
            None => return Some(bytes),
            Some(_) => format!("\"{}\" is given to two namespaces", value.get_ref()),
        },
        Err(what) => what,
    };
    problems.push(Problem::at(value.span(), format!("namespace.{key}: {what}")));
    None
}

/// The size of a disk with blocks of `block` bytes: hosts see whole blocks only.
fn blocks(
    key: &str,
    size: &Spanned<RawSize>,
    block: u64,
    most: u64,
    problems: &mut Problems,
) -> Option<u64> {
    let bytes = bytes(key, size, block..=most, problems)?;
    if bytes.is_multiple_of(block) {
        return Some(bytes);
    }
    let what = format!("{key}: {bytes} bytes are not whole blocks of {block}");
    let (below, above) = (bytes / block * block, bytes.next_multiple_of(block));
    problems.push(Problem::at(size.span(), what).hint(format!("take {below} or {above}")));
    None
}

fn bytes(
    key: &str,
    size: &Spanned<RawSize>,
    range: std::ops::RangeInclusive<u64>,
    problems: &mut Problems,
) -> Option<u64> {
    let what = match units::bytes(size.get_ref()) {
        Ok(bytes) if range.contains(&bytes) => return Some(bytes),
        Ok(bytes) => format!(
            "{} is out of range: {} to {}",
            units::in_words(bytes),
            units::in_words(*range.start()),
            units::in_words(*range.end())
        ),
        Err(what) => what,
    };
    problems.push(Problem::at(size.span(), format!("{key}: {what}")));
    None
}

fn log(raw: &RawConfig, problems: &mut Problems) -> Log {
    let filter = raw.log.level.as_ref().map_or("info", |level| level.get_ref());
    let hint = "error, warn, info, debug or trace, or by module: info,reactor=debug";
    if let Some(level) = &raw.log.level {
        // The parser takes a lone word that is no level for a module, and then nothing is logged.
        let stray = filter.split(',').find(|part| {
            let (module, level) = part.split_once('=').unwrap_or(("all", part));
            [module, level].iter().any(|word| word.trim().is_empty())
                || level.trim().parse::<LevelFilter>().is_err()
        });
        let what = match filter.parse::<Targets>() {
            Err(error) => Some(error.to_string()),
            Ok(_) => stray.map(|part| format!("\"{part}\" is no level")),
        };
        problems.extend(what.map(|what| {
            Problem::at(level.span(), format!("log.level: \"{filter}\": {what}")).hint(hint)
        }));
    }
    let slow = (raw.log.slow_ms > 0).then(|| Duration::from_millis(raw.log.slow_ms.into()));
    Log { filter: filter.to_owned(), json: matches!(raw.log.format, Some(RawFormat::Json)), slow }
}

fn tuning(raw: &RawTuning, problems: &mut Problems) -> Tuning {
    let cpus = cpus(raw, problems);
    let data_cores = data_cores(raw, &cpus, problems);
    let max_transfer = size("max_transfer", &raw.max_transfer, MIB, 4 * KIB..=16 * MIB, problems);
    if let Some(given) = &raw.max_transfer
        && !max_transfer.is_power_of_two()
    {
        let what = "tuning.max_transfer: must be a power of two";
        problems.push(Problem::at(given.span(), what));
    }
    let in_capsule = size("in_capsule", &raw.in_capsule, 4 * KIB, 0..=64 * KIB, problems);
    if let Some(given) = &raw.in_capsule
        && !in_capsule.is_multiple_of(16)
    {
        problems.push(Problem::at(given.span(), "tuning.in_capsule: must be a multiple of 16"));
    }
    let memory = size("memory", &raw.memory, 64 * MIB, MIB..=4096 * MIB - 2 * MIB, problems);
    let control_memory =
        size("control_memory", &raw.control_memory, 16 * MIB, MIB..=1024 * MIB, problems);
    for (key, given, bytes) in
        [("memory", &raw.memory, memory), ("control_memory", &raw.control_memory, control_memory)]
    {
        if bytes < 4 * max_transfer {
            let at = given.as_ref().or(raw.max_transfer.as_ref()).map_or(0..0, Spanned::span);
            let what = format!(
                "tuning.{key}: {} is less than four times max_transfer ({})",
                units::in_words(bytes),
                units::in_words(max_transfer)
            );
            problems.push(Problem::at(at, what));
        }
    }
    Tuning {
        data_cores,
        cpus,
        poll: poll(raw, problems),
        memory: memory as usize,
        control_memory: control_memory as usize,
        hugepages: match raw.hugepages.unwrap_or(RawHugePages::Auto) {
            RawHugePages::Auto => Pages::PreferHuge,
            RawHugePages::Always => Pages::Huge,
            RawHugePages::Never => Pages::Normal,
        },
        max_transfer: max_transfer as u32,
        in_capsule: in_capsule as u32,
        queue_depth: raw.queue_depth.unwrap_or(128),
        max_io_queues: raw.max_io_queues.unwrap_or(data_cores * QUEUES_PER_CORE),
        max_queues: raw.max_queues.unwrap_or(4096) as usize,
        max_reads: raw.max_reads.unwrap_or(16),
        shared_receive_queue: raw.shared_receive_queue.unwrap_or(true),
        traffic_class: raw.traffic_class.unwrap_or(0),
    }
}

fn cpus(raw: &RawTuning, problems: &mut Problems) -> Vec<usize> {
    let Some(given) = &raw.cpus else { return Vec::new() };
    let cpus = given.get_ref();
    let mut seen = BTreeSet::new();
    for cpu in cpus {
        if !seen.insert(cpu) {
            problems.push(Problem::at(given.span(), format!("tuning.cpus: {cpu} is listed twice")));
        }
    }
    if cpus.is_empty() {
        let what = "tuning.cpus: is empty";
        problems.push(Problem::at(given.span(), what).hint("leave it out to pin nothing"));
    }
    cpus.clone()
}

fn data_cores(raw: &RawTuning, cpus: &[usize], problems: &mut Problems) -> u16 {
    let asked = raw.data_cores.as_ref().map_or(0, |cores| *cores.get_ref());
    if !cpus.is_empty() {
        if asked != 0 && usize::from(asked) != cpus.len() {
            let at = raw.data_cores.as_ref().map_or(0..0, Spanned::span);
            problems.push(
                Problem::at(
                    at,
                    format!("tuning.data_cores: {asked}, but tuning.cpus lists {}", cpus.len()),
                )
                .hint("leave data_cores out, or list one CPU per data core"),
            );
        }
        return cpus.len().min(usize::from(MAX_DATA_CORES)) as u16;
    }
    if asked != 0 {
        return asked;
    }
    // Half of the machine: the disks' kernel work and the control thread need CPUs too.
    let available = std::thread::available_parallelism().map_or(1, |n| n.get());
    ((available / 2).min(usize::from(AUTOMATIC_CORES)) as u16).max(1)
}

fn poll(raw: &RawTuning, problems: &mut Problems) -> PollMode {
    let mode = raw.poll.unwrap_or(RawPoll::Adaptive);
    let spin = raw.spin_us.as_ref().map_or(50, |spin| *spin.get_ref());
    if let Some(spin) = &raw.spin_us
        && !matches!(mode, RawPoll::Adaptive)
    {
        problems
            .push(Problem::at(spin.span(), "tuning.spin_us: goes with poll = \"adaptive\" only"));
    }
    match mode {
        RawPoll::Adaptive => PollMode::Adaptive { spin: Duration::from_micros(spin) },
        RawPoll::Always => PollMode::Always,
        RawPoll::Interrupt => PollMode::Interrupt,
    }
}

/// A size of the tuning table.
fn size(
    key: &str,
    given: &Option<Spanned<RawSize>>,
    default: u64,
    range: std::ops::RangeInclusive<u64>,
    problems: &mut Problems,
) -> u64 {
    given
        .as_ref()
        .and_then(|given| bytes(&format!("tuning.{key}"), given, range, problems))
        .unwrap_or(default)
}
