//! What a process may have: locked memory, memory, descriptors, socket buffers.

use crate::config::{Config, in_words};
use crate::doctor::facts::{Facts, Process};
use crate::doctor::finding::{Finding, Level};
use backing::Medium;
use region::Pages;

/// Beside disks and sockets: rings, mailboxes and events of a thread, and the control socket's
/// connections.
const FILES_OF_A_THREAD: u64 = 12;
const FILES_OF_THE_REST: u64 = 64;
/// Places for disks that are added while running, which each ring keeps.
const ROOM_FOR_DISKS: u64 = 256;

pub(super) fn check(facts: &Facts, config: &Config) -> Vec<Finding> {
    let mut findings = vec![locked(facts, config)];
    findings.extend(memory(facts, config));
    findings.extend(huge_pages(facts, config));
    findings.push(files(facts, config));
    findings.extend(buffers(facts));
    findings
}

/// Bytes for data and receives, of all threads.
fn regions(config: &Config) -> u64 {
    let tuning = &config.tuning;
    let data = tuning.memory as u64 * u64::from(tuning.data_cores);
    data + tuning.control_memory as u64
}

fn locked(facts: &Facts, config: &Config) -> Finding {
    const ABOUT: &str = "memlock";
    let mend = format!(
        "ulimit -l unlimited # for a service: {}/memlock.sh, which sets LimitMEMLOCK=infinity",
        facts.scripts
    );
    let Process { memlock, may_lock, .. } = facts.process;
    // The ring pins the buffers, and a card's driver pins them again.
    let verbs = facts.by_verbs().next().is_some();
    let needed = regions(config) * if verbs { 2 } else { 1 };
    let limit = match memlock {
        None => return Finding::ok(ABOUT, "any amount of memory may be locked"),
        Some(_) if may_lock => {
            return Finding::ok(
                ABOUT,
                "this process may lock memory beyond its limit (CAP_IPC_LOCK)",
            );
        }
        Some(limit) => limit,
    };
    let [may, wanted] = [limit, needed].map(in_words);
    if limit >= needed {
        Finding::ok(ABOUT, format!("{may} may be locked, and {wanted} are needed"))
    } else if verbs {
        Finding::fault(
            ABOUT,
            format!(
                "{may} may be locked, and {wanted} are needed: the RDMA device refuses the buffers \
                 (ENOMEM)"
            ),
        )
        .mend(mend)
    } else {
        Finding::warning(
            ABOUT,
            format!(
                "{may} may be locked, and {wanted} are needed: the disks' buffers are pinned anew \
                 with each command, which costs processor time"
            ),
        )
        .mend(mend)
    }
}

fn memory(facts: &Facts, config: &Config) -> Option<Finding> {
    let namespaces = config.subsystems.iter().flat_map(|subsystem| &subsystem.namespaces);
    let disks: u64 = namespaces
        .map(|namespace| match namespace.spec.medium {
            Medium::Ram { size } => size,
            _ => 0,
        })
        .sum();
    let needed = regions(config).saturating_add(disks);
    let available = facts.memory.available;
    // 0: not told.
    (available > 0 && needed > available).then(|| {
        let [needed, available] = [needed, available].map(in_words);
        Finding::warning(
            "memory",
            format!(
                "{needed} are asked for (buffers of the threads, disks in memory), and {available} \
                 are available: the daemon may be killed when they are used"
            ),
        )
        .mend("lower tuning.memory, tuning.data_cores or the sizes of disks in memory")
    })
}

fn huge_pages(facts: &Facts, config: &Config) -> Option<Finding> {
    const ABOUT: &str = "hugepages";
    let wanted = config.tuning.hugepages;
    if wanted == Pages::Normal || (wanted == Pages::PreferHuge && facts.memory.huge_free == 0) {
        return None;
    }
    let size = facts.memory.huge_size.max(1 << 20);
    let tuning = &config.tuning;
    // Each thread's memory is a mapping of its own.
    let of = |bytes: usize| (bytes as u64).div_ceil(size);
    let needed = of(tuning.memory) * u64::from(tuning.data_cores) + of(tuning.control_memory);
    let free = facts.memory.huge_free;
    if free >= needed {
        let words = format!("{free} huge pages are free, and {needed} are needed");
        return Some(Finding::ok(ABOUT, words));
    }
    let short = format!("{free} huge pages are free, and {needed} would be needed");
    let finding = if wanted == Pages::Huge {
        Finding::fault(ABOUT, format!("{short}: the daemon does not start without them"))
    } else {
        Finding::note(
            ABOUT,
            format!("{short}: threads for which there are too few use ordinary ones"),
        )
    };
    let scripts = facts.scripts;
    Some(finding.mend(format!(
        "{scripts}/hugepages.sh {needed} # until a reboot only: sysctl -w vm.nr_hugepages={needed}"
    )))
}

fn files(facts: &Facts, config: &Config) -> Finding {
    const ABOUT: &str = "files";
    let Some(limit) = facts.process.nofile else {
        return Finding::ok(ABOUT, "any number of files may be open");
    };
    let threads = u64::from(config.tuning.data_cores) + 1;
    let disks = facts.disks.len() as u64;
    // One socket for each thread at each address, and one that claims it.
    let sockets: u64 = facts
        .by_soft()
        .map(|address| {
            let interfaces = facts.at(address);
            let addresses: u64 = if address.ip().is_unspecified() {
                interfaces.map(|interface| interface.addresses.len() as u64).sum()
            } else {
                1
            };
            addresses * (threads + 1)
        })
        .sum();
    let needed = FILES_OF_THE_REST + FILES_OF_A_THREAD * threads + disks + sockets;
    let mend =
        "ulimit -n 65536 # for a service: LimitNOFILE=65536, which config/nvmfd.service sets";
    if limit < needed {
        let says = format!("{limit} files may be open, and about {needed} are needed");
        Finding::fault(ABOUT, says).mend(mend)
    } else if limit < disks + ROOM_FOR_DISKS {
        let says = format!(
            "{limit} files may be open: too few for rings to keep the disks' files at hand, which \
             costs time with each command"
        );
        Finding::warning(ABOUT, says).mend(mend)
    } else {
        Finding::ok(ABOUT, format!("{limit} files may be open, and about {needed} are needed"))
    }
}

fn buffers(facts: &Facts) -> Option<Finding> {
    const ABOUT: &str = "buffers";
    let wanted = soft_roce::Config::default().socket_buffer as u64;
    let cap = facts.receive_cap?;
    facts.by_soft().next()?;
    if facts.process.may_force_buffers || cap >= wanted {
        return Some(Finding::ok(ABOUT, "sockets get the buffers that they ask for"));
    }
    // Below a quarter the daemon warns too.
    let level = if cap < wanted / 4 { Level::Warning } else { Level::Note };
    let [cap, asked] = [cap, wanted].map(in_words);
    Some(
        Finding::new(
            level,
            ABOUT,
            format!(
                "the kernel caps socket buffers at {cap}, and soft-roce asks for {asked}: packets \
                 may be lost when many come at once"
            ),
        )
        .mend(format!("sysctl -w net.core.rmem_max={wanted} net.core.wmem_max={wanted}")),
    )
}
