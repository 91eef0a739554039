//! Many hosts connect to the daemon, run I/O and leave, again and again: what they took is given
//! back.
//!
//! When all is over the daemon has no connection and no queue by its own account, and descriptors
//! and memory are counted from outside. Between rounds its bounds show what is left: it is
//! configured for exactly as many queues and controller ids as there are at a time, so that one that
//! is not given back keeps a host of the next round outside.
//!
//! `CHURN_HOSTS` (16), `CHURN_ROUNDS` (4) and `CHURN_QUEUES` (4) scale it, and `CHURN_REST` (0) is how
//! many seconds the daemon is left alone before its memory is counted: it remembers connections that
//! ended for ten, so that late packets of theirs are known. `cargo xtask test` also runs it as a long
//! one.

mod common;

use common::{Kind, SoftHost, scale};
use conformance::{Daemon, own_address};
use initiator::controller::Goodbye;
use initiator::{HostEvent, HostState, Payload, Request, commands};
use rdma::Access;
use region::Span;
use soft_roce::Config;
use std::time::{Duration, Instant};

const SUBNQN: &str = "nqn.2026-11.io.nvmfd:churn";
/// Blocks of an I/O, and bytes of a block.
const BLOCKS: u32 = 8;
const BLOCK: u32 = 512;
/// I/Os of each host on each queue in a round: half of them writes.
const IOS: u64 = 8;
/// Memory of a host.
const HOST_MEMORY: usize = 1 << 20;
/// How long a round's connecting, I/O or leaving may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// How much more memory may be in use after the second time than after the first: how many ended
/// connections are remembered at a time depends on how quick the rounds are. In the long test a leak of
/// 350 bytes for each queue would be more.
const MAY_GROW: usize = 2 << 20;

/// Connections and queues that the daemon has, by its own account.
fn tables(daemon: &Daemon) -> (u64, u64) {
    let said = daemon.ask(&["status", "--json"]);
    let status: serde_json::Value = serde_json::from_str(&said).expect("JSON");
    let count = |what: &str| status[what].as_u64().expect("a count");
    (count("connections"), count("queues"))
}

fn daemon(hosts: usize, queues: usize) -> Daemon {
    let address = own_address();
    let text = format!(
        "[[listener]]\naddress = \"{address}\"\nprovider = \"soft\"\n\
         [[subsystem]]\nnqn = \"{SUBNQN}\"\nallow_any_host = true\ncntlids = [1, {hosts}]\n\
         [[subsystem.namespace]]\nram = \"16MiB\"\nblock_size = {BLOCK}\n\
         [tuning]\ndata_cores = 1\nmemory = \"64MiB\"\ncontrol_memory = \"32MiB\"\n\
         queue_depth = 32\nmax_io_queues = {queues}\nmax_queues = {}\n",
        hosts * (queues + 1),
    );
    Daemon::serve(address, &text)
}

struct Churn {
    start: Instant,
    hosts: Vec<SoftHost>,
    /// I/Os under way of each host, with their memory.
    open: Vec<Vec<(u64, Span)>>,
}

impl Churn {
    /// Gives turns until `done` holds of every host.
    fn until(&mut self, what: &str, done: impl Fn(&SoftHost, usize) -> bool) {
        let deadline = self.start.elapsed() + PATIENCE;
        loop {
            let mut worked = false;
            let mut left = 0;
            for (host, open) in self.hosts.iter_mut().zip(&mut self.open) {
                worked |= host.turn(self.start.elapsed());
                while let Some(event) = host.poll_event() {
                    worked = true;
                    on_event(host, open, event);
                }
                left += usize::from(!done(host, open.len()));
            }
            if left == 0 {
                return;
            }
            let now = self.start.elapsed();
            assert!(now < deadline, "{what} takes too long: {left} hosts are left");
            if !worked {
                std::thread::sleep(Duration::from_micros(100));
            }
        }
    }

    /// Everybody connects, works and leaves.
    fn round(&mut self, daemon: &Daemon, round: usize, queues: usize) {
        let now = self.start.elapsed();
        self.hosts.iter_mut().for_each(|host| host.connect(now));
        self.until("connecting", |host, _| host.state() == HostState::Live);
        assert!(self.hosts.iter().all(|host| usize::from(host.io_queues()) == queues));
        if round == 0 {
            let all = (self.hosts.len() as u64, (self.hosts.len() * (queues + 1)) as u64);
            assert_eq!(tables(daemon), all, "connections and queues");
        }
        self.submit(round, queues);
        self.until("I/O", |_, open| open == 0);
        let now = self.start.elapsed();
        for (index, host) in self.hosts.iter_mut().enumerate() {
            let ways = [Goodbye::Shutdown, Goodbye::Disable, Goodbye::Abrupt];
            host.leave(now, ways[(index + round) % ways.len()]);
        }
        self.until("leaving", |host, _| matches!(host.state(), HostState::Off(_)));
    }

    fn submit(&mut self, round: usize, queues: usize) {
        for (index, (host, open)) in self.hosts.iter_mut().zip(&mut self.open).enumerate() {
            for token in 0..IOS * queues as u64 {
                let span = host.arena().alloc(BLOCKS * BLOCK).expect("memory");
                host.region().fill(span, (round + index) as u8);
                let slba = (index as u64 * 64 + token) * u64::from(BLOCKS);
                let (command, access) = if token % 2 == 0 {
                    (commands::write(1, slba, BLOCKS, false), Access::RemoteRead)
                } else {
                    (commands::read(1, slba, BLOCKS, false), Access::RemoteWrite)
                };
                let data = Payload::Keyed { spans: vec![span], access, invalidate: true };
                let qid = (token % queues as u64) as u16 + 1;
                host.submit(qid, Request { command, data, token }).expect("room in the queue");
                open.push((token, span));
            }
        }
    }
}

fn on_event(host: &mut SoftHost, open: &mut Vec<(u64, Span)>, event: HostEvent) {
    match event {
        HostEvent::Done { token, result, .. } => {
            let completion = result.expect("a request that is not lost");
            assert!(completion.status.is_success(), "{completion:?}");
            let at = open.iter().position(|(of, _)| *of == token).expect("it was sent");
            host.arena().free(open.swap_remove(at).1);
        }
        HostEvent::Violation(qid, what) => panic!("queue {qid}: {what:?}"),
        HostEvent::Live | HostEvent::Async(_) | HostEvent::Down(_) | HostEvent::Off => {}
    }
}

#[test]
fn hosts_that_come_and_go_leave_nothing_in_the_daemon() {
    let (hosts, queues) = (scale("CHURN_HOSTS", 16), scale("CHURN_QUEUES", 4));
    let rounds = scale("CHURN_ROUNDS", 4);
    let rest = Duration::from_secs(scale("CHURN_REST", 0) as u64);
    let daemon = daemon(hosts, queues);
    let files = daemon.process().open_files();
    let kind = Kind {
        target: daemon.address(),
        subnqn: SUBNQN,
        io_queues: queues,
        io_entries: 16,
        kato_ms: 0,
        memory: HOST_MEMORY,
        transport: Config { shared_recv_depth: 0, ..Config::default() },
    };
    let mut churn = Churn {
        start: Instant::now(),
        hosts: (0..hosts).map(|index| kind.host(index)).collect(),
        open: vec![Vec::new(); hosts],
    };
    // The first time shows how much memory all that takes at most, the second that it is enough.
    let [first, second] = [0, 1].map(|_| {
        let start = churn.start.elapsed();
        (0..rounds).for_each(|round| churn.round(&daemon, round, queues));
        let took = churn.start.elapsed() - start;
        let gone = || (tables(&daemon), daemon.process().open_files());
        while gone() != ((0, 0), files) {
            let late = churn.start.elapsed() > start + took + PATIENCE;
            assert!(!late, "left: (connections, queues), descriptors {:?} of {files}", gone());
            std::thread::sleep(Duration::from_millis(50));
        }
        std::thread::sleep(rest);
        let memory = daemon.process().memory();
        eprintln!(
            "{rounds} rounds of {hosts} hosts with {queues} queues in {took:.1?}: {} KiB \
             resident, {files} descriptors",
            memory >> 10
        );
        memory
    });
    let more = second.saturating_sub(first);
    assert!(more < MAY_GROW, "{more} bytes more after twice {rounds} rounds than after once");
}
