//! Ports that are taken, and by whom.

use super::tree::Tree;
use crate::doctor::ROCE_PORT;
use crate::doctor::facts::{KernelPort, Taken};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// State of a TCP socket that listens, as /proc/net/tcp has it.
const LISTENS: &str = "0A";

/// A line of the kernel's table of sockets.
struct Row {
    at: SocketAddr,
    state: String,
    inode: u64,
}

/// UDP sockets at RoCE's port.
pub(super) fn udp(tree: &Tree) -> Vec<Taken> {
    let at_port = |row: &Row| row.at.port() == ROCE_PORT;
    owned(tree, rows(tree, ["proc/net/udp", "proc/net/udp6"]).filter(at_port).collect())
}

/// TCP sockets that listen.
pub(super) fn tcp(tree: &Tree) -> Vec<Taken> {
    let listens = |row: &Row| row.state == LISTENS;
    owned(tree, rows(tree, ["proc/net/tcp", "proc/net/tcp6"]).filter(listens).collect())
}

/// RDMA ports of the kernel's NVMe target.
pub(super) fn kernel_target(tree: &Tree) -> Vec<KernelPort> {
    const PORTS: &str = "sys/kernel/config/nvmet/ports";
    let port = |id: String| {
        let text = |name| tree.text(&format!("{PORTS}/{id}/{name}"));
        (text("addr_trtype")? == "rdma").then_some(())?;
        let (address, service) = (text("addr_traddr")?, text("addr_trsvcid")?);
        // It listens while it has something to offer.
        let offers = !tree.list(&format!("{PORTS}/{id}/subsystems")).is_empty();
        offers.then_some(KernelPort { id, address, service })
    };
    tree.list(PORTS).into_iter().filter_map(port).collect()
}

fn rows(tree: &Tree, tables: [&str; 2]) -> impl Iterator<Item = Row> {
    tables
        .map(|table| tree.text(table).unwrap_or_default())
        .into_iter()
        .flat_map(|text| text.lines().filter_map(row).collect::<Vec<_>>())
}

/// "sl local_address rem_address st tx:rx tr:when retrnsmt uid timeout inode ...", in hexadecimal.
fn row(line: &str) -> Option<Row> {
    let mut words = line.split_whitespace();
    let at = address(words.nth(1)?)?;
    let state = words.nth(1)?.to_owned();
    let inode = words.nth(5)?.parse().ok()?;
    Some(Row { at, state, inode })
}

/// Words of an address are as in memory, the port is a number.
fn address(text: &str) -> Option<SocketAddr> {
    let (ip, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let word = |at: usize| {
        let digits = ip.get(at * 8..at * 8 + 8)?;
        u32::from_str_radix(digits, 16).ok().map(u32::to_ne_bytes)
    };
    let ip = match ip.len() {
        8 => IpAddr::V4(Ipv4Addr::from(word(0)?)),
        32 => {
            let mut bytes = [0; 16];
            for (at, four) in bytes.chunks_exact_mut(4).enumerate() {
                four.copy_from_slice(&word(at)?);
            }
            IpAddr::V6(Ipv6Addr::from(bytes))
        }
        _ => return None,
    };
    Some(SocketAddr::new(ip, port))
}

/// Finds out whose they are: the process that has a descriptor of the socket.
fn owned(tree: &Tree, rows: Vec<Row>) -> Vec<Taken> {
    let mut owners = BTreeMap::new();
    if !rows.is_empty() {
        for pid in tree.list("proc").iter().filter_map(|name| name.parse::<u32>().ok()) {
            // Those of other users may not be looked at.
            for fd in tree.list(&format!("proc/{pid}/fd")) {
                let link = std::fs::read_link(tree.path(&format!("proc/{pid}/fd/{fd}")));
                let link = link.unwrap_or_default();
                let inode = link.to_str().and_then(|link| link.strip_prefix("socket:["));
                let inode = inode.and_then(|rest| rest.strip_suffix(']'));
                if let Some(inode) = inode.and_then(|inode| inode.parse::<u64>().ok()) {
                    owners.entry(inode).or_insert(pid);
                }
            }
        }
    }
    let name = |pid: u32| tree.text(&format!("proc/{pid}/comm")).unwrap_or_default();
    let taken = |Row { at, inode, .. }| {
        let owner = owners.get(&inode).map(|&pid| (pid, name(pid)));
        Taken { at, owner }
    };
    rows.into_iter().map(taken).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::gather::tree::laid_out;

    #[test]
    fn who_has_a_socket_is_found_by_its_inode() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   \
             uid  timeout inode ref pointer drops\n\
              1: 0100007F:12B7 00000000:0000 07 00000000:00000000 00:00000000 00000000  0  0 77 2 0\n\
              2: 00000000:12B7 00000000:0000 07 00000000:00000000 00:00000000 00000000  0  0 78 2 0\n\
              3: 0100007F:0035 00000000:0000 07 00000000:00000000 00:00000000 00000000  0  0 79 2 0\n";
        let (folder, tree) =
            laid_out(&[("proc/net/udp", table), ("proc/41/comm", "nvmfd\n"), ("proc/41/fd/0", "")]);
        std::os::unix::fs::symlink("socket:[77]", folder.path().join("proc/41/fd/9")).unwrap();
        let taken = udp(&tree);
        let expected = [
            Taken { at: "127.0.0.1:4791".parse().unwrap(), owner: Some((41, "nvmfd".to_owned())) },
            Taken { at: "0.0.0.0:4791".parse().unwrap(), owner: None },
        ];
        assert_eq!(taken, expected);
    }

    #[test]
    fn addresses_are_read_as_the_kernel_writes_them() {
        let v6 = address("000080FE000000000000000001000000:1144");
        assert_eq!(v6, Some("[fe80::1]:4420".parse().unwrap()));
        assert_eq!(address("0100007F"), None);
        assert_eq!(address("zz00007F:0001"), None);
    }

    #[test]
    fn the_kernels_target_listens_where_it_offers_something() {
        let (_folder, tree) = laid_out(&[
            ("sys/kernel/config/nvmet/ports/1/addr_trtype", "rdma\n"),
            ("sys/kernel/config/nvmet/ports/1/addr_traddr", "10.0.0.1\n"),
            ("sys/kernel/config/nvmet/ports/1/addr_trsvcid", "4420\n"),
            ("sys/kernel/config/nvmet/ports/1/subsystems/nqn.a", ""),
            ("sys/kernel/config/nvmet/ports/2/addr_trtype", "tcp\n"),
            ("sys/kernel/config/nvmet/ports/3/addr_trtype", "rdma\n"),
            ("sys/kernel/config/nvmet/ports/3/addr_traddr", "10.0.0.1\n"),
            ("sys/kernel/config/nvmet/ports/3/addr_trsvcid", "4421\n"),
        ]);
        let found = kernel_target(&tree);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!((found[0].id.as_str(), found[0].service.as_str()), ("1", "4420"));
    }
}
