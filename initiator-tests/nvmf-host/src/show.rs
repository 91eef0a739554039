//! `discover`, `identify` and `list-ns`.

use crate::output::{put, say};
use crate::provider::Provider;
use crate::session::{Data, Peer, Session, Shape, host_config};
use crate::transfer::hex_dump;
use anyhow::{Context, Result, bail};
use initiator::commands;
use rdma::{Connector, CoreIndex, HostDevice};
use serde_json::{Map, Value, json};

/// Bytes of the discovery log's header, and of each of its entries.
const DISCOVERY_RECORD: usize = 1024;
/// Discovery log page (NVMe Base 2.1, 5.1.12.3.1).
const LID_DISCOVERY: u8 = 0x70;
/// Entries that are asked for at most.
const MAX_RECORDS: u64 = 4096;

/// A session of one thread.
pub(crate) type Own<P> = Session<<P as Provider>::Manager, <P as Provider>::Device>;

/// Connects.
///
/// # Errors
/// When the machine has no such RDMA device, or the target refuses.
pub(crate) fn connect<P: Provider>(peer: &Peer, shape: &Shape) -> Result<Own<P>> {
    let region = shape.map()?;
    let mut manager = P::open(1)?;
    let core = CoreIndex(0);
    let device = P::device(&mut manager, core, region.clone());
    let mut session = Session::new(host_config(peer, shape, core), region, manager, device);
    session.connect()?;
    Ok(session)
}

/// One way to a subsystem.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) subnqn: String,
    transport: String,
    pub(crate) subtype: u8,
    address: String,
    service: String,
    port: u16,
}

fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).trim_end().to_owned()
}

fn name(code: u8, names: &[(u8, &str)]) -> String {
    let known = names.iter().find(|(of, _)| *of == code);
    known.map_or_else(|| format!("{code}"), |(_, name)| (*name).to_owned())
}

/// The entries of the discovery log.
///
/// # Errors
/// When the controller does not tell them.
pub(crate) fn entries<C: Connector, D: HostDevice<Endpoint = C::Endpoint>>(
    session: &mut Session<C, D>,
) -> Result<Vec<Entry>> {
    let mut page = |offset: u64, len: u32| -> Result<Vec<u8>> {
        let command = commands::get_log_page(LID_DISCOVERY, 0, offset, len, false);
        Ok(session.must("Get Log Page", 0, command, Data::In(len))?.1)
    };
    let header = page(0, DISCOVERY_RECORD as u32)?;
    let records = u64::from_le_bytes(header[8..16].try_into().context("the header")?);
    if records > MAX_RECORDS {
        bail!("the target tells of {records} entries");
    }
    let mut entries = Vec::new();
    for index in 0..records {
        let offset = (index + 1) * DISCOVERY_RECORD as u64;
        let record = page(offset, DISCOVERY_RECORD as u32)?;
        entries.push(Entry {
            transport: name(record[0], &[(1, "rdma"), (2, "fc"), (3, "tcp"), (254, "loop")]),
            subtype: record[2],
            port: u16::from_le_bytes([record[4], record[5]]),
            service: text(&record[32..64]),
            subnqn: text(&record[256..512]),
            address: text(&record[512..768]),
        });
    }
    Ok(entries)
}

/// `discover`
///
/// # Errors
/// When the target cannot be asked.
pub(crate) fn discover<P: Provider>(peer: &Peer, as_json: bool) -> Result<()> {
    let mut session = connect::<P>(peer, &Shape::ADMIN)?;
    let found = entries(&mut session);
    session.leave();
    let found = found?;
    let kind = |subtype| name(subtype, &[(1, "referral"), (2, "nvme"), (3, "discovery")]);
    if as_json {
        let list: Vec<Value> = found
            .iter()
            .map(|e| {
                json!({"transport": e.transport, "subtype": kind(e.subtype), "port": e.port,
                    "address": e.address, "service": e.service, "subnqn": e.subnqn})
            })
            .collect();
        say!("{}", serde_json::to_string_pretty(&list)?);
        return Ok(());
    }
    say!("{:<10} {:<5} {:<24} {:<8} subsystem", "type", "port", "address", "service");
    for e in found {
        let kind = kind(e.subtype);
        say!("{kind:<10} {:<5} {:<24} {:<8} {}", e.port, e.address, e.service, e.subnqn);
    }
    Ok(())
}

/// A field of an Identify structure: name, first byte, bytes.
type Field = (&'static str, usize, usize);

/// NVMe Base 2.1, 5.1.13.2.1.
const CONTROLLER: &[Field] = &[
    ("vid", 0, 2),
    ("ssvid", 2, 2),
    ("cmic", 76, 1),
    ("mdts", 77, 1),
    ("cntlid", 78, 2),
    ("ver", 80, 4),
    ("oaes", 92, 4),
    ("ctratt", 96, 4),
    ("cntrltype", 111, 1),
    ("oacs", 256, 2),
    ("acl", 258, 1),
    ("aerl", 259, 1),
    ("lpa", 261, 1),
    ("elpe", 262, 1),
    ("kas", 320, 2),
    ("sqes", 512, 1),
    ("cqes", 513, 1),
    ("maxcmd", 514, 2),
    ("nn", 516, 4),
    ("oncs", 520, 2),
    ("fuses", 522, 2),
    ("vwc", 525, 1),
    ("awun", 526, 2),
    ("awupf", 528, 2),
    ("sgls", 536, 4),
    ("ioccsz", 1792, 4),
    ("iorcsz", 1796, 4),
    ("icdoff", 1800, 2),
    ("fcatt", 1802, 1),
    ("msdbd", 1803, 1),
];
const CONTROLLER_TEXT: &[Field] =
    &[("sn", 4, 20), ("mn", 24, 40), ("fr", 64, 8), ("subnqn", 768, 256)];

/// NVM Command Set 1.1, 4.1.5.1.
const NAMESPACE: &[Field] = &[
    ("nsze", 0, 8),
    ("ncap", 8, 8),
    ("nuse", 16, 8),
    ("nsfeat", 24, 1),
    ("nlbaf", 25, 1),
    ("flbas", 26, 1),
    ("nmic", 30, 1),
    ("rescap", 31, 1),
    ("dlfeat", 33, 1),
    ("nawun", 34, 2),
    ("nawupf", 36, 2),
    ("anagrpid", 92, 4),
    ("nsattr", 99, 1),
];

fn number(data: &[u8], at: usize, len: usize) -> u64 {
    data[at..at + len].iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte))
}

fn identified(data: &[u8], nsid: Option<u32>) -> Map<String, Value> {
    let mut fields = Map::new();
    let (texts, numbers): (&[Field], &[Field]) = match nsid {
        None => (CONTROLLER_TEXT, CONTROLLER),
        Some(_) => (&[], NAMESPACE),
    };
    for (field, at, len) in texts {
        fields.insert((*field).to_owned(), json!(text(&data[*at..at + len])));
    }
    for (field, at, len) in numbers {
        fields.insert((*field).to_owned(), json!(number(data, *at, *len)));
    }
    if nsid.is_some() {
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        fields.insert("nguid".to_owned(), json!(hex(&data[104..120])));
        fields.insert("eui64".to_owned(), json!(hex(&data[120..128])));
        let format = 128 + usize::from(data[26] & 0xf) * 4;
        fields.insert("block_size".to_owned(), json!(1u64 << (data[format + 2] & 63)));
    }
    fields
}

/// `identify`
///
/// # Errors
/// When the controller does not tell.
pub(crate) fn identify<C: Connector, D: HostDevice<Endpoint = C::Endpoint>>(
    session: &mut Session<C, D>,
    nsid: Option<u32>,
    hex: bool,
    as_json: bool,
) -> Result<()> {
    let command = match nsid {
        None => commands::identify(1, 0),
        Some(nsid) => commands::identify(0, nsid),
    };
    let (_, data) = session.must("Identify", 0, command, Data::In(4096))?;
    if hex {
        put!("{}", hex_dump(0, &data));
        return Ok(());
    }
    let fields = identified(&data, nsid);
    if as_json {
        say!("{}", serde_json::to_string_pretty(&fields)?);
        return Ok(());
    }
    for (field, value) in &fields {
        match value.as_u64() {
            Some(number) => say!("{field:<12} {number} ({number:#x})"),
            None => say!("{field:<12} {}", value.as_str().unwrap_or_default()),
        }
    }
    Ok(())
}

/// `list-ns`
///
/// # Errors
/// When a namespace's identifiers cannot be read.
pub(crate) fn list_namespaces<C: Connector, D: HostDevice<Endpoint = C::Endpoint>>(
    session: &mut Session<C, D>,
    as_json: bool,
) -> Result<()> {
    let all = session.host.namespaces().to_vec();
    let mut list = Vec::new();
    for ns in all {
        let command = commands::identify(3, ns.nsid);
        let (_, data) = session.must("Identify", 0, command, Data::In(4096))?;
        list.push((ns, uuid_of(&data).unwrap_or_default()));
    }
    if as_json {
        let list: Vec<Value> = list
            .iter()
            .map(|(ns, uuid)| {
                json!({"nsid": ns.nsid, "blocks": ns.blocks, "block_size": 1u64 << ns.lba_shift,
                    "uuid": uuid})
            })
            .collect();
        say!("{}", serde_json::to_string_pretty(&list)?);
        return Ok(());
    }
    say!("{:>6} {:>14} {:>10} {:>12}  uuid", "nsid", "blocks", "block size", "MiB");
    for (ns, uuid) in list {
        let lba_len = 1u64 << ns.lba_shift;
        let mib = (ns.blocks * lba_len) as f64 / f64::from(1 << 20);
        say!("{:>6} {:>14} {lba_len:>10} {mib:>12.1}  {uuid}", ns.nsid, ns.blocks);
    }
    Ok(())
}

/// The UUID in a list of namespace identification descriptors (NVMe Base 2.1, 5.1.13.2.3).
fn uuid_of(data: &[u8]) -> Option<String> {
    const NIDT_UUID: u8 = 3;
    let mut at = 0;
    while at + 4 <= data.len() && data[at + 1] != 0 {
        let len = usize::from(data[at + 1]);
        let value = data.get(at + 4..at + 4 + len)?;
        if data[at] == NIDT_UUID {
            return uuid::Uuid::from_slice(value).ok().map(|uuid| uuid.to_string());
        }
        at += 4 + len;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_uuid_is_found_behind_other_identifiers() {
        let mut data = vec![0u8; 4096];
        data[..2].copy_from_slice(&[1, 8]);
        data[12..14].copy_from_slice(&[3, 16]);
        data[16..32].copy_from_slice(&[0xab; 16]);
        assert_eq!(uuid_of(&data).unwrap(), "abababab-abab-abab-abab-abababababab");
        data[12] = 2;
        assert_eq!(uuid_of(&data), None);
        data[1] = 255;
        data[4094] = 9; // a descriptor that would reach past the end
        assert_eq!(uuid_of(&data), None);
    }

    #[test]
    fn fields_are_little_endian_numbers_and_trimmed_text() {
        let mut data = vec![0u8; 4096];
        data[78] = 0x34;
        data[79] = 0x12;
        data[24..64].fill(b' ');
        data[24..29].copy_from_slice(b"nvmfd");
        let fields = identified(&data, None);
        assert_eq!(fields["cntlid"], 0x1234);
        assert_eq!(fields["mn"], "nvmfd");
    }
}
