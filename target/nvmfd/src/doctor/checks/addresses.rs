//! The addresses that hosts connect to: their interfaces, links, packet sizes, and what filters
//! them.

use crate::config::Config;
use crate::doctor::ROCE_PORT;
use crate::doctor::facts::{Facts, Firewall, Interface};
use crate::doctor::finding::Finding;
use crate::provider::Choice;
use std::net::SocketAddr;

/// What RoCE may need of a packet beside its data: IPv6, UDP and its own headers and check.
const HEADERS: u32 = 96;
/// Interface MTU that carries RoCE's largest packets, of 4096 bytes of data.
const LARGEST: u32 = 4200;

pub(super) fn check(facts: &Facts, _: &Config) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut seen: Vec<&str> = Vec::new();
    for listener in &facts.listeners {
        let address = listener.address;
        let interfaces: Vec<&Interface> = facts.at(address).collect();
        if interfaces.is_empty() {
            findings.push(absent(facts, address));
        } else {
            findings.push(Finding::ok("listener", format!("{address}: {}", listener.by)));
        }
        for interface in interfaces.into_iter().filter(|at| !at.loopback) {
            if !seen.contains(&interface.name.as_str()) {
                seen.push(&interface.name);
                findings.extend(link(interface, address));
                findings.extend(packets(interface));
            }
        }
    }
    findings.extend(firewall(facts));
    findings
}

fn absent(facts: &Facts, address: SocketAddr) -> Finding {
    const ABOUT: &str = "listener";
    if address.ip().is_unspecified() {
        return Finding::warning(
            ABOUT,
            format!("{address}: no interface but loopback has an address, so no host reaches it"),
        )
        .mend(format!("ip address add ADDRESS/24 dev {}", facts.some_interface()));
    }
    let prefix = if address.is_ipv4() { 24 } else { 64 };
    Finding::fault(
        ABOUT,
        format!("{address}: no interface has this address; the daemon would wait for it"),
    )
    .mend(format!(
        "ip address add {}/{prefix} dev {} # if this machine shall have it, there; else mend the \
         listener's address: ip -brief address shows what there is",
        address.ip(),
        facts.some_interface()
    ))
}

fn link(interface: &Interface, address: SocketAddr) -> Option<Finding> {
    let name = &interface.name;
    // One interface of several that is down is nothing to fail for.
    let finding = |says: String| {
        if address.ip().is_unspecified() {
            Finding::warning("link", says)
        } else {
            Finding::fault("link", says)
        }
    };
    if !interface.up {
        let says = format!("{name} is down: no host reaches {address}");
        return Some(finding(says).mend(format!("ip link set {name} up")));
    }
    (!interface.running).then(|| {
        finding(format!("{name} is on and has no link: no host reaches {address}"))
            .mend(format!("plug in the cable, or look at the other end; then: ip link show {name}"))
    })
}

/// How much data a RoCE packet can carry over an interface.
fn packets(interface: &Interface) -> Option<Finding> {
    let name = &interface.name;
    let mtu = interface.mtu?;
    let data = [4096, 2048, 1024, 512, 256].into_iter().find(|data| data + HEADERS <= mtu);
    match data {
        None => Some(
            Finding::fault("mtu", format!("{name} has an MTU of {mtu}: too small for RDMA packets"))
                .mend(format!("ip link set {name} mtu 1500")),
        ),
        Some(data @ ..=512) => Some(
            Finding::warning(
                "mtu",
                format!(
                    "{name} has an MTU of {mtu}: packets carry {data} bytes, where 1500 lets them \
                     carry 1024; hosts must have the same"
                ),
            )
            .mend(format!("ip link set {name} mtu 1500")),
        ),
        Some(4096) => Some(Finding::ok("mtu", format!("{name}: packets carry 4096 bytes"))),
        Some(data) => Some(
            Finding::note(
                "mtu",
                format!(
                    "{name} has an MTU of {mtu}: packets carry {data} bytes; {LARGEST} or more lets \
                     them carry 4096, if hosts and switches have it too"
                ),
            )
            .mend(format!("ip link set {name} mtu {LARGEST}")),
        ),
    }
}

/// Whether rules keep RoCE's packets out. A guess: rules can say more than is understood here.
fn firewall(facts: &Facts) -> Option<Finding> {
    const ABOUT: &str = "firewall";
    // A card's RoCE does not pass the kernel's filter; ours and that of rdma_rxe do.
    let filtered = facts.listeners.iter().any(|listener| match &listener.by {
        Choice::Soft(_) => true,
        Choice::Verbs(name) => facts
            .devices
            .iter()
            .any(|device| device.rxe && name.as_ref().is_none_or(|name| *name == device.name)),
    });
    if !filtered {
        return None;
    }
    let port = ROCE_PORT.to_string();
    let (drops, names, mend) = match &facts.firewall {
        Firewall::None => return None,
        Firewall::Unreadable => {
            return Some(
                Finding::note(
                    ABOUT,
                    "packets may be filtered, and this user cannot read the rules",
                )
                .mend("nft list ruleset # as root; UDP port 4791 must be let in"),
            );
        }
        Firewall::Nft(rules) => (
            nft_drops(rules),
            rules.contains(&port),
            format!("nft insert rule inet filter input udp dport {ROCE_PORT} accept"),
        ),
        Firewall::Iptables(rules) => (
            iptables_drops(rules),
            rules.contains(&port),
            format!("iptables -I INPUT -p udp --dport {ROCE_PORT} -j ACCEPT"),
        ),
    };
    Some(match (drops, names) {
        (true, false) => Finding::warning(
            ABOUT,
            "packets that come in are filtered, and no rule names UDP port 4791: hosts likely do \
             not get through",
        )
        .mend(mend),
        (true, true) => Finding::ok(ABOUT, "a rule names UDP port 4791"),
        (false, _) => Finding::ok(ABOUT, "nothing that comes in is dropped"),
    })
}

/// Whether a chain for incoming packets drops any.
fn nft_drops(rules: &str) -> bool {
    rules.split("chain ").any(|chain| {
        let verdict = |word: &str| matches!(word.trim_end_matches(';'), "drop" | "reject");
        chain.contains("hook input") && chain.split_whitespace().any(verdict)
    })
}

fn iptables_drops(rules: &str) -> bool {
    rules.lines().any(|line| {
        let refuses = line.contains("-j DROP") || line.contains("-j REJECT");
        line.starts_with(":INPUT DROP") || (line.starts_with("-A INPUT") && refuses)
    })
}

#[cfg(test)]
mod tests {
    use super::{iptables_drops, nft_drops};

    #[test]
    fn rules_that_drop_what_comes_in_are_told_from_others() {
        let with = |policy: &str, rule: &str| {
            format!(
                "table inet filter {{\n\tchain input {{\n\t\ttype filter hook input priority 0; \
                 policy {policy};\n\t\t{rule}\n\t}}\n\tchain out {{\n\t\ttype filter hook output \
                 priority 0; policy drop;\n\t}}\n}}\n"
            )
        };
        assert!(nft_drops(&with("drop", "")));
        assert!(nft_drops(&with("accept", "counter drop")));
        assert!(!nft_drops(&with("accept", "counter accept")));
        assert!(iptables_drops("*filter\n:INPUT DROP [0:0]\n:OUTPUT ACCEPT [0:0]\n"));
        assert!(iptables_drops(":INPUT ACCEPT [0:0]\n-A INPUT -p udp -j REJECT\n"));
        assert!(!iptables_drops(":INPUT ACCEPT [0:0]\n-A OUTPUT -j DROP\n"));
    }
}
