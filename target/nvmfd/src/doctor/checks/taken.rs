//! Ports that someone else has.

use crate::config::Config;
use crate::doctor::ROCE_PORT;
use crate::doctor::facts::{Carried, Facts, Taken};
use crate::doctor::finding::Finding;
use crate::provider::Choice;
use std::net::SocketAddr;

const ABOUT: &str = "port";

/// What our own processes are called.
const OURS: &str = "nvmfd";
/// What our host is called.
const HOST: &str = "nvmf-host";

pub(super) fn check(facts: &Facts, config: &Config) -> Vec<Finding> {
    let mut findings = soft(facts);
    findings.extend(verbs(facts));
    if let Some(metrics) = config.metrics {
        let taken = facts.tcp.iter().find(|taken| taken.overlaps(metrics));
        findings.extend(taken.map(|taken| someone(taken, "TCP port", metrics)));
    }
    findings
}

/// UDP port 4791 of each address that our own endpoint listens on.
fn soft(facts: &Facts) -> Vec<Finding> {
    let mut findings: Vec<Finding> = Vec::new();
    let soft = facts.listeners.iter().filter(|found| matches!(found.by, Choice::Soft(_)));
    for Carried { address, refused, .. } in soft {
        let at = SocketAddr::new(address.ip(), ROCE_PORT);
        let taken = facts.udp.iter().find(|taken| taken.overlaps(at));
        let (taken, refused) = match (taken, refused) {
            (None, None) => continue,
            (None, Some(reason)) => {
                findings.push(Finding::fault(ABOUT, reason.clone()));
                continue;
            }
            (Some(taken), refused) => (taken, refused.is_some()),
        };
        let rxe = facts.devices.iter().filter(|device| device.rxe);
        // The kernel keeps the port until the last is gone.
        let delete: Vec<String> =
            rxe.map(|device| format!("rdma link delete {}", device.name)).collect();
        let finding = match &taken.owner {
            // Of all addresses, others are free.
            _ if !refused && !at.ip().is_unspecified() => continue,
            _ if !refused => Finding::note(
                ABOUT,
                format!(
                    "UDP port {ROCE_PORT} of {} belongs to {}: {} serves the other addresses",
                    taken.at.ip(),
                    owner(taken),
                    at.ip()
                ),
            ),
            None if !delete.is_empty() => Finding::fault(
                ABOUT,
                format!(
                    "UDP port {ROCE_PORT} of {} belongs to the kernel's soft-RoCE (rdma_rxe), which \
                     has it on every address: use a device of it with provider = \"verbs\", or take \
                     all of them away",
                    at.ip()
                ),
            )
            .mend(delete.join(" && ")),
            _ => someone(taken, "UDP port", at),
        };
        if !findings.contains(&finding) {
            findings.push(finding);
        }
    }
    if findings.is_empty() && facts.by_soft().next().is_some() {
        findings.push(Finding::ok(ABOUT, format!("UDP port {ROCE_PORT} is free")));
    }
    findings
}

/// RDMA ports that the kernel's target has, and for iWARP, whose ports are TCP's, the sockets there.
fn verbs(facts: &Facts) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (address, name) in facts.by_verbs() {
        let service = address.port().to_string();
        let kernel = facts.kernel_target.iter().find(|port| {
            let any = ["0.0.0.0", "::"];
            let same = port.address.parse().is_ok_and(|ip: std::net::IpAddr| ip == address.ip());
            port.service == service
                && (same || any.contains(&port.address.as_str()) || address.ip().is_unspecified())
        });
        if let Some(port) = kernel {
            findings.push(
                Finding::fault(
                    ABOUT,
                    format!("RDMA port {address} belongs to the kernel's target (nvmet)"),
                )
                .mend(format!("rm /sys/kernel/config/nvmet/ports/{}/subsystems/*", port.id)),
            );
        }
        let iwarp = facts
            .devices
            .iter()
            .any(|device| device.iwarp && name.is_some_and(|name| name == device.name));
        let taken = facts.tcp.iter().find(|taken| iwarp && taken.overlaps(address));
        findings.extend(taken.map(|taken| someone(taken, "TCP port", address)));
    }
    findings
}

fn owner(taken: &Taken) -> String {
    match &taken.owner {
        Some((pid, name)) => format!("{name} (process {pid})"),
        None => "somebody".to_owned(),
    }
}

fn someone(taken: &Taken, kind: &str, at: SocketAddr) -> Finding {
    let what = format!("{kind} {} of {}", at.port(), at.ip());
    match &taken.owner {
        Some((pid, name)) if name == OURS => Finding::note(
            ABOUT,
            format!(
                "{what} belongs to a running nvmfd (process {pid}); a second could not have it"
            ),
        ),
        // Who moves data there is not to be killed for it.
        Some((_, name)) if name == HOST => {
            Finding::fault(ABOUT, format!("{what} belongs to {}", owner(taken))).mend(
                "wait until it ends, or listen on another address (on one machine: 127.0.0.2)",
            )
        }
        Some((pid, name)) => {
            Finding::fault(ABOUT, format!("{what} belongs to {name} (process {pid})"))
                .mend(format!("kill {pid} # or listen on another address"))
        }
        None => {
            let tool = if kind.starts_with("UDP") { "ss -ulpn" } else { "ss -tlpn" };
            Finding::fault(ABOUT, format!("{what} is taken, by whom this user cannot see"))
                .mend(format!("{tool} 'sport = {}' # as root", at.port()))
        }
    }
}
