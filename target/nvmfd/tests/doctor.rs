//! `nvmfd doctor` as a process, on whatever machine this is.

use conformance::own_address;
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::process::{Command, Output};

fn program() -> Command {
    Command::new(env!("CARGO_BIN_EXE_nvmfd"))
}

/// Runs it with this configuration.
fn doctor(folder: &Path, address: &str, disk: &str, more: &[&str]) -> Output {
    let text = format!(
        "[[listener]]\naddress = \"{address}\"\nprovider = \"soft\"\n[[subsystem]]\n\
         nqn = \"nqn.2026-11.io.nvmfd:doctor\"\nallow_any_host = true\nnamespace = [{disk}]\n\
         [tuning]\ndata_cores = 1\nmemory = \"8MiB\"\ncontrol_memory = \"8MiB\"\n"
    );
    let config = folder.join("nvmfd.toml");
    std::fs::write(&config, text).unwrap();
    program().args(["doctor", "--config"]).arg(config).args(more).output().unwrap()
}

#[test]
fn a_machine_that_can_serve_is_told_so_in_words_and_in_json() {
    let folder = tempfile::tempdir().unwrap();
    let disk = format!("{{ path = \"{}\", size = \"1MiB\" }}", folder.path().join("a").display());
    let address = own_address().to_string();
    let output = doctor(folder.path(), &address, &disk, &[]);
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("a: would be made or extended to 1 MiB, on "), "{said}");
    assert!(said.contains("UDP port 4791 is free"), "{said}");
    assert!(!said.contains('\x1b'), "colour only on a terminal: {said}");
    assert!(!folder.path().join("a").exists(), "nothing is changed");
    let output = doctor(folder.path(), &address, &disk, &["--json"]);
    let said: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(said["findings"].as_array().is_some_and(|all| all.len() > 5), "{said}");
    assert_ne!(said["worst"], "fault");
}

#[test]
fn a_port_that_a_program_has_and_a_disk_that_is_not_there_are_faults() {
    let folder = tempfile::tempdir().unwrap();
    let address = own_address().to_string();
    let mut at: SocketAddr = address.parse().unwrap();
    at.set_port(4791);
    let _taken = UdpSocket::bind(at).unwrap();
    let output = doctor(folder.path(), &address, "{ path = \"/nowhere/a\" }", &[]);
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains(&format!("(process {})", std::process::id())), "{said}");
    assert!(said.contains("-> truncate -s 10G /nowhere/a"), "{said}");
    assert!(said.ends_with(" note\n") && said.contains("2 faults, "), "{said}");
}

#[test]
fn without_a_configuration_the_machine_alone_is_judged() {
    let output = program().arg("doctor").output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.contains("kernel"), "{said}");
    assert!(!said.contains("disk"), "{said}");
    let wrong = program().args(["doctor", "--config", "/nowhere"]).output().unwrap();
    assert_eq!(wrong.status.code(), Some(2));
}
