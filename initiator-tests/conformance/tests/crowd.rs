//! Many hosts are connected and do nothing: they cost the daemon little memory and hardly any time.
//!
//! Each host has an admin queue, `CROWD_QUEUES` (1) I/O queues of 128 entries and a keep-alive.
//! `CROWD_HOSTS` (25) scales it. What is seen, also in a debug build, is a half and a third of the
//! bounds; the test prints it. `cargo xtask test` also asks an optimised daemon with a hundred.

mod common;

use common::{Kind, SoftHost, scale};
use conformance::{Daemon, own_address};
use initiator::HostState;
use soft_roce::Config;
use std::time::{Duration, Instant};

const SUBNQN: &str = "nqn.2026-11.io.nvmfd:crowd";
/// Entries of an I/O queue: what Linux hosts ask for.
const ENTRIES: u16 = 128;
/// What hosts ask for, in milliseconds; they let the controller know of themselves twice as often.
const KATO_MS: u32 = 10_000;
/// How long connecting may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long the crowd is watched at a time.
const WATCHED: Duration = Duration::from_secs(5);
/// How often it is watched: on a machine that does more than this, the processor time for the
/// same work is a multiple at times, and the least of it is nearest to what the daemon asks for.
const WATCHES: usize = 4;
/// Memory for a host with one I/O queue.
const MOST_MEMORY: usize = 64 << 10;
/// Processor time in percent of one, for each hundred hosts, of a daemon as users get it: one that is
/// given as `NVMFD_PROGRAM`.
const MOST_TIME: f64 = 1.0;
/// The same of one that was built for the tests and is not optimised: alone on a machine, one had 0.4
/// to 1.0 where an optimised one had 0.25.
const MOST_TIME_UNOPTIMISED: f64 = 3.0;

fn daemon(hosts: usize, queues: usize) -> Daemon {
    let address = own_address();
    let text = format!(
        "[[listener]]\naddress = \"{address}\"\nprovider = \"soft\"\n\
         [[subsystem]]\nnqn = \"{SUBNQN}\"\nallow_any_host = true\n\
         [[subsystem.namespace]]\nram = \"16MiB\"\n\
         [tuning]\ndata_cores = 1\nmemory = \"64MiB\"\ncontrol_memory = \"32MiB\"\n\
         max_io_queues = {queues}\nmax_queues = {}\n",
        (hosts * (queues + 1)).max(2),
    );
    Daemon::serve(address, &text)
}

/// Hosts of this daemon; small, since there are many in this process.
fn kind(daemon: &Daemon, queues: usize) -> Kind {
    let socket_buffer = 64 << 10;
    Kind {
        target: daemon.address(),
        subnqn: SUBNQN,
        io_queues: queues,
        io_entries: ENTRIES,
        kato_ms: KATO_MS,
        memory: (queues * usize::from(ENTRIES) + 64) * (16 << 10),
        transport: Config { shared_recv_depth: 0, socket_buffer, ..Config::default() },
    }
}

/// Gives all hosts turns until this time.
fn turn_all(hosts: &mut [SoftHost], start: Instant, until: Duration) {
    loop {
        let mut worked = false;
        for host in hosts.iter_mut() {
            worked |= host.turn(start.elapsed());
            while host.poll_event().is_some() {}
        }
        if start.elapsed() >= until {
            return;
        }
        if !worked {
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

#[test]
fn idle_hosts_take_little_memory_and_hardly_any_time() {
    let (count, queues) = (scale("CROWD_HOSTS", 25), scale("CROWD_QUEUES", 1));
    let daemon = daemon(count + 1, queues);
    let (kind, process) = (kind(&daemon, queues), daemon.process());
    let start = Instant::now();
    // The first host makes what is there once for all.
    let mut hosts = vec![kind.host(0)];
    let connect = |hosts: &mut Vec<SoftHost>, more: std::ops::Range<usize>| {
        for index in more {
            hosts.push(kind.host(index));
        }
        for host in hosts.iter_mut().filter(|host| host.state() != HostState::Live) {
            host.connect(start.elapsed());
        }
        while hosts.iter().any(|host| host.state() != HostState::Live) {
            assert!(start.elapsed() < PATIENCE, "connecting takes too long");
            turn_all(hosts, start, start.elapsed() + Duration::from_millis(20));
        }
    };
    connect(&mut hosts, 0..0);
    let before = process.memory();
    for first in (1..=count).step_by(20) {
        connect(&mut hosts, first..(first + 20).min(count + 1));
    }
    let each = process.memory().saturating_sub(before) / count;

    turn_all(&mut hosts, start, start.elapsed() + Duration::from_secs(1));
    let given = std::env::var_os("NVMFD_PROGRAM").is_some();
    let each_hundred =
        if cfg!(debug_assertions) && !given { MOST_TIME_UNOPTIMISED } else { MOST_TIME };
    // A few hosts cost more each, since a turn of the daemon serves fewer of them.
    let most = each_hundred * (count as f64 / 100.0).max(0.5);
    let mut percent = f64::INFINITY;
    for _ in 0..WATCHES {
        let (time, since) = (process.processor_time(), start.elapsed());
        turn_all(&mut hosts, start, since + WATCHED);
        let used = process.processor_time() - time;
        let now = used.as_secs_f64() / (start.elapsed() - since).as_secs_f64() * 100.0;
        percent = percent.min(now);
        if percent < most {
            break;
        }
    }
    eprintln!(
        "{count} idle hosts with {queues} I/O queues: {} KiB for each, {percent:.2} % of a processor",
        each >> 10
    );
    assert!(hosts.iter().all(|host| host.state() == HostState::Live));
    assert!(each < MOST_MEMORY * queues.max(1), "{each} bytes for each idle host");
    assert!(percent < most, "{percent} % of a processor for {count} idle hosts");
}
