//! A connection manager, its upper layer, and peers that send any messages.

use super::{OP_LEN, Op};
use crate::cm::{ActiveOpen, Event, Machine, Reply};
use crate::psn::Psn;
use crate::wire::cm::{Answered, Mad, Message, Rej, Rep, Req};
use rdma::ConnId;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

const US: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
const PORT: u16 = 4420;

/// What the upper layer has been told of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Told {
    Requested,
    Accepted,
    Up,
    Opened,
    Asked,
    Over,
}

struct World {
    now: Duration,
    machine: Machine,
    told: BTreeMap<ConnId, Told>,
    /// Communication ids of ours that messages revealed, and the queue pair in them.
    ids: Vec<(u32, u32)>,
    seen: Vec<u32>,
}

/// Carries out the operations that `data` spells on a connection manager.
///
/// # Panics
/// When its books disagree, an event comes out of turn, or something is never forgotten.
pub fn connections(data: &[u8]) -> Vec<u32> {
    let mut world = World {
        now: Duration::from_secs(1),
        machine: Machine::new([7; 32]),
        told: BTreeMap::new(),
        ids: vec![(1, 1)],
        seen: Vec::new(),
    };
    for op in data.chunks(OP_LEN).take(300) {
        world.carry_out(&Op(op));
        world.look();
    }
    world.finish();
    world.seen.sort_unstable();
    world.seen.dedup();
    world.seen
}

fn peer(which: u8) -> IpAddr {
    IpAddr::from([10, 0, 0, 2 + which % 3])
}

impl World {
    fn carry_out(&mut self, op: &Op<'_>) {
        let conn = self.pick(op.byte(1));
        match op.byte(0) % 16 {
            0..=8 => self.message(op),
            9 | 10 => self.accept(conn, op),
            11 => {
                self.machine.reject(self.now, conn, &[op.byte(2)]);
                if self.told.get(&conn) == Some(&Told::Requested) {
                    self.told.insert(conn, Told::Over);
                }
            }
            12 => {
                self.machine.disconnect(self.now, conn);
                // An ending that our own side asked for is not told of.
                self.told.entry(conn).and_modify(|told| *told = Told::Over);
            }
            13 => self.open(op),
            14 => {
                self.machine.abandon(conn);
                self.told.entry(conn).and_modify(|told| *told = Told::Over);
            }
            _ => {
                self.now += Duration::from_millis(u64::from(op.word(2)) % 30_000);
                self.machine.on_time(self.now);
            }
        }
    }

    fn pick(&self, which: u8) -> ConnId {
        let at = usize::from(which) % self.told.len().max(1);
        self.told.keys().nth(at).copied().unwrap_or(ConnId(9999))
    }

    fn accept(&mut self, conn: ConnId, op: &Op<'_>) {
        let reply = Reply {
            qpn: u32::from(op.byte(2)) + 2,
            starting_psn: Psn::new(1),
            responder_resources: op.byte(3),
            initiator_depth: op.byte(4),
            rnr_retry: 7,
            private_data: vec![op.byte(5); usize::from(op.byte(6))],
        };
        let could = self.told.get(&conn) == Some(&Told::Requested);
        let did = self.machine.accept(self.now, conn, reply);
        assert!(could || !did, "accepted what was not asked");
        if did {
            self.told.insert(conn, Told::Accepted);
        }
    }

    fn open(&mut self, op: &Op<'_>) {
        let open = ActiveOpen {
            local: US,
            to: SocketAddr::new(peer(op.byte(2)), PORT),
            qpn: u32::from(op.byte(3)) + 2,
            starting_psn: Psn::new(2),
            mtu_code: 3,
            traffic_class: 0,
            responder_resources: 1,
            initiator_depth: 1,
            private_data: Vec::new(),
        };
        let conn = self.machine.open(&open);
        self.told.insert(conn, Told::Opened);
        if op.byte(4) & 1 == 0 {
            assert!(self.machine.connect(self.now, conn, &open));
            self.told.insert(conn, Told::Asked);
        } else {
            self.ids.push((self.machine.comm_id(conn), open.qpn));
        }
    }

    fn message(&mut self, op: &Op<'_>) {
        let (ours, qpn) = self.ids[usize::from(op.byte(2)) % self.ids.len()];
        let theirs = u32::from(op.byte(3) % 16) + 1;
        let ours = if op.byte(4) == 0xff { op.long(4) } else { ours };
        let qpn = if op.byte(5) > 0xf0 { op.long(5) & 0xff_ffff } else { qpn };
        let message = match op.byte(6) % 8 {
            0 | 1 => Message::Req(Box::new(Req {
                local_comm_id: theirs,
                port: if op.byte(7) > 0xf0 { 1 } else { PORT },
                ca_guid: u64::from(op.byte(8) & 1),
                qpn: u32::from(op.byte(9) & 3),
                responder_resources: op.byte(10),
                initiator_depth: op.byte(11),
                starting_psn: Psn::new(op.long(8)),
                mtu_code: op.byte(10) % 7,
                retry_count: 7,
                rnr_retry: 7,
                ack_timeout: 17,
                cm_timeout: 20,
                max_cm_retries: 15,
                local_gid: peer(op.byte(1)),
                remote_gid: US,
                flow_label: 1,
                traffic_class: 0,
                hop_limit: 64,
                source: SocketAddr::new(peer(op.byte(1)), op.word(9)),
                dest: US,
                private_data: [op.byte(11); 56],
            })),
            2 => Message::Rep(Box::new(Rep {
                local_comm_id: theirs,
                remote_comm_id: ours,
                qpn,
                starting_psn: Psn::new(3),
                responder_resources: op.byte(8),
                initiator_depth: op.byte(9),
                rnr_retry: 7,
                ca_guid: 1,
                private_data: [0; 196],
            })),
            3 => Message::Rtu { local_comm_id: theirs, remote_comm_id: ours },
            4 => Message::Rej(Box::new(Rej {
                local_comm_id: theirs,
                remote_comm_id: ours,
                answered: Answered::Rep,
                reason: op.word(8),
                private_data: [0; 148],
            })),
            5 => Message::Mra {
                local_comm_id: theirs,
                remote_comm_id: ours,
                answered: Answered::Req,
                timeout: op.byte(8) & 31,
            },
            6 => Message::Dreq { local_comm_id: theirs, remote_comm_id: ours, qpn },
            _ => Message::Drep { local_comm_id: theirs, remote_comm_id: ours },
        };
        let addressed = self.told.iter().find(|(conn, _)| self.machine.comm_id(**conn) == ours);
        let state = addressed.map_or(9, |(_, told)| *told as u32);
        self.seen.push(3 << 16 | u32::from(op.byte(6) % 8) << 8 | state);
        // Whatever is said must survive the wire.
        let bytes = Mad { transaction: op.long(8).into(), message }.to_bytes();
        let mad = Mad::parse(&bytes).expect("what we build is well formed");
        self.machine.on_mad(self.now, US, peer(op.byte(1)), mad, |at| at.port() == PORT);
    }

    /// Takes what the machine has to say, and checks that it is in turn.
    fn look(&mut self) {
        while let Some(event) = self.machine.poll_event() {
            let (conn, number) = match &event {
                Event::Request { conn, .. } => (*conn, 0),
                Event::Established(conn) => (*conn, 1),
                Event::Accepted { conn, .. } => (*conn, 2),
                Event::Refused { conn, .. } => (*conn, 3),
                Event::Ended { conn, .. } => (*conn, 4),
            };
            let was = self.told.get(&conn).copied();
            let is = match (&event, was) {
                (Event::Request { .. }, None) => Told::Requested,
                (Event::Established(_), Some(Told::Accepted))
                | (Event::Accepted { .. }, Some(Told::Asked)) => Told::Up,
                (Event::Refused { .. }, Some(Told::Asked)) => Told::Over,
                (
                    Event::Ended { .. },
                    Some(Told::Requested | Told::Accepted | Told::Asked | Told::Up),
                ) => Told::Over,
                other => panic!("out of turn: {other:?}"),
            };
            self.told.insert(conn, is);
            self.seen.push(1 << 16 | number << 8 | was.map_or(9, |told| told as u32));
        }
        while let Some(out) = self.machine.poll_transmit() {
            let (kind, ours) = match &out.mad.message {
                Message::Req(req) => (0, Some((req.local_comm_id, req.qpn))),
                Message::Rep(rep) => (1, Some((rep.local_comm_id, rep.qpn))),
                Message::Rej(rej) => (2 + u32::from(rej.reason), None),
                Message::Rtu { .. } => (100, None),
                Message::Mra { .. } => (101, None),
                Message::Dreq { .. } => (102, None),
                Message::Drep { .. } => (103, None),
            };
            if let Some(ours) = ours
                && !self.ids.contains(&ours)
            {
                self.ids.push(ours);
            }
            self.seen.push(2 << 16 | kind);
        }
        self.machine.audit();
        self.seen.push(4 << 16 | self.machine.len().checked_ilog2().unwrap_or(0));
        let waits = self.machine.timeout();
        assert!(waits.is_none_or(|due| due + Duration::from_secs(60) > self.now));
    }

    /// With the peers silent, only what is up or not yet asked for stays.
    fn finish(&mut self) {
        for _ in 0..100_000 {
            let Some(due) = self.machine.timeout() else { break };
            self.now = self.now.max(due);
            self.machine.on_time(self.now);
            self.look();
        }
        assert_eq!(self.machine.timeout(), None, "a timer that never ends");
        let stays = |told: &&Told| matches!(told, Told::Up | Told::Opened);
        assert_eq!(self.machine.len(), self.told.values().filter(stays).count());
    }
}
