//! The NVMe controller without its reactor: hosts that send any capsules in any sequence, cores and
//! disks that answer in any order or fail, a configuration that changes, and time.
//!
//! # Contract
//! An input is a sequence of operations of [`OP_LEN`] bytes. Queues and target are the production
//! ones; what the reactor does for them is done here, in every order that it may be done in. What
//! is checked, beside the assertions of the code itself:
//!
//! - a command ends exactly once, with a status that it may have, and never after its queue ended;
//!   a command that nothing is wrong with succeeds;
//! - a success has done what it is for: the operations on disks are those of the command, complete,
//!   within its blocks and its namespace, and its data is the host's, or the disk's;
//! - RDMA names only memory that the host gave for this command, in order, and no place is outside
//!   of its buffer or of its receive, nor used after it was given back;
//! - receives, buffers, claims, reports and Aborts are conserved, and come back when a queue ends;
//! - the target's books agree, and what hosts can make grow is bounded;
//! - nothing waits for ever: when everything is answered, no command is left but event requests.

mod ask_admin;
mod ask_io;
mod changes;
mod conn;
mod core;
mod disks;
mod judge;
mod mail;
mod op;
mod reach;
mod scenes;
mod sent;
mod world;

pub use op::OP_LEN;

use self::core::take_in;
use ask_admin::{Around, ENABLE, Who};
use ask_io::Known;
use conn::Conn;
use nvme_spec_types::fabrics::CNTLID_DYNAMIC;
use nvme_spec_types::nqn::DISCOVERY_NQN;
use nvme_spec_types::rdma_cm::CmRequest;
use nvme_spec_types::{AdminOpcode, Command, Fuse, ZeroBased};
use nvmf::QueueKey;
use nvmf::queue::RecvToken;
use op::Op;
use sent::Sent;
use std::time::Duration;
use world::{CORES, World};

/// Operations of an input that are carried out.
pub const MAX_OPS: usize = 150;

/// Operations from here on are whole scenes.
const SCENES: u8 = 0xf8;

/// Carries out the operations that `data` spells.
///
/// # Panics
/// When a promise is broken.
pub fn capsules(data: &[u8]) -> Vec<u32> {
    let mut world = World::new();
    world.begin();
    for spelled in data.chunks(OP_LEN).take(MAX_OPS) {
        let mut op = Op::new(spelled);
        world.step(&mut op);
        world.check_target();
        world.judge_namespaces();
        match op.byte(15) % 8 {
            0..=3 => {}
            4 | 5 => world.deliver_all(&mut op),
            _ => world.settle(&mut op),
        }
    }
    let last = data.chunks(OP_LEN).take(MAX_OPS).next_back();
    if last.is_some_and(|spelled| Op::new(spelled).byte(14) & 1 == 1) {
        world.end_all();
    }
    world.finish();
    world.reached.into_numbers()
}

/// Which commands were answered how.
pub fn summary(numbers: &[u32]) -> String {
    reach::summary(numbers)
}

impl World {
    fn step(&mut self, op: &mut Op) {
        match op.byte(0) {
            SCENES..=u8::MAX if op.byte(0) & 1 == 0 => return self.race(op),
            SCENES..=u8::MAX => return self.copy_and_change(op),
            _ => {}
        }
        match op.byte(0) % 44 {
            0..=8 => self.send_io(op),
            9 | 10 => self.send_pair(op),
            11..=15 => self.send_admin(op),
            16 | 17 => self.send_fabrics(op),
            18 => self.send_anything(op),
            19..=24 => self.answer_one(op),
            25..=27 => self.deliver_one(op),
            28 => self.settle(op),
            29 | 30 => self.associate(op),
            31 => self.join(op),
            32 => self.knock(op),
            33 => {
                match op.pick(1, CORES + 1) {
                    CORES => self.grant_turn(op),
                    core => self.grant_buffer(op, core),
                };
            }
            34 => {
                let ms = [1, 50, 100, 1500, 31_000, 100_000][op.pick(1, 6)];
                self.pass(op, Duration::from_millis(ms));
            }
            35 | 36 => self.change_namespace(op),
            37 => self.change_rest(op),
            38 => self.lose(op),
            40 | 41 => self.abort(op),
            42 | 43 => self.set_up(op),
            _ => self.change_backing(op),
        }
    }

    /// The command reaches its queue, if the host may send one.
    fn deliver(&mut self, op: &mut Op, key: QueueKey, mut sent: Sent) {
        let (token, now) = (self.next_token, self.now);
        let Some(conn) = self.conns.get_mut(&key) else { return };
        // Without a receive nothing arrives.
        if !conn.open || conn.held.len() >= conn.entries.into() {
            return;
        }
        self.next_token += 1;
        sent.arrived_in = conn.view().map(|view| view.generation);
        if conn.on_io_queue() && judge::is_sound(conn, &sent) {
            sent.sound_in = sent.arrived_in;
        }
        let (bytes, received) = (*sent.command.as_bytes(), sent.received());
        conn.activity.mark(now);
        conn.take(token, sent);
        self.reached.depth(0, conn.sent.len());
        self.tell_queue(op, key, |queue, out| {
            take_in(queue, &bytes, received, RecvToken(token), out);
        });
    }

    /// A queue of those that are of use.
    fn pick_where(&self, which: u8, wanted: impl Fn(&Conn) -> bool) -> Option<QueueKey> {
        let found: Vec<QueueKey> =
            self.conns.values().filter(|c| c.open && wanted(c)).map(|c| c.key).collect();
        found.get(usize::from(which) % found.len().max(1)).copied().or_else(|| self.pick(which))
    }

    fn send_io(&mut self, op: &mut Op) {
        let key = self.pick_where(op.byte(1), |c| c.on_io_queue() && c.is_bound());
        let Some((key, view)) = key.and_then(|k| Some((k, self.conns[&k].view()?))) else { return };
        let cid = u16::from(op.byte(3) % 24);
        let count = match op.byte(13) {
            0xf4..=0xfd => 12,
            0xfe | 0xff => 70,
            _ => 1,
        };
        for nth in 0..count {
            let known = Known { view: &view, disks: &self.disks };
            let sent = ask_io::io(op, cid + nth, known);
            self.deliver(op, key, sent);
            if count > 20 {
                self.settle(op);
            }
        }
    }

    fn send_pair(&mut self, op: &mut Op) {
        let key = self.pick_where(op.byte(1), |c| c.on_io_queue() && c.is_bound());
        let Some((key, view)) = key.and_then(|k| Some((k, self.conns[&k].view()?))) else { return };
        let cid = u16::from(op.byte(3) % 24);
        let known = Known { view: &view, disks: &self.disks };
        let [compare, write] = ask_io::pair(op, [cid, cid + 1], known);
        self.deliver(op, key, compare);
        if op.byte(11) >= 0xf0 {
            self.send_io(op);
        }
        self.deliver(op, key, write);
    }

    fn send_admin(&mut self, op: &mut Op) {
        let strays = op.byte(13) >= 0xf0;
        let key = self.pick_where(op.byte(1), |c| c.on_io_queue() == strays && c.is_bound());
        let Some(key) = key else { return };
        let sent = ask_admin::admin(op, u16::from(op.byte(3) % 24));
        self.deliver(op, key, sent);
    }

    /// A host sets what changes how it is served, or waits for events.
    fn set_up(&mut self, op: &mut Op) {
        let Some(key) = self.pick_where(op.byte(1), |c| !c.on_io_queue() && c.is_bound()) else {
            return;
        };
        let cid = u16::from(op.byte(3) % 24);
        let waits = if op.byte(2).is_multiple_of(8) { 1 + u16::from(op.byte(4) % 8) } else { 0 };
        for nth in 0..waits {
            self.deliver(op, key, ask_admin::wait(cid + nth));
        }
        if waits == 0 {
            let set = ask_admin::set_up(op, cid);
            self.deliver(op, key, set);
        }
    }

    /// A host aborts a command that it waits for.
    fn abort(&mut self, op: &mut Op) {
        let waits = |c: &Conn| c.is_bound() && c.unanswered().next().is_some();
        let aimed_at = self.pick_where(op.byte(1), waits);
        let Some(conn) = aimed_at.map(|key| &self.conns[&key]) else { return };
        let waiting: Vec<u16> = conn.unanswered().map(|sent| sent.command.cid()).collect();
        let Some(&cid) = waiting.get(op.pick(2, waiting.len())) else { return };
        let (qid, own) = (conn.qid, conn.controller());
        let admin = self.conns.values().find(|c| !c.on_io_queue() && c.controller() == own);
        let Some(admin) = admin.map(|conn| conn.key) else { return };
        let abort = ask_admin::abort(u16::from(op.byte(3) % 24), (qid, cid));
        self.deliver(op, admin, Sent::new(abort, Vec::new(), Vec::new()));
    }

    fn send_fabrics(&mut self, op: &mut Op) {
        let Some(key) = self.pick(op.byte(1)) else { return };
        let names = self.names();
        let cntlids = self.cntlids();
        let conn = &self.conns[&key];
        let around =
            Around { subsystems: &names, cntlids: &cntlids, qid: conn.qid, entries: conn.entries };
        let sent = ask_admin::fabrics(op, u16::from(op.byte(3) % 24), around);
        self.deliver(op, key, sent);
    }

    fn send_anything(&mut self, op: &mut Op) {
        let Some(key) = self.pick(op.byte(1)) else { return };
        let mut bytes = [0; 64];
        bytes.iter_mut().for_each(|byte| *byte = op.roll() as u8);
        let mut command = Command::from_bytes(bytes);
        command.set_cid(u16::from(op.byte(3) % 24));
        if op.once_in(4) {
            command.set_fuse(Fuse::Normal);
        }
        let capsule = (0..op.below(200)).map(|_| op.roll() as u8).collect();
        self.deliver(op, key, Sent::new(command, capsule, Vec::new()));
        if op.byte(2) >= 0xfc {
            // Too short to be a capsule.
            let Some(conn) = self.conns.get_mut(&key).filter(|conn| conn.open) else { return };
            let token = self.next_token;
            self.next_token += 1;
            conn.take(token, Sent::new(command, Vec::new(), Vec::new()));
            let received = op.below(64) as u32;
            self.tell_queue(op, key, |queue, out| {
                take_in(queue, &[0; 64], received, RecvToken(token), out);
            });
        }
    }

    fn names(&self) -> Vec<String> {
        let configured = self.target.subsystems().map(|status| status.nqn.to_string());
        [DISCOVERY_NQN.to_owned(), "nqn.2026-01.io.example:nobody".to_owned()]
            .into_iter()
            .chain(configured)
            .collect()
    }

    fn answer_one(&mut self, op: &mut Op) {
        if !self.owed.is_empty() {
            let fails = op.byte(3) >= 0xe0;
            self.answer(op, op.pick(1, self.owed.len()), fails);
        }
    }

    fn deliver_one(&mut self, op: &mut Op) {
        let core = op.pick(1, CORES);
        if op.byte(2) & 1 == 0 {
            if let Some(message) = self.to_core[core].pop_front() {
                self.on_core_mail(op, core, message);
            }
        } else if let Some(message) = self.to_control[core].pop_front() {
            self.on_control_mail(op, message);
        }
    }

    fn deliver_all(&mut self, op: &mut Op) {
        loop {
            let mut idle = true;
            for core in 0..CORES {
                while let Some(message) = self.to_core[core].pop_front() {
                    idle = false;
                    self.on_core_mail(op, core, message);
                }
                while let Some(message) = self.to_control[core].pop_front() {
                    idle = false;
                    self.on_control_mail(op, message);
                }
            }
            if idle {
                return;
            }
        }
    }

    /// Everything that anybody waits for happens.
    fn settle(&mut self, op: &mut Op) {
        for _ in 0..100_000 {
            self.deliver_all(op);
            let admitted = self.grant_turn(op);
            let granted = (0..CORES).any(|core| self.grant_buffer(op, core)) || admitted;
            let answered = (0..self.owed.len()).any(|at| self.answer(op, at, false));
            if !granted && !answered {
                assert!(self.owed.is_empty(), "waits for what never comes: {:?}", self.owed);
                return;
            }
        }
        panic!("there is no end to what is asked for");
    }

    /// A host makes an association, as hosts do.
    fn associate(&mut self, op: &mut Op) {
        let names = self.names();
        let discovery = op.byte(2) >= 0xe0;
        let subnqn = match discovery {
            true => &names[0],
            false => names.get(2 + op.pick(3, names.len() - 1)).unwrap_or(&names[names.len() - 1]),
        };
        let who = Who { host: op.byte(4), id: op.byte(5) };
        let kato_ms = [0, 0, 1500, 100_000][op.pick(6, 4)];
        let entries = 2 + u16::from(op.byte(7) % 15);
        let Some(admin) = self.connect_well(0, entries.max(4), 0) else { return };
        let around = Around { subsystems: &names, cntlids: &[], qid: 0, entries: entries.max(4) };
        let cid = u16::from(op.byte(8));
        let connect = ask_admin::connect(cid, around, subnqn, CNTLID_DYNAMIC, who, kato_ms);
        self.deliver(op, admin, connect);
        self.settle(op);
        let made = self.target.controllers().find(|c| c.queues.iter().any(|q| q.queue == admin));
        let Some(cntlid) = made.map(|controller| controller.cntlid) else { return };
        self.deliver(op, admin, ask_admin::set_cc(cid, ENABLE));
        self.settle(op);
        if op.byte(9) & 1 == 0 {
            self.deliver(op, admin, ask_admin::wait(24 + u16::from(op.byte(9) % 4)));
        }
        for qid in 1..=1 + u16::from(op.byte(10) % 3) {
            let Some(queue) = self.connect_well(qid, entries, cntlid) else { return };
            let around = Around { qid, entries, ..around };
            let connect = ask_admin::connect(cid, around, subnqn, cntlid, who, 0);
            self.deliver(op, queue, connect);
        }
        self.settle(op);
    }

    /// A host connects one more queue of a controller that there is.
    fn join(&mut self, op: &mut Op) {
        let controllers: Vec<_> = self.target.controllers().collect();
        let Some(found) = controllers.get(op.pick(1, controllers.len())) else { return };
        let qid = u16::from(op.byte(2) % 6);
        let entries = 2 + u16::from(op.byte(7) % 15);
        let (cntlid, subnqn) = (found.cntlid, found.subnqn.to_string());
        let host = found.hostnqn.as_bytes().last().map_or(0, |last| last - b'0');
        let who = Who { host, id: if op.byte(4) >= 0xe0 { 9 } else { found.hostid[0] } };
        let Some(queue) = self.connect_well(qid, entries, cntlid) else { return };
        let around = Around { subsystems: &[], cntlids: &[], qid, entries };
        let asked = if op.byte(5) >= 0xe0 { cntlid.wrapping_add(1) } else { cntlid };
        let connect = ask_admin::connect(u16::from(op.byte(8)), around, &subnqn, asked, who, 0);
        self.deliver(op, queue, connect);
    }

    /// Somebody asks for a connection in any way.
    fn knock(&mut self, op: &mut Op) {
        let request = CmRequest {
            recfmt: u16::from(op.byte(1) >= 0xe0),
            qid: u16::from(op.byte(2) % 8),
            hrqsize: u16::from(op.byte(3) % 4),
            hsqsize: ZeroBased::<u16>::from_raw(u16::from(op.byte(4) % 36)),
            cntlid: match op.byte(5) % 4 {
                0 => 0,
                1 => op.roll() as u16,
                _ => self.cntlids().first().copied().unwrap_or(CNTLID_DYNAMIC),
            },
        };
        self.connect(&request, u16::from(op.byte(6) % 3));
    }

    /// A connection is lost.
    fn lose(&mut self, op: &mut Op) {
        let Some(key) = self.pick(op.byte(1)) else { return };
        match op.byte(2) % 2 {
            0 => self.end_on_core(op, key, Some("a receive failed".to_owned())),
            _ => self.end(op, key, "the host disconnected"),
        }
    }

    /// A backing goes, or they all come back.
    fn change_backing(&mut self, op: &mut Op) {
        if op.byte(1) & 1 == 0 {
            self.gone.clear();
        } else {
            let backings = self.subsystems.values().flat_map(|s| s.namespaces.values());
            let backings: Vec<_> = backings.map(|ns| ns.backing).collect();
            self.gone.extend(backings.get(op.pick(2, backings.len())));
        }
    }

    /// Every connection ends, whatever is under way.
    fn end_all(&mut self) {
        let mut op = Op::new(&[0xfe]);
        let keys: Vec<QueueKey> = self.conns.keys().copied().collect();
        for key in keys {
            self.end(&mut op, key, "the end");
        }
    }

    /// Everything is answered, and then everything ends: nothing may be left.
    fn finish(&mut self) {
        let mut op = Op::new(&[0xff]);
        self.settle(&mut op);
        self.check_target();
        let mut held = 0;
        for conn in self.conns.values().filter(|conn| conn.open) {
            for sent in conn.unanswered() {
                let command = &sent.command;
                let first = conn.on_io_queue() && command.fuse() == Fuse::First;
                let waits = command.admin_opcode() == AdminOpcode::ASYNC_EVENT_REQUEST;
                assert!(first || waits && !conn.on_io_queue(), "never answered: {command:?}");
                held += usize::from(!first);
            }
            assert_eq!(conn.reports, 0, "reports that never arrived");
        }
        let events: usize = self.target.controllers().map(|c| c.events_held).sum();
        assert_eq!(held, events, "event requests of hosts, and of controllers");
        self.end_all();
        self.settle(&mut op);
        self.check_target();
        assert!(self.conns.is_empty(), "queues that never end");
        assert!(self.claims.is_empty() && self.held_back.is_empty(), "claims that never end");
        assert_eq!(self.target.controllers().count(), 0, "controllers without queues");
        assert_eq!(self.target.timeout(), None, "a timer without a controller");
    }
}
