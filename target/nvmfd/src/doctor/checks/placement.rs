//! Which CPUs are near the cards, and which do the work.

use crate::config::Config;
use crate::doctor::facts::{Facts, Place};
use crate::doctor::finding::Finding;

pub(super) fn check(facts: &Facts, config: &Config) -> Vec<Finding> {
    let mut findings: Vec<Finding> = facts
        .cpu_problems
        .iter()
        .map(|problem| {
            Finding::fault("cpus", problem.as_str())
                .mend("nproc, or lscpu -e: name CPUs that are there in tuning.cpus")
        })
        .collect();
    if facts.numa_nodes < 2 {
        findings.push(Finding::ok("numa", "one NUMA node: every CPU is as near as any other"));
        return findings;
    }
    let cards = facts.devices.iter().filter(|device| facts.needs(device));
    let cards = cards.map(|device| (device.name.as_str(), &device.place));
    let interfaces = facts.by_soft().flat_map(|address| facts.at(address));
    let interfaces = interfaces.map(|interface| (interface.name.as_str(), &interface.place));
    let mut seen = Vec::new();
    for (name, place) in cards.chain(interfaces) {
        if !seen.contains(&name) {
            seen.push(name);
            findings.extend(near(name, place, config));
        }
    }
    findings
}

fn near(name: &str, place: &Place, config: &Config) -> Vec<Finding> {
    let Some(node) = place.node.filter(|_| !place.cpus.is_empty()) else { return Vec::new() };
    let cores = usize::from(config.tuning.data_cores);
    let pinned = &config.tuning.cpus;
    let far: Vec<String> =
        pinned.iter().filter(|cpu| !place.cpus.contains(cpu)).map(ToString::to_string).collect();
    let some: Vec<String> = place.cpus.iter().take(cores).map(ToString::to_string).collect();
    let mend = format!("in the configuration: [tuning] cpus = [{}]", some.join(", "));
    let mend =
        if some.len() < cores { format!("{mend}, data_cores = {}", some.len()) } else { mend };
    let cpus = ranges(&place.cpus);
    let mut findings = vec![if pinned.is_empty() {
        let says = format!("{name} is on NUMA node {node}, near the CPUs {cpus}");
        Finding::note("numa", says).mend(mend)
    } else if far.is_empty() {
        Finding::ok("numa", format!("{name} is near the CPUs of tuning.cpus"))
    } else {
        Finding::warning(
            "numa",
            format!(
                "{name} is on NUMA node {node}, near the CPUs {cpus}, and tuning.cpus has {}: data \
                 crosses between the nodes",
                far.join(", ")
            ),
        )
        .mend(mend)
    }];
    let away: Vec<u32> = place
        .irqs
        .iter()
        .filter(|(_, cpus)| !cpus.is_empty() && !cpus.iter().any(|cpu| place.cpus.contains(cpu)))
        .map(|(irq, _)| *irq)
        .collect();
    if let Some(first) = away.first() {
        findings.push(
            Finding::warning(
                "irq",
                format!("{} interrupts of {name} go to CPUs of another NUMA node", away.len()),
            )
            .mend(format!(
                "echo {cpus} > /proc/irq/{first}/smp_affinity_list, and so on: {}",
                away.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
            )),
        );
    }
    findings
}

/// CPUs as the kernel writes them: "0-3,8".
fn ranges(cpus: &[usize]) -> String {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for &cpu in cpus {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == cpu => *last = cpu,
            _ => runs.push((cpu, cpu)),
        }
    }
    let run = |&(first, last): &(usize, usize)| {
        if first == last { first.to_string() } else { format!("{first}-{last}") }
    };
    runs.iter().map(run).collect::<Vec<_>>().join(",")
}
