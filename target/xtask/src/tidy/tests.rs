//! Each rule catches what it should and lets pass what it should.

use std::fs;

use super::{UNFINISHED, check, imports, text_rules};

fn metadata(importer: &str, imported: &str, kind: &str) -> String {
    format!(
        r#"{{"packages": [
            {{"name": "{importer}", "dependencies": [{{"name": "{imported}", "kind": {kind}}}]}},
            {{"name": "{imported}", "dependencies": []}}
        ]}}"#
    )
}

fn whats(offences: Vec<super::Offence>) -> Vec<String> {
    offences.into_iter().map(|o| o.what).collect()
}

#[test]
fn the_protocol_may_not_import_a_provider() {
    let found = imports(&metadata("nvmf", "rdma", "null")).unwrap();
    assert_eq!(whats(found), ["imports rdma"]);
    assert_eq!(imports(&metadata("reactor", "rdma", "null")).unwrap(), []);
}

#[test]
fn tests_may_import_what_they_like() {
    assert_eq!(imports(&metadata("nvmf", "rdma", "\"dev\"")).unwrap(), []);
}

#[test]
fn a_new_crate_needs_a_rule() {
    let found = imports(&metadata("nvmf", "brand-new", "null")).unwrap();
    assert_eq!(whats(found), ["imports brand-new", "a crate with no import rule"]);
}

#[test]
fn unsafe_code_is_allowed_in_three_crates_only() {
    let code = format!("    {} {{ f() }}\n", concat!("un", "safe"));
    assert_eq!(text_rules("target/region/src/lib.rs", &code), []);
    assert_eq!(text_rules("target/nvmf/src/lib.rs", &code).len(), 1);
    let comment = format!("// {} {{ f() }}\n", concat!("un", "safe"));
    assert_eq!(text_rules("target/nvmf/src/lib.rs", &comment), []);
    let lint = "#![deny(unsafe_op_in_unsafe_fn)]\n";
    assert_eq!(text_rules("target/nvmf/src/lib.rs", lint), []);
}

#[test]
fn unfinished_work_is_found() {
    for word in UNFINISHED {
        let found = text_rules("target/nvmf/src/lib.rs", &format!("    {word}\n"));
        assert_eq!(whats(found), [word]);
    }
}

#[test]
fn long_files_are_found() {
    let long = "\n".repeat(1001);
    assert_eq!(whats(text_rules("a.rs", &long)), ["1001 lines"]);
    assert_eq!(text_rules("a.rs", &"\n".repeat(1000)), []);
    assert_eq!(text_rules("a.md", &long), []);
}

#[test]
fn cargo_output_among_the_sources_and_a_package_at_the_root_are_found() {
    let root = tempfile::tempdir().unwrap();
    fs::create_dir_all(root.path().join("target/debug")).unwrap();
    fs::write(root.path().join("Cargo.toml"), "[package]\n").unwrap();
    let found = whats(check(root.path(), r#"{"packages": []}"#).unwrap());
    assert_eq!(found, ["cargo built into the source folder", "the root manifest holds a package"]);
}
