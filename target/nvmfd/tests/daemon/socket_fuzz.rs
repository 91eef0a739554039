//! Whoever may use the control socket, or reaches the metrics address, cannot harm the daemon with
//! what they send: it answers others meanwhile, at once, and its memory and descriptors stay bounded.
//!
//! `NVMFD_FUZZ_SECONDS` says for how long; `NVMFD_FUZZ_SEED` repeats what was sent.

use crate::common::{Daemon, own_address};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const NQN: &str = "nqn.2026-11.io.nvmfd:a";
/// Those who send at a time; the daemon takes 32 requests.
const SENDERS: u64 = 4;
/// Of the requests for the status meanwhile, half are to be answered within this.
const ANSWER_WITHIN: Duration = Duration::from_millis(50);
/// What the daemon may take more than at the start.
const MORE_MEMORY: usize = 64 << 20;
const MORE_FILES: usize = 48;

/// Numbers that chance would give.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() >> 33) as usize % limit
    }

    fn of<'a, T: ?Sized>(&mut self, all: &[&'a T]) -> &'a T {
        all[self.below(all.len())]
    }
}

const METHODS: [&str; 7] = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "BREW"];
const PATHS: [&str; 20] = [
    "/v1/status",
    "/v1/reload",
    "/v1/config",
    "/v1/config/check",
    "/v1/connections",
    "/v1/cores",
    "/v1/hosts",
    "/v1/limits",
    "/v1/listeners",
    "/v1/listeners/127.0.0.1%3A4420",
    "/v1/namespaces",
    "/v1/openapi.json",
    "/v1/subsystems",
    "/v1/subsystems/nqn.2026-11.io.nvmfd:b",
    "/v1/subsystems/nqn.2026-11.io.nvmfd:b/namespaces",
    "/v1/subsystems/nqn.2026-11.io.nvmfd:b/namespaces/1",
    "/v1/subsystems/nqn.2026-11.io.nvmfd:b/hosts/nqn.2014-08.org.example:h",
    "/v1/subsystems/nqn.2026-11.io.nvmfd:b/connections/1",
    "/metrics",
    "/numbers.json",
];
const QUERIES: [&str; 5] = ["", "", "?save=true", "?save=maybe", "?%00=%ff&&&"];
/// None of them makes files.
const BODIES: [&str; 12] = [
    "",
    "{}",
    "{\"nqn\": \"nqn.2026-11.io.nvmfd:b\", \"allow_any_host\": true}",
    "{\"nqn\": \"nqn.2026-11.io.nvmfd:b\", \"allow_any_host\": true, \"namespace\": [{\"null\": \"1TiB\"}]}",
    "{\"null\": \"1GiB\", \"nsid\": 1}",
    "{\"null\": 18446744073709551615}",
    "{\"ram\": \"1MiB\", \"uuid\": \"6f1b2d0c-93f4-4a55-8d0e-5a7cf0de4421\"}",
    "{\"queue_depth\": -1, \"memory\": \"99999999999TiB\"}",
    "{\"address\": \"127.0.0.1:4420\", \"provider\": \"soft\"}",
    "{\"nqn\": [[[[[[[[{\"a\": null}]]]]]]]], \"\\u0000\": 1e999}",
    "[[subsystem]]\nnqn = \"\"\"\\uD800\"\"\"\n",
    "\u{0}\u{1}\u{7f}\u{80}\u{ffff}",
];

/// A request that is right, or nearly.
fn request(chance: &mut Chance) -> Vec<u8> {
    let (method, path) = (chance.of(&METHODS), chance.of(&PATHS));
    let (query, body) = (chance.of(&QUERIES), chance.of(&BODIES));
    let length = match chance.below(8) {
        0 => "99999999999999999999".to_owned(),
        1 => "-1".to_owned(),
        2 => (body.len() + 7).to_string(),
        _ => body.len().to_string(),
    };
    let framing = match chance.below(8) {
        0 => "transfer-encoding: chunked\r\n".to_owned(),
        1 => format!("content-length: {length}\r\ncontent-length: 0\r\n"),
        _ => format!("content-length: {length}\r\n"),
    };
    format!("{method} {path}{query} HTTP/1.1\r\nhost: a\r\n{framing}\r\n{body}").into_bytes()
}

/// Something to send.
fn bytes(chance: &mut Chance) -> Vec<u8> {
    let mut bytes = request(chance);
    for _ in 0..chance.below(4) {
        let at = chance.below(bytes.len().max(1));
        match chance.below(6) {
            0 => bytes.truncate(at),
            1 if at < bytes.len() => bytes[at] ^= 1 << chance.below(8),
            2 => bytes.splice(at..at, [0xff, 0, b'\n']).for_each(drop),
            3 => bytes.extend_from_within(..at),
            4 => {
                let more = vec![b'a' + chance.below(26) as u8; chance.below(100_000)];
                bytes.splice(at..at, more).for_each(drop);
            }
            _ => bytes = (0..chance.below(3000)).map(|_| chance.next() as u8).collect(),
        }
    }
    bytes
}

trait Stream: Read + Write {
    fn end_sending(&self);
}

impl Stream for UnixStream {
    fn end_sending(&self) {
        let _ = self.shutdown(Shutdown::Write);
    }
}

impl Stream for TcpStream {
    fn end_sending(&self) {
        let _ = self.shutdown(Shutdown::Write);
    }
}

/// Where to send to.
#[derive(Clone)]
struct Doors {
    socket: PathBuf,
    metrics: String,
}

impl Doors {
    fn open(&self, chance: &mut Chance) -> Box<dyn Stream> {
        let time = Some(Duration::from_millis(100));
        if chance.below(3) > 0 {
            let stream = UnixStream::connect(&self.socket).unwrap();
            stream.set_read_timeout(time).unwrap();
            stream.set_write_timeout(time).unwrap();
            Box::new(stream)
        } else {
            let stream = TcpStream::connect(&self.metrics).unwrap();
            stream.set_read_timeout(time).unwrap();
            stream.set_write_timeout(time).unwrap();
            Box::new(stream)
        }
    }
}

/// One caller, in one of the ways in which callers are odd.
fn call(doors: &Doors, chance: &mut Chance, slow: &mut Vec<Box<dyn Stream>>) {
    let mut stream = doors.open(chance);
    let bytes = bytes(chance);
    match chance.below(10) {
        // Says a part, and stays; a few of them at a time.
        0 => {
            let _ = stream.write_all(&bytes[..chance.below(bytes.len().max(1))]);
            slow.push(stream);
            if slow.len() > 4 {
                slow.remove(0);
            }
            return;
        }
        // In small pieces.
        1 => {
            for piece in bytes.chunks(1 + chance.below(40)).take(50) {
                if stream.write_all(piece).is_err() {
                    break;
                }
            }
        }
        // Hangs up without hearing the answer.
        2 => {
            let _ = stream.write_all(&bytes);
            return;
        }
        // Two requests in one go.
        3 => {
            let _ = stream.write_all(&bytes);
            let _ = stream.write_all(&request(chance));
        }
        _ => {
            let _ = stream.write_all(&bytes);
        }
    }
    if chance.below(4) > 0 {
        stream.end_sending();
    }
    let mut answer = [0; 4096];
    let mut heard = 0;
    // The first bytes of the answer tell that there is one; none is an answer too.
    while let Ok(count @ 1..) = stream.read(&mut answer) {
        heard += count;
        if heard > 1 << 20 {
            break;
        }
    }
}

/// How long the daemon takes to say how it is.
fn status(doors: &Doors) -> Duration {
    let began = Instant::now();
    let mut stream = UnixStream::connect(&doors.socket).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream.write_all(b"GET /v1/status HTTP/1.1\r\nhost: a\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    began.elapsed()
}

fn number(name: &str, usual: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

#[test]
fn whatever_is_sent_others_are_answered_at_once() {
    let metrics = own_address().replace("4420", "9420");
    let daemon = Daemon::start(&format!(
        "[metrics]\naddress = \"{metrics}\"\n[[subsystem]]\nnqn = \"{NQN}\"\n\
         allow_any_host = true\nnamespace = [{{ ram = \"1MiB\" }}]\n"
    ));
    let doors = Doors { socket: daemon.path("a.sock"), metrics };
    let process = daemon.process();
    let (memory, files) = (process.memory(), process.open_files());
    let seed = number("NVMFD_FUZZ_SEED", u64::from(std::process::id()));
    let time = Duration::from_secs(number("NVMFD_FUZZ_SECONDS", 5));
    eprintln!("NVMFD_FUZZ_SEED={seed}");

    let (stop, calls) = (AtomicBool::new(false), AtomicU64::new(0));
    let mut times = Vec::new();
    std::thread::scope(|scope| {
        for sender in 0..SENDERS {
            let (doors, stop, calls) = (&doors, &stop, &calls);
            scope.spawn(move || {
                let mut chance = Chance(seed.wrapping_mul(SENDERS) + sender + 1);
                let mut slow = Vec::new();
                while !stop.load(Ordering::Relaxed) {
                    call(doors, &mut chance, &mut slow);
                    calls.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        // A host at work, so that the daemon is busy with what it is there for.
        scope.spawn(|| {
            let mut host = crate::common::host(&daemon.address, NQN);
            let mut round = 0u64;
            while !stop.load(Ordering::Relaxed) {
                host.fill_blocks(round % 64, 8, round as u8);
                assert_eq!(host.read_blocks(round % 64, 8), vec![round as u8; 8 * 512]);
                round += 1;
            }
        });
        let judged = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let began = Instant::now();
            while began.elapsed() < time {
                times.push(status(&doors));
                let now = process.memory();
                assert!(now < memory + MORE_MEMORY, "{} KiB", now >> 10);
                assert!(process.open_files() < files + MORE_FILES, "{}", process.open_files());
                std::thread::sleep(Duration::from_millis(10));
            }
        }));
        stop.store(true, Ordering::Relaxed);
        if let Err(why) = judged {
            std::panic::resume_unwind(why);
        }
    });
    times.sort_unstable();
    let of = |percent: usize| times[(times.len() - 1) * percent / 100];
    let (half, most, all) = (of(50), of(99), of(100));
    eprintln!(
        "{} odd calls; the status {} times, half within {half:?}, 99 % {most:?}, all {all:?}; {} KiB at \
         first, {} KiB at last",
        calls.into_inner(),
        times.len(),
        memory >> 10,
        process.memory() >> 10
    );
    assert!(half < ANSWER_WITHIN, "{half:?}");
    // When they have all gone, nothing of theirs is left but what they changed.
    std::thread::sleep(Duration::from_millis(100));
    assert!(process.open_files() <= files + 8, "{} of {files}", process.open_files());
    assert!(!daemon.log().contains("panicked"), "{}", daemon.log());
}
