//! What the file says about discovery, and about how hosts belong to subsystems.

use super::problem::Problem;
use super::raw::{RawConfig, RawDuplicates, RawTell};
use super::resolve::{Problems, check_nqn};
use super::units;
use nvmf::target::{
    ALL_CNTLIDS, DiscoveryConfig, DuplicateHosts, MAX_REFERRALS, Referral, TellPorts,
};
use std::ops::RangeInclusive;
use toml::Spanned;

pub(super) fn duplicates(raw: RawDuplicates) -> DuplicateHosts {
    match raw {
        RawDuplicates::Allow => DuplicateHosts::Allow,
        RawDuplicates::OnePerListener => DuplicateHosts::OnePerPort,
        RawDuplicates::Refuse => DuplicateHosts::Refuse,
    }
}

pub(super) fn cntlids(
    raw: Option<&Spanned<[u16; 2]>>,
    problems: &mut Problems,
) -> RangeInclusive<u16> {
    let Some(given) = raw else { return ALL_CNTLIDS };
    let [first, last] = *given.get_ref();
    if !(ALL_CNTLIDS.contains(&first) && ALL_CNTLIDS.contains(&last) && first <= last) {
        let most = ALL_CNTLIDS.end();
        problems.push(
            Problem::at(
                given.span(),
                format!("subsystem.cntlids: [{first}, {last}] is no range within 1 to {most}"),
            )
            .hint("the first and the last controller id to give, as [1, 1000]"),
        );
    }
    first..=last
}

pub(super) fn discovery(raw: &RawConfig, problems: &mut Problems) -> DiscoveryConfig {
    let table = &raw.discovery;
    if let Some(nqn) = &table.nqn {
        check_nqn("discovery.nqn", nqn, problems);
        if raw.subsystem.iter().any(|subsystem| subsystem.nqn.get_ref() == nqn.get_ref()) {
            let what = format!("discovery.nqn: \"{}\" is a subsystem's name", nqn.get_ref());
            problems.push(Problem::at(nqn.span(), what));
        }
    }
    let mut referrals: Vec<Referral> = Vec::new();
    for referral in &table.referral {
        if let Some(nqn) = &referral.nqn {
            check_nqn("discovery.referral.nqn", nqn, problems);
        }
        let text = referral.address.get_ref();
        let nqn = referral.nqn.as_ref().map(|nqn| nqn.get_ref().clone());
        let wrong = match units::address(text, units::interface_index) {
            Ok(address) if address.ip().is_unspecified() => {
                format!("{address} is no address that a host can connect to")
            }
            Ok(address) if referrals.iter().any(|r| (r.address, &r.nqn) == (address, &nqn)) => {
                format!("{address} is listed twice")
            }
            Ok(_) if referrals.len() >= MAX_REFERRALS => {
                format!("there are more than {MAX_REFERRALS}")
            }
            Ok(address) => {
                referrals.push(Referral { address, nqn });
                continue;
            }
            Err(what) => what,
        };
        let what = format!("discovery.referral.address: {wrong}");
        problems.push(Problem::at(referral.address.span(), what));
    }
    let tell = match table.listeners {
        RawTell::Reachable => TellPorts::Reachable,
        RawTell::Asked => TellPorts::Asked,
        RawTell::All => TellPorts::All,
    };
    let nqn = table.nqn.as_ref().map(|nqn| nqn.get_ref().clone());
    DiscoveryConfig { nqn, tell, referrals }
}
