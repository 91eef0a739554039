//! The control socket, the metrics' address and RoCE's port: whether this machine gives them to a
//! daemon that would start now.

use super::Report;
use super::own::Own;
use crate::config::Config;
use crate::provider::{Choice, choose};
use crate::{serve, socket};
use std::collections::BTreeSet;

/// Adds to a report what is in the way of operators and monitoring.
pub(super) fn outlets(config: &Config, own: Option<&Own>, report: &mut Report) {
    control(config, own, report);
    if let Some(address) = config.metrics
        && !own.is_some_and(|own| own.tells_metrics_at(address))
        && let Err(error) = serve::listen_for_metrics(address)
    {
        report.passing.push(serve::in_one_line(&error));
    }
}

fn control(config: &Config, own: Option<&Own>, report: &mut Report) {
    // The daemon of this file has answered at it.
    if own.is_some() || !config.control.enabled {
        return;
    }
    if let Some(named) = &config.control.path {
        let error = socket::look(named).err();
        report.passing.extend(error.map(|error| error.to_string()));
    } else if let Some(usual) = socket::usual_place() {
        let error = socket::look(&usual).err();
        report.notes.extend(error.map(|error| format!("note: no control socket: {error}")));
    }
}

/// Adds to a report what is in the way of hosts. A daemon serves by the listeners that come up, waits for addresses that are not there yet, and
/// leaves when all others have faults.
pub(super) fn listeners(config: &Config, own: Option<&Own>, report: &mut Report) {
    let mut faults = Vec::new();
    let (mut may_come_up, mut seen) = (false, BTreeSet::new());
    for listener in &config.listeners {
        let address = listener.address;
        let soft = matches!(choose(listener), Choice::Soft(_));
        if !soft || own.is_some_and(|own| own.listens_at(address)) {
            may_come_up = true;
            continue;
        }
        if !seen.insert(address.ip()) {
            continue;
        }
        match soft_roce::may_listen(address.ip()) {
            Ok(()) => may_come_up = true,
            Err(absence) if absence.absent => {
                report.notes.push(format!("note: {address}: {}", absence.reason));
            }
            Err(absence) => faults.push(format!("{address}: {}", absence.reason)),
        }
    }
    let words = |fault: &String| match may_come_up {
        true => format!("note: cannot listen at {fault}"),
        false => format!("no listener came up: {fault}"),
    };
    let told: Vec<String> = faults.iter().map(words).collect();
    if may_come_up { report.notes.extend(told) } else { report.passing.extend(told) }
}
