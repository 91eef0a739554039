//! What a ring costs: 4 KiB random reads at depths 1 and 32 on a null disk, RAM and files.
//!
//! `cargo run --release -p backing --example ring_bench -- [SECONDS [FILE…]]`
//!
//! With `iopoll:` in front of a FILE, an NVMe device, the ends of reads are looked for. Polls without
//! sleeping. Prints operations and system calls per second and their ratio. Without
//! a FILE it makes one in the current folder and removes it afterwards.
#![allow(clippy::print_stdout)]

use backing::{Backing, BackingId, BackingSpec, BlockIo, IoOp, IoRequest, Ring, RingConfig};
use region::{Pages, Region, Span};
use std::sync::Arc;
use std::time::{Duration, Instant};

const BLOCK: u64 = 4096;
const SIZE: u64 = 256 << 20;
const OWN_FILE: &str = "ring_bench.tmp";

fn main() {
    let mut args = std::env::args().skip(1);
    let seconds: f64 = args.next().map_or(2.0, |text| text.parse().expect("seconds"));
    let files: Vec<String> = args.collect();
    let run = |name: &str, spec: &BackingSpec| {
        for depth in [1, 32] {
            measure(name, spec, depth, Duration::from_secs_f64(seconds));
        }
    };
    println!(
        "{:<24} {:>5} {:>12} {:>12} {:>12}",
        "backing", "depth", "reads/s", "calls/read", "µs/read"
    );
    run("null", &BackingSpec::null(SIZE));
    run("ram", &BackingSpec::ram(SIZE));
    for path in &files {
        let spec = match path.strip_prefix("iopoll:") {
            Some(path) => BackingSpec::path(path).iopoll(),
            None => BackingSpec::path(path),
        };
        run(path, &spec.read_only());
    }
    if files.is_empty() {
        let zeroes = vec![1; SIZE as usize];
        std::fs::write(OWN_FILE, zeroes).expect("a file in the current folder");
        run("file, direct", &BackingSpec::path(OWN_FILE));
        run("file, page cache", &BackingSpec::path(OWN_FILE).buffered());
        std::fs::remove_file(OWN_FILE).expect("our own file");
    }
}

fn measure(name: &str, spec: &BackingSpec, depth: u32, length: Duration) {
    let backing = Backing::open(spec).unwrap_or_else(|error| panic!("{error}"));
    let blocks = backing.capacity() / BLOCK;
    let region = Arc::new(Region::map(1 << 20, Pages::Normal).expect("1 MiB"));
    let mut ring = Ring::new(RingConfig::default(), region).unwrap_or_else(|e| panic!("{e}"));
    ring.add(BackingId(0), backing);
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut submit = |ring: &mut Ring, now, tag: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        ring.submit(
            now,
            IoRequest {
                backing: BackingId(0),
                op: IoOp::Read,
                offset: random % blocks * BLOCK,
                len: BLOCK,
                buffer: Span::new(tag as u32 * BLOCK as u32, BLOCK as u32),
                tag,
            },
        );
    };
    let start = Instant::now();
    (0..depth.into()).for_each(|tag| submit(&mut ring, Duration::ZERO, tag));
    let mut done = Vec::with_capacity(depth as usize);
    let mut now = Duration::ZERO;
    while now < length {
        // As a core does: one turn takes what is done, gives new work, flushes once.
        for _ in 0..16 {
            ring.flush(now);
            ring.poll(now, &mut done);
            for done in done.drain(..) {
                done.result.expect("a healthy disk");
                submit(&mut ring, now, done.tag);
            }
        }
        now = start.elapsed();
    }
    let stats = ring.stats();
    let per_second = stats.done as f64 / now.as_secs_f64();
    let calls = stats.enters as f64 / stats.done as f64;
    println!("{name:<24} {depth:>5} {per_second:>12.0} {calls:>12.3} {:>12.2}", 1e6 / per_second);
}
