//! Sequences that operations of their own make up too seldom: a race for a few blocks, and a Copy
//! whose source changes under it. The order in which things happen is the input's.

use super::ask_admin;
use super::changes::Kind;
use super::conn::Conn;
use super::op::Op;
use super::sent::Sent;
use super::world::{CORES, World};
use nvme_spec_types::nvm::{BlockCommand, BlockFlags, Copy, CopyRange};
use nvme_spec_types::{Command, Fuse, IoOpcode, SglDescriptor, ZeroBased};
use nvmf::QueueKey;
use nvmf::view::NamespaceView;
use std::sync::Arc;

/// Blocks that are fought for.
const PRIZE: u64 = 3;
/// Commands of a race.
const RUNNERS: u64 = 6;
/// The namespace that a Copy takes its blocks from.
const SOURCE: u32 = 3;

impl World {
    /// Hosts fight for a few blocks, with fused pairs and other commands that change them.
    pub(super) fn race(&mut self, op: &mut Op) {
        if self.data_queues().len() < 2 {
            self.associate(op);
        }
        for _ in 0..2 + op.below(RUNNERS) {
            let keys = self.data_queues();
            let Some(&key) = keys.get(op.below(keys.len().max(1) as u64) as usize) else { return };
            let writable = |ns: &&Arc<NamespaceView>| !ns.read_only && ns.block_count >= PRIZE;
            let view = self.conns[&key].view();
            let found = view.and_then(|view| view.namespaces.iter().find(writable).cloned());
            let Some(prize) = found else { continue };
            let cid = op.below(20) as u16;
            let slba = op.below(PRIZE);
            let count = 1 + op.below(PRIZE - slba) as u32;
            let offset = slba << prize.lba_shift;
            let len = u64::from(count) << prize.lba_shift;
            let there = self.disks.read(prize.backing, offset, len);
            let new: Vec<u8> =
                (0..len).map(|at| op.byte(9) ^ cid as u8 ^ (at >> 4) as u8).collect();
            let block = |opcode, cid, fuse, data| {
                let nlb = ZeroBased::<u16>::saturating(count);
                let command = BlockCommand::new(slba, nlb);
                let mut command = command.to_command(opcode, cid, prize.nsid, memory(cid, len));
                command.set_fuse(fuse);
                Sent::new(command, Vec::new(), data)
            };
            match op.below(4) {
                0 => self.deliver(op, key, block(IoOpcode::WRITE, cid, Fuse::Normal, new)),
                1 => {
                    let mut zeroes = block(IoOpcode::WRITE_ZEROES, cid, Fuse::Normal, Vec::new());
                    zeroes.command.set_sgl1(SglDescriptor::NO_DATA);
                    let zeroes = Sent::new(zeroes.command, Vec::new(), Vec::new());
                    self.deliver(op, key, zeroes);
                }
                _ => {
                    self.deliver(op, key, block(IoOpcode::COMPARE, cid, Fuse::First, there));
                    self.deliver(op, key, block(IoOpcode::WRITE, cid + 1, Fuse::Second, new));
                }
            }
            let moves = op.below(4);
            self.stir(op, moves);
        }
        self.stir(op, 60);
    }

    /// The source of a Copy of several portions goes, changes or becomes another while it is copied.
    pub(super) fn copy_and_change(&mut self, op: &mut Op) {
        if self.data_queues().is_empty() {
            self.associate(op);
        }
        let keys = self.data_queues();
        let Some(&key) = keys.get(op.pick(1, keys.len())) else { return };
        let Some((subsystem, _)) = self.conns[&key].controller() else { return };
        let Some(target) = self.to_copy_to(key) else { return };
        self.make_change(op, subsystem, SOURCE, Kind::Add, target.lba_shift);
        self.enable_copy_formats(op, key);
        self.settle(op);
        let near = op.once_in(3);
        let copy = copy(op, &target, if near { target.nsid } else { SOURCE });
        self.deliver(op, key, copy);
        let moves = op.below(12);
        self.stir(op, moves);
        match near {
            true => self.change_namespace(op),
            false => {
                let kind = [Kind::Remove, Kind::Replace, Kind::Update][op.below(3) as usize];
                self.make_change(op, subsystem, SOURCE, kind, target.lba_shift);
            }
        }
        self.stir(op, 40);
    }

    /// Open I/O queues that are part of a controller.
    fn data_queues(&self) -> Vec<QueueKey> {
        let serves = |conn: &&Conn| conn.open && conn.on_io_queue() && conn.view().is_some();
        self.conns.values().filter(serves).map(|conn| conn.key).collect()
    }

    /// A namespace that a Copy may write to.
    fn to_copy_to(&self, key: QueueKey) -> Option<Arc<NamespaceView>> {
        let view = self.conns[&key].view()?;
        let fits = |ns: &&Arc<NamespaceView>| !ns.read_only && ns.nsid != SOURCE;
        view.namespaces.iter().find(fits).cloned()
    }

    /// The host of a queue says that it knows all formats of Copy.
    fn enable_copy_formats(&mut self, op: &mut Op, key: QueueKey) {
        let own = self.conns[&key].controller();
        let admin = self.conns.values().find(|c| !c.on_io_queue() && c.controller() == own);
        if let Some(admin) = admin.filter(|conn| conn.open).map(|conn| conn.key) {
            self.deliver(op, admin, ask_admin::enable_copy_formats(21));
        }
    }

    /// So many things happen that somebody waits for, in any order.
    fn stir(&mut self, op: &mut Op, moves: u64) {
        for _ in 0..moves {
            let core = op.below(CORES as u64) as usize;
            match op.below(8) {
                0 => {
                    if let Some(message) = self.to_core[core].pop_front() {
                        self.on_core_mail(op, core, message);
                    }
                }
                1 => {
                    if let Some(message) = self.to_control[core].pop_front() {
                        self.on_control_mail(op, message);
                    }
                }
                2 => {
                    self.grant_buffer(op, core);
                }
                3 => {
                    self.grant_turn(op);
                }
                _ => {
                    let at = op.below(self.owed.len().max(1) as u64) as usize;
                    if at < self.owed.len() {
                        self.answer(op, at, false);
                    }
                }
            }
        }
    }
}

/// Memory of a host's for a command; no two commands of a race have the same.
fn memory(cid: u16, len: u64) -> SglDescriptor {
    let addr = 0x7000_0000_0000 | u64::from(cid) << 32;
    SglDescriptor::Keyed { addr, len: len as u32, key: 0x100 | u32::from(cid), invalidate: false }
}

/// A Copy of the first half of a namespace to the second half of the target.
fn copy(op: &mut Op, target: &NamespaceView, snsid: u32) -> Sent {
    let half = (target.block_count / 2).max(1);
    let ranges = 1 + op.below(3);
    let part = (half / ranges).clamp(1, 0x1_0000);
    let format = 2;
    let size = CopyRange::size(format).expect("a format that there is");
    let mut list = vec![0; size * ranges as usize];
    for (at, bytes) in list.chunks_exact_mut(size).enumerate() {
        let (slba, nlb) = (at as u64 * part, ZeroBased::<u16>::saturating(part as u32));
        CopyRange { snsid, slba, nlb, sopt: 0 }.encode(format, bytes);
    }
    let copy = Copy {
        sdlba: half,
        nr: ZeroBased::<u8>::saturating(ranges as u16),
        format,
        prinfo_read: 0,
        flags: BlockFlags::empty(),
    };
    let cid = op.below(20) as u16;
    let command: Command = copy.to_command(cid, target.nsid, memory(cid, list.len() as u64));
    Sent::new(command, Vec::new(), list)
}
