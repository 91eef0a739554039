//! From the outcome of a test to findings.

use super::ask::{Direction, LARGE, Listening, Measured, Outcome, SMALL, Trouble, Try};
use super::end::MAX_DEPTH;
use super::times::{rate, time};
use super::way::{Heard, Way};
use crate::config::in_words;
use crate::doctor::ROCE_PORT;
use crate::doctor::finding::{Finding, Level};
use crate::provider::Choice;
use std::net::IpAddr;

/// Packets sent again, of a thousand, from which on a network is worth a look.
const TOO_MANY_AGAIN: u64 = 1;

/// What there is to say, in the order in which things were tried.
pub(super) fn findings(outcome: &Outcome) -> Vec<Finding> {
    let peer = outcome.peer;
    let way = match &outcome.way {
        Ok(way) => way,
        Err(why) => {
            let says = format!("no route leads to {peer}: {why}");
            return vec![Finding::fault("way", says).mend(format!("ip route get {peer}"))];
        }
    };
    let mut findings =
        vec![Finding::ok("way", format!("{peer} is reached from {}, by {}", way.from, way.by))];
    if let Some(last) = outcome.last() {
        findings.push(connection(outcome, way, last));
    }
    match &outcome.measured {
        Some(Ok(measured)) => findings.extend(figures(measured)),
        Some(Err(trouble)) => findings.push(spoilt(peer, trouble)),
        None => {}
    }
    findings
}

fn connection(outcome: &Outcome, way: &Way, last: &Try) -> Finding {
    const ABOUT: &str = "connect";
    let Outcome { peer, .. } = outcome;
    let Try { at, result } = last;
    let measure = format!("nvmfd doctor --serve {peer} # on that machine, then ask again");
    match result {
        Ok(connected) => {
            let took = time(connected.time.as_nanos() as u64);
            match connected.to {
                Listening::Doctor => {
                    Finding::ok(ABOUT, format!("a doctor answers at {at}, after {took}"))
                }
                Listening::Target { entries } => Finding::note(
                    ABOUT,
                    format!(
                        "RDMA is alive: an NVMe target accepts at {at}, after {took}, with \
                         {entries} entries of an admin queue; to measure, a doctor has to answer"
                    ),
                )
                .mend(measure),
                Listening::Other => Finding::warning(
                    ABOUT,
                    format!(
                        "RDMA is alive: somebody accepts at {at}, after {took}, who is neither an \
                         NVMe target nor a doctor"
                    ),
                )
                .mend(measure),
            }
        }
        Err(Trouble::Refused { busy: true, .. }) => Finding::warning(
            ABOUT,
            format!("RDMA is alive: the doctor at {at} is at work for somebody else"),
        )
        .mend("ask again in a minute"),
        Err(Trouble::Refused { target: Some(status), .. }) => Finding::warning(
            ABOUT,
            format!("RDMA is alive: an NVMe target at {at} says no to a host: {status}"),
        ),
        Err(Trouble::Refused { reason, .. }) => Finding::fault(
            ABOUT,
            format!(
                "RDMA reaches {peer}, and nobody listens at {}: {reason}",
                ports(&outcome.tries)
            ),
        )
        .mend(measure),
        Err(Trouble::Silence) => silence(outcome, way, last),
        Err(Trouble::Provider(why)) => Finding::fault(ABOUT, why.clone()),
        Err(Trouble::NotSent(why)) => not_sent(way, last, why),
        Err(other) => spoilt(*peer, other),
    }
}

fn ports(tries: &[Try]) -> String {
    let ports: Vec<String> = tries.iter().map(|one| one.at.port().to_string()).collect();
    let word = if ports.len() == 1 { "port" } else { "ports" };
    format!("{word} {}", ports.join(" and "))
}

fn not_sent(way: &Way, last: &Try, why: &str) -> Finding {
    let finding =
        Finding::fault("connect", format!("no request can be sent to {}: {why}", last.at));
    match &way.by {
        Choice::Soft(_) => finding.mend(format!(
            "ss -ulpn 'sport = {ROCE_PORT}' # another program, perhaps a running nvmfd, has the \
             port at {}: ask from another address",
            way.from
        )),
        Choice::Verbs(_) => finding.mend("rdma link # and: nvmfd doctor"),
    }
}

/// Nobody answered: what the network said besides tells why.
fn silence(outcome: &Outcome, way: &Way, last: &Try) -> Finding {
    let Outcome { peer, heard, .. } = outcome;
    let at = last.at;
    let (says, mend) = match heard {
        Heard::NobodyAtPort => (
            format!(
                "{peer} is there and has no RoCE: nobody has UDP port {ROCE_PORT} there, so no \
                 request to {at} is answered"
            ),
            format!("nvmfd doctor --serve {peer} # on that machine; or start its nvmfd"),
        ),
        Heard::NoMachine => (
            format!("{peer} cannot be reached at all: no such machine, or no way there"),
            format!("ping -c 3 {peer}; ip route get {peer}"),
        ),
        Heard::Nothing => (
            format!(
                "nothing comes back from {at}, neither yes nor no: {peer} is off, has another kind \
                 of RDMA than {}, or a filter on the way drops UDP port {ROCE_PORT}",
                kind(&way.by)
            ),
            format!("ping -c 3 {peer}; nvmfd doctor # and the latter on that machine"),
        ),
    };
    Finding::fault("connect", says).mend(mend)
}

fn kind(by: &Choice) -> &'static str {
    match by {
        Choice::Soft(_) => "RoCEv2",
        Choice::Verbs(_) => "the device here",
    }
}

/// What began well and did not end so.
fn spoilt(peer: IpAddr, trouble: &Trouble) -> Finding {
    let fault = |says: &str| Finding::fault("connect", says);
    match trouble {
        Trouble::Lost(reason) => fault(&format!("the connection came up and was lost: {reason}"))
            .mend(format!(
                "ping -c 3 -M do -s 1400 {peer} # are large packets lost? and: nvmfd doctor"
            )),
        Trouble::WrongData(what) => Finding::fault(
            "data",
            format!("bytes of an RDMA {what} did not arrive as they were sent"),
        )
        .mend("do not use this path; test cables, cards and memory of both machines"),
        Trouble::Misunderstood => fault("the doctor over there does not keep to what was agreed")
            .mend("nvmfd --version # the same on both machines?"),
        Trouble::NotSent(why) | Trouble::Provider(why) => fault(why),
        Trouble::Silence => fault("nobody answers"),
        Trouble::Refused { reason, .. } => fault(reason),
    }
}

fn figures(measured: &Measured) -> Vec<Finding> {
    let mut findings = vec![
        Finding::ok("send", format!("a message and its answer: {}", measured.send.in_words())),
        Finding::ok("read", direction("READ", &measured.read)),
        Finding::ok("write", direction("WRITE", &measured.write)),
    ];
    let (sent, again) = (measured.packets_sent, measured.packets_resent);
    if sent > 0 {
        let many = again * 1000 > sent * TOO_MANY_AGAIN;
        let level = if many { Level::Warning } else { Level::Ok };
        let says = format!("{again} of {sent} packets that this machine sent were sent again");
        let finding = Finding::new(level, "packets", says);
        findings.push(if many {
            finding.mend("ip -s link; nstat -az UdpRcvbufErrors # packets are lost on the way")
        } else {
            finding
        });
    }
    findings
}

fn direction(name: &str, direction: &Direction) -> String {
    let [small, large] = [SMALL, LARGE].map(|bytes| in_words(u64::from(bytes)));
    format!(
        "{name} of {small}: {}; of {large}, {MAX_DEPTH} at a time: {}, every byte right",
        direction.latency.in_words(),
        rate(direction.bytes_per_s)
    )
}
