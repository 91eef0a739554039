use super::*;

const KERNEL: &[u8] = include_bytes!("samples/nvmetcli.json");
const SPDK: &[u8] = include_bytes!("samples/spdk.json");

fn imported(origin: Origin, file: &[u8]) -> Draft {
    draft(origin, file).unwrap_or_else(|why| panic!("{why}"))
}

/// The text as the daemon reads it.
fn config(draft: &Draft) -> config::Config {
    let text = draft.text("a.json");
    config::parse(Path::new("made.toml"), &text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn refused(origin: Origin, text: &str) -> String {
    draft(origin, text.as_bytes()).err().unwrap_or_else(|| panic!("taken: {text}"))
}

/// Whether one of the notes begins and ends so.
fn told(draft: &Draft, start: &str, end: &str) {
    let found = |note: &&String| note.starts_with(start) && note.ends_with(end);
    assert!(draft.notes.lines().iter().any(|note| found(&note)), "{start}: {:#?}", draft.notes);
}

#[test]
fn the_kernels_target_is_taken_over_with_what_hosts_know_it_by() {
    let draft = imported(Origin::Nvmetcli, KERNEL);
    let text = draft.text("/etc/nvmet/config.json");
    let expected = include_str!("samples/nvmetcli.toml");
    assert_eq!(text, expected);
    let config = config(&draft);
    let addresses: Vec<String> = config.listeners.iter().map(|l| l.address.to_string()).collect();
    assert_eq!(addresses, ["10.8.0.1:4420", "[fd00::1]:4421"]);
    assert_eq!(config.tuning.in_capsule, 16384);
}

#[test]
fn what_nvmfd_does_not_have_of_the_kernels_target_is_told() {
    let draft = imported(Origin::Nvmetcli, KERNEL);
    told(&draft, "ports[1]: serves tcp", "left out");
    told(&draft, "hosts[1]: hosts are not asked to authenticate", "by their names");
    told(&draft, "subsystems[0].attr.version: \"1.3\"", "has no counterpart");
    told(&draft, "subsystems[0].namespaces[2]: is not enabled", "left out");
    told(&draft, "subsystems[1].namespaces[0]: there are no ANA groups", "optimized");
    told(&draft, "subsystems[2].passthru[0]: passes the commands of /dev/nvme3", "/dev/nvme3n1\"");
    told(&draft, "nqn.2026-11.org.example:b: was not offered at [fd00::1]:4421", "decides");
    told(&draft, "ports[0].addr.treq: \"required\"", "has no counterpart");
    let secret = draft.notes.lines().iter().find(|note| note.contains("DHHC"));
    assert_eq!(secret, None, "a secret is told");
}

#[test]
fn spdks_target_is_taken_over_with_its_disks_and_limits() {
    let draft = imported(Origin::Spdk, SPDK);
    assert_eq!(draft.text("spdk.json"), include_str!("samples/spdk.toml"));
    let config = config(&draft);
    let limit = config.limits.namespaces[&("nqn.2026-11.org.example:fast".to_owned(), 1)];
    assert_eq!((limit.iops, limit.bandwidth), (20_000, 200 << 20));
    assert_eq!((config.tuning.max_transfer, config.tuning.control_memory), (8 << 20, 32 << 20));
}

#[test]
fn what_nvmfd_does_not_have_of_spdks_target_is_told() {
    let draft = imported(Origin::Spdk, SPDK);
    let fast = "nqn.2026-11.org.example:fast";
    told(&draft, "transport TCP", "RDMA only");
    told(&draft, &format!("{fast}: its listener TCP 10.8.0.1:4420"), "RDMA only");
    told(&draft, "Nvme0: 0000:3b:00.0 goes back to the kernel's driver", "block devices");
    told(&draft, &format!("{fast}: its namespace 4 (lvs0/disk)"), "does not say what it is");
    told(
        &draft,
        &format!("{fast}: its namespace 5 (Raid0)"),
        "bdev_raid_create has no counterpart",
    );
    told(&draft, &format!("{fast}: its namespace 6 (Far0n1)"), "10.9.0.9 with nvme-cli");
    told(&draft, "of no use here: ", "iobuf_set_options, nvmf_set_max_subsystems");
    told(&draft, "Malloc0: is memory", "every start");
}

#[test]
fn a_file_keeps_the_blocks_that_the_kernel_gave_it_and_a_device_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path().join("disk");
    fs::write(&here, "").unwrap();
    assert!(is_file(&here.display().to_string()));
    assert!(!is_file("/dev/null"));
    assert!(!is_file("/dev/not-on-this-machine"));
    assert!(is_file("/not/on/this/machine.img"));
}

#[test]
fn a_file_of_the_wrong_kind_is_refused_with_what_it_is() {
    for (origin, text, why) in [
        (Origin::Nvmetcli, "{", "not JSON: EOF while parsing an object at line 1 column 1"),
        (Origin::Nvmetcli, "[]", "must be an object with the target's parts, and is []"),
        (Origin::Spdk, "{}", "has no subsystems, so SPDK's save_config did not write it"),
        (Origin::Nvmetcli, "{}", "nvmetcli did not write it"),
        (Origin::Nvmetcli, "{\"hosts\": 7}", "hosts: must be a list, and is 7"),
        (
            Origin::Nvmetcli,
            "{\"ports\": [{\"addr\": {\"trtype\": []}}]}",
            "ports[0].addr.trtype: must be a text, and is []",
        ),
        (
            Origin::Nvmetcli,
            "{\"ports\": [], \"subsystems\": [{\"nqn\": \"a\", \"attr\": {\"allow_any_host\": \"yes\"}}]}",
            "subsystems[0].attr.allow_any_host: must be 0 or 1, and is \"yes\"",
        ),
        (
            Origin::Nvmetcli,
            "{\"ports\": [], \"subsystems\": [{}]}",
            "subsystems[0].nqn: is missing",
        ),
        (
            Origin::Nvmetcli,
            "{\"subsystems\": [{\"subsystem\": \"nvmf\"}]}",
            "use nvmfd import spdk",
        ),
        (Origin::Spdk, "{\"ports\": []}", "use nvmfd import nvmetcli"),
        (Origin::Spdk, "{\"subsystems\": [{}]}", "SPDK did not write it"),
        (
            Origin::Spdk,
            "{\"subsystems\": [{\"subsystem\": \"nvmf\", \"config\": [{\"params\": {}}]}]}",
            "subsystems[0].config[0].method: is missing",
        ),
        (
            Origin::Spdk,
            "{\"subsystems\": [{\"subsystem\": \"nvmf\", \"config\": [{\"method\": \
             \"nvmf_subsystem_add_host\", \"params\": {\"nqn\": \"a\", \"host\": \"b\"}}]}]}",
            "subsystems[0].config[0].params: no call before this one makes a",
        ),
    ] {
        let said = refused(origin, text);
        assert!(said.contains(why), "{text}: {said}");
    }
}

#[test]
fn a_name_cannot_break_out_of_its_text_or_its_comment() {
    let nqn = "a\\\"\\n[tuning]\\npoll = \\\"always\\\"";
    let text = format!(
        "{{\"ports\": [{{\"addr\": {{\"trtype\": \"{nqn}\"}}}}], \"subsystems\": [{{\"nqn\": \"{nqn}\"}}]}}"
    );
    let made = imported(Origin::Nvmetcli, text.as_bytes()).text("a\nb");
    let table: toml::Table = made.parse().unwrap();
    assert_eq!(table.keys().collect::<Vec<_>>(), ["subsystem"], "{made}");
}

#[test]
fn a_result_is_written_once_and_again_only_when_that_is_wanted() {
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (folder.path().join("a.json"), folder.path().join("a.toml"));
    fs::write(&from, KERNEL).unwrap();
    let run = |force| import(Origin::Nvmetcli, &from, Some(&to), force);
    let told = run(false).unwrap_or_else(|_| panic!("must be complete"));
    assert!(told.ends_with(&format!("next: nvmfd check --config {}", to.display())), "{told}");
    let first = fs::read_to_string(&to).unwrap();
    fs::write(&to, "mine").unwrap();
    let Err(Failure::Nothing(why)) = run(false) else { panic!("must be refused") };
    assert!(why.ends_with("a.toml is there already: --force replaces it"), "{why}");
    assert_eq!(fs::read_to_string(&to).unwrap(), "mine");
    assert!(run(true).is_ok());
    assert_eq!(fs::read_to_string(&to).unwrap(), first);
}

#[test]
fn a_result_that_lacks_something_is_written_and_says_what() {
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (folder.path().join("a.json"), folder.path().join("a.toml"));
    fs::write(&from, "{\"ports\": [], \"hosts\": []}").unwrap();
    let made = import(Origin::Nvmetcli, &from, Some(&to), false);
    let Err(Failure::Incomplete(told)) = made else { panic!("cannot be complete") };
    assert!(told.contains("before it can be served:\n"), "{told}");
    assert!(told.contains("a.toml: there is no [[listener]]"), "{told}");
    assert!(to.exists());
}

#[test]
fn a_host_that_is_named_twice_is_allowed_once() {
    let host = "\"nqn.2014-08.org.example:twice\"";
    let text = std::str::from_utf8(KERNEL).unwrap();
    let list = "\"allowed_hosts\": [\n";
    let twice = text.replacen(list, &format!("{list}{host}, {host},\n"), 1);
    assert_ne!(twice, text);
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (folder.path().join("a.json"), folder.path().join("a.toml"));
    fs::write(&from, twice).unwrap();
    let _ = import(Origin::Nvmetcli, &from, Some(&to), false);
    let text = fs::read_to_string(&to).unwrap();
    assert_eq!(text.matches("org.example:twice").count(), 1, "{text}");
}
