//! Ports that someone else has.

use crate::config::Config;
use crate::doctor::ROCE_PORT;
use crate::doctor::facts::{Facts, Taken};
use crate::doctor::finding::Finding;
use std::net::SocketAddr;

const ABOUT: &str = "port";

/// What our own processes are called.
const OURS: &str = "nvmfd";

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
    for listener in facts.by_soft() {
        let at = SocketAddr::new(listener.ip(), ROCE_PORT);
        let Some(taken) = facts.udp.iter().find(|taken| taken.overlaps(at)) else { continue };
        let rxe = facts.devices.iter().filter(|device| device.rxe);
        // The kernel keeps the port until the last is gone.
        let delete: Vec<String> =
            rxe.map(|device| format!("rdma link delete {}", device.name)).collect();
        let finding = match &taken.owner {
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

fn someone(taken: &Taken, kind: &str, at: SocketAddr) -> Finding {
    let what = format!("{kind} {} of {}", at.port(), at.ip());
    match &taken.owner {
        Some((pid, name)) if name == OURS => Finding::note(
            ABOUT,
            format!(
                "{what} belongs to a running nvmfd (process {pid}); a second could not have it"
            ),
        ),
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
