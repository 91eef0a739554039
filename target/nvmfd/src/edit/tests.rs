use super::*;
use serde_json::json;

const TEXT: &str = "\
# The lab's disks.
[[listener]]
address = \"10.8.0.1\"  # the fast one

[[subsystem]]
nqn = \"nqn.2026-11.io.nvmfd:a\"
allowed_hosts = [\"nqn.2014-08.org.example:h1\"] # only this one

# Scratch.
[[subsystem.namespace]]
ram = \"1MiB\" # small
[[subsystem.namespace]]
ram = \"2MiB\"

[[subsystem]]
nqn = \"nqn.2026-11.io.nvmfd:b\"
allow_any_host = true
namespace = [{ ram = \"3MiB\" }]
";

const A: &str = "nqn.2026-11.io.nvmfd:a";
const B: &str = "nqn.2026-11.io.nvmfd:b";

fn fields(json: Json) -> Fields {
    json.as_object().unwrap().clone()
}

fn edited(edit: Edit) -> String {
    edit.apply(TEXT).unwrap()
}

fn refused(edit: Edit) -> String {
    edit.apply(TEXT).unwrap_err().to_string()
}

#[test]
fn a_value_is_replaced_and_the_comment_behind_it_stays() {
    let to = fields(json!({ "ram": "4MiB" }));
    let text = edited(Edit::SetNamespace(A.into(), 1, to));
    assert!(
        text.contains("# Scratch.\n[[subsystem.namespace]]\nram = \"4MiB\" # small\n"),
        "{text}"
    );
    assert!(text.contains("# only this one"), "{text}");
    assert!(text.contains("# the fast one"), "{text}");
}

#[test]
fn the_others_keep_their_numbers_when_a_namespace_goes() {
    let text = edited(Edit::RemoveNamespace(A.into(), 1));
    assert!(text.contains("ram = \"2MiB\"\nnsid = 2\n"), "{text}");
    assert!(!text.contains("1MiB"), "{text}");
}

#[test]
fn tables_are_added_in_the_way_of_their_neighbours() {
    let disk = fields(json!({ "null": "1GiB", "read_only": true }));
    let text = edited(Edit::AddNamespace(A.into(), disk.clone()));
    let own = "ram = \"2MiB\"\n\n[[subsystem.namespace]]\nnull = \"1GiB\"\nread_only = true\n";
    assert!(text.contains(own), "{text}");
    let text = edited(Edit::AddNamespace(B.into(), disk));
    let line = "namespace = [{ ram = \"3MiB\" }, { null = \"1GiB\", read_only = true }]";
    assert!(text.contains(line), "{text}");
}

#[test]
fn a_subsystem_comes_with_its_disks_and_goes_with_them() {
    let new = json!({ "nqn": "nqn.2026-11.io.nvmfd:c", "allow_any_host": true,
        "namespace": [{ "ram": "1MiB" }] });
    let text = edited(Edit::AddSubsystem(fields(new)));
    assert!(
        text.ends_with(
            "[[subsystem]]\nnqn = \"nqn.2026-11.io.nvmfd:c\"\nallow_any_host = true\n\n\
         [[subsystem.namespace]]\nram = \"1MiB\"\n"
        ),
        "{text}"
    );
    let text = edited(Edit::RemoveSubsystem(A.into()));
    assert!(!text.contains("io.nvmfd:a") && !text.contains("2MiB"), "{text}");
    assert!(text.contains("io.nvmfd:b"), "{text}");
}

#[test]
fn hosts_come_and_go() {
    let (old, new) = ("nqn.2014-08.org.example:h1", "nqn.2014-08.org.example:h2");
    let text = edited(Edit::AllowHost(A.into(), new.into()));
    assert!(text.contains(&format!("allowed_hosts = [\"{old}\", \"{new}\"] # only")), "{text}");
    let text = edited(Edit::DenyHost(A.into(), old.into()));
    assert!(text.contains("allowed_hosts = [] # only this one"), "{text}");
    assert!(refused(Edit::AllowHost(A.into(), old.into())).contains("already"));
    assert!(refused(Edit::DenyHost(A.into(), new.into())).contains("there is no host"));
    assert!(refused(Edit::AllowHost(B.into(), new.into())).contains("any host may use"));
}

#[test]
fn choosing_some_hosts_or_any_takes_the_other_choice_out() {
    let some = fields(json!({ "allowed_hosts": ["nqn.2014-08.org.example:h1"] }));
    let text = edited(Edit::SetSubsystem(B.into(), some));
    assert!(!text.contains("allow_any_host"), "{text}");
    let any = fields(json!({ "allow_any_host": true }));
    let text = edited(Edit::SetSubsystem(A.into(), any));
    assert!(!text.contains("allowed_hosts"), "{text}");
    // The advice is what works.
    let none = fields(json!({ "allow_any_host": false }));
    let said = refused(Edit::SetSubsystem(B.into(), none));
    assert!(said.contains("set subsystem nqn.2026-11.io.nvmfd:b 'allowed_hosts=["), "{said}");
    let said = refused(Edit::AllowHost(B.into(), "nqn.2014-08.org.example:h1".into()));
    assert!(said.contains("'allowed_hosts=[\"nqn.2014-08.org.example:h1\"]'"), "{said}");
}

#[test]
fn numbers_are_written_down_only_where_they_would_move() {
    let larger = fields(json!({ "ram": "4MiB", "read_only": true }));
    let text = edited(Edit::SetNamespace(B.into(), 1, larger.clone()));
    assert!(text.contains("namespace = [{ ram = \"4MiB\", read_only = true }]\n"), "{text}");
    let text = edited(Edit::SetNamespace(A.into(), 2, larger));
    assert!(!text.contains("nsid"), "{text}");
    // The first would be the second one's number.
    let text = edited(Edit::SetNamespace(A.into(), 1, fields(json!({ "nsid": 7 }))));
    assert_eq!(text.matches("nsid = ").count(), 2, "{text}");
    assert!(text.contains("ram = \"2MiB\"\nnsid = 2\n"), "{text}");
    // A number that an unnumbered one has is not taken from it.
    let text = edited(Edit::AddNamespace(B.into(), fields(json!({ "null": "1GiB", "nsid": 1 }))));
    assert!(text.contains("{ ram = \"3MiB\", nsid = 1 }"), "{text}");
    let text = edited(Edit::RemoveNamespace(A.into(), 2));
    assert!(!text.contains("nsid"), "{text}");
}

#[test]
fn what_is_added_to_a_list_of_lines_has_a_line_of_its_own() {
    let text = "[[subsystem]]\nnqn = \"nqn.2026-11.io.nvmfd:a\"\nallowed_hosts = [\n  \"nqn.h1\", # one\n  \"nqn.h2\",\n]\n\
        namespace = [\n  { ram = \"1MiB\" },\n]\n";
    let text = Edit::AllowHost(A.into(), "nqn.h3".into()).apply(text).unwrap();
    assert!(text.contains("\n  \"nqn.h2\",\n  \"nqn.h3\",\n]"), "{text}");
    let disk = fields(json!({ "ram": "2MiB" }));
    let text = Edit::AddNamespace(A.into(), disk).apply(&text).unwrap();
    assert!(text.contains("\n  { ram = \"1MiB\" },\n  { ram = \"2MiB\" },\n]"), "{text}");
}

#[test]
fn a_listener_is_known_by_its_address_with_or_without_the_port() {
    for address in ["10.8.0.1", "10.8.0.1:4420"] {
        let text = edited(Edit::RemoveListener(address.into()));
        assert!(!text.contains("[[listener]]"), "{text}");
    }
    let said = refused(Edit::RemoveListener("10.8.0.1:4421".into()));
    assert_eq!(said, "there is no listener 10.8.0.1:4421");
}

#[test]
fn settings_are_set_and_taken_out() {
    let text = edited(Edit::Set("tuning", fields(json!({ "max_queues": 64, "poll": null }))));
    assert!(text.ends_with("[tuning]\nmax_queues = 64\n"), "{text}");
}

#[test]
fn what_is_not_there_is_named() {
    let other = "nqn.2026-11.io.nvmfd:x";
    assert_eq!(
        refused(Edit::RemoveSubsystem(other.into())),
        format!("there is no subsystem {other}")
    );
    let said = refused(Edit::RemoveNamespace(A.into(), 9));
    assert_eq!(said, format!("there is no namespace 9 of {A}"));
    let half = fields(json!({ "nsid": 1.5 }));
    assert_eq!(
        refused(Edit::AddNamespace(A.into(), half)),
        "nsid: must be a whole number below 2^63"
    );
}
