//! Disks that somebody does something to under the daemon.

use crate::common::{Daemon, host, own_address};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

const A: &str = "nqn.2026-11.io.nvmfd:a";
const SIZE: u64 = 1 << 20;

/// A daemon with a file of its own folder, its metrics, and the file.
fn start(name: &str) -> (Daemon, String, std::path::PathBuf) {
    let metrics = own_address().replace("4420", "9420");
    let folder = tempfile::tempdir().unwrap().keep();
    let file = folder.join(name);
    let daemon = Daemon::start(&format!(
        "[metrics]\naddress = \"{metrics}\"\n[[subsystem]]\nnqn = \"{A}\"\nallow_any_host = true\n\
         [[subsystem.namespace]]\npath = \"{}\"\nsize = {SIZE}\nlimit = {{ iops = 9000, bandwidth = \"1MiB/s\" }}\n",
        file.display()
    ));
    (daemon, metrics, file)
}

fn metric(address: &str, name: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET /metrics HTTP/1.1\r\nhost: a\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text.lines().find(|line| line.starts_with(name)).unwrap_or_default().to_owned()
}

#[test]
fn a_cut_file_is_told_once_wherever_one_looks_until_an_operator_knows() {
    let (daemon, metrics, file) = start("cut");
    let mut host = host(&daemon.address, A);
    host.fill_blocks(0, 8, 1);
    assert!(metric(&metrics, "nvmfd_namespace_disk_well").ends_with(" 1.0"));
    let handle = File::options().write(true).open(&file).unwrap();
    handle.set_len(4096).unwrap();
    let buffer = host.buffer(512, 0);
    for block in 100..110 {
        host.io(initiator::commands::read(1, block, 1, false), buffer);
    }
    daemon.wait_for("a disk is in trouble");
    let line = format!("{}: was cut to 4096 of {SIZE} bytes", file.display());
    assert!(daemon.log().contains(&line), "{}", daemon.log());
    assert!(daemon.run(&["status"]).contains(&format!("TROUBLE        {A} namespace 1: {line}")));
    assert!(daemon.run(&["list", "namespaces"]).contains("TROUBLE"));
    assert!(metric(&metrics, "nvmfd_namespace_disk_well").ends_with(" 0.0"));
    // More failures are no news.
    for block in 100..110 {
        host.io(initiator::commands::read(1, block, 1, false), buffer);
    }
    std::thread::sleep(Duration::from_millis(2500));
    assert_eq!(daemon.log().matches("a disk is in trouble").count(), 1, "{}", daemon.log());
    // A host makes it long again, and what was there stays lost. Other commands do not end that.
    host.fill_blocks(2047, 1, 3);
    let again =
        format!("{}: was cut to 4096 of {SIZE} bytes, and is as long again", file.display());
    daemon.wait_for(&again);
    assert_eq!(host.read_blocks(100, 1), vec![0; 512]);
    daemon.run(&["add", "subsystem", "nqn.2026-11.io.nvmfd:b", "--allow-any-host"]);
    assert!(daemon.run(&["status"]).contains(&again));
    daemon.run(&["set", "namespace", A, "1", &format!("size={SIZE}")]);
    daemon.wait_for("is again as it was opened");
    assert!(!daemon.run(&["status"]).contains("TROUBLE"));
    fs::remove_dir_all(file.parent().unwrap()).unwrap();
}

#[test]
fn a_file_that_is_deleted_is_told_though_hosts_do_not_notice() {
    let (daemon, _, file) = start("gone");
    fs::remove_file(&file).unwrap();
    daemon.wait_for("was deleted: hosts use it as before");
    let shown = daemon.json(&["show", "namespace", A, "1"]);
    let trouble = shown["trouble"].as_str().unwrap();
    let copy = trouble.split(" cp --sparse=always ").nth(1).unwrap().split(' ').next().unwrap();
    assert_eq!(fs::metadata(copy).unwrap().len(), SIZE, "{trouble}");
    // Another file in its place is another one.
    fs::write(&file, "").unwrap();
    assert!(daemon.run(&["status"]).contains("was deleted"));
    fs::remove_dir_all(file.parent().unwrap()).unwrap();
}

#[test]
fn a_namespace_says_where_its_data_is_how_much_and_how_fast() {
    let (daemon, _, file) = start("disk");
    let listed = daemon.run(&["list", "namespaces"]);
    for word in [&file.display().to_string(), "1 MiB", "9000 commands/s, 1 MiB/s", "well"] {
        assert!(listed.contains(word), "{word}: {listed}");
    }
    let shown = daemon.run(&["show", "namespace", A, "1"]);
    for word in [&format!("medium      {}", file.display()), "1048576 (1 MiB)", "iops       9000"] {
        assert!(shown.contains(word), "{word}: {shown}");
    }
    fs::remove_dir_all(file.parent().unwrap()).unwrap();
}

#[test]
fn what_a_host_sends_for_one_disk_does_not_reach_the_next_under_its_number() {
    let (daemon, _, file) = start("old");
    let mut host = host(&daemon.address, A);
    host.fill_blocks(0, 8, 1);
    let other = file.with_file_name("new");
    let path = format!("path={}", other.display());
    let refused = std::thread::scope(|scope| {
        let change = scope.spawn(|| daemon.run(&["set", "namespace", A, "1", &path]));
        // It writes on for a second, whatever it is told.
        let buffer = host.buffer(512, 7);
        let (began, mut refused) = (Instant::now(), 0);
        for block in (0..2048).cycle() {
            let written = host.io(initiator::commands::write(1, block, 1, false), buffer);
            refused += u32::from(!written.status.is_success());
            if began.elapsed() > Duration::from_secs(1) {
                break;
            }
        }
        change.join().unwrap();
        refused
    });
    assert!(refused > 0, "the number was never empty");
    assert!(fs::read(&other).unwrap().iter().all(|byte| *byte == 0), "it was written to");
    fs::remove_dir_all(file.parent().unwrap()).unwrap();
}
