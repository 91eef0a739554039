//! Two ends in one process, over real sockets on the loopback interface.
//!
//! Time is the world's own and passes with its turns, so that no timer is due because the machine
//! had no time for the test.
#![allow(dead_code, unreachable_pub)] // each test file uses a part of it

use rdma::cm::QpParams;
use rdma::*;
use region::{Pages, Region};
use soft_roce::{Config, Manager, SoftDevice};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

pub struct End {
    pub manager: Manager,
    pub device: SoftDevice,
    pub region: Arc<Region>,
    pub events: Vec<CmEvent>,
    pub done: Vec<Wc>,
    /// Whether it takes its turns; a silent end does not.
    pub silent: bool,
}

/// One world at a time: each takes the first free address of the loopback network, and a test that
/// asks which one it got must not find another's.
static ALONE: Mutex<()> = Mutex::new(());

pub struct World {
    now: Duration,
    pub ends: [End; 2],
    /// Last, so that the ends are gone when the next world begins.
    _alone: MutexGuard<'static, ()>,
}

/// What a turn takes.
const TURN: Duration = Duration::from_micros(100);

pub const QP: QpParams =
    QpParams { send_depth: 256, recv_depth: 64, max_reads: 8, shared_recv: true };

impl World {
    pub fn new() -> World {
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let ends = std::array::from_fn(|_| {
            let config = Config { shared_recv_depth: 64, ..Config::default() };
            let mut manager = Manager::new(config);
            let region = Arc::new(Region::map(8 << 20, Pages::Normal).unwrap());
            let device = manager.open_device(region.clone());
            End { manager, device, region, events: Vec::new(), done: Vec::new(), silent: false }
        });
        World { now: Duration::ZERO, ends, _alone: alone }
    }

    pub fn now(&self) -> Duration {
        self.now
    }

    /// Lets time pass without turns.
    pub fn skip(&mut self, time: Duration) {
        self.now += time;
    }

    /// Lets time pass in steps of 50 ms, with a turn each.
    pub fn pass(&mut self, time: Duration) {
        let end = self.now() + time;
        while self.now() < end {
            self.turn();
            self.skip(Duration::from_millis(50));
        }
    }

    /// Lets both ends take a turn, and what they send arrive.
    pub fn turn(&mut self) {
        self.now += TURN;
        let now = self.now;
        for end in self.ends.iter_mut().filter(|end| !end.silent) {
            while let Some(event) = end.manager.poll(now) {
                end.events.push(event);
            }
            end.device.poll_cq(now, 64, &mut end.done);
            end.device.flush(now);
        }
    }

    pub fn until(&mut self, what: &str, done: impl Fn(&World) -> bool) {
        let deadline = self.now() + Duration::from_secs(20);
        while !done(self) {
            assert!(self.now() < deadline, "{what}: not within 20 s; {:?}", self.ends[0].events);
            self.turn();
            // The kernel may deliver by a thread of its own.
            std::thread::yield_now();
        }
    }

    /// What end 1 was asked for.
    pub fn request(&self) -> ConnectRequest {
        let request = self.ends[1].events.iter().find_map(|event| match event {
            CmEvent::Request(request) => Some(request.clone()),
            _ => None,
        });
        request.expect("a request")
    }

    /// Connects end 0 to a listener of end 1 and returns both queue pairs.
    pub fn connect(&mut self, addr: SocketAddr) -> [(ConnId, Attached); 2] {
        let now = self.now();
        let host = &mut self.ends[0];
        host.events.clear();
        let (conn, endpoint) = host.manager.open(now, addr, CoreIndex(0), &QP).unwrap();
        let ours = host.device.attach(endpoint);
        let params = ConnectParams {
            private_data: b"hello".to_vec(),
            initiator_depth: 4,
            responder_resources: 16,
        };
        host.manager.connect(now, conn, &params).unwrap();
        self.ends[1].events.clear();
        self.until("request", |w| {
            w.ends[1].events.iter().any(|event| matches!(event, CmEvent::Request(_)))
        });
        let request = self.request();
        assert_eq!(request.private_data[..5], *b"hello");
        assert_eq!((request.responder_resources, request.initiator_depth), (16, 4));
        let now = self.now();
        let target = &mut self.ends[1];
        let endpoint = target.manager.prepare(request.conn, CoreIndex(0), &QP).unwrap();
        let theirs = target.device.attach(endpoint);
        let accept = AcceptParams {
            private_data: b"welcome".to_vec(),
            initiator_depth: 8,
            responder_resources: 4,
            rnr_retry: 7,
        };
        target.manager.accept(now, request.conn, &accept).unwrap();
        self.until("connection", |w| {
            w.ends[0].events.iter().any(|event| {
                matches!(event, CmEvent::Connected { private_data, .. }
                    if private_data[..7] == *b"welcome")
            }) && w.ends[1].events.contains(&CmEvent::Established(request.conn))
        });
        [(conn, ours), (request.conn, theirs)]
    }
}
