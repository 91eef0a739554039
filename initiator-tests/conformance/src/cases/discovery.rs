//! The discovery service: what it tells, byte by byte, and in parts.

use super::{Case, cases};
use crate::{Client, Place, Session, Target, assert_code, connect, connect_data, send_connect};
use initiator::{BareQueue, commands};
use nvme_spec_types::fabrics::{CNTLID_DYNAMIC, ConnectLocation, ConnectResponse};
use nvme_spec_types::log::{DiscoveryEntry, DiscoveryHeader, SubsystemType};
use nvme_spec_types::nqn::DISCOVERY_NQN;
use nvme_spec_types::{Completion, Nqn, StatusCode};

pub(super) const CASES: &[Case] = cases![
    the_log_names_what_the_host_may_use_and_the_service_itself,
    an_entry_holds_nothing_but_what_is_meant,
    a_log_read_in_parts_is_of_one_generation,
    a_discovery_controller_has_no_io_queues,
    a_discovery_controller_keeps_event_requests,
    the_log_is_not_told_by_other_controllers,
];

/// The discovery log (NVMe Base 2.1, 5.1.12.3.1).
const DISCOVERY_LOG: u8 = 0x70;
const RECORD: u32 = 1024;

/// A client with an enabled discovery controller.
struct Discovery {
    client: Client,
    admin: BareQueue,
    cntlid: u16,
}

impl Discovery {
    fn new(target: &Target) -> Discovery {
        let mut client = Client::new(target);
        let admin = client.open(0, 32, 0).expect("an admin queue");
        let name = Nqn::new(DISCOVERY_NQN).expect("a name");
        let data = connect_data(name, CNTLID_DYNAMIC);
        let completion = send_connect(&mut client, admin, connect(0), &data);
        assert!(completion.status.is_success(), "{completion:?}");
        Session::enable(&mut client, admin);
        let cntlid = ConnectResponse::from_dw0(completion.dw0).cntlid;
        Discovery { client, admin, cntlid }
    }

    fn part(&mut self, offset: u64, len: u32) -> (Completion, Vec<u8>) {
        let mut command = commands::get_log_page(DISCOVERY_LOG, 0, offset, len, true);
        let buffer = self.client.buffer(self.admin, len, 0xee);
        command.set_sgl1(buffer.sgl());
        let completion = self.client.call(self.admin, command);
        let data = self.client.read(buffer);
        self.client.take_back(self.admin, buffer);
        (completion, data)
    }

    fn bytes(&mut self, offset: u64, len: u32) -> Vec<u8> {
        let (completion, data) = self.part(offset, len);
        assert!(completion.status.is_success(), "{completion:?}");
        data
    }

    fn header(&mut self) -> DiscoveryHeader {
        DiscoveryHeader::parse(&self.bytes(0, RECORD)).expect("a header")
    }

    /// The entries, one by one, and their bytes.
    fn entries(&mut self) -> Vec<(DiscoveryEntry, Vec<u8>)> {
        let count = self.header().numrec;
        let read = |n| {
            let bytes = self.bytes(n * u64::from(RECORD), RECORD);
            (DiscoveryEntry::parse(&bytes).expect("an entry"), bytes)
        };
        (1..=count).map(read).collect()
    }
}

fn the_log_names_what_the_host_may_use_and_the_service_itself(place: &dyn Place) {
    let target = place.target();
    let mut discovery = Discovery::new(&target);
    let entries = discovery.entries();
    let here = |entry: &DiscoveryEntry| {
        entry.traddr.as_str() == Some(&target.address().ip().to_string())
            && entry.trsvcid.as_str() == Some(&target.address().port().to_string())
    };
    let (itself, _) = &entries[0];
    assert_eq!(itself.subtype, SubsystemType::CURRENT_DISCOVERY);
    assert!(here(itself), "{itself:?}");
    let subnqn = target.subnqn();
    let named = entries.iter().filter(|(entry, _)| entry.subnqn() == Ok(subnqn));
    assert_eq!(named.filter(|(entry, _)| here(entry)).count(), 1);
    if let Some(closed) = target.closed_subnqn() {
        assert!(entries.iter().all(|(entry, _)| entry.subnqn() != Ok(closed)));
    }
}

fn an_entry_holds_nothing_but_what_is_meant(place: &dyn Place) {
    let target = place.target();
    if !target.is_own() {
        return;
    }
    let text = |field: &mut [u8], text: &str, fill: u8| {
        field.fill(fill);
        field[..text.len()].copy_from_slice(text.as_bytes());
    };
    let mut wanted = vec![0u8; RECORD as usize];
    wanted[..3].copy_from_slice(&[1, 1, 2]); // RDMA, IPv4, a subsystem of namespaces
    wanted[3] = 4; // whether queues are secured is not said; flow control may be off
    wanted[4..6].copy_from_slice(&1u16.to_le_bytes());
    wanted[6..8].copy_from_slice(&0xffffu16.to_le_bytes());
    wanted[8..10].copy_from_slice(&32u16.to_le_bytes());
    text(&mut wanted[32..64], &target.address().port().to_string(), b' ');
    text(&mut wanted[256..512], target.subnqn().as_str(), 0);
    text(&mut wanted[512..768], &target.address().ip().to_string(), b' ');
    wanted[768..771].copy_from_slice(&[1, 1, 1]); // connected, any provider, RDMA_CM
    let mut discovery = Discovery::new(&target);
    let entries = discovery.entries();
    let subnqn = target.subnqn();
    let entry = entries.iter().find(|(entry, _)| entry.subnqn() == Ok(subnqn));
    let (_, bytes) = entry.expect("the subsystem");
    for (at, (got, wanted)) in bytes.iter().zip(&wanted).enumerate() {
        assert_eq!(got, wanted, "byte {at}");
    }
}

fn a_log_read_in_parts_is_of_one_generation(place: &dyn Place) {
    let target = place.target();
    let mut discovery = Discovery::new(&target);
    let begun = discovery.header();
    let size = (begun.numrec as u32 + 1) * RECORD;
    let whole = discovery.bytes(0, size);
    for step in [500, 1024, 1500] {
        let mut parts = Vec::new();
        while parts.len() < whole.len() {
            let len = step.min(size - parts.len() as u32);
            parts.extend(discovery.bytes(parts.len() as u64, len));
        }
        assert!(parts == whole, "in parts of {step} bytes");
    }
    assert_eq!(discovery.header().genctr, begun.genctr);
    assert_eq!(discovery.bytes(u64::from(size), 4), [0; 4], "nothing is behind the end");
    let (beyond, _) = discovery.part(u64::from(size) + 4, 4);
    assert_code(&beyond, StatusCode::INVALID_FIELD);
}

fn a_discovery_controller_has_no_io_queues(place: &dyn Place) {
    let target = place.target();
    let mut discovery = Discovery::new(&target);
    let Discovery { client, cntlid, .. } = &mut discovery;
    let queue = client.open(1, 32, *cntlid).expect("a connection");
    let data = connect_data(Nqn::new(DISCOVERY_NQN).expect("a name"), *cntlid);
    let refused = send_connect(client, queue, connect(1), &data);
    assert_code(&refused, StatusCode::CONNECT_INVALID_PARAMETERS);
    assert_eq!(ConnectLocation::from_dw0(refused.dw0), ConnectLocation::QID);
    discovery.header();
}

fn a_discovery_controller_keeps_event_requests(place: &dyn Place) {
    let target = place.target();
    let mut discovery = Discovery::new(&target);
    let Discovery { client, admin, .. } = &mut discovery;
    let mut command = commands::async_event();
    let cid = client.cid();
    command.set_cid(cid);
    client.send(*admin, command.as_bytes());
    // Nothing changes, so nothing is told; other commands pass by.
    discovery.header();
    let Discovery { client, admin, .. } = &mut discovery;
    let mut abort = commands::abort(0, cid);
    abort.set_cid(cid + 1);
    client.send(*admin, abort.as_bytes());
    let mut ends = [client.completion(*admin), client.completion(*admin)];
    ends.sort_by_key(|completion| completion.cid);
    assert_code(&ends[0], StatusCode::ABORT_REQUESTED);
    assert!(ends[1].status.is_success() && ends[1].dw0 & 1 == 0, "{:?}", ends[1]);
}

fn the_log_is_not_told_by_other_controllers(place: &dyn Place) {
    let target = place.target();
    let mut s = Session::new(&target);
    let (refused, _) =
        s.admin_in(commands::get_log_page(DISCOVERY_LOG, 0, 0, RECORD, true), RECORD);
    assert_code(&refused, StatusCode::INVALID_LOG_PAGE);
}
