//! What a machine may do to a daemon and to its commands: stop it for a while, fill its disk, not read
//! its log, hand it a broken file.

use crate::common::{Daemon, own_address, program};
use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const A: &str = "nqn.2026-11.io.nvmfd:a";
const RAM: &str = "[[subsystem]]\nnqn = \"nqn.2026-11.io.nvmfd:a\"\nallow_any_host = true\n\
    namespace = [{ ram = \"1MiB\" }]\n";

#[test]
fn output_that_cannot_be_written_is_told() {
    let daemon = Daemon::start(RAM);
    let config = daemon.path("nvmfd.toml");
    let config = config.to_str().unwrap();
    let spdk = daemon.path("spdk.json");
    fs::write(&spdk, "{\"subsystems\": []}").unwrap();
    for words in [
        &["status"][..],
        &["list", "namespaces", "--json"],
        &["check", "--config", config],
        &["check", "--config", config, "--diff", "--against", config],
        &["doctor", "--config", config],
        &["import", "spdk", spdk.to_str().unwrap()],
        &["completions", "bash"],
        &["trace"],
    ] {
        let run = |out: Stdio| {
            let mut command = program();
            command.args(words).env("NVMFD_SOCKET", daemon.path("a.sock"));
            let child = command.stdout(out).stderr(Stdio::piped()).spawn().unwrap();
            if words == ["trace"] {
                let nqn = "nqn.2026-11.io.nvmfd:b";
                std::thread::sleep(Duration::from_millis(300));
                daemon.run(&["add", "subsystem", nqn, "--allow-any-host"]);
                daemon.run(&["remove", "subsystem", nqn]);
            }
            let output = child.wait_with_output().unwrap();
            (output.status.code(), String::from_utf8(output.stderr).unwrap())
        };
        let (code, said) = run(fs::File::create("/dev/full").unwrap().into());
        assert_eq!(code, Some(1), "{words:?}: {said}");
        assert_eq!(
            said.matches("cannot write to standard output: ").count(),
            1,
            "{words:?}: {said}"
        );
        // Whoever reads no more misses nothing.
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let (_, said) = run(writer.into());
        assert!(!said.contains("standard output"), "{words:?}: {said}");
    }
}

#[test]
fn a_daemon_that_is_stopped_is_told_to_be() {
    let daemon = Daemon::start(RAM);
    daemon.signal("-STOP");
    let began = Instant::now();
    std::thread::scope(|scope| {
        for words in [&["status"][..], &["list", "cores"], &["trace"]] {
            let daemon = &daemon;
            scope.spawn(move || {
                let said = daemon.refuse(words);
                assert!(said.contains("does not answer: process "), "{words:?}: {said}");
                assert!(said.contains(" is stopped; kill -CONT "), "{words:?}: {said}");
            });
        }
    });
    assert!(began.elapsed() < Duration::from_secs(10));
    // Who changes something waits longer, and is told meanwhile for what.
    let change = program()
        .arg("reload")
        .env("NVMFD_SOCKET", daemon.path("a.sock"))
        .stderr(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_secs(6));
    daemon.signal("-CONT");
    let change = change.wait_with_output().unwrap();
    let said = String::from_utf8(change.stderr).unwrap();
    assert!(change.status.success(), "{said}");
    assert!(said.contains(" s more at most: process "), "{said}");
    assert!(said.contains(" is stopped; kill -CONT "), "{said}");
    daemon.run(&["status"]);
}

#[test]
fn hosts_outlast_a_daemon_that_is_stopped_for_a_moment() {
    let daemon = Daemon::start(RAM);
    let mut host = crate::common::host(&daemon.address, A);
    std::thread::scope(|scope| {
        let pauses = scope.spawn(|| {
            for _ in 0..2 {
                std::thread::sleep(Duration::from_millis(200));
                daemon.signal("-STOP");
                std::thread::sleep(Duration::from_millis(800));
                daemon.signal("-CONT");
            }
        });
        let mut rounds = 0u64;
        while !pauses.is_finished() || rounds == 0 {
            host.fill_blocks(rounds % 64, 8, rounds as u8);
            assert_eq!(host.read_blocks(rounds % 64, 8), vec![rounds as u8; 8 * 512]);
            rounds += 1;
        }
    });
    assert_eq!(daemon.json(&["list", "connections"]).as_array().unwrap().len(), 1);
    assert!(!daemon.log().contains("disconnected"), "{}", daemon.log());
}

/// A small file system, for whoever may mount one.
struct Small<'a>(&'a Path);

impl<'a> Small<'a> {
    fn mount(at: &'a Path) -> Option<Small<'a>> {
        fs::create_dir(at).unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=16k", "none"]).arg(at).stderr(Stdio::null());
        mount.status().is_ok_and(|status| status.success()).then_some(Small(at))
    }
}

impl Drop for Small<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0).status();
    }
}

#[test]
fn a_change_that_cannot_be_saved_is_told_and_the_file_stays_whole() {
    let daemon = Daemon::start(RAM);
    let small = daemon.path("small");
    let Some(_small) = Small::mount(&small) else {
        eprintln!("not run: this user may mount nothing");
        return;
    };
    let (file, link) = (small.join("nvmfd.toml"), daemon.path("nvmfd.toml"));
    let before = daemon.configuration();
    fs::write(&file, &before).unwrap();
    fs::remove_file(&link).unwrap();
    std::os::unix::fs::symlink(&file, &link).unwrap();
    let mut rest = fs::File::create(small.join("rest")).unwrap();
    while rest.write_all(&[1; 4096]).is_ok() {}
    let said = daemon.refuse(&["add", "namespace", A, "--ram", "1MiB", "--save"]);
    assert!(said.contains("the file was not written: No space left on device"), "{said}");
    assert_eq!(daemon.configuration(), before);
    assert_eq!(fs::read_dir(&small).unwrap().count(), 2, "nothing is left behind");
    // It is in force all the same, as the message says.
    assert!(said.contains(&format!("+ namespace {A} 2")), "{said}");
    assert_eq!(daemon.json(&["list", "namespaces"]).as_array().unwrap().len(), 2);
}

#[test]
fn a_log_that_nobody_reads_holds_nobody_up() {
    let folder = tempfile::tempdir().unwrap();
    let (config, socket) = (folder.path().join("nvmfd.toml"), folder.path().join("a.sock"));
    let text = format!(
        "listener = [{{ address = \"{}\", provider = \"soft\" }}]\n\
         control = {{ socket = \"{}\" }}\n\
         tuning = {{ data_cores = 1, memory = \"8MiB\", control_memory = \"8MiB\" }}\n{RAM}",
        own_address(),
        socket.display()
    );
    fs::write(&config, text).unwrap();
    let mut command = program();
    command.args(["serve", "--config"]).arg(&config).stderr(Stdio::piped());
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
    let began = Instant::now();
    while UnixStream::connect(&socket).is_err() {
        assert!(began.elapsed() < Duration::from_secs(20), "not ready");
        std::thread::sleep(Duration::from_millis(5));
    }
    // More lines than a pipe holds.
    let body = "{\"nqn\": \"nqn.2026-11.io.nvmfd:b\", \"allow_any_host\": true}";
    for _ in 0..500 {
        for head in ["POST /v1/subsystems", "DELETE /v1/subsystems/nqn.2026-11.io.nvmfd:b"] {
            let body = if head.starts_with("POST") { body } else { "" };
            let mut stream = UnixStream::connect(&socket).unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
            let length = body.len();
            write!(stream, "{head} HTTP/1.1\r\nhost: a\r\ncontent-length: {length}\r\n\r\n{body}")
                .unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        }
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_broken_file_is_not_imported_and_named_with_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (folder.path().join("from.json"), folder.path().join("to.toml"));
    for (origin, text, place) in [
        ("nvmetcli", "{\"hosts\": [\n  {\"nqn\": }\n]}", "line 2 column 11"),
        ("spdk", "{\"subsystems\": [\n", "line 2 column 0"),
        ("spdk", "", "line 1 column 0"),
        ("nvmetcli", "\u{1}", "line 1 column 1"),
    ] {
        fs::write(&from, text).unwrap();
        let mut command = program();
        command.args(["import", origin]).arg(&from).arg("--output").arg(&to);
        let output = command.output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("from.json") && said.contains(place), "{said}");
        assert!(!to.exists() && output.stdout.is_empty());
    }
}

#[test]
fn odd_arguments_of_the_doctor_are_refused_with_what_is_allowed() {
    for (args, why) in [
        (&["--peer", "nowhere"][..], "--peer"),
        (&["--peer", "127.0.0.1:0"], "--peer"),
        (&["--peer", "127.0.0.1", "--seconds", "0"], "1..=20"),
        (&["--seconds", "3"], "--peer"),
        (&["--peer", "127.0.0.1", "--serve", "127.0.0.1"], "cannot be used with"),
        (&["--serve", "127.0.0.1", "--json"], "cannot be used with"),
        (&["--config", "/dev/null", "--peer", "127.0.0.1"], "cannot be used with"),
        (&["--provider", "tcp", "--peer", "127.0.0.1"], "auto, verbs, soft"),
        (&["--config", "/dev/null"], "there is no [[listener]]"),
        (&["--config", "/"], "cannot read the configuration"),
        (&["--config", ""], "--config"),
    ] {
        let output = program().arg("doctor").args(args).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
        assert!(said.contains(why), "{args:?}: {said}");
    }
}
