use super::*;

const GOOD: &str = r#"
[[listener]]
address = "10.8.0.1"

[[subsystem]]
nqn = "nqn.2026-11.io.nvmfd:demo"
allow_any_host = true

[[subsystem.namespace]]
path = "/srv/disk.img"
"#;

fn errors(text: &str) -> String {
    parse(Path::new("nvmfd.toml"), text).expect_err("must be refused").to_string()
}

/// The good configuration with one text replaced.
fn with(from: &str, to: &str) -> String {
    assert!(GOOD.contains(from), "{from}");
    GOOD.replacen(from, to, 1)
}

fn parsed(text: &str) -> Config {
    parse(Path::new("nvmfd.toml"), text).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn five_lines_are_enough() {
    let config = parsed(GOOD);
    let address = "10.8.0.1:4420".parse().unwrap();
    assert_eq!(config.listeners, [Listener { address, provider: Provider::Auto }]);
    let subsystem = &config.subsystems[0];
    assert_eq!(subsystem.hosts, AllowedHosts::Any);
    assert_eq!(subsystem.serial.len(), 20);
    assert_eq!(subsystem.model, "nvmfd");
    assert_eq!(subsystem.namespaces[0].nsid, 1);
    assert_ne!(subsystem.namespaces[0].uuid, [0; 16]);
}

#[test]
fn derived_identifiers_are_the_same_after_a_restart_and_differ_by_place() {
    let id = |text: &str| parsed(text).subsystems[0].namespaces[0].uuid;
    assert_eq!(id(GOOD), id(GOOD));
    assert_ne!(id(GOOD), id(&with("disk.img", "disk2.img")));
    assert_ne!(id(GOOD), id(&with(":demo", ":other")));
    assert_ne!(id(GOOD), id(&with("path =", "nsid = 2\npath =")));
    // Written down once: a change of the derivation would show hosts new disks.
    assert_eq!(
        uuid::Uuid::from_bytes(id(GOOD)).to_string(),
        "c621116b-441d-5d2a-9e74-344e4c84bd89"
    );
    assert_eq!(parsed(GOOD).subsystems[0].serial, "3ee9270bf607568c9606");
}

#[test]
fn free_nsids_are_given_in_order() {
    let text = format!(
        "{GOOD}nsid = 2\n[[subsystem.namespace]]\nram = \"1MiB\"\n[[subsystem.namespace]]\nnull = 1048576\n"
    );
    let ids: Vec<u32> = parsed(&text).subsystems[0].namespaces.iter().map(|ns| ns.nsid).collect();
    assert_eq!(ids, [1, 2, 3]);
}

#[test]
fn a_misspelt_key_is_named_with_its_place_and_a_guess() {
    assert_eq!(
        errors(&with("address", "adress")),
        "nvmfd.toml:3:1: unknown field `adress`\n  \
         hint: did you mean `address`?"
    );
    assert_eq!(
        errors(&with("allow_any_host", "frobnicate")).lines().last().unwrap(),
        "  hint: allowed here: nqn, allow_any_host, allowed_hosts, serial, model, \
         duplicate_hosts, cntlids, namespace"
    );
}

#[test]
fn keys_that_are_none_are_told_at_once_and_with_values_that_are_wrong() {
    let text = with("address", "adress").replace("= true", "= \"yes\"") + "[tunning]\nmemory = 1\n";
    let said = errors(&text);
    assert_eq!(said.matches("unknown field").count(), 2, "{said}");
    assert!(said.contains("did you mean `tuning`?") && said.contains("neither true nor"), "{said}");
    let said = errors(&format!("{GOOD}[[namespace]]\nram = 4096\n"));
    assert!(said.contains("unknown field `namespace`"), "{said}");
}

#[test]
fn a_value_of_the_wrong_type_is_named_with_its_key() {
    assert_eq!(
        errors(&with("= true", "= \"yes\"")),
        "nvmfd.toml:7:18: subsystem.allow_any_host: \"yes\" is neither true nor false\n  \
         hint: write true or false"
    );
    assert_eq!(
        errors(&format!("{GOOD}[tuning]\npoll = \"adaptve\"\n")),
        "nvmfd.toml:12:8: tuning.poll: \"adaptve\" is not possible\n  \
         hint: did you mean \"adaptive\"?"
    );
}

#[test]
fn broken_toml_is_named_with_its_place() {
    let said = errors(&with("\"10.8.0.1\"", "\"10.8.0.1"));
    assert!(said.starts_with("nvmfd.toml:3:20: "), "{said}");
}

#[test]
fn a_missing_key_is_named() {
    let said = errors(&with("address = \"10.8.0.1\"", ""));
    assert!(said.contains("missing field `address`"), "{said}");
    assert!(said.starts_with("nvmfd.toml:2:1: "), "{said}");
}

#[test]
fn who_may_connect_is_an_explicit_choice() {
    assert_eq!(
        errors(&with("allow_any_host = true", "")),
        "nvmfd.toml:6:7: subsystem \"nqn.2026-11.io.nvmfd:demo\" does not say which hosts may \
         connect\n  hint: add allowed_hosts = [\"nqn...\"], or allow_any_host = true"
    );
    assert_eq!(
        errors(&with("= true", "= true\nallowed_hosts = []")),
        "nvmfd.toml:8:17: subsystem.allowed_hosts: does nothing beside allow_any_host = true\n  \
         hint: keep one of the two"
    );
}

#[test]
fn names_are_checked() {
    let said = errors(&with("nqn.2026-11.io.nvmfd:demo", "demo"));
    assert!(said.starts_with("nvmfd.toml:6:7: subsystem.nqn: \"demo\" is not an NQN: "), "{said}");
    let said = errors(&with("nqn.2026-11.io.nvmfd:demo", "nqn.2014-08.org.nvmexpress.discovery"));
    assert!(said.contains("the discovery service itself"), "{said}");
}

#[test]
fn the_configuration_itself_is_no_disk() {
    let folder = tempfile::tempdir().unwrap();
    let (file, link) = (folder.path().join("nvmfd.toml"), folder.path().join("link"));
    std::fs::write(&file, "").unwrap();
    std::fs::hard_link(&file, &link).unwrap();
    let text = with("/srv/disk.img", link.to_str().unwrap());
    let said = parse(&file, &text).unwrap_err().to_string();
    assert!(said.contains(":10:8: namespace.path: is this configuration itself"), "{said}");
    std::fs::remove_file(&link).unwrap();
    assert!(parse(&file, &text).is_ok());
}

#[test]
fn what_must_be_unique_is_refused_twice() {
    let second = GOOD.replace("[[listener]]\naddress = \"10.8.0.1\"", "");
    assert_eq!(
        errors(&format!("{GOOD}{second}")),
        "nvmfd.toml:15:7: subsystem.nqn: \"nqn.2026-11.io.nvmfd:demo\" is given to two subsystems\n\
         nvmfd.toml:19:8: namespace.path: /srv/disk.img is exported twice\n  \
         hint: one file or device belongs to one namespace, unless all are read_only"
    );
    assert_eq!(
        errors(&format!("{GOOD}nsid = 3\n[[subsystem.namespace]]\nram = 4096\nnsid = 3\n")),
        "nvmfd.toml:14:8: namespace.nsid: 3 is given to two namespaces of this subsystem"
    );
    assert_eq!(
        errors(&format!("{GOOD}[[listener]]\naddress = \"10.8.0.1:4420\"\n")),
        "nvmfd.toml:12:11: listener.address: 10.8.0.1:4420 is listed twice"
    );
    let said = errors(&format!("{GOOD}[[listener]]\naddress = \"0.0.0.0\"\n"));
    assert!(said.contains("0.0.0.0:4420 and 10.8.0.1:4420 overlap"), "{said}");
}

#[test]
fn read_only_namespaces_may_share_a_file() {
    let text = format!(
        "{GOOD}read_only = true\n[[subsystem.namespace]]\npath = \"/srv/disk.img\"\nread_only = true\n"
    );
    assert_eq!(parsed(&text).subsystems[0].namespaces.len(), 2);
}

#[test]
fn a_namespace_has_one_medium() {
    assert_eq!(
        errors(&format!("{GOOD}ram = \"1MiB\"\n")),
        "nvmfd.toml:9:1: namespace: needs exactly one of path, ram and null\n  hint: path = \
         \"/srv/disk.img\", ram = \"256MiB\" or null = \"1GiB\""
    );
    assert_eq!(
        errors(&with("path = \"/srv/disk.img\"", "ram = \"1MiB\"\nbuffered = true")),
        "nvmfd.toml:11:12: namespace.buffered: goes with path only"
    );
    let said = errors(&with("/srv/disk.img", "disk.img"));
    assert!(said.contains("namespace.path: \"disk.img\" is relative"), "{said}");
}

#[test]
fn sizes_have_units_and_ranges() {
    let size = |text: &str| units::bytes(&raw::RawSize::Text(text.to_owned()));
    assert_eq!(size("256MiB"), Ok(256 << 20));
    assert_eq!(size("1 TiB"), Ok(1 << 40));
    assert_eq!(size("4096"), Ok(4096));
    assert!(size("1GB").unwrap_err().contains("\"GB\" is not a unit"));
    assert!(size("GiB").is_err());
    assert!(size("1.5GiB").is_err());
    assert!(size("99999999TiB").is_err());
    assert_eq!(
        errors(&format!("{GOOD}[tuning]\nmemory = \"5GiB\"\n")),
        "nvmfd.toml:12:10: tuning.memory: 5 GiB is out of range: 1 MiB to 4094 MiB"
    );
    assert_eq!(
        errors(&format!("{GOOD}[tuning]\nmemory = \"2MiB\"\n")),
        "nvmfd.toml:12:10: tuning.memory: 2 MiB is less than four times max_transfer (1 MiB)"
    );
    assert_eq!(
        errors(&format!("{GOOD}[tuning]\nmax_transfer = \"96KiB\"\n")),
        "nvmfd.toml:12:16: tuning.max_transfer: must be a power of two"
    );
    let said = errors(&format!("{GOOD}[tuning]\nmemory = true\n"));
    assert!(said.contains("tuning") || said.contains("memory"), "{said}");
}

#[test]
fn numbers_have_ranges() {
    assert_eq!(
        errors(&format!("{GOOD}[tuning]\nqueue_depth = 8\n")),
        "nvmfd.toml:12:15: tuning.queue_depth: 8 is out of range: 16 to 4096"
    );
    assert_eq!(
        errors(&format!("{GOOD}block_size = 520\n")),
        "nvmfd.toml:11:14: namespace.block_size: 520 is not possible\n  hint: 512 or 4096"
    );
    let said = errors(&format!("{GOOD}[tuning]\npoll = \"always\"\nspin_us = 9\n"));
    assert!(said.contains("tuning.spin_us: goes with poll = \"adaptive\" only"), "{said}");
    let said = errors(&format!("{GOOD}[tuning]\ndata_cores = 2\ncpus = [1]\n"));
    assert!(said.contains("tuning.data_cores: 2, but tuning.cpus lists 1"), "{said}");
}

#[test]
fn all_problems_are_told_at_once_in_the_order_of_the_file() {
    let text = with("10.8.0.1", "nowhere")
        .replace("nqn.2026-11.io.nvmfd:demo", "demo")
        .replace("/srv/disk.img", "disk.img");
    let said = errors(&text);
    let places: Vec<&str> = said
        .lines()
        .filter(|line| line.starts_with("nvmfd.toml"))
        .map(|line| &line[..13])
        .collect();
    assert_eq!(places, ["nvmfd.toml:3:", "nvmfd.toml:6:", "nvmfd.toml:10"]);
}

#[test]
fn an_empty_file_says_what_is_needed() {
    let said = errors("");
    assert!(said.contains("there is no [[listener]]"), "{said}");
    assert!(said.contains("there is no [[subsystem]]"), "{said}");
}

#[test]
fn addresses_are_read_in_every_usual_form() {
    let address = |text: &str| units::address(text, |name| (name == "eth0").then_some(7));
    let good = |text: &str| address(text).unwrap().to_string();
    assert_eq!(good("10.0.0.1"), "10.0.0.1:4420");
    assert_eq!(good("10.0.0.1:5000"), "10.0.0.1:5000");
    assert_eq!(good("::"), "[::]:4420");
    assert_eq!(good("[::]:5000"), "[::]:5000");
    assert_eq!(good("[fe80::1%eth0]:4420"), "[fe80::1%7]:4420");
    assert_eq!(good("fe80::1%3"), "[fe80::1%3]:4420");
    for bad in [
        "",
        "host",
        "10.0.0.1:",
        "10.0.0.1:0",
        "10.0.0.1:70000",
        "[::",
        "[::]x",
        "10.0.0.1%eth0",
        "fe80::1",
        "[fe80::1%eth9]:4420",
    ] {
        assert!(address(bad).is_err(), "{bad}");
    }
}

#[test]
fn identifiers_are_read_with_and_without_dashes() {
    assert_eq!(
        units::hex::<8>("0011-2233-4455-6677"),
        Ok([0, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77])
    );
    assert!(units::hex::<8>("00112233445566").is_err());
    assert!(units::hex::<8>("+011223344556677").is_err());
    let same = "uuid = \"6f1b2d0c-93f4-4a55-8d0e-5a7cf0de4421\"\n";
    let said = errors(&format!("{GOOD}{same}[[subsystem.namespace]]\nram = 4096\n{same}"));
    assert!(said.contains("is given to two namespaces"), "{said}");
}

#[test]
fn sizes_are_written_in_the_largest_whole_unit() {
    assert_eq!(in_words(1 << 30), "1 GiB");
    assert_eq!(in_words(1536), "1.5 KiB");
    assert_eq!(in_words(512), "512 B");
    assert_eq!([about(512), about(897_584 << 10)], ["512 B", "876.5 MiB"]);
}

fn shipped(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../config").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn the_defaults_in_the_reference_are_the_defaults() {
    let reference = shipped("nvmfd.toml");
    let is_option = |line: &str| {
        line.strip_prefix('#')
            .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_lowercase()))
    };
    let spelt_out: String = reference
        .lines()
        .map(|line| if is_option(line) { &line[1..] } else { line })
        .map(|line| format!("{line}\n"))
        .collect();
    assert_eq!(reference.lines().filter(|line| is_option(line)).count(), 25);
    assert_eq!(parsed(&spelt_out), parsed(&reference));
}

#[test]
fn the_reference_names_every_key() {
    let reference = shipped("nvmfd.toml");
    let listener = "[[listener]]\naddress = \"a\"\nfrob = 1\n";
    let referral = "[discovery]\nreferral = [{ address = \"a\", frob = 1 }]\n";
    let tables = ["log", "tuning", "control", "metrics", "discovery", "[subsystem]"];
    let tables = tables.map(|table| format!("[{table}]\nfrob = 1\n"));
    for table in tables.iter().map(String::as_str).chain(["[frob]\n", listener, referral]) {
        let message = toml::from_str::<raw::RawConfig>(table).unwrap_err().message().to_owned();
        for key in message.split('`').skip(3).step_by(2) {
            assert!(reference.contains(key), "{key} is not in the reference");
        }
    }
    let namespace = "[[subsystem]]\nnqn = \"a\"\n[[subsystem.namespace]]\nfrob = 1\n";
    let message = toml::from_str::<raw::RawConfig>(namespace).unwrap_err().message().to_owned();
    let keys: Vec<&str> = message.split('`').skip(3).step_by(2).collect();
    assert!(keys.len() >= 11, "{message}");
    for key in keys {
        assert!(reference.contains(key), "{key} is not in the reference");
    }
}

#[test]
fn the_examples_are_valid() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../config/examples");
    let list = shipped("examples/README.md");
    let mut seen = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if name.ends_with(".toml") {
            let text = shipped(&format!("examples/{name}"));
            parsed(&text);
            assert!(text.starts_with("# "), "{name} does not say what it is for");
            assert!(list.contains(&format!("[{name}]({name})")), "{name} is not in the list");
            seen += 1;
        }
    }
    assert!(seen >= 7, "{seen}");
}

#[test]
fn a_fault_drill_is_taken_as_written() {
    let drill = |inject: &str| format!("{GOOD}inject = {inject}\n");
    let config = parsed(&drill("{ delay_ms = 5, error_every = 100 }"));
    let expected = Inject { delay: Duration::from_millis(5), error_every: 100 };
    assert_eq!(config.subsystems[0].namespaces[0].inject, Some(expected));
    let said = errors(&drill("{ error_every = 4294967296 }"));
    assert!(said.starts_with("nvmfd.toml:11:"), "{said}");
    let said = errors(&drill("{ delay = 5 }"));
    assert!(said.contains("did you mean `delay_ms`?"), "{said}");
}

#[test]
fn no_group_is_listened_on_and_an_address_only_once_in_whatever_spelling() {
    for group in ["224.0.0.1:4420", "255.255.255.255", "[ff02::1]:4420"] {
        let text = errors(&with("10.8.0.1", group));
        assert!(text.contains("is the address of a group"), "{text}");
    }
    let twice = "10.8.0.1\"\n[[listener]]\naddress = \"[::ffff:10.8.0.1]:4420";
    assert!(errors(&with("10.8.0.1", twice)).contains("is listed twice"));
}

#[test]
fn a_file_that_is_no_text_is_refused_with_the_place() {
    let file = std::env::temp_dir().join(format!("nvmfd-not-utf8-{}.toml", std::process::id()));
    std::fs::write(&file, b"# one\n# tw\xff\n").unwrap();
    let text = load(&file).expect_err("must be refused").to_string();
    std::fs::remove_file(&file).unwrap();
    assert!(text.contains(".toml:2:5: is not UTF-8"), "{text}");
    let text = load(Path::new("/dev/zero")).expect_err("must be refused").to_string();
    assert!(text.contains("is longer than 16 MiB"), "{text}");
}

#[test]
fn a_pipe_is_refused_and_not_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("nvmfd.toml");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::from_bits_retain(0o600))
        .unwrap();
    let text = load(&pipe).expect_err("must be refused").to_string();
    assert!(text.contains("is a pipe") && text.contains("name a file"), "{text}");
}

#[test]
fn a_disk_holds_a_block_and_a_ram_disk_what_can_be_reserved() {
    let path = "path = \"/srv/disk.img\"";
    for (disk, wrong) in [
        ("ram = 511", "511 B is out of range: 512 B to 16 TiB"),
        ("ram = \"17TiB\"", "17 TiB is out of range"),
        ("null = 4095\nblock_size = 4096", "4.0 KiB is out of range: 4 KiB to 4194304 TiB"),
        ("path = \"/srv/disk.img\"\nsize = 100", "namespace.size: 100 B is out of range"),
    ] {
        let text = errors(&with(path, disk));
        assert!(text.contains(wrong), "{text}");
    }
    parsed(&with(path, "ram = 512"));
    parsed(&with(path, "null = \"4194304TiB\""));
}

#[test]
fn a_log_level_that_is_none_is_refused_since_it_would_silence_the_log() {
    for level in ["loud", "", "info,", "=debug", "info,reactor", "info,reactor=loud"] {
        let text = errors(&format!("{GOOD}[log]\nlevel = \"{level}\"\n"));
        assert!(text.contains(":12:9: log.level: "), "{level}: {text}");
    }
    for level in ["off", "WARN", "info,reactor=debug", "reactor::core=trace"] {
        parsed(&format!("{GOOD}[log]\nlevel = \"{level}\"\n"));
    }
}

#[test]
fn a_disk_is_of_whole_blocks() {
    let of = |disk: &str| errors(&with("path = \"/srv/disk.img\"", disk));
    assert_eq!(
        of("null = 1000"),
        "nvmfd.toml:10:8: namespace.null: 1000 bytes are not whole blocks of 512\n  \
         hint: take 512 or 1024"
    );
    assert!(of("ram = 4608\nblock_size = 4096").contains("whole blocks of 4096"));
    let said = of("path = \"/srv/disk.img\"\nsize = 700");
    assert!(said.contains("namespace.size: 700 bytes are not whole blocks of 512"), "{said}");
}

#[test]
fn an_empty_path_is_said_to_be_empty() {
    let said = errors(&with("/srv/disk.img", ""));
    assert!(said.contains("10:8: namespace.path: is empty"), "{said}");
}

#[test]
fn disks_know_their_lines() {
    let text = format!("{GOOD}[[subsystem.namespace]]\nram = 512\n");
    let lines: Vec<usize> = parsed(&text).subsystems[0].namespaces.iter().map(|d| d.line).collect();
    assert_eq!(lines, [9, 11]);
}

#[test]
fn io_queues_of_a_host_go_by_the_data_cores_unless_given() {
    let most = |tuning: &str| parsed(&format!("{GOOD}[tuning]\n{tuning}\n")).tuning.max_io_queues;
    assert_eq!(most("data_cores = 1"), 4);
    assert_eq!(most("data_cores = 64"), 256);
    assert_eq!(most("data_cores = 2\nmax_io_queues = 64"), 64);
}

#[test]
fn a_subsystem_says_how_hosts_belong_to_it() {
    let with =
        |more: &str| with("allow_any_host = true", &format!("allow_any_host = true\n{more}"));
    let plain = &parsed(GOOD).subsystems[0];
    assert_eq!((plain.duplicates, plain.cntlids.clone()), (DuplicateHosts::Allow, 1..=65519));
    let text = with("duplicate_hosts = \"one_per_listener\"\ncntlids = [100, 200]");
    let set = &parsed(&text).subsystems[0];
    assert_eq!((set.duplicates, set.cntlids.clone()), (DuplicateHosts::OnePerPort, 100..=200));
    let refuse = parsed(&with("duplicate_hosts = \"refuse\""));
    assert_eq!(refuse.subsystems[0].duplicates, DuplicateHosts::Refuse);
    for range in ["[0, 5]", "[7, 6]", "[1, 65520]"] {
        let said = errors(&with(&format!("cntlids = {range}")));
        assert!(said.contains("is no range within 1 to 65519"), "{said}");
    }
}

#[test]
fn discovery_has_a_name_a_view_and_referrals() {
    use nvmf::target::{DiscoveryConfig, Referral, TellPorts};
    let discovery = |table: &str| format!("{GOOD}[discovery]\n{table}\n");
    assert_eq!(parsed(GOOD).discovery, DiscoveryConfig::default());
    let text = discovery(
        "nqn = \"nqn.2026-11.io.nvmfd:own\"\nlisteners = \"all\"\n\
         referral = [{ address = \"10.8.0.2\" }, \
         { address = \"[fd00::2]:8009\", nqn = \"nqn.2026-11.io.nvmfd:other\" }]",
    );
    let expected = DiscoveryConfig {
        nqn: Some("nqn.2026-11.io.nvmfd:own".to_owned()),
        tell: TellPorts::All,
        referrals: vec![
            Referral { address: "10.8.0.2:4420".parse().unwrap(), nqn: None },
            Referral {
                address: "[fd00::2]:8009".parse().unwrap(),
                nqn: Some("nqn.2026-11.io.nvmfd:other".to_owned()),
            },
        ],
    };
    assert_eq!(parsed(&text).discovery, expected);
    for (table, wrong) in [
        ("nqn = \"nqn.2026-11.io.nvmfd:demo\"", "is a subsystem's name"),
        ("nqn = \"own\"", "discovery.nqn: \"own\" is not an NQN"),
        ("referral = [{ address = \"0.0.0.0\" }]", "is no address that a host can connect to"),
        ("referral = [{ address = \"a\" }]", "discovery.referral.address: \"a\" is not an IP"),
        (
            "referral = [{ address = \"10.0.0.1\" }, { address = \"10.0.0.1:4420\" }]",
            "is listed twice",
        ),
        ("listeners = \"some\"", "discovery.listeners: \"some\" is not possible"),
    ] {
        let said = errors(&discovery(table));
        assert!(said.contains(wrong), "{said}");
    }
}

#[test]
fn a_name_with_a_blank_is_refused() {
    for name in ["nqn.2026-11.io.nvmfd:a disk", "nqn.2026-11.io.nvmfd:disk "] {
        let said = errors(&with("nqn.2026-11.io.nvmfd:demo", name));
        assert!(said.contains("of the name is a blank"), "{said}");
    }
}

#[test]
fn where_operators_and_monitoring_come_in_is_checked() {
    let config = parsed(GOOD);
    assert_eq!((config.control.enabled, config.control.mode, config.metrics), (true, 0o600, None));
    let text = "[control]\nsocket = \"/run/a.sock\"\nmode = \"0660\"\nusers = [\"root\", \"77\"]\n\
                [metrics]\naddress = \"127.0.0.1:9420\"\n";
    let config = parsed(&format!("{GOOD}{text}"));
    assert_eq!(config.control.path.as_deref(), Some(Path::new("/run/a.sock")));
    assert_eq!((config.control.mode, &config.control.users[..]), (0o660, &[0, 77][..]));
    assert_eq!(config.metrics, Some("127.0.0.1:9420".parse().unwrap()));
    assert!(!parsed(&format!("{GOOD}[control]\nsocket = \"none\"\n")).control.enabled);
    for (given, said) in [
        ("[control]\nsocket = \"a.sock\"", "control.socket: \"a.sock\" is relative"),
        ("[control]\nmode = \"rw\"", "control.mode: \"rw\" is not a file mode"),
        ("[control]\nusers = [\"no such user\"]", "there is no user \"no such user\""),
        ("[metrics]\naddress = \"127.0.0.1\"", "metrics.address: \"127.0.0.1\" has no port"),
        ("[metrics]\naddress = \"x\"", "metrics.address: \"x\" is not an IP address"),
    ] {
        let text = errors(&format!("{GOOD}{given}\n"));
        assert!(text.starts_with("nvmfd.toml:12:") && text.contains(said), "{text}");
    }
}

/// A configuration whose only disk has that limit.
fn limited(limit: &str) -> String {
    format!(
        "[[listener]]\naddress = \"10.8.0.1\"\n[[subsystem]]\nnqn = \"nqn.2026-11.io.nvmfd:a\"\n\
         allow_any_host = true\n[[subsystem.namespace]]\nram = \"1MiB\"\nlimit = {limit}\n"
    )
}

#[test]
fn limits_are_commands_and_bytes_a_second_with_a_burst() {
    let rates = |limit: &str| {
        let config = parsed(&limited(limit));
        let limit = config.limits.namespaces[&("nqn.2026-11.io.nvmfd:a".to_owned(), 1)];
        (limit.iops, limit.bandwidth, limit.burst.as_millis())
    };
    assert_eq!(rates("{ iops = 5000 }"), (5000, 0, 100));
    assert_eq!(rates("{ bandwidth = \"100MB/s\", burst_ms = 5 }"), (0, 100_000_000, 5));
    assert_eq!(rates("{ iops = 1, bandwidth = \"2 GiB/s\" }"), (1, 2 << 30, 100));
    assert_eq!(rates("{ bandwidth = 4096, burst_ms = 0 }"), (0, 4096, 0));
}

#[test]
fn a_limit_that_limits_nothing_or_everything_is_refused() {
    for (limit, what) in [
        ("{ burst_ms = 5 }", "namespace.limit: limits nothing"),
        ("{ iops = 0 }", "namespace.limit.iops: 0 would serve nothing"),
        ("{ bandwidth = \"0MB/s\" }", "namespace.limit.bandwidth: 0 would serve nothing"),
        ("{ bandwidth = \"fast\" }", "namespace.limit.bandwidth: "),
        ("{ bandwidth = \"1.5GB/s\" }", "namespace.limit.bandwidth: \"1.5\" is not a whole number"),
        ("{ bandwidth = \"99999999999999GB/s\" }", "more than this machine can count"),
        (
            "{ iops = 1, burst_ms = 60001 }",
            "namespace.limit.burst_ms: 60001 is out of range: 0 to 60000",
        ),
        ("{ iops = 1, burst = 1 }", "unknown field `burst`"),
    ] {
        let said = errors(&limited(limit));
        assert!(said.contains(what), "{limit}: {said}");
    }
}

#[test]
fn hosts_have_limits_by_their_names() {
    let host = "[[host]]\nnqn = \"nqn.2014-08.org.example:h\"\nlimit = { iops = 7 }\n";
    let config = parsed(&format!("{GOOD}{host}"));
    assert_eq!(config.limits.hosts["nqn.2014-08.org.example:h"].iops, 7);
    let said = errors(&format!("{GOOD}{host}{host}"));
    assert!(said.contains("host.nqn: \"nqn.2014-08.org.example:h\" is listed twice"), "{said}");
    let said = errors(&format!("{GOOD}{}", host.replace("nqn.2014-08.org.example:h", "h")));
    assert!(said.contains("host.nqn: \"h\" is not an NQN"), "{said}");
}

#[test]
fn what_is_listed_twice_is_named_with_its_place() {
    let twice = "allowed_hosts = [\"nqn.2014-08.org.example:a\", \"nqn.2014-08.org.example:a\"]";
    assert_eq!(
        errors(&with("allow_any_host = true", twice)),
        "nvmfd.toml:7:47: subsystem.allowed_hosts: \"nqn.2014-08.org.example:a\" is listed twice"
    );
    let said = errors(&format!("{GOOD}[control]\nusers = [\"0\", \"root\"]\n"));
    assert_eq!(said, "nvmfd.toml:12:15: control.users: root is listed twice");
}

#[test]
fn a_path_with_a_byte_of_zero_is_named_with_its_place() {
    let said = errors(&with("/srv/disk.img", "/srv/\\u0000disk"));
    assert!(said.starts_with("nvmfd.toml:10:8: namespace.path: has a byte of zero"), "{said}");
    let said = errors(&format!("{GOOD}[control]\nsocket = \"/run/\\u0000a\"\n"));
    assert!(said.starts_with("nvmfd.toml:12:10: control.socket: has a byte of zero"), "{said}");
}

#[test]
fn a_size_that_is_no_whole_number_says_how_to_write_it() {
    for size in ["1.5MiB", "0,5GiB"] {
        let said = errors(&with("path = \"/srv/disk.img\"", &format!("ram = \"{size}\"")));
        let start = format!("nvmfd.toml:10:7: namespace.ram: \"{size}\" is no whole number: ");
        assert!(said.starts_with(&start) && said.contains("1536KiB"), "{said}");
    }
}

#[test]
fn a_value_is_found_by_its_table_and_key() {
    let text = format!("{GOOD}[tuning]\ncpus = [0, 99]\n");
    assert_eq!(place_of(&text, "tuning", "cpus"), Some((12, 8)));
    assert_eq!(place_of(&text, "tuning", "memory"), None);
}
