//! Sizes, addresses and identifiers as people write them.

use super::raw::RawSize;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

/// The port of NVMe over Fabrics.
const DEFAULT_PORT: u16 = nvme_spec_types::rdma_cm::NVME_RDMA_PORT;

const UNITS: [(&str, u32); 5] = [("KiB", 10), ("MiB", 20), ("GiB", 30), ("TiB", 40), ("B", 0)];

/// Bytes of a size, or what is wrong with it.
pub(super) fn bytes(size: &RawSize) -> Result<u64, String> {
    let text = match size {
        RawSize::Bytes(bytes) => return Ok(*bytes),
        RawSize::Text(text) => text.trim(),
    };
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    let unit = unit.trim();
    if unit.starts_with(['.', ',']) {
        return Err(format!(
            "\"{text}\" is no whole number: write it in the next smaller unit, as 1536KiB for 1.5MiB"
        ));
    }
    let Ok(number) = number.parse::<u64>() else {
        return Err(format!(
            "\"{text}\" is not a size: write a whole number and a unit, as 256MiB"
        ));
    };
    let shift = match UNITS.iter().find(|(name, _)| *name == unit) {
        Some((_, shift)) => *shift,
        None if unit.is_empty() => 0,
        None => {
            return Err(format!("\"{unit}\" is not a unit: use KiB, MiB, GiB, TiB or B"));
        }
    };
    number
        .checked_mul(1 << shift)
        .ok_or_else(|| format!("\"{text}\" is more than this machine can count"))
}

/// Bytes as a person would write them: the largest unit that leaves a whole number.
pub(crate) fn in_words(bytes: u64) -> String {
    for (unit, shift) in [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)] {
        if bytes >= 1 << shift && bytes.trailing_zeros() >= shift {
            return format!("{} {unit}", bytes >> shift);
        }
    }
    for (unit, shift) in [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)] {
        if bytes >= 1 << shift {
            return format!("{:.1} {unit}", bytes as f64 / (1u64 << shift) as f64);
        }
    }
    format!("{bytes} B")
}

/// What a limit allows, as text; 0 for any number of commands or bytes a second.
pub(crate) fn limit_in_words(iops: u64, bandwidth: u64) -> String {
    let iops = (iops > 0).then(|| format!("{iops} commands/s"));
    let bandwidth = (bandwidth > 0).then(|| format!("{}/s", in_words(bandwidth)));
    iops.into_iter().chain(bandwidth).collect::<Vec<_>>().join(", ")
}

/// A number of things, one of which has that name: "1 fault", "2 faults".
pub(crate) fn some(count: usize, name: &str) -> String {
    format!("{count} {name}{}", if count == 1 { "" } else { "s" })
}

/// Bytes to three or four digits, for amounts that are not written down anywhere.
pub(crate) fn about(bytes: u64) -> String {
    let unit = UNITS[..4].iter().rfind(|(_, shift)| bytes >= 1 << shift);
    match unit {
        Some((unit, shift)) => format!("{:.1} {unit}", bytes as f64 / (1u64 << shift) as f64),
        None => format!("{bytes} B"),
    }
}

/// An address to listen on: "10.8.0.1", "10.8.0.1:4420", "[::]:4420", "[fe80::1%eth0]:4420", or an
/// IPv6 address without brackets and port. `scope` finds an interface's index by its name.
pub(super) fn address(
    text: &str,
    scope: impl Fn(&str) -> Option<u32>,
) -> Result<SocketAddr, String> {
    let not_one = || format!("\"{text}\" is not an IP address with or without a port");
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']').ok_or_else(not_one)?;
            let port = port.strip_prefix(':').map(Some);
            (host, port.or(rest.ends_with(']').then_some(None)).ok_or_else(not_one)?)
        }
        None if text.matches(':').count() > 1 => (text, None),
        None => text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port))),
    };
    let port = match port {
        None => DEFAULT_PORT,
        Some(port) => match port.parse() {
            Ok(0) | Err(_) => return Err(format!("\"{port}\" is not a port: use 1 to 65535")),
            Ok(port) => port,
        },
    };
    let (host, zone) = match host.split_once('%') {
        Some((host, zone)) => (host, Some(zone)),
        None => (host, None),
    };
    // An IPv4 address written as an IPv6 one is the same place, and must be seen as such.
    let ip = host.parse::<IpAddr>().map_err(|_| not_one())?.to_canonical();
    if ip.is_multicast() || ip == IpAddr::V4(Ipv4Addr::BROADCAST) {
        return Err(format!("{ip} is the address of a group, which no host can connect to"));
    }
    match (ip, zone) {
        (IpAddr::V4(_), Some(_)) => Err("only IPv6 addresses have a %interface".to_owned()),
        (IpAddr::V4(ip), None) => Ok((ip, port).into()),
        (IpAddr::V6(ip), Some(zone)) => {
            let index = match zone.parse::<u32>() {
                Ok(index) => index,
                Err(_) => scope(zone).ok_or_else(|| format!("there is no interface {zone}"))?,
            };
            Ok(SocketAddrV6::new(ip, port, 0, index).into())
        }
        (IpAddr::V6(ip), None) if is_link_local(ip) => {
            Err(format!("the link-local address {ip} needs its interface, as [{ip}%eth0]:{port}"))
        }
        (IpAddr::V6(ip), None) => Ok((ip, port).into()),
    }
}

fn is_link_local(ip: Ipv6Addr) -> bool {
    ip.segments()[0] & 0xffc0 == 0xfe80
}

/// The index of a network interface of this machine.
pub(super) fn interface_index(name: &str) -> Option<u32> {
    if name.is_empty() || name.contains('/') || name.starts_with('.') {
        return None;
    }
    let text = std::fs::read_to_string(format!("/sys/class/net/{name}/ifindex")).ok()?;
    text.trim().parse().ok()
}

/// `N` bytes written as hexadecimal digits, with or without dashes, colons or a leading "0x".
pub(super) fn hex<const N: usize>(text: &str) -> Result<[u8; N], String> {
    let digits: String = text
        .strip_prefix("0x")
        .or_else(|| text.strip_prefix("eui."))
        .unwrap_or(text)
        .chars()
        .filter(|c| !matches!(c, '-' | ':'))
        .collect();
    let wrong = || format!("\"{text}\" is not {} hexadecimal digits", 2 * N);
    if digits.len() != 2 * N || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return Err(wrong());
    }
    let mut out = [0; N];
    for (byte, pair) in out.iter_mut().zip(digits.as_bytes().chunks_exact(2)) {
        let pair = std::str::from_utf8(pair).map_err(|_| wrong())?;
        *byte = u8::from_str_radix(pair, 16).map_err(|_| wrong())?;
    }
    Ok(out)
}
