//! The way of the log's lines to standard error: a thread of their own writes them.
//!
//! Standard error may be a pipe whose reader has stopped. Whoever logs, a data core or the control
//! thread among them, must not wait for that: lines that find no room are counted, left out, and the
//! gap is told when there is room again.

use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tracing_subscriber::fmt::MakeWriter;

/// Lines that may wait to be written.
const ROOM: usize = 4096;
/// How long the end of the program waits for them.
const FLUSH_WITHIN: Duration = Duration::from_secs(1);

/// The way to standard error, once there is one.
static STDERR: OnceLock<Lines> = OnceLock::new();

/// Where lines are handed over.
#[derive(Debug, Clone)]
pub(super) struct Lines {
    queue: SyncSender<Item>,
    lost: Arc<AtomicU64>,
}

#[derive(Debug)]
enum Item {
    Line(Vec<u8>),
    /// To be answered when everything before is written.
    Flush(SyncSender<()>),
}

/// The way to standard error; the same one for every caller.
pub(super) fn to_stderr() -> Lines {
    STDERR.get_or_init(|| Lines::to(io::stderr())).clone()
}

/// Waits until what was logged is written, but not for long.
pub(crate) fn flush() {
    let Some(lines) = STDERR.get() else { return };
    let (done, written) = sync_channel(1);
    if lines.queue.try_send(Item::Flush(done)).is_ok() {
        let _ = written.recv_timeout(FLUSH_WITHIN);
    }
}

impl Lines {
    /// To that place. Without a thread for it, which the system may refuse, nothing is logged.
    fn to(place: impl Write + Send + 'static) -> Lines {
        let (queue, items) = sync_channel(ROOM);
        let lost = Arc::new(AtomicU64::new(0));
        let shared = lost.clone();
        let thread = std::thread::Builder::new().name("log".to_owned());
        let _ = thread.spawn(move || write_all(place, &items, &shared));
        Lines { queue, lost }
    }
}

/// Until nobody can log any more.
fn write_all(mut place: impl Write, items: &Receiver<Item>, lost: &AtomicU64) {
    for item in items {
        match item {
            // Nothing can be said about a log that cannot be written.
            Item::Line(line) => drop(place.write_all(&line)),
            Item::Flush(done) => drop(done.send(())),
        }
        let lines = lost.swap(0, Ordering::Relaxed);
        if lines > 0 {
            let _ = writeln!(
                place,
                "nvmfd: {lines} lines of the log were left out: it is read too slowly"
            );
        }
    }
}

impl Write for Lines {
    /// Takes a whole line.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if let Err(TrySendError::Full(_)) = self.queue.try_send(Item::Line(line.to_vec())) {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Lines;

    fn make_writer(&'a self) -> Lines {
        self.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;
    use std::sync::mpsc::channel;
    use std::time::Instant;

    /// Takes nothing until it may.
    struct Stuck(Receiver<()>, Arc<Mutex<Vec<u8>>>);

    impl Write for Stuck {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let _ = self.0.recv();
            self.1.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_log_that_is_not_read_holds_nobody_up_and_tells_its_gap() {
        let written = Arc::new(Mutex::new(Vec::new()));
        let (go, may) = channel();
        let mut lines = Lines::to(Stuck(may, written.clone()));
        let began = Instant::now();
        // One is being written, the others fill the room.
        lines.write_all(b"first\n").unwrap();
        std::thread::sleep(Duration::from_millis(50));
        for _ in 0..ROOM + 10 {
            lines.write_all(b"line\n").unwrap();
        }
        assert!(began.elapsed() < Duration::from_secs(5));
        drop(go);
        let (done, end) = sync_channel(1);
        lines.queue.send(Item::Flush(done)).unwrap();
        end.recv_timeout(Duration::from_secs(10)).unwrap();
        let text = String::from_utf8(written.lock().unwrap().clone()).unwrap();
        assert!(text.starts_with("first\nnvmfd: 10 lines of the log were left out"), "{text}");
        assert_eq!(text.matches("line\n").count(), ROOM);
    }
}
