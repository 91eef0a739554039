//! RDMA devices and network interfaces.

use super::tree::Tree;
use crate::doctor::facts::{Interface, Node, Place, RdmaDevice, RdmaPort};
use crate::machine::cpu_list;
use nix::ifaddrs::getifaddrs;
use nix::net::if_::InterfaceFlags;
use std::net::IpAddr;

/// Most entries of a port's address table that are looked at.
const MAX_GIDS: usize = 256;

pub(super) fn devices(tree: &Tree) -> Vec<RdmaDevice> {
    let device = |name: String| {
        let folder = format!("sys/class/infiniband/{name}");
        let kind = tree.text(&format!("{folder}/node_type")).unwrap_or_default();
        let mut numbers: Vec<u32> =
            tree.list(&format!("{folder}/ports")).iter().filter_map(|n| n.parse().ok()).collect();
        numbers.sort_unstable();
        // Only this driver tells its interface there.
        let parent = tree.text(&format!("{folder}/parent"));
        RdmaDevice {
            iwarp: kind.ends_with("RNIC"),
            rxe: parent.is_some(),
            node: node(tree, &name),
            ports: numbers.into_iter().map(|n| port(tree, &name, n, parent.as_deref())).collect(),
            place: place(tree, &format!("{folder}/device")),
            name,
        }
    };
    tree.list("sys/class/infiniband").into_iter().map(device).collect()
}

/// The node that programs use the device by.
fn node(tree: &Tree, device: &str) -> Node {
    let all = tree.list("sys/class/infiniband_verbs");
    let own = all.iter().find(|node| {
        tree.text(&format!("sys/class/infiniband_verbs/{node}/ibdev")).as_deref() == Some(device)
    });
    own.map_or(Node::Absent, |node| tree.node(&format!("dev/infiniband/{node}")))
}

fn port(tree: &Tree, device: &str, number: u32, parent: Option<&str>) -> RdmaPort {
    let folder = format!("sys/class/infiniband/{device}/ports/{number}");
    let text = |name: &str| tree.text(&format!("{folder}/{name}")).unwrap_or_default();
    let state = text("state");
    // Entries that are not in use cannot be read.
    let types = (0..MAX_GIDS).map_while(|n| {
        let entry = format!("{folder}/gid_attrs/types/{n}");
        tree.exists(&entry).then(|| tree.text(&entry).unwrap_or_default())
    });
    let first = tree.text(&format!("{folder}/gid_attrs/ndevs/0"));
    RdmaPort {
        number,
        state: state.split_once(": ").map_or(state.as_str(), |(_, word)| word).to_owned(),
        link_layer: text("link_layer"),
        rate: text("rate"),
        interface: first.or_else(|| parent.map(str::to_owned)),
        roce_v2_gids: types.filter(|kind| kind == "RoCE v2").count(),
        default_roce_mode: tree
            .text(&format!("sys/kernel/config/rdma_cm/{device}/ports/{number}/default_roce_mode")),
    }
}

/// Where the card behind a class device sits.
fn place(tree: &Tree, device: &str) -> Place {
    let numbers = tree.list(&format!("{device}/msi_irqs"));
    let irqs = numbers.iter().filter_map(|irq| {
        let taken = tree.text(&format!("proc/irq/{irq}/effective_affinity_list"))?;
        Some((irq.parse().ok()?, cpu_list(&taken)))
    });
    let near = tree.text(&format!("{device}/local_cpulist")).unwrap_or_default();
    Place {
        // -1 for none.
        node: tree.number(&format!("{device}/numa_node")),
        cpus: cpu_list(&near),
        irqs: irqs.collect(),
    }
}

/// Those that are there, with their addresses.
pub(super) fn interfaces(tree: &Tree) -> Vec<Interface> {
    let mut found: Vec<Interface> = Vec::new();
    for entry in getifaddrs().into_iter().flatten() {
        let at = found.iter().position(|known| known.name == entry.interface_name);
        let at = at.unwrap_or_else(|| {
            found.push(interface(tree, &entry.interface_name, entry.flags));
            found.len() - 1
        });
        let address = entry.address.as_ref();
        let v4 = address.and_then(|a| a.as_sockaddr_in()).map(|a| IpAddr::V4(a.ip()));
        let v6 = address.and_then(|a| a.as_sockaddr_in6()).map(|a| IpAddr::V6(a.ip()));
        found[at].addresses.extend(v4.or(v6));
    }
    found
}

fn interface(tree: &Tree, name: &str, flags: InterfaceFlags) -> Interface {
    let folder = format!("sys/class/net/{name}");
    Interface {
        name: name.to_owned(),
        loopback: flags.contains(InterfaceFlags::IFF_LOOPBACK),
        up: flags.contains(InterfaceFlags::IFF_UP),
        running: flags.contains(InterfaceFlags::IFF_RUNNING),
        mtu: tree.number(&format!("{folder}/mtu")),
        addresses: Vec::new(),
        place: place(tree, &format!("{folder}/device")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::gather::tree::laid_out;

    #[test]
    fn a_device_is_read_with_its_port_its_addresses_and_its_place() {
        let (_folder, tree) = laid_out(&[
            ("sys/class/infiniband/mlx5_0/node_type", "1: CA\n"),
            ("sys/class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE\n"),
            ("sys/class/infiniband/mlx5_0/ports/1/link_layer", "Ethernet\n"),
            ("sys/class/infiniband/mlx5_0/ports/1/rate", "100 Gb/sec (4X EDR)\n"),
            ("sys/class/infiniband/mlx5_0/ports/1/gid_attrs/types/0", "IB/RoCE v1\n"),
            ("sys/class/infiniband/mlx5_0/ports/1/gid_attrs/types/1", "RoCE v2\n"),
            ("sys/class/infiniband/mlx5_0/ports/1/gid_attrs/ndevs/0", "eth7\n"),
            ("sys/class/infiniband/mlx5_0/device/numa_node", "1\n"),
            ("sys/class/infiniband/mlx5_0/device/local_cpulist", "8-11\n"),
            ("sys/class/infiniband/mlx5_0/device/msi_irqs/61", "msix\n"),
            ("proc/irq/61/effective_affinity_list", "2\n"),
            ("sys/class/infiniband_verbs/uverbs3/ibdev", "mlx5_0\n"),
            ("dev/infiniband/uverbs3", ""),
        ]);
        let found = devices(&tree);
        let [device] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!((device.iwarp, device.rxe, &device.node), (false, false, &Node::Open));
        let port = &device.ports[0];
        assert_eq!((port.number, port.state.as_str(), port.roce_v2_gids), (1, "ACTIVE", 1));
        assert_eq!(port.interface.as_deref(), Some("eth7"));
        let place = Place { node: Some(1), cpus: vec![8, 9, 10, 11], irqs: vec![(61, vec![2])] };
        assert_eq!(device.place, place);
    }

    #[test]
    fn a_device_that_programs_cannot_reach_has_no_node() {
        let (_folder, tree) = laid_out(&[
            ("sys/class/infiniband/siw0/node_type", "4: RNIC\n"),
            ("sys/class/infiniband/rxe0/parent", "eth0\n"),
            ("sys/class/infiniband/rxe0/ports/1/state", "1: DOWN\n"),
        ]);
        let found = devices(&tree);
        assert_eq!((found[0].name.as_str(), found[0].rxe, found[0].iwarp), ("rxe0", true, false));
        assert_eq!(found[0].ports[0].interface.as_deref(), Some("eth0"));
        assert_eq!((found[1].iwarp, &found[1].node), (true, &Node::Absent));
        assert_eq!(found[1].place, Place::default());
    }
}
