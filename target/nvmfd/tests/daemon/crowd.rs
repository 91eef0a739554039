//! Many who connect to the control socket and the metrics address, and want nothing or do not say
//! what: whoever wants something is answered at once all the same.

use crate::common::{Daemon, own_address};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

const CROWD: usize = 600;
/// What an operator is promised; the machine of a test may be busy with other things, so that only
/// half of the answers have to keep it. The first waits behind all who came before.
const ANSWER_WITHIN: Duration = Duration::from_millis(50);
const ALL_WITHIN: Duration = Duration::from_secs(2);

fn daemon() -> (Daemon, String) {
    let metrics = own_address().replace("4420", "9420");
    let rest = format!(
        "[metrics]\naddress = \"{metrics}\"\n[[subsystem]]\nnqn = \"nqn.2026-11.io.nvmfd:a\"\n\
         allow_any_host = true\nnamespace = [{{ ram = \"1MiB\" }}]\n"
    );
    (Daemon::start(&rest), metrics)
}

/// How long an answer takes.
fn time(mut stream: impl Read + Write, path: &str) -> Duration {
    let began = Instant::now();
    write!(stream, "GET {path} HTTP/1.1\r\nhost: a\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    began.elapsed()
}

fn judge(mut times: Vec<Duration>) {
    times.sort_unstable();
    let (half, all) = (times[times.len() / 2], times[times.len() - 1]);
    assert!(half < ANSWER_WITHIN && all < ALL_WITHIN, "half {half:?}, all {all:?}");
}

#[test]
fn six_hundred_who_say_nothing_or_half_of_it_keep_nobody_waiting() {
    let (daemon, metrics) = daemon();
    let before = daemon.process().open_files();
    let idle: Vec<(UnixStream, TcpStream)> = (0..CROWD)
        .map(|n| {
            let mut pair = (daemon.connect(), TcpStream::connect(&metrics).unwrap());
            if n % 2 == 0 {
                // Those who were sent away already cannot say more.
                let _ = pair.0.write_all(b"POST /v1/reload HTTP/1.1\r\ncontent-length: 9\r\n\r\n{");
                let _ = pair.1.write_all(b"GET /metr");
            }
            pair
        })
        .collect();
    judge((0..20).map(|_| time(daemon.connect(), "/v1/status")).collect());
    judge((0..20).map(|_| time(TcpStream::connect(&metrics).unwrap(), "/metrics")).collect());
    assert!(daemon.process().open_files() < before + 300, "{}", daemon.process().open_files());
    drop(idle);
}

#[test]
fn who_does_not_hear_the_answer_keeps_nobody_waiting() {
    let (daemon, _) = daemon();
    let deaf: Vec<UnixStream> = (0..CROWD)
        .map(|_| {
            let mut stream = daemon.connect();
            let _ = stream.write_all(b"GET /v1/openapi.json HTTP/1.1\r\nhost: a\r\n\r\n");
            stream
        })
        .collect();
    judge((0..20).map(|_| time(daemon.connect(), "/v1/status")).collect());
    drop(deaf);
}

#[test]
fn the_daemon_sleeps_again_when_many_have_asked_at_once() {
    let (daemon, _) = daemon();
    for _ in 0..25 {
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| time(daemon.connect(), "/v1/status"));
            }
        });
        std::thread::sleep(Duration::from_millis(20));
        let before = daemon.process().first_thread_time();
        std::thread::sleep(Duration::from_millis(100));
        let ran = daemon.process().first_thread_time() - before;
        assert!(ran < Duration::from_millis(25), "ran {ran:?} of 100 ms without anything to do");
    }
}

#[test]
fn who_says_nothing_is_hung_up_on() {
    let (daemon, _) = daemon();
    let mut idle = daemon.connect();
    let began = Instant::now();
    let mut answer = Vec::new();
    idle.read_to_end(&mut answer).unwrap();
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
}
