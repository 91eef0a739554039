//! What the file says about how much namespaces and hosts are served.

use super::problem::Problem;
use super::raw::{RawConfig, RawLimit, RawSize};
use super::resolve::{Problems, check_nqn, number_namespaces};
use super::units;
use nvmf::limit::LimitConfig;
use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;
use toml::Spanned;

/// Saved up by whoever is idle, unless the file says otherwise.
const BURST: Duration = Duration::from_millis(100);
/// Decimal units, which people use for rates; the binary ones are those of sizes.
const DECIMAL: [(&str, u64); 3] = [("KB", 1_000), ("MB", 1_000_000), ("GB", 1_000_000_000)];

/// All limits.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Limits {
    /// By subsystem NQN and nsid.
    pub(crate) namespaces: BTreeMap<(String, u32), LimitConfig>,
    /// By host NQN.
    pub(crate) hosts: BTreeMap<String, LimitConfig>,
}

pub(super) fn limits(raw: &RawConfig, problems: &mut Problems) -> Limits {
    let mut limits = Limits::default();
    for subsystem in &raw.subsystem {
        let nqn = subsystem.nqn.get_ref();
        let tables = subsystem.namespace.iter().map(Spanned::get_ref);
        let given: Vec<Option<u32>> =
            tables.clone().map(|ns| ns.nsid.as_ref().map(|nsid| *nsid.get_ref())).collect();
        for (namespace, nsid) in tables.zip(number_namespaces(&given)) {
            if let Some(raw) = &namespace.limit {
                let limit = limit("namespace.limit", raw, problems);
                limits.namespaces.insert((nqn.clone(), nsid), limit);
            }
        }
    }
    for host in &raw.host {
        check_nqn("host.nqn", &host.nqn, problems);
        let nqn = host.nqn.get_ref();
        let limit = limit("host.limit", &host.limit, problems);
        if limits.hosts.insert(nqn.clone(), limit).is_some() {
            let what = format!("host.nqn: \"{nqn}\" is listed twice");
            problems.push(Problem::at(host.nqn.span(), what));
        }
    }
    limits
}

fn limit(key: &str, raw: &Spanned<RawLimit>, problems: &mut Problems) -> LimitConfig {
    let RawLimit { iops, bandwidth, burst_ms } = raw.get_ref();
    let mut wrong = |at: Range<usize>, what: String, hint: &str| {
        problems.push(Problem::at(at, format!("{key}{what}")).hint(hint));
    };
    if iops.is_none() && bandwidth.is_none() {
        let hint = "add iops = 1000, bandwidth = \"100MB/s\", or both";
        wrong(raw.span(), ": limits nothing".to_owned(), hint);
    }
    let none = "leave the setting out for no limit";
    if let Some(iops) = iops.as_ref().filter(|iops| *iops.get_ref() == 0) {
        wrong(iops.span(), ".iops: 0 would serve nothing".to_owned(), none);
    }
    let rate = bandwidth.as_ref().map_or(Ok(0), |text| match bytes_per_second(text.get_ref()) {
        Ok(0) => Err((text.span(), "0 would serve nothing".to_owned(), none)),
        Ok(rate) => Ok(rate),
        Err(what) => Err((text.span(), what, "write it as 100MB/s, 1GiB/s or bytes a second")),
    });
    let rate = rate.unwrap_or_else(|(at, what, hint)| {
        wrong(at, format!(".bandwidth: {what}"), hint);
        0
    });
    LimitConfig {
        iops: iops.as_ref().map_or(0, |iops| *iops.get_ref()),
        bandwidth: rate,
        burst: burst_ms.map_or(BURST, Duration::from_millis),
    }
}

/// Bytes a second, or what is wrong with it.
fn bytes_per_second(rate: &RawSize) -> Result<u64, String> {
    let RawSize::Text(text) = rate else { return units::bytes(rate) };
    let size = text.trim().strip_suffix("/s").unwrap_or(text).trim();
    for (unit, bytes) in DECIMAL {
        let Some(number) = size.strip_suffix(unit).map(str::trim) else { continue };
        let number: u64 =
            number.parse().map_err(|_| format!("\"{number}\" is not a whole number"))?;
        let most = || format!("\"{text}\" is more than this machine can count");
        return number.checked_mul(bytes).ok_or_else(most);
    }
    units::bytes(&RawSize::Text(size.to_owned()))
}
