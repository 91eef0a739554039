//! A running daemon, changed and looked at from outside.

use crate::common::Daemon;
use std::io::{Read, Write};
use std::time::{Duration, Instant};

const A: &str = "nqn.2026-11.io.nvmfd:a";
const B: &str = "nqn.2026-11.io.nvmfd:b";
const HOST: &str = "nqn.2014-08.org.example:h1";

fn subsystem(nqn: &str, namespaces: &str) -> String {
    format!("[[subsystem]]\nnqn = \"{nqn}\"\nallow_any_host = true # open\n{namespaces}")
}

fn ram(size: &str) -> String {
    format!("[[subsystem.namespace]]\nram = \"{size}\"\n")
}

#[test]
fn a_reload_makes_what_is_different_and_a_second_one_finds_nothing() {
    let daemon = Daemon::start(&subsystem(A, &ram("1MiB")));
    daemon.configure(&(subsystem(A, &ram("1MiB")) + &subsystem(B, &ram("2MiB"))));
    let config = daemon.path("nvmfd.toml");
    let config = config.to_str().unwrap();
    let expected = format!("+ subsystem {B}\n+ namespace {B} 1: 2 MiB of memory\n");
    assert_eq!(daemon.run(&["check", "--config", config, "--diff"]), expected);
    assert_eq!(daemon.run(&["reload"]), expected);
    assert_eq!(daemon.run(&["reload"]), "nothing is different\n");
    assert_eq!(daemon.json(&["show", "namespace", B, "1"])["size"], 2 << 20);

    daemon.configure(&subsystem(A, &ram("1MiB")));
    daemon.signal("-HUP");
    daemon.wait_for("configuration read again changed=2");
    assert_eq!(daemon.json(&["list", "subsystems"]).as_array().unwrap().len(), 1);
}

#[test]
fn a_bad_file_changes_nothing() {
    let daemon = Daemon::start(&subsystem(A, &ram("1MiB")));
    // A good subsystem, and a disk that is not there.
    let missing = "[[subsystem.namespace]]\npath = \"/nowhere/disk\"\n";
    daemon.configure(&(subsystem(B, &ram("1MiB")) + &subsystem(A, missing)));
    let said = daemon.refuse(&["reload"]);
    assert!(said.contains("nvmfd.toml:19: "), "{said}");
    assert!(said.contains("/nowhere/disk"), "{said}");
    daemon.configure("frob = 1\n");
    let said = daemon.refuse(&["reload"]);
    assert!(said.contains("nvmfd.toml:11:1: unknown field `frob`"), "{said}");
    daemon.signal("-HUP");
    daemon.wait_for("nothing was changed");
    let subsystems = daemon.json(&["list", "subsystems"]);
    assert_eq!(subsystems.as_array().unwrap().len(), 1);
    assert_eq!(subsystems[0]["nqn"], A);
    assert_eq!(subsystems[0]["namespaces"][0]["size"], 1 << 20);
}

#[test]
fn changes_are_kept_by_save_only_and_comments_stay() {
    let daemon = Daemon::start(&subsystem(A, &ram("1MiB")));
    daemon.run(&["add", "subsystem", B, "--host", HOST]);
    assert!(!daemon.configuration().contains(B));
    daemon.run(&["add", "namespace", A, "--null", "1GiB", "--save"]);
    let text = daemon.configuration();
    assert!(text.contains("# open") && text.contains("null = \"1GiB\""), "{text}");
    assert!(!text.contains(B), "only the change itself is written: {text}");
    // What was not saved is gone with the next reload.
    assert_eq!(daemon.run(&["reload"]), format!("- subsystem {B} (its connections end)\n"));
    assert_eq!(daemon.json(&["list", "namespaces"]).as_array().unwrap().len(), 2);
}

#[test]
fn a_file_grows_moves_and_is_locked() {
    let daemon = Daemon::start(&subsystem(A, &ram("1MiB")));
    let disk = daemon.path("disk");
    let disk = disk.to_str().unwrap();
    daemon.run(&["add", "namespace", A, "--path", disk, "--size", "1MiB", "--nsid", "7"]);
    daemon.run(&["set", "namespace", A, "7", "size=3MiB"]);
    assert_eq!(std::fs::metadata(disk).unwrap().len(), 3 << 20);
    assert_eq!(daemon.json(&["show", "namespace", A, "7"])["size"], 3 << 20);
    let said = daemon.refuse(&["set", "namespace", A, "7", "size=1MiB"]);
    assert!(said.starts_with(&format!("{A} namespace 7: {disk}: holds 3145728")), "{said}");
    // To another number: the file is let go of before it is opened again.
    daemon.run(&["set", "namespace", A, "7", "nsid=9"]);
    assert_eq!(daemon.json(&["show", "namespace", A, "9"])["size"], 3 << 20);
    daemon.run(&["set", "namespace", A, "9", "read_only=true"]);
    assert_eq!(daemon.json(&["show", "namespace", A, "9"])["read_only"], true);
    // And back, without another disk coming in its place.
    let said = daemon.run(&["set", "namespace", A, "9", "read_only=false"]);
    assert_eq!(said, format!("~ namespace {A} 9: read-write\n"));
    assert_eq!(daemon.json(&["show", "namespace", A, "9"])["read_only"], false);
    // Another daemon cannot have it meanwhile.
    let other = Daemon::start(&subsystem(A, &ram("1MiB")));
    let said = other.refuse(&["add", "namespace", A, "--path", disk]);
    assert!(said.contains("another process"), "{said}");
    daemon.run(&["remove", "namespace", A, "9"]);
    other.run(&["add", "namespace", A, "--path", disk]);
}

#[test]
fn every_kind_of_thing_is_listed_added_changed_and_removed() {
    let daemon = Daemon::start(&subsystem(A, &ram("1MiB")));
    assert!(
        daemon.run(&["status"]).contains("serving        1 subsystem, 1 namespace on 1 data core")
    );
    for what in ["subsystems", "namespaces", "hosts", "listeners", "connections", "cores"] {
        assert!(daemon.json(&["list", what]).is_array(), "{what}");
        assert!(daemon.run(&["list", what]).lines().count() >= 1);
    }
    assert_eq!(daemon.json(&["show", "limits"])["max_transfer"], 256 << 10);

    daemon.run(&["add", "subsystem", B, "--host", HOST, "--serial", "S1"]);
    daemon.run(&["add", "host", B, "nqn.2014-08.org.example:h2"]);
    daemon.run(&["remove", "host", B, HOST]);
    let shown = daemon.json(&["show", "subsystem", B]);
    assert_eq!(shown["allowed_hosts"][0], "nqn.2014-08.org.example:h2");
    assert_eq!(shown["serial"], "S1");
    daemon.run(&["set", "subsystem", B, "allowed_hosts=", "allow_any_host=true"]);
    assert_eq!(daemon.json(&["show", "subsystem", B])["allow_any_host"], true);
    daemon.run(&["remove", "subsystem", B]);

    let address = crate::common::own_address();
    daemon.run(&["add", "listener", &address, "--provider", "soft"]);
    assert_eq!(daemon.json(&["list", "listeners"]).as_array().unwrap().len(), 2);
    daemon.run(&["remove", "listener", &address]);
    assert_eq!(daemon.json(&["list", "listeners"]).as_array().unwrap().len(), 1);

    let said = daemon.run(&["set", "limits", "queue_depth=64"]);
    // A restart reads the file, which does not have it.
    let expected = "takes a restart, once the file has it: --save writes it there";
    assert_eq!(said, format!("! tuning.queue_depth: {expected}\n"));
    let said = daemon.run(&["set", "limits", "queue_depth=64", "--save"]);
    assert!(said.starts_with("! tuning.queue_depth: stays as it is until a restart\n"), "{said}");
    for (args, why) in [
        (&["remove", "subsystem", B][..], "there is no subsystem"),
        (&["remove", "namespace", A, "3"], "there is no namespace 3"),
        (&["remove", "connection", A, "1"], "there is no controller 1"),
        (&["add", "subsystem", A, "--allow-any-host"], "is given to two subsystems"),
        (&["add", "subsystem", "frob", "--allow-any-host"], "is not an NQN"),
        (&["add", "namespace", A, "--ram", "1XiB"], "is not a unit"),
        (&["set", "limits", "queue_dept=64"], "did you mean `queue_depth`?"),
        (&["set", "limits", "queue_depth=1"], "is out of range: 16 to 4096"),
    ] {
        let said = daemon.refuse(args);
        assert!(said.contains(why), "{args:?}: {said}");
        // The lines of a text that nobody has seen help nobody.
        assert!(!said.contains(".toml:"), "{args:?}: {said}");
    }
}

#[test]
fn a_disk_that_was_opened_for_reading_is_opened_for_writing_or_stays_as_it_is() {
    let disk = tempfile::NamedTempFile::new().unwrap();
    disk.as_file().set_len(1 << 20).unwrap();
    let path = disk.path().to_str().unwrap();
    let namespace = format!("[[subsystem.namespace]]\npath = \"{path}\"\nread_only = true\n");
    let daemon = Daemon::start(&subsystem(A, &namespace));
    // Another daemon may read it meanwhile, and then nobody may write.
    let other = Daemon::start(&subsystem(A, &namespace));
    let said = daemon.refuse(&["set", "namespace", A, "1", "read_only=false"]);
    assert!(said.contains("already exported by another"), "{said}");
    assert!(!daemon.log().contains("- namespace"), "it was looked at only: {}", daemon.log());
    assert_eq!(daemon.json(&["show", "namespace", A, "1"])["read_only"], true);
    drop(other);
    daemon.run(&["set", "namespace", A, "1", "read_only=false"]);
    let mut host = crate::common::host(&daemon.address, A);
    host.fill_blocks(0, 8, 7);
    assert_eq!(host.read_blocks(0, 8), vec![7; 8 * 512]);
}

#[test]
fn a_refused_change_changes_nothing_and_is_forgotten() {
    let daemon = Daemon::start(&subsystem(A, ""));
    let disk = daemon.path("disk");
    let disk = disk.to_str().unwrap();
    daemon.run(&["add", "namespace", A, "--path", disk, "--size", "3MiB", "--nsid", "1"]);
    daemon.run(&["set", "namespace", A, "1", "read_only=true"]);
    let mut host = crate::common::host(&daemon.address, A);
    for settings in [
        &["size=1MiB"][..],
        &["size=1MiB", "read_only=false"],
        &["size=1MiB", "nsid=2"],
        &["block_size=4096", "size=1MiB"],
    ] {
        let said = daemon.refuse(&[&["set", "namespace", A, "1"], settings].concat());
        assert!(said.contains("files are never cut"), "{settings:?}: {said}");
    }
    let said = daemon.refuse(&["set", "namespace", A, "1", "size=4MiB"]);
    assert!(said.contains("a disk that is read_only is not extended"), "{said}");
    // By file too, and whoever asks beforehand hears the same.
    let file = |more: &str| {
        let disk = format!("[[subsystem.namespace]]\npath = \"{disk}\"\n{more}\n");
        daemon.configure(&subsystem(A, &disk));
    };
    let config = daemon.path("nvmfd.toml");
    let diff = ["check", "--config", config.to_str().unwrap(), "--diff"];
    for more in ["size = \"1MiB\"", "size = \"1MiB\"\nread_only = true"] {
        file(more);
        let said = daemon.refuse(&diff);
        assert!(said.contains("files are never cut"), "{more}: {said}");
        assert_eq!(said, daemon.refuse(&["reload"]));
    }
    assert_eq!(host.read_blocks(0, 8), vec![0; 8 * 512]);
    assert!(!daemon.log().contains("- namespace"), "{}", daemon.log());
    let said = daemon.run(&["add", "subsystem", B, "--allow-any-host"]);
    assert_eq!(said, format!("+ subsystem {B}\n"));
    // What may be is done in place.
    let said = daemon.run(&["set", "namespace", A, "1", "size=4MiB", "read_only=false"]);
    let name = format!("~ namespace {A} 1");
    assert_eq!(said, format!("{name}: read-write\n{name}: size 4 MiB\n"));
    file("size = \"5MiB\"\nread_only = true");
    let said = daemon.run(&["reload"]);
    assert!(said.ends_with(&format!("{name}: size 5 MiB\n{name}: read-only\n")), "{said}");
    assert_eq!(host.read_blocks(8, 8), vec![0; 8 * 512]);
}

/// A subsystem whose second disk is refused only when it is added, in both languages.
fn half_good(daemon: &Daemon) -> (String, String) {
    daemon.run(&["add", "subsystem", B, "--allow-any-host"]);
    daemon.run(&["add", "namespace", B, "--ram", "1MiB"]);
    let shown = daemon.json(&["show", "namespace", B, "1"]);
    daemon.run(&["remove", "subsystem", B]);
    let uuid = shown["uuid"].as_str().unwrap();
    let body = format!(
        "{{\"nqn\": \"{B}\", \"allow_any_host\": true, \"namespace\": \
         [{{\"ram\": \"1MiB\"}}, {{\"null\": \"1MiB\", \"uuid\": \"{uuid}\"}}]}}"
    );
    let text = subsystem(B, &ram("1MiB"))
        + &format!("[[subsystem.namespace]]\nnull = \"1MiB\"\nuuid = \"{uuid}\"\n");
    (body, text)
}

#[test]
fn a_change_that_fails_half_way_is_taken_back() {
    let daemon = Daemon::start(&subsystem(A, &ram("1MiB")));
    let (body, _) = half_good(&daemon);
    let request = format!(
        "POST /v1/subsystems HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    );
    let said = daemon.raw(request.as_bytes());
    assert!(said.contains("has the same identifier"), "{said}");
    assert_eq!(daemon.json(&["list", "subsystems"]).as_array().unwrap().len(), 1);
    let said = daemon.run(&["add", "namespace", A, "--ram", "1MiB"]);
    assert_eq!(said, format!("+ namespace {A} 2: 1 MiB of memory\n"));
}

#[test]
fn what_of_a_file_fails_is_tried_again_with_the_next_reload_only() {
    let daemon = Daemon::start(&subsystem(A, &ram("1MiB")));
    let (_, text) = half_good(&daemon);
    daemon.configure(&(text + &subsystem(A, &ram("1MiB"))));
    let said = daemon.refuse(&["reload"]);
    assert!(said.contains("has the same identifier"), "{said}");
    let said = daemon.run(&["add", "namespace", A, "--ram", "1MiB"]);
    assert_eq!(said, format!("+ namespace {A} 2: 1 MiB of memory\n"));
    let said = daemon.refuse(&["reload"]);
    assert!(said.contains("has the same identifier"), "{said}");
    // In JSON that is an answer, and a failure all the same.
    assert_eq!(daemon.refuse(&["reload", "--json"]), "");
}

#[test]
fn an_empty_variable_for_the_socket_says_nothing() {
    let output = crate::common::program().arg("status").env("NVMFD_SOCKET", "").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!said.contains("--socket <PATH>"), "{said}");
}

#[test]
fn a_word_too_many_is_told_without_what_was_not_typed() {
    let output = crate::common::program()
        .args(["status", "all"])
        .env("NVMFD_SOCKET", "/a.sock")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("'all'") && !said.contains("--socket"), "{said}");
}

#[test]
fn a_second_daemon_on_the_same_socket_is_refused() {
    let daemon = Daemon::start(&subsystem(A, &ram("1MiB")));
    let config = daemon.path("nvmfd.toml");
    let output = crate::common::program().args(["serve", "--config"]).arg(config).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("another nvmfd has the control socket"), "{said}");
    daemon.run(&["status"]);
}

#[test]
fn malformed_huge_and_slow_requests_cost_only_themselves() {
    let daemon = Daemon::start(&subsystem(A, &ram("1MiB")));
    let mut slow = daemon.connect();
    slow.write_all(b"GET /v1/status HT").unwrap();
    assert!(daemon.raw(b"frob\r\n\r\n").starts_with("HTTP/1.1 400"));
    assert!(daemon.raw(b"GET /frob HTTP/1.1\r\n\r\n").contains("see /v1/openapi.json"));
    let head = format!("GET /v1/status HTTP/1.1\r\nx: {}\r\n\r\n", "y".repeat(64 << 10));
    assert!(daemon.raw(head.as_bytes()).starts_with("HTTP/1.1 431"));
    let huge = b"POST /v1/config/check HTTP/1.1\r\ncontent-length: 99999999999\r\n\r\n";
    assert!(daemon.raw(huge).starts_with("HTTP/1.1 413"), "{}", daemon.raw(huge));
    let deep = format!("{}{}", "[".repeat(1000), "]".repeat(1000));
    let body = format!("{{\"nqn\": {deep}}}");
    let request =
        format!("POST /v1/subsystems HTTP/1.1\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    assert!(daemon.raw(request.as_bytes()).starts_with("HTTP/1.1 400"));
    let odd = "PATCH /v1/limits?frob=1 HTTP/1.1\r\ncontent-length: 2\r\n\r\n{}";
    assert!(daemon.raw(odd.as_bytes()).contains("?frob=1"));
    // The slow one is hung up on, and meanwhile others are served.
    let began = Instant::now();
    daemon.run(&["status"]);
    let mut answer = Vec::new();
    slow.read_to_end(&mut answer).unwrap();
    assert!(began.elapsed() < Duration::from_secs(10));
}

#[test]
fn events_are_told_as_they_happen() {
    let daemon = Daemon::start(&subsystem(A, &ram("1MiB")));
    let mut trace = crate::common::program()
        .args(["trace", "--json"])
        .env("NVMFD_SOCKET", daemon.path("a.sock"))
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let lines = std::io::BufRead::lines(std::io::BufReader::new(trace.stdout.take().unwrap()));
    // Whatever comes first was caused by one of these.
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..20 {
                daemon.run(&["add", "subsystem", B, "--allow-any-host"]);
                daemon.run(&["remove", "subsystem", B]);
            }
        });
        let first = lines.map_while(Result::ok).next().unwrap();
        let event: serde_json::Value = serde_json::from_str(&first).unwrap();
        assert!(event["message"].as_str().unwrap().contains(B), "{first}");
    });
    trace.kill().unwrap();
    trace.wait().unwrap();
}

#[test]
fn a_host_at_work_does_not_notice_fifty_reloads() {
    let daemon = Daemon::start(&subsystem(A, &ram("1MiB")));
    let file = daemon.path("disk");
    std::fs::write(&file, vec![0; 1 << 20]).unwrap();
    let mut host = crate::common::host(&daemon.address, A);
    std::thread::scope(|scope| {
        let reloads = scope.spawn(|| {
            let disk = format!("[[subsystem.namespace]]\npath = \"{}\"\n", file.display());
            let listener = format!(
                "[[listener]]\naddress = \"{}\"\nprovider = \"soft\"\n",
                crate::common::own_address()
            );
            let mut changes = 0;
            for n in 0..50 {
                // By turns: a disk beside the one in use, a subsystem with disks, a listener.
                let mut text = subsystem(A, &ram("1MiB"));
                if n % 2 == 0 {
                    text += &disk;
                }
                if n % 3 == 0 {
                    text += &(subsystem(B, &ram("2MiB")) + &ram("3MiB"));
                }
                if n % 5 == 0 {
                    text += &listener;
                }
                daemon.configure(&text);
                let outcome = daemon.json(&["reload"]);
                assert_eq!(outcome["failed"].as_array().unwrap().len(), 0, "{outcome}");
                changes += outcome["changed"].as_array().unwrap().len();
            }
            changes
        });
        let mut rounds = 0u32;
        while !reloads.is_finished() {
            let byte = rounds as u8;
            host.fill_blocks(u64::from(rounds % 64), 8, byte);
            assert_eq!(host.read_blocks(u64::from(rounds % 64), 8), vec![byte; 8 * 512]);
            rounds += 1;
        }
        assert!(reloads.join().unwrap() >= 100);
        assert!(rounds > 100, "{rounds} rounds");
    });
    let connection = daemon.json(&["show", "connection", A, "1"]);
    assert_eq!(connection["io_queues"], 1);
    assert!(!daemon.log().contains("disconnected"), "{}", daemon.log());
    // And an operator can end it.
    daemon.run(&["remove", "connection", A, "1"]);
    daemon.wait_for("an operator dropped the connection");
}

#[test]
fn a_change_is_made_whole_though_its_caller_hangs_up() {
    let daemon = Daemon::start(&subsystem(A, &ram("1MiB")));
    let body = format!(
        "{{\"nqn\": \"{B}\", \"allow_any_host\": true, \"namespace\": [{}]}}",
        vec!["{\"ram\": \"1MiB\"}"; 20].join(", ")
    );
    let add = format!(
        "POST /v1/subsystems HTTP/1.1\r\nhost: a\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let remove = format!("DELETE /v1/subsystems/{B} HTTP/1.1\r\nhost: a\r\n\r\n");
    for n in 0..40u64 {
        for request in [&add, &remove] {
            let mut caller = daemon.connect();
            caller.write_all(request.as_bytes()).unwrap();
            // At once, or in the middle of it.
            std::thread::sleep(Duration::from_micros(n * 20));
        }
    }
    // What is thought to be in force is what there is: a reload finds the way back.
    daemon.run(&["reload"]);
    let all = daemon.json(&["list", "namespaces"]);
    assert_eq!(all.as_array().unwrap().len(), 1, "{all}");
    assert_eq!(daemon.run(&["reload"]), "nothing is different\n");
}

#[test]
fn slow_and_failed_commands_are_told() {
    let drill = "inject = { delay_ms = 20, error_every = 4 }\n[log]\nslow_ms = 5\n";
    let daemon = Daemon::start(&(subsystem(A, &ram("1MiB")) + drill));
    let mut host = crate::common::host(&daemon.address, A);
    let buffer = host.buffer(512, 0);
    for n in 0..4 {
        host.io(initiator::commands::read(1, n, 1, false), buffer);
    }
    // On a busy machine connecting may be slow too.
    daemon.wait_for("command=Read nsid 1 slba 0 took_us=");
    daemon.wait_for("command failed");
    let log = daemon.log();
    let slow = log.lines().find(|line| line.contains("slba 0 took_us=")).unwrap();
    assert!(slow.contains("slow command") && slow.contains(&format!("subnqn={A}")), "{slow}");
    let failed = log.lines().find(|line| line.contains("command failed")).unwrap();
    assert!(failed.contains("command=Read nsid 1 slba 3") && failed.contains("qid=1"), "{failed}");
}

#[test]
fn a_daemon_that_ends_takes_its_socket_along() {
    let daemon = Daemon::start(&subsystem(A, &ram("1MiB")));
    assert!(daemon.path("a.sock").exists());
    daemon.signal("-TERM");
    daemon.wait_for("stopped");
    assert!(!daemon.path("a.sock").exists());
    assert!(daemon.refuse(&["status"]).contains("is it running?"));
}
