use super::super::tests::*;
use super::*;
use crate::target::{
    AllowedHosts, DiscoveryConfig, PortConfig, Referral, SubsystemConfig, TargetConfig,
};
use crate::{Outcome, QueueKey};
use nvme_spec_types::log::GetLogPage;
use nvme_spec_types::nqn::DISCOVERY_NQN;
use nvme_spec_types::status::StatusCode;
use nvme_spec_types::{LogId, SglDescriptor};

fn read(bench: &mut Bench, queue: QueueKey, offset: u64, len: u64, lsp: u8) -> Outcome {
    let numd = GetLogPage::numd_for(len);
    let get = GetLogPage { lid: LogId::DISCOVERY, offset, numd, lsp, ..GetLogPage::default() };
    bench.run(queue, &get.to_command(1, SglDescriptor::NO_DATA), &[])
}

/// The whole log: generation and entries.
fn log_with(bench: &mut Bench, queue: QueueKey, lsp: u8) -> (u64, Vec<DiscoveryEntry>) {
    let header = DiscoveryHeader::parse(&read(bench, queue, 0, 1024, lsp).data).unwrap();
    let len = (header.numrec + 1) * 1024;
    let data = read(bench, queue, 0, len, lsp).data;
    let entries = data[1024..].chunks(1024).map(|e| DiscoveryEntry::parse(e).unwrap());
    (header.genctr, entries.collect())
}

fn log(bench: &mut Bench, queue: QueueKey) -> (u64, Vec<DiscoveryEntry>) {
    log_with(bench, queue, 0)
}

fn add_subsystem(bench: &mut Bench, name: &str, hosts: AllowedHosts) {
    let nqn = format!("nqn.2026-01.io.example:{name}");
    let config = SubsystemConfig { nqn, hosts, ..subsystem_config() };
    bench.target.add_subsystem(config, &mut bench.out).unwrap();
}

fn add_port(bench: &mut Bench, id: u16, address: &str) {
    let port = PortConfig { id, address: address.parse().unwrap() };
    bench.target.add_port(port, &mut bench.out).unwrap();
}

/// Name, port, address and service of each entry.
fn told(entries: &[DiscoveryEntry]) -> Vec<(String, u16, String, String)> {
    let text = |entry: &DiscoveryEntry| {
        let nqn = entry.subnqn().unwrap();
        let name = nqn.as_str().rsplit([':', '.']).next().unwrap().to_owned();
        let address = entry.traddr.as_str().unwrap().to_owned();
        (name, entry.portid, address, entry.trsvcid.as_str().unwrap().to_owned())
    };
    entries.iter().map(text).collect()
}

fn entry(name: &str, port: u16, address: &str, service: &str) -> (String, u16, String, String) {
    (name.to_owned(), port, address.to_owned(), service.to_owned())
}

#[test]
fn an_entry_says_how_to_connect() {
    let mut bench = Bench::new();
    let (queue, _) = bench.ready_discovery(0);
    let (_, entries) = log(&mut bench, queue);
    let [current, nvm] = &entries[..] else { panic!() };
    assert_eq!(current.subtype, SubsystemType::CURRENT_DISCOVERY);
    assert_eq!(current.subnqn().unwrap().as_str(), DISCOVERY_NQN);
    assert_eq!(current.eflags, DiscoveryEntryFlags::PERSISTENT_CONNECTION);
    assert_eq!(nvm.subtype, SubsystemType::NVM);
    assert_eq!(nvm.subnqn().unwrap().as_str(), SUBNQN);
    assert_eq!((nvm.trtype, nvm.adrfam), (TransportType::RDMA, AddressFamily::IPV4));
    assert_eq!((nvm.portid, nvm.cntlid, nvm.asqsz, nvm.treq.0), (1, 0xffff, 32, 0b100));
    assert_eq!((nvm.traddr.as_str(), nvm.trsvcid.as_str()), (Some("192.0.2.1"), Some("4420")));
    let tsas = nvm.rdma_tsas().unwrap();
    assert_eq!((tsas.qptype.0, tsas.prtype.0, tsas.cms.0, tsas.pkey), (1, 1, 1, 0));
}

#[test]
fn only_subsystems_that_the_host_may_use_are_told() {
    let mut bench = Bench::new();
    let only = |name: &str| AllowedHosts::Only(vec![name.to_owned()]);
    add_subsystem(&mut bench, "mine", only(HOSTNQN));
    add_subsystem(&mut bench, "theirs", only("nqn.2026-01.io.example:other"));
    add_subsystem(&mut bench, "nobodys", AllowedHosts::Only(Vec::new()));
    let (queue, _) = bench.ready_discovery(0);
    let names: Vec<_> = told(&log(&mut bench, queue).1).into_iter().map(|e| e.0).collect();
    assert_eq!(names, ["discovery", "disks", "mine"]);
}

/// Ports that a host is told of which asks at that address, which is of port 1.
fn told_at(tell: TellPorts, local: &str) -> Vec<u16> {
    let mut bench = Bench::new();
    bench.target.remove_port(1, &mut bench.out).unwrap();
    let asked: SocketAddr = local.parse().unwrap();
    add_port(&mut bench, 1, local);
    for (id, address) in [
        (2, "192.0.2.2:4420"),
        (3, "127.0.0.9:4420"),
        (4, "169.254.7.7:4420"),
        (5, "[2001:db8::2]:4421"),
        (6, "[::1]:4421"),
        (7, "[fe80::2%7]:4421"),
        (8, "[fe80::2%8]:4421"),
        (9, "0.0.0.0:4422"),
        (10, "[::]:4422"),
    ] {
        add_port(&mut bench, id, address);
    }
    let config = DiscoveryConfig { tell, ..DiscoveryConfig::default() };
    bench.target.set_discovery(config, &mut bench.out).unwrap();
    let (queue, _) = bench.ready_discovery(0);
    bench.target.queues.get_mut(&queue).unwrap().info.local = asked;
    let entries = log(&mut bench, queue).1;
    assert_eq!((entries[0].portid, entries[0].subtype), (1, SubsystemType::CURRENT_DISCOVERY));
    for entry in &entries {
        let v4 = entry.traddr.as_str().unwrap().parse::<IpAddr>().unwrap().is_ipv4();
        let family = if v4 { AddressFamily::IPV4 } else { AddressFamily::IPV6 };
        assert_eq!(entry.adrfam, family);
    }
    entries[1..].iter().map(|entry| entry.portid).collect()
}

#[test]
fn ports_of_the_same_family_and_scope_as_the_asked_one_are_told() {
    let told = |local| told_at(TellPorts::Reachable, local);
    assert_eq!(told("192.0.2.1:4420"), [1, 2, 9]);
    assert_eq!(told("127.0.0.1:4420"), [1, 3, 9]);
    assert_eq!(told("169.254.1.1:4420"), [1, 4, 9]);
    assert_eq!(told("[2001:db8::1]:4420"), [1, 5, 10]);
    assert_eq!(told("[::1]:4420"), [1, 6, 10]);
    assert_eq!(told("[fe80::1%8]:4420"), [1, 8, 10]);
}

#[test]
fn the_asked_port_alone_or_every_port_is_told_where_that_is_wanted() {
    assert_eq!(told_at(TellPorts::Asked, "192.0.2.1:4420"), [1]);
    // The address behind the wildcard of the other family is not known.
    assert_eq!(told_at(TellPorts::All, "192.0.2.1:4420"), [1, 2, 3, 4, 5, 6, 7, 8, 9]);
    let mut bench = Bench::new();
    add_port(&mut bench, 2, "192.0.2.2:4421");
    let (queue, _) = bench.ready_discovery(0);
    let here = [entry("discovery", 1, "192.0.2.1", "4420"), entry("disks", 1, "192.0.2.1", "4420")];
    assert_eq!(told(&log(&mut bench, queue).1)[2..], [entry("disks", 2, "192.0.2.2", "4421")]);
    assert_eq!(told(&log_with(&mut bench, queue, PORT_LOCAL).1), here);
}

#[test]
fn referrals_are_told_with_their_names_after_the_service_itself() {
    let mut bench = Bench::new();
    let to = |address: &str, nqn: Option<&str>| Referral {
        address: address.parse().unwrap(),
        nqn: nqn.map(str::to_owned),
    };
    let referrals = vec![
        to("192.0.2.8:4420", None),
        to("[2001:db8::8]:8009", Some("nqn.2026-01.io.example:elsewhere")),
    ];
    let config = DiscoveryConfig { referrals, ..DiscoveryConfig::default() };
    bench.target.set_discovery(config, &mut bench.out).unwrap();
    let (queue, _) = bench.ready_discovery(0);
    let entries = log(&mut bench, queue).1;
    assert_eq!(
        told(&entries)[1..3],
        [entry("discovery", 0, "192.0.2.8", "4420"), entry("elsewhere", 0, "2001:db8::8", "8009")]
    );
    assert!(entries[1..3].iter().all(|entry| entry.subtype == SubsystemType::REFERRAL));
    assert_eq!(entries[2].adrfam, AddressFamily::IPV6);
    assert_eq!(told(&entries)[3].0, "disks");
}

const PORT_LOCAL: u8 = 1 << 1;

#[test]
fn a_wildcard_is_told_as_the_address_that_was_reached() {
    let mut bench = Bench::new();
    add_port(&mut bench, 2, "0.0.0.0:4421");
    add_port(&mut bench, 3, "[::]:4422");
    let (queue, _) = bench.ready_discovery(0);
    let ports = |bench: &mut Bench| told(&log(bench, queue).1).split_off(2);
    assert_eq!(ports(&mut bench), [entry("disks", 2, "192.0.2.1", "4421")]);
    // Through an IPv6 socket: still an IPv4 address.
    let info = &mut bench.target.queues.get_mut(&queue).unwrap().info;
    info.local = "[::ffff:192.0.2.7]:4420".parse().unwrap();
    assert_eq!(ports(&mut bench), [entry("disks", 2, "192.0.2.7", "4421")]);
    // With IPv6 there is no way to know the IPv4 address.
    let info = &mut bench.target.queues.get_mut(&queue).unwrap().info;
    info.local = "[2001:db8::9]:4420".parse().unwrap();
    assert_eq!(ports(&mut bench), [entry("disks", 3, "2001:db8::9", "4422")]);
}

#[test]
fn the_generation_changes_with_the_log() {
    let mut bench = Bench::new();
    let (queue, _) = bench.ready_discovery(0);
    let (before, _) = log(&mut bench, queue);
    assert_eq!(log(&mut bench, queue).0, before);
    add_port(&mut bench, 2, "192.0.2.2:4420");
    add_subsystem(&mut bench, "more", AllowedHosts::Any);
    assert_eq!(log(&mut bench, queue).0, before + 2);
}

#[test]
fn a_long_log_is_the_same_read_in_parts_of_any_size() {
    let mut bench = Bench::with(TargetConfig { max_transfer: 8 << 20, ..CONFIG });
    for n in 0..2000 {
        add_subsystem(&mut bench, &format!("s{n:04}"), AllowedHosts::Any);
    }
    let (queue, _) = bench.ready_discovery(0);
    let (_, entries) = log(&mut bench, queue);
    assert_eq!(entries.len(), 2002);
    assert_eq!(told(&entries)[2001].0, "s1999");
    let size = 2003 * 1024;
    let whole = read(&mut bench, queue, 0, size, 0).data;
    for (offset, len) in
        [(0, 16), (4, 4), (1020, 8), (1024, 1024), (4096, 4096), (1_000_004, 5000), (size - 4, 4)]
    {
        let part = read(&mut bench, queue, offset, len, 0).data;
        assert_eq!(part, whole[offset as usize..(offset + len) as usize], "{offset}+{len}");
    }
    let mut tail = whole[whole.len() - 100..].to_vec();
    tail.resize(4096, 0);
    assert_eq!(read(&mut bench, queue, size - 100, 4096, 0).data, tail);
    assert_eq!(read(&mut bench, queue, size, 4096, 0).data, [0; 4096]);
    let beyond = read(&mut bench, queue, size + 4, 4, 0);
    assert_eq!(beyond, logged(StatusCode::INVALID_FIELD));
}

#[test]
fn parts_that_do_not_belong_together_are_known_by_the_generation() {
    let mut bench = Bench::new();
    for n in 0..10 {
        add_subsystem(&mut bench, &format!("s{n}"), AllowedHosts::Any);
    }
    let (queue, _) = bench.ready_discovery(0);
    let generation = |bench: &mut Bench| {
        DiscoveryHeader::parse(&read(bench, queue, 0, 1024, 0).data).unwrap().genctr
    };
    let begun = generation(&mut bench);
    let parts: Vec<_> = (1..=4).map(|n| read(&mut bench, queue, n * 1024, 1024, 0).data).collect();
    assert_eq!(generation(&mut bench), begun, "reading changes nothing");
    let gone = bench.target.find_subsystem("nqn.2026-01.io.example:s1").unwrap();
    bench.target.remove_subsystem(gone, &mut bench.out).unwrap();
    assert_ne!(read(&mut bench, queue, 4 * 1024, 1024, 0).data, parts[3]);
    assert_ne!(generation(&mut bench), begun);
}
