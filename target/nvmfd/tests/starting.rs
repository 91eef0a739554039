//! How a start ends: ready, or with what to do about it. Run as a process, on loopback addresses.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A daemon on its way, ended with the test.
struct Daemon(Child);

impl Daemon {
    /// Starts one that listens on these addresses, with so many open files at most.
    fn start(folder: &Path, addresses: &[&str], files: u32) -> Daemon {
        let listeners: String = addresses
            .iter()
            .map(|address| format!("[[listener]]\naddress = \"{address}\"\nprovider = \"soft\"\n"))
            .collect();
        let text = format!(
            "{listeners}[[subsystem]]\nnqn = \"nqn.2026-11.io.nvmfd:start\"\n\
             allow_any_host = true\nnamespace = [{{ ram = \"1MiB\" }}]\n[tuning]\n\
             data_cores = 1\nmemory = \"8MiB\"\ncontrol_memory = \"8MiB\"\n"
        );
        let config = folder.join(format!("{}.toml", addresses.join("+")));
        std::fs::write(&config, text).unwrap();
        let child = Command::new("sh")
            .args(["-c", "ulimit -n $1; exec \"$2\" serve --config \"$3\"", "sh"])
            .arg(files.to_string())
            .arg(env!("CARGO_BIN_EXE_nvmfd"))
            .arg(config)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        Daemon(child)
    }

    /// Its log up to the line with that text, or to its end, which says the status.
    fn log_until(&mut self, text: &str) -> String {
        let mut log = String::new();
        let mut lines = BufReader::new(self.0.stderr.take().unwrap());
        while !log.contains(text) {
            if lines.read_line(&mut log).unwrap() == 0 {
                let status = self.0.wait().unwrap().code();
                return format!("{log}status {status:?}");
            }
        }
        log
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // It may have ended by itself; then there is nothing left to end.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// An address of this process's own.
fn own(last: u8) -> String {
    format!("127.{}.{}.{last}", std::process::id() >> 8 & 0x7f | 0x80, std::process::id() & 0xff)
}

const MANY: u32 = 1024;

#[test]
fn a_daemon_that_no_host_could_reach_says_what_to_do_and_leaves() {
    let folder = tempfile::tempdir().unwrap();
    let taken = own(1);
    let mut first = Daemon::start(folder.path(), &[&taken], MANY);
    let log = first.log_until("ready addresses=");
    assert!(!log.contains("status"), "{log}");
    // Another port of NVMe does not help: it is RoCE's that is taken.
    let mut second = Daemon::start(folder.path(), &[&format!("{taken}:4421")], MANY);
    let log = second.log_until("never said");
    assert!(log.ends_with("status Some(1)"), "{log}");
    assert!(log.contains(&format!("no listener came up: {taken}:4421: UDP port 4791")), "{log}");
    assert!(log.contains("rdma link delete"), "{log}");
    assert!(!log.contains("ready addresses="), "{log}");
    // With one address that is free it serves, and says where it does not.
    let free = own(2);
    let mut third = Daemon::start(folder.path(), &[&taken, &free], MANY);
    let said = format!("ready addresses={free}:4420 not_listening={taken}:4420");
    let log = third.log_until("ready addresses=");
    assert!(log.contains(&said), "{log}");
}

#[test]
fn an_address_that_may_still_come_is_waited_for_without_being_ready() {
    let folder = tempfile::tempdir().unwrap();
    let mut daemon = Daemon::start(folder.path(), &["192.0.2.77"], MANY);
    let log = daemon.log_until("not ready: ");
    assert!(log.contains("waiting for one addresses=192.0.2.77:4420"), "{log}");
}

#[test]
fn a_daemon_without_descriptors_left_names_the_limit() {
    let folder = tempfile::tempdir().unwrap();
    let own = own(3);
    // From too few for the first ring to too few for the sockets.
    for files in [6, 10, 14] {
        let log = Daemon::start(folder.path(), &[&own], files).log_until("ready addresses=");
        assert!(log.ends_with("status Some(1)"), "{files}: {log}");
        assert!(log.contains("Too many open files"), "{files}: {log}");
        assert!(log.contains("LimitNOFILE"), "{files}: {log}");
    }
}
