//! `sbom`: what the programs are made of, as CycloneDX 1.5.
//!
//! From cargo's own metadata: every crate that is linked into nvmfd or nvmf-host on Linux, with its
//! license, its checksum in the registry and what it depends on. What only builds or tests is left out.
//! The same sources give the same text.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use linux_host::run_quiet;
use serde_json::{Value, json};

use crate::build;

/// The programs that are shipped.
const PROGRAMS: [&str; 2] = ["nvmfd", "nvmf-host"];

#[derive(Args)]
pub(crate) struct SbomArgs {
    /// Where to write it; else on standard output.
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// `cargo xtask sbom`
pub(crate) fn run(args: &SbomArgs) -> Result<bool> {
    let text = text()?;
    match &args.output {
        Some(path) => {
            fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?
        }
        None => print!("{text}"),
    }
    Ok(true)
}

/// The document.
pub(crate) fn text() -> Result<String> {
    let metadata = run_quiet(build::cargo()?.args([
        "metadata",
        "--format-version=1",
        "--locked",
        "--filter-platform=x86_64-unknown-linux-gnu",
    ]))?;
    let lock = fs::read_to_string(build::root()?.join("Cargo.lock"))?;
    let document = document(&serde_json::from_str(&metadata)?, &checksums(&lock))?;
    Ok(format!("{}\n", serde_json::to_string_pretty(&document)?))
}

fn document(metadata: &Value, checksums: &BTreeMap<(String, String), String>) -> Result<Value> {
    let packages = by_id(&metadata["packages"])?;
    let nodes = by_id(&metadata["resolve"]["nodes"])?;
    let linked = linked(&packages, &nodes);
    let mut components = Vec::new();
    let mut dependencies = Vec::new();
    for id in &linked {
        let package = packages.get(id).with_context(|| format!("cargo does not know {id}"))?;
        components.push(component(package, checksums));
        let below: BTreeSet<String> = needs(nodes.get(id).copied())
            .filter_map(|id| packages.get(id).map(|package| purl(package)))
            .collect();
        dependencies.push(json!({ "ref": purl(package), "dependsOn": below }));
    }
    let version = env!("CARGO_PKG_VERSION");
    Ok(json!({
        "$schema": "http://cyclonedx.org/schema/bom-1.5.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": format!("nvmfd-package-{version}"),
                "name": "nvmfd",
                "version": version,
                "licenses": [{ "expression": "MIT OR Apache-2.0" }],
            },
        },
        "components": components,
        "dependencies": dependencies,
    }))
}

fn by_id(list: &Value) -> Result<BTreeMap<&str, &Value>> {
    let list = list.as_array().context("cargo's metadata has no such list")?;
    list.iter().map(|item| Ok((item["id"].as_str().context("a package's id")?, item))).collect()
}

/// Ids of the packages that are linked into the programs, by rising id.
fn linked<'a>(
    packages: &BTreeMap<&'a str, &'a Value>,
    nodes: &BTreeMap<&'a str, &'a Value>,
) -> BTreeSet<&'a str> {
    let programs = packages.iter().filter(|(_, package)| {
        package["source"].is_null() && PROGRAMS.iter().any(|name| package["name"] == *name)
    });
    let mut todo: Vec<&str> = programs.map(|(id, _)| *id).collect();
    let mut linked = BTreeSet::new();
    while let Some(id) = todo.pop() {
        if linked.insert(id) {
            todo.extend(needs(nodes.get(id).copied()));
        }
    }
    linked
}

/// Ids of what a package needs when it runs: neither to be built nor to be tested.
fn needs(node: Option<&Value>) -> impl Iterator<Item = &str> {
    let all = node.and_then(|node| node["deps"].as_array()).map_or(&[][..], Vec::as_slice);
    all.iter().filter_map(|dep| {
        let mut kinds = dep["dep_kinds"].as_array()?.iter();
        kinds.any(|kind| kind["kind"].is_null()).then(|| dep["pkg"].as_str())?
    })
}

fn component(package: &Value, checksums: &BTreeMap<(String, String), String>) -> Value {
    let [name, version] =
        ["name", "version"].map(|key| package[key].as_str().unwrap_or_default().to_owned());
    let is_program = PROGRAMS.contains(&name.as_str());
    let mut component = json!({
        "type": if is_program { "application" } else { "library" },
        "bom-ref": purl(package),
        "name": name,
        "version": version,
        "purl": purl(package),
    });
    if let Some(license) = package["license"].as_str() {
        // How crates wrote a choice before there were expressions.
        component["licenses"] = json!([{ "expression": license.replace('/', " OR ") }]);
    }
    if let Some(checksum) = checksums.get(&(name, version)) {
        component["hashes"] = json!([{ "alg": "SHA-256", "content": checksum }]);
    }
    component
}

/// The name by which tools know a package.
fn purl(package: &Value) -> String {
    let [name, version] = ["name", "version"].map(|key| package[key].as_str().unwrap_or_default());
    format!("pkg:cargo/{name}@{}", version.replace('+', "%2B"))
}

/// Checksums of the registry's packages, by name and version.
fn checksums(lock: &str) -> BTreeMap<(String, String), String> {
    let mut found = BTreeMap::new();
    for package in lock.split("[[package]]").skip(1) {
        let value = |key: &str| {
            let mut lines = package.lines();
            lines.find_map(|line| Some(line.strip_prefix(key)?.trim().trim_matches('"').to_owned()))
        };
        let all = (value("name ="), value("version ="), value("checksum ="));
        if let (Some(name), Some(version), Some(checksum)) = all {
            found.insert((name, version), checksum);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_linked_is_listed_and_what_only_builds_or_tests_is_not() {
        let dep = |name: &str, kind: Value| json!({ "pkg": name, "dep_kinds": [{ "kind": kind }] });
        let package = |name: &str, source: Value| {
            json!({ "id": name, "name": name, "version": "1.0.0+a", "source": source,
                    "license": "MIT/Apache-2.0" })
        };
        let metadata = json!({
            "packages": [
                package("nvmfd", Value::Null),
                package("linked", json!("registry")),
                package("deeper", json!("registry")),
                package("builds", json!("registry")),
                package("tests", json!("registry")),
            ],
            "resolve": { "nodes": [
                { "id": "nvmfd", "deps": [
                    dep("linked", Value::Null), dep("builds", json!("build")), dep("tests", json!("dev")),
                ] },
                { "id": "linked", "deps": [dep("deeper", Value::Null)] },
                { "id": "deeper", "deps": [] },
            ] },
        });
        let lock = "[[package]]\nname = \"deeper\"\nversion = \"1.0.0+a\"\nchecksum = \"abc\"\n";
        let document = document(&metadata, &checksums(lock)).unwrap();
        let names: Vec<&Value> =
            document["components"].as_array().unwrap().iter().map(|c| &c["name"]).collect();
        assert_eq!(names, ["deeper", "linked", "nvmfd"]);
        let deeper = &document["components"][0];
        assert_eq!(deeper["purl"], "pkg:cargo/deeper@1.0.0%2Ba");
        assert_eq!(deeper["licenses"][0]["expression"], "MIT OR Apache-2.0");
        assert_eq!(deeper["hashes"][0]["content"], "abc");
        assert_eq!(document["dependencies"][1]["dependsOn"], json!(["pkg:cargo/deeper@1.0.0%2Ba"]));
    }
}
