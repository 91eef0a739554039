//! Changes of the configuration.

use super::ask_admin::hostnqn;
use super::op::Op;
use super::world::World;
use nvmf::limit::LimitConfig;
use nvmf::target::{
    ALL_CNTLIDS, AllowedHosts, DiscoveryConfig, DuplicateHosts, NamespaceConfig, PortConfig,
    Referral, SubsystemConfig, TellPorts,
};
use nvmf::{BackingRef, SubsystemRef};
use std::time::Duration;

/// Bytes of a namespace of usual size.
const SIZE: u64 = 64 << 10;

/// What may become of a namespace.
#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    /// It comes.
    Add,
    /// It goes.
    Remove,
    /// Another disk takes its place.
    Replace,
    /// Its size or its protection changes, if it is there.
    Update,
}

fn nqn(number: u8) -> String {
    format!("nqn.2026-01.io.example:disks{}", number % 3)
}

impl World {
    /// One subsystem with two namespaces, and one port.
    pub(super) fn begin(&mut self) {
        let mut op = Op::new(&[]);
        self.add_port(&mut op, 1);
        self.add_subsystem(&mut op, 0);
        for (nsid, lba_shift) in [(1, 9), (2, 12)] {
            let any = self.namespace(&mut op, nsid, lba_shift);
            let config = NamespaceConfig { read_only: false, volatile_cache: true, ..any };
            self.add_namespace(&mut op, SubsystemRef(1), config);
        }
    }

    fn add_port(&mut self, op: &mut Op, id: u16) {
        let addresses = ["192.0.2.1:4420", "[::]:4420", "192.0.2.7:4421", "127.0.0.1:4420"];
        let address = addresses[usize::from(id) % 4].parse().expect("an address of ours");
        let done = self.ask(op, |target, out| target.add_port(PortConfig { id, address }, out));
        self.reached.change(0, done.is_ok());
    }

    fn subsystem_config(op: &mut Op, number: u8) -> SubsystemConfig {
        SubsystemConfig {
            nqn: nqn(number),
            serial: format!("SN{}", number % 3),
            model: "a model".to_owned(),
            hosts: hosts(op),
            duplicates: duplicates(op),
            cntlids: if op.once_in(6) { 7..=8 } else { ALL_CNTLIDS },
        }
    }

    fn add_subsystem(&mut self, op: &mut Op, number: u8) {
        let mut config = World::subsystem_config(op, number);
        if self.subsystems.is_empty() {
            config.hosts = AllowedHosts::Any;
            config.duplicates = DuplicateHosts::Allow;
        }
        let added = self.ask(op, |target, out| target.add_subsystem(config, out));
        self.reached.change(1, added.is_ok());
    }

    fn namespace(&mut self, op: &mut Op, nsid: u32, lba_shift: u8) -> NamespaceConfig {
        let mut uuid = [0xa5; 16];
        uuid[..4].copy_from_slice(&nsid.to_be_bytes());
        self.next_backing += 1;
        NamespaceConfig {
            nsid,
            backing: BackingRef(self.next_backing),
            lba_shift,
            block_count: SIZE >> lba_shift,
            read_only: op.once_in(8),
            uuid,
            nguid: [0; 16],
            eui64: [0; 8],
            volatile_cache: !op.once_in(4),
            discard: true,
            discard_zeroes: op.once_in(2),
            atomic_blocks: 0,
            optimal_blocks: 0,
        }
    }

    fn add_namespace(&mut self, op: &mut Op, id: SubsystemRef, config: NamespaceConfig) {
        let new = config.clone();
        let done = self.ask(op, |target, out| target.add_namespace(id, config, out));
        self.reached.change(2, done.is_ok());
        if done.is_ok()
            && let Some(configured) = self.subsystems.get_mut(&id)
        {
            configured.namespaces.insert(new.nsid, new);
        }
    }

    /// A namespace comes, goes, or changes.
    pub(super) fn change_namespace(&mut self, op: &mut Op) {
        let ids: Vec<SubsystemRef> = self.target.subsystems().map(|s| s.subsystem).collect();
        let Some(&id) = ids.get(op.pick(2, ids.len())) else { return };
        let nsid = [1, 2, 3, 7, 0xffff_fffe, 0][op.pick(3, 6)];
        let shift = if op.once_in(3) { 12 } else { 9 };
        let kind = match op.byte(4) % 5 {
            0 => Kind::Add,
            1 => Kind::Remove,
            2 => Kind::Replace,
            _ => Kind::Update,
        };
        self.make_change(op, id, nsid, kind, shift);
    }

    /// One namespace comes, goes, or changes. One that comes has blocks of that size.
    pub(super) fn make_change(
        &mut self,
        op: &mut Op,
        id: SubsystemRef,
        nsid: u32,
        kind: Kind,
        lba_shift: u8,
    ) {
        let config = self.namespace(op, nsid, lba_shift);
        let Some(configured) = self.subsystems.get(&id) else { return };
        let there = configured.namespaces.get(&nsid).cloned();
        let change = 3 + kind as u32;
        let new = match (kind, there) {
            (Kind::Add, _) => return self.add_namespace(op, id, config),
            (Kind::Remove, _) => {
                let done = self.ask(op, |target, out| target.remove_namespace(id, nsid, out));
                self.reached.change(change, done.is_ok());
                if let Some(configured) = self.subsystems.get_mut(&id) {
                    configured.namespaces.remove(&nsid);
                }
                return;
            }
            (Kind::Replace, _) | (Kind::Update, None) => {
                let new = config.clone();
                let done = self.ask(op, |target, out| target.replace_namespace(id, config, out));
                self.reached.change(change, done.is_ok());
                done.is_ok().then_some(new)
            }
            (Kind::Update, Some(there)) => {
                let blocks = (SIZE >> there.lba_shift) * [1, 2, 1, 0][op.below(4) as usize];
                let new = NamespaceConfig {
                    block_count: blocks + op.below(3),
                    read_only: op.once_in(3),
                    ..there
                };
                let config = new.clone();
                let done = self.ask(op, |target, out| target.update_namespace(id, config, out));
                self.reached.change(change, done.is_ok());
                done.is_ok().then_some(new)
            }
        };
        if let Some(new) = new
            && let Some(configured) = self.subsystems.get_mut(&id)
        {
            configured.namespaces.insert(nsid, new);
        }
    }

    /// Something else changes.
    pub(super) fn change_rest(&mut self, op: &mut Op) {
        // Mostly the one that is there from the beginning.
        let number = op.byte(3).saturating_sub(0x9f);
        let found = self.target.find_subsystem(&nqn(number));
        let kind = op.byte(2) % 13;
        let change = 10 + u32::from(kind);
        let done = match (kind, found) {
            (0 | 1, None) => {
                self.add_subsystem(op, number);
                true
            }
            (0, Some(id)) => {
                let done = self.ask(op, |target, out| target.remove_subsystem(id, out)).is_ok();
                self.subsystems.remove(&id);
                done
            }
            (1 | 2, id) => {
                let id = id.unwrap_or(SubsystemRef(77));
                let config = World::subsystem_config(op, number);
                self.ask(op, |target, out| target.update_subsystem(id, config, out)).is_ok()
            }
            (3 | 4, id) => {
                let id = id.unwrap_or(SubsystemRef(0));
                let hosts = hosts(op);
                self.ask(op, |target, out| target.set_hosts(id, hosts, out)).is_ok()
            }
            (5, _) => {
                let id = u16::from(op.byte(4) % 3);
                self.ask(op, |target, out| target.remove_port(id, out)).is_ok()
            }
            (6 | 7, _) => {
                self.add_port(op, u16::from(op.byte(4) % 3));
                true
            }
            (8, _) => {
                let names = [None, Some(nqn(0)), Some("nqn.2026-01.io.example:d".to_owned())];
                let address = ([192, 0, 2, op.below(3) as u8], 8009).into();
                let referral = Referral { address, nqn: None };
                let config = DiscoveryConfig {
                    nqn: names[op.below(3) as usize].clone(),
                    tell: [TellPorts::Reachable, TellPorts::Asked, TellPorts::All]
                        [op.below(3) as usize],
                    referrals: vec![referral; op.below(3) as usize],
                };
                self.ask(op, |target, out| target.set_discovery(config, out)).is_ok()
            }
            (9 | 10, id) => {
                let id = id.unwrap_or(SubsystemRef(0));
                let nsid = 1 + op.below(3) as u32;
                let limit = op.once_in(3).then(|| limit(op));
                self.ask(op, |target, out| target.set_namespace_limit(id, nsid, limit, out)).is_ok()
            }
            (11, _) => {
                let hosts = (0..op.below(3) as u8).map(hostnqn);
                let limits = hosts.map(|host| (host, limit(op))).collect();
                self.ask(op, |target, out| target.set_host_limits(limits, out));
                true
            }
            _ => {
                let id = found.unwrap_or(SubsystemRef(0));
                let cntlid = self.cntlids().get(op.pick(4, 4)).copied().unwrap_or(1);
                self.ask(op, |target, out| target.drop_controller(id, cntlid, out))
            }
        };
        self.reached.change(change, done);
    }

    /// Ids of the controllers that there are.
    pub(super) fn cntlids(&self) -> Vec<u16> {
        self.target.controllers().map(|controller| controller.cntlid).collect()
    }
}

fn hosts(op: &mut Op) -> AllowedHosts {
    match op.below(4) {
        0 => AllowedHosts::Only((0..op.below(3) as u8).map(hostnqn).collect()),
        _ => AllowedHosts::Any,
    }
}

fn limit(op: &mut Op) -> LimitConfig {
    let rate = [0, 1, 1000, u64::MAX];
    LimitConfig {
        iops: rate[op.below(4) as usize],
        bandwidth: rate[op.below(4) as usize],
        burst: Duration::from_millis(op.below(2000)),
    }
}

fn duplicates(op: &mut Op) -> DuplicateHosts {
    match op.below(6) {
        0 => DuplicateHosts::Refuse,
        1 => DuplicateHosts::OnePerPort,
        _ => DuplicateHosts::Allow,
    }
}
