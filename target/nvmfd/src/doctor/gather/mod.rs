//! Facts, read from the machine: the edge of the doctor.
//!
//! Everything is only looked at. What comes from `/sys`, `/proc`, `/dev` and `/lib/modules` is read
//! below one folder, so that a test can lay out a machine of its own; the rest are system calls.
//! What cannot be read is left out, or said to be unknown: a machine that hides something is no
//! reason to end.

mod cards;
mod disks;
mod firewall;
mod ports;
mod tree;

use super::facts::{Carried, Facts, Kernel, Memory, Module, Process};
use crate::config::{Config, Listener};
use crate::machine;
use crate::provider::{self, Choice};
use backing::{Ring, RingConfig, RingMode};
use region::{Pages, Region};
use rustix::process::{Resource, getrlimit};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use tree::Tree;

/// Modules that carry RDMA, or let programs use it.
const MODULES: [&str; 4] = ["ib_uverbs", "rdma_ucm", "rdma_rxe", "siw"];

/// Bits of capabilities (linux/capability.h).
const CAP_NET_ADMIN: u32 = 12;
const CAP_IPC_LOCK: u32 = 14;

/// Looks at this machine, for the configuration that stands at `path`.
/// Where the package puts the scripts that prepare a kernel.
const INSTALLED: &str = "/usr/lib/nvmfd/kernel-setup";

pub(super) fn facts(path: &Path, config: &Config) -> Facts {
    let tree = Tree::new("/");
    let release = tree.text("proc/sys/kernel/osrelease").unwrap_or_default();
    Facts {
        scripts: if Path::new(INSTALLED).exists() { INSTALLED } else { "kernel-setup" },
        modules: modules(&tree, &release),
        kernel: Kernel {
            io_uring_disabled: tree.number("proc/sys/kernel/io_uring_disabled"),
            ring: ring(),
            release,
        },
        process: process(&tree),
        memory: memory(&tree),
        devices: cards::devices(&tree),
        cm_node: tree.node("dev/infiniband/rdma_cm"),
        interfaces: cards::interfaces(&tree),
        udp: ports::udp(&tree),
        tcp: ports::tcp(&tree),
        kernel_target: ports::kernel_target(&tree),
        receive_cap: tree.number("proc/sys/net/core/rmem_max"),
        firewall: firewall::firewall(&tree),
        numa_nodes: numa_nodes(&tree),
        cpu_problems: machine::problems(path, config),
        listeners: config.listeners.iter().map(carried).collect(),
        disks: disks::disks(&tree, config),
    }
}

fn carried(listener: &Listener) -> Carried {
    let (address, by) = (listener.address, provider::choose(listener));
    let refused = match by {
        Choice::Soft(_) => soft_roce::may_listen(address.ip()).err(),
        Choice::Verbs(_) => None,
    };
    // An address that is not there yet is another matter.
    let refused = refused.filter(|absence| !absence.absent).map(|absence| absence.reason);
    Carried { address, by, refused }
}

/// Makes a ring as a core does, with little memory, and gives it back.
fn ring() -> Result<RingMode, String> {
    let region = Region::map(1 << 16, Pages::Normal).map_err(|error| error.to_string())?;
    let ring = Ring::new(RingConfig::default(), Arc::new(region));
    ring.map(|ring| ring.mode()).map_err(|error| error.to_string())
}

fn process(tree: &Tree) -> Process {
    let status = tree.text("proc/self/status").unwrap_or_default();
    let effective = field(&status, "CapEff:").and_then(|bits| u64::from_str_radix(bits, 16).ok());
    let may = |capability: u32| effective.is_some_and(|bits| bits >> capability & 1 == 1);
    Process {
        memlock: getrlimit(Resource::Memlock).current,
        nofile: getrlimit(Resource::Nofile).current,
        may_lock: may(CAP_IPC_LOCK),
        may_force_buffers: may(CAP_NET_ADMIN),
    }
}

fn memory(tree: &Tree) -> Memory {
    let info = tree.text("proc/meminfo").unwrap_or_default();
    let number = |name| {
        let word = field(&info, name).and_then(|rest| rest.split_whitespace().next());
        word.and_then(|word| word.parse::<u64>().ok()).unwrap_or(0)
    };
    Memory {
        available: number("MemAvailable:") << 10,
        huge_free: number("HugePages_Free:"),
        huge_size: number("Hugepagesize:") << 10,
    }
}

/// What stands behind a name at the start of a line.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim)
}

fn modules(tree: &Tree, release: &str) -> BTreeMap<&'static str, Module> {
    let folder = format!("lib/modules/{release}");
    let lists = ["modules.builtin", "modules.dep"]
        .map(|list| tree.text(&format!("{folder}/{list}")).unwrap_or_default());
    let named = |list: &str, module: &str| {
        let file = format!("/{module}.ko");
        // "kernel/drivers/.../siw.ko.xz: ..." in one, without what it needs in the other.
        list.lines().any(|line| line.split(':').next().is_some_and(|path| path.contains(&file)))
    };
    let state = |module: &'static str| {
        let [built_in, loadable] = &lists;
        if tree.exists(&format!("sys/module/{module}")) || named(built_in, module) {
            Module::Loaded
        } else if named(loadable, module) {
            Module::Available
        } else {
            Module::Absent
        }
    };
    MODULES.map(|module| (module, state(module))).into()
}

fn numa_nodes(tree: &Tree) -> usize {
    let nodes = tree.list("sys/devices/system/node");
    let with_cpus = |name: &&String| {
        let cpus = format!("sys/devices/system/node/{name}/cpulist");
        name.starts_with("node") && tree.text(&cpus).is_some_and(|cpus| !cpus.is_empty())
    };
    nodes.iter().filter(with_cpus).count().max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tree::laid_out;

    #[test]
    fn a_module_is_loaded_built_in_there_to_be_loaded_or_missing() {
        let (_folder, tree) = laid_out(&[
            ("sys/module/siw/refcnt", "0"),
            ("lib/modules/6.1.0/modules.builtin", "kernel/drivers/infiniband/core/ib_uverbs.ko\n"),
            (
                "lib/modules/6.1.0/modules.dep",
                "kernel/drivers/infiniband/sw/rxe/rdma_rxe.ko.xz: kernel/net/ib_core.ko.xz\n",
            ),
        ]);
        let modules = modules(&tree, "6.1.0");
        assert_eq!(modules["siw"], Module::Loaded);
        assert_eq!(modules["ib_uverbs"], Module::Loaded);
        assert_eq!(modules["rdma_rxe"], Module::Available);
        assert_eq!(modules["rdma_ucm"], Module::Absent);
    }

    #[test]
    fn memory_and_privileges_are_read_in_the_kernels_units() {
        let (_folder, tree) = laid_out(&[
            (
                "proc/meminfo",
                "MemAvailable:   2048 kB\nHugePages_Free:  3\nHugepagesize:  2048 kB\n",
            ),
            ("proc/self/status", "Name:\tnvmfd\nCapEff:\t0000000000004000\n"),
        ]);
        let memory = memory(&tree);
        assert_eq!((memory.available, memory.huge_free, memory.huge_size), (2 << 20, 3, 2 << 20));
        let process = process(&tree);
        assert_eq!((process.may_lock, process.may_force_buffers), (true, false));
    }
}
