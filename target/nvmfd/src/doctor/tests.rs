//! Machines that are broken in one way each: the finding, and the command that mends it.

use super::checks;
use super::facts::*;
use super::finding::{Finding, Level};
use super::show::worst;
use crate::config::{self, Config};
use crate::provider::Choice;
use backing::{OpenError, RingMode};
use std::net::SocketAddr;
use std::path::Path;

const ADDRESS: &str = "10.0.0.1:4420";

fn config(rest: &str) -> Config {
    let text = format!(
        "listener = [{{ address = \"{ADDRESS}\" }}]\n[[subsystem]]\n\
         nqn = \"nqn.2026-11.io.nvmfd:a\"\nallow_any_host = true\n\
         namespace = [{{ path = \"/srv/a\" }}]\n[tuning]\ndata_cores = 2\n{rest}"
    );
    config::parse(Path::new("nvmfd.toml"), &text).unwrap_or_else(|error| panic!("{error}"))
}

/// A machine on which everything is as it should be, with a soft-RoCE device of the kernel.
fn machine() -> Facts {
    let address: SocketAddr = ADDRESS.parse().unwrap();
    Facts {
        scripts: "kernel-setup",
        kernel: Kernel {
            release: "6.12.0-amd64".into(),
            io_uring_disabled: Some(0),
            ring: Ok(RingMode {
                single_issuer: true,
                defer_taskrun: true,
                fixed_buffers: true,
                fixed_files: true,
            }),
        },
        process: Process {
            memlock: None,
            nofile: Some(65536),
            may_lock: false,
            may_force_buffers: false,
        },
        memory: Memory { available: 8 << 30, huge_free: 0, huge_size: 2 << 20 },
        modules: ["ib_uverbs", "rdma_ucm", "rdma_rxe"].map(|name| (name, Module::Loaded)).into(),
        devices: vec![RdmaDevice {
            name: "rxe_eth0".into(),
            iwarp: false,
            rxe: true,
            node: Node::Open,
            ports: vec![RdmaPort {
                number: 1,
                state: "ACTIVE".into(),
                link_layer: "Ethernet".into(),
                rate: "10 Gb/sec".into(),
                interface: Some("eth0".into()),
                roce_v2_gids: 2,
                default_roce_mode: None,
            }],
            place: Place::default(),
        }],
        cm_node: Node::Open,
        interfaces: vec![Interface {
            name: "eth0".into(),
            loopback: false,
            up: true,
            running: true,
            mtu: Some(9000),
            addresses: vec![address.ip()],
            place: Place::default(),
        }],
        udp: Vec::new(),
        tcp: Vec::new(),
        kernel_target: Vec::new(),
        receive_cap: Some(16 << 20),
        firewall: Firewall::None,
        numa_nodes: 1,
        cpu_problems: Vec::new(),
        listeners: vec![Carried {
            address,
            by: Choice::Verbs(Some("rxe_eth0".into())),
            refused: None,
        }],
        disks: Vec::new(),
    }
}

/// The same without RDMA devices, served by our own endpoint.
fn machine_without_rdma() -> Facts {
    let mut facts = machine();
    facts.devices.clear();
    facts.cm_node = Node::Absent;
    facts.listeners[0].by = Choice::Soft("as no RDMA device has the address");
    facts
}

fn findings(facts: &Facts) -> Vec<Finding> {
    checks::all(facts, &config(""))
}

/// The one finding that is not well, with its words and its command.
fn only(facts: &Facts, level: Level) -> (&'static str, String, String) {
    let all = findings(facts);
    let bad: Vec<&Finding> = all.iter().filter(|finding| finding.level >= Level::Warning).collect();
    let [finding] = bad.as_slice() else { panic!("{bad:#?}") };
    assert_eq!(finding.level, level, "{finding:?}");
    (finding.about, finding.says.clone(), finding.mend.clone().expect("a command"))
}

#[test]
fn machines_that_are_well_have_no_findings() {
    for facts in [machine(), machine_without_rdma()] {
        assert!(worst(&findings(&facts)) <= Level::Note, "{:#?}", findings(&facts));
    }
}

#[test]
fn without_the_module_a_listener_for_verbs_is_told_how_to_get_a_device() {
    let mut facts = machine();
    facts.devices.clear();
    facts.cm_node = Node::Absent;
    facts.listeners[0].by = Choice::Verbs(None);
    let make = "rdma link add rxe_eth0 type rxe netdev eth0";
    facts.modules.insert("rdma_rxe", Module::Available);
    let (about, says, mend) = only(&facts, Level::Fault);
    assert_eq!(about, "rdma");
    assert!(says.contains("rdma_rxe is not loaded"), "{says}");
    assert_eq!(mend, format!("modprobe -a rdma_rxe ib_uverbs rdma_ucm && {make}"));
    facts.modules.insert("rdma_rxe", Module::Loaded);
    assert_eq!(only(&facts, Level::Fault).2, make);
    facts.modules.insert("rdma_rxe", Module::Absent);
    assert!(only(&facts, Level::Fault).2.contains("linux-image-amd64"));
}

#[test]
fn devices_that_programs_cannot_reach_name_the_module_or_the_right() {
    let mut facts = machine();
    facts.devices[0].node = Node::Absent;
    assert_eq!(only(&facts, Level::Fault).2, "modprobe ib_uverbs");
    facts.devices[0].node = Node::Closed("/dev/infiniband/uverbs0".into());
    assert!(only(&facts, Level::Fault).2.starts_with("setfacl -m u:NAME:rw /dev/infiniband/uv"));
    let mut facts = machine();
    facts.cm_node = Node::Absent;
    assert_eq!(only(&facts, Level::Fault).2, "modprobe rdma_ucm");
}

#[test]
fn a_link_that_is_down_is_named_with_its_interface() {
    let mut facts = machine();
    facts.interfaces[0].up = false;
    let (about, says, mend) = only(&facts, Level::Fault);
    assert_eq!((about, mend.as_str()), ("link", "ip link set eth0 up"));
    assert!(says.contains("eth0 is down: no host reaches 10.0.0.1:4420"), "{says}");
    // A device on it may not be found by its address then.
    facts.listeners[0].by = Choice::Verbs(None);
    assert_eq!(only(&facts, Level::Fault).0, "link");
    facts.interfaces[0].up = true;
    assert!(findings(&facts).iter().any(|finding| finding.says.contains("no RDMA device has")));
    facts.listeners[0].by = Choice::Verbs(Some("rxe_eth0".into()));
    facts.interfaces[0].running = false;
    assert!(only(&facts, Level::Fault).2.contains("plug in the cable"));
    let mut facts = machine();
    facts.devices[0].ports[0].state = "DOWN".into();
    let (about, says, mend) = only(&facts, Level::Fault);
    assert_eq!((about, mend.as_str()), ("rdma", "ip link set eth0 up"));
    assert!(says.starts_with("rxe_eth0 port 1 is down"), "{says}");
}

#[test]
fn an_address_that_is_not_there_is_given_to_an_interface() {
    let mut facts = machine_without_rdma();
    facts.interfaces[0].addresses.clear();
    let mend = only(&facts, Level::Fault).2;
    assert!(mend.starts_with("ip address add 10.0.0.1/24 dev eth0 # if this machine"), "{mend}");
}

#[test]
fn every_loopback_address_is_there() {
    let mut facts = machine_without_rdma();
    facts.interfaces[0].loopback = true;
    facts.listeners[0].address = "127.8.0.2:4420".parse().unwrap();
    assert!(worst(&findings(&facts)) <= Level::Note);
}

#[test]
fn a_low_limit_of_locked_memory_is_a_fault_with_a_card_and_a_cost_without() {
    // Two cores of 64 MiB, and 16 MiB for control.
    let mut facts = machine_without_rdma();
    facts.process.memlock = Some(8 << 20);
    let (about, says, mend) = only(&facts, Level::Warning);
    assert_eq!(about, "memlock");
    assert!(says.starts_with("8 MiB may be locked, and 144 MiB are needed"), "{says}");
    assert!(mend.starts_with("ulimit -l unlimited"), "{mend}");
    facts.process.memlock = Some(144 << 20);
    assert!(worst(&findings(&facts)) < Level::Warning);
    let mut facts = machine();
    facts.process.memlock = Some(287 << 20);
    assert!(only(&facts, Level::Fault).1.contains("288 MiB are needed"));
    facts.process.may_lock = true;
    assert!(worst(&findings(&facts)) < Level::Warning);
}

#[test]
fn an_mtu_is_judged_by_the_packets_that_fit_it() {
    let level_at = |mtu| {
        let mut facts = machine();
        facts.interfaces[0].mtu = Some(mtu);
        let all = findings(&facts);
        let found = all.into_iter().find(|finding| finding.about == "mtu").unwrap();
        (found.level, found.mend)
    };
    let set = |mtu: u32| Some(format!("ip link set eth0 mtu {mtu}"));
    assert_eq!(level_at(351), (Level::Fault, set(1500)));
    assert_eq!(level_at(352), (Level::Warning, set(1500)));
    assert_eq!(level_at(1119), (Level::Warning, set(1500)));
    assert_eq!(level_at(1500), (Level::Note, set(4200)));
    assert_eq!(level_at(4200), (Level::Ok, None));
}

#[test]
fn an_mtu_that_is_not_told_is_not_guessed() {
    let mut facts = machine();
    facts.interfaces[0].mtu = None;
    assert!(findings(&facts).iter().all(|finding| finding.about != "mtu"));
}

#[test]
fn whoever_has_roces_port_is_named() {
    let mut facts = machine_without_rdma();
    let at = "0.0.0.0:4791".parse().unwrap();
    facts.udp = vec![Taken { at, owner: Some((77, "other".into())) }];
    assert!(worst(&findings(&facts)) <= Level::Note, "it can be had all the same");
    facts.listeners[0].refused = Some("UDP port 4791 of 10.0.0.1 is taken".into());
    let (about, says, mend) = only(&facts, Level::Fault);
    assert_eq!(about, "port");
    assert_eq!(says, "UDP port 4791 of 10.0.0.1 belongs to other (process 77)");
    assert!(mend.starts_with("kill 77"), "{mend}");
    // A doctor may be asked while the daemon runs.
    facts.udp[0].owner = Some((78, "nvmfd".into()));
    assert_eq!(worst(&findings(&facts)), Level::Note);
    facts.udp[0].owner = Some((79, "nvmf-host".into()));
    assert!(!only(&facts, Level::Fault).2.contains("kill"));
    facts.udp[0].owner = None;
    assert!(only(&facts, Level::Fault).2.starts_with("ss -ulpn"));
    facts.listeners[0].refused = None;
    facts.udp[0].at = "10.0.0.2:4791".parse().unwrap();
    assert!(worst(&findings(&facts)) <= Level::Note, "another address");
}

#[test]
fn of_all_addresses_one_that_somebody_has_is_only_noted() {
    let mut facts = machine_without_rdma();
    facts.listeners[0].address = "0.0.0.0:4420".parse().unwrap();
    let at = "10.0.0.1:4791".parse().unwrap();
    facts.udp = vec![Taken { at, owner: Some((77, "nvmf-host".into())) }];
    let all = findings(&facts);
    let says = &all.iter().find(|finding| finding.about == "port").unwrap().says;
    let expected = "UDP port 4791 of 10.0.0.1 belongs to nvmf-host (process 77): 0.0.0.0 serves the \
                    other addresses";
    assert_eq!(says, expected);
    assert!(worst(&all) <= Level::Note, "{all:?}");
}

#[test]
fn the_kernels_soft_roce_is_told_from_programs_that_have_its_port() {
    let mut facts = machine();
    facts.listeners[0].by = Choice::Soft("as configured");
    facts.listeners[0].refused = Some("UDP port 4791 of 10.0.0.1 is taken".into());
    facts.udp = vec![Taken { at: "[::]:4791".parse().unwrap(), owner: None }];
    let (_, says, mend) = only(&facts, Level::Fault);
    assert!(says.contains("the kernel's soft-RoCE"), "{says}");
    assert_eq!(mend, "rdma link delete rxe_eth0");
}

#[test]
fn a_port_of_the_kernels_target_is_no_ports_of_ours() {
    let mut facts = machine();
    facts.kernel_target =
        vec![KernelPort { id: "3".into(), address: "0.0.0.0".into(), service: "4420".into() }];
    let (about, _, mend) = only(&facts, Level::Fault);
    assert_eq!(about, "port");
    assert_eq!(mend, "rm /sys/kernel/config/nvmet/ports/3/subsystems/*");
    facts.kernel_target[0].service = "4421".into();
    assert!(worst(&findings(&facts)) < Level::Warning);
}

fn disk(found: OpenError, is_device: bool) -> Disk {
    Disk {
        nqn: "nqn.2026-11.io.nvmfd:a".into(),
        nsid: 1,
        path: "/srv/a".into(),
        is_device,
        buffered: false,
        found: Err(found),
        file_system: (!is_device).then(|| ("ext4".into(), "/srv".into())),
        direct: Some(512),
        space: None,
        write_cache: None,
        device: Some("sdb".into()),
    }
}

#[test]
fn a_disk_that_is_read_only_is_made_writable_where_it_is_so() {
    let read_only = || OpenError::MediumReadOnly { path: "/srv/a".into() };
    let mut facts = machine();
    facts.disks = vec![disk(read_only(), false)];
    let (about, says, mend) = only(&facts, Level::Fault);
    assert_eq!((about, mend.as_str()), ("disk", "mount -o remount,rw /srv"));
    assert!(says.starts_with("nqn.2026-11.io.nvmfd:a namespace 1: /srv/a: "), "{says}");
    facts.disks = vec![disk(read_only(), true)];
    assert_eq!(only(&facts, Level::Fault).2, "blockdev --setrw /srv/a");
    // A file that is still to be made.
    let source = std::io::Error::from_raw_os_error(libc::EROFS);
    facts.disks = vec![disk(OpenError::Create { path: "/srv/a".into(), source }, false)];
    assert_eq!(only(&facts, Level::Fault).2, "mount -o remount,rw /srv");
}

#[test]
fn an_io_uring_that_is_turned_off_is_turned_on() {
    let mut facts = machine();
    facts.kernel.ring = Err("not permitted".into());
    facts.kernel.io_uring_disabled = Some(2);
    assert_eq!(only(&facts, Level::Fault).2, "sysctl -w kernel.io_uring_disabled=0");
}

#[test]
fn an_old_kernel_is_a_fault_and_one_that_lacks_something_a_note() {
    let level_of = |release: &str| {
        let mut facts = machine();
        facts.kernel.release = release.into();
        findings(&facts).into_iter().find(|finding| finding.about == "kernel").unwrap().level
    };
    assert_eq!(level_of("5.10.0-28-amd64"), Level::Fault);
    assert_eq!(level_of("5.19.0"), Level::Note);
    assert_eq!(level_of("6.1"), Level::Ok);
    assert_eq!(level_of("unknown"), Level::Note);
}

#[test]
fn caps_of_buffers_and_files_are_raised_by_name() {
    let mut facts = machine_without_rdma();
    facts.receive_cap = Some(212_992);
    let mend = only(&facts, Level::Warning).2;
    assert_eq!(mend, "sysctl -w net.core.rmem_max=8388608 net.core.wmem_max=8388608");
    facts.receive_cap = Some(4 << 20);
    assert_eq!(worst(&findings(&facts)), Level::Note);
    facts.process.may_force_buffers = true;
    assert!(worst(&findings(&facts)) < Level::Warning);
    facts.process.nofile = Some(64);
    assert!(only(&facts, Level::Fault).2.starts_with("ulimit -n 65536"));
    facts.process.nofile = Some(200);
    assert_eq!(only(&facts, Level::Warning).0, "files");
}

#[test]
fn a_filter_that_does_not_name_the_port_is_told_of() {
    let mut facts = machine_without_rdma();
    let rules = |more: &str| Firewall::Iptables(format!(":INPUT DROP [0:0]\n{more}"));
    facts.firewall = rules("");
    let (about, _, mend) = only(&facts, Level::Warning);
    assert_eq!(about, "firewall");
    assert_eq!(mend, "iptables -I INPUT -p udp --dport 4791 -j ACCEPT");
    facts.firewall = rules("-A INPUT -p udp --dport 4791 -j ACCEPT\n");
    assert!(worst(&findings(&facts)) <= Level::Note);
    // A card's packets do not come by the filter.
    let mut facts = machine();
    facts.devices[0].rxe = false;
    facts.firewall = rules("");
    assert!(worst(&findings(&facts)) <= Level::Note);
}

#[test]
fn work_far_from_its_card_is_told_with_the_cpus_that_are_near() {
    let mut facts = machine();
    facts.numa_nodes = 2;
    facts.devices[0].place =
        Place { node: Some(1), cpus: vec![8, 9, 10, 11], irqs: vec![(61, vec![2])] };
    let with = |rest: &str| {
        let all = checks::all(&facts, &config(rest));
        all.into_iter()
            .filter(|finding| ["numa", "irq"].contains(&finding.about))
            .map(|finding| (finding.level, finding.mend.unwrap_or_default()))
            .collect::<Vec<_>>()
    };
    let irq = (Level::Warning, "echo 8-11 > /proc/irq/61/smp_affinity_list, and so on: 61".into());
    let pin = "in the configuration: [tuning] cpus = [8, 9]".to_owned();
    assert_eq!(with(""), [(Level::Note, pin.clone()), irq.clone()]);
    assert_eq!(with("cpus = [0, 8]"), [(Level::Warning, pin), irq.clone()]);
    assert_eq!(with("cpus = [8, 10]"), [(Level::Ok, String::new()), irq]);
}

#[test]
fn huge_pages_are_counted_for_each_thread() {
    let mut facts = machine();
    // 32 for each of two cores, 8 for control.
    let level = |facts: &Facts| worst(&checks::all(facts, &config("hugepages = \"always\"")));
    facts.memory.huge_free = 71;
    assert_eq!(level(&facts), Level::Fault);
    facts.memory.huge_free = 72;
    assert!(level(&facts) < Level::Warning);
}
