//! How fast two ends of soft-RoCE move data between two threads, over the loopback interface.
//!
//! One end plays a host that sends 64-byte capsules, the other a target that answers each with the
//! data (`read`: RDMA WRITE, then a 16-byte SEND) or after fetching it (`write`: RDMA READ, then
//! the SEND). Prints messages a second and, steadier on a busy machine, the processor time that
//! each end spent on a message.
//!
//! `cargo run --release -p soft-roce --example loopback_bench -- [SECONDS [LOAD]]`, of all loads or of
//! those whose name has the words LOAD in it.
#![allow(clippy::print_stdout)]

use rdma::cm::QpParams;
use rdma::*;
use region::{Pages, Region, Span};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::time::{ClockId, clock_gettime};
use soft_roce::{Config, Manager, SoftDevice};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const CAPSULE: u32 = 64;
const ANSWER: u32 = 16;
const QP: QpParams =
    QpParams { send_depth: 256, recv_depth: 128, max_reads: 16, shared_recv: false };

#[derive(Clone, Copy)]
struct Load {
    name: &'static str,
    /// Whether the target fetches the data, rather than bringing it.
    fetch: bool,
    len: u32,
    depth: u32,
}

const LOADS: [Load; 6] = [
    Load { name: "read 4 KiB, depth 1", fetch: false, len: 4096, depth: 1 },
    Load { name: "read 4 KiB, depth 32", fetch: false, len: 4096, depth: 32 },
    Load { name: "read 128 KiB, depth 8", fetch: false, len: 128 << 10, depth: 8 },
    Load { name: "write 4 KiB, depth 1", fetch: true, len: 4096, depth: 1 },
    Load { name: "write 4 KiB, depth 32", fetch: true, len: 4096, depth: 32 },
    Load { name: "write 128 KiB, depth 8", fetch: true, len: 128 << 10, depth: 8 },
];

fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// One thread's end.
struct End {
    device: SoftDevice,
    start: Instant,
    done: Vec<Wc>,
}

impl End {
    fn turn(&mut self) -> bool {
        let now = self.start.elapsed();
        self.device.poll_cq(now, 256, &mut self.done) > 0
    }

    fn flush(&mut self) {
        self.device.flush(self.start.elapsed());
    }

    /// Sleeps until a packet comes or a timer is due.
    fn sleep(&self) {
        let due = self.device.timeout().unwrap_or(Duration::MAX);
        let wait = due.saturating_sub(self.start.elapsed()).min(Duration::from_millis(20));
        if wait.is_zero() {
            return;
        }
        let mut sources = Vec::new();
        self.device.wait_sources(&mut sources);
        let mut fds: Vec<_> =
            sources.iter().map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN)).collect();
        let wait = Timespec { tv_sec: 0, tv_nsec: i64::from(wait.subsec_nanos()) };
        let _ = poll(&mut fds, Some(&wait));
    }
}

/// Sends capsules, `depth` at a time, until told to stop: messages and processor time.
fn host(mut end: End, at: Attached, load: Load, stop: &AtomicBool) -> (u64, Duration) {
    let recv = |i| RecvWr {
        wr_id: WrId(i),
        head: Span::new(4096 + i as u32 * 64, ANSWER),
        tail: Span::default(),
    };
    let capsule =
        SendWr { wr_id: WrId(0), op: SendOp::Send, local: Span::new(0, CAPSULE), signaled: false };
    for i in 0..u64::from(load.depth) {
        end.device.post_recv(at.recv_queue.id, recv(i));
        end.device.post_send(at.qp, capsule);
    }
    end.flush();
    let (mut messages, before) = (0, cpu_time());
    while !stop.load(Ordering::Relaxed) {
        if !end.turn() {
            end.flush();
            end.sleep();
            continue;
        }
        for wc in std::mem::take(&mut end.done) {
            assert!(wc.is_ok(), "{wc:?}");
            if wc.op != WcOp::Send {
                messages += 1;
                end.device.post_recv(at.recv_queue.id, recv(wc.wr_id.0));
                end.device.post_send(at.qp, capsule);
            }
        }
        end.flush();
    }
    (messages, cpu_time() - before)
}

/// Answers capsules until told to stop: processor time.
fn target(mut end: End, at: Attached, load: Load, open: RemoteAddr, stop: &AtomicBool) -> Duration {
    const FETCHED: u64 = 1 << 32;
    let recv = |i| RecvWr {
        wr_id: WrId(i),
        head: Span::new(4096 + i as u32 * 64, CAPSULE),
        tail: Span::default(),
    };
    for i in 0..64 {
        end.device.post_recv(at.recv_queue.id, recv(i));
    }
    let answer =
        SendWr { wr_id: WrId(0), op: SendOp::Send, local: Span::new(0, ANSWER), signaled: true };
    let before = cpu_time();
    let mut next = 0;
    while !stop.load(Ordering::Relaxed) {
        if !end.turn() {
            end.flush();
            end.sleep();
            continue;
        }
        for wc in std::mem::take(&mut end.done) {
            assert!(wc.is_ok(), "{wc:?}");
            if wc.op != WcOp::Send {
                end.device.post_recv(at.recv_queue.id, recv(wc.wr_id.0));
                let offset = (next % load.depth) * load.len;
                next += 1;
                let remote = RemoteAddr { addr: open.addr + u64::from(offset), ..open };
                let local = Span::new((1 << 20) + offset, load.len);
                let op =
                    if load.fetch { SendOp::Read { remote } } else { SendOp::Write { remote } };
                let wr_id = WrId(FETCHED);
                end.device.post_send(at.qp, SendWr { wr_id, op, local, signaled: load.fetch });
                if !load.fetch {
                    end.device.post_send(at.qp, answer);
                }
            } else if wc.wr_id.0 == FETCHED {
                end.device.post_send(at.qp, answer);
            }
        }
        end.flush();
    }
    cpu_time() - before
}

/// Connects the managers and attaches both endpoints.
fn connect(
    start: Instant,
    managers: &mut [Manager; 2],
    devices: &mut [SoftDevice; 2],
    addr: SocketAddr,
) -> ([ConnId; 2], [Attached; 2]) {
    let [active, passive] = managers;
    let (conn, endpoint) = active.open(start.elapsed(), addr, CoreIndex(0), &QP).unwrap();
    let ours = devices[0].attach(endpoint);
    let params =
        ConnectParams { private_data: vec![], initiator_depth: 16, responder_resources: 16 };
    active.connect(start.elapsed(), conn, &params).unwrap();
    let mut theirs = None;
    loop {
        let now = start.elapsed();
        match passive.poll(now) {
            Some(CmEvent::Request(request)) => {
                let endpoint = passive.prepare(request.conn, CoreIndex(0), &QP).unwrap();
                theirs = Some((request.conn, devices[1].attach(endpoint)));
                let accept = AcceptParams {
                    private_data: vec![],
                    initiator_depth: 16,
                    responder_resources: 16,
                    rnr_retry: 7,
                };
                passive.accept(now, request.conn, &accept).unwrap();
            }
            Some(CmEvent::Established(_)) => break,
            _ => {}
        }
        let _ = active.poll(now);
    }
    let (peer, theirs) = theirs.expect("asked before it was established");
    ([conn, peer], [ours, theirs])
}

fn run(load: Load, seconds: f64) {
    let addr: SocketAddr = "127.0.88.1:4420".parse().unwrap();
    let start = Instant::now();
    let mut managers: [Manager; 2] = std::array::from_fn(|_| Manager::new(Config::default()));
    let mut devices: [SoftDevice; 2] = std::array::from_fn(|i| {
        managers[i].open_device(Arc::new(Region::map(16 << 20, Pages::Normal).unwrap()))
    });
    managers[1].listen(start.elapsed(), addr).unwrap();
    let (_, [ours, theirs]) = connect(start, &mut managers, &mut devices, addr);
    let window = Span::new(1 << 20, load.len * load.depth);
    let open = devices[0].expose(ours.qp, window, Access::RemoteWrite).unwrap();
    let ends = devices.map(|device| End { device, start, done: Vec::new() });
    let [a, b] = ends;
    let stop = AtomicBool::new(false);
    let ((messages, host_cpu), target_cpu) = std::thread::scope(|scope| {
        let target = scope.spawn(|| target(b, theirs, load, open, &stop));
        let host = scope.spawn(|| host(a, ours, load, &stop));
        std::thread::sleep(Duration::from_secs_f64(seconds));
        stop.store(true, Ordering::Relaxed);
        (host.join().unwrap(), target.join().unwrap())
    });
    let each = |cpu: Duration| cpu.as_nanos() as f64 / messages.max(1) as f64 / 1000.0;
    println!(
        "{:24} {:9.0} msg/s {:8.2} us host {:8.2} us target a message",
        load.name,
        messages as f64 / seconds,
        each(host_cpu),
        each(target_cpu)
    );
}

fn main() {
    let seconds = std::env::args().nth(1).map_or(1.0, |arg| arg.parse().expect("seconds"));
    let wanted = std::env::args().nth(2).unwrap_or_default();
    for load in LOADS.into_iter().filter(|load| load.name.contains(&wanted)) {
        run(load, seconds);
    }
}
