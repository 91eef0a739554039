//! A long random life: hosts come and go, everything completes in any order, every turn adds up.

use super::*;
use backing::IoError;
use nvmf::Outcome;
use rdma::WcStatus;

/// A small generator of its own: the same seed is the same life.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % limit
    }
}

struct Life {
    rig: Rig,
    random: Random,
    next_key: u64,
    /// Queues that are attached, with their queue pairs.
    open: Vec<(QueueKey, QpId)>,
    executes: Vec<(QueueKey, Slot)>,
    /// Commands in flight of each queue, so that a host keeps to its entries.
    cid: u16,
}

impl Life {
    fn step(&mut self) {
        match self.random.below(16) {
            0 if self.open.len() < 4 => self.attach(),
            1 if self.random.below(8) == 0 => self.with_queue(|life, key, _| {
                life.rig.tell(ToCore::Close(key));
            }),
            2..=7 => self.with_queue(Life::capsule),
            8..=10 => self.with_queue(|life, _, qp| {
                let bad = life.random.below(200) == 0;
                let status = if bad { WcStatus::RemoteAccess } else { WcStatus::Success };
                life.rig.core.device_mut().complete(qp, status);
            }),
            11..=13 => {
                let count = self.rig.core.io().requests.len() as u64;
                if count > 0 {
                    let at = self.random.below(count) as usize;
                    let failed = self.random.below(10) == 0;
                    let io = self.rig.core.io_mut();
                    io.requests.rotate_left(at);
                    io.finish(if failed { Err(IoError::Busy) } else { Ok(()) });
                }
            }
            14 => {
                if let Some((key, slot)) = self.executes.pop() {
                    self.rig.tell(ToCore::Complete { key, slot, outcome: Outcome::ok() });
                }
            }
            _ => self.turn(),
        }
    }

    fn attach(&mut self) {
        let used = |qp: u32| self.open.iter().any(|(_, open)| open.0 == qp);
        let qp = QpId((0..9).find(|qp| !used(*qp)).unwrap());
        let key = QueueKey(self.next_key);
        self.next_key += 1;
        let limits = QpLimits {
            max_send_wr: 1 + self.random.below(20) as u32,
            max_reads: 1 + self.random.below(4) as u32,
            max_inline: 0,
        };
        let mut endpoint =
            if self.random.below(2) == 0 { shared_endpoint(qp, 24) } else { endpoint(qp, limits) };
        endpoint.limits = limits;
        let host_receives = 1 + self.random.below(8) as u16;
        let params = QueueParams { host_receives, ..params() };
        self.rig.tell(ToCore::Attach { key, endpoint, params });
        if matches!(self.rig.out.last(), Some(ToControl::Attached(_))) {
            self.open.push((key, qp));
            self.rig.tell(ToCore::Bind { key, binding: binding() });
            self.rig.tell(ToCore::Established(key));
        }
        self.sort_mail();
    }

    fn with_queue(&mut self, act: fn(&mut Life, QueueKey, QpId)) {
        if !self.open.is_empty() {
            let at = self.random.below(self.open.len() as u64) as usize;
            let (key, qp) = self.open[at];
            act(self, key, qp);
        }
    }

    fn capsule(&mut self, _: QueueKey, qp: QpId) {
        if !self.rig.core.device().can_deliver(qp) {
            return;
        }
        self.cid = self.cid.wrapping_add(1);
        let cid = self.cid;
        let pieces = 1 + self.random.below(16) as u32;
        let (command, data) = match self.random.below(8) {
            0 => (read(cid, 512 * pieces), Vec::new()),
            1 => (read(cid, MAX_TRANSFER), Vec::new()),
            2 => (write(cid, 512 * pieces), Vec::new()),
            3 => scattered(IoOpcode::READ, cid, pieces),
            4 => scattered(IoOpcode::WRITE, cid, pieces),
            5 => {
                let offset = self.random.below(2) * 8;
                let sgl = SglDescriptor::InCapsule { offset, len: 512 };
                (blocks(IoOpcode::WRITE, cid, 1, sgl), vec![1; 520])
            }
            6 => (blocks(IoOpcode::COMPARE, cid, pieces, keyed(0, 512 * pieces)), Vec::new()),
            _ => {
                let fctype = nvme_spec_types::FabricsType::AUTH_RECEIVE;
                (Command::fabrics(fctype, cid, keyed(0, 64)), Vec::new())
            }
        };
        self.rig.deliver(qp, &command, &data);
    }

    fn turn(&mut self) {
        self.rig.turn();
        self.sort_mail();
    }

    fn sort_mail(&mut self) {
        for message in self.rig.told() {
            match message {
                ToControl::Execute { key, slot, .. } => self.executes.push((key, slot)),
                ToControl::Detached { key, .. } => self.open.retain(|(open, _)| *open != key),
                _ => {}
            }
        }
    }

    /// Everything ends well, or at least ends.
    fn finish(&mut self) {
        for (key, _) in self.open.clone() {
            self.rig.tell(ToCore::Close(key));
        }
        for _ in 0..100 {
            while !self.rig.core.io().requests.is_empty() {
                self.rig.core.io_mut().finish(Ok(()));
            }
            self.turn();
        }
    }
}

#[test]
fn nothing_is_lost_in_a_long_random_life() {
    let (mut capsules, mut orphans_seen) = (0, false);
    for seed in 1..=16u64 {
        let mut life = Life {
            rig: Rig::new(4 * MAX_TRANSFER),
            random: Random(0x9e37_79b9_7f4a_7c15u64.wrapping_mul(seed)),
            next_key: 1,
            open: Vec::new(),
            executes: Vec::new(),
            cid: 0,
        };
        for _ in 0..3000 {
            life.step();
            orphans_seen |= life.rig.core.stats().queues as usize > life.open.len();
        }
        life.finish();
        assert_eq!(life.open, [], "seed {seed}");
        assert!(life.rig.core.is_idle(), "seed {seed}");
        let stats = life.rig.core.stats();
        assert_eq!((stats.queues, stats.transfer_bytes), (0, 0), "seed {seed}");
        capsules += stats.capsules;
    }
    assert!(capsules > 3000 && orphans_seen, "the life was dull: {capsules} capsules");
}
