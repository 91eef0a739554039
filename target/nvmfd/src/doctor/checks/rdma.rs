//! RDMA devices: whether there are any, whether programs reach them, and whether hosts do.

use crate::config::Config;
use crate::doctor::facts::{Facts, Module, Node, RdmaDevice, RdmaPort};
use crate::doctor::finding::{Finding, Level};
use std::path::Path;

pub(super) fn check(facts: &Facts, _: &Config) -> Vec<Finding> {
    let wanted = facts.by_verbs().next().is_some();
    if facts.devices.is_empty() {
        return vec![none(facts, wanted)];
    }
    let mut findings = Vec::new();
    findings.extend(ownerless(facts));
    findings.extend(manager(facts, wanted));
    for device in &facts.devices {
        let level = if facts.needs(device) { Level::Fault } else { Level::Warning };
        findings.extend(node(device, level));
        findings.extend(device.ports.iter().map(|port| port_state(device, port, level)));
        findings.extend(device.ports.iter().filter_map(|port| roce(device, port, level)));
    }
    findings
}

/// There is no device.
fn none(facts: &Facts, wanted: bool) -> Finding {
    const ABOUT: &str = "rdma";
    if !wanted {
        return Finding::note(
            ABOUT,
            "no RDMA device: the endpoint of nvmfd itself is used (soft-roce), which needs none",
        );
    }
    let asking: Vec<String> = facts.by_verbs().map(|(address, _)| address.to_string()).collect();
    let asking = asking.join(", ");
    let interface = facts.some_interface();
    let make = format!("rdma link add rxe_{interface} type rxe netdev {interface}");
    match facts.modules.get("rdma_rxe") {
        Some(Module::Loaded) => Finding::fault(
            ABOUT,
            format!("no RDMA device, which {asking} needs; the module rdma_rxe is loaded"),
        )
        .mend(make),
        Some(Module::Available) => Finding::fault(
            ABOUT,
            format!("no RDMA device, which {asking} needs, and the module rdma_rxe is not loaded"),
        )
        .mend(format!("modprobe -a rdma_rxe ib_uverbs rdma_ucm && {make}")),
        _ => Finding::fault(
            ABOUT,
            format!(
                "no RDMA device, which {asking} needs, and this kernel has no module rdma_rxe to \
                 make one; without provider = \"verbs\" nvmfd uses its own endpoint"
            ),
        )
        .mend("apt-get install linux-image-amd64 # Debian's cloud kernels leave the module out"),
    }
}

/// A listener that insists on verbs, at an address that no device has.
fn ownerless(facts: &Facts) -> Vec<Finding> {
    let without = facts.by_verbs().filter(|(_, device)| device.is_none());
    // Where the address is missing altogether, or its interface is down, that is said instead.
    let there = without.filter(|(address, _)| facts.at(*address).any(|interface| interface.up));
    there
        .map(|(address, _)| {
            let at = facts.at(address).next().map_or("INTERFACE", |at| at.name.as_str());
            Finding::fault("rdma", format!("no RDMA device has the address of {address}, on {at}"))
                .mend(format!("rdma link add rxe_{at} type rxe netdev {at}"))
        })
        .collect()
}

fn manager(facts: &Facts, wanted: bool) -> Option<Finding> {
    let level = if wanted { Level::Fault } else { Level::Warning };
    match &facts.cm_node {
        Node::Open => None,
        Node::Absent => Some(
            Finding::new(level, "rdma", "no /dev/infiniband/rdma_cm: programs cannot connect")
                .mend("modprobe rdma_ucm"),
        ),
        Node::Closed(path) => Some(closed(level, path)),
    }
}

fn node(device: &RdmaDevice, level: Level) -> Option<Finding> {
    match &device.node {
        Node::Open => None,
        Node::Absent => Some(
            Finding::new(
                level,
                "rdma",
                format!("{} has no /dev/infiniband/uverbs: programs cannot use it", device.name),
            )
            .mend("modprobe ib_uverbs"),
        ),
        Node::Closed(path) => Some(closed(level, path)),
    }
}

fn closed(level: Level, path: &Path) -> Finding {
    let path = path.display();
    Finding::new(level, "rdma", format!("this user may not open {path}")).mend(format!(
        "setfacl -m u:NAME:rw {path} # as root, for who runs nvmfd; or run as the service does"
    ))
}

fn port_state(device: &RdmaDevice, port: &RdmaPort, level: Level) -> Finding {
    let RdmaPort { number, state, link_layer, rate, interface, .. } = port;
    let on = interface.as_ref().map_or(String::new(), |interface| format!(", on {interface}"));
    let name = &device.name;
    if state == "ACTIVE" {
        return Finding::ok(
            "rdma",
            format!("{name} port {number}: active, {link_layer}, {rate}{on}"),
        );
    }
    let says =
        format!("{name} port {number} is {}{on}: no host reaches it", state.to_ascii_lowercase());
    let finding = Finding::new(level, "rdma", says);
    match interface {
        Some(interface) => finding.mend(format!("ip link set {interface} up")),
        None if link_layer == "InfiniBand" && state != "DOWN" => {
            finding.mend("systemctl start opensm # a subnet manager, on one machine of the network")
        }
        None => finding.mend(format!("plug in the cable; then: rdma link show {name}/{number}")),
    }
}

/// Whether a RoCE port has addresses that can be routed.
fn roce(device: &RdmaDevice, port: &RdmaPort, level: Level) -> Option<Finding> {
    if device.iwarp || port.link_layer != "Ethernet" {
        return None;
    }
    let (name, number) = (&device.name, port.number);
    let interface = port.interface.as_deref().unwrap_or("INTERFACE");
    if port.roce_v2_gids == 0 {
        return Some(
            Finding::new(
                level,
                "roce",
                format!("{name} port {number} has no RoCE v2 address: its interface has none"),
            )
            .mend(format!("ip address add ADDRESS/24 dev {interface}")),
        );
    }
    let v1 = port.default_roce_mode.as_deref().is_some_and(|mode| mode != "RoCE v2");
    Some(if v1 {
        Finding::note(
            "roce",
            format!(
                "{name} port {number}: connections from here use RoCE v1, which no router passes on"
            ),
        )
        .mend(format!(
            "echo 'RoCE v2' > /sys/kernel/config/rdma_cm/{name}/ports/{number}/default_roce_mode"
        ))
    } else {
        Finding::ok(
            "roce",
            format!("{name} port {number}: {} RoCE v2 addresses", port.roce_v2_gids),
        )
    })
}
